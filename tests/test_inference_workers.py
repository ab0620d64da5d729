"""Chains on the workers of a cluster: the draws are those of threads, whatever becomes of a worker."""

import os
import signal
import threading

import numpy as np
import pytest

import nrmmix as nm
from nrmmix.inference.mcmc import workers
from nrmmix.inference.mcmc.workers import Cluster, Threads, workers_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of the libraries of the cluster, and of short chains


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="dask.distributed has the clusters")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="1GB", host="127.0.0.1",
    ) as cluster, distributed.Client(cluster) as client:
        yield client


def galaxy():
    return nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())


def motorcycle():
    return nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle())


def same(one, other):
    assert set(one.draws) == set(other.draws)
    for name in one.draws:
        np.testing.assert_array_equal(one.draws[name], other.draws[name])
    for a, b in zip(one.run.checkpoints, other.run.checkpoints, strict=True):
        assert a.iteration == b.iteration and a.generator == b.generator


RUNS = {
    "auto": (galaxy, {}),
    "tree, from a tree": (galaxy, {"method": "tree", "draws": 40, "tune": 20, "init": "ibhc"}),
    "parameters that are drawn": (
        lambda: nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy(), family=nm.SemiconjugateGaussian()),
        {"draws": 60, "tune": 40, "thin": 3},
    ),
    "regression": (motorcycle, {"draws": 60, "tune": 40, "init": "each"}),
    "missing cells": (
        lambda: nm.Model("x + y ~ 1", {"x": [0.0, 0.1, 5.0, np.nan, 5.2], "y": [1.0, 1.2, np.nan, 0.9, 4.0]}, missing="marginalize"),
        {"draws": 50, "tune": 20},
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.nightly if name == "auto" else ()) for name in RUNS])
def test_a_cluster_changes_no_bit(name, client):
    model, run = RUNS[name]
    run = {"chains": 3, "rng": 4} | run
    there = model().fit(**run, cores=client)
    assert not there.interrupted
    same(model().fit(**run, cores=2), there)


@pytest.mark.nightly
def test_a_worker_that_dies_changes_no_bit(client):
    model, run = motorcycle(), {"draws": 800, "tune": 200, "chains": 2, "rng": 1}
    wanted = model.fit(**run)
    victim = next(iter(client.run(os.getpid).values()))
    killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
    killer.start()
    same(wanted, model.fit(**run, cores=client))
    killer.join()
    assert victim not in client.run(os.getpid).values()


@pytest.mark.nightly
def test_a_worker_that_dies_before_the_first_sweep_is_not_waited_for(client, monkeypatch):
    model, run = motorcycle(), {"draws": 20, "tune": 10, "chains": 2, "rng": 1}
    wanted = model.fit(**run)
    victim = next(iter(client.run(os.getpid).values()))
    monkeypatch.setattr(workers, "prepared", lambda given: os.kill(victim, signal.SIGKILL) if os.getpid() == victim else None)
    same(wanted, model.fit(**run, cores=client))
    assert victim not in client.run(os.getpid).values()


@pytest.mark.nightly
def test_a_limit_of_time_and_an_extension(client):
    model = motorcycle()
    model.fit(draws=1, tune=1, chains=2, rng=1, cores=client)  # workers that are busy otherwise load kernels longer than a second
    begun = model.fit(draws=10**6, tune=20, chains=2, rng=1, time_limit=2.0, cores=client)
    assert begun.interrupted and begun.run.stopped == "time limit" and begun.draws.n_draws > 0
    whole, longer = model.fit(draws=begun.draws.n_draws + 20, tune=20, chains=2, rng=1), begun.extend(20, cores=client)
    for name in whole.draws:
        np.testing.assert_array_equal(whole.draws[name], longer.draws[name])
    assert min(point.iteration for point in longer.run.checkpoints) == whole.run.checkpoints[0].iteration  # the other may be ahead


@pytest.mark.nightly
def test_an_iteration_that_takes_too_long_is_given_up(client):
    """One sweep of these rows takes seconds: the chains stay where they were."""
    y = np.random.default_rng(1).normal(size=(400_000, 4))
    fit = nm.fit(None, y, method="gibbs", init="one", draws=10**6, tune=0, chains=1, rng=1, time_limit=0.2, cores=client, store="scalars")
    assert fit.interrupted and fit.run.checkpoints[0].iteration <= 1


def test_what_is_no_worker_is_refused(client):
    assert isinstance(workers_of(2, 4, None), Threads) and workers_of(2, 4, None).size == 2
    assert isinstance(workers_of(client, 4, nm.inference.mcmc.cycle.Cycle((nm.Gibbs(),))), Cluster)
    with pytest.raises(ValueError, match=r"cores= is a Client, and what PublishedTreeGuided\(\) keeps .* does not travel; give threads"):
        galaxy().fit("tree_published", cores=client)
    with pytest.raises(ValueError, match="cores must be an integer of at least 1, not 'threads'"):
        galaxy().fit(cores="threads")


@pytest.mark.nightly
def test_a_client_that_is_closed_is_refused():
    distributed = pytest.importorskip("distributed", reason="dask.distributed has the clusters")
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        client = distributed.Client(cluster)
        client.close()
    with pytest.raises(ValueError, match="cores= is a Client that is closed: its scheduler cannot be reached; connect a new one"):
        galaxy().fit(cores=client)
