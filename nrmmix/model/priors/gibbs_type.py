"""Gibbs-type priors of one's own."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from nrmmix.common.messages import number
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.measure.prior import seat_urn
from nrmmix.model.priors.measures import Urn
from nrmmix.model.priors.n_clusters import table_law


class GibbsType(Urn):
    """Base class of Gibbs-type priors (Gnedin & Pitman 2006) of one's own, for mixtures.

    Such a prior gives a partition of n observations into clusters of n_1, ..., n_K the probability

        V_n(K) prod_c (1 - sigma)(2 - sigma) ... (n_c - 1 - sigma),

    where V_n(k) = (n - sigma k) V_(n+1)(k) + V_(n+1)(k + 1) and V_1(1) = 1.  A class derived from this one gives a fixed sigma to
    `__init__` and has the method `log_v`; it may have `draw_weights`.  For fits that are saved see `nrmmix.register`.

    Parameters
    ----------
    sigma : float
        Less than 1, and possibly negative.

    Raises
    ------
    ValueError
        If sigma is no such number; by a model, where it has covariates or `log_v` is not the table it should be.

    Examples
    --------
    The Dirichlet process with mass 1, V_n(k) = 1 / n!:

    >>> class Antoniak(GibbsType):
    ...     def __init__(self):
    ...         super().__init__(sigma=0.0)
    ...     def log_v(self, n):
    ...         return np.full(n + 1, -math.lgamma(n + 1.0))
    >>> import nrmmix as nm
    >>> X = np.array([[0.0], [0.1], [3.0]])
    >>> family = nm.Gaussian(m=0, r=1, nu=3, scale=1)
    >>> round(nm.Model(data=X, prior=Antoniak(), family=family).log_joint([0, 0, 1]), 4)
    -7.3046
    """

    title: ClassVar[str] = "Gibbs-type prior"
    kind: ClassVar[int] = layout.GIBBS_TYPE
    has_random_measure: ClassVar[bool] = False
    parameters: ClassVar[tuple[str, ...]] = ()

    sigma: float

    def __init__(self, sigma: float) -> None:
        x = number(sigma)
        if not -math.inf < x < 1:
            raise ValueError(f"{type(self).__name__}: sigma must be a finite number less than 1, not {sigma!r}.")
        self.sigma = x

    def log_v(self, n: int) -> np.ndarray:
        """log V_n(k) for k = 1, ..., n at index k, (n + 1,); minus infinity where k clusters are impossible.  Index 0 is not read."""
        raise NotImplementedError(f"{type(self).__name__} needs the method log_v(n), log V_n(k) at index k = 1, ..., n.")

    def draw_weights(self, sizes: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any, float]:
        """A draw of the random weights given a partition: of its clusters (K,), of further atoms (M,), and of what is left.

        They need not sum to 1.  The last is a mass of so many light atoms that it is taken to be spread out as the family's prior is.
        Needed for what draws the random measure: bands of `predict`, and `simulate`.

        Parameters
        ----------
        sizes : ndarray of int, (K,)
        rng : Generator
        """
        raise ValueError(
            f"bands and replicates need draws of the random measure, and {type(self).__name__} has no method draw_weights(sizes, rng); "
            'log_density(), predict(newdata, kind="cluster"), partition() and similarity() do without.'
        )

    def kind_of(self, regression: bool) -> int:
        if regression:
            raise ValueError(
                f"{type(self).__name__} is a prior of partitions, for mixtures: write `response ~ 1`. With covariates there are "
                "nm.DirichletProcess, nm.NGGP, nm.PitmanYor, nm.NormalizedStable and nm.FiniteMixture."
            )
        return self.kind

    def law_of_n_clusters(self, n: int) -> np.ndarray:
        return table_law(n, self.sigma, self.table(n))

    def lower_bound_constant(self, n: int, mass: float, u: float, psi1: float) -> float:
        return float(self.table(n)[1])

    def seat_rows(self, n: int, masses: np.ndarray, sigmas: np.ndarray, generators: list[np.random.Generator]) -> list[np.ndarray]:
        """All partitions together: every row has a table of its own."""
        labels, sizes = np.zeros((len(generators), n), np.int64), np.zeros((len(generators), n))
        sizes[:, 0] = 1.0
        counts = [1] * len(generators)
        for m in range(1, n):
            after = self.table(m + 1)
            with np.errstate(invalid="ignore"):
                weight_of_new = np.nan_to_num(np.exp(np.diff(after)))  # nothing beyond the most clusters possible
            for d, rng in enumerate(generators):
                counts[d] = seat_urn(labels[d], sizes[d], m, m + 1, counts[d], self.sigma, weight_of_new, rng)
        return list(labels)

    def permits(self, mass: Any, sigma: Any) -> Any:
        return (mass == self.mass) & (sigma == self.sigma)

    def table(self, n: int) -> np.ndarray:
        """`log_v(n)`, checked; index 0 is minus infinity."""
        name = f"{type(self).__name__}.log_v({n})"
        values = np.array(self.log_v(n), dtype=float)
        if values.shape != (n + 1,):
            raise ValueError(f"{name} must have the shape ({n + 1},), log V_n(k) at index k, not {values.shape}.")
        values[0] = -math.inf
        possible = values[1:] > -math.inf
        if not possible[0] or np.isnan(values).any() or (values == math.inf).any() or (np.diff(possible.astype(int)) > 0).any():
            raise ValueError(f"{name} must be finite from k = 1 up to the most clusters possible, and minus infinity beyond.")
        return values

    def log_tables(self, n: int) -> np.ndarray:
        now, after = self.table(n), self.table(n + 1)
        k = np.arange(1, n + 1)
        both = np.logaddexp(np.log(n - self.sigma * k) + after[1:-1], after[2:])
        sound = now[1:] == both
        sound[~sound] = np.abs(now[1:][~sound] - both[~sound]) < 1e-6
        name = type(self).__name__
        if not sound.all():
            raise ValueError(
                f"{name}: log_v is no table of a Gibbs-type prior with sigma = {self.sigma:g}: V_n(k) must be "
                f"(n - sigma k) V_(n+1)(k) + V_(n+1)(k+1), which fails at n = {n}, k = {k[~sound][0]}."
            )
        if abs(self.table(1)[1]) > 1e-6:
            raise ValueError(f"{name}: log_v(1) must have 0 at index 1: one observation is one cluster.")
        out = np.full((2, n + 2), -math.inf)
        out[0, : n + 1], out[1] = now, after
        return out

    def __str__(self) -> str:
        return f"{type(self).__name__}(sigma = {self.sigma:g})"

    __repr__ = __str__
