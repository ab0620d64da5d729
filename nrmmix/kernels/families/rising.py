"""Rising factorials (a + n_k) (a + n_k + 1) ... to c factors, n_k the counts of all clusters: what counts have as likelihoods.

Products are gathered over words or responses before one logarithm is taken.  A row's `reach` bounds |log| of each of its factors,
so that a product is logged before it can leave floating point.
"""

from __future__ import annotations

import numpy as np

from nrmmix.kernels.core.jit import fast
from nrmmix.kernels.core.special import log_pos, log_rising

SMALL = 32  # counts up to this enter by products
ROOM = 600.0  # of |log| of a product, 708 at most


def reach(a: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Bounds of |log| of the factors, from concentrations or shapes and the largest counts that clusters can have."""
    return np.maximum(np.log(a + totals + SMALL), -np.log(a))


@fast
def ones(product, K):
    for k in range(K):
        product[k] = 1.0


@fast
def take_logs(product, out, K):
    """Add the logarithms of the products to out[:K]."""
    for k in range(K):
        out[k] += log_pos(product[k])


@fast
def gather(stat, row, a, c, reach, used, product, out, K):
    """Multiply product[:K] by rising factorials of c factors from a + stat[row], or add their logarithms to out[:K].

    `used` bounds |log product|; the new bound is returned.
    """
    left = int(c)
    need = left * reach
    if c > SMALL or need > ROOM:
        for k in range(K):
            out[k] += log_rising(a + stat[row, k], c)
        return used
    if used + need > ROOM:
        take_logs(product, out, K)
        ones(product, K)
        used = 0.0
    while left >= 4:
        for k in range(K):
            x = a + stat[row, k]
            t = x * (x + 3.0)
            product[k] *= t * (t + 2.0)
        a += 4.0
        left -= 4
    if left == 3:
        for k in range(K):
            x = a + stat[row, k]
            product[k] *= x * (x * (x + 3.0) + 2.0)
    elif left == 2:
        for k in range(K):
            x = a + stat[row, k]
            product[k] *= x * (x + 1.0)
    elif left == 1:
        for k in range(K):
            product[k] *= a + stat[row, k]
    return used + need
