"""Exponential forms of Gaussian families whose scale is sampled: point estimates of it, those best for all components together."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy.special import gammaln

from nrmmix.model.families.exponential.base import Exponential, best_logs
from nrmmix.model.families.exponential.gaussian import NormalGammaForm, NormalWishartForm, Wishart

BOUNDS = -27.6, 27.6  # of log c: as kernels that draw it


class LearntScale(Exponential):
    """Base of both forms: Psi_0 = diag(c), c_j ~ Gamma(a_j, rate a_j), c learnt.

    The bound then has the prior density of log c, and is one of the density of the data and c.
    """

    is_learnt = True
    shapes: np.ndarray  # (d,) a
    scale: np.ndarray  # (d,) c
    nu: float

    def set_scales(self, scale: np.ndarray) -> None:
        raise NotImplementedError

    def _precisions(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        """(K, d) E[Lambda_jj] given N and s."""
        raise NotImplementedError

    @property
    def log_prior(self) -> float:
        """Log prior of log c, with constants."""
        a = self.shapes
        return float((a * np.log(a * self.scale) - a * self.scale - gammaln(a)).sum())

    def learnt(self, N: np.ndarray, s: np.ndarray) -> Exponential:
        """The form with the scale that is best for such components, not worse than this one."""
        trial = copy(self)

        def descent(logs: np.ndarray) -> tuple[float, np.ndarray]:
            trial.set_scales(np.exp(logs))
            slope = 0.5 * (self.nu - trial.scale * trial._precisions(N, s)).sum(axis=0) + self.shapes * (1.0 - trial.scale)
            return -float(trial.log_z(N, s).sum() + trial.log_prior), -slope

        found = best_logs(descent, np.log(self.scale), [BOUNDS] * len(self.scale))
        return self if found is None else self.with_shared({"scale": np.exp(found)})

    @property
    def shared(self) -> dict[str, np.ndarray]:
        return {"scale": self.scale}

    def with_shared(self, values: dict[str, np.ndarray]) -> Exponential:
        made = copy(self)
        made.set_scales(values["scale"])
        return made


class LearntWishartForm(LearntScale, NormalWishartForm):
    def __init__(self, shapes: np.ndarray, r: float, nu: float, log_spread: float, known_mean: bool):
        NormalWishartForm.__init__(self, r, nu, np.eye(len(shapes)), log_spread, known_mean)
        self.shapes = shapes
        self.set_scales(np.ones(len(shapes)))

    def set_scales(self, scale: np.ndarray) -> None:
        self.scale, self.psi = scale, np.diag(scale)
        self.start = Wishart(np.array([self.nu]), self.psi[None]).log_normaliser()[0]

    def _precisions(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        return np.diagonal(Wishart(self.nu + N, self._posterior(N, s)[2]).mean(), axis1=1, axis2=2)


class LearntGammaForm(LearntScale, NormalGammaForm):
    def __init__(self, shapes: np.ndarray, *rest: Any):
        """`rest` as of `NormalGammaForm`."""
        NormalGammaForm.__init__(self, *rest)
        self.shapes = shapes
        self.set_scales(np.ones(len(shapes)))

    def set_scales(self, scale: np.ndarray) -> None:
        self.scale = self.psi = scale

    def _precisions(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        n, _, psi = self._posterior(N, s)
        return (self.nu + n) / psi
