"""Prior without data: the law of the number of clusters, and partitions."""

from __future__ import annotations

import math

import numpy as np

from nrmmix.kernels.core.jit import allocating, fast, kernel, root
from nrmmix.kernels.core.special import exp_any, log_pos
from nrmmix.kernels.core.state import FIXED, GAMMA, TINY

NEGLIGIBLE = 40.0  # nats below the maximum
FINEST = 10  # halvings of the step of a trapezoid


@kernel
def log1p_exp(x):
    return x if x > 36.0 else math.log1p(math.exp(x))


# ---- the number of clusters: P(K = k) = S(n, k) / Gamma(n) * integral over u


@root
@fast
def next_ratios(n, sigma, first, edge, ratio, e, f):
    """S(n, k) / S(n, k - 1) for columns k = first, first + 1, ... into `ratio`, by a recursion of positive terms over the rows.

    S(n, k) is the sum over partitions of n into k blocks of prod Gamma(n_c - sigma) / Gamma(1 - sigma), a Stirling number of the first
    kind at sigma = 0: S(m + 1, k) = S(m, k - 1) + (m - sigma k) S(m, k).  `edge` (n,) holds what column first - 1 passes on in each
    row, 1 / (m - sigma) for first = 2, and becomes that of the last column; e and f are scratch.
    """
    width = ratio.shape[0]
    for j in range(width):
        ratio[j] = 0.0
    for m in range(first - 1, n):
        for j in range(width):
            f[j] = 1.0 + (m - sigma * (first + j)) * ratio[j]
            e[j] = ratio[j] / f[j]
        ratio[0] = edge[m] * f[0]
        for j in range(1, width):
            ratio[j] = e[j - 1] * f[j]
        edge[m] = e[width - 1]


@kernel
def log_mass_moment(mass, k, y):
    """log E[mass^k exp(-mass s)] at y = log s, up to `log_mass_constant`; `mass` is a row of hyperpriors, FIXED with the mass."""
    kind, a, b = mass[0], mass[1], mass[2]
    if kind == FIXED:
        return -math.exp(min(math.log(a) + y, 709.0))
    if kind == GAMMA:
        return -(a + k) * (math.log(b) + log1p_exp(y - math.log(b)))
    # Log-normal: trapezoid in z = log mass from the mode, which is a + k b^2 - t with t + log t = c.
    square = b * b
    c = math.log(square) + k * square + a + y
    w = math.log(c) if c > 1.0 else c - 1.0
    for _ in range(50):
        change = (math.exp(w) + w - c) / (math.exp(w) + 1.0)
        w -= change
        if abs(change) < 1e-9:
            break
    mode = a + k * square - math.exp(w)
    scale = math.exp(mode + y)
    step = 0.3 / math.sqrt(scale + 1.0 / square)
    total = 1.0
    for side in (-1.0, 1.0):
        x = side * step
        while True:
            drop = k * x - scale * math.expm1(x) - x * (2.0 * (mode - a) + x) / (2.0 * square)
            if drop < -NEGLIGIBLE:
                break
            total += math.exp(drop)
            x += side * step
    return k * mode - scale - (mode - a) ** 2 / (2.0 * square) + math.log(total * step)


@kernel
def log_mass_constant(mass, k):
    kind, a, b = mass[0], mass[1], mass[2]
    if kind == FIXED:
        return k * math.log(a)
    if kind == GAMMA:
        return a * math.log(b) + math.lgamma(a + k) - math.lgamma(a)
    return -math.log(b * math.sqrt(2.0 * math.pi))


@kernel
def log_integrand(n, k, mass, sigma, y):
    """Log integrand of the integral over u at tau = 1, in y = log psi1(u), where log(u + 1) = log(1 + sigma e^y) / sigma."""
    if sigma > 0.0:
        log_power = log1p_exp(math.log(sigma) + y)  # log (u + 1)^sigma
        growth = log_power / sigma
    else:
        log_power = 0.0
        growth = math.exp(min(y, 709.0))
    share = math.log(-math.expm1(-growth)) if growth < 0.7 else math.log1p(-math.exp(-growth))  # log u / (u + 1)
    return (n - 1.0) * share + (k - 1.0) * log_power + y + log_mass_moment(mass, k, y)


@root
@kernel
def log_integral(n, k, mass, sigma, start):
    """log of the integral of u^(n-1) (u+1)^-(n - sigma k) mass^k exp(-psi(u)) over u and the mass; and its mode in y, found from `start`.

    Trapezoid in t with y = mode + 2 width sinh t, halved until it no longer changes: it serves narrow peaks and exponential tails.
    """
    mode, width = start, 1.0
    top = log_integrand(n, k, mass, sigma, mode)
    while True:
        left = log_integrand(n, k, mass, sigma, mode - width)
        right = log_integrand(n, k, mass, sigma, mode + width)
        if max(left, right) > top:
            mode += width if right > left else -width
            top = max(left, right)
            width *= 2.0
        elif top - min(left, right) > 1.0:
            width *= 0.5
        else:
            break
    lo, hi, step = 0.0, 0.0, 0.25
    total, last = 1.0, 0.0
    for side in (-1.0, 1.0):
        t = side * step
        while True:
            drop = log_integrand(n, k, mass, sigma, mode + 2.0 * width * math.sinh(t)) - top
            if drop + abs(t) < -NEGLIGIBLE:
                break
            total += math.exp(drop) * math.cosh(t)
            t += side * step
        lo, hi = min(lo, t), max(hi, t)
    total *= step
    for _ in range(FINEST):
        last = total
        middle = 0.0
        t = lo + 0.5 * step
        while t < hi:
            middle += math.exp(log_integrand(n, k, mass, sigma, mode + 2.0 * width * math.sinh(t)) - top) * math.cosh(t)
            t += step
        total = 0.5 * (last + step * middle)
        step *= 0.5
        if abs(total - last) < 1e-10 * total:
            break
    return top + math.log(2.0 * width * total) + log_mass_constant(mass, k), mode


@root
@kernel
def log_integrals(n, k, mass, sigma, start, out):
    """`log_integral` of each k, in increasing order, into out; the last mode."""
    for j in range(k.shape[0]):
        out[j], start = log_integral(n, k[j], mass, sigma, start)
    return start


# ---- partitions


@kernel
def next_event(log_b, weight, load, sigma, rng):
    """At one location from b on, where b grows: log b of its next event, log of how much is left until then, whether it is a new atom.

    At tau = 0 (sigma > 0) b starts from 0, where new atoms alone arrive.
    """
    growth = rng.standard_exponential() / weight
    if log_b == -math.inf:
        after = math.log(sigma * growth) / sigma
        return after, after, True
    if sigma > 0.0:
        growth = log1p_exp(math.log(sigma * growth) - sigma * log_b) / sigma
    is_new = True
    if load > 0.0:
        joined = rng.standard_exponential() / load
        if joined < growth:
            growth, is_new = joined, False
    return log_b + growth, log_b + (growth if growth > 40.0 else math.log(math.expm1(growth))), is_new


@fast
def grow(log_left, row, log_time, share):
    """Reduce what is left at each location after b has grown by a time that goes by as fast as the kernel says; `share` is scratch."""
    for p in range(log_left.shape[0]):
        share[p] = exp_any(log_time + row[p] - log_left[p])
    for p in range(log_left.shape[0]):  # a loop of its own, else neither is vectorised
        left = 1.0 - share[p]
        log_left[p] += log_pos(left if left > TINY else TINY)


@root
@allocating
def seat(log_K, R0, group, mass, sigma, tau, rng):
    """A partition from the prior: labels (n,) and the clusters' locations (K,).  A mixture has one group and one location, log K = 0.

    Exact, without drawing the measure.  Given the atoms' weights w let observations of group g arrive at rate sum_m K(x_g, mu_m) w_m,
    and the observation that arrives at time V_g be of atom m with probability in proportion to K(x_g, mu_m) w_m.  With the weights
    integrated out, given the past, a cluster at p gets the next observation at rate K (n_m - sigma) / b, b = tau + A_p, and a new atom
    at p at rate K R0 mass b^(sigma - 1).  While an observation is waited for b grows at rate K: so at each location the b of the next
    event does not depend on which observations are waited for.  It is drawn after the event before by inverses in closed form, and the
    location that reaches its own first has the observation.  Times are kept as logarithms, for where the mass in reach is small they are
    beyond floating point.
    """
    n, P = group.shape[0], log_K.shape[1]
    labels, place = np.empty(n, np.int64), np.empty(n, np.int64)
    size, load = np.zeros(n), np.zeros(P)  # load: sum of n_m - sigma over the clusters at p
    log_b, log_left, share, is_new = np.empty(P), np.empty(P), np.empty(P), np.empty(P, np.bool_)
    for p in range(P):
        log_b[p], log_left[p], is_new[p] = next_event(math.log(tau) if tau > 0.0 else -math.inf, mass * R0[p], 0.0, sigma, rng)
    K = 0
    for i in range(n):
        row = log_K[group[i]]
        earliest, at = math.inf, 0
        for p in range(P):
            if log_left[p] - row[p] < earliest:
                earliest, at = log_left[p] - row[p], p
        k = K
        if is_new[at]:
            place[K] = at
            K += 1
            load[at] -= sigma
        else:
            left = rng.random() * load[at]
            for c in range(K):
                if place[c] == at:
                    k = c
                    left -= size[c] - sigma
                    if left < 0.0:
                        break
        labels[i] = k
        size[k] += 1.0
        load[at] += 1.0
        grow(log_left, row, earliest, share)
        log_b[at], log_left[at], is_new[at] = next_event(log_b[at], mass * R0[at], load[at], sigma, rng)
    return labels, place[:K].copy()


@root
@kernel
def seat_urn(labels, size, first, last, K, sigma, weight_of_new, rng):
    """Rows first, ..., last - 1 join the K clusters with weights size - sigma, or a new one with weight_of_new[K]; the new K."""
    for i in range(first, last):
        left = rng.random() * (i - sigma * K + weight_of_new[K]) - weight_of_new[K]
        k = K
        if left >= 0.0 or weight_of_new[K] == 0.0:
            for c in range(K):
                k = c
                left -= size[c] - sigma
                if left < 0.0:
                    break
        labels[i] = k
        size[k] += 1.0
        K += k == K
    return K


@root
@allocating
def seat_finite(log_K, group, place, log_size, rng, out):
    """The atom of each row, with probability in proportion to kernel times size, into out (n,)."""
    steps = np.empty(place.shape[0])
    for g in range(log_K.shape[0]):
        top = -math.inf
        for m in range(steps.shape[0]):
            steps[m] = log_K[g, place[m]] + log_size[m]
            top = max(top, steps[m])
        total = 0.0
        for m in range(steps.shape[0]):
            total += math.exp(steps[m] - top)
            steps[m] = total
        for i in range(group.shape[0]):
            if group[i] == g:
                out[i] = min(np.searchsorted(steps, rng.random() * total, side="right"), steps.shape[0] - 1)
