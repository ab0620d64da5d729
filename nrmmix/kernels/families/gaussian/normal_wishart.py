"""Gaussian components, full covariance, normal-Wishart prior.

Responses come centred and scaled one by one (`nrmmix.model.families.gaussian.normal_wishart`): y_j = (x_j - m_j)/s_j with s_j^2 =
scale_jj, so that the prior is Lambda ~ Wishart(nu, Psi_0^-1), mu | Lambda ~ N(0, (r Lambda)^-1) with Psi_0 the scale's correlations, and
the constants carry log |dy/dx| = -sum log s_j.  A known mean is r = 1e300: then r_n/(r_n + 1) = 1, and means stay 0.  A row that has none
of its cells is NaN and counts for nothing; of a row that misses some the chain draws them (`nrmmix.kernels.moves.imputation`), and they
count in the statistics, not in scores.

Rows of stat: n; c, h, f of the predictive c - h log(1 + f q); the mean mu_n (d); the Cholesky factor of Psi_n packed by rows, its
diagonal as reciprocals; d of scratch.  With r_n = r + n and q = (y - mu_n)' Psi_n^-1 (y - mu_n) the predictive is a multivariate t with
nu + n - d + 1 degrees of freedom: c = predictive[n] - log|Psi_n|/2, h = (nu + n + 1)/2, f = r_n/(r_n + 1).

Where the scale is drawn (`sampled_scale`), Psi_0 is diagonal, and its diagonal the scale of each response over its prior mean.

Constants: r, nu, -sum log s_j, the length N of the tables, whether the scale is drawn, then predictive[0..N-1] and marginal[0..N-1]: all
that depends on n alone; log s_j (d); the factor of Psi_0, packed as that of Psi_n, and Psi_0, packed likewise: of a scale that is drawn
only Psi_0 is what it says, and behind it are the shapes of the scales' laws (d).
Rows of theta: log |W|, mean (d), W (d x d) with Lambda = W'W.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import has_gaps
from nrmmix.kernels.core.entry import (
    COMBINE_T,
    DENSITY_T,
    EMPTY_T,
    IMPUTE_T,
    MARGINAL_T,
    SAMPLE_T,
    SCORE_FOUR_T,
    SCORE_T,
    TRANSFER_T,
    UPDATE_T,
    call_score,
    entry,
)
from nrmmix.kernels.core.jit import fast, inlined, kernel, woven
from nrmmix.kernels.core.lanes import LANES, number_at, put_number
from nrmmix.kernels.core.special import local_numbers, log_pos
from nrmmix.kernels.core.state import BROKEN, DONE, LOST_PRECISION, Block
from nrmmix.kernels.families.gaussian.missing import density_missing, impute_missing
from nrmmix.kernels.families.gaussian.pooling import pool, rotate
from nrmmix.kernels.families.gaussian.tiles import fits, squares, squares_of_four
from nrmmix.kernels.families.shared import LOG_TWO_PI, LOST, clear, means_at, padded, places

MEAN = 4  # first row of the mean
R, NU, JACOBIAN, LENGTH, SAMPLED, TABLES = 0, 1, 2, 3, 4, 5  # in Rows.constant
MIN_AT_ONCE = 4  # responses of which four rows are scored at once; with fewer, logarithms are most of the work
MAX_IN_ONE_CALL = 3  # responses of which a row goes from one column to another in one call
MAX_RESPONSES = 32  # responses for whose matrices there is room
ROOM = MAX_RESPONSES * (MAX_RESPONSES + 1) // 2


def n_stat(d):
    return MEAN + 2 * d + d * (d + 1) // 2


def n_theta(d):
    return 1 + d + d * d


@inlined
def spreads(rows, o):
    """Return where log s_j begin in the constants; behind them are the factor of Psi_0 and Psi_0."""
    return o + TABLES + 2 * int(rows.constant[o + LENGTH])


@inlined
def prior_diagonal(rows, o, d, a):
    """Return where element a of the diagonal of Psi_0 is in the constants."""
    return spreads(rows, o) + d + d * (d + 1) // 2 + a * (a + 3) // 2


@inlined
def log_scale(rows, o, d):
    """(nu/2) log|Psi_0| of a scale that is drawn; that of one that is not is in the tables."""
    total = 0.0
    if rows.constant[o + SAMPLED] != 0.0:
        for a in range(d):
            total += math.log(rows.constant[prior_diagonal(rows, o, d, a)])
    return 0.5 * rows.constant[o + NU] * total


@kernel
def _put_constants(rows, stat, block, k, n, total, product):
    """Predictive constants, where total + log product is the log determinant of the inverse of the factor of Psi_n."""
    o, cap = block[Block.CONSTANT], stat.shape[1]
    r_n = rows.constant[o + R] + n
    at = (block[Block.STAT] + 1) * cap + k
    put_number(stat, at, rows.constant[o + TABLES + int(n)] + total + log_pos(product))
    put_number(stat, at + cap, 0.5 * (rows.constant[o + NU] + n + 1.0))
    put_number(stat, at + 2 * cap, r_n / (r_n + 1.0))


@kernel
def refresh(rows, stat, block, k):
    """Predictive constants from n and the factor's diagonal."""
    s, o, first, d = places(block)
    product, total = 1.0, 0.0
    p = s + MEAN + d
    for j in range(d):
        p += j
        product *= stat[p, k]
        if not 1e-200 < product < 1e200:
            total += math.log(product)
            product = 1.0
        p += 1
    _put_constants(rows, stat, block, k, stat[s, k], total, product)


@entry(EMPTY_T)
def gaussian_empty(rows, stat, block, k):
    s, o, first, d = places(block)
    clear(stat, s, s + MEAN + d, k)
    prior = spreads(rows, o) + d
    for p in range(d * (d + 1) // 2):
        stat[s + MEAN + d + p, k] = rows.constant[prior + p]
    if rows.constant[o + SAMPLED] != 0.0:
        for a in range(d):
            stat[s + MEAN + d + a * (a + 3) // 2, k] = 1.0 / math.sqrt(rows.constant[prior_diagonal(rows, o, d, a)])
    refresh(rows, stat, block, k)
    return DONE


@entry(UPDATE_T)
def gaussian_update(rows, stat, block, k, i, sign):
    """Rank-one update of the factor of Psi_n."""
    s, o, first, d = places(block)
    if math.isnan(rows.y[i, first]):
        return DONE
    n = stat[s, k] + sign
    r_n = rows.constant[o + R] + n
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
    left, least = rotate(stat, base, e_row, d, k, sign, 0)
    refresh(rows, stat, block, k)
    return DONE if left >= LOST and least >= LOST else LOST_PRECISION


@inlined
def _limited(total, product):
    """The two, with the logarithm of a product that could over- or underflow taken."""
    return (total, product) if 1e-200 < product < 1e200 else (total + math.log(product), 1.0)


@entry(TRANSFER_T)
def gaussian_transfer(rows, stat, block, k, m, i):
    """Two updates side by side, for a sweep waits for the roots and quotients of each.

    Psi changes by s w e e', e = y - mu_n, with s w = -(r_n / (r_n - 1)) for what is left and r_n / (r_n + 1) for what is entered. With
    z = L^-1 e and T_a = 1 + s w (z_1^2 + ... + z_a^2) the factor's diagonal grows by sqrt(T_a / T_(a-1)): roots of one another apart.
    """
    s, o, first, d = places(block)
    if math.isnan(rows.y[i, first]):
        return DONE
    cap = stat.shape[1]
    at, y = s * cap, i * rows.y.shape[1] + first
    n_k, n_m, r = number_at(stat, at + k), number_at(stat, at + m), rows.constant[o + R]
    part_k, part_m = 1.0 / (r + (n_k - 1.0)), 1.0 / (r + (n_m + 1.0))
    w_k, w_m = (r + n_k) * part_k, (r + n_m) * part_m
    n_k, n_m = n_k - 1.0, n_m + 1.0
    put_number(stat, at + k, n_k)
    put_number(stat, at + m, n_m)
    z_k, grow_k, turn_k = local_numbers(MAX_IN_ONE_CALL), local_numbers(MAX_IN_ONE_CALL), local_numbers(MAX_IN_ONE_CALL)
    z_m, grow_m, turn_m = local_numbers(MAX_IN_ONE_CALL), local_numbers(MAX_IN_ONE_CALL), local_numbers(MAX_IN_ONE_CALL)
    product_k, product_m, total_k, total_m = 1.0, 1.0, 0.0, 0.0
    T_k, T_m, over_k, over_m, least = 1.0, 1.0, 1.0, 1.0, 1.0
    at += MEAN * cap
    p = at + d * cap
    for a in range(d):
        x = number_at(rows.y, y + a)
        mean_k, mean_m = number_at(stat, at + k), number_at(stat, at + m)
        e_k, e_m = x - mean_k, x - mean_m
        put_number(stat, at + k, mean_k - e_k * part_k)
        put_number(stat, at + m, mean_m + e_m * part_m)
        at += cap
        for j in range(a):
            of_k, of_m = number_at(stat, p + k), number_at(stat, p + m)
            e_k, e_m = e_k - z_k[j] * of_k, e_m - z_m[j] * of_m
            put_number(stat, p + k, grow_k[j] * of_k - turn_k[j] * e_k)
            put_number(stat, p + m, grow_m[j] * of_m + turn_m[j] * e_m)
            p += cap
        of_k, of_m = number_at(stat, p + k), number_at(stat, p + m)
        e_k, e_m = e_k * of_k, e_m * of_m
        new_k, new_m = T_k - w_k * e_k * e_k, T_m + w_m * e_m * e_m
        least = min(least, new_k, new_k * over_k)
        new_k = max(new_k, LOST * T_k)
        next_k, next_m = 1.0 / new_k, 1.0 / new_m
        root_k, root_m = math.sqrt(T_k * next_k), math.sqrt(T_m * next_m)
        z_k[a], z_m[a] = e_k, e_m
        grow_k[a], grow_m[a] = root_k * new_k * over_k, root_m * new_m * over_m
        turn_k[a], turn_m[a] = w_k * over_k * e_k * root_k, w_m * over_m * e_m * root_m
        T_k, T_m, over_k, over_m = new_k, new_m, next_k, next_m
        of_k, of_m = of_k * root_k, of_m * root_m
        put_number(stat, p + k, of_k)
        put_number(stat, p + m, of_m)
        p += cap
        total_k, product_k = _limited(total_k, product_k * of_k)
        total_m, product_m = _limited(total_m, product_m * of_m)
    _put_constants(rows, stat, block, k, n_k, total_k, product_k)
    _put_constants(rows, stat, block, m, n_m, total_m, product_m)
    return DONE if least >= LOST else LOST_PRECISION


@kernel
def _combine_factors(rows, source, target, block, k, m, lift, w, c):
    """The factor of Psi_12 by rank-one updates of the target's; see `pooling`."""
    s, o, first, d = places(block)
    mean, L = s + MEAN, s + MEAN + d
    row = L + d * (d + 1) // 2
    prior, sampled = spreads(rows, o) + d, rows.constant[o + SAMPLED] != 0.0
    for j in range(d):
        for a in range(j, d):
            x = source[L + a * (a + 1) // 2 + j, k]
            target[row + a, m] = 1.0 / x if a == j else x
        rotate(target, L, row, d, m, 1.0, j)
    root = math.sqrt(w)
    for a in range(d):
        target[row + a, m] = root * (source[mean + a, k] * lift - target[mean + a, m])
    rotate(target, L, row, d, m, 1.0, 0)
    for j in range(d):
        for a in range(j, d):
            x = rows.constant[prior + a * (a + 1) // 2 + j]
            target[row + a, m] = 1.0 / x if a == j else x
        if sampled:
            target[row + j, m] = math.sqrt(rows.constant[prior_diagonal(rows, o, d, j)])
        rotate(target, L, row, d, m, -1.0, j)
    root = math.sqrt(c)
    for a in range(d):
        target[row + a, m] = root * source[mean + a, k] * lift
    rotate(target, L, row, d, m, -1.0, 0)


@inlined
def _combine_products(rows, source, target, block, k, m, lift, w, c):
    """The factor of Psi_12 from Psi_12 itself; False, nothing changed, where it would lose digits.

    Psi_12 is more than Psi_1 and Psi_2, and so are its pivots: no more is lost in them than the diagonal is larger.
    """
    s, o, _, d = places(block)
    mean, L = s + MEAN, s + MEAN + d
    prior = spreads(rows, o) + d + d * (d + 1) // 2
    first, second, psi = local_numbers(ROOM), local_numbers(ROOM), local_numbers(ROOM)
    b, e = local_numbers(MAX_RESPONSES), local_numbers(MAX_RESPONSES)
    inverse, root = local_numbers(MAX_RESPONSES), local_numbers(MAX_RESPONSES)
    trusted = True
    begin = 0
    for a in range(d):
        b_a = source[mean + a, k] * lift
        e_a = b_a - target[mean + a, m]
        b[a], e[a] = b_a, e_a
        for p in range(begin, begin + a):
            first[p], second[p] = source[L + p, k], target[L + p, m]
        last = begin + a
        x, y = 1.0 / source[L + last, k], 1.0 / target[L + last, m]
        first[last], second[last] = x, y
        other = 0
        e_a, b_a = w * e_a, c * b_a
        for j in range(a + 1):
            total = e_a * e[j] - b_a * b[j] - rows.constant[prior + begin + j]
            for i in range(j + 1):
                total += first[begin + i] * first[other + i] + second[begin + i] * second[other + i]
            other += j + 1
            psi[begin + j] = total
        trusted = trusted and (a == 0 or max(x * x, y * y) >= LOST * psi[last])
        begin += a + 1
    if not trusted:
        return False
    begin = 0
    for a in range(d):  # Psi_12 = X D^-1 X' with D the diagonal of X: no square root is waited for; X D^-1 into the place of `first`
        other = 0
        total = psi[begin + a]
        for j in range(a):
            x = psi[begin + j]
            for i in range(j):
                x -= psi[begin + i] * first[other + i]
            other += j + 1
            y = x * inverse[j]
            psi[begin + j], first[begin + j] = x, y
            total -= x * y
            target[L + begin + j, m] = x * root[j]
        inverse[a] = 1.0 / total
        root[a] = math.sqrt(inverse[a])
        target[L + begin + a, m] = root[a]
        begin += a + 1
    return True


@entry(COMBINE_T)
def gaussian_combine(rows, source, target, block, k, m):
    """See `pooling`."""
    s, o, first, d = places(block)
    n_source, n_target = source[s, k], target[s, m]
    if n_source == 0.0:
        return DONE
    if n_target == 0.0:
        for r in range(s, s + MEAN + d + d * (d + 1) // 2):
            target[r, m] = source[r, k]
        return DONE
    lift, gain, w, c = pool(rows.constant[o + R], n_source, n_target)
    if d > MAX_RESPONSES or not _combine_products(rows, source, target, block, k, m, lift, w, c):
        _combine_factors(rows, source, target, block, k, m, lift, w, c)
    target[s, m] = n_source + n_target
    for j in range(s + MEAN, s + MEAN + d):
        target[j, m] += gain * (source[j, k] * lift - target[j, m])
    refresh(rows, target, block, m)
    return DONE


@woven
@fast
def _score(y, stat, work, out, s, first, d, K, i):
    """out[:K] += c - h log(1 + f q), the loops over clusters innermost; work[d, :K] holds the q."""
    K = padded(K, stat, out)
    c, h, f, mean = s + 1, s + 2, s + 3, s + MEAN
    if d == 1:
        x, D = y[i, first], mean + 1
        for k in range(K):
            z = (x - stat[mean, k]) * stat[D, k]
            work[1, k] = z * z
            out[k] += stat[c, k] - stat[h, k] * log_pos(1.0 + stat[f, k] * work[1, k])
        return
    if d == 2:
        x0, x1 = y[i, first], y[i, first + 1]
        for k in range(K):
            z0 = (x0 - stat[mean, k]) * stat[mean + 2, k]
            z1 = (x1 - stat[mean + 1, k] - stat[mean + 3, k] * z0) * stat[mean + 4, k]
            work[2, k] = z0 * z0 + z1 * z1
        # a second loop: with more rows in one the compiler gives up telling reads from writes apart
        for k in range(K):
            out[k] += stat[c, k] - stat[h, k] * log_pos(1.0 + stat[f, k] * work[2, k])
        return
    if fits(d, K):
        squares(y, stat, work, mean, first, d, K, i)
    else:
        for k in range(K):
            work[d, k] = 0.0
        p = mean + d
        for a in range(d):
            x = y[i, first + a]
            for k in range(K):
                work[a, k] = x - stat[mean + a, k]
            for j in range(a):
                for k in range(K):
                    work[a, k] -= stat[p, k] * work[j, k]
                p += 1
            for k in range(K):
                z = work[a, k] * stat[p, k]
                work[a, k] = z
                work[d, k] += z * z
            p += 1
    for k in range(K):
        out[k] += stat[c, k] - stat[h, k] * log_pos(1.0 + stat[f, k] * work[d, k])


@woven
@fast
def _score_four(y, stat, work, out, s, first, d, K, i):
    """out[r, :K] += the same of row i[r]; work[:4, :K] holds the q."""
    K = padded(K, stat, out[0]) // LANES * LANES
    c, h, f = s + 1, s + 2, s + 3
    squares_of_four(y, stat, work, s + MEAN, first, d, K, i)
    for r in range(4):
        for k in range(K):
            out[r, k] += stat[c, k] - stat[h, k] * log_pos(1.0 + stat[f, k] * work[r, k])


@inlined
def _constants_without(rows, stat, block, k):
    """c, h, f of the predictive of a member of k given the other members, with q still that of all: |Psi_(n-1)| = (1 + f q) |Psi_n|."""
    s, o = block[Block.STAT], block[Block.CONSTANT]
    at, cap = s * stat.shape[1] + k, stat.shape[1]
    n = number_at(stat, at)
    r_n, table = number_at(rows.constant, o + R) + n, o + TABLES + int(n)
    c = number_at(stat, at + cap) - number_at(rows.constant, table) + number_at(rows.constant, table - 1)
    return c, 1.0 - number_at(stat, at + 2 * cap), -r_n / (r_n - 1.0)


@inlined
def _score_and_own(rows, stat, work, out, block, K, i, own):
    """Column `own` has the constants without row i while all are scored, and costs nothing more; NaN where too few digits are left."""
    s, o, first, d = places(block)
    cap = stat.shape[1]
    at = (s + 1) * cap + own
    c, h, f = number_at(stat, at), number_at(stat, at + cap), number_at(stat, at + 2 * cap)
    c_own, h_own, f_own = _constants_without(rows, stat, block, own)
    put_number(stat, at, c_own)
    put_number(stat, at + cap, h_own)
    put_number(stat, at + 2 * cap, f_own)
    _score(rows.y, stat, work, out, s, first, d, K, i)
    put_number(stat, at, c)
    put_number(stat, at + cap, h)
    put_number(stat, at + 2 * cap, f)
    if not 1.0 + f_own * number_at(work, d * work.shape[1] + own) > LOST:
        out[own] = math.nan


@entry(SCORE_T)
def gaussian_score(rows, stat, work, out, block, K, i, own):
    if math.isnan(rows.y[i, block[Block.FIRST]]):
        return DONE
    if has_gaps(rows, i, block[Block.FIRST], block[Block.LAST]):
        return call_score(block[Block.SCORE_GAPS], rows, stat, work, out, block, K, i, own) if block[Block.SCORE_GAPS] != 0 else BROKEN
    if own < 0:
        _score(rows.y, stat, work, out, block[Block.STAT], block[Block.FIRST], block[Block.LAST] - block[Block.FIRST], K, i)
    else:
        _score_and_own(rows, stat, work, out, block, K, i, own)
    return DONE


@entry(SCORE_FOUR_T)
def gaussian_score_four(rows, stat, work, out, block, K, i, own):
    before, first = local_numbers(4), block[Block.FIRST]
    for r in range(4):
        before[r] = out[r, own[r]] if own[r] >= 0 else 0.0
    _score_four(rows.y, stat, work, out, block[Block.STAT], first, block[Block.LAST] - first, K, i)
    for r in range(4):
        if own[r] >= 0:
            c, h, f = _constants_without(rows, stat, block, own[r])
            t = 1.0 + f * work[r, own[r]]
            out[r, own[r]] = before[r] + (c - h * log_pos(t)) if t > LOST else math.nan
    return DONE


@entry(MARGINAL_T)
def gaussian_marginal(rows, stat, block, k):
    """marginal[n] - (nu + n)/2 log|Psi_n|, the determinant from c."""
    s, o, _, d = places(block)
    n = int(stat[s, k])
    log_det = 2.0 * (rows.constant[o + TABLES + n] - stat[s + 1, k])
    marginal = rows.constant[o + TABLES + int(rows.constant[o + LENGTH]) + n]
    return marginal + log_scale(rows, o, d) - 0.5 * (rows.constant[o + NU] + n) * log_det


@entry(SAMPLE_T)
def gaussian_sample(rows, stat, theta, block, k, m, rng):
    """Lambda = L^-T A A' L^-1 by Bartlett's decomposition, mu = mu_n + L A^-T z / sqrt(r_n); W = A' L^-1."""
    s, o, first, d = places(block)
    t, n = block[Block.THETA], stat[s, k]
    r_n, nu_n = rows.constant[o + R] + n, rows.constant[o + NU] + n
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
    s, o, first, d = places(block)
    t = block[Block.THETA]
    constant = rows.constant[o + JACOBIAN] - 0.5 * d * LOG_TWO_PI
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
    if math.isnan(rows.y[i, block[Block.FIRST]]):
        return DONE
    if has_gaps(rows, i, block[Block.FIRST], block[Block.LAST]):
        density_missing(rows, theta, work, out, block, M, i)
    else:
        _density(rows, theta, work, out, block, M, i)
    return DONE


@entry(IMPUTE_T)
def gaussian_impute(rows, stat, work, block, k, i, rng):
    if has_gaps(rows, i, block[Block.FIRST], block[Block.LAST]):
        impute_missing(rows, stat, work, block, k, i, rng)
    return DONE


gaussian_mean, gaussian_mean_theta = means_at(Block.STAT, MEAN), means_at(Block.THETA, 1)
