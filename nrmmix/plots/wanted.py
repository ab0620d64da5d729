"""Functionals in pictures of a regression: which functional of which response, in which units."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import known_name, known_word, number
from nrmmix.model.frame.columns.units import BOUNDED, Back, ways_back
from nrmmix.model.specification import Specification
from nrmmix.plots import kinds, style
from nrmmix.plots.kinds import masses_of, predicted, responses, scattered, shapes, values_of
from nrmmix.posterior.predict.contrasts import KINDS, averaged
from nrmmix.posterior.predict.tables import OF_POINTS
from nrmmix.results.mcmc import MCMCResult

SIGNS = {"cdf": "<=", "exceedance": ">"}


@dataclass(frozen=True)
class Wanted:
    """A functional of one response."""

    fit: MCMCResult
    name: str
    kind: str
    q: np.ndarray  # (W,) probabilities of quantiles
    y: float | None  # the point of a distribution function, an exceedance or a density
    units: str
    back: Back | None

    @classmethod
    def of(cls, fit: MCMCResult, response: str | None, kind: str, q: Any, y: Any, units: str) -> Wanted:
        """A ValueError where an argument cannot be used; the default response is the first that suits, y its median."""
        known_word("kind of effect", kind, KINDS)
        name = _response(fit.model, response, kind)
        back = back_of(fit.model, name, units)
        if kind not in OF_POINTS:
            if y is not None:
                raise ValueError(f'y is the point of kind="cdf", "exceedance" and others; a {kind} has none.')
        elif y is None:
            middle = float(np.nanmedian(values_of(fit.model, name)))
            y = float(f"{float(middle if back is None else back.inverse(middle)):.3g}")
        else:
            y = number(y)
        return cls(fit, name, kind, np.unique(np.atleast_1d(np.asarray(q, dtype=float))), y, units, back)

    @property
    def options(self) -> dict[str, Any]:
        own: dict[str, Any] = {"response": self.name, "units": self.units}
        if self.kind == "quantile":
            own["q"] = self.q
        elif self.y is not None:
            own["at"] = [int(self.y) if shapes(self.fit.model)[self.name] == kinds.COUNT else self.y]
        return own

    def predict(self, rows: pd.DataFrame, **bands: Any) -> np.ndarray:
        """(rows, W, 3)"""
        with said_in_the_label():
            return predicted(self.fit, rows, self.kind, **self.options, **bands).to_numpy().reshape(len(rows), -1, 3)

    def averaged(self, rows: pd.DataFrame, size: int, **bands: Any) -> np.ndarray:
        """(groups, W, 3): averages over each `size` rows that follow one another."""
        return averaged(self.fit.posterior, rows, size, kind=self.kind, **self.options, **bands)

    @property
    def column(self) -> str:
        """Name of the response in these units."""
        return called(self.name, self.back)

    @property
    def is_value(self) -> bool:
        """Whether it is in the units of the response, and the data belong on its axis."""
        return self.kind in ("mean", "quantile")

    @property
    def axis(self) -> str:
        if self.is_value:
            return self.column
        if self.kind in SIGNS:
            return f"P({self.column} {SIGNS[self.kind]} {self.y:g} | x)"
        return f"{self.kind} of {self.column} at {self.y:g}, given x"

    @property
    def looks(self) -> list[int]:
        """Number of the look of each of the W curves: quantiles as far from the median share one."""
        if self.kind != "quantile":
            return [0]
        return [int(place) for place in np.unique(np.round(np.abs(self.q - 0.5), 9), return_inverse=True)[1]]

    @property
    def labels(self) -> list[str]:
        """Labels of each of the W curves, and those that share its look."""
        if self.kind == "quantile":
            looks = np.array(self.looks)
            same = [[f"{100 * q:g}%" for q in self.q[looks == own]] for own in looks]
            texts = [f"{' and '.join(of)} quantile{'s' if len(of) > 1 else ''}" for of in same]
            return ["median" if q == 0.5 else text for q, text in zip(self.q, texts, strict=True)]
        if self.kind != "mean":
            return [f"posterior mean of {self.axis}"]
        if self.back is None:
            return [kinds.MEAN]
        return [f"posterior {'mean' if self.back.is_affine or self.back.growth == BOUNDED else 'median'} of E[{self.column} | x]"]

    @property
    def banded(self) -> int | None:
        """Number of the curve that has a band: the only one, or the median."""
        if len(self.q) == 1 or self.kind != "quantile":
            return 0
        return int(self.q.searchsorted(0.5)) if 0.5 in self.q else None

    def data(self, ax: Any, x: np.ndarray, **looks: Any) -> None:
        """The observations: their values, or on which side of the point they lie, as strokes above and below."""
        own = in_units(self.fit.model, self.name, self.back)
        if self.is_value:
            ax.plot(x, own, **style.points(len(x)) | looks)
        elif self.kind in SIGNS:
            holds = own > self.y if self.kind == "exceedance" else own <= self.y
            ax.plot(x, np.where(holds, 1.04, -0.04), **style.points(len(x)) | {"marker": "|", "markeredgewidth": 0.8, "alpha": 0.5} | looks)
            ax.set_ylim(-0.08, 1.08)


def back_of(model: Specification, name: str, units: str) -> Back | None:
    """The way back to the units of the column behind a response; None where units are those of the formula."""
    known_word("units", units, ("formula", "response"))
    j = model.frame.response_names.index(name)
    return ways_back(model.frame, [j]).get(j) if units == "response" else None


def in_units(model: Specification, name: str, back: Back | None) -> np.ndarray:
    """Observed values (n,) where to draw them, in these units."""
    values = scattered(model, name, style.PLASTIC) if shapes(model)[name] == kinds.COUNT else values_of(model, name)
    return values if back is None else back.inverse(values)


def seen_in(model: Specification, name: str, back: Back | None) -> tuple[np.ndarray, np.ndarray]:
    """Observed values (n,), NaN where missing, and values that have a probability of their own, in these units."""
    found = values_of(model, name), masses_of(model, name)
    return found if back is None else (back.inverse(found[0]), back.inverse(found[1]))


def reached_by(grid: np.ndarray, back: Back | None) -> np.ndarray:
    """Return those points on an axis in these units that the formula takes to a number."""
    return grid if back is None else grid[np.isfinite(back.forward(grid)) & np.isfinite(back.jacobian(grid))]


def called(name: str, back: Back | None) -> str:
    """Return the name of a response in these units."""
    return name if back is None else back.column


@contextmanager
def said_in_the_label() -> Iterator[None]:
    """Without the warning that estimates of means are medians, which the label of the curve says."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the posterior mean of E")
        yield


def with_one_mean(model: Specification) -> tuple[str, ...]:
    """Responses that have one mean."""
    of = np.bincount(model.blocks.mean_responses(), minlength=model.n_dim)
    shaped = zip(model.frame.response_names, shapes(model).values(), of, strict=True)
    return tuple(name for name, own, size in shaped if size == 1 and own != kinds.SHARE)


def _response(model: Specification, chosen: str | None, kind: str) -> str:
    suited = with_one_mean(model) if kind == "mean" else responses(model, None, kinds.ORDERED)
    if not suited:
        raise ValueError(f"effects of kind {kind!r} need a response that is a number or a count.")
    if chosen is None:
        return suited[0]
    (name,) = responses(model, chosen)
    return known_name("response with one mean" if kind == "mean" else "response that is a number or a count", name, suited)
