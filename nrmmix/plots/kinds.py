"""Kinds of pictures: which there are, which models they suit, and which options they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd

from nrmmix.common.messages import known_name, known_word, quoted
from nrmmix.model.families.distributions import point_masses
from nrmmix.model.frame.arrays import column as read_column
from nrmmix.model.frame.columns.dates import describe
from nrmmix.model.specification import Specification
from nrmmix.plots.style import GOLDEN, jitter
from nrmmix.posterior.predict.kernel_states import prior_distributions
from nrmmix.results.base import Result
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.shown import Bands

# The data first, the chains last; kinds that are not here follow.
ORDER = (
    "components", "density", "mean", "effects", "importance", "surface", "contrasts", "quantiles", "conditional", "slices", "profiles",
    "survival", "ppc", "clusters", "uncertainty", "similarity", "n_clusters", "prior_posterior", "trace", "autocorrelation",
)
DEFAULTS = ("components", "density", "mean", "effects", "profiles", "conditional", "clusters")
TWO = ("mean", "conditional")  # drawn side by side where both suit
ALWAYS = "similarity"  # what is drawn of a model that none of these suits
OF_CHAINS = (ALWAYS, "n_clusters", "prior_posterior", "trace", "autocorrelation")  # that need draws, and no others than they show
MAX_PANELS = 12  # responses that have a panel each where none is named


Refusal = Callable[["Specification"], "str | None"]
Draw = TypeVar("Draw", bound=Callable[..., Any])


@dataclass(frozen=True)
class Kind:
    """A picture: how to draw it, and for a model that it does not suit what it needs."""

    draw: Callable[..., Any]
    refusal: Refusal
    about: str  # what is drawn, in a few words

    @property
    def options(self) -> tuple[str, ...]:
        return options_of(self.draw)


def options_of(draw: Callable[..., Any]) -> tuple[str, ...]:
    names: list[str] = []
    for parameter in inspect.signature(draw).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            names.append(parameter.name)
        elif parameter.kind is parameter.VAR_KEYWORD:
            names += Bands.__annotations__
    return tuple(names)


KINDS: dict[str, Kind] = {}


def kind(refusal: Refusal, about: str) -> Callable[[Draw], Draw]:
    """Enter a function as the picture of its name: the models that it does not suit, and what is drawn, in a few words."""

    def enter(draw: Draw) -> Draw:
        KINDS[draw.__name__] = Kind(draw, refusal, about)
        return draw

    return enter


def check(model: Specification, kind: str | None = None) -> tuple[str, ...]:
    """Kinds of pictures that a call of `plot` draws of a model, by default or where one is given; nothing has to be sampled for it.

    A ValueError if the kind is unknown, or does not suit the model.

    Examples
    --------
    >>> import nrmmix as nm
    >>> check(nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle()))
    ('mean', 'conditional')
    """
    if kind is None:
        suited = tuple(name for name in DEFAULTS if KINDS[name].refusal(model) is None)
        return TWO if model.n_dim == 1 and suited[:1] == TWO[:1] and TWO[1] in suited else suited[:1] or (ALWAYS,)
    known_word("kind of plot", kind, names())
    why = KINDS[kind].refusal(model)
    if why is not None:
        raise ValueError(f"plot {kind!r} {why}; for this model there are {quoted(available(model))}.")
    return (kind,)


def available(of: Specification | Result) -> tuple[str, ...]:
    """Every kind of picture that suits a model, or that there is of a fit.

    Parameters
    ----------
    of : Model, or the result of a fit
        A fit has those of its method, and of draws that `store=` has left out none.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> import nrmmix as nm
    >>> available(nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy(), prior=nm.DirichletProcess(1.0)))
    ('density', 'ppc', 'clusters', 'uncertainty', 'similarity', 'n_clusters', 'trace', 'autocorrelation')
    """
    if isinstance(of, Result) and not isinstance(of, MCMCResult):
        return of._kinds()
    model, lacking = (of.model, of.lacking) if isinstance(of, MCMCResult) else (of, ())
    suited = tuple(name for name in names() if KINDS[name].refusal(model) is None)
    return tuple(name for name in suited if not lacking or (name in OF_CHAINS and not (name == ALWAYS and "labels" in lacking)))


def names() -> tuple[str, ...]:
    """Names of all kinds, in the order in which they are listed and reported."""
    return tuple(sorted(KINDS, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER)))


def table() -> str:
    """All kinds with what is drawn and their options, as a table of reStructuredText."""
    bands = ", ".join(Bands.__annotations__)
    rows = [("kind", "what is drawn", "options")]
    rows += [(name, KINDS[name].about, ", ".join(KINDS[name].options).replace(bands, "bands")) for name in names()]
    border = tuple("=" * max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join("  ".join(map(str.ljust, row, map(len, border))).rstrip() for row in (border, rows[0], border, *rows[1:], border))


def suits_all(model: Specification) -> None:
    """No model is refused."""


# ------------------------------------------------------------------------------------------- what is drawn


MEAN = "posterior mean of E[y | x]"
NUMBER, COUNT, LEVELS, SHARE = "a number", "a count", "categories", "counts given their total"
ORDERED = (NUMBER, COUNT)


def shapes(model: Specification) -> dict[str, str]:
    """Return what each response holds, by its name."""
    found = {}
    for name, distribution, levels, reads in zip(
        model.frame.response_names, prior_distributions(model), model.frame.levels, model.frame.reads, strict=True
    ):
        own = SHARE if distribution is None else COUNT if distribution.discrete else NUMBER
        found[name] = LEVELS if own == COUNT and (levels is not None or reads == "binary") else own
    return found


def masses_of(model: Specification, name: str) -> np.ndarray:
    """(m,) the values of a number that have a probability of their own."""
    return point_masses(prior_distributions(model)[model.frame.response_names.index(name)])


def responses(model: Specification, chosen: str | Sequence[str] | None, suited: Sequence[str] | None = None) -> tuple[str, ...]:
    """The responses that an option `response` names, which must hold what is suited; None names all that do, of many the first."""
    shape_of = shapes(model)
    if chosen is None:
        return tuple(name for name, own in shape_of.items() if suited is None or own in suited)[:MAX_PANELS]
    wanted = tuple(known_name("response", name, tuple(shape_of)) for name in ((chosen,) if isinstance(chosen, str) else chosen))
    for name in wanted:
        if suited is not None and shape_of[name] not in suited:
            raise ValueError(f"the response {name!r} holds {shape_of[name]}, and this picture needs {' or '.join(suited)}.")
    if not wanted or len(set(wanted)) < len(wanted):
        raise ValueError(f"response must name responses once each, not {chosen!r}.")
    return wanted


def not_drawn(model: Specification, chosen: Any, names: Sequence[str], suited: Sequence[str] | None = None) -> str:
    """Say that there are more responses than `responses` names; empty where there are none."""
    total = sum(suited is None or own in suited for own in shapes(model).values())
    return "" if chosen is not None or total <= len(names) else f"{len(names)} of {total} responses; others by response="


def typical_inputs(model: Specification) -> dict[str, Any]:
    """A value of each column behind the inputs of components: the median of numbers, the most frequent of others."""
    return {name: model.frame.typical_value(name) for name in model.frame.input_columns}


def needs_ordered(model: Specification) -> str | None:
    """Some response must be a number or a count."""
    return None if {*ORDERED} & {*shapes(model).values()} else "needs a response that is a number or a count"


def levels_of(model: Specification, name: str) -> tuple[Any, ...] | None:
    """Levels of a response that has categories or is binary."""
    j = model.frame.response_names.index(name)
    return (0, 1) if model.frame.reads[j] == "binary" else model.frame.levels[j]


def predicted(fit: Result, *arguments: Any, **options: Any) -> pd.DataFrame:
    """Table of a prediction, which goes into no file."""
    return cast(pd.DataFrame, fit.predict(*arguments, **options))


def categories_of(model: Specification, name: str) -> tuple[Any, ...]:
    """Levels of a response whose shape is `LEVELS`."""
    levels = levels_of(model, name)
    assert levels is not None
    return levels


def values_of(model: Specification, name: str) -> np.ndarray:
    """Observed values (n,) of a response, NaN where missing; categories by number, counts given their total as shares of it."""
    j = model.frame.response_names.index(name)
    for block, totals in zip(model.blocks.blocks, model.blocks.totals(model.frame.response), strict=True):
        if totals is not None and j in block.columns:
            return model.frame.response[:, j] / totals
    return model.frame.response[:, j]


def as_often_as_they_count(model: Specification) -> Any:
    """Positions (n,) of rows that stand for all: each about as often as its share of the weights, or once where rows have none."""
    weight, n = model.frame.weight, model.n_obs
    if weight is None:
        return slice(None)
    end = np.cumsum(weight)
    return np.searchsorted(end, (np.arange(n) + 0.5) / n * end[-1])


def scattered(model: Specification, name: str, step: float = GOLDEN) -> np.ndarray:
    """Observed values where to draw them: those of one category, or the same count, beside each other."""
    values = values_of(model, name)
    return values if shapes(model)[name] in (NUMBER, SHARE) else values + 0.5 * jitter(len(values), step)


def quantities(fit: MCMCResult, name: str | None) -> tuple[str, ...]:
    """The numbers that were sampled and depend on no numbering of the clusters, or the one that an option `name` names."""
    fixed = {"mass", "sigma", *fit.model.width_names} - {*fit.model.sampled}
    if name in fixed and name in fit.draws:
        raise ValueError(f"{name!r} is fixed in this model; there is nothing to draw.")
    known = tuple(one for one in fit.scalars if one not in fixed)
    if name is None:
        return known
    return (known_name("quantity", name, known),)


@dataclass(frozen=True)
class Covariate:
    """A column of the data behind the covariates, `x` for `y ~ log(x)`, and where its values stand on an axis."""

    name: str
    levels: tuple[Any, ...] | None  # None where it is numeric
    observed: np.ndarray  # (n,) numbers, or positions of the levels
    label: str  # of an axis: of dates also what they are counted from

    def scattered(self) -> np.ndarray:
        """Return where to draw the observations: those of one level beside each other."""
        return self.observed if self.levels is None else self.observed + 0.4 * jitter(len(self.observed))


def covariates(model: Specification) -> tuple[Covariate, ...]:
    """The columns behind the covariates of a model; none of a mixture."""
    found = []
    for name, levels in model.frame.covariate_columns.items():
        values = model.frame.source[name]
        if levels is None:
            observed = read_column(values, name, numeric=True)
        else:
            position = {level: number for number, level in enumerate(levels)}
            observed = np.array([position[value] for value in values], dtype=float)
        first = model.frame.first_dates.get(name)
        found.append(Covariate(name, levels, np.asarray(observed), name if first is None else describe(name, first)))
    return tuple(found)


def needs_regression(model: Specification) -> str | None:
    return None if model.is_regression else "needs density regression, and this is a mixture"


def needs_one_covariate(model: Specification) -> str | None:
    columns = model.frame.covariate_columns
    if len(columns) > 1:
        return f"needs one covariate, not {len(columns)} ({', '.join(columns)}): predict() takes values of several"
    return needs_regression(model)
