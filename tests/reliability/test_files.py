"""Files that are damaged or forged: one clear error each, within the memory that is allowed; and fits that keep less."""

from __future__ import annotations

import json
import resource
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from reliability.amount import note, times
from support.cover import by_turns

import nrmmix as nm
from nrmmix.common import machine

RUN = {"draws": 12, "tune": 6, "chains": 2, "rng": 3}


@pytest.fixture(scope="module")
def fit():
    return nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), **RUN)


@pytest.fixture(scope="module")
def saved(fit, tmp_path_factory):
    return fit.save(tmp_path_factory.mktemp("files") / "fit.npz")


def parts(path):
    with np.load(path) as archive:
        held = {name: archive[name] for name in archive.files}
    return json.loads(bytes(held.pop("header"))), held


def written(path, header, held):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    np.savez(path, header=np.frombuffer(text, np.uint8), **held)
    return path


def refused(path, **options):
    """The one error of a file, in one line of reasonable length, without a warning."""
    with pytest.raises(ValueError) as error:
        nm.load(path, **options)
    assert len(str(error.value)) < 700 and "\n" not in str(error.value) and path.name in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("version", [True, 0, -1, 6.0, "6", None, 1e30])
def test_versions_that_are_none(saved, tmp_path, version):
    header, held = parts(saved)
    assert "version cannot be right" in refused(written(tmp_path / "fit.npz", header | {"version": version}, held))


@pytest.mark.parametrize(("name", "value"), [
    ("tune", 1e30), ("tune", 10**30), ("tune", True), ("thin", 10**30), ("thin", 0), ("seed", -1), ("seed", 1.5), ("seconds", "x"),
    ("seconds", 1e400), ("interrupted", 1), ("goal", -3), ("goal", "forever"), ("goal", 10**30), ("time_limit", -1), ("store", "less"),
    ("most", 3),
])
def test_absurd_values_of_a_run(saved, tmp_path, name, value):
    header, held = parts(saved)
    header["run"][name] = value
    assert "damaged" in refused(written(tmp_path / "fit.npz", header, held))


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int8, np.float64])
def test_absurd_labels(saved, tmp_path, kind):
    for value in {np.int64: (2**62, -(2**62)), np.uint64: (2**63, 2**32), np.int8: (127, -1), np.float64: (1e30, np.nan)}[kind]:
        header, held = parts(saved)
        held["draws/labels"] = held["draws/labels"].astype(kind)
        held["draws/labels"][0, 0, 5] = value
        assert "damaged" in refused(written(tmp_path / "fit.npz", header, held))


def test_headers_that_nest(saved, tmp_path):
    _, held = parts(saved)
    for text in (b"[" * 10**6, b'{"a":' * 10**5 + b"1" + b"}" * 10**5, b"[]", b"3", b"\xff\xfe", b"{}"):
        assert "is no saved fit, or damaged" in refused(written(tmp_path / "fit.npz", text, held))
    header, held = parts(saved)
    nested = 1.0
    for _ in range(500):
        nested = [nested]
    header["model"]["prior"]["mass"] = nested
    assert "damaged" in refused(written(tmp_path / "fit.npz", header, held))


def test_sparse_counts_of_absurdly_many_columns(tmp_path):
    from scipy.sparse import csr_array

    counts = csr_array(np.random.default_rng(1).poisson(1.0, size=(20, 6)))
    fit = nm.Model(data=counts, family=nm.Multinomial()).fit(**RUN)
    header, held = parts(fit.save(tmp_path / "fit.npz"))
    header["data"]["shape"][1] = 50_000_000
    path = written(tmp_path / "wide.npz", header, held)
    tracemalloc.start()
    assert "would take more than 1 GB" in refused(path, max_bytes=1e9)
    assert "would take more than 16 GB" in refused(path)
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()
    assert nm.load(tmp_path / "fit.npz").draws.n_draws == 12


@pytest.mark.nightly
@pytest.mark.parametrize(("kernel", "wide"), by_turns([
    (nm.SquaredExponential(), "distances of 4000 values of 901 covariates from 50 locations in 4 widths would take 5.8 GB"),
    (None, "shape of the draws of codes"),  # tables of codes are made when they are asked for
]))
def test_formulas_of_absurdly_wide_bases(kernel, wide, tmp_path):
    rng = np.random.default_rng(0)
    data = {"x": rng.uniform(size=4000), "z": rng.uniform(size=4000), "y": rng.normal(size=4000)}
    fit = nm.fit("y ~ bs(x, df=4) + z", data, family=nm.Gaussian(), kernel=kernel, draws=1, tune=1, chains=1, rng=1)
    header, held = parts(fit.save(tmp_path / "fit.npz"))
    text, before = json.dumps(header), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for formula, why in {
        "bs(x, df=1000000)": "df is a whole number from 1 to 1000", "bs(x, df=10**6)": "not allowed",
        "te(bs(x, df=1000), bs(z, df=1000))": "makes up to 1000001 covariates, and there is room for 1000",
        "bs(x, df=999):bs(z, df=999)": "makes up to 998002 covariates",
        "te(bs(x, df=30), bs(z, df=30))": wide,
    }.items():
        forged = text.replace("bs(x, df=4)", formula).encode()
        assert forged != text.encode() and why in refused(written(tmp_path / "wide.npz", forged, held))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1e6, "kB"


def test_the_limit_counts_labels_as_they_are_kept(tmp_path):
    X = np.random.default_rng(1).normal(size=(3000, 1))
    fit = nm.Model(data=X).fit("gibbs", draws=40, tune=1, chains=2, rng=1)
    path = fit.save(tmp_path / "fit.npz")
    needed = fit.draws["labels"].nbytes
    assert "would take more than" in refused(path, max_bytes=needed)
    assert nm.load(path, max_bytes=4 * needed).draws["labels"].dtype == fit.draws["labels"].dtype
    for wrong in (0, -1, np.nan, "1e9", None):
        with pytest.raises(ValueError, match="max_bytes must be a number greater than 0"):
            nm.load(path, max_bytes=wrong)


def forged(header, held, rng):
    """A file with one thing changed, of any kind."""
    kind = rng.integers(6)
    if kind == 0:
        name = str(rng.choice(list(held)))
        held[name] = held[name][..., :-1] if held[name].ndim and held[name].shape[-1] else held[name]
    elif kind == 1:
        name = str(rng.choice(list(held)))
        held[name] = held[name].astype(rng.choice(["f4", "i8", "u1", "c16", "U3"]))
    elif kind == 2:
        del held[str(rng.choice(list(held)))]
    elif kind == 3:
        name = str(rng.choice([name for name in held if held[name].size]))
        flat = held[name].reshape(-1).copy()
        flat[rng.integers(len(flat))] = rng.choice([0, 1, 100]) if flat.dtype.kind in "biu" else rng.choice([np.nan, np.inf, -1.0, 1e300])
        held[name] = flat.reshape(held[name].shape)
    else:
        part = header
        while isinstance(part, (dict, list)) and part:
            keys = list(part) if isinstance(part, dict) else list(range(len(part)))
            key = keys[int(rng.integers(len(keys)))]
            if not isinstance(part[key], (dict, list)) or rng.random() < 0.2:
                part[key] = [None, -1, 10**30, 1e300, "x", [], {}, True][int(rng.integers(8))]
                break
            part = part[key]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_damaged_files_give_one_error_or_the_same_kind_of_fit(saved, tmp_path):
    rng, tried, found = np.random.default_rng(11), times(60, 1000), 0
    for _ in range(tried):
        header, held = parts(saved)
        forged(header, held, rng)
        path = written(tmp_path / "fit.npz", header, held)
        try:
            again = nm.load(path)
        except ValueError as error:
            found += 1
            assert len(str(error)) < 700
            continue
        assert again.extend(1, time_limit=5).draws.n_draws >= again.draws.n_draws
        again.predict(draws=3)
    assert found > tried / 3
    note(**{"damaged files": {"tried": tried, "refused": found, "other than one error": 0}})


# ---- memory


@pytest.fixture
def small_machine(monkeypatch):
    """A machine with so many bytes free."""

    def free(size):
        monkeypatch.setattr(machine, "available", lambda: float(size))

    return free


@pytest.mark.nightly
def test_labels_are_in_the_smallest_integers():
    X = np.random.default_rng(1).normal(size=(20_000, 1))
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0))
    few = nm.Gibbs(subset=200)  # of the rows in each sweep: what is kept of draws is looked at, not how they mix
    fit = model.fit(few, draws=120, tune=2, chains=4, rng=1)
    labels = fit.draws["labels"]
    assert labels.dtype == np.int8 and labels.max() + 1 == fit.draws["n_clusters"].max()
    small = model.fit(few, draws=10, tune=2, chains=4, rng=1)
    assert small.draws["labels"].dtype == np.int32
    np.testing.assert_array_equal(small.draws["labels"], labels[:, :10])
    many = nm.Model(data=X, prior=nm.DirichletProcess(200.0)).fit(few, draws=120, tune=0, chains=4, rng=1, init=np.arange(20_000) % 300)
    assert many.draws["labels"].dtype == np.int16 and many.draws["labels"].max() >= 128
    np.testing.assert_array_equal(many.draws["labels"].max(axis=2) + 1, many.draws["n_clusters"])
    longer = small.extend(110)
    assert longer.draws["labels"].dtype == np.int8
    np.testing.assert_array_equal(longer.draws["labels"], labels)


def test_draws_that_do_not_fit_are_refused_thinned_or_warned_of(small_machine):
    model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
    small_machine(1e6)
    with pytest.raises(ValueError, match=r"draws=9000 of 4 chains would take .* MB, and this machine has 1\.0 MB free; .*store="):
        model.fit(draws=9000, tune=1)
    with pytest.warns(UserWarning, match=r"draws=500 of 4 chains will take .* kB of the 1\.0 MB"):
        model.fit(draws=500, tune=1, rng=1)
    with pytest.warns(UserWarning, match="memory is short: of each chain at most"):
        fit = model.fit(tune=5, rng=1, time_limit=2.0)
    assert fit.draws.n_draws < 1000 and fit.thin > 1
    small_machine(1000)
    with pytest.raises(ValueError, match="4 draws of 4 chains would take"):
        model.fit()


def test_the_limit_of_a_control_group_counts(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("3000000000\n")
    (tmp_path / "memory.current").write_text("2500000000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 100000000\n")
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    assert machine.available() == min(6e8, machine.free())
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.left_in_group() == float("inf")


@pytest.mark.filterwarnings("ignore:memory is short:UserWarning")
def test_partitions_that_do_not_fit_are_thinned(small_machine):
    fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=100, tune=5, chains=2, rng=1)
    every = fit.partition(rng=1).labels
    small_machine(4 * 4 * 82 * 200 / 5)
    with pytest.warns(UserWarning, match="memory is short: of 200 draws every 5th is used"):
        assert fit.partition(rng=1).labels.shape == every.shape
    small_machine(1000)
    with pytest.raises(ValueError, match=r"200 partitions of 82 rows would take .* kB, and this machine has 1.0 kB free"):
        fit.partition(rng=1)


@pytest.mark.nightly
def test_a_million_rows_from_end_to_end():
    """Fit, partition and predictions, all by default, within 24 GiB."""
    rng = np.random.default_rng(1)
    z = rng.integers(0, 5, 10**6)
    X = rng.normal(size=(10**6, 2)) + 6 * rng.normal(size=(5, 2))[z]
    fit = nm.Model(data=X).fit(rng=1)
    assert fit.draws.n_draws > 0 and fit.draws["labels"].dtype == np.int8
    assert fit.partition(runs=2).labels.shape == (10**6,)
    assert np.isfinite(fit.predict(X[:1000], kind="density", at=X[:1], draws=20)).all(axis=None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert peak < 24 * 2**20, "kB"
    note(**{"10^6 x 2": {"draws of a chain": fit.draws.n_draws, "peak GiB": round(peak / 2**20, 2)}})


@pytest.mark.parametrize("formula", by_turns(["accel_g ~ 1", "accel_g ~ times_ms", "accel_g ~ times_ms + np.sin(times_ms)"], 3, 1))
def test_what_is_not_kept_is_said(formula, tmp_path):
    model = nm.Model(formula, nm.datasets.load_mcycle(), prior=nm.NGGP())
    whole = model.fit(**RUN)
    parameters = {"locations", "A", "shrinkage", "noise_scale", "codes", "inclusion"} & set(whole.draws)
    for store, without in (("partition", parameters), ("scalars", parameters | {"labels"})):
        fit = model.fit(store=store, **RUN)
        assert set(fit.draws) == set(whole.draws) - without
        for name in fit.draws:
            np.testing.assert_array_equal(fit.draws[name], whole.draws[name])
        again = nm.load(fit.save(tmp_path / "fit.npz"))
        np.testing.assert_array_equal(again.extend(4).draws["mass"], whole.extend(4).draws["mass"])
        pd.testing.assert_frame_equal(fit.diagnostics(), whole.diagnostics())
        fit.summary()
        if store == "partition":
            np.testing.assert_array_equal(fit.partition().labels, whole.partition().labels)
        if store == "scalars" or model.is_regression:
            with pytest.raises(ValueError, match=r"has no draws of .*: they were left out by store=; fit again without it"):
                fit.predict()
        if store == "scalars":
            with pytest.raises(ValueError, match="no draws of labels"):
                fit.partition()


@pytest.mark.nightly
def test_fits_in_one_process_do_not_grow_it():
    """Objects that the collector counts, and memory; the first fits fill caches."""
    import gc

    model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())

    def fits(count):
        for _ in range(count):
            model.fit(draws=5, tune=5, rng=1)
        gc.collect()
        generators = sum(issubclass(type(one), np.random.Generator) for one in gc.get_objects())  # not what weak references stand for
        return len(gc.get_objects()), generators, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    fits(20)
    count = times(40, 500)
    before, after = fits(5), fits(count)
    assert after[1] <= before[1] and after[0] - before[0] < 5 * count
    assert after[2] - before[2] < 4 * count + 2000, "kB"
    note(**{"fits in one process": {"tried": count, "kB each": round((after[2] - before[2]) / count, 2)}})
