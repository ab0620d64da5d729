"""Running chains: seeds, starts, interrupts, limits and errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import nrmmix as nm
from nrmmix.common.seeds import seed_sequence


@pytest.fixture(scope="module")
def galaxy():
    return nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())


@pytest.fixture(scope="module")
def mcycle():
    return nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle(), kernel=nm.Box(0.2), prior=nm.NGGP())


SMALL = {"draws": 30, "tune": 20, "chains": 2}


def same(a, b):
    return all(np.array_equal(a.draws[name], b.draws[name]) for name in a.draws)


@pytest.mark.parametrize("name", ["galaxy", "mcycle"])
def test_a_seed_repeats_itself_whatever_the_cores(name, request):
    model = request.getfixturevalue(name)
    first = model.fit(rng=3, cores=1, **SMALL)
    assert same(first, model.fit(rng=3, cores=2, **SMALL))
    assert not same(first, model.fit(rng=4, **SMALL))
    assert first.seed == 3


def test_drawn_entropy_is_kept(galaxy):
    fit = galaxy.fit(**SMALL)
    assert same(fit, galaxy.fit(rng=fit.seed, **SMALL))


def test_generators_and_sequences(galaxy):
    sequence = np.random.SeedSequence(5)
    first = galaxy.fit(rng=sequence, **SMALL)
    assert sequence.n_children_spawned == 0
    assert same(first, galaxy.fit(rng=sequence, **SMALL))
    a, b = (galaxy.fit(rng=np.random.default_rng(9), **SMALL) for _ in range(2))
    assert same(a, b)
    assert seed_sequence(np.random.default_rng(1)).entropy != seed_sequence(np.random.default_rng(2)).entropy


def test_numpy_global_generator_is_untouched(galaxy):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    galaxy.fit(rng=1, **SMALL).predict()
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_shapes(galaxy, mcycle):
    fit = galaxy.fit(rng=1, **SMALL)
    assert set(fit.draws) == {"n_clusters", "log_joint", "mass", "sigma", "labels", "scale"} and fit.draws["scale"].shape == (2, 30, 1)
    assert fit.draws["labels"].shape == (2, 30, 82) and fit.draws["labels"].dtype == np.int32
    assert all(fit.draws[name].shape == (2, 30) for name in ("n_clusters", "log_joint", "mass", "sigma"))
    np.testing.assert_array_equal(fit.draws["labels"].max(axis=-1) + 1, fit.draws["n_clusters"])
    fit = mcycle.fit(rng=1, **SMALL)
    learnt = {"shrinkage": (2, 30, 2), "noise_scale": (2, 30, 1)}
    assert set(fit.draws) == {"n_clusters", "log_joint", "mass", "sigma", "width", "A", "labels", "locations", *learnt}
    assert {name: fit.draws[name].shape for name in learnt} == learnt
    assert fit.draws["A"].shape == (2, 30, 94) and fit.draws["locations"].shape == (2, 30, 133)
    assert (fit.draws["width"] == 0.2).all()
    fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), prior=nm.NGGP(), rng=1, **SMALL)
    assert fit.draws["u"].shape == (2, 30)
    with pytest.raises(ValueError, match="read-only"):
        fit.draws["mass"][0, 0] = 1.0
    with pytest.raises(KeyError, match="did you mean 'mass'"):
        fit.draws["mas"]


def test_labels_are_numbered_by_first_appearance(mcycle):
    labels = mcycle.fit(rng=1, **SMALL).draws.flat("labels")
    for row in labels:
        first = np.unique(row, return_index=True)[1]
        assert (np.diff(first) > 0).all()


def test_members_are_in_reach_of_their_location(mcycle):
    fit = mcycle.fit(rng=1, **SMALL)
    x = mcycle.grid.values[mcycle.grid.group, 0]
    at = mcycle.grid.locations[fit.draws["locations"], 0]
    assert (np.abs(x - at) / np.ptp(x) < 0.2).all()


def test_thinning_keeps_every_nth(galaxy):
    every = galaxy.fit(rng=2, draws=40, tune=10, chains=1)
    third = galaxy.fit(rng=2, draws=13, tune=10, thin=3, chains=1)
    np.testing.assert_array_equal(third.draws["labels"][0], every.draws["labels"][0, 2::3][:13])


def test_starts(galaxy):
    n = galaxy.n_obs
    one = galaxy.fit(init="one", draws=1, tune=0, chains=1, rng=1)
    given = galaxy.fit(init=np.full(n, 7), draws=1, tune=0, chains=1, rng=1)
    assert same(one, given)
    each = galaxy.fit(init="each", draws=1, tune=0, chains=1, rng=1)
    assert each.draws["n_clusters"][0, 0] > 1
    both = galaxy.fit(init=np.stack([np.zeros(n, int), np.arange(n)]), draws=1, tune=0, chains=2, rng=1)
    assert both.draws["labels"].shape == (2, 1, n)


@pytest.mark.parametrize("kernel", [nm.Box(0.2), nm.SquaredExponential(0.05)])
def test_starts_of_a_regression(kernel):
    data = nm.datasets.load_mcycle()
    model = nm.Model("accel_g ~ times_ms", data, kernel=kernel)
    for init in ("sequential", "each"):
        assert model.fit(init=init, draws=2, tune=2, chains=1, rng=1).draws["n_clusters"].min() >= 1
    if isinstance(kernel, nm.Box):
        with pytest.raises(ValueError, match=r"no location of Box.*reaches together"):
            model.fit(init="one", draws=2, tune=0, chains=1, rng=1)
    else:
        assert model.fit(init="one", draws=2, tune=2, chains=1, rng=1).draws.n_draws == 2


def test_a_start_whose_components_are_used_up_says_so():
    few = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle(), prior=nm.FiniteMixture(3), kernel=nm.Box(0.1))
    with pytest.raises(ValueError, match=r"row \d+ entered when all 3 components .* none reaches it through Box"):
        few.fit(draws=2, tune=2, chains=1, rng=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "draws must be an integer of at least 1, not 0"),
        ({"draws": 2.5}, "draws must be an integer"),
        ({"draws": True}, "draws must be an integer"),
        ({"tune": -1}, "tune must be an integer of at least 0"),
        ({"thin": 0}, "thin must be"),
        ({"chains": 0}, "chains must be"),
        ({"cores": 0}, "cores must be"),
        ({"time_limit": 0}, "time_limit must be greater than 0"),
        ({"method": "gibs"}, "did you mean 'gibbs'"),
        ({"method": 3}, "method must be a name or a move"),
        ({"init": "random"}, "init must be one of 'sequential', 'one', 'each'"),
        ({"init": None}, "labels, or fits of the same rows, not None"),
        ({"init": [0, 1]}, "init"),
        ({"init": np.zeros((3, 82), int), "chains": 2}, "labels for 3 chains but chains=2"),
        ({"init": np.full(82, 0.5)}, "init"),
        ({"rng": -1}, "rng must be a non-negative int"),
        ({"rng": "seed"}, "rng must be a non-negative int"),
    ],
)
def test_arguments_are_checked(galaxy, options, message):
    with pytest.raises(ValueError, match=message):
        galaxy.fit(**({"draws": 2, "tune": 0, "chains": 1} | options))


def test_unknown_run_argument(galaxy):
    with pytest.raises(TypeError, match="burnin"):
        galaxy.fit(burnin=100)


def test_time_limit_keeps_the_draws(galaxy):
    started = time.perf_counter()
    fit = galaxy.fit(draws=10_000_000 // 82, tune=0, chains=2, time_limit=0.3, rng=1)
    assert time.perf_counter() - started < 30
    assert fit.interrupted and 0 < fit.draws.n_draws < 10_000_000 // 82
    assert (fit.draws["n_clusters"] > 0).all() and fit.draws["labels"].shape[1] == fit.draws.n_draws


def test_interrupt_keeps_the_draws(galaxy):
    """Ctrl-C in the main thread while the chains run."""
    galaxy.fit(draws=2, tune=0, rng=1)
    timer = threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    fit = galaxy.fit(draws=100_000, tune=0, chains=2, rng=1)
    timer.join()
    assert fit.interrupted and 0 < fit.draws.n_draws < 100_000
    full = galaxy.fit(draws=50, tune=0, chains=2, rng=1)
    kept = min(50, fit.draws.n_draws)
    np.testing.assert_array_equal(fit.draws["labels"][:, :kept], full.draws["labels"][:, :kept])


def test_interrupt_before_the_first_draw(galaxy):
    galaxy.fit(draws=2, tune=0, rng=1)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        galaxy.fit(draws=2, tune=10_000_000, chains=1, rng=1)
    timer.join()


def test_progress_goes_to_stderr(galaxy, capsys):
    galaxy.fit(rng=1, progress=True, **SMALL)
    out, err = capsys.readouterr()
    assert out == "" and "2 chains: 100%" in err
    galaxy.fit(rng=1, **SMALL)
    assert capsys.readouterr().err == ""


def test_growth_of_the_arrays_changes_nothing(monkeypatch):
    """Many clusters from little room: the same draws as with room for all from the start."""
    X = np.random.default_rng(0).normal(size=(60, 1))
    model = nm.Model(data=X, prior=nm.DirichletProcess(30.0))
    small = model.fit(init="one", rng=5, **SMALL)
    assert small.draws["n_clusters"].max() > 24
    monkeypatch.setattr("nrmmix.model.pack.layout.capacity", lambda n_clusters: 120)
    assert same(small, model.fit(init="one", rng=5, **SMALL))


@pytest.mark.filterwarnings("ignore:.*quartile ranges away")
def test_extreme_outliers_and_offsets():
    rng = np.random.default_rng(1)
    y = np.concatenate([rng.normal(size=40), [1e9, -1e12]])
    fit = nm.Model(data=y[:, None], family=nm.Gaussian(m=0, r=0.1, nu=3, scale=1)).fit(rng=1, **SMALL)
    assert np.isfinite(fit.draws["log_joint"]).all()
    assert (fit.draws["labels"][..., -1] != fit.draws["labels"][..., 0]).all()


@pytest.mark.parametrize(("offset", "scale"), [(1e6, 1e-2), (0.0, 1e-8), (-1e3, 1e8)])
@pytest.mark.parametrize("d", [1, 3])
def test_units_do_not_matter(offset, scale, d):
    """Default priors are scale-equivariant: the same seed gives the same partitions in other units."""
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(size=(20, d)), 4 + rng.normal(size=(20, d))])
    # powers of two and few digits, so that shifting loses nothing
    X = np.round(X * 1024) / 1024
    here = nm.Model(data=X).fit(rng=1, **SMALL)
    there = nm.Model(data=offset + scale * X).fit(rng=1, **SMALL)
    np.testing.assert_array_equal(here.draws["labels"], there.draws["labels"])


def test_import_is_light():
    """`import nrmmix` alone loads no package, as the import of NumPy must not be cut short; a fit loads no pyplot, no statsmodels.api."""
    code = (
        "import sys, nrmmix as nm; "
        "heavy = [m for m in ('numpy', 'numba', 'pandas', 'matplotlib', 'statsmodels', 'scipy') if m in sys.modules]; "
        "assert not heavy, heavy; "
        "nm.fit('velocity_km_s ~ 1', nm.datasets.load_galaxy(), draws=2, tune=0, chains=1, rng=1); "
        "heavy = [m for m in ('matplotlib.pyplot', 'statsmodels.api') if m in sys.modules]; assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("formula", "prior"),
    [("y ~ 1", nm.NGGP(1e5, 0.5)), ("y ~ x", nm.DirichletProcess(1e5)), ("y ~ 1", nm.NGGP(nm.LogNormal(0, 6))),
     ("y ~ 1", nm.DirichletProcess(nm.LogNormal(0, 50)))],
)
def test_extreme_masses_end(formula, prior):
    """The start of v is far from where the posterior has it: the slice steps find back, and v neither under- nor overflows."""
    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=30), "x": rng.uniform(size=30)}
    fit = nm.fit(formula, data, prior=prior, rng=1, **SMALL)
    assert np.isfinite(fit.draws["log_joint"]).all()
    for name in {"u", "v"} & set(fit.draws):
        assert (fit.draws[name] > 0).all() and np.isfinite(fit.draws[name]).all()


def test_a_time_limit_reaches_every_chain(galaxy):
    """More chains than threads: all of them advance in turns."""
    fit = galaxy.fit(draws=400_000, tune=0, chains=3, cores=1, time_limit=1.5, rng=1)
    assert fit.interrupted and fit.draws.n_chains == 3 and fit.draws.n_draws > 0


def test_a_time_limit_before_the_first_draw_gives_a_fit_that_goes_on(galaxy):
    run = {"draws": 10, "tune": 3000, "chains": 2, "rng": 1}
    fit = galaxy.fit(time_limit=1e-3, **run)
    assert fit.interrupted and fit.draws.n_draws == 0 and fit.draws["labels"].shape == (2, 0, 82)
    with pytest.raises(ValueError, match=r"has no draws: it was stopped before the first one; fit\.extend\(\) goes on"):
        fit.predict()
    assert same(fit.extend(10), galaxy.fit(**run))


def test_seeds_of_spawned_sequences_and_generators_repeat(galaxy):
    for rng in (np.random.SeedSequence(5).spawn(3)[2], np.random.default_rng(4)):
        fit = galaxy.fit(rng=rng, **SMALL)
        assert isinstance(fit.seed, int)
        assert same(fit, galaxy.fit(rng=fit.seed, **SMALL))
    first, second = np.random.SeedSequence(5).spawn(2)
    assert galaxy.fit(rng=first, **SMALL).seed != galaxy.fit(rng=second, **SMALL).seed


# ---- going on


@pytest.mark.parametrize("name", ["galaxy", "mcycle"])
def test_an_extended_fit_is_the_longer_fit(name, request):
    model = request.getfixturevalue(name)
    run = {"tune": 13, "thin": 3, "chains": 2, "rng": 8}
    whole = model.fit(draws=70, cores=1, **run)
    parts = model.fit(draws=9, **run).extend(1).extend(60)
    assert same(whole, parts)
    assert (parts.moved, parts.tune, parts.thin, parts.seed) == (whole.moved, 13, 3, 8)


@pytest.mark.parametrize("prior", [nm.DirichletProcess(), nm.NGGP()])
def test_an_interrupted_fit_goes_on_where_it_stopped(galaxy, prior):
    model = nm.Model(galaxy.formula, galaxy.frame.source, prior=prior)
    run = {"tune": 5, "thin": 3, "chains": 2, "rng": 8}
    stopped = model.fit(draws=10**5, time_limit=0.3, **run)
    assert stopped.interrupted
    more = stopped.extend(4).extend(30)
    assert not more.interrupted
    assert same(more, model.fit(draws=stopped.draws.n_draws + 34, **run))


def test_an_interrupt_while_extending_loses_nothing(galaxy):
    fit = galaxy.fit(draws=5, tune=5, chains=2, rng=3)
    longer = fit.extend(10**6, time_limit=1e-9)
    assert longer.interrupted and longer.draws.n_draws >= 5
    for key, values in fit.draws.items():
        np.testing.assert_array_equal(longer.draws[key][:, :5], values)
    assert same(longer.extend(3), galaxy.fit(draws=longer.draws.n_draws + 3, tune=5, chains=2, rng=3))


@pytest.mark.parametrize("options", [{"draws": 0}, {"draws": 2.5}, {"draws": 3, "cores": 0}, {"draws": 3, "time_limit": -1}])
def test_arguments_of_extend_are_checked(galaxy, options):
    fit = galaxy.fit(draws=5, tune=5, chains=2, rng=3)
    with pytest.raises(ValueError, match=next(name for name, value in options.items() if value != 3)):
        fit.extend(**options)


def test_draws_that_memory_cannot_hold(galaxy):
    with pytest.raises(ValueError, match=r"draws=1000000000000 of 4 chains would take .* GB, and this machine has"):
        galaxy.fit(draws=10**12)


# ---- the warning


def test_chains_that_do_not_agree_give_a_warning(mcycle):
    with pytest.warns(nm.ConvergenceWarning, match=r"Curves: chains differ.* Clusters: do not trust .* Run longer: tune=") as caught:
        fit = mcycle.fit(draws=100, tune=0, chains=2, rng=1)
    assert caught[0].filename == __file__
    with pytest.warns(nm.ConvergenceWarning):
        fit.extend(1)


def test_chains_that_agree_and_short_trials_give_none(galaxy, mcycle):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nm.Model(galaxy.formula, galaxy.frame.source, prior=nm.DirichletProcess(1.0)).fit(draws=3000, tune=200, rng=1)
        mcycle.fit(draws=99, tune=0, chains=2, rng=1)
