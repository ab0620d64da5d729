"""Run of a variational fit: its start, the passes, and what is kept when it is stopped."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, cast

import numpy as np

from nrmmix.common.messages import did_you_mean, quoted, seconds
from nrmmix.common.progress import Progress
from nrmmix.common.seeds import entropy, seed_sequence
from nrmmix.common.warnings import warn
from nrmmix.inference.executors import executor_of
from nrmmix.inference.variational import checkpoint
from nrmmix.inference.variational.climb import Climb, Pass, Settings
from nrmmix.inference.variational.memory import Batches, Memory
from nrmmix.inference.variational.options import COMPONENTS, MemoizedVB, StochasticVB, Variational, VariationalOutcome
from nrmmix.inference.variational.start import STARTS, seeded
from nrmmix.inference.variational.stochastic import Descent
from nrmmix.model.families.exponential import Statistics
from nrmmix.model.families.exponential.streamed import StreamedRows
from nrmmix.model.frame.arrays import TOO_FAR, check_row_labels
from nrmmix.model.specification import Specification

WARM_ROWS, WARM_PASSES = 10_000, 10  # of a sample that components from seeds are fitted to before all rows are visited
DIGITS = 1e-10  # share of sums of squares below which they have cancelled
LOST = (
    "sums of squares and squares of means have cancelled: components lie so far from the prior mean, or the prior's scale is so small "
    "against the data, that variances are lost in rounding; centre the responses, or give a larger scale=. Where one value stands in many "
    "rows, nm.Hurdle(nm.Gaussian(), at=that value) has it apart."
)


NOT_TRUSTED = f"the bound and the components are not to be trusted: {LOST}"
NOT_FINITE = "the bound is no finite number; rescale the data or widen the prior."


class Stopped(Exception):
    """The time limit is over."""


def refuse_without_pass(stopped: BaseException) -> NoReturn:
    """Raise what says that a run was stopped before it had anything to give back."""
    if isinstance(stopped, KeyboardInterrupt):
        raise KeyboardInterrupt("stopped before the first pass over the rows was finished") from None
    raise TimeoutError("time_limit was over before the first pass over the rows was finished; give more seconds.") from None


def run_variational(
    model: Specification, method: Variational, name: str, *, init: Any, rng: Any, progress: bool | None, time_limit: float | None
) -> VariationalOutcome:
    """Run a variational method on a model; see `Model.fit`.  A ValueError if an argument is out of range."""
    method.check(model)
    limit = seconds("time_limit", time_limit)
    start = _start_of(init, model)
    saved, saver, seeds = checkpointing(model, method, name, rng, seed_sequence(rng), start)
    start = STARTS[0] if start is None else start
    random = np.random.default_rng(seeds.spawn(1)[0])
    started, passes = time.perf_counter(), [] if saved is None else checkpoint.passes_of(saved.arrays, Pass)
    before = 0.0 if saved is None else saved.seconds
    exponential = model.exponential()
    rows = model.statistics(exponential)
    check_rows(rows, model)
    climb: Climb | Descent | None = None
    interrupted = False
    with Progress(progress) as line:

        def report(made: Pass) -> None:
            passes.append(made)
            if saver is not None:  # of a memoized fit
                saver(partial(checkpoint.of_climb, cast(Climb, climb), passes), before + time.perf_counter() - started)
            line.update(f"pass {made.number}, {made.n_clusters} clusters, bound {made.bound:.2f}", made.number / method.passes)
            if limit is not None and time.perf_counter() - started > limit:
                raise Stopped

        try:
            with executor_of(getattr(method, "executor", None)).open() as executor:
                batches, round_size = method.division(model.n_obs)
                divided = Batches(rows, batches, round_size=round_size, executor=executor)
                if saved is None:
                    climb = _climb(model, method, divided, start, random)
                else:
                    climb = checkpoint.climb_of(saved, model, divided, _settings(method, saved.header["start"]))
                climb.run(report)
        except (Stopped, KeyboardInterrupt) as stopped:
            interrupted = True
            if climb is None or climb.kept is None:
                refuse_without_pass(stopped)
        except np.linalg.LinAlgError:
            raise FloatingPointError(LOST) from None
    assert climb.kept is not None  # after a pass
    factors, bound = climb.kept
    if not math.isfinite(bound):
        raise FloatingPointError(NOT_FINITE)
    if exponential.digits_left(factors.N, factors.s)[factors.N > 1].min(initial=1.0) < DIGITS:
        warn(NOT_TRUSTED)
    if isinstance(method, (StochasticVB, MemoizedVB)):
        method = replace(method, executor=None)  # of the run, not of what it has found
    return VariationalOutcome(
        method, name, rows, factors, bound, passes, climb.has_converged, entropy(seeds), before + time.perf_counter() - started,
        interrupted,
    )


def checkpointing(
    model: Specification, method: Variational, name: str, rng: Any, seeds: np.random.SeedSequence,
    start: str | np.ndarray | None,
) -> tuple[checkpoint.Saved | None, checkpoint.Saver | None, np.random.SeedSequence]:
    """The checkpoint that a fit goes on from, what writes further ones, and the seed: that of the checkpoint where there is one."""
    if not isinstance(method, MemoizedVB) or method.checkpoint is None:
        return None, None, seeds
    saved = checkpoint.find(method.checkpoint)
    if saved is not None:
        checkpoint.insist_on(saved, model, method, None if rng is None else entropy(seeds), start)
        seeds = seed_sequence(saved.seed)
    begun = checkpoint.name_of(STARTS[0] if start is None else start) if saved is None else saved.header["start"]
    return saved, checkpoint.Saver(model, method, name, entropy(seeds), begun), seeds


def check_rows(rows: Statistics | StreamedRows, model: Specification) -> None:
    if isinstance(rows, StreamedRows):
        return  # parts are checked as they are loaded
    far = (np.abs(rows.dense) > TOO_FAR).any(axis=0)
    if far.any():
        label = model.frame.index[int(np.flatnonzero(far)[0])]
        raise ValueError(f"row {label!r} lies more than {TOO_FAR:g} prior standard deviations out; correct it, or widen the prior.")


def _start_of(init: Any, model: Specification) -> str | np.ndarray | None:
    """A name of a start, or labels 0, ..., K - 1 of the rows used; None where none was asked for."""
    n = model.n_obs
    if isinstance(init, str):
        if init in ("spread", "sequential"):  # the default of `Model.fit`, and what it was, which belong to chains
            return None
        if init not in STARTS:
            raise ValueError(
                f"init must be {quoted(STARTS)}, labels or a fit of the same rows, not {init!r}{did_you_mean(init, STARTS)}"
            )
        return init
    if not model.frame.is_streamed:
        check_row_labels(init, model.frame.index, "init")
    is_fit = hasattr(init, "model") and hasattr(init, "partition")
    labels = np.asarray(init.partition().labels if is_fit else init)
    if labels.shape != (n,):
        what = "the fit given as init has" if is_fit else "init holds"
        raise ValueError(f"{what} labels of shape {labels.shape}; there are {n} rows: give one label for each.")
    if labels.dtype.kind not in "iub":
        raise ValueError(f"init must hold whole numbers, one label a row, not {labels.dtype} values.")
    return np.unique(labels, return_inverse=True)[1].reshape(-1)


def _settings(method: Variational, start: str) -> Settings:
    """Settings of a climb from a start, by its name as checkpoints keep it: labels have one that is none of `STARTS`."""
    births, merges = method.moves()
    most = COMPONENTS if births else method.components or COMPONENTS
    return Settings(
        method.passes, method.tolerance(), merges=bool(merges), greedy=merges == "greedy", at_end=merges == "end", births=births,
        start=start if start in STARTS else STARTS[0], most_cut=most if start in STARTS else 0,
    )


def _climb(
    model: Specification, method: Variational, batches: Batches, start: str | np.ndarray, rng: np.random.Generator
) -> Climb | Descent:
    """A fit at its start."""
    rows = batches.rows
    exponential, mass, n = rows.exponential, model.prior.mass, rows.n
    births, _ = method.moves()
    memory = Memory(exponential, mass, batches)
    how = STARTS[0] if isinstance(start, np.ndarray) else start
    components = method.components or (1 if births else min(COMPONENTS, n))
    if isinstance(start, np.ndarray):
        N, s = batches.of_labels(start)
    elif components == 1:
        N, s = np.array([rows.size]), memory.batches.total()[None]
    else:
        some = np.arange(n) if n <= WARM_ROWS else np.sort(rng.choice(n, WARM_ROWS, replace=False))
        sample = rows.take(some) if n > WARM_ROWS or isinstance(rows, StreamedRows) else rows
        N, s = seeded(sample, components, rng, how)
        if n > WARM_ROWS:
            warm = Memory(exponential, mass, Batches(sample, 5, keep=True))
            warm.start(N, s)
            Climb(warm, Settings(WARM_PASSES, 1e-4), rng).run()
            N, s = warm.factors.N * (rows.size / sample.size), warm.factors.s * (rows.size / sample.size)
    memory.start(N, s)
    memory.sort()
    if isinstance(method, StochasticVB):
        return Descent(memory, method, rng)
    return Climb(memory, _settings(method, checkpoint.name_of(start)), rng)
