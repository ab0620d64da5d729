"""Estimators: their own check suite, and that of scikit-learn where it is installed."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from support.cover import by_turns

import nrmmix as nm
from nrmmix.posterior.predict.densities import log_terms
from nrmmix.posterior.predict.rows import prediction_rows
from nrmmix.posterior.predict.states import states_of
from nrmmix.sklearn import HAS_SKLEARN, NotFittedError, NRMMixture, NRMRegressor

SMALL = {"draws": 30, "tune": 30, "chains": 1, "random_state": 3}
rng = np.random.default_rng(0)
X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(20, 2)) + 8])
Y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=50)


@pytest.fixture(scope="module")
def mixture():
    return NRMMixture(**SMALL).fit(X)


@pytest.fixture(scope="module")
def regressor():
    return NRMRegressor(**SMALL).fit(X, Y)


@pytest.mark.parametrize("dtype", ["object", "category", "string"])
def test_columns_of_text_are_named(dtype):
    table = pd.DataFrame({"a": X[:, 0], "own": pd.Series(["1", "u"] * 25, dtype=dtype)})
    for fit in (lambda: NRMMixture(**SMALL).fit(table), lambda: NRMRegressor(**SMALL).fit(table, Y)):
        with pytest.raises(ValueError, match=r"The column 'own' of X holds 'u'.*OneHotEncoder, or give nm\.fit a formula"):
            fit()
    with pytest.raises(ValueError, match=r"could not convert|no number"):
        NRMRegressor(**SMALL).fit(table[["a"]], table["own"].astype(object))


def test_mixture(mixture):
    assert mixture.n_clusters_ == mixture.labels_.max() + 1 and mixture.n_features_in_ == 2
    assert len(set(mixture.labels_[:30])) == 1 != len(set(mixture.labels_))
    shares = mixture.predict_proba(X)
    assert shares.shape == (50, mixture.n_clusters_) and np.allclose(shares.sum(axis=1), 1)
    assert np.array_equal(mixture.predict(X), shares.argmax(axis=1)) and np.array_equal(mixture.predict(X), mixture.labels_)
    np.testing.assert_array_equal(mixture.score_samples(X), mixture.result_.log_density(X))
    assert mixture.score(X) == pytest.approx(mixture.score_samples(X).mean())
    drawn, labels = mixture.sample(400, random_state=1)
    assert drawn.shape == (400, 2) and abs((labels == mixture.labels_[0]).mean() - 0.6) < 0.15
    assert np.array_equal(NRMMixture(**SMALL).fit_predict(X), mixture.labels_)


def test_samples_without_a_seed_are_new_ones():
    """And a table of one's own that has names is not complained of."""
    table = pd.DataFrame(X, columns=["a", "b"])
    options = {name: value for name, value in SMALL.items() if name != "random_state"}
    free = NRMMixture(**options).fit(table, sample_weight=np.ones(len(table)))
    assert not np.array_equal(free.sample(5)[0], free.sample(5)[0])
    assert np.array_equal(*(free.sample(5, random_state=np.random.RandomState(3))[0] for _ in range(2)))
    seeded = NRMMixture(**options, random_state=4).fit(table)
    assert np.array_equal(seeded.sample(5)[0], seeded.sample(5)[0])


def test_probabilities_are_those_of_predict(mixture):
    table = mixture.result_.predict(X, "cluster")
    known = table["cluster"].to_numpy() >= 0
    assert np.array_equal(table["cluster"].to_numpy()[known], mixture.predict(X)[known])


def test_memberships_of_rows_far_from_all_clusters():
    """Finite, and as logarithms say: probabilities of a known cluster vanish beside that of a new one."""
    groups = np.vstack([rng.normal(size=(40, 10)), rng.normal(size=(40, 10)) + 6])
    for family in ("diagonal", "gaussian", nm.SemiconjugateGaussian(), nm.Gaussian(known_covariance=np.eye(10))):
        fit = NRMMixture(family, **SMALL).fit(groups)
        for far in (100.0, 1e3, 1e6, -1e50, 1e90):
            rows = np.vstack([np.full((1, 10), far), groups[:1], np.r_[far, np.zeros(9)][None]])
            p = fit.predict_proba(rows)
            assert np.isfinite(p).all() and np.allclose(p.sum(axis=1), 1), (family, far)
            states = states_of(fit.result_.posterior, 500)
            logs = [terms[:, :-1] for terms in log_terms(states, prediction_rows(fit.result_.model, rows), rows)]
            top = np.max([terms.max(axis=1) for terms in logs], axis=0)[:, None]  # in whose digits smaller differences are lost
            logs = [terms - top for terms in logs]
            shares = [np.equal.outer(np.arange(terms.shape[1]), labels) @ np.eye(fit.n_clusters_)[fit.labels_]
                      for terms, labels in zip(logs, states.partitions(), strict=True)]
            with np.errstate(divide="ignore"):
                each = [terms[:, :, None] + np.log(s / s.sum(axis=1, keepdims=True)) for terms, s in zip(logs, shares, strict=True)]
            total = logsumexp(np.concatenate(each, axis=1), axis=1)
            np.testing.assert_allclose(p, np.exp(total - logsumexp(total, axis=1, keepdims=True)), rtol=1e-9, atol=1e-300)
    with pytest.raises(ValueError, match="prior standard deviations out"):
        fit.predict(np.full((1, 10), 1e150))


def test_features_that_say_nothing_are_left_out():
    awkward = np.column_stack([np.zeros(50), X[:, 0], 5 + 1e-14 * X[:, 1], X[:, 0], X[:, 1]])
    with pytest.warns(UserWarning, match="of 5 features, counted from 0, 0, 2 do not vary and 3 do but repeat others; they are left out"):
        fit = NRMMixture(**SMALL).fit(awkward)
    plain = NRMMixture(**SMALL).fit(X)
    assert np.array_equal(fit.labels_, plain.labels_) and fit.n_features_in_ == 5
    assert fit.result_.model.frame.response_names == ("y2", "y5")
    np.testing.assert_array_equal(fit.predict_proba(awkward), plain.predict_proba(X))
    np.testing.assert_array_equal(fit.score_samples(awkward), plain.score_samples(X))
    drawn, labels = fit.sample(7, random_state=2)
    assert drawn.shape == (7, 5) and (drawn[:, 0] == 0).all() and np.array_equal(drawn[:, 1], drawn[:, 3])
    assert np.array_equal(drawn[:, [1, 4]], plain.sample(7, random_state=2)[0]) and labels.shape == (7,)
    with pytest.raises(ValueError, match="No feature of X varies"):
        NRMMixture(**SMALL).fit(np.ones((5, 2)))


def test_features_that_repeat_others_are_named_with_these():
    repeated = np.column_stack([X[:, 0], X[:, 1], X[:, 0]])
    with pytest.warns(UserWarning, match=r"^of 3 features, counted from 0, 2 repeats 0; it is left out\.$"):
        NRMRegressor(draws=5, tune=5, chains=1).fit(repeated, Y)
    with pytest.warns(UserWarning, match=r"^of 3 features 'b' repeats 'a', 'c' repeats 'a'; they are left out\.$"):
        NRMMixture(draws=5, tune=5, chains=1).fit(pd.DataFrame(X[:, [0, 0, 0]], columns=["a", "b", "c"]))


WITHOUT_DRAWS = ["memoized_vb", "vb", "stochastic_vb", "ibhc", "bhc", nm.VB(passes=20), nm.IBHC()]


@pytest.mark.parametrize("method", WITHOUT_DRAWS, ids=str)
def test_every_default_suits_every_method(method):
    fit = NRMMixture(method=method, random_state=1).fit(X)
    assert fit.predict_proba(X).shape == (50, fit.n_clusters_) and fit.n_clusters_ >= 2 and np.isfinite(fit.score_samples(X)).all()
    for name, value in (("draws", 20), ("tune", 20), ("chains", 1), ("thin", 3), ("cores", 1)):
        with pytest.raises(ValueError, match=name):
            NRMMixture(method=method, **{name: value}).fit(X)


@pytest.mark.parametrize("method", ["gibbs", "slice", [nm.Gibbs()]], ids=str)
def test_chains_take_what_belongs_to_them(method):
    assert NRMMixture(method=method, **SMALL).fit(X).result_.draws.n_draws == 30


@pytest.mark.parametrize("method", by_turns(["vb", "memoized_vb", nm.VB(starts=2)], 3), ids=str)
def test_regressors_by_variational_inference(method):
    assert NRMRegressor(method=method, random_state=1).fit(X, Y).score(X, Y) > 0.5


def test_a_finite_prior_has_its_own_method():
    assert NRMMixture(prior=nm.FiniteMixture(4), method="blocked", **SMALL).fit(X).n_clusters_ >= 2


def test_names_of_a_table_are_those_of_messages_and_results():
    table = pd.DataFrame({"height": X[:, 0], "my weight": X[:, 1], "same": 3.0, "again": X[:, 0], "log": X[:, 0] ** 2})
    with pytest.warns(UserWarning, match="of 5 features 'same' do not vary and 'again' do but repeat others; they are left out"):
        mixture = NRMMixture(**SMALL).fit(table)
    assert mixture.result_.model.frame.response_names == ("height", "my weight", "log")
    assert list(mixture.feature_names_in_) == list(table.columns) and np.array_equal(mixture.predict(table), mixture.labels_)
    with pytest.warns(UserWarning, match="'same' do not vary and 'again'"):
        regressor = NRMRegressor(**SMALL).fit(table, Y)
    assert regressor.result_.model.frame.covariate_names == ("height", "my weight", "log") and regressor.predict(table).shape == (50,)
    own = NRMRegressor(**SMALL).fit(pd.DataFrame({"y": X[:, 0], "c": X[:, 1]}), Y)
    assert own.result_.model.frame.response_names == ("response y",)
    counts = pd.DataFrame({"visits": np.r_[np.zeros(30), np.linspace(1, 2, 20)]})
    with pytest.warns(UserWarning, match="'visits' are exactly 0"):
        NRMMixture(**SMALL).fit(counts)
    with pytest.raises(ValueError, match="feature names should match"):
        mixture.predict(table[table.columns[::-1]])


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.* rows are the same as others in all that the formula names:UserWarning")
def test_weights_count_rows():
    often = np.random.default_rng(2).integers(0, 4, 50)
    rows = np.repeat(np.arange(50), often)
    weighed, repeated = NRMMixture(**SMALL).fit(X, sample_weight=often), NRMMixture(**SMALL).fit(X[rows])
    np.testing.assert_array_equal(weighed.score_samples(X), repeated.score_samples(X))
    assert weighed.labels_.shape == (50,) and np.array_equal(weighed.labels_, repeated.predict(X))
    one = NRMRegressor(**SMALL).fit(X, Y, sample_weight=often.tolist())
    np.testing.assert_array_equal(one.predict(X), NRMRegressor(**SMALL).fit(X[rows], Y[rows]).predict(X))
    halves = NRMMixture(method="vb", random_state=1).fit(X, sample_weight=often / 2)
    assert halves.result_.model.frame.size == often.sum() / 2
    assert np.array_equal(NRMMixture(**SMALL).fit(X, sample_weight=np.ones(50)).labels_, NRMMixture(**SMALL).fit(X).labels_)
    for bad, what in (
        (often - 1.0, "'sample_weight' is -1"), (often[:3], "there are 3 for 50 rows"), (0 * often, "0 in all rows"),
        (often / 2, "need whole numbers"), (np.ones((50, 2)), "one number for each row"), (["a"] * 50, "'sample_weight' holds"),
    ):
        with pytest.raises(ValueError, match=what):
            NRMMixture(**SMALL).fit(X, sample_weight=bad)


@pytest.mark.nightly
def test_the_module_is_an_attribute_of_the_package():
    code = "import sys, nrmmix as nm; assert 'sklearn' not in sys.modules; print(nm.sklearn.NRMMixture.__name__, 'sklearn' in dir(nm))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == ["NRMMixture", "True"]


def test_words_for_covariances():
    assert nm.Gaussian("diag").covariance == "diagonal" == NRMMixture("diag", **SMALL).fit(X).result_.model.family.covariance
    of_mclust = {"VVV": "full", "EEE": "tied", "VVI": "diagonal", "VII": "spherical"}
    assert [nm.Gaussian(word).covariance for word in of_mclust] == list(of_mclust.values())
    for word in ("tied", "spherical"):
        assert NRMMixture(word, **SMALL).fit(X).result_.model.family.covariance == word


def test_regressor(regressor):
    assert regressor.score(X, Y) > 0.5 and regressor.predict(X).shape == (50,)
    low, middle, high = regressor.predict_quantile(X, (0.05, 0.5, 0.95)).T
    assert (low < middle).all() and (middle < high).all() and ((Y > low) & (Y < high)).mean() > 0.6
    assert regressor.sample(X[:4], 3, random_state=1).shape == (3, 4) and regressor.score_samples(X, Y).shape == (50,)
    assert np.array_equal(regressor.score_samples(X), regressor.score_samples(X, regressor.predict(X)))
    both = NRMRegressor(**SMALL).fit(X, np.column_stack([Y, X[:, 1]]))
    assert both.predict(X).shape == (50, 2) and both.predict_quantile(X[:3]).shape == (3, 2, 3) and both.sample(X[:4]).shape == (1, 4, 2)
    awkward = np.column_stack([X, X[:, 0], np.ones(50), X.sum(axis=1)])
    with pytest.warns(UserWarning, match="of 5 features, counted from 0, 3 do not vary and 2 do but repeat others; they are left out"):
        fit = NRMRegressor(**SMALL).fit(awkward, Y)
    assert fit.n_features_in_ == 5 and fit.result_.model.formula == "y ~ x0 + x1 + x4" and np.isfinite(fit.predict(awkward)).all()
    with pytest.warns(UserWarning, match="0 do not vary"):
        fit = NRMRegressor(**SMALL).fit(np.ones((50, 1)), Y)
    assert fit.predict([[1.0]])[0] == pytest.approx(Y.mean(), abs=0.3)


@pytest.mark.parametrize("made", by_turns([NRMMixture, NRMRegressor], 2, 1))
def test_protocol(made):
    """What scikit-learn asks of every estimator."""
    one = made(**SMALL)
    before = one.get_params()
    assert before["draws"] == 30 and made(**before).get_params() == before
    assert one.set_params(draws=20) is one and one.draws == 20
    with pytest.raises(ValueError, match="colour"):
        one.set_params(colour=3)
    with pytest.raises(NotFittedError):
        one.predict(X)
    data, target = X.copy(), Y.copy()
    assert one.fit(data, target) is one and np.array_equal(data, X) and np.array_equal(target, Y)
    assert one.get_params() == before | {"draws": 20}, "fitting leaves parameters alone"
    assert all(name.startswith("_") or name.endswith("_") for name in vars(one).keys() - before.keys())
    again = pickle.loads(pickle.dumps(one))
    assert np.array_equal(again.predict(X), one.predict(X))
    apart = np.concatenate([one.predict(row[None]) for row in X[:5]])
    np.testing.assert_allclose(apart, one.predict(X[:5]), rtol=1e-7)
    assert np.array_equal(made(**SMALL).set_params(draws=20).fit(X.tolist(), Y.tolist()).predict(X), one.predict(X))
    assert np.array_equal(one.predict(X), one.predict(np.asfortranarray(X)))
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2 features"):
        one.predict(np.ones((2, 3)))


BAD = {
    "NaN": (np.where(np.arange(50)[:, None] == 3, np.nan, X), "NaN"),
    "infinity": (np.where(np.arange(50)[:, None] == 3, np.inf, X), "infinity"),
    "strings": (np.array([["a", "b"]] * 50), "number|could not convert|string"),
    "one sample": (X[:1], "n_samples=1|1 sample|minimum of 2"),
    "no sample": (X[:0], "0 sample"),
    "no feature": (X[:, :0], r"0 feature"),
    "one dimension": (X[:, 0], "Reshape your data|2D array|2 dimensions"),
    "complex": (X * 1j, "Complex data not supported"),
}


@pytest.mark.parametrize("made", [NRMMixture, NRMRegressor])
@pytest.mark.parametrize("name", BAD)
def test_bad_input(made, name):
    data, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        made(**SMALL).fit(data, Y[: len(data)])


def test_more_bad_input(mixture):
    from scipy.sparse import csr_array

    with pytest.raises((TypeError, ValueError), match=r"(?i)sparse"):
        mixture.predict(csr_array(X))
    with pytest.raises(ValueError):
        NRMRegressor(**SMALL).fit(X, Y[:-1])
    with pytest.raises(ValueError, match="requires y"):
        NRMRegressor(**SMALL).fit(X, None)
    assert NRMMixture(**SMALL).fit(X[:, :1]).predict_proba(X[:, :1]).shape[0] == 50, "one feature will do"
    legacy = np.random.RandomState(3)
    assert NRMMixture(**SMALL).set_params(random_state=legacy).fit(X).n_clusters_ >= 1


@pytest.mark.parametrize("family", [nm.Categorical(), "categorical", {"y": nm.Categorical()}], ids=str)
@pytest.mark.parametrize("y", [np.arange(50) % 5, np.repeat(["a", "b"], 25)], ids=["codes", "text"])
def test_regressors_refuse_categories(family, y):
    with pytest.raises(ValueError, match=r"family of NRMRegressor must be one of numbers, not nm\.Categorical.*take nm\.fit\(.*predict"):
        NRMRegressor(family, draws=5, tune=5, chains=1).fit(X, y)


if HAS_SKLEARN:
    from sklearn.utils.estimator_checks import parametrize_with_checks

    # which shuffles the rows: chains go by their order, and 30 draws are not the posterior
    ORDER = {"check_sample_weight_equivalence_on_dense_data": "draws follow the order of the rows"}

    CHECKS = parametrize_with_checks([NRMMixture(**SMALL), NRMRegressor(**SMALL)], expected_failed_checks=lambda estimator: ORDER)

    def of_one(cases):
        """Cases, each check by day for one estimator alone: in turns the first and the last that has it."""
        made = [case if hasattr(case, "marks") else pytest.param(*case) for case in cases]
        which = {}
        for i, case in enumerate(made):
            which.setdefault(CHECKS.kwargs["ids"](case.values[1]), []).append(i)
        for turn, where in enumerate(which.values()):
            for i in {*where} - {where[-(turn % 2)]}:
                made[i] = pytest.param(*made[i].values, marks=[*made[i].marks, pytest.mark.nightly])
        return made

    @pytest.mark.parametrize(CHECKS.args[0], of_one(CHECKS.args[1]), **CHECKS.kwargs)
    def test_checks_of_scikit_learn(estimator, check):
        before = np.random.get_state()  # noqa: NPY002
        check(estimator)
        np.random.set_state(before)  # noqa: NPY002  it is a check that draws from it

    def test_pipelines_and_searches():
        from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        search = GridSearchCV(make_pipeline(StandardScaler(), NRMMixture(**SMALL)), {"nrmmixture__family": ["gaussian", "diagonal"]}, cv=2)
        assert search.fit(X).best_params_["nrmmixture__family"] in ("gaussian", "diagonal") and search.predict(X).shape == (50,)
        assert cross_val_score(NRMRegressor(**SMALL), X, Y, cv=KFold(2, shuffle=True, random_state=1)).mean() > 0.3
else:
    @pytest.mark.skip(reason="scikit-learn is not installed")
    def test_checks_of_scikit_learn():
        """The estimator checks of scikit-learn."""


def test_models_and_fits_can_be_pickled_and_shown():
    fit = nm.fit("waiting_min ~ eruptions_min", nm.datasets.load_faithful(), draws=9, tune=9, chains=1, rng=1)
    again = pickle.loads(pickle.dumps(fit))
    assert again.predict({"eruptions_min": [3.0]}, rng=1).equals(fit.predict({"eruptions_min": [3.0]}, rng=1))
    assert fit.model._repr_html_().startswith("<pre>Kernel-NRM")
    assert "&lt;b&gt;" in nm.Model(data={"<b>": X[:, 0]})._repr_html_(), "names are escaped"


def test_point_masses_of_a_response_are_said_unless_it_is_whole_numbers():
    rng = np.random.default_rng(0)
    X = rng.random((200, 1))
    run = {"draws": 5, "tune": 5, "chains": 1, "random_state": 1}
    with pytest.warns(UserWarning, match="are exactly 0: a continuous family has no point masses"):
        NRMRegressor(**run).fit(X, np.where(rng.random(200) < 0.7, 0.0, rng.gamma(2, 2, 200)))
    NRMRegressor(**run).fit(X, rng.integers(0, 3, 200))
