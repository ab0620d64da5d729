"""Command line: what goes to standard output, messages, and exit status."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.cli import main
from nrmmix.common.messages import SHELL

ROOT = Path(__file__).resolve().parent.parent
SMALL = ["--draws", "30", "--tune", "10", "--chains", "2", "--seed", "5", "--cores", "1", "--no-progress"]
MCYCLE = ["fit", "accel_g ~ times_ms", "--data", "mcycle"]
GALAXY = ["fit", "velocity_km_s ~ 1", "--data", "galaxy"]


def python(*arguments, cwd=ROOT):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=environment, timeout=300, check=False
    )


@pytest.fixture
def never_sampled(monkeypatch):
    def fit(*_args, **_options):
        raise AssertionError("sampling began")

    monkeypatch.setattr(nm.Model, "fit", fit)


def refused(capsys, arguments):
    """The message of a command that ends with status 2 and prints no result."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    assert err.startswith("nrmmix: error: ") and len(err.splitlines()) == 1
    return err


def test_fit_prints_its_summary(capsys):
    assert main([*GALAXY, *SMALL]) == 0
    out = capsys.readouterr().out
    model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
    fit = model.fit(draws=30, tune=10, chains=2, rng=5)

    def numbers(text):  # all lines but the one with the seconds
        return [line for line in text.splitlines() if "Seconds" not in line]

    def tables(text):  # the verdict has a remedy in the words of the shell
        return numbers(text.partition("fit.partition()")[0])

    assert tables(out) == tables(fit.summary().as_text()) and len(tables(out)) > 20


def test_options_reach_the_model(capsys):
    options = ["--prior", "nggp", "--mass", "2", "--sigma", "0.25", "--kernel", "box", "--width", "0.3", "--thin", "2"]
    assert main([*MCYCLE, *options, *SMALL]) == 0
    out = capsys.readouterr().out
    assert "NGGP(mass = 2, sigma = 0.25)" in out and "Box(width = 0.3)" in out
    assert re.search("Seed: +5\n", out) and re.search("Thin: +2 ", out)


def test_width_alone_is_that_of_the_default_kernel(capsys):
    assert main([*MCYCLE, "--width", "0.2", *SMALL]) == 0
    assert "SquaredExponential(width = 0.2)" in capsys.readouterr().out


def test_seed_is_shown_where_none_is_given(capsys):
    assert main([*GALAXY, "--draws", "4", "--tune", "0", "--chains", "1"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Seed:")]
    assert int(line.split()[1]) > 0


def test_fit_saves_a_picture(capsys, tmp_path):
    from matplotlib import pyplot

    path = tmp_path / "galaxy.png"
    before = pyplot.get_fignums()
    assert main([*GALAXY, *SMALL, "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG") and pyplot.get_fignums() == before
    out, err = capsys.readouterr()
    assert "picture saved" not in out and err.splitlines()[-1] == f"nrmmix: picture saved to {path}"


def test_fit_reads_csv_files(capsys, tmp_path):
    path = tmp_path / "own.csv"
    rows = np.random.default_rng(1).normal(size=20)
    path.write_text("y\n" + "\n".join(map(str, rows)) + "\nNA\n", encoding="utf-8")
    assert main(["fit", "y ~ 1", "--data", str(path), *SMALL]) == 0
    out, err = capsys.readouterr()
    assert re.search("Observations: +20 ", out) and re.search("Dropped rows: +1 ", out)
    assert "nrmmix: warning: 1 of 21 rows dropped" in err
    assert "fill it or use missing='drop'" in refused(capsys, ["fit", "y ~ 1", "--data", str(path), "--missing", "raise"])


def test_datasets_lists_every_table(capsys):
    assert main(["datasets"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "rows", "columns"]
    for line, name in zip(lines, nm.datasets.names(), strict=True):
        table = nm.datasets.load(name)
        assert line.split(maxsplit=2) == [name, str(len(table)), ", ".join(table.columns)]


# ---- refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "y ~ 1", "--data", "galxy"], "no data set 'galxy' .*did you mean 'galaxy'"),
        (["fit", "y ~ 1", "--data", "none.csv"], "no file 'none.csv'"),
        (["fit", "accel ~ times_ms", "--data", "mcycle"], "no column 'accel' .*Did you mean 'accel_g'"),
        (["fit", "accel_g times_ms", "--data", "mcycle"], "no tilde"),
        (["fit", "accel_g ~ __import__('os')", "--data", "mcycle"], "not allowed"),
        ([*GALAXY, "--kernel", "box", "--width", "0.1"], "no covariates"),
        ([*MCYCLE, "--kernel", "box"], "--kernel box needs --width"),
        ([*MCYCLE, "--sigma", "0.2"], "--sigma belongs to --prior nggp or py or stable, not dp"),
        ([*MCYCLE, "--prior", "stable", "--mass", "2"], "--mass belongs to --prior dp or nggp"),
        ([*MCYCLE, "--components", "2"], "--components belongs to --prior finite, not dp"),
        ([*MCYCLE, "--prior", "finite"], "--prior finite needs --components"),
        ([*MCYCLE, "--prior", "finite", "--components", "0"], "components must be an integer from 1 to 1000000"),
        ([*MCYCLE, "--prior", "nggp", "--sigma", "1.5"], "sigma must be a number in"),
        ([*MCYCLE, "--seed", "-1"], "--seed must be 0 or greater"),
        ([*MCYCLE, "--plot", "nowhere/at/all.png"], "no folder 'nowhere/at'"),
        ([*MCYCLE, "--plot", "picture.xyz"], "must end in one of .*png"),
    ],
)
def test_bad_input_is_refused_before_sampling(capsys, never_sampled, arguments, message):
    assert re.search(message, refused(capsys, arguments))


def test_advice_is_in_the_words_of_the_shell(capsys, saved, tmp_path):
    rows = [(f"{i / 7:.3f}", "u" if i % 3 else "v", f"0{1 + i % 3}/01/2020") for i in range(40)]
    pd.DataFrame([*rows, *[("-999", "u", "01/01/2020")] * 3], columns=["y", "g", "d"]).to_csv(tmp_path / "a.csv", index=False)
    fit = ["--data", str(tmp_path / "a.csv"), "--draws", "5", "--tune", "5", "--chains", "1", "--no-progress", "--seed", "1"]
    assert main(["fit", "y ~ 1", *fit]) == 0
    assert "a code for missing? Then give --na -999" in capsys.readouterr().err
    assert main(["fit", "y ~ 1", *fit, "--na", "-999"]) == 0
    assert "code for missing" not in capsys.readouterr().err
    for formula, said in (
        ("g ~ 1", "Convert it, give it --family categorical, or use it"),
        ("y ~ d", "'d' holds dates as text; write all of them yyyy-mm-dd .*such as '01/01/2020'"),
    ):
        assert main(["fit", formula, *fit]) == 2 and re.search(said, capsys.readouterr().err)
    assert "--kind quantile --q 0.5 has medians" in refused(capsys, ["predict", str(saved), "--kind", "median"])
    with pytest.raises(SystemExit):
        main(["predict", str(saved), "--x", ".5"])
    assert "give --data (a file)" in capsys.readouterr().err


def test_a_folder_is_no_picture(capsys, never_sampled, tmp_path):
    folder = tmp_path / "a.png"
    folder.mkdir()
    assert "is a folder" in refused(capsys, [*MCYCLE, "--plot", str(folder)])


def test_what_sampling_refuses(capsys):
    assert "draws must be an integer of at least 1, not 0" in refused(capsys, [*GALAXY, "--draws", "0"])
    assert "did you mean 'gibbs'" in refused(capsys, [*GALAXY, "--method", "gibs"])


def test_a_file_that_is_no_table(capsys, never_sampled, tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("", encoding="utf-8")
    assert "cannot be read as csv" in refused(capsys, ["fit", "y ~ 1", "--data", str(path)])


def test_arguments_that_argparse_refuses(capsys):
    with pytest.raises(SystemExit) as stop:
        main([*GALAXY, "--prior", "gp"])
    assert stop.value.code == 2 and "invalid choice: 'gp'" in capsys.readouterr().err


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["fit", "--help"])
    assert stop.value.code == 0 and 'nrmmix fit "accel_g ~ times_ms" --data mcycle' in capsys.readouterr().out


# ---- interrupts


def test_interrupt_before_the_first_draw(capsys, monkeypatch):
    def fit(*_args, **_options):
        raise KeyboardInterrupt("stopped before the first draw was recorded")

    monkeypatch.setattr(nm.Model, "fit", fit)
    assert main(GALAXY) == 130
    out, err = capsys.readouterr()
    assert out == "" and err == "nrmmix: stopped before the first draw was recorded\n"


def test_interrupt_with_draws_prints_the_summary(capsys, monkeypatch):
    whole = nm.Model.fit

    def fit(model, *args, draws, **options):
        result = whole(model, *args, draws=draws - 10, **options)
        result.interrupted = True
        return result

    monkeypatch.setattr(nm.Model, "fit", fit)
    assert main([*GALAXY, *SMALL]) == 0
    out, err = capsys.readouterr()
    assert re.search("Interrupted: +yes", out) and "Sampling was stopped before the end." in " ".join(out.split())
    assert "nrmmix: stopped early; 20 of 30 draws of each chain are kept" in err


# ---- as a program


def test_program(tmp_path):
    done = python("-m", "nrmmix", *MCYCLE, *SMALL, "--plot", "mean.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith("Kernel-NRM density regression\n") and "times_ms" in done.stdout
    assert done.stderr.splitlines()[-1] == "nrmmix: picture saved to mean.svg"
    assert "<svg" in (tmp_path / "mean.svg").read_text(encoding="utf-8")


def test_program_refuses_without_a_traceback():
    done = python("-m", "nrmmix", "fit", "y ~ 1", "--data", "nothing")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("nrmmix: error: there is no data set 'nothing'")


@pytest.mark.nightly
def test_a_fit_imports_neither_statsmodels_nor_matplotlib():
    code = (
        "import sys, nrmmix as nm, nrmmix.cli.program\n"
        "assert not {'numba', 'pandas'} & sys.modules.keys()\n"
        "fit = nm.fit('velocity_km_s ~ 1', nm.datasets.load_galaxy(), draws=5, tune=0, chains=1)\n"
        "repr(fit), fit.diagnostics()\n"
        "assert not {'statsmodels', 'matplotlib'} & sys.modules.keys()\n"
        "fit.summary()\n"
        "assert 'statsmodels.api' not in sys.modules\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


# ---- saved fits


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "fit.npz"
    assert main([*GALAXY, *SMALL, "--save", str(path)]) == 0
    return path


def table(text, **options):
    return pd.read_csv(io.StringIO(text), **options)


def test_summary_prints_every_format(capsys, saved):
    fit = nm.load(saved)
    token = SHELL.set(str(saved))  # remedies are commands
    for name in ("text", "html", "latex", "csv"):
        assert main(["summary", str(saved), "--format", name]) == 0
        assert capsys.readouterr() == (getattr(fit.summary(), f"as_{name}")() + "\n", "")
    SHELL.reset(token)


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        ([], {}),
        (["--kind", "density", "--at", "10000", "20000", "--draws", "20", "--seed", "4"],
         {"kind": "density", "at": [1e4, 2e4], "draws": 20, "rng": 4}),
        (["--kind", "quantile", "--q", "0.1", "0.9", "--interval", "0.5"], {"kind": "quantile", "q": [0.1, 0.9], "interval": 0.5}),
        (["--kind", "cluster"], {"kind": "cluster"}),
    ],
)
def test_predictions_are_csv(capsys, saved, arguments, call):
    assert main(["predict", str(saved), *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    expected = nm.load(saved).predict(**call)
    found = table(out, index_col=0)
    assert found.index.name == (expected.index.names[0] or "row")
    np.testing.assert_allclose(found.to_numpy(float), expected.to_numpy(float))


def test_predictions_of_new_rows_and_several_responses(capsys, tmp_path):
    fit, new = tmp_path / "fit.npz", tmp_path / "new.csv"
    assert main(["fit", "petal_length_cm + petal_width_cm ~ sepal_length_cm", "--data", "iris", *SMALL, "--save", str(fit)]) == 0
    new.write_text("sepal_length_cm\n5.0\n\n6.5\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["predict", str(fit), "--data", str(new), "--kind", "density", "--at", "4,1.2", "5,2", "--draws", "5"]) == 0
    found = table(capsys.readouterr().out)
    assert list(found) == ["row", "petal_length_cm", "petal_width_cm", "estimate", "lower", "upper"]
    assert found["petal_width_cm"].tolist() == [1.2, 2, 1.2, 2]
    options = ["--kind", "quantile", "--q", "0.5", "--draws", "5"]
    assert main(["predict", str(fit), "--data", str(new), *options, "--response", "petal_width_cm"]) == 0
    assert list(table(capsys.readouterr().out)) == ["row", "q", "estimate", "lower", "upper"]
    both = ["--response", "petal_width_cm", "--response", "petal_length_cm"]
    assert main(["predict", str(fit), "--data", str(new), *options, *both]) == 0
    assert table(capsys.readouterr().out)["response"].tolist() == ["petal_width_cm", "petal_length_cm"] * 2


def test_negative_points(capsys, saved):
    assert main(["predict", str(saved), "--kind", "cdf", "--at", "-1e4", "-.5", "10000", "--draws", "5"]) == 0
    assert table(capsys.readouterr().out)["y"].tolist() == [-1e4, -0.5, 1e4]
    assert "(m,) with m >= 1" in refused(capsys, ["predict", str(saved), "--kind", "density", "--at", "-1,2", "3,-4"])


def test_a_time_limit_before_the_first_draw_is_a_failure_on_the_way(capsys):
    assert main([*MCYCLE, "--draws", "10", "--tune", "10000000", "--time-limit", "0.05"]) == 1
    assert "time_limit was over" in capsys.readouterr().err


def test_reports_are_written(capsys, saved, tmp_path):
    page = tmp_path / "fit.html"
    assert main(["report", str(saved), str(page)]) == 0
    out, err = capsys.readouterr()
    assert out == "" and "report written to" in err
    assert "velocity_km_s" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["summary", "nowhere.npz"], "there is no file 'nowhere.npz'"),
        (["summary", str(ROOT / "README.md")], "no saved fit, or damaged"),
        (["predict", "FIT", "--kind", "men"], "unknown kind 'men'.*did you mean 'mean'"),
        (["predict", "FIT", "--kind", "density", "--at", "one"], "--at 'one' is no number"),
        (["predict", "FIT", "--q", "0.5"], "--q belongs to --kind quantile, not mean"),
        (["predict", "FIT", "--seed", "-1"], "--seed must be 0 or greater"),
        (["predict", "FIT", "--data", "nowhere.csv"], "there is no file 'nowhere.csv'"),
        (["report", "FIT", "fit.pdf"], r"must end in \.html"),
        (["report", "FIT", "nowhere/fit.html"], "there is no folder 'nowhere'"),
    ],
)
def test_what_the_other_commands_refuse(capsys, saved, arguments, message):
    assert re.search(message, refused(capsys, [str(saved) if word == "FIT" else word for word in arguments]))


@pytest.mark.parametrize(("option", "name"), [("--save", "fit.pkl"), ("--report", "no/fit.html")])
def test_output_that_cannot_be_written_is_refused_before_sampling(capsys, never_sampled, option, name):
    assert name in refused(capsys, [*GALAXY, option, name])


@pytest.mark.nightly
def test_a_time_limit_keeps_what_was_drawn(capsys, tmp_path):
    path = tmp_path / "fit.npz"
    assert main([*GALAXY, "--draws", "1000000", "--tune", "0", "--thin", "1", "--time-limit", "0.3", "--save", str(path)]) == 0
    assert re.search(r"stopped early; \d+ of 1000000 draws", capsys.readouterr().err)
    assert nm.load(path).interrupted


@pytest.mark.parametrize("command", ["fit", "summary", "predict", "report", "warmup"])
def test_every_help_has_examples(capsys, command):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    out = capsys.readouterr().out
    assert end.value.code == 0 and f"examples:\n  nrmmix {command}" in out.replace("NUMBA_CACHE_DIR=/shared/cache ", "")


@pytest.mark.nightly
def test_warmup_leaves_nothing_to_compile(capsys, tmp_path):
    from numba.core import event

    assert main(["warmup"]) == 0
    assert "compiled in" in capsys.readouterr().err
    seen = []

    class Listener(event.Listener):
        def on_start(self, started):
            seen.append(started)

        def on_end(self, _ended):
            pass

    short = {"draws": 5, "tune": 5, "chains": 2, "rng": 1}
    faithful = nm.datasets.load_faithful()
    models = {
        "density regression": nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle()),
        "mixture": nm.Model("eruptions_min + waiting_min ~ 1", faithful, prior=nm.NGGP()),
        "trees": nm.Model(data=np.repeat(faithful.to_numpy(), 2, axis=0)),
        "trees of four columns": nm.Model(data=nm.datasets.load_iris().select_dtypes(float)),
        "many rows": nm.Model(data=np.random.default_rng(1).normal(size=(20_000, 2))),
    }
    methods = {name: str(models[name].methods().loc["auto", "moves"]) for name in ("trees", "trees of four columns")}
    assert all("TreeGuided" in method for method in methods.values())
    with event.install_listener("numba:compile", Listener()):
        for name, model in models.items():
            fit = model.fit(**short)
            fit.summary()
            fit.predict(kind="cluster", draws=1)
            if name != "many rows":
                fit.predict(kind="cdf")
                fit.augment()
                fit.plot()
                fit.similarity()
            if name == "density regression":
                fit.report(tmp_path / "report.html")
    assert seen == []
