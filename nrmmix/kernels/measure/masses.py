"""The mass of the random measure at each location, given the partition, v and the locations; and v given the masses.

Atoms of clusters have sizes Gamma(n_m - sigma, tau + A).  What unseen atoms have at p is Gamma(a R0(p), tau + A_p) where sigma = 0, and
else a tempered stable variable with the Laplace transform exp(-c ((b + s)^sigma - b^sigma)), c = a R0(p) / sigma and b = tau + A_p.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import STEP_T, call_step, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.locations import draw_locations
from nrmmix.kernels.core.special import draw_share
from nrmmix.kernels.core.state import DONE, TINY, Count, Hyper, Setup
from nrmmix.kernels.measure.atoms import given_mass, shares_of_locations
from nrmmix.kernels.measure.auxiliary import draw_v_given_rates
from nrmmix.kernels.measure.rates import OCCUPIED, RATE, TOTAL, UNSEEN, fill_rates
from nrmmix.kernels.measure.relocation import relocate

RELOCATED = 2  # clusters whose atoms move without v, in each update
MAX_BY_REJECTION = 2.0  # c b^sigma up to which a stable variable is drawn until one is accepted
MANY = 1e10  # beyond which the double rejection loses its digits


@kernel
def draw_masses(data, state, rng):
    """Masses of the clusters' atoms and of all others by location into Scratch.by_location, and scratch.score[:K] of each cluster's.

    Row TOTAL of Scratch.by_location is scratch.
    """
    sigma, tau, occupied = state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU], state.scratch.by_location[OCCUPIED]
    for p in range(occupied.shape[0]):
        occupied[p] = 0.0
    for k in range(state.num[Count.CLUSTERS]):
        p = state.location[k]
        state.scratch.score[k] = rng.standard_gamma(state.size[k] - sigma) / max(tau + state.cache.A[p], TINY)
        occupied[p] += state.scratch.score[k]
    call_step(data.setup[Setup.DRAW_UNSEEN], data, state, rng)


@entry(STEP_T)
def draw_unseen_of_dirichlet(data, state, rng):
    """Masses of the atoms without clusters by location, where sigma is 0."""
    mass, tau, unseen = state.hyper[Hyper.MASS], state.hyper[Hyper.TAU], state.scratch.by_location[UNSEEN]
    for p in range(unseen.shape[0]):
        unseen[p] = rng.standard_gamma(mass * data.R0[p]) / (tau + state.cache.A[p])
    return DONE


@entry(STEP_T)
def draw_unseen(data, state, rng):
    """Draw the masses of unseen atoms of any infinite measure."""
    sigma, tau, unseen = state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU], state.scratch.by_location[UNSEEN]
    mass = given_mass(data, state, rng)
    for p in range(unseen.shape[0]):
        b = tau + state.cache.A[p]
        if b == 0.0:  # of a stable process where no row is in reach: no V_g depends on it
            unseen[p] = 0.0
        elif sigma == 0.0:
            unseen[p] = rng.standard_gamma(mass * data.R0[p]) / b
        else:
            unseen[p] = draw_tempered_stable(mass * data.R0[p] / sigma * b**sigma, sigma, rng) / b
    return DONE


@entry(STEP_T)
def draw_unseen_of_finite(data, state, rng):
    """Draw the masses of unseen atoms of a finite measure."""
    sigma, tau = state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU]
    unseen, shares = state.scratch.by_location[UNSEEN], state.scratch.by_location[TOTAL]
    for p in range(unseen.shape[0]):
        unseen[p] = 0.0
    total = shares_of_locations(data, state, shares)
    for _ in range(data.setup[Setup.COMPONENTS] - state.num[Count.CLUSTERS]):
        p = draw_share(shares, shares.shape[0], rng.random() * total)
        unseen[p] += rng.standard_gamma(-sigma) / max(tau + state.cache.A[p], TINY)
    return DONE


@kernel
def draw_rates(data, state, rng):
    """Masses into Scratch.by_location, and the rates of the V_g into by_group[RATE]."""
    occupied, unseen, total = state.scratch.by_location[OCCUPIED], state.scratch.by_location[UNSEEN], state.scratch.by_location[TOTAL]
    draw_masses(data, state, rng)
    for p in range(total.shape[0]):
        total[p] = occupied[p] + unseen[p]
    fill_rates(state.scratch.by_group[RATE], state.cache.K, total)


@entry(STEP_T)
def update_locations_and_v(data, state, rng):
    """V_g ~ Gamma(n_g, sum_p K(x_g, p) M_p) given masses M_p, which are drawn for it and integrated out again; locations before it.

    Between masses and V atoms of some clusters change location and mass together.
    """
    draw_locations(state, rng)
    draw_rates(data, state, rng)
    for _ in range(RELOCATED):
        relocate(data, state, rng)
    draw_v_given_rates(data, state, state.scratch.by_group[RATE], rng)
    return DONE


@kernel
def draw_log_stable(sigma, rng):
    """The logarithm of a positive stable variable, E exp(-s S) = exp(-s^sigma) (Kanter 1975)."""
    u, e = math.pi * (1.0 - rng.random()), rng.standard_exponential()
    u = min(u, math.pi * (1.0 - 1e-15))
    log_s = math.log(math.sin(sigma * u)) - math.log(math.sin(u)) / sigma
    log_s += (1.0 - sigma) / sigma * (math.log(math.sin((1.0 - sigma) * u)) - math.log(max(e, TINY)))
    return log_s


@kernel
def draw_tempered_stable(c, sigma, rng):
    """A variable with the Laplace transform exp(-c ((1 + s)^sigma - 1)).

    For small c by rejection from the stable law, for others by the double rejection of Devroye (2009), whose work does not grow with c.
    Beyond MANY it is a gamma variable of the same mean and variance: both are within some 1e-5 of their means, nearly normal.
    """
    if c <= MAX_BY_REJECTION:
        log_scale = math.log(max(c, TINY)) / sigma
        while True:
            s = math.exp(min(log_scale + draw_log_stable(sigma, rng), 700.0))  # of a small sigma either alone may overflow
            if rng.standard_exponential() >= s:
                return s
    if c * sigma * (1.0 - sigma) > MANY:
        return (1.0 - sigma) * rng.standard_gamma(c * sigma / (1.0 - sigma))
    return draw_by_double_rejection(c, sigma, rng)


@kernel
def sinc(x):
    return math.sin(x) / x if abs(x) > 1e-4 else 1.0 - x * x / 6.0


@kernel
def draw_by_double_rejection(c, sigma, rng):
    """Draw for c sigma (1 - sigma) of any size; letters are Devroye's (ACM Transactions on Modeling and Computer Simulation 19, 18)."""
    rest = 1.0 - sigma
    b = rest / sigma
    gamma = c * sigma * rest
    root_gamma = math.sqrt(gamma)
    c1 = math.sqrt(0.5 * math.pi)
    c3 = (2.0 + c1) * root_gamma
    xi = (1.0 + math.sqrt(2.0) * c3) / math.pi
    psi = c3 * math.exp(-gamma * math.pi * math.pi / 8.0) / math.sqrt(math.pi)
    w1, w2, w3 = c1 * xi / root_gamma, 2.0 * math.sqrt(math.pi) * psi, xi * math.pi
    while True:
        while True:
            v = rng.random()
            if gamma >= 1.0:
                if v < w1 / (w1 + w2):
                    u = abs(rng.standard_normal()) / root_gamma
                else:
                    u = math.pi * (1.0 - rng.random() ** 2)
            elif v < w3 / (w2 + w3):
                u = math.pi * rng.random()
            else:
                u = math.pi * (1.0 - rng.random() ** 2)
            w = 1.0 - rng.random()
            if not u < math.pi:
                continue
            zeta = math.sqrt(sinc(u) / (sinc(sigma * u) ** sigma * sinc(rest * u) ** rest))
            z = 1.0 / (1.0 - (1.0 + sigma * zeta / root_gamma) ** (-1.0 / sigma))
            rho = math.pi * math.exp(min(-c * (1.0 - 1.0 / (zeta * zeta)), 700.0)) / ((1.0 + c1) * root_gamma / zeta + z)
            density = psi / math.sqrt(math.pi - u)
            density += xi * math.exp(-0.5 * gamma * u * u) if gamma >= 1.0 else xi
            ratio = w * rho * density
            if ratio <= 1.0:
                break
        a = ((rest * sinc(rest * u)) ** rest * (sigma * sinc(sigma * u)) ** sigma / sinc(u)) ** (1.0 / rest)
        m = (b / a) ** sigma * c
        delta = math.sqrt(m * sigma / a)
        a1, a3 = delta * c1, z / a
        total, v = a1 + delta + a3, rng.random()
        normal, exponential = 0.0, 0.0
        if v < a1 / total:
            normal = rng.standard_normal()
            x = m - delta * abs(normal)
        elif v < (a1 + delta) / total:
            x = m + delta * rng.random()
        else:
            exponential = rng.standard_exponential()
            x = m + delta + exponential * a3
        if x <= 0.0:
            continue
        excess = a * (x - m) + math.exp(math.log(c) / sigma - b * math.log(m)) * ((m / x) ** b - 1.0)
        if x < m:
            excess -= 0.5 * normal * normal
        elif x > m + delta:
            excess -= exponential
        if excess <= -math.log(max(ratio, TINY)):
            return math.exp(math.log(c) / sigma - b * math.log(x))
