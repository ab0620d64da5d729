"""The methods that have a name, which one suits a model best, which one is meant by what a user gives, and what runs each kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from nrmmix.common.messages import SHELL, instead_of
from nrmmix.common.registry import code
from nrmmix.inference.mcmc.cycle import Cycle
from nrmmix.inference.mcmc.moves import (
    SNGP,
    Blocked,
    Gibbs,
    Move,
    Permutation,
    PublishedTreeGuided,
    Relocation,
    Slice,
    SplitMerge,
    TreeGuided,
)
from nrmmix.inference.mcmc.sampling import sample
from nrmmix.inference.method import Method
from nrmmix.inference.search.options import BHC, IBHC, Search
from nrmmix.inference.search.run import SearchOutcome, run_search
from nrmmix.inference.variational.options import VB, MemoizedVB, RegressionOutcome, StochasticVB, Variational, VariationalOutcome
from nrmmix.inference.variational.run import run_variational
from nrmmix.inference.variational_regression.run import run_regression
from nrmmix.model.frame.columns.weights import are_counts
from nrmmix.model.frame.streaming import StreamedFrame
from nrmmix.model.frame.whole import fits, insist_on_kind, is_file, too_large, whole
from nrmmix.model.specification import Specification

CYCLES: dict[str, Cycle] = {
    "gibbs": Cycle((Gibbs(),)),
    "split_merge": Cycle((SplitMerge(), SplitMerge(proposal="sequential"), Gibbs())),
    "slice": Cycle((Slice(),)),
    "permutation": Cycle((Permutation(beam=1e-6), Gibbs())),
    "tree": Cycle((TreeGuided(global_moves=3, depth=5), Gibbs()), share="work"),
    "tree_published": Cycle((PublishedTreeGuided(),)),
    "blocked": Cycle((Blocked(),)),
    "sngp": Cycle((SNGP(),)),
}
# where a name means other moves for density regression: whose locations are slots with codes, or stay as they are
OF_SLOTS: dict[str, Cycle] = {"split_merge": Cycle((SplitMerge(proposals=3, proposal="sequential"), Gibbs()))}
OF_LOCATIONS: dict[str, Cycle] = {"split_merge": Cycle((SplitMerge(proposal="sequential"), Gibbs(), Relocation()))}
SEARCHES: dict[str, Search] = {"bhc": BHC(), "ibhc": IBHC()}
VARIATIONAL: dict[str, Variational] = {"vb": VB(), "stochastic_vb": StochasticVB(), "memoized_vb": MemoizedVB()}
# "auto" is one of them, by `choose`.
METHODS: dict[str, Method] = {**CYCLES, **SEARCHES, **VARIATIONAL}
NAMES = ("auto", *METHODS)

TREES_FROM, TREES_FROM_RESPONSES = 500, 3  # rows, or responses
TREES_UP_TO = 200_000  # rows
# An iteration along trees takes about 1 to 10 times 1e-10 s x rows x statistics², as measured from 60 x 50 to 60 x 200, 2000 x 20 and, of
# diagonal covariances, 400 x 300; a sweep takes a twentieth of that or less where statistics are many.
TREE_STATISTICS, TREE_WORK = 300, 1e8
VARIATIONAL_FROM = 20_000  # rows of density regressions from which on chains are not comfortable


def _search(model: Specification, method: Search, name: str, **arguments: Any) -> SearchOutcome:
    return run_search(model, method, **arguments)


def _variational(model: Specification, method: Variational, name: str, **arguments: Any) -> VariationalOutcome | RegressionOutcome:
    run_kind: Callable[..., Any] = run_regression if model.is_regression else run_variational
    return run_kind(model, method, name, **arguments)


# What runs a method of each kind on a model, under the name by which the user called for it, with the arguments that it accepts.
RUNNERS: dict[type[Method], Callable[..., Any]] = {Cycle: sample, Search: _search, Variational: _variational}


def run(method: Method, model: Specification, name: str, **arguments: Any) -> Any:
    """Run a method on a model; its outcome, which `nrmmix.results.result_of` wraps."""
    for kind in type(method).__mro__:
        if kind in RUNNERS:
            return RUNNERS[kind](model, method, name, **arguments)
    raise TypeError(f"{type(method).__name__} has no runner in `nrmmix.inference.methods.RUNNERS`.")


def choose(model: Specification) -> str:
    """The method that `"auto"` stands for.

    For mixtures whose component parameters are integrated out, of 500 rows or more, three responses or more or a tied covariance,
    `"tree"`, and `"split_merge"` where trees do not fit into memory or a family has none, beyond 200,000 rows, and of so many columns that
    trees take long (clusters have more than 300 statistics, as of 24 columns with full covariance, and rows x statistics² are more than
    1e8); for fewer rows of two responses, and for density regressions by such families, `"split_merge"`; `"gibbs"` for all others.  Few
    rows of one response mix as well by single observations; more can be caught in partitions that these do not lead out of
    (benchmarks/auto.py), as two groups beside each other that all chains take for one, and so can density regressions
    (benchmarks/motorcycle.py).  Trees compile longer, and are no better for few rows of two responses.
    """
    names: tuple[str, ...] = ()
    if model.is_regression:
        names = ("split_merge",)
    elif model.n_obs >= TREES_FROM or model.frame.response.shape[1] >= TREES_FROM_RESPONSES or model.packed.matrices:
        names = ("tree", "split_merge")
    elif model.frame.response.shape[1] > 1:
        names = ("split_merge",)
    for name in names:
        if name == "tree" and (model.n_obs > TREES_UP_TO or _is_wide(model)):
            continue  # one tree takes seconds to minutes, which a run of limited time does not have
        cycle = _of_regression(model).get(name, CYCLES[name])
        if not cycle.refusal(model) and not any(move.option_error(model) for move in cycle.moves):
            return name
    return "gibbs"


def _is_wide(model: Specification) -> bool:
    """Whether clusters have so many statistics that trees, which join and score them without end, take long."""
    size = model.packed.n_stat
    return size > TREE_STATISTICS and model.n_obs * float(size) ** 2 > TREE_WORK


def instead_of_chains(model: Specification) -> str:
    """Say, for `"auto"`, that chains of a model take long and variational inference does not; empty for others."""
    if not model.is_regression or model.n_obs < VARIATIONAL_FROM or VARIATIONAL["vb"].refusal(model):
        return ""
    return (
        f"chains of {model.n_obs:,} rows take long to agree; method=\"vb\" goes through them in minutes, "
        "with bands that are too narrow."
    )


def method_of(method: Any, model: Specification) -> tuple[str, Method]:
    """The method that `Model.fit` was given, by its name, as an object or as moves, and its name.

    A ValueError names what there is if it is no method, and the methods that suit the model if it does not.
    """
    name, found = named(choose(model) if isinstance(method, str) and method == "auto" else method)
    found = of_model(name, model) if isinstance(method, str) else found
    if why := refusal(found, model):
        suitable = [other for other in METHODS if not refusal(METHODS[other], model)]
        suitable = suitable if model.frame.is_streamed else ["auto", *suitable]
        if not suitable:  # not in memory, and what needs no rows there has nothing for the model
            raise ValueError(f"{why}; chains fit it with the rows in memory: {_in_memory(model)}." if found.takes_streams else f"{why}.")
        raise ValueError(f"{why}; methods for this model are {', '.join(map(repr, suitable))}.")
    return name, found


def _in_memory(model: Specification, variational: bool = False) -> str:
    """Say what brings the rows of a streamed model into memory; `variational` what needs none there, too."""
    rows = getattr(model.frame, "rows", None)
    if not SHELL.get():
        return f"give {'a table' if rows is None else rows.remedy}" + (', or method="memoized_vb"' if variational else "")
    is_large = rows is not None and is_file(rows.path) and not fits(rows.path)
    first = "give --method memoized_vb, or " if variational else "give " if is_large else ""
    return first + ("a file of fewer rows or columns" if is_large else "leave --stream out")


def model_for(method: Any, model: Specification) -> Specification:
    """The model that a method runs on: where rows have weights that it has no use for, that of the rows repeated."""
    by_name = isinstance(method, str) and method == "auto"
    return model if not by_name and named(method)[1].takes_weights else model.expanded()


def refusal(method: Method, model: Specification) -> str:
    """Why a method cannot run on a model; empty where it can."""
    if isinstance(model.frame, StreamedFrame) and not method.takes_streams:
        rows = model.frame.rows
        lacks = "" if rows is None or not is_file(rows.path) or fits(rows.path) else f" ({too_large(rows.path)})"
        instead = _in_memory(model, variational=not VARIATIONAL["memoized_vb"].refusal(model))
        return f"{rows or 'the data'} is not in memory, where chains and searches need it{lacks}: {instead}"
    weight = model.frame.weight
    if weight is not None and not method.takes_weights and not are_counts(weight):
        return "chains and searches count rows, and need weights that are whole numbers"
    return method.refusal(model)


def read_for(method: Any, data: Any) -> Any:
    """The table of a file that fits into memory, where a method needs all rows there; else what is given."""
    needs = method == "auto" or (method in METHODS and not METHODS[method].takes_streams) if isinstance(method, str) else (
        not (isinstance(method, Method) and method.takes_streams)
    )
    if not (needs and is_file(data)):
        return data
    insist_on_kind(Path(data))
    return whole(data) if fits(data) else data


def of_model(name: str, model: Specification) -> Method:
    """Return the method that a name means for a model."""
    return _of_regression(model).get(name, METHODS[name])


def _of_regression(model: Specification) -> dict[str, Cycle]:
    """Methods whose names mean other moves for a model than for mixtures."""
    if not model.is_regression:
        return {}
    return OF_LOCATIONS if model.slots is None else OF_SLOTS


def named(method: Any) -> tuple[str, Method]:
    """A method and its name, whatever model it is for."""
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}; there are {', '.join(map(repr, NAMES))}{instead_of('method', method, NAMES)}")
        return method, METHODS[method]
    if isinstance(method, Method):
        return method.name, method
    if isinstance(method, Move):
        return named(Cycle((method,)))
    if isinstance(method, (list, tuple)):
        if any(isinstance(one, Search) for one in method):
            raise ValueError('a search runs alone, not in a list of moves: method=nm.IBHC(); chains can start from one, init="ibhc".')
        if any(isinstance(one, Variational) for one in method):
            raise ValueError("variational inference runs alone, not in a list of moves: method=nm.MemoizedVB().")
        return named(Cycle(tuple(method)))
    if isinstance(method, type) and issubclass(method, (Search, Variational)):
        raise ValueError(f"method is the class {method.__name__}; make an object of it, nm.{method.__name__}().")
    if isinstance(method, type) and issubclass(method, Move):
        raise ValueError(f"method must be a name or a move such as nm.Gibbs(), not the class {method.__name__}; make an object of it.")
    raise ValueError(
        f"method must be a name or a move such as nm.Gibbs(), a list of moves or an nm.Cycle, not {method!r}; the names are "
        f"{', '.join(map(repr, NAMES))}."
    )


def code_of(name: str, cycle: Cycle) -> str:
    """A method as an argument of `Model.fit`."""
    if cycle in (METHODS.get(name), OF_LOCATIONS.get(name), OF_SLOTS.get(name)):
        return repr(name)
    moves = ", ".join(map(code, cycle.moves))
    return f"nm.Cycle([{moves}], share={cycle.share!r})"


def table(model: Specification) -> pd.DataFrame:
    """The methods that have a name, and whether they suit a model; see `nrmmix.Model.methods`."""
    methods = {name: of_model(choose(model) if name == "auto" else name, model) for name in NAMES}
    why = {name: refusal(method, model) for name, method in methods.items()}
    return pd.DataFrame(
        {
            "moves": [f"search {method}" if isinstance(method, Search) else str(method) for method in methods.values()],
            "suits": [not reason for reason in why.values()],
            "reason": list(why.values()),
        },
        index=pd.Index(why, name="method"),
    )
