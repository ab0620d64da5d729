"""Parameters of the clusters of a partition as a table: means, standard deviations and intervals given who is in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from nrmmix.model.families import Parameter

COLUMNS = ("mean", "sd", "lower", "upper")
POINTS = 19  # quantiles of each law of a mixture


def table(
    sizes: np.ndarray, parameters: Sequence[Parameter], weights: tuple[np.ndarray, np.ndarray] | None, interval: float
) -> pd.DataFrame:
    """Rows by cluster and parameter: sizes (C,), weights as expected (C,) and drawn (draws, C), and parameters of the components.

    Examples
    --------
    >>> mean = Parameter("mean y", np.array([1.0, 2.0]), np.array([0.5, 0.1]))
    >>> table(np.array([3, 1]), [mean], None, 0.9).loc[0]
               mean   sd  lower  upper
    parameter
    size        3.0  0.0    3.0    3.0
    mean y      1.0  0.5    NaN    NaN
    """
    tail, size = (1.0 - interval) / 2.0, np.asarray(sizes, float)
    columns = {"size": np.stack([size, np.zeros(len(size)), size, size], axis=1)}
    if weights is not None:
        expected, drawn = weights
        ends = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
        columns["weight"] = np.stack([expected, drawn.std(axis=0), *ends], axis=1)
    for one in parameters:
        nothing = np.full(len(size), np.nan)
        lower, upper = (nothing, nothing) if one.quantile is None else (one.quantile(tail), one.quantile(1.0 - tail))
        columns[one.name] = np.stack([one.mean, one.sd, lower, upper], axis=1)
    index = pd.MultiIndex.from_product([range(len(size)), columns], names=["cluster", "parameter"])
    return pd.DataFrame(np.stack(list(columns.values()), axis=1).reshape(-1, len(COLUMNS)), index=index, columns=list(COLUMNS))


def mixed(parts: Sequence[Parameter]) -> Parameter:
    """A parameter under the mixture, in equal shares, of several laws of it; its quantiles are those of `POINTS` quantiles of each.

    These are at other probabilities of each law, so that laws that are alike have quantiles at as many probabilities as there are points.

    Examples
    --------
    >>> one = mixed([Parameter("mean y", np.array([m]), np.array([0.5])) for m in (1.0, 3.0)])
    >>> one.mean, one.sd.round(3)
    (array([2.]), array([1.118]))
    """
    means, sds = np.array([one.mean for one in parts]), np.array([one.sd for one in parts])
    laws = [one.quantile for one in parts if one.quantile is not None]

    @cache
    def pooled() -> np.ndarray:
        return np.array([law((i + (c + 0.5) / len(laws)) / POINTS) for c, law in enumerate(laws) for i in range(POINTS)])

    return parts[0]._replace(
        mean=means.mean(axis=0), sd=np.sqrt((sds**2).mean(axis=0) + means.var(axis=0)),
        quantile=(lambda p: np.quantile(pooled(), p, axis=0, method="hazen")) if laws else None,
    )


def of_columns(parameter: Parameter, columns: np.ndarray) -> Parameter:
    """A parameter of some clusters."""
    law = parameter.quantile
    return parameter._replace(
        mean=parameter.mean[columns], sd=parameter.sd[columns], quantile=None if law is None else lambda p: law(p)[columns]
    )
