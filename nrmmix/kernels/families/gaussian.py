"""Gaussian components, full covariance, normal-Wishart prior.

Observations come whitened (`nrmmix.families.Gaussian`): y = L^-1 (x - m) with scale = L L', so that the prior is
Lambda ~ Wishart(nu, I), mu | Lambda ~ N(0, (r Lambda)^-1), and the constants carry log |dy/dx| = -log |L|.

Rows of stat: n; c, h, f of the predictive c - h log(1 + f q); the mean mu_n (d); the Cholesky factor of Psi_n packed by rows, its
diagonal as reciprocals; d of scratch.  With r_n = r + n and q = (y - mu_n)' Psi_n^-1 (y - mu_n) the predictive is a multivariate t with
nu + n - d + 1 degrees of freedom: c = predictive[n] - log|Psi_n|/2, h = (nu + n + 1)/2, f = r_n/(r_n + 1).

Constants: r, nu, -log|L|, the length N of the tables, then predictive[0..N-1] and marginal[0..N-1]: all that depends on n alone.
Rows of theta: log |W|, mean (d), W (d x d) with Lambda = W'W.
"""

from __future__ import annotations

import math

from nrmmix.kernels.entry import DENSITY_T, EMPTY_T, MARGINAL_T, MEAN_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.jit import fast, kernel
from nrmmix.kernels.special import log_pos
from nrmmix.kernels.state import CONSTANT, DONE, FIRST, LAST, STAT, THETA

MEAN = 4  # first row of the mean
R, NU, JACOBIAN, LENGTH, TABLES = 0, 1, 2, 3, 4  # in Rows.constant
LOG_TWO_PI = math.log(2.0 * math.pi)
LOST = 1e-5  # a downdate that leaves less of the determinant than this is not trusted


def n_stat(d):
    return MEAN + 2 * d + d * (d + 1) // 2


def n_theta(d):
    return 1 + d + d * d


@kernel
def _refresh(rows, stat, block, k):
    """Predictive constants from n and the factor's diagonal."""
    s = block[STAT]
    d = block[LAST] - block[FIRST]
    o = block[CONSTANT]
    n = stat[s, k]
    product, total = 1.0, 0.0
    p = s + MEAN + d
    for j in range(d):
        p += j
        product *= stat[p, k]
        if not 1e-200 < product < 1e200:
            total += math.log(product)
            product = 1.0
        p += 1
    r_n = rows.constant[o + R] + n
    stat[s + 1, k] = rows.constant[o + TABLES + int(n)] + total + log_pos(product)
    stat[s + 2, k] = 0.5 * (rows.constant[o + NU] + n + 1.0)
    stat[s + 3, k] = r_n / (r_n + 1.0)


@entry(EMPTY_T)
def gaussian_empty(rows, stat, block, k):
    s = block[STAT]
    d = block[LAST] - block[FIRST]
    for r in range(s, s + MEAN + d + d * (d + 1) // 2):
        stat[r, k] = 0.0
    p = s + MEAN + d
    for j in range(d):
        p += j
        stat[p, k] = 1.0
        p += 1
    _refresh(rows, stat, block, k)
    return DONE


@entry(UPDATE_T)
def gaussian_update(rows, stat, block, k, i, sign):
    """Rank-one update of the factor of Psi_n."""
    s = block[STAT]
    first = block[FIRST]
    d = block[LAST] - first
    n = stat[s, k] + sign
    r_n = rows.constant[block[CONSTANT] + R] + n
    stat[s, k] = n
    # Psi changes by +-(r_m / (r_m + 1)) e e', e = y - mu_m, with m the smaller of the two sizes.
    root = math.sqrt((r_n - 1.0) / r_n) if sign > 0.0 else math.sqrt(r_n / (r_n + 1.0))
    base = s + MEAN + d
    e_row = base + d * (d + 1) // 2
    for j in range(d):
        e = rows.y[i, first + j] - stat[s + MEAN + j, k]
        if sign > 0.0:
            stat[s + MEAN + j, k] += e / r_n
        else:
            stat[s + MEAN + j, k] -= e / r_n
            e += e / r_n
        stat[e_row + j, k] = e * root
    sound = True
    for j in range(d):
        pj = base + j * (j + 1) // 2 + j
        inverse = stat[pj, k]
        z = stat[e_row + j, k] * inverse
        square = 1.0 + sign * z * z
        if square < LOST:
            sound = False
            square = LOST
        c = math.sqrt(square)
        stat[pj, k] = inverse / c
        for i2 in range(j + 1, d):
            p = base + i2 * (i2 + 1) // 2 + j
            stat[p, k] = (stat[p, k] + sign * z * stat[e_row + i2, k]) / c
            stat[e_row + i2, k] = c * stat[e_row + i2, k] - z * stat[p, k]
    _refresh(rows, stat, block, k)
    return DONE if sound else 0


@kernel
def _quadratic(rows, stat, work, block, k, i):
    """q = (y_i - mu_n)' Psi_n^-1 (y_i - mu_n) for one column."""
    s = block[STAT]
    first = block[FIRST]
    d = block[LAST] - first
    q = 0.0
    p = s + MEAN + d
    for a in range(d):
        z = rows.y[i, first + a] - stat[s + MEAN + a, k]
        for j in range(a):
            z -= stat[p, k] * work[j, k]
            p += 1
        z *= stat[p, k]
        p += 1
        work[a, k] = z
        q += z * z
    return q


@fast
def _score(rows, stat, work, out, block, lo, hi, i):
    """out[lo:hi] += c - h log(1 + f q), the loops over clusters innermost."""
    s = block[STAT]
    first = block[FIRST]
    d = block[LAST] - first
    c, h, f = stat[s + 1], stat[s + 2], stat[s + 3]
    if d == 1:
        x = rows.y[i, first]
        mean, D = stat[s + MEAN], stat[s + MEAN + 1]
        for k in range(lo, hi):
            z = (x - mean[k]) * D[k]
            out[k] += c[k] - h[k] * log_pos(1.0 + z * z * f[k])
        return
    if d == 2:
        x0, x1 = rows.y[i, first], rows.y[i, first + 1]
        m0, m1 = stat[s + MEAN], stat[s + MEAN + 1]
        D0, L, D1 = stat[s + MEAN + 2], stat[s + MEAN + 3], stat[s + MEAN + 4]
        for k in range(lo, hi):
            z0 = (x0 - m0[k]) * D0[k]
            z1 = (x1 - m1[k] - L[k] * z0) * D1[k]
            out[k] += c[k] - h[k] * log_pos(1.0 + (z0 * z0 + z1 * z1) * f[k])
        return
    q = work[d]
    for k in range(lo, hi):
        q[k] = 0.0
    p = s + MEAN + d
    for a in range(d):
        z = work[a]
        mean = stat[s + MEAN + a]
        x = rows.y[i, first + a]
        for k in range(lo, hi):
            z[k] = x - mean[k]
        for j in range(a):
            L, w = stat[p], work[j]
            for k in range(lo, hi):
                z[k] -= L[k] * w[k]
            p += 1
        D = stat[p]
        for k in range(lo, hi):
            z[k] *= D[k]
            q[k] += z[k] * z[k]
        p += 1
    for k in range(lo, hi):
        out[k] += c[k] - h[k] * log_pos(1.0 + q[k] * f[k])


@kernel
def _without(rows, stat, work, block, k, i):
    """Log predictive of member i given the other members: |Psi_(n-1)| = t |Psi_n|; NaN when t keeps too few digits."""
    s = block[STAT]
    o = block[CONSTANT]
    n = stat[s, k]
    r_n = rows.constant[o + R] + n
    t = 1.0 - _quadratic(rows, stat, work, block, k, i) * r_n / (r_n - 1.0)
    if not t > LOST:
        return math.nan
    at_n = rows.constant[o + TABLES + int(n)]
    before = rows.constant[o + TABLES + int(n) - 1]
    return stat[s + 1, k] - at_n + before + 0.5 * (rows.constant[o + NU] + n - 1.0) * log_pos(t)


@entry(SCORE_T)
def gaussian_score(rows, stat, work, out, block, lo, hi, i, own):
    before = out[own] if own >= 0 else 0.0
    _score(rows, stat, work, out, block, lo, hi, i)
    if own >= 0:
        out[own] = before + _without(rows, stat, work, block, own, i)
    return DONE


@entry(MARGINAL_T)
def gaussian_marginal(rows, stat, block, k):
    """marginal[n] - (nu + n)/2 log|Psi_n|, the determinant from c."""
    s = block[STAT]
    o = block[CONSTANT]
    n = int(stat[s, k])
    log_det = 2.0 * (rows.constant[o + TABLES + n] - stat[s + 1, k])
    marginal = rows.constant[o + TABLES + int(rows.constant[o + LENGTH]) + n]
    return marginal - 0.5 * (rows.constant[o + NU] + n) * log_det


@entry(SAMPLE_T)
def gaussian_sample(rows, stat, theta, block, k, m, rng):
    """Lambda = L^-T A A' L^-1 by Bartlett's decomposition, mu = mu_n + L A^-T z / sqrt(r_n); W = A' L^-1."""
    s = block[STAT]
    t = block[THETA]
    d = block[LAST] - block[FIRST]
    n = stat[s, k]
    r_n = rows.constant[block[CONSTANT] + R] + n
    nu_n = rows.constant[block[CONSTANT] + NU] + n
    L = s + MEAN + d
    W = t + 1 + d
    log_det = 0.0
    for a in range(d):  # A' into the place of W
        for j in range(a):
            theta[W + a * d + j, m] = 0.0
        root = math.sqrt(2.0 * rng.standard_gamma(0.5 * (nu_n - a)))
        theta[W + a * d + a, m] = root
        log_det += math.log(root * stat[L + a * (a + 1) // 2 + a, k])
        for j in range(a + 1, d):
            theta[W + a * d + j, m] = rng.standard_normal()
    theta[t, m] = log_det
    for a in range(d - 1, -1, -1):  # w = A'^-1 z
        z = rng.standard_normal() / math.sqrt(r_n)
        for j in range(a + 1, d):
            z -= theta[W + a * d + j, m] * theta[t + 1 + j, m]
        theta[t + 1 + a, m] = z / theta[W + a * d + a, m]
    for a in range(d - 1, -1, -1):  # mean = mu_n + L w
        row = L + a * (a + 1) // 2
        total = theta[t + 1 + a, m] / stat[row + a, k]
        for j in range(a):
            total += stat[row + j, k] * theta[t + 1 + j, m]
        theta[t + 1 + a, m] = stat[s + MEAN + a, k] + total
    for a in range(d):  # W L = A'
        for j in range(d - 1, -1, -1):
            w = theta[W + a * d + j, m]
            for i in range(j + 1, d):
                w -= theta[W + a * d + i, m] * stat[L + i * (i + 1) // 2 + j, k]
            theta[W + a * d + j, m] = w * stat[L + j * (j + 1) // 2 + j, k]
    return DONE


@fast
def _density(rows, theta, work, out, block, M, i):
    t = block[THETA]
    first = block[FIRST]
    d = block[LAST] - first
    constant = rows.constant[block[CONSTANT] + JACOBIAN] - 0.5 * d * LOG_TWO_PI
    for m in range(M):
        out[m] += constant + theta[t, m]
    z = work[d]
    for a in range(d):
        for m in range(M):
            z[m] = 0.0
        for j in range(d):
            x = rows.y[i, first + j]
            w, mean = theta[t + 1 + d + a * d + j], theta[t + 1 + j]
            for m in range(M):
                z[m] += w[m] * (x - mean[m])
        for m in range(M):
            out[m] -= 0.5 * z[m] * z[m]


@entry(DENSITY_T)
def gaussian_density(rows, theta, work, out, block, M, i):
    _density(rows, theta, work, out, block, M, i)
    return DONE


@entry(MEAN_T)
def gaussian_mean(rows, stat, out, block, k):
    """Mean of the predictive."""
    for j in range(block[LAST] - block[FIRST]):
        out[block[FIRST] + j] = stat[block[STAT] + MEAN + j, k]
    return DONE


@entry(MEAN_T)
def gaussian_mean_theta(rows, theta, out, block, m):
    for j in range(block[LAST] - block[FIRST]):
        out[block[FIRST] + j] = theta[block[THETA] + 1 + j, m]
    return DONE
