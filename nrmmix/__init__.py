"""nrmmix: Bayesian nonparametric mixtures and density regression with normalized random measures.

>>> import nrmmix as nm
>>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), draws=50, tune=50, rng=1)
>>> fit.draws["n_clusters"].shape
(4, 50)
"""

from __future__ import annotations

import importlib
from typing import Any

from nrmmix.common.interrupts import interrupts_delayed

__version__ = "0.1.0"

# Names are imported when first used: `import nrmmix` alone loads neither numba nor pandas.
_HOMES = {
    "fit": "api",
    "Model": "api",
    "Gamma": "model.priors.hyperpriors",
    "Beta": "model.priors.hyperpriors",
    "LogNormal": "model.priors.hyperpriors",
    "DirichletProcess": "model.priors.measures",
    "NGGP": "model.priors.measures",
    "NormalizedInverseGaussian": "model.priors.measures",
    "PitmanYor": "model.priors.measures",
    "NormalizedStable": "model.priors.measures",
    "FiniteMixture": "model.priors.measures",
    "GibbsType": "model.priors.gibbs_type",
    "Gaussian": "model.families",
    "Multinomial": "model.families",
    "Poisson": "model.families",
    "Bernoulli": "model.families",
    "Categorical": "model.families",
    "lee_choi_base": "model.families",
    "Regression": "model.families",
    "SemiconjugateGaussian": "model.families",
    "SquaredExponential": "model.priors.covariate_kernels",
    "Box": "model.priors.covariate_kernels",
    "Epanechnikov": "model.priors.covariate_kernels",
    "Triangular": "model.priors.covariate_kernels",
    "Laplace": "model.priors.covariate_kernels",
    "Matching": "model.priors.covariate_kernels",
    "Product": "model.priors.covariate_kernels",
    "PerAtom": "model.priors.widths",
    "Gibbs": "inference.mcmc.moves",
    "SplitMerge": "inference.mcmc.moves",
    "Slice": "inference.mcmc.moves",
    "Permutation": "inference.mcmc.moves",
    "TreeGuided": "inference.mcmc.moves",
    "PublishedTreeGuided": "inference.mcmc.moves",
    "Cycle": "inference.mcmc.cycle",
    "BHC": "inference.search.options",
    "IBHC": "inference.search.options",
    "SearchResult": "results.search",
    "MCMCResult": "results.mcmc",
    "ConvergenceWarning": "posterior.convergence",
    "load": "results.saving",
    "register": "common.registry",
    "compare": "report.frames",
    "mass_for_clusters": "model.prior_predictive",
}
_MODULES = ("datasets", "diagnostics", "plots")

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module 'nrmmix' has no attribute {name!r}")
    with interrupts_delayed():  # NumPy and its like cannot be imported again once an import of theirs has been cut short
        module = importlib.import_module(f"nrmmix.{_HOMES.get(name, name)}")
    value = getattr(module, name) if name in _HOMES else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
