"""nrmmix: Bayesian nonparametric mixtures and density regression with normalized random measures.

>>> import nrmmix as nm
>>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), draws=50, tune=50, rng=1)
>>> fit.draws["n_clusters"].shape
(4, 50)
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Names are imported when first used: `import nrmmix` alone loads neither numba nor pandas.
_HOMES = {
    "fit": "api",
    "Model": "model",
    "Gamma": "priors",
    "Beta": "priors",
    "LogNormal": "priors",
    "DirichletProcess": "priors",
    "NGGP": "priors",
    "NormalizedInverseGaussian": "priors",
    "Gaussian": "families",
    "lee_choi_base": "families",
    "SquaredExponential": "covariates",
    "Box": "covariates",
    "Gibbs": "moves",
    "MCMCResult": "results",
    "ConvergenceWarning": "convergence",
    "load": "saving",
    "compare": "report.frames",
    "mass_for_clusters": "prior_predictive",
}
_MODULES = ("datasets", "diagnostics", "plots")

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"nrmmix.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"nrmmix.{name}")
    else:
        raise AttributeError(f"module 'nrmmix' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
