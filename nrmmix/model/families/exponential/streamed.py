"""Rows of a source as statistics: the part that is wanted is loaded, and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from nrmmix.model.families.base import rows_of
from nrmmix.model.families.exponential.stacked import Features, Stacked, Statistics, joined
from nrmmix.model.frame.arrays import TOO_FAR
from nrmmix.model.frame.streaming import Piece, StreamedFrame

HELD = 65_536  # rows that are loaded at once where all are gone through


class StreamedRows:
    """Rows of a frame that stay where they are, with all that `Statistics` offers."""

    is_streamed: ClassVar[bool] = True
    weight: ClassVar[None] = None  # parts have theirs

    def __init__(self, exponential: Stacked, blocks: Any, frame: StreamedFrame):
        self.exponential, self.of_blocks, self.frame = exponential, blocks, frame
        self.n, self.size = frame.n_used, frame.size

    @property
    def n_bytes(self) -> float:
        """About what all rows would take in memory; of sparse ones what they would take if they were not."""
        return 8.0 * self.n * (len(self.frame.response_names) + len(self.frame.input_names) + len(self.frame.covariate_names) + 1)

    def part(self, first: int, last: int) -> Statistics:
        """Rows from the first to before the last, in memory."""
        return joined([part for part, _ in self.parts(first, last)])

    def parts(self, first: int = 0, last: int | None = None) -> Iterator[tuple[Statistics, Piece]]:
        """Rows from the first to before the last, part by part, and what they were made of."""
        for piece in self.frame.pieces(first, last):
            yield self._statistics(piece), piece

    def chosen(self, rows: np.ndarray) -> Iterator[tuple[Statistics, Piece]]:
        """Some of the rows, by numbers in ascending order, likewise; all are gone through, so that a source that has changed is noticed."""
        before = 0
        for piece in self.frame.pieces():
            own = rows[np.searchsorted(rows, before) : np.searchsorted(rows, before + len(piece.index))] - before
            before += len(piece.index)
            if len(own):
                some = piece.take(own)
                yield self._statistics(some), some

    def take(self, rows: np.ndarray) -> Statistics:
        """Some of the rows, by numbers in ascending order."""
        return joined([part for part, _ in self.chosen(rows)])

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, int, Features]]:
        """Blocks of rows; what one holds is lost with the next."""
        for start in range(first, last, HELD):
            part = self.part(start, min(start + HELD, last))
            for begin, end, features in part.blocks(0, part.n):
                yield start + begin, start + end, features

    def _statistics(self, piece: Piece) -> Statistics:
        index = piece.index
        with rows_of(index):
            made = replace(self.of_blocks.statistics(self.exponential, piece.response, piece.inputs), weight=piece.weight)
        if made.dense.size and not max(made.dense.max(), -made.dense.min()) <= TOO_FAR:
            row = index[int(np.flatnonzero(~(np.abs(made.dense) <= TOO_FAR).all(axis=0))[0])]
            if np.isnan(made.dense).any():
                raise ValueError(f"row {row!r} misses some of its responses, which this family has no closed form for; leave it out.")
            raise ValueError(f"row {row!r} lies more than {TOO_FAR:g} prior standard deviations out; correct it, or widen the prior.")
        return made
