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
PAIRS_EACH = 6  # candidates of a pass, for each component
FAR, REST = 1.5, 8  # pairs that lose so many times what they gain rest for so many passes


def gain_without_entropy(memory: Memory, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Gain of the bound by joining b into the place of a, a < b, entropies left out and the mass at its mean; for arrays of pairs."""
    now = memory.factors
    joined = memory.exponential.log_z(now.N[a] + now.N[b], now.s[a] + now.s[b])
    return joined - now.log_z[a] - now.log_z[b] + _gain_of_sticks(now.N, now.sticks.expected_mass, a, b)


def _gain_of_sticks(N: np.ndarray, mass: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Part of that gain that is due to the counts N, in the order of the sticks."""
    tail = np.cumsum(N[::-1])[::-1]
    own = gammaln(1 + N[a] + N[b]) - gammaln(1 + N[a]) - gammaln(1 + N[b])
    # N_b moves forward to place a: the tails of places in between are smaller by it, and the term of place b is gone
    logs, place = np.log(mass + tail), np.arange(len(N))
    between = (place > a[:, None]) & (place < b[:, None])
    shorter = np.log(np.where(between, mass + tail - N[b][:, None], 1.0)).sum(axis=1)
    return own - math.log(mass) + logs[b] + np.where(between, logs, 0.0).sum(axis=1) - shorter


class Resting:
    """Pairs of components, by their names, that were far from a merge: they are left out for some passes."""

    def __init__(self) -> None:
        self.until: dict[tuple[int, int], int] = {}

    def awake(self, names: np.ndarray, number: int) -> np.ndarray:
        """Return which of the pairs (P, 2) are to be looked at in the pass of a number."""
        return np.array([self.until.get((a, b) if a < b else (b, a), 0) <= number for a, b in names.tolist()], bool)

    def note(self, names: np.ndarray, gain: np.ndarray, lost: np.ndarray, number: int) -> None:
        for (a, b), far in zip(names.tolist(), lost > FAR * gain + SLACK, strict=True):
            if far:
                self.until[(a, b) if a < b else (b, a)] = number + REST


def candidates(memory: Memory, resting: Resting | None = None, number: int = 0) -> np.ndarray:
    """Pairs (P, 2) of places a < b whose merge may raise the bound, the most promising first; without `resting` any pairs."""
    K = memory.n_components
    a, b = np.triu_indices(K, 1)
    if not len(a):
        return np.zeros((0, 2), np.int64)
    if resting is not None:
        awake = resting.awake(np.array(memory.ids)[np.stack([a, b], axis=1)], number)
        a, b = a[awake], b[awake]
    if not memory.may_go.all():
        free = memory.may_go[a] | memory.may_go[b]
        a, b = a[free], b[free]
    gain = gain_without_entropy(memory, a, b)
    some = np.flatnonzero(gain > (-SLACK if resting is not None else -math.inf))
    some = some[np.argsort(-gain[some], kind="stable")][: PAIRS_EACH * K]
    return np.stack([a[some], b[some]], axis=1)


def bound_after(memory: Memory, a: int, b: int, lost: float) -> float:
    """The bound once component b is joined into a, whose entropies then are less by `lost`."""
    now = memory.factors
    N = now.N.copy()
    N[a] += N[b]
    joined = memory.exponential.log_z(N[[a]], now.s[[a]] + now.s[[b]])[0]
    sticks = Sticks(memory.mass, np.delete(N, b))
    change = joined - now.log_z[a] - now.log_z[b] + sticks.log_evidence - now.sticks.log_evidence
    return memory.bound() + float(change) - lost


def merge(memory: Memory, pairs: np.ndarray, lost: np.ndarray, resting: Resting, number: int) -> int:
    """Join pairs that raise the bound, the best first, no component twice: of three as one the entropy is not known.  How many.

    `lost` (B, P) is by how much less the entropy of each pair as one is in each batch.
    """
    if not len(pairs):
        return 0
    ids = np.array(memory.ids)[pairs]
    gain = gain_without_entropy(memory, *pairs.T)
    resting.note(ids, gain, lost.sum(axis=0), number)
    gain -= lost.sum(axis=0)
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


def merge_chains(memory: Memory, lost: np.ndarray) -> int:
    """Join components as long as that raises the bound, those too that have been joined already.  How many.

    `lost` (K, K) says by how much less the entropy of each pair as one is, infinite where that is not known.  Joining c to a and b as one
    loses no more than joining it to a and to b, which is what is taken off here: until the next pass the bound is what it is at least.
    """
    now, H = memory.factors, memory.H.copy()
    N, s, log_z, mass = now.N.copy(), now.s.copy(), now.log_z.copy(), now.sticks.expected_mass
    alive, lost = np.arange(len(N)), lost.copy()
    a, b = np.nonzero(np.triu(np.isfinite(lost), 1))
    joined = np.full(lost.shape, np.nan)  # log_z of pairs
    joined[a, b] = memory.exponential.log_z(N[a] + N[b], s[a] + s[b])
    while len(a):
        place = np.searchsorted(alive, [a, b])
        gain = joined[a, b] - log_z[a] - log_z[b] - lost[a, b] + _gain_of_sticks(N[alive], mass, *place)
        best = int(np.argmax(gain))
        if gain[best] < SLACK:  # the mass is at its mean
            break
        i, j = a[best], b[best]
        share = H[:, i] + H[:, j]
        total = share.sum()  # 0 of components that surely have their rows, as those far from all others
        H[:, i] = share * (1.0 - lost[i, j] / total if 0.0 < total > lost[i, j] else 0.0)
        for sums in (memory.N, memory.s):
            sums[:, i] += sums[:, j]
        N[i], s[i], log_z[i] = N[i] + N[j], s[i] + s[j], joined[i, j]
        alive = alive[alive != j]
        lost[i] += lost[j]
        lost[:, i] = lost[i]
        lost[j] = lost[:, j] = np.inf
        others = alive[(alive != i) & np.isfinite(lost[i, alive])]
        joined[np.minimum(i, others), np.maximum(i, others)] = memory.exponential.log_z(N[i] + N[others], s[i] + s[others])
        a, b = np.nonzero(np.triu(np.isfinite(lost), 1))
    memory.H = H
    memory.take(alive)
    return len(N) - len(alive)


def merge_by_batch(memory: Memory, b: int, pairs: np.ndarray, lost: np.ndarray) -> int:
    """Join pairs that raise the bound of one batch alone, as if there were no others (the paper's GreedyMerge).  How many.

    `lost` (P,) is that of the batch; of the others it is taken for 0, so that the bound is not exact until they have been visited again.
    """
    ids = np.array(memory.ids)[pairs]
    used: set[int] = set()
    for p in range(len(pairs)):
        if used & {*ids[p]}:
            continue
        i, j = sorted(memory.ids.index(one) for one in ids[p])
        own = Factors(memory.exponential, memory.mass, memory.N[b], memory.s[b])
        N = own.N.copy()
        N[i] += N[j]
        joined = memory.exponential.log_z(N[[i]], own.s[[i]] + own.s[[j]])[0]
        gain = joined - own.log_z[i] - own.log_z[j] + Sticks(memory.mass, np.delete(N, j)).log_evidence - own.sticks.log_evidence
        if gain - lost[p] >= 0:
            everywhere = np.zeros(len(memory.N))
            everywhere[b] = lost[p]
            memory.join(i, j, everywhere)
            memory.is_exact = False
            used |= {*ids[p]}
    return len(used) // 2
