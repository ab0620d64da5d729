"""The DataTree: groups, coordinates, and log likelihoods that ArviZ can leave one out with.

That these leave one out exactly is in tests/exact/test_predict.py.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

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
    assert list(tree.children) == ["posterior", "sample_stats", "observed_data", "latent", "posterior_predictive", "log_likelihood"]
    assert set(tree["posterior"].data_vars) == {"n_clusters", "mass", "scale"} and set(tree["latent"].data_vars) == {"labels"}
    for name, array in [*tree["posterior"].data_vars.items(), *tree["latent"].data_vars.items()]:
        np.testing.assert_array_equal(array, galaxy.draws[name])
        assert array.dims[:2] == ("chain", "draw")
    assert tree["latent"]["labels"].dims == ("chain", "draw", "obs")
    np.testing.assert_array_equal(tree["sample_stats"]["lp"], galaxy.draws["log_joint"])
    frame = galaxy.model.frame
    assert list(tree["observed_data"]["obs"].values) == list(frame.index) and frame.index[0].startswith("v")
    np.testing.assert_array_equal(tree["observed_data"]["velocity_km_s"], frame.response[:, 0])
    assert tree.attrs["seed"] == "1" and tree.attrs["method"] == "gibbs"
    assert tree.attrs["inference_library_version"] == nm.__version__
    assert tree["log_likelihood"]["y"].shape == (2, 30, len(frame.index))
    assert not {"log_likelihood", "posterior_predictive"} & {*galaxy.to_datatree(False, False).children}


def test_groups_of_density_regression(regression):
    pytest.importorskip("xarray")
    tree = to_datatree(regression, False, False)
    latent, frame = tree["latent"], regression.model.frame
    assert {"mass", "sigma"} <= set(tree["posterior"].data_vars) and {"A", "labels", "locations"} <= set(latent.data_vars)
    assert latent["A"].dims == ("chain", "draw", "location") and latent["locations"].dims == ("chain", "draw", "obs")
    np.testing.assert_array_equal(latent["A"], regression.draws["A"])
    np.testing.assert_array_equal(tree["constant_data"]["times_ms"], frame.covariates[:, 0])


def test_codes_of_sparse_products():
    pytest.importorskip("xarray")
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"y": rng.normal(size=20), "x": rng.random(20), "g": rng.choice(["a", "b"], 20)})
    fit = nm.fit("y ~ x + g", data, draws=3, tune=2, chains=2, rng=1)
    tree = fit.to_datatree()
    posterior, latent = tree["posterior"], tree["latent"]
    assert latent["codes"].dims == ("chain", "draw", "location", "covariate") and list(latent["covariate"].values) == ["x", "g"]
    assert posterior["inclusion"].dims == ("chain", "draw", "covariate") and list(posterior["covariate"].values) == ["x", "g"]
    assert posterior["shrinkage"].shape == (2, 3, len(fit.model.frame.input_names))
    assert list(posterior["shrinkage_of"].values) == list(fit.model.frame.input_names) and list(posterior["noise_scale_of"].values) == ["y"]
    for name in ("codes", "inclusion", "shrinkage", "noise_scale"):
        np.testing.assert_array_equal((latent if name == "codes" else posterior)[name], fit.draws[name])
    assert list(tree["constant_data"]["g_level"].values) == list(data["g"]) and tree["constant_data"]["g"].attrs["levels"] == ["a", "b"]
    assert "covariate" not in nm.fit("y ~ x", data, draws=2, tune=2, chains=1, rng=1).to_datatree()["posterior"].coords


def test_names_that_xarray_does_not_allow():
    pytest.importorskip("xarray")
    data = pd.DataFrame({"obs": [1.0, 2.0, 4.0, 3.0], "b": [1.0, 5.0, 2.0, 2.0]}, index=[0, 0, 1, 2])
    fit = nm.fit("obs + I(b / 2) ~ 1", data, draws=2, tune=2, chains=1, rng=1)
    observed = fit.to_datatree()["observed_data"]
    assert [array.attrs["long_name"] for array in observed.data_vars.values()] == list(fit.model.frame.response_names)
    np.testing.assert_array_equal(observed["obs_"], data["obs"])
    np.testing.assert_array_equal(observed["obs"], np.arange(4))  # the caller's index has a value twice


def test_names_that_are_those_of_coordinates():
    pytest.importorskip("xarray")
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(20, 3)), columns=["draw", "draw_", "chain"]).assign(c=["u", "v"] * 10)
    data["c_level"] = rng.normal(size=20)
    fit = nm.fit("draw + draw_ ~ chain + c + c_level", data, **RUN | {"draws": 3, "tune": 3})
    tree = fit.to_datatree(log_likelihood=False)
    for group in ("observed_data", "posterior_predictive"):
        names = {name: one.attrs["long_name"] for name, one in tree[group].data_vars.items()}
        assert names == {"draw_": "draw", "draw__": "draw_"}
    given = tree["constant_data"]
    for name, column in (("chain_", "chain"), ("c_level", "c_level")):
        np.testing.assert_array_equal(given[name], data[column])
    assert given["c_level_"].to_numpy().tolist() == data["c"].tolist()


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


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"y": rng.normal(size=24), "n": rng.poisson(3.0, 24), "g": rng.choice(["low", "high"], 24)}, index=range(100, 124))
    families = {"y": nm.Gaussian(), "n": nm.Poisson(), "g": nm.Categorical()}
    return data, nm.fit("y + n + g ~ 1", data, family=families, draws=40, tune=40, chains=2, rng=1)


def test_levels_and_replicates(mixed):
    pytest.importorskip("xarray")
    data, fit = mixed
    tree = fit.to_datatree()
    observed, drawn = tree["observed_data"], tree["posterior_predictive"]
    assert list(observed["g_level"].values) == list(data["g"]) and observed["g_level"].dims == ("obs",)
    assert set(drawn.data_vars) == {"y", "n", "g"} and drawn["y"].shape == (2, 40, 24) and list(drawn["obs"].values) == list(data.index)
    assert set(np.unique(drawn["g"])) == {0, 1} and drawn["g"].attrs["levels"] == ["high", "low"]
    n = np.asarray(drawn["n"])
    assert (n >= 0).all() and (n == np.floor(n)).all()
    table = fit.simulate(draws=80)  # the same seeds: of each draw in turn one replicate
    np.testing.assert_array_equal(np.asarray(drawn["y"]).ravel(), table["y"])
    means = np.asarray(drawn["n"]).mean(axis=(0, 1))
    assert abs(means.mean() - data["n"].mean()) < 4 * data["n"].std() / np.sqrt(24)


def test_cells_by_name():
    pytest.importorskip("xarray")
    data = pd.DataFrame({"a": np.arange(12.0), "b": np.arange(12.0) % 5}, index=[f"r{i}" for i in range(12)])
    data.iloc[[2, 7], 1] = np.nan
    fit = nm.fit("a + b ~ 1", data, missing="marginalize", draws=4, tune=4, chains=1, rng=1)
    latent = fit.to_datatree(False, False)["latent"]
    if "imputed" in fit.draws:
        assert list(latent["cell"].values) == ["b[r2]", "b[r7]"]


def test_censored_values_are_not_shown_as_seen():
    pytest.importorskip("xarray")
    data = pd.DataFrame({"t": [1.0, 2.0, 4.0, 8.0], "event": [1, 0, 1, 1], "z": [0.0, 1.0, 0.5, 2.0]})
    fit = nm.fit("Surv(log(t), event) + z ~ 1", data, draws=4, tune=4, chains=1, rng=1)
    observed = fit.to_datatree(False, False)["observed_data"]
    seen, log_t = np.array([True, False, True, True]), np.log(data["t"])
    assert set(observed.data_vars) == {"log(t)", "z"} and set(observed.coords) == {"obs", "log(t)_lower", "log(t)_upper"}
    np.testing.assert_array_equal(observed["log(t)"], np.where(seen, log_t, np.nan))
    np.testing.assert_array_equal(observed["log(t)_lower"], np.where(seen, np.nan, log_t))
    np.testing.assert_array_equal(observed["log(t)_upper"], np.where(seen, np.nan, np.inf))


def test_every_arviz_gets_what_it_works_on(galaxy, monkeypatch):
    pytest.importorskip("xarray")
    import xarray

    made = {}

    def inference_data(attrs, **groups):
        made.update(groups)
        return attrs

    for version, kind in (("0.23.1", dict), ("1.0.0", xarray.DataTree), ("1.3.0rc1", xarray.DataTree)):
        monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(__version__=version, InferenceData=inference_data))
        assert isinstance(galaxy.to_arviz(), kind)
    assert {"posterior", "posterior_predictive", "log_likelihood", "observed_data"} <= made.keys()
    assert all(isinstance(group, xarray.Dataset) for group in made.values())
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(__version__="0.17.0"))
    with pytest.raises(ImportError, match=r"ArviZ 0\.17\.0 is too old for to_arviz, which needs 0\.20 or later"):
        galaxy.to_arviz()
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r'pip install "nrmmix\[arviz\]"'):
        galaxy.to_arviz()
