"""The kernel of sparse products: log K(x_g, slot) from the codes of the slots.

A slot's kernel is a product over the covariates that it uses: code 0 of a covariate is factor 1, code c a place and a width, whose log
kernel at all groups is `Data.code_log_K[j, c]`.  Codes are part of the state, so log K is each chain's own.
"""

from __future__ import annotations

from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import exp_any

AT_ONCE = 64  # groups, whose part of log K stays in the cache while slots are gone through


@fast
def add_code(log_K, table, p):
    """log_K[:, p] += table"""
    for g in range(table.shape[0]):
        log_K[g, p] += table[g]


@fast
def exp_all(log_row, out):
    for p in range(out.shape[0]):
        out[p] = exp_any(log_row[p])


@kernel
def fill_slot(data, state, p):
    """log K of one slot by its codes, to the bit what `fill_slots` makes of them."""
    log_K, codes = state.cache.log_K[0], state.codes
    for g in range(log_K.shape[0]):
        log_K[g, p] = 0.0
    for j in range(codes.shape[1]):
        if codes[p, j] > 0:
            add_code(log_K, data.code_log_K[j, codes[p, j]], p)


@kernel
def fill_slots(data, state, keep):
    """log K and K of the slots by their codes; where keep[p] is not 0 they stay as they are."""
    log_K, codes, G = state.cache.log_K[0], state.codes, state.cache.K.shape[0]
    for first in range(0, G, AT_ONCE):
        last = min(first + AT_ONCE, G)
        some = log_K[first:last]
        for p in range(codes.shape[0]):
            if keep[p] == 0:
                for g in range(some.shape[0]):
                    some[g, p] = 0.0
                for j in range(codes.shape[1]):
                    if codes[p, j] > 0:
                        add_code(some, data.code_log_K[j, codes[p, j], first:last], p)
        for g in range(first, last):
            exp_all(log_K[g], state.cache.K[g])
