"""A fit as tables of numbers, in the manner of R's broom, and fits compared with each other."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd

from nrmmix.common.messages import guided, listed
from nrmmix.common.warnings import warn
from nrmmix.model.families.distributions import point_masses
from nrmmix.model.frame.columns.dates import from_days
from nrmmix.model.frame.rows import FittedRows, Rows, read_rows
from nrmmix.model.specification import Specification
from nrmmix.posterior import diagnostics, imputation
from nrmmix.posterior.convergence import agreed, smallest_ess
from nrmmix.posterior.held_out import described, seen_rows
from nrmmix.posterior.leave_one_out import MIN_DRAWS, RELIABLE, leave_one_out
from nrmmix.posterior.predict.kernel_states import prior_distributions
from nrmmix.posterior.predict.rows import insist_in_memory
from nrmmix.posterior.predict.tables import log_density
from nrmmix.results.base import Result
from nrmmix.results.datatree import pointwise
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.streams import new_source, of_parts
from nrmmix.results.variational import VariationalResult


def quantities(fit: MCMCResult) -> pd.DataFrame:
    """Return what tables report of `MCMCResult.diagnostics()`: all label-invariant numbers that mean something by themselves.

    Without sigma of a Dirichlet process; log(u) in place of u, whose tail is so long that its mean says nothing.

    Examples
    --------
    >>> import nrmmix as nm
    >>> data = nm.datasets.load_galaxy()
    >>> list(quantities(nm.fit("velocity_km_s ~ 1", data, prior=nm.NGGP(sigma=0.3), draws=9, tune=9, rng=1)).index)
    ['n_clusters', 'log_joint', 'mass', 'sigma', 'log(u)']
    """
    values = {name: fit.draws[name] for name in fit.scalars}
    for name in {"mass", "sigma"} - {*fit.model.prior.parameters}:
        del values[name]
    if "u" in values:
        values["log(u)"] = np.log(values.pop("u"))
    return diagnostics.table(values)


def tidy(fit: MCMCResult) -> pd.DataFrame:
    """Label-invariant parameters, one a row; see `MCMCResult.tidy`."""
    names = {"mean": "estimate", "sd": "std_error", "q5": "conf_low", "q95": "conf_high", "ess": "ess", "rhat": "rhat", "mcse": "mcse"}
    table = quantities(fit)[list(names)].rename(columns=names).rename_axis("term").reset_index()
    scaled = fit.model.kernel is not None and fit.model.kernel.scale == "unit"
    widths = dict.fromkeys(fit.model.width_names, "share of the covariate's range" if scaled else "units of the covariate")
    units = {"n_clusters": "clusters", "log_joint": "nats", "mass": "none", "sigma": "none", "log(u)": "none"} | widths
    table.attrs["units"] = {term: units.get(term, "none") for term in table["term"]}
    return table


def glance(fit: MCMCResult) -> pd.DataFrame:
    """The whole fit in one row; see `MCMCResult.glance`."""
    model, table = fit.model, quantities(fit)
    return pd.DataFrame([{
        "formula": model.formula, "prior": str(model.prior),
        "family": _families(model), "method": fit.method,
        "n_obs": model.n_obs, "n_responses": model.n_dim, "n_chains": fit.draws.n_chains, "n_draws": fit.draws.n_draws,
        "n_clusters": table.loc["n_clusters", "mean"], "log_joint": table.loc["log_joint", "mean"],
        "mean_log_density": np.nan if fit.lacking else cast(pd.Series, fit.log_density()).mean(),
        "max_rhat": table["rhat"].max(), "min_ess": smallest_ess(table).min(),
        "seconds": fit.seconds, "converged": agreed(fit.evidence, table, fit.curve_diagnostics() if model.is_regression else None),
    }])


def variational_glance(fit: VariationalResult) -> pd.DataFrame:
    """The whole fit in one row; see `VariationalResult.glance`."""
    model = fit.model
    return pd.DataFrame([{
        "formula": model.formula, "prior": str(model.prior),
        "family": _families(model), "method": fit.method,
        "n_obs": model.n_obs, "n_responses": model.n_dim, "n_clusters": fit.n_clusters, "n_components": fit.n_components, "elbo": fit.elbo,
        "mass": fit.expected_mass,
        "mean_log_density": np.nan if model.frame.is_streamed else _mean(fit.log_density(), model.frame.weight),  # a pass more
        "n_passes": len(fit.passes),
        "seconds": fit.seconds, "seed": fit.seed, "converged": fit.has_converged,
    }])


def _families(model: Specification) -> str:
    return " + ".join(dict.fromkeys(type(block.family).__name__ for block in model.blocks.blocks))


def _mean(values: pd.Series, weight: np.ndarray | None) -> float:
    return float(values.mean() if weight is None else np.average(values, weights=weight))


# ---------------------------------------------------------------------------------------------- row by row

def augment(fit: Result, newdata: Any = None) -> pd.DataFrame:
    """The data with what the fit says of each row; see `MCMCResult.augment`."""
    frame = fit.model.frame
    insist_in_memory(fit.model, newdata, "augment")
    rows = read_rows(frame, newdata)
    response = rows.responses()
    if frame.is_sparse:
        table, new = pd.DataFrame(index=rows.index), {}
    else:
        table, new = rows.as_given, _fitted(fit, rows, response)
        if isinstance(rows, FittedRows):
            table = from_days(table, frame.first_dates)
    if response is not None:
        new[".log_density"] = log_density(fit.posterior, rows).to_numpy()
        clusters = cast(pd.DataFrame, fit.predict(rows, "cluster"))
        new |= {f".{name}": clusters[name].array for name in ("cluster", "probability")}
    for name in new:
        if name in table:
            raise ValueError(f"augment would add a column {name!r}, which the data have already; rename that column.")
    return pd.concat([table, pd.DataFrame(new, index=table.index)], axis=1)


def _fitted(fit: Result, read: Rows, response: np.ndarray | None) -> dict[str, np.ndarray]:
    """Means, and what is left of the responses; of counts given their total, shares of it."""
    model, blocks = fit.model, fit.model.blocks
    names, of = blocks.mean_names(), blocks.mean_responses()
    if model.is_regression:
        fitted = cast(pd.DataFrame, fit.predict(read, "mean"))["estimate"].to_numpy(copy=True).reshape(-1, len(names))
        if isinstance(read, FittedRows) and response is not None:
            rows, expected = imputation.expected_cells(fit.posterior)
            fitted[rows] = np.where(np.isnan(response[rows])[:, of], expected, fitted[rows])
    elif isinstance(read, FittedRows):
        fitted = imputation.fitted(fit.posterior)
    else:
        there = [j for j in range(model.n_dim) if not read.lacking([j])]
        fitted = imputation.fitted_to_new(fit.posterior, read, read.responses(there))
    new = {f".fitted_{name}" if len(names) > 1 else ".fitted": fitted[:, j] for j, name in enumerate(names)}
    if response is None:
        return new
    observed = response.copy()
    for block, totals in zip(blocks.blocks, blocks.totals(response), strict=True):
        if totals is not None:
            observed[:, block.columns] /= np.where(totals > 0, totals, np.nan)[:, None]
    for j, name in enumerate(names):
        if model.frame.levels[of[j]] is None:
            new[f".resid_{name}" if len(names) > 1 else ".resid"] = observed[:, of[j]] - fitted[:, j]
    return new


# --------------------------------------------------------------------------------------------- several fits

@guided
def compare(*fits: MCMCResult | dict[str, MCMCResult], newdata: Any = None) -> pd.DataFrame:
    """Fits ranked by the log density that they give to data that they have not seen.

    Parameters
    ----------
    *fits : MCMCResult, or one dict of them by name
        Of the same responses.  Without names they are `fit 1`, `fit 2` and so on.
    newdata : DataFrame, optional
        Held-out rows, with responses and covariates.  Without it each row of the training data, which must be the same for all
        fits, is left out in turn by Pareto smoothed importance sampling (Vehtari, Gelman & Gabry 2017), as by `MCMCResult.loo`.

    Returns
    -------
    DataFrame
        One row a fit, the best first: elpd, the sum of log densities over n rows, with its standard error se; mean = elpd / n;
        difference to the best, not above 0, with the standard error of the paired difference, difference_se; n.  Without newdata also
        pareto_k, the largest of the rows: above 0.7 the approximation cannot be trusted, and held-out rows are needed.

    Raises
    ------
    TypeError
        If something else than fits is given.
    ValueError
        If there are no fits, their responses, their point masses or training data differ, or no row is left.

    Warns
    -----
    UserWarning
        Where rows are left out because some fit has no density for them, as something is missing; it counts them.  Where new data hold rows
        that a fit has seen, by their values and more than chance would have it; it names the fit, how many and the first.  Of fits whose
        rows are not in memory, and of new data in parts, nothing is said.

    Examples
    --------
    >>> import nrmmix as nm
    >>> data = nm.datasets.load_faithful()
    >>> old, new = data.iloc[:200], data.iloc[200:]
    >>> run = {"draws": 50, "tune": 50, "rng": 1}
    >>> fits = {
    ...     "mixture": nm.fit("waiting_min ~ 1", old, **run),
    ...     "regression": nm.fit("waiting_min ~ eruptions_min", old, **run),
    ... }
    >>> list(compare(fits, newdata=new).index)
    ['regression', 'mixture']
    """
    named = _named(fits)
    _check_same_responses(named)
    if newdata is not None:
        columns = {name: of_parts(fit.model, newdata, None, partial(_scores, fit)) for name, fit in named.items()}
        extra = None
        _say_what_was_seen(named, newdata)
    else:
        _check_chains(named)
        _check_same_data(named)
        found = {name: _leave_one_out(fit) for name, fit in named.items()}
        columns = {name: scores for name, (scores, _) in found.items()}
        extra = {name: float(np.max(k)) for name, (_, k) in found.items()}
    scores = np.column_stack([np.asarray(column, dtype=float) for column in columns.values()])
    kept = ~np.isnan(scores).any(axis=1)
    if not kept.any():
        raise ValueError("compare: no row has a density under every fit; the data have no rows without missing values.")
    if not kept.all():
        warn(f"compare: {int((~kept).sum())} of {len(kept)} rows left out: some fit has no density there, as values are missing.")
    scores = scores[kept]
    n, best = len(scores), int(scores.sum(axis=0).argmax())
    against = scores - scores[:, [best]]
    table = pd.DataFrame(
        {
            "elpd": scores.sum(axis=0), "se": _standard_error(scores), "mean": scores.mean(axis=0),
            "difference": against.sum(axis=0), "difference_se": _standard_error(against), "n": n,
        },
        index=pd.Index(named, name="fit"),
    )
    if extra is not None:
        table["pareto_k"] = pd.Series(extra)
        if doubtful := [name for name, k in extra.items() if not k <= RELIABLE]:
            warn(
                f"compare: leave-one-out cannot be trusted for {', '.join(doubtful)}: Pareto k above {RELIABLE} in some row, as where one "
                "is alone in a cluster; give held-out rows as newdata=."
            )
    return table.sort_values("elpd", ascending=False, kind="stable")


def _scores(fit: Result, rows: Rows) -> pd.Series:
    return log_density(fit.posterior, rows)


def _say_what_was_seen(named: dict[str, MCMCResult], newdata: Any) -> None:
    """A warning where rows that are to be held out are rows that a fit has seen."""
    if new_source(newdata) is not None:
        return
    read = {name: read_rows(fit.model.frame, newdata) for name, fit in named.items()}
    found = {name: (seen_rows(fit.model, read[name]), read[name].index) for name, fit in named.items()}
    said = [f"{name} has seen {described(rows, index)}" for name, (rows, index) in found.items() if len(rows)]
    if said:
        warn(f"compare: {'; '.join(said)}: their scores are in-sample, which flatters; give rows that no fit has seen.")


def _standard_error(scores: np.ndarray) -> np.ndarray:
    """Standard error of the sums of the columns; NaN for a single row."""
    n = len(scores)
    return np.sqrt(n) * scores.std(axis=0, ddof=1) if n > 1 else np.full(scores.shape[1], np.nan)


def _named(fits: tuple[Any, ...]) -> dict[str, MCMCResult]:
    from nrmmix.results.base import Result

    if len(fits) == 1 and isinstance(fits[0], dict):
        named = {str(name): fit for name, fit in fits[0].items()}
    else:
        named = {f"fit {number}": fit for number, fit in enumerate(fits, 1)}
    if not named:
        raise ValueError("compare: there are no fits; give some, compare(fit1, fit2, newdata=...).")
    for name, fit in named.items():
        if not isinstance(fit, Result):
            raise TypeError(f"compare: {name} is a {type(fit).__name__}; give fits, or one dict of fits, and the data as newdata=.")
    return named


def _check_same_responses(named: dict[str, MCMCResult]) -> None:
    (first, reference), *others = [(name, fit.model.frame.response_names) for name, fit in named.items()]
    for name, responses in others:
        if sorted(responses) != sorted(reference):
            raise ValueError(
                f"compare: densities of different responses cannot be compared; {first} has {listed(reference)} and "
                f"{name} {listed(responses)}."
            )
        if (own := _masses(named[name])) != (wanted := _masses(named[first])):
            raise ValueError(
                f"compare: densities beside point masses cannot be compared with others; {first} has {_points(wanted)} and {name} "
                f"{_points(own)}."
            )


def _masses(fit: MCMCResult) -> dict[str, tuple[float, ...]]:
    """Values of responses that have a probability of their own, by the name of the response."""
    laws = zip(fit.model.frame.response_names, prior_distributions(fit.model), strict=True)
    return {name: tuple(masses.tolist()) for name, law in laws if len(masses := point_masses(law))}


def _points(masses: dict[str, tuple[float, ...]]) -> str:
    return listed(f"one at {name} = {at:g}" for name, own in masses.items() for at in own) if masses else "none"


def _check_chains(named: dict[str, MCMCResult]) -> None:
    """A ValueError where a fit has no draws of the posterior, by which its rows could be left out in turn."""
    for name, fit in named.items():
        if not isinstance(fit, MCMCResult):
            raise ValueError(f"compare: {name} is no fit by chains, by which rows can be left out; give held-out rows as newdata=.")


def _check_same_data(named: dict[str, MCMCResult]) -> None:
    def responses(fit: MCMCResult) -> tuple[np.ndarray, ...]:
        own = fit.model.frame.response
        if fit.model.frame.is_sparse:
            return own.indptr, own.indices, own.data
        return (own[:, np.argsort(fit.model.frame.response_names)],)

    (first, reference), *others = named.items()
    for name, fit in others:
        both = zip(responses(fit), responses(reference), strict=False)
        if not all(np.array_equal(own, wanted, equal_nan=True) for own, wanted in both):
            raise ValueError(
                f"compare: {first} and {name} were fitted to different rows ({reference.model.n_obs} and {fit.model.n_obs}); fit the "
                "same rows, or give held-out rows as newdata=."
            )


def _leave_one_out(fit: MCMCResult) -> tuple[np.ndarray, np.ndarray]:
    """Log density (n,) of each row given the others, and the Pareto shape (n,) that says how far to trust it."""
    if (total := fit.draws.n_chains * fit.draws.n_draws) < MIN_DRAWS:
        raise ValueError(
            f"compare: leave-one-out needs at least {MIN_DRAWS} draws, not {total}; draw more, or give held-out rows as newdata=."
        )
    rows = leave_one_out(pointwise(fit), fit.model.frame.index).rows
    return rows["elpd"].to_numpy(), rows["pareto_k"].to_numpy()
