"""Results as JSON, for programs that read what the command line prints."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np


def dumped(value: Any) -> str:
    """Text of JSON: tables as lists of rows; what is no finite number is null.

    Examples
    --------
    >>> print(dumped({"a": np.array([1.5, np.nan]), "b": np.int64(2)}))
    {
     "a": [
      1.5,
      null
     ],
     "b": 2
    }
    """
    return json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Return a value as what JSON has."""
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        frame = value if isinstance(value.index, pd.RangeIndex) and value.index.name is None else value.reset_index()
        return [{str(name): plain(one) for name, one in zip(frame.columns, row, strict=True)} for row in frame.itertuples(index=False)]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    return None if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)


def of_fit(fit: Any) -> dict[str, Any]:
    """A fit: `fit` in one row, `estimates` with their diagnostics, `clusters` of the point estimate, `notes` with the verdict last.

    Clusters are null where the search for a point estimate would take long or draws have not been kept.
    """
    from nrmmix.report.clusters import affordable, clusters
    from nrmmix.results.mcmc import MCMCResult

    report = fit.summary()
    made: dict[str, Any] = {"method": fit.method, "seed": fit.seed, "seconds": fit.seconds, "interrupted": bool(fit.interrupted)}
    if hasattr(fit, "glance"):
        made = {**fit.glance().iloc[0].to_dict(), **made}
    else:
        made |= {"formula": fit.model.formula, "n_obs": fit.model.n_obs, "n_clusters": fit.n_clusters, "log_joint": fit.log_joint,
                 "lower_bound": fit.lower_bound, "hyper": fit.hyper}
    chains = isinstance(fit, MCMCResult)
    found = None
    if not fit.model.frame.is_streamed and not (chains and (fit.lacking or not affordable(fit))):
        at = clusters(fit)
        found = [
            {"cluster": int(at.label[k]), "size": int(at.size[k]), "stability": float(at.stability[k]), "purity": float(at.purity[k]),
             "parameters": {column.name: {"mean": float(column.value[k]), "sd": float(column.sd[k])} for column in at.columns}}
            for k in range(len(at.label))
        ]
    return {"fit": made, "estimates": fit.tidy() if chains else [], "clusters": found, "notes": report.notes}
