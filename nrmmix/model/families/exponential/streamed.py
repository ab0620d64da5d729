"""Rows of a source as statistics: the part that is wanted is loaded, and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nrmmix.model.families.base import rows_of
from nrmmix.model.families.exponential.stacked import Features, Stacked, Statistics, joined
from nrmmix.model.frame.streaming import StreamedFrame

HELD = 65_536  # rows that are loaded at once where all are gone through


class StreamedRows:
    """What `Statistics` offers, of the rows of a frame that stay where they are."""

    def __init__(self, side: Stacked, blocks: Any, frame: StreamedFrame):
        self.side, self.of_blocks, self.frame = side, blocks, frame
        self.n = frame.n_used

    def part(self, first: int, last: int) -> Statistics:
        """Rows from the first to before the last, in memory."""
        parts = []
        for y, x, index in self.frame.pieces(first, last):
            with rows_of(index):
                parts.append(self.of_blocks.statistics(self.side, y, x))
        return joined(parts)

    def take(self, rows: np.ndarray) -> Statistics:
        """Some of the rows, by numbers in ascending order."""
        found, before = [], 0
        for y, x, index in self.frame.pieces(0, int(rows[-1]) + 1):
            own = rows[(rows >= before) & (rows < before + y.shape[0])] - before
            before += y.shape[0]
            if len(own):
                with rows_of(index, own):
                    found.append(self.of_blocks.statistics(self.side, y[own], x[own]))
        return joined(found)

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, int, Features]]:
        """Blocks of rows; what one holds is lost with the next."""
        for start in range(first, last, HELD):
            part = self.part(start, min(start + HELD, last))
            for begin, end, features in part.blocks(0, part.n):
                yield start + begin, start + end, features
