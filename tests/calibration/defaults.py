"""Cells of what `nm.fit` does where nothing is given but a formula: its prior, its components, its kernel and its sampler.

Defaults take the mean and the standard deviation of the responses for their units.  A law that depends on the data is none that data can be
drawn from, so here responses come in these units: mean 0 and standard deviation 1 are given.  All else is as the model makes it, but for
what depends on no response: the columns of the design, which are standardised, and the places and codes of the kernel.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gammaln

import nrmmix as nm
from calibration import simulators

MIXTURE = "y + z ~ 1"
LAW = nm.Gamma(0.5, 0.5 / 0.3)  # of the scale of a response in a mixture of two


class InUnits(nm.Regression):
    """The default components, where the units of the responses are given and not taken from them."""

    def resolve(self, y: Any, *rest: Any, **named: Any) -> Any:
        found = super().resolve(y, *rest, **named)
        form = dataclasses.replace(found.form, b=np.zeros_like(found.form.b), scale=1.0, level=0.0)
        return found.with_values(form=form)


def table(n: int) -> pd.DataFrame:
    """Covariates, not random: some rows coincide, and both ends of the range are there."""
    rng = np.random.default_rng(n)
    a, b = np.append([0.0, 1.0], rng.integers(0, 21, n - 2) / 20.0), np.append([0.0, 1.0], rng.random(n - 2).round(1))
    return pd.DataFrame({"a": a, "b": b, "g": np.array(["u", "v", "w"])[np.append([0, 1, 2], rng.integers(0, 3, n - 3))]})


def model_of(formula: str, y: np.ndarray) -> nm.Model:
    """The default model of a formula, with its units given."""
    data = table(len(y)).assign(y=y[:, 0], z=y[:, -1])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*quartile ranges away")  # this prior has such values; here no default is taken from them
        default = nm.Model(formula, data).family
        if formula == MIXTURE:
            return nm.Model(formula, data, family=nm.Gaussian(m=[0.0, 0.0], r=default.r, nu=default.nu, scale=LAW))
        return nm.Model(formula, data, family=InUnits(default.design, shrinkage=default.shrinkage))


def log_likelihood(y: np.ndarray, z: np.ndarray, labels: np.ndarray, shrinkage: np.ndarray, noise: float, nu: float) -> float:
    """log p(y | partition, shrinkage, noise scale) of columns z (n, q): y = z'beta + e, beta | s2 ~ N(0, s2 diag(shrinkage)^-1)."""
    total = 0.0
    for c in range(labels.max() + 1):
        own, at = y[labels == c], z[labels == c]
        precision = np.diag(shrinkage) + at.T @ at
        mean = np.linalg.solve(precision, at.T @ own)
        S = noise + own @ own - mean @ precision @ mean
        n = len(own)
        total += gammaln((nu + n) / 2) - gammaln(nu / 2) - n / 2 * np.log(np.pi) + nu / 2 * np.log(noise) - (nu + n) / 2 * np.log(S)
        total += 0.5 * np.log(shrinkage).sum() - 0.5 * np.linalg.slogdet(precision)[1]
    return float(total)


def responses(z: np.ndarray, labels: np.ndarray, shrinkage: np.ndarray, noise: float, nu: float, rng: np.random.Generator) -> np.ndarray:
    """Data (n, 1): for each cluster a precision and coefficients, for each row a normal draw."""
    y = np.empty(len(labels))
    for c in range(labels.max() + 1):
        own = labels == c
        precision = rng.gamma(nu / 2) / (noise / 2)
        beta = rng.standard_normal(len(shrinkage)) / np.sqrt(precision * shrinkage)
        y[own] = z[own] @ beta + rng.standard_normal(own.sum()) / np.sqrt(precision)
    return y[:, None]


def ranked(cell: Any, rng: np.random.Generator, run: dict[str, Any]) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """The truth, and draws, of what is ranked, for one data set of a density regression."""
    model = model_of(cell.formula, rng.standard_normal((cell.n, 1)))
    form, z = model.family.form, model.family.form.observe_inputs(model.frame.inputs)
    mass, codes, omega = simulators.hyperparameter(model.prior.mass, rng), None, None
    if model.slots is None:
        grid = model.grid
        K = np.exp(-0.5 * ((grid.values - grid.locations.T) / grid.width.T) ** 2)
    else:
        grid = model.slots
        omega = rng.beta(grid.prior.a, grid.prior.b, len(grid.n_codes))
        shape = len(grid.weights), len(grid.n_codes)
        codes = np.where(rng.random(shape) < omega, 1 + (rng.random(shape) * grid.n_codes).astype(int), 0)
        K = np.exp(sum(own[codes[:, j]].T for j, own in enumerate(grid.code_log_K)))
    assert np.allclose(grid.weights, 1 / len(grid.weights))  # as `measure` has them
    labels, location, v = simulators.measure(mass, 0.0, K, grid.group, rng)
    law = cell.truth or form.shrinkage
    shrinkage = rng.gamma(law.shape, 1 / law.rate, len(form.groups))[form.groups]  # one for all levels of a factor
    noise = rng.gamma(0.5)
    y = responses(z, labels, shrinkage, noise, form.nu, rng)
    model = model_of(cell.formula, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nm.ConvergenceWarning)
        draws = model.fit(cell.method, **run).draws
    flat = {name: draws.flat(name) for name in draws}

    def quantities(labels, location, codes, omega, shrinkage, noise, mass):
        found = {"mass": mass, "clusters": labels.max() + 1, "noise scale": noise}
        found |= {f"shrinkage of {form.input_names[j]}": shrinkage[j] for j in np.unique(form.groups)}
        found["log likelihood"] = log_likelihood(y[:, 0], z, labels, shrinkage, noise, form.nu)
        if codes is None:
            return found | {"width used": np.log(grid.width[location, 0]).mean()}
        used = (codes[location] > 0).mean(axis=0)
        names = model.frame.covariate_names
        found |= {f"omega of {name}": value for name, value in zip(names, omega, strict=True)}
        return found | {f"use of {name}": value for name, value in zip(names, used, strict=True)}

    count = len(flat["labels"])
    drawn = [
        quantities(
            flat["labels"][t], flat["locations"][t], *(flat[name][t] if name in flat else None for name in ("codes", "inclusion")),
            flat["shrinkage"][t], float(np.ravel(flat["noise_scale"][t])[0]), flat["mass"][t],
        )
        for t in range(count)
    ]
    true = quantities(labels, location, codes, omega, shrinkage, noise, mass)
    first = np.unique(labels, return_index=True)[1]
    own = {} if codes is None else {"codes": codes}
    true["log joint"] = model.log_joint(
        labels, v=v, locations=location[first], mass=mass, shrinkage=shrinkage, noise_scale=[noise], **own,
    )
    return true, {name: np.array([row[name] for row in drawn], float) for name in drawn[0]} | {"log joint": flat["log_joint"]}
