"""Run of a variational fit of a density regression: starts, passes over all rows, and what is kept when it is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nrmmix.common.compiling import announced
from nrmmix.common.messages import seconds
from nrmmix.common.progress import Progress
from nrmmix.common.seeds import entropy, seed_sequence
from nrmmix.common.warnings import warn
from nrmmix.inference.executors import OneProcess, executor_of
from nrmmix.inference.variational.checkpoint import Saved
from nrmmix.inference.variational.options import MemoizedVB, RegressionOutcome, StochasticVB, Variational
from nrmmix.inference.variational.run import DIGITS, LOST, NOT_FINITE, NOT_TRUSTED, Stopped, check_rows, checkpointing, refuse_without_pass
from nrmmix.inference.variational_regression import checkpoint
from nrmmix.inference.variational_regression.climb import Climb, Pass
from nrmmix.inference.variational_regression.combine import weights_of
from nrmmix.inference.variational_regression.memory import BinnedRows, Memory, StreamedBinnedRows, in_order, sample_of
from nrmmix.inference.variational_regression.proposals import Proposals
from nrmmix.inference.variational_regression.start import NOISE, cut
from nrmmix.inference.variational_regression.stochastic import Descent, Passing, scaled
from nrmmix.model.families.exponential.streamed import StreamedRows
from nrmmix.model.priors.binned import Binned
from nrmmix.model.specification import Specification

SMALL_TABLE = 2000  # rows, by their weights, up to which there are more starts, of fewer components
COMPONENTS = 40, 100
STARTS = 12, 3
SAMPLE = 10_000  # rows whose codes are searched with all else optimised out
OF_SAMPLE, TOL_OF_SAMPLE = 80, 1e-3  # passes over a sample of the rows, at most; nats a row that one must gain for another to follow
INITS = ("spread", "sequential", "cuts")  # of which the first is the default of `Model.fit`, which belongs to chains
NARROW_SHARE = 0.05  # of the rows, in components as narrow as their unit, from which on it is said
USED_UP = 0.9  # share of the components that have rows, from which on more might raise the bound


def run_regression(
    model: Specification, method: Variational, name: str, *, init: Any, rng: Any, progress: bool | None, time_limit: float | None
) -> RegressionOutcome:
    """Run a variational method on a density regression; see `Model.fit`.  A ValueError if an argument is out of range."""
    method.check(model)
    if not (isinstance(init, str) and init in INITS):
        raise ValueError(f'init: variational density regression starts from cuts of the covariates, init="cuts", not from {init!r}.')
    limit, seeds, began = seconds("time_limit", time_limit), seed_sequence(rng), time.perf_counter()
    saved, saver, seeds = checkpointing(model, method, name, rng, seeds, "cuts")
    before = 0.0 if saved is None else saved.seconds
    binned = binned_of(model)
    rows = rows_of_model(model, binned)
    check_rows(rows.statistics, model)
    components = _components(model, method)
    starts = method.starts or STARTS[model.frame.size > SMALL_TABLE]
    each, climbs, interrupted = [np.random.default_rng(one) for one in seeds.spawn(starts + 1)], [], False
    with announced(), Progress(progress) as line, executor_of(getattr(method, "executor", None)).open() as executor:

        def save(climbs: list[Climb]) -> None:
            if saver is not None:
                saver(partial(checkpoint.of_starts, climbs), before + time.perf_counter() - began)

        deadline = None if limit is None else began + limit
        fitter = _Fitter(model, method, binned, rows, components, executor, line, deadline, starts, saved, save)
        for number in range(starts):
            try:
                fitter.fit(number, each[number])
            except (Stopped, KeyboardInterrupt) as stopped:
                interrupted = True
                if not any(one.passes for one in fitter.climbs):
                    refuse_without_pass(stopped)
                break
            except np.linalg.LinAlgError:
                raise FloatingPointError(LOST) from None
        climbs = [one for one in fitter.climbs if one.passes]
    fits, bounds = [one.factors.largest_first() for one in climbs], np.array([one.bound() for one in climbs])
    sums = tuple(in_order(one.total, np.argsort(-one.factors.N, kind="stable")) for one in climbs) if rows.is_streamed else ()
    if not np.isfinite(bounds).all():
        raise FloatingPointError(NOT_FINITE)
    _warn(climbs, components)
    _warn_of_rounding(model, climbs)
    weights = weights_of(method.combine, rows, fits, bounds, each[-1])
    if isinstance(method, (StochasticVB, MemoizedVB)):
        method = replace(method, executor=None)
    return RegressionOutcome(
        method, name, rows, tuple(fits), bounds, weights, [one.passes for one in climbs],
        np.array([one.has_converged for one in climbs]), entropy(seeds), before + time.perf_counter() - began, interrupted, sums,
    )


def binned_of(model: Specification) -> Binned:
    """The covariate kernel of a model in tables."""
    if model.slots is not None:
        return Binned.of_slots(model.slots)
    assert model.grid is not None
    is_one = len(model.frame.covariate_names) == 1
    log_K, values = model.log_kernel(model.grid.distance, model.start_widths()), model.grid.values[:, 0] if is_one else None
    return Binned.of_locations(log_K, model.grid.weights, is_one and not model.frame.is_category.any(), values)


def rows_of_model(model: Specification, binned: Binned | None = None) -> BinnedRows | StreamedBinnedRows:
    """The fitted rows."""
    statistics, binned = model.statistics(model.exponential()), binned_of(model) if binned is None else binned
    if isinstance(statistics, StreamedRows):
        return StreamedBinnedRows(statistics, binned)
    assert model.frame.covariates is not None and model.grid is not None
    return BinnedRows(statistics, binned.bins(model.frame.covariates, model.grid.group))


def _components(model: Specification, method: Variational) -> int:
    if model.prior.components > 0:
        return model.prior.components
    return method.components or min(COMPONENTS[model.frame.size > SMALL_TABLE], max(int(model.frame.size), 1))


def _warn(climbs: list[Climb], components: int) -> None:
    for one in climbs:
        exponential, N = one.factors.exponential, one.factors.N
        if exponential.digits_left(N, one.factors.s)[N > 1].min(initial=1.0) < DIGITS:
            warn(NOT_TRUSTED)
            return
    if min(one.passes[-1].n_clusters for one in climbs) >= USED_UP * components and components > 1:
        warn(
            f"nearly all of the {components} components have rows: more of them might raise the bound and predict better; "
            f"give components={2 * components}."
        )


def _warn_of_rounding(model: Specification, climbs: list[Climb]) -> None:
    narrow = [one.factors.N[one.factors.exponential.narrow(one.factors.N, one.factors.s)].sum() / one.factors.N.sum() for one in climbs]
    share = float(max(narrow))
    if share >= NARROW_SHARE:
        units = model.blocks.rounding_units(model.frame.response)
        rounded = " and ".join(f"values of {name!r} are rounded to {unit:.6g}" for name, unit in units.items() if unit > 0)
        warn(
            f"{rounded}, and {share:.0%} of the rows are in components as narrow as that: none is narrower than the rounding error, and "
            "densities are those of the values before they were rounded."
        )


class _Fitter:
    """Starts, one after the other."""

    def __init__(
        self, model: Specification, method: Variational, binned: Binned, rows: BinnedRows | StreamedBinnedRows, components: int,
        executor: OneProcess, line: Progress, deadline: float | None, starts: int, saved: Saved | None, save: Callable[[list[Climb]], None],
    ):
        self.model, self.method, self.binned, self.rows, self.components = model, method, binned, rows, components
        self.executor, self.line, self.deadline, self.starts = executor, line, deadline, starts
        self.saved, self.save = saved, save
        self.climbs: list[Climb] = []
        self.tol = method.tolerance(is_regression=True)
        self.division = method.division(rows.n)
        births, merges = method.moves(is_regression=True)
        self.proposals = Proposals(births, bool(merges), not self._is_searched)

    def fit(self, number: int, rng: np.random.Generator) -> None:
        """A climb from a start of its own, or from where it was saved."""
        climb = None
        if self.saved is not None:
            rows = self.rows.take(np.arange(self.rows.n)) if self.rows.is_streamed and self._is_searched else self.rows
            climb = checkpoint.start_of(self.saved, number, self.model, self.binned, rows, self.division, self.executor)
        climb = self._begun(number, rng) if climb is None else climb
        climb.proposals = self.proposals
        self.climbs.append(climb)
        if not climb.has_converged:
            climb.run(self.method.passes, self.tol, lambda made: self._report(number, made, self.method.passes))
        if climb.has_converged:
            climb.close()

    @property
    def _is_searched(self) -> bool:
        """Whether codes are searched with all rows in memory."""
        return self.rows.n <= SAMPLE and self.division[0] == 1 and not isinstance(self.method, StochasticVB)

    def _begun(self, number: int, rng: np.random.Generator) -> Climb:
        """A climb at its start, of many rows that of a fit to a sample, where codes are searched."""
        n, exponential, mass, method = self.rows.n, self.rows.statistics.exponential, self.model.prior.mass, self.method
        some = sample_of(self.rows, SAMPLE, rng)
        start = cut(self.binned, exponential, mass, some, self.components, rng, NOISE if number else 0.0, alike=True)
        if not self._is_searched:
            first = Climb(Memory(some), start, rng, search=True)
            what = "sample, " if n > SAMPLE else "codes, "
            first.run(OF_SAMPLE, max(self.tol, TOL_OF_SAMPLE), lambda made: self._report(number, made, OF_SAMPLE, what))
            start = first.factors
        if n > SAMPLE:
            start = start.times(self.rows.size / some.size)
        if isinstance(method, StochasticVB):
            passing = Passing(self.rows, *self.division, self.executor)
            return Descent(passing, start, rng, scaled(first.total, self.rows.size / some.size), method.kappa, method.delay)
        memory = Memory(some if self._is_searched else self.rows, *self.division, self.executor)
        return Climb(memory, start, rng, search=self._is_searched)

    def _report(self, number: int, made: Pass, passes: int, what: str = "") -> None:
        if not what:
            self.save(self.climbs)
        text = f"start {number + 1} of {self.starts}, {what}pass {made.number}, {made.n_clusters} components, bound {made.bound:.2f}"
        self.line.update(text, (number + min(made.number / passes, 1.0)) / self.starts)
        if self.deadline is not None and time.perf_counter() > self.deadline:
            raise Stopped
