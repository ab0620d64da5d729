"""Censored responses against enumeration of all partitions, values that were not seen integrated out by quadrature within their limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from exact import priors
from exact.enumeration import KernelJoint, location_posterior, nrm_log_eppf, partitions, total_variation, z_score
from exact.marginals import normal_wishart_log_marginal
from exact.matrix import MOVES
from scipy import special, stats
from support.cover import by_turns, each_once, only
from support.global_moves import GlobalMoves
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.inference.mcmc import cycle
from nrmmix.kernels.core.clusters import copy_column, empty_column, fill_log_prior_predictive, update_column
from nrmmix.kernels.core.entry import STEP_T, entry
from nrmmix.kernels.core.state import DONE, OF_COLUMN, OF_ROW, Count
from nrmmix.kernels.moves.censoring import draw_cell

INF, NAN = np.inf, np.nan
CHAINS, DRAWS = 16, by_day(2_000)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)
MOST = 300  # of counts
PRIOR = nm.NGGP(0.8, 0.2)


class Case(NamedTuple):
    """A model of a few rows, ends (n, d, 2) between which its responses lie, and the log density of stacks (S, n, d) of some rows."""

    formula: str
    data: pd.DataFrame
    family: nm.Gaussian | nm.Regression | nm.Poisson
    ends: np.ndarray
    log_density: Callable[[np.ndarray, list[int]], np.ndarray]
    at: tuple[int, float]  # a row whose first response was not seen, and a value within its limits

    def model(self, prior: Any = PRIOR) -> nm.Model:
        return nm.Model(self.formula, self.data, family=self.family, prior=prior, missing="marginalize")


def nodes(lower: float, upper: float, counts: bool) -> tuple[np.ndarray, np.ndarray]:
    """Values between two ends and their weights."""
    if lower == upper:
        return np.array([lower]), np.ones(1)
    if counts:
        y = np.arange(lower, min(upper, MOST) + 1.0)
        return y, np.ones(len(y))
    u, w = (NODES + 1) / 2, WEIGHTS / 2
    if math.isinf(lower) and math.isinf(upper):
        return np.sinh(8 * NODES), 8 * WEIGHTS * np.cosh(8 * NODES)
    t, w = (u / (1 - u), w / (1 - u) ** 2) if math.isinf(upper - lower) else (u * (upper - lower), w * (upper - lower))
    return (upper - t if math.isinf(lower) else lower + t), w


def log_marginal(case: Case, ends: np.ndarray, rows: list[int]) -> float:
    """Log probability of some rows, the density where they were seen."""
    counts = isinstance(case.family, nm.Poisson)
    cells = [nodes(*pair, counts) for pair in ends[rows].reshape(-1, 2)]
    grid = np.meshgrid(*(y for y, _ in cells), indexing="ij")
    weight = math.prod(np.meshgrid(*(w for _, w in cells), indexing="ij")).ravel()
    stack = np.stack([y.ravel() for y in grid], axis=1).reshape(-1, len(rows), ends.shape[1])
    return float(special.logsumexp(case.log_density(stack, rows), b=weight))


def t_density(shape: Callable[[list[int]], np.ndarray], centre: Callable[[list[int]], np.ndarray], df: float) -> Any:
    return lambda y, rows: np.atleast_1d(stats.multivariate_t.logpdf(y[..., 0], centre(rows), shape(rows), df=df))


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def seen(*values: float) -> np.ndarray:
    return np.array(values, float)[:, None].repeat(2, axis=1)


@cache
def cases() -> dict[str, Case]:
    t = np.array([-1.2, -0.4, 0.1, 1.4, 1.1])
    event = np.array([1, 0, 1, 1, 0])
    ends = seen(*t)
    ends[event == 0, 1] = INF
    mixed = seen(*t)
    mixed[1], mixed[3] = (-INF, -0.4), (0.2, 1.4)
    z = np.array([0.3, 0.8, -0.4, NAN, 0.2])
    both = np.stack([seen(*t), seen(*z)], axis=1)
    both[3] = (0.2, 1.4), (-INF, INF)  # one is censored, and the other missing
    both[4, 0, 1] = INF
    x = np.linspace(-1.0, 1.0, 5)
    design, precision, b = np.stack([np.ones(5), x], axis=1), np.array([[0.5, 0.1], [0.1, 0.8]]), np.array([0.1, 0.5])
    counts = np.stack([np.array([1.0, 4.0, 0.0, 2.0, 7.0]), np.array([1.0, INF, 0.0, 5.0, 7.0])], axis=1)
    m, r, nu, S = np.array([0.2, 0.4]), 0.3, 4.0, np.array([[1.0, 0.3], [0.3, 1.5]])
    a, rate = 0.8, 0.3

    def poisson(y: np.ndarray, rows: list[int]) -> np.ndarray:
        total, n = y[..., 0].sum(axis=1), len(rows)
        logs = special.gammaln(a + total) - special.gammaln(a) + a * np.log(rate) - (a + total) * np.log(rate + n)
        return logs - special.gammaln(y[..., 0] + 1).sum(axis=1)

    def diagonal(y: np.ndarray, rows: list[int]) -> np.ndarray:
        n, total = len(rows), np.zeros(len(y))
        for j in range(2):
            total += stats.multivariate_t.logpdf(y[..., j], np.full(n, m[j]), S[j, j] / nu * (np.eye(n) + 1 / r), df=nu)
        return total

    among = design @ np.linalg.solve(precision, design.T)
    lines = t_density(lambda c: 0.8 / nu * (np.eye(len(c)) + among[np.ix_(c, c)]), lambda c: design[c] @ b, nu)
    one = t_density(lambda c: S[0, 0] / nu * (np.eye(len(c)) + 1 / r), lambda c: np.full(len(c), m[0]), nu)
    two = np.stack([mixed, seen(*np.nan_to_num(z, nan=0.9))], axis=1)
    scale = np.diag(S)
    return {
        "Gaussian, right-censored": Case(
            "Surv(t, event) ~ 1", frame(t=t, event=event), nm.Gaussian(m=m[:1], r=r, nu=nu, scale=S[:1, :1]), ends[:, None], one,
            (1, 0.3)),
        "Gaussian, full, a cell missing": Case(
            "interval(a, b) + z ~ 1", frame(a=both[:, 0, 0], b=both[:, 0, 1], z=z), nm.Gaussian(m=m, r=r, nu=nu, scale=S), both,
            lambda y, rows: normal_wishart_log_marginal(y, m, r, nu, S), (4, 2.0)),
        "Gaussian, diagonal": Case(
            "interval(a, b) + z ~ 1", frame(a=two[:, 0, 0], b=two[:, 0, 1], z=two[:, 1, 0]),
            nm.Gaussian("diagonal", m=m, r=r, nu=nu, scale=scale), two, diagonal, (1, -1.0)),
        "Regression": Case(
            "interval(a, b) ~ 1", frame(a=mixed[:, 0], b=mixed[:, 1], x=x),
            nm.Regression("1 + x", b=b, precision=precision, nu=nu, scale=0.8), mixed[:, None], lines, (3, 0.6)),
        "Poisson": Case(
            "interval(a, b) ~ 1", frame(a=counts[:, 0], b=counts[:, 1]), nm.Poisson(a, rate), counts[:, None], poisson, (1, 6.0)),
    }


@cache
def exact(name: str) -> tuple[dict[tuple[int, ...], float], float]:
    """Posterior of all partitions, and the probability that the value at `Case.at` is larger than it says."""
    case, n = cases()[name], len(cases()[name].data)
    beyond = case.ends.copy()
    beyond[case.at[0], 0, 0] = case.at[1]
    laws = []
    for ends in (case.ends, beyond):
        blocks = {c: log_marginal(case, ends, list(c)) for size in range(1, n + 1) for c in _subsets(n, size)}
        logs = {
            labels: nrm_log_eppf([labels.count(c) for c in range(max(labels) + 1)], 0.8, 0.2)
            + sum(blocks[tuple(i for i in range(n) if labels[i] == c)] for c in range(max(labels) + 1))
            for labels in partitions(n)
        }
        laws.append(logs)
    whole, part = (special.logsumexp(list(logs.values())) for logs in laws)
    return {labels: math.exp(value - whole) for labels, value in laws[0].items()}, math.exp(part - whole)


def _subsets(n: int, size: int) -> list[tuple[int, ...]]:
    return list(combinations(range(n), size))


def compared(
    case: Case, name: str, move: Any, rng: int, change: Callable[[nm.Model], None] = lambda model: None, draws: int = DRAWS,
) -> tuple[float, float, float]:
    """Distance of the partitions and the most that errors explain, and a z score of the value."""
    model = case.model()
    change(model)
    fit = model.fit(move, draws=draws, tune=200, chains=CHAINS, rng=rng)
    law, share = exact(name)
    rows = model.blocks.drawn(model.packed)[0]
    of_row = fit.draws["imputed"][..., int(np.flatnonzero(rows == case.at[0])[0])]
    beyond = of_row >= case.at[1] if isinstance(case.family, nm.Poisson) else of_row > case.at[1]
    return *total_variation(law, fit.draws["labels"], 5.0), z_score(beyond.astype(float), share)


@pytest.mark.parametrize(("name", "move"), by_turns(each_once(cases(), [name for name in MOVES if "subset" not in name]), 4))
def test_partitions_and_values(name, move):
    distance, limit, z = compared(cases()[name], name, MOVES[move], 3)
    assert limit < coarser(0.06), "too few draws to tell"
    assert distance < limit
    assert abs(z) < 4.5


@pytest.mark.parametrize("name", cases())
def test_values_lie_within_their_limits(name):
    case = cases()[name]
    model = case.model()
    fit = model.fit("gibbs", draws=200, tune=10, chains=2, rng=1)
    rows, responses = model.blocks.drawn(model.packed)
    lower, upper = np.moveaxis(case.ends[rows, responses], -1, 0)
    assert (fit.draws["imputed"] >= lower).all() and (fit.draws["imputed"] <= upper).all()
    assert (fit.draws["imputed"].std(axis=(0, 1)) > 0).all()


@entry(STEP_T)
def given_itself(data, state, rng):
    """Draws values from the predictive of a cluster that has the row and its old value."""
    K = state.num[Count.CLUSTERS]
    for c in range(data.censored.shape[0]):
        i, j = data.censored[c, OF_ROW], data.censored[c, OF_COLUMN]
        k, old = state.labels[i], data.rows.y[i, j]
        copy_column(state.stat, state.stat, 0, K)
        copy_column(state.stat, state.stat, k, 0)
        draw_cell(data, state, c, rng)
        new, data.rows.y[i, j] = data.rows.y[i, j], old
        copy_column(state.stat, state.stat, K, 0)
        update_column(data, state.stat, k, i, -1.0)
        data.rows.y[i, j] = new
        update_column(data, state.stat, k, i, 1.0)
    fill_log_prior_predictive(data, state)
    return DONE


@entry(STEP_T)
def alone(data, state, rng):
    """Draws values as those of rows that are alone, whatever their clusters hold."""
    K = state.num[Count.CLUSTERS]
    for c in range(data.censored.shape[0]):
        i, k = data.censored[c, OF_ROW], state.labels[data.censored[c, OF_ROW]]
        update_column(data, state.stat, k, i, -1.0)
        copy_column(state.stat, state.stat, 0, K)
        empty_column(data, state.stat, 0)
        draw_cell(data, state, c, rng)
        copy_column(state.stat, state.stat, K, 0)
        update_column(data, state.stat, k, i, 1.0)
    fill_log_prior_predictive(data, state)
    return DONE


def beyond(monkeypatch: Any, model: nm.Model) -> None:
    model.packed.limit[:, 0] -= 1.0


def patched(mutant: Any) -> Callable[[Any, nm.Model], None]:
    return lambda monkeypatch, model: monkeypatch.setattr(cycle.censoring, "update_censored", mutant)


@pytest.mark.parametrize("wrong", [beyond, patched(given_itself), patched(alone)], ids=["beyond the limits", "given itself", "alone"])
def test_values_drawn_wrongly_are_noticed(wrong, monkeypatch):
    name = "Gaussian, right-censored"
    distance, limit, z = compared(cases()[name], name, "gibbs", 3, lambda model: wrong(monkeypatch, model), max(DRAWS, 500))
    assert distance > 1.5 * limit or abs(z) > 8


# ---- density regression

X = np.array([0.0, 0.0, 1.0, 1.0])
LIMITS = np.array([[-0.6, -0.6], [0.5, INF], [-INF, 0.7], [-1.2, -1.2]])
SAMPLERS = {
    "gibbs": nm.Gibbs(), "split-merge, sequential": nm.SplitMerge(proposals=2, proposal="sequential"),
    "split-merge, restricted Gibbs": nm.SplitMerge(proposals=2, scans=1), "slice": nm.Slice(), "sngp": nm.SNGP(),
    "tree, blocks alone": GlobalMoves(global_moves=3, scan_share=0.0),
    "tree, scan alone": GlobalMoves(global_moves=3, scan_share=1.0, scans=2),
}


def of_one(y: np.ndarray, rows: list[int]) -> np.ndarray:
    return normal_wishart_log_marginal(y, **priors.FAMILY)


@pytest.mark.parametrize("move", only(SAMPLERS, "gibbs"))
def test_density_regression(move):
    data, K, group, kernel = priors.setting("se")
    assert np.array_equal(data["x"], X)
    table = frame(a=LIMITS[:, 0], b=LIMITS[:, 1], x=X)
    case = Case("interval(a, b) ~ x", table, nm.Gaussian(**priors.FAMILY), LIMITS[:, None], of_one, (1, 1.0))
    sigma = 0.0 if move == "sngp" else 0.3
    blocks = cache(lambda *block: log_marginal(case, case.ends, list(block)))
    joint = KernelJoint(K, group, 1.3, sigma, 161)
    law = location_posterior(joint, lambda block: blocks(*block))
    model = nm.Model(case.formula, case.data, family=case.family, kernel=kernel, prior=priors.nggp(sigma))
    fit = model.fit(SAMPLERS[move], draws=DRAWS, tune=300, chains=CHAINS, rng=5)
    distance, limit = total_variation(law, priors.states(fit), 6.0)
    assert limit < coarser(0.08), "too few draws to tell"
    assert distance < limit
