"""Lists of moves: names of methods, cycles, what suits a model, and the program that a chain runs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nrmmix.inference.mcmc.moves.base import Move
from nrmmix.inference.mcmc.moves.gibbs import Gibbs
from nrmmix.inference.mcmc.moves.permutation import Permutation
from nrmmix.inference.mcmc.moves.published import PublishedTreeGuided
from nrmmix.inference.mcmc.moves.slice import Slice
from nrmmix.inference.mcmc.moves.split_merge import SplitMerge
from nrmmix.inference.mcmc.moves.tree_guided import TreeGuided
from nrmmix.inference.search.options import SEARCHES
from nrmmix.kernels.core import locations
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.measure import auxiliary, hyper
from nrmmix.kernels.moves import algorithm8 as held

if TYPE_CHECKING:
    import pandas as pd

    from nrmmix.model.specification import Model

SHARES = ("once", "work")


@dataclass(frozen=True)
class Cycle:
    """A list of moves, run one after the other in every iteration.

    Any list leaves the posterior as it is; one of its moves must reach every partition.

    Parameters
    ----------
    moves : sequence of moves
        Such as `[nm.SplitMerge(), nm.Gibbs()]`.
    share : {"once", "work"}
        "once": each move once an iteration.  "work": the one that takes most likelihood evaluations once, each other as often as
        together takes no more; measured in tuning and kept afterwards.

    Raises
    ------
    ValueError
        If moves is empty, holds something else, or no move of it reaches every partition; if share is unknown.

    Examples
    --------
    >>> print(Cycle([SplitMerge(), Gibbs()], share="work"))
    Cycle([SplitMerge(), Gibbs()], share='work')
    """

    moves: tuple[Move, ...]
    share: str = "once"

    def __post_init__(self) -> None:
        moves = self.moves
        if isinstance(moves, (str, Move)) or not isinstance(moves, Sequence):
            raise ValueError(f"moves must be a list such as [nm.SplitMerge(), nm.Gibbs()], not {moves!r}.")
        if not moves:
            raise ValueError("moves is empty; give one at least, such as nm.Gibbs().")
        for move in moves:
            if isinstance(move, type) and issubclass(move, Move):
                raise ValueError(f"moves holds the class {move.__name__}; make an object of it, nm.{move.__name__}().")
            if isinstance(move, str):
                raise ValueError(f"moves holds the name {move!r}; lists hold moves, such as nm.SplitMerge() and nm.Gibbs().")
            if isinstance(move, Cycle):
                raise ValueError("moves holds an nm.Cycle; give its moves instead.")
            if not isinstance(move, Move):
                known = ", ".join(f"nm.{kind.__name__}()" for kind in KINDS)
                raise ValueError(f"moves holds {move!r}, which is no move; there are {known}.")
        if self.share not in SHARES:
            raise ValueError(f"share must be one of {', '.join(map(repr, SHARES))}, not {self.share!r}.")
        if len(moves) > 1 and any(move.runs_alone for move in moves):
            alone = next(move for move in moves if move.runs_alone)
            raise ValueError(f"{alone} runs alone, in no list: it keeps trees that other moves would not keep up.")
        if not any(move.is_irreducible() for move in moves):
            raise ValueError(
                f"{moves[0]} alone does not reach every partition; add a move that does, such as nm.Gibbs()."
                if len(moves) == 1 else "none of these moves reaches every partition; add one that does, such as nm.Gibbs()."
            )
        object.__setattr__(self, "moves", tuple(moves))

    @property
    def name(self) -> str:
        """Names of the moves, joined by +."""
        return " + ".join(move.name for move in self.moves)

    def __str__(self) -> str:
        share = "" if self.share == "once" else f", share={self.share!r}"
        return f"Cycle([{', '.join(map(str, self.moves))}]{share})"


KINDS = (Gibbs, SplitMerge, Slice, Permutation, TreeGuided)

# The methods that have a name of their own; "auto" is one of them, by `choose`.
METHODS: dict[str, Cycle] = {
    "gibbs": Cycle((Gibbs(),)),
    "split_merge": Cycle((SplitMerge(), SplitMerge(proposal="sequential"), Gibbs())),
    "slice": Cycle((Slice(),)),
    "permutation": Cycle((Permutation(beam=1e-6), Gibbs())),
    "tree": Cycle((TreeGuided(global_moves=3, depth=5), Gibbs()), share="work"),
    "tree_published": Cycle((PublishedTreeGuided(),)),
}


TREES_FROM, TREES_FROM_RESPONSES = 500, 3  # rows, or responses
NAMES = ("auto", *METHODS)


def choose(model: Model) -> str:
    """The method that `"auto"` stands for.

    For mixtures whose component parameters are integrated out, of 500 rows or more or three responses or more, `"tree"`, and
    `"split_merge"` where trees do not fit into memory or a family has none; `"gibbs"` for all others.  Few rows of one or two responses
    mix as well by single observations; more can be caught in partitions that these do not lead out of (benchmarks/auto.py).
    """
    if model.n_obs >= TREES_FROM or model.frame.response.shape[1] >= TREES_FROM_RESPONSES:
        for name in ("tree", "split_merge"):
            if not refusal(METHODS[name], model) and not any(move.complaint(model) for move in METHODS[name].moves):
                return name
    return "gibbs"


def cycle_of(method: Any) -> tuple[str, Cycle]:
    """The name of a method and its moves, from what `Model.fit` was given.

    Raises
    ------
    ValueError
        If it is no method; names what there is.
    """
    if isinstance(method, str):
        if method not in METHODS:
            near = difflib.get_close_matches(method, (*NAMES, *SEARCHES), 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ValueError(f"unknown method {method!r}; there are {', '.join(map(repr, (*NAMES, *SEARCHES)))}{hint}")
        return method, METHODS[method]
    if isinstance(method, Cycle):
        return method.name, method
    if isinstance(method, Move):
        return cycle_of(Cycle((method,)))
    if isinstance(method, (list, tuple)):
        return cycle_of(Cycle(tuple(method)))
    if isinstance(method, type) and issubclass(method, Move):
        raise ValueError(f"method must be a name or a move such as nm.Gibbs(), not the class {method.__name__}; make an object of it.")
    raise ValueError(
        f"method must be a name or a move such as nm.Gibbs(), a list of moves or an nm.Cycle, not {method!r}; the names are "
        f"{', '.join(map(repr, (*NAMES, *SEARCHES)))}."
    )


def code_of(name: str, cycle: Cycle) -> str:
    """A method as an argument of `Model.fit`."""
    if METHODS.get(name) == cycle:
        return repr(name)
    moves = ", ".join(f"nm.{move}" for move in cycle.moves)
    return f"nm.Cycle([{moves}], share={cycle.share!r})"


def refusal(cycle: Cycle, model: Model) -> str:
    """Why a list of moves cannot run on a model; empty where it can."""
    for move in cycle.moves:
        why = move.refusal(model)
        if why:
            return f"nm.{move}: {why}"
    return ""


def check(cycle: Cycle, model: Model, tune: int) -> None:
    """The moves must suit the model, and have the tuning that they need.

    Raises
    ------
    ValueError
        Says why not, and which methods do.
    """
    why = refusal(cycle, model)
    if why:
        suitable = ["auto", *(name for name, other in METHODS.items() if not refusal(other, model))]
        raise ValueError(f"{why}; methods for this model are {', '.join(map(repr, suitable))}.")
    for move in cycle.moves:
        if move.complaint(model):
            raise ValueError(f"nm.{move}: {move.complaint(model)}.")
        if tune == 0 and move.needs_tune():
            raise ValueError(f"nm.{move}: {move.needs_tune()}; tune must be at least 1.")
    if tune == 0 and cycle.share == "work" and cycle not in METHODS.values():  # a method by its name then makes one call of each
        raise ValueError('share="work" measures the work of each move in tuning; tune must be at least 1.')


def table(model: Model) -> pd.DataFrame:
    """The methods that have a name, and whether they suit a model; see `Model.methods`."""
    import pandas as pd

    cycles = {"auto": METHODS[choose(model)]} | METHODS
    why = {name: refusal(cycle, model) for name, cycle in cycles.items()}
    why |= {name: search.refusal(model) for name, search in SEARCHES.items()}
    return pd.DataFrame(
        {
            "moves": [*map(str, cycles.values()), *(f"search {search}" for search in SEARCHES.values())],
            "suits": [not reason for reason in why.values()],
            "reason": list(why.values()),
        },
        index=pd.Index(why, name="method"),
    )


def program(cycle: Cycle, model: Model) -> layout.Program:
    """The moves with memories of their own, for one chain."""
    moves = cycle.moves
    rooms = [move.room(model) for move in moves]
    place = np.zeros((len(moves), 4), np.int64)
    place[:, 1], place[:, 3] = np.cumsum([room.number for room in rooms]), np.cumsum([room.whole for room in rooms])
    place[1:, 0], place[1:, 2] = place[:-1, 1], place[:-1, 3]
    option = np.zeros((len(moves), layout.OPTIONS))
    for row, move in zip(option, moves, strict=True):
        values = move.options(model)
        row[: len(values)] = values
    work = np.zeros((len(moves), layout.WORK))
    work[:, layout.CALLS], work[:, layout.BY_WORK] = 1.0, float(cycle.share == "work")
    return layout.Program(
        address=np.array([move.entry.address for move in moves], np.int64),
        place=place,
        option=option,
        kept=np.zeros((len(moves), layout.KEPT)),
        tally=np.zeros((len(moves), layout.KINDS * layout.TALLY)),
        work=work,
        number=np.zeros(int(place[-1, 1])),
        whole=np.zeros(int(place[-1, 3]), np.int64),
    )


def scratch(cycle: Cycle, model: Model) -> tuple[int, bool]:
    """Columns of statistics that the moves try clusters in, and whether parameters of atoms are drawn."""
    rooms = [move.room(model) for move in cycle.moves]
    return max(room.side for room in rooms), any(room.theta for room in rooms)


def update_addresses(model: Model) -> np.ndarray:
    """Entry points of the updates of all else than the partition that the model needs, in their order."""
    sampled = model.sampled
    regression = model.is_regression
    updates = (
        (held.update_held, len(model.packed.held) > 0),
        (locations.update_locations, regression),
        (auxiliary.update_v, regression or model.has_u),
        (auxiliary.update_levels, regression),
        (hyper.update_sigma, "sigma" in sampled),
        (hyper.update_widths, any(name in sampled for name in model.width_names)),
        (hyper.update_mass, "mass" in sampled),  # last: where it has a gamma prior the others do without it
    )
    return np.array([update.address for update, used in updates if used], np.int64)
