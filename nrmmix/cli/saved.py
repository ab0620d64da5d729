"""Commands on saved fits: summary, predict, report, compare."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nrmmix.cli.arguments import FORMATS
from nrmmix.cli.as_json import dumped, of_fit
from nrmmix.cli.output import say, warnings_said
from nrmmix.cli.tables import seed_of, table_of
from nrmmix.common import files
from nrmmix.common.messages import SHELL


def summary(options: argparse.Namespace) -> int:
    if options.json and options.format != "text":
        raise ValueError(f"--json and --format {options.format} are two ways to write one summary; leave one of them out")
    fit = loaded(options)
    print(dumped(of_fit(fit)) if options.json else getattr(fit.summary(), FORMATS[options.format])())
    return 0


def predict(options: argparse.Namespace) -> int:
    given: dict[str, Any] = {"q": options.q} if options.q is not None else {}
    if options.q is not None and options.kind != "quantile":
        raise ValueError(f"--q belongs to --kind quantile, not {options.kind}")
    given |= {} if options.units == "formula" else {"units": options.units}
    if options.response is not None:
        given["response"] = options.response[0] if len(options.response) == 1 else options.response
    if options.json and options.out is not None:
        raise ValueError("--json goes to standard output and --out to a file; leave one of them out")
    if options.out is not None and options.data is not None:
        from nrmmix.results.streams import insist_apart

        insist_apart(Path(options.out), [options.data])
    data, fit = None if options.data is None else table_of(options), loaded(options)
    if options.at is not None:
        from nrmmix.posterior.predict.points import response_columns

        levels = [fit.model.frame.levels[j] for j in response_columns(fit.model, given.get("response"))]
        given["at"] = [_point(text, levels) for text in options.at]
    out = options.out
    table = fit.predict(data, options.kind, interval=options.interval, draws=options.draws, rng=seed_of(options), out=out, **given)
    if out is not None:
        say(f"predictions written to {table}")
        return 0
    table.index.names = ["row" if name is None else name for name in table.index.names]
    if options.json:
        print(dumped(table))
    else:
        table.to_csv(sys.stdout)
    return 0


def _point(text: str, levels: Sequence[Any]) -> Any:
    """A point of the responses: numbers, or levels of those that have categories."""
    parts = [text] if len(levels) == 1 and levels[0] is not None else text.split(",")
    values: list[Any] = []
    for part, of_response in zip(parts, [*levels, *[None] * len(parts)]):
        by_text = {str(level): level for level in of_response or ()}
        try:
            values.append(by_text[part] if part in by_text else float(part))
        except ValueError:
            if of_response is None:
                raise ValueError(f"--at {text!r} is no number, nor numbers joined by commas") from None
            values.append(part)
    return values[0] if len(values) == 1 else values


def compare(options: argparse.Namespace) -> int:
    import nrmmix as nm

    names = [str(name) for name in options.fits]
    if len(names) < 2:
        raise ValueError("compare needs two saved fits or more")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{twice[0]!r} is given twice; give each fit once")
    data = None if options.data is None else table_of(options)
    with warnings_said():
        found = nm.compare({name: nm.load(name) for name in names}, newdata=data)
    print(dumped(found) if options.json else found.round(3).to_string())
    return 0


def report(options: argparse.Namespace) -> int:
    page = files.target(options.out, ".html", "a report")
    with warnings_said():
        say(f"report written to {loaded(options).report(page)}")
    return 0


def loaded(options: argparse.Namespace) -> Any:
    import nrmmix as nm

    SHELL.set(str(options.fit))
    return nm.load(options.fit)
