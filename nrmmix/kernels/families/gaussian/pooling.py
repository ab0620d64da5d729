"""Pooling two columns: what the families of normal means and of Cholesky factors have in common.

Both columns have the prior in them, which counts once.  With r the prior's weight, n_1 and n_2 the sizes, r_i = r + n_i,
r_12 = r + n_1 + n_2 and posterior means mu_i (prior mean 0), let b = mu_1 r_1/n_1, the mean of the observations in the first column, and
e = b - mu_2.  Then (Chan, Golub & LeVeque 1983, with a prior)

    mu_12 = mu_2 + (n_1/r_12) e,    Psi_12 = Psi_1 + Psi_2 - Psi_0 + (n_1 r_2/r_12) e e' - (r n_1/r_1) b b':

the second column's posterior is a prior for the first column's observations, whose sums about b are
Psi_1 - Psi_0 - (r n_1/r_1) b b'.  No term is more than 3 Psi_12, so that none costs digits, whatever r is.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.jit import inlined, kernel, woven
from nrmmix.kernels.families.shared import LOST


@inlined
def pool(r, n_1, n_2):
    """r_1/n_1, n_1/r_12, n_1 r_2/r_12 and r n_1/r_1."""
    r_1, r_2, r_12 = r + n_1, r + n_2, r + n_1 + n_2
    return r_1 / n_1, n_1 / r_12, n_1 * (r_2 / r_12), n_1 * (r / r_1)


@woven
@kernel
def rotate(stat, L, row, d, k, sign, begin):
    """L L' +- x x' for a factor L, packed by rows, its diagonal as reciprocals; x (d) in the rows from `row` on is lost.

    Elements of x before `begin` are 0.  Returns the share of the determinant that is left and the least of those of its factors:
    where one is below LOST the new factor is wrong.
    """
    left, least = 1.0, 1.0
    for j in range(begin, d):
        pj = L + j * (j + 1) // 2 + j
        inverse = stat[pj, k]
        z = stat[row + j, k] * inverse
        square = 1.0 + sign * z * z
        left *= square
        least = min(least, square)  # one below 0 spoils the next
        square = max(square, LOST)
        c = math.sqrt(square)
        stat[pj, k] = inverse / c
        for i in range(j + 1, d):
            p = L + i * (i + 1) // 2 + j
            stat[p, k] = (stat[p, k] + sign * z * stat[row + i, k]) / c
            stat[row + i, k] = c * stat[row + i, k] - z * stat[p, k]
    return left, least
