"""The exponential forms of all blocks of a model as one, and rows of data as its statistics, block by block of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nrmmix.model.families.exponential.base import Exponential

BLOCK = 1024  # rows whose statistics are held at once: they stay in the cache


class Features(NamedTuple):
    """Statistics of some rows: dense ones (S', b), then sparse ones, CSR (b, S - S'); None where there are none."""

    dense: np.ndarray | None
    sparse: Any

    def scores(self, eta: np.ndarray) -> np.ndarray:
        """eta (K, S) times the statistics: (K, b)."""
        if self.sparse is None:
            return eta @ self.dense
        first = 0 if self.dense is None else len(self.dense)
        out = np.ascontiguousarray((self.sparse @ np.ascontiguousarray(eta[:, first:].T)).T)
        if self.dense is not None:
            out += eta[:, :first] @ self.dense
        return out

    def scores_by_row(self, eta: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Fill the first rows of a buffer (at least b, K) with the scores, row by row, and return these (b, K)."""
        first = 0 if self.dense is None else len(self.dense)
        if self.sparse is None:
            assert self.dense is not None  # one of them is there
            return np.matmul(self.dense.T, eta.T, out=out[: self.dense.shape[1]])
        out = out[: self.sparse.shape[0]]
        out[:] = self.sparse @ np.ascontiguousarray(eta[:, first:].T)
        if self.dense is not None:
            out += self.dense.T @ eta[:, :first].T
        return out

    def totals(self, weights: np.ndarray) -> np.ndarray:
        """Sums (K, S) of the statistics by weights (K, b)."""
        if self.sparse is None:
            assert self.dense is not None  # one of them is there
            return weights @ self.dense.T
        of_sparse = (self.sparse.T @ np.ascontiguousarray(weights.T)).T
        return of_sparse if self.dense is None else np.hstack([weights @ self.dense.T, of_sparse])


def joined(parts: Sequence[Statistics], order: np.ndarray | None = None) -> Statistics:
    """Rows of several, one after the other or in an order."""
    one = parts[0]
    of_sparse = None
    if one.sparse is not None:
        from scipy.sparse import vstack

        of_sparse = vstack([part.sparse for part in parts], format="csr")
    dense, log_h = np.hstack([part.dense for part in parts]), np.concatenate([part.log_h for part in parts])
    weight = None if one.weight is None else np.concatenate([part.weight for part in parts])
    whole = Statistics(one.exponential, one.parts, dense, of_sparse, log_h, weight)
    return whole if order is None else whole.take(order)


@dataclass(frozen=True)
class Statistics:
    """Rows of data, ready to be turned into statistics."""

    exponential: Stacked
    parts: tuple[tuple[Exponential, slice, slice], ...]  # of each dense form its rows of `dense`, and its statistics
    dense: np.ndarray  # (C, n) what the dense forms fill their statistics from
    sparse: Any  # CSR (n, S - S'); None where no form is sparse
    log_h: np.ndarray  # (n,)
    weight: np.ndarray | None = None  # (n,) how often each row counts; None where once
    is_streamed: ClassVar[bool] = False  # whether rows are loaded anew each time

    @property
    def n(self) -> int:
        return len(self.log_h)

    @property
    def size(self) -> float:
        """Rows, each as often as it counts."""
        return float(self.n if self.weight is None else self.weight.sum())

    @property
    def log_h_total(self) -> float:
        """Sum of log h over all rows."""
        return float(self.log_h.sum() if self.weight is None else self.log_h @ self.weight)

    def weight_of(self, rows: Any) -> np.ndarray | None:
        """Weights of some rows."""
        return None if self.weight is None else self.weight[rows]

    def take(self, rows: Any) -> Statistics:
        """Some of the rows."""
        of_sparse = None if self.sparse is None else self.sparse[rows]
        dense = np.ascontiguousarray(self.dense[:, rows])
        return Statistics(self.exponential, self.parts, dense, of_sparse, self.log_h[rows], self.weight_of(rows))

    def part(self, first: int, last: int) -> Statistics:
        """Rows from the first to before the last, without a copy."""
        of_sparse, own = None if self.sparse is None else self.sparse[first:last], slice(first, last)
        return Statistics(self.exponential, self.parts, self.dense[:, own], of_sparse, self.log_h[own], self.weight_of(own))

    def blocks(self, first: int, last: int, size: int = BLOCK) -> Iterator[tuple[int, int, Features]]:
        """Blocks of so many rows from the first to before the last; what one holds is lost with the next."""
        buffer = np.empty((self.exponential.n_dense, min(size, max(last - first, 1))))
        for start in range(first, last, size):
            stop = min(start + size, last)
            yield start, stop, self._features(start, stop, buffer)

    def whole(self) -> Features:
        """All rows at once, for samples that are gone through many times."""
        return self._features(0, self.n, np.empty((self.exponential.n_dense, self.n)))

    def _features(self, start: int, stop: int, buffer: np.ndarray) -> Features:
        dense = None
        if self.exponential.n_dense:
            dense = buffer[:, : stop - start]
            for form, row, stat in self.parts:
                form.fill(self.dense[row, start:stop], dense[stat])
        return Features(dense, None if self.sparse is None else self.sparse[start:stop])

    def total(self) -> np.ndarray:
        """(S,) sums over all rows."""
        out = np.zeros(self.exponential.n_stat)
        for start, stop, features in self.blocks(0, self.n):
            weight = self.weight_of(slice(start, stop))
            out += features.totals(np.ones((1, stop - start)) if weight is None else weight[None])[0]
        return out


class Stacked:
    """Several exponential forms as one: their statistics end to end, those that are sparse behind the others.

    `log_z`, `expectations`, `digits_left` and `narrow` are as of `Exponential`.
    """

    def __init__(self, forms: Sequence[Exponential]):
        self.forms = tuple(forms)
        order = sorted(range(len(forms)), key=lambda b: forms[b].is_sparse)
        self.stat: list[slice] = [slice(0)] * len(forms)  # places of each block's statistics
        first = 0
        for b in order:
            self.stat[b] = slice(first, first + forms[b].n_stat)
            first += forms[b].n_stat
        self.n_stat = first
        self.n_dense = sum(form.n_stat for form in forms if not form.is_sparse)

    def rows(self, observed: Sequence[Any], inputs: Sequence[np.ndarray]) -> Statistics:
        """Rows from each block's responses and inputs in the coordinates of the kernels."""
        dense, of_sparse, parts, first = [], [], [], 0
        log_h: Any = 0.0
        for b, (form, y, x) in enumerate(zip(self.forms, observed, inputs, strict=True)):
            rows = form.rows(y, x)
            log_h = log_h + form.log_h(y, x)
            if form.is_sparse:
                of_sparse.append(rows)
                continue
            dense.append(rows)
            parts.append((form, slice(first, first + len(rows)), self.stat[b]))
            first += len(rows)
        together = of_sparse[0] if of_sparse else None
        if len(of_sparse) > 1:
            from scipy.sparse import hstack

            together = hstack(of_sparse, format="csr")
        beside = dense[0] if len(dense) == 1 else np.concatenate([*dense, np.zeros((0, len(log_h)))])
        return Statistics(self, tuple(parts), beside, together, log_h)

    def log_z(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        return np.asarray(sum(form.log_z(N, s[:, own]) for form, own in zip(self.forms, self.stat, strict=True)))

    def expectations(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        eta, a = np.empty(s.shape), np.zeros(len(N))
        for form, own in zip(self.forms, self.stat, strict=True):
            eta[:, own], of_one = form.expectations(N, s[:, own])
            a += of_one
        return eta, a

    def columns(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        """(n_stat of the kernels, K): the blocks' columns, one below the other in the order of the blocks."""
        return np.concatenate([form.columns(N, s[:, own]) for form, own in zip(self.forms, self.stat, strict=True)])

    @property
    def is_learnt(self) -> bool:
        return any(form.is_learnt for form in self.forms)

    @property
    def log_prior(self) -> float:
        return float(sum(form.log_prior for form in self.forms))

    def learnt(self, N: np.ndarray, s: np.ndarray) -> Stacked:
        """Return the forms with the parameters of all components that are best for such components."""
        return Stacked([form.learnt(N, s[:, own]) for form, own in zip(self.forms, self.stat, strict=True)]) if self.is_learnt else self

    @property
    def shared(self) -> dict[str, np.ndarray]:
        """Parameters of all components by their names among draws, those of the blocks end to end."""
        found: dict[str, np.ndarray] = {}
        for form in self.forms:
            for name, values in form.shared.items():
                found[name] = np.concatenate([found.get(name, np.zeros(0)), values])
        return found

    def with_shared(self, values: dict[str, np.ndarray]) -> Stacked:
        """Return the forms with such parameters of all components, as `shared` gives them; a ValueError if the number is wrong."""
        first, forms = dict.fromkeys(values, 0), []
        for form in self.forms:
            own = {name: values[name][first[name] : first[name] + len(now)] for name, now in form.shared.items()}
            for name, now in form.shared.items():
                first[name] += len(now)
            forms.append(form.with_shared(own))
        if any(len(values[name]) != size for name, size in first.items()):
            raise ValueError("parameters of all components are not those of the model")
        return Stacked(forms)

    def digits_left(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        return np.min([form.digits_left(N, s[:, own]) for form, own in zip(self.forms, self.stat, strict=True)], axis=0)

    def narrow(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        return np.any([form.narrow(N, s[:, own]) for form, own in zip(self.forms, self.stat, strict=True)], axis=0)
