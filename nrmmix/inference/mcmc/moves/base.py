"""Moves on the partition: the options of each, which models each one suits, and lists of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nrmmix.common.registry import written
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.model.specification import Specification

MAX_PER_CALL = 10**6  # proposals, scans and atoms of one call, which is not interrupted
MAX_TABLE = 2**30  # bytes of the dynamic program's table in each chain
MAX_COLUMNS = 2**32  # and of its columns of statistics


class ScratchSize(NamedTuple):
    """Scratch that a move needs: floats, integers, columns of statistics, and whether parameters of atoms, and a guide of trees."""

    floats: int = 0
    ints: int = 0
    trial: int = 0
    theta: bool = False
    guide: bool = False


@dataclass(frozen=True)
class Move:
    """Base of all moves."""

    role: ClassVar[str] = "move"
    name: ClassVar[str]
    entry: ClassVar[Entry]
    exact: ClassVar[bool] = True  # whether it leaves the posterior invariant
    bias: ClassVar[str] = ""  # what is known of it where it does not
    runs_alone: ClassVar[bool] = False  # whether it keeps what other moves would not keep up
    calls: ClassVar[tuple[int, ...]] = layout.ENTRIES  # which entry points of families its kernel may call: columns of `Data.block`
    draws_v: ClassVar[bool] = False  # whether in density regression it ends with locations and v drawn: updates after it need not do so
    kinds: ClassVar[tuple[str, ...]] = ()  # kinds of proposals that are counted; none where every one is accepted

    def options(self, model: Specification) -> tuple[float, ...]:
        """Options as the kernel reads them, in its order."""
        return ()

    def scratch_size(self, model: Specification) -> ScratchSize:
        return ScratchSize()

    def parts(self, model: Specification) -> tuple[layout.Memory, ...]:
        """Memories of the moves that its kernel calls."""
        return ()

    def divided(self, model: Specification, floats: np.ndarray, ints: np.ndarray) -> tuple[Any, ...]:
        """The scratch as its kernel reads it, a tuple under `@handle`; () where the kernel takes it as it is."""
        return ()

    def refusal(self, model: Specification) -> str:
        """Why the move cannot run on a model; empty where it can."""
        return ""

    def option_error(self, model: Specification) -> str:
        """Say what is wrong with its options on a model that it suits; empty if nothing."""
        return ""

    def needs_tune(self) -> str:
        """Why the move cannot run without tuning; empty where it can."""
        return ""

    def is_irreducible(self) -> bool:
        """Whether the move alone reaches every partition."""
        return True

    def share_skipped(self, skipped: int, proposed: int, n: int) -> float:
        """Share of its calls, or proposals, that left the partition of n observations as it was without a try."""
        return skipped / proposed

    def skip_warning(self, share: float) -> str:
        """Say what is to be said where it skipped such a share; empty if nothing."""
        return ""

    def can_have_learnt(self, learnt: np.ndarray, model: Specification) -> bool:
        """Whether it may have learnt this, finite numbers that a file says, in tuning."""
        return True

    __str__ = written


def over_limit(what: str, size: float, most: int, instead: str = "", where: str = " in each chain") -> str:
    """Say that something would take more bytes than the limit, and what does without; empty where it would not."""
    return "" if size <= most else f"{what} would take {size / 2**30:.1f} GiB{where}, and {most / 2**30:g} GiB is the limit{instead}"


def only_conjugate_mixtures(model: Specification) -> str:
    if model.is_regression:
        return "it moves partitions of mixtures (responses ~ 1), and this is a density regression"
    return only_conjugate(model)


def only_conjugate(model: Specification) -> str:
    """Refuse models whose component parameters are not integrated out."""
    if len(model.packed.explicit):
        return "it needs component parameters that are integrated out, and the family's are not"
    return ""


def only_with_unions(model: Specification) -> str:
    """Refuse models other than mixtures, along whose trees a move goes."""
    return only_conjugate_mixtures(model) or only_families_with_unions(model)


def only_families_with_unions(model: Specification) -> str:
    """Why clusters of a model cannot be joined, as trees need it; empty where they can."""
    if why := only_conjugate(model):
        return why
    for b, entries in zip(model.packed.of, model.packed.entries, strict=True):
        if entries.combine is None:
            return f"it adds clusters to one another, and {type(model.blocks.blocks[b].family).__name__} has no entry `combine`"
    return ""
