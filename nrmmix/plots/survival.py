"""Survival of censored responses: the posterior beside the estimate that assumes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from nrmmix.model.frame.columns.units import Back
from nrmmix.model.specification import Specification
from nrmmix.plots import style
from nrmmix.plots.kinds import Bands, check, kind, predicted, responses
from nrmmix.plots.wanted import back_of, called, reached_by, seen_in
from nrmmix.posterior.representatives import spaced
from nrmmix.results.mcmc import MCMCResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 200
MAX_ROWS = 60  # over whose covariates a curve is averaged
ROUNDS, SETTLED = 5000, 1e-10  # of the estimate from intervals


def _needs(model: Specification) -> str | None:
    if model.frame.limits is None:
        return 'needs a response that is censored, Surv(time, event) or interval(lower, upper): predict(kind="survival") is of any'
    return None


@kind(_needs, "survival of censored responses beside the Kaplan-Meier curve")
def survival(
    fit: MCMCResult, ax: Any = None, *, response: str | Sequence[str] | None = None, points: int | None = None, units: str = "formula",
    **bands: Unpack[Bands],
) -> Any:
    """Posterior mean probability of more than y with its band, and the estimate that assumes nothing, response by response.

    That is the curve of Kaplan & Meier (1958), or where values are known by two ends that of Turnbull (1976), which has the largest
    likelihood of all.  In density regression, and where components have inputs, the posterior curve is averaged over the rows, or 60 of
    them, and has no band.

    Parameters
    ----------
    fit, ax, **bands
        See `plot`.
    response : str or sequence of str, optional
        Default every response that is censored.
    points : int, optional
        Points of the curve; default 200.
    units : {"formula", "response"}, default "formula"
        Units of responses that the formula transforms, see `MCMCResult.predict`.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each response

    Raises
    ------
    ValueError
        If a response is unknown or not censored, or `ax` holds another number of axes than there are responses.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> data = {"months": [2.0, 3.5, 4.0, 7.5, 9.0, 12.0], "died": [1, 1, 0, 1, 0, 0]}
    >>> fit = nm.fit("Surv(months, died) ~ 1", data, draws=50, tune=50, chains=2, rng=1)
    >>> [line.get_label() for line in survival(fit, Figure().subplots(), draws=20).lines]
    ['posterior mean', 'Kaplan-Meier']
    """
    check(fit.model, "survival")
    frame = fit.model.frame
    names = [name for name in responses(fit.model, response) if is_censored(fit.model, name)]
    if not names:
        those = ", ".join(name for name in frame.response_names if is_censored(fit.model, name))
        raise ValueError(f"{response!r} is not censored; those that are: {those}.")
    with style.panels(ax, names, "response") as axes:
        for one, name in zip(axes, names, strict=True):
            back = back_of(fit.model, name, units)
            values, _ = seen_in(fit.model, name, back)
            x = reached_by(style.padded(values[~np.isnan(values)], 0.1, POINTS if points is None else points), back)
            _posterior(fit, one, name, x, units, bands)
            observed_curve(one, fit.model, name, x, back)
            own = called(name, back)
            style.dress(one, f"{own}, over all rows" if fit.model.is_regression else own, "survival probability")
        return style.finish(axes, ax is None)


def is_censored(model: Specification, name: str) -> bool:
    """Whether values of a response are known by their limits alone."""
    limits = model.frame.limits
    return limits is not None and not np.isnan(limits[:, model.frame.response_names.index(name)]).all()


def _posterior(fit: MCMCResult, ax: Axes, name: str, x: np.ndarray, units: str, bands: Bands) -> None:
    model = fit.model
    counts = model.frame.reads[model.frame.response_names.index(name)] == "counts"
    x = np.unique(np.floor(x[x >= 0])) if counts else x
    if model.is_regression or model.frame.input_names:
        some = spaced(model.n_obs, MAX_ROWS)
        table = predicted(fit, model.frame.source.iloc[some].reset_index(drop=True), "survival", at=x, response=name, units=units, **bands)
        estimate = table["estimate"].to_numpy().reshape(len(some), -1).mean(axis=0)
    else:
        table = predicted(fit, kind="survival", at=x, response=name, units=units, **bands)
        estimate = table["estimate"].to_numpy()
        style.band(ax, x, table["lower"], table["upper"], style.BLUE, f"{bands.get('interval', 0.9):.0%} credible band")
    ax.plot(x, estimate, color=style.BLUE, linewidth=style.LINE, label="posterior mean")


def observed_curve(ax: Axes, model: Specification, name: str, x: np.ndarray, back: Back | None) -> None:
    """Draw the survival curve of the rows that assumes nothing, as far as it is known; x and it in the units that `back` leads to."""
    j = model.frame.response_names.index(name)
    y = model.frame.seen[:, j]
    assert model.frame.limits is not None
    ends = np.where(np.isnan(y)[:, None], model.frame.limits[:, j], y[:, None])
    ends = ends[~np.isnan(ends).any(axis=1)]
    if back is not None:
        ends = np.sort(np.where(np.isinf(ends), ends if back.increases else -ends, back.inverse(ends)), axis=1)
    since, at, above, last = largest_likelihood(ends)
    before, some = np.r_[1.0, above[:-1]], at < last
    corners = np.stack([since, at], axis=1)[some], np.stack([before, above], axis=1)[some]
    along, down = np.r_[x[0], corners[0].ravel()], np.r_[1.0, corners[1].ravel()]
    label = "Kaplan-Meier" if (np.isinf(ends[:, 1]) | (ends[:, 0] == ends[:, 1])).all() else "Turnbull"
    ends_at = max(along[-1], min(last, x[-1]))
    ax.plot(np.r_[np.maximum(along, x[0]), ends_at], np.r_[down, down[-1]], color="black", linewidth=style.LINE, label=label)


def largest_likelihood(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Since where and down to where the survival curve of largest likelihood falls, its values there, and how far it is known.

    `ends` (n, 2) are equal where a value was seen.  Without intervals it is the product of Kaplan & Meier, which jumps, with them the fixed
    point of Turnbull: shares of the rows that are expected in it given themselves, between ends where nothing says how it falls.  A value
    that is censored at one that was seen is larger.

    Examples
    --------
    >>> ends = np.array([[1.0, 1.0], [2.0, np.inf], [3.0, 3.0], [4.0, np.inf]])
    >>> largest_likelihood(ends)
    (array([1., 3.]), array([1., 3.]), array([0.75 , 0.375]), 4.0)
    """
    lower, upper = ends.T
    was_seen, open_ended = lower == upper, np.isinf(upper)
    last = float(np.where(open_ended, lower, upper).max())
    at = np.unique(upper[~open_ended])
    if (was_seen | open_ended).all():
        known = lower
        falls = [(known[was_seen] == t).sum() / (known >= t).sum() for t in at]
        return at, at, np.cumprod(1.0 - np.array(falls)), last if open_ended.any() else np.inf
    places = np.r_[at, np.inf]
    within = np.where(was_seen[:, None], places == lower[:, None], (lower[:, None] < places) & (places <= upper[:, None]))
    p = np.full(len(places), 1.0 / len(places))
    for _ in range(ROUNDS):
        share = within * p
        share /= share.sum(axis=1, keepdims=True)
        before, p = p, share.mean(axis=0)
        if np.abs(p - before).max() < SETTLED:
            break
    before = np.where(lower[:, None] < at, lower[:, None], -np.inf).max(axis=0)
    since = np.where(np.isin(at, lower[was_seen]), at, before)
    return since, at, 1.0 - np.cumsum(p[:-1]), last if p[-1] > SETTLED else np.inf
