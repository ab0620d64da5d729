"""Data, points of the state space, and their joint density; conditionals are ratios of whole joint densities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from exact.enumeration import partitions
from scipy import stats
from scipy.special import gammaln, logsumexp

from naive.gaussian import Base, log_marginal, log_predictive
from naive.measures import log_crp, log_finite, log_kappa, log_pitman_yor, psi, psi1


def canonical(labels: Sequence[int]) -> tuple[int, ...]:
    """Labels renumbered by first appearance; -1 stays."""
    number: dict[int, int] = {-1: -1}
    return tuple(number.setdefault(int(k), len(number) - 1) for k in labels)


# ---- problems, and points of their state space


@dataclass(frozen=True)
class Problem:
    """Data and prior.  A mixture is the case of one group and one location at which K = 1."""

    y: np.ndarray  # (n, d)
    base: Base
    group: np.ndarray  # (n,)
    x: np.ndarray  # (G, D) covariates of the groups, in the units of the widths
    mu: np.ndarray  # (P, D) candidate locations
    R0: np.ndarray  # (P,)
    kernel: object = None  # squared_exponential, box, or None where K = 1
    marginal: bool = False  # a mixture with u integrated out
    measure: str = "explicit"  # or "pitman-yor", "finite", "stable"
    components: int = 0
    shared: bool = False  # one width for all covariates
    hyperprior: dict[str, object] = field(default_factory=dict)  # frozen scipy distributions by name

    def K(self, widths: np.ndarray) -> np.ndarray:
        if self.kernel is None:
            return np.ones((len(self.x), len(self.mu)))
        return self.kernel(self.x, self.mu, widths)


@dataclass(frozen=True)
class Point:
    """Where a chain stands; label -1 for observations that are not assigned."""

    labels: tuple[int, ...]
    locations: tuple[int, ...]  # of each cluster
    v: np.ndarray  # (G,)
    mass: float
    sigma: float
    tau: float
    widths: np.ndarray  # (D,)

    def members(self, k: int) -> list[int]:
        return [i for i, label in enumerate(self.labels) if label == k]

    @property
    def n_clusters(self) -> int:
        return max(self.labels) + 1


def log_likelihood(problem: Problem, point: Point) -> float:
    return sum(log_marginal(problem.y[point.members(k)], problem.base) for k in range(point.n_clusters))


def log_measure(problem: Problem, point: Point):
    """log p(partition, locations, v), or log p(partition) where u is integrated out; the mass of an explicit measure may be an array."""
    sizes = [len(point.members(k)) for k in range(point.n_clusters)]
    mass, sigma, tau = point.mass, point.sigma, point.tau
    if problem.marginal:
        if problem.measure in ("pitman-yor", "stable"):
            return log_pitman_yor(sizes, 0.0 if problem.measure == "stable" else mass, sigma)
        return log_finite(sizes, mass, problem.components) if problem.measure == "finite" else log_crp(sizes, mass)
    if problem.measure == "stable":
        mass = sigma
    K = problem.K(point.widths)
    A = point.v @ K
    value = 0.0
    for g, v in enumerate(point.v):
        n_g = int((problem.group == g).sum())
        value += (n_g - 1) * math.log(v) - gammaln(n_g)
    if problem.measure == "finite":
        value += log_gamma_atoms(problem, sizes, point.locations, A, mass)
    elif problem.measure == "pitman-yor":
        value += log_random_mass(problem, sizes, point.locations, A, mass, sigma)
    else:
        value += log_atoms(problem, sizes, point.locations, A, mass, sigma, tau)
    for i, k in enumerate(point.labels):
        if k >= 0:
            reach = K[problem.group[i], point.locations[k]]
            value += math.log(reach) if reach > 0 else -math.inf
    return value


def log_atoms(problem: Problem, sizes, locations, A, mass, sigma: float, tau: float):
    """What the atoms of the random measure bring: those of the clusters, and that all others give none."""
    value = -sum(weight * psi(A[p], mass, sigma, tau) for p, weight in enumerate(problem.R0))
    for m, p in zip(sizes, locations, strict=True):
        value += math.log(problem.R0[p]) + log_kappa(m, A[p], mass, sigma, tau)
    return value


def log_random_mass(problem: Problem, sizes, locations, A, theta: float, sigma: float) -> float:
    """The same over a mass with the distribution Gamma(theta / sigma, 1 / sigma), by quadrature in its logarithm."""
    total = sum(weight * psi1(A[p], sigma, 1.0) for p, weight in enumerate(problem.R0))
    shape, rate = theta / sigma + len(sizes), 1.0 / sigma + total
    t = np.linspace(-6.0, 6.0, 1201)
    log_mass = math.log(shape / rate) + np.sinh(t) / math.sqrt(shape)
    at_one = log_atoms(problem, sizes, locations, A, 1.0, sigma, 1.0) + total
    terms = len(sizes) * log_mass - np.exp(log_mass) * total + stats.gamma.logpdf(np.exp(log_mass), theta / sigma, scale=sigma) + log_mass
    return float(at_one + logsumexp(terms + np.log(np.cosh(t) / math.sqrt(shape))) + math.log(t[1] - t[0]))


def log_gamma_atoms(problem: Problem, sizes, locations, A, theta: float) -> float:
    """The same of M atoms with sizes Gamma(theta / M, 1): each cluster has one of them, the others are anywhere."""
    M, K = problem.components, len(sizes)
    if K > M:
        return -math.inf
    a = theta / M
    value = math.lgamma(M + 1) - math.lgamma(M - K + 1)
    for m, p in zip(sizes, locations, strict=True):
        value += math.log(problem.R0[p]) + math.lgamma(m + a) - math.lgamma(a) - (m + a) * math.log1p(A[p])
    return value + (M - K) * math.log(sum(weight * (1.0 + A[p]) ** -a for p, weight in enumerate(problem.R0)))


def log_joint(problem: Problem, point: Point) -> float:
    return log_measure(problem, point) + log_likelihood(problem, point)


# ---- conditionals of one observation and of the locations


def choices(problem: Problem, point: Point, i: int) -> list[Point]:
    """All places of observation i, the others fixed: every cluster, and a new one at every location."""
    labels = list(point.labels)
    k = labels[i]
    labels[i] = -1
    locations = list(point.locations)
    if k >= 0 and k not in labels:  # it was alone
        del locations[k]
        labels = [label - 1 if label > k else label for label in labels]
    out = []
    for target in range(len(locations)):
        labels[i] = target
        out.append(replace(point, labels=tuple(labels), locations=tuple(locations)))
    labels[i] = len(locations)
    for p in range(len(problem.R0)):
        out.append(replace(point, labels=tuple(labels), locations=(*locations, p)))
    return out


def log_joint_without_locations(problem: Problem, point: Point) -> float:
    """log p(y, partition, v), the locations of all clusters summed over; those of the point are not read."""
    places = itertools.product(range(len(problem.R0)), repeat=point.n_clusters)
    log_p = [log_measure(problem, replace(point, locations=locations)) for locations in places]
    return float(logsumexp(log_p)) + log_likelihood(problem, point)


def gibbs_conditional_without_locations(problem: Problem, point: Point, i: int) -> dict[tuple[int, ...], float]:
    """Probability of every partition that redrawing observation i may give, locations integrated out, by canonical labels."""
    partitions_of_i = {canonical(place.labels): place for place in choices(problem, point, i)}
    log_p = np.array([log_joint_without_locations(problem, place) for place in partitions_of_i.values()])
    p = np.exp(log_p - logsumexp(log_p))
    return {labels: float(q) for labels, q in zip(partitions_of_i, p, strict=True)}


def log_h(problem: Problem, point: Point, members: Sequence[int]) -> float:
    """What a cluster of these observations brings to p(y, partition, v), its location summed over, the likelihood left out."""
    K = problem.K(point.widths)
    A = point.v @ K
    log_p = []
    for p, weight in enumerate(problem.R0):
        reaches = K[problem.group[list(members)], p]
        if (reaches > 0).all():
            kappa = log_kappa(len(members), A[p], point.mass, point.sigma, point.tau)
            log_p.append(math.log(weight) + kappa + float(np.log(reaches).sum()))
    return float(logsumexp(log_p)) if log_p else -math.inf


def location_conditional(problem: Problem, point: Point, k: int) -> np.ndarray:
    """Probability (P,) of every location of cluster k."""
    log_p = []
    for p in range(len(problem.R0)):
        locations = list(point.locations)
        locations[k] = p
        log_p.append(log_measure(problem, replace(point, locations=tuple(locations))))
    return np.exp(np.array(log_p) - logsumexp(log_p))


# ---- split-merge of a mixture


def _integer(n: int, rng: np.random.Generator) -> int:
    return min(int(rng.random() * n), n - 1)


def log_odds_of_second(problem: Problem, point: Point, m: int, first: Sequence[int], second: Sequence[int]) -> float:
    """Of observation m to join the second of two clusters, neither of which has it; the others fixed."""
    weights = [
        math.log(len(rows) - point.sigma) + log_predictive(problem.y[m], problem.y[list(rows)], problem.base) for rows in (first, second)
    ]
    return weights[1] - weights[0]


def split_merge(problem: Problem, point: Point, scans: int, sequential: bool, rng: np.random.Generator) -> tuple[Point, str]:
    """One proposal from an ordered pair of observations: where the chain stands after it, and what was proposed.

    A merge takes the same steps as the split that it undoes, but for the allocations that count: these are given.
    """
    labels, n = point.labels, len(point.labels)
    i = _integer(n, rng)
    j = _integer(n - 1, rng)
    j += j >= i
    log_uniform = -rng.standard_exponential()
    splits = labels[i] == labels[j]
    others = [m for m in range(n) if labels[m] in (labels[i], labels[j]) and m not in (i, j)]

    def at(second: Sequence[int]) -> Point:
        """The clusters of the pair made one, and these observations taken out of it."""
        moved = [labels[i] if m in (j, *others) else k for m, k in enumerate(labels)]
        new = canonical([n if m in second else k for m, k in enumerate(moved)])
        return replace(point, labels=new, locations=(0,) * (max(new) + 1))

    whole, parted = at([]), at([m for m in range(n) if labels[m] == labels[j]])
    if not splits and log_joint(problem, whole) - log_joint(problem, parted) <= log_uniform:
        return point, "merge"  # whatever the probability of the split
    if sequential:
        for t in range(len(others)):
            s = t + _integer(len(others) - t, rng)
            others[t], others[s] = others[s], others[t]
    part: dict[int, int] = {i: 0, j: 1}
    log_q = 0.0

    def allocate(m: int, counts: bool) -> None:
        nonlocal log_q
        first, second = ([a for a, which in part.items() if which == side and a != m] for side in (0, 1))
        odds = log_odds_of_second(problem, point, m, first, second)
        if counts and not splits:
            part[m] = int(labels[m] == labels[j])
        else:
            part[m] = int(rng.random() < 1.0 / (1.0 + math.exp(-odds)))
        log_q -= np.logaddexp(0.0, -odds if part[m] else odds) if counts else 0.0

    if not sequential:
        for m in others:
            part[m] = _integer(2, rng)
        for _ in range(scans):
            for m in others:
                allocate(m, False)
    for m in others:
        allocate(m, True)
    if splits:
        parted = at([m for m, which in part.items() if which == 1])
    log_ratio = log_joint(problem, parted) - log_joint(problem, whole) - log_q
    accepted = log_uniform < (log_ratio if splits else -log_ratio)
    after = (parted if splits else whole) if accepted else point
    return after, ("split" if splits else "merge") + (", accepted" if accepted else "")


# ---- full conditionals of the hyperparameters and of v, up to a constant


def log_hyperpriors(problem: Problem, point: Point):
    value = 0.0
    for name, distribution in problem.hyperprior.items():
        if name == "width":
            value += distribution.logpdf(point.widths[0])
        elif name.startswith("width_"):
            value += distribution.logpdf(point.widths[int(name.removeprefix("width_"))])
        else:
            value += distribution.logpdf(getattr(point, name))
    return value


def log_posterior(problem: Problem, point: Point, *, without_mass: bool = False) -> float:
    """log p(partition, locations, v, hyperparameters); `without_mass` integrates the mass out where it is sampled."""
    if not (without_mass and "mass" in problem.hyperprior):
        return log_measure(problem, point) + log_hyperpriors(problem, point)
    step = 0.25
    t = np.arange(-30.0, 10.0, step)
    at = replace(point, mass=np.exp(t))
    terms = log_measure(problem, at) + log_hyperpriors(problem, at) + t
    return float(logsumexp(terms) + math.log(step))


def log_density_v(problem: Problem, point: Point, g: int, x: float, *, without_mass: bool) -> float:
    """Of log V_g at x."""
    v = point.v.copy()
    v[g] = math.exp(x)
    return log_posterior(problem, replace(point, v=v), without_mass=without_mass) + x


def log_density_scale(problem: Problem, point: Point, groups: Sequence[int], x: float, *, without_mass: bool) -> float:
    """Of log c where V_g = c * (V_g of the point) in these groups; the volume element is c^(their number) d(log c)."""
    v = point.v.copy()
    v[list(groups)] *= math.exp(x)
    return log_posterior(problem, replace(point, v=v), without_mass=without_mass) + len(groups) * x


def log_density_stretch(problem: Problem, point: Point, regions: Sequence[Sequence[int]], z: float, *, without_mass: bool) -> float:
    """Of z = log s where in each region log V_g becomes log V_g + (s - 1) l, l the log V of its first group.

    In coordinates of log V the map has the Jacobian s^(number of regions), and d(log s) is the measure that no scale changes.
    """
    v = point.v.copy()
    for region in regions:
        v[list(region)] *= math.exp((math.exp(z) - 1.0) * math.log(point.v[region[0]]))
    return log_posterior(problem, replace(point, v=v), without_mass=without_mass) + float(np.log(v).sum()) + len(regions) * z


def log_density_mass(problem: Problem, point: Point, z: float) -> float:
    """Of z = log mass."""
    return log_posterior(problem, replace(point, mass=math.exp(z))) + z


def log_density_sigma(problem: Problem, point: Point, z: float, *, without_mass: bool) -> float:
    """Of z = logit sigma."""
    sigma = 1.0 / (1.0 + math.exp(-z))
    at = replace(point, sigma=sigma)
    return log_posterior(problem, at, without_mass=without_mass) + math.log(sigma) + math.log1p(-sigma)


def log_density_width(problem: Problem, point: Point, j: int, z: float, *, without_mass: bool, logit: bool = False) -> float:
    """Of z = log width of covariate j, or its logit, the locations summed over; all covariates follow a shared width.

    V_g sum_m n_m K(x_g, mu_m) is fixed, mu_m the location that suits cluster m best: V moves with the width, and has its density of log V.
    """
    width = 1.0 / (1.0 + math.exp(-z)) if logit else math.exp(z)
    jacobian = math.log(width) + (math.log1p(-width) if logit else 0.0)
    widths = point.widths.copy()
    if problem.shared:
        widths[:] = width
    else:
        widths[j] = width
    best = best_locations(problem, point, widths)
    if best is None:
        return -math.inf
    after = reach(problem, point, widths)
    if (after < 1e-200).any():  # V overflows there, and is truncated long before
        return -math.inf
    v = point.v * reach(problem, point, point.widths) / after
    at = replace(point, widths=widths, v=v, locations=best)
    places = itertools.product(range(len(problem.R0)), repeat=point.n_clusters)
    summed = logsumexp([log_measure(problem, replace(at, locations=locations)) for locations in places]) - log_measure(problem, at)
    return float(log_posterior(problem, at, without_mass=without_mass) + summed + jacobian + np.log(v).sum())


def best_locations(problem: Problem, point: Point, widths: np.ndarray) -> tuple[int, ...] | None:
    """For each cluster the first location of the largest product of its members' K; None where one has no location in reach of all."""
    with np.errstate(divide="ignore"):
        log_K = np.log(problem.K(widths))
    sums = [log_K[problem.group[point.members(k)]].sum(axis=0) for k in range(point.n_clusters)]
    return None if any(np.isneginf(one.max()) for one in sums) else tuple(int(one.argmax()) for one in sums)


def reach(problem: Problem, point: Point, widths: np.ndarray) -> np.ndarray:
    """(G,) sum_m n_m K(x_g, mu_m), mu_m the location that suits cluster m best."""
    sizes = np.array([len(point.members(k)) for k in range(point.n_clusters)])
    return problem.K(widths)[:, list(best_locations(problem, point, widths))] @ sizes


def all_joint_states(problem: Problem, point: Point) -> Iterator[Point]:
    """Every partition with every choice of locations, v and the hyperparameters fixed."""
    for labels in partitions(len(problem.y)):
        for locations in itertools.product(range(len(problem.R0)), repeat=max(labels) + 1):
            yield replace(point, labels=labels, locations=locations)


# ---- predictions


def predictive_weights(
    sizes: np.ndarray, A_at: np.ndarray, A: np.ndarray, K_at: np.ndarray, K: np.ndarray, mass: float, sigma: float, tau: float
) -> np.ndarray:
    """Weights (K + 1,) of clusters and of a new atom for an observation of a new group, by quadrature over its v.

    A_at and K_at (K,) at the clusters' locations, A and K (P,) at all of them, R0 uniform.
    """
    x = np.linspace(-60.0, 500.0, 11_201)
    v = np.exp(x)[:, None]
    b, b_at = tau + A, tau + A_at
    log_f = x - (np.log1p(v * K_at / b_at) * (sizes - sigma)).sum(axis=1)
    if sigma == 0:
        log_f -= mass * np.log1p(v * K / b).mean(axis=1)
    else:
        log_f -= mass * ((b + v * K) ** sigma - b**sigma).mean(axis=1) / sigma
    f = np.exp(log_f)[:, None] * (x[1] - x[0])
    joined = (f * K_at * (sizes - sigma) / (b_at + v * K_at)).sum(axis=0)
    new = (f * mass * K * (b + v * K) ** (sigma - 1)).mean(axis=1).sum()
    return np.append(joined, new)


