"""Formulas as other packages write them: one line says what to write here."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.model.frame.foreign import FUNCTIONS, PIECES, advice
from nrmmix.model.frame.formula import model_frame

DATA = {name: np.random.default_rng(i).random(30) for i, name in enumerate(["y", "x", "z", "w", "n", "g", "FSC-A", "a b", "0", "1l"])}

RIGHT = {  # what to write, as the message says it
    "y ~ s(x)": "bs(x, df=4)", "y ~ s(x, k=5)": "bs(x, df=4)", "y ~ t2(x, z)": "te(bs(x, df=4), bs(z, df=4))",
    "y ~ te(x, z)": "te(bs(x, df=4),",
    "y ~ poly(x, 3)": "x + I(x**2) + I(x**3)", "y ~ ns(x, df=5)": "cr(x, df=5)", "y ~ rcs(x, 3)": "cr(x, df=3)",
    "y ~ factor(g)": "C(g)", "y ~ as.factor(g) + x": "C(g)", "y ~ x^2": "I(x**2)",
    "y ~ (x + z)^2": "(x + z)**2", "y ~ log(x)^2": "I(log(x)**2)",
    "y ~ np.power(x, 3)": "I(x**3)", "y ~ x + offset(log(w))": "exposure='w'", "cbind(y, z) ~ x": "y + z", "c(y, z) ~ 1": "y + z",
    "y | weights(w) ~ x": "weights='w'", "y | cens(z) ~ x": "Surv(time, event)", "y | trials(n) ~ x": "nm.Multinomial()",
    "y ~ x + (1|g)": "random effects", "y ~ x + (1 + x || g)": "C(g)", "y ~ x | g": "C(g)", "y ~ mo(x)": "nothing like it here",
    "bf(y ~ x)": "the text alone", "log(y ~ x)": "log(y) ~ x", "y <- x": "y ~ x", "y ~ x & z": "x:z", "y ~ x %in% z": "x:z",
    "y ~ `x`": "write x", "y ~ df$x": "named alone, x", "y ~ df['x']": "named alone, x", "y ~ sin(2*pi*x)": "np.pi",
    "y ~ I(e**x)": "np.e", "y ~ x, z": "x + z",
    ". ~ 1": "leave the formula out", "y ~ cut(x, 3)": "beforehand", "~ y + x": "'y + x ~ 1'", "y ~ -1": "write 'y ~ 1'",
    "y ~ x > 0.5": "beforehand", "y ~ I(x != 2) + z": "beforehand", "y ~ x % 2": "beforehand", "y ~ x[0]": "beforehand",
    "y ~ 'x'": "piece \"'x'\" is not allowed: columns are named without quotes, x", "y ~ z + \"a b\"": "Q('a b')",
    "[y, x] ~ 1": "y + x", "(y, x) ~ 1": "y + x", "y ~ z + 2*x": "piece '2*x' is not allowed: arithmetic stands within I(), I(2*x)",
    "y ~ x + (1 | g/z)": "write the group as a covariate, g + z where it is text or categories, C(g) + C(z)", "y ~ re(random=~1|g)": "C(g)",
    "y ~ frailty(g)": "random effects", "cbind(w, n - w) ~ x": "w + I(n - w)", "y ~ .^2": "write .**2", "y ~ ln(w)": "write log(w)",
    "y ~ zscore(x)": "write standardize(x)", "y ~ pmax(x, 0)": "beforehand", "y ~ month(x)": "beforehand", "y ~ I(x > 0)": "beforehand",
    "y ∼ x": "the tilde is that of the keyboard", "y ~ x − 1": "a minus is", "y ~ Q(“a b”)": "Q('a b')", "y ~ Q(“x y”)": "quotes are",
    "y ~ x × z": "the star",
    "y ~ a c": "piece 'a c' is not allowed: did you mean Q('a b')?", "log(FSC-B) ~ x": "did you mean Q('FSC-A')?",
    "y ~ 1/x": "I(1/x)", "y ~ x/2": "I(x/2)", "2*y ~ x": "I(2*y)",
}


@pytest.mark.parametrize("formula", RIGHT)
def test_words_of_other_formulas(formula):
    with pytest.raises(ValueError) as caught:
        nm.Model(formula, DATA)
    said = str(caught.value).split(" A formula may hold")[0]
    assert RIGHT[formula] in said and "\n" not in said and len(said) < 300


@pytest.mark.parametrize("formula", ["y ~ .", "y ~ x - 1", "y ~ x*z", "y ~ (x + z)**2", "y ~ x:z", "y ~ x**1", "y ~ I(x**2)", "y ~ C(g)",
                                     "y ~ x/z", "y ~ I(2*x)", "y ~ log(2*x + 1)", "y ~ bs(x, knots=[0.2, 0.5])", "I(y/2) ~ x"])
def test_words_that_are_ours(formula):
    assert model_frame(formula, DATA).covariates is not None


ADVISED = ["y ~ I(x**2)", "y ~ I(x**2) + I(x**3)", "y ~ cr(x, df=4)", "y ~ bs(x, df=4)", "y ~ te(bs(x, df=4), bs(z, df=4))"]


@pytest.mark.parametrize("formula", ADVISED)
def test_what_is_advised_works(formula):
    assert model_frame(formula, DATA).covariates.shape[0] == 30


@pytest.mark.parametrize(("formula", "said"), [
    ("y ~ x + x**2", "x**2 is x in a formula, where powers are of sums; write I(x**2)."),
    ("y ~ x ** 3", "write I(x**3)."),
    ("y ~ log(x)**2", "log(x)**2 is log(x) in a formula, where powers are of sums; write I(log(x)**2)."),
    ("y ~ (x:z)**2", "write I((x * z)**2)."),
    ("y ~ (x + z)**2 + Q('a b')**2", "write I(Q('a b')**2)."),
    ("y ~ bs(x, df=4)**2", "leave the power out."),
    ("y**2 ~ x", "write I(y**2)."),
])
def test_powers_of_one_term_are_no_silence(formula, said):
    with pytest.raises(ValueError) as caught:
        nm.Model(formula, DATA)
    assert str(caught.value).endswith(said)
    with pytest.raises(ValueError, match="where powers are of sums"):
        nm.Model("y ~ 1", DATA, family=nm.Regression("1 + x**2"))


@pytest.mark.parametrize(("formula", "said"), [
    ("y ~ x:x", "x:x is x in a formula, where products are of different terms; write I(x**2), or x once."),
    ("y ~ (x - 1)*(x - 1)", "write I((x - 1)**2), or x - 1 once."),
    ("y ~ z + x*x", "write I(x**2), or x once."),
    ("y ~ x:z:x", "x:z:x has x twice in a formula, where products are of different terms; leave one out, or write I(x**2) for its square."),
    ("y ~ (x - 1)**2", "(x - 1)**2 is x - 1 in a formula, where powers are of sums; write I((x - 1)**2)."),
    ("y ~ log(x)*log(x)", "write I(log(x)**2), or log(x) once."), ("y ~ Q('a b'):Q('a b')", "write I(Q('a b')**2), or Q('a b') once."),
])
def test_products_of_a_term_with_itself_are_no_silence(formula, said):
    with pytest.raises(ValueError) as caught:
        nm.Model(formula, DATA)
    assert str(caught.value).endswith(said)
    assert model_frame("y ~ (x + z):(x + z) + I(x*x)", DATA).covariates is not None


NAMES = ["FSC-A", "bill length", "mass (g)", "2nd", "a/b", "class", "conc [mg]", "100%", "µ·x", "a.b", "x:1", "it's"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_no_names_of_python(name):
    table = {name: np.arange(9.0), "z": np.arange(9.0) ** 2}
    for formula in (f"{name} ~ 1", f"z ~ {name}", f"z ~ log({name} + 1)", f"`{name}` ~ 1"):
        with pytest.raises(ValueError) as caught:
            nm.Model(formula, table)
        assert f"Q({name!r})" in str(caught.value), formula
    assert nm.Model(f"Q({name!r}) ~ z", table).frame.response_names == (name,)


def test_columns_without_names():
    table = np.arange(12.0).reshape(6, 2)
    with pytest.raises(ValueError, match=r"write Q\('0'\)"):
        nm.Model("0 ~ 1", pd.DataFrame(table))
    with pytest.raises(ValueError, match="There is no column 'q'"):
        nm.Model("q ~ 1", pd.DataFrame(table))


def test_a_column_may_be_called_as_a_function_of_others():
    table = {"s": np.arange(9.0), "e": np.arange(9.0) ** 2, "poly": np.arange(9.0) ** 3}
    assert nm.Model("s ~ e + poly", table).frame.covariate_names == ("e", "poly")
    with pytest.raises(ValueError, match="There is no column 'zz'"):
        nm.Model("s ~ e + zz", table)
    assert advice("y ~ x + zz", ["y", "x"]) is None and advice("y ~ C(x, levels=['a b']) + zz", ["y", "x", "a b"]) is None


def test_every_word_has_an_answer():
    for name in FUNCTIONS:
        for arguments in ("", "x", "x, 3", "log(x), k=2"):
            assert advice(f"y ~ {name}({arguments})", ["y", "x"]).endswith("."), name
    assert advice("y ~ x + e", ["y", "x"]) is None and advice("e", ["y"]) is None  # a column that is not there
    assert all(pattern for pattern, _ in PIECES) and advice("y ~ s(", ["y"]) is not None
