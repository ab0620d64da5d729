"""The forms of the Gaussian family with their plain counterparts, and chains that stand at given labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
from exact.marginals import known_covariance_log_marginal, normal_gamma_log_marginal, normal_wishart_log_marginal

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core.entry import call_density, call_impute, call_mean, call_sample
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.state import Block
from nrmmix.model.pack import arrays_of

MIN_P = 1e-4  # of tests with a fixed seed

@kernel
def sample_columns(data, stat, theta, k, rng):
    for m in range(theta.shape[1]):
        call_sample(data.block[0, Block.SAMPLE], data.rows, stat, theta, data.block[0], k, m, rng)


@kernel
def density_columns(data, theta, work, out, M, i):
    call_density(data.block[0, Block.DENSITY], data.rows, theta, work, out, data.block[0], M, i)


@kernel
def mean_column(data, stat, out, k):
    call_mean(data.block[0, Block.MEAN], data.rows, stat, out, data.block[0], k, 0)


@kernel
def impute(data, state, k, i, drawn, rng):
    """The missing cells of row i, again and again; `drawn` (times, d) keeps the rows."""
    for t in range(drawn.shape[0]):
        call_impute(data.block[0, Block.IMPUTE], data.rows, state.stat, state.scratch.work, data.block[0], k, i, rng)
        for j in range(drawn.shape[1]):
            drawn[t, j] = data.rows.y[i, j]


# ---- forms, and their plain counterparts

R, NU = 0.7, 5.5


def matrix(d):
    root = np.linspace(0.7, 1.3, d)
    return (0.6 * np.eye(d) + 0.4) * np.outer(root, root)


def form(name, d):
    """The family, and log p(X) of a stack of data sets, NaN where a cell is missing unless the prior is normal-Wishart."""
    m, full, diagonal, nu = np.linspace(0.5, -0.4, d), matrix(d), np.linspace(0.4, 1.8, d), NU + d
    return {
        "full": (nm.Gaussian(m=m, r=R, nu=nu, scale=full), lambda X: normal_wishart_log_marginal(X, m, R, nu, full)),
        "full, known mean": (nm.Gaussian(known_mean=m, nu=nu, scale=full), lambda X: normal_wishart_log_marginal(X, m, np.inf, nu, full)),
        "diagonal": (nm.Gaussian("diagonal", m=m, r=R, nu=NU, scale=diagonal), lambda X: normal_gamma_log_marginal(X, m, R, NU, diagonal)),
        "diagonal, known mean": (
            nm.Gaussian("diagonal", known_mean=m, nu=NU, scale=diagonal), lambda X: normal_gamma_log_marginal(X, m, np.inf, NU, diagonal)
        ),
        "full, known covariance": (nm.Gaussian(known_covariance=full, m=m, r=R), lambda X: known_covariance_log_marginal(X, m, R, full)),
        "diagonal, known covariance": (
            nm.Gaussian("diagonal", known_covariance=diagonal, m=m, r=R),
            lambda X: known_covariance_log_marginal(X, m, R, np.diag(diagonal)),
        ),
    }[name]


FORMS = ["full", "full, known mean", "diagonal", "diagonal, known mean", "full, known covariance", "diagonal, known covariance"]
CLOSED = FORMS[2:]  # missing cells are integrated out
DIMENSIONS = [1, 2, 5]


def data_set(n, d, gaps=0.0, seed=0):
    rng = np.random.default_rng(100 * d + seed)
    y = rng.normal(size=(n, d)) * 1.5 + 0.3
    hidden = rng.random((n, d)) < gaps
    hidden[np.arange(n), rng.integers(0, d, n)] = False
    y[hidden] = np.nan
    return y


def started(name, n, d, gaps=0.0, labels=None, y=None):
    family, marginal = form(name, d)
    y = data_set(n, d, gaps) if y is None else y
    model = nm.Model(data=y, prior=nm.DirichletProcess(1.0), family=family, missing="marginalize")
    data, state = arrays_of(model, 12)
    chain.start(data, state, np.full(len(y), -1) if labels is None else np.asarray(labels))
    return model, data, state, marginal


def scores(data, state, K, i, own=-1):
    out = np.full(len(state.size), 0.25)
    clusters.score_columns(data, state.stat, state.scratch.work, out, K, i, own)
    return out[:K] - 0.25

def with_gaps(n=40, d=3, share=0.2, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, d)) @ (np.eye(d) + 0.5 * np.tri(d, k=-1)).T + 4.0 * (np.arange(n)[:, None] % 2)
    hidden = rng.random((n, d)) < share
    hidden[np.arange(n), rng.integers(0, d, n)] = False
    y[hidden] = np.nan
    return pd.DataFrame(y, columns=["a", "b", "c"])


RUN = {"draws": 30, "tune": 20, "chains": 2, "rng": 3, "cores": 1}
