"""Models whose variational bound is compared with the evidence, or followed step by step."""

import itertools

import numpy as np
import pandas as pd
from scipy.special import betaln, logsumexp, roots_jacobi

import nrmmix as nm
from nrmmix.inference.variational_regression.climb import Climb
from nrmmix.inference.variational_regression.memory import BinnedRows, Memory
from nrmmix.inference.variational_regression.run import binned_of
from nrmmix.inference.variational_regression.start import cut
from nrmmix.posterior.kernel_factors import KernelFactors

SLACK = 1e-9  # relative, of a step


def parts(model):
    binned = binned_of(model)
    rows = BinnedRows(model.statistics(model.exponential()), binned.bins(model.frame.covariates, model.grid.group))
    return binned, rows


def toy(q, mass, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4, q))
    data = pd.DataFrame(x, columns=[f"x{j}" for j in range(q)]).assign(y=np.where(x[:, 0] > 0, 1.5, -1.0) + 0.3 * rng.standard_normal(4))
    kernel = nm.SparseProduct(slots=2, places=2, widths=(0.4,), inclusion=nm.Beta(1, 1.5))
    return nm.Model(f"y ~ {' + '.join(data.columns[:-1])}", data, prior=nm.FiniteMixture(2, mass), kernel=kernel)


def masses(mass):
    """Nodes and weights."""
    if isinstance(mass, float):
        return [mass], [1.0]
    p = (np.arange(400) + 0.5) / 400
    return mass.distribution.ppf(p), np.full(400, 1 / 400)


def log_evidence(model, binned, rows, exponential):
    """log p(y, log shrinkage, log noise scale)"""
    n, q, C = rows.n, rows.bins.shape[1], binned.counts
    T = rows.statistics.whole().dense.T
    labels = np.array(list(itertools.product(range(2), repeat=n)))
    z = np.stack([labels == m for m in range(2)], axis=-1).astype(float)
    of_data = sum(exponential.log_z(z[:, :, m].sum(axis=1), z[:, :, m] @ T) for m in range(2)) + rows.statistics.log_h.sum()
    a, b = model.kernel.inclusion.a, model.kernel.inclusion.b
    total = []
    for alpha, share in zip(*masses(model.prior.mass), strict=True):
        nodes, weight = roots_jacobi(60, alpha / 2 - 1, alpha / 2 - 1)
        p, weight = np.stack([(1 + nodes) / 2, (1 - nodes) / 2]), weight / weight.sum()
        for codes in itertools.product(*[range(C[j]) for _ in range(2) for j in range(q)]):
            codes = np.reshape(codes, (2, q))
            used = (codes > 0).sum(axis=0)
            prior = (betaln(a + used, b + 2 - used) - betaln(a, b) - used * np.log(C - 1)).sum()
            K = np.exp(sum(binned.log_k[j][rows.bins[:, j]][:, codes[:, j]] for j in range(q)))  # (n, 2)
            chance = p[:, None, :] * K.T[:, :, None]
            chance /= chance.sum(axis=0)
            of_labels = np.prod(np.where(labels.T[:, :, None] == 0, chance[0][:, None], chance[1][:, None]), axis=0) @ weight
            total.append(np.log(share) + prior + logsumexp(of_data + np.log(of_labels)))
    return logsumexp(total) + exponential.log_prior


def random_start(model, binned, rows, rng):
    exponential, codes = rows.statistics.exponential, np.stack([rng.integers(c, size=2) for c in binned.counts], axis=1)
    z = np.eye(2)[rng.integers(2, size=rows.n)]
    return KernelFactors(binned, exponential, model.prior.mass, z.sum(axis=0), z.T @ rows.statistics.whole().dense.T, np.ones(2), codes)


def simulated(n=300, seed=3):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"x": rng.uniform(-2, 2, n), "t": rng.standard_normal(n), "g": rng.choice(list("abc"), n)})
    data["y"] = np.sin(2 * data["x"]) + np.where(data["g"] == "a", 1.5, 0) + np.where(data["x"] > 0, 0.4, 0.1) * rng.standard_normal(n)
    return data.assign(y2=data["t"] + 0.2 * rng.standard_normal(n), count=rng.poisson(np.exp(data["x"])), level=rng.choice(list("uvw"), n))


MODELS = {
    "products": lambda data: nm.Model("y ~ x + t + g", data),
    "two responses": lambda data: nm.Model("y + y2 ~ x + t", data),
    "locations": lambda data: nm.Model("y ~ x", data, prior=nm.FiniteMixture(12)),
    "counts": lambda data: nm.Model("count ~ x + g", data, family=nm.Poisson()),
    "blocks": lambda data: nm.Model("y + level ~ x + t", data, family={"y": nm.Gaussian(), "level": nm.Categorical()}),
    "hurdle": lambda data: nm.Model("y ~ x + t", data.assign(y=data["y"].clip(lower=0)), family=nm.Hurdle(nm.Regression("1 + x"))),
    "fixed chance": lambda data: nm.Model("y ~ x + t", data, kernel=nm.SparseProduct(inclusion=0.3), prior=nm.DirichletProcess(2.0)),
}


def begun(model, batches=1, components=12, seed=1):
    """A climb from codes that have nothing to do with the rows, all rows visited."""
    binned, rows = parts(model)
    rng = np.random.default_rng(seed)
    start = cut(binned, rows.statistics.exponential, model.prior.mass, rows, components, rng, 0.5)
    codes = np.stack([rng.integers(c, size=components) for c in binned.counts], axis=1)
    begun = KernelFactors(binned, start.exponential, start.mass, start.N, start.s, start.A, codes)
    climb = Climb(Memory(rows, batches), begun, rng, search=False)
    climb.begin()
    return climb
