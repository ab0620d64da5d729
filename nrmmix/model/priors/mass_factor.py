"""Base of factors of weights and mass: with the weights integrated out the mass is left, a sum over nodes of its logarithm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nrmmix.model.priors.hyperpriors import Gamma, Hyperparameter, LogNormal, fixed, log_density_of_log

NEGLIGIBLE = 45.0  # e^-45 of the largest value is left out


class MassFactor:
    """q(mass) of the prior of weights; a fixed mass is one node."""

    mass: Hyperparameter
    nodes: np.ndarray  # (nodes,) values of the mass
    shares: np.ndarray  # (nodes,) their probabilities
    _log_likelihood: Callable[[np.ndarray], np.ndarray]  # of log masses, but for a constant
    _nodes: Callable[[], tuple[np.ndarray, np.ndarray, Any]]  # log masses, their log densities and the weights of the trapezoid

    def _integrate(self, constant: float = 0.0) -> float:
        """Set nodes and shares; return the log of the integral over the mass, and the constant."""
        if not isinstance(self.mass, (Gamma, LogNormal)):
            self.nodes, self.shares = np.array([fixed(self.mass)]), np.ones(1)
            return float(constant + self._log_likelihood(np.log(self.nodes))[0])
        log_mass, f, weight = self._nodes()
        top = f.max()
        p = weight * np.exp(f - top)
        self.nodes, self.shares = np.exp(log_mass), p / p.sum()
        return float(constant + top + math.log(p.sum()))

    def _log_density(self, u: np.ndarray) -> np.ndarray:
        """Log likelihood and log prior density of u."""
        assert isinstance(self.mass, (Gamma, LogNormal))
        return log_density_of_log(self.mass, u) + self._log_likelihood(u)

    @property
    def expected_mass(self) -> float:
        return float(self.shares @ self.nodes)

    def _drawn_mass(self, rng: np.random.Generator) -> float:
        return float(self.nodes[min(int(np.searchsorted(np.cumsum(self.shares), rng.random())), len(self.nodes) - 1)])
