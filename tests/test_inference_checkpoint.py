"""Checkpoints of variational fits: a fit that was stopped anywhere and goes on gives the numbers of one that never was."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.common import files
from nrmmix.inference.variational import climb

FORMULA = "a + b ~ 1"
RNG = np.random.default_rng(5)
N = 3000
Z = RNG.integers(5, size=N)
TABLE = pd.DataFrame(RNG.normal(size=(N, 2)) + 4.0 * np.stack([Z % 2, Z // 2], axis=1), columns=["a", "b"])
FAMILY = nm.Gaussian(r=0.1, nu=4.0, m=[2.0, 4.0], scale=np.eye(2))


def fitted(path=None, data=TABLE, rng=1, **options):
    return nm.fit(FORMULA, data, family=FAMILY, method=nm.MemoizedVB(batches=4, checkpoint=path, **options), rng=rng)


@pytest.fixture(scope="module")
def fit():
    return fitted()


def same(fit, other):
    assert fit.elbo == other.elbo and fit.passes.equals(other.passes) and fit.has_converged == other.has_converged
    assert np.array_equal(fit.factors.N, other.factors.N) and np.array_equal(fit.factors.s, other.factors.s) and fit.seed == other.seed


class Stopped(Exception):
    pass


def stopped_after(visits, path, monkeypatch, **options):
    """A fit that comes to an end in a way that it cannot notice beforehand."""
    real, calls = climb.visit, []

    def visit(*arguments):
        calls.append(1)
        if len(calls) > visits:
            raise Stopped
        return real(*arguments)

    monkeypatch.setattr(climb, "visit", visit)
    try:
        fitted(path, **options)
        return True
    except Stopped:
        return False
    finally:
        monkeypatch.undo()


def test_a_checkpoint_changes_no_number(fit, tmp_path):
    same(fit, fitted(tmp_path / "run.npz"))
    same(fit, fitted(tmp_path / "run.npz"))  # which is at its end
    assert sorted(os.listdir(tmp_path)) == ["run.npz"]


STOPS = 2, 5, 50, 150, 250, 350, 450, 550, 700, 1000


@pytest.mark.parametrize("stops", [STOPS[::3], pytest.param(STOPS, marks=pytest.mark.nightly)], ids=["a few times", "often"])
def test_a_fit_goes_on_wherever_it_was_stopped(stops, fit, tmp_path, monkeypatch):
    """In births, merges, trials without a component: at many places."""
    seen = set()
    for visits in stops:
        path = tmp_path / f"{visits}.npz"
        done = stopped_after(visits, path, monkeypatch)
        seen.add(path.exists())
        same(fit, fitted(path))
        if done:
            break
    assert seen == {True, False}


def test_a_fit_goes_on_from_any_source_and_executor(fit, tmp_path, monkeypatch):
    stopped_after(150, tmp_path / "run.npz", monkeypatch)
    same(fit, fitted(tmp_path / "run.npz", data=[TABLE[:100], TABLE[100:]], executor=2))


def test_resume(fit, tmp_path, monkeypatch):
    stopped_after(150, tmp_path / "run.npz", monkeypatch)
    same(fit, nm.resume(tmp_path / "run.npz"))  # a small table is in the file
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    stopped_after(150, tmp_path / "of_file.npz", monkeypatch, data=tmp_path / "t.csv")
    same(fit, nm.resume(tmp_path / "of_file.npz", executor=2))
    stopped_after(150, tmp_path / "of_parts.npz", monkeypatch, data=[TABLE])
    with pytest.raises(ValueError, match="does not hold its data: give them as data="):
        nm.resume(tmp_path / "of_parts.npz")
    same(fit, nm.resume(tmp_path / "of_parts.npz", data=TABLE))
    saved = nm.fit("a ~ 1", TABLE.head(50), draws=5, tune=5, chains=1, rng=1).save(tmp_path / "chains.npz")
    with pytest.raises(ValueError, match="data belongs to checkpoints of variational fits"):
        nm.resume(saved, data=TABLE)


@pytest.mark.nightly
def test_more_passes_go_on(tmp_path):
    path = tmp_path / "run.npz"
    few = fitted(path, passes=2)
    assert len(few.passes) == 2 and not few.has_converged
    whole = fitted(path)
    assert whole.has_converged and whole.passes.iloc[:2].equals(few.passes)
    same(fitted(), whole)


def test_a_time_limit_and_a_checkpoint(fit, tmp_path):
    path = tmp_path / "run.npz"
    model = nm.Model(FORMULA, TABLE, family=FAMILY)
    cut = model.fit(nm.MemoizedVB(batches=4, checkpoint=path), rng=1, time_limit=1e-9)
    assert cut.interrupted and len(cut.passes) == 1
    same(fit, fitted(path))


@pytest.mark.parametrize(("options", "why"), [
    ({"data": TABLE[1:]}, "other data, of 3000 rows;"), ({"data": TABLE + 1e-9}, "other data, of 3000 rows that differ"),
    ({"births": False}, "a fit with births=True, not False"), ({"rng": 2}, "a fit with rng=1, not 2"),
    ({"merges": False}, "a fit with merges=True, not False"),
])
def test_checkpoints_of_another_fit_are_refused(options, why, tmp_path):
    fitted(tmp_path / "run.npz", passes=1)
    with pytest.raises(ValueError, match=rf"run\.npz' is of {why}.*delete it to begin anew"):
        fitted(tmp_path / "run.npz", **options)


def test_a_checkpoint_is_of_one_start(tmp_path):
    path, labels = tmp_path / "run.npz", np.arange(3000) % 2
    model = nm.Model(FORMULA, TABLE, family=FAMILY)

    def run(init="spread", **options):
        return model.fit(nm.MemoizedVB(batches=4, checkpoint=path, **options), rng=1, init=init)

    run(labels, passes=2)
    for init, why in (("random", "'random'"), ("k-means++", r"'k-means\+\+'"), (1 - labels, "others")):
        with pytest.raises(ValueError, match=rf"run\.npz' is of a fit with init=labels, not {why};.*delete it to begin anew"):
            run(init, passes=3)
    assert len(run(passes=3).passes) == len(run(labels, passes=3).passes) == 3  # of whatever start the checkpoint is
    path.unlink()
    run("random", passes=2)
    with pytest.raises(ValueError, match="a fit with init='random', not labels"):
        run(labels)
    assert len(nm.resume(path).passes) == 2


def test_another_model_and_other_files_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    fitted(path, passes=1)
    for model, part in ((nm.Model("a ~ 1", TABLE), "formula"), (nm.Model(FORMULA, TABLE), "family"),
                        (nm.Model(FORMULA, TABLE, family=FAMILY, prior=nm.DirichletProcess(2.0)), "prior")):
        with pytest.raises(ValueError, match=f"of another model: its {part} differs"):
            model.fit(nm.MemoizedVB(checkpoint=path), rng=1)
    content = path.read_bytes()
    for bad in (b"", content[:-100], content.replace(b"PK", b"KP"), b"no archive"):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"run\.npz' is no checkpoint of a variational fit, or damaged"):
            fitted(path)
    saved = fitted().save(tmp_path / "fit.npz")
    with pytest.raises(ValueError, match="it holds 'nrmmix fit'"):
        fitted(saved)
    for name, kind, message in (("run.txt", ValueError, r"must end in \.npz"), ("no/run.npz", FileNotFoundError, "there is no folder")):
        with pytest.raises(kind, match=message):
            fitted(tmp_path / name)
    kept = fitted(tmp_path / "kept.npz").save(tmp_path / "fit.npz")
    assert nm.load(kept).options.checkpoint == str(tmp_path / "kept.npz")


def test_a_full_disk_leaves_the_checkpoint_before(fit, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    real, calls = files.os.fsync, []

    def fsync(number):
        calls.append(1)
        if len(calls) > 4:  # file and folder, of two checkpoints
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(number)

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(OSError, match=r"run\.npz' cannot be written \(No space left on device\); the one of the pass before is whole"):
        fitted(path)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["run.npz"]
    same(fit, fitted(path))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_process_that_is_killed(fit, tmp_path):
    """By SIGKILL in the middle of a pass, after so many visits."""
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent("""
        import os, signal, sys
        import numpy as np
        import nrmmix as nm
        from nrmmix.inference.variational import climb

        real, calls = climb.visit, []

        def visit(*arguments):
            calls.append(1)
            if len(calls) > int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        climb.visit = visit
        family = nm.Gaussian(r=0.1, nu=4.0, m=[2.0, 4.0], scale=np.eye(2))
        nm.fit("a + b ~ 1", sys.argv[1], family=family, method=nm.MemoizedVB(batches=4, checkpoint=sys.argv[3]), rng=1)
    """))
    run = tmp_path / "run.npz"
    command = [sys.executable, str(script), str(tmp_path / "t.csv"), "200", str(run)]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert done.returncode == -9 and run.exists(), done.stderr
    same(fit, nm.resume(run))
