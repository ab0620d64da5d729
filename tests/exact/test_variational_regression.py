"""Variational inference of the kernel model: bounds that never fall, stay below the evidence, and are the same by batches.

The evidence of four rows is by enumeration of codes and labels, quadrature over the weights of two components, and where it is sampled over
the mass.  Shrinkage and noise scale are point estimates: the bound is then one of the density of the data at these, times their prior.
"""

import itertools
from copy import copy

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp, roots_jacobi

import nrmmix as nm
from nrmmix.inference.variational_regression.climb import Climb
from nrmmix.inference.variational_regression.memory import BinnedRows, LocalStep, Memory, added
from nrmmix.inference.variational_regression.run import binned_of
from nrmmix.inference.variational_regression.start import cut
from nrmmix.model.priors.gamma_weights import GammaWeights
from nrmmix.posterior.kernel_factors import KernelFactors

SLACK = 1e-9  # relative, of a step
STARTS = 25


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


def log_evidence(model, binned, rows, side):
    """log p(y, log shrinkage, log noise scale)"""
    n, q, C = rows.n, rows.bins.shape[1], binned.counts
    T = rows.statistics.whole().dense.T
    labels = np.array(list(itertools.product(range(2), repeat=n)))
    z = np.stack([labels == m for m in range(2)], axis=-1).astype(float)
    of_data = sum(side.log_z(z[:, :, m].sum(axis=1), z[:, :, m] @ T) for m in range(2)) + rows.statistics.log_h.sum()
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
    return logsumexp(total) + side.log_prior


def random_start(model, binned, rows, rng):
    side, codes = rows.statistics.side, np.stack([rng.integers(c, size=2) for c in binned.counts], axis=1)
    z = np.eye(2)[rng.integers(2, size=rows.n)]
    return KernelFactors(binned, side, model.prior.mass, z.sum(axis=0), z.T @ rows.statistics.whole().dense.T, np.ones(2), codes)


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("mass", [1.0, nm.Gamma(2, 1)], ids=["fixed", "sampled"])
def test_bound_is_below_the_evidence(q, mass):
    model = toy(q, mass)
    binned, rows = parts(model)
    gaps = []
    for seed in range(STARTS):
        rng, seen = np.random.default_rng(seed), []
        made = Climb(Memory(rows), random_start(model, binned, rows, rng), rng, search=seed % 2 == 0)
        made.run(60, 1e-12, watch=lambda _, bound, seen=seen: seen.append(bound))
        if seed < 6:  # the evidence at what each has learnt
            gaps.append(log_evidence(model, binned, rows, made.factors.side) - made.bound())
        assert np.diff(seen).min() > -SLACK * np.abs(seen).max()
    assert 0 < min(gaps) < 6, gaps


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


@pytest.mark.parametrize("batches", [1, 7])
@pytest.mark.parametrize("which", MODELS)
def test_no_step_lowers_the_bound(which, batches):
    for anew in (False, True):
        steps = climbed(MODELS[which](simulated()), batches, anew=anew)
        rise = np.diff([bound for _, bound in steps])
        assert rise.min() > -SLACK * abs(steps[-1][1]), steps[int(rise.argmin()) + 1]
        assert steps[-1][1] - steps[0][1] > 5 and len(steps) > 50


def climbed(model, batches, components=15, passes=25, anew=False):
    """Steps and bounds; `anew`: from codes that have nothing to do with the rows, which then change often."""
    binned, rows = parts(model)
    rng, steps = np.random.default_rng(1), []
    start = cut(binned, rows.statistics.side, model.prior.mass, rows, components, rng, 0.5)
    if anew:
        codes = np.stack([rng.integers(c, size=components) for c in binned.counts], axis=1)
        start = KernelFactors(binned, start.side, start.mass, start.N, start.s, start.A, codes)
    made = Climb(Memory(rows, batches), start, rng, search=batches == 1)
    made.run(passes, 0.0, watch=lambda *step: steps.append(step))
    return steps


def test_log_v_that_does_not_follow_its_scale_is_found(monkeypatch):
    def wrong(self, factor):
        self.seen = [one._replace(G=one.G * factor) for one in self.seen]

    monkeypatch.setattr(Memory, "scale_v", wrong)
    steps = climbed(MODELS["products"](simulated()), 7, anew=True)
    assert np.diff([bound for _, bound in steps]).min() < -1


def test_sums_of_batches_are_those_of_all():
    model = MODELS["products"](simulated())
    binned, rows = parts(model)
    factors = cut(binned, rows.statistics.side, model.prior.mass, rows, 15, np.random.default_rng(1), 0.0)
    step, ends = LocalStep.of(factors), np.linspace(0, rows.n, 8).astype(int)
    whole, total = step(rows), None
    for first, last in itertools.pairwise(ends):
        part = step(rows.part(first, last))
        total = part if total is None else added(total, part)
    for one, other in zip(whole[:-1], total[:-1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(one).max())


def test_local_step_is_that_of_the_formulas():
    model = MODELS["products"](simulated(40))
    binned, rows = parts(model)
    factors = cut(binned, rows.statistics.side, model.prior.mass, rows, 6, np.random.default_rng(1), 0.0)
    found, T = LocalStep.of(factors)(rows), rows.statistics.whole().dense.T
    log_k = factors.log_kernels(rows.bins)
    score = T @ factors.eta.T + factors.const + log_k
    r = np.exp(score - logsumexp(score, axis=1, keepdims=True))
    K = np.exp(log_k)
    v = 1 / (K @ factors.weights.expected)
    np.testing.assert_allclose(found.N, r.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.s, r.T @ T, rtol=1e-8, atol=1e-8)
    assert found.entropy == pytest.approx(-(r * np.log(np.maximum(r, 1e-300))).sum(), rel=1e-9)
    assert found.log_v == pytest.approx(np.log(v).sum(), rel=1e-9)
    for j, own in enumerate(rows.bins.T):
        H, G = np.zeros(found.H[j].shape), np.zeros(found.G[j].shape)
        np.add.at(H, own, r)
        np.add.at(G, own, v[:, None] * np.exp(log_k - factors.log_k[j][own]))
        np.testing.assert_allclose(found.H[j], H, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.G[j], G, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("mass", [1.7, nm.Gamma(2, 1), nm.LogNormal(0.3, 0.6)], ids=str)
def test_weights_and_mass_by_quadrature(mass):
    N, A = np.array([5.3, 0.0, 2.2, 0.01]), np.array([3.0, 0.2, 7.1, 1e-3])
    found = GammaWeights(mass, N, A)
    u = np.linspace(-30, 12, 40_001)
    if isinstance(mass, float):
        a, prior = np.array([mass]), np.ones(1)
    else:
        a = np.exp(u)
        prior = mass.distribution.pdf(a) * a * (u[1] - u[0])
    each = a[:, None] / 4
    law = stats.gamma(each + N)
    log_f = (gammaln(each + N) - gammaln(each) - (each + N) * np.log1p(A)).sum(axis=1)
    p = prior * np.exp(log_f - log_f.max())
    assert found.log_evidence == pytest.approx(np.log(p.sum()) + log_f.max(), abs=1e-8)
    p = p / p.sum()
    np.testing.assert_allclose(found.expected, (p[:, None] * law.mean()).sum(axis=0) / (1 + A), rtol=1e-7)
    np.testing.assert_allclose(found.expected_mass, (p * a).sum(), rtol=1e-7)


def test_learnt_shrinkage_is_where_the_evidence_is_largest():
    model = MODELS["products"](simulated())
    binned, rows = parts(model)
    factors = cut(binned, rows.statistics.side, model.prior.mass, rows, 10, np.random.default_rng(1), 0.0)
    side = factors.side.learnt(factors.N, factors.s)
    own = side.sides[0]
    value = side.log_z(factors.N, factors.s).sum() + side.log_prior
    for factor in (0.97, 1.03):
        for members in own.members:
            other, shrinkage = copy(own), own.shrinkage.copy()
            shrinkage[members] *= factor
            other._scaled(shrinkage, own.noise)
            assert other.log_z(factors.N, factors.s).sum() + other.log_prior < value
        other = copy(own)
        other._scaled(own.shrinkage, own.noise * factor)
        assert other.log_z(factors.N, factors.s).sum() + other.log_prior < value
