"""Wrong words get the right one named; names and numbers do where objects do; dots in formulas."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.common.messages import did_you_mean, guided, nearest
from nrmmix.common.words import ARGUMENTS, ATTRIBUTES, OF_CHAINS, VALUES
from nrmmix.sklearn import NRMMixture, NRMRegressor

SMALL = {"draws": 5, "tune": 5, "chains": 1, "rng": 1}
X = np.arange(30.0)
DATA = pd.DataFrame({"y": np.random.default_rng(0).normal(size=30), "k": X % 4, "name.with.dots": X, "two words": X**2})


@pytest.fixture(scope="module")
def fit():
    return nm.fit("y ~ 1", DATA, prior="dp", family="gaussian", **SMALL)


@pytest.mark.parametrize(("call", "right"), [
    (lambda fit: nm.fit("y ~ 1", DATA, seed=1), "fit() has no argument 'seed'; give rng="),
    (lambda fit: fit.model.fit(random_state=1), "fit() has no argument 'random_state'; give rng="),
    (lambda fit: nm.fit("y ~ 1", DATA, burnin=100), "give tune="),
    (lambda fit: nm.fit("y ~ 1", DATA, n_iter=100), "tune + draws * thin"),
    (lambda fit: nm.Model("y ~ 1", DATA, n_components=3), "Model() has no argument 'n_components'; give prior="),
    (lambda fit: fit.predict(level=0.8), "predict() has no argument 'level'; give interval="),
    (lambda fit: fit.predict(new_data=DATA), "give newdata="),
    (lambda fit: fit.simulate(seed=3), "give rng="),
    (lambda fit: fit.partition(seed=3), "give rng="),
    (lambda fit: fit.impute(n_imputations=3), "give draws="),
    (lambda fit: nm.DirichletProcess(alpha=1.0), "DirichletProcess() has no argument 'alpha'; give mass="),
    (lambda fit: nm.PitmanYor(discount=0.2), "give sigma="),
    (lambda fit: nm.FiniteMixture(n_components=3), "give components="),
    (lambda fit: nm.fit("y ~ 1", DATA, mass=1.0), "give prior= (the total mass is that of the prior: nm.DirichletProcess(mass))"),
    (lambda fit: nm.Model("y ~ k", DATA, width=0.1), "give kernel= (such as nm.SquaredExponential(width))"),
    (lambda fit: nm.fit("y ~ 1", DATA, covariance="diagonal"), "give family="),
    (lambda fit: nm.SquaredExponential(lengthscale=0.1), "SquaredExponential() has no argument 'lengthscale'; give width="),
    (lambda fit: nm.Categorical(alpha=1.0), "give concentration="),
    (lambda fit: fit.predict(alpha=0.1), "give interval="),
    (lambda fit: fit.predict(data=DATA), "give newdata="),
    (lambda fit: nm.compare(fit, data=DATA), "give newdata="),
    (lambda fit: nm.mass_for_clusters(3, n=9, alpha=1.0), "mass_for_clusters() has no argument 'alpha'"),
    (lambda fit: NRMMixture().fit(np.eye(3), weights=[1, 1, 2]), "fit() has no argument 'weights'; give sample_weight="),
    (lambda fit: NRMRegressor().predict(np.eye(3), return_std=True), "bands are those of result_.predict()"),
    (lambda fit: fit.predict(intervall=0.8), "did you mean 'interval'?"),
    (lambda fit: fit.partition(k=2), "give max_clusters= (the most clusters that the estimate may have)."),
    (lambda fit: fit.predict(colour="red"), "there are newdata, kind, at, q"),
])
def test_wrong_words(fit, call, right):
    with pytest.raises(TypeError) as caught:
        call(fit)
    assert right in str(caught.value)


@pytest.mark.parametrize(("call", "right"), [
    (lambda fit: fit.predict(kind="pdf"), 'kind="density" has densities'),
    (lambda fit: fit.predict(kind="PDF"), 'kind="density" has densities'),
    (lambda fit: fit.predict(kind="median"), 'kind="quantile", q=0.5'),
    (lambda fit: fit.predict(kind="proba"), 'kind="membership"'),
    (lambda fit: fit.predict(kind="meen"), "did you mean 'mean'?"),
    (lambda fit: fit.predict(kind="mean "), "did you mean 'mean'?"),
    (lambda fit: fit.plot("trace "), "did you mean 'trace'?"),
    (lambda fit: fit.plot("Q('trace')"), "unknown kind of plot"),
    (lambda fit: nm.fit("y ~ 1", DATA, method="nuts"), "leave method out"),
    (lambda fit: nm.fit("y ~ 1", DATA, method="advi"), 'variational inference is "vb"'),
    (lambda fit: nm.Model("y ~ 1", DATA, family="student"), 'give "gaussian"'),
    (lambda fit: nm.Model("k ~ 1", DATA, family="negbinomial"), 'give "poisson"'),
    (lambda fit: nm.Model("y ~ k", DATA, kernel="rbf"), 'give "se"'),
    (lambda fit: nm.Model("y ~ 1", DATA, prior="pitman-yor"), 'give "py"'),
])
def test_wrong_values(fit, call, right):
    with pytest.raises(ValueError) as caught:
        call(fit)
    assert right in str(caught.value)


def test_contrasts_of_a_row_are_refused_in_one_line():
    fit = nm.fit("y ~ k", DATA, **SMALL)
    with pytest.raises(ValueError, match=r"values must be a dict such as {'k': \[a, b\]}, not (?s:.)*") as caught:
        fit.contrasts(DATA.iloc[0])
    assert "\n" not in str(caught.value)


def test_words_for_values_are_none_of_ours():
    from nrmmix.inference.methods import NAMES
    from nrmmix.model.specification import shell_names
    from nrmmix.posterior.predict.tables import KINDS

    for what, words in VALUES.items():
        ours = {"kind": KINDS, "method": NAMES}.get(what) or shell_names(what)
        assert not words.keys() & {*ours} and all(word == word.lower() for word in words)
        for advice in words.values():
            assert all(name in ours for name in re.findall(r'(?:kind=|give |is |rows |or )"(\w+)"', advice)), advice


WORDS_OF_OTHERS = {  # by the end of what is said of nm.fit, Model.fit and the estimators
    "offset": "exposure", "exposure": "exposure", "alpha": "nm.DirichletProcess(mass)",
    "concentration": "nm.DirichletProcess(mass)",
    "covariance_type": 'nm.Gaussian("diagonal")', "G": "nm.FiniteMixture", "standardize": "nothing is to be standardized",
    "subset": "give data=", "censored": "Surv(time, event)", "K": "nm.FiniteMixture", "criterion": "nm.compare",
    "link": "there are no links", "iter": "tune + draws * thin", "nsim": "give draws=",
    "burn_in": "give tune=", "n_jobs": "give cores=", "random_state": "give rng=",
    "cv": "without each fold", "sample_prior": "prior_predictive", "priors": "give prior=", "likelihood": "give family=", "X": "give data=",
    "adapt_delta": "no gradients", "file": "checkpoint=",
}


@pytest.mark.parametrize("name", WORDS_OF_OTHERS)
def test_arguments_of_other_packages(name):
    with pytest.raises(TypeError) as caught:
        nm.fit("y ~ 1", DATA, **{name: 1})
    assert str(caught.value).startswith(f"fit() has no argument {name!r}; ") and WORDS_OF_OTHERS[name] in str(caught.value)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(("call", "said"), [
    (lambda: NRMMixture(n_components=5), "NRMMixture() has no argument 'n_components'; give prior= (the number of components"),
    (lambda: NRMRegressor(seed=5), "NRMRegressor() has no argument 'seed'; give random_state="),
    (lambda: NRMMixture(covariance_type="diag"), 'nm.Gaussian("diagonal")'),
    (lambda: NRMMixture(max_iter=100), "give draws="),
    (lambda: nm.Model("y ~ 1", DATA).fit(n_iter=5), "give draws="),
    (lambda: nm.Model("y ~ 1", DATA).fit(standardize=True), "nothing is to be standardized"),
])
def test_arguments_of_constructors_and_fits(call, said):
    with pytest.raises(TypeError) as caught:
        call()
    assert said in str(caught.value)


def test_guided_constructors_keep_what_scikit_learn_asks_for():
    assert NRMMixture(prior="py").get_params()["prior"] == "py" and "draws" in inspect.signature(NRMMixture).parameters


@pytest.mark.parametrize(("call", "said"), [
    (lambda fit, path: fit.tidy(interval=0.5), "tidy() has no argument 'interval'; it takes none."),
    (lambda fit, path: fit.summary(digits=3), "summary() has no argument 'digits'; it takes none."),
    (lambda fit, path: fit.report(path, foo=3), "report() has no argument 'foo'; there are path."),
    (lambda fit, path: fit.diagnostics("mass"), "diagnostics() has no place for 'mass'; it takes none."),
    (lambda fit, path: fit.loo(3), "loo() has no place for 3; it takes none."),
    (lambda fit, path: fit.clusters(DATA, 3), "clusters() has no place for 3; there are newdata."),
    (lambda fit, path: fit.glance(1), "glance() has no place for 1; it takes none."),
])
def test_arguments_that_results_do_not_take(fit, tmp_path, call, said):
    with pytest.raises(TypeError) as caught:
        call(fit, tmp_path / "a.html")
    assert str(caught.value) == said
    with pytest.raises(ValueError, match=r"out must be the name of a file that ends in \.parquet, \.csv, not 3\."):
        fit.predict(DATA, out=3)


# ---- attributes

@pytest.mark.parametrize(("name", "said"), [
    ("BIC", "nm.compare(a, b)"), ("predict_proba", ".membership(new)"), ("labels_", ".clusters()"), ("means_", ".parameters()"),
    ("posterior_predict", ".simulate()"), ("conditional_effects", '.plot("effects")'),
    ("hypothesis", ".contrasts("),
    ("coef", ".parameters()"), ("params", ".parameters()"), ("waic", "nm.compare(a, b)"), ("rhat", ".diagnostics()"),
    ("traceplot", '.plot("trace")'), ("residuals", ".augment()"), ("predictt", "did you mean 'predict'?"),
    ("draw", "did you mean 'draws'?"),
])
def test_attributes_of_other_packages(fit, name, said):
    with pytest.raises(AttributeError) as caught:
        getattr(fit, name)
    assert str(caught.value).startswith(f"'MCMCResult' object has no attribute {name!r}; ") and said in str(caught.value)
    assert not hasattr(fit, "_" + name) and not hasattr(fit, "colour")


def test_what_is_said_of_attributes_is_there(fit):
    """Every method that a message names is one of fits."""
    for name, said in ATTRIBUTES.items():
        first = re.match(r"(\w+)", said)[1]
        assert first in ("nm", "importance", "extend") or hasattr(fit, first), (name, first)
        assert not hasattr(fit, name) or name in ("similarity",), name


@pytest.mark.parametrize("method", ["vb", "bhc"])
def test_attributes_that_chains_alone_have(fit, method):
    other = fit.model.fit(method, rng=1)
    there = {name for name in OF_CHAINS if hasattr(other, name)}
    assert there == ({"glance"} if method == "vb" else {"draws"}) and all(hasattr(fit, name) for name in OF_CHAINS)
    for name in {*OF_CHAINS} - there:
        with pytest.raises(AttributeError, match=f"object has no attribute '{name}'; .*method=\"gibbs\""):
            getattr(other, name)
    if method == "bhc":
        with pytest.raises(AttributeError, match="no attribute 'update'; chains go on"):
            other.update  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'rhat'; chains have them.*\.summary\(\) says"):
        other.rhat  # noqa: B018
    for again in (copy.deepcopy(other), pickle.loads(pickle.dumps(other))):
        assert not hasattr(again, "extend") and again.n_clusters == other.n_clusters


def test_attributes_of_models_and_estimators(fit):
    for name in ("predict", "summary", "BIC"):
        with pytest.raises(AttributeError, match="fit it first"):
            getattr(fit.model, name)
    with pytest.raises(AttributeError, match="did you mean 'methods'"):
        fit.model.method  # noqa: B018
    estimator = NRMMixture()
    with pytest.raises(AttributeError, match="'means_'; it is not fitted yet"):
        estimator.means_  # noqa: B018
    estimator.result_ = fit
    with pytest.raises(AttributeError, match=r"'means_'; the fit is \.result_: parameters\(\)"):
        estimator.means_  # noqa: B018


def test_errors_within_properties_are_their_own(fit):
    class Broken(type(fit)):
        @property
        def odd(self):
            return self.posterior.nothing_like_it

    broken = Broken.__new__(Broken)
    broken.__dict__ = dict(fit.__dict__)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        broken.odd  # noqa: B018


@pytest.mark.parametrize(("name", "known"), [
    ("censored", ("store", "cores", "every")), ("x", ("y", "z")), ("dose", ("noise", "date")), ("treatment", ("temperature", "statement")),
    ("BIC", ("lib",)), ("", ("a",)), ("weights", ("widths", "lengths")),
])
def test_nothing_far_fetched(name, known):
    assert nearest(name, known) is None and did_you_mean(name, known) == "."


@pytest.mark.parametrize(("name", "known", "found"), [
    ("drwas", ("draws", "tune"), "draws"), ("intervall", ("interval",), "interval"), ("Time_limt", ("time_limit",), "time_limit"),
    ("mycol", ("my col",), "my col"), ("waiting", ("waiting_min", "eruptions_min"), "waiting_min"), ("gausian", ("gaussian",), "gaussian"),
    ("petal_lenght_cm", ("petal_width_cm", "petal_length_cm"), "petal_length_cm"), ("dpp", ("dp", "py"), "dp"),
])
def test_slips(name, known, found):
    assert nearest(name, known) == found


def test_no_word_is_one_of_ours():
    """What is an argument here must not be told to be another."""
    functions = [nm.Model, nm.Model.fit, *(getattr(nm.MCMCResult, name) for name in ("predict", "contrasts", "simulate", "impute"))]
    for function in functions:
        for name in inspect.signature(function).parameters:
            assert name not in [argument for argument, _ in ARGUMENTS.get(name, ())]


def test_arguments_of_fit_are_known_by_name():
    shown, method = inspect.signature(nm.fit).parameters, inspect.signature(nm.Model.fit).parameters
    assert all(shown[name].default == one.default for name, one in method.items() if name != "self")
    assert "draws" in method and "self" in method, "guided functions keep their signature"
    with pytest.raises(TypeError, match="takes any keyword"):
        guided(lambda **named: named)


def test_names_and_numbers_stand_for_objects(fit):
    assert isinstance(fit.model.prior, nm.DirichletProcess) and isinstance(fit.model.family, nm.Gaussian)
    assert nm.Model("y ~ 1", DATA, prior=2).prior.mass == 2.0 and nm.Model("y ~ 1", DATA, prior="py").prior.title.startswith("Pitman")
    model = nm.Model("y + k ~ 1", DATA, family={"y": "diagonal", "k": "poisson"})
    assert isinstance(model.family["k"], nm.Poisson) and model.family["y"].covariance == "diagonal"
    assert isinstance(nm.Model("y ~ k", DATA, kernel="se").kernel, nm.SquaredExponential)


@pytest.mark.parametrize(("options", "message"), [
    ({"prior": "dpp"}, "unknown prior 'dpp'; there are 'dp', .*did you mean 'dp'"),
    ({"prior": "finite"}, r"prior 'finite' needs components; give an object, nm.FiniteMixture\(components=...\)"),
    ({"family": "gausian"}, "did you mean 'gaussian'"),
    ({"kernel": "box"}, r"kernel 'box' needs width; give an object, nm.Box\(width=...\)"),
    ({"prior": True}, "prior must be an object"),
    ({"prior": -1.0}, "mass"),
])
def test_names_that_do_not_do(options, message):
    with pytest.raises(ValueError, match=message):
        nm.Model("y ~ k" if "kernel" in options else "y ~ 1", DATA, **options)


def test_dots_in_formulas():
    for formula in ("name.with.dots ~ 1", "y ~ name.with.dots", "y ~ log(name.with.dots)"):
        with pytest.raises(ValueError, match=r"write Q\('name.with.dots'\)"):
            nm.Model(formula, DATA)
    model = nm.Model("y ~ .", DATA)
    assert list(model.frame.covariate_columns) == ["k", "name.with.dots", "two words"]
    assert nm.Model("y + Q('two words') ~ .", DATA).frame.covariate_names == ("k", "name.with.dots")
    assert nm.Model("y ~ . - k", DATA).frame.covariate_names == ("name.with.dots", "two words")
    with pytest.raises(ValueError, match="every column is a response"):
        nm.Model("y ~ .", DATA[["y"]])
    again = nm.Model("y ~ .", DATA).fit(**SMALL)
    assert again.predict(DATA.head(3)).shape == (3, 3)
    with pytest.raises(ValueError, match="not allowed"):
        nm.Model("y ~ k.real", DATA)


@pytest.mark.parametrize(("columns", "hint"), [
    (["y;x"], "The only column is 'y;x'. It looks like a whole line: read the file with sep=';' (on the command line --sep ';')."),
    (["y x"], r"read the file with sep=r'\s+' (on the command line --sep space)."),
    (["y\tx"], r"read the file with sep='\t' (on the command line --sep tab)."),
    (["5.1", "3"], "These look like values: has the file no line of names?"),
])
def test_tables_that_were_read_wrongly(columns, hint):
    with pytest.raises(ValueError, match=re.escape(hint)):
        nm.Model("y ~ 1", pd.DataFrame([range(len(columns))] * 2, columns=columns))


@pytest.mark.parametrize("columns", [["x;z"], ["u", "v"], ["1", "2"], ["1.5", "x"]])
def test_tables_that_were_read_as_they_are(columns):
    with pytest.raises(ValueError, match=r"The (only )?columns? (is|are) [^.]*(1\.5)?[^.]*\.$"):
        nm.Model("y ~ 1", pd.DataFrame([range(len(columns))] * 2, columns=columns))
