"""Gaussian components with one precision for all responses: lambda ~ Gamma(nu/2, rate 1/2), mu_j | lambda ~ N(0, 1/(r lambda)), j = 1..d.

Responses come centred and scaled (`nrmmix.model.families.gaussian.spherical`): y_j = (x_j - m_j)/sqrt(scale).  NaN is a missing cell, which
is integrated out: it is left out.  A known mean is r = 1e300: then r_n/(r_n + 1) = 1, and means stay 0.

With T the cells of the members, n_j those of response j and r_j = r + n_j, a cluster has lambda ~ Gamma((nu + T)/2, rate Psi/2) and
mu_j | lambda ~ N(mu_j, 1/(r_j lambda)).

Rows of stat: c and g of the predictive c - (nu + T + d)/2 log(1 + g sum_j (y_j - mu_j)^2), where no cell is missing; Psi; T; mu (d); n, or
where cells are missing n_j (d).

Constants: r, nu, whether each response counts its own observations, log sqrt(scale), then c without Psi for n = 0, 1, ...
Rows of theta: w, lambda = w^2; mean (d).
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import COMBINE_T, DENSITY_T, EMPTY_T, MARGINAL_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import DONE, LOST_PRECISION, Block
from nrmmix.kernels.families.gaussian.pooling import pool
from nrmmix.kernels.families.shared import LOG_TWO_PI, LOST, clear, is_complete, means_at, padded, places

G, PSI, CELLS, MEAN = 1, 2, 3, 4  # rows of stat
N_WORK = 1
R, NU, OWN, LOG_SPREAD, TABLE = 0, 1, 2, 3, 4  # in Rows.constant
LOG_PI = math.log(math.pi)


def n_stat(d, own):
    return MEAN + d + (d if own else 1)


def n_theta(d):
    return 1 + d


@kernel
def _refresh(rows, stat, block, k):
    """c and g, where one n counts for all responses."""
    s, o, first, d = places(block)
    if rows.constant[o + OWN] != 0.0:
        return
    n, psi = stat[s + MEAN + d, k], stat[s + PSI, k]
    r_n = rows.constant[o + R] + n
    stat[s, k] = rows.constant[o + TABLE + int(n)] - 0.5 * d * math.log(psi)
    stat[s + G, k] = r_n / (r_n + 1.0) / psi


@entry(EMPTY_T)
def spherical_empty(rows, stat, block, k):
    s, o, first, d = places(block)
    stat[s + PSI, k] = 1.0
    clear(stat, s + CELLS, s + MEAN + d + (d if rows.constant[o + OWN] != 0.0 else 1), k)
    _refresh(rows, stat, block, k)
    return DONE


@entry(UPDATE_T)
def spherical_update(rows, stat, block, k, i, sign):
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    counts = s + MEAN + d
    if not own:
        stat[counts, k] += sign
    before, change = stat[s + PSI, k], 0.0
    for j in range(d):
        y = rows.y[i, first + j]
        if math.isnan(y):
            continue
        if own:
            stat[counts + j, k] += sign
        stat[s + CELLS, k] += sign
        r_n = rows.constant[o + R] + stat[counts + (j if own else 0), k]
        e = y - stat[s + MEAN + j, k]
        # Psi changes by +-(r_m / (r_m + 1)) e^2, e = y - mu_m, with m the smaller of the two sizes
        if sign > 0.0:
            stat[s + MEAN + j, k] += e / r_n
            change += e * e * ((r_n - 1.0) / r_n)
        else:
            stat[s + MEAN + j, k] -= e / r_n
            e += e / r_n
            change -= e * e * (r_n / (r_n + 1.0))
    stat[s + PSI, k] = max(before + change, LOST * before)
    _refresh(rows, stat, block, k)
    return DONE if before + change >= LOST * before else LOST_PRECISION


@entry(COMBINE_T)
def spherical_combine(rows, source, target, block, k, m):
    """See `pooling`."""
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    if source[s + CELLS, k] == 0.0:
        return DONE
    psi = target[s + PSI, m] + (source[s + PSI, k] - 1.0)
    for j in range(d):
        n = s + MEAN + d + (j if own else 0)
        if source[n, k] == 0.0:
            continue
        lift, gain, w, c = pool(rows.constant[o + R], source[n, k], target[n, m])
        b = source[s + MEAN + j, k] * lift
        e = b - target[s + MEAN + j, m]
        psi += w * e * e - c * b * b
        target[s + MEAN + j, m] += gain * e
    for j in range(d if own else 1):
        target[s + MEAN + d + j, m] += source[s + MEAN + d + j, k]
    target[s + PSI, m] = psi
    target[s + CELLS, m] += source[s + CELLS, k]
    _refresh(rows, target, block, m)
    return DONE


@fast
def _score(y, stat, work, out, s, first, d, nu, K, i):
    K = padded(K, stat, out)
    total = work[0]
    for k in range(K):
        total[k] = 0.0
    for j in range(d):
        x, mean = y[i, first + j], stat[s + MEAN + j]
        for k in range(K):
            z = x - mean[k]
            total[k] += z * z
    c, g, cells = stat[s], stat[s + G], stat[s + CELLS]
    for k in range(K):
        out[k] += c[k] - 0.5 * (nu + cells[k] + d) * log_pos(1.0 + g[k] * total[k])


@kernel
def _score_cells(rows, stat, block, k, i):
    """Log predictive of the cells of row i that are there."""
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    total, log_ratio, seen = 0.0, 0.0, 0
    for j in range(d):
        x = rows.y[i, first + j]
        if math.isnan(x):
            continue
        r_n = rows.constant[o + R] + stat[s + MEAN + d + (j if own else 0), k]
        z, ratio = x - stat[s + MEAN + j, k], r_n / (r_n + 1.0)
        total += ratio * z * z
        log_ratio += math.log(ratio)
        seen += 1
    df, psi = rows.constant[o + NU] + stat[s + CELLS, k], stat[s + PSI, k]
    found = math.lgamma(0.5 * (df + seen)) - math.lgamma(0.5 * df) + 0.5 * (log_ratio - seen * (LOG_PI + math.log(psi)))
    return found - seen * rows.constant[o + LOG_SPREAD] - 0.5 * (df + seen) * math.log1p(total / psi)


@kernel
def _without(rows, stat, block, k, i):
    """Log predictive of member i given the other members, whose Psi is t times that of all; NaN when t keeps too few digits."""
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    total, log_ratio, seen = 0.0, 0.0, 0
    for j in range(d):
        x = rows.y[i, first + j]
        if math.isnan(x):
            continue
        r_n = rows.constant[o + R] + stat[s + MEAN + d + (j if own else 0), k]
        z, ratio = x - stat[s + MEAN + j, k], (r_n - 1.0) / r_n
        total += z * z / ratio
        log_ratio += math.log(ratio)
        seen += 1
    df, psi = rows.constant[o + NU] + stat[s + CELLS, k], stat[s + PSI, k]
    t = 1.0 - total / psi
    if not t > LOST:
        return math.nan
    found = math.lgamma(0.5 * df) - math.lgamma(0.5 * (df - seen)) + 0.5 * (log_ratio - seen * (LOG_PI + math.log(psi)))
    return found - seen * rows.constant[o + LOG_SPREAD] + 0.5 * (df - seen) * log_pos(t)


@entry(SCORE_T)
def spherical_score(rows, stat, work, out, block, K, i, own):
    before = out[own] if own >= 0 else 0.0
    o, first = block[Block.CONSTANT], block[Block.FIRST]
    if rows.constant[o + OWN] == 0.0 and is_complete(rows, block, i):
        _score(rows.y, stat, work, out, block[Block.STAT], first, block[Block.LAST] - first, rows.constant[o + NU], K, i)
    else:
        for k in range(K):
            out[k] += _score_cells(rows, stat, block, k, i)
    if own >= 0:
        out[own] = before + _without(rows, stat, block, own, i)
    return DONE


@entry(MARGINAL_T)
def spherical_marginal(rows, stat, block, k):
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    r, nu, cells = rows.constant[o + R], rows.constant[o + NU], stat[s + CELLS, k]
    total = 0.0
    for j in range(d):
        total += 0.5 * math.log(r / (r + stat[s + MEAN + d + (j if own else 0), k]))
    total += math.lgamma(0.5 * (nu + cells)) - math.lgamma(0.5 * nu) - 0.5 * (nu + cells) * math.log(stat[s + PSI, k])
    return total - cells * (0.5 * LOG_PI + rows.constant[o + LOG_SPREAD])


@entry(SAMPLE_T)
def spherical_sample(rows, stat, theta, block, k, m, rng):
    s, o, first, d = places(block)
    t, own = block[Block.THETA], rows.constant[o + OWN] != 0.0
    w = math.sqrt(2.0 * rng.standard_gamma(0.5 * (rows.constant[o + NU] + stat[s + CELLS, k])) / stat[s + PSI, k])
    theta[t, m] = w
    for j in range(d):
        r_n = rows.constant[o + R] + stat[s + MEAN + d + (j if own else 0), k]
        theta[t + 1 + j, m] = stat[s + MEAN + j, k] + rng.standard_normal() / (w * math.sqrt(r_n))
    return DONE


@entry(DENSITY_T)
def spherical_density(rows, theta, work, out, block, M, i):
    t, o, first, d = block[Block.THETA], block[Block.CONSTANT], block[Block.FIRST], block[Block.LAST] - block[Block.FIRST]
    total, seen, w = work[0], 0, theta[t]
    for m in range(M):
        total[m] = 0.0
    for j in range(d):
        x, mean = rows.y[i, first + j], theta[t + 1 + j]
        if math.isnan(x):
            continue
        seen += 1
        for m in range(M):
            z = w[m] * (x - mean[m])
            total[m] += z * z
    constant = -seen * (0.5 * LOG_TWO_PI + rows.constant[o + LOG_SPREAD])
    for m in range(M):
        out[m] += constant + seen * log_pos(w[m]) - 0.5 * total[m]
    return DONE


spherical_mean, spherical_mean_theta = means_at(Block.STAT, MEAN), means_at(Block.THETA, 1)
