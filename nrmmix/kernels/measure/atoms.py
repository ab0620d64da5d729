"""Draws of the random measure given the partition, v and the locations: sizes of its atoms, and what is left.

At fixed u, in sizes times tau + u, the atoms of a mixture that no observation belongs to are a Poisson process of intensity
c z^(-1-sigma) e^-z.  The constant c is

- mass (tau + u)^sigma / Gamma(1 - sigma) where the measure has a mass of its own; a Dirichlet process needs no u for it;
- sigma y / Gamma(1 - sigma) for Pitman-Yor and stable processes.  These are generalised gamma processes with tau = 1 whose mass a is a
  gamma variable, and given the partition y = a (1 + u)^sigma / sigma ~ Gamma(K + theta / sigma, 1) whatever u is.  For theta <= 0 the
  measure is the stable one weighted by the power -theta of its total: u has the density u^(theta + sigma K - 1) e^(-u^sigma), and
  y = u^sigma the same law.

A finite measure of M atoms is drawn as a whole: J_c ~ Gamma(n_c + mass / M, 1), and M - K others Gamma(mass / M, 1).
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.jit import kernel, root
from nrmmix.kernels.core.special import draw_log_gamma, draw_share, to_shares
from nrmmix.kernels.core.state import CRM, FINITE, TINY, Count, Hyper, Setup
from nrmmix.kernels.measure.crm import (
    draw_jumps,
    draw_largest,
    expected_count,
    log_expected_level,
    log_low_proposals,
    log_mass_below,
)
from nrmmix.kernels.measure.nrm import is_integrated, mass_of_new, total_growth
from nrmmix.kernels.measure.weights import log_cluster

SURE = 1e32  # a gamma variable of such a shape is its mean
MAX_JUMPS, MAX_FINEST = 2000.0, 300.0
FINEST, COARSEST = 1e-8, 1e-3  # variance of the sum of the atoms of a location that are not drawn, of the sum of squares of those that are
FARTHEST, CLOSEST = 40.0, 1e-3  # how much lighter than the heaviest, on the log scale, atoms are that are drawn one by one


@kernel
def intensity(data, state, rng):
    """c, drawn where the mass is not given."""
    sigma = state.hyper[Hyper.SIGMA]
    if data.setup[Setup.MEASURE] == CRM:
        c = math.exp(log_cluster(state))
    else:
        c = mass_of_new(data, state.hyper[Hyper.MASS], sigma, state.num[Count.CLUSTERS])
        if c < SURE * sigma:
            c = sigma * rng.standard_gamma(c / sigma)
    return c / math.gamma(1.0 - sigma)


@kernel
def draw_others(data, state, level, most, sizes, rng):
    """Sizes of the atoms of a mixture that no observation belongs to and that are larger than the level; how many.

    -1 where more than `most` are expected.
    """
    sigma = state.hyper[Hyper.SIGMA]
    if data.setup[Setup.MEASURE] == FINITE:
        count = 0
        for _ in range(data.setup[Setup.COMPONENTS] - state.num[Count.CLUSTERS]):
            sizes[count] = rng.standard_gamma(-sigma)
            if sizes[count] > level:
                count += 1
        return count
    c = intensity(data, state, rng)
    if not expected_count(c, sigma, level) <= most:
        return -1
    return draw_jumps(c, sigma, level, sizes, rng)


@kernel
def given_mass(data, state, rng):
    """The total mass of density regression; where it is integrated out, that of the generalised gamma process given partition and v."""
    mass, sigma = state.hyper[Hyper.MASS], state.hyper[Hyper.SIGMA]
    if is_integrated(data) and sigma > 0.0:
        new = mass_of_new(data, mass, sigma, state.num[Count.CLUSTERS])
        mass = rng.standard_gamma(new / sigma) * sigma * math.exp(-sigma * total_growth(data, state, sigma))
    return mass


@kernel
def shares_of_locations(data, state, shares):
    """shares (P,): weights of the locations of an atom of a finite measure that no observation belongs to, its size integrated out.

    Their sum.
    """
    for p in range(shares.shape[0]):
        shares[p] = math.log(data.R0[p]) + state.hyper[Hyper.SIGMA] * math.log(state.hyper[Hyper.TAU] + state.cache.A[p])
    return to_shares(shares, shares.shape[0])[1]


@kernel
def draw_located(data, state, level, most, sizes, place, rng):
    """Sizes and locations of the atoms of density regression that no observation belongs to, those at p larger than level[p]; how many.

    -1 where more than `most` are expected.  A level may be infinite.
    """
    sigma, tau, count = state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU], 0
    if data.setup[Setup.MEASURE] == FINITE:
        shares = state.scratch.by_location[0]
        total = shares_of_locations(data, state, shares)
        for _ in range(data.setup[Setup.COMPONENTS] - state.num[Count.CLUSTERS]):
            p = draw_share(shares, shares.shape[0], rng.random() * total)
            z = rng.standard_gamma(-sigma) / (tau + state.cache.A[p])
            if z > level[p]:
                sizes[count], place[count] = z, p
                count += 1
        return count
    c, expected = given_mass(data, state, rng) / math.gamma(1.0 - sigma), 0.0
    for p in range(level.shape[0]):
        if level[p] < math.inf:
            b = tau + state.cache.A[p]
            expected += expected_count(data.R0[p] * c * b**sigma, sigma, level[p] * b)
    if not expected <= most:
        return -1
    for p in range(level.shape[0]):
        if level[p] < math.inf:
            b = tau + state.cache.A[p]
            first = count
            count += draw_jumps(data.R0[p] * c * b**sigma, sigma, level[p] * b, sizes[count:], rng)
            for m in range(first, count):
                sizes[m] /= b
                place[m] = p
    return count


@kernel
def expected_atoms(data, state, mass, least):
    """Return how many unseen atoms are expected where the largest of each location are drawn; nearly one of each or more."""
    sigma = state.hyper[Hyper.SIGMA]
    gap, expected = math.gamma(1.0 - sigma), 0.0
    for p in range(state.cache.A.shape[0]):
        c = max(data.R0[p] * mass * (state.hyper[Hyper.TAU] + state.cache.A[p]) ** sigma / gap, TINY)
        at = log_expected_level(c, sigma, least)
        expected += c
        if at < 0.0:
            expected += math.exp(min(log_low_proposals(c, sigma, at), 700.0))
    return expected


@root
@kernel
def draw_atoms(data, state, most, log_weight, place, log_rest, rng):
    """Atoms of the unnormalised measure: log weights and locations, those of the clusters first, and log rest by location (P,); how many.

    Clusters have weight Gamma(n_m - sigma, tau + A).  Of the unseen atoms at each location the largest are drawn one by one, until what is
    left there has a sum of a variance below FINEST of their sum of squares; the lighter ones are the rest, at their mean.  So what is left
    is little beside what is drawn wherever a row is, whatever weights the kernel gives to locations there.  The limit is raised up to
    COARSEST where besides one for each location more than MAX_FINEST are expected, and further where more than `most` are.  There is
    room for as many as `room_for_atoms`.
    """
    P = state.cache.A.shape[0]
    mass, sigma, tau = given_mass(data, state, rng), state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU]
    least = FINEST
    while least < COARSEST and expected_atoms(data, state, mass, least) > P + min(MAX_FINEST, most):
        least *= 4.0
    while least < 1.0 and expected_atoms(data, state, mass, least) > P + most:
        least *= 2.0
    gap, M = math.gamma(1.0 - sigma), state.num[Count.CLUSTERS]
    draw_weights(state, log_weight, place, rng)
    for p in range(P):
        b = tau + state.cache.A[p]
        c, log_b = max(data.R0[p] * mass * b**sigma / gap, TINY), math.log(b)
        own = log_weight[M : log_weight.shape[0] - (P - 1 - p)]  # one is left for each of the others
        count, level = draw_largest(c, sigma, least, own, rng)
        for m in range(count):
            own[m] -= log_b
            place[M + m] = p
        log_rest[p] = log_mass_below(c, sigma, level) - log_b
        M += count
    return M


@kernel
def draw_weights(state, log_weight, place, rng):
    """Log weights and locations of the clusters."""
    for k in range(state.num[Count.CLUSTERS]):
        place[k] = state.location[k]
        rate = state.hyper[Hyper.TAU] + state.cache.A[place[k]]
        log_weight[k] = draw_log_gamma(state.size[k] - state.hyper[Hyper.SIGMA], rng) - math.log(rate)


@root
@kernel
def draw_finite(data, state, most, log_weight, place, log_rest, rng):
    """As `draw_atoms`, of M atoms: those unoccupied are at p with probability in proportion to R0(p) b^-(mass / M), of size
    Gamma(mass / M, b), b = tau + A_p.  Where these are more than P + `most`, those that are light beside the heaviest at their location are
    the rest, as drawn."""
    K, M, P, shares = state.num[Count.CLUSTERS], data.setup[Setup.COMPONENTS], state.cache.A.shape[0], state.scratch.by_location[0]
    sigma, tau = state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU]
    draw_weights(state, log_weight, place, rng)
    total = shares_of_locations(data, state, shares)
    heaviest = state.scratch.by_location[1]
    for p in range(P):
        heaviest[p], log_rest[p] = -math.inf, -math.inf
    for j in range(K, M):
        p = draw_share(shares, P, rng.random() * total)
        place[j] = p
        log_weight[j] = draw_log_gamma(-sigma, rng) - math.log(tau + state.cache.A[p])
        heaviest[p] = max(heaviest[p], log_weight[j])
    cut = 0.0 if M - K <= P + most else FARTHEST
    while cut > CLOSEST and count_near(log_weight[K:M], place[K:M], heaviest, cut) > P + most:
        cut *= 0.8
    m = K
    for j in range(K, M):
        p = place[j]
        if M - K <= P + most or log_weight[j] >= heaviest[p] - cut:
            log_weight[m], place[m] = log_weight[j], p
            m += 1
        else:
            larger = max(log_rest[p], log_weight[j])
            log_rest[p] = larger + math.log(math.exp(log_rest[p] - larger) + math.exp(log_weight[j] - larger))
    return m


@kernel
def count_near(log_size, place, heaviest, cut):
    count = 0
    for j in range(log_size.shape[0]):
        count += log_size[j] >= heaviest[place[j]] - cut
    return count


def atoms_into(data, state, *given):
    """Draw the atoms by `draw_finite` or `draw_atoms`, so that only one of them is compiled; how many."""
    return (draw_finite if data.setup[Setup.MEASURE] == FINITE else draw_atoms)(data, state, *given)


def room_for_atoms(data, state, most):
    """Return the capacity for `draw_atoms`: where there are more than twice those expected the lightest of a location are its rest."""
    if data.setup[Setup.MEASURE] == FINITE:
        return int(data.setup[Setup.COMPONENTS])
    return int(state.num[Count.CLUSTERS]) + len(state.cache.A) + int(2.0 * most) + 50
