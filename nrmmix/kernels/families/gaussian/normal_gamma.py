"""Gaussian components with independent responses, normal-gamma prior of each.

Responses come centred and scaled (`nrmmix.model.families.gaussian.normal_gamma`): y_j = (x_j - m_j)/sqrt(scale_j), so that the prior of
each is lambda ~ Gamma(nu/2, rate 1/2), mu | lambda ~ N(0, 1/(r lambda)).  NaN is a missing cell: it is left out.  A known mean is r =
1e300: then r_n/(r_n + 1) = 1, and means stay 0.

Rows of stat: c, h of the predictive c - h log prod_j (1 + g_j (y_j - mu_j)^2), where no cell is missing; mu_n (d); g = f/Psi_n (d) with
f = r_n/(r_n + 1); Psi_n (d); n, or where cells are missing n and c of each response (d each).

Where the scale is drawn (`sampled_scale`), the prior's rate is Psi_0/2, Psi_0 the scale of each response over its prior mean.

Constants: r, nu, a bound of |y|, the length N of the tables, whether each response counts its own observations, whether the scale is drawn;
then predictive[0..N-1] and marginal[0..N-1] of one response, without Psi; log s_j (d); Psi_0 (d), ones unless it is drawn, and where it is
the shapes of the scales' laws (d).
Rows of theta: sum_j log w_j, mean (d), w (d) with lambda = w^2.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import COMBINE_T, DENSITY_T, EMPTY_T, MARGINAL_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.core.jit import fast, inlined, kernel
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import DONE, LOST_PRECISION, Block
from nrmmix.kernels.families.gaussian.pooling import pool
from nrmmix.kernels.families.shared import LOG_TWO_PI, LOST, is_complete, means_at, padded, places

MEAN = 2  # first row of the mean
N_WORK = 2
R, NU, BOUND, LENGTH, OWN, SAMPLED, TABLES = 0, 1, 2, 3, 4, 5, 6  # in Rows.constant
LOG2_LARGEST = 1020.0  # of products


def n_stat(d, own):
    return MEAN + 3 * d + (2 * d if own else 1)


def n_theta(d):
    return 1 + 2 * d


@inlined
def priors(rows, block):
    """Return where Psi_0 begins in the constants."""
    o, d = block[Block.CONSTANT], block[Block.LAST] - block[Block.FIRST]
    return o + TABLES + 2 * int(rows.constant[o + LENGTH]) + d


@kernel
def refresh(rows, stat, block, k):
    """c and h, where one n counts for all responses."""
    s, o = block[Block.STAT], block[Block.CONSTANT]
    if rows.constant[o + OWN] != 0.0:
        return
    d = block[Block.LAST] - block[Block.FIRST]
    n = stat[s + MEAN + 3 * d, k]
    spreads = o + TABLES + 2 * int(rows.constant[o + LENGTH])
    product, total = 1.0, 0.0
    for j in range(d):
        product *= stat[s + MEAN + 2 * d + j, k]
        if not 1e-200 < product < 1e200:
            total += math.log(product)
            product = 1.0
        total += 2.0 * rows.constant[spreads + j]
    stat[s, k] = d * rows.constant[o + TABLES + int(n)] - 0.5 * (total + math.log(product))
    stat[s + 1, k] = 0.5 * (rows.constant[o + NU] + n + 1.0)


@kernel
def refresh_cell(rows, stat, block, k, j):
    """c of response j, where each response counts its own observations."""
    s, o, first, d = places(block)
    n = int(stat[s + MEAN + 3 * d + j, k])
    log_spread = rows.constant[o + TABLES + 2 * int(rows.constant[o + LENGTH]) + j]
    stat[s + MEAN + 4 * d + j, k] = rows.constant[o + TABLES + n] - log_spread - 0.5 * log_pos(stat[s + MEAN + 2 * d + j, k])


@entry(EMPTY_T)
def normal_gamma_empty(rows, stat, block, k):
    s, o, first, d = places(block)
    r, prior = rows.constant[o + R], priors(rows, block)
    for j in range(d):
        psi = rows.constant[prior + j]
        stat[s + MEAN + j, k] = 0.0
        stat[s + MEAN + d + j, k] = r / (r + 1.0) / psi
        stat[s + MEAN + 2 * d + j, k] = psi
    stat[s + MEAN + 3 * d, k] = 0.0
    if rows.constant[o + OWN] != 0.0:
        for j in range(d):
            stat[s + MEAN + 3 * d + j, k] = 0.0
            refresh_cell(rows, stat, block, k, j)
    refresh(rows, stat, block, k)
    return DONE


@entry(UPDATE_T)
def normal_gamma_update(rows, stat, block, k, i, sign):
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    counts = s + MEAN + 3 * d
    if not own:
        stat[counts, k] += sign
    least = 1.0
    for j in range(d):
        y = rows.y[i, first + j]
        if math.isnan(y):
            continue
        if own:
            stat[counts + j, k] += sign
        r_n = rows.constant[o + R] + stat[counts + (j if own else 0), k]
        mean, psi = stat[s + MEAN + j, k], stat[s + MEAN + 2 * d + j, k]
        e = y - mean
        # Psi changes by +-(r_m / (r_m + 1)) e^2, e = y - mu_m, with m the smaller of the two sizes
        if sign > 0.0:
            mean += e / r_n
            left = psi + e * e * ((r_n - 1.0) / r_n)
        else:
            mean -= e / r_n
            e += e / r_n
            left = psi - e * e * (r_n / (r_n + 1.0))
            least = min(least, left / psi)
            left = max(left, LOST * psi)
        stat[s + MEAN + j, k] = mean
        stat[s + MEAN + d + j, k] = r_n / (r_n + 1.0) / left
        stat[s + MEAN + 2 * d + j, k] = left
        if own:
            refresh_cell(rows, stat, block, k, j)
    refresh(rows, stat, block, k)
    return DONE if least >= LOST else LOST_PRECISION


@entry(COMBINE_T)
def normal_gamma_combine(rows, source, target, block, k, m):
    """See `pooling`."""
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    counts, prior = s + MEAN + 3 * d, priors(rows, block)
    for j in range(d):
        n = counts + (j if own else 0)
        n_source, n_target = source[n, k], target[n, m]
        if n_source == 0.0:
            continue
        lift, gain, w, c = pool(rows.constant[o + R], n_source, n_target)
        b = source[s + MEAN + j, k] * lift
        e = b - target[s + MEAN + j, m]
        psi = target[s + MEAN + 2 * d + j, m] + (source[s + MEAN + 2 * d + j, k] - rows.constant[prior + j]) + (w * e * e - c * b * b)
        r_n = rows.constant[o + R] + n_source + n_target
        target[s + MEAN + j, m] += gain * e
        target[s + MEAN + d + j, m] = r_n / (r_n + 1.0) / psi
        target[s + MEAN + 2 * d + j, m] = psi
        if own:
            target[n, m] += n_source
            refresh_cell(rows, target, block, m, j)
    if not own:
        target[counts, m] += source[counts, k]
        refresh(rows, target, block, m)
    return DONE


@fast
def _score(y, stat, work, out, s, first, d, K, i, bound, least):
    """out[:K] += c - h log prod_j (1 + g_j z_j^2): as many factors before one logarithm as cannot overflow."""
    K = padded(K, stat, out)
    top = bound
    for j in range(d):
        top = max(top, abs(y[i, first + j]))
    # g is at most 1 / `least`, |mu| at most `bound`
    factors = max(1, int(min(LOG2_LARGEST / math.log2(1.0 + 4.0 * top * top / least), 1e6)))
    product, total = work[0], work[1]
    for k in range(K):
        total[k] = 0.0
    j = 0
    while j < d:
        end = min(j + factors, d)
        for k in range(K):
            product[k] = 1.0
        while j < end:
            x, mean, g = y[i, first + j], stat[s + MEAN + j], stat[s + MEAN + d + j]
            for k in range(K):
                z = x - mean[k]
                product[k] *= 1.0 + z * z * g[k]
            j += 1
        for k in range(K):
            total[k] += log_pos(product[k])
    c, h = stat[s], stat[s + 1]
    for k in range(K):
        out[k] += c[k] - h[k] * total[k]


@kernel
def _predictive(rows, o, n):
    """The table's entry; of counts that are fractions, which variational fits have, what it would be."""
    if n == math.floor(n):
        return rows.constant[o + TABLES + int(n)]
    nu_n, r_n = rows.constant[o + NU] + n, rows.constant[o + R] + n
    return math.lgamma(0.5 * (nu_n + 1.0)) - math.lgamma(0.5 * nu_n) + 0.5 * (math.log(r_n / (r_n + 1.0)) - math.log(math.pi))


@fast
def _score_cells(rows, stat, out, block, K, i):
    """Score a row cell by cell, missing cells left out."""
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    nu = rows.constant[o + NU]
    spreads = o + TABLES + 2 * int(rows.constant[o + LENGTH])
    for j in range(d):
        x = rows.y[i, first + j]
        if math.isnan(x):
            continue
        n, mean, g = stat[s + MEAN + 3 * d + (j if own else 0)], stat[s + MEAN + j], stat[s + MEAN + d + j]
        for k in range(K):
            z = x - mean[k]
            out[k] -= 0.5 * (nu + n[k] + 1.0) * log_pos(1.0 + z * z * g[k])
        if own:
            c = stat[s + MEAN + 4 * d + j]
            for k in range(K):
                out[k] += c[k]
        else:
            psi, log_spread = stat[s + MEAN + 2 * d + j], rows.constant[spreads + j]
            for k in range(K):
                out[k] += _predictive(rows, o, n[k]) - log_spread - 0.5 * log_pos(psi[k])


@kernel
def _without(rows, stat, block, k, i):
    """Log predictive of member i given the other members: Psi_(n-1) = t Psi_n; NaN when a t keeps too few digits."""
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    nu = rows.constant[o + NU]
    spreads = o + TABLES + 2 * int(rows.constant[o + LENGTH])
    found = 0.0
    for j in range(d):
        x = rows.y[i, first + j]
        if math.isnan(x):
            continue
        n = stat[s + MEAN + 3 * d + (j if own else 0), k]
        r_n = rows.constant[o + R] + n
        z, psi = x - stat[s + MEAN + j, k], stat[s + MEAN + 2 * d + j, k]
        t = 1.0 - z * z * (r_n / (r_n - 1.0)) / psi
        if not t > LOST:
            return math.nan
        found += rows.constant[o + TABLES + int(n) - 1] - rows.constant[spreads + j]
        found += 0.5 * (nu + n - 1.0) * log_pos(t) - 0.5 * log_pos(psi)
    return found


@inlined
def _least_prior(rows, block):
    """The least of Psi_0."""
    prior, least = priors(rows, block), 1.0
    if rows.constant[block[Block.CONSTANT] + SAMPLED] != 0.0:
        for j in range(block[Block.LAST] - block[Block.FIRST]):
            least = min(least, rows.constant[prior + j])
    return least


@entry(SCORE_T)
def normal_gamma_score(rows, stat, work, out, block, K, i, own):
    before = out[own] if own >= 0 else 0.0
    o, first = block[Block.CONSTANT], block[Block.FIRST]
    d = block[Block.LAST] - first
    if rows.constant[o + OWN] == 0.0 and is_complete(rows, block, i):
        _score(rows.y, stat, work, out, block[Block.STAT], first, d, K, i, rows.constant[o + BOUND], _least_prior(rows, block))
    else:
        _score_cells(rows, stat, out, block, K, i)
    if own >= 0:
        out[own] = before + _without(rows, stat, block, own, i)
    return DONE


@entry(MARGINAL_T)
def normal_gamma_marginal(rows, stat, block, k):
    """sum_j marginal[n_j] + (nu/2) log Psi_0 - (nu + n_j)/2 log Psi_n - n_j log s_j."""
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    length = int(rows.constant[o + LENGTH])
    total, sampled, prior = 0.0, rows.constant[o + SAMPLED] != 0.0, priors(rows, block)
    for j in range(d):
        n = stat[s + MEAN + 3 * d + (j if own else 0), k]
        if sampled:
            total += 0.5 * rows.constant[o + NU] * math.log(rows.constant[prior + j])
        total += rows.constant[o + TABLES + length + int(n)] - n * rows.constant[o + TABLES + 2 * length + j]
        total -= 0.5 * (rows.constant[o + NU] + n) * math.log(stat[s + MEAN + 2 * d + j, k])
    return total


@entry(SAMPLE_T)
def normal_gamma_sample(rows, stat, theta, block, k, m, rng):
    s, t, o = block[Block.STAT], block[Block.THETA], block[Block.CONSTANT]
    d = block[Block.LAST] - block[Block.FIRST]
    own = rows.constant[o + OWN] != 0.0
    total = 0.0
    for j in range(d):
        n = stat[s + MEAN + 3 * d + (j if own else 0), k]
        w = math.sqrt(2.0 * rng.standard_gamma(0.5 * (rows.constant[o + NU] + n)) / stat[s + MEAN + 2 * d + j, k])
        total += math.log(w)
        theta[t + 1 + j, m] = stat[s + MEAN + j, k] + rng.standard_normal() / (w * math.sqrt(rows.constant[o + R] + n))
        theta[t + 1 + d + j, m] = w
    theta[t, m] = total
    return DONE


@fast
def _density(y, theta, work, out, t, first, d, constant, M, i):
    for m in range(M):
        work[0, m] = 0.0
    total = work[0]
    for j in range(d):
        x, mean, w = y[i, first + j], theta[t + 1 + j], theta[t + 1 + d + j]
        for m in range(M):
            z = w[m] * (x - mean[m])
            total[m] += z * z
    log_w = theta[t]
    for m in range(M):
        out[m] += constant + log_w[m] - 0.5 * total[m]


@fast
def _density_cells(rows, theta, out, t, first, d, spreads, M, i):
    for j in range(d):
        x, mean, w = rows.y[i, first + j], theta[t + 1 + j], theta[t + 1 + d + j]
        if math.isnan(x):
            continue
        constant = -0.5 * LOG_TWO_PI - rows.constant[spreads + j]
        for m in range(M):
            z = w[m] * (x - mean[m])
            out[m] += constant + log_pos(w[m]) - 0.5 * z * z


@entry(DENSITY_T)
def normal_gamma_density(rows, theta, work, out, block, M, i):
    t, o, first = block[Block.THETA], block[Block.CONSTANT], block[Block.FIRST]
    d = block[Block.LAST] - first
    spreads = o + TABLES + 2 * int(rows.constant[o + LENGTH])
    if is_complete(rows, block, i):
        constant = -0.5 * d * LOG_TWO_PI
        for j in range(d):
            constant -= rows.constant[spreads + j]
        _density(rows.y, theta, work, out, t, first, d, constant, M, i)
    else:
        _density_cells(rows, theta, out, t, first, d, spreads, M, i)
    return DONE


normal_gamma_mean, normal_gamma_mean_theta = means_at(Block.STAT, MEAN), means_at(Block.THETA, 1)
