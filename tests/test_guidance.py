"""Wrong words get the right one named; names and numbers do where objects do; dots in formulas."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.common.messages import WORDS, guided

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
    (lambda fit: fit.predict(intervall=0.8), "did you mean 'interval'?"),
    (lambda fit: fit.predict(colour="red"), "there are newdata, kind, at, q"),
])
def test_wrong_words(fit, call, right):
    with pytest.raises(TypeError) as caught:
        call(fit)
    assert right in str(caught.value)


def test_no_word_is_one_of_ours():
    """What is an argument here must not be told to be another."""
    functions = [nm.Model, nm.Model.fit, *(getattr(nm.MCMCResult, name) for name in ("predict", "contrasts", "simulate", "impute"))]
    for function in functions:
        for name in inspect.signature(function).parameters:
            assert name not in WORDS or name not in WORDS[name][0]


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
