"""Checks and refusals of arguments, and names of values, names and rows in messages: one wording for all."""

from __future__ import annotations

import difflib
import inspect
import math
import operator
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from decimal import Decimal
from functools import wraps
from numbers import Real
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from nrmmix.common.names import meant
from nrmmix.common.words import ARGUMENTS, ATTRIBUTES, OF_CHAINS, VALUES

if TYPE_CHECKING:
    import pandas as pd

SHELL: ContextVar[str] = ContextVar("SHELL", default="")  # of the command line: the file of the fit, or "-" where none is kept

LONGEST, MAX_NAMES = 60, 20  # characters of a value, and names, that a message shows
SEPARATORS = (";", "\t", "|", ",", " ")  # of files, that a table may have been read without
MIN_LETTERS, SHARE = 3, 0.8  # letters, and share of the shorter name, that two which are alike may begin with


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
        as_what = "" if isinstance(value, Real) and not isinstance(value, bool) else ", as a number such as 60"
        raise ValueError(f"{name} must be greater than 0 seconds{as_what}, not {value!r}.")
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


def known_word(what: str, word: Any, known: Iterable[str]) -> str:
    """A checked word of this package for a `what`, letter by letter."""
    known = tuple(known)
    if not (isinstance(word, str) and word in known):
        raise _unknown(what, word, known)
    return word


def known_name(what: str, name: Any, known: Iterable[str]) -> str:
    """A checked name of what a formula has, of a `what`, as it is called here, see `nrmmix.common.names`."""
    known = tuple(known)
    if (found := meant(name, known)) is None:
        raise _unknown(what, name, known)
    return found


def _unknown(what: str, name: Any, known: tuple[str, ...]) -> ValueError:
    return ValueError(f"unknown {what} {name!r}; there are {quoted(known) or 'none'}{instead_of(what, name, known)}")


def instead_of(what: str, name: Any, known: Iterable[Any]) -> str:
    """The end of a message about an unknown name of a `what`: what there is for a word of other packages, else the known name most like it.

    Examples
    --------
    >>> instead_of("family", "normal", ["gaussian"]), instead_of("method", "Gibbs", ["gibbs", "vb"])
    ('; give "gaussian".', "; did you mean 'gibbs'?")
    """
    word = VALUES.get(what, {}).get(name.lower()) if isinstance(name, str) else None
    return did_you_mean(name, known) if word is None else f"; {word}."


def did_you_mean(name: Any, known: Iterable[Any]) -> str:
    """The end of a message about an unknown name: the known one that is most like it, or a full stop where none is.

    Examples
    --------
    >>> did_you_mean("Gaussain", ["gaussian", "poisson"]), did_you_mean("censored", ["store", "cores"])
    ("; did you mean 'gaussian'?", '.')
    """
    near = nearest(name, known)
    return "." if near is None else f"; did you mean {near!r}?"


def nearest(name: Any, known: Iterable[Any]) -> str | None:
    """The known name that another one may be a slip of: few letters differ, whatever their capitals, or they begin alike.

    Examples
    --------
    >>> nearest("drwas", ["draws", "tune"]), nearest("waiting", ["waiting_min"]), nearest("x", ["y"])
    ('draws', 'waiting_min', None)
    """
    wanted, by_letters = str(name).lower(), {str(one).lower(): str(one) for one in known}
    for near in difflib.get_close_matches(wanted, by_letters, 5, 0.5):
        least, most = sorted((len(wanted), len(near)))
        alike = next((i for i, (a, b) in enumerate(zip(wanted, near, strict=False)) if a != b), least)
        begins = alike >= max(MIN_LETTERS, SHARE * least) or alike == least == most - 1
        if begins or _slips(wanted, near) <= (max(len(wanted), len(near)) + 1) // 4:
            return by_letters[near]
    return None


def unknown_column(name: str, known: Sequence[str], table: str = "the data") -> ValueError:
    """Return the error for a column that is not there, with the nearest name and the names there are."""
    foreign = listed(f"{letter!r} is {unicodedata.name(letter, 'unnamed')}" for letter in dict.fromkeys(name) if not letter.isascii())
    letters = f" ({foreign})" if foreign else ""  # some look like others
    near = nearest(name, known)
    hint = "" if near is None else f" Did you mean {near!r}?"
    columns = f"The columns are {listed(known)}" if len(known) != 1 else f"The only column is {known[0]!r}"
    return ValueError(f"There is no column {shown(name)}{letters} in {table}.{hint} {columns}.{_misread(name, known)}")


def _misread(name: str, known: Sequence[str]) -> str:
    """Return how to read the file of a table whose names look like a whole line, or like values; else nothing."""
    if len(known) == 1 and name != (line := str(known[0])):
        sep = next((sep for sep in SEPARATORS if name in map(str.strip, line.split(sep))), None)
        if sep is not None:
            given, word = {" ": (r"sep=r'\s+'", "space"), "\t": ("sep='\\t'", "tab")}.get(sep, (f"sep={sep!r}", repr(sep)))
            return f" It looks like a whole line: read the file with {given} (on the command line --sep {word})."
    if are_values(known):
        return " These look like values: has the file no line of names? Then give them, as by pandas.read_csv(file, names=[...])."
    return ""


def are_values(names: Sequence[str]) -> bool:
    """Whether more than half of some names are numbers, fractions among them: whole ones alone may be meant as names.

    Examples
    --------
    >>> are_values(["0.5", "2", "a"]), are_values(["2020", "2021"]), are_values(["x", "y"])
    (True, False, False)
    """
    numbers = []
    for name in names:
        try:
            numbers.append(float(name))
        except (ValueError, OverflowError):
            continue
    return 2 * len(numbers) > len(names) and not all(one.is_integer() for one in numbers)


def _slips(a: str, b: str) -> int:
    """Letters that are left out, added, changed, or exchanged with the next one, from one word to another."""
    rows = [list(range(len(b) + 1))]
    for i, letter in enumerate(a, 1):
        row, last = [i], rows[-1]
        for j, other in enumerate(b, 1):
            least = min(last[j] + 1, row[-1] + 1, last[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                least = min(least, rows[-2][j - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]


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
    more = f", ... ({len(items)} all told)" if len(items) > MAX_NAMES else ""
    return ", ".join(items[:MAX_NAMES]) + more


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

P = ParamSpec("P")
T = TypeVar("T")

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
    kinds = [one.kind for one in signature.parameters.values()]
    places = math.inf if inspect.Parameter.VAR_POSITIONAL in kinds else len(kinds) - kinds.count(inspect.Parameter.KEYWORD_ONLY)
    if any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values()):
        raise TypeError(f"{function.__qualname__} takes any keyword; guide what it hands them to.")
    accepted = frozenset(known)

    @wraps(function)
    def checked(*given: P.args, **named: P.kwargs) -> T:
        of = type(given[0]) if given and function.__name__ == "__init__" else function
        for name in named:
            if name not in accepted:
                raise TypeError(f"{of.__name__}() has no argument {name!r}{advice(name, known)}")
        if len(given) > places:
            raise TypeError(f"{of.__name__}() has no place for {shown(given[int(places)])}{_all_of(known)}")
        return function(*given, **named)

    return checked


def advice(name: str, known: tuple[str, ...]) -> str:
    """The end of a message about an argument that there is not: the word for it here, what there is instead, the nearest, or all.

    Examples
    --------
    >>> advice("burnin", ("draws", "tune")), advice("drawz", ("draws", "tune")), advice("colour", ("draws", "tune"))
    ('; give tune= (iterations before the first draw).', "; did you mean 'draws'?", '; there are draws, tune.')
    """
    for argument, why in ARGUMENTS.get(name, ()):
        if argument in known:
            return f"; give {_option(argument)} ({why})."
        if not argument:
            return f"; {why}."
    near = nearest(name, known)
    if near is not None:
        return f"; did you mean {_option(near) if SHELL.get() else repr(near)}?"
    return _all_of(known)


def _all_of(known: tuple[str, ...]) -> str:
    return f"; there are {', '.join(map(_option, known) if SHELL.get() else known)}." if known else "; it takes none."


def _option(argument: str) -> str:
    """An argument as it is given here, or on the command line."""
    return f"--{argument.replace('_', '-')}" if SHELL.get() else f"{argument}="


def absent(thing: Any, name: str, of_fits: bool = True) -> Any:
    """Answer for the `__getattr__` of an object: an AttributeError says what there is here, or the nearest name.

    Examples
    --------
    >>> class Fit:
    ...     def __getattr__(self, name):
    ...         return absent(self, name)
    >>> Fit().BIC
    Traceback (most recent call last):
    AttributeError: 'Fit' object has no attribute 'BIC'; nm.compare(a, b) compares fits by leaving rows out, .log_density(new) by rows \
that they have not seen.
    """
    if hasattr(type(thing), name):  # a property, in which something else is lacking
        return object.__getattribute__(thing, name)
    text = f"{type(thing).__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):
        raise AttributeError(text)
    said = ATTRIBUTES.get(name, name)
    here = said.split("(")[0].split(" ")[0]  # the attribute that a hint begins with, which not every fit has
    if of_fits and here in OF_CHAINS and (here == name or not hasattr(thing, here)):
        raise AttributeError(f"{text}; {OF_CHAINS[here]}.")
    if of_fits and name in ATTRIBUTES:
        raise AttributeError(f"{text}; {'' if said.startswith('nm.') else '.'}{said}.")
    near = did_you_mean(name, (one for one in {*dir(type(thing)), *vars(thing)} if not one.startswith("_")))
    raise AttributeError(text if near == "." else text + near)
