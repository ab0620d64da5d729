"""Priors of coefficients under which effects of the levels of factors are exchangeable, however these are coded."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag


class Coding(NamedTuple):
    """Prior of the coefficients of a design of q columns in which levels of factors are alike."""

    root: np.ndarray  # (q, q) upper triangular: root'root is the prior precision, of columns divided by their units
    measured_by: np.ndarray  # (q, q) bool: in the row of a column those whose largest value is its unit; none: its standard deviation is

    @classmethod
    def without_levels(cls, q: int) -> Coding:
        """Return the coding of q columns of numbers."""
        return cls(np.eye(q), np.zeros((q, q), dtype=bool))


def together(codings: list[Coding]) -> Coding:
    """The coding of several designs, one after the other."""
    roots, measures = zip(*codings, strict=True)
    return Coding(block_diag(*roots), block_diag(*measures).astype(bool))


class _Term(NamedTuple):
    """Effects of a term on all combinations of levels, in the order of the names of its factors."""

    place: slice  # of its columns
    sizes: dict[Any, int]  # of its factors: levels, of numbers columns
    of_levels: frozenset[Any]  # its factors that have levels
    coded: np.ndarray  # (cells, k) effects, one column for each coefficient
    precision: np.ndarray  # (cells, cells) of effects in the prior


def exchangeable(design: Any) -> Coding:
    """Return the coding of a design of patsy in whose prior all levels of a factor are alike.

    Of a factor beside the intercept effects are independent, less their mean, and any two differ by a variance of 1, as each coefficient
    of the usual coding has.  Were these independent, the level that others are compared with would be nearer to the mean than they are,
    and answers would depend on which one that is.  What an interaction has in the mean over levels counts to the terms without them.
    """
    terms = {frozenset(term.factors): _term(design, term) for term in design.terms if term.factors}
    root, measured_by = Coding.without_levels(len(design.column_names))
    for factors, one in terms.items():
        numbers = terms.get(factors - one.of_levels, one)
        root[one.place, one.place] = _root(one) / (np.abs(one.coded).max() if numbers is one else 1.0)
        if one.of_levels and (len(factors) > 1 or one.coded.shape[1] > 1):
            measured_by[one.place, numbers.place] = True
    for factors, one in terms.items():
        for without in (set(left) for k in range(1, len(one.of_levels) + 1) for left in combinations(one.of_levels, k)):
            parent = terms.get(factors - without)
            if parent is not None:
                mean = _product([np.full((1, n), 1.0 / n) if factor in without else np.eye(n) for factor, n in one.sizes.items()])
                weighted = parent.coded.T @ parent.precision
                moved = np.linalg.pinv(weighted @ parent.coded) @ weighted @ mean @ one.coded
                root[parent.place, one.place] = root[parent.place, parent.place] @ moved
    return Coding(root, measured_by)


def _root(term: _Term) -> np.ndarray:
    """The block of a term; independent coefficients where the user's contrasts have the mean among them."""
    try:
        return np.linalg.cholesky(term.coded.T @ term.precision @ term.coded).T
    except np.linalg.LinAlgError:
        return np.eye(term.coded.shape[1])


def _term(design: Any, term: Any) -> _Term:
    infos = {factor: design.factor_infos[factor] for factor in sorted(term.factors, key=lambda factor: str(factor.code))}
    sizes = {factor: info.num_columns if info.type == "numerical" else len(info.categories) for factor, info in infos.items()}
    of_levels = frozenset(factor for factor, info in infos.items() if info.type == "categorical")
    coded, precision = [], np.zeros(2 * (int(np.prod(list(sizes.values()))),))
    for part in design.term_codings[term]:
        contrasts = {factor: np.eye(n) for factor, n in sizes.items()}
        spaces = dict(contrasts)
        for factor in of_levels:
            mean = np.full(2 * (sizes[factor],), 1.0 / sizes[factor])
            if factor not in part.factors:
                contrasts[factor], spaces[factor] = np.ones((sizes[factor], 1)), mean
            else:
                contrasts[factor] = np.asarray(part.contrast_matrices[factor].matrix, float)
                if contrasts[factor].shape[1] < sizes[factor]:
                    spaces[factor] = 2.0 * (np.eye(sizes[factor]) - mean)
        widths = [own.shape[1] for own in contrasts.values()]
        order = [list(contrasts).index(factor) for factor in reversed(part.factors)]  # columns of the first factor vary fastest
        order += [a for a in range(len(widths)) if a not in order]
        columns = np.arange(int(np.prod(widths))).reshape(widths).transpose(order).ravel()
        coded.append(_product(list(contrasts.values()))[:, columns])
        precision += _product(list(spaces.values()))
    return _Term(design.term_slices[term], sizes, of_levels, np.hstack(coded), precision)


def _product(matrices: list[np.ndarray]) -> np.ndarray:
    """Kronecker product."""
    product = np.ones((1, 1))
    for matrix in matrices:
        product = np.kron(product, matrix)
    return product
