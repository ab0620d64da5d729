"""How arguments are checked and refused, and how messages name values, names and rows: one wording for all."""

from __future__ import annotations

import difflib
import inspect
import math
import operator
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from decimal import Decimal
from functools import wraps
from numbers import Real
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

SHELL: ContextVar[str] = ContextVar("SHELL", default="")  # of the command line: the file of the fit, or "-" where none is kept

LONGEST, MOST = 60, 20  # characters of a value, and names, that a message shows


# ---- arguments

def number(value: Any) -> float:
    """A real number as a float; NaN for anything else.

    Examples
    --------
    >>> number(2), number("2"), number(True)
    (2.0, nan, nan)
    """
    try:
        return float(value) if isinstance(value, (Real, Decimal)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def positive(name: str, value: Any, why: str = "") -> float:
    """A checked number that is finite and greater than 0; `why` ends the message."""
    if not 0 < number(value) < math.inf:
        raise ValueError(f"{name} must be a finite number greater than 0, not {value!r}{why}.")
    return float(value)


def between(name: str, value: Any, least: float, most: float) -> float:
    """A checked number from the least to the most, ends included."""
    if not least <= number(value) <= most:
        raise ValueError(f"{name} must be a number from {least:g} to {most:g}, not {value!r}.")
    return float(value)


def probability(name: str, value: Any) -> float:
    """A checked number between 0 and 1, ends left out."""
    if not 0 < number(value) < 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value!r}.")
    return float(value)


def seconds(name: str, value: Any) -> float | None:
    """A checked limit of time; None where there is none."""
    if value is None:
        return None
    if not number(value) > 0:
        raise ValueError(f"{name} must be greater than 0 seconds, not {value!r}.")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """A checked True or False, NumPy's too."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, not {value!r}.")
    return bool(value)


def count(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A checked integer argument."""
    try:
        whole = operator.index(value)
    except TypeError:
        whole = least - 1
    if isinstance(value, bool) or whole < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}.")
    if most is not None and whole > most:
        raise ValueError(f"{name} must be at most {most:,}; that many at once could not be interrupted.")
    return whole


def one_of(name: str, value: Any, known: Iterable[str]) -> str:
    """A checked argument that is one of a few words."""
    known = tuple(known)
    if not (isinstance(value, str) and value in known):
        raise ValueError(f"{name} must be one of {quoted(known)}, not {value!r}{did_you_mean(value, known)}")
    return value


def known_name(what: str, name: Any, known: Iterable[str]) -> str:
    """A checked name of something that there is, of a `what`."""
    known = tuple(known)
    if not (isinstance(name, str) and name in known):
        raise ValueError(f"unknown {what} {name!r}; there are {quoted(known) or 'none'}{did_you_mean(name, known)}")
    return name


def did_you_mean(name: Any, known: Iterable[Any], cutoff: float = 0.6) -> str:
    """The end of a message about an unknown name: the known one that is most like it, or a full stop where none is.

    Examples
    --------
    >>> did_you_mean("Gaussain", ["gaussian", "poisson"]), did_you_mean("x", ["gaussian"])
    ("; did you mean 'gaussian'?", '.')
    """
    near = nearest(name, known, cutoff)
    return "." if near is None else f"; did you mean {near!r}?"


def nearest(name: Any, known: Iterable[Any], cutoff: float = 0.6) -> str | None:
    """The known name that is most like another, whatever their capitals; None where none is."""
    by_letters = {str(one).lower(): str(one) for one in known}
    near = difflib.get_close_matches(str(name).lower(), by_letters, 1, cutoff)
    return by_letters[near[0]] if near else None


# ---- values, names and rows

def plain(item: Any) -> Any:
    """An item without NumPy's wrapping; a whole float as an int."""
    if isinstance(item, tuple):  # a label of several levels
        return tuple(plain(part) for part in item)
    item = item.item() if isinstance(item, np.generic) else item
    return int(item) if isinstance(item, float) and item.is_integer() else item


def shown(item: Any) -> str:
    """An item as messages show it, which is not at any length.

    Examples
    --------
    >>> shown("a"), shown(np.float64(2)), len(shown("a" * 1000))
    ("'a'", '2', 60)
    """
    text = " ".join(repr(plain(item)).split("\n"))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def printable(text: str) -> str:
    r"""A text whose control characters, and others that are not seen, are escaped: a terminal does not obey them.

    Examples
    --------
    >>> printable("a\x1b[2Jb\n"), printable("größe m²")
    ('a\\x1b[2Jb\\n', 'größe m²')
    """
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def quoted(names: Iterable[str]) -> str:
    """Join names in quotes by commas."""
    return ", ".join(map(repr, names))


def listed(items: Iterable[str]) -> str:
    """Join names by commas, the first of them where there are many.

    Examples
    --------
    >>> listed(["x", "y"])
    'x, y'
    """
    items = list(map(printable, items))
    more = f", ... ({len(items)} all told)" if len(items) > MOST else ""
    return ", ".join(items[:MOST]) + more


def duration(seconds: float) -> str:
    """A time in words, of two digits at most.

    Examples
    --------
    >>> duration(0.2), duration(34.4), duration(200), duration(9000)
    ('1 s', '34 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.2g} h"


def row_name(position: int, index: pd.Index | None = None) -> str:
    """Describe a row by its position, counted from 0, and where that differs by its index label.

    Examples
    --------
    >>> import pandas as pd
    >>> row_name(3), row_name(1, pd.Index(["a", "b"]))
    ('row 3', "row 1 (index label 'b')")
    """
    position = int(position)
    if index is None:
        return f"row {position}"
    label = plain(index[position])
    if isinstance(label, int) and label == position:
        return f"row {position}"
    return f"row {position} (index label {shown(label)})"


# ---- words that other packages have for arguments

P, T = ParamSpec("P"), TypeVar("T")

_RNG = "an int, SeedSequence or Generator"
WORDS: dict[str, tuple[tuple[str, ...], str]] = {  # arguments that are meant, the first of them that there is, and what to know of it
    **dict.fromkeys(("seed", "random_state", "random_seed", "rng_key", "generator"), (("rng",), _RNG)),
    **dict.fromkeys(
        ("burnin", "burn_in", "burn", "nburn", "n_burn", "warmup", "warm_up", "n_warmup", "num_warmup", "iter_warmup", "adapt"),
        (("tune",), "iterations before the first draw"),
    ),
    **dict.fromkeys(
        ("n_iter", "niter", "iter", "n_iterations", "iterations", "max_iter", "sweeps"),
        (("draws", "passes"), "draws kept in each chain: a chain runs tune + draws * thin iterations"),
    ),
    **dict.fromkeys(
        (
            "n_samples", "num_samples", "samples", "ndraws", "n_draws", "num_draws", "nsim", "n_sims", "iter_sampling", "n_imputations",
            "size",
        ),
        (("draws",), "the number of draws"),
    ),
    **dict.fromkeys(("n_chains", "nchains", "num_chains"), (("chains",), "their number")),
    **dict.fromkeys(("n_thin", "nthin", "thinning"), (("thin",), "iterations for each draw")),
    **dict.fromkeys(("n_jobs", "n_cores", "threads", "num_threads", "workers", "n_threads"), (("cores",), "the number of threads")),
    **dict.fromkeys(("verbose", "progressbar", "progress_bar", "show_progress", "disp"), (("progress",), "True or False")),
    **dict.fromkeys(("timeout", "max_time", "time", "timelimit"), (("time_limit",), "in seconds")),
    **dict.fromkeys(
        ("level", "conf_level", "conf_int", "ci", "hdi_prob", "ci_prob", "prob", "credible", "coverage"),
        (("interval",), "the probability of the band, such as 0.9"),
    ),
    **dict.fromkeys(("quantile", "quantiles", "probs", "p", "percentiles"), (("q",), "probabilities of quantiles")),
    **dict.fromkeys(("initial", "inits", "start", "initvals", "init_values"), (("init",), "a name, or labels of the rows")),
    **dict.fromkeys(("sampler", "algorithm", "engine", "step"), (("method",), "a name of Model.methods(), or a move")),
    **dict.fromkeys(("df", "dataset", "X", "frame", "table"), (("data", "newdata"), "a DataFrame")),
    **dict.fromkeys(("new_data", "X_new", "new", "X_test", "test"), (("newdata",), "a DataFrame of rows")),
    **dict.fromkeys(("type", "what", "output"), (("kind",), "what is wanted, such as \"mean\"")),
    **dict.fromkeys(("conditional_on", "condition", "evidence", "conditioning"), (("given",), "names of responses that the rows hold")),
    **dict.fromkeys(("likelihood", "distribution", "dist", "component"), (("family",), "such as nm.Gaussian()")),
    **dict.fromkeys(("measure", "process", "prior_measure"), (("prior",), "such as nm.DirichletProcess()")),
    **dict.fromkeys(("na_action", "missing_values", "dropna"), (("missing",), '"drop", "raise" or "marginalize"')),
    **dict.fromkeys(
        ("n_components", "n_clusters", "k", "K", "max_components"),
        (("components", "max_clusters", "prior"), "the number of components: nm.FiniteMixture(components); of other priors it is inferred"),
    ),
    **dict.fromkeys(
        ("alpha", "concentration", "concentration_parameter", "total_mass", "theta"), (("mass",), "the total mass of the random measure")
    ),
    **dict.fromkeys(("discount", "d", "stability"), (("sigma",), "the discount, or index of stability")),
    **dict.fromkeys(("lengthscale", "length_scale", "bandwidth", "ls", "scale"), (("width",), "for covariates in [0, 1]")),
    **dict.fromkeys(("responses", "target", "outcome"), (("response",), "names of responses")),
}


def guided(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: an argument by a wrong name raises a TypeError that names the right one, or the nearest, or all.

    Examples
    --------
    >>> @guided
    ... def fit(data, *, rng=None): ...
    >>> fit([1], seed=3)
    Traceback (most recent call last):
    TypeError: fit() has no argument 'seed'; give rng= (an int, SeedSequence or Generator).
    """
    signature = inspect.signature(function)
    known = tuple(name for name in signature.parameters if name != "self")
    if any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values()):
        raise TypeError(f"{function.__qualname__} takes any keyword; guide what it hands them to.")
    accepted = frozenset(known)

    @wraps(function)
    def checked(*given: P.args, **named: P.kwargs) -> T:
        for name in named:
            if name not in accepted:
                of = type(given[0]) if given and function.__name__ == "__init__" else function
                raise TypeError(f"{of.__name__}() has no argument {name!r}{advice(name, known)}")
        return function(*given, **named)

    return checked


def advice(name: str, known: tuple[str, ...]) -> str:
    """The end of a message about an argument that there is not: the word for it here, the nearest, or all.

    Examples
    --------
    >>> advice("burnin", ("draws", "tune")), advice("drawz", ("draws", "tune")), advice("colour", ("draws", "tune"))
    ('; give tune= (iterations before the first draw).', "; did you mean 'draws'?", '; there are draws, tune.')
    """
    for meant in WORDS.get(name, ((), ""))[0]:
        if meant in known:
            why = WORDS[name][1]
            return f"; give {meant}= ({why})."
    near = did_you_mean(name, known)
    return f"; there are {', '.join(known)}." if near == "." else near
