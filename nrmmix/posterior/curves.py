"""Convergence of what fits are for: means, distribution functions and densities at a few rows, draw by draw."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from nrmmix.common.compiling import announced
from nrmmix.common.machine import available_cores, in_threads
from nrmmix.model.specification import Specification
from nrmmix.posterior import diagnostics
from nrmmix.posterior.convergence import DENSITY
from nrmmix.posterior.predict.densities import log_terms
from nrmmix.posterior.predict.functionals import Cdf, Mean, distribution_of_rows
from nrmmix.posterior.predict.kernel_states import prior_distributions
from nrmmix.posterior.predict.rows import CovariateWeights, PredictionRows, covariates_text, prediction_rows
from nrmmix.posterior.predict.states import States, StatesInParts, states_of
from nrmmix.posterior.representatives import nearest, representatives

if TYPE_CHECKING:
    from nrmmix.posterior.draws import Posterior

QUARTILES = (0.25, 0.5, 0.75)
MAX_DRAWS = 1000  # of each chain: with a quarter as many the largest R-hat of 20 curves is seldom below 1.01 where chains agree
MIN_DRAWS, WORK = 500, 6e8  # of all chains, and statistics of rows beyond which fewer draws are used: a few seconds
BESIDE = 10  # statistics that a row costs as much as, beside its own
WORTH_THREADS = 1e5  # statistics of rows of a draw; of fewer most time is Python's
MAX_RESPONSES = 3
NEAR = 0.2  # share of the rows, the nearest, whose quartiles are taken
MAX_NAMED = 3  # covariates that a place is named by
DIGITS = range(3, 16)  # of numbers in names


def response_diagnostics(posterior: Posterior) -> pd.DataFrame:
    """Diagnostics of what a fit says of the responses: of a density regression its curves, of a mixture its density."""
    return curve_diagnostics(posterior) if posterior.specification.is_regression else density_diagnostics(posterior)


def curve_diagnostics(posterior: Posterior, most: int = MAX_DRAWS) -> pd.DataFrame:
    """Diagnostics of the mean and of the distribution function at about the quartiles, at a few rows spread over all covariates.

    Columns are those of `nrmmix.diagnostics.table`, with one row for each curve and place, such as "mean accel_g at times_ms = 10"; none
    for mixtures, and where no response is a number or a count.  Places are rows of the data, five of one covariate, up to eight of several
    (see `nrmmix.posterior.representatives`), and quartiles those of the fifth of all rows nearest to each.  Draws, of each chain `most`,
    are spread evenly, and fewer where many rows would take more than a few seconds: 500 of all chains at least.
    """
    model, frame = posterior.specification, posterior.specification.frame
    responses = [] if not model.is_regression or frame.is_sparse else [
        j for j, one in enumerate(prior_distributions(model)) if one is not None and one.ordered
    ][:MAX_RESPONSES]
    if not responses:
        return diagnostics.table({})
    assert frame.covariates is not None
    at = representatives(frame.covariates, frame.is_category)
    around = [frame.response[rows] for rows in nearest(frame.covariates, frame.is_category, at, NEAR)]
    quartiles = np.array([[np.nanquantile(own[:, j], QUARTILES) for j in responses] for own in around])
    rows = prediction_rows(model, frame.source.iloc[at])
    found = _by_draws(posterior, lambda states: _values(states, rows, responses, quartiles), most)
    values: dict[str, np.ndarray] = {}
    for r, place in enumerate(_places(posterior.specification, at)):
        for j, response in enumerate(responses):
            name = frame.response_names[response]
            values[f"mean {name} at {place}"] = found[..., r, j, 0]
            texts = told_apart(quartiles[r, j])
            values |= {f"P({name} <= {c}) at {place}": found[..., r, j, 1 + q] for q, c in enumerate(texts)}
    return diagnostics.table(values)


def density_diagnostics(posterior: Posterior, most: int = MAX_DRAWS) -> pd.DataFrame:
    """Diagnostics of the log predictive density of a mixture at a few of its rows, spread over all responses.

    One row for each place: five rows of one response that is a number, up to eight of others; none of sparse counts.  Draws are used as for
    `curve_diagnostics`.
    """
    model = posterior.specification
    if model.frame.is_sparse:
        return diagnostics.table({})
    at = representatives(model.frame.response, np.array([levels is not None for levels in model.frame.levels]))
    rows = prediction_rows(model, None).take(at)
    found = _by_draws(
        posterior, lambda states: np.array([logsumexp(terms, axis=1) for terms in log_terms(states, rows, model.frame.response[at])]), most
    )
    return diagnostics.table({f"{DENSITY} at row {model.frame.index[row]}": found[..., r] for r, row in enumerate(at)})


def _by_draws(posterior: Posterior, of: Callable[[States], np.ndarray], most: int) -> np.ndarray:
    """(chains, draws, ...): what `of` says of states, for evenly spread draws; of many rows in threads."""
    model, draws = posterior.specification, posterior.draws
    each = model.n_obs * (model.packed.n_stat + BESIDE)
    affordable = max(int(WORK / each), MIN_DRAWS) // draws.n_chains
    size = draws.n_chains * min(draws.n_draws, most, max(affordable, 1))
    with announced():
        states = states_of(posterior, size)
        if each < WORTH_THREADS or not isinstance(states, StatesInParts):
            found = of(states)
        else:
            bounds = np.linspace(0, size, min(available_cores(), size) + 1).astype(int)
            found = np.concatenate(in_threads(lambda ends: of(states.part(*ends)), pairwise(bounds)))
    return found.reshape(draws.n_chains, -1, *found.shape[1:])


def _places(model: Specification, at: np.ndarray) -> list[str]:
    """Rows in words: by their covariates, where these are few and tell them apart, else by their labels."""
    frame = model.frame
    assert frame.covariates is not None
    if len(frame.covariate_names) <= MAX_NAMED:
        for digits in DIGITS:
            places = [covariates_text(frame, frame.covariates[row], digits) for row in at]
            if len(set(places)) == len(places):
                return places
    return [f"row {frame.index[row]}" for row in at]


def told_apart(numbers: np.ndarray) -> list[str]:
    """Numbers in as few digits as tell them apart, three or more.

    Examples
    --------
    >>> told_apart(np.array([1.23456, 2.5])), told_apart(np.array([300.1, 300.2]))
    (['1.23', '2.5'], ['300.1', '300.2'])
    """
    texts: list[str] = []
    for digits in DIGITS:
        texts = [f"{one:.{digits}g}" for one in numbers]
        if len(set(texts)) == len(set(numbers.tolist())):
            break
    return texts


def _values(states: States, rows: PredictionRows, responses: list[int], quartiles: np.ndarray) -> np.ndarray:
    """(draws, rows, responses, 1 + quartiles): means, and distribution functions at `quartiles` (rows, responses, ...)."""
    covariates, means = CovariateWeights(states.model, rows), Mean(states, np.array(responses), rows.inputs)
    of_mean = states.model.blocks.mean_responses()[means.which]
    place, given = rows.place[rows.row], rows.given[rows.row]
    out = np.empty((len(states), *quartiles.shape[:2], 1 + quartiles.shape[2]))
    for s, state in enumerate(states):
        weights = state.weights(covariates)[place]
        average = means.finish(np.einsum("ck,cjk->cj", weights, means.values(state)[given]), given)
        distributions = state.distributions(rows.inputs)
        for j, response in enumerate(responses):
            out[s, :, j, 0] = average[:, np.flatnonzero(of_mean == response)[0]]
            own = distribution_of_rows(distributions[response], given)
            for q in range(quartiles.shape[2]):
                out[s, :, j, 1 + q] = (weights * Cdf.at(own, quartiles[:, j, q, None])).sum(axis=1)
    return out
