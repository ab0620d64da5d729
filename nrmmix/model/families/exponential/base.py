"""Base of the exponential form of a family.

Arrays over components have the component first, arrays over rows the row last: then the scores of a block of rows under all components
are one product, eta (K, S) times statistics (S, rows), and the statistics of the components another, whatever the family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

STEPS = 30  # of the search for the best parameters of all components, at most
LARGE = 6  # dimensions from which on SciPy's inverses of single matrices win over NumPy's of many


class NotExponential(ValueError):
    """A family, or what is missing of its data, has no exponential form; the message says why."""


class Exponential:
    """Base of the exponential forms: an exponential family with its conjugate prior, all hyperparameters numbers.

    Counts N (K,) and statistics s (K, S) are those of the data, fractional ones too; the prior is added here.  Rows are in the coordinates
    of the kernels.
    """

    is_sparse: ClassVar[bool] = False  # whether statistics are rows of a CSR matrix
    is_learnt: ClassVar[bool] = False  # whether parameters of all components are learnt with them
    log_prior: Any = 0.0  # log density of these
    own: bool = False  # whether cells are missing, and each response has a count of its own
    n_stat: int  # S
    n_column: int  # rows of the kernels' statistics

    def rows(self, y: np.ndarray, inputs: np.ndarray) -> Any:
        """Return what `fill` takes, from responses (n, d) and inputs (n, e) in the coordinates of the kernels: (c, n), or CSR (n, S)."""
        if not self.own:
            return np.ascontiguousarray(y.T)
        here = ~np.isnan(y)
        return np.ascontiguousarray(np.hstack([np.where(here, y, 0.0), here]).T)

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Statistics (S, b) of rows (c, b); families whose statistics are sparse do without."""
        raise NotImplementedError

    def log_h(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """(n,) log h of responses and inputs in the coordinates of the kernels, densities in the units of the responses."""
        raise NotImplementedError

    def log_z(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        """(K,) log Z(prior + s) - log Z(prior); with log h of the rows the log marginal likelihood of whole ones."""
        raise NotImplementedError

    def expectations(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E[eta] (K, S) and E[a] (K,) under the posterior given N and s, which are d log_z / ds and -d log_z / dN."""
        raise NotImplementedError

    def columns(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        """(n_column, K): kernel statistics of such components; what scores and draws do not read is NaN."""
        raise NotImplementedError

    def digits_left(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        """(K,) share of the sums of squares that is left where those of means are taken away: what is near 1e-16 is rounding."""
        return np.ones(len(N))

    def narrow(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        """(K,) whether a component is as narrow as the unit that responses are rounded to."""
        return np.zeros(len(N), bool)

    def learnt(self, N: np.ndarray, s: np.ndarray) -> Exponential:
        """The form whose parameters of all components are best for such components; itself where there are none."""
        return self

    @property
    def shared(self) -> dict[str, np.ndarray]:
        """Parameters of all components by their names among draws."""
        return {}

    def with_shared(self, values: dict[str, np.ndarray]) -> Exponential:
        """The form with such parameters of all components, as `shared` gives them."""
        return self


class WholeRows(Exponential):
    """A family of which some rows have no response at all: they count for nothing.

    Of these the statistics are 0, and so is a last one, which is 1 for all others: it counts in the place of N.
    """

    def __init__(self, of: Exponential):
        self.of = of
        self.n_stat, self.n_column = of.n_stat + 1, of.n_column
        self.is_learnt, self.log_prior = of.is_learnt, of.log_prior  # type: ignore[misc]

    def rows(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        here = ~np.isnan(y).all(axis=1)
        rows = self.of.rows(np.where(here[:, None], y, 0.0), inputs)
        return np.concatenate([rows, here[None].astype(float)])

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        self.of.fill(rows[:-1], out[:-1])
        out[:-1] *= rows[-1]
        out[-1] = rows[-1]

    def log_h(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        here = ~np.isnan(y).all(axis=1)
        return np.where(here, self.of.log_h(np.where(here[:, None], y, 0.0), inputs), 0.0)

    def log_z(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        return self.of.log_z(s[:, -1], s[:, :-1])

    def expectations(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        eta, a = self.of.expectations(s[:, -1], s[:, :-1])
        return np.column_stack([eta, -a]), np.zeros(len(N))

    def columns(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        return self.of.columns(s[:, -1], s[:, :-1])

    def digits_left(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        return self.of.digits_left(s[:, -1], s[:, :-1])

    def narrow(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        return self.of.narrow(s[:, -1], s[:, :-1])

    def learnt(self, N: np.ndarray, s: np.ndarray) -> Exponential:
        return WholeRows(self.of.learnt(s[:, -1], s[:, :-1])) if self.is_learnt else self

    @property
    def shared(self) -> dict[str, np.ndarray]:
        return self.of.shared

    def with_shared(self, values: dict[str, np.ndarray]) -> Exponential:
        return WholeRows(self.of.with_shared(values))


def best_logs(
    descent: Callable[[np.ndarray], tuple[float, np.ndarray]], now: np.ndarray, bounds: Sequence[tuple[float, float]]
) -> np.ndarray | None:
    """Logarithms of parameters of all components where minus the bound is least, by its value and slope; None where `now` is as good."""
    before = descent(now)[0]
    found = minimize(descent, now, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    return found.x if found.fun < before else None


def whole_if_missing(form: Exponential, y: np.ndarray) -> Exponential:
    """The form itself, or where some rows of y (n, d) have no response the one that leaves these out."""
    return WholeRows(form) if np.isnan(y).any() else form


# ---- symmetric matrices as their upper triangles, row by row

def products(rows: np.ndarray, out: np.ndarray) -> None:
    """x_i x_j, i <= j, of rows (d, b) into out (d (d + 1) / 2, b)."""
    place, d = 0, len(rows)
    for i in range(d):
        np.multiply(rows[i:], rows[i], out=out[place : place + d - i])
        place += d - i


@lru_cache(64)
def upper(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and columns of an upper triangle, row by row, and by what its cells are multiplied in -x'Mx/2."""
    i, j = np.triu_indices(d)
    return i, j, np.where(i == j, -0.5, -1.0)


@lru_cache(64)
def packed_places(d: int) -> np.ndarray:
    """(d, d): where each cell of a symmetric matrix is in its upper triangle."""
    places = np.empty((d, d), np.int64)
    i, j, _ = upper(d)
    places[i, j] = places[j, i] = np.arange(len(i))
    return places


def symmetric(packed: np.ndarray, d: int) -> np.ndarray:
    """(K, d, d) from upper triangles (K, d (d + 1) / 2)."""
    return packed.take(packed_places(d), axis=1)


def natural(matrix: np.ndarray) -> np.ndarray:
    """Upper triangles (K, d (d + 1) / 2) by which products x_i x_j are multiplied in -x'Mx/2, from matrices M (K, d, d)."""
    i, j, factor = upper(matrix.shape[1])
    return matrix[:, i, j] * factor


def inverses(L: np.ndarray) -> np.ndarray:
    """(K, d, d) inverses of L L' from the lower factors L; of large matrices one by one, which is faster."""
    if L.shape[1] < LARGE:
        root = np.linalg.inv(L)
        return np.swapaxes(root, 1, 2) @ root
    out = np.empty_like(L)
    for one, inverse in zip(L, out, strict=True):
        # in column order the rows of L are columns of an upper factor, and so is what comes back
        inverse[:] = dpotri(one.T, lower=0)[0]
    i, j, _ = upper(L.shape[1])
    return symmetric(out[:, i, j], L.shape[1])


def lower_factors(packed: np.ndarray, d: int) -> np.ndarray:
    """(K, d, d) factors from what `factor_rows` makes of them."""
    L = np.zeros((packed.shape[1], d, d))
    L[:, *np.tril_indices(d)] = packed.T
    diagonal = np.arange(d)
    L[:, diagonal, diagonal] = 1.0 / L[:, diagonal, diagonal]
    return L


def factor_rows(L: np.ndarray) -> np.ndarray:
    """(d (d + 1) / 2, K): factors (K, d, d) as kernels keep them, packed by rows, diagonals as reciprocals."""
    i, j = np.tril_indices(L.shape[1])
    packed = L[:, i, j].T.copy()
    packed[i == j] = 1.0 / packed[i == j]
    return packed
