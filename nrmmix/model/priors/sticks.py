"""Stick-breaking weights of a Dirichlet process and its mass, given expected counts of components: one factor q(v, mass).

Given expected counts N_1, ..., N_K in the order of the sticks, N_>k those after k, the best q(v, mass) is proportional to

    p(mass) prod_k mass v_k^N_k (1 - v_k)^(mass - 1 + N_>k).

With the sticks integrated out what is left is one dimension, the mass: a sum over nodes of its logarithm.  A fixed mass is one node.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.special import betaln, digamma, gammaln, zeta

from nrmmix.model.priors.hyperpriors import Gamma, Hyperparameter, LogNormal
from nrmmix.model.priors.mass_factor import NEGLIGIBLE, MassFactor

STEP = 0.25  # at most, of the trapezoid: its error is below exp(-pi^2 / STEP)
LOWEST, HIGHEST = -600.0, 300.0  # of the log mass
AT_ONCE = 32  # nodes that are looked at together, on either side
LONGEST = 3.0  # step to the right
FLAT = 1e6  # masses that are so many times the rows


class Sticks(MassFactor):
    """q(v, mass) given expected counts N (K,), none negative, in the order of the sticks.

    The density of the log mass is log-concave for a gamma and a log-normal prior: nodes are found outwards from its mode.
    `log_evidence` is the log of the integral of p(mass) p(v | mass) prod_k v_k^N_k (1 - v_k)^N_>k over sticks and mass: the part of the
    bound that the counts have.
    """

    def __init__(self, mass: Hyperparameter, counts: np.ndarray):
        self.mass, self.counts = mass, counts
        self.tail = np.cumsum(counts[::-1])[::-1]  # N_>=k
        self.log_evidence = self._integrate(gammaln(1.0 + counts).sum())

    def _log_likelihood(self, u: np.ndarray) -> np.ndarray:
        """log of prod_k mass Gamma(mass + N_>k) / Gamma(1 + mass + N_>=k) at log masses u."""
        a = np.exp(u)
        ends = betaln(a, self.tail[0]) - gammaln(self.tail[0])  # log Gamma(a) - log Gamma(a + N), for large a too
        return len(self.tail) * u - np.log(a[:, None] + self.tail).sum(axis=1) + ends

    def _slope(self, u: float) -> tuple[float, float]:
        """First and second derivative of the log density at u."""
        a, prior, size = math.exp(u), self.mass, float(self.tail[0])
        part = a / (a + self.tail)
        if a > FLAT * (1.0 + size):  # where differences of digamma functions lose their digits
            of_ends, further = -size, 0.0
        else:
            of_ends = a * float(digamma(a) - digamma(a + size))
            further = a * a * float(zeta(2.0, a) - zeta(2.0, a + size)) + of_ends
        first = len(self.tail) - part.sum() + of_ends
        second = further - (part * (1.0 - part)).sum()
        if isinstance(prior, LogNormal):
            return float(first - (u - prior.mu) / prior.sd**2), float(second - prior.sd**-2)
        assert isinstance(prior, Gamma)
        return float(first + prior.shape - prior.rate * a), float(second - prior.rate * a)

    def _mode(self) -> tuple[float, float]:
        """Find where the log density is largest, nearly, and its curvature there: Newton's steps, halved intervals where they lead out."""
        low, high = LOWEST, HIGHEST
        u = math.log(max(len(self.tail) / math.log(2.0 + self.tail[0]), 1e-3))
        for _ in range(100):
            first, second = self._slope(u)
            low, high = (u, high) if first > 0 else (low, u)
            curvature = max(-second, 1e-6)
            if first * first < 0.01 * curvature or high - low < 1e-3:  # a tenth of a standard deviation away
                break
            further = u + max(min(first / curvature, LONGEST), -10.0 * LONGEST)  # on the right the density falls faster than its slope says
            u = further if low < further < high else 0.5 * (low + high)
        return u, curvature

    def _nodes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log masses, their log densities and the weights of the trapezoid."""
        mode, curvature = self._mode()
        step = min(STEP, 0.4 / math.sqrt(curvature))
        # far to the left the density is an exponential: the rest of its sum is a geometric series
        positive = self.tail[self.tail > 0]
        straight = max(LOWEST, math.log(min(positive.min(initial=1.0), 1.0)) - 40.0)
        most_left, most_right = int((mode - straight) / step), int((HIGHEST - mode) / step)
        left, right = min(AT_ONCE, most_left), min(AT_ONCE, most_right)
        u = mode + step * np.arange(-left, right + 1)
        f = self._log_density(u)
        while left < most_left and f[0] > f.max() - NEGLIGIBLE:
            further = mode - step * np.arange(min(left + AT_ONCE, most_left), left, -1)
            u, f, left = np.concatenate([further, u]), np.concatenate([self._log_density(further), f]), left + len(further)
        while right < most_right and f[-1] > f.max() - NEGLIGIBLE:
            further = mode + step * np.arange(right + 1, min(right + AT_ONCE, most_right) + 1)
            u, f, right = np.concatenate([u, further]), np.concatenate([f, self._log_density(further)]), right + len(further)
        weight = np.full(len(u), step)
        if f[0] > f.max() - NEGLIGIBLE and f[1] > f[0]:
            weight[0] += step / math.expm1(f[1] - f[0])
        return u, f, weight

    @cached_property
    def _sizes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return, of each node and stick, the sum of the parameters of its beta law, the second of them, and the masses (nodes, 1)."""
        a = self.nodes[:, None]
        return 1.0 + a + self.tail, a + (self.tail - self.counts), a

    @property
    def expected_log_weights(self) -> np.ndarray:
        """E log w_k (K,) of the weights w_k = v_k prod_l<k (1 - v_l)."""
        both, rest, _ = self._sizes
        total = self.shares @ digamma(both)
        further = self.shares @ digamma(rest[:, :-1]) - total[:-1]
        return digamma(1.0 + self.counts) - total + np.concatenate([[0.0], np.cumsum(further)])

    @property
    def expected_weights(self) -> tuple[np.ndarray, float]:
        """E w_k (K,), and what is expected to be left for further components."""
        both, rest, _ = self._sizes
        left = np.cumprod(rest / both, axis=1)
        before = np.hstack([np.ones((len(left), 1)), left[:, :-1]])
        return self.shares @ ((1.0 + self.counts) / both * before), float(self.shares @ left[:, -1])

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, float, float]:
        """Weights (K,) drawn from q, what is left, and the mass of what is left."""
        a = self._drawn_mass(rng)
        v = rng.beta(1.0 + self.counts, a + (self.tail - self.counts))
        left = np.cumprod(1.0 - v)
        return v * np.concatenate([[1.0], left[:-1]]), float(left[-1]), a
