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

# Names are imported when first used: `import nrmmix` alone loads nothing but the standard library.
_NAMES = {  # by the modules that hold them
    "api": "fit Model",
    "model.priors.hyperpriors": "Gamma Beta LogNormal",
    "model.priors.measures": "DirichletProcess NGGP NormalizedInverseGaussian PitmanYor NormalizedStable FiniteMixture",
    "model.priors.gibbs_type": "GibbsType",
    "model.families": "Gaussian Multinomial Poisson Bernoulli Categorical Hurdle lee_choi_base Regression SemiconjugateGaussian",
    "model.priors.covariate_kernels": "SquaredExponential Box Epanechnikov Triangular Laplace Matching Product",
    "model.priors.sparse_product": "SparseProduct",
    "model.priors.widths": "PerAtom",
    "inference.mcmc.moves": "Gibbs SplitMerge Slice Permutation TreeGuided PublishedTreeGuided Blocked SNGP Relocation",
    "inference.mcmc.cycle": "Cycle",
    "inference.search.options": "BHC IBHC",
    "inference.variational.options": "VB StochasticVB MemoizedVB",
    "results.search": "SearchResult",
    "results.variational": "VariationalResult",
    "results.mcmc": "MCMCResult",
    "posterior.convergence": "ConvergenceWarning",
    "results.saving": "load",
    "results.running": "resume",
    "common.registry": "register",
    "report.frames": "compare",
    "model.prior_predictive": "mass_for_clusters",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_MODULES = ("datasets", "diagnostics", "plots", "sklearn")  # the last works without scikit-learn too

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
