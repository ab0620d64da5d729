"""Variational fits in files: counts and statistics of the components, from which all else follows, and the passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from nrmmix.inference.methods import VARIATIONAL
from nrmmix.inference.variational.climb import Pass
from nrmmix.inference.variational.options import RegressionOutcome, Variational, VariationalOutcome
from nrmmix.inference.variational_regression.checkpoint import OF_START
from nrmmix.inference.variational_regression.climb import Pass as PassOfStart
from nrmmix.inference.variational_regression.memory import Seen
from nrmmix.inference.variational_regression.run import binned_of, rows_of_model
from nrmmix.model.encoding import decode, encode
from nrmmix.model.families.exponential import Stacked
from nrmmix.model.specification import Specification
from nrmmix.posterior.factors import Factors
from nrmmix.posterior.kernel_factors import KernelFactors
from nrmmix.results.variational import VariationalResult
from nrmmix.results.variational_regression import VariationalRegressionResult

RUN = ("method", "elbo", "has_converged", "seed", "seconds", "interrupted")
OF_ROWS = ("entropy", "log_v", "n", "log_h")  # of sums over rows those that are numbers
MIN_SUM = 1e-6  # that rounding may leave below 0
T = TypeVar("T")


def header_of(fit: VariationalResult, put: Callable[..., str]) -> dict[str, Any]:
    """Return what the header says of the fit, its arrays put beside it."""
    if isinstance(fit, VariationalRegressionResult):
        return _header_of_starts(fit, put)
    passes = fit.passes.reset_index()
    return {
        "run": {name: getattr(fit, name) for name in RUN} | {"options": encode(fit.options)},
        **_clusters(fit, put),
        "factors": {"N": put(fit.factors.N, "factors/N"), "s": put(fit.factors.s, "factors/s")}
        | {name: put(values, f"factors/{name}") for name, values in fit.factors.exponential.shared.items()},
        "passes": {name: put(passes[name].to_numpy(), f"passes/{name}") for name in passes},
    }


def _clusters(fit: VariationalResult, put: Callable[..., str]) -> dict[str, Any]:
    """Clusters of components, where rows are not in memory to be asked for theirs."""
    return {"clusters": put(fit._estimate(), "clusters")} if fit.model.frame.is_streamed else {}


def _take_clusters(result: Any, header: dict[str, Any], get: Callable[[str], np.ndarray], insist: Callable[[bool, str], None]) -> Any:
    if "clusters" in header:
        result._clusters = clusters = get(header["clusters"])
        sound = clusters.shape == result.factors.N.shape and clusters.dtype.kind == "i" and int(clusters.min()) >= 0
        insist(sound, "clusters of components")
    return result


def restored(
    header: dict[str, Any], get: Callable[[str], np.ndarray], model: Specification, insist: Callable[[bool, str], None]
) -> VariationalResult:
    """The fit that was saved; `insist` refuses what cannot be right."""
    run, options = header["run"], decode(header["run"]["options"])
    insist(isinstance(options, Variational) and run["method"] in (options.name, *VARIATIONAL), f"method {run['method']!r}")
    insist(not options.refusal(model), f"method {run['method']!r}")
    insist(type(run["seed"]) is int, "seed")
    if model.is_regression:
        return _restored_starts(header, get, model, options, insist)
    exponential = model.exponential()
    shared = {name: get(header["factors"][name]) for name in exponential.shared if name in header["factors"]}
    _insist_on_shared(shared, exponential, insist)
    try:
        exponential = exponential.with_shared(shared)
    except ValueError:
        insist(False, "shrinkage")
    N, s = get(header["factors"]["N"]), get(header["factors"]["s"])
    sound = N.ndim == 1 and len(N) > 0 and s.shape == (len(N), exponential.n_stat) and N.dtype.kind == s.dtype.kind == "f"
    insist(sound and bool(np.isfinite(N).all() and np.isfinite(s).all() and (N >= 0).all()), "factors")
    insist(abs(float(N.sum()) - model.frame.size) <= 1e-6 * model.frame.size, "counts of components")
    columns = [get(header["passes"][{"number": "pass", "bound": "elbo"}.get(name, name)]) for name in Pass._fields]
    passes = _passes(Pass, columns, insist)
    try:
        factors = Factors(exponential, model.prior.mass, N, s)
    except np.linalg.LinAlgError:
        raise ValueError("its factors cannot be right") from None
    outcome = VariationalOutcome(
        options, run["method"], model.statistics(exponential), factors, float(run["elbo"]), passes, bool(run["has_converged"]), run["seed"],
        float(run["seconds"]), bool(run["interrupted"]),
    )
    return _take_clusters(VariationalResult(model, outcome), header, get, insist)


def _insist_on_shared(shared: dict[str, np.ndarray], exponential: Stacked, insist: Callable[[bool, str], None]) -> None:
    insist(shared.keys() == exponential.shared.keys() and all(bool((values > 0).all()) for values in shared.values()), "shrinkage")


def _passes(kind: Callable[..., T], columns: list[np.ndarray], insist: Callable[[bool, str], None]) -> list[T]:
    insist({column.shape for column in columns} == {(len(columns[0]),)} and len(columns[0]) > 0, "passes")
    return [kind(*(value.item() for value in values)) for values in zip(*columns, strict=True)]


# ---- density regression: several starts


def _header_of_starts(fit: VariationalRegressionResult, put: Callable[..., str]) -> dict[str, Any]:
    outcome = fit._outcome
    starts = [
        {name: put(getattr(one, name), f"factors/{k}/{name}") for name in OF_START}
        | {"shared": {name: put(values, f"factors/{k}/{name}") for name, values in one.exponential.shared.items()}}
        | {"passes": {name: put(np.array(values), f"passes/{k}/{name}") for name, values in _columns(list(outcome.passes[k])).items()}}
        for k, one in enumerate(fit.fits)
    ]
    return {
        "run": {name: getattr(fit, name) for name in RUN} | {"options": encode(fit.options)},
        "factors": starts,
        "starts": {name: put(getattr(outcome, name), f"starts/{name}") for name in ("bounds", "weights", "has_converged")},
        **_clusters(fit, put),
        **({"sums": [_header_of_sums(one, f"sums/{k}", put) for k, one in enumerate(outcome.sums)]} if outcome.sums else {}),
    }


def _header_of_sums(sums: Seen, where: str, put: Callable[..., str]) -> dict[str, Any]:
    """Sums over rows; counts and statistics are those of the factors."""
    of_rows = np.array([getattr(sums, name) for name in OF_ROWS])
    return {"H": put(sums.H, f"{where}/H"), "G": put(sums.G, f"{where}/G"), "of_rows": put(of_rows, f"{where}/of_rows")}


def _columns(passes: list[PassOfStart]) -> dict[str, tuple[Any, ...]]:
    return dict(zip(PassOfStart._fields, zip(*passes, strict=True), strict=True))


def _restored_starts(
    header: dict[str, Any], get: Callable[[str], np.ndarray], model: Specification, options: Variational,
    insist: Callable[[bool, str], None],
) -> VariationalRegressionResult:
    run, binned = header["run"], binned_of(model)
    rows = rows_of_model(model, binned)
    exponential, q = rows.statistics.exponential, len(binned.counts)
    bounds, weights, converged = (get(header["starts"][name]) for name in ("bounds", "weights", "has_converged"))
    size = len(header["factors"])
    sound = size > 0 and bounds.shape == weights.shape == converged.shape == (size,) and bounds.dtype.kind == weights.dtype.kind == "f"
    insist(sound and bool(np.isfinite(bounds).all() and (weights >= 0).all() and abs(weights.sum() - 1) < 1e-6), "starts")
    insist(converged.dtype.kind == "b", "starts")
    fits, passes = [], []
    for one in header["factors"]:
        N, s, A, codes = (get(one[name]) for name in OF_START)
        sound = N.ndim == 1 and len(N) > 0 and s.shape == (len(N), exponential.n_stat) and A.shape == N.shape and codes.shape == (len(N), q)
        insist(sound and N.dtype.kind == s.dtype.kind == A.dtype.kind == "f" and codes.dtype.kind == "i", "factors")
        insist(bool(all(np.isfinite(values).all() for values in (N, s, A)) and (N >= 0).all() and (A >= 0).all()), "factors")
        insist(bool((codes >= 0).all() and (codes < binned.counts).all()), "codes of components")
        insist(abs(float(N.sum()) - model.frame.size) <= 1e-6 * model.frame.size, "counts of components")
        shared = {name: get(key) for name, key in one["shared"].items()}
        _insist_on_shared(shared, exponential, insist)
        try:
            fits.append(KernelFactors(binned, exponential.with_shared(shared), model.prior.mass, N, s, A, codes))
        except (np.linalg.LinAlgError, ValueError):
            raise ValueError("its factors cannot be right") from None
        columns = [get(one["passes"][name]) for name in PassOfStart._fields]
        passes.append(_passes(PassOfStart, columns, insist))
    sums = []
    for one, own in zip(fits, header.get("sums", []), strict=False):
        H, G, of_rows = (get(own[name]) for name in ("H", "G", "of_rows"))
        shape = q, binned.log_k.shape[1], one.n_components
        insist(H.shape == G.shape == shape and of_rows.shape == (len(OF_ROWS),) and H.dtype.kind == G.dtype.kind == "f", "sums over rows")
        insist(bool(np.isfinite(of_rows).all() and (H >= -MIN_SUM).all() and (G >= -MIN_SUM).all()), "sums over rows")
        sums.append(Seen(one.N, one.s, H, G, *of_rows.tolist()))
    insist(len(sums) in (0, size), "sums over rows")
    outcome = RegressionOutcome(
        options, run["method"], rows, tuple(fits), bounds, weights, passes, converged, run["seed"], float(run["seconds"]),
        bool(run["interrupted"]), tuple(sums),
    )
    return _take_clusters(VariationalRegressionResult(model, outcome), header, get, insist)
