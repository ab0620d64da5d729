"""Kernel arrays at a given point, the same point for the references, and what its caches must hold."""

import math

import naive
import numpy as np
from scipy import stats
from scipy.special import logsumexp

import nrmmix as nm
from nrmmix.inference.mcmc import cycle as methods
from nrmmix.kernels import chain
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core import state as layout
from nrmmix.model.pack import arrays_of


def started(model, labels, *, locations=None, v=None, R0=None, room=None, trial=0, **values):
    """Kernel arrays at a given point."""
    labels = np.asarray(labels, np.int64)
    n_clusters = int(labels.max(initial=-1)) + 1
    data, state = arrays_of(model, room or max(n_clusters, 8), trial)
    for name, value in values.items():
        if name == "widths":
            state.hyper[layout.Hyper.WIDTH :] = value
        else:
            state.hyper[{"mass": layout.Hyper.MASS, "sigma": layout.Hyper.SIGMA}[name]] = value
    state.hyper[: layout.Hyper.TAU] = model.prior.kernel_values(*map(float, state.hyper[: layout.Hyper.TAU]))
    if v is not None:
        state.v[:] = v
    if R0 is not None:
        data.R0[:] = R0
    chain.start(data, state, labels)
    if locations is not None:
        state.location[:n_clusters] = locations
    return data, state


DISTRIBUTIONS = {
    nm.Gamma: lambda p: stats.gamma(p.shape, scale=1 / p.rate),
    nm.Beta: lambda p: stats.beta(p.a, p.b),
    nm.LogNormal: lambda p: stats.lognorm(p.sd, scale=math.exp(p.mu)),
}


def problem_of(model, data):
    family = model.family
    hyperprior = {"mass": model.prior.mass, "sigma": model.prior.sigma}
    base = naive.Base(family.m, family.r, family.nu, family.scale)
    if not model.is_regression:
        x, mu, kernel, shared = np.zeros((1, 0)), np.zeros((1, 0)), None, False
        group = np.zeros(model.n_obs, int)
    else:
        shared = model.kernel.shared_width
        covariates = model.frame.covariates
        if model.kernel.scale == "unit":
            low, high = covariates.min(axis=0), covariates.max(axis=0)
        else:
            low, high = np.zeros(covariates.shape[1]), np.ones(covariates.shape[1])
        x, group = np.unique((covariates - low) / (high - low), axis=0, return_inverse=True)
        mu = (model.grid.locations - low) / (high - low)
        kernel = {nm.SquaredExponential: naive.squared_exponential, nm.Box: naive.box}[type(model.kernel)]
        hyperprior |= {"width" if shared else f"width_{j}": model.widths[j] for j in model.width_columns.values()}
    hyperprior = {
        name: DISTRIBUTIONS[type(value)](value) for name, value in hyperprior.items() if not isinstance(value, float)
    }
    return naive.Problem(
        y=model.frame.response, base=base, group=group.reshape(-1), x=x, mu=mu, R0=data.R0.copy(), kernel=kernel,
        marginal=not model.is_regression and model.prior.integrates_u, shared=shared, hyperprior=hyperprior,
        measure={layout.PITMAN_YOR: "pitman-yor", layout.FINITE: "finite", layout.STABLE: "stable"}.get(
            int(data.setup[layout.Setup.MEASURE]), "explicit"),
        components=model.prior.components,
    )


def point_of(state):
    n_clusters = state.num[layout.Count.CLUSTERS]
    return naive.Point(
        labels=tuple(int(k) for k in state.labels), locations=tuple(int(p) for p in state.location[:n_clusters]),
        v=state.v.copy(), mass=float(state.hyper[layout.Hyper.MASS]), sigma=float(state.hyper[layout.Hyper.SIGMA]),
        tau=float(state.hyper[layout.Hyper.TAU]), widths=state.hyper[layout.Hyper.WIDTH :].copy(),
    )


def copy_of(state):
    return type(state)(*(copy_of(one) if isinstance(one, tuple) else one.copy() for one in state))


def check_columns(model, data, state, rtol=1e-8):
    """Every cached number of a state against one built from the labels alone."""
    labels = state.labels
    K = int(state.num[layout.Count.CLUSTERS])
    members = labels[labels >= 0]
    assert sorted(set(members.tolist())) == list(range(K))
    np.testing.assert_array_equal(state.size[:K], np.bincount(members, minlength=K))
    fresh = copy_of(state)
    clusters.rebuild(data, fresh)
    rows = 4 + model.n_dim + model.n_dim * (model.n_dim + 1) // 2
    np.testing.assert_allclose(state.stat[:rows, :K], fresh.stat[:rows, :K], rtol=rtol, atol=rtol)
    sigma, b = state.hyper[layout.Hyper.SIGMA], state.hyper[layout.Hyper.TAU] + state.cache.A
    if not model.is_regression:
        wanted = np.log(state.size[:K] - sigma) - np.log(b[0])
        np.testing.assert_allclose(state.cache.log_weight[:K], wanted, rtol=1e-12, atol=1e-13)
        return
    np.testing.assert_allclose(state.cache.inverse_b, 1 / b, rtol=1e-12)
    np.testing.assert_allclose(state.cache.probability_over_b[:K], state.cache.location_probability[:K] / b, rtol=1e-12)
    for k in range(K):
        log_K = model.log_kernel(data.distance, state.hyper[layout.Hyper.WIDTH :]).clip(layout.OUT_OF_REACH)
        reach = log_K[data.group[labels == k]].sum(axis=0)
        np.testing.assert_allclose(state.cache.log_K_sum[k], reach, rtol=1e-12, atol=1e-10)
        terms = np.log(data.R0) + reach - (state.size[k] - sigma) * np.log(b)
        np.testing.assert_allclose(state.cache.location_probability[k], np.exp(terms - logsumexp(terms)), rtol=1e-8, atol=1e-12)


def started_with_move(model, move, labels, room=40):
    """Kernel arrays at a partition, and the memory of the move."""
    cycle = nm.Cycle([move])
    data, state = arrays_of(model, room, *methods.scratch(cycle, model))
    state.hyper[: layout.Hyper.TAU] = model.prior.kernel_values(*map(float, state.hyper[: layout.Hyper.TAU]))
    state.v[:] = 1.7 if model.has_u else 1.0
    chain.start(data, state, np.asarray(labels, np.int64))
    return data, state, methods.program(cycle, model)


def restore(state, saved):
    for one, original in zip(state, saved, strict=True):
        if isinstance(one, tuple):
            restore(one, original)
        else:
            one[...] = original


def random_point(model, rng, n_clusters=3, **hyper):
    """A state at random labels, locations that reach their members, v, and prior weights of the locations."""
    n = model.n_obs
    data, state = arrays_of(model, 8)
    G, P = len(state.v), len(data.R0)
    R0 = rng.dirichlet(np.full(P, 3.0))
    labels = np.concatenate([np.arange(n_clusters), rng.integers(0, n_clusters, n - n_clusters)])
    data, state = started(model, np.full(n, -1), **hyper)  # for K at the widths
    locations = np.full(n_clusters, -1)
    for k in range(n_clusters):
        open_to = [p for p in rng.permutation(P) if (state.cache.K[data.group[labels == k], p] > 0).all()]
        if not open_to:  # a box: keep what the location of the first member reaches
            return random_point(model, rng, n_clusters, **hyper)
        locations[k] = open_to[0]
    v = rng.gamma(2.0, size=G) if model.is_regression or model.has_u else None
    return started(model, labels, locations=locations, v=v, R0=R0, **hyper)
