"""Sentences on what a fit has found, for those who do not read tables: the first section of a report."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import cast

import numpy as np
import pandas as pd

from nrmmix.common.messages import listed, printable
from nrmmix.model.frame.columns.dates import describe
from nrmmix.plots.kinds import COUNT, NUMBER, Covariate, covariates, shapes
from nrmmix.posterior.importance import use
from nrmmix.report.clusters import Clusters, affordable, clusters
from nrmmix.report.summary import MAX_ROWS, rounded
from nrmmix.results.base import Result
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.search import SearchResult
from nrmmix.results.variational import VariationalResult

NAMED = 3  # clusters, pairs of a covariate and a response, and values that are described
NUMBERS = 4  # of a cluster
SURE = 0.9  # probability of bands, and of what is said of counts
TAILS = (0.05, 0.5, 0.95)  # of a response
PLACES = (0.1, 0.5, 0.9)  # of a covariate, shares of the rows below
DRAWS = 200  # behind predictions
PROVISIONAL = "All of this is provisional: the verdict above says what is missing."


def findings(fit: Result, is_sound: bool = True) -> list[str]:
    """Return sentences on what was found: the number of clusters and what they are, or how the response changes with the covariates.

    Where the verdict is bad (`is_sound=False`) the first sentence says so.
    """
    said = [] if is_sound else [PROVISIONAL]
    said.append(_data(fit))
    if isinstance(fit, VariationalResult) and (fit.model.frame.is_streamed or fit.model.n_obs > MAX_ROWS):
        return [*said, _components(fit)]
    if fit.model.is_regression:
        return [*said, *_regression(fit)]
    if isinstance(fit, MCMCResult):
        said.append(_count(fit))
        if fit.lacking or not affordable(fit):
            return said
    return [*said, *_clusters(fit)]


def _data(fit: Result) -> str:
    model = fit.model
    rows = f"{model.n_obs:,} rows of {listed(model.frame.response_names)}"
    if not model.is_regression:
        return f"{rows} were divided into clusters."
    dates = "".join(f" {printable(describe(*item))}." for item in model.frame.first_dates.items())
    return f"The distribution of {rows} was described as it changes with {listed(model.frame.covariate_columns)}.{dates}"


def _count(fit: MCMCResult) -> str:
    """The number of clusters, by its posterior."""
    counts = fit.draws["n_clusters"].ravel()
    values, times = np.unique(counts, return_counts=True)
    most = int(times.argmax())
    if len(values) == 1:
        return f"In all draws there are {_number(int(values[0]))}."
    low, high = (int(np.quantile(counts, q, method="inverted_cdf")) for q in ((1 - SURE) / 2, (1 + SURE) / 2))
    between = f"{low} to {high}" if low < high else str(low)
    share = ((counts >= low) & (counts <= high)).mean()
    return (
        f"The most probable number of clusters is {values[most]}, with a probability of {times[most] / len(counts):.2f}. With a "
        f"probability of {share:.2f} it is {between}. This counts small ones too, which come and go from draw to draw."
    )


def _clusters(fit: Result) -> Iterator[str]:
    """The clusters of the point estimate, the largest of them by what their rows are like."""
    found = clusters(fit)
    sizes = [f"{size:,.10g}" for size in found.size]
    of = ", ".join(sizes[:6]) + (f" and {len(sizes) - 6} smaller ones" if len(sizes) > 6 else "")
    which = "The partition that stands best for all draws has" if isinstance(fit, MCMCResult) else "The partition has"
    yield f"{which} {_number(len(sizes))}, of {of} rows."
    for k in range(min(NAMED, len(sizes))):
        yield _cluster(found, k)
    if not isinstance(fit, SearchResult) and len(sizes) > 1:
        known = np.flatnonzero(~np.isnan(found.stability))
        if len(known):
            least = known[found.stability[known].argmin()]
            yield (
                f"The least certain is cluster {found.label[least]}: two of its rows are together with a probability of "
                f"{found.stability[least]:.2f}."
            )


def _cluster(found: Clusters, k: int) -> str:
    numbers = [one for one in found.columns if not one.name.startswith("sd ") and np.isfinite(one.value[k])]
    texts = [f"{printable(one.name)} {rounded(one.value[k], one.sd[k])}" for one in numbers[:NUMBERS]]
    parts = [", ".join(texts)] if texts else []
    parts += [f"{printable(words.name)} mostly {', '.join(printable(word) for word, _ in words.top[k][:NAMED])}" for words in found.words]
    share = found.size[k] / found.size.sum()
    return f"Cluster {found.label[k]}, {found.size[k]:,.10g} rows ({share:.0%})" + (f": {'; '.join(parts)}." if parts else ".")


def _components(fit: VariationalResult) -> str:
    weights = np.sort(fit.weights.to_numpy())[::-1]
    largest = ", ".join(f"{weight:.0%}" for weight in weights[:NAMED])
    if len(weights) == 1 or fit.n_clusters == 1:
        return f"One cluster holds rows; the largest has {weights[0]:.0%} of them."
    return f"{fit.n_clusters:,} clusters hold rows; the largest have {largest} of them."


def _number(n: int) -> str:
    return "one cluster" if n == 1 else f"{n:,} clusters"


def _regression(fit: Result) -> Iterator[str]:
    """Say how the response changes with the covariates, those of which most rows make use first."""
    model = fit.model
    found = covariates(model)
    if isinstance(fit, MCMCResult) and model.slots is not None and not fit.lacking:
        shares = use(model, fit.draws)["use"]
        largest = shares.nlargest(NAMED)
        yield (
            "Shares of the rows whose place in the model depends on a covariate: "
            + ", ".join(f"{printable(name)} {share:.0%}" for name, share in largest.items()) + "."
        )
        found = tuple(sorted(found, key=lambda one: -float(shares.get(one.name, 0.0))))
    if isinstance(fit, SearchResult) or (isinstance(fit, MCMCResult) and fit.lacking):
        return  # there are no predictions
    names = [name for name, own in shapes(model).items() if own in (NUMBER, COUNT)]
    for one, name in [(one, name) for one in found for name in names][:NAMED]:
        yield from _along(fit, one, name)
    if len(found) > 1 and names:
        yield "The other covariates are at their medians, or most frequent levels, whether or not there are such rows."


def _along(fit: Result, covariate: Covariate, name: str) -> Iterator[str]:
    """The quantiles of a response at values of a covariate, as they are in the data."""
    model = fit.model
    columns = dict.fromkeys([*model.frame.covariate_columns, *model.frame.input_columns])
    held = {key: model.frame.typical_value(key) for key in columns if key != covariate.name}
    values = _values(fit, covariate)
    rows = pd.DataFrame({key: [value] * len(values) for key, value in held.items()} | {covariate.name: values})
    table = cast(pd.DataFrame, fit.predict(rows, kind="quantile", q=TAILS, interval=SURE, draws=DRAWS, response=name))
    numbers = table.to_numpy(dtype=float).reshape(len(values), len(TAILS), 3)  # estimate, lower, upper
    for value, ((low, *_), (median, below, above), (high, *_)) in zip(values, numbers, strict=True):
        error = max((above - below) / (2 * 1.645), (high - low) / 50)  # on digits alone; a median of counts may have no error
        yield (
            f"At {printable(covariate.name)} = {_text(value)} the median of {printable(name)} is {rounded(median, error)} ({SURE:.0%} "
            f"band {rounded(below, error)} to {rounded(above, error)}), and nine of ten values are between {rounded(low, error)} and "
            f"{rounded(high, error)}."
        )


def _values(fit: Result, covariate: Covariate) -> list[object]:
    source = fit.model.frame.source[covariate.name]
    if covariate.levels is not None:
        frequent = np.argsort(-np.bincount(covariate.observed.astype(int), minlength=len(covariate.levels)), kind="stable")
        return [covariate.levels[j] for j in frequent[:NAMED]]
    order = np.argsort(covariate.observed, kind="stable")
    places = order[[round(place * (len(order) - 1)) for place in PLACES]]
    return list(dict.fromkeys(source.iloc[j] for j in places))


def _text(value: object) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    return f"{value:.6g}" if isinstance(value, Real) else printable(str(value))
