"""Missing cells that cannot be integrated out in closed form: they are part of the chain's state.

When the cluster of row i is drawn its own missing cells are integrated out (families' scores leave them out); then they are drawn given
its other cells and its cluster.  Together that is one Gibbs step for cluster and cells.
"""

from __future__ import annotations

from nrmmix.kernels.core.clusters import empty_column, fill_column, has_gaps, update_column
from nrmmix.kernels.core.entry import ONE_T, call_impute, call_one, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.state import DONE, Block, Setup


@kernel
def redraw_cells(data, state, i, rng):
    """Draw the missing cells of row i, which has a cluster, given that cluster's other members."""
    if has_gaps(data.rows, i, 0, data.rows.missing.shape[1]):
        call_one(data.setup[Setup.REDRAW_CELLS], data, state, i, state.labels[i], rng)


@entry(ONE_T)
def redraw_missing_cells(data, state, i, k, rng):
    """Redraw the missing cells of a row that has some, in cluster k."""
    if state.size[k] == 1:
        empty_column(data, state.stat, k)
    elif not update_column(data, state.stat, k, i, -1.0):
        fill_column(data, state, k, k, i)
    for b in range(data.block.shape[0]):
        if data.block[b, Block.IMPUTE] != 0:
            call_impute(data.block[b, Block.IMPUTE], data.rows, state.stat, state.scratch.work, data.block[b], k, i, rng)
    update_column(data, state.stat, k, i, 1.0)
    return DONE
