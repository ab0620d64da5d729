"""A fit as an xarray DataTree, the structure that ArviZ works on, or as what an older ArviZ has."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pandas import CategoricalDtype
from scipy.special import logsumexp

from nrmmix import __version__
from nrmmix.common.compiling import announced
from nrmmix.common.seeds import draw_seeds, prediction_seed
from nrmmix.posterior.predict.densities import WithinLimits
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.simulate import replicates
from nrmmix.posterior.predict.states import states_of
from nrmmix.results.mcmc import MCMCResult

if TYPE_CHECKING:
    from xarray import DataTree

AXES = {  # of draws that are not one number each
    "labels": ("obs",), "locations": ("obs",), "A": ("location",), "imputed": ("cell",), "theta": ("cluster", "parameter"),
    "precision": ("precision_of",), "scale": ("scale_of",), "covariance": ("covariance_of",),
    "shrinkage": ("shrinkage_of",), "noise_scale": ("noise_scale_of",),
    "codes": ("location", "covariate"), "inclusion": ("covariate",),
}
COORDINATES = ("chain", "draw", "obs")  # of variables in groups by the names of columns
LATENT = ("labels", "locations", "codes", "A", "theta", "imputed")  # what has no meaning of its own by its place in all draws
OLDEST = (0, 20)  # of ArviZ


def to_datatree(fit: MCMCResult, log_likelihood: bool = True, posterior_predictive: bool = True) -> DataTree:
    """Draws, data, replicates and pointwise log likelihood of a fit for ArviZ.

    Needs xarray, which does not come with nrmmix (`pip install xarray`).

    Parameters
    ----------
    fit : MCMCResult
    log_likelihood, posterior_predictive : bool, default True
        Whether to add the group of that name: (chain, draw, obs) numbers, worked out anew from every draw.

    Returns
    -------
    xarray.DataTree
        Groups, n observations with dimension `obs` (coordinate: the caller's index where it has one level and no value twice):

        posterior
            (chain, draw) `n_clusters`, `mass`, `sigma` (not for a Dirichlet process), widths, `u`; `inclusion` (..., covariate),
            `shrinkage` (..., shrinkage_of), `noise_scale` (..., noise_scale_of) and `precision` (..., precision_of), by the names of
            covariates, of columns of the components' lines, and of responses; `covariance` (..., covariance_of) by pairs of these.
        latent
            What belongs to rows, cells and clusters, whose numbers change from draw to draw: `labels` and `locations` (..., obs), `A`
            (..., location), `theta` (..., cluster, parameter), `codes` (..., location, covariate), `imputed` (..., cell), as in
            `fit.draws`.
        posterior_predictive
            The responses by name, (chain, draw, obs): one replicate of the data from each draw; not of sparse counts.
        sample_stats
            `lp` (chain, draw): the log joint density.
        log_likelihood
            `y` (chain, draw, obs): log density of each row under a draw of the random measure.
        observed_data, constant_data
            The responses, and the covariates and inputs of families if any, (obs) each, by name; a slash, which xarray does not allow,
            becomes `|`, and a name that is one of the dimensions gets an underscore.  The name as it was is in `attrs["long_name"]`.
            Categories are numbered 0, 1, ...: the levels are in `attrs["levels"]`, that of each row is the coordinate `NAME_level`.
            Censored responses are NaN, and the coordinates `NAME_lower` and `NAME_upper` have their limits: `arviz.plot_ppc` draws those
            that were seen, `fit.plot("ppc")` the curve of Kaplan and Meier.
            Sparse counts are one CSR matrix: `counts` and `indices` (nonzero), `indptr` (row).

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

    ArviZ 1.0 and later works on the tree as it is; `fit.to_arviz()` gives what the ArviZ that is installed works on.

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

    model, frame = fit.model, fit.model.frame
    left_out = {"log_joint"} | ({"mass", "sigma"} - {*model.prior.parameters})
    of_draw = ("chain", "draw")
    coordinates = {"chain": np.arange(fit.draws.n_chains), "draw": np.arange(fit.draws.n_draws)}
    plain = frame.index.nlevels == 1 and frame.index.is_unique and not frame.index.hasnans
    obs = {"obs": np.asarray(frame.index) if plain else np.arange(model.n_obs)}

    def table(values: Any, names: tuple[str, ...], levels: tuple[Any, ...] = (), limits: np.ndarray | None = None) -> Dataset:
        if not isinstance(values, np.ndarray):
            return Dataset({"counts": ("nonzero", values.data), "indices": ("nonzero", values.indices), "indptr": ("row", values.indptr)})
        variables, of_rows, safe = {}, {}, _safe(names)

        def beside(name: str, what: str) -> str:
            return _free(f"{safe[name]}_{what}", safe.values())

        for j, name in enumerate(names):
            own = levels[j] if levels else None
            of_levels = {} if own is None else {"levels": list(map(str, own))}
            variables[safe[name]] = ("obs", values[:, j], {"long_name": name} | of_levels)
            if own is not None:
                of_rows[beside(name, "level")] = ("obs", np.array([str(own[int(k)]) if k == k else "" for k in values[:, j]]))
            if limits is not None and not np.isnan(limits[:, j]).all():
                of_rows |= {beside(name, end): ("obs", limits[:, j, k]) for k, end in enumerate(("lower", "upper"))}
        return Dataset(variables, obs | of_rows)

    kept = {name: ((*of_draw, *AXES.get(name, ())), values) for name, values in fit.draws.items() if name not in left_out}
    latent = {name: kept.pop(name) for name in LATENT if name in kept}
    of_draws = [*kept.values(), *latent.values()]
    names = _names(fit, {axis: size for dims, own in of_draws for axis, size in zip(dims, own.shape, strict=True)})
    groups = {
        "/": Dataset(attrs={
            "inference_library": "nrmmix", "inference_library_version": __version__, "seed": str(fit.seed),
            "method": fit.method, "formula": model.formula or "",
        }),
        "posterior": Dataset(kept, coordinates | _used(names, kept)),
        "sample_stats": Dataset({"lp": (of_draw, fit.draws["log_joint"])}, coordinates),
        "observed_data": table(frame.seen, frame.response_names, frame.levels, frame.limits),
    }
    if latent:
        groups["latent"] = Dataset(latent, coordinates | obs | _used(names, latent))
    if posterior_predictive and not frame.is_sparse:
        drawn = _replicates(fit)
        groups["posterior_predictive"] = Dataset(
            {name: ((*of_draw, "obs"), drawn[..., j], groups["observed_data"][name].attrs)
             for j, name in enumerate(_safe(frame.response_names).values())},
            coordinates | obs,
        )
    if log_likelihood:
        groups["log_likelihood"] = Dataset({"y": ((*of_draw, "obs"), pointwise(fit))}, coordinates | obs)
    if fixed := frame.covariate_names + frame.input_names:
        given = np.zeros((model.n_obs, 0)) if frame.covariates is None else frame.covariates
        kinds = zip(frame.covariate_names, frame.is_category, strict=True)
        levels = [frame.covariate_columns[name] if is_category else None for name, is_category in kinds]
        groups["constant_data"] = table(np.hstack([given, frame.inputs]), fixed, (*levels, *[None] * len(frame.input_names)))
    return DataTree.from_dict(groups)


def to_arviz(fit: MCMCResult, log_likelihood: bool = True, posterior_predictive: bool = True) -> Any:
    """Return what the installed ArviZ works on: an InferenceData of 0.20 to 0.x, a DataTree of 1.0 and later; see `to_datatree`.

    Raises
    ------
    ImportError
        If ArviZ is not installed, or too old.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=100, tune=50, chains=2, rng=1)
    >>> import arviz  # doctest: +SKIP
    >>> arviz.loo(fit.to_arviz())  # doctest: +SKIP
    """
    try:
        import arviz
    except ImportError as error:
        raise ImportError('to_arviz needs ArviZ: pip install "nrmmix[arviz]"; summary(), loo() and plot() do without') from error
    version = tuple(int(part) for part in re.findall(r"\d+", arviz.__version__)[:2])
    if version < OLDEST:
        raise ImportError(f"ArviZ {arviz.__version__} is too old for to_arviz, which needs 0.20 or later: pip install --upgrade arviz")
    tree = to_datatree(fit, log_likelihood, posterior_predictive)
    if version >= (1, 0):
        return tree
    groups: dict[str, Any] = {name: node.to_dataset() for name, node in tree.children.items()}
    return arviz.InferenceData(attrs=dict(tree.attrs), **groups)


def _names(fit: MCMCResult, sizes: dict[str, int]) -> dict[str, Any]:
    """Names along axes of draws, where there is one for each place."""
    frame = fit.model.frame
    found: dict[str, Any] = {
        "covariate": frame.covariate_names, "shrinkage_of": frame.input_names, "noise_scale_of": frame.response_names,
        "precision_of": frame.response_names, "scale_of": frame.response_names, "covariance_of": _pairs(frame.response_names),
    }
    if "imputed" in fit.draws:
        rows, responses = fit.model.blocks.drawn(fit.model.packed)
        found["cell"] = [f"{frame.response_names[j]}[{frame.index[i]}]" for i, j in zip(rows, responses, strict=True)]
    return {axis: list(names) for axis, names in found.items() if sizes.get(axis) == len(names) > 0}


def _pairs(names: Sequence[str]) -> list[str]:
    """Names of the places of a lower triangle, row by row."""
    return [f"{names[i]}, {names[j]}" for i in range(len(names)) for j in range(i + 1)]


def _used(names: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    axes = {axis for dims, _ in variables.values() for axis in dims}
    return {axis: own for axis, own in names.items() if axis in axes}


def _replicates(fit: MCMCResult) -> np.ndarray:
    """(chain, draw, n, d): of each draw one replicate of the responses, categories by the number of their level."""
    states, rows = states_of(fit.posterior, None), prediction_rows(fit.model, None)
    table = replicates(states, rows, fit.model.blocks.totals(fit.model.frame.response), len(states), prediction_seed(fit.seed))
    columns = [table[name].cat.codes if isinstance(table[name].dtype, CategoricalDtype) else table[name] for name in table]
    values = np.column_stack([np.asarray(column, float) for column in columns])
    return values.reshape(fit.draws.n_chains, fit.draws.n_draws, fit.model.n_obs, -1)


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


def _safe(names: Sequence[str]) -> dict[str, str]:
    """Names of variables by those of columns: no two are the same, and none is that of a coordinate or has a slash.

    Examples
    --------
    >>> _safe(["draw", "a/b", "y"])
    {'draw': 'draw_', 'a/b': 'a|b', 'y': 'y'}
    """
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        found[name] = _free(name.replace("/", "|"), (*COORDINATES, *found.values()))
    return found


def _free(name: str, taken: Collection[str]) -> str:
    """The name with as many underscores as set it apart."""
    while name in taken:
        name += "_"
    return name
