"""Means of responses that have one value with a probability, and otherwise a family of their own.

In the kernels a hurdle is two blocks: the family, for which such rows are missing, and behind it the binary responses "has the value"
of `categorical`, level 1 where it has.  Both have the same place for means: what stands there is the family's when the second comes.
Constants: those of `categorical`, then of each response its value, in the coordinates of the family's means.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import MEAN_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.state import DONE, Block
from nrmmix.kernels.families.categorical import STARTS, probability


@kernel
def _put(rows, out, block, j, p):
    """The mean of response j, which has its value with probability p."""
    d = block[Block.LAST] - block[Block.FIRST]
    value = rows.constant[block[Block.CONSTANT] + STARTS + 4 * d + 1 + j]
    out[block[Block.MEANS] + j] += p * (value - out[block[Block.MEANS] + j])


@entry(MEAN_T)
def hurdle_mean(rows, stat, out, block, k, i):
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        _put(rows, out, block, j, probability(rows, stat, block, k, j, 2 * j + 1))
    return DONE


@entry(MEAN_T)
def hurdle_mean_theta(rows, theta, out, block, m, i):
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        _put(rows, out, block, j, math.exp(theta[block[Block.THETA] + 2 * j + 1, m]))
    return DONE
