"""Values of the responses and inputs of rows that are loaded part by part, counted on one way through them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nrmmix.model.frame.quantiles import Counted, Tally

WHOLE = 8  # columns up to which each has the memory of a tally; of more, they have that of so many together


class Tallied:
    """Counts the values of all responses of a ModelFrame that are numbers, and of all inputs; of very many columns by fewer quantiles."""

    def __init__(self, frame: Any):
        reads, e = frame.reads, frame.inputs.shape[1]
        share = min(1.0, WHOLE / max(len(reads) + e, 1))
        self.responses = [Tally(share) if kind in ("numbers", "counts") else None for kind in reads]
        self.inputs: list[Tally | None] = [Tally(share) for _ in range(e)]

    def add(self, y: np.ndarray, x: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Responses (rows, d), NaN where missing, and inputs (rows, e) of further rows, each as often as its weight (rows,) says."""
        for tally, column in zip([*self.responses, *self.inputs], [*y.T, *x.T], strict=True):
            if tally is not None:
                here = ~np.isnan(column)
                tally.add(column[here], None if weight is None else weight[here])

    def of(self, columns: np.ndarray, inputs: np.ndarray) -> list[Counted | None]:
        """The values of some responses and inputs; None of responses that are no numbers."""
        chosen: Iterator[Tally | None] = (side[j] for side, own in ((self.responses, columns), (self.inputs, inputs)) for j in own)
        return [None if tally is None else tally.total() for tally in chosen]
