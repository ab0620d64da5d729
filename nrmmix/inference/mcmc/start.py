"""Starts of chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nrmmix.common.messages import did_you_mean, quoted
from nrmmix.inference.search.grower import STARTS
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.moves.gibbs import HEATED_SWEEPS
from nrmmix.model.frame import arrays
from nrmmix.model.frame.arrays import TOO_FAR
from nrmmix.model.frame.labels import canonical
from nrmmix.model.specification import Specification

UNASSIGNED = -1
BY_TREES = {name: UNASSIGNED - 1 - j for j, name in enumerate(STARTS)}  # labels of observations that enter by trees
SPREAD = "spread"
INITS = ("sequential", "one", "each", *STARTS, SPREAD)
HEATED = ("sequential", "each")  # starts at rising powers of the likelihood
MIN_TUNE, MAX_ROWS = 5 * HEATED_SWEEPS, 20_000  # with which such sweeps are no more than a fifth of the tuning
MAX_FROM_ONE, MAX_FROM_EACH = 3000, 500  # rows: beyond them the first sweeps take long


def initial_labels(init: Any, n: int, chains: int) -> np.ndarray:
    """Labels (chains, n) of the starts; UNASSIGNED for observations that enter one by one, others below it where they do by trees."""
    if init is None:
        raise ValueError(f"init must be one of {quoted(INITS)}, labels, or fits of the same rows, not None.")
    if isinstance(init, str):
        if init not in INITS:
            raise ValueError(f"init must be one of {quoted(INITS)} or labels, not {init!r}{did_you_mean(init, INITS)}")
        first = {"one": np.zeros(n, int), "each": np.arange(n)}.get(init, np.full(n, BY_TREES.get(init, UNASSIGNED)))
        return np.tile(first.astype(np.int64), (chains, 1))
    given = arrays.reals(init, "init", booleans=True)
    if given.ndim == 0:
        raise ValueError(f"init must be one of {quoted(INITS)}, labels, or fits of the same rows, not {init!r}.")
    if given.ndim <= 2 and given.shape[-1] != n:
        each_row = f"give one per row, the label of its cluster, or one of {quoted(INITS)}"
        raise ValueError(f"There are {given.shape[-1]} init for {n} rows; {each_row}.")
    if given.ndim == 2 and given.shape[0] != chains:
        raise ValueError(f"init has labels for {given.shape[0]} chains but chains={chains}.")
    each = given if given.ndim == 2 else np.broadcast_to(given, (chains, *given.shape))
    return np.stack([canonical(arrays.labels(row, n, what="init"))[0] for row in each])


Optima = list[tuple[np.ndarray, np.ndarray | None]]  # of each chain labels (n,) and codes


class Start(NamedTuple):
    """Start of a chain."""

    labels: np.ndarray  # (n,)
    codes: np.ndarray | None = None  # of its first slots, where a fit gives them
    heated: bool = False  # whether sweeps at rising powers of the likelihood come first


def starts_of(model: Specification, init: Any, chains: int, tune: int, optima: Callable[[], Optima | None]) -> list[Start]:
    """Return the start of each chain.

    Fits of the same rows are dealt to the chains: one of several starts has one for each, others their estimate of the clusters.
    `optima` makes those of density regressions and of components that share a covariance, None where there are none.
    """
    n = model.n_obs
    if isinstance(init, str) and init == SPREAD:
        if found := optima():
            return [Start(*one) for one in found]
        names = dealt(model, tune)
        each = {name: starts_of(model, name, chains, tune, optima) for name in names}
        return [each[names[c % len(names)]][c] for c in range(chains)]
    arrays.check_row_labels(init, model.frame.index, "init")
    fits = list(init) if isinstance(init, (list, tuple)) and init else [init]
    if not all(hasattr(one, "model") and hasattr(one, "partition") for one in fits):
        heated = isinstance(init, str) and init in HEATED and is_heated(model, tune)
        return [Start(labels, heated=heated) for labels in initial_labels(init, n, chains)]
    starts: list[Start] = []
    for fit in fits:
        if fit.model.n_obs != n:
            raise ValueError(f"init: the fit is of {fit.model.n_obs} rows, and there are {n}; give one of the same rows.")
        own = fit.starting_points() if hasattr(fit, "starting_points") else [(fit.partition().labels, None)]
        starts += [Start(np.asarray(labels, np.int64), codes) for labels, codes in own]
    return [starts[c % len(starts)] for c in range(chains)]


def is_heated(model: Specification, tune: int) -> bool:
    """Whether chains start at powers of the likelihood: of mixtures whose component parameters are integrated out, in a long tuning."""
    return tune >= MIN_TUNE and model.n_obs <= MAX_ROWS and not model.is_regression and len(model.packed.explicit) == 0


def dealt(model: Specification, tune: int) -> tuple[str, ...]:
    """Starts from different ends, one after the other for the chains: where all begin alike no diagnostic sees that all are wrong."""
    if model.is_regression or tune < MIN_TUNE or model.n_obs > MAX_FROM_ONE:
        return ("sequential",)
    from_each = is_heated(model, tune) and model.prior.components == 0 and model.n_obs <= MAX_FROM_EACH
    return ("sequential", "one", "each", "one") if from_each else ("sequential", "one")


def is_one(starts: list[Start]) -> bool:
    """Whether all chains start from the same partition; those do not whose rows enter one by one, each chain in an order of its own."""
    labels = np.stack([one.labels for one in starts])
    return bool(not any(one.heated for one in starts) and (labels >= 0).all() and (labels == labels[0]).all())


def check_start(model: Specification, data: layout.Data, labels: np.ndarray, width: np.ndarray) -> None:
    """There may not be more clusters than components, and each starting cluster must have a location that reaches all its members."""
    n_clusters = int(labels.max(initial=-1)) + 1
    if 0 < model.prior.components < n_clusters:
        raise ValueError(
            f"init has {n_clusters} clusters, but {model.prior} has {model.prior.components} components; "
            'use init="sequential" or "one", or labels of at most so many clusters.'
        )
    if not model.is_regression or model.slots is not None or n_clusters == 0:
        return
    log_K = model.log_kernel(data.distance, width)
    total = np.zeros((n_clusters, log_K.shape[1]))
    np.add.at(total, labels[labels >= 0], log_K[data.group[labels >= 0]])
    if not np.isfinite(total.max(axis=1)).all():
        cluster = int(np.flatnonzero(~np.isfinite(total.max(axis=1)))[0])
        raise ValueError(
            f"init puts observations into cluster {cluster} that no location of {model.kernel} reaches together; "
            'use init="sequential" or "each".'
        )


def check_rows(model: Specification, data: layout.Data) -> None:
    """Every row must be near enough for squares, and have a density, data.log_prior_predictive."""
    far = (np.abs(model.packed.rows.y) > TOO_FAR).any(axis=1)
    if far.any():
        row = int(np.flatnonzero(far)[0])
        raise ValueError(
            f"row {model.frame.index[row]!r} lies more than {TOO_FAR:g} prior standard deviations out; correct it, or rescale."
        )
    if not np.isfinite(data.log_prior_predictive).all():
        row = int(np.flatnonzero(~np.isfinite(data.log_prior_predictive))[0])
        raise ValueError(f"row {model.frame.index[row]!r} has no finite density under the prior; check its values and the prior.")
