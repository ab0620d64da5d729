"""Variational inference of the kernel model: bounds that never fall, stay below the evidence, and are the same by batches.

The evidence of four rows is by enumeration of codes and labels, quadrature over the weights of two components, and where it is sampled over
the mass.  Shrinkage and noise scale are point estimates: the bound is then one of the density of the data at these, times their prior.
"""

import itertools
from copy import copy

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp
from support.cover import by_turns, each_once, only
from support.length import by_day
from support.variational_regression import MODELS, SLACK, log_evidence, parts, random_start, simulated, toy

import nrmmix as nm
from nrmmix.inference.variational_regression.climb import Climb
from nrmmix.inference.variational_regression.memory import LocalStep, Memory, added
from nrmmix.inference.variational_regression.start import cut
from nrmmix.model.priors.gamma_weights import GammaWeights
from nrmmix.posterior.kernel_factors import KernelFactors

STARTS, EVALUATED = by_day(24), by_day(8)


@pytest.mark.parametrize(("mass", "q"), only([
    pytest.param(mass, q, id=f"{name}-{q}") for name, mass in (("fixed", 1.0), ("sampled", nm.Gamma(2, 1))) for q in (1, 2)
], (nm.Gamma(2, 1), 1)))
def test_bound_is_below_the_evidence(q, mass):
    model = toy(q, mass)
    binned, rows = parts(model)
    gaps = []
    for seed in range(STARTS):
        rng, seen = np.random.default_rng(seed), []
        made = Climb(Memory(rows), random_start(model, binned, rows, rng), rng, search=seed % 2 == 0)
        made.run(60, 1e-12, watch=lambda _, bound, seen=seen: seen.append(bound))
        if seed < EVALUATED:  # the evidence at what each has learnt
            gaps.append(log_evidence(model, binned, rows, made.factors.exponential) - made.bound())
        assert np.diff(seen).min() > -SLACK * np.abs(seen).max()
    assert 0 < min(gaps) < 6, gaps


@pytest.mark.parametrize(("which", "batches"), by_turns(each_once(MODELS, [1, 7])))
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
    start = cut(binned, rows.statistics.exponential, model.prior.mass, rows, components, rng, 0.5)
    if anew:
        codes = np.stack([rng.integers(c, size=components) for c in binned.counts], axis=1)
        start = KernelFactors(binned, start.exponential, start.mass, start.N, start.s, start.A, codes)
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
    factors = cut(binned, rows.statistics.exponential, model.prior.mass, rows, 15, np.random.default_rng(1), 0.0)
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
    factors = cut(binned, rows.statistics.exponential, model.prior.mass, rows, 6, np.random.default_rng(1), 0.0)
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
    factors = cut(binned, rows.statistics.exponential, model.prior.mass, rows, 10, np.random.default_rng(1), 0.0)
    exponential = factors.exponential.learnt(factors.N, factors.s)
    own = exponential.forms[0]
    value = exponential.log_z(factors.N, factors.s).sum() + exponential.log_prior
    law, parts_of = model.family.form.shrinkage, np.array([own.shrinkage[members[0]] for members in own.members])
    of_shrinkage = stats.gamma(law.shape, scale=1 / law.rate).logpdf(parts_of) + np.log(parts_of)
    of_noise = stats.gamma(0.5).logpdf(own.noise) + np.log(own.noise)
    assert exponential.log_prior == pytest.approx(of_shrinkage.sum() + of_noise.sum(), abs=1e-10)
    for factor in (0.97, 1.03):
        for members in own.members:
            other, shrinkage = copy(own), own.shrinkage.copy()
            shrinkage[members] *= factor
            other.set_scales(shrinkage, own.noise)
            assert other.log_z(factors.N, factors.s).sum() + other.log_prior < value
        other = copy(own)
        other.set_scales(own.shrinkage, own.noise * factor)
        assert other.log_z(factors.N, factors.s).sum() + other.log_prior < value
