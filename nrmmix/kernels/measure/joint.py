"""The joint density of data, partition and what the random measure adds to it."""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import marginal_column
from nrmmix.kernels.core.jit import kernel, root
from nrmmix.kernels.core.locations import log_K_at
from nrmmix.kernels.core.state import FINITE, GIBBS_TYPE, OUT_OF_REACH, PITMAN_YOR, TINY, Count, Hyper, Setup
from nrmmix.kernels.measure.nrm import is_integrated, is_mixture, log_rising, mass_term, psi1_at, total_growth


@root
@kernel
def log_joint(data, state):
    """log p(y, partition), with u or v where the prior's joint has them; see math of the random measure in the documentation."""
    n = state.labels.shape[0]
    mass, sigma, tau = state.hyper[Hyper.MASS], state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU]
    K = state.num[Count.CLUSTERS]
    kind = data.setup[Setup.MEASURE]
    rising = kind == PITMAN_YOR or kind == FINITE
    value = 0.0
    for k in range(K):
        value += marginal_column(data, state.stat, k) + math.lgamma(state.size[k] - sigma) - math.lgamma(1.0 - sigma)
    if kind == GIBBS_TYPE:
        return value + data.log_V[0, K]
    value += log_rising(data, mass, sigma, K) if rising else K * math.log(mass)
    if data.setup[Setup.JOINT_WITH_V] == 0:
        return value - math.lgamma(mass + n) + (math.lgamma(mass + 1.0) if rising else math.lgamma(mass))
    for k in range(K):
        p = state.location[k]
        value += math.log(data.R0[p]) - (state.size[k] - sigma) * math.log(max(tau + state.cache.A[p], TINY))
    own = 1.0 if is_mixture(data) else 0.0  # the density is in u, and in log V
    for g in range(state.v.shape[0]):
        value += (data.group_size[g] - own) * math.log(state.v[g]) - math.lgamma(data.group_size[g])
    for i in range(n):
        log_K = log_K_at(data, state, data.group[i], state.location[state.labels[i]])
        if log_K <= OUT_OF_REACH:
            return -math.inf
        value += log_K
    if rising:
        return value + math.log(mass) + mass_term(data, state, sigma, total_growth(data, state, sigma))
    if is_integrated(data):  # a mixture by a stable process, of which this is the joint with u: T at its one location
        return value - mass * psi1_at(math.log(max(state.cache.A[0], TINY)), sigma, 0.0, 0.0)
    return value - mass * total_growth(data, state, sigma)
