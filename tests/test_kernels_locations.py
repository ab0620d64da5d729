"""What is kept of the locations of atoms, over many iterations, against the same made anew."""

from __future__ import annotations

import numpy as np
import pytest
from support.cover import each_once
from support.models import regression

import nrmmix as nm
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import CYCLES
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import state as layout

WIDTH = nm.LogNormal(-1, 0.5)
KERNELS = {
    "fixed": (nm.SquaredExponential(0.3), 1), "scales": (nm.Laplace(WIDTH), 1), "two widths": (nm.SquaredExponential([WIDTH, 0.6]), 2),
    "fixed form": (nm.Epanechnikov(0.7), 1), "form": (nm.Triangular(WIDTH), 1), "two forms": (nm.Box([WIDTH, WIDTH]), 2),
    "product": (nm.Product({"x0": nm.Epanechnikov(WIDTH), "x1": nm.SquaredExponential(WIDTH)}), 2),
}


@pytest.mark.parametrize(("name", "method"), each_once(KERNELS, ["gibbs", "split_merge", "slice", "tree", "sngp", "blocked"]))
def test_sums_that_moves_keep_up(name, method):
    """In fewer iterations than after which all sums are made anew."""
    kernel, q = KERNELS[name]
    prior = nm.FiniteMixture(14, 1.5) if method == "blocked" else nm.DirichletProcess(1.5)
    model = regression(30, kernel, q=q, values=12, prior=prior)
    chain = new_chain(model, CYCLES[method], model.grid.group, np.random.default_rng(3), Record.allocate(model, 1))
    chain.control[loop.LIMIT] = loop.REBUILD_EVERY - 1
    chain.run(update_addresses(model), 10**9, 1)
    state, K = chain.state, int(chain.state.num[layout.Count.CLUSTERS])
    assert chain.iteration == loop.REBUILD_EVERY - 1 and state.num[layout.Count.MOVED] > 100
    log_K = model.log_kernel(chain.data.distance, state.hyper[layout.Hyper.WIDTH :])
    for k in range(K):
        wanted = log_K[chain.data.group[state.labels == k]].sum(axis=0)
        reached = wanted > -np.inf
        assert reached.any()
        np.testing.assert_allclose(state.cache.log_K_sum[k][reached], wanted[reached], rtol=1e-10, atol=1e-7)
        assert (state.cache.log_K_sum[k][~reached] < 0.9 * layout.OUT_OF_REACH).all()
