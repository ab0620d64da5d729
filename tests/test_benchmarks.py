"""Benchmarks run; nothing is asserted about time."""

import importlib
import re

import pytest

import nrmmix as nm

NAMES = [
    "burn_in", "default_discrete", "default_regression", "default_scale", "families", "floor", "galaxy", "gibbs", "motorcycle", "slice",
    "split_merge", "startup",
]


@pytest.mark.parametrize("name", NAMES)
def test_modules_can_be_imported(name):
    assert importlib.import_module(f"benchmarks.{name}").__doc__


def test_a_sweep_against_its_floor(capsys, monkeypatch):
    from benchmarks import gibbs

    monkeypatch.setattr(gibbs, "data_sets", lambda: {"small": nm.datasets.simulate_mixture(4000, dim=2, n_clusters=5, rng=1)[:2]})
    gibbs.run()
    assert re.search(r"small +ours +\d+\.\d+ ms +floor +\d+\.\d+ ms .* ratio \d+\.\d+", capsys.readouterr().out)
