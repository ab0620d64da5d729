"""Starts of the chains of a density regression: optima of the variational bound, one for each chain, of starts of their own."""

from __future__ import annotations

import numpy as np

from nrmmix.inference.variational_regression.climb import Climb
from nrmmix.inference.variational_regression.memory import Memory, sample_of
from nrmmix.inference.variational_regression.run import COMPONENTS, binned_of, rows_of_model
from nrmmix.inference.variational_regression.start import NOISE, cut
from nrmmix.model.families.exponential import NotExponential
from nrmmix.model.specification import Specification
from nrmmix.posterior.kernel_factors import KernelFactorPosterior

MIN_ROWS, SAMPLE = 30, 2000  # rows from which on it is worth while, and of which starts are found
PASSES, TOL = 30, 1e-3  # at most, and nats a row: chains go on from there


def spread(model: Specification, chains: int, seed: np.random.SeedSequence) -> list[tuple[np.ndarray, np.ndarray | None]] | None:
    """Return labels (n,) for each chain and codes (K, q) of their clusters; None where the model has no such starts.

    Starts are by a Dirichlet process whatever the prior.  Its mass is that of the prior where it has one.
    """
    if model.slots is None or model.frame.is_streamed or model.n_obs < MIN_ROWS:
        return None
    try:
        rows, binned = rows_of_model(model), binned_of(model)
    except NotExponential:
        return None
    components = model.prior.components if model.prior.components > 0 else min(COMPONENTS[0], model.n_obs)
    found = []
    for one in seed.spawn(chains):
        rng = np.random.default_rng(one)
        some = sample_of(rows, SAMPLE, rng)
        start = cut(binned, rows.statistics.exponential, model.prior.mass, some, components, rng, NOISE)
        climb = Climb(Memory(some), start, rng, search=True)
        climb.run(PASSES, TOL)
        found.append(labels_and_codes(KernelFactorPosterior(model, (climb.factors,), np.ones(1), rows, 0)))
    return found


def labels_and_codes(posterior: KernelFactorPosterior, start: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
    """Labels (n,) of the fitted rows by their most probable components, numbered by first appearance, and codes of these clusters."""
    component = np.empty(posterior.rows.n, np.int64)
    for some, r in posterior.blocks(start):
        component[some] = r.argmax(axis=0)
    those, first, labels = np.unique(component, return_index=True, return_inverse=True)
    order = np.argsort(first)
    codes = posterior.fits[start].codes[those[order]] if posterior.specification.slots is not None else None
    return np.argsort(order)[labels.reshape(-1)], codes
