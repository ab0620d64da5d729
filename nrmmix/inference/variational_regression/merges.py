"""Merges and deletions of components of rows in memory.

Where component b is joined into a, with the codes that a has, r_a + r_b and all v as they are, the new bound is known: of a pair only
the entropy needs rows.  Pairs are those whose probabilities are correlated.  A component is deleted by a visit of all rows without it.
Atoms stay, as the measure has so many: one that nothing is left of has its law a priori, given where it is.
"""

from __future__ import annotations

import numpy as np

from nrmmix.inference.variational_regression.climb import MIN_COUNT, MIN_GAIN, Climb
from nrmmix.inference.variational_regression.memory import Seen
from nrmmix.posterior.kernel_factors import KernelFactors

CORRELATED = 0.02  # cosine of the probabilities of a pair from which on it is looked at
PAIRS = 200  # that are looked at, of the most correlated ones
SMALLEST = 8  # components that are left out in turn


def candidates(climb: Climb) -> np.ndarray:
    """Pairs (P, 2) of components, a the larger one, whose probabilities are correlated, the most correlated first."""
    N, r, often = climb.total.N, climb.shares, climb.memory.rows.statistics.weight
    products = r.T @ (r if often is None else r * often[:, None])
    root = np.sqrt(np.maximum(np.diagonal(products), 1e-300))
    a, b = np.triu_indices(len(N), 1)
    cosine = (products / root / root[:, None])[a, b]
    some = np.flatnonzero((cosine > CORRELATED) & (np.minimum(N[a], N[b]) >= MIN_COUNT))
    some = some[np.argsort(-cosine[some], kind="stable")][:PAIRS]
    a, b = a[some], b[some]
    return np.where((N[a] >= N[b])[:, None], np.stack([a, b], axis=1), np.stack([b, a], axis=1))


def gain_of(climb: Climb, a: int, b: int) -> tuple[float, Seen]:
    """Gain of the bound where b is joined into a, and the sums thereafter."""
    now, total, r = climb.factors, climb.total, climb.shares
    N, s, H = total.N.copy(), total.s.copy(), total.H.copy()
    N[a], s[a], H[..., a] = N[a] + N[b], s[a] + s[b], H[..., a] + H[..., b]
    N[b], s[b], H[..., b] = 0.0, 0.0, 0.0
    often = climb.memory.rows.statistics.weight
    lost = _negative_entropy(r[:, a] + r[:, b], often) - _negative_entropy(r[:, a], often) - _negative_entropy(r[:, b], often)
    made = total._replace(N=N, s=s, H=H, entropy=total.entropy - lost)
    joined = KernelFactors(now.binned, now.exponential, now.mass, N, s, now.A, now.codes)
    gain = joined.log_evidence - now.log_evidence + float(((H - total.H)[..., [a, b]] * now.log_k[..., [a, b]]).sum()) - lost
    return gain, made


def _negative_entropy(r: np.ndarray, often: np.ndarray | None) -> float:
    each = r * np.log(np.maximum(r, 1e-300))
    return float(each.sum() if often is None else each @ often)


def merge(climb: Climb) -> int:
    """Join pairs that raise the bound, no component twice; how many."""
    used: set[int] = set()
    count = 0
    for a, b in candidates(climb).tolist():
        if used & {a, b}:
            continue
        gain, made = gain_of(climb, a, b)
        if gain > MIN_GAIN:
            climb.shares[:, a] += climb.shares[:, b]
            climb.shares[:, b] = 0.0
            climb.total, climb.memory.seen = made, [made]
            climb.refresh()
            used |= {a, b}
            count += 1
    return count


def delete(climb: Climb) -> int:
    """Leave out all components of less than half a row, and the smallest others one by one, where that raises the bound; how many."""
    N = climb.total.N
    few = np.flatnonzero((N < MIN_COUNT) & (N > 0.0))
    smallest = [k for k in np.argsort(N, kind="stable") if N[k] >= MIN_COUNT][:SMALLEST]
    count = 0
    for those in ([few] if len(few) else []) + [np.array([k]) for k in smallest]:
        if climb.total.N[those].sum() < climb.total.N.sum() and climb.against(climb.factors.without(those), 0):
            count += len(those)
    return count
