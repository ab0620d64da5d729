"""The family of a model as a list of blocks: responses that are independent of those of other blocks within a component."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from nrmmix.common.messages import did_you_mean
from nrmmix.common.names import meant
from nrmmix.kernels.core import state as layout
from nrmmix.model.families.base import Family, Packed, Parameter, rows_of
from nrmmix.model.families.distributions import Distribution, Elliptical
from nrmmix.model.families.exponential import Stacked, Statistics
from nrmmix.model.frame.columns.exchangeable import Coding
from nrmmix.model.frame.columns.weights import are_counts
from nrmmix.model.frame.formula import ModelFrame
from nrmmix.model.frame.streaming import StreamedFrame
from nrmmix.model.frame.syntax import Syntax

REPEATED = 1e7  # cells of rows that are repeated for defaults of hyperparameters


class Assignment(NamedTuple):
    """Assignment of responses to families."""

    families: tuple[Family, ...]
    columns: tuple[tuple[int, ...], ...]  # of each family, numbers of its responses

    @property
    def reads(self) -> tuple[str, ...]:
        """Return how each response is read."""
        out = [""] * sum(map(len, self.columns))
        for family, columns in zip(self.families, self.columns, strict=True):
            for j in columns:
                out[j] = family.reads
        return tuple(out)


def designs(family: Family | Mapping[Any, Family]) -> tuple[str, ...]:
    """Right sides of the formulas of inputs, of the families that have them."""
    families = family.values() if isinstance(family, Mapping) else (family,)
    return tuple(each.design for each in families if isinstance(each, Family) and each.design is not None)


def exposures(family: Family | Mapping[Any, Family] | None, known: Sequence[str]) -> list[str]:
    """Names of the columns that exposures are computed from."""
    families = family.values() if isinstance(family, Mapping) else (family,)
    texts = [getattr(getattr(each, "family", each), "exposure", None) for each in families]  # of a hurdle the family apart from its point
    return [name for text in texts if isinstance(text, str) for name in Syntax(text, known).columns]


def assign(family: Family | Mapping[Any, Family], names: Sequence[str]) -> Assignment:
    """Divide responses among families: one for all, or several by names of responses: a name, names joined by " + ", or a tuple of names.

    A name in quotes, Q("..."), is that of the column.

    A ValueError if a name is none of a response or stands twice, a response has no family, or a value is not a family.

    Examples
    --------
    >>> from nrmmix.model.families import Gaussian
    >>> assign({"a": Gaussian(), "b + c": Gaussian()}, ["c", "a", "b"]).columns
    ((1,), (2, 0))
    """
    if not isinstance(family, Mapping):
        return Assignment((family,), (tuple(range(len(names))),))
    if not family:
        raise ValueError(f"family is an empty dict; give a family for each response: {', '.join(names)}.")
    taken: dict[str, Any] = {}
    columns = []
    for key, value in family.items():
        if not isinstance(value, Family):
            raise ValueError(f"family of {key!r} must be an object such as nm.Gaussian(), not {value!r}.")
        own = [meant(name, names) or name for name in _names_of(key, names)]
        for name in own:
            if name not in names:
                hint = did_you_mean(name, names)
                raise ValueError(f"family is given for {name!r}, which is no response; the responses are {', '.join(names)}{hint}")
            if name in taken:
                raise ValueError(f"response {name!r} has two families, under {taken[name]!r} and {key!r}; give it one.")
            taken[name] = key
        columns.append(tuple(list(names).index(name) for name in own))
    without = [name for name in names if name not in taken]
    if without:
        raise ValueError(f"family has none for the response{'s' if len(without) > 1 else ''} {', '.join(without)}; give one for each.")
    return Assignment(tuple(family.values()), tuple(columns))


def _names_of(key: Any, names: Sequence[str]) -> list[str]:
    if isinstance(key, str):
        return [key] if meant(key, names) is not None else [part.strip() for part in _summands(key)]
    if isinstance(key, tuple) and key and all(isinstance(name, str) for name in key):
        return list(key)
    raise ValueError(f"family has the key {key!r}; keys are names of responses, or tuples of them.")


def _summands(key: str) -> list[str]:
    """The parts of a sum, apart from sums in brackets: those of a name such as log(x + 1)."""
    parts, depth = [""], 0
    for letter in key:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "+" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def places_of(assignment: Assignment, frame: ModelFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for each family, the numbers of its responses, and of its columns among the inputs."""
    found, first, widths = [], 0, iter(frame.input_widths)
    for family, columns in zip(assignment.families, assignment.columns, strict=True):
        e = next(widths) if family.design is not None else 0
        found.append((np.array(columns), np.arange(first, first + e)))
        first += e
    return found


@dataclass(frozen=True)
class Block:
    """A resolved family, its responses and its inputs."""

    family: Family
    columns: np.ndarray  # numbers of its responses
    inputs: np.ndarray  # numbers of its columns among the model's inputs


@dataclass(frozen=True)
class PackedBlocks:
    """All blocks as kernels read them, of some families several, and where in the kernels' arrays each is."""

    rows: layout.Rows
    table: np.ndarray  # (blocks, EMPTY) int64: columns of Data.block up to the entry points
    entries: tuple[Any, ...]  # of each block, its `Entries`
    of: np.ndarray  # (blocks,) the number of the family, among those of the model, that each is of
    n_stat: int
    n_theta: int
    n_work: int
    n_mean: int
    explicit: np.ndarray  # rows of stat that hold parameters
    shared: np.ndarray  # places in the constants of parameters that all clusters share
    shared_names: dict[str, np.ndarray]  # which of them, by number, are of each name
    matrices: tuple[np.ndarray, ...]  # and which are the lower triangle of a positive definite matrix; all others are positive
    censored: np.ndarray  # (cells, 3) and
    limit: np.ndarray  # (cells, 2), see `Data`

    def own_rows(self) -> layout.Rows:
        """The rows, with copies of what a chain changes."""
        rows = self.rows
        if len(self.shared):
            rows = rows._replace(constant=rows.constant.copy())
        return rows._replace(y=rows.y.copy()) if rows.missing.size else rows

    def permits(self, values: np.ndarray, those: np.ndarray | slice = slice(None)) -> bool:
        """Whether shared parameters (..., S), all of them or those of some numbers, are positive, and positive definite where matrices."""
        number = np.arange(len(self.shared))[those]
        matrices = [own for own in self.matrices if np.isin(own, number).all()]
        alone = ~np.isin(number, np.concatenate(matrices)) if matrices else np.full(len(number), True)
        of_matrices = (values[..., np.searchsorted(number, own)] for own in matrices)
        return bool((values[..., alone] > 0).all()) and all(map(_is_positive_definite, of_matrices))

    def middle(self, draws: np.ndarray, those: np.ndarray) -> np.ndarray:
        """Medians of draws (T, S) of shared parameters of some numbers, but of matrices the mean, which is one of them."""
        matrix = np.isin(those, np.concatenate(self.matrices)) if self.matrices else np.full(len(those), False)
        return np.where(matrix, np.mean(draws, axis=0), np.median(draws, axis=0))

    def part(self, array: np.ndarray, b: int, column: int) -> np.ndarray:
        """The rows of the model's family b in an array over all blocks; `column` says of which kind: STAT, THETA or MEANS."""
        first, after = np.searchsorted(self.of, [b, b + 1])
        last = self.table[after, column] if after < len(self.table) else len(array)
        return array[self.table[first, column] : last]


class Blocks:
    """All responses of a model: its blocks, and their methods put together."""

    def __init__(self, blocks: tuple[Block, ...]):
        self.blocks = blocks
        self.n_dim = sum(len(block.columns) for block in blocks)

    @classmethod
    def resolved(cls, assignment: Assignment, frame: ModelFrame) -> Blocks:
        """Blocks with all hyperparameters, defaults taken from the data."""
        blocks = []
        for family, (columns, own) in zip(assignment.families, places_of(assignment, frame), strict=True):
            names, levels = (tuple(values[j] for j in columns) for values in (frame.response_names, frame.levels))
            y = _columns(frame.response, columns)
            _check_missing(family, names, y)
            censored = frame.limits is not None and not np.isnan(frame.limits[:, columns]).all()
            if censored and not family.takes_censored:
                raise ValueError(
                    f"{type(family).__name__} has no way with censored responses ({', '.join(names)}); nm.Gaussian(), nm.Regression() and "
                    "nm.Poisson() have."
                )
            names_of_inputs, groups = (tuple(values[a] for a in own) for values in (frame.input_names, frame.input_groups))
            coding = Coding(*(values[np.ix_(own, own)] for values in frame.input_coding)) if len(own) else None
            family = family.with_values(input_names=names_of_inputs, input_groups=groups, input_coding=coding)
            if isinstance(frame, StreamedFrame) and not frame.has_first:
                resolved = family.resolve_from(frame.summary(columns, own), names, levels)
            elif frame.weight is None:
                with rows_of(frame.index):
                    resolved = family.resolve(y, names, frame.inputs[:, own], levels)
                resolved = resolved.of_more_rows() if frame.is_streamed else resolved
            else:
                resolved = _of_weighted(family, y, names, levels, frame, columns, own)
            resolved = resolved.with_censored() if censored else resolved
            blocks.append(Block(resolved, columns, own))
        return cls(tuple(blocks))

    def rounding_units(self, response: Any) -> dict[str, float]:
        """Units to which responses whose rounding matters are rounded, by name; 0 where they are not."""
        found: dict[str, float] = {}
        for block in self.blocks:
            found |= block.family.rounding_units(_columns(response, block.columns))
        return found

    # ---- arrays for the kernels

    def pack(self, response: Any, inputs: np.ndarray, limits: np.ndarray | None = None) -> PackedBlocks:
        """The model's responses (n, d) and inputs (n, e) in kernel arrays, and its families; `limits` as of `ModelFrame`."""
        of, parts = _numbered(block.family.pack(_columns(response, block.columns), inputs[:, block.inputs]) for block in self.blocks)
        table = np.zeros((len(parts), layout.Block.EMPTY), np.int64)
        at = dict.fromkeys((layout.Block.MEANS, layout.Block.STAT, layout.Block.THETA, layout.Block.CONSTANT), 0)
        for row, part in zip(table, parts, strict=True):
            for column, value in at.items():
                row[column] = value
            at[layout.Block.MEANS] += part.n_mean
            at[layout.Block.STAT] += part.n_stat
            at[layout.Block.THETA] += part.n_theta
            at[layout.Block.CONSTANT] += len(part.constant)
        rows, table = self.to_kernel_arrays(response, inputs, table)
        rows, censored, limit = self._with_limits(rows, response, inputs, table, of, limits)
        begin = table[:, layout.Block.CONSTANT]
        shared = [(name, first + places) for part, first in zip(parts, begin, strict=True) for name, places in part.shared.items()]
        names = np.repeat([name for name, _ in shared], [len(places) for _, places in shared])
        return PackedBlocks(
            rows._replace(constant=_joined([part.constant for part in parts], np.float64)), table,
            tuple(part.entries for part in parts), np.array(of),
            at[layout.Block.STAT], at[layout.Block.THETA], max(part.n_work for part in parts), at[layout.Block.MEANS],
            _first(table[:, layout.Block.STAT], [part.n_explicit for part in parts]),
            _joined([places for _, places in shared], np.int64), {name: np.flatnonzero(names == name) for name, _ in shared},
            _matrices(parts),
            censored, limit,
        )

    def _with_limits(
        self, rows: layout.Rows, response: Any, inputs: np.ndarray, table: np.ndarray, of: list[int], limits: np.ndarray | None,
    ) -> tuple[layout.Rows, np.ndarray, np.ndarray]:
        """The rows with censored cells marked, where these are and their limits."""
        if limits is None:
            return rows, np.zeros((0, 3), np.int64), np.zeros((0, 2))
        column, is_count = np.zeros((2, self.n_dim), np.int64)
        for b, at in zip(of, table, strict=True):
            own = self.blocks[b].columns
            column[own], is_count[own] = at[layout.Block.FIRST] + np.arange(len(own)), self.blocks[b].family.reads == "counts"
        i, j = np.nonzero(~np.isnan(limits[..., 0]))
        limit = limits[i, j]
        for end in (0, 1):  # in kernel coordinates, in which what is infinite stays so
            whole, known = response.copy(), np.isfinite(limit[:, end])
            whole[i[known], j[known]] = limit[known, end]
            limit[known, end] = self.to_kernel_arrays(whole, inputs, table)[0].y[i, column[j]][known]
        limit[:, 1] += is_count[j]
        missing = rows.missing.copy() if rows.missing.size else np.zeros(rows.y.shape, np.uint8)
        missing[i, column[j]] = np.where(is_count[j], layout.CENSORED_COUNT, layout.CENSORED)
        cells = np.stack([i, column[j], is_count[j]], axis=1)
        return rows._replace(missing=missing), np.ascontiguousarray(cells), np.ascontiguousarray(limit)

    def observe_inputs(self, inputs: np.ndarray) -> list[np.ndarray]:
        """Return the inputs (n, e) of each block as kernels read them."""
        return [block.family.observe_inputs(inputs[:, block.inputs]) for block in self.blocks]

    def to_kernel_arrays(self, response: Any, inputs: np.ndarray, table: np.ndarray) -> tuple[layout.Rows, np.ndarray]:
        """Responses and inputs in kernel arrays, without constants: blocks side by side, inputs behind them.  And the table for them."""
        n, table = response.shape[0], table.copy()
        of, parts = _numbered(map(self._observed, self.blocks, repeat(response)))
        of_inputs = sum(part.y.shape[1] for part in parts)
        of_blocks = self.observe_inputs(inputs)
        first = pointer = nonzero = 0
        indptr, indices, counts = [], [], []
        for row, block, part in zip(table, [self.blocks[b] for b in of], parts, strict=True):
            row[layout.Block.FIRST], row[layout.Block.LAST] = first, first + part.y.shape[1]
            first += part.y.shape[1]
            row[layout.Block.INPUT] = of_inputs + (block.inputs[0] if len(block.inputs) else 0)
            row[layout.Block.INPUT_LAST] = row[layout.Block.INPUT] + len(block.inputs)
            if part.counts is not None:  # FIRST and LAST then are where the block's row pointers begin and end
                row[layout.Block.FIRST], row[layout.Block.LAST] = pointer, pointer + n + 1
                indptr.append(part.counts.indptr + nonzero)
                indices.append(part.counts.indices)
                counts.append(part.counts.counts)
                pointer, nonzero = pointer + n + 1, nonzero + len(part.counts.indices)
        missing = [np.zeros(part.y.shape, np.uint8) if part.missing is None else part.missing for part in parts]
        missing += [np.zeros(inputs.shape, np.uint8) for inputs in of_blocks]
        imputes = any(part.missing is not None for part in parts)
        rows = layout.Rows(
            np.ascontiguousarray(np.hstack([*(part.y for part in parts), *of_blocks]), float),
            np.ascontiguousarray(np.hstack(missing)) if imputes else np.zeros((0, 0), np.uint8),
            _joined(indptr, np.int64), _joined(indices, np.int64), _joined(counts, np.float64), np.zeros(0),
        )
        return rows, table

    def with_some(self, known: np.ndarray) -> np.ndarray:
        """Return for each block of the kernels whether some of its responses are known (d,)."""
        empty = np.full((1, len(known)), np.nan)
        of, _ = _numbered(block.family.observe(_columns(empty, block.columns)) for block in self.blocks)
        return np.array([bool(known[self.blocks[b].columns].any()) for b in of])

    @staticmethod
    def _observed(block: Block, response: Any) -> Any:
        y = _columns(response, block.columns)
        _check_missing(block.family, block.family.names, y)
        return block.family.observe(y)

    # ---- arrays for variational inference

    def exponential(self, response: Any) -> Stacked:
        """The exponential forms of all families; a NotExponential, in words, where one has none."""
        return Stacked(_numbered(block.family.exponential(_columns(response, block.columns)) for block in self.blocks)[1])

    def statistics(self, exponential: Stacked, response: Any, inputs: np.ndarray) -> Statistics:
        """Responses (n, d) and inputs (n, e) as rows of statistics."""
        of, observed = _numbered(block.family.observe(_columns(response, block.columns)) for block in self.blocks)
        of_blocks = self.observe_inputs(inputs)
        return exponential.rows([part.y if part.counts is None else part.counts for part in observed], [of_blocks[b] for b in of])

    def log_coefficient(self, response: Any) -> np.ndarray | float:
        """Constants (n,) that scores leave out and log densities have."""
        return sum(block.family.log_coefficient(_columns(response, block.columns)) for block in self.blocks)

    def totals(self, response: Any) -> list[np.ndarray | None]:
        """Return the totals (n,) of the counts of each block; None where a family does without."""
        return [
            np.asarray(_columns(response, block.columns).sum(axis=1), float) if block.family.needs_totals else None
            for block in self.blocks
        ]

    # ---- missing cells that the chain draws

    def drawn(self, packed: PackedBlocks) -> tuple[np.ndarray, np.ndarray]:
        """Rows and responses of the cells, row by row: the order of `in_units`."""
        row, response, order, _ = self._drawn(packed)
        return row[order], response[order]

    def _drawn(self, packed: PackedBlocks) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Return rows and responses in the kernels' order; the order row by row; each block's cells, and their responses."""
        row, column = layout.drawn(packed.rows)
        response, owned = np.zeros(len(row), np.int64), []
        for b, entries, at in zip(packed.of, packed.entries, packed.table, strict=True):
            has_cells = entries.impute is not None or self.blocks[b].family.takes_censored
            own = (column >= at[layout.Block.FIRST]) & (column < at[layout.Block.LAST]) & has_cells
            owned.append((own, column[own] - at[layout.Block.FIRST]))
            response[own] = self.blocks[b].columns[owned[-1][1]]
        return row, response, np.lexsort((response, row)), owned

    def in_units(self, values: np.ndarray, packed: PackedBlocks) -> np.ndarray:
        """Cells (..., cells) in the kernels' coordinates and order in the units of the responses, row by row."""
        out = np.empty_like(values)
        _, _, order, owned = self._drawn(packed)
        for b, (own, which) in zip(packed.of, owned, strict=True):
            out[..., own] = self.blocks[b].family.cells(values[..., own], which)
        return out[..., order]

    def completed(self, response: np.ndarray, imputed: np.ndarray, inputs: np.ndarray, packed: PackedBlocks) -> np.ndarray:
        """Responses and inputs as kernels read them, cells (cells,) in the units of the responses in the place of missing ones."""
        whole = response.copy()
        whole[self.drawn(packed)] = imputed
        return self.to_kernel_arrays(whole, inputs, packed.table)[0].y

    # ---- what the kernels' numbers mean

    def means(self, values: np.ndarray, packed: PackedBlocks) -> np.ndarray:
        """Means (..., n_mean) of the kernels in the units of the responses, in the order of `mean_names`."""
        parts = [
            block.family.means(np.moveaxis(packed.part(np.moveaxis(values, -1, 0), b, layout.Block.MEANS), 0, -1))
            for b, block in enumerate(self.blocks)
        ]
        return np.concatenate(parts, axis=-1)[..., self._order_of_means()]

    def places_of_means(self, responses: np.ndarray) -> np.ndarray:
        """Places among all means of those of some responses, those of one after those of another."""
        of = self.mean_responses()
        return np.concatenate([np.flatnonzero(of == j) for j in responses])

    def _order_of_means(self) -> np.ndarray:
        """Means of the blocks end to end, in the order of the responses."""
        return np.argsort(np.concatenate(self._means_of()), kind="stable")

    def _means_of(self) -> list[np.ndarray]:
        """Return, for each block, the response that each of its means belongs to."""
        return [block.columns[block.family.mean_responses()] for block in self.blocks]

    def mean_names(self) -> tuple[str, ...]:
        """A name for each mean, in the order of the responses."""
        names = [name for block in self.blocks for name in block.family.mean_names()]
        return tuple(names[j] for j in self._order_of_means())

    def mean_responses(self) -> np.ndarray:
        """Number of the response that each mean belongs to."""
        return np.sort(np.concatenate(self._means_of()), kind="stable")

    def predictive_distributions(
        self, stat: np.ndarray, n_columns: int, inputs: np.ndarray, packed: PackedBlocks
    ) -> list[Distribution | None]:
        """Return the predictive distribution of each response by cluster."""
        return self._by_response([
            block.family.predictive_distributions(packed.part(stat, b, layout.Block.STAT), n_columns, inputs[:, block.inputs])
            for b, block in enumerate(self.blocks)
        ])

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray, packed: PackedBlocks) -> list[Distribution | None]:
        """Return the distribution of each response under each component."""
        return self._by_response([
            block.family.component_distributions(packed.part(theta, b, layout.Block.THETA), inputs[:, block.inputs])
            for b, block in enumerate(self.blocks)
        ])

    def joint_predictive(self, b: int, stat: np.ndarray, n_columns: int, inputs: np.ndarray, packed: PackedBlocks) -> Elliptical | None:
        """The joint law of the responses of block b by cluster; see `Family.joint_predictive`."""
        block = self.blocks[b]
        return block.family.joint_predictive(packed.part(stat, b, layout.Block.STAT), n_columns, inputs[:, block.inputs])

    def joint_component(self, b: int, theta: np.ndarray, inputs: np.ndarray, packed: PackedBlocks) -> Elliptical | None:
        """Return the joint distribution of the responses under each component."""
        block = self.blocks[b]
        return block.family.joint_component(packed.part(theta, b, layout.Block.THETA), inputs[:, block.inputs])

    def _by_response(self, distributions: list[list[Any]]) -> list[Any]:
        out: list[Any] = [None] * self.n_dim
        for block, own in zip(self.blocks, distributions, strict=True):
            for j, distribution in zip(block.columns, own, strict=True):
                out[j] = distribution
        return out

    def cluster_parameters(self, stat: np.ndarray, n_columns: int, packed: PackedBlocks) -> list[list[Parameter]]:
        """Return the parameters of the components of each block."""
        return [block.family.cluster_parameters(packed.part(stat, b, layout.Block.STAT), n_columns) for b, block in enumerate(self.blocks)]

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator, packed: PackedBlocks,
                       totals: Sequence[np.ndarray | None] | None = None) -> np.ndarray:
        """One row of responses (M, d) from each component; inputs (M, e), totals (M,) of each block of counts."""
        out = np.empty((theta.shape[1], self.n_dim))
        for b, block in enumerate(self.blocks):
            own = packed.part(theta, b, layout.Block.THETA)
            out[:, block.columns] = block.family.draw_responses(own, inputs[:, block.inputs], rng, totals[b] if totals else None)
        return out

    def describe(self) -> list[tuple[str, str]]:
        """(label, text) lines for the printed model."""
        if len(self.blocks) == 1:
            return [("family" if i == 0 else "", line) for i, line in enumerate(self.blocks[0].family.describe())]
        lines: list[tuple[str, str]] = []
        for block in self.blocks:
            first, *rest = block.family.describe()
            lines.append(("family" if not lines else "", f"{', '.join(block.family.names)}: {first}"))
            lines += [("", f"  {line}") for line in rest]
        return lines


def _of_weighted(
    family: Family, y: Any, names: tuple[str, ...], levels: Any, frame: ModelFrame, columns: np.ndarray, inputs: np.ndarray
) -> Family:
    """A family with hyperparameters of the table in which rows stand as often as they count; of other weights, and many, by sums."""
    x, weight, n = frame.inputs[:, inputs], frame.weight, y.shape[0]
    assert weight is not None
    if are_counts(weight) and frame.size * (y.shape[1] + x.shape[1]) <= REPEATED:
        rows = np.repeat(np.arange(n), weight.astype(np.int64))
        with rows_of(frame.index, rows):
            return family.resolve(y[rows], names, x[rows], levels).of_more_rows()
    with rows_of(frame.index):
        family.resolve(y, names, x, levels)  # which says what is wrong with a row
    return family.resolve_from(frame.summary(columns, inputs), names, levels).of_more_rows()


def _check_missing(family: Family, names: Sequence[str], y: Any) -> None:
    """NaN goes to families alone that know what to do with it."""
    if family.takes_missing or not isinstance(y, np.ndarray):
        return
    gaps = np.flatnonzero(np.isnan(y).any(axis=0))
    if len(gaps):
        raise ValueError(
            f"{type(family).__name__} has no way with missing values, and response {names[gaps[0]]!r} has some; "
            "use missing='drop', or another family."
        )


def _columns(response: Any, columns: np.ndarray) -> Any:
    """Columns of responses, which may be sparse counts."""
    whole = len(columns) == response.shape[1] and (np.diff(columns) == 1).all()
    return response if whole else np.ascontiguousarray(response[:, columns])


def _numbered(parts: Iterable[Any]) -> tuple[list[int], list[Any]]:
    """Join what families gave, of some a list, end to end, with the number of the family that each item is from."""
    found = [(b, one) for b, part in enumerate(parts) for one in (part if isinstance(part, list) else [part])]
    return [b for b, _ in found], [one for _, one in found]


def _first(start: np.ndarray, counts: list[int]) -> np.ndarray:
    """Numbers of the first places of each block."""
    return _joined([np.arange(first, first + count) for first, count in zip(start, counts, strict=True)], np.int64)


def _matrices(parts: Sequence[Packed]) -> tuple[np.ndarray, ...]:
    """Numbers of the shared parameters of each block where they are a matrix."""
    counts = [sum(map(len, part.shared.values())) for part in parts]
    first = np.cumsum([0, *counts])
    return tuple(np.arange(at, at + count) for at, count, part in zip(first, counts, parts, strict=False) if part.is_matrix)


def _is_positive_definite(triangles: np.ndarray) -> bool:
    """Whether matrices are, of which the last axis has the lower triangles, row by row."""
    d = int((2 * triangles.shape[-1]) ** 0.5)
    whole = np.zeros((*triangles.shape[:-1], d, d))
    whole[..., *np.tril_indices(d)] = triangles
    try:
        np.linalg.cholesky(whole)
    except np.linalg.LinAlgError:
        return False
    return bool((triangles[..., np.arange(d) * (np.arange(d) + 3) // 2] > 0).all())


def _joined(arrays: list[np.ndarray], dtype: Any) -> np.ndarray:
    return np.concatenate([*arrays, np.zeros(0, dtype)]).astype(dtype)
