"""Code that the entry points of several families share."""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import MEAN_T, Entry, entry
from nrmmix.kernels.core.jit import inlined, kernel
from nrmmix.kernels.core.lanes import LANES
from nrmmix.kernels.core.special import draw_log_gamma, exp_any
from nrmmix.kernels.core.state import DONE, Block

LOG_TWO_PI = math.log(2.0 * math.pi)
LOST = 1e-5  # a square, or a sum of them, that is less of what it was before a removal is not trusted


@inlined
def places(block):
    """Return where a block's statistics and constants begin, its first response, and how many there are."""
    return block[Block.STAT], block[Block.CONSTANT], block[Block.FIRST], block[Block.LAST] - block[Block.FIRST]


@inlined
def padded(K, stat, out):
    """K up to a multiple of the vector length, as far as there is room: what loops leave in out[K:] means nothing."""
    return min((K + LANES - 1) // LANES * LANES, stat.shape[1], out.shape[0])


@kernel
def is_complete(rows, block, i):
    """Whether row i has all responses of the block."""
    for j in range(block[Block.FIRST], block[Block.LAST]):
        if math.isnan(rows.y[i, j]):
            return False
    return True


@kernel
def clear(stat, first, last, k):
    """Rows first..last-1 of column k become 0."""
    for r in range(first, last):
        stat[r, k] = 0.0


@kernel
def add(source, target, first, last, k, m):
    """Rows first..last-1 of column k of `source` are added to those of column m of `target`."""
    for r in range(first, last):
        target[r, m] += source[r, k]


def means_at(part: int, row: int) -> Entry:
    """The entry point of means that are rows of the statistics (part = STAT) or parameters (THETA), from their row `row` on."""

    def mean(rows, values, out, block, k, i):
        for j in range(block[Block.LAST] - block[Block.FIRST]):
            out[block[Block.MEANS] + j] = values[block[part] + row + j, k]
        return DONE

    mean.__qualname__ = f"mean_{part}_{row}"  # all that tells one's compiled symbol in the cache from another's
    return entry(MEAN_T)(mean)


# ---- log probabilities


@kernel
def draw_log_shares(alpha, counts, theta, a, s, t, n, k, m, rng):
    """theta[t : t + n, m] = logarithms of a Dirichlet variate, of parameters alpha[a : a + n] + counts[s : s + n, k]."""
    top = -math.inf
    for w in range(n):
        theta[t + w, m] = draw_log_gamma(alpha[a + w] + counts[s + w, k], rng)
        top = max(top, theta[t + w, m])
    total = 0.0
    for w in range(n):
        total += exp_any(theta[t + w, m] - top)
    total = top + math.log(total)
    for w in range(n):
        theta[t + w, m] -= total


@entry(MEAN_T)
def shares(rows, theta, out, block, m, i):
    """Probabilities from their logarithms, the parameters; the block's first constant says how many."""
    for w in range(int(rows.constant[block[Block.CONSTANT]])):
        out[block[Block.MEANS] + w] = math.exp(theta[block[Block.THETA] + w, m])
    return DONE
