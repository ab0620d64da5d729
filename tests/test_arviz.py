"""Fits in the ArviZ that is installed, InferenceData or DataTree: summaries, leave-one-out, pictures, files.

What is handed over is in tests/test_results_datatree.py, that its log likelihoods leave one out in tests/exact/test_predict.py.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm

with warnings.catch_warnings():  # of what ArviZ itself imports, and of its own plans
    warnings.simplefilter("ignore")
    az = pytest.importorskip("arviz")

OLD = az.__version__.startswith("0.")
pytestmark = pytest.mark.filterwarnings("ignore")  # of ArviZ, and of large Pareto k
N = 40
RUN = {"draws": 60, "tune": 60, "chains": 2, "rng": 1}
FITS = {
    "mixture": ("y ~ 1", None, {"n_clusters", "mass"}),
    "several families": ("y + n + g ~ 1", {"y": nm.Gaussian(), "n": nm.Poisson(), "g": nm.Categorical()}, {"n_clusters", "mass"}),
    "density regression": ("y ~ x", None, {"shrinkage[x]", "noise_scale[y]"}),
    "factor": ("y ~ x + g", None, {"inclusion[x]", "inclusion[g]", "shrinkage[g[T.low]]"}),
    "censored": ("Surv(log(t), event) ~ x", None, {"noise_scale[log(t)]"}),
    "censored counts": ("interval(n, upper) ~ 1", nm.Poisson(), {"n_clusters", "mass"}),
}


@pytest.fixture(scope="module", params=by_turns(FITS))
def handed(request):
    """A fit, what ArviZ gets of it, and parameters that its summary must have."""
    rng = np.random.default_rng(1)
    data = pd.DataFrame({
        "y": rng.normal(size=N), "x": rng.random(N), "g": rng.choice(["high", "low"], N), "n": rng.poisson(3.0, N),
        "t": rng.exponential(size=N), "event": rng.integers(0, 2, N),
    }, index=range(100, 100 + N))
    data["upper"] = np.where(rng.random(N) < 0.2, np.inf, data["n"])
    formula, family, parameters = FITS[request.param]
    fit = nm.fit(formula, data, family=family, **RUN)
    return fit, fit.to_arviz(), parameters


def test_summary_has_parameters_by_name_and_nothing_of_rows(handed):
    fit, data, parameters = handed
    table = az.summary(data, round_to=8) if OLD else az.summary(data, round_to="none")
    names = {str(name) for name in table.index}
    assert parameters <= names and not any(name.startswith(("labels", "locations", "theta", "codes", "imputed")) for name in names)
    assert float(table.loc["mass", "mean"]) == pytest.approx(fit.draws["mass"].mean(), abs=1e-6)


def test_leave_one_out_is_that_of_the_fit(handed):
    fit, data, _ = handed
    found, own = az.loo(data, pointwise=True), fit.loo()
    elpd = float(found.elpd_loo if OLD else found.elpd)
    assert elpd == pytest.approx(own.elpd, abs=0.2 * own.se)
    assert len(found.pareto_k) == N


@pytest.mark.nightly
def test_pictures_are_drawn(handed):
    fit, data, _ = handed
    names, before = fit.model.frame.response_names, np.random.get_state()  # noqa: NPY002 - which ArviZ picks replicates by
    if OLD:
        axes = np.atleast_1d(az.plot_ppc(data, num_pp_samples=10))
        assert [ax.get_xlabel().split("\n")[0] for ax in axes.ravel()[: len(names)]] == list(names)
        assert len(az.plot_trace(data)) >= 2 and len(np.atleast_1d(az.plot_rank(data)).ravel()) >= 2
    else:
        assert az.plot_ppc_dist(data, num_samples=10) is not None
        assert az.plot_trace(data) is not None and az.plot_rank(data) is not None
    plt.close("all")
    np.random.set_state(before)  # noqa: NPY002


@pytest.mark.skipif(not any(map(find_spec, ("h5netcdf", "netCDF4"))), reason="no library for netCDF: ArviZ 1.0 brings none")
def test_files_hold_all_groups(handed, tmp_path):
    _, data, _ = handed
    data.to_netcdf(tmp_path / "fit.nc")
    again = az.from_netcdf(tmp_path / "fit.nc")
    groups = set(again.groups() if OLD else again.children)
    assert groups == set(data.groups() if OLD else data.children) >= {"posterior", "latent", "posterior_predictive", "log_likelihood"}
    np.testing.assert_array_equal(again["posterior"]["mass"], data["posterior"]["mass"])
