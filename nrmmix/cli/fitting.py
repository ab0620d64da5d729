"""Commands that sample: fit and resume."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nrmmix.cli.as_json import dumped, of_fit
from nrmmix.cli.output import abandon_output, picture_path, printable_lines, save_picture, say, warnings_said
from nrmmix.cli.tables import model_of, seed_of
from nrmmix.common import files
from nrmmix.common.interrupts import stoppable
from nrmmix.common.messages import SHELL, duration

RUN = ("draws", "tune", "chains", "thin", "init", "store")  # options that are arguments of `Model.fit`, whose defaults they have


def fit(options: argparse.Namespace) -> int:
    # checked before the sampling, which may take long
    picture = None if options.plot is None else picture_path(options.plot)
    saved = None if options.save is None else files.target(options.save, ".npz", "a saved fit")
    page = None if options.report is None else files.target(options.report, ".html", "a report")
    seed = seed_of(options)
    import nrmmix as nm
    from nrmmix.inference.methods import CYCLES, SEARCHES, VARIATIONAL

    checkpoint = options.checkpoint
    if checkpoint is None and saved is not None and options.method in ("auto", *CYCLES):
        checkpoint = _checkpoint_of(saved)
    with warnings_said():
        model = model_of(options)
        given = {name: getattr(options, name) for name in RUN if getattr(options, name) is not None}
        if "draws" in given:
            given["draws"] = _draws(given["draws"])
        if checkpoint is not None:
            given |= {"checkpoint": checkpoint, "every": options.every}

        method: Any = options.method
        if checkpoint is not None and method in VARIATIONAL:
            if method != "memoized_vb":
                raise ValueError(f"--checkpoint belongs to chains and to --method memoized_vb, not {method}; leave it out")
            method = nm.MemoizedVB(checkpoint=given.pop("checkpoint"))
            given.pop("every")

        def work() -> Any:
            return model.fit(
                method, rng=seed, cores=options.cores, progress=options.progress, time_limit=options.time_limit, **given,
            )

        if options.method in SEARCHES or options.method in VARIATIONAL:
            result = work()
            if result.interrupted and options.method in SEARCHES:
                say(f"stopped early; the best of {len(result.bounds)} passes is kept")
            elif result.interrupted:
                say(f"stopped early; what {len(result.passes)} passes have found is kept")
            if saved is not None:
                say(f"fit saved to {result.save(saved)}")
            return shown(result, picture, page, options.json)
        return _sampled(work, saved, checkpoint, (picture, page, options.json), given.get("draws"))


def resume(options: argparse.Namespace) -> int:
    import nrmmix as nm

    own = Path(options.fit)
    # of a run that was killed there is the checkpoint; the fit of that name, if any, is of a run before
    kept = _checkpoint_of(own) if _checkpoint_of(own).is_file() else own
    saved = files.target(own, ".npz", "a saved fit")
    run = {"every": options.every, "cores": options.cores, "progress": options.progress, "time_limit": options.time_limit}

    from nrmmix.inference.variational.checkpoint import is_checkpoint

    if own.is_file() and is_checkpoint(own):
        if options.draws is not None:
            raise ValueError(f"--draws belongs to chains, and {options.fit!r} is the checkpoint of a variational fit; leave it out")
        with warnings_said():
            return shown(nm.resume(own, progress=options.progress, time_limit=options.time_limit), None, None, options.json)

    def work() -> Any:
        if options.draws is None:
            return nm.resume(kept, **run)
        fit = nm.load(kept)
        if not isinstance(fit, nm.MCMCResult):
            raise ValueError(f"--draws belongs to chains, and {str(kept)!r} holds a fit of another kind, which has come to its end")
        return fit.extend(_draws(options.draws), checkpoint=kept, **run)

    with warnings_said():
        return _sampled(work, saved, kept, (None, None, options.json))


def _sampled(
    work: Any, saved: Path | None, checkpoint: Any, how: tuple[Path | None, Path | None, bool], wanted: int | str | None = None
) -> int:
    """Sample, save and show, by a picture, a report and as JSON where `how` says so.

    A signal ends the sampling only, and what was drawn is kept.
    """
    if saved is not None:
        SHELL.set(str(saved))
    with stoppable(endings=True) as stop:
        result = work()
        drawn, goal = result.draws.n_draws, wanted or result.run.goal
        if result.interrupted and drawn:
            why = f", as the time limit of {duration(result.evidence.limit)} was over" if result.evidence.limit else ""
            say(f"stopped early; {drawn} {'' if goal == 'auto' else f'of {goal} '}draws of each chain are kept{why}")
        if saved is not None and (drawn or stop.signal or result.interrupted):
            say(f"fit saved to {result.save(saved)}")
            if checkpoint is not None and Path(checkpoint) == _checkpoint_of(saved):
                Path(checkpoint).unlink(missing_ok=True)
        if drawn == 0:
            more = f"; nrmmix resume {saved} goes on" if saved is not None else "; give more seconds, or less --tune"
            say(f"{'stopped' if stop.signal else 'time_limit was over'} before the first draw was recorded{more}")
            return 128 + stop.signal if stop.signal else 1
    return 128 + stop.signal if stop.is_final else shown(result, *how)


def _checkpoint_of(saved: Path) -> Path:
    """Return the path of the checkpoints of a fit until it is saved."""
    return saved.with_name(f"{saved.stem}.checkpoint.npz")


def _draws(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--draws must be a number or auto, not {text!r}") from None


def shown(result: Any, picture: Path | None, page: Path | None, as_json: bool = False) -> int:
    """Print and draw a result; a reader of the output that has left costs neither picture nor report."""
    status = 0
    try:
        print(dumped(of_fit(result)) if as_json else printable_lines(result.summary().as_text()), flush=True)
    except OSError:
        abandon_output()
        status = 1
    if picture is not None:
        save_picture(result, picture)
    if page is not None:
        say(f"report written to {result.report(page)}")
    return status
