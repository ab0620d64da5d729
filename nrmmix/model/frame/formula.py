"""Formulas on tables: which columns are responses and which are covariates.

A formula is code, because patsy evaluates Python expressions. `nrmmix.model.frame.syntax` therefore checks its
syntax tree before patsy sees it, and patsy evaluates it in a namespace that holds the listed functions and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import patsy
from patsy import builtins
from patsy.desc import INTERCEPT, Term
from patsy.eval import EvalEnvironment, EvalFactor

from nrmmix.common import messages
from nrmmix.common.names import bare
from nrmmix.model.frame import arrays, syntax, tables
from nrmmix.model.frame.columns import dates
from nrmmix.model.frame.columns.censoring import CensoredPart, limits_of, of_two_columns
from nrmmix.model.frame.columns.exchangeable import Coding, exchangeable, together
from nrmmix.model.frame.columns.levels import Sum, Treatment, cells_of, check_texts
from nrmmix.model.frame.columns.weights import are_counts, copies, quantiles
from nrmmix.model.frame.sparse import column_names, is_sparse, row_index, sparse_counts
from nrmmix.model.frame.summary import Summary
from nrmmix.model.frame.syntax import LEARNING, MAX_COUNT, Syntax, guard, parse, parse_design

__all__ = ["ModelFrame", "is_text", "model_frame"]

MISSING = ("drop", "raise", "marginalize")


def _categorical(data: Any, contrast: Any = None, levels: Any = None) -> Any:
    # numbers arrive as floats; the columns of whole ones should be named C(x)[T.2]
    if isinstance(data, np.ndarray) and data.ndim == 1:
        data = [int(item) if item.is_integer() else item for item in data.tolist()]
    return builtins.C(data, contrast, levels)


_PLAIN = syntax.NUMPY | syntax.FURTHER
_PATSY = {name: getattr(builtins, name) for name in (*syntax.OPTIONS, *syntax.CONTRASTS) if name not in _PLAIN}
_NP = SimpleNamespace(**syntax.NUMPY, **syntax.CONSTANTS)
_OWN = {"C": _categorical, "Treatment": Treatment, "Sum": Sum, "np": _NP}
_ENVIRONMENT = EvalEnvironment([_PLAIN | _PATSY | _OWN])
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
    kept: Any = None  # the columns (k,) of the design, for covariates without the intercept
    reads: str = "numbers"  # how a response is read, see `nrmmix.model.families.base.Family`
    text: str = ""  # of a design
    is_open: bool = False  # whether it is an end of an interval, which may be infinite

    @classmethod
    def of(cls, what: str, terms: list[Term], known: Sequence[str]) -> _Part:
        checks = {factor.code: Syntax(factor.code, known) for term in terms for factor in term.factors}
        columns = dict.fromkeys(name for check in checks.values() for name in check.columns)
        return cls(what, terms, tuple(columns), checks)

    @property
    def is_plain(self) -> bool:
        """Whether it is one column as it is, in quotes or not."""
        return self.terms is None or not any(check.computed or check.called - {"Q"} for check in self.checks.values())

    @property
    def is_category(self) -> bool:
        """Whether it is a covariate of categories, by the number of their level."""
        return self.what == "covariate" and self.reads == "categories"

    @property
    def name(self) -> str:
        """Name of a response, before it is fitted."""
        return self.columns[0] if self.terms is None or self.is_plain else self.terms[0].name()

    @property
    def columns_of_names(self) -> list[tuple[str, ...]]:
        """Columns that each of its names is computed from, once it is fitted."""
        if self.design is None:
            return [self.columns] * len(self.names)
        terms = np.repeat(np.array(self.design.terms, dtype=object), [part.stop - part.start for part in self.design.term_slices.values()])
        found = ([name for factor in terms[j].factors for name in self.checks[factor.code].columns] for j in self.kept)
        return [tuple(dict.fromkeys(names)) for names in found]

    @property
    def groups_of_names(self) -> tuple[int, ...]:
        """First name that codes the same term of categories as each, once it is fitted; of all others their own places."""
        groups = list(range(len(self.names)))
        for term, place in self.design.term_slices.items() if self.design is not None else ():
            if any(self.design.factor_infos[factor].type == "categorical" for factor in term.factors):
                own = [a for a, j in enumerate(self.kept) if place.start <= j < place.stop]
                for a in own:
                    groups[a] = own[0]
        return tuple(groups)

    def named(self, role: str) -> set[str]:
        """The columns that any factor uses as `role` says: see :class:`Syntax`."""
        return {name for check in self.checks.values() for name in getattr(check, role)}

    def read(self, frame: pd.DataFrame) -> dict[str, Any]:
        """Return the columns as floats or categories; missing values pass, unknown levels do not."""
        numeric = self.numeric if self.terms is not None or self.reads == "categories" else self.columns
        if self.reads in ("counts", "composition", "binary"):
            for name in self.columns:
                if self.reads != "binary" and arrays.is_boolean(frame[name]):
                    raise ValueError(f"The response {name!r} holds True and False, which are no counts; use nm.Bernoulli() for it.")
        codes = set(self.columns if self.reads == "categories" else ())
        codes.update(*(check.columns for check in self.checks.values() if "C" in check.called))
        return {
            name: arrays.column(
                frame[name], name, self.levels.get(name), numeric=name in numeric, finite=not self.is_open, codes=name in codes
            )
            for name in self.columns
        }

    def fit(self, frame: pd.DataFrame, sample_of: int | None = None, weight: np.ndarray | None = None) -> _Part:
        """Learn levels and transformations from complete rows, which may be a sample of so many, and count as often as weights say."""
        n = len(frame) if sample_of is None else sample_of
        if self.reads == "categories":
            fitted = self._fit_categories(frame)
            if self.is_category:
                self._check_categories(frame, fitted.numeric, fitted.levels, n)
            return fitted
        if self.terms is None:
            return replace(self, names=self.columns)
        data = self.read(frame)
        complete = ~np.any([arrays.missing_mask(values) for values in data.values()], axis=0)
        data = {name: values[complete] for name, values in data.items()}
        numeric = frozenset(name for name, values in data.items() if isinstance(values, np.ndarray))
        levels = {name: tuple(np.unique(data[name])) for name in self.named("counted") & numeric}
        levels |= {name: tuple(data[name].categories) for name in data.keys() - numeric}
        self._check_categories(frame, numeric, levels, n)
        if weight is not None and LEARNING & self.named("called"):
            rows = copies(weight[complete])
            data = {name: values[rows] for name, values in data.items()}
        try:
            build = patsy.design_matrix_builders
            (design,) = guard(build, [self.terms], lambda: iter([data]), _ENVIRONMENT, _NOTHING_MISSING)
        except ValueError as error:
            if "mismatch between column_names" in str(error):  # as patsy calls columns of one name
                check_texts(levels)
            raise
        kept = np.arange(len(design.column_names))
        if INTERCEPT in design.terms and self.what != "input":
            kept = np.delete(kept, design.term_slices[INTERCEPT])
        names = tuple(bare(design.column_names[j]) for j in kept)
        text = any(info.type == "categorical" for info in design.factor_infos.values())
        if self.what == "response" and (text or len(names) != 1):
            why = "holds text or categories" if text else f"has {len(names)} columns"
            own = self.terms[0].name()
            advice = "Convert it, give it the family nm.Categorical(), or use it as a covariate."
            if own not in self.columns and len(self.columns) == 1:  # computed, by C(g) or a spline
                advice = f"Write {self.columns[0]} with the family nm.Categorical()." if text else f"Write {self.columns[0]} itself."
            raise ValueError(f"The response {own!r} {why}; a response is one column of numbers. {advice}")
        return replace(self, levels=levels, numeric=numeric, design=design, names=names, kept=kept)

    def _fit_categories(self, frame: pd.DataFrame) -> _Part:
        """Learn the levels of a response of categories."""
        if not self.is_plain:
            raise ValueError(f"The response {self.name!r} is computed; a response of categories is a column as it is.")
        (name,) = self.columns
        values = arrays.column(frame[name], name)
        if isinstance(values, np.ndarray):
            whole = isinstance(frame[name].dtype, np.dtype) and frame[name].dtype.kind in "iu"  # types that saved fits keep
            numeric, levels = frozenset([name]), tuple(map(int if whole else float, np.unique(values[~np.isnan(values)])))
        else:
            numeric, levels = frozenset(), tuple(values.categories)
        if self.what == "response":
            check_texts({name: levels})
        return replace(self, levels={name: levels}, numeric=numeric, names=(name,))

    def _check_categories(self, frame: pd.DataFrame, numeric: frozenset[str], levels: dict[str, tuple[Any, ...]], n: int) -> None:
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
            if n > 1 and len(own := levels.get(name, ())) == 1:
                raise ValueError(f"The covariate {name!r} is constant ({messages.shown(own[0])} in all {n} rows used); leave it out.")
        terms = self.terms or []
        size: dict[str, int] = {}
        for code, check in self.checks.items():
            size[code] = check.size * math.prod(len(levels.get(name, "1")) for name in check.columns)
        total = sum(math.prod([size[factor.code] for factor in term.factors]) for term in terms if term.factors)
        if total > MAX_COUNT:
            most = max(levels, key=lambda name: len(levels[name]), default=None)
            why = f"; {most!r} has {len(levels[most])} levels" if most is not None else ""
            raise ValueError(f"The formula makes up to {total} covariates, and there is room for {MAX_COUNT}{why}; use fewer.")

    def compute(self, frame: pd.DataFrame, index: pd.Index, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return (m, k) values, NaN in rows that miss a column, and the mask of the other rows.

        `rows` are the positions of the rows in `index`, for messages, where `frame` is part of a table.
        """
        rows = np.arange(len(frame)) if rows is None else rows
        data = self.read(frame)
        ok = ~np.any([np.zeros(len(frame), bool), *map(arrays.missing_mask, data.values())], axis=0)
        out = np.full((len(frame), len(self.names)), np.nan)
        if self.reads == "categories":
            (values,) = data.values()
            codes = np.searchsorted(self.levels[self.columns[0]], values) if isinstance(values, np.ndarray) else values.codes
            out[:, 0] = np.where(ok, codes, np.nan)
        elif self.terms is None:
            out[:, 0] = data[self.columns[0]]
        elif not data:  # a design that is the intercept alone
            out[:] = 1.0
        elif ok.any():
            complete = {name: values[ok] for name, values in data.items()}
            (values,) = guard(patsy.build_design_matrices, [self.design], complete, _NOTHING_MISSING)
            out[ok] = np.asarray(values)[:, self.kept]
            checked = np.where(np.isinf(out[ok]), 0.0, out[ok]) if self.is_open else out[ok]
            arrays.check_finite(checked, self.names, index, self.what, rows[ok], remedy=_without_value(checked, self.names))
        if self.reads in ("counts", "composition", "binary"):
            arrays.check_counts(out[:, 0], self.names[0], index, rows, binary=self.reads == "binary")
        return out, ok


def _without_value(values: np.ndarray, names: Sequence[str]) -> str:
    """The end of a message about the first number of (m, k) values that is not finite."""
    bad = np.argwhere(~np.isfinite(values))
    name = names[bad[0, 1]] if len(bad) else ""
    of_zero = name.startswith(("log(", "np.log(")) and np.isneginf(values[tuple(bad[0])])
    return "the formula has no finite value there" + (f", and {name.replace('log(', 'log1p(', 1)} has" if of_zero else "")


@dataclass(frozen=True, eq=False)
class ModelFrame:
    """Responses and covariates of a model, and how they are computed, from new data too: see `NewRows`."""

    formula: str | None
    response: Any = field(repr=False)  # (n, d) float64, NaN where missing, categories by the number of their level; or CSR array of counts
    response_names: tuple[str, ...]
    covariates: np.ndarray | None = field(repr=False)  # (n, q) float64, None without covariates
    covariate_names: tuple[str, ...]
    inputs: np.ndarray = field(repr=False)  # (n, e) float64, of the families' designs
    index: pd.Index = field(repr=False)  # the caller's labels of the used rows
    used: np.ndarray = field(repr=False)  # (rows of the data,) bool
    source: Any = field(repr=False)  # used rows and columns, a DataFrame or a CSR array: gives the same ModelFrame again
    parts_of_responses: list[Any] = field(repr=False)  # columns behind each response, and whether it is one of them as it is
    parts_of_covariates: list[_Part] = field(repr=False)  # one of all numbers, then the categories
    parts_of_inputs: list[_Part] = field(repr=False)  # one for each design
    from_array: bool = field(repr=False)
    limits: np.ndarray | None = field(default=None, repr=False)  # (n, d, 2) of responses that were not seen, see `limits_of`
    weight: np.ndarray | None = field(default=None, repr=False)  # (n,) how often each used row counts; None where once
    weighed_by: str | None = None  # column that says so, of new rows too
    first_dates: Mapping[str, pd.Timestamp] = field(default_factory=dict, repr=False)  # of columns of dates; `source` has days since
    is_streamed: ClassVar[bool] = False  # whether rows stay where they are, see `nrmmix.model.frame.streaming`

    @property
    def n_used(self) -> int:
        return self.response.shape[0]

    @property
    def n_rows(self) -> int:
        return len(self.used)

    @property
    def is_weighted(self) -> bool:
        """Whether some rows count more often than others."""
        return self.weight is not None

    @property
    def size(self) -> float:
        """Rows used, each as often as it counts."""
        return float(self.n_used if self.weight is None else self.weight.sum())

    def sizes_of(self, labels: np.ndarray) -> np.ndarray:
        """Sizes (K,) of the clusters 0, ..., K - 1 of the rows used, each as often as it counts; int64 where weights are whole numbers."""
        sizes = np.bincount(labels, self.weight)
        return sizes.astype(np.int64) if self.weight is None or are_counts(self.weight) else sizes

    def typical_value(self, name: str) -> Any:
        """The median of a column of numbers, the most frequent level of another, rows counted as often as they do.

        Examples
        --------
        >>> frame = model_frame("y ~ x + g", {"y": [1.0, 2.0, 4.0], "x": [3, 1, 2], "g": ["b", "a", "b"]})
        >>> frame.typical_value("x"), frame.typical_value("g")
        (2.0, 'b')
        """
        read = arrays.column(self.source[name], name)
        if isinstance(read, np.ndarray):
            return float(np.median(read) if self.weight is None else quantiles(read, 0.5, self.weight))
        return read.categories[np.bincount(read.codes, self.weight).argmax()]

    def summary(self, columns: np.ndarray, inputs: np.ndarray) -> Summary:
        """Summarise some responses, which have some of the inputs, for defaults of hyperparameters."""
        return Summary(np.ascontiguousarray(self.response[:, columns]), self.inputs[:, inputs], self.weight)

    @property
    def seen(self) -> Any:
        """The responses, NaN where they are censored."""
        return self.response if self.limits is None else np.where(np.isnan(self.limits[..., 0]), self.response, np.nan)

    @cached_property
    def is_sparse(self) -> bool:
        """Whether the responses are a CSR array of counts."""
        return not isinstance(self.response, np.ndarray)

    @cached_property
    def levels(self) -> tuple[tuple[Any, ...] | None, ...]:
        """Levels of each response, None where it holds numbers."""
        if self.is_sparse:
            return (None,) * len(self.response_names)
        return tuple(part.levels.get(part.columns[0]) if part.reads == "categories" else None for part in self.parts_of_responses)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Kinds in which each response is read."""
        return ("composition",) * len(self.response_names) if self.is_sparse else tuple(part.reads for part in self.parts_of_responses)

    @property
    def designs(self) -> tuple[str, ...]:
        """Right sides of the formulas of inputs."""
        return tuple(part.text for part in self.parts_of_inputs)

    @property
    def input_widths(self) -> tuple[int, ...]:
        """Number of inputs of each design."""
        return tuple(len(part.names) for part in self.parts_of_inputs)

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Columns of the data behind the inputs."""
        return tuple(dict.fromkeys(name for part in self.parts_of_inputs for name in part.columns))

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts_of_inputs for name in part.names)

    @property
    def input_groups(self) -> tuple[int, ...]:
        """First column in the design that codes the same term of categories as each input; of all others their own."""
        return tuple(first for part in self.parts_of_inputs for first in part.groups_of_names)

    @property
    def input_coding(self) -> Coding:
        """Prior of the inputs' coefficients in which levels of factors are alike."""
        return together([exchangeable(part.design) for part in self.parts_of_inputs])

    @property
    def is_category(self) -> np.ndarray:
        """(q,) bool: covariates that are categories, by the number of their level."""
        return np.array([part.is_category for part in self.parts_of_covariates for _ in part.names], dtype=bool)

    @property
    def covariate_columns(self) -> dict[str, tuple[Any, ...] | None]:
        """Columns of the data behind the covariates, each with its levels, None where it is numeric."""
        return {name: part.levels.get(name) for part in self.parts_of_covariates for name in part.columns}

    @property
    def columns_of_covariates(self) -> dict[str, tuple[str, ...]]:
        """Columns of the data that each covariate is computed from."""
        return {name: columns for part in self.parts_of_covariates for name, columns in zip(part.names, part.columns_of_names, strict=True)}

    def __reduce__(self) -> tuple[Any, ...]:  # designs of patsy cannot be pickled: build them again
        given = self.formula, self.source, self.used, self.from_array, self.reads, self.designs
        return restored_frame, (*given, self.weight, self.weighed_by, self.first_dates)


def restored_frame(
    formula: str | None, source: Any, used: np.ndarray, from_array: bool, reads: Sequence[str] | None = None, designs: Sequence[str] = (),
    weight: np.ndarray | None = None, weighed_by: str | None = None, first_dates: Mapping[str, pd.Timestamp] | None = None, *,
    sample_of: int | None = None,
) -> ModelFrame:
    """The frame whose `source`, `used` and so on these are."""
    kinds = None if reads is None else lambda names: reads
    frame = model_frame(formula, source, "marginalize", kinds, designs, sample_of=sample_of, weight=weight)
    return replace(frame, used=used, from_array=from_array, weight=weight, weighed_by=weighed_by, first_dates=first_dates or {})


def check_missing(missing: Any) -> None:
    """Refuse what says nothing of rows with missing values."""
    if not (isinstance(missing, str) and missing in MISSING):
        raise ValueError(f"missing={missing!r} is not available; use {' or '.join(f'missing={kind!r}' for kind in MISSING)}.")


def model_frame(
    formula: str | None, data: Any, missing: str = "drop", reads: Callable[[Sequence[str]], Sequence[str]] | None = None,
    designs: Sequence[str] = (), *, sample_of: int | None = None, weight: np.ndarray | None = None,
) -> ModelFrame:
    """Read responses and covariates from a table.

    Parameters
    ----------
    formula, data, missing
        See `nrmmix.Model`.  The columns of an array are named y1 to yd.  Counts of a multinomial family may be a sparse matrix, or a
        DataFrame of sparse columns.  Without a formula every column is a response that no design uses.
    reads : function, optional
        From the names of the responses, how each is read: "numbers" (default), "counts", "composition" (counts given
        the total of the row, which may be sparse), "binary" or "categories".
    designs : sequence of str
        Right sides of formulas whose columns are inputs of component families.
    sample_of : int, optional
        Number of the rows used that these are some of, by which it cannot be told whether covariates vary and differ.
    weight : ndarray, optional
        How often each row counts for what `center`, `scale`, `bs` and so on learn, where these are whole numbers.

    Raises
    ------
    ValueError
        For a formula outside the grammar, unknown columns, infinite values, constant or equal columns, text
        in a response, numbers as text, counts that are none, missing values (``missing="raise"``) and if no row is left.

    Notes
    -----
    Numbers and booleans (0/1) are used as they are, of dates the days since the first one.  Text and categories that stand as they are
    give one column each, the number of their level, after those of numbers; within ``C()`` and in products with other terms they are coded
    by columns for their levels.
    There is no intercept, so ``y ~ x - 1`` is ``y ~ x`` where ``x`` holds numbers; ``C()`` then gives a column for every level instead
    of all but the first. Designs have their intercept.

    Examples
    --------
    >>> frame = model_frame("log(y) ~ x", {"y": [1.0, 2.0, 4.0], "x": [3, 1, 2]})
    >>> frame.response_names, frame.covariate_names, frame.response.shape
    (('log(y)',), ('x',), (3, 1))
    """
    check_missing(missing)
    if not (formula is None or isinstance(formula, str)):
        kind = type(formula).__name__
        raise TypeError(f"The formula must be a string such as 'y ~ x', not {kind}; give data as data=.")
    if is_sparse(data):
        if len(data.shape) != 2 or 0 in data.shape:
            raise ValueError(f"The sparse data have the shape {tuple(data.shape)}; give a matrix of at least one row and one column.")
        kinds = {"numbers"} if reads is None or formula is not None or designs else set(reads(column_names(data)))
        if kinds == {"composition"}:
            return _sparse_frame(data)
        if not isinstance(data, pd.DataFrame):
            raise ValueError(
                "A sparse matrix holds counts for one nm.Multinomial(), without a formula; give data.toarray() for other families."
            )
    frame = tables.as_frame(data)
    known = list(frame.columns)
    inputs = [replace(_Part.of("input", parse_design(design, known), known), text=design) for design in designs]
    spoken_for = {name for part in inputs for name in part.columns}
    responses, covariates = ([], []) if formula is None else parse(formula, known)
    frame, first_dates = dates.in_days(frame, [*spoken_for, *_Part.of("covariate", covariates, known).columns])
    left = [_response(term, known) for term in responses]
    right = _covariate_parts(covariates, frame)
    if formula is None:
        left = [_Part("response", None, (name,)) for name in known if name not in spoken_for]
    for part in left:
        for name in spoken_for.intersection(part.columns):
            raise ValueError(f"The column {name!r} is a response and stands in the design of a family; keep it in one place.")
    if reads is not None:
        left = [replace(part, reads=kind) for part, kind in zip(left, reads([part.name for part in left]), strict=True)]
    needed = {name: values for part in [*right, *inputs] for name, values in part.read(frame).items()}
    columns = {name: values for part in left for name, values in part.read(frame).items()}
    if missing == "marginalize":
        used = arrays.complete_rows(needed, frame.index, drop=True) if needed else np.ones(len(frame), dtype=bool)
        _check_something_observed(columns, used, frame.index)
    else:
        used = arrays.complete_rows(columns | needed, frame.index, drop=missing == "drop")
    source = frame.loc[used, [*columns, *(name for name in needed if name not in columns)]]
    counts = None if weight is None else weight[used]
    left = [part.fit(source, weight=counts) for part in left]
    right, inputs = ([part.fit(source, sample_of, counts) for part in parts] for parts in (right, inputs))
    response = _join(left, source, frame.index, used, sample_of)
    limits = limits_of(left, source, frame.index, np.flatnonzero(used))
    table = _join(right, source, frame.index, used, sample_of) if right else None
    of_inputs = _join(inputs, source, frame.index, used) if inputs else np.zeros((len(source), 0))
    for side in (left, right, *([part] for part in inputs)):
        _check_names(side)
    names = [tuple(name for part in side for name in part.names) for side in (left, right)]
    from_array = formula is None and tables.is_plain(data)
    return ModelFrame(
        formula, response, names[0], table, names[1], of_inputs, source.index, used, source, left, right, inputs, from_array, limits,
        first_dates=first_dates,
    )


def _response(term: Term, known: Sequence[str]) -> Any:
    """The part of a response, which may be of two columns."""
    kind, texts = of_two_columns(term.name())
    if not kind:
        return _Part.of("response", [term], known)
    first, second = (replace(_Part.of("response", [Term([EvalFactor(text)])], known), is_open=kind == "interval") for text in texts)
    return CensoredPart(kind, term.name(), first, second)


def _covariate_parts(terms: list[Term], frame: pd.DataFrame) -> list[_Part]:
    """All numbers in one part, and categories that stand as they are each in a part of its own."""
    known = list(frame.columns)
    if not any(term.factors for term in terms):
        return []
    own: list[_Part] = []
    together: list[Term] = []
    for term in terms:
        part = _Part.of("covariate", [term], known)
        is_own = part.is_plain and len(term.factors) == 1 and is_text(frame, part.columns)
        own, together = (own + [replace(part, reads="categories")], together) if is_own else (own, together + [term])
    numbers = [_Part.of("covariate", together, known)] if any(term.factors for term in together) else []
    return numbers + own


def is_text(frame: pd.DataFrame, columns: Iterable[str]) -> bool:
    """Whether a column holds text or categories."""
    return any(not isinstance(arrays.column(frame[name], name), np.ndarray) for name in columns)


def _check_names(parts: Sequence[_Part | CensoredPart]) -> None:
    """Refuse a column that is called as what the formula computes from others: tables of results could not tell them apart."""
    found: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for name, columns in zip(part.names, part.columns_of_names, strict=True):
            if not columns or set(found.setdefault(name, columns)) == set(columns):  # none: the constant of a design
                continue
            others = messages.quoted(next(one for one in (columns, found[name]) if one != (name,)))
            raise ValueError(f"The {part.what} {name!r} is both a column and computed from {others} by the formula; rename the column.")


def _check_something_observed(columns: dict[str, Any], used: np.ndarray, index: pd.Index) -> None:
    """Refuse a row or a column of which nothing is observed."""
    gaps = {name: arrays.missing_mask(values)[used] for name, values in columns.items()}
    if nowhere := [name for name, gap in gaps.items() if gap.all()]:
        which = f" {nowhere[0]!r} is" if len(nowhere) == 1 else f"s {messages.quoted(nowhere)} are"
        raise ValueError(f"The response{which} missing in all {used.sum()} rows; leave {'it' if len(nowhere) == 1 else 'them'} out.")
    empty = np.flatnonzero(np.all(list(gaps.values()), axis=0))
    if len(empty):
        where = messages.row_name(np.flatnonzero(used)[empty[0]], index)
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        subset = "" if len(columns) > messages.MAX_NAMES else f", subset={list(columns)!r}"
        raise ValueError(
            f"All responses are missing in {where}{more}, which then says nothing; drop such rows, data.dropna(how='all'{subset}), or use "
            "missing='drop', which drops all rows that miss something."
        )


def _join(parts: list[_Part], source: pd.DataFrame, index: pd.Index, used: np.ndarray, sample_of: int | None = None) -> np.ndarray:
    rows = np.flatnonzero(used)
    names = [name for part in parts for name in part.names]
    values = np.hstack([part.compute(source, index, rows)[0] for part in parts])
    what = parts[0].what
    checked = np.where(np.isnan(values), 0.0, values) if what == "response" else values
    out = arrays.matrix(checked, names, index, what, rows)
    out[np.isnan(values)] = np.nan
    if what == "response" or (what == "covariate" and sample_of is None):
        vary = [j for j, part in enumerate(parts) if part.reads == "numbers"] if what == "response" else range(len(names))
        arrays.check_distinct(out[:, vary], [names[j] for j in vary], what, sample_of, cells_of(parts))
    return out


def _sparse_frame(data: Any) -> ModelFrame:
    """The frame of sparse counts, which have no formula and no covariates."""
    n = data.shape[0]
    names, index, used = column_names(data), row_index(data), np.ones(n, dtype=bool)
    from_array = not isinstance(data, pd.DataFrame)
    return ModelFrame(None, sparse_counts(data, names), names, None, (), np.zeros((n, 0)), index, used, data, [], [], [], from_array)
