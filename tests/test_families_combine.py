"""Two columns of statistics combined into one, of every conjugate family."""

import math

import numba
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import nrmmix as nm
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core import state as layout
from nrmmix.model.pack import arrays_of

N = 90
NAN = np.nan
DP = nm.DirichletProcess(1.0)


# Entry points have addresses, and only compiled functions call them.
@numba.njit
def fill(data, stat, k, rows):
    clusters.empty_column(data, stat, k)
    for i in rows:
        clusters.update_column(data, stat, k, i, 1.0)


@numba.njit
def combine(data, source, target, k, m):
    clusters.combine_columns(data, source, target, k, m)


@numba.njit
def marginal(data, stat, k):
    return clusters.marginal_column(data, stat, k)


@numba.njit
def affinities(data, stat, k, other, K, out):
    return clusters.affinities(data, stat, k, other, K, out)


@numba.njit
def scores(data, stat, work, out, K, i):
    out[:] = 0.0
    clusters.score_columns(data, stat, work, out, K, i, -1)


def numbers(d, *, holes=0.0, offset=0.0, scale=1.0, seed=1):
    """Rows of three groups, with holes."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(N, d)) @ (np.eye(d) + 0.5 * rng.normal(size=(d, d))) + rng.choice([-2.0, 0.0, 3.0], size=(N, 1))
    y[:, 1:][rng.random((N, d - 1)) < holes] = NAN
    if holes:
        y[5:15, 0] = np.where(np.isnan(y[5:15, 1:]).all(axis=1), y[5:15, 0], NAN)
    return y * scale + offset


def matrix(d, seed=2):
    half = np.random.default_rng(seed).normal(size=(d, d)) * 0.4 + np.eye(d)
    return half @ half.T


def gaussian(d, centre=0.2, **options):
    return nm.Gaussian(m=np.full(d, centre), **({"r": 0.3, "nu": d + 1.7, "scale": matrix(d)} | options))


def table():
    """Responses of every kind, with holes."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({
        "y": rng.normal(size=N), "z": 3.0 * rng.normal(size=N), "visits": rng.poisson(4.0, N).astype(float),
        "smoker": (rng.random(N) < 0.4).astype(float),
    })
    for j, name in enumerate(frame):
        frame.loc[rng.choice(N, 10 + j, replace=False), name] = NAN
    frame.loc[7, ["y", "z"]] = NAN
    return frame


def words(sparse):
    counts = np.random.default_rng(4).poisson(0.7, size=(N, 12))
    return csr_array(counts) if sparse else counts


def line(q, offset=0.0):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(N, q)) + offset, columns=[f"x{j}" for j in range(q)])
    return frame.assign(y=2.0 * frame.sum(axis=1) + rng.normal(size=N))


def events(exposed):
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"a": rng.poisson(3.0, N), "b": rng.poisson(40.0, N).astype(float), "years": rng.gamma(2.0, 1.0, N)})
    frame.loc[[3, 30, 31], "b"] = NAN
    options = {"exposure": "years"} if exposed else {}
    return nm.Model("a + b ~ 1", frame, family=nm.Poisson(0.8, 0.3, **options), prior=DP, missing="marginalize")


def kinds():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"c": rng.choice(list("abcde"), N), "e": rng.choice(list("xy"), N)}).astype(object)
    frame.loc[[4, 40], "c"] = None
    return nm.Model(data=frame, family=nm.Categorical(0.6), prior=DP, missing="marginalize")


def flags():
    y = (np.random.default_rng(8).random((N, 4)) < 0.3).astype(float)
    y[[1, 20], [0, 3]] = NAN
    return nm.Model(data=y, family=nm.Bernoulli(0.7, 1.2), prior=DP, missing="marginalize")


def of(y, family):
    return nm.Model(data=y, family=family, prior=DP, missing="marginalize")


def regression(q, offset=0.0, **options):
    formula = " + ".join(["1", *(f"x{j}" for j in range(q))])
    return nm.Model("y ~ 1", line(q, offset), family=nm.Regression(formula, **options), prior=DP)


def planes(q, d, offset=0.0, rows_missing=False, **options):
    """Several responses on q inputs and an intercept."""
    x = line(q, offset).drop(columns="y")
    y = x.to_numpy() @ np.random.default_rng(10).normal(size=(q, d)) + numbers(d)
    if rows_missing:
        y[[3, 50]] = NAN
    names = [f"y{j}" for j in range(d)]
    frame, right = x.assign(**dict(zip(names, y.T, strict=True)), z=1.0 * np.arange(N)), " + ".join(["1", *x])
    family = {tuple(names): nm.Regression(right, **options)} | ({"z": nm.Gaussian()} if rows_missing else {})
    left = " + ".join([*names, "z"][: d + rows_missing])
    return nm.Model(f"{left} ~ 1", frame, family=family, prior=DP, missing="marginalize")


def of_blocks():
    family = {"y + z": gaussian(2), "visits": nm.Poisson(0.8, 0.3), "smoker": nm.Bernoulli(0.7, 1.2)}
    return nm.Model(data=table(), family=family, prior=DP, missing="marginalize")


# A model, and the relative error of two ways of rounding the same sums: 1e-9 but where the problem is ill conditioned.
CASES = {
    **{f"Gaussian, d = {d}": (lambda d=d: of(numbers(d), gaussian(d)), 1e-9) for d in (1, 2, 3, 6, 11, 33)},
    "Gaussian, defaults": (lambda: of(numbers(4), nm.Gaussian()), 1e-9),
    "Gaussian, cells missing": (lambda: of(numbers(4, holes=0.1), gaussian(4)), 1e-9),
    "Gaussian, known mean": (lambda: of(numbers(3), nm.Gaussian(known_mean=0.0, nu=5.0, scale=matrix(3))), 1e-9),
    "Gaussian, known mean far off": (lambda: of(numbers(3), nm.Gaussian(known_mean=1e3, nu=5.0, scale=matrix(3))), 1e-9),
    "Gaussian, far off and badly scaled": (
        lambda: of(numbers(3, offset=1e6, scale=[1e-6, 1.0, 1e5]), nm.Gaussian()), 1e-9),
    "Gaussian, prior far off": (lambda: of(numbers(3, offset=1e4), gaussian(3)), 1e-9),
    "Gaussian, strong prior far off": (lambda: of(numbers(3, offset=1e4), gaussian(3, r=1e6)), 1e-9),
    "Gaussian, almost dependent": (lambda: of(numbers(2)[:, [0, 0, 1]] + 1e-4 * numbers(3, seed=9), nm.Gaussian()), 1e-9),
    "diagonal": (lambda: of(numbers(5), nm.Gaussian("diagonal")), 1e-9),
    "diagonal, cells missing": (lambda: of(numbers(5, holes=0.2), nm.Gaussian("diagonal")), 1e-9),
    "diagonal, prior far off": (
        lambda: of(numbers(2, offset=1e6), nm.Gaussian("diagonal", m=np.zeros(2), r=0.3, nu=3.0, scale=np.ones(2))), 1e-9),
    "diagonal, known mean": (
        lambda: of(numbers(3), nm.Gaussian("diagonal", known_mean=0.0, nu=3.0, scale=np.ones(3))), 1e-9),
    "known covariance": (lambda: of(numbers(3), nm.Gaussian(known_covariance=matrix(3), m=np.ones(3), r=0.2)), 1e-9),
    "known covariance, prior far off": (
        lambda: of(numbers(3, offset=1e5), nm.Gaussian(known_covariance=matrix(3), m=np.ones(3), r=0.2)), 1e-9),
    "known diagonal covariance, cells missing": (
        lambda: of(numbers(3, holes=0.2), nm.Gaussian("diagonal", known_covariance=[1.0, 2.0, 0.5], m=np.ones(3), r=0.2)), 1e-9),
    "known covariance, cells missing": (
        lambda: of(numbers(3, holes=0.2), nm.Gaussian(known_covariance=matrix(3), m=np.ones(3), r=0.2)), 1e-9),
    "known covariance, cells missing, prior far off": (
        lambda: of(numbers(3, holes=0.2, offset=1e5), nm.Gaussian(known_covariance=matrix(3), m=np.ones(3), r=1e-3)), 1e-9),
    "Multinomial": (lambda: of(words(False), nm.Multinomial(0.4)), 1e-12),
    "Multinomial, sparse": (lambda: nm.Model(data=words(True), family=nm.Multinomial(0.4), prior=DP), 1e-12),
    "Poisson": (lambda: events(False), 1e-12),
    "Poisson, exposure": (lambda: events(True), 1e-12),
    "Categorical": (kinds, 1e-12),
    "Bernoulli": (flags, 1e-12),
    **{f"Regression, q = {q}": (lambda q=q: regression(q), 1e-9) for q in (1, 2, 5)},
    "Regression, prior given": (
        lambda: regression(1, b=np.array([50.0, -3.0]), precision=np.array([[0.5, 0.1], [0.1, 0.8]]), nu=4.0, scale=1.0), 1e-9),
    "Regression, inputs far off": (lambda: regression(2, 1e4), 1e-8),
    **{f"Regression, d = {d}, q = {q}": (lambda q=q, d=d: planes(q, d), 1e-9) for q, d in ((1, 2), (3, 2), (2, 5))},
    "Regression, d = 2, rows missing": (lambda: planes(2, 2, rows_missing=True), 1e-9),
    "Regression, d = 2, prior given": (
        lambda: planes(1, 2, b=np.array([[50.0, 1.0], [-3.0, 9.0]]), precision=np.array([[0.5, 0.1], [0.1, 0.8]]), nu=4.0, scale=matrix(2)),
        1e-9),
    "Regression, d = 2, inputs far off": (lambda: planes(2, 2, 1e4), 1e-8),
    "blocks, cells missing": (of_blocks, 1e-9),
}


@pytest.mark.parametrize("name", CASES)
def test_combined_column_is_that_of_all_observations(name):
    build, tolerance = CASES[name]
    data, state = arrays_of(build(), 8)
    rng = np.random.default_rng(11)
    here, other = np.full((state.stat.shape[0], 8), 7.0), np.full((state.stat.shape[0], 8), 7.0)
    n_given = data.rows.y.shape[0] or N
    assert n_given == N
    for sizes in ((0, 0), (0, 5), (6, 0), (1, 1), (1, 30), (30, 1), (30, 30), *rng.integers(0, 31, size=(12, 2))):
        order = rng.permutation(N)
        first, second, rest = order[: sizes[0]], order[sizes[0] : sum(sizes)], order[sum(sizes) :][:12]
        fill(data, here, 5, first)
        fill(data, other, 5, first)
        fill(data, here, 0, second)
        fill(data, here, 1, second)
        fill(data, here, 2, np.concatenate([second, first]))
        before, score = marginal(data, here, 5), np.zeros((12, 8))
        kept = here[:, 5].copy()
        combine(data, here, here, 5, 0)
        combine(data, other, here, 5, 1)
        np.testing.assert_array_equal(here[:, 5], kept)
        assert marginal(data, here, 5) == before
        np.testing.assert_array_equal(here[:, 0], here[:, 1])
        for column in (3, 4, 6, 7):
            fill(data, here, column, second[:0])
        for r, i in enumerate(rest):
            scores(data, here, state.scratch.work, score[r], 3, i)
        close = {"rtol": tolerance, "atol": tolerance, "err_msg": f"{sizes}"}
        np.testing.assert_allclose(marginal(data, here, 0), marginal(data, here, 2), **close)
        np.testing.assert_allclose(score[:, 0], score[:, 2], **close)


def worst_affinity(model):
    """The largest difference of affinities from what combinations say of them, and whether some were left open."""
    width = model.packed.n_stat
    data, _ = arrays_of(model, 16)
    stat, order, worst, left_open = np.full((width, 16), 7.0), np.random.default_rng(11).permutation(N), 0.0, False
    parts = [order[:20], order[20:21], order[21:21], *np.split(order[21:50], [1, 2, 4, 8, 15, 21]), order[50:]]
    for k, rows in enumerate(parts):
        fill(data, stat, k, rows)
    for k in range(len(parts)):
        out = np.full(12, 7.0)
        assert affinities(data, stat, k, stat, len(parts), out)
        assert (out[len(parts) :] == 7.0).all()
        for m in range(len(parts)):
            if m != k:
                fill(data, stat, 14, order[:0])
                combine(data, stat, stat, k, 14)
                combine(data, stat, stat, m, 14)
                expected = marginal(data, stat, 14) - marginal(data, stat, k) - marginal(data, stat, m)
                left_open |= math.isnan(out[m])
                worst = max(worst, 0.0 if math.isnan(out[m]) else abs(out[m] - expected) / (1.0 + abs(expected)))
    return worst, left_open


@pytest.mark.parametrize("name", CASES)
def test_affinities_are_those_of_the_combinations(name):
    build, tolerance = CASES[name]
    model = build()
    data, state = arrays_of(model, 4)
    if (data.block[:, layout.Block.AFFINITY] != 0).all():
        worst, left_open = worst_affinity(model)
        assert worst < tolerance
        assert not left_open or "far off" in name
    else:  # products of families have none if one has not
        assert name.split(",")[0] not in ("Gaussian", "Multinomial") or "d = 33" in name
        assert not affinities(data, state.stat, 0, state.stat, 2, np.zeros(4))


def test_affinities_that_would_lose_digits_are_left_open():
    y = numbers(2)
    y[25:] += 1e6
    model = of(y, gaussian(2))
    data, _ = arrays_of(model, 8)
    stat, out = np.zeros((model.packed.n_stat, 8)), np.zeros(8)
    for k, rows in enumerate((np.arange(20), np.arange(20, 25), np.arange(25, N))):
        fill(data, stat, k, rows)
    assert affinities(data, stat, 0, stat, 3, out)
    assert np.isfinite(out[1]) and math.isnan(out[2])


def test_affinities_of_counts_beyond_the_table():
    """With one concentration by a table, with several or many counts without."""
    many = words(False) * 1.0
    many[:, 0] += 2**20 // N + 1
    with_table = []
    for counts, concentration in ((words(False), 0.4), (words(False), 0.1 + 0.2 * np.arange(words(False).shape[1])), (many, 0.4)):
        model = nm.Model(data=counts, family=nm.Multinomial(concentration), prior=DP)
        data, _ = arrays_of(model, 4)
        with_table.append(data.rows.constant[data.block[0, layout.Block.CONSTANT] + 2 + 2 * (model.packed.n_stat - 1)] > 0)
        assert worst_affinity(model)[0] < 1e-10
    assert with_table == [True, False, False]


@pytest.mark.parametrize("name", ["Gaussian, d = 3", "Gaussian, prior far off", "known covariance, cells missing", "Regression, q = 2"])
def test_a_tree_of_combinations_is_the_column_of_its_leaves(name):
    build, tolerance = CASES[name]
    data, state = arrays_of(build(), N)
    stat = np.zeros((state.stat.shape[0], N + 1))
    rng = np.random.default_rng(12)
    for i in range(N):
        fill(data, stat, i, np.array([i]))
    fill(data, stat, N, np.arange(N))
    left = list(range(N))
    while len(left) > 1:
        k, m = rng.choice(left, 2, replace=False)
        combine(data, stat, stat, k, m)
        left.remove(k)
    np.testing.assert_allclose(marginal(data, stat, left[0]), marginal(data, stat, N), rtol=tolerance)


def test_parameters_held_have_no_combination():
    model = of(numbers(2), nm.SemiconjugateGaussian())
    data, _ = arrays_of(model, 4)
    assert (data.block[:, layout.Block.COMBINE] == 0).all()
    for build, _ in CASES.values():
        data, _ = arrays_of(build(), 4)
        assert (data.block[:, layout.Block.COMBINE] != 0).all()
