"""Small tables, models and fits to which something bad is given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm

N = 12
SHORT = {"draws": 3, "tune": 1, "chains": 1, "rng": 1, "progress": False}


def table(**columns):
    """Twelve rows: responses y and z, a covariate x, text g; columns may be replaced or added."""
    rng = np.random.default_rng(0)
    base = {"y": rng.normal(size=N), "z": rng.normal(size=N), "x": np.linspace(0.0, 1.0, N), "g": ["a", "b", "c"] * (N // 3)}
    return pd.DataFrame(base | columns)


def model(formula="y ~ x", data=None, **options):
    return nm.Model(formula, table() if data is None else data, **options)


def fit(formula="y ~ 1", data=None, **run):
    options = {name: run.pop(name) for name in ("family", "prior", "kernel", "missing") if name in run}
    return nm.fit(formula, table() if data is None else data, **options, **SHORT | run)


def with_value(column, row, value):
    data = table()
    data[column] = data[column].astype(object)
    data.loc[row, column] = value
    return data


class Foreign:
    """A table of another library."""

    def __init__(self, result):
        self.result = result

    def to_pandas(self):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def check(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert type(caught.value) is error
