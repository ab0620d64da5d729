"""Log joint density of data and partition; see `nrmmix.Model.log_joint`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nrmmix.common.compiling import announced
from nrmmix.common.messages import did_you_mean, number, positive
from nrmmix.kernels.chain import start
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.measure.joint import log_joint as joint_of_state
from nrmmix.model.frame import arrays
from nrmmix.model.frame.labels import canonical
from nrmmix.model.pack import arrays_of
from nrmmix.model.priors.hyperpriors import fixed
from nrmmix.model.specification import Specification


def log_joint(
    model: Specification, labels: Any, u: float | None = None, v: Any = None, locations: Any = None, imputed: Any = None,
    theta: Any = None, shared: Mapping[str, Any] = MappingProxyType({}), codes: Any = None, *, hyper_values: dict[str, float],
) -> float:
    """See `Model.log_joint`."""
    n = model.n_obs
    if model.frame.is_streamed:
        raise ValueError("log_joint needs the rows in memory; give a table, such as pandas.read_parquet(path).")
    arrays.check_row_labels(labels, model.frame.index, "labels")
    relabelled, n_clusters = canonical(arrays.labels(labels, n))
    state_hyper = _hyper(model, hyper_values)
    if model.grid is not None:
        if u is not None:
            raise ValueError("u belongs to mixtures; density regression has v, one for each covariate group.")
        if v is None or locations is None:
            raise ValueError("log_joint of a density regression needs v and locations.")
        at = np.asarray(v, dtype=float)
        place = np.asarray(locations)
        G, P = len(model.grid.values), len(model.grid.locations)
        if at.shape != (G,) or not (np.isfinite(at).all() and (at > 0).all()):
            raise ValueError(f"v must hold {G} positive numbers, one for each covariate group.")
        if place.shape != (n_clusters,) or place.dtype.kind not in "iu" or place.min() < 0 or place.max() >= P:
            raise ValueError(f"locations must hold {n_clusters} integers in 0..{P - 1}, one for each cluster.")
    else:
        if v is not None or locations is not None:
            raise ValueError("v and locations belong to density regression; this model is a mixture.")
        if u is not None and not model.has_u:
            raise ValueError(f"u is integrated out of a {model.prior.title} mixture; leave it out.")
        at, place = np.array([1.0 if u is None else positive("u", u)]), np.zeros(n_clusters, np.int64)
    if 0 < model.prior.components < n_clusters:
        return -math.inf
    explicit = _parameters("theta", theta, (n_clusters, len(model.packed.explicit)))
    names = model.packed.shared_names
    data, state = arrays_of(model, n_clusters, entries=layout.OF_COLUMNS)
    _impute(model, data, imputed)
    for name in {**names, **shared}:
        those = names.get(name, np.zeros(0, np.int64))
        values = _parameters(name, shared.get(name), (len(those),))
        if not model.packed.permits(values, those):
            raise ValueError(f"{name} must hold finite numbers greater than 0, of shape {(len(those),)}; not {shared[name]!r}.")
        data.rows.constant[data.shared[those]] = values
    state.codes[:] = _codes(model, codes)
    state.hyper[:] = state_hyper
    state.v[:] = at
    with announced():
        start(data, state, relabelled)
        state.location[:n_clusters] = place
        state.stat[data.explicit, :n_clusters] = explicit.T
        value = float(joint_of_state(data, state))
    if explicit.size and math.isnan(value):
        raise ValueError("theta has no density under the prior of the components; precisions are greater than 0.")
    if model.has_u and u is None and model.prior.tau == 0:
        sigma = state_hyper[layout.Hyper.SIGMA]  # the integral of u^(sigma K - 1) exp(-u^sigma), over the integrand at u = 1
        value += math.lgamma(n_clusters) - math.log(sigma) + 1.0
    elif model.has_u and u is None:
        mass, sigma, tau = state_hyper[: layout.Hyper.WIDTH]
        value += log_integral_over_u(n, n_clusters, mass, sigma, tau) - log_integrand_at_one(n, n_clusters, mass, sigma, tau)
    return value


def _impute(model: Specification, data: layout.Data, imputed: Any) -> None:
    """Put values into the missing cells that are drawn."""
    size = len(layout.drawn(data.rows)[0])
    if imputed is None and size:
        raise ValueError(f"this model draws {size} missing cells; give their values, imputed=, as in fit.draws['imputed'].")
    if imputed is None:
        return
    if not size:
        raise ValueError("this model draws no missing cells; leave imputed= out.")
    values = arrays.reals(imputed, "imputed")
    if values.shape != (size,) or not np.isfinite(values).all():
        raise ValueError(f"imputed must hold {size} finite numbers, one for each missing cell, row by row.")
    data.rows.y[:] = model.blocks.completed(model.frame.response, values, model.frame.inputs, model.packed)


def _codes(model: Specification, given: Any) -> np.ndarray:
    """Checked codes of the slots; none where the model has none."""
    if (slots := model.slots) is None:
        if given is not None:
            raise ValueError("codes are those of nm.SparseProduct, and this model has another kernel; leave them out.")
        return np.zeros((0, 0), np.int64)
    shape = len(slots.weights), len(slots.n_codes)
    if given is None:
        raise ValueError(f"codes of the slots are part of the state of this model; give them, integers of shape {shape}.")
    codes = np.asarray(given)
    if codes.shape != shape or codes.dtype.kind not in "iu" or not ((codes >= 0) & (codes <= slots.n_codes)).all():
        raise ValueError(f"codes must hold integers of shape {shape}, in each column from 0 to {slots.n_codes.tolist()}.")
    return codes


def _parameters(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Checked parameters that are not integrated out; none where the model has none."""
    if 0 in shape:
        if given is not None:
            raise ValueError(f"{name} is given, but this model has no such parameters; leave it out.")
        return np.zeros(shape)
    if given is None:
        raise ValueError(f"{name} is not integrated out in this model; give it, an array of shape {shape}, as in fit.draws[{name!r}].")
    values = arrays.reals(given, name)
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError(f"{name} must hold finite numbers, of shape {shape}; not {given!r}.")
    return values


def _hyper(model: Specification, given: dict[str, float]) -> np.ndarray:
    """Values of mass, sigma, tau and the widths; all that are sampled must be given."""
    known = (*model.prior.parameters, *model.width_names)
    values = model.hyperparameters
    for name in given:
        if name not in known and not (name in values and number(given[name]) == values[name]):  # as fits record it
            raise ValueError(f"unknown hyperparameter {name!r}; this model has {', '.join(known)}{did_you_mean(name, known)}")
    for name, value in values.items():
        if name in given:
            x = number(given[name])
            if not -math.inf < x < math.inf or (name in model.width_names and x <= 0):
                raise ValueError(f"{name} = {given[name]!r} is out of range.")
            values[name] = x
        elif not isinstance(value, float):
            raise ValueError(f"{name} is sampled in this model; give its value, {name}=...")
    numbers = {name: fixed(value) for name, value in values.items()}
    needs_mass = model.is_regression and numbers["mass"] <= 0  # which only mixtures can do without
    if needs_mass or not model.prior.permits(numbers["mass"], numbers["sigma"]):
        at = ", ".join(f"{name} = {given[name]!r}" for name in model.prior.parameters if name in given)
        raise ValueError(f"{at} is out of range.")
    widths = model.widths_of([numbers[name] for name in model.width_names])
    return np.array([*model.prior.kernel_values(numbers["mass"], numbers["sigma"]), model.prior.tau, *widths], dtype=float)


def log_integral_over_u(n: int, n_clusters: int, mass: float, sigma: float, tau: float) -> float:
    """log of the integral over u of u^(n-1) (u + tau)^-(n - sigma K) exp(-psi(u))."""
    from nrmmix.kernels.measure.prior import log_integral

    # u = tau w: the law depends on mass and tau through mass tau^sigma only
    row = np.array([layout.FIXED, mass * tau**sigma, 0.0])
    return float(log_integral(float(n), float(n_clusters), row, sigma, 0.0)[0]) - n_clusters * math.log(mass)


def log_integrand_at_one(n: int, n_clusters: int, mass: float, sigma: float, tau: float) -> float:
    """log of the same integrand at u = 1."""
    growth = math.log1p(1.0 / tau)
    psi1 = growth if sigma == 0 else tau**sigma * math.expm1(sigma * growth) / sigma
    return -(n - sigma * n_clusters) * (growth + math.log(tau)) - mass * psi1
