"""How the sums over the locations change with one V_g, relative to where they are without it.

With b_p = tau + A_p at V_g = 0 and q_p = K_p / b_p a value s of V_g multiplies b_p by 1 + s q_p.  So

    sum_p c_p log b_p  grows by  sum_p c_p log(1 + s q_p)                             = sum_j s^j a_j(0) sum_p c_p q_p^j,
    T = sum_p R0(p) psi1(A_p)    sum_p R0(p) b_p^sigma ((1 + s q_p)^sigma - 1)/sigma  = sum_j s^j a_j(sigma) sum_p R0(p) b_p^sigma q_p^j,

a_j(sigma) = (sigma - 1) ... (sigma - j + 1) / j!, and log(1 + s q_p) in place of the quotient at sigma = 0.  Where there are many groups s
q_p is small, and an update of V_g needs the sums on the right once and no logarithm after that.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.jit import fast, inlined, kernel
from nrmmix.kernels.core.special import exp_any, log_pos, top_of
from nrmmix.kernels.core.state import OF_GROWTH, OF_LOGS, ORDER, TINY
from nrmmix.kernels.measure.nrm import psi1_at

NEAR = 0.1  # |s q| up to which series are summed: what they leave out is below 1e-14


@fast
def relative_to_rest(relative, rest, K_row, A, v, c, tau):
    """rest_p = A_p - v K_p, relative_p = K_p / (tau + rest_p); the largest of these, and sum_p c_p relative_p."""
    slope = 0.0
    for p in range(relative.shape[0]):
        rest[p] = max(A[p] - v * K_row[p], 0.0)
        relative[p] = K_row[p] / max(tau + rest[p], TINY)
        slope += c[p] * relative[p]
    return top_of(relative), slope


@fast
def fill_weights(weights, R0, A, sigma, tau):
    """weights_p = R0(p) (tau + A_p)^sigma"""
    for p in range(weights.shape[0]):
        weights[p] = R0[p] * exp_any(sigma * log_pos(max(tau + A[p], TINY)))


@fast
def power_sums_of(weights, q, out):
    """out[j - 1] = sum_p weights_p q_p^j for j = 1, ..., 12, in one pass: sums in registers."""
    s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for p in range(q.shape[0]):
        z = q[p]
        term = weights[p] * z
        s1 += term
        term *= z
        s2 += term
        term *= z
        s3 += term
        term *= z
        s4 += term
        term *= z
        s5 += term
        term *= z
        s6 += term
        term *= z
        s7 += term
        term *= z
        s8 += term
        term *= z
        s9 += term
        term *= z
        s10 += term
        term *= z
        s11 += term
        s12 += term * z
    out[0], out[1], out[2], out[3], out[4], out[5] = s1, s2, s3, s4, s5, s6
    out[6], out[7], out[8], out[9], out[10], out[11] = s7, s8, s9, s10, s11, s12


@kernel
def fill_series(series, c, near, weights, q, sigma):
    """Coefficients of the powers of s, rows OF_LOGS and OF_GROWTH; `near` are the q where the c are not 0."""
    power_sums_of(c, near, series[OF_LOGS])
    power_sums_of(weights, q, series[OF_GROWTH])
    of_logs, of_growth = 1.0, 1.0
    for j in range(1, ORDER):
        of_logs *= -j / (j + 1.0)
        of_growth *= (sigma - j) / (j + 1.0)
        series[OF_LOGS, j] *= of_logs
        series[OF_GROWTH, j] *= of_growth


@inlined
def series_at(row, s):
    total = row[ORDER - 1]
    for j in range(ORDER - 2, -1, -1):
        total = total * s + row[j]
    return total * s


@fast
def sums_of_increments(q, c, weights, s, sigma):
    logs, growth = 0.0, 0.0
    for p in range(q.shape[0]):
        log_ratio = log_pos(max(1.0 + s * q[p], TINY))
        logs += c[p] * log_ratio
        growth += weights[p] * psi1_at(log_ratio, sigma, 0.0, 1.0)
    return logs, growth


@kernel
def increments(series, q, c, weights, s, largest, sigma):
    """What both sums grow by: by the series where it is exact to rounding, up to |s| times the largest q."""
    if math.fabs(s) * largest <= NEAR:
        return series_at(series[OF_LOGS], s), series_at(series[OF_GROWTH], s)
    return sums_of_increments(q, c, weights, s, sigma)
