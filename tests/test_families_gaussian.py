"""The forms of the Gaussian family: kernels against plain NumPy and SciPy, missing cells, and what a user sees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact.marginals import normal_gamma_log_marginal
from scipy import stats
from support.cover import by_turns
from support.gaussian_forms import (
    CLOSED,
    DIMENSIONS,
    FORMS,
    MIN_P,
    NU,
    RUN,
    R,
    data_set,
    density_columns,
    form,
    mean_column,
    sample_columns,
    scores,
    started,
    with_gaps,
)

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core.jit import kernel
from nrmmix.model.pack import arrays_of

pytestmark = pytest.mark.filterwarnings("ignore::nrmmix.posterior.convergence.ConvergenceWarning")  # of short runs


CASES = [(name, d, 0.0) for name in FORMS for d in DIMENSIONS] + [(name, d, 0.4) for name in CLOSED for d in (2, 5)]


@pytest.mark.parametrize(("name", "d", "gaps"), CASES)
def test_predictives_make_up_the_marginal(name, d, gaps):
    model, data, state, marginal = started(name, 25, d, gaps)
    clusters.empty_column(data, state.stat, 0)
    total = 0.0
    for i in range(25):
        total += scores(data, state, 1, i)[0]
        clusters.update_column(data, state.stat, 0, i, 1.0)
    assert total == pytest.approx(clusters.marginal_column(data, state.stat, 0), rel=1e-11)
    assert total == pytest.approx(marginal(model.frame.response), rel=1e-9)
    alone = [marginal(model.frame.response[[i]]) for i in range(25)]
    np.testing.assert_allclose(data.log_prior_predictive, alone, rtol=1e-9)


@pytest.mark.parametrize(("name", "d", "gaps"), by_turns(CASES))
def test_scores_are_ratios_of_marginals(name, d, gaps):
    K, n = 9, 40
    labels = np.concatenate([np.arange(K), np.random.default_rng(d).integers(0, K, n - K)])
    model, data, state, marginal = started(name, n, d, gaps, labels)
    y = model.frame.response
    for i in range(0, n, 3):
        own = labels[i]
        wanted = [marginal(np.vstack([y[labels == k], y[[i]]])) - marginal(y[labels == k]) for k in range(K)]
        np.testing.assert_allclose(scores(data, state, K, i), wanted, rtol=1e-8, atol=1e-9)
        rest = (np.arange(n) != i) & (labels == own)
        within = marginal(y[labels == own]) - (marginal(y[rest]) if rest.any() else 0.0)
        again = scores(data, state, K, i, own)
        if rest.any():  # a singleton is never scored without itself
            assert again[own] == pytest.approx(within, rel=1e-7, abs=1e-8)
        others = np.setdiff1d(np.arange(K), [own])
        np.testing.assert_array_equal(again[others], scores(data, state, K, i)[others])


@pytest.mark.parametrize(
    ("name", "d", "gaps", "offset"),
    by_turns([(*case, 0.0) for case in CASES] + [(*case, 1e6) for case in CASES if "known" not in case[0]], 3),
)
def test_adding_and_removing_a_million_times(name, d, gaps, offset):
    family, _ = form(name, d)
    y = data_set(30, d, gaps) + offset
    if offset:
        family = nm.Gaussian(family.covariance, r=R, nu=family.nu, scale=family.scale)  # m from the data
    model = nm.Model(data=y, family=family, missing="marginalize")
    data, state = arrays_of(model, 12)
    chain.start(data, state, np.full(30, -1))
    clusters.empty_column(data, state.stat, 0)
    inside = np.zeros(30, bool)
    add_and_remove(data, state, inside, 1_000_000, np.random.default_rng(1))
    clusters.empty_column(data, state.stat, 1)
    for i in np.flatnonzero(inside):
        clusters.update_column(data, state.stat, 1, i, 1.0)
    for i in range(30):
        a, b = scores(data, state, 2, i)
        assert a == pytest.approx(b, rel=1e-8)
    assert clusters.marginal_column(data, state.stat, 0) == pytest.approx(clusters.marginal_column(data, state.stat, 1), rel=1e-8)


@kernel
def add_and_remove(data, state, inside, times, rng):
    size = 0
    for _ in range(times):
        i = int(rng.random() * inside.shape[0])
        if inside[i] and size > 1:
            inside[i] = False
            size -= 1
            if not clusters.update_column(data, state.stat, 0, i, -1.0):
                clusters.empty_column(data, state.stat, 0)
                for j in range(inside.shape[0]):
                    if inside[j]:
                        clusters.update_column(data, state.stat, 0, j, 1.0)
        elif not inside[i]:
            inside[i] = True
            size += 1
            clusters.update_column(data, state.stat, 0, i, 1.0)


@pytest.mark.filterwarnings("ignore:.*quartile ranges away:UserWarning")
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("name", FORMS)
def test_an_outlier_leaves_correct_statistics_behind(name, d):
    y = data_set(12, d)
    y[4] = 1e9
    model, data, state, _ = started(name, 12, d, labels=np.zeros(12, int), y=y)
    clusters.detach(data, state, 4)
    clusters.empty_column(data, state.stat, 1)
    for i in range(12):
        if i != 4:
            clusters.update_column(data, state.stat, 1, i, 1.0)
    for i in range(12):
        a, b = scores(data, state, 2, i)
        assert a == pytest.approx(b, rel=1e-9)


def test_products_of_many_factors_do_not_overflow():
    """Many responses, all of them far out: each factor of the predictive is 1e30."""
    y = np.random.default_rng(0).normal(size=(6, 200))
    y[5] = 1e15
    family = nm.Gaussian("diagonal", m=np.zeros(200), r=R, nu=NU, scale=np.ones(200))
    model = nm.Model(data=y, family=family)
    data, state = arrays_of(model, 3)
    chain.start(data, state, np.array([0, 0, 0, 1, 1, 2]))
    for i in range(6):
        for k, members in enumerate(([0, 1, 2], [3, 4], [5])):
            if i not in members:
                both = normal_gamma_log_marginal(y[[*members, i]], family.m, R, NU, np.ones(200))
                wanted = both - normal_gamma_log_marginal(y[members], family.m, R, NU, np.ones(200))
                assert scores(data, state, 3, i)[k] == pytest.approx(wanted, rel=1e-8)


# ---- parameters

@pytest.mark.parametrize("d", by_turns([1, 3]))
@pytest.mark.parametrize(("name", "gaps"), [(name, 0.0) for name in FORMS] + [(name, 0.3) for name in CLOSED])
def test_densities_and_draws_of_the_parameters(name, d, gaps):
    """Densities averaged over draws of the parameters are the predictive; laws and means agree with them."""
    if d == 1 and gaps:
        return
    model, data, state, _ = started(name, 14, d, gaps, labels=[0] * 11 + [-1] * 3)
    M = 40_000
    theta = np.zeros((model.packed.n_theta, M))
    rng = np.random.default_rng(3)
    sample_columns(data, state.stat, theta, 0, rng)
    work = np.zeros((model.packed.n_work, M))
    for i in range(11, 14):
        out = np.zeros(M)
        density_columns(data, theta, work, out, M, i)
        p = np.exp(out)
        z = (p.mean() - math.exp(scores(data, state, 1, i)[0])) / (p.std() / math.sqrt(M))
        assert abs(z) < 4.5
        laws = model.blocks.component_distributions(theta[:, :5], np.zeros((1, 0)), model.packed)
        seen = np.flatnonzero(~np.isnan(model.frame.response[i]))
        if "diagonal" in name or len(seen) == 1:  # independent within a component
            joint = sum(np.log(laws[j].density(model.frame.response[i, j])[0]) for j in seen)
            np.testing.assert_allclose(out[:5], joint, rtol=1e-9)
    # responses drawn from the components have the predictive law
    drawn = model.blocks.draw_responses(theta, np.zeros((M, 0)), rng, model.packed)
    laws = model.blocks.predictive_distributions(state.stat, 1, np.zeros((1, 0)), model.packed)
    out = np.zeros(d)
    mean_column(data, state.stat, out, 0)
    for j, law in enumerate(laws):
        assert stats.kstest(drawn[:, j], lambda x, law=law: law.cdf(np.reshape(x, (-1, 1)))[:, 0]).pvalue > MIN_P
        centre = law.mean if hasattr(law, "mean") else law.centre
        assert model.blocks.means(out, model.packed)[j] == pytest.approx(float(centre[0, 0]), rel=1e-12)
    for parameter in model.blocks.cluster_parameters(state.stat, 1, model.packed)[0]:
        if parameter.is_detail:  # correlations, with tests of their own
            continue
        j = int(parameter.name.split("y")[-1]) - 1 if "y" in parameter.name else 0
        component = model.blocks.component_distributions(theta, np.zeros((1, 0)), model.packed)[j]
        draws = (component.mean if parameter.name.startswith("mean") else component.sd)[0]
        assert abs(draws.mean() - parameter.mean[0]) < 4.5 * draws.std() / math.sqrt(M)
        assert draws.std() == pytest.approx(parameter.sd[0], rel=0.05)
        for p in (0.1, 0.8):
            assert (draws <= parameter.quantile(p)[0]).mean() == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / M))


@pytest.mark.parametrize("name", FORMS)
def test_density_of_a_row_in_full(name):
    model, data, state, _ = started(name, 9, 3, labels=[0] * 9)
    theta, rng = np.zeros((model.packed.n_theta, 7)), np.random.default_rng(2)
    sample_columns(data, state.stat, theta, 0, rng)
    drawn = [model.blocks.draw_responses(np.repeat(theta[:, [m]], 40_000, axis=1), np.zeros((1, 0)), rng, model.packed) for m in range(7)]
    out = np.zeros(7)
    density_columns(data, theta, np.zeros((model.packed.n_work, 7)), out, 7, 0)
    for m in range(7):
        wanted = stats.multivariate_normal.logpdf(model.frame.response[0], drawn[m].mean(axis=0), np.cov(drawn[m].T))
        assert out[m] == pytest.approx(wanted, abs=0.2)  # of the sample covariance


# ---- what a user gives


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariance": "lower"}, 'covariance must be "full", "tied", "diagonal" or "spherical"'),
        ({"covariance": "tied", "known_mean": 0}, "components of one mean would be one; leave known_mean out"),
        ({"covariance": "tied", "known_covariance": 1.0}, "known_covariance is that of all components as it is; leave covariance out"),
        ({"covariance": "tied", "scale": nm.Gamma(1, 1)}, "is itself sampled, and needs no scale that is"),
        ({"covariance": "spherical", "scale": nm.Gamma(1, 1)}, 'not sampled; give a number, or take "diagonal"'),
        ({"scale": "learnt"}, r"scale must hold real numbers, not 'learnt'; or be nm\.Gamma\(shape, rate\)\."),
        ({"known_mean": 0, "known_covariance": 1.0}, "give one of them"),
        ({"known_mean": 0, "m": 0}, "m does not apply with known_mean; nu and scale do"),
        ({"known_mean": 0, "r": 1.0}, "r does not apply with known_mean; nu and scale do"),
        ({"known_covariance": 1.0, "nu": 3}, "nu does not apply with known_covariance; m and r do"),
        ({"known_covariance": 1.0, "scale": 3}, "scale does not apply with known_covariance; m and r do"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(ValueError, match=message):
        nm.Gaussian(**options)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (nm.Gaussian("diagonal", scale=np.eye(2)), r"scale must have shape \(2,\) for these responses, not \(2, 2\)"),
        (nm.Gaussian("diagonal", scale=1.0), r"scale must have shape \(2,\) for these responses, not \(\)"),
        (nm.Gaussian("diagonal", scale=[1.0, 0.0]), "scale must be greater than 0"),
        (nm.Gaussian("diagonal", nu=0.01), "nu = 0.01 is so near 0 that draws overflow; take 0.05 or more"),
        (nm.Gaussian(nu=1e11), r"nu = 1e\+11 is lost in rounding; take 1e\+10 or less"),
        (nm.Gaussian(known_mean=[0.0, 1.0, 2.0]), r"known_mean must have shape \(2,\)"),
        (nm.Gaussian(known_mean=math.nan), "known_mean must be finite"),
        (nm.Gaussian(known_covariance=[1.0, 2.0]), r"known_covariance must have shape \(2, 2\)"),
        (nm.Gaussian(known_covariance=[[1.0, 2.0], [2.0, 1.0]]), "known_covariance must be positive definite"),
        (nm.Gaussian("diagonal", known_covariance=[1.0, -2.0]), "known_covariance must be greater than 0"),
    ],
)
def test_hyperparameters_that_do_not_fit(family, message):
    with pytest.raises(ValueError, match=message):
        nm.Model(data=np.random.default_rng(0).normal(size=(9, 2)), family=family)


@pytest.mark.parametrize(("covariance", "nu"), [("full", 3.0), ("diagonal", 2.0)])
def test_the_default_scale_is_sampled(covariance, nu, tmp_path):
    Y = np.random.default_rng(3).normal(size=(20, 2)) * [1.0, 50.0]
    laws = [nm.Gamma(0.5, 0.5 / (0.1 * nu * one)) for one in Y.var(axis=0, ddof=1)]
    usual, own = (nm.fit(data=Y, family=nm.Gaussian(covariance, scale=scale), **RUN) for scale in (None, laws))
    np.testing.assert_array_equal(usual.draws["labels"], own.draws["labels"])
    np.testing.assert_array_equal(usual.draws["scale"], own.draws["scale"])
    usual.save(tmp_path / "fit.npz")
    assert nm.load(tmp_path / "fit.npz").model.family.scale == usual.model.family.scale == tuple(laws)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_a_lump_of_few_rows_is_one_cluster(d):
    Y = np.random.default_rng([20, 1, d]).normal(size=(20, d))
    fit = nm.fit(data=Y, draws=400, tune=400, rng=1)
    assert fit.partition().n_clusters == 1


def test_defaults_leave_missing_cells_out():
    y = np.array([[1.0, np.nan], [3.0, 10.0], [np.nan, 14.0], [5.0, 12.0]])
    for family, m, variance in (
        (nm.Gaussian("diagonal"), [3.0, 12.0], [4.0, 4.0]),
        (nm.Gaussian(), [3.0, 12.0], [4.0, 4.0]),
        (nm.Gaussian("diagonal", known_mean=[1.0, 12.0]), None, [20 / 3, 8 / 3]),
    ):
        resolved = nm.Model(data=y, family=family, missing="marginalize").family
        if m is not None:
            np.testing.assert_allclose(resolved.m, m)
        diagonal = np.array([law.mean for law in resolved.scale])
        np.testing.assert_allclose(diagonal / diagonal[0], np.array(variance) / variance[0])
    with pytest.raises(ValueError, match="default scale needs at least 2 observations of the response 'b'"):
        nm.Gaussian().resolve(np.array([[1.0, np.nan], [2.0, 3.0]]), ("a", "b"))


@pytest.mark.parametrize("name", FORMS)
def test_fits_do_not_depend_on_the_units(name):
    """With the defaults, and a known mean or covariance in the units of the data."""
    y, factor = np.random.default_rng(4).normal(size=(30, 2)) + 3.0 * (np.arange(30)[:, None] % 2), np.array([1000.0, 0.01])
    covariance = name.split(",")[0]

    def family(units):
        if "known mean" in name:
            return nm.Gaussian(covariance, known_mean=[0.5, 1.0] * units)
        if "known covariance" in name:
            return nm.Gaussian(covariance, known_covariance=0.3 * (units**2 if covariance == "diagonal" else np.diag(units**2)))
        return nm.Gaussian(covariance)

    draws = []
    for units in (np.ones(2), factor):
        draws.append(nm.Model(data=y * units, family=family(units)).fit(**RUN).draws["labels"])
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("name", FORMS)
def test_a_saved_family_is_made_again(name, tmp_path):
    family, _ = form(name, 2)
    fit = nm.Model(data=data_set(20, 2), family=family).fit(**RUN)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    np.testing.assert_array_equal(again.extend(10).draws["log_joint"], fit.extend(10).draws["log_joint"])
    assert str(again.model) == str(fit.model)


def test_families_that_cannot_skip_missing_values_are_refused():
    class Careless(nm.Gaussian):
        takes_missing = False

    with pytest.raises(ValueError, match="Careless has no way with missing values, and response 'b' has some; use missing='drop'"):
        nm.Model("a + b + c ~ 1", with_gaps().assign(a=1.0 * np.arange(40)), family=Careless(), missing="marginalize")
