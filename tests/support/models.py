"""Models whose hyperparameters are neither zeros nor identities, and data at the edges."""

import numpy as np
import pandas as pd

import nrmmix as nm


def gaussian(d, rng, *, r=0.3, nu=None):
    """A family whose hyperparameters are neither zeros nor identities."""
    half = rng.normal(size=(d, d)) * 0.4 + np.eye(d)
    return nm.Gaussian(m=rng.normal(size=d), r=r, nu=d + 1.7 if nu is None else nu, scale=half @ half.T)


def mixture(n, d, seed=0, prior=None, y=None, family=None):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, d)) * 1.5 if y is None else y
    return nm.Model(data=y, prior=prior or nm.DirichletProcess(0.8), family=family or gaussian(d, rng))


def regression(n, kernel, seed=0, prior=None, d=1, q=1, values=5):
    """Covariates with ties: `values` distinct rows."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(values, q)) * 3 + 10
    which = rng.permutation(np.concatenate([np.arange(values), rng.integers(0, values, n - values)]))
    table = pd.DataFrame(rows[which], columns=[f"x{j}" for j in range(q)])
    for j in range(d):
        table[f"y{j}"] = rng.normal(size=n)
    formula = f"{' + '.join(f'y{j}' for j in range(d))} ~ {' + '.join(f'x{j}' for j in range(q))}"
    return nm.Model(formula, table, kernel=kernel, prior=prior or nm.NGGP(0.7, 0.3), family=gaussian(d, rng))


def far_away(d, distance):
    """Nine observations near the origin and one far out."""
    rng = np.random.default_rng(d)
    y = rng.normal(size=(10, d))
    y[4] = distance * np.linspace(1.0, 0.3, d)
    return y


def spread(n_clusters=25):
    """Observations in threes, far from one another: many splits lead from one cluster to all."""
    y = 50.0 * np.arange(n_clusters).repeat(3)[:, None] + np.tile([-0.1, 0.0, 0.2], n_clusters)[:, None]
    return nm.Model(data=y, prior=nm.NGGP(2.0, 0.3), family=nm.Gaussian(m=600.0, r=1e-7, nu=3.0, scale=0.1))
