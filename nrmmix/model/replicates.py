"""Replicates of the responses on the way, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.model.frame.tables import names_of_levels
from nrmmix.model.specification import Specification

MEMORY = 2**27  # bytes of working arrays held at once


def known(totals: Sequence[np.ndarray | None]) -> Any:
    """Rows of which no block of counts misses its total; all where no block has any."""
    return np.all([~np.isnan(total) for total in totals if total is not None], axis=0)


def parts(n: int, each: int) -> list[np.ndarray]:
    """0..n-1 in blocks, `each` bytes an entry, that fit into MEMORY."""
    step = max(MEMORY // each, 1)
    return [np.arange(start, min(start + step, n)) for start in range(0, n, step)]


class Replicates:
    """Replicates of rows of responses on the way, and the table of them."""

    def __init__(self, draws: int, index: pd.Index, model: Specification):
        self.draws, self.index, self.frame = draws, index, model.frame
        n, d = len(index), model.n_dim
        self.values = None if self.frame.is_sparse else np.full((draws, n, d), np.nan)
        self.sparse: list[Any] = []  # blocks of rows, in order

    def put(self, draw: int, rows: np.ndarray, values: np.ndarray) -> None:
        """Responses (m, d) of some rows of a replicate; sparse ones of all rows, one block after the other."""
        if self.values is not None:
            self.values[draw, rows] = values
        else:
            from scipy.sparse import csr_array

            self.sparse.append(csr_array(values))

    def table(self) -> pd.DataFrame:
        """One replicate after the other, with a level `draw` added to the index; sparse columns of sparse counts, levels of categories."""
        n = len(self.index)
        own = [self.index.get_level_values(level)[np.tile(np.arange(n), self.draws)] for level in range(self.index.nlevels)]
        full = pd.MultiIndex.from_arrays([*own, np.repeat(np.arange(self.draws), n)], names=names_of_levels(self.index, ["draw"]))
        names = list(self.frame.response_names)
        if self.values is None:
            from scipy.sparse import vstack

            return pd.DataFrame.sparse.from_spmatrix(vstack(self.sparse, format="csc"), full, names)
        table = pd.DataFrame(self.values.reshape(-1, len(names)), index=full, columns=names)
        for name, levels in zip(names, self.frame.levels, strict=True):
            if levels is not None:
                codes = table[name].fillna(-1).astype(int).to_numpy()
                table[name] = pd.Categorical.from_codes(codes, categories=list(levels))
        return table
