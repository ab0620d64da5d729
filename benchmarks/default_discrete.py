"""How the defaults of Poisson, Bernoulli, Categorical and Multinomial were chosen: held-out log density on a few problems each.

Rows are held out in random tenths; the regret of a candidate is its distance from the best on each problem, in nats an observation,
of documents in nats a word.
`python -m benchmarks.default_discrete` takes about five minutes on two cores.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm

FOLDS = {"Poisson": 5, "Bernoulli": 5, "Categorical": 5, "Multinomial": 3}


def classes(rng: np.random.Generator, n: int, parameters: np.ndarray) -> np.ndarray:
    """Rows of the parameters (classes, d), classes of unequal weight."""
    weights = 0.6 ** np.arange(len(parameters))
    return parameters[rng.choice(len(parameters), size=n, p=weights / weights.sum())]


def digits(threshold: int | None = None) -> pd.DataFrame:
    images = nm.datasets.load_digits().iloc[::5].reset_index(drop=True)
    pixels = images[[f"p{row}{column}" for row in range(1, 7) for column in range(2, 6)]]
    return pixels if threshold is None else (pixels > threshold).astype(int)


def pages(part: slice) -> Any:
    return nm.datasets.load_reuters().counts[part]


def poisson_problems() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    levels = classes(rng, 250, np.array([[1.0], [6.0], [25.0]]))
    visits = nm.datasets.simulate_mixed(300, 4, 2)[0][["visits", "months"]]
    rates = classes(rng, 250, rng.gamma(0.7, 5.0, size=(6, 4)))
    return {
        "pixels": digits(), "one column": pd.DataFrame(rng.poisson(levels)), "visits a month": visits,
        "four columns": pd.DataFrame(rng.poisson(rates)), "overdispersed": pd.DataFrame(rng.poisson(rng.gamma(0.8, 6.0, size=(250, 1)))),
    }


def poisson(data: pd.DataFrame, shape: float) -> nm.Poisson:
    return nm.Poisson(shape, exposure="months" if "months" in data else None)


def bernoulli_problems() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {
        "pixels": digits(7),
        "five columns": pd.DataFrame(rng.random((300, 5)) < classes(rng, 300, rng.beta(0.5, 0.5, size=(4, 5)))).astype(int),
        "twenty rare": pd.DataFrame(rng.random((300, 20)) < classes(rng, 300, rng.beta(0.3, 5.0, size=(5, 20)))).astype(int),
        "one column": pd.DataFrame(rng.random((200, 1)) < 0.2).astype(int),
    }


def bernoulli(data: pd.DataFrame, kind: str, strength: float) -> nm.Bernoulli:
    if kind == "even":
        return nm.Bernoulli(strength / 2, strength / 2)
    share = ((data.sum() + 0.5) / (len(data) + 1)).to_numpy()
    return nm.Bernoulli(strength * share, strength * (1 - share))


def categorical_problems() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    iris = nm.datasets.load_iris()
    quarters = iris.drop(columns="species").apply(lambda column: pd.qcut(column, 4, labels=False, duplicates="drop"))

    def drawn(n: int, sizes: tuple[int, ...], concentration: float) -> pd.DataFrame:
        label, columns = classes(rng, n, np.arange(5)), {}
        for j, L in enumerate(sizes):
            shares = rng.dirichlet(np.full(L, concentration), size=5)
            columns[j] = (rng.random((n, 1)) > np.cumsum(shares, axis=1)[label, :-1]).sum(axis=1)
        return pd.DataFrame(columns)

    return {
        "iris": quarters.assign(species=iris["species"]), "four columns": drawn(300, (2, 3, 5, 10), 0.5),
        "many levels": drawn(300, (20, 20, 20), 0.3), "even shares": drawn(300, (4, 4, 4), 2.0),
    }


def categorical(data: pd.DataFrame, kind: str, strength: float) -> dict[str, nm.Categorical]:
    of = {
        "each": lambda column: strength, "total": lambda column: strength / column.nunique(),
        "share": lambda column: strength * column.value_counts(normalize=True).sort_index().to_numpy(),
    }
    return {str(name): nm.Categorical(of[kind](data[name])) for name in data}


def multinomial_problems() -> dict[str, Any]:
    problems = {"reuters": pages(slice(0, 395)), "reuters, 100": pages(slice(0, 400, 4))}
    try:
        z = np.load(nm.datasets.external("nips_uci_gt20.npz"))
    except FileNotFoundError:
        return problems
    from scipy.sparse import csr_array

    return problems | {"nips, 300": csr_array((z["counts"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"]))[::5]}


def multinomial(data: Any, concentration: float) -> nm.Multinomial:
    return nm.Multinomial(concentration)


FAMILIES: dict[str, tuple[Callable[[], dict[str, Any]], Callable[..., Any], list[tuple[Any, ...]]]] = {
    "Poisson": (poisson_problems, poisson, [(s,) for s in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)]),
    "Bernoulli": (bernoulli_problems, bernoulli, [(kind, s) for kind in ("even", "share") for s in (0.25, 0.5, 1.0, 2.0, 4.0)]),
    "Categorical": (
        categorical_problems, categorical, [(kind, s) for kind in ("each", "total", "share") for s in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)],
    ),
    "Multinomial": (multinomial_problems, multinomial, [(s,) for s in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)]),
}


def score(task: tuple[str, str, tuple[Any, ...], int]) -> float:
    name, problem, candidate, fold = task
    problems, make, _ = FAMILIES[name]
    data = problems()[problem]
    n = data.shape[0]
    out = np.zeros(n, bool)
    out[np.random.default_rng(fold).choice(n, n // 10, replace=False)] = True
    run: dict[str, Any] = {"draws": 400, "tune": 200, "chains": 1, "cores": 1, "rng": fold}
    if not isinstance(data, pd.DataFrame):
        run |= {"draws": 50, "tune": 50}
        fit = nm.fit(None, data[~out], family=make(data, *candidate), **run)
        return float(fit.log_density(data[out]).sum() / data[out].sum())
    data.columns = data.columns.map(str)
    fit = nm.fit(None, data[~out], family=make(data[~out], *candidate), **run)
    test = data[out]
    for column in test:  # a level that no training row has
        if name == "Categorical":
            test = test[test[column].isin(data[~out][column])]
    return float(fit.log_density(test).mean())


def run(families: list[str]) -> None:
    tasks = [
        (name, problem, candidate, fold)
        for name in families for problem in FAMILIES[name][0]() for candidate in FAMILIES[name][2] for fold in range(FOLDS[name])
    ]
    with ProcessPoolExecutor(2) as pool:
        values = dict(zip(tasks, pool.map(score, tasks, chunksize=4), strict=True))
    for name in families:
        rows = {
            " ".join(map(str, candidate)): {
                problem: np.mean([values[name, problem, candidate, fold] for fold in range(FOLDS[name])]) for problem in FAMILIES[name][0]()
            }
            for candidate in FAMILIES[name][2]
        }
        wide = pd.DataFrame(rows).T
        regret = wide.max() - wide
        wide["mean regret"], wide["worst regret"] = regret.mean(axis=1), regret.max(axis=1)
        with pd.option_context("display.width", 160, "display.float_format", "{:.3f}".format):
            sys.stdout.write(f"\n{name}\n{wide.sort_values('mean regret').to_string()}\n")


if __name__ == "__main__":
    run(sys.argv[1:] or list(FAMILIES))
