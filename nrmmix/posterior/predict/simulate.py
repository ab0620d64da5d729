"""Replicates of the responses from the posterior predictive distribution.

In a replicate all rows are drawn from one draw of the random measure: two rows can share an atom, as two observations can.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, repeat
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from nrmmix.common.compiling import announced
from nrmmix.common.messages import count, listed
from nrmmix.common.seeds import draw_seeds, prediction_seed
from nrmmix.model import replicates as blocks_of
from nrmmix.model.families.base import rows_of
from nrmmix.model.frame.rows import Rows, read_rows
from nrmmix.model.replicates import Replicates, parts
from nrmmix.model.replicates import known as known_totals
from nrmmix.model.specification import Specification
from nrmmix.posterior.given import Conditioned, Known, draw_rest, known_responses, known_values, log_weights
from nrmmix.posterior.kernel_factors import AnyPosterior
from nrmmix.posterior.predict.rows import CovariateWeights, PredictionRows, insist_in_memory, prediction_rows
from nrmmix.posterior.predict.states import PosteriorState, States, states_of
from nrmmix.posterior.predict.units import Units

STATES = 500  # that replicates given some responses are drawn from, by what each says of these


def simulate(
    posterior: AnyPosterior, newdata: Any = None, draws: int = 1, rng: Any = None, given: Any = None, units: str = "formula"
) -> pd.DataFrame:
    """Draw data sets like the observed one; see `MCMCResult.simulate`.

    Replicates are from recorded draws spread evenly over the chains; where more are wanted than were recorded, these are gone through
    again, each time with a new draw of the random measure.  Of its atoms those that are light beside others at their location are not
    drawn one by one: a row that falls on their mass has a component of its own.
    """
    if isinstance(newdata, str):
        raise ValueError(f"newdata must be a DataFrame, not {newdata!r}.")
    insist_in_memory(posterior.specification, newdata, "simulate")
    model, size = posterior.specification, count("draws", draws, 1)
    seed = prediction_seed(posterior.seed, rng)
    known = None if given is None else known_responses(model, given)
    read = read_rows(model.frame, newdata)
    rows, totals, to = prediction_rows(model, read), _totals(model, read), Units(model, units, range(model.n_dim))
    if known is not None:
        found = replicates_given(states_of(posterior, STATES), rows, known_values(read, known), known, totals, size, seed)
    else:
        found = replicates(states_of(posterior, size), rows, totals, size, seed)
    names = model.frame.response_names
    for j, back in to.back.items():
        found[names[j]] = back.inverse(found[names[j]].to_numpy(float))
    return found.rename(columns={names[j]: back.column for j, back in to.back.items()})


def replicates(
    states: States, rows: PredictionRows, totals: list[np.ndarray | None], size: int, seed: np.random.SeedSequence
) -> pd.DataFrame:
    """Replicates of rows, of each block of counts with the totals given; states are gone through again where they are fewer."""
    model, ok = states.model, np.flatnonzero((rows.row >= 0) & known_totals(totals))
    out = Replicates(size, rows.index, model)
    each, of_kernel = 6 * model.packed.n_theta + model.n_dim, 0
    if model.is_regression:  # a row has weights of its own
        each += 4 * states.most_atoms
        assert model.grid is not None
        of_kernel = model.grid.distance.shape[2] * (len(model.widths) + 2)
    blocks = parts(len(ok), 8 * (each + of_kernel))
    of_blocks = [rows.take(ok[block]) for block in blocks]
    all_fit = 8 * of_kernel * len(ok) < blocks_of.MEMORY

    @lru_cache(None if all_fit else 1)
    def covariates(b: int) -> CovariateWeights:
        return CovariateWeights(model, of_blocks[b])

    with announced():
        again_and_again = chain.from_iterable(repeat(states))
        for replicate, child, state in zip(range(size), draw_seeds(seed, size), again_and_again, strict=False):
            atoms, fresh, noise = map(np.random.default_rng, child.spawn(3))
            measure = state.measure(atoms)
            uniform = noise.random(len(ok))
            for b, (block, own) in enumerate(zip(blocks, of_blocks, strict=True)):
                share, _ = measure.shares(covariates(b))
                atom = atoms_by_shares(share, own.place[own.row], uniform[block])
                new = atom == share.shape[1]
                theta = measure.theta[:, np.where(new, 0, atom)]
                theta[:, new] = state.new_components(int(new.sum()), fresh)
                inputs = np.broadcast_to(own.own_inputs(), (len(block), rows.inputs.shape[1]))
                of_rows = [None if total is None else total[ok[block]] for total in totals]
                out.put(replicate, ok[block], model.blocks.draw_responses(theta, inputs, noise, model.packed, of_rows))
    return out.table()


def replicates_given(
    states: States, rows: PredictionRows, y: np.ndarray, known: np.ndarray, totals: list[np.ndarray | None], size: int,
    seed: np.random.SeedSequence,
) -> pd.DataFrame:
    """Replicates of rows that hold y (rows, d) already, NaN in the responses to draw; every row for itself.

    Each comes from a state drawn by what it says of the known responses, a cluster of it by its weight given these, and the law in that
    cluster given these: the law of `predict` with `given`.
    """
    model = states.model
    ok = np.flatnonzero((rows.row >= 0) & ~np.isnan(y[:, known]).any(axis=1) & known_totals(totals))
    out, n = Replicates(size, rows.index, model), len(ok)
    if not n:
        return out.table()
    rng, own = np.random.default_rng(seed), rows.take(ok)
    covariates, place = CovariateWeights(model, own), own.place[own.row]

    def terms_of(state: PosteriorState, some: np.ndarray) -> np.ndarray:
        inputs = own.own_inputs()
        here = Conditioned(state, Known(states, y[ok[some]], inputs[some] if len(inputs) > 1 else inputs), model)
        return log_weights(state, covariates, place[some]) + here.log_known

    with announced():
        with rows_of(rows.index, ok):
            log_mass = np.array([logsumexp(terms_of(state, np.arange(n)), axis=1) for state in states])
        chosen = _systematic(np.exp(log_mass - log_mass.max(axis=0)), size, rng)  # (size, n)
        values = np.full((size, n, model.n_dim), np.nan)
        for s, state in enumerate(states):
            replicate, row = np.nonzero(chosen == s)
            if not len(row):
                continue
            terms = terms_of(state, row)
            share = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))
            cluster = np.minimum(atoms_by_shares(share, np.arange(len(row)), rng.random(len(row))), share.shape[1] - 1)
            inputs = np.broadcast_to(own.own_inputs()[row if rows.has_inputs else 0], (len(row), rows.inputs.shape[1]))
            of_rows = [None if total is None else total[ok[row]] for total in totals]
            values[replicate, row] = draw_rest(state, cluster, y[ok[row]], inputs, of_rows, rng)
    for number in range(size):
        out.put(number, ok, values[number])
    return out.table()


def _systematic(weight: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """(size, n) of the numbers 0..S-1 for each column of weights (S, n), as often as its share of them: one uniform number a column."""
    steps = np.cumsum(weight, axis=0)
    S, n = steps.shape
    at = (np.arange(size)[:, None] + rng.random(n)) / size * steps[-1]
    found = np.empty((size, n), np.int64)
    for column in range(n):
        found[:, column] = rng.permutation(np.minimum(np.searchsorted(steps[:, column], at[:, column], side="right"), S - 1))
    return found


def _totals(model: Specification, read: Rows) -> list[np.ndarray | None]:
    """Return the totals of counts that the rows of each block are to have: those of the data."""
    if not any(block.family.needs_totals for block in model.blocks.blocks):
        return [None] * len(model.blocks.blocks)
    counted = [j for block in model.blocks.blocks if block.family.needs_totals for j in block.columns]
    response = read.responses(counted)
    if response is None:
        names = listed(model.frame.response_names[j] for j in counted)
        raise ValueError(f"newdata must hold the counts {names}: rows are simulated with their totals.")
    return model.blocks.totals(response)


def atoms_by_shares(share: np.ndarray, row: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Atom of each uniform number by the shares (R, M) of its row; M where it falls on the rest."""
    R, M = share.shape
    steps = np.cumsum(share, axis=1) + np.arange(R)[:, None]  # rows end to end: one sorted array
    return np.clip(np.searchsorted(steps.ravel(), row + uniform, side="right") - row * M, 0, M)
