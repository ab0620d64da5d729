"""What becomes of what a method gives back: which result it is made; and which pictures there are of results, for completion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from nrmmix.model.specification import Specification

PlotKind = Literal[
    "components", "density", "mean", "effects", "surface", "contrasts", "quantiles", "conditional", "slices", "profiles", "ppc", "clusters",
    "similarity", "n_clusters", "prior_posterior", "trace", "autocorrelation", "dendrogram", "responsibilities", "elbo",
]


class Bands(TypedDict, total=False):
    """Options of predictions, handed on to `MCMCResult.predict`: see there."""

    draws: int
    interval: float
    rng: Any


class PlotOptions(Bands, total=False):
    """Options of all pictures; which take which stands in `nrmmix.plots.plot`, what they mean at the function of the kind."""

    response: str | Sequence[str] | None
    points: int | None
    name: str | None
    lags: int
    loss: Literal["vi", "binder"]
    curve: Literal["density", "ecdf"]
    q: Sequence[float]
    x: Sequence[Any] | None
    at: Mapping[str, Any] | None
    average: bool
    by: str | None
    values: Mapping[str, Any] | None
    clusters: int
    words: int
    leaves: bool | None
    skip: int


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
