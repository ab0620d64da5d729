"""The enumeration matrix against the exact posterior of all partitions: Gibbs and `tree` for all priors and families, moves for some.

`make matrix` writes it with its total variations to docs/exactness.md; test_matrix.py asserts shorter runs of the cells of `cover`.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from exact import marginals
from exact.enumeration import (
    dirichlet_log_eppf,
    gaussian_log_marginal,
    nrm_log_eppf,
    partition_posterior,
    total_variation,
    urn_log_eppf,
)
from scipy.sparse import csr_array
from scipy.special import multigammaln

import nrmmix as nm
from nrmmix.inference.mcmc.moves.tree_guided import TreeGuided

Y = np.array([[-1.2, 0.3], [-0.9, 0.8], [0.1, -0.4], [1.4, 1.1], [1.1, 0.2], [0.4, 2.0], [2.2, -1.0]])
COUNTS = np.array([[3, 0, 1], [2, 1, 0], [0, 4, 1], [0, 2, 3], [1, 1, 1], [5, 0, 0], [0, 0, 2]])
NAN = np.nan
DEVIATIONS = 5.0  # of so many cells one would exceed four by chance


class FamilyCase(NamedTuple):
    """A family, data for it, and the log marginal of some of their rows."""

    n: int
    build: Callable[[Any], nm.Model]  # from a prior
    log_marginal: Callable[[list[int]], float]


def _model(data: Any, family: Any, formula: str | None = None, **options: Any) -> Callable[[Any], nm.Model]:
    return lambda prior: nm.Model(formula, data, family=family, prior=prior, **options)


def missing_cells_log_marginal(X: np.ndarray, m: np.ndarray, r: float, nu: float, scale: np.ndarray) -> float:
    """log p of the cells of X (n, d) that are there under the normal-Wishart prior; the others integrated out on a grid."""
    cells = np.argwhere(np.isnan(X))
    if not len(cells):
        return gaussian_log_marginal(X, m, r, nu, scale)
    t = np.linspace(-6.0, 6.0, 241)
    axes = np.meshgrid(*([t] * len(cells)), indexing="ij")
    full = np.broadcast_to(np.nan_to_num(X), (axes[0].size, *X.shape)).copy()
    weight = np.full(axes[0].size, (t[1] - t[0]) ** len(cells))
    for (i, j), axis in zip(cells, axes, strict=True):
        full[:, i, j] = m[j] + np.sinh(axis.ravel())
        weight = weight * np.cosh(axis.ravel())
    n, d = X.shape
    mean = full.mean(axis=1)
    gap, centred = mean - m, full - mean[:, None, :]
    psi = scale + np.einsum("sni,snj->sij", centred, centred) + r * n / (r + n) * np.einsum("si,sj->sij", gap, gap)
    log_density = -(nu + n) / 2 * np.linalg.slogdet(psi)[1]
    top = log_density.max()
    constant = (
        -n * d / 2 * np.log(np.pi) + multigammaln((nu + n) / 2, d) - multigammaln(nu / 2, d) + nu / 2 * np.linalg.slogdet(scale)[1]
        + d / 2 * np.log(r / (r + n))
    )
    return float(constant + top + np.log((weight * np.exp(log_density - top)).sum()))


@cache
def families() -> dict[str, FamilyCase]:
    """Of every family one case at least, with fixed hyperparameters."""
    m, r, nu, S = np.array([0.2, 0.4]), 0.3, 4.0, np.array([[1.0, 0.3], [0.3, 1.5]])
    scale, gaps, holes = np.array([1.0, 1.5]), Y[:5].copy(), Y[:5].copy()
    gaps[[0, 3], [1, 0]] = holes[[0, 2, 3], [1, 1, 0]] = NAN
    line = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 7), "y": Y[:, 0]})
    design, precision, b = np.stack([np.ones(7), line["x"]], axis=1), np.array([[0.5, 0.1], [0.1, 0.8]]), np.array([0.1, 0.5])
    planes, B = line[:6].assign(z=Y[:6, 1]), np.array([[0.1, -0.2], [0.5, 0.3]])
    events = pd.DataFrame({"a": [0, 1, 4, 9, 3], "b": [5, 2, 0, 1, 1], "years": [0.5, 1.0, 2.0, 1.5, 1.0]})
    flags = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=float)
    kinds = pd.DataFrame({"c": list("ababcc"), "e": [1, 1, 2, 3, 2, 3]})
    codes = np.array([[0, 0], [1, 0], [0, 1], [1, 2], [2, 1], [2, 2]], dtype=float)
    mixed = pd.DataFrame({"y": [-1.2, -0.9, NAN, 1.4, 1.1], "visits": [0.0, 1.0, 4.0, NAN, 9.0], "smoker": [1.0, 1.0, 0.0, 0.0, NAN]})
    a2, b2 = np.array([0.8, 0.8]), np.array([0.3, 0.3])
    words, alpha = COUNTS[:6], np.full(3, 0.4)
    spent = np.array([[0.0, 0.3], [-0.9, 2.0], [0.0, -0.4], [NAN, 2.0], [1.1, 2.0], [0.4, 1.1]])
    floor = line.assign(y=np.where(line["x"] < 0.2, 0.5, line["y"]))
    floor.loc[[1, 6], "y"] = Y[0, 0], 0.5

    def of_mixed(rows: list[int]) -> float:
        own = mixed.iloc[rows]
        return (
            marginals.normal_gamma_log_marginal(own[["y"]].to_numpy(), m[:1], r, nu, scale[:1])
            + marginals.poisson_log_marginal(own[["visits"]].to_numpy(), np.ones(len(rows)), a2[:1], b2[:1])
            + marginals.bernoulli_log_marginal(own[["smoker"]].to_numpy(), np.array([0.7]), np.array([1.2]))
        )

    def hurdle(c: list[int], y: np.ndarray, at: Any, points: tuple[float, float], of: Callable[[np.ndarray, list[int]], float]) -> float:
        """Of rows c of y, which are at the point with a probability of beta prior; `of` the others, NaN where they are at the point."""
        whether = np.where(np.isnan(y), NAN, y == at)[c]
        a, b = (np.full(y.shape[1], value) for value in points)
        return marginals.bernoulli_log_marginal(whether, a, b) + of(np.where(y == at, NAN, y)[c], c)

    def line_apart(y: np.ndarray, c: list[int]) -> float:
        own = ~np.isnan(y[:, 0])
        return marginals.regression_log_marginal(design[c][own], y[own, 0], b, precision, nu, 1.0) if own.any() else 0.0

    def prior_of(**given: Any) -> dict[str, Any]:
        return {"m": m, "r": r, "nu": nu} | given

    return {
        "Gaussian, full, d = 2": FamilyCase(
            6, _model(Y[:6], nm.Gaussian(**prior_of(scale=S))), lambda c: gaussian_log_marginal(Y[c], m, r, nu, S)),
        "Gaussian, full, cells missing": FamilyCase(
            5, _model(gaps, nm.Gaussian(**prior_of(scale=S)), missing="marginalize"),
            lambda c: missing_cells_log_marginal(gaps[c], m, r, nu, S)),
        "Gaussian, diagonal": FamilyCase(
            6, _model(Y[:6], nm.Gaussian("diagonal", **prior_of(scale=scale))),
            lambda c: marginals.normal_gamma_log_marginal(Y[c], m, r, nu, scale)),
        "Gaussian, diagonal, cells missing": FamilyCase(
            5, _model(holes, nm.Gaussian("diagonal", **prior_of(scale=scale)), missing="marginalize"),
            lambda c: marginals.normal_gamma_log_marginal(holes[c], m, r, nu, scale)),
        "Gaussian, spherical": FamilyCase(
            6, _model(Y[:6], nm.Gaussian("spherical", **prior_of(scale=1.3))),
            lambda c: marginals.spherical_log_marginal(Y[c], m, r, nu, 1.3)),
        "Gaussian, spherical, cells missing": FamilyCase(
            5, _model(holes, nm.Gaussian("spherical", **prior_of(scale=1.3)), missing="marginalize"),
            lambda c: marginals.spherical_log_marginal(holes[c], m, r, nu, 1.3)),
        "Gaussian, known covariance": FamilyCase(
            6, _model(Y[:6], nm.Gaussian(known_covariance=S, m=m, r=r)),
            lambda c: marginals.known_covariance_log_marginal(Y[c], m, r, S)),
        "Gaussian, known covariance, cells missing": FamilyCase(
            5, _model(holes, nm.Gaussian(known_covariance=S, m=m, r=r), missing="marginalize"),
            lambda c: marginals.known_covariance_log_marginal(holes[c], m, r, S)),
        "Gaussian, known mean": FamilyCase(
            6, _model(Y[:6], nm.Gaussian(known_mean=0.0, nu=nu, scale=S)),
            lambda c: marginals.normal_wishart_log_marginal(Y[c], np.zeros(2), math.inf, nu, S)),
        "semiconjugate Gaussian": FamilyCase(
            5, _model(Y[:5, :1], nm.SemiconjugateGaussian(mean=(0.2, 1.5), precision=nm.Gamma(2.0, 1.0))),
            lambda c: marginals.semiconjugate_log_marginal(Y[c, 0], 0.2, 1.5, (2.0, 1.0))),
        "Multinomial": FamilyCase(
            6, _model(words, nm.Multinomial(0.4)), lambda c: marginals.multinomial_log_marginal(words[c], alpha)),
        "Multinomial, sparse": FamilyCase(
            6, _model(csr_array(words), nm.Multinomial(0.4)), lambda c: marginals.multinomial_log_marginal(words[c], alpha)),
        "Poisson, exposure": FamilyCase(
            5, _model(events, nm.Poisson(0.8, 0.3, exposure="years"), "a + b ~ 1"),
            lambda c: marginals.poisson_log_marginal(events[["a", "b"]].to_numpy(float)[c], events["years"].to_numpy()[c], a2, b2)),
        "Bernoulli": FamilyCase(
            6, _model(flags, nm.Bernoulli(0.7, 1.2)),
            lambda c: marginals.bernoulli_log_marginal(flags[c], np.full(3, 0.7), np.full(3, 1.2))),
        "Categorical": FamilyCase(
            6, _model(kinds, nm.Categorical(0.6)),
            lambda c: marginals.categorical_log_marginal(codes[c], [np.full(3, 0.6), np.full(3, 0.6)])),
        "Regression": FamilyCase(
            7, _model(line, nm.Regression("1 + x", b=b, precision=precision, nu=nu, scale=1.0), "y ~ 1"),
            lambda c: marginals.regression_log_marginal(design[c], Y[c, 0], b, precision, nu, 1.0)),
        "Regression, d = 2": FamilyCase(
            6, _model(planes, nm.Regression("1 + x", b=B, precision=precision, nu=nu, scale=S), "y + z ~ 1"),
            lambda c: marginals.matrix_regression_log_marginal(design[c], Y[c], B, precision, nu, S)),
        "Hurdle, Gaussian, d = 2, cells missing": FamilyCase(
            6, _model(
                spent, nm.Hurdle(nm.Gaussian("diagonal", **prior_of(scale=scale)), at=[0.0, 2.0], a=0.6, b=1.3), missing="marginalize"),
            lambda c: hurdle(
                c, spent, [0.0, 2.0], (0.6, 1.3), lambda y, _: marginals.normal_gamma_log_marginal(y, m, r, nu, scale))),
        "Hurdle, Regression": FamilyCase(
            7, _model(floor, nm.Hurdle(nm.Regression("1 + x", b=b, precision=precision, nu=nu, scale=1.0), at=0.5), "y ~ 1"),
            lambda c: hurdle(c, floor[["y"]].to_numpy(), 0.5, (0.5, 0.5), line_apart)),
        "blocks of three families, cells missing": FamilyCase(
            5, _model(
                mixed, {
                    "y": nm.Gaussian("diagonal", m=m[:1], r=r, nu=nu, scale=scale[:1]), "visits": nm.Poisson(0.8, 0.3),
                    "smoker": nm.Bernoulli(0.7, 1.2)}, missing="marginalize"),
            of_mixed),
    }


HELD = ("semiconjugate Gaussian",)  # families whose parameters are not integrated out
SUIT_HELD = ("gibbs", "slice")  # and the methods that they suit

PRIORS: dict[str, tuple[Any, Callable[[tuple[int, ...]], float]]] = {
    "DP(1)": (nm.DirichletProcess(1.0), lambda s: nrm_log_eppf(s, 1.0, 0.0)),
    "NGGP(0.8, 0)": (nm.NGGP(0.8, 0.0), lambda s: nrm_log_eppf(s, 0.8, 0.0)),
    "NGGP(0.8, 0.2)": (nm.NGGP(0.8, 0.2), lambda s: nrm_log_eppf(s, 0.8, 0.2)),
    "NGGP(0.5, 0.6, tau 2)": (nm.NGGP(0.5, 0.6, tau=2.0), lambda s: nrm_log_eppf(s, 0.5, 0.6, 2.0)),
    "NIG(0.7)": (nm.NormalizedInverseGaussian(0.7), lambda s: nrm_log_eppf(s, 0.7, 0.5)),
    "stable(0.4)": (nm.NormalizedStable(0.4), lambda s: urn_log_eppf(s, 0.0, 0.4)),
    "PY(0.9, 0.3)": (nm.PitmanYor(0.9, 0.3), lambda s: urn_log_eppf(s, 0.9, 0.3)),
    "PY(-0.2, 0.5)": (nm.PitmanYor(-0.2, 0.5), lambda s: urn_log_eppf(s, -0.2, 0.5)),
    "finite(3, 1.2)": (nm.FiniteMixture(3, 1.2), lambda s: dirichlet_log_eppf(s, 3, 1.2)),
    "finite(20, 2)": (nm.FiniteMixture(20, 2.0), lambda s: dirichlet_log_eppf(s, 20, 2.0)),
}


# Every move by itself, but for the beam, which needs another.  Gibbs in the order of the rows is in the first table too.
MOVES: dict[str, Any] = {
    "gibbs": nm.Gibbs(),
    "gibbs, subset of 2": nm.Gibbs(subset=2),
    "split-merge, restricted Gibbs": nm.SplitMerge(proposals=3),
    "split-merge, sequential": nm.SplitMerge(proposals=3, proposal="sequential"),
    "slice": nm.Slice(),
    "permutation, table": nm.Permutation("table"),
    "permutation, Metropolis": nm.Permutation(),
    "permutation, Markov order": nm.Permutation(order="markov"),
    "permutation, beam 0.05 + gibbs, subset of 2": [nm.Permutation(beam=0.05), nm.Gibbs(subset=2)],
    "tree, blocks": TreeGuided(global_moves=3, scan_share=0.0),
    "tree, scan": TreeGuided(global_moves=3, scan_share=1.0),
    "tree": TreeGuided(global_moves=5),
}
METHODS = {
    "gibbs": ("gibbs", "gibbs, subset of 2"),
    "split_merge": ("split-merge, restricted Gibbs", "split-merge, sequential"),
    "slice": ("slice",),
    "permutation": (
        "permutation, table", "permutation, Metropolis", "permutation, Markov order", "permutation, beam 0.05 + gibbs, subset of 2"),
    "tree": ("tree, blocks", "tree, scan", "tree"),
}
OF_FINITE = {"blocked": nm.Blocked()}  # suits finite priors only
FINITE = ("finite(3, 1.2)", "finite(20, 2)")
# With these priors and families.
MOVE_PRIORS = ("DP(1)", "NGGP(0.8, 0.2)", "NGGP(0.5, 0.6, tau 2)", "NIG(0.7)", "PY(0.9, 0.3)")
MOVE_FAMILIES = (
    "Gaussian, full, d = 2", "Gaussian, diagonal", "Gaussian, known covariance", "Multinomial", "blocks of three families, cells missing",
)


def suits(family: str, method: str) -> bool:
    return family not in HELD or method in SUIT_HELD


def pairs_of(prior: str, family: str, method: str, move: str) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    """What a cell has to show, and what is welcome besides."""
    return {("prior", prior, method), ("family", family, method), ("move", move)}, {(prior, family), (prior, move), (family, move)}


@cache
def cover() -> tuple[tuple[str, str, str], ...]:
    """Cells (prior, family, move) in which every prior and every family meets every method that it suits, and every move occurs.

    Greedy: the next cell is the one that shows most of what has not been shown, the first of several.
    """
    cells = {
        (prior, family, move): pairs_of(prior, family, method, move)
        for method, moves in METHODS.items() for move in moves for family in families() if suits(family, method) for prior in PRIORS
    }
    wanted, welcome = (set().union(*kind) for kind in zip(*cells.values(), strict=True))
    chosen = []
    while wanted:
        best = max(cells, key=lambda cell: (len(cells[cell][0] & wanted), len(cells[cell][1] & welcome)))
        wanted, welcome = wanted - cells[best][0], welcome - cells[best][1]
        chosen.append(best)
    return tuple(chosen)


@cache
def law(prior: str, family: str) -> dict[tuple[int, ...], float]:
    """Posterior probability of every partition that has one: a sampler must never visit another."""
    case = families()[family]
    return {labels: p for labels, p in partition_posterior(case.n, PRIORS[prior][1], _marginal_of(family)).items() if p > 0}


@cache
def _marginal_of(family: str) -> Callable[[list[int]], float]:
    of_rows = cache(lambda rows: families()[family].log_marginal(list(rows)))
    return lambda rows: of_rows(tuple(rows))


class Cell(NamedTuple):
    distance: float
    limit: float  # the most that Monte Carlo error explains

    def __str__(self) -> str:
        return f"{self.distance:.4f} ({self.limit:.4f})"


def run_cell(prior: str, family: str, move: str = "gibbs", *, draws: int, chains: int = 16, rng: int = 1) -> Cell:
    fit = families()[family].build(PRIORS[prior][0]).fit((MOVES | OF_FINITE)[move], draws=draws, tune=200, chains=chains, rng=rng)
    return Cell(*total_variation(law(prior, family), fit.draws["labels"], DEVIATIONS))


HEAD = """# Exactness

The total variation between the frequencies of the partitions that a sampler visits and their exact posterior probabilities, by
enumeration of all partitions of {n} observations; in parentheses the largest distance that the Monte Carlo error of the frequencies
explains (its mean and five standard deviations). {chains} chains of {draws:,} draws each; {seconds:.0f} s. `make matrix` writes this
page; the tests assert a shorter run of it.

"""


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], priors: Iterable[str], **run: int) -> tuple[str, list[Cell]]:
    """A table in Markdown with a column for each prior; its rows are families, or families with moves."""
    priors, cells = tuple(priors), []
    page = "| " + " | ".join((*heads, *priors)) + " |\n|" + "---|" * (len(heads) + len(priors)) + "\n"
    for row in rows:
        own = []
        for prior in priors:
            own.append(run_cell(prior, *row, **run))
            sys.stderr.write(f"{' | '.join((*row, prior))}: {own[-1]}\n")
        page += "| " + " | ".join((*row, *map(str, own))) + " |\n"
        cells += own
    return page, cells


def write(path: Path, draws: int, chains: int) -> list[Cell]:
    """The page; the cells beyond their limits."""
    started = time.perf_counter()
    by_family, cells = table(("family",), [(family,) for family in families()], PRIORS, draws=draws, chains=chains)
    rows = [(family, move) for move in MOVES for family in MOVE_FAMILIES]
    by_move, more = table(("family", "move"), rows, MOVE_PRIORS, draws=draws, chains=chains)
    cells += more
    rows = [(family, "tree") for family in families() if family not in HELD]
    by_tree, more = table(("family", "move"), rows, PRIORS, draws=draws, chains=chains)
    cells += more
    rows = [(family, move) for move in OF_FINITE for family in families()]
    by_finite, more = table(("family", "move"), rows, FINITE, draws=draws, chains=chains)
    cells += more
    sizes = sorted({case.n for case in families().values()})
    page = HEAD.format(n=" or ".join(map(str, sizes)), chains=chains, draws=draws, seconds=time.perf_counter() - started)
    page += f"## Collapsed Gibbs: every prior with every family\n\n{by_family}\n"
    page += f"## Every move on partitions\n\nEach by itself, but for the beam, which needs another move beside it.\n\n{by_move}\n"
    page += f"## Tree-guided moves: every prior with every family whose parameters are integrated out\n\n{by_tree}\n"
    page += f"## The blocked sampler: finite priors with every family\n\n{by_finite}\n"
    beyond = [cell for cell in cells if cell.distance > cell.limit]
    path.write_text(f"{page}{len(cells)} cells, {len(beyond)} beyond their limit.\n", encoding="utf-8")
    return beyond


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=Path("docs/exactness.md"))
    parser.add_argument("--draws", type=int, default=6_000)
    parser.add_argument("--chains", type=int, default=16)
    options = parser.parse_args()
    if not options.to.parent.is_dir():  # said before the work, not after it
        parser.error(f"there is no directory {str(options.to.parent)!r}")
    return len(write(options.to, options.draws, options.chains)) > 0


if __name__ == "__main__":
    sys.exit(main())
