"""Covariate kernels as entry points: log K(x_g, p), (G, P), from the distances (D, G, P) by covariate; several are a product.

In a model each covariate has an address and a width of its own, and comes alone: D = 1.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import COVARIATE_T, entry
from nrmmix.kernels.core.jit import inlined, kernel
from nrmmix.kernels.core.lanes import LANES, all_lanes, any_less, lanes_at, plus, put_lanes
from nrmmix.kernels.core.special import local_numbers, log_pos
from nrmmix.kernels.core.state import DONE, LOGARITHM, OUT_OF_REACH, TINY

EDGE = 1.0 - 1e-9  # a distance that equals the width up to rounding is outside


@entry(COVARIATE_T)
def squared_exponential(distance, width, log_K):
    """exp(-sum_j d_j^2 / (2 w_j^2))"""
    for g in range(log_K.shape[0]):
        for p in range(log_K.shape[1]):
            total = 0.0
            for j in range(distance.shape[0]):
                z = distance[j, g, p] / width[j]
                total += z * z
            log_K[g, p] = -0.5 * total
    return DONE


@entry(COVARIATE_T)
def box(distance, width, log_K):
    """1 where every d_j < w_j, else 0; without covariates K = 1, that of a mixture"""
    for g in range(log_K.shape[0]):
        for p in range(log_K.shape[1]):
            log_K[g, p] = 0.0
        for j in range(distance.shape[0]):
            row, edge = distance[j, g], width[j] * EDGE
            for p in range(log_K.shape[1]):
                log_K[g, p] = log_K[g, p] if row[p] < edge else -math.inf
    return DONE


@entry(COVARIATE_T)
def laplace(distance, width, log_K):
    """exp(-sum_j d_j / w_j)"""
    for g in range(log_K.shape[0]):
        for p in range(log_K.shape[1]):
            total = 0.0
            for j in range(distance.shape[0]):
                total += distance[j, g, p] / width[j]
            log_K[g, p] = -total
    return DONE


@entry(COVARIATE_T)
def epanechnikov(distance, width, log_K):
    """prod_j (1 - d_j^2 / w_j^2) where every d_j < w_j, else 0"""
    fill_log_rests(distance, width, log_K, True)
    return DONE


@entry(COVARIATE_T)
def triangular(distance, width, log_K):
    """prod_j (1 - d_j / w_j) where every d_j < w_j, else 0"""
    fill_log_rests(distance, width, log_K, False)
    return DONE


@inlined
def log_rest(z, of_square):
    """log (1 - z^2) or log (1 - z), minus infinity from the edge on."""
    rest = (1.0 - z) * (1.0 + z) if of_square else 1.0 - z
    return log_pos(max(rest, TINY)) if z < EDGE else -math.inf


@kernel
def fill_log_rests(distance, width, log_K, of_square):
    """log K of a product of such: eight locations at a time, and no logarithms of eight that are all too far."""
    P, some, nothing = log_K.shape[1], local_numbers(LANES), all_lanes(-math.inf)
    whole = P - P % LANES
    for g in range(log_K.shape[0]):
        for p in range(P):
            log_K[g, p] = 0.0
        for j in range(distance.shape[0]):
            row, out, scale, edge = distance[j, g], log_K[g], 1.0 / width[j], all_lanes(width[j])
            for first in range(0, whole, LANES):
                near, before = lanes_at(row, first), lanes_at(out, first)
                if any_less(near, edge):
                    put_lanes(some, 0, near)
                    for p in range(LANES):
                        some[p] = log_rest(some[p] * scale, of_square)
                    put_lanes(out, first, plus(before, lanes_at(some, 0)))
                else:
                    put_lanes(out, first, nothing)
            for p in range(whole, P):
                out[p] += log_rest(row[p] * scale, of_square)


@entry(COVARIATE_T)
def matching(distance, width, log_K):
    """prod_j rho_j^d_j, d_j = 0 in the same category and 1 in another; the widths are the rho_j"""
    for g in range(log_K.shape[0]):
        for p in range(log_K.shape[1]):
            total = 0.0
            for j in range(distance.shape[0]):
                total += distance[j, g, p] * math.log(width[j])
            log_K[g, p] = total
    return DONE


# Of those whose log K is -(d / width)^degree / degree, or d log width.
DEGREES = {squared_exponential: 2, laplace: 1, matching: LOGARITHM}

__all__ = [
    "DEGREES", "LOGARITHM", "OUT_OF_REACH", "box", "epanechnikov", "laplace", "matching", "squared_exponential", "triangular",
]
