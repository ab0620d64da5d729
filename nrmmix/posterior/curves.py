"""Convergence of what density regression is fitted for: means and distribution functions at a few rows, draw by draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from nrmmix.common.compiling import announced
from nrmmix.posterior import diagnostics
from nrmmix.posterior.convergence import DENSITY
from nrmmix.posterior.predict.functionals import Cdf, Mean, distribution_of_rows
from nrmmix.posterior.predict.kernel_states import prior_distributions
from nrmmix.posterior.predict.rows import CovariateWeights, PredictionRows, prediction_rows
from nrmmix.posterior.predict.states import States, log_terms, states_of

if TYPE_CHECKING:
    from nrmmix.posterior.draws import Posterior

AT = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the rows, in the order of the first covariate
QUARTILES = (0.25, 0.5, 0.75)
MOST_DRAWS = 1000  # of each chain: with a quarter as many the largest R-hat of 20 curves is seldom below 1.01 where chains agree
MOST_RESPONSES = 3
NEAR = 0.2  # share of the rows, those nearest in order, whose quartiles are taken


def curve_diagnostics(posterior: Posterior) -> pd.DataFrame:
    """Diagnostics of the mean and of the distribution function at about the quartiles, at five rows along the first covariate.

    Parameters
    ----------
    posterior : Posterior
        Of a density regression, with two draws a chain or more.

    Returns
    -------
    DataFrame
        Columns as of `nrmmix.diagnostics.table`, one row for each curve and place, such as "mean accel_g at times_ms = 10".  Empty for
        mixtures, and where no response is a number or a count.  At most 1,000 draws of each chain are used, evenly spread.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=20, tune=20, chains=2, rng=1)
    >>> curve_diagnostics(fit.posterior).index[0]
    'mean accel_g at times_ms = 10'
    """
    model, draws = posterior.specification, posterior.draws
    responses = [] if not model.is_regression or model.frame.is_sparse else [
        j for j, one in enumerate(prior_distributions(model)) if one is not None and one.ordered
    ][:MOST_RESPONSES]
    if not responses:
        return diagnostics.table({})
    first = model.frame.covariates[:, 0]
    order = np.argsort(first, kind="stable")
    at = np.unique([int(share * (len(order) - 1)) for share in AT])
    near = max(int(NEAR * len(order)) // 2, 1)
    around = [model.frame.response[order[max(i - near, 0) : i + near + 1]] for i in at]
    quartiles = np.array([[np.nanquantile(own[:, j], QUARTILES) for j in responses] for own in around])
    thin = -(-draws.n_draws // MOST_DRAWS)
    with announced():
        states = states_of(posterior, draws.n_chains * (draws.n_draws // thin))
        found = _values(states, prediction_rows(model, model.frame.source.iloc[order[at]]), responses, quartiles)
    values: dict[str, np.ndarray] = {}
    for r, value in enumerate(first[order[at]]):
        place = f"{model.frame.covariate_names[0]} = {value:.3g}"
        for j, response in enumerate(responses):
            name = model.frame.response_names[response]
            values[f"mean {name} at {place}"] = found[:, r, j, 0]
            values |= {f"P({name} <= {c:.3g}) at {place}": found[:, r, j, 1 + q] for q, c in enumerate(quartiles[r, j])}
    return diagnostics.table({name: each.reshape(draws.n_chains, -1) for name, each in values.items()})


def density_diagnostics(posterior: Posterior) -> pd.DataFrame:
    """Diagnostics of the log predictive density of a mixture at five of its rows, spread over those of the first response.

    Parameters
    ----------
    posterior : Posterior
        Of a mixture whose responses are no sparse counts.

    Returns
    -------
    DataFrame
        Columns as of `nrmmix.diagnostics.table`, one row for each place.  At most 1,000 draws of each chain are used, evenly spread.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=20, tune=20, chains=2, rng=1)
    >>> density_diagnostics(fit.posterior).index[0]
    'log density at row 8'
    """
    model, draws = posterior.specification, posterior.draws
    if model.frame.is_sparse:
        return diagnostics.table({})
    order = np.argsort(model.frame.response[:, 0], kind="stable")
    at = np.unique([order[int(share * (len(order) - 1))] for share in AT])
    thin = -(-draws.n_draws // MOST_DRAWS)
    with announced():
        states = states_of(posterior, draws.n_chains * (draws.n_draws // thin))
        rows = prediction_rows(model, None).take(at)
        found = np.array([logsumexp(terms, axis=1) for terms in log_terms(states, rows, model.frame.response[at])])
    values = {f"{DENSITY} at row {model.frame.index[row]}": found[:, r].reshape(draws.n_chains, -1) for r, row in enumerate(at)}
    return diagnostics.table(values)


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
