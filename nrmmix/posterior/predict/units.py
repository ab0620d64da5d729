"""Predictions in the units of the columns behind responses that a formula transforms, such as log(wage)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nrmmix.common.messages import one_of
from nrmmix.common.warnings import warn
from nrmmix.model.families.distributions import Normal, WithPointMass
from nrmmix.model.frame.columns.units import BOUNDED, EXPONENTIAL, Back, ways_back
from nrmmix.model.specification import Specification
from nrmmix.posterior.predict.functionals import Mean, Quantile
from nrmmix.posterior.predict.states import States

UNITS = ("formula", "response")
FAR = 1e150  # of a response whose log, say, is infinite at the end of its range: all probability is on one side
PER_UNIT, PROBABILITIES = ("density", "hazard"), ("cdf", "exceedance", "survival")  # kinds of prediction at points
NO_MEAN = (
    "the posterior mean of E[{columns}] does not exist: the predictive distribution of {names} has the tails of Student's t, whose "
    'exponential has no mean. The estimate is the posterior median of E[{columns}]; kind="quantile" does without such tails.'
)


class Units:
    """The ways back of responses, by number; without any, of the formula's own units, everything stays as it is."""

    def __init__(self, model: Specification, units: str, responses: Any):
        one_of("units", units, UNITS)
        self.back: dict[int, Back] = ways_back(model.frame, responses) if units == "response" else {}

    def points(self, points: np.ndarray, responses: np.ndarray, kind: str) -> np.ndarray:
        """Points (m, k) of k columns as the formula has them; a ValueError where a response has none.

        Probabilities at an end of the range, as of survival at time 0 where the response is log(time), are 0 or 1.
        """
        out = points.copy()
        for a, j in enumerate(responses):
            if int(j) in self.back:
                back = self.back[int(j)]
                out[:, a] = back.forward(points[:, a])
                if kind in PROBABILITIES:
                    out[:, a] = np.where(np.isinf(out[:, a]), np.copysign(FAR, out[:, a]), out[:, a])
                bad = ~np.isfinite(out[:, a])
                if bad.any():
                    raise ValueError(f"at: {points[bad, a][0]:g} is out of the range of {back.column}: {back.name} is not finite there.")
        return out

    def shown(self, points: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """Points (m,) of responses (m,) of the formula in the units of the columns."""
        out = np.array(points, dtype=float)
        for j, back in self.back.items():
            own = responses == j
            out[own] = back.inverse(out[own])
        return out

    def evaluated(self, kind: str, points: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """Points (m,) of responses (m,) of the formula at which a functional is evaluated: just below, where what is below is wanted."""
        out = np.array(points, dtype=float)
        for j, back in self.back.items():
            if kind in PROBABILITIES and not back.increases:
                out[responses == j] = np.nextafter(out[responses == j], -np.inf)
        return out

    def changed(self, kind: str, table: np.ndarray, points: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """A table (..., m, 3) of a functional at points (m,) of responses (m,), of the formula, in the units of the columns."""
        table = table.copy()
        for j, back in self.back.items():
            own = np.flatnonzero(responses == j)
            if kind in PER_UNIT:
                scale = back.jacobian(back.inverse(points[own]))[:, None]
                table[..., own, :] = np.where(table[..., own, :] == 0.0, 0.0, table[..., own, :] * scale)
            if not back.increases and kind in PROBABILITIES:
                table[..., own, :] = 1.0 - table[..., own, :][..., [0, 2, 1]]
            elif not back.increases and kind not in PER_UNIT[:1]:
                raise ValueError(f'units="response": {back.name} falls where {back.column} rises; there is no {kind} in its units.')
        return table

    def jacobian(self, points: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """(m,) of joint points (m, k) of the formula's responses the factors of densities."""
        total = np.ones(len(points))
        for a, j in enumerate(responses):
            if int(j) in self.back:
                back = self.back[int(j)]
                total = total * back.jacobian(back.inverse(points[:, a]))
        return total

    def insist_on_means(self, say: bool = True) -> None:
        """A ValueError where there are no means in the units of a column; a warning where they are medians over draws."""
        for back in self.back.values():
            if back.growth is None:
                raise ValueError(
                    f'units="response": the mean of {back.column} cannot be had from that of {back.name}: it may be infinite. Take '
                    'kind="quantile", q=0.5 for the median.'
                )
        heavy = [back for back in self.back.values() if back.growth == EXPONENTIAL]
        if heavy and say:
            warn(NO_MEAN.format(columns=", ".join(one.column for one in heavy), names=", ".join(one.name for one in heavy)))

    def mean(self, states: States, responses: np.ndarray, inputs: np.ndarray) -> Mean:
        return MeanInUnits(states, responses, inputs, self.back) if self.back else Mean(states, responses, inputs)

    def quantile(self, states: Any, responses: np.ndarray, q: np.ndarray, inputs: np.ndarray, *relevant: Any) -> Quantile:
        if not self.back:
            return Quantile(states, responses, q, inputs, *relevant)
        return QuantileInUnits(states, responses, q, inputs, *relevant, back=self.back)


class QuantileInUnits(Quantile):
    """Quantiles, taken back: of a falling function those of 1 - q."""

    def __init__(self, states: Any, responses: np.ndarray, q: np.ndarray, inputs: np.ndarray, *relevant: Any, back: dict[int, Back]):
        falls = any(not back[int(j)].increases for j in responses if int(j) in back)
        every = np.unique(np.concatenate([q, 1.0 - q])) if falls else q
        super().__init__(states, responses, every, inputs, *relevant)
        self.back, self.W, self.whole = back, len(responses) * len(q), np.repeat(self.discrete, len(q))
        self.places = [
            np.searchsorted(every, 1.0 - q if int(j) in back and not back[int(j)].increases else q) if falls else np.arange(len(q))
            for j in responses
        ]

    def _taken_back(self, found: np.ndarray) -> np.ndarray:
        found = found.reshape(len(found), len(self.asked), -1)
        columns = []
        for a, (j, places) in enumerate(zip(self.asked, self.places, strict=True)):
            own = found[:, a, places]
            columns.append(self.back[int(j)].inverse(own) if int(j) in self.back else own)
        return np.hstack(columns)

    def finish(self, values: np.ndarray, given: np.ndarray) -> np.ndarray:
        return self._taken_back(super().finish(values, given))

    def shortcut(self, state: Any, measure: Any, cases: Any) -> tuple[np.ndarray, np.ndarray] | None:
        found = super().shortcut(state, measure, cases)
        return None if found is None else (found[0], self._taken_back(found[1]))


class MeanInUnits(Mean):
    """Means of columns: of affine ways back those of the responses; else averages over the atoms that are drawn one by one.

    What is left of a draw has no weight: its law is Student's t, under which exponentials have no mean.
    """

    def __init__(self, states: States, responses: np.ndarray, inputs: np.ndarray, back: dict[int, Back]):
        super().__init__(states, responses, inputs)
        self.inputs, self.back = inputs, back
        self.curved = [int(j) for j in responses if int(j) in back and not back[int(j)].is_affine]
        self.n_mean = self.J
        self.J += len(self.curved) + 1
        of = self.model.blocks.mean_responses()[self.which]
        self.column = {int(j): int(np.flatnonzero(of == j)[0]) for j in back if (of == j).any()}

    def values(self, of: Any) -> np.ndarray:
        own = super().values(of)
        I, C = len(self.inputs), own.shape[-1]
        further = np.zeros((I, len(self.curved) + 1, C))
        if hasattr(of, "shares"):  # atoms, whose laws have means; those of clusters, parameters integrated out, may have none
            laws = of.distributions(self.inputs)
            for a, j in enumerate(self.curved):
                further[:, a] = _mean_under(self.back[j], laws[j], I, C)
            further[:, -1] = 1.0
        return np.concatenate([np.broadcast_to(own, (I, *own.shape[1:])), further], axis=1)

    def finish(self, values: np.ndarray, given: np.ndarray) -> np.ndarray:
        out = np.array(super().finish(values[:, : self.n_mean], given))
        with np.errstate(invalid="ignore"):
            curved = values[:, self.n_mean : -1] / values[:, -1:]
        for j, column in self.column.items():
            out[:, column] = curved[:, self.curved.index(j)] if j in self.curved else self.back[j].inverse(out[:, column])
        return out

    def settled(self, estimate: np.ndarray, sampled: np.ndarray) -> np.ndarray:
        out = np.array(estimate)
        for j in self.curved:
            column = self.column[j]
            centre = np.mean if self.back[j].growth == BOUNDED else np.median
            out[..., column] = centre(sampled[..., column], axis=0)
        return out


def _mean_under(back: Back, law: Any, I: int, C: int) -> np.ndarray:
    """(I, C) means of a column under the laws of a response."""
    if isinstance(law, WithPointMass):
        rest = _mean_under(back, law.otherwise, I, C)
        return law.probability * back.inverse(law.at) + (1.0 - law.probability) * rest
    if not isinstance(law, Normal):
        raise ValueError(f'units="response": means of {back.column} are of normal components; take kind="quantile".')
    mean, sd = (np.broadcast_to(one, (I, C)) for one in law)
    return back.mean_under_normal(mean, sd)
