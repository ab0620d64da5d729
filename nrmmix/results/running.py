"""Surroundings of a run of chains: signals, checkpoints on the disk, and runs that are taken up again."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from nrmmix.common import files
from nrmmix.common.interrupts import is_stoppable, stoppable
from nrmmix.common.messages import number
from nrmmix.inference.mcmc.driving import Saver
from nrmmix.inference.mcmc.sampling import Run
from nrmmix.inference.mcmc.sampling import go_on as sampled_on
from nrmmix.model.specification import Specification
from nrmmix.results.base import result_of
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.search import SearchResult
from nrmmix.results.variational import VariationalResult

EVERY = "5min"  # between checkpoints, where nothing is said
UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}


def seconds_of(every: Any) -> float:
    """Seconds, from a number of them or a text such as "30s", "5min" or "2h".

    Examples
    --------
    >>> seconds_of("5min"), seconds_of(30)
    (300.0, 30.0)
    """
    if isinstance(every, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|sec|min|h)?\s*", every)
        every = float(found[1]) * UNITS[found[2] or "s"] if found else every
    if not 0 < number(every) < float("inf"):
        raise ValueError(f'every must be seconds, or a text such as "30s", "5min" or "2h", not {every!r}.')
    return float(every)


def saver_of(model: Specification, path: Any, every: Any) -> Saver | None:
    """Return a writer of checkpoints of a run; None where there is no path.  Path and what is to be written are checked."""
    seconds = seconds_of(every)
    if path is None:
        if seconds != seconds_of(EVERY):
            raise ValueError("every is the time between checkpoints, and there are none: name their file, checkpoint=, or leave every out.")
        return None
    from nrmmix.results.saving import check_model, write

    where = files.target(path, ".npz", "a checkpoint")
    check_model(model)
    return Saver(partial(write, model, path=where), seconds)


def guarded(work: Callable[[], MCMCResult], endings: bool) -> MCMCResult:
    """A fit that signals stop, but do not lose.

    A KeyboardInterrupt, which has the fit as its attribute `fit`, where Ctrl-C came before the first draw; a SystemExit where the process
    is to end.  In a block of `stoppable` that someone else has opened neither.
    """
    with stoppable(endings) as stop:
        fit = work()
    if is_stoppable() or not stop.signal:
        return fit
    if stop.is_final:
        raise SystemExit(128 + stop.signal)
    if stop.signal == signal.SIGINT and fit.draws.n_draws == 0:
        error = KeyboardInterrupt("stopped before the first draw was recorded; the exception's attribute `fit` can be extended")
        error.fit = fit  # type: ignore[attr-defined]
        raise error
    return fit


def go_on(fit: MCMCResult, draws: Any, checkpoint: Any, every: Any, **options: Any) -> MCMCResult:
    """Go on with a fit; see `MCMCResult.extend` and `resume`."""
    saver = saver_of(fit.model, checkpoint, every)

    def work() -> MCMCResult:
        run: Run = sampled_on(fit.model, fit.run, draws, checkpoint=saver, **options)
        return fit if run is fit.run else result_of(run, fit.model)

    return guarded(work, endings=saver is not None)


def resume(
    path: Any, *, every: Any = EVERY, cores: Any = None, progress: bool | None = None, time_limit: float | None = None,
    max_bytes: float = 16e9, data: Any = None, executor: Any = None,
) -> MCMCResult | VariationalResult:
    """Go on with a run that has left a checkpoint, up to the draws that it was to make: the same to the bit as if it had never stopped.

    Parameters
    ----------
    path : str or path-like
        File that `fit(checkpoint=...)` has written, or `fit.save` of a fit that was stopped before its end.  Checkpoints go on being
        written there, and at the end the whole fit.
    every, cores, progress, time_limit
        See `Model.fit`.  Without a limit of time one of `draws="auto"` is that of the run, counted from now.
    max_bytes : float, default 16e9
        See `load`.
    data : table or source, optional
        Of a variational fit, whose checkpoint knows the path of a file and holds small tables, but no others: the data that it was of.
    executor : optional
        Of a variational fit; see `nrmmix.MemoizedVB`.

    Returns
    -------
    MCMCResult or VariationalResult
        Of a run that had come to its end what the file holds.

    Raises
    ------
    ValueError, OSError
        If the file cannot be read or written, or is no saved fit.

    Examples
    --------
    >>> import tempfile, nrmmix as nm
    >>> model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stopped = model.fit(draws=30, tune=10**5, chains=2, rng=1, time_limit=0.01, checkpoint=f"{folder}/run.npz")
    ...     stopped.draws.n_draws, nm.load(f"{folder}/run.npz").interrupted
    (0, True)
    """
    from nrmmix.inference.variational import checkpoint as of_variational
    from nrmmix.results.saving import load

    if of_variational.is_checkpoint(path):
        return _variational(path, data, executor, progress, time_limit)
    for name, value in (("data", data), ("executor", executor)):
        if value is not None:
            raise ValueError(f"{name} belongs to checkpoints of variational fits, and {str(path)!r} is of chains; leave it out.")
    fit = load(path, max_bytes=max_bytes)
    if not isinstance(fit, MCMCResult):
        what = "a search" if isinstance(fit, SearchResult) else "a variational fit"
        raise ValueError(f"{str(path)!r} holds {what}, which has come to its end; begin a new fit with init=nm.load(...).")
    return go_on(fit, None, Path(path), every, cores=cores, progress=progress, time_limit=time_limit)


def _variational(path: Any, data: Any, executor: Any, progress: bool | None, time_limit: float | None) -> VariationalResult:
    """Go on with a variational fit."""
    from nrmmix.api import Model
    from nrmmix.inference.variational import checkpoint as of_variational
    from nrmmix.model.encoding import decode, decode_model

    saved: Any = of_variational.find(path)
    parts, header = saved.header["model"], saved.header
    given = {part: decode(parts[part]) for part in ("prior", "family", "kernel")} | {"missing": header.get("missing", "drop")}
    data = header.get("path") if data is None else data
    if data is not None:
        model = Model(parts["formula"], data, **given)
    elif "data" in header:
        model = decode_model(Model, header, saved.arrays.__getitem__)
    else:
        raise ValueError(f"the checkpoint {str(path)!r} does not hold its data: give them as data=, those that the fit was of.")
    method = replace(decode(header["options"]), checkpoint=str(path), executor=executor)
    return cast(VariationalResult, model.fit(method, rng=saved.seed, progress=progress, time_limit=time_limit))
