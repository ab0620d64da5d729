"""Base of the forms of the Gaussian family: each stands for one prior of mean and covariance, all hyperparameters numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nrmmix.model.families import parameter_laws as laws
from nrmmix.model.families.base import Observed, Parameter, numbers
from nrmmix.model.families.form import Form
from nrmmix.model.priors.hyperpriors import Gamma

MAX_CORRELATED = 30  # responses whose correlations are parameters; of more there are too many to be read
KNOWN = 1e300  # r of a known mean: r_n / (r_n + 1) is 1, and means stay where they are


@dataclass(frozen=True)
class ConjugatePrior(Form):
    """Base of the forms; coordinates of the kernels are (x_j - centre_j) / spread_j unless a form says otherwise.  There are no inputs."""

    centre: np.ndarray  # (d,) prior or known mean
    spread: np.ndarray  # (d,)
    names: tuple[str, ...]
    incomplete: bool  # cells of the data are missing
    r: float  # prior weight of the centre, in observations; KNOWN where the mean is known

    @property
    def dim(self) -> int:
        return len(self.centre)

    def coordinates(self, x: Any) -> np.ndarray:
        return np.ascontiguousarray((np.asarray(x, float) - self.centre) / self.spread)

    def means(self, values: np.ndarray) -> np.ndarray:
        """Kernel coordinates (..., d) in the units of the responses."""
        return values * self.spread + self.centre

    def observe(self, y: Any) -> Observed:
        return Observed(self.coordinates(y))

    @property
    def mean_in_words(self) -> str:
        return f"mu = {numbers(self.centre)}" if self.r == KNOWN else f"m = {numbers(self.centre)}, r = {self.r:g}"


def shapes(laws: Sequence[Gamma]) -> np.ndarray:
    """Shapes of the laws of scales; over their means they have rates of the same size."""
    return np.array([law.shape for law in laws], float)


def described(laws: Sequence[Gamma]) -> str:
    """The laws of scales in a line."""
    shape = numbers(shapes(laws)) if len({law.shape for law in laws}) > 1 else f"{laws[0].shape:g}"
    means = numbers(np.array([law.mean for law in laws])) if len(laws) > 1 else f"{laws[0].mean:.5g}"
    return f"~ Gamma of shape {shape}, mean {means}, the same in all components"


def means_and_sds(names: Sequence[str], *columns: np.ndarray) -> list[Parameter]:
    """Mean and standard deviation of each response, from what `_mean_and_sd` takes, (k, d), or (k,) where it is that of all responses."""
    of_each = ([own[:, j] if own.ndim > 1 else own for own in columns] for j in range(len(names)))
    return [parameter for name, own in zip(names, of_each, strict=True) for parameter in _mean_and_sd(name, *own)]


def correlations(names: Sequence[str], df: np.ndarray, share: Callable[[int, int], np.ndarray]) -> list[Parameter]:
    """Correlations of all pairs of responses, details of a summary; `share` of two responses is that of Psi_n."""
    pairs = [(i, j) for j in range(len(names) if len(names) <= MAX_CORRELATED else 0) for i in range(j)]
    return [laws.correlation_parameter((names[i], names[j]), df + 1.0, share(i, j), is_detail=True) for i, j in pairs]


def _mean_and_sd(name: str, centre: np.ndarray, square: np.ndarray, df: np.ndarray, r_n: np.ndarray) -> list[Parameter]:
    """Mean and standard deviation of a response; its variance is inverse gamma(df / 2, square / 2), its mean has precision r_n / variance.

    Moments that do not exist are NaN; a mean that is known is left out.
    """
    sd = laws.sd_parameter(name, df, square)
    if r_n.min() >= KNOWN:
        return [sd]
    with np.errstate(divide="ignore", invalid="ignore"):
        of_mean = np.where(df > 2, np.sqrt(square / (r_n * (df - 2))), np.nan)
    law = laws.student_t(centre, np.sqrt(square / (r_n * df)), df)
    return [Parameter(f"mean {name}", np.where(df > 1, centre, np.nan), of_mean, law), sd]
