"""Formulas on tables: which columns are responses and which are covariates.

A formula is code, because patsy evaluates Python expressions. Its syntax tree is therefore checked before
patsy sees it, and patsy evaluates it in a namespace that holds the listed functions and nothing else.
"""

from __future__ import annotations

import ast
import io
import keyword
import math
import re
import sys
import tokenize
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import patsy
from patsy import builtins
from patsy.desc import INTERCEPT, ModelDesc, Term
from patsy.eval import EvalEnvironment
from patsy.parse_formula import parse_formula

from nrmmix import arrays

__all__ = ["ModelFrame", "model_frame"]

MAX_LENGTH = 2000  # characters
MAX_DEPTH = 30  # nested brackets
MAX_EXPONENT = 100
MAX_COUNT = 1000  # degrees of freedom of a spline; terms of the right side, after * and ** are expanded

_NUMPY = {
    name: getattr(np, name)
    for name in "log log10 log2 log1p exp expm1 sqrt cbrt square abs sign floor ceil sin cos tan arcsin "
    "arccos arctan sinh cosh tanh".split()
}
_CONSTANTS = {"pi": np.pi, "e": np.e}
_OPTIONS: dict[str, tuple[str, ...]] = {  # every function with the options that follow its first argument
    **dict.fromkeys(["I", "Q", "center"], ()),
    "C": ("contrast", "levels"),
    **dict.fromkeys(["standardize", "scale"], ("center", "rescale", "ddof")),
    "bs": ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
    **dict.fromkeys(["cr", "cc"], ("df", "knots", "lower_bound", "upper_bound", "constraints")),
    "te": ("constraints",),
    **dict.fromkeys(_NUMPY, ()),
}
_CONTRASTS = ("Treatment", "Sum", "Helmert", "Diff", "Poly")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_TOKENS = ("+", "-", "*", "/", "**", ":", "~", "(", ")", "[", "]", ",", ".", "=")
_TOKEN_TYPES = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.NEWLINE, tokenize.ENDMARKER)
_GRAMMAR = (
    'A formula may hold column names (Q("any name") for one that is no Python name), numbers, + - * / ** : '
    f"and parentheses, and the functions {', '.join(_OPTIONS)}, those of NumPy also as np.log and so on."
)


def _categorical(data: Any, contrast: Any = None, levels: Any = None) -> Any:
    # numbers arrive as floats; the columns of whole ones should be named C(x)[T.2]
    if isinstance(data, np.ndarray) and data.ndim == 1:
        data = [int(item) if item.is_integer() else item for item in data.tolist()]
    return builtins.C(data, contrast, levels)


_PATSY = {name: getattr(builtins, name) for name in (*_OPTIONS, *_CONTRASTS) if name not in _NUMPY}
_NP = SimpleNamespace(**_NUMPY, **_CONSTANTS)
_ENVIRONMENT = EvalEnvironment([{**_NUMPY, **_PATSY, "C": _categorical, "np": _NP}])
_NOTHING_MISSING = patsy.NAAction(on_NA="raise", NA_types=[])  # rows are masked here, never by patsy


def _refusal(piece: str, why: str) -> ValueError:
    return ValueError(f"The formula piece {piece!r} is not allowed: {why}. {_GRAMMAR}")


class _Syntax:
    """Check one expression. It names `columns`; C() takes `counted` of them as they are, without levels."""

    def __init__(self, text: str, known: Sequence[str]) -> None:
        self.text, self.known = text, known
        self.columns: dict[str, None] = {}
        self.counted: set[str] = set()
        self.called: set[str] = set()
        letters = list(text)
        for token in _tokens(text):
            if token.string == ":":  # not an operator of Python; "@" is as long and keeps the positions
                letters[token.start[1]] = "@"
        try:
            tree = ast.parse("".join(letters), mode="eval")
        except (SyntaxError, MemoryError) as error:
            raise _refusal(text, f"it cannot be read ({getattr(error, 'msg', 'too deep')})") from None
        self.expression(tree.body, inside=False)
        for name in self.called & self.columns.keys():
            raise ValueError(f"The formula uses {name!r} as a function and as a column; rename the column.")

    def refuse(self, node: ast.AST, why: str) -> ValueError:
        return _refusal(ast.get_source_segment(self.text, node) or self.text, why)

    def expression(self, node: ast.expr, inside: bool) -> bool:
        """Check an expression outside or inside of a call; return whether it contains a column."""
        if (name := _plain_name(node)) is not None:
            return self.column(name, quoted=isinstance(node, ast.Call))
        if isinstance(node, ast.Call):
            found = self.call(node)
            if not (found or inside):
                raise self.refuse(node, "it contains no column")
            return found
        operators = _OPERATORS if inside else (*_OPERATORS, ast.MatMult)
        if isinstance(node, ast.BinOp) and isinstance(node.op, operators):
            found = any([self.expression(part, inside) for part in (node.left, node.right)])
            large = any(_exceeds(part, MAX_EXPONENT) for part in ast.walk(node.right))
            if isinstance(node.op, ast.Pow) and (large or not found):  # 9 ** 9 ** 9 never ends
                raise self.refuse(node, f"a power needs a column and an exponent up to {MAX_EXPONENT}")
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            return self.expression(node.operand, inside)
        if isinstance(node, ast.Attribute) and self.of_numpy(node) in _CONSTANTS and inside:
            return False
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return self.literal(node)
        raise self.refuse(node, f"{type(node).__name__} has no place here")

    def column(self, name: str, quoted: bool) -> bool:
        if name.startswith(("__", "_patsy_")):
            raise _refusal(name, "names that begin with two underscores or _patsy_ are reserved")
        if name not in self.known:
            raise arrays.unknown_column(name, self.known)
        self.columns[name] = None
        self.called |= {"Q"} if quoted else set()
        return True

    def of_numpy(self, node: ast.Attribute) -> str:
        known = node.attr in _NUMPY or node.attr in _CONSTANTS
        if not (known and isinstance(node.value, ast.Name) and node.value.id == "np"):
            raise self.refuse(node, "there are no attributes, apart from np.log and so on")
        self.called.add("np")
        return node.attr

    def call(self, node: ast.Call) -> bool:
        """Check a call; return whether it contains a column."""
        if isinstance(node.func, ast.Attribute):
            name = self.of_numpy(node.func)
        else:
            name = node.func.id if isinstance(node.func, ast.Name) else "what is called"
            self.called.add(name)
        if name not in _OPTIONS:
            raise self.refuse(node, f"{name} is not one of the functions")
        if name == "Q":
            raise self.refuse(node, "Q takes the name of one column as a string")
        first, allowed = len(node.args) if name == "te" else 1, _OPTIONS[name]
        options = list(zip(allowed, node.args[first:]))
        options += [(word.arg or "**", word.value) for word in node.keywords]
        if not 1 <= len(node.args) <= first + len(allowed) or not {key for key, _ in options} <= {*allowed}:
            after = f"and the options {', '.join(allowed)}" if allowed else "and nothing else"
            raise self.refuse(node, f"{name} takes one argument {after}")
        for key, value in options:
            self.option(key, value)
        column = _plain_name(node.args[0])
        if name == "C" and column is not None and "levels" not in dict(options):
            self.counted.add(column)
        return any([self.expression(argument, inside=True) for argument in node.args[:first]])

    def option(self, key: str, node: ast.expr) -> None:
        if key == "contrast":
            call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
            if not (isinstance(call.func, ast.Name) and call.func.id in _CONTRASTS):
                raise self.refuse(node, f"a contrast is one of {', '.join(_CONTRASTS)}")
            self.called.add(call.func.id)
            for value in [*call.args, *(word.value for word in call.keywords)]:
                self.literal(value)
            return
        self.literal(node)
        if key in ("df", "degree") and _exceeds(node, MAX_COUNT):
            raise self.refuse(node, f"{key} goes up to {MAX_COUNT}")

    def literal(self, node: ast.expr) -> bool:
        """Check a constant or a list of constants; return False: it contains no column."""
        items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
        for item in items:
            value = item.operand if isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.USub) else item
            if not (isinstance(value, ast.Constant) and isinstance(value.value, (int, float, str, NoneType))):
                raise self.refuse(item, "options are numbers, strings, True, False, None or a list of them")
            if _exceeds(value, sys.float_info.max):
                raise self.refuse(item, "numbers must be finite")
        return False


def _exceeds(node: ast.AST, limit: float) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and node.value > limit


def _plain_name(node: ast.AST) -> str | None:
    """Return the column that `x` or `Q("x")` names, None for any other expression."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
        node = node.args[0] if len(node.args) == 1 and not node.keywords else node
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
    return node.id if isinstance(node, ast.Name) else None


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError) as error:
        raise _refusal(text, f"it cannot be read ({error.args[0]})") from None


def _check_token(token: tokenize.TokenInfo, known: Sequence[str]) -> None:
    text = token.string
    if token.type == tokenize.NAME:
        reserved = keyword.iskeyword(text) and text not in ("True", "False", "None")
        if reserved or unicodedata.normalize("NFKC", text) != text:
            raise _refusal(text, f"Python reads it differently; if it is a column write Q({text!r})")
    known_type = token.type in _TOKEN_TYPES or (token.type == tokenize.OP and text in _TOKENS)
    if not known_type or text[:2].lower() in ("0x", "0o", "0b"):  # patsy would take 0x1 for a column
        raise _refusal(text, "it is neither a name nor a decimal number, a string or an operator of formulas")


def _split(formula: str, known: Sequence[str]) -> tuple[str, str]:
    """Check the tokens of a formula and split it at the tilde."""
    text = formula.replace("\n", " ").replace("\t", " ").strip()
    if not text:
        raise ValueError("The formula is empty; write responses, a tilde and covariates: 'y ~ x' or 'y ~ 1'.")
    if len(text) > MAX_LENGTH or not text.isprintable():
        raise _refusal(text[:60], f"a formula has up to {MAX_LENGTH} characters and no control characters")
    depth, tildes = 0, []
    for token in _tokens(text):
        _check_token(token, known)
        depth += (token.string in ("(", "[")) - (token.string in (")", "]"))
        if depth > MAX_DEPTH:
            raise _refusal(text[:60], f"brackets are nested more than {MAX_DEPTH} deep")
        if token.string == "~":
            tildes.append(token.start[1])
    if not tildes:
        raise ValueError(f"The formula {text!r} has no tilde; without covariates write {text + ' ~ 1'!r}.")
    if len(tildes) > 1:
        raise _refusal(text, "a formula has one tilde, between responses and covariates")
    left, right = text[: tildes[0]].strip(), text[tildes[0] + 1 :].strip()
    if not left:
        raise ValueError(f"The formula {text!r} has no response; write it before the tilde: 'y {text}'.")
    return left, right or "1"


def _guard(action: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function of patsy; what goes wrong in it becomes a ValueError with the piece of the formula."""
    try:
        with np.errstate(all="ignore"):  # results that are not finite are found and named afterwards
            return action(*arguments)
    except Exception as error:
        origin = getattr(error, "origin", None)
        piece = f" piece {origin.code[origin.start : origin.end]!r}" if origin is not None else ""
        message = getattr(error, "message", f"{type(error).__name__}: {error}")
        raise ValueError(f"The formula{piece} cannot be evaluated: {message}") from error


def _count_terms(tree: Any) -> int:
    """Bound the number of terms that a right side expands to."""
    counts = [_count_terms(argument) for argument in tree.args] or [1]
    if tree.type == "**":
        power = tree.args[1].token.extra if not tree.args[1].args else ""
        top = min(counts[0], int(power)) if power.isdecimal() else 1  # patsy refuses what is not a number
        return sum(math.comb(counts[0], size) for size in range(1, top + 1))
    return sum(counts) * (tree.type != ":") + math.prod(counts) * (tree.type in ("*", ":"))


def _check_responses(tree: Any) -> list[str]:
    """Return the responses of a left side, which joins them by + and nothing else."""
    if tree.type == "+" and len(tree.args) == 2:
        return _check_responses(tree.args[0]) + _check_responses(tree.args[1])
    if tree.type != "PYTHON_EXPR":
        piece = tree.origin.code[tree.origin.start : tree.origin.end]
        raise _refusal(piece, "responses are joined by + and nothing else; write I(a - b) for arithmetic")
    return [tree.token.extra]


def _parse(formula: str, known: Sequence[str]) -> tuple[list[Term], list[Term]]:
    """Check a formula against the grammar and the columns; return the terms of its sides."""
    left, right = _split(formula, known)
    try:
        on_the_left, on_the_right = (_Syntax(side, known).columns for side in (left, right))
        for name in on_the_left.keys() & on_the_right.keys():
            raise ValueError(f"The column {name!r} stands on both sides of the formula; keep it on one.")
        tree = _guard(parse_formula, f"{left} ~ {right}")
        responses = _check_responses(tree.args[0])
        if len(set(responses)) < len(responses):
            raise ValueError(f"A response stands twice on the left side {left!r}; keep it once.")
        if _count_terms(tree.args[1]) > MAX_COUNT:
            raise _refusal(right, f"it expands to more than {MAX_COUNT} terms")
        terms = _guard(ModelDesc.from_formula, tree)
    except RecursionError:
        raise _refusal(formula[:60], "it is too deeply nested") from None
    return terms.lhs_termlist, terms.rhs_termlist


@dataclass(frozen=True, eq=False)
class _Part:
    """One response, or all covariates: what is read and, after :meth:`fit`, how it is computed."""

    what: str
    terms: list[Term] | None  # None: the one column as it is
    columns: tuple[str, ...]
    counted: frozenset[str] = frozenset()
    levels: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    numeric: frozenset[str] = frozenset()  # columns that held numbers when the part was fitted
    design: Any = None
    names: tuple[str, ...] = ()
    kept: np.ndarray | None = None  # the columns of the design other than the intercept

    @classmethod
    def of(cls, what: str, terms: list[Term], known: Sequence[str]) -> _Part:
        checks = [_Syntax(factor.code, known) for term in terms for factor in term.factors]
        columns = dict.fromkeys(name for check in checks for name in check.columns)
        return cls(what, terms, tuple(columns), frozenset().union(*(check.counted for check in checks)))

    def read(self, frame: pd.DataFrame) -> dict[str, Any]:
        """Return the columns as floats or categories; missing values pass, unknown levels do not."""
        numeric = self.columns if self.terms is None else self.numeric
        return {
            name: arrays.column(frame[name], name, self.levels.get(name), numeric=name in numeric)
            for name in self.columns
        }

    def fit(self, frame: pd.DataFrame) -> _Part:
        """Learn levels and transformations from complete rows."""
        if self.terms is None:
            return replace(self, names=self.columns)
        data = self.read(frame)
        numeric = frozenset(name for name, values in data.items() if isinstance(values, np.ndarray))
        levels = {name: tuple(np.unique(data[name])) for name in self.counted & numeric}
        levels |= {name: tuple(data[name].categories) for name in data.keys() - numeric}
        build = patsy.design_matrix_builders
        (design,) = _guard(build, [self.terms], lambda: iter([data]), _ENVIRONMENT, _NOTHING_MISSING)
        kept = np.arange(len(design.column_names))
        if INTERCEPT in design.terms:
            kept = np.delete(kept, design.term_slices[INTERCEPT])
        names = tuple(re.sub(r"""^Q\((["'])([^"']*)\1\)$""", r"\2", design.column_names[j]) for j in kept)
        text = any(info.type == "categorical" for info in design.factor_infos.values())
        if self.what == "response" and (text or len(names) != 1):
            why = "holds text or categories" if text else f"has {len(names)} columns"
            raise ValueError(
                f"The response {self.terms[0].name()!r} {why}; a response is one column of numbers. "
                "Convert it, or use it as a covariate."
            )
        return replace(self, levels=levels, numeric=numeric, design=design, names=names, kept=kept)

    def compute(
        self, frame: pd.DataFrame, index: pd.Index, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (m, k) values, NaN in rows that miss a column, and the mask of the other rows.

        `rows` are the positions of the rows in `index`, for messages, where `frame` is part of a table.
        """
        rows = np.arange(len(frame)) if rows is None else rows
        data = self.read(frame)
        ok = ~np.any([arrays.missing_mask(values) for values in data.values()], axis=0)
        out = np.full((len(frame), len(self.names)), np.nan)
        if self.terms is None:
            out[:, 0] = data[self.columns[0]]
        elif ok.any():
            complete = {name: values[ok] for name, values in data.items()}
            (values,) = _guard(patsy.build_design_matrices, [self.design], complete, _NOTHING_MISSING)
            out[ok] = np.asarray(values)[:, self.kept]
            arrays.check_finite(out[ok], self.names, index, self.what, rows[ok])
        return out, ok


@dataclass(frozen=True, eq=False)
class ModelFrame:
    """Responses and covariates of a model, and how to compute them from new data."""

    formula: str | None
    response: np.ndarray = field(repr=False)  # (n, d) float64
    response_names: tuple[str, ...]
    covariates: np.ndarray | None = field(repr=False)  # (n, q) float64, None without covariates
    covariate_names: tuple[str, ...]
    index: pd.Index = field(repr=False)  # the caller's labels of the used rows
    used: np.ndarray = field(repr=False)  # (rows of the data,) bool
    source: pd.DataFrame = field(repr=False)  # used rows and columns: gives the same ModelFrame again
    _responses: list[_Part] = field(repr=False)
    _covariates: list[_Part] = field(repr=False)  # none or one
    _from_array: bool = field(repr=False)

    def new_covariates(self, newdata: Any) -> tuple[np.ndarray, pd.Index, np.ndarray]:
        """Compute the covariates of new data, with levels and transformations of the training data.

        Returns
        -------
        covariates : (m, q) float64 ndarray, NaN in rows where a covariate is missing
        index : Index of length m, the caller's
        ok : (m,) bool ndarray, the rows without missing covariates

        Raises
        ------
        ValueError, TypeError
            For a column that is not there, an unseen level, inf, a transformation that is not finite; for an
            array where the model was built from named columns.
        """
        frame = self._table(newdata)
        values, ok = np.empty((len(frame), 0)), np.ones(len(frame), dtype=bool)
        for part in self._covariates:
            for name in part.columns:
                if name not in frame:
                    raise arrays.unknown_column(name, list(frame.columns), "the new data")
            values, ok = part.compute(frame, frame.index)
        return values, frame.index, ok

    def new_response(self, newdata: Any) -> np.ndarray | None:
        """Compute the (m, d) responses of new data, NaN where missing; None if a response column is absent.

        Errors are those of :meth:`new_covariates`.
        """
        frame = self._table(newdata)
        if any(name not in frame for part in self._responses for name in part.columns):
            return None
        return np.hstack([part.compute(frame, frame.index)[0] for part in self._responses])

    def _table(self, newdata: Any) -> pd.DataFrame:
        frame = arrays.as_frame(newdata, allow_empty=True)
        if arrays.is_plain(newdata) and not self._from_array:
            raise TypeError("The model was built from named columns; give new data as a DataFrame or a dict.")
        if arrays.is_plain(newdata) and frame.shape[1] != len(self.response_names):
            d = len(self.response_names)
            raise ValueError(f"The new data have {frame.shape[1]} columns; the model was built from {d}.")
        return frame

    def __reduce__(self) -> tuple[Any, ...]:  # designs of patsy cannot be pickled: build them again
        return _restore, (self.formula, self.source, self.used, self._from_array)


def _restore(formula: str | None, source: pd.DataFrame, used: np.ndarray, from_array: bool) -> ModelFrame:
    return replace(model_frame(formula, source), used=used, _from_array=from_array)


def model_frame(formula: str | None, data: Any, missing: str = "drop") -> ModelFrame:
    """Read responses and covariates from a table.

    Parameters
    ----------
    formula : str or None
        ``"responses ~ covariates"``, responses joined by ``+``; the right side ``1`` means no covariates.
        None makes every column a response.
    data : DataFrame, dict of columns, ndarray, or an object with ``to_pandas()``
        The columns of an array are named ``y1`` to ``yd``.
    missing : {"drop", "raise"}
        What to do with rows that miss a value in a used column; dropped rows are counted in a UserWarning.

    Returns
    -------
    ModelFrame

    Raises
    ------
    ValueError
        For a formula outside the grammar, unknown columns, infinite values, constant or equal columns, text
        in a response, missing values (``missing="raise"``) and if no row is left.

    Examples
    --------
    >>> frame = model_frame("log(y) ~ x", {"y": [1.0, 2.0, 4.0], "x": [3, 1, 2]})
    >>> frame.response_names, frame.covariate_names, frame.response.shape
    (('log(y)',), ('x',), (3, 1))
    >>> frame.new_covariates({"x": [5, None]})[0].ravel()
    array([ 5., nan])
    """
    if missing not in ("drop", "raise"):
        raise ValueError(f"missing={missing!r} is not available; use missing='drop' or missing='raise'.")
    if not (formula is None or isinstance(formula, str)):
        kind = type(formula).__name__
        raise TypeError(f"The formula must be a string such as 'y ~ x', not {kind}; give data as data=.")
    frame = arrays.as_frame(data)
    known = list(frame.columns)
    left, right = [_Part("response", None, (name,)) for name in known], []
    if formula is not None:
        responses, covariates = _parse(formula, known)
        left = [_Part.of("response", [term], known) for term in responses]
        right = [_Part.of("covariate", covariates, known)] if any(term.factors for term in covariates) else []
    columns = {name: values for part in [*left, *right] for name, values in part.read(frame).items()}
    used = arrays.complete_rows(columns, frame.index, drop=missing == "drop")
    source = frame.loc[used, list(columns)]
    left, right = [part.fit(source) for part in left], [part.fit(source) for part in right]
    response = _join(left, source, frame.index, used)
    table = _join(right, source, frame.index, used) if right else None
    names = [tuple(name for part in side for name in part.names) for side in (left, right)]
    from_array = formula is None and arrays.is_plain(data)
    return ModelFrame(
        formula, response, names[0], table, names[1], source.index, used, source, left, right, from_array
    )


def _join(parts: list[_Part], source: pd.DataFrame, index: pd.Index, used: np.ndarray) -> np.ndarray:
    rows = np.flatnonzero(used)
    names = [name for part in parts for name in part.names]
    values = np.hstack([part.compute(source, index, rows)[0] for part in parts])
    out = arrays.matrix(values, names, index, parts[0].what, rows)
    arrays.check_distinct(out, names, parts[0].what)
    return out
