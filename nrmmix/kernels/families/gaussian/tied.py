"""Gaussian components N(mu_k, Sigma) with one covariance Sigma ~ inverse Wishart(nu, Psi_0) of all, and mu_k | Sigma ~ N(0, Sigma/r).

Responses come centred at the prior mean.  Given Sigma this is the family of `known_covariance`, and statistics are those of rows
z = L^-1 y with Sigma = L L'; but rows stay as they are and are whitened one by one, for Sigma is drawn given the partition: means are
integrated out, and

    Sigma ~ inverse Wishart(nu + n, Psi_0 + L S L'),    S = sum_k (sum_(i in k) z_i z_i' - (r + n_k) mu_k mu_k').

Constants are those of `known_covariance`, the factor L in place of that of correlations, log s_j = 0; then nu; lower triangles, row by
row, of Sigma, of that Sigma of which L is the factor, and of Psi_0; scratch, two triangles and a row.  Whoever writes another Sigma there
leaves the rest to `tied_empty`, through which all statistics begin.

Rows of stat: those of `known_covariance`, Q the trace of the following; lower triangles of the cluster's part of S and of L; scratch (d).
Rows of theta: mean of z (d); the lower triangle of L.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import COMBINE_T, DENSITY_T, EMPTY_T, MEAN_T, REDRAW_SHARED_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.core.jit import fast, inlined, kernel, woven
from nrmmix.kernels.core.state import DONE, LOST_PRECISION, STALE, Block
from nrmmix.kernels.families.gaussian import known_covariance as known
from nrmmix.kernels.families.gaussian.known_covariance import JACOBIAN, MEAN, SPREADS, R
from nrmmix.kernels.families.gaussian.pooling import pool
from nrmmix.kernels.families.shared import LOG_TWO_PI, LOST, clear, is_complete, padded, places

MIN_PIVOT = 1e-14  # of a pivot as a share of its diagonal element: what rounding leaves of one that is 0

tied_marginal = known.known_marginal


def n_stat(d):
    return known.n_stat(d, False) + d * (d + 1) + d


def n_theta(d):
    return d + d * (d + 1) // 2


def n_work(d):
    return known.n_work(d, True)


def covariance_place(d):
    """The first of the constants that are Sigma."""
    return SPREADS + d + d * d + 1


@inlined
def _scatter(s, d):
    return s + MEAN + d + 2


@inlined
def _triangle(d):
    return d * (d + 1) // 2


@kernel
def _whiten(rows, block, i, out, at, k):
    """Row i as z, into out[at : at + d, k]."""
    _, o, first, d = places(block)
    L = o + SPREADS + d
    for a in range(d):
        x = rows.y[i, first + a]
        for j in range(a):
            x -= rows.constant[L + a * d + j] * out[at + j, k]
        out[at + a, k] = x / rows.constant[L + a * d + a]


@kernel
def _cholesky(values, at, d):
    """The factor of a matrix, both lower triangles by rows, in its place."""
    for a in range(d):
        begin = at + _triangle(a)
        whole = values[begin + a]
        for b in range(a + 1):
            other = at + _triangle(b)
            total = values[begin + b]
            for j in range(b):
                total -= values[begin + j] * values[other + j]
            values[begin + b] = math.sqrt(max(total, MIN_PIVOT * whole)) if a == b else total / values[other + b]


@kernel
def _factorise(rows, block):
    """L, and log |L|, from Sigma."""
    _, o, _, d = places(block)
    L, t = o + SPREADS + d, _triangle(d)
    sigma = L + d * d + 1
    scratch = sigma + 3 * t
    for p in range(t):
        rows.constant[sigma + t + p] = rows.constant[scratch + p] = rows.constant[sigma + p]
    _cholesky(rows.constant, scratch, d)
    rows.constant[o + JACOBIAN] = 0.0
    for a in range(d):
        for j in range(a + 1):
            rows.constant[L + a * d + j] = rows.constant[scratch + _triangle(a) + j]
        rows.constant[o + JACOBIAN] -= math.log(rows.constant[L + a * d + a])


@entry(EMPTY_T)
def tied_empty(rows, stat, block, k):
    s, o, _, d = places(block)
    L, t = o + SPREADS + d, _triangle(d)
    sigma = L + d * d + 1
    for p in range(sigma, sigma + t):
        if rows.constant[p] != rows.constant[p + t]:
            _factorise(rows, block)
            break
    scatter = _scatter(s, d)
    clear(stat, s + MEAN, scatter + t, k)
    for a in range(d):
        for j in range(a + 1):
            stat[scatter + t + _triangle(a) + j, k] = rows.constant[L + a * d + j]
    known.refresh(rows, stat, block, k)
    return DONE


@entry(UPDATE_T)
def tied_update(rows, stat, block, k, i, sign):
    """S changes by +-((r_n -+ 1)/r_n) e e', e = z - mu before the change and r_n = r + n after it."""
    s, o, first, d = places(block)
    if math.isnan(rows.y[i, first]):
        return DONE
    mean, scatter = s + MEAN, _scatter(s, d)
    e = scatter + 2 * _triangle(d)
    _whiten(rows, block, i, stat, e, k)
    stat[mean + d + 1, k] += sign
    r_n = rows.constant[o + R] + stat[mean + d + 1, k]
    weight = sign * ((r_n - sign) / r_n)
    change, p = 0.0, scatter
    for a in range(d):
        e_a = stat[e + a, k] - stat[mean + a, k]
        stat[e + a, k] = e_a
        stat[mean + a, k] += sign * e_a / r_n
        change += e_a * e_a
        for j in range(a + 1):
            stat[p, k] += weight * (e_a * stat[e + j, k])
            p += 1
    before = stat[mean + d, k]
    after = before + weight * change
    stat[mean + d, k] = after
    known.refresh(rows, stat, block, k)
    return DONE if 1.0 + after >= LOST * (1.0 + before) else LOST_PRECISION


@entry(COMBINE_T)
def tied_combine(rows, source, target, block, k, m):
    """See `pooling`; S has no prior in it."""
    s, o, _, d = places(block)
    mean, scatter, count = s + MEAN, _scatter(s, d), s + MEAN + d + 1
    e = scatter + 2 * _triangle(d)
    if source[count, k] == 0.0:
        return DONE
    lift, gain, w, c = pool(rows.constant[o + R], source[count, k], target[count, m])
    c *= lift * lift
    p = scatter
    for a in range(d):
        of_source = source[mean + a, k]
        e_a = of_source * lift - target[mean + a, m]
        target[e + a, m] = e_a
        for j in range(a + 1):
            change = source[p, k] + w * e_a * target[e + j, m] - c * of_source * source[mean + j, k]
            target[p, m] += change
            if j == a:
                target[mean + d, m] += change
            p += 1
    for a in range(d):
        target[mean + a, m] += gain * target[e + a, m]
    target[count, m] += source[count, k]
    known.refresh(rows, target, block, m)
    return DONE


@woven
@fast
def _distances(values, work, at, d, K):
    """work[0, :K] = |z - mu|^2, z in work[1 : 1 + d, 0] and the means in values[at : at + d]."""
    total = work[0]
    for k in range(K):
        total[k] = 0.0
    for j in range(d):
        x, mean = work[1 + j, 0], values[at + j]
        for k in range(K):
            e = x - mean[k]
            total[k] += e * e


@fast
def _score(stat, work, out, s, d, K):
    _distances(stat, work, s + MEAN, d, K)
    c, h, square = stat[s], stat[s + 1], work[0]
    for k in range(K):
        out[k] += c[k] - h[k] * square[k]


@fast
def _density(theta, work, out, t, d, constant, M):
    _distances(theta, work, t, d, M)
    square = work[0]
    for m in range(M):
        out[m] += constant - 0.5 * square[m]


@kernel
def _without(rows, stat, work, block, k):
    """Log predictive of a member of k given the other members; of the only one given the prior, whose mean is 0."""
    s, o, _, d = places(block)
    r_n = rows.constant[o + R] + stat[s + MEAN + d + 1, k]
    square, lift = 0.0, r_n / (r_n - 1.0)
    for j in range(d):
        z = work[1 + j, 0] if stat[s + MEAN + d + 1, k] == 1.0 else (work[1 + j, 0] - stat[s + MEAN + j, k]) * lift
        square += z * z
    f = (r_n - 1.0) / r_n
    return rows.constant[o + JACOBIAN] + 0.5 * (d * (math.log(f) - LOG_TWO_PI) - f * square)


@entry(SCORE_T)
def tied_score(rows, stat, work, out, block, K, i, own):
    if not is_complete(rows, block, i):
        known.score_missing(rows, stat, work, out, block, K, i)
        return DONE
    before = out[own] if own >= 0 else 0.0
    s, _, _, d = places(block)
    _whiten(rows, block, i, work, 1, 0)
    _score(stat, work, out, s, d, padded(K, stat, out))
    if own >= 0:
        out[own] = before + _without(rows, stat, work, block, own)
    return DONE


@entry(SAMPLE_T)
def tied_sample(rows, stat, theta, block, k, m, rng):
    s, o, _, d = places(block)
    t, root = block[Block.THETA], math.sqrt(rows.constant[o + R] + stat[s + MEAN + d + 1, k])
    for j in range(d):
        theta[t + j, m] = stat[s + MEAN + j, k] + rng.standard_normal() / root
    for p in range(_triangle(d)):
        theta[t + d + p, m] = stat[_scatter(s, d) + _triangle(d) + p, k]
    return DONE


@entry(DENSITY_T)
def tied_density(rows, theta, work, out, block, M, i):
    if not is_complete(rows, block, i):
        known.density_missing(rows, theta, work, out, block, M, i)
        return DONE
    _, o, _, d = places(block)
    _whiten(rows, block, i, work, 1, 0)
    _density(theta, work, out, block[Block.THETA], d, rows.constant[o + JACOBIAN] - 0.5 * d * LOG_TWO_PI, M)
    return DONE


@kernel
def _unwhitened(rows, values, out, block, k, at):
    _, o, _, d = places(block)
    for a in range(d):
        total = 0.0
        for j in range(a + 1):
            total += rows.constant[o + SPREADS + d + a * d + j] * values[at + j, k]
        out[block[Block.MEANS] + a] = total
    return DONE


@entry(MEAN_T)
def tied_mean(rows, stat, out, block, k, i):
    return _unwhitened(rows, stat, out, block, k, block[Block.STAT] + MEAN)


@entry(MEAN_T)
def tied_mean_theta(rows, theta, out, block, k, i):
    return _unwhitened(rows, theta, out, block, k, block[Block.THETA])


@kernel
def _posterior_scale(rows, block, psi, S, row):
    """Psi_0 + L S L' as a lower triangle, S as one."""
    _, o, _, d = places(block)
    L = o + SPREADS + d
    prior = L + d * d + 1 + 2 * _triangle(d)
    p = 0
    for a in range(d):
        for j in range(a + 1):
            total = 0.0
            for i in range(a + 1):
                total += rows.constant[L + a * d + i] * rows.constant[S + (_triangle(i) + j if i >= j else _triangle(j) + i)]
            rows.constant[row + j] = total
        for b in range(a + 1):
            total = rows.constant[prior + p]
            for j in range(b + 1):
                total += rows.constant[row + j] * rows.constant[L + b * d + j]
            rows.constant[psi + p] = total
            p += 1


@entry(REDRAW_SHARED_T)
def tied_redraw_shared(rows, stat, block, K, rng):
    """Sigma = X X' with X B = C, C the factor of the posterior's scale and B'B ~ Wishart(nu + n, I), all three lower triangles."""
    s, o, _, d = places(block)
    t, nu = _triangle(d), o + SPREADS + d + d * d
    sigma = nu + 1
    B = sigma + 3 * t
    X = B + t
    row = X + t
    for p in range(t):
        rows.constant[B + p] = 0.0
    nu_n = rows.constant[nu]
    for k in range(K):
        nu_n += stat[s + MEAN + d + 1, k]
        for p in range(t):
            rows.constant[B + p] += stat[_scatter(s, d) + p, k]
    _posterior_scale(rows, block, X, B, row)
    _cholesky(rows.constant, X, d)
    for a in range(d):
        for j in range(a):
            rows.constant[B + _triangle(a) + j] = rng.standard_normal()
        rows.constant[B + _triangle(a) + a] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (nu_n - (d - 1 - a))))
    for a in range(d):
        begin = X + _triangle(a)
        for j in range(a, -1, -1):
            x = rows.constant[begin + j]
            for i in range(j + 1, a + 1):
                x -= rows.constant[begin + i] * rows.constant[B + _triangle(i) + j]
            rows.constant[begin + j] = x / rows.constant[B + _triangle(j) + j]
        for b in range(a + 1):
            total = 0.0
            for j in range(b + 1):
                total += rows.constant[begin + j] * rows.constant[X + _triangle(b) + j]
            rows.constant[sigma + _triangle(a) + b] = total
    _factorise(rows, block)
    return STALE
