"""Starts of variational fits of kernel-weighted measures: regions of the covariates, cut where a cut raises the marginal likelihood.

The region whose best cut gains most is cut next; gains are multiplied by noise, so that starts differ.  Each region is a component whose
codes are those likeliest for its bins.  Further ones begin at the rows that fit worst in their regions, and a last one is of all rows.
In variational fits, which stay near their start, rows of each region are tried for two components first, and rows that are alike stand for
those that fit worst: of two modes all along a region both fit badly.  This is done at the shrinkage and noise scale of before, which are
learnt anew from all components at the end: from few wide ones alone they are far off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nrmmix.inference.variational_regression.memory import BinnedRows
from nrmmix.model.families.exponential import Features, Stacked
from nrmmix.model.frame.columns.weights import quantiles
from nrmmix.model.priors.binned import Binned
from nrmmix.model.priors.hyperpriors import Hyperparameter
from nrmmix.posterior.kernel_factors import KernelFactors

NOISE = 0.5  # standard deviation of the log factor of gains, of all starts but the first
SHARE = 0.8  # of the components that regions may be
MIN_GAIN = 3.0  # nats
MIN_ROWS, MIN_ROWS_OF_FIT = 4, 12  # rows on either side of a cut; of a region that a further component begins in
CUTS, MARGIN = 12, 0.08  # cuts of a covariate that are tried, at quantiles; share of the rows on either side
LEARN_AT = (1, 3, 8, 20, 50)  # regions at which shrinkage and noise scale are learnt
WORST = 0.2  # share of the rows of a region that a further component begins with
TRIES, ROUNDS = 6, 8  # sets of rows that are alike, and assignments of all rows to two components from each
SAME = 1e-9  # nats, within which copies of a row have the same score
OF_ALL = 0.01  # rows of the component of all, as a share, where the others take all components that there are


@dataclass(frozen=True)
class Region:
    """Rows that lie in some bins (q, B) of every covariate, the sums of their statistics, and their best cut."""

    rows: np.ndarray
    inside: np.ndarray
    N: float
    s: np.ndarray
    cut: Cut | None = None


@dataclass(frozen=True)
class Cut:
    """Bins (B,) of a covariate on one side."""

    gain: float
    covariate: int
    side: np.ndarray


class Grower:
    """Regions of some rows in memory."""

    def __init__(self, binned: Binned, exponential: Stacked, rows: BinnedRows, rng: np.random.Generator, noise: float):
        self.binned, self.exponential, self.bins, self.rng, self.noise = binned, exponential, rows.bins, rng, noise
        self.unlearnt = exponential  # at the shrinkage and noise scale of before any region
        self.features = rows.statistics.whole()
        self.is_weighted = rows.statistics.weight is not None
        self.weight = np.ones(rows.n) if rows.statistics.weight is None else rows.statistics.weight

    def grow(self, most: int) -> list[Region]:
        """Regions, `most` at most."""
        everywhere = np.zeros((len(self.binned.counts), self.binned.log_k.shape[1]), bool)
        for j, size in enumerate(self.binned.n_bins):
            everywhere[j, :size] = True
        regions = [self._region(np.arange(len(self.bins)), everywhere)]
        while True:
            if len(regions) in LEARN_AT:
                self.exponential = self.exponential.learnt(np.array([one.N for one in regions]), np.stack([one.s for one in regions]))
                regions = [replace(one, cut=self._best(one)) for one in regions]
            regions = [one if one.cut is not None else replace(one, cut=self._best(one)) for one in regions]
            cuts = [one.cut for one in regions if one.cut is not None]
            k = int(np.argmax([one.gain for one in cuts]))
            region, cut = regions[k], cuts[k]
            if len(regions) >= most or cut.gain < MIN_GAIN:
                return regions
            here = cut.side[self.bins[region.rows, cut.covariate]]
            parts = []
            for own, bins in ((here, cut.side), (~here, ~cut.side)):
                inside = region.inside.copy()
                inside[cut.covariate] &= bins
                parts.append(self._region(region.rows[own], inside))
            regions[k] = parts[0]
            regions.append(parts[1])

    def _region(self, rows: np.ndarray, inside: np.ndarray) -> Region:
        weight = self.weight[rows]
        return Region(rows, inside, float(weight.sum()), self._of(rows).totals(weight[None])[0])

    def _of(self, rows: np.ndarray) -> Features:
        dense, of_sparse = self.features
        return Features(None if dense is None else dense[:, rows], None if of_sparse is None else of_sparse[rows])

    def _best(self, region: Region) -> Cut:
        """The cut of a region that gains most, after noise."""
        best, features = Cut(-np.inf, 0, np.zeros(0, bool)), self._of(region.rows)
        whole = self.exponential.log_z(np.array([region.N]), region.s[None])[0]
        for j in range(self.bins.shape[1]):
            sides = self._sides(region, j)
            if not len(sides):
                continue
            here = sides[:, self.bins[region.rows, j]] * self.weight[region.rows]
            N, s = here.sum(axis=1), features.totals(here)
            gain = self.exponential.log_z(N, s) + self.exponential.log_z(region.N - N, region.s - s) - whole
            gain[(N < MIN_ROWS) | (region.N - N < MIN_ROWS)] = -np.inf
            if self.noise:
                gain = gain * np.exp(self.noise * self.rng.standard_normal(len(gain)))
            k = int(np.argmax(gain))
            if gain[k] > best.gain:
                best = Cut(float(gain[k]), j, sides[k])
        return best

    def _sides(self, region: Region, j: int) -> np.ndarray:
        """(cuts, B): the bins on one side of each cut of a covariate."""
        own, B = self.bins[region.rows, j], self.binned.log_k.shape[1]
        if not self.binned.ordered[j]:
            levels = np.unique(own)
            return np.eye(B, dtype=bool)[levels] if len(levels) > 1 else np.zeros((0, B), bool)
        ends = np.unique(self._quantiles(own, region.rows, np.linspace(MARGIN, 1.0 - MARGIN, CUTS)).astype(int))
        return np.arange(B) <= ends[ends < own.max(initial=-1)][:, None]

    def worst(self, region: Region) -> Region:
        """The rows of a region that fit worst in it."""
        score = self._of(region.rows).scores(self.exponential.expectations(np.array([region.N]), region.s[None])[0])[0]
        return self._region(region.rows[score <= self._quantiles(score, region.rows, WORST)], region.inside)

    def alike(self, region: Region) -> Region:
        """The rows of a region that gain most where one of those that fit worst counts more: the worst, or any where starts have noise."""
        return self._region(region.rows[self._alike(region, self._of(region.rows), self.noise > 0.0)], region.inside)

    def _alike(self, region: Region, of: Features, is_random: bool) -> np.ndarray:
        N = np.array([region.N])
        score = of.scores(self.unlearnt.expectations(N, region.s[None])[0])[0]
        often = self.weight[region.rows] * (score <= self._quantiles(score, region.rows, WORST))
        more = np.zeros((1, len(score)))
        more[0, self.rng.choice(len(often), p=often / often.sum()) if is_random else np.argmin(score)] = WORST * region.N
        score = score - of.scores(self.unlearnt.expectations(N + more.sum(), region.s + of.totals(more))[0])[0]
        return score <= self._quantiles(score, region.rows, WORST) + SAME

    def halved(self, region: Region) -> list[Region]:
        """Two components that explain the rows of a region better than one does, from rows that are alike; empty if none are found."""
        of, weight = self._of(region.rows), self.weight[region.rows]
        least, found = MIN_GAIN + self.unlearnt.log_z(np.array([region.N]), region.s[None])[0], None
        for number in range(TRIES):
            here = self._alike(region, of, number > 0 or self.noise > 0.0)
            for _ in range(ROUNDS):
                sides = np.stack([here, ~here]) * weight
                N, s = sides.sum(axis=1), of.totals(sides)
                if N.min() < MIN_ROWS:
                    break
                log_share = np.log(N / region.N)
                value = float(self.unlearnt.log_z(N, s).sum() + N @ log_share)
                if value > least:
                    least, found = value, here
                eta, a = self.unlearnt.expectations(N, s)
                score = of.scores(eta) + (log_share - a)[:, None]
                before, here = here, score[0] > score[1]
                if (here == before).all():
                    break
        if found is None:
            return []
        return [self._region(region.rows[own], region.inside) for own in (found, ~found)]

    def _quantiles(self, values: np.ndarray, rows: np.ndarray, q: Any) -> Any:
        return quantiles(values, q, self.weight[rows] if self.is_weighted else None)


def cut(
    binned: Binned, exponential: Stacked, mass: Hyperparameter, rows: BinnedRows, components: int, rng: np.random.Generator, noise: float,
    alike: bool = False,
) -> KernelFactors:
    """Factors of so many components, those without rows included, at a start; `alike` is that of a fit that stays near it."""
    grower = Grower(binned, exponential, rows, rng, noise)
    regions = grower.grow(max(1, int(SHARE * components)))
    waiting = sorted(regions, key=lambda own: own.N)
    while waiting and len(regions) < components - 1 and waiting[-1].N >= MIN_ROWS_OF_FIT:
        one = waiting.pop()
        if parts := grower.halved(one) if alike else []:
            regions = [own for own in regions if own is not one] + parts
            waiting = sorted(waiting + parts, key=lambda own: own.N)
        else:
            regions.append(grower.alike(one) if alike else grower.worst(one))
    if len(regions) < components:
        whole = grower._region(np.arange(rows.n), np.ones_like(regions[0].inside))
        share = OF_ALL if len(regions) == components - 1 else 1.0
        regions.append(replace(whole, N=share * whole.N, s=share * whole.s))
    M, q = components, len(binned.counts)
    N, s, codes = np.zeros(M), np.zeros((M, exponential.n_stat)), binned.draw_codes(M, rng)  # those without rows keep codes from the prior
    count = np.stack([np.bincount(own, grower.weight, binned.log_k.shape[1]) for own in rows.bins.T])
    for k, one in enumerate(regions):
        N[k], s[k] = one.N, one.s
        codes[k] = [binned.code_of(j, one.inside[j] | (count[j] == 0) & one.inside[j].all(), count[j]) for j in range(q)]
    exponential = exponential.learnt(N, s) if alike else grower.exponential
    made = KernelFactors(binned, exponential, mass, N, s, np.ones(M), codes)
    kernels = np.exp(made.log_kernels(rows.bins))
    A = (kernels * grower.weight[:, None] if grower.is_weighted else kernels).sum(axis=0)
    return KernelFactors(binned, exponential, mass, N, s, A, codes)
