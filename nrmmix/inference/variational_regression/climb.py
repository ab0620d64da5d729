"""Coordinate ascent for kernel-weighted measures, in passes over rounds of batches.

Given the sums over rows each factor is the best one: weights and mass, parameters, and after a pass shrinkage and noise scale, the scale of
V and the codes.  Codes move in two ways.  Given r and v all sums that are needed are there: the gain of a code is exact for its component
and covariate, and one covariate of each component changes at a time.  Such steps stop where MCMC given V would; where the rows are in
memory codes are also searched with r and v optimised out, and where they are not samples propose some (`proposals`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import brentq

from nrmmix.inference.variational.climb import MIN_COUNT
from nrmmix.inference.variational_regression.memory import ONCE, BinnedRows, Kept, Memory, added, each
from nrmmix.kernels.variational import search_codes
from nrmmix.model.families.exponential import Stacked
from nrmmix.posterior.kernel_factors import KernelFactors

MIN_GAIN = 1e-6  # nats, of a code, a merge or a rival
SEARCH_EVERY, LEARN_EVERY, LEARN_FIRST = 3, 5, 3  # passes
FARTHEST = 60.0  # log of the factor of all v
MOVED = 2  # codes that a search must change for further passes to be worth while


class Pass(NamedTuple):
    """Summary of a pass at its end."""

    number: int
    n_components: int
    n_clusters: int  # of these, with half a row or more
    bound: float
    moved: int  # codes that the search, or a proposal, has changed
    merged: int = 0  # components joined or left out
    born: int = 0
    tried: int = 0  # whether merges, births or codes of a sample were tried
    kept: int = 0  # and whether they were kept


class Made(NamedTuple):
    """Counts of codes changed, components joined or left out, and born; whether something was tried, and whether it was kept."""

    moved: int = 0
    merged: int = 0
    born: int = 0
    tried: int = 0
    kept: int = 0


class Proposer(Protocol):
    """Maker of proposals beside the steps of a climb, as `nrmmix.inference.variational_regression.proposals.Proposals` is."""

    def are_left(self, passes: list[Pass], n: float) -> bool:
        """Whether another proposal is worth while after such passes over n rows."""

    def are_due(self, passes: list[Pass], n: float, at_rest: bool) -> bool:
        """Whether one is to be made after these passes, the last of which has ended `at_rest`."""

    def make(self, climb: Climb) -> Made:
        """Make the proposals of a climb, and return what becomes of it."""


class Climb:
    """A memory on its way up, from factors that rows are first visited at."""

    def __init__(
        self, memory: Memory, start: KernelFactors, rng: np.random.Generator, search: bool, proposals: Proposer | None = None
    ):
        self.memory, self.factors, self.rng, self.proposals = memory, start, rng, proposals
        self.kept: Kept | None = None
        if search:
            shape = memory.rows.n, start.n_components
            self.kept = Kept(np.empty(shape), np.empty(shape))
        self.changed = np.zeros(start.n_components, np.int64)  # of each component the covariate whose G holds its other codes as they are
        self.passes: list[Pass] = []
        self.has_converged = False
        self.total: Any = None  # sums over all rows, once they have been visited

    def begin(self) -> None:
        """The first visit of all rows, at the factors of the start."""
        for number in range(len(self.memory.rounds)):
            self.memory.visit(number, self.factors, self.kept)
        self.total = self.memory.total()
        self.changed[:] = 0
        self.refresh()

    def close(self) -> None:
        """Forget what further passes would need."""
        self.kept, self.memory.seen = None, []

    @property
    def shares(self) -> np.ndarray:
        """(n, M) probabilities of the components of rows in memory, as they were last visited."""
        assert self.kept is not None
        return self.kept.r

    # ---- factors given sums

    def rates(self, codes: np.ndarray) -> np.ndarray:
        """(M,) A_m = sum_i v_i K_m(x_i)."""
        binned, m = self.factors.binned, np.arange(len(codes))
        log_k = binned.log_k[self.changed, :, codes[m, self.changed]]
        return np.maximum((self.total.G[self.changed, :, m] * np.exp(log_k)).sum(axis=1), 0.0)

    def refresh(self, exponential: Stacked | None = None, codes: np.ndarray | None = None) -> None:
        now = self.factors
        codes, exponential = now.codes if codes is None else codes, now.exponential if exponential is None else exponential
        self.factors = KernelFactors(now.binned, exponential, now.mass, self.total.N, self.total.s, self.rates(codes), codes)

    def bound(self) -> float:
        """The evidence lower bound, with all constants."""
        total = self.total
        of_rows = total.entropy + total.log_v + total.n + float((total.H * self.factors.log_k).sum())
        return self.factors.log_evidence + of_rows + total.log_h

    # ---- steps, none of which lowers the bound

    def visit_all(self, report: Callable[[str], None]) -> None:
        """Every round, the factors following each."""
        rounds = len(self.memory.rounds)
        for number in self.rng.permutation(rounds) if rounds > 1 else [0]:
            before = self.memory.seen[number]
            assert before is not None  # since `begin`
            found = self.memory.visit(number, self.factors, self.kept)
            self.total = found if len(self.memory.seen) == 1 else added(each(operator.sub, self.total, before), found)
            self.refresh()
            report("visit")

    def learn(self) -> None:
        self.refresh(exponential=self.factors.exponential.learnt(self.total.N, self.total.s))

    def scale_v(self) -> None:
        """All v times one factor, the weights optimised out: a direction in which single steps are slow."""
        counts, rates, mass = self.factors.share + self.total.N, self.factors.A, self.factors.weights.expected_mass

        def excess(log_factor: float) -> float:
            return float((counts / (1.0 + math.exp(log_factor) * rates)).sum()) - mass

        if excess(-FARTHEST) * excess(FARTHEST) > 0:
            return
        factor = math.exp(brentq(excess, -FARTHEST, FARTHEST))
        self.memory.scale_v(factor)
        self.total = self.total._replace(G=self.total.G * factor, log_v=self.total.log_v + self.total.n * math.log(factor))
        self.refresh()

    def move_codes(self) -> None:
        """Change, of each component, the code of the covariate that gains most, given r and v, its weight optimised out."""
        binned, codes, (q, _, M) = self.factors.binned, self.factors.codes, self.total.H.shape
        log_prior, count = binned.expected_log_prior(codes), self.factors.share + self.total.N
        best, gains = np.empty((q, M), np.int64), np.empty((q, M))
        for j in range(q):
            own = slice(0, binned.counts[j])
            value = binned.log_k[j][:, own].T @ self.total.H[j] - count * np.log1p(np.exp(binned.log_k[j][:, own]).T @ self.total.G[j])
            value += log_prior[j, own, None]
            best[j] = value.argmax(axis=0)
            gains[j] = value.max(axis=0) - value[codes[:, j], np.arange(M)]
        gains = self.allowed(gains)
        covariate = gains.argmax(axis=0)
        # those without rows would all go to where they matter least, which is no approximation of atoms that are nowhere in particular
        some = np.flatnonzero((gains[covariate, np.arange(M)] > MIN_GAIN) & (self.total.N >= MIN_COUNT))
        codes = codes.copy()
        codes[some, covariate[some]] = best[covariate[some], some]
        self.changed = covariate
        self.refresh(codes=codes)

    def allowed(self, gains: np.ndarray) -> np.ndarray:
        """Gains (q, M) of the covariates that components may get another code in: all."""
        return gains

    def search(self) -> int:
        """Codes one by one with r and v optimised out; how many changed."""
        self.begin()  # gains are exact where r and v are those of the codes as they are
        now, kept, rows, (q, B, _) = self.factors, self.kept, self.memory.rows, self.total.H.shape
        assert kept is not None and isinstance(rows, BinnedRows)
        M, C = now.n_components, int(now.binned.counts.max())
        codes, shift, weight = now.codes.copy(), np.zeros(M), np.exp(now.log_weight)
        often = rows.statistics.weight
        moved = search_codes(
            kept.r, kept.w, rows.bins, codes, self.rng.permutation(M * q), now.binned.log_k, now.binned.counts,
            now.binned.expected_log_prior(codes), weight, now.share, MIN_GAIN, shift, np.empty((B, C)), np.empty((4, C)),
            ONCE if often is None else often,
        )
        if moved:
            self.factors = now.moved(codes, shift)
            self.begin()
        return moved

    def against(self, other: KernelFactors, passes: int) -> bool:
        """Whether the bound is higher once all rows have been visited at other factors, and so many passes made; the climb then goes on
        from there, and otherwise it is as it was."""
        rival = Climb(self.memory.anew(), other, self.rng, search=self.kept is not None)
        rival.begin()
        least = self.bound() + MIN_GAIN
        for number in range(1, passes + 1):
            if rival.bound() > least:
                break
            rival.run(number, 0.0)
        if not rival.bound() > least:
            return False
        for name in ("memory", "factors", "kept", "changed", "total"):
            setattr(self, name, getattr(rival, name))
        return True

    # ---- passes

    def run(
        self, passes: int, tol: float, report: Callable[[Pass], None] | None = None, watch: Callable[[str, float], None] | None = None
    ) -> None:
        """Passes until one gains less than `tol` nats a row, or there are no more."""

        def seen(step: str) -> None:
            if watch is not None:
                watch(step, self.bound())

        if self.total is None:
            self.begin()
        last, least = self.passes[-1].bound if self.passes else -math.inf, tol * self.memory.rows.size
        for number in range(len(self.passes) + 1, passes + 1):
            moved = 0
            if self.kept is not None and number % SEARCH_EVERY == 1:
                moved = self.search()
                seen("search")
            self.visit_all(seen)
            if number <= LEARN_FIRST or number % LEARN_EVERY == 0:
                self.learn()
                seen("learn")
            if len(self.memory.seen) > 1:
                self.total = self.memory.total()
            self.scale_v()
            seen("scale")
            self.move_codes()
            seen("codes")
            self.scale_v()
            seen("scale")
            at_rest = number > 3 and self.bound() - last < least and moved < MOVED
            tried: list[int] = []
            if self.proposals is not None and self.proposals.are_due(self.passes, self.memory.rows.size, at_rest):
                codes, *tried = self.proposals.make(self)
                moved += codes
                seen("proposal")
            bound = self.bound()
            made = Pass(number, self.factors.n_components, int((self.total.N >= MIN_COUNT).sum()), bound, moved, *tried)
            self.passes.append(made)
            is_done = self.proposals is None or not self.proposals.are_left(self.passes, self.memory.rows.size)
            self.has_converged = at_rest and is_done
            if report is not None:
                report(made)
            if self.has_converged:
                return
            last = bound
