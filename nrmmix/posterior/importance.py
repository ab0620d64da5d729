"""Importance of each covariate of a density regression: how many rows use it, and how far it moves the response.

The spread of a covariate's effect on a functional of the conditional distribution, such as the mean m(x), is

    sqrt(average over rows i of Var_v m(x_i with covariate j at v)),

where v goes over values as the data have them: each row is moved along one covariate while the others stay as they are.  Effects whose
sign depends on other covariates do not cancel, as they would in an average over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.compiling import announced
from nrmmix.common.messages import count, known_name, probability
from nrmmix.common.seeds import prediction_seed, seed_sequence
from nrmmix.model.frame.arrays import column as read_column
from nrmmix.model.frame.rows import NewRows
from nrmmix.model.replicates import parts
from nrmmix.model.specification import Specification
from nrmmix.posterior.diagnostics import rhat
from nrmmix.posterior.draws import Draws, Posterior
from nrmmix.posterior.kernel_factors import AnyPosterior, KernelFactorPosterior
from nrmmix.posterior.predict.functionals import Mean, Quantile, over_cases, over_states
from nrmmix.posterior.predict.points import response_columns, why_not
from nrmmix.posterior.predict.rows import prediction_rows
from nrmmix.posterior.predict.states import states_of
from nrmmix.posterior.representatives import spaced

VALUES = 9  # that a number is moved to
TAILS = (0.05, 0.95)  # quantiles whose spread is reported
TAIL_ROWS, TAIL_DRAWS = 12, 100  # of their spread, which takes longer than that of means
OF_SOURCE = 20_000  # rows that are looked at where they are not in memory
OF_CHANCES = 1000  # draws of chances, for their bands
BOUNDS = ("", "_lower", "_upper")


def importance(
    posterior: AnyPosterior, *, interval: float = 0.9, draws: int = 200, rows: int = 50, rng: Any = None, response: str | None = None
) -> pd.DataFrame:
    """See `nrmmix.MCMCResult.importance`."""
    model = posterior.specification
    insist_on_covariates(model)
    names = model.frame.response_names
    name = names[0] if response is None else known_name("response", response, names)
    share, limit, size = probability("interval", interval), count("draws", draws, 1), count("rows", rows, 1)
    if isinstance(posterior, Posterior):
        table = use(model, posterior.draws, share)
    else:
        assert isinstance(posterior, KernelFactorPosterior)  # of a regression
        table = use_by_factors(posterior, share)
    source = _rows(model)
    chosen = _chosen(len(source), size, rng)
    by_columns = {columns: _values_of(model, source, columns) for columns in dict.fromkeys(model.frame.columns_of_covariates.values())}
    moved = list(by_columns.values())
    with announced():
        spreads = _spread_of_mean(posterior, source, moved, chosen, limit, name)
        tails = _spread_of_tails(posterior, source, moved, chosen[spaced(len(chosen), TAIL_ROWS)], min(limit, TAIL_DRAWS), name)
    place = [list(by_columns).index(columns) for columns in model.frame.columns_of_covariates.values()]
    estimates = dict(zip([f"effect{bound}" for bound in BOUNDS], _summarised(spreads, share)[:, place], strict=True))
    estimates |= {f"effect_q{100 * q:02.0f}": own for q, own in zip(TAILS, tails[place].T, strict=True)}
    table = pd.concat([table.drop(columns="rhat"), pd.DataFrame(estimates, index=table.index), table["rhat"]], axis=1)
    table.attrs["units"] = f"use and inclusion: probabilities; effects: those of the response {name!r}, of categories probabilities"
    return table


def insist_on_covariates(model: Specification) -> None:
    """A ValueError where there are none."""
    if not model.is_regression:
        raise ValueError("importance is of covariates, and this model is a mixture, which has none; write `response ~ covariate`.")


def use(model: Specification, draws: Draws, interval: float = 0.9) -> pd.DataFrame:
    """Return each covariate's share of rows whose cluster uses it, and the chance that a slot does, with bands and the larger R-hat.

    Where the kernel is no sparse product every atom uses every covariate: both are 1, and there is nothing to converge.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=50, tune=50, chains=2, rng=1)
    >>> use(fit.model, fit.draws)["use"].tolist()
    [1.0]
    """
    index = pd.Index(model.frame.covariate_names, name="covariate")
    if model.slots is None:
        table = pd.DataFrame(1.0, index=index, columns=[f"{name}{bound}" for name in ("use", "inclusion") for bound in BOUNDS])
        return table.assign(rhat=np.nan)
    found = {"use": shares_of_rows(draws), "inclusion": draws["inclusion"]}
    columns: dict[str, np.ndarray] = {}
    for name, values in found.items():
        of_all = _summarised(values.reshape(-1, len(index)), interval)
        columns |= dict(zip([f"{name}{bound}" for bound in BOUNDS], of_all, strict=True))
    each = np.array([[rhat(values[..., j]) for j in range(len(index))] for values in found.values()])
    return pd.DataFrame(columns | {"rhat": np.fmax.reduce(each)}, index=index)


def use_by_factors(posterior: KernelFactorPosterior, interval: float = 0.9) -> pd.DataFrame:
    """Return the same table of a variational fit: shares by expected counts, with the range of starts; chances with beta bands."""
    model = posterior.specification
    if model.slots is None:
        return use(model, Draws({}), interval)
    tail, which = (1 - interval) / 2, np.flatnonzero(posterior.weights > 0)
    weights = posterior.weights[which]
    shares = np.stack([one.N @ (one.codes > 0) / one.N.sum() for one in (posterior.fits[k] for k in which)])
    laws = [posterior.fits[k].binned.inclusion(posterior.fits[k].codes) for k in which]
    columns = {"use": weights @ shares, "use_lower": shares.min(axis=0), "use_upper": shares.max(axis=0)}
    if laws[0][1].any():
        rng = np.random.default_rng(prediction_seed(posterior.seed))
        drawn = np.stack([rng.beta(*laws[k]) for k in rng.choice(len(which), OF_CHANCES, p=weights)])
        columns["inclusion"] = weights @ np.stack([a / (a + b) for a, b in laws])
        columns |= dict(zip(("inclusion_lower", "inclusion_upper"), np.quantile(drawn, [tail, 1 - tail], axis=0), strict=True))
    else:
        columns |= {f"inclusion{bound}": laws[0][0] for bound in BOUNDS}
    return pd.DataFrame(columns, index=pd.Index(model.frame.covariate_names, name="covariate")).assign(rhat=np.nan)


def shares_of_rows(draws: Draws) -> np.ndarray:
    """(chain, draw, q): in each draw the share of rows whose cluster is at a slot with a code for the covariate."""
    codes, locations = draws.flat("codes"), draws.flat("locations")
    used = [np.bincount(location, minlength=len(code)) @ (code > 0) for code, location in zip(codes, locations, strict=True)]
    return np.array(used).reshape(draws.n_chains, draws.n_draws, -1) / locations.shape[1]


def _summarised(values: np.ndarray, interval: float) -> np.ndarray:
    """(3, k): means of draws (draws, k) and the ends of their intervals."""
    tail = (1 - interval) / 2
    return np.stack([values.mean(axis=0), *np.quantile(values, [tail, 1 - tail], axis=0)])


# ---- rows that are moved along a covariate

@dataclass(frozen=True)
class Moved:
    """Values that columns are moved to: those that they have together in some rows, and how much each counts."""

    columns: tuple[str, ...]
    rows: np.ndarray  # (V,) positions among the fitted rows
    weights: np.ndarray  # (V,), their sum 1

    def newdata(self, source: pd.DataFrame, chosen: np.ndarray) -> pd.DataFrame:
        """The chosen rows at each of the values, those of one row after those of another."""
        out = source.iloc[np.repeat(chosen, len(self.rows))].reset_index(drop=True)
        return out.assign(**{name: source[name].iloc[np.tile(self.rows, len(chosen))].array for name in self.columns})

    def spread(self, values: np.ndarray, there: np.ndarray) -> np.ndarray:
        """(..., W) from values (..., rows * V, W): the root mean square over rows of standard deviations, where there are values."""
        weights = self.weights * there.reshape(-1, len(self.rows))
        total = weights.sum(axis=1)
        weights = (weights / np.where(total > 0, total, 1.0)[:, None])[..., None]
        values = values.reshape(*values.shape[:-2], *weights.shape[:2], values.shape[-1])
        centre = (weights * values).sum(axis=-2, keepdims=True)
        variance = (weights * (values - centre) ** 2).sum(axis=-2)[..., total > 0, :]
        return np.sqrt(variance.sum(axis=-2) / max(int((total > 0).sum()), 1))


def _rows(model: Specification) -> pd.DataFrame:
    """The fitted rows, where they are not in memory some of them, evenly spaced."""
    frame: Any = model.frame
    return frame.table_of(spaced(model.n_obs, OF_SOURCE)) if frame.is_streamed else frame.source


def _values_of(model: Specification, source: pd.DataFrame, columns: tuple[str, ...]) -> Moved:
    """Return quantiles of a number, or all values if few, levels of a category by frequency; of several columns some rows."""
    frame = model.frame
    if len(columns) > 1:
        rows = spaced(len(source), VALUES)
        return Moved(columns, rows, np.full(len(rows), 1 / len(rows)))
    (name,) = columns
    read = read_column(source[name], name, frame.covariate_columns[name])
    numbers = np.asarray(read if isinstance(read, np.ndarray) else read.codes)
    _, first, size = np.unique(numbers, return_index=True, return_counts=True)
    if not isinstance(read, np.ndarray) or len(first) <= VALUES:
        return Moved(columns, first, size / size.sum())
    at = np.round((np.arange(VALUES) + 0.5) / VALUES * (len(numbers) - 1)).astype(int)
    return Moved(columns, np.argsort(numbers, kind="stable")[at], np.full(VALUES, 1 / VALUES))


def _chosen(n: int, most: int, rng: Any) -> np.ndarray:
    """Positions of rows that are moved: evenly spaced, or drawn where a seed is given."""
    return spaced(n, most) if rng is None else np.sort(np.random.default_rng(seed_sequence(rng)).permutation(n)[:most])


def _in_reach(posterior: AnyPosterior, newdata: pd.DataFrame) -> np.ndarray:
    """Rows that some location reaches whatever the draw."""
    model = posterior.specification
    if model.slots is not None:
        return np.ones(len(newdata), bool)
    assert model.grid is not None
    x, _ = NewRows(model.frame, newdata).covariates()
    smallest = {name: posterior.draws[name].min() for name in model.width_names} if isinstance(posterior, Posterior) else {}
    widths = model.widths_of(list(smallest.values())) if smallest else model.start_widths()
    step = parts(len(x), 8 * (x.shape[1] + 2) * len(model.grid.weights))
    return np.concatenate([model.log_kernel(model.grid.distances(x[part]), widths).max(axis=1) > -np.inf for part in step])


def _spread_of_mean(
    posterior: AnyPosterior, source: pd.DataFrame, moved: list[Moved], chosen: np.ndarray, limit: int, response: str
) -> np.ndarray:
    """(states, len(moved)): in each state; of a response with several means that of the one that moves most."""
    model = posterior.specification
    of, responses = model.blocks.mean_responses(), response_columns(model, response)
    W = int((of == responses[0]).sum())
    states = states_of(posterior, limit)

    def values(newdata: pd.DataFrame) -> np.ndarray:
        rows = prediction_rows(model, newdata)
        return over_states(lambda inputs: Mean(states, responses, inputs), W, states, rows)[:, rows.row]

    return np.stack([own.max(axis=-1) for own in _spreads(posterior, source, moved, chosen, values)], axis=-1)


def _spread_of_tails(
    posterior: AnyPosterior, source: pd.DataFrame, moved: list[Moved], chosen: np.ndarray, limit: int, response: str
) -> np.ndarray:
    """(len(moved), quantiles) of the predictive distribution; NaN where the response has none."""
    model = posterior.specification
    responses = response_columns(model, response)
    if why_not(model, "quantile")[responses[0]] is not None:
        return np.full((len(moved), len(TAILS)), np.nan)
    states, seed = states_of(posterior, limit), prediction_seed(posterior.seed)

    def values(newdata: pd.DataFrame) -> np.ndarray:
        rows = prediction_rows(model, newdata)
        make = lambda inputs: Quantile(states, responses, np.array(TAILS), inputs)  # noqa: E731
        return over_cases(make, len(TAILS), states, rows, 0.9, seed)[rows.row, :, 0]

    return np.stack(_spreads(posterior, source, moved, chosen, values))


def _spreads(
    posterior: AnyPosterior, source: pd.DataFrame, moved: list[Moved], chosen: np.ndarray, values: Any
) -> list[np.ndarray]:
    """Spreads (..., W) along each of the covariates, of values (..., rows, W) that a function has at new data."""
    tables = [one.newdata(source, chosen) for one in moved]
    newdata = pd.concat(tables, ignore_index=True)
    there = _in_reach(posterior, newdata)
    found = values(newdata[there])
    every = np.zeros((*found.shape[:-2], len(newdata), found.shape[-1]))
    every[..., there, :] = found
    ends = np.cumsum([len(table) for table in tables])[:-1]
    return [one.spread(own, near) for one, own, near in zip(moved, np.split(every, ends, axis=-2), np.split(there, ends), strict=True)]
