"""The normalised random measure: v, locations, mass, sigma and the widths given the partition.

The mixture is the case G = P = 1, K = 1, where V = A = u.  The part of the joint that the measure's total mass enters is
exp(-mass * T) with T = sum_p R0(p) psi1(A_p); where the mass has a Gamma(a0, b0) prior it is integrated out of the updates of v, sigma
and the widths, leaving (b0 + T)^-(a0 + K).  A Dirichlet process mixture has no u: its mass is drawn with u integrated out.
"""

from __future__ import annotations

import math

from nrmmix.kernels.clusters import marginal_column, weigh
from nrmmix.kernels.entry import call_covariate
from nrmmix.kernels.jit import fast, inlined, kernel, variable
from nrmmix.kernels.locations import add_row, refresh_reach
from nrmmix.kernels.special import exp_any, log_pos
from nrmmix.kernels.state import (
    BETA,
    COVARIATE,
    FIXED,
    GAMMA,
    JOINT_WITH_V,
    LOGNORMAL,
    MASS,
    N_CLUSTERS,
    SHARED_WIDTH,
    SIGMA,
    TAU,
    TINY,
    UPDATE_V,
    WIDTH,
)

LOG_V_MAX = 600.0  # v is truncated at e^600, beyond which it would overflow
OUT_OF_REACH = -1e6  # log K of K = 0: sums of it can be taken back
STRETCH = -1  # in place of a hyperparameter's number
FORGET = 1e-6  # a difference of sums that keeps less than this share of them is summed anew


# ---- the Levy measure


@inlined
def psi1_at(log_b, sigma, log_tau, tau_power):
    """psi / mass = ((A + tau)^sigma - tau^sigma) / sigma at log_b = log(A + tau), continuous at sigma = 0.

    tau_power = tau^sigma, or 0 for tau = 0 (log_tau is then unused).
    """
    if tau_power == 0.0:
        return exp_any(min(sigma * log_b, 700.0)) / sigma
    span = log_b - log_tau
    z = min(sigma * span, 700.0)
    # (e^z - 1)/z: the series where the difference would cancel
    series = 1.0 + z / 2.0 * (1.0 + z / 3.0 * (1.0 + z / 4.0 * (1.0 + z / 5.0 * (1.0 + z / 6.0 * (1.0 + z / 7.0 * (
        1.0 + z / 8.0 * (1.0 + z / 9.0 * (1.0 + z / 10.0 * (1.0 + z / 11.0 * (1.0 + z / 12.0))))))))))
    direct = (exp_any(z) - 1.0) / (z if z > 0.3 else 1.0)
    return tau_power * span * (direct if z > 0.3 else series)


@kernel
def power_of_tau(sigma, tau):
    if tau == 0.0:
        return 0.0
    return math.exp(sigma * math.log(tau))


@fast
def weighted_sums(base, K_row, v, c, R0, sigma, tau):
    """(sum_p c_p log b_p, sum_p R0(p) psi1) at b_p = base_p + v K_p."""
    P = base.shape[0]
    logs, total = 0.0, 0.0
    if sigma == 0.0:
        for p in range(P):
            log_b = log_pos(max(base[p] + v * K_row[p], TINY))
            logs += c[p] * log_b
            total += R0[p] * log_b
        total -= math.log(tau) * R0.sum()
    else:
        tau_power = power_of_tau(sigma, tau)
        log_tau = math.log(tau) if tau > 0.0 else 0.0
        for p in range(P):
            log_b = log_pos(max(base[p] + v * K_row[p], TINY))
            logs += c[p] * log_b
            total += R0[p] * psi1_at(log_b, sigma, log_tau, tau_power)
    return logs, total


@kernel
def log_hyperprior(row, x):
    """Log density of a hyperprior up to its constant; minus infinity outside its range."""
    kind, a, b = row[0], row[1], row[2]
    if kind == GAMMA:
        return (a - 1.0) * math.log(x) - b * x if x > 0.0 else -math.inf
    if kind == BETA:
        return (a - 1.0) * math.log(x) + (b - 1.0) * math.log1p(-x) if 0.0 < x < 1.0 else -math.inf
    if kind == LOGNORMAL:
        return -math.log(x) - 0.5 * ((math.log(x) - a) / b) ** 2 if x > 0.0 else -math.inf
    return 0.0


@kernel
def mass_term(data, state, total):
    """log of exp(-mass T), or of its integral over a gamma prior together with mass^K."""
    prior = data.hyperprior[MASS]
    if prior[0] == GAMMA:
        return -(prior[1] + state.num[N_CLUSTERS]) * math.log(prior[2] + total)
    return -state.hyper[MASS] * total


# ---- what follows from v, locations and hyperparameters


@fast
def recompute_A(state):
    G, P = state.K.shape
    for p in range(P):
        state.A[p] = 0.0
    for g in range(G):
        v, row = state.v[g], state.K[g]
        for p in range(P):
            state.A[p] += v * row[p]


@kernel
def refresh(data, state):
    """Cached logarithms after any change of v, the hyperparameters or the locations."""
    G, P = state.K.shape
    mass, sigma, tau = state.hyper[MASS], state.hyper[SIGMA], state.hyper[TAU]
    for m in range(1, state.log_size.shape[0]):
        state.log_size[m] = log_pos(m - sigma)
    for k in range(state.num[N_CLUSTERS]):
        weigh(state, k)
    rate = state.plane[0]
    for p in range(P):
        rate[p] = data.R0[p] * mass * math.exp((sigma - 1.0) * math.log(max(tau + state.A[p], TINY)))
    for g in range(G):
        total = 0.0
        for p in range(P):
            total += rate[p] * state.K[g, p]
        state.log_new[g] = math.log(total)
    if state.where.shape[1] > 0:
        refresh_reach(data, state)


@kernel
def evaluate_kernel(data, state, log_K, K):
    """Covariate kernel at the current widths."""
    call_covariate(data.setup[COVARIATE], data.distance, state.hyper[WIDTH:], log_K)
    for g in range(K.shape[0]):
        for p in range(K.shape[1]):
            log_K[g, p] = max(log_K[g, p], OUT_OF_REACH)
            K[g, p] = exp_any(log_K[g, p])


# ---- slice sampling, with stepping out (Neal 2003)


@kernel
def exponents(state, c):
    """c_p = sum over clusters at p of (n_m - sigma)."""
    for p in range(c.shape[0]):
        c[p] = 0.0
    for k in range(state.num[N_CLUSTERS]):
        c[state.location[k]] += state.size[k] - state.hyper[SIGMA]


@kernel
def log_density_v(data, state, count, x, ceiling, base, K_row, c):
    if x > ceiling:
        return -math.inf
    logs, total = weighted_sums(base, K_row, math.exp(x), c, data.R0, state.hyper[SIGMA], state.hyper[TAU])
    return count * x - logs + mass_term(data, state, total)


@kernel
def slice_v(data, state, count, start, ceiling, base, K_row, c, rng):
    """One slice step for x = log v at most `ceiling` of count x - sum_p c_p log(base_p + v K_p) + (mass term)."""
    start = min(start, ceiling)
    level = log_density_v(data, state, count, start, ceiling, base, K_row, c) - rng.standard_exponential()
    width = 1.0 + 2.0 / math.sqrt(count)
    lo = start - width * rng.random()
    hi = lo + width
    while log_density_v(data, state, count, lo, ceiling, base, K_row, c) > level:
        lo -= width
    while log_density_v(data, state, count, hi, ceiling, base, K_row, c) > level:
        hi += width
    while True:
        x = lo + (hi - lo) * rng.random()
        if log_density_v(data, state, count, x, ceiling, base, K_row, c) >= level or hi - lo < 1e-13:
            return x
        if x < start:
            lo = x
        else:
            hi = x


@kernel
def update_v(data, state, rng):
    """Each log V_g, then the common scale of all of them and of neighbourhoods."""
    G, P = state.K.shape
    tau = state.hyper[TAU]
    base, c = state.plane[0], state.plane[1]
    exponents(state, c)
    recompute_A(state)
    for g in range(G):
        K_row = state.K[g]
        lost = False
        for p in range(P):
            rest = state.A[p] - state.v[g] * K_row[p]
            lost = lost or rest < FORGET * state.A[p]
            base[p] = tau + rest
        if lost:
            for p in range(P):
                rest = 0.0
                for h in range(G):
                    if h != g:
                        rest += state.v[h] * state.K[h, p]
                base[p] = tau + rest
        x = slice_v(data, state, data.group_size[g], math.log(state.v[g]), LOG_V_MAX, base, K_row, c, rng)
        state.v[g] = math.exp(x)
        for p in range(P):
            state.A[p] = (base[p] - tau) + state.v[g] * K_row[p]
    if G > 1:
        rescale_regions(data, state, c, rng)
    recompute_A(state)


@kernel
def find_regions(data, state):
    """region[g]: the first group whose first observation shares its cluster with that of group g."""
    for k in range(state.num[N_CLUSTERS]):
        state.score[k] = -1.0
    for i in range(state.labels.shape[0] - 1, -1, -1):
        state.region[data.group[i]] = state.labels[i]
    for g in range(state.region.shape[0]):
        k = state.region[g]
        if state.score[k] < 0.0:
            state.score[k] = g
        state.region[g] = int(state.score[k])


@kernel
def rescale_regions(data, state, c, rng):
    """The common scale of all V_g, that of each region, and the stretch of the regions' levels.

    Where A is large against tau only ratios of the V_g matter much: then levels differ between regions by orders of magnitude, under a heavy
    tail, and would move slowly by single V_g.  Regions do not depend on v, so each slice step leaves the posterior as it is.
    """
    G = state.v.shape[0]
    find_regions(data, state)
    for g in range(G):
        state.chosen[g] = 1
    rescale(data, state, c, rng)
    if state.num[N_CLUSTERS] == 1:
        return
    for r in range(G):
        if state.region[r] == r:
            for g in range(G):
                state.chosen[g] = 1 if state.region[g] == r else 0
            rescale(data, state, c, rng)
    stretch(data, state, rng)


@kernel
def rescale(data, state, c, rng):
    """One slice step for the common log scale of the chosen V_g."""
    G, P = state.K.shape
    base, within = state.plane[0], state.plane[2]
    for p in range(P):
        base[p] = state.hyper[TAU]
        within[p] = 0.0
    count, largest = 0.0, 0.0
    for g in range(G):
        add_row(within if state.chosen[g] else base, state.K[g], state.v[g])
        if state.chosen[g]:
            count += data.group_size[g]
            largest = max(largest, state.v[g])
    scale = math.exp(slice_v(data, state, count, 0.0, max(LOG_V_MAX - math.log(largest), 0.0), base, within, c, rng))
    for g in range(G):
        if state.chosen[g]:
            state.v[g] *= scale


@kernel
def stretch(data, state, rng):
    """One slice step for s in log V_g + (s - 1) l_r, l_r the log V of the first group of region r: Jacobian s^(number of regions)."""
    level, top, count, part = state.carried[0], state.carried[1], state.carried[2], state.trial
    for g in range(state.v.shape[0]):
        r = state.region[g]
        if r == g:
            level[r] = math.log(state.v[g])
            top[r] = level[r]
            count[r] = 0.0
            for p in range(part.shape[1]):
                part[r, p] = 0.0
        top[r] = max(top[r], math.log(state.v[g]))
        count[r] += data.group_size[g]
        add_row(part[r], state.K[g], state.v[g])
    s = math.exp(slice_hyper(data, state, variable(STRETCH), variable(0), 0.0, rng))
    for g in range(state.v.shape[0]):
        state.v[g] *= math.exp((s - 1.0) * level[state.region[g]])


@kernel
def log_density_stretch(data, state, z):
    """Log density of z = log s, from what `stretch` has gathered of each region."""
    level, top, count, part = state.carried[0], state.carried[1], state.carried[2], state.trial
    base, c, A = state.plane[0], state.plane[1], state.plane[2]
    for p in range(A.shape[0]):
        base[p] = state.hyper[TAU]
        A[p] = 0.0
    value = 0.0
    for r in range(state.region.shape[0]):
        if state.region[r] == r:
            shift = (math.exp(z) - 1.0) * level[r]
            if abs(shift) > LOG_V_MAX or (shift > 0.0 and shift + top[r] > LOG_V_MAX):
                return -math.inf
            value += z + count[r] * shift
            add_row(A, part[r], math.exp(shift))
    logs, total = weighted_sums(base, A, 1.0, c, data.R0, state.hyper[SIGMA], state.hyper[TAU])
    return value + mass_term(data, state, total) - logs


@kernel
def total_psi1(data, state, sigma):
    total = 0.0
    tau = state.hyper[TAU]
    tau_power = power_of_tau(sigma, tau)
    log_tau = math.log(tau) if tau > 0.0 else 0.0
    for p in range(state.A.shape[0]):
        total += data.R0[p] * psi1_at(math.log(max(tau + state.A[p], TINY)), sigma, log_tau, tau_power)
    return total


# ---- one slice sampler for the scalar hyperparameters, on an unbounded scale


@kernel
def unbounded(kind, x):
    return math.log(x) - math.log1p(-x) if kind == BETA else math.log(x)


@kernel
def bounded(kind, z):
    if kind == BETA:
        return 1.0 / (1.0 + math.exp(-z)) if z > 0.0 else math.exp(z) / (1.0 + math.exp(z))
    return math.exp(z)


@kernel
def log_density_hyper(data, state, which, z, carry):
    """Log full conditional of hyperparameter `which` on its unbounded scale z, the mass integrated out where it has a gamma prior."""
    if which == STRETCH:
        return log_density_stretch(data, state, z)
    prior = data.hyperprior[which]
    kind = prior[0]
    if abs(z) > 600.0:
        return -math.inf
    x = bounded(kind, z)
    if x <= 0.0 or (kind == BETA and x >= 1.0):
        return -math.inf
    value = log_hyperprior(prior, x)
    value += math.log(x) + math.log1p(-x) if kind == BETA else z
    if which == MASS:
        if data.setup[JOINT_WITH_V] == 0:  # u integrated out
            n = state.labels.shape[0]
            return value + state.num[N_CLUSTERS] * math.log(x) + math.lgamma(x) - math.lgamma(x + n)
        return value + state.num[N_CLUSTERS] * math.log(x) - x * total_psi1(data, state, state.hyper[SIGMA])
    if which == SIGMA:
        gap = math.lgamma(1.0 - x)
        for k in range(state.num[N_CLUSTERS]):
            value += math.lgamma(state.size[k] - x) - gap
            value += x * math.log(max(state.hyper[TAU] + state.A[state.location[k]], TINY))
        return value + mass_term(data, state, total_psi1(data, state, x))
    return value + log_density_at_width(data, state, which, x, carry)


@kernel
def log_density_at_width(data, state, which, x, carry):
    """What depends on a width, in log V coordinates: with V fixed, or with V carried along (see `update_width`)."""
    old = state.hyper[which]
    set_width(data, state, which, x)
    evaluate_kernel(data, state, state.log_trial, state.trial)
    set_width(data, state, which, old)
    G, P = state.K.shape
    value = 0.0
    for i in range(state.labels.shape[0]):
        value += state.log_trial[data.group[i], state.location[state.labels[i]]]
    if value <= OUT_OF_REACH:
        return -math.inf
    log_v = state.carried[1]
    for g in range(G):
        log_v[g] = state.carried[0, g] - log_reach(state, state.log_trial[g]) if carry else math.log(state.v[g])
        value += data.group_size[g] * log_v[g]
        if log_v[g] > LOG_V_MAX:
            return -math.inf
    base, c, A = state.plane[0], state.plane[1], state.plane[2]
    for p in range(P):
        base[p] = state.hyper[TAU]
        A[p] = 0.0
    for g in range(G):
        v, row = math.exp(log_v[g]), state.trial[g]
        for p in range(P):
            A[p] += v * row[p]
    exponents(state, c)
    logs, total = weighted_sums(base, A, 1.0, c, data.R0, state.hyper[SIGMA], state.hyper[TAU])
    return value + mass_term(data, state, total) - logs


@kernel
def log_reach(state, log_K_row):
    """log sum_m n_m K(x_g, mu_m)"""
    top = -math.inf
    for k in range(state.num[N_CLUSTERS]):
        top = max(top, log_K_row[state.location[k]])
    total = 0.0
    for k in range(state.num[N_CLUSTERS]):
        total += state.size[k] * exp_any(log_K_row[state.location[k]] - top)
    return top + math.log(total)


@kernel
def set_width(data, state, which, x):
    if data.setup[SHARED_WIDTH] == 1:
        for j in range(WIDTH, state.hyper.shape[0]):
            state.hyper[j] = x
    else:
        state.hyper[which] = x


@kernel
def update_width(data, state, which, carry, rng):
    """One slice step for a width, V fixed or carried along.

    Carried along, Z_g = V_g sum_m n_m K(x_g, mu_m) is held instead of V_g: a shift of log V_g, of unit Jacobian.  An observation far out
    under a narrow kernel needs a large V_g, so that with V fixed a width hardly moves.
    """
    G = state.v.shape[0]
    if carry:
        for g in range(G):
            state.carried[0, g] = math.log(state.v[g]) + log_reach(state, state.log_K[g])
    set_width(data, state, which, draw_hyper(data, state, which, carry, rng))
    evaluate_kernel(data, state, state.log_K, state.K)
    if carry:
        for g in range(G):
            state.v[g] = math.exp(state.carried[0, g] - log_reach(state, state.log_K[g]))
    recompute_A(state)


@kernel
def slice_hyper(data, state, which, carry, start, rng):
    """One slice step on the unbounded scale."""
    level = log_density_hyper(data, state, which, start, carry) - rng.standard_exponential()
    lo = start - 1.5 * rng.random()
    hi = lo + 1.5
    while log_density_hyper(data, state, which, lo, carry) > level:
        lo -= 1.5
    while log_density_hyper(data, state, which, hi, carry) > level:
        hi += 1.5
    while True:
        z = lo + (hi - lo) * rng.random()
        if log_density_hyper(data, state, which, z, carry) >= level or hi - lo < 1e-13:
            return z
        if z < start:
            lo = z
        else:
            hi = z


@kernel
def draw_hyper(data, state, which, carry, rng):
    kind = data.hyperprior[which, 0]
    return bounded(kind, slice_hyper(data, state, which, carry, unbounded(kind, state.hyper[which]), rng))


@kernel
def update_hyper(data, state, rng):
    """v, sigma, the widths, and last the mass, each from its full conditional."""
    if data.setup[UPDATE_V] == 1:
        update_v(data, state, rng)
    n_hyper = state.hyper.shape[0]
    for step in range(1, n_hyper + 1):
        which = step % n_hyper  # the mass last: it is integrated out of the others
        prior = data.hyperprior[which]
        if prior[0] == FIXED:
            continue
        if which >= WIDTH:
            for carry in range(2):
                update_width(data, state, which, carry, rng)
        elif which == MASS and prior[0] == GAMMA and data.setup[JOINT_WITH_V] == 1:
            rate = prior[2] + total_psi1(data, state, state.hyper[SIGMA])
            state.hyper[MASS] = rng.standard_gamma(prior[1] + state.num[N_CLUSTERS]) / rate
        else:
            state.hyper[which] = draw_hyper(data, state, which, variable(0), rng)
    refresh(data, state)


# ---- the joint


@kernel
def log_joint(data, state):
    """log p(y, partition), with u or v where the prior's joint has them; see math of the random measure in the documentation."""
    n = state.labels.shape[0]
    mass, sigma, tau = state.hyper[MASS], state.hyper[SIGMA], state.hyper[TAU]
    K = state.num[N_CLUSTERS]
    value = K * math.log(mass)
    for k in range(K):
        value += marginal_column(data, state.stat, k) + math.lgamma(state.size[k] - sigma) - math.lgamma(1.0 - sigma)
    if data.setup[JOINT_WITH_V] == 0:
        return value + math.lgamma(mass) - math.lgamma(mass + n)
    for k in range(K):
        p = state.location[k]
        value += math.log(data.R0[p]) - (state.size[k] - sigma) * math.log(max(tau + state.A[p], TINY))
    for g in range(state.v.shape[0]):
        value += (data.group_size[g] - 1.0) * math.log(state.v[g]) - math.lgamma(data.group_size[g])
    for i in range(n):
        value += state.log_K[data.group[i], state.location[state.labels[i]]]
    return value - mass * total_psi1(data, state, sigma)
