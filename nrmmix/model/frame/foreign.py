"""Words of other packages' formulas, and what to write for them here: one table, which is read where a formula cannot be.

mgcv, brms, bambi, lme4, mclust, flexmix, survival, and R's own formulas are the ones that people come from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from nrmmix.common.messages import nearest
from nrmmix.common.names import quoted_name

# ---- functions: what to write, from the arguments of the call

def _bends(given: list[str]) -> str:
    x = _first(given)
    return f"write {x}, along which the whole distribution bends by itself, or for a basis of splines bs({x}, df=4)"


def _surface(given: list[str]) -> str:
    names = [one for one in given if "=" not in one][:2] or ["x", "z"]
    return f"write {' + '.join(names)}, in which it bends by itself, or te({', '.join(f'bs({name}, df=4)' for name in names)})"


def _natural(given: list[str]) -> str:
    return f"write cr({_first(given)}, df={max(int(_number(given, '4')), 3)}), natural splines"


def _polynomial(given: list[str]) -> str:
    x, degree = _first(given), min(int(_number(given, "2")), 5)
    return "write " + " + ".join([x, *(f"I({x}**{power})" for power in range(2, degree + 1))])


def _groups(given: list[str]) -> str:
    groups = re.findall(r"[\w.]+", _first(given, "g").rpartition("|")[2])
    return (
        f"random effects of groups are not available: write the group as a covariate, {' + '.join(groups)} where it is text or categories, "
        f"{' + '.join(f'C({g})' for g in groups)} where it holds numbers"
    )


def _category(given: list[str]) -> str:
    x = _first(given)
    return f"write C({x}), or {x} alone where it is text or categories"


def _exposure(given: list[str]) -> str:
    e = re.sub(r"^log\((.*)\)$", r"\1", _first(given, "w"))
    return f"of counts give the exposure, not its logarithm, family=nm.Poisson(exposure={e!r}); of other responses subtract it beforehand"


def _responses(given: list[str]) -> str:
    given = [f"I({one})" if re.search(r"[-+*/]", one) else one for one in given]
    return f"responses are joined by +, {' + '.join(given) or 'y + z'}; lists are written [{', '.join(given) or '1, 2'}]"


def _weights(given: list[str]) -> str:
    return f"give weights={_first(given, 'w')!r} to the fit, apart from the formula"


def _censored(given: list[str]) -> str:
    return "of censored responses write Surv(time, event) ~ x or interval(lower, upper) ~ x"


def _trials(given: list[str]) -> str:
    return "give the counts of all outcomes and the family nm.Multinomial(), yes + no ~ x"


def _beforehand(given: list[str]) -> str:
    return "compute such a column beforehand"


def _nothing(given: list[str]) -> str:
    return "there is nothing like it here"


FUNCTIONS: dict[str, Callable[[list[str]], str]] = {
    **dict.fromkeys(("s", "lo", "loess", "gp", "hsgp", "smooth", "pb", "ps", "spline"), _bends),
    **dict.fromkeys(("ti", "t2"), _surface),
    "poly": _polynomial,
    **dict.fromkeys(("ns", "rcs", "nsp"), _natural),
    **dict.fromkeys(("pspline", "bSpline"), lambda given: f"write bs({_first(given)}, df={_number(given, '4')})"),
    **dict.fromkeys(("factor", "as.factor", "ordered", "as.ordered", "relevel", "as.character", "strata", "categorical"), _category),
    **dict.fromkeys(("offset", "exposure", "rate"), _exposure),
    **dict.fromkeys(("cbind", "mvbind", "c"), _responses),
    **dict.fromkeys(("bf", "mvbf", "brmsformula", "formula", "nl", "lf", "nlf"), lambda given: "a formula is the text alone, y ~ x"),
    **dict.fromkeys(("weights", "wt", "fweights"), _weights),
    **dict.fromkeys(("cens", "censored", "trunc"), _censored),
    **dict.fromkeys(("trials", "binomial"), _trials),
    **dict.fromkeys(("ln", "log_e", "log.e"), lambda given: f"write log({_first(given)})"),
    **dict.fromkeys(("zscore", "std"), lambda given: f"write standardize({_first(given)})"),
    "demean": lambda given: f"write center({_first(given)})",
    **dict.fromkeys(("re", "frailty", "gr", "random", "mm", "us", "car", "sar", "iid"), _groups),
    **dict.fromkeys(("mo", "me", "mi", "se", "dec", "thres", "ar", "ma", "ar1", "rw1", "rw2"), _nothing),
    **dict.fromkeys(("pow", "power"), lambda given: f"write I({_first(given)}**{_number(given, '2')})"),
    **dict.fromkeys(
        ("cut", "ntile", "lag", "diff", "ifelse", "where", "mean", "max", "min", "sum", "round", "rank", "median", "interaction",
         "pmax", "pmin", "clip", "minmax", "month", "year", "day", "hour", "weekday", "yday", "fourier", "isin", "map", "fillna",
         "as.numeric", "as.integer", "float", "int", "str", "to_numeric", "to_datetime"), _beforehand,
    ),
}


# ---- what stands between names, or around them: a pattern, and what to write

def _power(base: str, exponent: str) -> str:
    return f"write {base}**{exponent}" if base == "." or base.startswith("(") else f"write I({base}**{exponent})"


def _joined(names: str) -> str:
    return f"columns are joined by +, {' + '.join(re.split(r' *, *', names))}"


PIECES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"\(\s*[^()|]*?\s*\|\|?\s*([^()|]+?)\s*\)", lambda found: _groups([found[1]])),
    (r"([\w.]*\([^()]*\)|[\w.]+)\s*\^\s*([\w.]+)", lambda found: _power(found[1], found[2])),
    (r"\w+\s*[(\[][^~()]*~", lambda found: "the tilde stands outside of brackets, as in log(y) ~ x"),
    (r"<-|:=|←", lambda found: "a tilde stands between responses and covariates, y ~ x"),
    (r"%in%|&", lambda found: "an interaction is written with a colon, x:z"),
    (r"%\S*%|//|@|[=!]=|%", lambda found: _beforehand([])),
    (r"""^[^'"]*?(?P<piece>[∼～˜])""", lambda found: "the tilde is that of the keyboard, ~"),
    (r"""^[^'"]*?(?P<piece>[−–—‐])""", lambda found: "a minus is that of the keyboard, -"),
    (r"""^[^'"]*?(?P<piece>[×·∗])""", lambda found: "a product is written with the star of the keyboard, *"),
    (r"""^[^'"]*?(?P<piece>[“”‘’„«»´])""", lambda found: "quotes are those of the keyboard, ' or \""),
    (r"(?:^[^()]*?|\bI\([^()]*?)(?P<piece>[<>]=?)", lambda found: _beforehand([])),
    (r"`([^`]*)`", lambda found: f"write {quoted_name(found[1])}"),
    (r"\w+\$(\w+)", lambda found: f"columns are named alone, {found[1]}"),
    (r"""\w+\[\s*['"](.+?)['"]\s*\]""", lambda found: f"columns are named alone, {quoted_name(found[1])}"),
    (r"""(?:^|[~+:*])\s*(?P<piece>(['"])([^'"]*)\2)""", lambda found: f"columns are named without quotes, {quoted_name(found[3])}"),
    (r"\b\w+\s*\[[^'\"\]]*\]", lambda found: _beforehand([])),
    (r"""(?<!['"\w.])(?P<piece>(?:pi|(?<=[*/^(-])e|(?<=[*/^(-] )e))(?![\w'"])""", lambda found: f"write np.{found[0]}"),
    (r"\b\w+\s*\|\s*(\w+)(?![\w(])", lambda found: _groups([found[1]])),
    (r"^\s*\.\s*~", lambda found: "the dot stands on the right; for all columns as responses leave the formula out, data=data"),
    (r"(?:[~+]|^)\s*(?P<piece>\d[\d.]*\s*[*/]\s*[\w.]+|[\w.]+\s*[*/]\s*\d[\d.]*)(?![\w(])",
     lambda found: f"arithmetic stands within I(), I({found[1]})"),
    (r"(?P<piece>(?<![\w)])[(\[]\s*(\w+(?:\s*,\s*\w+)+)\s*[)\]])\s*~", lambda found: _joined(found[2])),
    (r"^[^()\[\]]*?(\w+\s*,\s*\w+)", lambda found: _joined(found[1])),
)


def advice(formula: str, known: Sequence[str]) -> str | None:
    """Say what to write in place of the first piece of a formula that is of another package, or that is the name of a column.

    None where there is neither.

    Examples
    --------
    >>> advice("y ~ poly(x, 2)", ["y", "x"])
    "The formula piece 'poly(x, 2)' is not allowed: write x + I(x**2)."
    >>> advice("FSC-A ~ 1", ["FSC-A"])
    "The column 'FSC-A' has a name that a formula reads as code; write Q('FSC-A') for it."
    """
    text = re.sub(r"""\bQ\(\s*(?:"[^"]*"|'[^']*')\s*\)|=\s*\[[^\]]*\]""", lambda found: "_" * len(found[0]), formula)
    if (name := _column(text, known)) is not None:
        return f"The column {name!r} has a name that a formula reads as code; write Q({name!r}) for it."
    for name, call, given in _calls(text):
        if name not in known:
            return f"The formula piece {call!r} is not allowed: {FUNCTIONS[name](given)}."
    for pattern, instead in PIECES:
        found = re.search(pattern, text)
        if found is not None and found[0] not in known:
            piece = found["piece"] if "piece" in found.re.groupindex else found[0].strip()
            return f"The formula piece {piece!r} is not allowed: {instead(found)}."
    for name in map(str.strip, re.split(r"[~+*:()]", text)):
        is_other = name[:1].isalpha() and not name.isidentifier()
        if is_other and (near := nearest(name, [one for one in known if quoted_name(one) != one])) is not None:
            return f"The formula piece {name!r} is not allowed: did you mean {quoted_name(near)}?"
    return None


def _column(text: str, known: Sequence[str]) -> str | None:
    """The longest name of a column that a formula holds outside of Q() and that it cannot read as one."""
    left = text.partition("~")[0]
    for name in sorted(known, key=len, reverse=True):
        if quoted_name(name) == name or not any(letter.isalnum() for letter in name):
            continue
        place = left if name.isdecimal() else text  # columns without names have numbers for them
        if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", place):
            return name
    return None


def _calls(text: str) -> list[tuple[str, str, list[str]]]:
    """Calls of functions that others have: name, text, arguments."""
    found = []
    for match in re.finditer(r"(?<![\w.])(?:np\.)?([A-Za-z][\w.]*)\s*\(", text):
        if match[1] in FUNCTIONS:
            inside, end = _until_closed(text, match.end())
            found.append((match[1], text[match.start() : end], [one for one in inside if one]))
    return found


def _until_closed(text: str, start: int) -> tuple[list[str], int]:
    """The arguments of a call that begin at `start`, and where it ends."""
    parts, depth, at = [""], 0, start
    while at < len(text):
        letter = text[at]
        depth += (letter in "([") - (letter in ")]")
        at += 1
        if depth < 0:
            break
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts], at


def _first(given: list[str], otherwise: str = "x") -> str:
    return given[0] if given else otherwise


def _number(given: list[str], otherwise: str) -> str:
    """The first whole number among the arguments after the first, by name or not."""
    found = (re.fullmatch(r"(?:\w+\s*=\s*)?(\d{1,3})", one) for one in given[1:])
    return next((one[1] for one in found if one), otherwise)
