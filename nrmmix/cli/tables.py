"""Tables and models that the command line is given."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nrmmix.cli.as_json import dumped
from nrmmix.cli.output import say
from nrmmix.common.messages import did_you_mean
from nrmmix.common.registry import shell_names

if TYPE_CHECKING:
    from nrmmix.api import Model

OPTIONS = ("mass", "sigma", "components")  # of priors
BY_PARTS = (".parquet", ".pq", ".npy")  # endings of files that are read part by part
SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|", "bar": "|"}  # words for them
PLACES = ("sep", "decimal", "thousands", "encoding", "dtype", "na")  # options of how a table is read


def datasets(options: argparse.Namespace) -> int:
    from nrmmix import datasets

    if options.json:
        tables = {name: datasets.load(name) for name in datasets.names()}
        print(dumped([{"name": name, "rows": len(table), "columns": list(table.columns)} for name, table in tables.items()]))
        return 0
    print(f"{'name':<8}{'rows':>6}  columns")
    for name in datasets.names():
        table = datasets.load(name)
        print(f"{name:<8}{len(table):>6}  {', '.join(table.columns)}")
    return 0


def model_of(options: argparse.Namespace) -> Model:
    import nrmmix as nm
    from nrmmix.inference.methods import read_for

    data = read_for(options.method, table_of(options))
    kernel = None
    if options.kernel is not None or options.width is not None:
        kind, given = shell_names("kernel")[options.kernel or "se"]
        if options.width is None and kind.default_widths is None:
            raise ValueError(f"--kernel {options.kernel} needs --width; covariates are scaled to [0, 1]")
        kernel = kind(options.width, **given)
    family, prior = _family(options.family), _prior(options)
    return nm.Model(options.formula, data, family=family, prior=prior, kernel=kernel, missing=options.missing, weights=options.weights)


def _prior(options: argparse.Namespace) -> Any:
    priors = shell_names("prior")
    given = {name: getattr(options, name) for name in OPTIONS if getattr(options, name) is not None}
    takes = {name: [short for short, (kind, _) in priors.items() if name in signature(kind).parameters] for name in OPTIONS}
    for name in given:
        if options.prior not in takes[name]:
            raise ValueError(f"--{name} belongs to --prior {' or '.join(takes[name])}, not {options.prior}")
    kind, fixed = priors[options.prior]
    for name, one in signature(kind).parameters.items():
        if one.default is one.empty and name not in given:
            raise ValueError(f"--prior {options.prior} needs --{name}")
    return kind(**fixed, **given)


def _family(given: Sequence[str] | None) -> Any:
    """A family by name, or several by the names of their responses; None, the model's own default, where none is given."""
    if given is None:
        return None
    known = shell_names("family")

    def made(name: str) -> Any:
        if name not in known:
            raise ValueError(f"--family {name!r} is unknown; there are {', '.join(known)}{did_you_mean(name, known)}")
        kind, options = known[name]
        return kind(**options)

    if len(given) == 1 and "=" not in given[0]:
        return made(given[0])
    families = {}
    for text in given:
        name, _, responses = text.partition("=")
        if not responses:
            raise ValueError(f"--family {text!r}: of several families each needs its responses, {name}=NAME+NAME")
        families[responses] = made(name)
    return families


def table_of(options: argparse.Namespace) -> Any:
    """A file, or a data set by name; what looks like neither is an error that says so."""
    from nrmmix import datasets
    from nrmmix.datasets.text import read_table
    from nrmmix.model.frame.whole import refuse_other_kinds

    name, path = options.data, Path(options.data)
    given = {one: getattr(options, one) for one in PLACES if getattr(options, one) is not None}
    if "sep" in given:
        given["sep"] = SEPARATORS.get(given["sep"].lower(), given["sep"])
    if path.suffix.lower() in BY_PARTS or path.is_dir():
        if given:
            raise ValueError(f"--{next(iter(given))} is of csv files, and {name!r} is none; leave it out")
        return name
    if getattr(options, "stream", False):
        return _streamed(path, given)
    if name == "-" or ".csv" in path.suffixes or path.exists():
        if name != "-" and (not path.exists() or path.is_dir()):
            raise FileNotFoundError(f"there is no file {name!r}")
        refuse_other_kinds(path)
        if "dtype" in given:
            pairs = [text.rpartition("=") for text in given["dtype"]]
            if wrong := [text for text, (column, _, _) in zip(given["dtype"], pairs, strict=True) if not column]:
                raise ValueError(f"--dtype {wrong[0]!r}: give a column and its type, such as {wrong[0]}=str")
            given["dtype"] = {column: kind for column, _, kind in pairs}
        table, remarks = read_table(path, **given)
        for remark in remarks:
            say(remark)
        return table
    if name not in datasets.names():
        hint = did_you_mean(name, datasets.names())
        raise ValueError(f"there is no data set {name!r} (there are {', '.join(datasets.names())}) and no such csv file{hint}")
    if given:
        raise ValueError(f"--{next(iter(given))} is of csv files, and {name!r} is a data set of nrmmix; leave it out")
    return datasets.load(name)


def _streamed(path: Path, given: dict[str, Any]) -> Any:
    """A csv file that is read part by part."""
    from nrmmix.model.frame.sources.files import CsvSource

    if not path.is_file() or path.suffix.lower() != ".csv":
        raise FileNotFoundError(f"--stream reads csv files part by part, and there is no such file {str(path)!r}")
    for name in ("dtype", "thousands"):
        if name in given:
            raise ValueError(f"--{name} is not available with --stream; leave one of them out")
    return CsvSource(str(path), **given)


def seed_of(options: argparse.Namespace) -> int | None:
    if options.seed is not None and options.seed < 0:
        raise ValueError(f"--seed must be 0 or greater, not {options.seed}")
    return options.seed
