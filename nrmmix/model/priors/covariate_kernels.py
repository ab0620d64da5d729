"""Covariate kernels: how far an atom's weight reaches from its location."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nrmmix.common.registry import plugin
from nrmmix.kernels.core import covariates as compiled
from nrmmix.kernels.core.entry import Entry
from nrmmix.model.frame.arrays import LARGEST, reals
from nrmmix.model.priors.grid import Grid, farthest_points
from nrmmix.model.priors.hyperpriors import Beta, Gamma, Hyperparameter, Hyperprior, LogNormal, describe, hyperparameter

MAX_LOCATIONS = 200


class CovariateKernel:
    """Base of the covariate kernels; see `SquaredExponential` and `Box`."""

    role: ClassVar[str] = "kernel"
    entry: ClassVar[Entry]
    formula: ClassVar[str]
    default_width: ClassVar[Hyperparameter | None] = None

    def __init__(self, width: Any = None, *, locations: Any = None, scale: str | None = "unit") -> None:
        name = type(self).__name__
        if width is None:
            if self.default_width is None:
                raise ValueError(f"{name}: width is needed, a number or a distribution; covariates are scaled to [0, 1] unless scale=None.")
            width = self.default_width
        width = width.tolist() if isinstance(width, np.ndarray) else width
        several = isinstance(width, Sequence) and not isinstance(width, str)
        widths = tuple(width) if several else (width,)
        if not widths:
            raise ValueError(f"{name}: width is empty; give one width, or one for each covariate.")
        self.widths = tuple(hyperparameter(f"{name}: width", w, (LogNormal, Gamma, Beta)) for w in widths)
        self.shared_width = not several
        if not (scale is None or (isinstance(scale, str) and scale == "unit")):
            raise ValueError(f'{name}: scale must be "unit" or None, not {scale!r}.')
        self.scale = scale
        self.locations = None if locations is None else reals(locations, f"{name}: locations")

    @property
    def width(self) -> Hyperparameter | list[Hyperparameter]:
        """One width for all covariates, or a list of one for each."""
        return self.widths[0] if self.shared_width else list(self.widths)

    def width_of(self, n_covariates: int, names: Sequence[str]) -> tuple[Hyperparameter, ...]:
        """One width for each covariate."""
        if self.shared_width:
            return self.widths * n_covariates
        if len(self.widths) != n_covariates:
            raise ValueError(
                f"{type(self).__name__}: {len(self.widths)} widths for {n_covariates} covariates ({', '.join(names)}); "
                "give one width, or one for each."
            )
        return self.widths

    def grid(self, x: np.ndarray, names: Sequence[str]) -> Grid:
        """Groups, locations and distances for covariates x (n, q).

        A ValueError if locations have the wrong shape or are not finite.
        """
        name = type(self).__name__
        values, group = np.unique(x, axis=0, return_inverse=True)
        q = x.shape[1]
        if self.scale == "unit":
            offset, span = values.min(axis=0), np.ptp(values, axis=0)
        else:
            offset, span = np.zeros(q), np.ones(q)
        span = np.where(span > 0, span, 1.0)
        if self.locations is None:
            locations = values
            if len(values) > MAX_LOCATIONS:
                locations = values[farthest_points((values - offset) / span, MAX_LOCATIONS)]
        else:
            locations = self.locations[:, None] if self.locations.ndim == 1 and q == 1 else self.locations
            if locations.ndim != 2 or locations.shape[1] != q or len(locations) == 0:
                raise ValueError(f"{name}: locations must have shape (P, {q}) with P >= 1, not {self.locations.shape}.")
            if not (np.abs(locations) <= LARGEST).all():  # NaN is not
                raise ValueError(f"{name}: locations must be finite, and not beyond {LARGEST:g}.")
            locations = np.unique(locations, axis=0)
        grid = Grid(values, group.reshape(-1).astype(np.int64), np.ascontiguousarray(locations), offset, span, np.empty((q, 0, 0)))
        object.__setattr__(grid, "distance", grid.distances(values))
        return grid

    def log_kernel(self, distance: np.ndarray, width: np.ndarray) -> np.ndarray:
        """log K (m, P) from distances (q, m, P) at widths (q,)."""
        from nrmmix.kernels.chain import covariate_matrix

        out = np.empty(distance.shape[1:])
        covariate_matrix(self.entry.address, distance, np.asarray(width, float), out)
        return out

    def __str__(self) -> str:
        if self.shared_width:
            return f"{type(self).__name__}({describe('width', self.widths[0])})"
        return f"{type(self).__name__}(widths: {', '.join(str(w) if isinstance(w, Hyperprior) else f'{w:g}' for w in self.widths)})"

    __repr__ = __str__


@plugin
class SquaredExponential(CovariateKernel):
    """K(x, mu) = exp(-d^2 / (2 width^2)), a product over covariates.

    Parameters
    ----------
    width : float, LogNormal, Gamma or Beta, or a sequence of them, optional
        Standard deviation of the kernel in units of the scaled covariate.  A number fixes it, a distribution has it sampled; a sequence
        gives one to each covariate.  Default 0.05, the psi = 200 of Foti & Williamson (2012), who write exp(-psi d^2).  A sampled width,
        `LogNormal(-3, 1)` for instance, takes several times as many draws.
    locations : array_like, (P,) or (P, q), optional
        Candidate locations of the atoms in the data's units; default the distinct covariate rows, or 200 of them spread out.
    scale : "unit" or None, default "unit"
        Scale each covariate to [0, 1] by the training data, or leave its units.

    Raises
    ------
    ValueError
        If a width is not positive, or another argument is out of range.

    Examples
    --------
    >>> print(SquaredExponential(0.05))
    SquaredExponential(width = 0.05)
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"se": {}}
    entry = compiled.squared_exponential
    formula = "K(x, mu) = exp(-d^2 / (2 width^2))"
    default_width = 0.05


@plugin
class Box(CovariateKernel):
    """K(x, mu) = 1 where the distance is less than the width, else 0; every covariate must be within its width.

    Parameters
    ----------
    width : float, LogNormal, Gamma or Beta, or a sequence of them
        Half width of the box in units of the scaled covariate; see `SquaredExponential`.
    locations, scale
        See `SquaredExponential`.

    Raises
    ------
    ValueError
        If a width is not positive, or another argument is out of range.

    Examples
    --------
    >>> print(Box(0.2))
    Box(width = 0.2)
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"box": {}}
    entry = compiled.box
    formula = "K(x, mu) = 1 if d < width else 0"
