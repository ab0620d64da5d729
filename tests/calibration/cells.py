"""The cells: a model, a method and a size each; and one replicate of a cell."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import nrmmix as nm
from calibration import defaults, simulators, sparse
from calibration.quantities import Design, quantities
from calibration.ranks import rank
from calibration.simulators import Base, State
from nrmmix.model.priors.measures import Prior
from nrmmix.posterior.diagnostics import ess

CHAINS, DRAWS = 3, 33  # 99 draws a replicate
MASS, SIGMA, WIDTH = nm.Gamma(4, 4), nm.Beta(2, 4), nm.LogNormal(-1.5, 0.4)
DEFAULT = nm.DirichletProcess()
DP, NGGP = nm.DirichletProcess(MASS), nm.NGGP(MASS, SIGMA)
FIXED_SIGMA = nm.NGGP(MASS, 0.3)
R, NU = 0.2, 6.0


@dataclass(frozen=True)
class Cell:
    name: str
    n: int
    prior: Any  # of the model that is fitted
    method: str = "gibbs"
    d: int = 1
    width: Any = None  # of the covariate kernel; None is a mixture
    groups: int = 0  # distinct covariates
    places: int = 0  # locations; 0 is one at each distinct covariate
    tune: int = 300
    thin: int = 10
    formula: str = ""  # of a default; all else is what a model makes of it
    is_sparse: bool = False  # whether it is a sparse product of two covariates and a factor
    truth: Any = None  # where data come from another prior than the model's
    wrong: bool = False  # model or sampler is wrong on purpose: it must be found

    @property
    def base(self) -> Base:
        if self.formula:  # of a mixture
            family = self.model(np.random.default_rng(0).standard_normal((self.n, self.d))).family
            return Base(np.ravel(family.m), float(family.r), float(family.nu), np.diag([law.mean for law in family.scale]))
        scale = np.array([[2.0]]) if self.d == 1 else np.array([[2.0, 0.6], [0.6, 3.0]])
        return Base(np.arange(self.d, dtype=float), R, NU, scale)

    @property
    def design(self) -> Design:
        at_y = np.arange(self.d) + 0.5
        if self.width is None:
            return Design(np.zeros(1), np.zeros(self.n, int), np.zeros(1), 0.0, at_y)
        rng = np.random.default_rng(self.n)
        x = np.linspace(0.0, 1.0, self.groups)
        group = np.concatenate([np.arange(self.groups), rng.integers(0, self.groups, self.n - self.groups)])  # of unequal sizes
        return Design(x, group, np.linspace(0.0, 1.0, self.places) if self.places else x, 0.37, at_y)

    @property
    def description(self) -> str:
        if self.formula:
            return f"nm.fit({self.formula!r}), in given units"
        if self.is_sparse:
            return f"{self.prior}, SparseProduct of two covariates and a factor, {sparse.SLOTS} slots"
        if self.width is None:
            return f"{self.prior}, d = {self.d}"
        return f"{self.prior}, SquaredExponential({self.width}), {self.groups} covariates, {self.places or self.groups} locations"

    def model(self, y: np.ndarray) -> nm.Model:
        if self.formula:
            return defaults.model_of(self.formula, y)
        base, design = self.base, self.design
        family = nm.Gaussian(m=base.m, r=base.r, nu=base.nu, scale=base.scale)
        if self.width is None:
            return nm.Model(data=y, prior=self.prior, family=family)
        data = pd.DataFrame({"y": y[:, 0], "x": design.x[design.group]})
        kernel = nm.SquaredExponential(self.width, locations=design.places)
        return nm.Model("y ~ x", data, prior=self.prior, family=family, kernel=kernel)


CELLS = (
    Cell("DP, gibbs", 100, DP, thin=15),
    Cell("DP, split_merge", 150, DP, "split_merge", d=2, thin=7),
    Cell("DP, tree", 200, DP, "tree", thin=5),
    Cell("NGGP, gibbs", 60, NGGP, d=2),
    Cell("NGGP, split_merge", 100, NGGP, "split_merge"),
    Cell("NGGP, tree", 300, NGGP, "tree", d=2),
    Cell("kernel, DP", 80, DP, width=0.2, groups=20),
    Cell("kernel, DP, width sampled", 50, DP, width=WIDTH, groups=25),
    Cell("kernel, NGGP", 120, FIXED_SIGMA, width=0.2, groups=30, places=12),
    Cell("kernel, NGGP, width sampled", 60, FIXED_SIGMA, width=WIDTH, groups=15),
    Cell("sparse product, DP", 60, DP, is_sparse=True),
    Cell("sparse product, NGGP", 60, FIXED_SIGMA, is_sparse=True),
    Cell("default, mixture", 100, DEFAULT, "auto", d=2, formula=defaults.MIXTURE, tune=1000, thin=20),
    Cell("default, one covariate", 80, DEFAULT, "auto", formula="y ~ a", tune=2000, thin=40),
    Cell("default, several covariates", 60, DEFAULT, "auto", formula="y ~ a + b + g", tune=1000, thin=20),
    Cell("default, a factor", 60, DEFAULT, "auto", formula="y ~ g", tune=1000, thin=20),
    Cell("wrong prior of the mass", 100, nm.DirichletProcess(nm.Gamma(4, 2)), truth=DP, wrong=True),
    Cell("wrong prior of the width", 60, DP, width=nm.LogNormal(-0.8, 0.4), groups=15, truth=WIDTH, wrong=True),
    Cell("wrong prior of inclusion", 60, DP, is_sparse=True, truth=nm.Beta(8, 1), wrong=True),
    Cell("wrong law of shrinkage", 80, DEFAULT, "auto", formula="y ~ a", tune=1000, thin=20, truth=nm.Gamma(0.5, 0.005), wrong=True),
    Cell("sampler that is not exact", 20, DP, "tree_published", thin=5, wrong=True),
)
BY_NAME = {cell.name: cell for cell in CELLS}


class Replicate(NamedTuple):
    ranks: dict[str, int]
    effective: dict[str, float]  # draws, out of CHAINS * DRAWS


def simulate(cell: Cell, rng: np.random.Generator) -> tuple[np.ndarray, State]:
    """Data and the state that they come from."""
    prior = cell.truth if isinstance(cell.truth, Prior) else cell.prior
    design = cell.design
    mass, sigma = (simulators.hyperparameter(value, rng) for value in (prior.mass, prior.sigma))
    width = np.inf
    if cell.width is not None:
        width = simulators.hyperparameter(cell.truth if isinstance(cell.truth, nm.LogNormal) else cell.width, rng)
    K = simulators.kernel(design.x, design.places, width)
    labels, location, v = simulators.measure(mass, sigma, K, design.group, rng)
    scale = np.array([simulators.hyperparameter(defaults.LAW, rng) for _ in range(cell.d)]) if cell.formula else None
    state = State(labels, location, v, mass, sigma, width, scale=scale)
    return simulators.responses(labels, given(cell.base, state), rng), state


def given(base: Base, state: State) -> Base:
    """The prior of the components given the scale, where that is sampled."""
    return base if state.scale is None else base._replace(scale=np.diag(state.scale))


def states(fit: Any) -> list[State]:
    """The draws of a fit, without u where it is integrated out: v = 0 then, which no quantity depends on."""
    draws = fit.draws
    n = draws["labels"].shape[-1]
    flat = {name: draws.flat(name) for name in draws}
    count = len(flat["labels"])
    v = flat["u"][:, None] if "u" in draws else np.zeros((count, 1))
    A = flat["A"] if "A" in draws else [None] * count
    location = flat["locations"] if "locations" in draws else np.zeros((count, n), int)
    width = flat["width"] if "width" in draws else np.full(count, np.inf)
    scale = flat["scale"] * [law.mean for law in fit.model.family.scale] if "scale" in draws else [None] * count
    return [State(*values) for values in zip(flat["labels"], location, v, flat["mass"], flat["sigma"], width, A, scale, strict=True)]


def log_joint(model: nm.Model, state: State) -> float:
    hyper = {name: getattr(state, name) for name in model.sampled}
    if state.scale is not None:
        hyper["scale"] = state.scale / [law.mean for law in model.family.scale]
    if model.is_regression:
        first = np.unique(state.labels, return_index=True)[1]
        return model.log_joint(state.labels, v=state.v, locations=state.location[first], **hyper)
    return model.log_joint(state.labels, **({"u": float(state.v[0])} if model.has_u else {}), **hyper)


def replicate(name: str, index: int) -> Replicate:
    """One data set, one fit, and the ranks; the same whatever else is run."""
    cell = BY_NAME[name]
    seed = np.random.SeedSequence([zlib.crc32(name.encode()), index])
    rng, fit_seed = np.random.default_rng(seed), seed.spawn(1)[0]
    if cell.is_sparse or (cell.formula and cell.formula != defaults.MIXTURE):
        run = {"draws": DRAWS, "tune": cell.tune, "thin": cell.thin, "chains": CHAINS, "rng": fit_seed, "cores": 1, "progress": False}
        true, values = (sparse if cell.is_sparse else defaults).ranked(cell, rng, run)
        ranks = {quantity: rank(true[quantity], draws, rng) for quantity, draws in values.items()}
        return Replicate(ranks, {quantity: ess(draws.reshape(CHAINS, DRAWS)) for quantity, draws in values.items()})
    y, truth = simulate(cell, rng)
    model = cell.model(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nm.ConvergenceWarning)
        fit = model.fit(cell.method, draws=DRAWS, tune=cell.tune, thin=cell.thin, chains=CHAINS, rng=fit_seed, cores=1, progress=False)
    base, design = cell.base, cell.design
    drawn = [quantities(y, state, design, given(base, state), model.sampled) for state in states(fit)]
    values = {quantity: np.array([row[quantity] for row in drawn], dtype=float) for quantity in drawn[0]}
    values["log joint"] = fit.draws.flat("log_joint")
    true = quantities(y, truth, design, given(base, truth), model.sampled) | {"log joint": log_joint(model, truth)}
    ranks = {quantity: rank(true[quantity], draws, rng) for quantity, draws in values.items()}
    return Replicate(ranks, {quantity: ess(draws.reshape(CHAINS, DRAWS)) for quantity, draws in values.items()})
