"""Large, small and extreme numbers change nothing that they should not; interrupts at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.bad_input import SHORT
from support.cover import by_turns

import nrmmix as nm

# --------------------------------------------------------------------------------------------------- numbers

MORE = {"draws": 200, "tune": 100, "chains": 2, "rng": 1, "progress": False}


def clustered(n=40, seed=5):
    """Two groups and a covariate, with few binary digits, so that powers of two and offsets up to 2^20 lose nothing."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n) + 6.0 * (np.arange(n) % 2)
    return np.round(y * 1024) / 1024, rng.permutation(n) / 64


@pytest.mark.filterwarnings("ignore::nrmmix.ConvergenceWarning")
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x"])
@pytest.mark.parametrize(("offset", "scale"), by_turns([(2.0**20, 1.0), (0.0, 2.0**-27), (0.0, 2.0**27), (-(2.0**20), 0.5)]))
def test_units_change_no_label(formula, offset, scale):
    """Offsets of 10^6, scales of 10^-8 and 10^8, of responses and covariates: all labels are equal, not only their law.

    Defaults follow the data and covariates are scaled, so that the kernels see the same numbers but for the rounding of the mean and the
    variance, and no label of these draws is that close to another.
    """
    y, x = clustered()
    here = nm.fit(formula, {"y": y, "x": x}, **MORE)
    there = nm.fit(formula, {"y": offset + scale * y, "x": offset + scale * x}, **MORE)
    np.testing.assert_array_equal(there.draws["labels"], here.draws["labels"])


@pytest.mark.filterwarnings("ignore::nrmmix.ConvergenceWarning")
def test_noise_on_a_large_offset_keeps_the_partition():
    """10^6 + noise of any digits: rounding tells the chains apart, and who shares a cluster with row 0 agrees within Monte Carlo error."""
    y, _ = clustered()
    run = MORE | {"draws": 400, "chains": 8}

    def shares(data):
        labels = nm.fit(None, data, **run).draws["labels"]
        return (labels[..., 1:] == labels[..., :1]).mean(axis=1)  # (chains, n - 1)

    a, b = shares(1e-3 * y * np.pi), shares(1e6 + 1e-3 * y * np.pi)
    error = (a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / run["chains"]
    # if all rows moved together the ratio would be F with 1 and 14 degrees of freedom, else it is closer to 1
    assert ((a.mean(axis=0) - b.mean(axis=0)) ** 2).mean() < 16 * error.mean()


@pytest.mark.filterwarnings("ignore:.*quartile ranges away:UserWarning")
@pytest.mark.parametrize("distance", by_turns([1e6, 1e12], 2, 1))
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x"])
def test_extreme_outliers_are_clusters_of_their_own(formula, distance):
    y, x = clustered()
    y[7] = distance * np.delete(y, 7).std()
    fit = nm.fit(formula, {"y": y, "x": x}, family=nm.Gaussian(m=3.0, scale=0.5), **MORE | {"draws": 50})
    labels = fit.draws["labels"]
    assert np.isfinite(fit.draws["log_joint"]).all()
    assert (np.delete(labels, 7, axis=-1) != labels[..., 7:8]).all()
    assert np.isfinite(fit.predict()).all().all() and np.isfinite(fit.log_density()).all()


@pytest.mark.filterwarnings("ignore:.*quartile ranges away:UserWarning")
def test_extreme_outliers_with_the_defaults():
    """The default scale follows the others': the outlier is a cluster, and the two groups are told apart as without it."""
    y, _ = clustered()
    y[7] = 1e12
    labels = nm.fit(None, y, **MORE).draws["labels"]
    assert (np.delete(labels, 7, axis=-1) != labels[..., 7:8]).all()
    together = (labels[..., :1] == labels).mean(axis=(0, 1))
    assert together[8::2].mean() > 0.5 > 0.05 > together[1::2].mean()


# ------------------------------------------------------------------------------------------------- interrupts

CHILD = """
import sys, time
print("ready", flush=True)
try:
    import nrmmix as nm
    run = dict(tune=50, chains=2, rng=1, progress=False)
    fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=200_000, thin=5, **run)
    kept = fit.draws.n_draws
    assert fit.interrupted and kept > 0
    assert all(values.shape[:2] == (2, kept) for values in fit.draws.values())
    assert (fit.draws["labels"].max(axis=-1) + 1 == fit.draws["n_clusters"]).all()
    assert (abs(fit.draws["log_joint"]) < 1e6).all()
    outcome = "fit"
except KeyboardInterrupt:
    outcome = "KeyboardInterrupt"
import nrmmix as nm
again = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=5, tune=5, chains=2, rng=1, progress=False)
assert not again.interrupted and again.draws.n_draws == 5
print(outcome, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are those of POSIX")
@pytest.mark.parametrize(("first", "last"), by_turns([(0.02, 0.3), (0.3, 0.6), (0.6, 0.9), (0.9, 1.4), (1.4, 2.2), (2.2, 3.0)], 3))
def test_an_interrupt_at_any_moment(first, last):
    """During imports, the start and the sampling: a clean KeyboardInterrupt, or a fit of what was drawn; the next fit works.

    Which of the two depends on the machine; `test_inference_sampling.py` has a fit that is interrupted while it samples.
    """
    nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), **SHORT | {"chains": 2})  # compiled, for the child to load
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", CHILD], text=True, **pipes) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            time.sleep(np.random.default_rng(8).uniform(first, last))
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == 0, err
    assert "Traceback" not in err
    assert out.strip() in ("fit", "KeyboardInterrupt")
