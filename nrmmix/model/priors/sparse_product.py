"""Covariate kernels of which each atom uses some covariates: sparse products, whose codes are part of the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from nrmmix.common import machine
from nrmmix.common.messages import count, did_you_mean, listed
from nrmmix.common.registry import plugin
from nrmmix.model.frame.quantiles import Counted
from nrmmix.model.priors.covariate_kernels import CovariateKernel, CovariateWidth, Matching, Product, SquaredExponential
from nrmmix.model.priors.grid import Grid, Scales, grouped
from nrmmix.model.priors.hyperpriors import Beta, fixed, hyperparameter
from nrmmix.model.priors.widths import PerAtom, positive_numbers

FLOOR = -80.0  # of the log kernel of one covariate
USED = 1.5  # covariates that a slot uses, on average a priori
RHO = (0.001, 0.02, 0.2)  # of categories: what an atom of one level weighs at others
OF_TWO = (0.25, 0.5)  # widths in a covariate of two values
MAX_SLOTS = 4000
MAX_CODES = np.iinfo(np.int16).max  # as draws of them are kept


@plugin
class SparseProduct(CovariateKernel):
    """Every atom's kernel is a product over those covariates that it uses: K(x, p) = prod_j k_j(x_j, c_pj).

    Atoms are at so many slots.  A slot has for each covariate a code: 0, by which it does not depend on that covariate, or one of a list of
    places and widths.  Codes are part of the state of the chain: with probability omega_j, sampled too, a slot uses covariate j, and then
    each of its places and widths alike.  So an atom can be narrow in one covariate and blind to others, and what does not matter is left
    out.

    Parameters
    ----------
    kernels : dict, optional
        From names of covariates to their kernels, such as `nm.SquaredExponential()` or `nm.Matching(0.1)`, whose width is one number or
        `nm.PerAtom`.  Default for numbers the squared exponential, for categories `nm.Matching(nm.PerAtom((0.001, 0.02, 0.2)))`.
    slots : int, default 150
        Number of slots.
    places : int, default 11
        Places in each covariate of numbers, equally spaced from 0 to 1; of one with fewer values just those.
    widths : sequence of float, default (0.05, 0.1, 0.2, 0.4)
        Widths of numbers in their scaled units; a covariate of two values has 0.25 and 0.5.  A covariate is scaled half by its range and
        half by the ranks of the data, to [0, 1]; beyond the data it goes on at half the slope that its range gives.  Values far from all
        others, as `nrmmix.Gaussian` says, are within half of that range's share beyond 0 and 1, with a place of their own at either end.
    inclusion : float or Beta, optional
        Chance omega_j with which a slot uses a covariate, the same number for all, or its prior, independent for each.  Default
        Beta(1, max(q / 1.5 - 1, 1)) of q covariates: about 1.5 of them are used.

    Raises
    ------
    ValueError
        If slots < 2 or > 4000, places < 2, a width is not positive or there twice, a kernel is for no covariate, or its width is sampled
        or has weights; if a covariate has more than 32767 codes.

    Examples
    --------
    >>> print(SparseProduct(slots=100))
    SparseProduct(100 slots, 11 places, widths 0.05, 0.1, 0.2, 0.4)
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"sparse": {}}
    formula = "K(x, slot) = the product over the covariates that a slot uses"
    widths: tuple[float, ...]
    default_widths = (PerAtom((0.05, 0.1, 0.2, 0.4)), PerAtom((0.05, 0.1, 0.2, 0.4)))
    scale, shared_width, groups = "unit", False, None

    def __init__(
        self, kernels: Mapping[str, CovariateKernel] | None = None, *, slots: int = 150, places: int = 11,
        widths: Sequence[float] = (0.05, 0.1, 0.2, 0.4), inclusion: float | Beta | None = None,
    ) -> None:
        if kernels is not None and not isinstance(kernels, Mapping):
            raise ValueError(f"SparseProduct: kernels must be a dict from names of covariates to kernels, not {kernels!r}.")
        for name, kernel in (kernels or {}).items():
            if not isinstance(name, str):
                raise ValueError(f"SparseProduct: kernels has the key {name!r}; keys are names of covariates.")
            if not isinstance(kernel, CovariateKernel) or isinstance(kernel, (Product, SparseProduct)):
                raise ValueError(f"SparseProduct: the kernel of {name!r} must be one such as nm.SquaredExponential(), not {kernel!r}.")
            if not kernel.shared_width or not (kernel.width is None or isinstance(kernel.width, (float, PerAtom))):
                raise ValueError(
                    f"SparseProduct: the {kernel.width_name} in {name!r} is that of each slot; give a number or nm.PerAtom, not {kernel}."
                )
            if isinstance(kernel.width, PerAtom) and kernel.width.weights is not None:
                raise ValueError(f"SparseProduct: a slot has each of its widths alike; leave the weights of those in {name!r} out.")
            if kernel.width is None and kernel.scale is None:
                raise ValueError(f"SparseProduct: with scale=None the kernel of {name!r} needs a width, in the units of {name!r}.")
            if any(option is not None for option in (kernel.locations, kernel.weights, kernel.groups)):
                raise ValueError(f"SparseProduct: slots have places of their own; the kernel of {name!r} has locations or groups.")
        self.kernels = None if kernels is None else dict(kernels)
        self.slots, self.places = count("SparseProduct: slots", slots, 2), count("SparseProduct: places", places, 2)
        if self.slots > MAX_SLOTS:
            raise ValueError(f"SparseProduct: {slots} slots are more than {MAX_SLOTS}; give fewer.")
        self.widths = positive_numbers("SparseProduct: widths", widths)
        if len(set(self.widths)) < len(self.widths):
            raise ValueError(f"SparseProduct: widths has one of {', '.join(f'{w:g}' for w in self.widths)} twice; give each once.")
        self.inclusion = None if inclusion is None else hyperparameter("SparseProduct: inclusion", inclusion, (Beta,), below=1.0)

    @property
    def width(self) -> None:
        """None: widths are those of the slots."""
        return

    def resolved(self, n_covariates: int) -> SparseProduct:
        return self

    def by_covariate(self, names: Sequence[str], category: np.ndarray) -> tuple[CovariateWidth, ...]:
        """None: no covariate has a width that all atoms share.  A ValueError if a kernel is for no covariate, or one of the wrong sort."""
        for name in self.kernels or {}:
            if name not in names:
                raise ValueError(f"SparseProduct: there is no covariate {name!r}, but {listed(names)}{did_you_mean(name, names)}")
        for name, is_category in zip(names, category, strict=True):
            if (kernel := (self.kernels or {}).get(name)) is None or kernel.of_categories == is_category:
                continue
            holds, other = ("categories", "nm.Matching(0.1)") if is_category else ("numbers", "nm.SquaredExponential()")
            raise ValueError(f"SparseProduct: the covariate {name!r} holds {holds}; its kernel must be one such as {other}, not {kernel}.")
        return ()

    def kernel_of(self, name: str, is_category: bool, has_two_values: bool) -> CovariateKernel:
        """The kernel of one covariate, with its widths."""
        kernel = (self.kernels or {}).get(name)
        if kernel is None and is_category:
            return Matching(PerAtom(RHO))
        if kernel is None or kernel.width is None:
            return SquaredExponential(PerAtom(OF_TWO if has_two_values else self.widths))
        return kernel

    def grid(
        self, x: np.ndarray, names: Sequence[str], category: np.ndarray | None = None, counted: Sequence[Counted] | None = None,
        weight: np.ndarray | None = None,
    ) -> SlotGrid:
        """Groups and tables of codes, from what `CovariateKernel.grid` takes; a ValueError if a covariate has too many codes."""
        q = x.shape[1]
        category = np.zeros(q, bool) if category is None else category
        self.by_covariate(names, category)
        unit = np.ones(q, bool)
        scales = Scales.of(x, category, unit, weight) if counted is None else Scales.of_counted(counted, category, unit)
        counted = [Counted.of(column, weight) for column in x.T] if counted is None else counted
        values, group, _ = grouped(x, scales, None)
        tables = tuple(
            CodeTable.of(own, self.kernel_of(name, is_category, len(own.values) == 2), bool(is_category), self.places, ends)
            for own, name, is_category, ends in zip(counted, names, category, scales.ends.T, strict=True)
        )
        for name, table in zip(names, tables, strict=True):
            if table.n_codes > MAX_CODES:
                raise ValueError(
                    f"SparseProduct: places and widths in {name!r} make {table.n_codes} codes, more than {MAX_CODES}; give fewer."
                )
        P, used = self.slots, sum(table.n_codes > 0 for table in tables)
        given = self.inclusion
        prior = Beta(1.0, max(used / USED - 1.0, 1.0)) if given is None else given if isinstance(given, Beta) else fixed(given)
        typical = np.array([table.typical_width for table in tables])
        return SlotGrid(
            values, group, np.full((P, q), np.nan), np.full(P, 1.0 / P), np.tile(typical, (P, 1)), np.ones((P, q)), scales, False,
            np.empty((q, 0, P)), tables, prior,
        )

    def __str__(self) -> str:
        own = "".join(f", {name}: {kernel}" for name, kernel in (self.kernels or {}).items())
        chance = "" if self.inclusion is None else f", inclusion {self.inclusion}"
        return f"SparseProduct({self.slots} slots, {self.places} places, widths {', '.join(f'{w:g}' for w in self.widths)}{own}{chance})"


@dataclass(frozen=True)
class CodeTable:
    """The codes of one covariate: places and widths, and how values are measured."""

    kernel: CovariateKernel
    is_category: bool
    knots: np.ndarray  # (2, values): distinct values of the data, in order, and where they are on the scale from 0 to 1
    place: np.ndarray  # (N,)
    width: np.ndarray  # (N,)

    @classmethod
    def of(cls, counted: Counted, kernel: CovariateKernel, is_category: bool, places: int, ends: np.ndarray) -> CodeTable:
        """Make the table for values of the data; `ends` (2,) are the smallest and largest apart from those far from all others."""
        values, size = counted
        widths = np.array(kernel.width.values if isinstance(kernel.width, PerAtom) else [kernel.width])
        if is_category:
            knots, at = np.stack([values, values]), values
        else:
            scaled = values
            if kernel.scale == "unit" and len(values) > 1:
                rank = np.cumsum(size) - 0.5 * size
                by_range = np.clip((values - ends[0]) / (ends[1] - ends[0]), -1.0, 2.0)  # what is far from all others, by a range more
                scaled = 0.5 * (rank - rank[0]) / (rank[-1] - rank[0]) + 0.5 * by_range
            knots, at = np.stack([values, scaled]), scaled
            if len(values) > places:
                usual = scaled[(values >= ends[0]) & (values <= ends[1])]
                at = np.linspace(usual[0], usual[-1], places)
                at = np.r_[scaled[:1][values[:1] < ends[0]], at, scaled[-1:][values[-1:] > ends[1]]]
        if len(values) == 1:  # it cannot matter
            at = at[:0]
        return cls(kernel, is_category, knots, np.tile(at, len(widths)), np.repeat(widths, len(at)))

    @property
    def n_codes(self) -> int:
        return len(self.place)

    @property
    def typical_width(self) -> float:
        """Typical width in units of the range."""
        return float(np.exp(np.log(self.width).mean())) if self.n_codes and not self.is_category else 1.0

    def measured(self, x: np.ndarray) -> np.ndarray:
        """Values on the scale from 0 to 1; beyond the data they go on at half the slope that the range has."""
        if self.is_category or self.kernel.scale != "unit" or self.knots.shape[1] < 2:
            return x
        (low, *_, high), span = self.knots[0], np.ptp(self.knots[0])
        return np.interp(x, *self.knots) + 0.5 * (np.minimum(x - low, 0.0) + np.maximum(x - high, 0.0)) / span

    def log_K(self, x: np.ndarray) -> np.ndarray:
        """(1 + N, m): log kernels of the codes at values (m,), that of code 0 first."""
        return self.log_K_at(self.measured(x))

    def log_K_at(self, u: np.ndarray) -> np.ndarray:
        """Return log K at places (m,) on the scale from 0 to 1."""
        out, distance = np.zeros((1 + self.n_codes, len(u))), np.empty((1, len(u), 1))
        for c, (place, width) in enumerate(zip(self.place, self.width, strict=True), 1):
            distance[0, :, 0] = u != place if self.is_category else np.abs(u - place)
            out[c] = np.maximum(self.kernel.log_kernel(distance, [width])[:, 0], FLOOR)
        return out


@dataclass(frozen=True)
class SlotGrid(Grid):
    """Covariates as kernels read them where atoms are at slots: tables of codes in place of distances, which are none, (q, 0, P)."""

    tables: tuple[CodeTable, ...]
    prior: float | Beta  # of the chance that a slot uses a covariate

    def distances(self, x: np.ndarray) -> np.ndarray:
        """(q, 1 + N, m): log kernels of all codes at rows x (m, q), which take the place of distances; 0 beyond a covariate's codes."""
        out = np.zeros((len(self.tables), 1 + int(self.n_codes.max()), len(x)))
        for j, table in enumerate(self.tables):
            out[j, : 1 + table.n_codes] = table.log_K(x[:, j])
        return out

    @staticmethod
    def log_K_of(tables: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """log K (m, P) of slots with codes (P, q), from log kernels of all codes (q, 1 + N, m)."""
        out = np.zeros((len(codes), tables.shape[2]))
        for j in range(len(tables)):
            used = np.flatnonzero(codes[:, j])
            out[used] += tables[j, codes[used, j]]
        return np.ascontiguousarray(out.T)

    @cached_property
    def code_log_K(self) -> np.ndarray:
        """Return log K of codes at all groups, for chains alone.  A ValueError where there is no room for it."""
        size = 16.0 * len(self.values) * (len(self.tables) * (1 + int(self.n_codes.max())) + 2 * len(self.weights))
        if size > machine.available() / 2:
            raise ValueError(
                f"SparseProduct: kernels of {len(self.values)} values of {len(self.tables)} covariates would take {machine.text(size)}, "
                f"and there is room for {machine.text(machine.available() / 2)}; give fewer places, widths or slots."
            )
        return self.distances(self.values)

    @cached_property
    def code_K(self) -> np.ndarray:
        return np.exp(self.code_log_K)

    @cached_property
    def n_codes(self) -> np.ndarray:
        """(q,): codes of each covariate beside 0."""
        return np.array([table.n_codes for table in self.tables], np.int64)

    @property
    def n_tried(self) -> int:
        """Room for all codes of a covariate, and for a number of each covariate."""
        return max(2 + int(self.n_codes.max()), len(self.n_codes))

    @property
    def inclusion_prior(self) -> np.ndarray:
        """(q, 2): parameters of the beta prior, 0 where the chance is fixed."""
        row = (self.prior.a, self.prior.b) if isinstance(self.prior, Beta) else (0.0, 0.0)
        return np.tile(np.array(row), (len(self.tables), 1))

    def start_inclusion(self) -> np.ndarray:
        mean = self.prior.a / (self.prior.a + self.prior.b) if isinstance(self.prior, Beta) else self.prior
        return np.where(self.n_codes > 0, mean, 0.0)

    def draw_inclusion(self, rng: np.random.Generator) -> np.ndarray:
        """(q,) chances from their prior."""
        if not isinstance(self.prior, Beta):
            return self.start_inclusion()
        return np.where(self.n_codes > 0, rng.beta(self.prior.a, self.prior.b, len(self.n_codes)), 0.0)

    def draw_codes(self, inclusion: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(P, q) codes of all slots from their prior."""
        shape = len(self.weights), len(self.n_codes)
        return np.where(rng.random(shape) < inclusion, 1 + (rng.random(shape) * self.n_codes).astype(np.int64), 0)
