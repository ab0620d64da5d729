"""A fit as an xarray DataTree, the structure that ArviZ works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from nrmmix.common.compiling import announced
from nrmmix.common.seeds import draw_seeds, prediction_seed
from nrmmix.posterior.predict.limits import WithinLimits
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of
from nrmmix.results.mcmc import MCMCResult

if TYPE_CHECKING:
    from xarray import DataTree

AXES = {  # of draws that are not one number each
    "labels": ("obs",), "locations": ("obs",), "A": ("location",), "imputed": ("cell",), "theta": ("cluster", "parameter"),
    "precision": ("precision_of",), "scale": ("scale_of",), "shrinkage": ("shrinkage_of",), "noise_scale": ("noise_scale_of",),
    "codes": ("location", "covariate"), "inclusion": ("covariate",),
}


def to_datatree(fit: MCMCResult, log_likelihood: bool = True) -> DataTree:
    """Draws, data and pointwise log likelihood of a fit for ArviZ.

    Needs xarray, which does not come with nrmmix (`pip install xarray`).

    Parameters
    ----------
    fit : MCMCResult
    log_likelihood : bool, default True
        Whether to add the group `log_likelihood`: (chain, draw, obs) numbers, worked out anew from every draw.

    Returns
    -------
    xarray.DataTree
        Groups, n observations with dimension `obs` (coordinate: the caller's index where it has one level and no value twice):

        posterior
            (chain, draw) `n_clusters`, `mass`, `sigma` (not for a Dirichlet process), widths, `u`; `A` (..., location), `labels` and
            `locations` (..., obs), `imputed` (..., cell), `theta` (..., cluster, parameter), `codes` (..., location, covariate) and
            `inclusion` (..., covariate), as in `fit.draws`.
        sample_stats
            `lp` (chain, draw): the log joint density.
        log_likelihood
            `y` (chain, draw, obs): log density of each row under a draw of the random measure.
        observed_data, constant_data
            The responses, and the covariates and inputs of families if any, (obs) each, by name; a slash, which xarray does not allow,
            becomes `|`, and a name that is one of the dimensions gets an underscore.  The name as it was is in `attrs["long_name"]`,
            the levels of categories, which are numbered 0, 1, ..., in `attrs["levels"]`.  Sparse counts are one CSR matrix: `counts`
            and `indices` (nonzero), `indptr` (row).

        Attributes of the root: inference_library, inference_library_version, seed, method, formula.

    Raises
    ------
    ImportError
        If xarray is not installed.

    Notes
    -----
    `log_likelihood` is made for leave-one-out cross-validation by Pareto smoothed importance sampling (`arviz.loo`).  In each recorded draw
    the random measure is drawn given partition, hyperparameters and data, mass of atoms without observations included, and a row has its
    density under that measure, at its covariates.  Given the measure the rows are independent, so that 1/density weighs the draws towards
    the posterior without the row: what is left out is one row's response, what is conditioned on is the random measure, with it the
    hyperparameters, and all covariates.  The cluster labels are not conditioned on: densities given a row's own label would not do.

    The estimate is unreliable where one row decides on an atom: rows alone, or almost alone, in a cluster have a large Pareto k
    (above 0.7; ArviZ warns), and their density without themselves is overestimated.  For these, refit without the row and use
    `log_density`; with many of them use K-fold cross-validation: fit without a fold, `log_density(fold)`.  Nor does the measure of
    one row tell of rows that come in groups: leave out groups by refitting.

    With ArviZ 1.0 (and arviz-stats) the tree is used as it is, `arviz.loo(fit.to_datatree())`; ArviZ 0.x takes
    `arviz.from_datatree(fit.to_datatree())`.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=20, tune=50, chains=2, rng=1)
    >>> tree = fit.to_datatree()  # doctest: +SKIP
    >>> tree["log_likelihood"]["y"].sizes  # doctest: +SKIP
    Frozen({'chain': 2, 'draw': 20, 'obs': 82})
    """
    try:
        from xarray import Dataset, DataTree
    except ImportError as error:
        raise ImportError("to_datatree needs xarray, 2024.10 or later: pip install xarray") from error

    import nrmmix

    model, frame = fit.model, fit.model.frame
    left_out = {"log_joint"} | ({"mass", "sigma"} - {*model.prior.parameters})
    of_draw = ("chain", "draw")
    coordinates = {"chain": np.arange(fit.draws.n_chains), "draw": np.arange(fit.draws.n_draws)}
    plain = frame.index.nlevels == 1 and frame.index.is_unique and not frame.index.hasnans
    obs = {"obs": np.asarray(frame.index) if plain else np.arange(model.n_obs)}
    covariates = {"covariate": list(frame.covariate_names)} if "inclusion" in fit.draws else {}

    def table(values: Any, names: tuple[str, ...], levels: tuple[Any, ...] = ()) -> Dataset:
        if not isinstance(values, np.ndarray):
            return Dataset({"counts": ("nonzero", values.data), "indices": ("nonzero", values.indices), "indptr": ("row", values.indptr)})
        variables = {}
        for j, name in enumerate(names):
            of_levels = {"levels": list(map(str, levels[j]))} if levels and levels[j] is not None else {}
            variables[_safe(name)] = ("obs", values[:, j], {"long_name": name} | of_levels)
        return Dataset(variables, obs)

    posterior = {name: ((*of_draw, *AXES.get(name, ())), values) for name, values in fit.draws.items() if name not in left_out}
    groups = {
        "/": Dataset(attrs={
            "inference_library": "nrmmix", "inference_library_version": nrmmix.__version__, "seed": str(fit.seed),
            "method": fit.method, "formula": model.formula or "",
        }),
        "posterior": Dataset(posterior, coordinates | obs | covariates),
        "sample_stats": Dataset({"lp": (of_draw, fit.draws["log_joint"])}, coordinates),
        "observed_data": table(frame.response, frame.response_names, frame.levels),
    }
    if log_likelihood:
        groups["log_likelihood"] = Dataset({"y": ((*of_draw, "obs"), pointwise(fit))}, coordinates | obs)
    if fixed := frame.covariate_names + frame.input_names:
        given = np.zeros((model.n_obs, 0)) if frame.covariates is None else frame.covariates
        groups["constant_data"] = table(np.hstack([given, frame.inputs]), fixed)
    return DataTree.from_dict(groups)


def pointwise(fit: MCMCResult) -> np.ndarray:
    """(chain, draw, n): log density of each row under the random measure drawn in each draw."""
    states, rows, frame = states_of(fit.posterior, None), prediction_rows(fit.model, None), fit.model.frame
    covariates, points, place = CovariateWeights(fit.model, rows), states.points(frame.seen, frame.inputs), rows.place[rows.row]
    within = None if frame.limits is None else WithinLimits(fit.model, frame.seen, frame.inputs, frame.limits)
    coefficient = fit.model.blocks.log_coefficient(frame.response)
    out = np.empty((fit.draws.n_chains, fit.draws.n_draws, fit.model.n_obs))
    with announced(), np.errstate(divide="ignore"):
        seeds = draw_seeds(prediction_seed(fit.seed), len(states))
        for values, state, seed in zip(out.reshape(len(states), -1), states, seeds, strict=True):
            measure = state.measure(seed).seen_from(covariates)
            share, rest = measure.shares(covariates)
            of_atoms = np.log(share)[place] + measure.log_densities(points)
            of_rest = np.log(rest)[place] + state.log_densities(points)[:, -1]
            if within is not None:
                of_atoms, of_rest = of_atoms + within.log_probabilities(measure), of_rest + within.log_probabilities(state)[:, -1]
            values[:] = np.logaddexp(logsumexp(of_atoms, axis=1), of_rest) + coefficient
    return out


def _safe(name: str) -> str:
    return f"{name}_" if name == "obs" else name.replace("/", "|")
