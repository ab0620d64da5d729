"""Covariate kernels in tables: covariates in bins, and for each of them the log kernels of all codes that an atom may have there.

Of a sparse product a covariate's codes are its own, 0 where an atom does not depend on it; of any other kernel there is one table for all
covariates together, whose bins are the distinct rows of covariates and whose codes are the locations.  What a component says of its rows,
and they of it, then depends on sums over bins, and the number of codes costs nothing a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import betaln, digamma

from nrmmix.common import machine
from nrmmix.model.priors.grid import nearest
from nrmmix.model.priors.hyperpriors import Beta, fixed
from nrmmix.model.priors.sparse_product import FLOOR, CodeTable, SlotGrid

BINS = 128  # of a covariate of numbers, where it has more values
MIN_CHANCE = 1e-12  # of a chance, and of its complement
OF_HALF, NARROWEST = 0.6, 0.03  # width of a kernel for an interval, as a share of half its length, and at least


@dataclass(frozen=True)
class Binned:
    """Tables of q covariates, padded to as many bins B and codes C."""

    log_k: np.ndarray  # (q, B, C)
    counts: np.ndarray  # (q,) codes of each covariate
    ordered: np.ndarray  # (q,) bool: whether neighbouring bins are near each other
    n_bins: np.ndarray  # (q,)
    slots: SlotGrid | None  # None where codes are locations
    weights: np.ndarray | None  # (C,) prior probabilities of the locations
    values: np.ndarray | None = None  # (B,) of locations in one covariate its values, of which a row has the nearest

    @classmethod
    def of_slots(cls, grid: SlotGrid) -> Binned:
        """A ValueError where there is no room for the tables."""
        centres = [_centres(table) for table in grid.tables]
        counts = np.array([1 + table.n_codes for table in grid.tables], np.int64)
        n_bins = np.array([len(own) for own in centres], np.int64)
        size = 8.0 * len(counts) * float(n_bins.max()) * float(counts.max())
        if size > machine.available() / 3:
            raise ValueError(
                f"kernels of {counts.max()} codes at {n_bins.max()} values of {len(counts)} covariates take {machine.text(size)}, and "
                f"there is room for {machine.text(machine.available() / 3)}; leave factors of very many levels out, or join levels."
            )
        log_k = np.zeros((len(counts), n_bins.max(), counts.max()))
        for j, (table, own) in enumerate(zip(grid.tables, centres, strict=True)):
            log_k[j, : n_bins[j], : counts[j]] = table.log_K_at(own).T
        ordered = np.array([not table.is_category for table in grid.tables])
        return cls(log_k, counts, ordered, n_bins, grid, None)

    @classmethod
    def of_locations(cls, log_K: np.ndarray, weights: np.ndarray, ordered: bool, values: np.ndarray | None) -> Binned:
        """Bin log kernels (G, P) of groups and locations; groups in the order of their covariate where there is one."""
        G, P = log_K.shape
        return cls(np.maximum(log_K, FLOOR)[None], np.array([P]), np.array([ordered]), np.array([G]), None, weights, values)

    def bins(self, covariates: np.ndarray, group: Any = None) -> np.ndarray:
        """(n, q) of rows of covariates; where codes are locations their groups, which of several covariates must be given."""
        if self.slots is None:
            if group is None:
                assert self.values is not None, "of several covariates the groups are needed"
                group = nearest(self.values, covariates[:, 0])
            return np.ascontiguousarray(group, np.int32).reshape(-1, 1)
        out = np.empty(covariates.shape, np.int32)
        for j, table in enumerate(self.slots.tables):
            u, own = table.measured(covariates[:, j]), _centres(table)
            if table.is_category or len(own) < BINS:  # a bin for each value
                out[:, j] = np.abs(np.searchsorted((own[1:] + own[:-1]) / 2, u))
            else:
                out[:, j] = np.clip(np.rint(u * (BINS - 1)), 0, BINS - 1)
        return out

    def log_tables(self, codes: np.ndarray) -> np.ndarray:
        """(q, B, M) of components with codes (M, q)."""
        return np.stack([self.log_k[j][:, codes[:, j]] for j in range(len(self.counts))])

    def used(self, codes: np.ndarray) -> np.ndarray:
        """(q,) components that use each covariate."""
        return (codes > 0).sum(axis=0)

    @cached_property
    def _prior(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Parameters of the beta laws of the chances to use a covariate; None where they are fixed."""
        prior = None if self.slots is None else self.slots.prior
        return (np.full(len(self.counts), prior.a), np.full(len(self.counts), prior.b)) if isinstance(prior, Beta) else None

    def expected_log_prior(self, codes: np.ndarray) -> np.ndarray:
        """(q, C): E log probability of each code under the best law of the chances given all codes."""
        if self.slots is None:
            assert self.weights is not None
            return np.log(self.weights)[None]
        q, out = len(self.counts), np.zeros((len(self.counts), int(self.counts.max())))
        if self._prior is None:
            chance = np.full(q, np.clip(fixed(self.slots.prior), MIN_CHANCE, 1 - MIN_CHANCE))
            log_used, log_not = np.log(chance), np.log1p(-chance)
        else:
            a, b = self._prior[0] + self.used(codes), self._prior[1] + len(codes) - self.used(codes)
            log_used, log_not = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
        others = np.maximum(self.counts - 1, 1)
        out[:] = (log_used - np.log(others))[:, None]
        out[:, 0] = np.where(self.counts > 1, log_not, 0.0)
        return out

    def log_prior(self, codes: np.ndarray) -> float:
        """log probability of codes (M, q), the chances integrated out."""
        if self.slots is None:
            assert self.weights is not None
            return float(np.log(self.weights)[codes[:, 0]].sum())
        used, some = self.used(codes), self.counts > 1
        each = -used * np.log(np.maximum(self.counts - 1, 1))
        if self._prior is None:
            chance = np.clip(fixed(self.slots.prior), MIN_CHANCE, 1 - MIN_CHANCE)
            each = each + used * np.log(chance) + (len(codes) - used) * np.log1p(-chance)
        else:
            a, b = self._prior
            each = each + betaln(a + used, b + len(codes) - used) - betaln(a, b)
        return float(each[some].sum())

    def inclusion(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parameters of the beta laws of the chances given codes; (chance, 0) where they are fixed."""
        if self._prior is None:
            return np.full(len(self.counts), 1.0 if self.slots is None else fixed(self.slots.prior)), np.zeros(len(self.counts))
        return self._prior[0] + self.used(codes), self._prior[1] + len(codes) - self.used(codes)

    def draw_codes(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """(size, q) codes from their prior."""
        if self.slots is None:
            assert self.weights is not None
            return rng.choice(len(self.weights), size=(size, 1), p=self.weights)
        used = rng.random((size, len(self.counts))) < self.slots.start_inclusion()
        return np.where(used, 1 + (rng.random(used.shape) * (self.counts - 1)).astype(np.int64), 0)

    def code_of(self, j: int, inside: np.ndarray, rows: np.ndarray) -> int:
        """A code of covariate j for rows that lie in some bins, of `rows` (B,) in each: 0 where all do and there is such a code.

        In an interval the nearest by its middle and its width; of categories and locations the one that these bins are likeliest by.
        """
        inside, rows = inside[: self.n_bins[j]], rows[: self.n_bins[j]]
        if self.slots is not None and (inside.all() or self.counts[j] == 1):
            return 0
        if self.slots is not None and self.ordered[j]:
            table = self.slots.tables[j]
            own = _centres(table)[inside]
            width = max(OF_HALF * (own[-1] - own[0]) / 2, NARROWEST)
            far = ((table.place - (own[0] + own[-1]) / 2) / width) ** 2 + np.log(table.width / width) ** 2
            return 1 + int(np.argmin(far))
        log_k = self.log_k[j, : self.n_bins[j], : self.counts[j]]
        own = rows * inside
        value = own @ log_k - own.sum() * np.log(np.maximum(rows @ np.exp(log_k), 1e-300))
        return int(np.argmax(value))


def _centres(table: CodeTable) -> np.ndarray:
    """Places of the bins of a covariate: its values where these are few."""
    values = table.knots[1]
    return values if table.is_category or len(values) <= BINS else np.linspace(0.0, 1.0, BINS)
