"""Cells of sparse products: two covariates and a factor, codes of the slots and chances of inclusion from their prior."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm
from calibration import simulators
from calibration.quantities import components, log_likelihood

SLOTS, PLACES, WIDTHS, LEVELS = 20, 5, (0.1, 0.4), 3


def table(n: int) -> pd.DataFrame:
    """Covariates, not random: some rows coincide."""
    rng = np.random.default_rng(n)
    a, b = rng.integers(0, 6, n) / 5.0, rng.random(n).round(1)
    return pd.DataFrame({"a": a, "b": b, "g": np.array(["u", "v", "w"])[rng.integers(0, LEVELS, n)]})


def model_of(cell: Any, y: np.ndarray) -> nm.Model:
    base = cell.base
    family = nm.Gaussian(m=base.m, r=base.r, nu=base.nu, scale=base.scale)
    kernel = nm.SparseProduct(slots=SLOTS, places=PLACES, widths=WIDTHS)
    return nm.Model("y ~ a + b + g", table(cell.n).assign(y=y[:, 0]), prior=cell.prior, family=family, kernel=kernel)


def quantities(
    y: np.ndarray, cell: Any, labels: np.ndarray, location: np.ndarray, codes: np.ndarray, omega: np.ndarray, hyper: dict[str, float]
) -> dict[str, float]:
    """What is ranked: hyperparameters, clusters, fit, and of each covariate the chance of inclusion and the share of rows that use it."""
    used = (codes[location] > 0).mean(axis=0)
    found = hyper | {"clusters": labels.max() + 1}
    found["log likelihood"] = log_likelihood(components(y, labels, cell.base), cell.base)
    found |= {f"omega of {name}": value for name, value in zip("abg", omega, strict=True)}
    return found | {f"use of {name}": value for name, value in zip("abg", used, strict=True)} | {"codes in use": (codes > 0).mean()}


def ranked(cell: Any, rng: np.random.Generator, run: dict[str, Any]) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """The truth, and draws, of what is ranked, for one data set."""
    slots = model_of(cell, rng.standard_normal((cell.n, 1))).slots
    mass, sigma = (simulators.hyperparameter(value, rng) for value in (cell.prior.mass, cell.prior.sigma))
    a, b = (cell.truth or slots.prior).a, (cell.truth or slots.prior).b
    omega = rng.beta(a, b, len(slots.n_codes))
    shape = len(slots.weights), len(slots.n_codes)
    codes = np.where(rng.random(shape) < omega, 1 + (rng.random(shape) * slots.n_codes).astype(int), 0)
    log_K = sum(table[codes[:, j]].T for j, table in enumerate(slots.code_log_K))
    labels, location, v = simulators.measure(mass, sigma, np.exp(log_K), slots.group, rng)
    y = simulators.responses(labels, cell.base, rng)
    model = model_of(cell, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nm.ConvergenceWarning)
        draws = model.fit(cell.method, **run).draws
    flat = {name: draws.flat(name) for name in draws}
    drawn = [
        quantities(y, cell, *(flat[name][t] for name in ("labels", "locations", "codes", "inclusion")),
                   {name: flat[name][t] for name in model.sampled})
        for t in range(len(flat["labels"]))
    ]
    hyper = {name: value for name, value in (("mass", mass), ("sigma", sigma)) if name in model.sampled}
    first = np.unique(labels, return_index=True)[1]
    true = quantities(y, cell, labels, location, codes, omega, hyper)
    true["log joint"] = model.log_joint(labels, v=v, locations=location[first], codes=codes, **hyper)
    values = {name: np.array([row[name] for row in drawn], float) for name in drawn[0]}
    return true, values | {"log joint": flat["log_joint"]}
