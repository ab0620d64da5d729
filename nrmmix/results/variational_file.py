"""Variational fits in files: counts and statistics of the components, from which all else follows, and the passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nrmmix.inference.methods import VARIATIONAL
from nrmmix.inference.variational.climb import Pass
from nrmmix.inference.variational.options import Variational, VariationalOutcome
from nrmmix.model.encoding import decode, encode
from nrmmix.model.specification import Specification
from nrmmix.posterior.factors import Factors
from nrmmix.results.variational import VariationalResult

RUN = ("method", "elbo", "has_converged", "seed", "seconds", "interrupted")


def header_of(fit: VariationalResult, put: Callable[..., str]) -> dict[str, Any]:
    """What the header says of the fit, its arrays put beside it."""
    passes = fit.passes.reset_index()
    return {
        "run": {name: getattr(fit, name) for name in RUN} | {"options": encode(fit.options)},
        **({"clusters": put(fit._estimate(), "clusters")} if fit.model.frame.is_streamed else {}),
        "factors": {"N": put(fit.factors.N, "factors/N"), "s": put(fit.factors.s, "factors/s")},
        "passes": {name: put(passes[name].to_numpy(), f"passes/{name}") for name in passes},
    }


def restored(
    header: dict[str, Any], get: Callable[[str], np.ndarray], model: Specification, insist: Callable[[bool, str], None]
) -> VariationalResult:
    """The fit that was saved; `insist` refuses what cannot be right."""
    run, options = header["run"], decode(header["run"]["options"])
    insist(isinstance(options, Variational) and run["method"] in (options.name, *VARIATIONAL), f"method {run['method']!r}")
    insist(not options.refusal(model), f"method {run['method']!r}")
    side = model.exponential()
    N, s = get(header["factors"]["N"]), get(header["factors"]["s"])
    sound = N.ndim == 1 and len(N) > 0 and s.shape == (len(N), side.n_stat) and N.dtype.kind == s.dtype.kind == "f"
    insist(sound and bool(np.isfinite(N).all() and np.isfinite(s).all() and (N >= 0).all()), "factors")
    insist(abs(float(N.sum()) - model.n_obs) <= 1e-6 * model.n_obs, "counts of components")
    columns = [get(header["passes"][{"number": "pass", "bound": "elbo"}.get(name, name)]) for name in Pass._fields]
    insist({column.shape for column in columns} == {(len(columns[0]),)} and len(columns[0]) > 0, "passes")
    passes = [Pass(*(value.item() for value in values)) for values in zip(*columns, strict=True)]
    insist(type(run["seed"]) is int, "seed")
    try:
        factors = Factors(side, model.prior.mass, N, s)
    except np.linalg.LinAlgError:
        raise ValueError("its factors cannot be right") from None
    outcome = VariationalOutcome(
        options, run["method"], model.statistics(side), factors, float(run["elbo"]), passes, bool(run["has_converged"]), run["seed"],
        float(run["seconds"]), bool(run["interrupted"]),
    )
    result = VariationalResult(model, outcome)
    if "clusters" in header:
        result._clusters = clusters = get(header["clusters"])
        insist(clusters.shape == N.shape and clusters.dtype.kind == "i" and int(clusters.min()) >= 0, "clusters of components")
    return result
