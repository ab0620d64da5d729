"""Covariate kernels: how far an atom's weight reaches from its location."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from nrmmix.common import machine
from nrmmix.common.messages import count, did_you_mean, guided, listed, one_of
from nrmmix.common.names import meant
from nrmmix.common.registry import plugin
from nrmmix.kernels.core import covariates as compiled
from nrmmix.kernels.core.entry import Entry
from nrmmix.model.frame.arrays import reals
from nrmmix.model.frame.quantiles import Counted
from nrmmix.model.priors.grid import Grid, Scales, counted_groups, grouped, own_places, places_of
from nrmmix.model.priors.hyperpriors import Beta, Gamma, LogNormal, hyperparameter
from nrmmix.model.priors.widths import PerAtom, Width, candidates, described, positive_numbers

MIN_WIDTH = 1e-100  # squares of distances by it are numbers
MAX_LOCATIONS = 200  # of atoms that share their width
ONE_COVARIATE, SEVERAL_COVARIATES = 40, 50  # places of atoms with widths of their own
MAX_PAIRS = 4000  # of places and widths
GROUPS = 1000  # of rows that are not in memory
MAX_DISTANCES = 2**32  # bytes of distances, of which three copies are needed for a moment
WAYS = ("unique", "spaced", "quantiles", "farthest")


class CovariateWidth(NamedTuple):
    """The kernel of one covariate, and its width."""

    kernel: CovariateKernel
    width: Width


class CovariateKernel:
    """Base of the covariate kernels; see `SquaredExponential`, `Box` and `Product`.

    A class of one's own gives `entry`, an entry point for log K, and `formula`, how it is printed.
    """

    role: ClassVar[str] = "kernel"
    entry: ClassVar[Entry]
    formula: ClassVar[str]
    of_categories: ClassVar[bool] = False
    width_name: ClassVar[str] = "width"
    unit_width: ClassVar[float] = 1.0  # the width at which distances are measured where atoms have widths of their own
    default_widths: ClassVar[tuple[PerAtom, PerAtom] | None] = None  # in one covariate, and in several
    kernels: dict[str, CovariateKernel] | None = None  # of some covariates, by their names

    @guided
    def __init__(
        self, width: Any = None, *, locations: Any = None, weights: Any = None, scale: str | None = "unit", groups: int | None = None
    ) -> None:
        name = type(self).__name__
        if width is None and self.default_widths is None:
            units = "" if self.of_categories else "; covariates are scaled to [0, 1] unless scale=None"
            raise ValueError(f"{name}: {self.width_name} is needed, a number or a distribution{units}.")
        width = width.tolist() if isinstance(width, np.ndarray) else width
        self.shared_width = not isinstance(width, Sequence) or isinstance(width, str)
        widths = (width,) if self.shared_width else tuple(width)
        if not widths:
            raise ValueError(f"{name}: width is empty; give one width, or one for each covariate.")
        self.widths = tuple(None if w is None else self._checked(w) for w in widths)
        if not self.shared_width and None in self.widths:
            raise ValueError(f"{name}: one of the widths is None; give a number, a distribution or nm.PerAtom for each covariate.")
        self.scale = scale
        if not (scale is None or (isinstance(scale, str) and scale == "unit")):
            raise ValueError(f'{name}: scale must be "unit" or None, not {scale!r}.')
        self._set_places(locations, weights, groups)

    def _checked(self, width: Any) -> Width:
        name = f"{type(self).__name__}: width"
        if isinstance(width, PerAtom):
            if min(width.values) <= MIN_WIDTH:
                raise ValueError(f"{name} must be above {MIN_WIDTH:g}, and the smallest of {width} is {min(width.values):g}.")
            return width
        return hyperparameter(name, width, (LogNormal, Gamma, Beta), above=MIN_WIDTH)

    def _set_places(self, locations: Any, weights: Any, groups: int | None) -> None:
        """Check the options of where atoms can be and how observations are grouped."""
        name = type(self).__name__
        self.locations = locations
        if isinstance(locations, str):
            one_of(f"{name}: locations", locations, WAYS)
        elif isinstance(locations, (tuple, list)) and len(locations) == 2 and isinstance(locations[0], str):
            one_of(f"{name}: locations[0]", locations[0], WAYS)
            self.locations = (locations[0], count(f"{name}: locations[1]", locations[1], 1))
        elif locations is not None:
            self.locations = reals(locations, f"{name}: locations", booleans=True)
        self.weights = None if weights is None else np.array(positive_numbers(f"{name}: weights", weights))
        if weights is not None and not isinstance(self.locations, np.ndarray):
            raise ValueError(f"{name}: weights belong to locations that you give; give locations= as an array too.")
        self.groups = None if groups is None else count(f"{name}: groups", groups, 2)

    @property
    def width(self) -> Width | list[Width] | None:
        """One width for all covariates, or a list of one for each; None for the default, which depends on the number of covariates."""
        return self.widths[0] if self.shared_width else [width for width in self.widths if width is not None]

    def named(self, names: Sequence[str]) -> CovariateKernel:
        """The kernel, whose parts of their own are called by the names of the covariates, however they were written."""
        if kernels := self.kernels:
            self = copy(self)
            self.kernels = {meant(name, names) or name: kernel for name, kernel in kernels.items()}
        return self

    def resolved(self, n_covariates: int) -> CovariateKernel:
        """The kernel with its default width, which depends on the number of covariates."""
        if self.shared_width and self.widths[0] is None:
            self = copy(self)
            assert self.default_widths is not None  # or a width was asked for
            self.widths = (self.default_widths[n_covariates > 1],)
        return self

    def by_covariate(self, names: Sequence[str], category: np.ndarray) -> tuple[CovariateWidth, ...]:
        """The kernel and width of each covariate; a ValueError where widths are not as many, or a covariate is of the wrong sort."""
        own = type(self).__name__
        self = self.resolved(len(names))
        if not self.shared_width and len(self.widths) != len(names):
            raise ValueError(
                f"{own}: {len(self.widths)} widths for {len(names)} covariates ({', '.join(names)}); give one width, or one for each."
            )
        for name, is_category in zip(names, category, strict=True):
            if is_category and not self.of_categories:
                raise ValueError(
                    f"{own} measures distances of numbers, and the covariate {name!r} holds categories; "
                    f"give them a kernel of their own, nm.Product({{{name!r}: nm.Matching(0.1), ...}})."
                )
            if self.of_categories and not is_category:
                raise ValueError(
                    f"{own} compares categories, and the covariate {name!r} holds numbers; give it another kernel, "
                    f"nm.Product({{{name!r}: nm.SquaredExponential(), ...}}), or make it a category."
                )
        widths = self.widths * len(names) if self.shared_width else self.widths
        return tuple(CovariateWidth(self, width) for width in cast(tuple[Width, ...], widths))  # resolved: none is None

    def grid(
        self, x: np.ndarray, names: Sequence[str], category: np.ndarray | None = None, counted: Sequence[Counted] | None = None,
        weight: np.ndarray | None = None,
    ) -> Grid:
        """Groups, locations and distances for covariates x (n, q), of which those are categories that `category` (q,) says.

        Where the rows are some of many that are not in memory, `counted` has the values of each covariate; `weight` (n,) says how often
        each counts.  A ValueError where locations have the wrong shape or are not finite, or widths do not suit the covariates, and where
        `counted` is of several covariates, whose groups are rows of them.
        """
        own, q = type(self).__name__, x.shape[1]
        category = np.zeros(q, bool) if category is None else category
        parts = self.by_covariate(names, category)
        per_atom = [isinstance(part.width, PerAtom) for part in parts]
        for name, part in zip(names, parts, strict=True):
            if any(per_atom) and not isinstance(part.width, (PerAtom, float)):
                raise ValueError(
                    f"{own}: the width in {name!r} is sampled, {part.width}, and others are per atom; "
                    "fix it by a number, or give it nm.PerAtom too."
                )
        unit = np.array([part.kernel.scale == "unit" for part in parts])
        if counted is None:
            scales = Scales.of(x, category, unit, weight)
            values, group, binned = grouped(x, scales, self.groups, weight)
            distinct = np.unique(x, axis=0) if binned else values
        else:
            if q > 1:
                raise ValueError(
                    f"{own} of several covariates goes by their distinct rows, not in memory; take nm.SparseProduct(), the default."
                )
            distinct = counted[0].values[:, None]
            scales = Scales.of_counted(counted, category, unit)
            values, group, binned = counted_groups(counted[0], x, scales, GROUPS if self.groups is None else self.groups)
        if isinstance(self.locations, np.ndarray):
            places, weights = own_places(self.locations, self.weights, distinct, category, names, own)
        else:
            places = places_of(distinct, scales, *self._rule(q, any(per_atom), bool(category.any())))
            weights = np.full(len(places), 1.0 / len(places))
        widths, chances = self._candidates([part.width for part in parts if isinstance(part.width, PerAtom)])
        if len(places) * len(widths) > MAX_PAIRS:
            raise ValueError(
                f"{own}: {len(places)} locations times {len(widths)} widths are {len(places) * len(widths)} places for atoms, "
                f"more than {MAX_PAIRS}; give fewer widths, or fewer locations, such as locations=('farthest', 50)."
            )
        size, room = 8.0 * q * len(values) * len(places) * len(widths), min(MAX_DISTANCES, machine.available() / 3)
        if size > room:
            raise ValueError(
                f"{own}: distances of {len(values)} values of {q} covariates from {len(places)} locations in {len(widths)} widths would "
                f"take {machine.text(size)}, and there is room for {machine.text(room)}; give fewer covariates, bins of their values, "
                "such as groups=500, or fewer locations."
            )
        width = np.full((len(widths), q), np.nan)
        width[:, per_atom] = widths
        width = np.tile(width, (len(places), 1))  # the widths of a place stand together: a band of places is a band of columns
        factor = np.stack([part.kernel.relative(width[:, j]) for j, part in enumerate(parts)], axis=1)
        weights = np.outer(weights / weights.sum(), chances).ravel()
        grid = Grid(values, group, np.repeat(places, len(widths), axis=0), weights, width, factor, scales, binned, np.empty((q, 0, 0)))
        object.__setattr__(grid, "distance", grid.distances(values))
        return grid

    def _candidates(self, own: Sequence[PerAtom]) -> tuple[np.ndarray, np.ndarray]:
        """Combinations (W, covariates) of the widths of atoms, and their probabilities (W,)."""
        widths, chances = candidates(own[:1] if self.shared_width else own)
        return np.repeat(widths, len(own), axis=1) if self.shared_width and own else widths, chances

    def _rule(self, q: int, per_atom: bool, categories: bool) -> tuple[str, int]:
        """Return how to choose the places of atoms, and at most how many."""
        simple = q == 1 and not categories
        most = MAX_LOCATIONS if not per_atom else ONE_COVARIATE if q == 1 else SEVERAL_COVARIATES
        if self.locations is None:
            return ("spaced" if per_atom and simple else "unique"), most
        rule, most = (self.locations, most) if isinstance(self.locations, str) else self.locations
        if rule == "spaced" and not simple:
            raise ValueError(
                f"{type(self).__name__}: locations are spaced equally in one covariate of numbers; give 'farthest' or 'quantiles'."
            )
        return rule, most

    def log_kernel(self, distance: np.ndarray, width: Any) -> np.ndarray:
        """log K (m, P) from distances (q, m, P) at widths (q,), a product over these covariates."""
        from nrmmix.kernels.chain import covariate_matrix

        out = np.empty(distance.shape[1:])
        covariate_matrix(self.entry.address, np.ascontiguousarray(distance), np.asarray(width, float), out)
        return out

    def relative(self, width: np.ndarray) -> np.ndarray:
        """Return the factor of distances so that the kernel of width `unit_width` has these widths; 1 for NaN."""
        return np.where(np.isnan(width), 1.0, 1.0 / width)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._described()})"

    def _described(self) -> str:
        if self.shared_width:
            width = self.widths[0]
            return "" if width is None else f"{self.width_name} {described(width)}"
        return f"{self.width_name}s: {', '.join(f'{w:g}' if isinstance(w, float) else str(w) for w in self.widths)}"

    def __repr__(self) -> str:
        return str(self)


@plugin
class SquaredExponential(CovariateKernel):
    """K(x, mu) = exp(-d^2 / (2 width^2)), a product over covariates.

    Parameters
    ----------
    width : float, LogNormal, Gamma, Beta or PerAtom, or a sequence of them, optional
        Standard deviation of the kernel in units of the scaled covariate.  `PerAtom` gives every atom a width of its own, a number fixes
        one width for all, a distribution has that sampled; a sequence gives one to each covariate.  Default
        `PerAtom((0.02, 0.04, 0.08, 0.16))`, with several covariates `PerAtom((0.05, 0.1, 0.2, 0.5))`.  The psi = 200 of Foti & Williamson
        (2012), who write exp(-psi d^2), is 0.05.  A sampled width mixes badly: its autocorrelation times are of the order of a thousand
        sweeps on the motorcycle data.
    locations : array_like, (P,) or (P, q), or str, or (str, int), optional
        Candidate locations of the atoms in the data's units, or how to choose them, and at most how many: "unique" covariate rows,
        "spaced" equally in one covariate, bins at "quantiles", or rows each "farthest" from those before it.  Default the distinct rows,
        or 200 of them spread out; with widths per atom 40 spaced equally in one covariate, and 50 of the rows, spread out, in several.
        More rows than asked for in several covariates are thinned by "farthest" throughout.
    weights : array_like, (P,), optional
        Prior weights of the locations given as an array; default all alike.
    scale : "unit" or None, default "unit"
        Scale each covariate to [0, 1] by the training data, or leave its units.  Values far from all others, as `nrmmix.Gaussian` says,
        lie beyond 0 and 1 and have places of their own.
    groups : int, optional
        Where there are more distinct covariate rows, the model takes the rows of a bin for equal: so many bins, at quantiles.  Default
        none: every row is itself; of rows that are not in memory 1000.

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
    default_widths = (PerAtom((0.02, 0.04, 0.08, 0.16)), PerAtom((0.05, 0.1, 0.2, 0.5)))


@plugin
class Laplace(CovariateKernel):
    """K(x, mu) = exp(-d / width), a product over covariates.

    Parameters
    ----------
    width, locations, weights, scale, groups
        See `SquaredExponential`.

    Raises
    ------
    ValueError
        If a width is not positive, or another argument is out of range.

    Examples
    --------
    >>> print(Laplace(0.1))
    Laplace(width = 0.1)
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"laplace": {}}
    entry = compiled.laplace
    formula = "K(x, mu) = exp(-d / width)"


@plugin
class Box(CovariateKernel):
    """K(x, mu) = 1 where the distance is less than the width, else 0; every covariate must be within its width.

    Parameters
    ----------
    width : float, LogNormal, Gamma, Beta or PerAtom, or a sequence of them
        Half width of the box in units of the scaled covariate; see `SquaredExponential`.
    locations, weights, scale, groups
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


@plugin
class Epanechnikov(CovariateKernel):
    """K(x, mu) = 1 - d^2 / width^2 where the distance is less than the width, else 0; a product over covariates.

    Parameters
    ----------
    width, locations, weights, scale, groups
        See `SquaredExponential`.

    Raises
    ------
    ValueError
        If a width is not positive, or another argument is out of range.

    Examples
    --------
    >>> print(Epanechnikov(0.2))
    Epanechnikov(width = 0.2)
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"epanechnikov": {}}
    entry = compiled.epanechnikov
    formula = "K(x, mu) = max(0, 1 - d^2 / width^2)"


@plugin
class Triangular(CovariateKernel):
    """K(x, mu) = 1 - d / width where the distance is less than the width, else 0; a product over covariates.

    Parameters
    ----------
    width, locations, weights, scale, groups
        See `SquaredExponential`.

    Raises
    ------
    ValueError
        If a width is not positive, or another argument is out of range.

    Examples
    --------
    >>> print(Triangular(0.2))
    Triangular(width = 0.2)
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"triangular": {}}
    entry = compiled.triangular
    formula = "K(x, mu) = max(0, 1 - d / width)"


@plugin
class Matching(CovariateKernel):
    """K(x, mu) = 1 in the same category and rho in another, a product over covariates, all of which hold categories.

    Parameters
    ----------
    rho : float, Beta or PerAtom, or a sequence of them
        How much of an atom's weight other categories than its own see, between 0 and 1.
    locations, weights, groups
        See `SquaredExponential`; a category is given by the number of its level.

    Raises
    ------
    ValueError
        If rho is not between 0 and 1, or another argument is out of range.

    Examples
    --------
    >>> print(Matching(0.1))
    Matching(rho = 0.1)
    """

    entry = compiled.matching
    formula = "K(x, mu) = 1 if x = mu else rho"
    of_categories = True
    width_name = "rho"
    unit_width = math.exp(-1.0)

    def __init__(self, rho: Any = None, *, locations: Any = None, weights: Any = None, groups: int | None = None) -> None:
        super().__init__(rho, locations=locations, weights=weights, groups=groups)

    @property
    def rho(self) -> Width | list[Width] | None:
        return self.width

    def _checked(self, width: Any) -> Width:
        if isinstance(width, PerAtom):
            if max(width.values) > 1:
                raise ValueError(f"Matching: rho is a number between 0 and 1, and {width} has larger ones.")
            return width
        return hyperparameter("Matching: rho", width, (Beta,), below=1.0)

    def relative(self, width: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(width), 1.0, -np.log(width))


@plugin
class Product(CovariateKernel):
    """A kernel for each covariate, each with its own width; K is their product.

    Parameters
    ----------
    kernels : dict
        From the names of the covariates, as the formula has them, to their kernels.  Those whose widths are equal `PerAtom` share the width
        of an atom; different ones are combined, each with each.
    locations, weights, groups
        See `SquaredExponential`; those of the kernels themselves must be left out.

    Raises
    ------
    ValueError
        If it is no dict of kernels, one of them has locations or groups of its own, or a name is not that of a covariate.

    Examples
    --------
    >>> print(Product({"t": SquaredExponential(0.1), "group": Matching(0.1)}))
    Product({t: SquaredExponential(width = 0.1), group: Matching(rho = 0.1)})
    """

    formula = "K the product over the covariates"
    kernels: dict[str, CovariateKernel]

    def __init__(
        self, kernels: Mapping[str, CovariateKernel], *, locations: Any = None, weights: Any = None, groups: int | None = None
    ) -> None:
        if not isinstance(kernels, Mapping) or not kernels:
            raise ValueError(f"Product: kernels must be a dict from names of covariates to kernels, not {kernels!r}.")
        for name, kernel in kernels.items():
            if not isinstance(kernel, CovariateKernel) or isinstance(kernel, Product):
                raise ValueError(f"Product: the kernel of {name!r} must be one such as nm.SquaredExponential(), not {kernel!r}.")
            if not kernel.shared_width:
                raise ValueError(f"Product: the kernel of {name!r} is of one covariate; give it one {kernel.width_name}.")
            if any(option is not None for option in (kernel.locations, kernel.weights, kernel.groups)):
                raise ValueError(f"Product: locations, weights and groups are those of the product; the kernel of {name!r} has its own.")
        self.kernels, self.shared_width = dict(kernels), False
        numeric = [kernel for kernel in kernels.values() if not kernel.of_categories]
        self.scale = "unit" if any(kernel.scale == "unit" for kernel in numeric) else None  # None where all leave the units
        self._set_places(locations, weights, groups)

    def resolved(self, n_covariates: int) -> Product:
        numeric = sum(not kernel.of_categories for kernel in self.kernels.values())
        kernels = {name: kernel.resolved(numeric) for name, kernel in self.kernels.items()}
        return Product(kernels, locations=self.locations, weights=self.weights, groups=self.groups)

    def by_covariate(self, names: Sequence[str], category: np.ndarray) -> tuple[CovariateWidth, ...]:
        for name in self.kernels:
            if name not in names:
                raise ValueError(f"Product: there is no covariate {name!r}, but {listed(names)}{did_you_mean(name, names)}")
        found: list[CovariateWidth] = []
        for name, is_category in zip(names, category, strict=True):
            if name not in self.kernels:
                raise ValueError(f"Product: the covariate {name!r} has no kernel; give one to each of {listed(names)}.")
            found += self.resolved(len(names)).kernels[name].by_covariate([name], np.array([is_category]))
        return tuple(found)

    def _candidates(self, own: Sequence[PerAtom]) -> tuple[np.ndarray, np.ndarray]:
        different = list(dict.fromkeys(own))
        widths, chances = candidates(different)
        return widths[:, [different.index(one) for one in own]], chances

    def __str__(self) -> str:
        return f"Product({{{', '.join(f'{name}: {kernel}' for name, kernel in self.kernels.items())}}})"
