"""Masses by location, and the rates of the V_g that follow from them: B_g = sum_p K(x_g, p) M_p."""

from __future__ import annotations

from nrmmix.kernels.core.jit import fast, kernel

# Scratch.by_location: masses by location
OCCUPIED, UNSEEN, TOTAL = 0, 1, 2
# Scratch.by_group: rates by all masses, and without those in question
RATE, OTHERS = 0, 1
LOST = 1e-6  # what is left of a rate, below which it is summed anew


@fast
def fill_rates(rate, K, mass):
    """rate[g] = sum_p K(x_g, p) mass_p"""
    for g in range(rate.shape[0]):
        row, total = K[g], 0.0
        for p in range(mass.shape[0]):
            total += row[p] * mass[p]
        rate[g] = total


@fast
def take_column(K, p, out):
    """out_g = K(x_g, p)"""
    for g in range(out.shape[0]):
        out[g] = K[g, p]


@kernel
def fill_others(state, l, mass):
    """Rates without so much of the mass at location l."""
    rate, others = state.scratch.by_group[RATE], state.scratch.by_group[OTHERS]
    occupied, unseen = state.scratch.by_location[OCCUPIED], state.scratch.by_location[UNSEEN]
    for g in range(rate.shape[0]):
        left = rate[g] - mass * state.cache.K[g, l]
        if left < LOST * rate[g]:
            left = 0.0
            for p in range(occupied.shape[0]):
                left += state.cache.K[g, p] * (occupied[p] + unseen[p] if p != l else max(occupied[p] + unseen[p] - mass, 0.0))
        others[g] = left
