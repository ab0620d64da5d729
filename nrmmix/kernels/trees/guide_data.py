"""Data as the guide of trees reads them: in density regression with the covariates beside the responses.

There the guide is a product of the model's families and a Gaussian of known variance for the covariates, one block more.  So unions of
clusters cost what they cost in a mixture, and the exact weights of locations enter the acceptance ratio alone.  The statistics of the last
block belong to the columns of a tree-guided move; what the posterior asks of them, scores and marginals, it does not know of.
"""

from __future__ import annotations

from nrmmix.kernels.core.clusters import empty_column, marginal_column, update_column
from nrmmix.kernels.core.entry import MARGINAL_T, SCORE_T, call_empty, call_update, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.state import CENSORED, DONE, MISSING, Block, Count

# Data.views: as the posterior reads it, where the last block is silent; as the guide does, where it speaks; and as the guide tree is grown
# from it, with 0 in the cells that the chain draws and
# shared parameters as they start, on neither of which the tree may depend.
POSTERIOR, GUIDE, PLANTED = 0, 1, 2


@entry(SCORE_T)
def score_nothing(rows, stat, work, out, block, K, i, own):
    return DONE


@entry(MARGINAL_T)
def marginal_of_nothing(rows, stat, block, k):
    return 0.0


@kernel
def is_guided(data):
    """Whether there is a guide beside the model: not in a mixture, where the families are the guide."""
    return data.guide.shape[0] > 0


@kernel
def refresh_guide(data, state):
    """The guide's statistics of all clusters, which other moves do not keep."""
    last = data.views[GUIDE].block[data.block.shape[0]]
    for k in range(state.num[Count.CLUSTERS]):
        call_empty(last[Block.EMPTY], data.rows, state.stat, last, k)
    for i in range(state.labels.shape[0]):
        call_update(last[Block.UPDATE], data.rows, state.stat, last, state.labels[i], i, 1.0)


@kernel
def fill_log_guide(wide, trial):
    """log p(y_i, x_i) by the guide; the first column of `trial` is lost."""
    for i in range(wide.group.shape[0]):
        empty_column(wide, trial, 0)
        update_column(wide, trial, 0, i, 1.0)
        wide.log_prior_predictive[i] = marginal_column(wide, trial, 0)


@kernel
def copy_observed(data):
    """The responses of the view PLANTED: those of now, with 0 in the cells that the chain draws, of censored ones those of its start."""
    source, target, missing = data.rows.y, data.views[PLANTED].rows.y, data.rows.missing
    for i in range(missing.shape[0]):
        for j in range(missing.shape[1]):
            if missing[i, j] < CENSORED:
                target[i, j] = 0.0 if missing[i, j] == MISSING else source[i, j]
