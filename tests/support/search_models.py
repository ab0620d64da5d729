"""Models that searches are tested on, and the trees that they grow."""

from __future__ import annotations

import naive
import numpy as np
from exact.enumeration import gaussian_log_marginal

import nrmmix as nm
from nrmmix.inference.search.grower import TreeGrower

BASE = naive.Base(np.array([0.2, -0.3]), 0.3, 4.5, np.array([[1.0, 0.3], [0.3, 0.8]]))
FAMILY = nm.Gaussian(m=BASE.m, r=BASE.r, nu=BASE.nu, scale=BASE.scale)


def scattered(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) * 0.7 + rng.choice([-2.0, 0.0, 2.0], size=(n, 2))


def model_of(y, prior=None):
    return nm.Model(data=y, family=FAMILY, prior=nm.DirichletProcess(1.0) if prior is None else prior)


def gaussian_of(y):
    return lambda rows: gaussian_log_marginal(y[rows], BASE.m, BASE.r, BASE.nu, BASE.scale)


def grown(model, order):
    grower = TreeGrower(model)
    for _ in grower.insert_all(np.asarray(order)):
        pass
    for _ in grower.agglomerate(grower.roots_grown):
        pass
    return grower


def joined(model):
    grower = TreeGrower(model)
    grower.plant()
    for _ in grower.agglomerate(np.arange(model.n_obs)):
        pass
    return grower
