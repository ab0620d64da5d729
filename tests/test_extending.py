"""Plugged in from outside the package: a prior of partitions, the mixture of finite mixtures (Miller & Harrison 2018)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact.enumeration import partition_posterior, partitions, total_variation
from matplotlib.figure import Figure
from scipy.special import gammaln, logsumexp
from support.finite_mixtures import FAMILY, Mixtures, Y, log_eppf, log_marginal

import nrmmix as nm
from nrmmix import extending
from nrmmix.common import registry as plugins
from nrmmix.model.prior_predictive import simulate_partitions
from nrmmix.plots import kinds
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of
from nrmmix.report.html import reproduce


class WithMeasure(Mixtures):
    def draw_weights(self, sizes, rng):
        terms = self.log_terms(sizes.sum(), len(sizes))
        k = rng.choice(len(self._k), p=np.exp(terms - logsumexp(terms))) + 1
        return rng.gamma(sizes + self.gamma), rng.gamma(self.gamma, size=k - len(sizes)), 0.0


def model(prior):
    return nm.Model(data=Y[:, None], prior=prior, family=nm.Gaussian(**FAMILY))


def test_partition_posterior():
    fit = model(Mixtures(0.7)).fit(draws=20_000, tune=200, chains=16, rng=1)
    distance, limit = total_variation(partition_posterior(6, log_eppf, log_marginal), fit.draws["labels"])
    assert limit < 0.02, "too few draws to tell"
    assert distance < limit
    wrong, _ = total_variation(partition_posterior(6, lambda s: log_eppf(s, 1.4), log_marginal), fit.draws["labels"])
    assert wrong > 2 * limit, "another gamma would pass"


def test_log_joint_and_weights():
    fitted = model(Mixtures(0.7))
    for labels in list(partitions(6))[::29]:
        blocks = [[i for i in range(6) if labels[i] == c] for c in range(max(labels) + 1)]
        wanted = log_eppf([len(b) for b in blocks]) + sum(map(log_marginal, blocks))
        assert fitted.log_joint(labels) == pytest.approx(wanted, abs=1e-8)
    fit = fitted.fit(draws=15, tune=20, chains=2, rng=2)
    covariates = CovariateWeights(fit.model, prediction_rows(fit.model, None))
    states = states_of(fit.posterior, None)
    for state, labels in zip(states, states.partitions(), strict=True):
        sizes = np.bincount(labels).tolist()
        longer = [[*sizes[:k], sizes[k] + 1, *sizes[k + 1 :]] for k in range(len(sizes))] + [[*sizes, 1]]
        wanted = np.exp([log_eppf(s) - log_eppf(sizes) for s in longer])
        np.testing.assert_allclose(state.weights(covariates)[0], wanted, atol=1e-8)
    assert np.isfinite(fit.log_density().to_numpy()).all()
    assert fit.partition().labels.shape == (6,)
    assert list(fit.diagnostics().index) == ["n_clusters", "log_joint", "mass", "sigma"] and "sigma" not in set(fit.tidy()["term"])
    assert "Mixtures(sigma = -0.7) (mixture of finite mixtures)" in str(fitted)
    assert "Mixtures" in str(fit.summary())


@pytest.mark.nightly
def test_what_the_prior_says():
    fitted = model(Mixtures(0.7))
    law = np.zeros(6)
    for labels in partitions(6):
        law[max(labels)] += math.exp(log_eppf(np.bincount(labels)))
    np.testing.assert_allclose(fitted.prior_n_clusters(), law, atol=1e-8)
    drawn = np.array([labels for labels, _, _ in simulate_partitions(fitted, 16_000, np.random.SeedSequence(3))])
    distance, limit = total_variation(partition_posterior(6, log_eppf, lambda b: 0.0), drawn.reshape(16, -1, 6))
    assert limit < 0.05, "too few draws to tell"
    assert distance < limit
    assert fitted.prior_predictive(draws=3, rng=1).shape == (18, 1)


def test_bands_need_the_random_measure():
    fit = model(Mixtures(0.7)).fit(draws=15, tune=20, chains=2, rng=2)
    for draw in (fit.predict, fit.simulate):
        with pytest.raises(ValueError, match=r"Mixtures has no method draw_weights.*log_density"):
            draw()
    assert fit.predict(Y[:2, None], kind="cluster").shape == (2, 2)

    fit = model(WithMeasure(0.7)).fit(draws=150, tune=100, chains=4, rng=2)
    table = fit.predict(kind="density", at=[0.0, 1.0], draws=400)
    assert (table["lower"] < table["estimate"]).all() and (table["estimate"] < table["upper"]).all()
    assert fit.simulate(draws=2, rng=1).shape == (12, 1)
    states, gaps, covariates = states_of(fit.posterior, None), [], CovariateWeights(fit.model, prediction_rows(fit.model, None))
    for seed, state in zip(np.random.SeedSequence(5).spawn(len(states)), states, strict=True):
        atoms = state.measure(seed)
        share = atoms.shares(covariates)[0][0]
        gaps.append(share[0] - state.weights(covariates)[0, 0])
        assert len(share) >= state.n_components - 1
    assert abs(np.mean(gaps)) < 4.5 * np.std(gaps) / math.sqrt(len(gaps))

    class Negative(Mixtures):
        def draw_weights(self, sizes, rng):
            return -np.ones(len(sizes)), [], 0.0

    with pytest.raises(ValueError, match=r"Negative\.draw_weights must give weights of the"):
        model(Negative(0.7)).fit(draws=5, tune=20, chains=1, rng=2).predict()


def test_tables_that_are_none_are_refused():
    def prior(log_v, sigma=-0.7):
        return type("Own", (nm.GibbsType,), {"log_v": lambda self, n: log_v(n)})(sigma)

    right = Mixtures(0.7).log_v
    for wrong, message in (
        (lambda n: right(n)[:-1], r"Own.log_v\(6\) must have the shape \(7,\)"),
        (lambda n: right(n) + 0.01, r"Own: log_v\(1\) must have 0 at index 1"),
        (lambda n: right(n) + 0.01 * n, "fails at n = 6, k = 1"),
        (lambda n: np.full(n + 1, np.nan), "must be finite from k = 1 up to"),
        (lambda n: np.full(n + 1, -np.inf), "must be finite from k = 1 up to"),
    ):
        with pytest.raises(ValueError, match=message):
            model(prior(wrong))
    with pytest.raises(ValueError, match=r"with sigma = 0.2"):
        model(prior(right, 0.2))
    for sigma in (1.0, "a", math.nan, None):
        with pytest.raises(ValueError, match="Own: sigma must be a finite number less than 1"):
            prior(right, sigma)
    with pytest.raises(NotImplementedError, match=r"needs the method log_v\(n\)"):
        model(type("Own", (nm.GibbsType,), {})(0.2))
    with pytest.raises(ValueError, match="Mixtures is a prior of partitions, for mixtures"):
        nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle(), prior=Mixtures(0.7))
    with pytest.raises(ValueError, match="unknown hyperparameter 'sigma'"):
        model(Mixtures(0.7)).log_joint([0] * 6, sigma=0.2)


def test_two_components_at_most():
    """Minus infinity beyond the most clusters possible: the finite mixture of two components, by its table."""

    class Two(nm.GibbsType):
        def __init__(self):
            super().__init__(sigma=-0.5)

        def log_v(self, n):
            k = np.arange(n + 1)
            with np.errstate(divide="ignore"):
                steps = np.log(np.maximum(1.0 - 0.5 * k, 0.0))
            return np.concatenate([[0.0], np.cumsum([0.0, *steps[1:n]])]) - gammaln(1.0 + n)

    fit = model(Two()).fit(draws=200, tune=50, chains=2, rng=1)
    other = model(nm.FiniteMixture(2)).fit(draws=200, tune=50, chains=2, rng=1)
    assert (fit.draws["labels"] == other.draws["labels"]).all() and fit.draws["n_clusters"].max() == 2
    np.testing.assert_allclose(fit.draws["log_joint"], other.draws["log_joint"])
    np.testing.assert_allclose(fit.log_density(), other.log_density())
    np.testing.assert_allclose(model(Two()).prior_n_clusters(), model(nm.FiniteMixture(2)).prior_n_clusters())
    a, b = (list(simulate_partitions(model(p), 50, np.random.SeedSequence(3))) for p in (Two(), nm.FiniteMixture(2)))
    assert all((x[0] == y[0]).all() for x, y in zip(a, b, strict=True))


@pytest.fixture
def registry():
    """What is registered within a test is forgotten after it."""
    before = dict(plugins.PLUGINS)
    yield
    plugins.PLUGINS.clear()
    plugins.PLUGINS.update(before)


def test_saving(tmp_path, registry):
    fit = model(WithMeasure(0.7, 2.0)).fit(draws=20, tune=20, chains=2, rng=2)
    with pytest.raises(TypeError, match=r"WithMeasure.*registered by nm\.register"):
        fit.save(tmp_path / "fit.npz")
    assert "prior=WithMeasure(...)," in reproduce(fit)
    nm.register(WithMeasure)
    path = fit.save(tmp_path / "fit.npz")
    assert "prior=WithMeasure(gamma=0.7, rate=2.0)," in reproduce(fit)
    again = nm.load(path)
    assert again.model.prior.rate == 2.0
    assert again.predict().equals(fit.predict())
    assert (again.extend(10).draws["labels"] == fit.extend(10).draws["labels"]).all()
    plugins.PLUGINS.pop("WithMeasure")
    with pytest.raises(ValueError, match=r"cannot be read: .*'WithMeasure', which is not known here.*nm\.register\(WithMeasure\)"):
        nm.load(path)


def test_registering_what_is_no_class_of_ones_own(registry):
    for wrong, message in (
        ((Mixtures(1.0), ("gamma",)), "a class is needed"),
        ((type("NGGP", (Mixtures,), {}), ("gamma",)), "give the class another name"),
        ((Mixtures, "gamma"), "arguments must be a tuple of names"),
        ((Mixtures, ("alpha",)), "Mixtures has no argument 'alpha'; its arguments are gamma, rate"),
        ((type("Any", (Mixtures,), {"__init__": lambda self, *rest: None}),), r"Any: the argument \*rest has no name of its own"),
        ((type("Odd", (), {"role": "colour"}),), "Odd.role must be one of 'hyperprior', 'prior'"),
    ):
        with pytest.raises(ValueError, match=message):
            nm.register(*wrong)
    nm.register(Mixtures, ("gamma", "rate"))
    nm.register(type("Mixtures", (Mixtures,), {}), ("gamma",))  # defined anew
    assert [one.arguments for one in plugins.plugins("prior") if one.made.__name__ == "Mixtures"] == [("gamma",)]


def test_an_argument_without_an_attribute(registry, tmp_path):
    @nm.register
    class Forgetful(Mixtures):
        def __init__(self, gamma, colour="red"):
            super().__init__(gamma)

    fit = model(Forgetful(0.7)).fit(draws=5, tune=5, chains=1, rng=2)
    with pytest.raises(TypeError, match="has the argument 'colour', and the object no attribute of that name"):
        fit.save(tmp_path / "fit.npz")


# ---- a covariate kernel


@extending.entry(extending.COVARIATE_T)
def exponential(distance, width, log_K):
    for g in range(log_K.shape[0]):
        for p in range(log_K.shape[1]):
            log_K[g, p] = 0.0
            for j in range(distance.shape[0]):
                log_K[g, p] -= distance[j, g, p] / width[j]
    return extending.DONE


class AbsoluteExponential(extending.CovariateKernel):
    entry = exponential
    formula = "K(x, mu) = exp(-d / width)"


def test_a_covariate_kernel(registry, tmp_path):
    nm.register(AbsoluteExponential)
    data = nm.datasets.load_mcycle().iloc[::3]
    fit = nm.fit("accel_g ~ times_ms", data, kernel=AbsoluteExponential(nm.LogNormal(-2, 1)), draws=20, tune=30, chains=2, rng=1)
    np.testing.assert_allclose(fit.model.kernel.log_kernel(np.array([[[0.1, 0.4]]]), [0.2]), [[-0.5, -2.0]])
    assert "AbsoluteExponential(width ~ LogNormal(-2, 1)): K(x, mu) = exp(-d / width)" in str(fit.model)
    assert np.ptp(fit.draws["width"]) > 0
    # the curve has its dip after the impact, as by the kernels of the package
    dip = fit.predict({"times_ms": [5.0, 20.0]})["estimate"]
    assert dip.iloc[1] < dip.iloc[0] - 40
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert isinstance(again.model.kernel, AbsoluteExponential) and again.predict().equals(fit.predict())
    assert "kernel=AbsoluteExponential(width=nm.LogNormal(mu=-2.0, sd=1.0), scale='unit')," in reproduce(fit)


# ---- a picture


def test_a_picture(monkeypatch):
    monkeypatch.setattr(kinds, "KINDS", dict(kinds.KINDS))
    monkeypatch.setattr(nm.plots, "KINDS", kinds.KINDS)

    @extending.kind(lambda model: "needs a mixture" if model.is_regression else None, "sizes of the clusters")
    def sizes(fit, ax=None, *, largest=5):
        """Sizes of the clusters of the last draw."""
        ax.bar(range(largest), np.sort(np.bincount(fit.draws["labels"][-1, -1], minlength=largest))[::-1][:largest])
        return ax

    fit = model(nm.DirichletProcess(1.0)).fit(draws=5, tune=5, chains=1, rng=1)
    assert nm.plots.available(fit.model)[-1] == "sizes" and "density" in nm.plots.available(fit.model)
    assert "sizes of the clusters" in kinds.table()
    assert len(fit.plot("sizes", Figure().subplots(), largest=3).patches) == 3
    with pytest.raises(ValueError, match="unknown option of plot 'sizes' 'large'; there are 'largest'; did you mean 'largest'"):
        fit.plot("sizes", Figure().subplots(), large=3)
    regression = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle())
    assert "sizes" not in nm.plots.available(regression)
    with pytest.raises(ValueError, match="plot 'sizes' needs a mixture"):
        nm.plots.check(regression, "sizes")


# ---- names


def test_extending_has_what_it_says():
    assert sorted(extending.__all__) == sorted(name for name in vars(extending) if not name.startswith("_"))
    for name in extending.__all__:
        assert f"`{name}`" in extending.__doc__, name
