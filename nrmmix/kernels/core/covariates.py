"""Covariate kernels as entry points: log K(x_g, p), (G, P), from the distances (D, G, P) by covariate; several are a product.

In a model each covariate has an address and a width of its own, and comes alone: D = 1.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import COVARIATE_T, entry
from nrmmix.kernels.core.jit import inlined
from nrmmix.kernels.core.lanes import LANES, all_lanes, any_less, lanes_at, put_lanes
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import DONE, LOGARITHM, OUT_OF_REACH, TINY

EDGE = 1.0 - 1e-9  # a distance that equals the width up to rounding is outside


@inlined
def are_far(near, width):
    """Whether these are eight distances beyond the width; no logarithms are taken then."""
    return near.shape[0] == LANES and not any_less(lanes_at(near, 0), all_lanes(width))


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
    for g in range(log_K.shape[0]):
        for p in range(log_K.shape[1]):
            log_K[g, p] = 0.0
        for j in range(distance.shape[0]):
            for first in range(0, log_K.shape[1], LANES):
                near, out = distance[j, g, first : first + LANES], log_K[g, first : first + LANES]
                if are_far(near, width[j]):
                    put_lanes(out, 0, all_lanes(-math.inf))
                else:
                    for p in range(near.shape[0]):
                        z = near[p] / width[j]
                        out[p] += log_pos(max((1.0 - z) * (1.0 + z), TINY)) if z < EDGE else -math.inf
    return DONE


@entry(COVARIATE_T)
def triangular(distance, width, log_K):
    """prod_j (1 - d_j / w_j) where every d_j < w_j, else 0"""
    for g in range(log_K.shape[0]):
        for p in range(log_K.shape[1]):
            log_K[g, p] = 0.0
        for j in range(distance.shape[0]):
            for first in range(0, log_K.shape[1], LANES):
                near, out = distance[j, g, first : first + LANES], log_K[g, first : first + LANES]
                if are_far(near, width[j]):
                    put_lanes(out, 0, all_lanes(-math.inf))
                else:
                    for p in range(near.shape[0]):
                        z = near[p] / width[j]
                        out[p] += log_pos(max(1.0 - z, TINY)) if z < EDGE else -math.inf
    return DONE


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
