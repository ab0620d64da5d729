"""Regression components: several responses, linear in their inputs, matrix-normal-inverse-Wishart prior.

Responses and inputs come whitened by the prior (`nrmmix.model.families.linear`): y = G'z + e, e ~ N(0, Lambda^-1), with Lambda ~
Wishart(nu, S_0^-1) and G | Lambda ~ MN(G_0, D^-1, Lambda^-1), a row for each input and a column for each response, D = diag(shrinkage) and
S_0 = diag(scale).  Shrinkage and scale are 1 or drawn, as in `regression`, which is the same law of one response.  Rows that miss the
responses are NaN and count for nothing.

Rows of stat: n; c of the predictive; the mean G_n (q x d) by rows; the Cholesky factor of P_n = D + sum z z' and that of S_n, packed by
rows, their diagonals as reciprocals; 2q + d of scratch; where shrinkage and scale are drawn room for rows of theta.
With Q = z' P_n^-1 z and e = y - G_n'z the predictive is a multivariate t with nu + n - d + 1 degrees of freedom:
c - (d/2) log(1 + Q) - (nu + n + 1)/2 log(1 + e' S_n^-1 e / (1 + Q)), c = marginal[n + 1] - marginal[n] - log|S_n|/2.

Constants: nu, log |dy/dy_user|, shape and rate of shrinkage, G_0 (q x d), shrinkage (q), scale (d), of each column the first of those
that have one shrinkage (q), then marginal[0..]: what of log p(y_c) depends on n alone.
Rows of theta: log |W|, G (q x d), W (d x d) with Lambda = W'W.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import COMBINE_T, DENSITY_T, EMPTY_T, MARGINAL_T, MEAN_T, REDRAW_SHARED_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.core.jit import fast, inlined, kernel
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import DONE, LOST_PRECISION, STALE, Block
from nrmmix.kernels.families.gaussian.pooling import LOST, rotate
from nrmmix.kernels.families.regression import JACOBIAN, MIN_SHRINKAGE, NU, START, draw_shrinkage

MEAN = 2  # first row of the mean
LOG_TWO_PI = math.log(2.0 * math.pi)


def n_stat(q, d, redrawn=False):
    return MEAN + q * d + q * (q + 1) // 2 + d * (d + 1) // 2 + 2 * q + d + (n_theta(q, d) if redrawn else 0)


def n_theta(q, d):
    return 1 + q * d + d * d


def n_work(q, d):
    return q + d + 2


@inlined
def _sizes(block):
    """Return the numbers of inputs and responses."""
    return block[Block.INPUT_LAST] - block[Block.INPUT], block[Block.LAST] - block[Block.FIRST]


@inlined
def _places(block):
    """First rows of the factors of P_n and of S_n, and of scratch: of inputs, of what is made of them, of residuals."""
    q, d = block[Block.INPUT_LAST] - block[Block.INPUT], block[Block.LAST] - block[Block.FIRST]
    P = block[Block.STAT] + MEAN + q * d
    S = P + q * (q + 1) // 2
    z = S + d * (d + 1) // 2
    return P, S, z, z + q, z + 2 * q


@inlined
def _prior(block):
    """Places in the constants of shrinkage, scale and marginal."""
    q, d = _sizes(block)
    shrinkage = block[Block.CONSTANT] + START + q * d
    return shrinkage, shrinkage + q, shrinkage + 2 * q + d


@kernel
def _log_diagonal(stat, p, d, k):
    """Sum of the logs of the diagonal of a factor from row p on: of reciprocals, so that it is minus half the log determinant."""
    product, total = 1.0, 0.0
    for j in range(d):
        p += j
        product *= stat[p, k]
        if not 1e-200 < product < 1e200:
            total += math.log(product)
            product = 1.0
        p += 1
    return total + log_pos(product)


@kernel
def _refresh(rows, stat, block, k):
    _, d = _sizes(block)
    _, S, _, _, _ = _places(block)
    s = block[Block.STAT]
    marginal = _prior(block)[2] + int(stat[s, k])
    stat[s + 1, k] = rows.constant[marginal + 1] - rows.constant[marginal] + _log_diagonal(stat, S, d, k)


@kernel
def _diagonal(rows, first, stat, p, d, k):
    """The factor of the diagonal matrix that stands in the constants."""
    for a in range(d):
        for _ in range(a):
            stat[p, k] = 0.0
            p += 1
        stat[p, k] = 1.0 / math.sqrt(rows.constant[first + a])
        p += 1


@entry(EMPTY_T)
def matrix_regression_empty(rows, stat, block, k):
    q, d = _sizes(block)
    P, S, _, _, _ = _places(block)
    s = block[Block.STAT]
    stat[s, k] = 0.0
    for a in range(q * d):
        stat[s + MEAN + a, k] = rows.constant[block[Block.CONSTANT] + START + a]
    shrinkage, scale, _ = _prior(block)
    _diagonal(rows, shrinkage, stat, P, q, k)
    _diagonal(rows, scale, stat, S, d, k)
    _refresh(rows, stat, block, k)
    return DONE


@kernel
def _gain(stat, block, k, sign, begin):
    """All that a row changes, entering or leaving: its inputs and y - G_n'z in scratch, lost; False where digits are lost.

    Inputs before `begin` are 0.
    """
    q, d = _sizes(block)
    P, S, z, w, e = _places(block)
    mean = block[Block.STAT] + MEAN
    left = 1.0
    for a in range(q):  # L^-1 z
        x = stat[z + a, k]
        for b in range(a):
            x -= stat[P + a * (a + 1) // 2 + b, k] * stat[w + b, k]
        x *= stat[P + a * (a + 1) // 2 + a, k]
        stat[w + a, k] = x
        left += sign * x * x
    sound = left >= LOST
    left = max(left, LOST)
    for a in range(q - 1, -1, -1):  # P_n^-1 z
        x = stat[w + a, k]
        for b in range(a + 1, q):
            x -= stat[P + b * (b + 1) // 2 + a, k] * stat[w + b, k]
        x *= stat[P + a * (a + 1) // 2 + a, k]
        stat[w + a, k] = x
        for j in range(d):
            stat[mean + a * d + j, k] += sign * x * stat[e + j, k] / left
    root = math.sqrt(left)
    for j in range(d):
        stat[e + j, k] /= root
    share, least = rotate(stat, S, e, d, k, sign, 0)
    sound = sound and share >= LOST and least >= LOST
    share, least = rotate(stat, P, z, q, k, sign, begin)
    return sound and least >= LOST


@entry(UPDATE_T)
def matrix_regression_update(rows, stat, block, k, i, sign):
    """The mean, then rank-one updates of both factors."""
    if math.isnan(rows.y[i, block[Block.FIRST]]):
        return DONE
    q, d = _sizes(block)
    _, _, z, _, e = _places(block)
    s = block[Block.STAT]
    stat[s, k] += sign
    for j in range(d):
        stat[e + j, k] = rows.y[i, block[Block.FIRST] + j]
    for a in range(q):
        x = rows.y[i, block[Block.INPUT] + a]
        stat[z + a, k] = x
        for j in range(d):
            stat[e + j, k] -= x * stat[s + MEAN + a * d + j, k]
    sound = _gain(stat, block, k, sign, 0)
    _refresh(rows, stat, block, k)
    return DONE if sound else LOST_PRECISION


@entry(COMBINE_T)
def matrix_regression_combine(rows, source, target, block, k, m):
    """The columns of the source's factor of P_1 enter as rows on whose plane G_1 is, S_1 beside them; then the prior, twice in, leaves.

    P_1 + P_2 is at most 2 P_12, and its S at most 2 S_12: no removal costs digits.
    """
    q, d = _sizes(block)
    P, S, z, _, e = _places(block)
    s = block[Block.STAT]
    G = s + MEAN
    if source[s, k] == 0.0:
        return DONE
    if target[s, m] == 0.0:
        for r in range(s, z):
            target[r, m] = source[r, k]
        return DONE
    target[s, m] += source[s, k]
    for j in range(d):
        for a in range(j, d):
            x = source[S + a * (a + 1) // 2 + j, k]
            target[e + a, m] = 1.0 / x if a == j else x
        rotate(target, S, e, d, m, 1.0, j)
    for c in range(q):
        for j in range(d):
            target[e + j, m] = 0.0
        for a in range(q):
            p = P + a * (a + 1) // 2 + c
            x = 0.0 if a < c else 1.0 / source[p, k] if a == c else source[p, k]
            target[z + a, m] = x
            for j in range(d):
                target[e + j, m] += x * (source[G + a * d + j, k] - target[G + a * d + j, m])
        _gain(target, block, m, 1.0, c)
    shrinkage, scale, _ = _prior(block)
    for c in range(q):
        root = math.sqrt(rows.constant[shrinkage + c])
        for a in range(q):
            target[z + a, m] = root if a == c else 0.0
        for j in range(d):
            target[e + j, m] = root * (rows.constant[block[Block.CONSTANT] + START + c * d + j] - target[G + c * d + j, m])
        _gain(target, block, m, -1.0, c)
    for j in range(d):
        for a in range(j, d):
            target[e + a, m] = math.sqrt(rows.constant[scale + j]) if a == j else 0.0
        rotate(target, S, e, d, m, -1.0, j)
    _refresh(rows, target, block, m)
    return DONE


@fast
def _score(y, stat, work, out, s, first, q, response, d, nu, K, i):
    """out[:K] += log predictive, the loops over clusters innermost."""
    Q, E = work[q + d], work[q + d + 1]
    for j in range(d):
        x = y[i, response + j]
        for k in range(K):
            work[q + j, k] = x
        for a in range(q):
            z = y[i, first + a]
            for k in range(K):
                work[q + j, k] -= z * stat[s + MEAN + a * d + j, k]
    for k in range(K):
        Q[k] = 1.0
        E[k] = 0.0
    p = s + MEAN + q * d
    for a in range(q):
        x = y[i, first + a]
        for k in range(K):
            work[a, k] = x
        for j in range(a):
            for k in range(K):
                work[a, k] -= stat[p, k] * work[j, k]
            p += 1
        for k in range(K):
            w = work[a, k] * stat[p, k]
            work[a, k] = w
            Q[k] += w * w
        p += 1
    for a in range(q, q + d):
        for j in range(q, a):
            for k in range(K):
                work[a, k] -= stat[p, k] * work[j, k]
            p += 1
        for k in range(K):
            w = work[a, k] * stat[p, k]
            work[a, k] = w
            E[k] += w * w
        p += 1
    for k in range(K):
        E[k] = 1.0 + E[k] / Q[k]
    for k in range(K):
        out[k] += stat[s + 1, k] - 0.5 * d * log_pos(Q[k])
    for k in range(K):
        out[k] -= 0.5 * (nu + stat[s, k] + 1.0) * log_pos(E[k])


@kernel
def _solved(stat, p, work, first, d, k):
    """L^-1 x for the factor from row p on and x in d rows of work, in their place; its sum of squares."""
    total = 0.0
    for a in range(d):
        x = work[first + a, k]
        for j in range(a):
            x -= stat[p, k] * work[first + j, k]
            p += 1
        x *= stat[p, k]
        p += 1
        work[first + a, k] = x
        total += x * x
    return total


@kernel
def _without(rows, stat, work, block, k, i):
    """Log predictive of member i given the other members: |S_(n-1)| = t |S_n|; NaN when too few digits are left."""
    q, d = _sizes(block)
    P, S, _, _, _ = _places(block)
    s = block[Block.STAT]
    for j in range(d):
        work[q + j, k] = rows.y[i, block[Block.FIRST] + j]
    for a in range(q):
        x = rows.y[i, block[Block.INPUT] + a]
        work[a, k] = x
        for j in range(d):
            work[q + j, k] -= x * stat[s + MEAN + a * d + j, k]
    left = 1.0 - _solved(stat, P, work, 0, q, k)
    if not left >= LOST:
        return math.nan
    t = 1.0 - _solved(stat, S, work, q, d, k) / left
    if not t >= LOST:
        return math.nan
    n = int(stat[s, k])
    marginal = _prior(block)[2] + n
    constant = rows.constant[marginal] - rows.constant[marginal - 1] + _log_diagonal(stat, S, d, k)
    nu = rows.constant[block[Block.CONSTANT] + NU]
    return constant + 0.5 * (d * math.log(left) + (nu + n - 1.0) * math.log(t))


@entry(SCORE_T)
def matrix_regression_score(rows, stat, work, out, block, K, i, own):
    if math.isnan(rows.y[i, block[Block.FIRST]]):
        return DONE
    before = out[own] if own >= 0 else 0.0
    q, d = _sizes(block)
    nu = rows.constant[block[Block.CONSTANT] + NU]
    _score(rows.y, stat, work, out, block[Block.STAT], block[Block.INPUT], q, block[Block.FIRST], d, nu, K, i)
    if own >= 0:
        out[own] = before + _without(rows, stat, work, block, own, i)
    return DONE


@entry(MARGINAL_T)
def matrix_regression_marginal(rows, stat, block, k):
    """marginal[n] + (d/2) (log|D| - log|P_n|) + (nu/2) log|S_0| - (nu + n)/2 log|S_n|."""
    q, d = _sizes(block)
    P, S, _, _, _ = _places(block)
    n, nu = int(stat[block[Block.STAT], k]), rows.constant[block[Block.CONSTANT] + NU]
    shrinkage, scale, marginal = _prior(block)
    value = rows.constant[marginal + n]
    value += d * _log_diagonal(stat, P, q, k)
    value += (nu + n) * _log_diagonal(stat, S, d, k)
    for a in range(q):
        if rows.constant[shrinkage + a] != 1.0:
            value += 0.5 * d * math.log(rows.constant[shrinkage + a])
    for j in range(d):
        if rows.constant[scale + j] != 1.0:
            value += 0.5 * nu * math.log(rows.constant[scale + j])
    return value


@kernel
def _sample(rows, stat, theta, t, block, k, m, rng):
    """Lambda = L^-T A A' L^-1 by Bartlett's decomposition, W = A' L^-1, S_n = L L'; G = G_n + M^-T Z W^-T, P_n = M M'; into theta[t:, m].
    """
    q, d = _sizes(block)
    P, S, _, _, _ = _places(block)
    s = block[Block.STAT]
    nu_n = rows.constant[block[Block.CONSTANT] + NU] + stat[s, k]
    G, W = t + 1, t + 1 + q * d
    log_det = 0.0
    for a in range(d):  # A' into the place of W
        for j in range(a):
            theta[W + a * d + j, m] = 0.0
        root = math.sqrt(2.0 * rng.standard_gamma(0.5 * (nu_n - a)))
        theta[W + a * d + a, m] = root
        log_det += math.log(root * stat[S + a * (a + 1) // 2 + a, k])
        for j in range(a + 1, d):
            theta[W + a * d + j, m] = rng.standard_normal()
    theta[t, m] = log_det
    for c in range(q - 1, -1, -1):
        row = G + c * d
        for a in range(d - 1, -1, -1):  # A'^-1 z
            z = rng.standard_normal()
            for j in range(a + 1, d):
                z -= theta[W + a * d + j, m] * theta[row + j, m]
            theta[row + a, m] = z / theta[W + a * d + a, m]
        for a in range(d - 1, -1, -1):  # W^-1 z = L A'^-1 z
            p = S + a * (a + 1) // 2
            total = theta[row + a, m] / stat[p + a, k]
            for j in range(a):
                total += stat[p + j, k] * theta[row + j, m]
            theta[row + a, m] = total
        for j in range(d):  # the rows below are those of M^-T Z W^-T already
            x = theta[row + j, m]
            for b in range(c + 1, q):
                x -= stat[P + b * (b + 1) // 2 + c, k] * theta[G + b * d + j, m]
            theta[row + j, m] = x * stat[P + c * (c + 1) // 2 + c, k]
    for a in range(q * d):
        theta[G + a, m] += stat[s + MEAN + a, k]
    for a in range(d):  # W L = A'
        for j in range(d - 1, -1, -1):
            w = theta[W + a * d + j, m]
            for i in range(j + 1, d):
                w -= theta[W + a * d + i, m] * stat[S + i * (i + 1) // 2 + j, k]
            theta[W + a * d + j, m] = w * stat[S + j * (j + 1) // 2 + j, k]


@entry(SAMPLE_T)
def matrix_regression_sample(rows, stat, theta, block, k, m, rng):
    _sample(rows, stat, theta, block[Block.THETA], block, k, m, rng)
    return DONE


@entry(REDRAW_SHARED_T)
def matrix_regression_redraw_shared(rows, stat, block, K, rng):
    """G and Lambda of the columns, then shrinkage and scale given these."""
    q, d = _sizes(block)
    _, _, _, _, e = _places(block)
    shrinkage, scale, _ = _prior(block)
    t = e + d
    G, W = t + 1, t + 1 + q * d
    for k in range(K):
        _sample(rows, stat, stat, t, block, k, k, rng)
    nu = rows.constant[block[Block.CONSTANT] + NU]
    for j in range(d):
        total = 0.0
        for k in range(K):
            for r in range(d):
                total += stat[W + r * d + j, k] * stat[W + r * d + j, k]
        rows.constant[scale + j] = max(rng.standard_gamma(0.5 * (1.0 + nu * K)) / (1.0 + 0.5 * total), MIN_SHRINKAGE * MIN_SHRINKAGE)
    group, start = rows.constant[scale + d : scale + d + q], block[Block.CONSTANT] + START
    for a in range(q):
        if group[a] != a:
            continue
        total, count = 0.0, 0
        for b in range(a, q):
            if group[b] == a:
                count += d * K
                for k in range(K):
                    for r in range(d):
                        x = 0.0
                        for j in range(d):
                            x += stat[W + r * d + j, k] * (stat[G + b * d + j, k] - rows.constant[start + b * d + j])
                        total += x * x
        draw_shrinkage(rows.constant, block[Block.CONSTANT], shrinkage, group, a, total, count, rng)
    return STALE


@fast
def _density(rows, theta, work, out, block, M, i):
    t = block[Block.THETA]
    first, response = block[Block.INPUT], block[Block.FIRST]
    q, d = block[Block.INPUT_LAST] - first, block[Block.LAST] - response
    constant = rows.constant[block[Block.CONSTANT] + JACOBIAN] - 0.5 * d * LOG_TWO_PI
    for m in range(M):
        out[m] += constant + theta[t, m]
    for j in range(d):
        y, e = rows.y[i, response + j], work[j]
        for m in range(M):
            e[m] = y
        for a in range(q):
            x, g = rows.y[i, first + a], theta[t + 1 + a * d + j]
            for m in range(M):
                e[m] -= x * g[m]
    z = work[d]
    for a in range(d):
        for m in range(M):
            z[m] = 0.0
        for j in range(d):
            w, e = theta[t + 1 + q * d + a * d + j], work[j]
            for m in range(M):
                z[m] += w[m] * e[m]
        for m in range(M):
            out[m] -= 0.5 * z[m] * z[m]


@entry(DENSITY_T)
def matrix_regression_density(rows, theta, work, out, block, M, i):
    if not math.isnan(rows.y[i, block[Block.FIRST]]):
        _density(rows, theta, work, out, block, M, i)
    return DONE


@kernel
def _products(rows, coefficients, first, out, block, k, i):
    q, d = _sizes(block)
    for j in range(d):
        total = 0.0
        for a in range(q):
            total += rows.y[i, block[Block.INPUT] + a] * coefficients[first + a * d + j, k]
        out[block[Block.MEANS] + j] = total


@entry(MEAN_T)
def matrix_regression_mean(rows, stat, out, block, k, i):
    _products(rows, stat, block[Block.STAT] + MEAN, out, block, k, i)
    return DONE


@entry(MEAN_T)
def matrix_regression_mean_theta(rows, theta, out, block, m, i):
    _products(rows, theta, block[Block.THETA] + 1, out, block, m, i)
    return DONE
