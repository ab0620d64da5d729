"""Searches: arguments and models that are refused."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from support.search_models import model_of, scattered

import nrmmix as nm
from nrmmix.inference.search.grower import STARTS

# ---- arguments


@pytest.mark.parametrize(
    ("options", "name"),
    [({"draws": 999}, "draws"), ({"tune": 5}, "tune"), ({"thin": 2}, "thin"), ({"chains": 3}, "chains"), ({"cores": 2}, "cores"),
     ({"init": "one"}, "init"), ({"init": np.zeros(9, int)}, "init")],
)
def test_arguments_of_chains_are_refused(options, name):
    with pytest.raises(ValueError, match=f"{name} belongs to chains, and ibhc is a search"):
        model_of(scattered(9)).fit("ibhc", **options)


def test_defaults_are_no_arguments():
    """What is at its default is not taken for something that the user gave."""
    run = {name: p.default for name, p in inspect.signature(nm.Model.fit).parameters.items() if name not in ("self", "method")}
    assert run["draws"] == "auto" and run["init"] == "spread"
    assert model_of(scattered(9)).fit("ibhc", **run | {"rng": 1}).n_clusters >= 1


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (nm.IBHC, r"method is the class IBHC; make an object of it, nm\.IBHC\(\)"),
        ([nm.IBHC(), nm.Gibbs()], "a search runs alone"),
        ("ibch", "unknown method 'ibch'; .*'ibhc', .*; did you mean 'ibhc'"),
    ],
)
def test_methods_that_are_refused(method, message):
    with pytest.raises(ValueError, match=message):
        model_of(scattered(9)).fit(method)


def test_options_that_are_refused(monkeypatch):
    for kind in (nm.BHC, nm.IBHC):
        with pytest.raises(ValueError, match="passes must be an integer of at least 1, not 0"):
            kind(passes=0)
    assert str(nm.IBHC(passes=3)) == "IBHC(passes=3)" and str(nm.BHC()) == "BHC()"
    with pytest.raises(ValueError, match="time_limit must be greater than 0"):
        model_of(scattered(9)).fit("bhc", time_limit=-1)
    monkeypatch.setattr("nrmmix.inference.search.options.MAX_ROWS", 8)
    with pytest.raises(ValueError, match=r"nm\.BHC\(\): it compares all pairs of rows, and 9 rows have 4e\+01 pairs.*nm\.IBHC\(\)"):
        model_of(scattered(9)).fit("bhc")
    monkeypatch.setattr("nrmmix.inference.search.grower.MAX_BANK", 8)
    with pytest.raises(ValueError, match="the statistics of the tree's 9 nodes would take"):
        model_of(scattered(9)).fit("ibhc")
    with pytest.raises(ValueError, match='init="ibhc": the statistics of the tree'):
        model_of(scattered(9)).fit(init="ibhc")


@pytest.fixture
def unsuited():
    frame = pd.DataFrame({"y": scattered(30)[:, 0], "x": np.linspace(0, 1, 30)})
    return {
        "density regression": nm.Model("y ~ x", frame),
        "parameters that are integrated out": nm.Model(
            "y ~ 1", frame, family=nm.SemiconjugateGaussian(mean=(0.0, 9.0), precision=nm.Gamma(1.0, 1.0))
        ),
    }


def test_models_that_searches_do_not_suit(unsuited):
    for why, model in unsuited.items():
        for method in ("bhc", "ibhc"):
            with pytest.raises(ValueError, match=why):
                model.fit(method)
            assert why in model.methods().loc[method, "reason"] and not model.methods().loc[method, "suits"]
        for init in STARTS:
            with pytest.raises(ValueError, match=f'init="{init}": .*{why}.*; other starts are "sequential", "one", "each" or labels'):
                model.fit(init=init)
