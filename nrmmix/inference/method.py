"""Base of every way to fit a model, whichever kind of inference it is."""

from __future__ import annotations

from typing import ClassVar

from nrmmix.model.specification import Specification


class Method:
    """A way to fit: a cycle of moves, a search, and what else has a run of its own.

    A new kind of inference derives a class from it, whose outcome `nrmmix.results.result_of` knows to wrap, and gives it a name and a
    runner in `nrmmix.inference.methods`.
    """

    role: ClassVar[str] = "method"
    @property
    def name(self) -> str:
        """Name that results tell."""
        raise NotImplementedError

    accepts: ClassVar[frozenset[str]] = frozenset()  # arguments of `Model.fit` that it uses
    handles_interrupts: ClassVar[bool] = False  # whether it looks at the flag of `common.interrupts.stoppable`, and Ctrl-C need not raise
    why_not: ClassVar[str] = "is not used by {method}"  # what is said of the others

    takes_streams: ClassVar[bool] = False  # whether it runs on rows that are not in memory
    takes_weights: ClassVar[bool] = False  # whether rows that count more often than once are not to be repeated for it

    def refusal(self, model: Specification) -> str:
        """Why it cannot run on a model; empty where it can."""
        return ""

    def __str__(self) -> str:
        return f"{type(self).__name__}()"
