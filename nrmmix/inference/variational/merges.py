"""Merges of components, accepted where they raise the bound, which is known exactly.

The entropy of a pair as one is summed over a pass; pairs are chosen at its start, by what the bound would gain if no entropy were lost.
It always is: H_a + H_b >= H_ab, so that a pair that gains nothing without it can never be accepted.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from nrmmix.inference.variational.memory import Memory
from nrmmix.model.priors.sticks import Sticks
from nrmmix.posterior.factors import Factors

SLACK = 1.0  # nats: the screen takes the mass at its mean
PAIRS_EACH = 5  # candidates of a pass, for each component


def gain_without_entropy(memory: Memory, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What joining b into the place of a, a < b, adds to the bound, entropies left out and the mass at its mean; for arrays of pairs."""
    now = memory.factors
    N, alpha = now.N, now.sticks.expected_mass
    of_parameters = memory.side.log_z(N[a] + N[b], now.s[a] + now.s[b]) - now.log_z[a] - now.log_z[b]
    own = gammaln(1 + N[a] + N[b]) - gammaln(1 + N[a]) - gammaln(1 + N[b])
    # N_b moves forward to place a: the tails of places in between are smaller by it, and the term of place b is gone
    logs, place = np.log(alpha + now.sticks.tail), np.arange(len(N))
    between = (place > a[:, None]) & (place < b[:, None])
    shorter = np.log(np.where(between, alpha + now.sticks.tail - N[b][:, None], 1.0)).sum(axis=1)
    return of_parameters + own - math.log(alpha) + logs[b] + np.where(between, logs, 0.0).sum(axis=1) - shorter


def candidates(memory: Memory, slack: float = SLACK) -> np.ndarray:
    """Pairs (P, 2) of places a < b whose merge may raise the bound, the most promising first."""
    K = memory.n_components
    a, b = np.triu_indices(K, 1)
    if not len(a):
        return np.zeros((0, 2), np.int64)
    gain = gain_without_entropy(memory, a, b)
    some = np.flatnonzero(gain > -slack)
    some = some[np.argsort(-gain[some], kind="stable")][: PAIRS_EACH * K]
    return np.stack([a[some], b[some]], axis=1)


def bound_after(memory: Memory, a: int, b: int, lost: float) -> float:
    """The bound once component b is joined into a, whose entropies then are less by `lost`."""
    now = memory.factors
    N = now.N.copy()
    N[a] += N[b]
    joined = memory.side.log_z(N[[a]], now.s[[a]] + now.s[[b]])[0]
    sticks = Sticks(memory.mass, np.delete(N, b))
    change = joined - now.log_z[a] - now.log_z[b] + sticks.log_evidence - now.sticks.log_evidence
    return memory.bound() + float(change) - lost


def merge(memory: Memory, pairs: np.ndarray, lost: np.ndarray) -> int:
    """Join pairs that raise the bound, the best first, no component twice: of three as one the entropy is not known.  How many.

    `lost` (B, P) is by how much less the entropy of each pair as one is in each batch.
    """
    if not len(pairs):
        return 0
    ids = np.array(memory.ids)[pairs]
    gain = gain_without_entropy(memory, *pairs.T) - lost.sum(axis=0)
    used: set[int] = set()
    for p in np.argsort(-gain, kind="stable"):
        if gain[p] < -SLACK:
            break
        if used & {*ids[p]}:
            continue
        a, b = sorted(memory.ids.index(one) for one in ids[p])
        if bound_after(memory, a, b, float(lost[:, p].sum())) >= memory.bound():
            memory.join(a, b, lost[:, p])
            used |= {*ids[p]}
    return len(used) // 2


def merge_by_batch(memory: Memory, b: int, pairs: np.ndarray, lost: np.ndarray) -> int:
    """Join pairs that raise the bound of one batch alone, as if there were no others (the paper's GreedyMerge).  How many.

    `lost` (P,) is that of the batch; of the others it is taken for 0, so that the bound is not exact until they have been visited again.
    """
    ids, used = np.array(memory.ids)[pairs], set()
    for p in range(len(pairs)):
        if used & {*ids[p]}:
            continue
        i, j = sorted(memory.ids.index(one) for one in ids[p])
        own = Factors(memory.side, memory.mass, memory.N[b], memory.s[b])
        N = own.N.copy()
        N[i] += N[j]
        joined = memory.side.log_z(N[[i]], own.s[[i]] + own.s[[j]])[0]
        gain = joined - own.log_z[i] - own.log_z[j] + Sticks(memory.mass, np.delete(N, j)).log_evidence - own.sticks.log_evidence
        if gain - lost[p] >= 0:
            everywhere = np.zeros(len(memory.N))
            everywhere[b] = lost[p]
            memory.join(i, j, everywhere)
            memory.is_exact = False
            used |= {*ids[p]}
    return len(used) // 2
