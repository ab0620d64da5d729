"""What becomes of what a method gives back: which result it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nrmmix.model.specification import Specification

WRAPPERS: dict[type, Callable[[Any, Specification], Any]] = {}  # by the type of what a method gives back


def wraps(outcome: type) -> Callable[[Callable[[Any, Specification], Any]], Callable[[Any, Specification], Any]]:
    """Decorator: a function (outcome, model) that makes the result of outcomes of a type."""

    def register(function: Callable[[Any, Specification], Any]) -> Callable[[Any, Specification], Any]:
        WRAPPERS[outcome] = function
        return function

    return register


def result_of(outcome: Any, model: Specification) -> Any:
    """The result of a fit, from what its method gave back."""
    return WRAPPERS[type(outcome)](outcome, model)
