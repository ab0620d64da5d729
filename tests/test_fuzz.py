"""Random tables, formulas and options: they work, or raise an error that a user can act on.

`NRMMIX_FUZZ_EXAMPLES=1000 pytest tests/test_fuzz.py --hypothesis-seed=1` tries more, other ones.
"""

from __future__ import annotations

import os
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nrmmix as nm
from nrmmix.model.frame.rows import NewRows

EXAMPLES = int(os.environ.get("NRMMIX_FUZZ_EXAMPLES", "40"))
fuzz = settings(
    max_examples=EXAMPLES,
    derandomize="NRMMIX_FUZZ_EXAMPLES" not in os.environ,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

# What libraries say of their insides, and users cannot make sense of.
INTERNAL = re.compile(
    r"broadcast|ufunc|dtype|inhomogeneous|truth value|object has no|subscriptable|operand|unpack|has no attribute|not iterable"
    r"|out of bounds|invalid literal|could not convert|sequence|patsy|numpy|0x[0-9a-f]{6}|unhashable|concatenate|C long|__\w+__\(\)"
)
CONCRETE = re.compile(r"['\"0-9=]|\b(row|column|formula|data|response|covariate|prior|family|kernel|mass|sigma|width|rng)\b|\b(at|q) must")


def check_message(error):
    text = str(error)
    assert len(text) > 15 and CONCRETE.search(text), text
    assert len(text) < 2500, text
    own = re.sub(r"'(\\.|[^'\\])*'|\"(\\.|[^\"\\])*\"", "''", text.split(" A formula may hold")[0])  # what the user wrote is quoted
    assert not INTERNAL.search(own), text


def attempt(call):
    """The result, or None after a clear error.

    Any other exception fails the test, and any warning but those of rows that are dropped, make no difference, or were fitted, of ties
    and of values far from all others.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = (r"\d+ of \d+ rows dropped", "the prediction is the same in every row", "log_density: .* were fitted")
        for said in (*expected, ".*(point masses|quartile ranges away|are they counts)"):
            warnings.filterwarnings("ignore", said, UserWarning)
        try:
            return call()
        except (ValueError, TypeError) as error:
            check_message(error)
            return None


# --------------------------------------------------------------------------------------------------- tables

ODD_NAMES = ["y", "x", "z", "g", "class", "my col", "1", "$a", 'say "a"', "it's", "\u00e9", "", "Q", "log", "a ~ b", "np", "x.1", "__a"]
names = st.one_of(st.sampled_from(ODD_NAMES), st.text(max_size=4))
SCALES = [1.0, 1e-8, 1e8, 1e-60, 1e60, 1e-200, 1e200, 5e-324, 1e307]
OFFSETS = [0.0, 1e6, -1e6, 1e15]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, 5e-324, 1e12]


@st.composite
def numbers(draw, n):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = draw(st.sampled_from(OFFSETS)) + draw(st.sampled_from(SCALES[:3] if draw(st.booleans()) else SCALES)) * rng.normal(size=n)
    for _ in range(draw(st.integers(0, 2)) if n and draw(st.booleans()) else 0):
        values[draw(st.integers(0, n - 1))] = draw(st.sampled_from(SPECIAL))
    return values


@st.composite
def columns(draw, n, tame=False):
    """A column of any kind, a third of them numbers; a tame one is as users mean it."""
    kind = draw(st.integers(0, 31))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if tame:
        return rng.choice(["a", "b", "c"], n) if kind > 28 else rng.integers(0, 9, n) if kind > 25 else rng.normal(5.0, 2.0, n)
    if kind < 16:
        return draw(numbers(n))
    small = np.array(draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)), dtype=int)
    gaps = draw(st.lists(st.booleans(), min_size=n, max_size=n)) if draw(st.booleans()) else [False] * n
    text = np.array(["a", "b", "c", "d e", "", "\u00e9"], dtype=object)[small]
    return {
        16: lambda: small,
        17: lambda: small.astype(draw(st.sampled_from(["int8", "uint64", "float16", "float32", ">f8", "longdouble", "complex128"]))),
        18: lambda: small > 2,
        19: lambda: pd.arrays.IntegerArray(small.astype("int64"), np.array(gaps, bool)),
        20: lambda: pd.array(np.where(gaps, None, small > 2), dtype="boolean"),
        21: lambda: np.where(gaps, None, text),
        22: lambda: pd.array(np.where(gaps, None, text), dtype="string"),
        23: lambda: pd.Categorical(np.where(gaps, None, text)),
        24: lambda: pd.Categorical(small, categories=range(9), ordered=True),
        25: lambda: np.full(n, draw(st.sampled_from([0, 5, 1e300, "a", None, np.nan, True])), dtype=object),
        26: lambda: pd.date_range("2020", periods=n) if draw(st.booleans()) else pd.timedelta_range("1D", periods=n),
        27: lambda: [str(value) for value in small],
        28: lambda: [[Decimal(int(i)), 10**400, b"a", [1], None, 2.5, "a", 1j][i] for i in small],
        29: lambda: pd.arrays.SparseArray(rng.normal(size=n)),
        30: lambda: np.where(gaps, None, rng.normal(size=n)),
        31: lambda: [Decimal(int(i)) / 3 for i in small],
    }[kind]()


@st.composite
def tables(draw, tame=False):
    n = draw(st.integers(6, 40) if tame else st.integers(0, 40))
    if tame or draw(st.booleans()):
        labels = ["y", "x", "z", "g"][: draw(st.integers(1, 4))]
    else:
        labels = draw(st.lists(names, min_size=0 if draw(st.integers(0, 9)) == 0 else 1, max_size=4))
    parts = [pd.Series(draw(columns(n, tame))) for _ in labels]
    if len(parts) > 1 and not tame and draw(st.integers(0, 9)) == 0:
        parts[-1] = parts[0]
    frame = pd.concat(parts, axis=1) if parts else pd.DataFrame(index=range(n))
    frame.columns = labels
    index = draw(st.sampled_from(["range", "text", "same", "levels"]))
    if index == "text":
        frame.index = [f"r{i}" for i in range(n)]
    elif index == "same":
        frame.index = [0] * n
    elif index == "levels":
        frame.index = pd.MultiIndex.from_arrays([["k"] * n, range(n)])
    return frame


# -------------------------------------------------------------------------------------------------- formulas

PIECES = [
    "y", "x", "z", "g", "~", "~", "+", "-", "*", ":", "/", "**", "(", ")", "[", "]", ",", ".", "=", "log(", "np.log(", "I(", "C(", "bs(",
    "cr(", "te(", "center(", "Q('y')", "df=4", "degree=9", "knots=[0]", "levels=['a']", "Treatment('a')", "Poly([1])", "0", "1", "2",
    "1e400", "lambda", "x if y else z", "'a'", "f'{x}'", ":=", "`x`", "{", "}", "|", "%", "@", "\\", "\x00", "\u200b", "\u0445", " ",
    "\n", "#", "__import__", "True",
]  # fmt: skip
TRANSFORMS = [
    "{}", "{}", "{}", "log({})", "I({} ** 2)", "exp({})", "sqrt({})", "center({})", "standardize({})", "C({})", "C({}, Sum)",
    "C({}, Poly)", "bs({}, df=4)", "bs({}, df=3, degree=1)", "bs({}, knots=[0, 1])", "cr({}, df=4)", "cc({}, df=3)",
    "te(cr({}, df=3))", "I(1 / {})", "I(0 * {})", "standardize({}, ddof=1)", "C({}, levels=['a', 'b'])", "C({}, Treatment('b'))",
    "bs({}, df=4, lower_bound=0)", "cr({}, 4, constraints='center')", "arcsin({})", "-{}", "{} ** 2", "floor({})", "I({} - 0.5)",
    "I({} * {})", "np.sin(2 * np.pi * {})",
]  # fmt: skip


def term(name):
    quoted = name if name.isidentifier() else f"Q({name!r})"
    return lambda pattern: pattern.replace("{}", quoted)


@st.composite
def formulas(draw, labels, tame=False):
    if tame:
        own = draw(st.permutations(labels))
        covariates = draw(st.lists(st.sampled_from(own[1:] or ["1"]), min_size=1, max_size=3, unique=True))
        patterns = [draw(st.sampled_from(TRANSFORMS)) if name != "1" and draw(st.booleans()) else "{}" for name in covariates]
        right = [pattern.replace("{}", name) for pattern, name in zip(patterns, covariates, strict=True)]
        return f"{own[0]} ~ {draw(st.sampled_from([' + ', ' * ', ':'])).join(right) if draw(st.booleans()) else '1'}"
    if draw(st.integers(0, 4)) == 0:
        return draw(st.one_of(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(max_size=30), st.just(None)))
    labels = [str(label) for label in labels] or ["y"]
    if draw(st.integers(0, 19)) == 0:
        labels = [*labels, draw(names)]
    terms = st.builds(lambda name, pattern: term(name)(pattern), st.sampled_from(labels), st.sampled_from(TRANSFORMS))
    plain = st.sampled_from(labels).map(lambda name: term(name)("{}"))
    order = draw(st.permutations(labels))
    left = [term(order[0])(draw(st.sampled_from(["{}", "{}", "{}", "log({})", "I({} ** 2)", "C({})"])))]
    left += draw(st.lists(terms, max_size=1))
    rest = order[1:] or order
    right = draw(st.lists(st.one_of(plain, terms, st.sampled_from([term(name)("{}") for name in rest])), max_size=3))
    joined = draw(st.sampled_from([" + ", " * ", ":", " / ", " - "])).join(right)
    return f"{' + '.join(left if draw(st.booleans()) else left[:1])} ~ {joined or draw(st.sampled_from(['1', '1', '0', '']))}"


# --------------------------------------------------------------------------------------------------- options

MAKE = {
    "prior": [
        lambda: nm.DirichletProcess(), lambda: nm.DirichletProcess(2.0), lambda: nm.NGGP(), lambda: nm.NGGP(1.0, 0.3),
        lambda: nm.DirichletProcess(-1),
        lambda: nm.NGGP(1.0, 1.0), lambda: nm.DirichletProcess("1"), lambda: 1.0, lambda: nm.NGGP, lambda: nm.NGGP(nm.Beta(1, 1)),
    ],
    "family": [
        lambda: nm.Gaussian(), lambda: nm.Gaussian(m=0, r=0.1, nu=3, scale=1), lambda: nm.Gaussian(scale=[[1, 0], [0, 1]]),
        lambda: nm.Gaussian(m=[0, 0]),
        lambda: nm.Gaussian(scale=-1), lambda: nm.Gaussian(nu=0.1), lambda: nm.Gaussian(r=np.nan), lambda: "gaussian",
        lambda: nm.Gaussian(scale="a"),
        lambda: nm.Gaussian(scale=[[1, 2], [2, 1]]), lambda: nm.Gaussian(m=1e300), lambda: nm.Gaussian(r=1e-30),
    ],
    "kernel": [
        lambda: nm.SquaredExponential(), lambda: nm.Box(0.5), lambda: nm.Box(2.0), lambda: nm.SquaredExponential(0.3, scale=None),
        lambda: nm.Box(1e-9),
        lambda: nm.Box(0), lambda: nm.Box(np.nan), lambda: nm.Box([0.5, 0.5]), lambda: nm.Box(0.5, locations=[0.0]),
        lambda: nm.Box(0.5, locations="a"),
        lambda: nm.SquaredExponential(1e300), lambda: nm.SquaredExponential(1e-150), lambda: nm.Box(0.5, locations=[[0, 1]]), lambda: 0.1,
    ],
    "missing": [lambda: "drop", lambda: "drop", lambda: "raise", lambda: "ignore", lambda: None, lambda: np.array([1, 2])],
}  # fmt: skip
RUN = {
    "draws": [1, 3, 0, -1, 2.0, "3", None, True, 10**13],
    "tune": [0, 2, -1, 1.5, None],
    "thin": [1, 2, 0, "a"],
    "chains": [1, 2, 0, 1.0],
    "init": ["sequential", "one", "each", "sequental", [0], [np.nan], np.zeros((1, 2, 3)), None, 0],
    "rng": [1, 0, -1, "a", 1.5, np.random.default_rng(1), np.random.SeedSequence(1), True],
    "cores": [1, None, 0, 1.5],
    "time_limit": [60, None, 0, -1, "a", np.nan],
    "method": ["auto", "gibbs", "gibs", None, 3, nm.Gibbs],
}


@st.composite
def some(draw, choices, most, tame=False):
    """Some options; the first choices are good, and those of tame ones."""
    keys = draw(st.lists(st.sampled_from(sorted(choices)), max_size=most, unique=True))
    return {key: draw(st.sampled_from(choices[key][: 2 if tame or draw(st.booleans()) else None])) for key in keys}


PREDICT = {
    "kind": ["mean", "density", "cdf", "quantile", "mena", None, 3],
    "at": [None, [0.0, 1.0], 0.5, "a", [], np.nan, [[1, 2]], 1e300],
    "q": [0.5, [0.1, 0.9], 0, 1, [], None],
    "interval": [0.9, 0.5, 0, 1, "a", None],
    "draws": [3, 1, 0, 1.5],
    "rng": [1, None, "a", -1],
}


def check_fit(fit):
    for name, values in fit.draws.items():
        assert not np.isnan(values).any(), name
    assert "Observations" in fit.summary().as_text()
    mean = attempt(lambda: fit.predict(draws=2))
    assert mean is not None and np.isfinite(mean).all().all()


# ----------------------------------------------------------------------------------------------------- tests


@fuzz
@given(st.data())
def test_models_and_fits(data):
    tame = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7))
    frame = data.draw(tables(tame[0] > 1))
    formula = data.draw(formulas(list(frame.columns), tame[0] > 1 and tame[1] > 1))
    options = data.draw(some(MAKE, 2, tame[2] > 1))
    options = {name: make for name, make in options.items() if not (name == "kernel" and tame[2] > 1 and str(formula).endswith("~ 1"))}
    model = attempt(lambda: nm.Model(formula, frame, **{name: make() for name, make in options.items()}))
    if model is None:
        return
    assert np.isfinite(model.frame.response).all() and str(model)
    run = data.draw(some(RUN, 2)) if data.draw(st.booleans()) else {}
    fit = attempt(lambda: model.fit(**{"draws": 3, "tune": 1, "chains": 1, "rng": 1, "progress": False} | run))
    if fit is not None:
        check_fit(fit)


FRAME = pd.DataFrame(
    {"y": np.sin(np.arange(20.0)), "x": np.cos(np.arange(20.0)), "count": [0, 1, 2, 3] * 5, "g": ["a", "b"] * 10, "my col": range(20)}
)
FORMULAS = [
    "y ~ 1", "y ~ x", "y + x ~ 1", "log(y + 2) ~ x + g", "y ~ bs(x, df=4)", "y ~ C(count)", "y ~ center(x) * g", "y ~ cr(x, df=3)",
    'y ~ Q("my col")',
    "y ~ log(x + 1.5)", "y ~ I(x ** 2) + count",
]  # fmt: skip
_fits = {}


def fitted(formula, kernel):
    key = (formula, kernel)
    if key not in _fits:
        default = formula.endswith("~ 1") or re.search(r"\bg\b", formula)  # kernels of numbers do not compare categories
        covariate = {} if default else {"kernel": {"box": nm.Box(0.6), "wide": nm.SquaredExponential(0.5)}[kernel]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of kernels that are narrow
            _fits[key] = nm.fit(formula, FRAME, draws=3, tune=1, chains=1, rng=1, progress=False, **covariate)
    return _fits[key]


@st.composite
def corrupted(draw):
    """The table of the fit with something changed, or something else."""
    if draw(st.integers(0, 4)) == 0:

        others = [
            [1, 2], 3, "y", np.zeros(3), np.zeros((2, 2)), {}, {"x": 1}, {"x": [1.0], "g": ["a", "b"]},
            pd.Series([1.0], name="x"), object(),
        ]  # fmt: skip
        return draw(st.one_of(st.sampled_from(others), tables()))
    new = FRAME.head(draw(st.integers(0, 5))).copy()
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(list(FRAME)))
        change = draw(st.integers(0, 6))
        if change == 0:
            new = new.drop(columns=name, errors="ignore")
        elif change == 1:
            new = new.rename(columns={name: draw(names)})
        elif change == 2 and len(new):
            choices = [None, np.nan, np.inf, -5.0, 1e308, 1e99, "q", "a", 7, True, pd.Timestamp("2020"), [1], 10**400, Decimal("NaN"), 1j]
            values = list(new[name]) if list(new).count(name) == 1 else [None] * len(new)
            values[draw(st.integers(0, len(new) - 1))] = draw(st.sampled_from(choices))
            new[name] = pd.Series(values, new.index, dtype=object)
        elif change == 3:
            new = new.iloc[:, ::-1]
        elif change == 4:
            new.index = pd.MultiIndex.from_arrays([["k"] * len(new), [0] * len(new)])
        else:
            new[name] = pd.Series(draw(columns(len(new)))).array
    return new


@fuzz
@given(st.sampled_from(FORMULAS), st.sampled_from(["box", "wide"]), corrupted(), some(PREDICT, 3))
def test_new_data(formula, kernel, new, options):
    fit = fitted(formula, kernel)
    rows = NewRows(fit.model.frame, new)
    out = attempt(rows.covariates)
    if out is not None:
        values, ok = out
        assert len(values) == len(rows.index) == len(ok) and np.isfinite(values[ok]).all()
    out = attempt(lambda: fit.predict(new, **{"draws": 2} | options))
    if out is not None and options.get("kind", "mean") == "mean":
        estimates = out["estimate"].to_numpy().reshape(len(out) // fit.model.n_dim, fit.model.n_dim)
        complete = np.isfinite(estimates).all(axis=1)
        if fit.model.is_regression:
            np.testing.assert_array_equal(complete, NewRows(fit.model.frame, new).covariates()[1])
        else:
            assert complete.all()
    attempt(lambda: fit.log_density(new))
