"""Checks of draws that come from a file."""

from __future__ import annotations

import numpy as np

from nrmmix.kernels.core.jit import allocating


@allocating
def numbered_by_appearance(labels):
    """(draws,): number of clusters of each row of labels (draws, n), 0 where they are not numbered 0, 1, ... by first appearance."""
    T, n = labels.shape
    out = np.zeros(T, np.int64)
    for t in range(T):
        K = 0
        for i in range(n):
            k = labels[t, i]
            if k < 0 or k > K:
                K = 0
                break
            if k == K:
                K += 1
        out[t] = K
    return out


@allocating
def one_location_each(labels, locations):
    """Whether all members of a cluster have its location."""
    T, n = labels.shape
    of = np.empty(n, np.int64)
    for t in range(T):
        K = 0
        for i in range(n):
            k = labels[t, i]
            if k == K:
                of[K] = locations[t, i]
                K += 1
            elif of[k] != locations[t, i]:
                return False
    return True
