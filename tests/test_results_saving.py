"""Saved fits: what is read is what was written, and nothing else is read."""

import json
import os
import pickle
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm
from nrmmix.common import files
from nrmmix.kernels.core import entry
from nrmmix.posterior.draws import Draws
from nrmmix.results import saving

RUN = {"draws": 12, "tune": 9, "thin": 2, "chains": 2, "rng": 5, "cores": 1}


def mcycle():
    table = nm.datasets.load_mcycle()
    table.index = pd.date_range("2020-01-01", periods=len(table), tz="Europe/Paris", name="day")
    table.loc[table.index[5], "times_ms"] = np.nan
    return table


def labelled():
    table = nm.datasets.load_iris()
    table.index = pd.MultiIndex.from_arrays([np.arange(150) % 3, [f"r{i}" for i in range(150)]], names=["plot", None])
    table["kind"] = pd.Categorical(table["species"], categories=["virginica", "setosa", "versicolor"], ordered=True)
    table["late"] = np.arange(150) > 75
    table["count"] = pd.array(np.arange(150) % 4, dtype="Int64")
    return table


MODELS = {
    "mixture": lambda: nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy()),
    "nggp": lambda: nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy(), prior=nm.NGGP(nm.LogNormal(0, 1), tau=2.5)),
    "fixed": lambda: nm.Model(
        "log_anc ~ 1", nm.datasets.load_acidity(), prior=nm.NormalizedInverseGaussian(0.3), family=nm.Gaussian(m=5, r=0.1, nu=3, scale=1)
    ),
    "array": lambda: nm.Model(data=nm.datasets.load_faithful().to_numpy()),
    "regression": lambda: nm.Model("accel_g ~ times_ms", mcycle()),
    "splines": lambda: nm.Model("np.log(accel_g + 200) ~ bs(times_ms, df=4)", mcycle(), kernel=nm.SquaredExponential(0.3)),
    "box": lambda: nm.Model("accel_g ~ times_ms", mcycle(), prior=nm.NGGP(), kernel=nm.Box(nm.LogNormal(-1, 0.5))),
    "levels": lambda: nm.Model("petal_length_cm ~ kind + late + C(count)", labelled()),
    "several": lambda: nm.Model(
        "petal_length_cm + petal_width_cm ~ center(sepal_length_cm) + species", labelled(),
        kernel=nm.Product(
            {"center(sepal_length_cm)": nm.SquaredExponential(0.1), "species": nm.Matching(nm.Beta(1, 4))},
            locations=[[-1, 0], [0, 2], [1, 1]],
        ),
    ),
}


@pytest.fixture(scope="module")
def fits():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return {name: make().fit(**RUN) for name, make in MODELS.items()}


@pytest.fixture(scope="module")
def saved(fits, tmp_path_factory):
    return fits["regression"].save(tmp_path_factory.mktemp("saved") / "fit.npz")


@pytest.mark.parametrize("name", by_turns(MODELS, 3))
def test_a_loaded_fit_is_the_fit(fits, name, tmp_path):
    fit = fits[name]
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert list(again.draws) == list(fit.draws)
    for key, values in fit.draws.items():
        assert again.draws[key].dtype == values.dtype
        np.testing.assert_array_equal(again.draws[key], values)
    assert str(again.model) == str(fit.model) and repr(again) == repr(fit)
    assert again.model.frame.index.equals(fit.model.frame.index)
    assert again.model.frame.index.names == fit.model.frame.index.names
    np.testing.assert_array_equal(again.model.frame.used, fit.model.frame.used)
    newdata = fit.model.frame.source.iloc[::7]
    if fit.model.frame.from_array:
        newdata = newdata.to_numpy()
    for rows in (None, newdata):
        pd.testing.assert_frame_equal(again.predict(rows, draws=8), fit.predict(rows, draws=8), check_exact=True)
        pd.testing.assert_series_equal(again.log_density(rows), fit.log_density(rows), check_exact=True)
    assert str(again.summary()) == str(fit.summary())
    assert (again.seed, again.method, again.tune, again.thin, again.moved) == (fit.seed, fit.method, fit.tune, fit.thin, fit.moved)


@pytest.mark.skipif(not entry.JIT, reason="nothing is compiled")
def test_loading_compiles_no_entry_points(fits, tmp_path, monkeypatch):
    """A chain that is read has moves, but runs none of them."""
    path = fits["regression"].save(tmp_path / "fit.npz")
    for move in fits["regression"].cycle.moves:
        assert move.entry.address
        monkeypatch.setattr(move.entry, "_compiled", None)
    asked = []
    monkeypatch.setattr(entry, "callback", lambda signature, function, **options: asked.append(function))
    nm.load(path)
    assert asked == []


@pytest.mark.parametrize("name", by_turns(["mixture", "nggp", "box", "several", "levels"]))
def test_a_loaded_fit_goes_on_as_if_never_stopped(fits, name, tmp_path):
    longer = fits[name].model.fit(**RUN | {"draws": 80})
    again = nm.load(nm.load(fits[name].save(tmp_path / "a.npz")).extend(3).save(tmp_path / "b.npz")).extend(65, cores=2)
    for key, values in longer.draws.items():
        np.testing.assert_array_equal(again.draws[key], values)
    assert again.moved == longer.moved


def test_draws_beyond_the_shortest_chain_are_kept(fits, tmp_path):
    fit = fits["regression"]
    longer = fit.model.fit(**RUN | {"draws": 20})
    ahead = longer.checkpoints[1]
    found = {name: longer.draws[key][1, 12:] for name, key in (("labels", "labels"), ("location", "locations"), ("A", "A"))}
    found["scalars"] = np.stack([longer.draws[key][1, 12:] for key in ("n_clusters", "log_joint", "mass", "sigma")], axis=-1)
    found["scalars"] = np.pad(found["scalars"], ((0, 0), (0, 1)), constant_values=1.0)  # the width that distances are measured in
    found["shared"] = np.concatenate([longer.draws[key][1, 12:] for key in ("shrinkage", "noise_scale")], axis=-1)
    spare = type(ahead.extra_draws)(**{
        name: found.get(name, np.zeros((8, *array.shape[1:]), array.dtype)) for name, array in ahead.extra_draws._asdict().items()
    })
    fit = nm.load(fit.save(tmp_path / "fit.npz"))
    fit.checkpoints = (fit.checkpoints[0], type(ahead)(ahead.iteration, ahead.generator, ahead.state, spare))
    again = nm.load(fit.save(tmp_path / "ahead.npz"))
    for step in (3, 10):  # fewer than are spare, and more
        again = nm.load(again.extend(step).save(tmp_path / "ahead.npz"))
    expected = fit.model.fit(**RUN | {"draws": 25}).draws
    for key, values in expected.items():
        np.testing.assert_array_equal(again.draws[key], values)


def test_nothing_is_pickled(saved):
    with np.load(saved, allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind in "biufM" for name in archive.files)


@pytest.mark.parametrize(
    "labels",
    [
        pd.period_range("2020-01", periods=82, freq="M"),
        pd.date_range("2020-01-01", periods=82, tz="dateutil/Europe/Berlin"),
        pd.Index([(i, "a") for i in range(82)], tupleize_cols=False),
    ],
    ids=["periods", "zone of dateutil", "tuples"],
)
def test_row_labels_that_files_lack_are_saved_as_text(labels, tmp_path):
    fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy().set_axis(labels), **RUN)
    with pytest.warns(UserWarning, match=r"row labels such as .* are saved as text"):
        path = fit.save(tmp_path / "fit.npz")
    assert nm.load(path).model.frame.index.tolist() == [str(label) for label in labels]


@pytest.mark.parametrize(
    "labels",
    [
        pd.interval_range(0.0, 82.0, closed="both"),
        pd.interval_range(pd.Timestamp("2020-01-01", tz="UTC"), periods=82),
        pd.timedelta_range("1h", periods=82),
        pd.Index(np.arange(82) / 3),
        pd.Index([True, False] * 41),
        pd.Index([1, "a"] * 41, name=3),
    ],
    ids=["intervals", "intervals of time", "timedeltas", "floats", "booleans", "mixed"],
)
def test_row_labels_of_many_types(labels, tmp_path):
    fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy().set_axis(labels), **RUN)
    again = nm.load(fit.save(tmp_path / "fit.npz")).model.frame.index
    assert again.equals(labels) and again.dtype == labels.dtype and again.name == labels.name


@pytest.mark.parametrize("levels", by_turns([
    pd.interval_range(0, 2), pd.date_range("2020-01-01", periods=2), pd.Index([2.5, 1.0]), pd.Index([True, False]),
]), ids=str)
def test_categories_of_many_types(levels, tmp_path):
    group = pd.Categorical.from_codes([0, 1] * 20, categories=levels)
    fit = nm.fit("y ~ group", {"y": np.arange(40.0), "group": group}, **RUN)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    new = pd.DataFrame({"group": group[:2]})
    pd.testing.assert_frame_equal(again.predict(new), fit.predict(new), check_exact=True)


def test_text_and_levels_that_do_not_occur_come_back(tmp_path):
    group = pd.Categorical.from_codes([0, 2] * 20, categories=["low", "middle", "high"], ordered=True)
    data = pd.DataFrame({"y": np.arange(40.0), "text": ["b", "a"] * 20, "group": group})
    fit = nm.fit("y ~ text + group", data, draws=3, tune=3, chains=1, rng=1)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    pd.testing.assert_frame_equal(again.augment(), fit.augment())
    assert again.predict(data[:4], rng=1).equals(fit.predict(data[:4], rng=1))


def test_categories_that_files_lack_are_refused(tmp_path):
    months = pd.Categorical(pd.period_range("2020-01", periods=2, freq="M").repeat(20))
    fit = nm.fit("y ~ month", {"y": np.arange(40.0), "month": months}, **RUN)
    with pytest.raises(TypeError, match=r"column 'month' has categories of type Period.*make them text or numbers"):
        fit.save(tmp_path / "fit.npz")
    assert not list(tmp_path.iterdir())


# ---- where it is written


def test_paths_that_cannot_be_written(fits, tmp_path):
    fit = fits["mixture"]
    with pytest.raises(ValueError, match=r"must end in \.npz, not .*fit\.pkl"):
        fit.save(tmp_path / "fit.pkl")
    with pytest.raises(TypeError, match="must be a string or a path, not 3"):
        fit.save(3)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        fit.save(tmp_path / "no" / "fit.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        fit.save(tmp_path / "folder.npz")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(fits, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="permission denied"):
        fits["mixture"].save(tmp_path / "fit.npz")
    tmp_path.chmod(0o700)


def test_a_write_that_fails_leaves_the_old_file(fits, tmp_path, monkeypatch):
    path = fits["mixture"].save(tmp_path / "fit.npz")
    before = path.read_bytes()
    monkeypatch.setattr(np, "savez_compressed", lambda file, **held: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fits["nggp"].save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_usual_permissions(tmp_path):
    with files.replaced(tmp_path / "a") as file:
        file.write(b"x")
    (tmp_path / "b").write_bytes(b"x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


# ---- what is refused


def rewritten(path, to, change):
    """A copy in which `change` has altered the header and the arrays."""
    with np.load(path) as archive:
        held = {name: archive[name] for name in archive.files}
    header = json.loads(bytes(held.pop("header")))
    change(header, held)
    np.savez(to, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **held)
    return to


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        nm.load(tmp_path / "fit.npz")
    with pytest.raises(IsADirectoryError, match="not a saved fit"):
        nm.load(tmp_path)


def test_files_of_another_kind(tmp_path):
    path = tmp_path / "fit.npz"
    for content in (b"", b"velocity\n1\n", pickle.dumps([1])):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is no saved fit, or damaged"):
            nm.load(path)
    np.savez(path, x=np.arange(3))
    with pytest.raises(ValueError, match="is no saved fit, or damaged"):
        nm.load(path)
    np.savez(path, header=np.array([{"format": "nrmmix fit"}], dtype=object))
    with pytest.raises(ValueError, match="is no saved fit, or damaged"):
        nm.load(path)


@pytest.mark.parametrize("version", [1, 5])
def test_formats_that_are_too_old(saved, tmp_path, version):
    path = rewritten(saved, tmp_path / "old.npz", lambda header, held: header.update(version=version, nrmmix="0.0.3"))
    with pytest.raises(ValueError, match=rf"written by nrmmix 0\.0\.3 in format {version}; .*from {saving.OLDEST} on: fit the model again"):
        nm.load(path)


def test_a_newer_format(saved, tmp_path):
    path = rewritten(saved, tmp_path / "new.npz", lambda header, held: header.update(version=saving.VERSION + 1, nrmmix="9.1"))
    here = saving.VERSION
    with pytest.raises(ValueError, match=rf"written by nrmmix 9\.1 in format {here + 1}; .*up to {here}: install a newer"):
        nm.load(path)


def test_truncated_files(saved, tmp_path):
    content, path = saved.read_bytes(), tmp_path / "fit.npz"
    for share in (0.1, 0.5, 0.9, 0.999):
        path.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(ValueError, match="is no saved fit, or damaged"):
            nm.load(path)


def test_any_changed_byte_is_found_or_harmless(fits, saved, tmp_path):
    content, path, rng = saved.read_bytes(), tmp_path / "fit.npz", np.random.default_rng(3)
    found = 0
    for position in rng.integers(len(content), size=300):
        changed = bytearray(content)
        changed[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        try:
            again = nm.load(path)
        except ValueError:
            found += 1
        else:
            assert all(np.array_equal(values, again.draws[key]) for key, values in fits["regression"].draws.items())
    assert found > 200


def lie(shape):
    """An array file that claims more than it holds."""

    def content():
        text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"\0" * 8

    return content()


@pytest.mark.parametrize("text", ["{'descr': (", "{\n  'descr'\n 1: 2", "\0"])
def test_headers_of_arrays_that_are_none_are_damage(saved, tmp_path, text):
    path = tmp_path / "fit.npz"
    path.write_bytes(saved.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("broken.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
    with pytest.raises(ValueError, match="is no saved fit, or damaged"):
        nm.load(path)


def test_absurd_sizes_are_refused_before_memory_is_taken(saved, tmp_path):
    path = tmp_path / "fit.npz"
    path.write_bytes(saved.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("bomb.npy", lie("(1000000000000000,)"))
    with pytest.raises(ValueError, match=r"is no saved fit, or damaged: .*not what it claims"):
        nm.load(path)
    with pytest.raises(ValueError, match="more than 1e-05 GB; give max_bytes="):
        nm.load(saved, max_bytes=1e4)


def test_a_class_that_is_not_known_here_is_never_made(saved, tmp_path):
    path = rewritten(saved, tmp_path / "fit.npz", set_header("model", "prior", "class", value="Popen"))
    with pytest.raises(ValueError, match=r"fit\.npz' cannot be read: .*the class 'Popen', which is not known here.*nm\.register"):
        nm.load(path)


PRIORS = {
    "py": nm.PitmanYor(nm.Gamma(2, 1), 0.3), "py-negative": nm.PitmanYor(-0.2, 0.3), "stable": nm.NormalizedStable(),
    "finite": nm.FiniteMixture(3, nm.Gamma(1, 1)),
}


@pytest.mark.parametrize(
    ("formula", "prior"),
    by_turns([
        *(("accel_g ~ 1", prior) for prior in PRIORS), *(("accel_g ~ times_ms", prior) for prior in ("py", "stable", "finite")),
    ], 3, 1),
)
def test_every_random_measure(prior, formula, tmp_path):
    fit = nm.fit(formula, nm.datasets.load_mcycle(), prior=PRIORS[prior], draws=12, tune=12, chains=2, rng=3)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert again.model.prior == PRIORS[prior] and str(again.model) == str(fit.model)
    assert again.predict(kind="density").equals(fit.predict(kind="density"))
    longer, other = fit.extend(5), again.extend(5)
    assert all(np.array_equal(values, other.draws[name]) for name, values in longer.draws.items())


@pytest.mark.parametrize(("prior", "change", "message"), [
    ("finite", lambda held: held["draws/sigma"].__setitem__((0, 3), 0.2), "draws of sigma"),
    ("finite", lambda held: held["draws/labels"].__setitem__((0, 3), np.arange(133) % 4), "numbers of clusters|labels"),
    ("finite", lambda held: held["chain0/hyper"].__setitem__(1, -0.9), "chain's hyperparameters"),
    ("py-negative", lambda held: held["draws/mass"].__setitem__((0, 3), -0.3), "draws of mass"),
    ("stable", lambda held: held["chain0/hyper"].__setitem__(0, 0.9), "chain's hyperparameters"),
    ("stable", lambda held: held["chain0/hyper"].__setitem__(2, 1.0), "chain's hyperparameters"),
])
def test_contents_that_the_prior_does_not_allow(prior, change, message, tmp_path):
    fit = nm.fit("accel_g ~ 1", nm.datasets.load_mcycle(), prior=PRIORS[prior], draws=6, tune=6, chains=1, rng=3)
    path = rewritten(fit.save(tmp_path / "fit.npz"), tmp_path / "other.npz", lambda header, held: change(held))
    with pytest.raises(ValueError, match=f"is damaged: .*({message})"):
        nm.load(path)


def change_draws(name, index, value):
    def change(header, held):
        held[f"draws/{name}"][index] = value

    return change


def drop_draws(header, held):
    held["draws/A"] = held["draws/A"][:, :5]


def set_header(*keys, value):
    def change(header, held):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    return change


def change_chain(name, value):
    def change(header, held):
        held[f"chain1/{name}"][...] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_draws("labels", (1, 4, 7), 200), "labels"),
        (change_draws("labels", (0, 0, 0), 1), "labels"),
        (change_draws("locations", (0, 3, 2), 93), "locations"),
        (change_draws("locations", (0, 3), 255), "locations"),
        (change_draws("n_clusters", (0, 3), 99), "labels"),
        (change_draws("mass", (0, 3), -1.0), "draws of mass"),
        (change_draws("sigma", (0, 3), 1.0), "draws of sigma"),
        (change_draws("A", (0, 3, 1), np.nan), "draws of A"),
        (change_draws("log_joint", (0, 3), np.inf), "draws of log_joint"),
        (drop_draws, "shape of the draws of A"),
        (set_header("draws", "labels", value="nowhere"), "nowhere"),
        (set_header("draws", value={}), "list of draws"),
        (set_header("model", "formula", value="__import__('os').system('true') ~ 1"), "not allowed"),
        (set_header("model", "formula", value="accel_g ~ velocity"), "velocity"),
        (set_header("model", "prior", "mass", value=-1.0), "mass"),
        (set_header("run", "thin", value=0), "thin"),
        (set_header("run", "method", value="telepathy"), "telepathy"),
        (set_header("chains", 0, "iteration", value=3), "iterations"),
        (set_header("chains", 0, "generator", "state", value=7), ""),
        (set_header("chains", value=[]), "chains"),
        (change_chain("labels", 77), "chain's labels"),
        (change_chain("location", -1), "chain's locations"),
        (change_chain("hyper", -1.0), "chain's hyperparameters"),
        (change_chain("stat", np.inf), "chain's stat"),
        (change_chain("v", 0.0), "chain's v"),
        (change_chain("num", 1), "chain's clusters"),
    ],
)
def test_contents_that_cannot_be_right(saved, tmp_path, change, message):
    path = rewritten(saved, tmp_path / "fit.npz", change)
    with pytest.raises(ValueError, match=rf"fit\.npz' is damaged: .*{message}"):
        nm.load(path)


def test_an_unaltered_copy_is_read(saved, tmp_path):
    path = rewritten(saved, tmp_path / "fit.npz", lambda header, held: None)
    assert isinstance(nm.load(path).draws, Draws)


def test_models_of_unknown_classes_are_not_saved(fits, tmp_path):
    class Mine(nm.DirichletProcess):
        pass

    fit = nm.Model("log_anc ~ 1", nm.datasets.load_acidity(), prior=Mine(1.0)).fit(**RUN)
    with pytest.raises(TypeError, match=r"cannot be saved; only .*DirichletProcess"):
        saving.save(fit, tmp_path / "fit.npz")
