"""nrmmix: Bayesian nonparametric mixtures and density regression with normalized random measures.

>>> import nrmmix as nm
>>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), draws=50, tune=50, rng=1)
>>> fit.draws["n_clusters"].shape
(4, 50)
"""

from __future__ import annotations

import importlib
from typing import Any

from nrmmix.interrupts import held

__version__ = "0.1.0"

# Names are imported when first used: `import nrmmix` alone loads neither numba nor pandas.
_HOMES = {
    "fit": "api",
    "Model": "model",
    "Gamma": "hyperpriors",
    "Beta": "hyperpriors",
    "LogNormal": "hyperpriors",
    "DirichletProcess": "priors",
    "NGGP": "priors",
    "NormalizedInverseGaussian": "priors",
    "PitmanYor": "priors",
    "NormalizedStable": "priors",
    "FiniteMixture": "priors",
    "GibbsType": "priors",
    "Gaussian": "families",
    "Multinomial": "families",
    "Poisson": "families",
    "Bernoulli": "families",
    "Categorical": "families",
    "lee_choi_base": "families",
    "Regression": "families",
    "SemiconjugateGaussian": "families",
    "SquaredExponential": "covariates",
    "Box": "covariates",
    "Gibbs": "moves",
    "SplitMerge": "moves",
    "Slice": "moves",
    "Permutation": "moves",
    "TreeGuided": "tree_moves",
    "PublishedTreeGuided": "tree_published",
    "Cycle": "methods",
    "BHC": "searches",
    "IBHC": "searches",
    "SearchResult": "search_result",
    "MCMCResult": "results",
    "ConvergenceWarning": "convergence",
    "load": "saving",
    "compare": "report.frames",
    "mass_for_clusters": "prior_predictive",
}
_MODULES = ("datasets", "diagnostics", "plots")

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module 'nrmmix' has no attribute {name!r}")
    with held():  # NumPy and its like cannot be imported again once an import of theirs has been cut short
        module = importlib.import_module(f"nrmmix.{_HOMES.get(name, name)}")
    value = getattr(module, name) if name in _HOMES else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
