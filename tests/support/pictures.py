"""Short fits of every class of model, and how tests of pictures find artists."""

from functools import cache

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot

import nrmmix as nm

RUN = {"draws": 30, "tune": 10, "chains": 2, "rng": 1, "cores": 1}
FEW = {"draws": 20, "points": 15}


@cache
def table():
    rng = np.random.default_rng(1)
    values = pd.DataFrame(rng.normal(size=(40, 8)), columns=[*"abcdefg", "$_$"])
    return values.assign(x=rng.uniform(1, 5, 40), k=rng.integers(1, 4, 40), group=rng.choice(["red", "blue"], 40))


@cache
def fitted(name):
    """A fit of one of MODELS."""
    formula, options = MODELS[name]
    data = {"galaxy": nm.datasets.load_galaxy, "faithful": nm.datasets.load_faithful, "mcycle": nm.datasets.load_mcycle}.get(name, table)()
    return nm.fit(formula, data, **options, **RUN)


MODELS = {
    "galaxy": ("velocity_km_s ~ 1", {}),
    "faithful": ("eruptions_min + waiting_min ~ 1", {}),
    "mcycle": ("accel_g ~ times_ms", {}),
    "four": ("a + b + c + d ~ 1", {}),
    "seven": ("a + b + c + d + e + f + g ~ 1", {}),
    "nggp": ("a ~ 1", {"prior": nm.NGGP()}),
    "fixed": ("a ~ 1", {"prior": nm.DirichletProcess(1.0)}),
    "dollars": ("Q('$_$') ~ log(x)", {}),
    "width": ("a ~ x", {"kernel": nm.SquaredExponential(nm.LogNormal(-2, 1))}),
    "spline": ("a ~ bs(x, df=4)", {}),
    "levels": ("a ~ group", {}),
    "counted": ("a ~ C(k)", {}),
    "two_responses": ("a + b ~ x", {}),
    "plane": ("a ~ x + b", {"kernel": nm.SquaredExponential([nm.LogNormal(-1, 1), 0.2])}),
    "mixed": ("a + b ~ x + group", {}),
    "three": ("a ~ b + c + x", {}),
}


@pytest.fixture(autouse=True)
def leaves_nothing():
    """No figure stays open."""
    figures = pyplot.get_fignums()
    yield
    assert pyplot.get_fignums() == figures


def labelled(ax, label):
    (artist,) = [child for child in ax.get_children() if child.get_label() == label]
    return artist


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def flat(axes):
    return list(np.ravel(np.array(axes, dtype=object)))


def vertices(band):
    return {*band.get_paths()[0].vertices[:, 1]}
