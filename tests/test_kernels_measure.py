"""Full conditionals of v and the hyperparameters against the references in `naive`, and slice sampling of them."""

import math
from collections import Counter
from dataclasses import replace
from functools import cache, partial

import naive
import numba
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp
from support.cover import by_turns
from support.frequencies import MIN_P, chi_square
from support.length import by_day
from support.models import mixture, regression
from support.states import check_columns, copy_of, point_of, problem_of, random_point, restore, started

import nrmmix as nm
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.kernels.core import locations as places
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import call_scalar, call_step
from nrmmix.kernels.measure import auxiliary, hyper, joint, masses, nrm, weights


@numba.njit
def step_at(address, data, state, rng):
    return call_step(address, data, state, rng)


@numba.njit
def scalar_at(address, data, state, which, z):
    return call_scalar(address, data, state, which, z)


def step(entry_point, data, state, rng):
    assert step_at(entry_point.address, data, state, rng) == layout.DONE


def scalar(entry_point, data, state, which, z):
    return scalar_at(entry_point.address, data, state, which, float(z))


# ---- full conditionals of v and the hyperparameters


def density_cases():
    mass = nm.Gamma(1.5, 0.8)
    yield "mixture", mixture(9, 1, prior=nm.NGGP(0.9, nm.Beta(1, 2), tau=0.7))
    yield "mixture-mass", mixture(9, 1, prior=nm.NGGP(mass, nm.Beta(2, 3)))
    yield "se", regression(9, nm.SquaredExponential(nm.LogNormal(-1, 0.7)), prior=nm.NGGP(0.9, nm.Beta(1, 2)))
    yield "se-mass", regression(9, nm.SquaredExponential(nm.Gamma(2, 3)), prior=nm.NGGP(mass, nm.Beta(1, 2), tau=1.4))
    yield "se-dp", regression(9, nm.SquaredExponential(0.3), prior=nm.DirichletProcess(mass))
    yield "se-widths", regression(
        9, nm.SquaredExponential([nm.LogNormal(-1, 0.7), 0.8, nm.Beta(2, 2)]), prior=nm.NGGP(mass, nm.Beta(1, 2)), q=3
    )
    yield "se-shared", regression(9, nm.SquaredExponential(nm.Beta(2, 1)), prior=nm.NGGP(nm.LogNormal(0, 1), 0.4), q=2)
    yield "box", regression(9, nm.Box(nm.LogNormal(0, 0.5)), prior=nm.NGGP(mass, 0.5))
    width = nm.LogNormal(-1, 0.7)
    yield "se-py", regression(9, nm.SquaredExponential(width), prior=nm.PitmanYor(mass, nm.Beta(1, 2)))
    yield "se-stable", regression(9, nm.SquaredExponential(width), prior=nm.NormalizedStable(nm.Beta(1, 2)))
    yield "se-finite", regression(9, nm.SquaredExponential(width), prior=nm.FiniteMixture(5, mass))
    yield "box-full", regression(9, nm.Box(nm.LogNormal(0, 0.5)), prior=nm.FiniteMixture(3, 2.0))  # as many components as clusters


MOST = layout.LOG_V_MAX
DENSITIES = dict(density_cases())


def integrates_mass(model):
    return model.has_gamma_mass


def density_point(name, seed=8):
    return random_point(DENSITIES[name], np.random.default_rng(seed))


def agree_up_to_a_constant(found, wanted, rtol=1e-9):
    found, wanted = np.array(found), np.array(wanted)
    assert np.isfinite(wanted).sum() >= 3
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))
    use = np.isfinite(wanted)
    first = np.flatnonzero(use)[0]
    gaps = wanted[use] - wanted[first]
    np.testing.assert_allclose(found[use] - found[first], gaps, rtol=rtol, atol=rtol * (1 + np.abs(gaps).max()))


@pytest.mark.parametrize("name", DENSITIES)
def test_log_density_of_v(name):
    model = DENSITIES[name]
    data, state = density_point(name)
    problem, point = problem_of(model, data), point_of(state)
    K = problem.K(point.widths)
    c = np.zeros(len(problem.R0))
    nrm.exponents(state, c)
    wanted_c = [sum(len(point.members(k)) - point.sigma for k in range(3) if point.locations[k] == p) for p in range(len(c))]
    np.testing.assert_allclose(c, wanted_c, rtol=1e-13)
    xs = [-9.0, -1.0, 0.0, 0.7, 3.0, 12.0]
    for g in range(len(point.v)):
        rest = point.tau + sum((point.v[h] * K[h] for h in range(len(K)) if h != g), np.zeros(K.shape[1]))
        n_g = float((problem.group == g).sum())
        found = [auxiliary.log_density_v(data, state, n_g, x, -MOST, MOST, rest, K[g].copy(), c) for x in xs]
        wanted = [naive.log_density_v(problem, point, g, x, without_mass=integrates_mass(model)) for x in xs]
        agree_up_to_a_constant(found, wanted)
    for groups in (list(range(len(K))), [0], list(range(len(K)))[-2:]):
        inside = np.isin(np.arange(len(K)), groups)
        base, within = point.tau + point.v[~inside] @ K[~inside], point.v[inside] @ K[inside]
        count = float(inside[problem.group].sum())
        found = [auxiliary.log_density_v(data, state, count, x, -MOST, MOST, base, within, c) for x in xs]
        wanted = [naive.log_density_scale(problem, point, groups, x, without_mass=integrates_mass(model)) for x in xs]
        agree_up_to_a_constant(found, wanted)
    assert auxiliary.log_density_v(data, state, 9.0, 3.01, -600.0, 3.0, base, within, c) == -np.inf
    assert auxiliary.log_density_v(data, state, 9.0, -3.01, -3.0, 600.0, base, within, c) == -np.inf


@pytest.mark.parametrize("sigma", [0.0, 1e-7, 0.3, 0.9])
def test_weighted_sums_and_total_psi1(sigma):
    rng = np.random.default_rng(3)
    tau = 0.7
    for P in (1, 2, 9, 40):
        base, K, c, R0 = tau + rng.gamma(1, size=P), rng.random(P), rng.gamma(1, size=P), rng.dirichlet(np.ones(P))
        c[rng.random(P) < 0.3] = 0.0
        for v in (0.0, 1e-3, 2.0, 1e9):
            A = base - tau + v * K
            logs, total = nrm.weighted_sums(base, K, v, c, R0, sigma, tau)
            assert logs == pytest.approx(float(np.sum(c * np.log(tau + A))), rel=1e-12, abs=1e-13)
            wanted = sum(w * naive.psi1(a, sigma, tau) for w, a in zip(R0, A, strict=True))
            assert total == pytest.approx(wanted, rel=1e-11)
    model = DENSITIES["se-mass"]
    data, state = density_point("se-mass")
    wanted = sum(w * naive.psi1(a, sigma, 1.4) for w, a in zip(data.R0, state.cache.A, strict=True))
    assert model.prior.tau == 1.4
    assert nrm.total_psi1(data, state, sigma) == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize("sigma", [-7.0, -0.4, -1e-7, 0.0, 1e-7, 0.3, 0.9])
def test_power_sums(sigma):
    rng = np.random.default_rng(3)
    for P in (1, 2, 9, 40):
        base, K, c, R0 = 1 + rng.gamma(1, size=P), rng.random(P), rng.gamma(1, size=P), rng.dirichlet(np.ones(P))
        for v in (0.0, 1e-3, 2.0, 1e9, 1e200):
            log_b = np.log(base + v * K)
            logs, mean = nrm.power_sums(base, K, v, c, R0, sigma, 0.0)
            assert logs == pytest.approx(float(c @ log_b), rel=1e-12)
            if abs(sigma) < 1e-6:
                wanted = R0 @ log_b + 0.5 * sigma * (R0 @ log_b**2 - (R0 @ log_b) ** 2)
            else:
                wanted = logsumexp(np.log(R0) + sigma * log_b) / sigma
            assert mean == pytest.approx(wanted, rel=1e-10)
            assert nrm.power_sums(base - 1, K, v, c, R0, sigma, 1.0)[1] == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("name", ["mixture", "mixture-mass", "se", "se-mass", "se-widths", "se-py", "se-stable"])
def test_log_density_of_sigma(name):
    model = DENSITIES[name]
    for seed in (1, 2):
        data, state = density_point(name, seed)
        problem, point = problem_of(model, data), point_of(state)
        zs = [-12.0, -4.0, -1.0, 0.0, 0.5, 2.0, 6.0]
        found = [scalar(hyper.log_density_sigma, data, state, layout.Hyper.SIGMA, z) for z in zs]
        wanted = [naive.log_density_sigma(problem, point, z, without_mass=integrates_mass(model)) for z in zs]
        agree_up_to_a_constant(found, wanted)


def test_log_density_of_sigma_without_v():
    model = mixture(9, 1, prior=nm.PitmanYor(0.8, nm.Beta(1, 2)))
    data, state = random_point(model, np.random.default_rng(2))
    problem, point = problem_of(model, data), point_of(state)
    zs = [-20.0, -4.0, -1.0, 0.5, 6.0]
    found = [scalar(hyper.log_density_sigma, data, state, layout.Hyper.SIGMA, z) for z in zs]
    agree_up_to_a_constant(found, [naive.log_density_sigma(problem, point, z, without_mass=False) for z in zs])


@pytest.mark.parametrize("name", ["dp-gamma", "dp-lognormal", "nggp-lognormal", "se-shared", "py", "finite", "se-py", "se-finite"])
def test_log_density_of_mass(name):
    model = {
        "dp-gamma": lambda: mixture(9, 1, prior=nm.DirichletProcess(nm.Gamma(2, 0.5))),
        "dp-lognormal": lambda: mixture(9, 1, prior=nm.DirichletProcess(nm.LogNormal(0.3, 1.5))),
        "nggp-lognormal": lambda: mixture(9, 1, prior=nm.NGGP(nm.LogNormal(0.3, 1.5), 0.25)),
        "py": lambda: mixture(9, 1, prior=nm.PitmanYor(nm.Gamma(2, 0.5), 0.4)),
        "finite": lambda: mixture(9, 1, prior=nm.FiniteMixture(4, nm.LogNormal(0.3, 1.5))),
    }.get(name, lambda: DENSITIES[name])()
    data, state = random_point(model, np.random.default_rng(9))
    problem, point = problem_of(model, data), point_of(state)
    zs = [-9.0, -3.0, -0.5, 0.0, 1.0, 4.0]
    found = [scalar(hyper.log_density_mass, data, state, layout.Hyper.MASS, z) for z in zs]
    agree_up_to_a_constant(found, [naive.log_density_mass(problem, point, z) for z in zs])


@pytest.mark.parametrize(("name", "j"), [
    ("se", 0), ("se-mass", 0), ("se-widths", 0), ("se-widths", 2), ("se-shared", 0), ("box", 0),
    ("se-py", 0), ("se-stable", 0), ("se-finite", 0), ("box-full", 0),
])
def test_log_density_of_a_width(name, j):
    model = DENSITIES[name]
    logit = isinstance(model.widths[j], nm.Beta)
    data, state = density_point(name)
    problem, point = problem_of(model, data), point_of(state)
    state.scratch.by_group[0] = np.log(state.v * naive.reach(problem, point, point.widths))
    hyper.find_best_locations(state)
    before = copy_of(state)
    zs = [-1.5, -0.8, -0.3, 0.0, 0.1, 0.6, 1.3]
    found = [scalar(hyper.log_density_width, data, state, layout.Hyper.WIDTH + j, z) for z in zs]
    wanted = [naive.log_density_width(problem, point, j, z, without_mass=integrates_mass(model), logit=logit) for z in zs]
    agree_up_to_a_constant(found, wanted)
    # only scratch space has changed, the locations, which are drawn after it, and the kernel, which is set anew
    for field in ("hyper", "A", "v", "labels"):
        np.testing.assert_array_equal(layout.array_of(state, field), layout.array_of(before, field))


@pytest.mark.parametrize(("kernel", "q", "degree"), [
    (nm.SquaredExponential(nm.LogNormal(-1, 0.7)), 1, 2), (nm.SquaredExponential(nm.LogNormal(-1, 0.7)), 2, 2),
    (nm.Laplace(nm.LogNormal(-1, 0.7)), 1, 1), (nm.Laplace(nm.LogNormal(-1, 0.7)), 2, 1),
])
def test_a_kernel_that_scales_is_not_evaluated_anew(kernel, q, degree):
    model = regression(9, kernel, q=q)
    data, state = random_point(model, np.random.default_rng(8))
    assert model.scales == ((0, degree),)
    hyper.find_best_locations(state)
    hyper.fill_reach(data, state, 1.0, False, 0, len(state.v))
    state.scratch.by_group[0] = np.log(state.v) + state.scratch.by_group[1]
    zs = np.log(state.hyper[layout.Hyper.WIDTH]) + np.array([-1.2, -0.3, 0.0, 0.2, 1.0, 4.0])
    found = [scalar(hyper.log_density_width, data, state, layout.Hyper.WIDTH, z) for z in zs]
    data.setup[[layout.Setup.SCALES, layout.Setup.LOG_KERNEL]] = 0, places.evaluate_log_K.address
    state = state._replace(cache=state.cache._replace(log_K=state.cache.log_K[:0], ratio=state.cache.ratio[:0]))
    wanted = [scalar(hyper.log_density_width, data, state, layout.Hyper.WIDTH, z) for z in zs]
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(found, wanted, rtol=1e-11)


def test_log_density_of_hyperparameters_outside_their_range():
    data, state = density_point("se-widths")
    densities = {
        layout.Hyper.SIGMA: hyper.log_density_sigma, layout.Hyper.MASS: hyper.log_density_mass,
        layout.Hyper.WIDTH: hyper.log_density_width, layout.Hyper.WIDTH + 2: hyper.log_density_width,
    }
    for which, density in densities.items():
        for z in (-601.0, 601.0, -np.inf, np.inf):
            assert scalar(density, data, state, which, z) == -np.inf
    assert scalar(hyper.log_density_sigma, data, state, layout.Hyper.SIGMA, 40.0) == -np.inf  # rounds to sigma = 1


def regions_of(state, data):
    """Groups whose first observations are in one cluster."""
    region = {}
    for g in range(len(state.v)):
        region.setdefault(int(state.labels[np.flatnonzero(data.group == g)[0]]), []).append(g)
    return list(region.values())


STRETCHED = [name for name, model in DENSITIES.items() if model.is_regression]


@pytest.mark.parametrize("name", STRETCHED)
def test_log_density_of_a_stretch(name):
    """What is gathered before the step stays, so its density can be asked for afterwards."""
    model = DENSITIES[name]
    seen = set()
    for seed in range(4):
        data, state = density_point(name, seed)
        point, regions = point_of(state), regions_of(state, data)
        seen.add(len(regions))
        count = auxiliary.find_regions(data, state)
        assert [np.flatnonzero(state.scratch.region == r).tolist() for r in range(count)] == regions
        auxiliary.gather_regions(data, state, count)
        auxiliary.stretch(data, state, count, np.random.default_rng(0))
        shift = np.log(state.v / point.v)
        level = np.zeros(len(shift))
        for region in regions:
            level[region] = math.log(point.v[region[0]])
        np.testing.assert_allclose(shift, level * (shift[0] / level[0]), rtol=1e-8, atol=1e-9)
        zs = [-3.0, -1.0, -0.2, 0.0, 0.4, 1.0, 1.8]
        found = [scalar(auxiliary.log_density_stretch, data, state, count, z) for z in zs]
        options = dict(without_mass=integrates_mass(model))
        wanted = [naive.log_density_stretch(problem_of(model, data), point, regions, z, **options) for z in zs]
        agree_up_to_a_constant(found, wanted)
        assert scalar(auxiliary.log_density_stretch, data, state, count, 20.0) == -np.inf  # beyond the bound of v
    assert max(seen) > 1


# ---- slice sampling: the draws have the density that was sampled


def check_draws(z, log_density, lo, hi):
    """Draws of a scalar against the distribution with the given log density on (lo, hi)."""
    coarse = np.linspace(lo, hi, 100)
    log_p = np.array([log_density(x) for x in coarse])
    inside = np.flatnonzero(log_p > log_p.max() - 20)
    assert 2 < len(inside) and 0 < inside[0] and inside[-1] < 99
    grid = np.linspace(coarse[inside[0] - 1], coarse[inside[-1] + 1], 200)  # finer where the mass is
    log_p = np.array([log_density(x) for x in grid])
    p = np.exp(log_p - log_p.max())
    assert max(p[0], p[-1]) < 1e-6
    cdf = np.concatenate([[0.0], np.cumsum((p[1:] + p[:-1]) / 2)])
    assert ((z > lo) & (z < hi)).all()
    assert stats.kstest(z, lambda x: np.interp(x, grid, cdf / cdf[-1])).pvalue > MIN_P


@pytest.mark.parametrize("group", [0, 2])
def test_slice_v_draws(group):
    model = regression(9, nm.SquaredExponential(0.4), prior=nm.NGGP(0.9, 0.35))
    data, state = random_point(model, np.random.default_rng(8))
    problem, point = problem_of(model, data), point_of(state)
    K = problem.K(point.widths)
    rest = point.tau + point.v @ K - point.v[group] * K[group]
    c = np.zeros(len(problem.R0))
    nrm.exponents(state, c)
    n_g = float((problem.group == group).sum())
    rng = np.random.default_rng(1)
    x, draws = 0.0, []
    for _ in range(by_day(12_000)):
        x = auxiliary.slice_v(data, state, n_g, x, -MOST, MOST, rest, K[group].copy(), c, rng)
        draws.append(x)
    check_draws(np.array(draws[::4]), lambda t: naive.log_density_v(problem, point, group, t, without_mass=False), -20, 30)


@pytest.mark.parametrize("case", by_turns([
    "mass-dp", "mass-nggp", "sigma", "sigma-mixture", "width", "width-short", "width-beta",
], 3))
def test_slice_hyper_draws(case):
    model = {
        "mass-dp": lambda: mixture(9, 1, prior=nm.DirichletProcess(nm.Gamma(2, 0.5))),
        "mass-nggp": lambda: mixture(9, 1, prior=nm.NGGP(nm.LogNormal(0.3, 1.5), 0.25)),
        "sigma": lambda: regression(9, nm.SquaredExponential(0.4), prior=nm.NGGP(0.9, nm.Beta(1, 2))),
        "sigma-mixture": lambda: mixture(9, 1, prior=nm.NGGP(0.9, nm.Beta(2, 3))),
        "width": lambda: regression(9, nm.SquaredExponential(nm.LogNormal(-1, 0.7)), prior=nm.NGGP(0.9, 0.2)),
        "width-short": lambda: regression(9, nm.SquaredExponential(nm.LogNormal(-1, 0.7)), prior=nm.NGGP(0.9, 0.2)),
        "width-beta": lambda: regression(9, nm.SquaredExponential(nm.Beta(2, 2)), prior=nm.NGGP(0.9, 0.2), q=2),
    }[case]()
    which = {"mass": layout.Hyper.MASS, "sigma": layout.Hyper.SIGMA, "width": layout.Hyper.WIDTH}[case.split("-")[0]]
    data, state = random_point(model, np.random.default_rng(8))
    problem, point = problem_of(model, data), point_of(state)
    state.step[which] = 0.2 if case == "width-short" else state.step[which]  # as it may have been learnt
    rng = np.random.default_rng(2)
    draws = np.empty(by_day(12_000))
    updates = {layout.Hyper.MASS: hyper.update_mass, layout.Hyper.SIGMA: hyper.update_sigma, layout.Hyper.WIDTH: hyper.update_widths}
    for t in range(len(draws)):
        step(updates[which], data, state, rng)
        draws[t] = state.hyper[which]
    if which == layout.Hyper.WIDTH:
        held = naive.reach(problem, point, point.widths) * point.v
        np.testing.assert_allclose(naive.reach(problem, point, point_of(state).widths) * state.v, held, rtol=1e-7)
    draws = draws[::4]
    logit = which == layout.Hyper.SIGMA or "beta" in case
    z = np.log(draws) - np.log1p(-draws) if logit else np.log(draws)
    density = {
        layout.Hyper.MASS: lambda t: naive.log_density_mass(problem, point, t),
        layout.Hyper.SIGMA: lambda t: naive.log_density_sigma(problem, point, t, without_mass=False),
        layout.Hyper.WIDTH: lambda t: naive.log_density_width(problem, point, 0, t, without_mass=False, logit=logit),
    }[which]
    check_draws(z, density, -25.0, 20.0)


def two_groups(regions):
    """A model of two groups, and its kernel arrays."""
    table = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0, 1.0], "y": [0.1, 1.0, -0.4, 0.3, 2.0]})
    model = nm.Model("y ~ x", table, kernel=nm.SquaredExponential(0.7), prior=nm.NGGP(0.9, 0.4), family=nm.Gaussian(scale=1.0))
    labels = [0, 1, 1, 0, 1] if regions == 2 else [0, 1, 0, 1, 1]
    return model, *started(model, labels, locations=[0, 1], R0=[0.4, 0.6])


@cache
def law_of_v(regions):
    """The logarithms of v of both groups on a grid, and their probabilities."""
    model, data, state = two_groups(regions)
    problem, point = problem_of(model, data), point_of(state)
    grid = np.arange(-12.0, 18.0, 0.4)
    log_p = np.array([
        [naive.log_posterior(problem, replace(point, v=np.exp([s, t]))) + s + t for t in grid] for s in grid
    ])
    p = np.exp(log_p - log_p.max())
    return *np.meshgrid(grid, grid, indexing="ij"), p / p.sum()


def draw_v(data, state, rng):
    """All V_g given the locations, by masses drawn for it."""
    masses.draw_rates(data, state, rng)
    auxiliary.draw_v_given_rates(data, state, state.scratch.by_group[0], rng)


@pytest.mark.parametrize(("moves_of_v", "regions"), by_turns([
    ("v", 2), ("levels", 2), ("both", 2), ("both", 1),  # with one region levels alone keep the ratio of the two
]))
def test_moves_of_v_draw_both_groups(moves_of_v, regions):
    """Groups in turn, regions, their common scale and the stretch leave p(v | the rest) as it is: against the density on a grid."""
    _, data, state = two_groups(regions)
    assert len(regions_of(state, data)) == regions
    rng = np.random.default_rng(3)
    draws = np.empty((by_day(20_000), 2))
    for t in range(len(draws)):
        if moves_of_v != "levels":
            draw_v(data, state, rng)
        if moves_of_v != "v":
            step(auxiliary.update_levels, data, state, rng)
        draws[t] = np.log(state.v)
    np.testing.assert_allclose(state.cache.A, state.v @ state.cache.K, rtol=1e-12)
    s, t, p = law_of_v(regions)
    # smooth functions only: the grid is a trapezoid rule
    for function in (lambda a, b: a, lambda a, b: b, lambda a, b: a * a, lambda a, b: a * b, lambda a, b: (a - b) ** 2):
        wanted = (p * function(s, t)).sum()
        values = function(draws[:, 0], draws[:, 1])
        batches = values.reshape(100, -1).mean(axis=1)  # batch means carry the autocorrelation
        assert abs(values.mean() - wanted) < 4.5 * batches.std(ddof=1) / 10


@pytest.mark.parametrize("groups", by_turns([[0, 1, 2, 3, 4], [1, 2, 4], [3]], 2, 1), ids=str)
def test_rescale_draws(groups):
    """The scale of all groups, or of those of a region; the others stay."""
    model = regression(9, nm.SquaredExponential([0.4, 0.8]), prior=nm.NGGP(0.9, 0.35), q=2)
    data, state = random_point(model, np.random.default_rng(8))
    problem, point = problem_of(model, data), point_of(state)
    state.scratch.region[:] = ~np.isin(np.arange(5), groups)  # those of region 0 are rescaled
    count = len(np.unique(state.scratch.region))
    rng = np.random.default_rng(4)
    log_c = np.empty((by_day(12_000), 5))
    for t in range(len(log_c)):
        auxiliary.gather_regions(data, state, count)
        nrm.exponents(state, state.scratch.by_location[1])
        auxiliary.rescale(data, state, count, auxiliary.ALL if len(groups) == 5 else 0, rng)
        log_c[t] = np.log(state.v / point.v)
    np.testing.assert_allclose(log_c, np.where(np.isin(np.arange(5), groups), log_c[:, groups[:1]], 0.0), atol=1e-8)
    check_draws(
        log_c[::4, groups[0]], lambda x: naive.log_density_scale(problem, point, groups, x, without_mass=False), -25, 30
    )


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 0]], ids=str)
def test_v_stays_within_its_bound(labels):
    """The tail of log v is polynomial at sigma = 0: it gets there within thousands of iterations."""
    table = pd.DataFrame({"x": [0.0, 0.5, 1.0], "y": [0.0, 0.1, 0.05]})
    model = nm.Model("y ~ x", table, family=nm.Gaussian(m=0.0, scale=1.0), prior=nm.DirichletProcess())
    data, state = started(model, labels, v=np.full(3, math.exp(0.95 * layout.LOG_V_MAX)), widths=0.5)
    saved = copy_of(state)
    rng = np.random.default_rng(0)
    for _ in range(500):
        restore(state, saved)
        for update in (draw_v, partial(step, auxiliary.update_levels)):
            update(data, state, rng)
            assert np.isfinite(state.cache.A).all()
            assert np.log(state.v).max() <= layout.LOG_V_MAX * (1 + 1e-12)


@pytest.mark.parametrize("name", ["mixture-mass", "se", "se-widths", "se-shared", "box", "se-py", "se-stable", "se-finite"])
def test_updates_leave_every_cache_fresh(name):
    model = DENSITIES[name]
    data, state = density_point(name)
    updates = update_addresses(model)
    sampled = {name.split("_")[0] for name in model.sampled}  # one update for all widths
    assert len({*updates.tolist()}) == (2 if model.is_regression else 1) + len(sampled)  # some of them are called twice
    rng = np.random.default_rng(5)
    for _ in range(50):
        for address in updates:
            assert step_at(address, data, state, rng) == layout.DONE
        weights.refresh_caches(data, state)
        point = point_of(state)
        problem = problem_of(model, data)
        K = problem.K(point.widths)
        np.testing.assert_allclose(state.cache.K, K, rtol=1e-11)
        np.testing.assert_allclose(state.cache.A, point.v @ K, rtol=1e-11)
        check_columns(model, data, state)
        sizes = np.arange(1, model.n_obs + 1)
        np.testing.assert_allclose(state.cache.log_size[1 : model.n_obs + 1], np.log(sizes - point.sigma), rtol=1e-12, atol=1e-14)
        rate = problem.R0 * point.mass * (point.tau + state.cache.A) ** (point.sigma - 1)
        new = np.arange(state.cache.log_next.shape[0])
        if name == "se-py":
            rate /= point.mass * (problem.R0 @ (point.tau + state.cache.A) ** point.sigma)
            np.testing.assert_allclose(state.cache.log_next[1:], np.log(point.mass + point.sigma * new[1:]), rtol=1e-12, atol=1e-14)
        elif name == "se-finite":
            assert point.sigma == -point.mass / 5
            rate /= point.mass * (problem.R0 @ (point.tau + state.cache.A) ** point.sigma)
            wanted = point.mass * np.maximum(1 - new[1:] / 5, 0)
            np.testing.assert_allclose(np.exp(state.cache.log_next[1:]), wanted, rtol=1e-12, atol=1e-300)
        else:
            assert not state.cache.log_next.any() and (name != "se-stable" or point.mass == point.sigma)
        np.testing.assert_allclose(state.cache.log_new, np.log(K @ rate), rtol=1e-11, atol=1e-11)
        if problem.shared:
            assert (point.widths == point.widths[0]).all()
        assert math.isfinite(joint.log_joint(data, state))


def test_update_mass_draws_from_its_gamma():
    """The mass comes last: given v, sigma and the partition of the same sweep it is an exact gamma draw."""
    data, state = density_point("se-mass")
    rng = np.random.default_rng(6)
    draws = np.empty(3000)
    for t in range(len(draws)):
        step(hyper.update_mass, data, state, rng)
        draws[t] = state.hyper[layout.Hyper.MASS]
    point = point_of(state)
    total = sum(w * naive.psi1(a, point.sigma, point.tau) for w, a in zip(data.R0, state.cache.A, strict=True))
    assert stats.kstest(draws, stats.gamma(1.5 + 3, scale=1 / (0.8 + total)).cdf).pvalue > MIN_P


@pytest.mark.parametrize("kernel", [nm.SquaredExponential(0.3), nm.Box(0.5), nm.SquaredExponential([0.5, 0.2])], ids=str)
def test_update_locations_frequencies(kernel):
    model = regression(9, kernel, q=2 if not kernel.shared_width else 1)
    data, state = random_point(model, np.random.default_rng(4), n_clusters=3)
    problem, point = problem_of(model, data), point_of(state)
    rng = np.random.default_rng(5)
    counts = [Counter() for _ in range(3)]
    for _ in range(8000):
        places.draw_locations(state, rng)
        for k in range(3):
            counts[k][int(state.location[k])] += 1
    for k in range(3):
        p = naive.location_conditional(problem, point, k)
        assert chi_square(counts[k], dict(enumerate(p))) > MIN_P
