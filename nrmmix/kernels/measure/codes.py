"""Codes of the slots of sparse products, v, and the chances with which slots use covariates, given the partition and the locations.

In the notation of `nrmmix.model.priors.sparse_product` a slot l has a code c_lj for each covariate j, with the prior P(c_lj = 0) =
1 - omega_j, and omega_j / N_j for each of the N_j others.  Masses of atoms are drawn, then codes of occupied slots with v integrated out,

    p(s | masses, codes) = prod_i K(x_i, mu_s(i)) pi_s(i) / prod_g B_g^n_g,    B_g = sum_l M_l K(x_g, l),

then V_g ~ Gamma(n_g, B_g); after that masses are integrated out again.  As the code of a slot moves the masses of the clusters there move
with it: log pi_m + (mean over the members of log K) is held, a shift of log pi_m that labels and codes determine, of unit Jacobian.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import STEP_T, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.locations import draw_locations, rebuild_log_K
from nrmmix.kernels.core.slots import fill_slot, fill_slots
from nrmmix.kernels.core.special import exp_any, log_pos
from nrmmix.kernels.core.state import DONE, TINY, Count, Hyper
from nrmmix.kernels.measure.auxiliary import draw_v_given_rates
from nrmmix.kernels.measure.masses import draw_rates
from nrmmix.kernels.measure.nrm import mass_term, recompute_A, total_growth
from nrmmix.kernels.measure.rates import OCCUPIED, OTHERS, RATE, UNSEEN, fill_others

SUBSET = 8  # codes of a covariate that are tried at once
SWAPS = 2  # of one covariate for another, of each slot in each update
MIN_CHANCE = 1e-12  # of a chance, and of its complement
BASE, REST = 2, 3  # Scratch.by_group, behind the rates: log K of a slot without the covariates in question, and its exponential
# Scratch.tried: of two subsets of codes the codes, their log weights and the masses of clusters with them
CODE, WEIGHT, SHIFTED, SECOND = 0, 1, 2, 3


@kernel
def gather(data, state, l):
    """The groups of the members of the clusters at slot l into scratch.members; how many, and the sum of n_m - sigma."""
    count, power = 0, 0.0
    for k in range(state.num[Count.CLUSTERS]):
        if state.location[k] == l:
            power += state.size[k] - state.hyper[Hyper.SIGMA]
    for i in range(state.labels.shape[0]):
        if state.labels[i] >= 0 and state.location[state.labels[i]] == l:
            state.scratch.members[count] = data.group[i]
            count += 1
    return count, power


@fast
def sum_at(values, members):
    total = 0.0
    for t in range(members.shape[0]):
        total += values[members[t]]
    return total


@fast
def log_rates(others, rest, factor, mass, size):
    """sum_g n_g log(others_g + mass rest_g factor_g)"""
    total = 0.0
    for g in range(others.shape[0]):
        total += size[g] * log_pos(max(others[g] + mass * rest[g] * factor[g], TINY))
    return total


@kernel
def draw_subset(count, current, out, rng):
    """Distinct codes of 1, ..., count into `out`, uniform given that `current` is among them where it is not 0; how many."""
    if SUBSET >= count:
        for c in range(count):
            out[c] = c + 1
        return count
    found = 0
    if current > 0:
        out[0], found = current, 1
    while found < SUBSET:
        c, known = 1 + int(rng.random() * count), False
        for t in range(found):
            known = known or out[t] == c
        if not known:
            out[found] = c
            found += 1
    return SUBSET


@kernel
def weigh_codes(data, state, j, first, count, held, members, power, occupied, unseen):
    """Log weights of the codes of covariate j in rows first, ... of `tried`, v integrated out; `held` is the sum over the members of what
    log K has of the covariates in question now."""
    rest, others = state.scratch.by_group[REST], state.scratch.by_group[OTHERS]
    chance, tau, n = state.inclusion[j], state.hyper[Hyper.TAU], members.shape[0]
    for x in range(count):
        c = int(state.scratch.tried[first + CODE, x])
        of_members = sum_at(data.code_log_K[j, c], members)
        shift = (held - of_members) / n
        mass = occupied * math.exp(min(shift, 600.0))
        weight = math.log1p(-chance) if c == 0 else math.log(chance / data.n_codes[j])
        weight += of_members + power * shift - tau * mass
        weight -= log_rates(others, rest, data.code_K[j, c], mass + unseen, data.group_size)
        state.scratch.tried[first + WEIGHT, x], state.scratch.tried[first + SHIFTED, x] = weight, mass


@kernel
def log_sum(weights):
    top = -math.inf
    for x in range(weights.shape[0]):
        top = max(top, weights[x])
    total = 0.0
    for x in range(weights.shape[0]):
        total += math.exp(weights[x] - top)
    return top + math.log(total)


@kernel
def draw_from(weights, rng):
    """An index with probability in proportion to the exponentials."""
    total, left = log_sum(weights), rng.random()
    for x in range(weights.shape[0] - 1):
        left -= math.exp(weights[x] - total)
        if left < 0.0:
            return x
    return weights.shape[0] - 1


@fast
def take_out(base, rest, log_K, l, table):
    """base = log K of slot l without the covariate that has this row of the table there, and its exponential."""
    for g in range(base.shape[0]):
        base[g] = log_K[g, l] - table[g]
        rest[g] = exp_any(base[g])


@kernel
def put_code(data, state, l, j, c):
    """Slot l with code c of covariate j, and what `take_out` has left of the others."""
    base, row = state.scratch.by_group[BASE], data.code_log_K[j, c]
    state.codes[l, j] = c
    for g in range(base.shape[0]):
        state.cache.log_K[0, g, l] = base[g] + row[g]


@kernel
def pick(codes_row, n_codes, active, rng):
    """A covariate that a slot uses, or does not, uniformly among those that have codes; -1 where there is none."""
    count = 0
    for j in range(codes_row.shape[0]):
        count += n_codes[j] > 0 and (codes_row[j] > 0) == active
    left = int(rng.random() * count)
    for j in range(codes_row.shape[0]):
        if n_codes[j] > 0 and (codes_row[j] > 0) == active:
            if left == 0:
                return j
            left -= 1
    return -1


@kernel
def redraw_code(data, state, l, j, members, power, rng):
    """Gibbs step for the code of covariate j at slot l among 0 and a subset of the others."""
    tried, now, N = state.scratch.tried, state.codes[l, j], data.n_codes[j]
    take_out(state.scratch.by_group[BASE], state.scratch.by_group[REST], state.cache.log_K[0], l, data.code_log_K[j, now])
    held = sum_at(data.code_log_K[j, now], members)
    count = draw_subset(N, now, tried[CODE], rng)
    tried[CODE, count] = 0.0
    masses = state.scratch.by_location
    weigh_codes(data, state, j, 0, count + 1, held, members, power, masses[OCCUPIED, l], masses[UNSEEN, l])
    for x in range(count):
        tried[WEIGHT, x] += math.log(N / count)
    x = draw_from(tried[WEIGHT, : count + 1], rng)
    state.scratch.by_location[OCCUPIED, l] = tried[SHIFTED, x]
    put_code(data, state, l, j, int(tried[CODE, x]))


@kernel
def swap_covariates(data, state, l, members, power, rng):
    """A covariate that slot l uses gives way to one that it does not, or not."""
    tried = state.scratch.tried
    old, new = pick(state.codes[l], data.n_codes, True, rng), pick(state.codes[l], data.n_codes, False, rng)
    if old < 0 or new < 0:
        return
    now = state.codes[l, old]
    take_out(state.scratch.by_group[BASE], state.scratch.by_group[REST], state.cache.log_K[0], l, data.code_log_K[old, now])
    held = sum_at(data.code_log_K[old, now], members)
    occupied, unseen = state.scratch.by_location[OCCUPIED, l], state.scratch.by_location[UNSEEN, l]
    N_old, N_new = data.n_codes[old], data.n_codes[new]
    of_old, of_new = draw_subset(N_old, now, tried[SECOND + CODE], rng), draw_subset(N_new, 0, tried[CODE], rng)
    weigh_codes(data, state, old, SECOND, of_old, held, members, power, occupied, unseen)
    weigh_codes(data, state, new, 0, of_new, held, members, power, occupied, unseen)
    log_ratio = log_sum(tried[WEIGHT, :of_new]) + math.log(N_new / of_new) + math.log1p(-state.inclusion[old])
    log_ratio -= log_sum(tried[SECOND + WEIGHT, :of_old]) + math.log(N_old / of_old) + math.log1p(-state.inclusion[new])
    if rng.standard_exponential() > -log_ratio:
        x = draw_from(tried[WEIGHT, :of_new], rng)
        state.scratch.by_location[OCCUPIED, l] = tried[SHIFTED, x]
        state.codes[l, old] = 0
        put_code(data, state, l, new, int(tried[CODE, x]))


@kernel
def redraw_codes_of(data, state, l, rng):
    """All codes of an occupied slot, one covariate after the other, then swaps; rates follow."""
    count, power = gather(data, state, l)
    members = state.scratch.members[:count]
    fill_others(state, l, state.scratch.by_location[OCCUPIED, l] + state.scratch.by_location[UNSEEN, l])
    for j in range(state.codes.shape[1]):
        if data.n_codes[j] > 0:
            redraw_code(data, state, l, j, members, power, rng)
    for _ in range(SWAPS):
        swap_covariates(data, state, l, members, power, rng)
    fill_slot(data, state, l)  # differences have left rounding errors, which a chain that is resumed lacks
    mass = state.scratch.by_location[OCCUPIED, l] + state.scratch.by_location[UNSEEN, l]
    for g in range(state.cache.K.shape[0]):
        state.cache.K[g, l] = math.exp(state.cache.log_K[0, g, l])
        state.scratch.by_group[RATE, g] = state.scratch.by_group[OTHERS, g] + mass * state.cache.K[g, l]


@entry(STEP_T)
def update_codes_and_v(data, state, rng):
    """Locations, codes of occupied slots and all V_g; masses are drawn for it, and integrated out again."""
    draw_locations(state, rng)
    draw_rates(data, state, rng)
    for l in range(state.codes.shape[0]):
        if state.scratch.by_location[OCCUPIED, l] > 0.0:
            redraw_codes_of(data, state, l, rng)
    draw_v_given_rates(data, state, state.scratch.by_group[RATE], rng)
    return DONE


# ---- slots without clusters, and how often slots use a covariate


@kernel
def mark_occupied(state, occupied):
    for p in range(occupied.shape[0]):
        occupied[p] = 0
    for k in range(state.num[Count.CLUSTERS]):
        occupied[state.location[k]] = 1


@kernel
def propose_inclusion(data, state, occupied, proposed, rng):
    """omega_j ~ Beta(a + occupied slots that use covariate j, b + those that do not)."""
    for j in range(proposed.shape[0]):
        a, b = data.inclusion_prior[j, 0], data.inclusion_prior[j, 1]
        if a == 0.0 or data.n_codes[j] == 0:
            proposed[j] = state.inclusion[j]
            continue
        for p in range(occupied.shape[0]):
            if occupied[p] != 0:
                a += state.codes[p, j] > 0
                b += state.codes[p, j] == 0
        x, y = rng.standard_gamma(a), rng.standard_gamma(b)
        proposed[j] = min(max(x / max(x + y, TINY), MIN_CHANCE), 1.0 - MIN_CHANCE)


@kernel
def exchange_codes(state, keep):
    """The codes of slots without clusters and those proposed for them change places."""
    for p in range(keep.shape[0]):
        if keep[p] == 0:
            for j in range(state.codes.shape[1]):
                state.codes[p, j], state.scratch.proposed_codes[p, j] = state.scratch.proposed_codes[p, j], state.codes[p, j]


@entry(STEP_T)
def update_unoccupied_slots(data, state, rng):
    """omega, and the codes of all slots without clusters anew from their prior by it, together.

    The proposal is the prior times the part of the occupied slots, so that the ratio is that of what the total mass brings to the joint.
    """
    P, q = state.codes.shape
    keep, proposed = state.scratch.occupied_slots, state.scratch.tried[0, :q]
    mark_occupied(state, keep)
    propose_inclusion(data, state, keep, proposed, rng)
    for p in range(P):
        for j in range(q):
            N = data.n_codes[j]
            state.scratch.proposed_codes[p, j] = 1 + int(rng.random() * N) if N > 0 and rng.random() < proposed[j] else 0
    sigma = state.hyper[Hyper.SIGMA]
    before = mass_term(data, state, sigma, total_growth(data, state, sigma))
    exchange_codes(state, keep)
    fill_slots(data, state, keep)
    recompute_A(state)
    after = mass_term(data, state, sigma, total_growth(data, state, sigma))
    if rng.standard_exponential() > before - after:
        for j in range(q):
            state.inclusion[j] = proposed[j]
    else:
        exchange_codes(state, keep)
        fill_slots(data, state, keep)
        recompute_A(state)
    rebuild_log_K(data, state)
    return DONE
