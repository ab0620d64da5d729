"""Weights of a finite random measure and its mass, given what rows say of them: one factor q(weights, mass).

The measure has M atoms of weights pi_m ~ Gamma(mass / M, 1).  Given expected counts N_m and rates A_m of its atoms, the best
q(pi, mass) is proportional to

    p(mass) prod_m Gamma(pi_m; mass / M, 1) pi_m^N_m exp(-A_m pi_m),

in which pi_m given the mass is Gamma(mass / M + N_m, 1 + A_m).  With the weights integrated out what is left is one dimension, the mass: a
sum over nodes of its logarithm.  A fixed mass is one node.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import digamma, gammaln

from nrmmix.model.priors.hyperpriors import Hyperparameter
from nrmmix.model.priors.mass_factor import NEGLIGIBLE, MassFactor

LOWEST, HIGHEST, COARSE = -60.0, 40.0, 0.5  # of the log mass, and the step in which its mode is looked for
STEP, OF_SPREAD = 0.25, 0.4  # of the trapezoid, at most; in standard deviations about the mode


class GammaWeights(MassFactor):
    """q(pi, mass) given counts N (M,) and rates A (M,); each atom has the M-th part of the mass.

    `log_evidence` is the log of the integral of the above over weights and mass, `expected` and `expected_log` (M,) are E pi_m and
    E log pi_m.
    """

    def __init__(self, mass: Hyperparameter, counts: np.ndarray, rates: np.ndarray):
        self.mass, self.counts, self.rates = mass, np.maximum(counts, 0.0), 1.0 + np.maximum(rates, 0.0)
        self.log_evidence = self._integrate()
        each = self.nodes[:, None] / len(counts) + self.counts
        self.expected = self.shares @ each / self.rates
        self.expected_log = self.shares @ digamma(each) - np.log(self.rates)

    def _log_likelihood(self, u: np.ndarray) -> np.ndarray:
        """log of prod_m Gamma(a / M + N_m) / Gamma(a / M) (1 + A_m)^-(a / M + N_m) at log masses u = log a."""
        share = np.exp(u)[:, None] / len(self.counts)
        log_rate = np.log(self.rates)
        some = self.counts > 0.0  # of others the ratio is 1
        counts = self.counts[some]
        # Gamma(x + N) / Gamma(x) = x Gamma(x + N) / Gamma(x + 1): no poles for small x
        ratio = np.log(share) + gammaln(share + counts) - gammaln(share + 1.0)
        return ratio.sum(axis=1) - share[:, 0] * log_rate.sum() - counts @ log_rate[some]

    def _nodes(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Log masses, their log densities and the step between them."""
        coarse = np.arange(LOWEST, HIGHEST + COARSE, COARSE)
        f = self._log_density(coarse)
        kept = np.flatnonzero(f > f.max() - NEGLIGIBLE)
        low, high = coarse[max(kept[0] - 1, 0)], coarse[min(kept[-1] + 1, len(coarse) - 1)]
        at = coarse[np.argmax(f)]
        before, here, after = self._log_density(at + np.array([-0.1, 0.0, 0.1]))
        curvature = max((2.0 * here - before - after) / 0.01, 1e-6)
        size = int((high - low) / min(STEP, OF_SPREAD / math.sqrt(curvature))) + 2
        u = np.linspace(low, high, size)
        return u, self._log_density(u), float(u[1] - u[0])

    def draw_log(self, rng: np.random.Generator) -> np.ndarray:
        """Logarithms (M,) of weights drawn from q; those of components that nearly no row is of underflow."""
        shape = self._drawn_mass(rng) / len(self.counts) + self.counts
        return np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(len(shape))) / shape - np.log(self.rates)
