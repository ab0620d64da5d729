"""Formulas on tables: which columns are responses and which are covariates.

A formula is code, because patsy evaluates Python expressions. `formula_syntax` therefore checks its syntax
tree before patsy sees it, and patsy evaluates it in a namespace that holds the listed functions and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import patsy
from patsy import builtins
from patsy.desc import INTERCEPT, Term
from patsy.eval import EvalEnvironment

from nrmmix import arrays, tables
from nrmmix.formula_syntax import CONSTANTS, CONTRASTS, MAX_COUNT, NUMPY, OPTIONS, Syntax, guard, parse

__all__ = ["ModelFrame", "model_frame"]


def _categorical(data: Any, contrast: Any = None, levels: Any = None) -> Any:
    # numbers arrive as floats; the columns of whole ones should be named C(x)[T.2]
    if isinstance(data, np.ndarray) and data.ndim == 1:
        data = [int(item) if item.is_integer() else item for item in data.tolist()]
    return builtins.C(data, contrast, levels)


_PATSY = {name: getattr(builtins, name) for name in (*OPTIONS, *CONTRASTS) if name not in NUMPY}
_NP = SimpleNamespace(**NUMPY, **CONSTANTS)
_ENVIRONMENT = EvalEnvironment([{**NUMPY, **_PATSY, "C": _categorical, "np": _NP}])
_NOTHING_MISSING = patsy.NAAction(on_NA="raise", NA_types=[])  # rows are masked here, never by patsy


@dataclass(frozen=True, eq=False)
class _Part:
    """One response, or all covariates: what is read and, after :meth:`fit`, how it is computed."""

    what: str
    terms: list[Term] | None  # None: the one column as it is
    columns: tuple[str, ...]
    checks: dict[str, Syntax] = field(default_factory=dict)  # of the factors, by their code
    levels: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    numeric: frozenset[str] = frozenset()  # columns that held numbers when the part was fitted
    design: Any = None
    names: tuple[str, ...] = ()
    kept: np.ndarray | None = None  # the columns of the design other than the intercept

    @classmethod
    def of(cls, what: str, terms: list[Term], known: Sequence[str]) -> _Part:
        checks = {factor.code: Syntax(factor.code, known) for term in terms for factor in term.factors}
        columns = dict.fromkeys(name for check in checks.values() for name in check.columns)
        return cls(what, terms, tuple(columns), checks)

    def named(self, role: str) -> set[str]:
        """The columns that any factor uses as `role` says: see :class:`Syntax`."""
        return {name for check in self.checks.values() for name in getattr(check, role)}

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
        levels = {name: tuple(np.unique(data[name])) for name in self.named("counted") & numeric}
        levels |= {name: tuple(data[name].categories) for name in data.keys() - numeric}
        self._check_categories(frame, numeric, levels)
        build = patsy.design_matrix_builders
        (design,) = guard(build, [self.terms], lambda: iter([data]), _ENVIRONMENT, _NOTHING_MISSING)
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

    def _check_categories(self, frame: pd.DataFrame, numeric: frozenset[str], levels: dict[str, tuple[Any, ...]]) -> None:
        """Check that text and categories are where they can be coded, vary, and do not give too many columns."""
        for code, check in self.checks.items():
            for name in check.columns.keys() & check.computed - numeric:
                raise ValueError(
                    f"The formula piece {code!r} computes with {name!r}, which holds text or categories; "
                    f"convert it to numbers, or write {name} alone."
                )
        if self.what == "response":
            return
        for name in self.columns:
            if not (name in numeric or name in self.named("coded") or isinstance(frame[name].dtype, pd.CategoricalDtype)):
                arrays.check_text(frame[name], name)
            if len(frame) > 1 and len(levels.get(name, ())) == 1:
                raise ValueError(f"The covariate {name!r} is constant ({levels[name][0]!r} in all {len(frame)} rows used); leave it out.")
        size = {code: check.size * math.prod(len(levels.get(name, "1")) for name in check.columns) for code, check in self.checks.items()}
        total = sum(math.prod(size[factor.code] for factor in term.factors) for term in self.terms if term.factors)
        if total > MAX_COUNT:
            most = max(levels, key=lambda name: len(levels[name]), default=None)
            why = f"; {most!r} has {len(levels[most])} levels" if most is not None else ""
            raise ValueError(f"The formula makes up to {total} covariates, and there is room for {MAX_COUNT}{why}; use fewer.")

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
            (values,) = guard(patsy.build_design_matrices, [self.design], complete, _NOTHING_MISSING)
            out[ok] = np.asarray(values)[:, self.kept]
            arrays.check_finite(out[ok], self.names, index, self.what, rows[ok], remedy="the formula has no finite value there")
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
    from_array: bool = field(repr=False)

    @property
    def covariate_columns(self) -> dict[str, tuple[Any, ...] | None]:
        """Columns of the data behind the covariates, each with its levels, None where it is numeric."""
        return {name: part.levels.get(name) for part in self._covariates for name in part.columns}

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
                    raise tables.unknown_column(name, list(frame.columns), "the new data")
            values, ok = part.compute(frame, frame.index)
        return values, frame.index, ok

    def new_response(self, newdata: Any, which: Iterable[int] | None = None) -> np.ndarray | None:
        """Compute the (m, d) responses of new data, NaN where missing; None if a response column is absent.

        Of responses other than `which`, by default all, the columns may be absent. Errors are those of :meth:`new_covariates`.
        """
        frame = self._table(newdata)
        needed = range(len(self._responses)) if which is None else which
        out = np.full((len(frame), len(self._responses)), np.nan)
        for j in needed:
            part = self._responses[j]
            if any(name not in frame for name in part.columns):
                return None
            out[:, [j]] = part.compute(frame, frame.index)[0]
        return out

    def _table(self, newdata: Any) -> pd.DataFrame:
        frame = tables.as_frame(newdata, allow_empty=True)
        if tables.is_plain(newdata) and not self.from_array:
            raise TypeError("The model was built from named columns; give new data as a DataFrame or a dict.")
        if tables.is_plain(newdata) and frame.shape[1] != len(self.response_names):
            d = len(self.response_names)
            raise ValueError(f"The new data have {frame.shape[1]} columns; the model was built from {d}.")
        return frame

    def __reduce__(self) -> tuple[Any, ...]:  # designs of patsy cannot be pickled: build them again
        return restored_frame, (self.formula, self.source, self.used, self.from_array)


def restored_frame(formula: str | None, source: pd.DataFrame, used: np.ndarray, from_array: bool) -> ModelFrame:
    """The frame whose `source` and `used` these are."""
    return replace(model_frame(formula, source), used=used, from_array=from_array)


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
        in a response, numbers as text, missing values (``missing="raise"``) and if no row is left.

    Notes
    -----
    Numbers and booleans (0/1) are used as they are, text and categories are coded by level, numbers within ``C()`` too.
    There is no intercept, so ``y ~ x - 1`` is ``y ~ x`` where ``x`` holds numbers; categories then get a column for every
    level instead of all but the first.

    Examples
    --------
    >>> frame = model_frame("log(y) ~ x", {"y": [1.0, 2.0, 4.0], "x": [3, 1, 2]})
    >>> frame.response_names, frame.covariate_names, frame.response.shape
    (('log(y)',), ('x',), (3, 1))
    >>> frame.new_covariates({"x": [5, None]})[0].ravel()
    array([ 5., nan])
    """
    if not (isinstance(missing, str) and missing in ("drop", "raise")):
        raise ValueError(f"missing={missing!r} is not available; use missing='drop' or missing='raise'.")
    if not (formula is None or isinstance(formula, str)):
        kind = type(formula).__name__
        raise TypeError(f"The formula must be a string such as 'y ~ x', not {kind}; give data as data=.")
    frame = tables.as_frame(data)
    known = list(frame.columns)
    left, right = [_Part("response", None, (name,)) for name in known], []
    if formula is not None:
        responses, covariates = parse(formula, known)
        left = [_Part.of("response", [term], known) for term in responses]
        right = [_Part.of("covariate", covariates, known)] if any(term.factors for term in covariates) else []
    columns = {name: values for part in [*left, *right] for name, values in part.read(frame).items()}
    used = arrays.complete_rows(columns, frame.index, drop=missing == "drop")
    source = frame.loc[used, list(columns)]
    left, right = [part.fit(source) for part in left], [part.fit(source) for part in right]
    response = _join(left, source, frame.index, used)
    table = _join(right, source, frame.index, used) if right else None
    names = [tuple(name for part in side for name in part.names) for side in (left, right)]
    from_array = formula is None and tables.is_plain(data)
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
