"""Predictions of a recorded draw for new observations: predictive weights and scores, and draws of the random measure."""

from __future__ import annotations

import numpy as np

from nrmmix.kernels.core.clusters import copy_column, empty_column, open_cluster, score_columns_and_new, update_column
from nrmmix.kernels.core.entry import call_density, call_mean, call_sample, call_update
from nrmmix.kernels.core.jit import kernel, root
from nrmmix.kernels.core.state import Block, Count
from nrmmix.kernels.measure.atoms import MAX_JUMPS, atoms_into, room_for_atoms
from nrmmix.kernels.measure.prediction import mixture_weights, octets, regression_weights
from nrmmix.kernels.measure.weights import set_A
from nrmmix.kernels.moves.algorithm8 import redraw_column

MAX_THETA = 4e6  # numbers in the parameters of the unseen atoms
SCANS = 20  # of a Gibbs sampler of parameters given one row


@root
@kernel
def load_draw(data, state, labels, location, A, hyper):
    """Make `state` that of a recorded draw, without what is known of groups; its columns must have room for one cluster more."""
    for j in range(hyper.shape[0]):
        state.hyper[j] = hyper[j]
    state.num[Count.CLUSTERS] = 0
    for i in range(labels.shape[0]):
        k = labels[i]
        if k == state.num[Count.CLUSTERS]:
            open_cluster(data, state)
            state.location[k] = location[i] if location.shape[0] > 0 else 0
        state.labels[i] = k
        state.size[k] += 1
        update_column(data, state.stat, k, i, 1.0)
    empty_column(data, state.stat, state.num[Count.CLUSTERS])
    set_A(data, state, A)


# ---- one more observation


def predictive_weights(data, state, K_rows):
    """(R, K + 1): weights at rows of the covariate kernel (R, P); the last is that of a new atom.  Mixtures do not read the rows."""
    out = np.zeros((K_rows.shape[0], state.num[Count.CLUSTERS] + 1))
    if data.distance.shape[0] == 0:  # a mixture
        mixture_weights(data, state, out[0])
        out[1:] = out[0]
    else:
        regression_weights(data, state, K_rows, np.empty((9, octets(K_rows.shape[1]))), out)
    return out


def predictive_scores(points, state):
    """(J, K + 1): log predictive of each point of `points.rows` in each cluster, last in a new one."""
    out = np.zeros((points.rows.y.shape[0], state.num[Count.CLUSTERS] + 1))
    fill_scores(points, state, out)
    return out


@root
@kernel
def fill_scores(points, state, out):
    for j in range(out.shape[0]):
        score_columns_and_new(points, state.stat, state.scratch.work, out[j], state.num[Count.CLUSTERS], j)


def means(points, which, values, columns, n_mean):
    """(I, columns, n_mean): responses expected by the entry points `which` from columns of `values`, at the inputs of each row of
    `points.rows`."""
    out = np.zeros((points.rows.y.shape[0], columns, n_mean))
    fill_means(points, which, values, out)
    return out


@root
@kernel
def fill_means(points, which, values, out):
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            for b in range(points.block.shape[0]):
                call_mean(points.block[b, which], points.rows, values, out[i, k], points.block[b], k, i)


def cluster_means(points, state, n_mean):
    """(I, K + 1, n_mean): mean of each cluster's predictive, last that of the prior."""
    return means(points, Block.MEAN, state.stat, state.num[Count.CLUSTERS] + 1, n_mean)


# ---- draws of the random measure given partition, v and locations


@kernel
def draw_component(data, state, theta, m, k, rng):
    """theta[:, m] from the posterior of the parameters in column k."""
    for b in range(data.block.shape[0]):
        call_sample(data.block[b, Block.SAMPLE], data.rows, state.stat, theta, data.block[b], k, m, rng)


def draw_components(data, state, n_theta, first, M, rng):
    """(T, M): parameters of the clusters from `first` on, and of new ones after them."""
    return draw_components_of(data, state, n_theta, np.minimum(first + np.arange(M), state.num[Count.CLUSTERS]), rng)


def draw_components_of(data, state, n_theta, which, rng):
    """(T, M): parameters of the clusters `which` (M,), each drawn anew; the number of clusters stands for a new one."""
    theta = np.zeros((n_theta, len(which)))
    fill_components(data, state, theta, which, rng)
    return theta


@root
@kernel
def fill_components(data, state, theta, which, rng):
    for m in range(which.shape[0]):
        draw_component(data, state, theta, m, which[m], rng)


def draw_joined(points, state, n_theta, clusters, known, rng):
    """(T, J): parameters of the clusters (J,) that rows of `points` join, drawn given each its row too, K standing for a new one.

    Of blocks that are not `known` (blocks,) nothing is, and what clusters hold of them stays.  Each row is drawn with the same random
    numbers, those that `rng` is about to give, so that none depends on the others.
    """
    theta, numbers = np.zeros((n_theta, len(clusters))), rng.bit_generator.state
    for j in range(len(clusters)):
        rng.bit_generator.state = numbers
        fill_joined(points, state, theta, j, clusters[j], known, rng)
    return theta


@root
@kernel
def fill_joined(points, state, theta, j, cluster, known, rng):
    """Held parameters of a cluster stay as they are; those of a new one, from the prior, are drawn given row j by SCANS scans."""
    K = state.num[Count.CLUSTERS]
    if cluster == K:
        empty_column(points, state.stat, K)
        redraw_column(points, state, K, rng)
    else:
        copy_column(state.stat, state.stat, cluster, K)
    for b in range(points.block.shape[0]):
        if known[b]:
            call_update(points.block[b, Block.UPDATE], points.rows, state.stat, points.block[b], K, j, 1.0)
    if cluster == K and points.explicit.shape[0] > 0:
        for _ in range(SCANS):
            redraw_column(points, state, K, rng)
    draw_component(points, state, theta, j, K, rng)
    empty_column(points, state.stat, K)


def draw_measure(data, state, n_theta, rng):
    """Atoms of the unnormalised measure: log weights (M,), locations (M,), parameters (T, M), and log of the rest by location (P,).

    Parameters of clusters are from their posterior.  Of the unseen atoms each location has its largest, and besides one for each location
    there are at most about MAX_JUMPS of them, and fewer where these have more than MAX_THETA parameters.
    """
    most, P = min(MAX_JUMPS, MAX_THETA / max(n_theta, 1)), len(state.cache.A)
    room = room_for_atoms(data, state, most)
    log_weight, place, log_rest = np.empty(room), np.empty(room, np.int64), np.empty(P)
    M = atoms_into(data, state, most, log_weight, place, log_rest, rng)
    return log_weight[:M], place[:M], draw_components(data, state, n_theta, 0, M, rng), log_rest


def component_densities(points, theta, n_work):
    """(J, M): log density of each point under each atom's parameters."""
    M = theta.shape[1]
    out = np.zeros((points.rows.y.shape[0], M))
    fill_densities(points, theta, np.zeros((n_work, M)), out)
    return out


@root
@kernel
def fill_densities(points, theta, work, out):
    for j in range(out.shape[0]):
        for b in range(points.block.shape[0]):
            call_density(points.block[b, Block.DENSITY], points.rows, theta, work, out[j], points.block[b], out.shape[1], j)


def component_means(points, theta, n_mean):
    """(I, M, n_mean): expected responses under each atom's parameters."""
    return means(points, Block.MEAN_THETA, theta, theta.shape[1], n_mean)
