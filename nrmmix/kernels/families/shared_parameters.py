"""Parameters that all clusters share, which stand in the constants of their family, drawn given the partition."""

from __future__ import annotations

from nrmmix.kernels.core.clusters import fill_columns, fill_log_prior_predictive
from nrmmix.kernels.core.entry import STEP_T, call_redraw_shared, entry
from nrmmix.kernels.core.jit import kernel, root
from nrmmix.kernels.core.state import DONE, RESCALED, STALE, Block, Count


@root
@kernel
def redraw_shared(data, state, rng):
    """Those of all families, from the prior where there are no clusters; and what follows from them."""
    changed, stale = False, False
    for b in range(data.block.shape[0]):
        block = data.block[b]
        if block[Block.REDRAW_SHARED] != 0:
            status = call_redraw_shared(block[Block.REDRAW_SHARED], data.rows, state.stat, block, state.num[Count.CLUSTERS], rng)
            changed = changed or status == STALE or status == RESCALED
            stale = stale or status == STALE
    if changed:
        fill_log_prior_predictive(data, state)
    if stale:
        fill_columns(data, state)


@entry(STEP_T)
def update_shared(data, state, rng):
    redraw_shared(data, state, rng)
    return DONE
