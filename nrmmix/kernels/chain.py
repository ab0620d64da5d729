"""The loop of a Markov chain: moves, hyperparameters, record, control."""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import attach, fill_log_prior_predictive, open_cluster, rebuild
from nrmmix.kernels.core.entry import call_covariate, call_move, call_step
from nrmmix.kernels.core.jit import kernel, root
from nrmmix.kernels.core.locations import rebuild_log_K
from nrmmix.kernels.core.state import BY_WORK, CALLS, DONE, EACH, SCORED, Count, Hyper
from nrmmix.kernels.measure.joint import log_joint
from nrmmix.kernels.measure.nrm import recompute_A, recorded_sigma, set_kernel
from nrmmix.kernels.measure.weights import has_locations, refresh_caches

# control: shared with the main thread while the chain runs
ITERATION = 0  # iterations done
STATUS = 1
STOP = 2  # set by the main thread
MOVE = 3  # where an interrupted list of moves goes on
LIMIT = 4  # iterations to do before the next turn of the other chains
CALL = 5  # where the calls of that move go on
WITHIN = 6  # 1 while a call of it has begun and not ended: it needs room, or has halted
CONTROL = 7

REBUILD_EVERY = 64
FORGET = 0.05  # weight of the last iteration in the average work of a move
MAX_CALLS = 1000.0  # of one move in an iteration

# Columns of the recorded scalars; widths follow.
R_CLUSTERS, R_JOINT, R_MASS, R_SIGMA, R_WIDTH = 0, 1, 2, 3, 4


@root
@kernel
def start(data, state, labels):
    """Fill an empty state: kernel, A, and clusters with labels 0..K-1; -1 leaves an observation unassigned."""
    set_kernel(data, state)
    recompute_A(state)
    refresh_caches(data, state)
    state.num[Count.CLUSTERS] = 0
    fill_log_prior_predictive(data, state)
    for i in range(labels.shape[0]):
        while state.num[Count.CLUSTERS] <= labels[i]:
            open_cluster(data, state)
    for i in range(labels.shape[0]):
        state.labels[i] = -1
        if labels[i] >= 0:
            attach(data, state, i, labels[i])


@root
@kernel
def resume(data, state, log_K_sum):
    """Compute what follows from labels, statistics, v, hyperparameters and sums of log K (K, P), which are made anew where K = 0."""
    set_kernel(data, state)
    if log_K_sum.shape[0] > 0:
        for k in range(log_K_sum.shape[0]):
            for p in range(log_K_sum.shape[1]):
                state.cache.log_K_sum[k, p] = log_K_sum[k, p]
    elif has_locations(state):
        rebuild_log_K(data, state)
    if data.shared.shape[0] > 0 or data.censored.shape[0] > 0:
        fill_log_prior_predictive(data, state)
    refresh_caches(data, state)


@kernel
def record(data, state, t, labels, location, A, scalars, explicit, shared, imputed, codes, inclusion):
    """Draw t, clusters numbered by first appearance."""
    n = state.labels.shape[0]
    number = state.scratch.score
    for k in range(state.num[Count.CLUSTERS]):
        number[k] = -1.0
    seen = 0
    for i in range(n):
        k = state.labels[i]
        if number[k] < 0.0:
            number[k] = seen
            seen += 1
        labels[t, i] = int(number[k])
    for i in range(location.shape[1]):
        location[t, i] = state.location[state.labels[i]]
    for h in range(explicit.shape[2]):
        for k in range(state.num[Count.CLUSTERS]):
            explicit[t, int(number[k]), h] = state.stat[data.explicit[h], k]
    for h in range(shared.shape[1]):
        shared[t, h] = data.rows.constant[data.shared[h]]
    cell = 0
    for i in range(data.rows.missing.shape[0]):
        for j in range(data.rows.missing.shape[1]):
            if data.rows.missing[i, j] != 0:
                imputed[t, cell] = data.rows.y[i, j]
                cell += 1
    for p in range(A.shape[1]):
        A[t, p] = state.cache.A[p]
    for p in range(codes.shape[1]):
        for j in range(codes.shape[2]):
            codes[t, p, j] = state.codes[p, j]
    for j in range(inclusion.shape[1]):
        inclusion[t, j] = state.inclusion[j]
    scalars[t, R_CLUSTERS] = seen
    scalars[t, R_JOINT] = log_joint(data, state)
    scalars[t, R_MASS] = state.hyper[Hyper.MASS]
    scalars[t, R_SIGMA] = recorded_sigma(data, state)
    for j in range(R_WIDTH, scalars.shape[1]):
        scalars[t, j] = state.hyper[Hyper.WIDTH + j - R_WIDTH]


@kernel
def one_move(data, state, rng, program, j):
    """One call of move j."""
    before = state.num[Count.SCORED]
    status = call_move(program.address[j], data, state, program.memory[j], rng)
    program.work[j, SCORED] += state.num[Count.SCORED] - before
    return status


@root
@kernel
def update_rest(data, state, updates, rng):
    """One update of u and the hyperparameters given the partition."""
    for j in range(updates.shape[0]):
        call_step(updates[j], data, state, rng)
    refresh_caches(data, state)


@kernel
def adapt(program, iteration):
    """After each iteration of tuning: counts start anew, and where it is asked for the calls of each move make their work alike."""
    most = 0.0
    for j in range(program.work.shape[0]):
        for column in range(program.tally.shape[1]):
            program.tally[j, column] = 0.0
    if program.work.shape[0] == 0 or program.work[0, BY_WORK] == 0.0:
        return
    weight = max(1.0 / (iteration + 1.0), FORGET)
    for j in range(program.work.shape[0]):
        work = program.work[j]
        work[EACH] += weight * (work[SCORED] / work[CALLS] - work[EACH])
        work[SCORED] = 0.0
        most = max(most, work[EACH])
    for j in range(program.work.shape[0]):
        work = program.work[j]
        work[CALLS] = max(1.0, min(MAX_CALLS, math.floor(most / max(work[EACH], 1.0))))


@root
@kernel
def run(
    data, state, rng, program, updates, tune, thin, labels, location, A, scalars, explicit, shared, imputed, codes, inclusion, control
):
    """Moves on the partition, then updates of all else, again and again.

    Until all draws are recorded, a move needs room, something breaks, or the main thread says stop, which is heard before every call.
    """
    total = min(tune + labels.shape[0] * thin, control[LIMIT])
    while control[ITERATION] < total:
        it = control[ITERATION]
        state.num[Count.TUNING] = 1 if it < tune else 0
        for j in range(control[MOVE], program.address.shape[0]):
            for call in range(control[CALL], int(program.work[j, CALLS])):
                if control[STOP] != 0 and control[WITHIN] == 0:
                    control[MOVE], control[CALL] = j, call
                    return 0
                status = one_move(data, state, rng, program, j)
                control[WITHIN] = 0 if status == DONE else 1
                if status != DONE:
                    control[STATUS] = status
                    control[MOVE], control[CALL] = j, call
                    return 0
            control[CALL] = 0
        control[MOVE] = 0
        if it < tune:
            adapt(program, it)
        update_rest(data, state, updates, rng)
        if (it + 1) % REBUILD_EVERY == 0:
            rebuild(data, state)
        if it >= tune and (it - tune + 1) % thin == 0:
            record(data, state, (it - tune) // thin, labels, location, A, scalars, explicit, shared, imputed, codes, inclusion)
        control[ITERATION] = it + 1
    return 0


@root
@kernel
def covariate_matrix(address, distance, width, out):
    call_covariate(address, distance, width, out)
