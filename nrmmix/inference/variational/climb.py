"""Coordinate ascent in passes over rounds of batches, with merges and births: full variational inference is that of one round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nrmmix.inference.variational import births, cuts, merges
from nrmmix.inference.variational.memory import Batches, Memory, Snapshot, visit
from nrmmix.inference.variational.start import of_labels
from nrmmix.model.families.exponential import Statistics
from nrmmix.model.families.exponential.streamed import StreamedRows
from nrmmix.posterior.factors import Factors

WITHIN_SAMPLES = 1e-4  # nats a row: the tolerance of fresh fits
SETTLED = 1e-4  # nats a row: a pass that gains less is time to look for further births
PASSES_EACH = 3  # passes on a way down to one component, each time that there are half as many
CUTS, CUT_PASSES = 3, 40  # partitions that are climbed from, of those that trees of the rows are cut into, and passes of each
MIN_COUNT = 0.5  # rows that a component must be expected to have to be counted


@dataclass(frozen=True)
class Settings:
    """Settings of a climb: what it does beside coordinate ascent, and when it stops."""

    passes: int
    tol: float  # least gain of a pass in nats a row
    merges: bool = False
    greedy: bool = False  # merges by the bound of one round
    at_end: bool = False  # merges only once the bound has settled
    chains: bool = False  # merges of what has been merged in the same pass
    births: bool = False
    start: str = "k-means++"  # of fresh fits
    most_cut: int = 0  # clusters of other starts, cuts of trees of the rows; 0 without such starts


class Pass(NamedTuple):
    """Summary of a pass at its end."""

    number: int
    n_components: int
    n_clusters: int  # of these, with half a row or more
    bound: float
    merged: int
    born: int  # components put in the place of others at its end


Report = Callable[[Pass], None]


class Climb:
    """A memory on its way up."""

    def __init__(self, memory: Memory, settings: Settings, rng: np.random.Generator, is_sample: bool = False, learns: bool = True):
        self.memory, self.settings, self.rng, self.is_sample = memory, settings, rng, is_sample
        self.creation, self.targets = births.QUICK, births.Targets()
        self.resting = merges.Resting()
        self.may_merge = settings.merges and not settings.at_end
        self.is_thorough = is_sample  # samples are not gone through again
        self.learns = learns and not is_sample  # what families share, which samples and new rows take as it is
        self.adopted: tuple[float, Snapshot, list[tuple[int, float]]] | None = None  # what was before births or deletions
        self.not_deleted: set[int] = set()  # names of components that have been tried without
        self.has_tried_others = False
        self.number, self.has_converged = 0, False
        self.last = -math.inf  # bound of the pass before
        self.most: int | None = None  # passes in all, once that is settled
        self.kept: tuple[Factors, float] | None = None  # as of the last pass whose bound is exact

    # ---- one pass

    def one_pass(self, pairs: np.ndarray | None = None, collector: births.Collector | None = None) -> tuple[np.ndarray, int]:
        """Visit every round; by how much less the entropy of each pair as one is in each round (R, P), and greedy merges made."""
        memory, R = self.memory, len(self.memory.batches.rounds)
        lost, merged = np.zeros((len(memory.N), 0 if pairs is None else len(pairs))), 0
        for b in self.rng.permutation(R) if R > 1 else [0]:
            if self.settings.greedy:
                pairs = merges.candidates(memory)
            found = visit(memory.batches, b, memory.factors, pairs, None if collector is None else collector.watched)
            memory.replace(b, found)
            if collector is not None:
                collector.add(found.sample)
            if pairs is not None and len(pairs):
                own = found.H[pairs[:, 0]] + found.H[pairs[:, 1]] - found.H_pairs
                if self.settings.greedy:
                    merged += merges.merge_by_batch(memory, b, pairs, own)
                else:
                    lost[b] = own
        memory.is_exact = not merged
        memory.total()
        self.number += 1
        return lost, merged

    # ---- the way up

    def run(self, report: Report | None = None) -> None:
        """Passes until one gains less than the tolerance and nothing else is left to try, or there are no more."""
        self.most = self.number + self.settings.passes if self.most is None else self.most
        while self.number < self.most and not self.has_converged:
            made = self.step()
            self._judge(made)
            if report is not None:
                report(made)

    def _judge(self, made: Pass) -> None:
        """Whether a pass was the last; if it has gained little, what else there is to try comes first."""
        memory, settings = self.memory, self.settings
        gain = (made.bound - self.last) / memory.batches.size
        self.last = made.bound if not made.born else -math.inf
        if made.merged or made.born or not memory.is_exact or gain > max(settings.tol, SETTLED):
            return
        if self._begins_to_merge() or self._deletes() or self._tries_others() or self._more_to_try():
            self.last = -math.inf
        else:
            self.has_converged = gain <= settings.tol

    def step(self) -> Pass:
        """A pass, what merges it allows, and births."""
        memory, settings = self.memory, self.settings
        pairs = None
        if self.may_merge and not settings.greedy:
            pairs = merges.candidates(memory, None if settings.chains else self.resting, self.number)
        chosen = self.targets.choose(memory) if settings.births and memory.is_exact and self.adopted is None else []
        creation = births.FIRST if memory.n_components == 1 else self.creation
        collector = births.Collector(memory, chosen, creation.rows, self.rng) if chosen else None
        lost, merged = self.one_pass(pairs, collector)
        names = list(memory.ids)
        if pairs is not None and settings.chains:
            of_pairs = np.full((memory.n_components, memory.n_components), np.inf)  # pairs that were not looked at are not joined
            of_pairs[pairs[:, 0], pairs[:, 1]] = of_pairs[pairs[:, 1], pairs[:, 0]] = lost.sum(axis=0)
            merged += merges.merge_chains(memory, of_pairs)
        elif pairs is not None:
            merged += merges.merge(memory, pairs, lost, self.resting, self.number)
        if self.adopted is not None:
            self._keep_or_undo()
        if memory.is_exact:
            memory.drop_empty()
            memory.sort()
            if self.learns and self.adopted is None:
                memory.learn()
            self.kept = memory.factors, memory.bound()
        bound = memory.bound() if memory.is_exact else math.nan
        components, clusters = memory.n_components, int((memory.factors.N >= MIN_COUNT).sum())
        born = 0
        if collector is not None and memory.is_exact:
            of_names = {names[t]: collector.sample(t) for t in chosen}
            born = self._births({memory.ids.index(name): own for name, own in of_names.items() if name in memory.ids}, creation)
        return Pass(self.number, components, clusters, bound, merged, born)

    def _begins_to_merge(self) -> bool:
        """Whether it is from now on that components are joined."""
        begins = self.settings.merges and not self.may_merge
        self.may_merge = self.settings.merges
        return begins

    def _deletes(self) -> bool:
        """Leave components out in which no row is expected to be, once; the next pass says whether the bound is higher without them."""
        memory = self.memory
        few = np.flatnonzero((memory.factors.N < MIN_COUNT) & memory.may_go)
        names = {memory.ids[k] for k in few}
        if not self.settings.merges or not names - self.not_deleted or len(few) == memory.n_components:
            return False
        self.not_deleted |= names
        self.adopted = (memory.bound(), memory.snapshot(), [])
        memory.take(np.delete(np.arange(memory.n_components), few))
        memory.is_exact = False
        return True

    def _tries_others(self) -> bool:
        """Go on from where the bound is highest, once: on a way down to one component, or after a climb from cuts of trees of the rows.

        Where families learn what all components share, such as their scale, it has settled at what these are like: of many small ones no
        pair gains by a merge, while all of them gain from fewer with a scale of their own, and groups that fell apart are not found again.
        """
        if self.has_tried_others or not (self.settings.merges and self.learns and self.memory.exponential.is_learnt):
            return False
        self.has_tried_others = True
        before = self.memory.bound()
        self.try_fewer()
        if self._tries_cuts():
            self.try_fewer()
        if self.memory.bound() > before:
            self.kept = self.memory.factors, self.memory.bound()
        return self.memory.bound() > before

    def try_fewer(self) -> None:
        """Go down to one component, half of them joined at a time, and back to where the bound was highest."""
        memory, number = self.memory, self.number
        best, kept, exponential = memory.bound(), memory.snapshot(), memory.exponential
        while memory.n_components > 1:
            self._halve()
            for _ in range(PASSES_EACH):
                self.one_pass()
                memory.drop_empty()
                memory.sort()
                memory.learn()
            if memory.bound() > best:
                best, kept, exponential = memory.bound(), memory.snapshot(), memory.exponential
        memory.exponential, self.number = exponential, number  # trials are not counted, as those of births are not
        memory.restore(kept)

    def _tries_cuts(self) -> bool:
        """Climb from the partitions that are best as they stand, with a scale of their own each; whether one is now higher than before."""
        memory, rows = self.memory, self.memory.batches.rows
        if not self.settings.most_cut or "scale" not in memory.exponential.shared or rows.n > cuts.MAX_ROWS:
            return False  # regressions share other things, and their rows are told apart by lines
        before = memory.bound()
        if isinstance(rows, StreamedRows):
            rows = rows.take(np.arange(rows.n))
        trials = []
        for labels in cuts.partitions(rows.dense, self.settings.most_cut):
            trial = Memory(rows.exponential, memory.mass, memory.batches)
            trial.start(*of_labels(rows, labels))
            trial.sort()
            trial.learn()
            trials.append(trial)
        settings = Settings(CUT_PASSES, SETTLED, merges=True, at_end=True)
        for trial in sorted(trials, key=lambda one: -one.bound())[:CUTS]:
            climb = Climb(trial, settings, self.rng)
            climb.has_tried_others = True
            climb.run()
            if trial.is_exact and trial.bound() > memory.bound():
                memory.become(trial)
        return memory.bound() > before

    def _halve(self) -> None:
        """Join each component to another, the pairs that gain most first; the next pass makes the bound true."""
        memory = self.memory
        used: set[int] = set()
        pairs: list[tuple[int, int]] = []
        a, b = np.triu_indices(memory.n_components, 1)
        for p in np.argsort(-merges.gain_without_entropy(memory, a, b), kind="stable"):
            if not used & {a[p], b[p]}:
                used |= {a[p], b[p]}
                pairs.append((memory.ids[a[p]], memory.ids[b[p]]))
        nothing = np.zeros(len(memory.N))
        for first, second in pairs:
            i, j = sorted((memory.ids.index(first), memory.ids.index(second)))
            memory.join(i, j, nothing)
        memory.is_exact = False

    def _more_to_try(self) -> bool:
        """Whether births are left to be tried; once nothing is, every component is tried once more at length."""
        if not self.settings.births:
            return False
        if self.targets.choose(self.memory):
            return True
        if self.is_thorough:
            return False
        self.is_thorough, self.creation = True, births.THOROUGH
        self.targets.failed.clear()
        return bool(self.targets.choose(self.memory))

    # ---- births

    def _births(self, samples: dict[int, tuple[Statistics | None, np.ndarray]], creation: births.Creation) -> int:
        """Fresh fits in the place of components that they win against; how many components more there are."""
        memory, is_first = self.memory, self.memory.n_components == 1
        before, made = memory.bound(), {}
        for target, (rows, r) in samples.items():
            found = None
            if rows is not None and rows.n >= births.MIN_ROWS:
                found = self._fresh(births.sample_of(memory, rows, None if is_first else r), creation, is_first)
            if found is None or not memory.is_worth_it(target, found.N, found.gain):
                self.targets.fail(memory, target)
            else:
                made[memory.ids[target]] = found
        if not made:
            return 0
        kept, changed, components = memory.snapshot(), [], memory.n_components
        for name, found in made.items():
            target = memory.ids.index(name)
            changed.append((name, float(memory.factors.N[target])))
            born = memory.put_in_place(target, found.N, found.s)
            if is_first:  # they have been tried on the sample
                self.targets.failed.update((one, float(memory.factors.N[memory.ids.index(one)])) for one in born)
        memory.sort()
        self.adopted = (before, kept, changed)
        return memory.n_components - components

    def _fresh(self, sample: Batches, creation: births.Creation, with_births: bool) -> births.Fresh:
        """A fit to a sample from many components."""
        settings = Settings(creation.passes, WITHIN_SAMPLES, merges=True, chains=True, start=self.settings.start)
        fresh = Climb(births.begin(self.memory, sample, creation, settings.start, self.rng), settings, self.rng, is_sample=True)
        for _ in range(creation.wait):
            fresh.one_pass()
        fresh.run()
        if with_births and not self.is_sample and fresh.memory.n_components > 1:
            further = Climb(fresh.memory, Settings(60, WITHIN_SAMPLES, merges=True, births=True, start=settings.start), self.rng, True)
            further.run()
        return births.against_one(fresh.memory)

    def _keep_or_undo(self) -> None:
        """After the pass that makes births true: as it was before, where the bound is lower now."""
        assert self.adopted is not None  # by a birth or a deletion
        before, kept, changed = self.adopted
        self.adopted = None
        if self.memory.bound() < before:
            self.memory.restore(kept)
            self.targets.failed.update(changed)
