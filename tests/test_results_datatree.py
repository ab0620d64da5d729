"""The DataTree: groups, coordinates, and log likelihoods that ArviZ can leave one out with.

That these leave one out exactly is in tests/exact/test_predict.py.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.results.datatree import pointwise, to_datatree

RUN = {"draws": 30, "tune": 60, "chains": 2, "rng": 1}


@pytest.fixture(scope="module")
def galaxy():
    data = nm.datasets.load_galaxy().iloc[::4]
    return nm.fit("velocity_km_s ~ 1", data.set_index("v" + data.index.astype(str)), **RUN)


@pytest.fixture(scope="module")
def regression():
    return nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), prior=nm.NGGP(), **RUN)


def test_groups_and_coordinates(galaxy):
    pytest.importorskip("xarray")
    tree = galaxy.to_datatree()
    assert set(tree.children) == {"posterior", "sample_stats", "log_likelihood", "observed_data"}
    assert set(tree["posterior"].data_vars) == {"n_clusters", "mass", "labels"}
    for name, array in tree["posterior"].data_vars.items():
        np.testing.assert_array_equal(array, galaxy.draws[name])
        assert array.dims[:2] == ("chain", "draw")
    assert tree["posterior"]["labels"].dims == ("chain", "draw", "obs")
    np.testing.assert_array_equal(tree["sample_stats"]["lp"], galaxy.draws["log_joint"])
    frame = galaxy.model.frame
    assert list(tree["observed_data"]["obs"].values) == list(frame.index) and frame.index[0].startswith("v")
    np.testing.assert_array_equal(tree["observed_data"]["velocity_km_s"], frame.response[:, 0])
    assert tree.attrs["seed"] == "1" and tree.attrs["method"] == "gibbs"
    assert tree.attrs["inference_library_version"] == nm.__version__
    assert tree["log_likelihood"]["y"].shape == (2, 30, len(frame.index))
    assert "log_likelihood" not in to_datatree(galaxy, log_likelihood=False).children


def test_groups_of_density_regression(regression):
    pytest.importorskip("xarray")
    tree = to_datatree(regression, log_likelihood=False)
    posterior, frame = tree["posterior"], regression.model.frame
    assert {"mass", "sigma", "width", "A", "labels", "locations"} - {"width"} <= set(posterior.data_vars)
    assert posterior["A"].dims == ("chain", "draw", "location") and posterior["locations"].dims == ("chain", "draw", "obs")
    np.testing.assert_array_equal(posterior["A"], regression.draws["A"])
    np.testing.assert_array_equal(tree["constant_data"]["times_ms"], frame.covariates[:, 0])


def test_codes_of_sparse_products():
    pytest.importorskip("xarray")
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"y": rng.normal(size=20), "x": rng.random(20), "g": rng.choice(["a", "b"], 20)})
    fit = nm.fit("y ~ x + g", data, draws=3, tune=2, chains=2, rng=1)
    posterior = fit.to_datatree()["posterior"]
    assert posterior["codes"].dims == ("chain", "draw", "location", "covariate")
    assert posterior["inclusion"].dims == ("chain", "draw", "covariate") and list(posterior["covariate"].values) == ["x", "g"]
    assert posterior["shrinkage"].shape == (2, 3, len(fit.model.frame.input_names))
    for name in ("codes", "inclusion", "shrinkage", "noise_scale"):
        np.testing.assert_array_equal(posterior[name], fit.draws[name])
    assert "covariate" not in nm.fit("y ~ x", data, draws=2, tune=2, chains=1, rng=1).to_datatree()["posterior"].coords


def test_names_that_xarray_does_not_allow():
    pytest.importorskip("xarray")
    data = pd.DataFrame({"obs": [1.0, 2.0, 4.0, 3.0], "b": [1.0, 5.0, 2.0, 2.0]}, index=[0, 0, 1, 2])
    fit = nm.fit("obs + I(b / 2) ~ 1", data, draws=2, tune=2, chains=1, rng=1)
    observed = fit.to_datatree()["observed_data"]
    assert [array.attrs["long_name"] for array in observed.data_vars.values()] == list(fit.model.frame.response_names)
    np.testing.assert_array_equal(observed["obs_"], data["obs"])
    np.testing.assert_array_equal(observed["obs"], np.arange(4))  # the caller's index has a value twice


@pytest.mark.parametrize("which", ["galaxy", "regression"])
def test_log_likelihood_is_that_of_the_random_density(which, request):
    """With one recorded draw the band is the density of the same drawn measure."""
    fit = request.getfixturevalue(which)
    one = nm.MCMCResult.__new__(nm.MCMCResult)
    one.__dict__ = dict(fit.__dict__)
    one.draws = type(fit.draws)({name: values[:1, :1].copy() for name, values in fit.draws.items()})
    np.testing.assert_allclose(np.exp(pointwise(one)[0, 0]), one.predict(kind="density", draws=1)["lower"], rtol=1e-9)


def test_without_xarray(galaxy, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match="pip install xarray"):
        galaxy.to_datatree()
