"""Classic data sets that come with the package, files of the user, and simulated data with the truth."""

from nrmmix.datasets.loaders import (
    Corpus,
    external,
    load,
    load_acidity,
    load_digits,
    load_faithful,
    load_galaxy,
    load_iris,
    load_mcycle,
    load_reuters,
    names,
)
from nrmmix.datasets.simulations import (
    DynamicTruth,
    MixedTruth,
    MixtureTruth,
    regression_density,
    simulate_dynamic_mixture,
    simulate_mixed,
    simulate_mixture,
    simulate_regression,
    simulate_toy,
)

__all__ = [
    "Corpus", "DynamicTruth", "MixedTruth", "MixtureTruth", "external", "load", "load_acidity", "load_digits", "load_faithful",
    "load_galaxy", "load_iris", "load_mcycle", "load_reuters", "names", "regression_density", "simulate_dynamic_mixture",
    "simulate_mixed", "simulate_mixture", "simulate_regression", "simulate_toy",
]
