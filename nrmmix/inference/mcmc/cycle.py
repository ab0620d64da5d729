"""Cycles of moves, and the program that a chain runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nrmmix.common.messages import one_of
from nrmmix.common.registry import code, is_own, plugin, plugins
from nrmmix.inference.mcmc.moves.base import Move
from nrmmix.inference.method import Method
from nrmmix.kernels import chain as loop
from nrmmix.kernels import predictive
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry, listed
from nrmmix.kernels.families import shared_parameters
from nrmmix.kernels.measure import auxiliary, codes, hyper, masses, prediction, sides
from nrmmix.kernels.moves import algorithm8, censoring, gibbs
from nrmmix.model.pack import data_of, has_sides
from nrmmix.model.specification import Specification

SHARES = ("once", "work")
# Updates that have the total mass integrated out where it has a gamma prior, and those that are given it.
WITHOUT_MASS = (hyper.update_widths, auxiliary.update_levels, codes.update_unoccupied_slots, hyper.update_sigma)
GIVEN_MASS = (masses.update_locations_and_v, codes.update_codes_and_v, sides.update_sides)


@plugin
@dataclass(frozen=True)
class Cycle(Method):
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
    >>> import nrmmix as nm
    >>> print(nm.Cycle([nm.SplitMerge(), nm.Gibbs()], share="work"))
    Cycle([SplitMerge(), Gibbs()], share='work')
    """

    accepts: ClassVar[frozenset[str]] = frozenset((
        "draws", "tune", "thin", "chains", "init", "rng", "cores", "progress", "time_limit", "checkpoint", "every", "store",
    ))
    handles_interrupts: ClassVar[bool] = True

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
                there = ", ".join(f"nm.{one.made.__name__}()" for one in plugins("move") if is_own(one.made) and not one.made.runs_alone)
                raise ValueError(f"moves holds {move!r}, which is no move; there are {there}.")
        one_of("share", self.share, SHARES)
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

    @property
    def bias(self) -> str:
        """Known bias of moves that do not leave the posterior invariant; empty if all do."""
        return " ".join(f"Not exact: {move.bias}." for move in self.moves if not move.exact)

    def refusal(self, model: Specification) -> str:
        for move in self.moves:
            if why := move.refusal(model):
                return f"{code(move)}: {why}"
        return ""

    def check(self, model: Specification, tune: int, has_name: bool) -> None:
        """A ValueError where the options of moves do not suit the model, or they lack the tuning that they need.

        A method by its name needs none to share work: without tuning each of its moves is called once.
        """
        for move in self.moves:
            if move.option_error(model):
                raise ValueError(f"{code(move)}: {move.option_error(model)}.")
            if tune == 0 and move.needs_tune():
                raise ValueError(f"{code(move)}: {move.needs_tune()}; tune must be at least 1.")
        if tune == 0 and self.share == "work" and not has_name:
            raise ValueError('share="work" measures the work of each move in tuning; tune must be at least 1.')

    def __str__(self) -> str:
        share = "" if self.share == "once" else f", share={self.share!r}"
        return f"Cycle([{', '.join(map(str, self.moves))}]{share})"


def program(cycle: Cycle, model: Specification) -> layout.Program:
    """The moves with memories of their own, for one chain."""
    moves = cycle.moves
    sizes = [move.scratch_size(model) for move in moves]
    option = np.zeros((len(moves), layout.OPTIONS))
    for row, move in zip(option, moves, strict=True):
        values = move.options(model)
        row[: len(values)] = values
    work = np.zeros((len(moves), layout.WORK))
    work[:, layout.CALLS], work[:, layout.BY_WORK] = 1.0, float(cycle.share == "work")
    learnt, tally = np.zeros((len(moves), layout.LEARNT)), np.zeros((len(moves), layout.KINDS * layout.TALLY))
    floats, ints = np.zeros(sum(size.floats for size in sizes)), np.zeros(sum(size.ints for size in sizes), np.int64)
    own_floats = np.split(floats, np.cumsum([size.floats for size in sizes])[:-1])
    own_ints = np.split(ints, np.cumsum([size.ints for size in sizes])[:-1])
    divided = [move.divided(model, *own) for move, *own in zip(moves, own_floats, own_ints, strict=True)]
    each = zip(option, learnt, tally, own_floats, own_ints, [move.parts(model) for move in moves], divided, strict=True)
    return layout.Program(
        address=np.array([move.entry.address for move in moves], np.int64), option=option, learnt=learnt, tally=tally, work=work,
        floats=floats, ints=ints, memory=tuple(layout.Memory(*one) for one in each),
    )


def uncalled_program(cycle: Cycle, model: Specification) -> layout.Program:
    """Return the program without addresses, for its shapes: nothing is compiled."""
    with listed():
        return program(cycle, model)


def scratch(cycle: Cycle, model: Specification) -> tuple[int, bool, bool]:
    """Columns of statistics that the moves try clusters in, whether parameters of atoms are drawn, and whether trees are guided."""
    sizes = [move.scratch_size(model) for move in cycle.moves]
    return max(size.trial for size in sizes), any(size.theta for size in sizes), any(size.guide for size in sizes)


def entries_of(cycle: Cycle) -> tuple[int, ...]:
    """Columns of the entry points of families that a chain calls."""
    return tuple({*layout.OF_COLUMNS, *(column for move in cycle.moves for column in _calls(move))})


def _calls(move: Move) -> tuple[int, ...]:
    """Return the entries that the kernel of a class calls; all where a class derived from it has another kernel and does not say."""
    for one in type(move).__mro__:
        if "calls" in vars(one):
            return move.calls
        if "entry" in vars(one):
            break
    return layout.ENTRIES


def seconds_to_compile(cycle: Cycle, model: Specification) -> float:
    """About how long it takes to compile what chains of the model, and verdicts on their curves, call, and what is not on disk.

    On a machine on which a first Gibbs fit takes 16.
    """
    with listed() as families:
        data_of(model, entries_of(cycle))
    with listed() as moves:
        program(cycle, model)
    with listed() as updates:
        update_addresses(model, cycle)
    needed = dict.fromkeys([gibbs.gibbs, *moves], 2.8) | {loop.run: 3.5, gibbs.enter: 0.3, loop.start: 1.0}
    needed |= dict.fromkeys(updates, 1.5) | dict.fromkeys(families, 0.6)
    if model.is_regression:
        needed |= {prediction.regression_weights: 1.0, predictive.load_draw: 0.5}
    return sum(seconds for one, seconds in needed.items() if not one.is_ready)


def update_addresses(model: Specification, cycle: Cycle | None = None) -> np.ndarray:
    """Entry points of the updates of all else than the partition that the model needs after these moves, in their order."""
    sampled = model.sampled
    regression = model.is_regression
    has_widths = any(name in sampled for name in model.width_names)
    # locations and v have just been drawn by the last move, and no width changes after it
    are_drawn = cycle is not None and cycle.moves[-1].draws_v and model.slots is None and not has_widths
    located = codes.update_codes_and_v if model.slots is not None else masses.update_locations_and_v
    updates = (
        (censoring.update_censored, len(model.packed.censored) > 0),
        (algorithm8.update_explicit, len(model.packed.explicit) > 0),
        (shared_parameters.update_shared, len(model.packed.shared) > 0),
        (hyper.update_widths, has_widths),  # with the locations integrated out
        (auxiliary.update_u, model.has_u),
        (located, regression and not are_drawn),
        (auxiliary.update_levels, regression),
        (sides.update_sides, has_sides(model)),
        (codes.update_unoccupied_slots, model.slots is not None),
        (masses.update_locations_and_v, regression and not are_drawn),  # cheap beside a sweep over the rows
        (hyper.update_sigma, "sigma" in sampled),
        (hyper.update_mass, "mass" in sampled),
    )
    used = [update for update, is_used in updates if is_used]
    return np.array([update.address for update in (_with_mass_drawn(used) if model.has_gamma_mass else used)], np.int64)


def _with_mass_drawn(updates: Sequence[Entry]) -> list[Entry]:
    """Draw a mass with a gamma prior after updates that integrate it out, before one that is given it: else they leave another law."""
    found: list[Entry] = []
    is_out = False
    for update in updates:
        if is_out and update in GIVEN_MASS:
            found.append(hyper.update_mass)
            is_out = False
        found.append(update)
        is_out = update is not hyper.update_mass and (is_out or update in WITHOUT_MASS)
    return found
