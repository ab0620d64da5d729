"""Tables in files: those that fit into memory are read where a method needs all rows; of others, and other kinds, what to do is said."""

from __future__ import annotations

import io
import json
import re
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm
from nrmmix.cli import main
from nrmmix.datasets.text import read_table
from nrmmix.model.frame import whole

RUN = {"draws": 8, "tune": 4, "chains": 1, "rng": 1}
SHELL = ["--draws", "8", "--tune", "4", "--chains", "1", "--seed", "1", "--no-progress"]
N = 40
DATA = pd.DataFrame({"y": np.random.default_rng(0).normal(size=N), "x": np.arange(N) + 0.25, "g": np.tile(["u", "v"], N // 2)})
KINDS = ["a.csv", "a.tsv", "a.csv.gz", "a.csv.bz2", "a.csv.xz", "a.zip", "a.parquet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for kind in KINDS[:-1]:
        DATA.to_csv(folder / kind, index=False, sep="\t" if "tsv" in kind else ",")
    if _has_pyarrow():
        DATA.to_parquet(folder / "a.parquet")
    np.save(folder / "a.npy", DATA[["y", "x"]].to_numpy())
    return folder


def _has_pyarrow():
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.fixture(scope="module")
def plain():
    return {formula: nm.fit(formula, DATA, **RUN).draws["log_joint"] for formula in ("y ~ 1", "y ~ x + g", "y ~ bs(x, df=4)")}


@pytest.mark.parametrize("kind", by_turns(KINDS, 9))
def test_chains_of_a_file_that_fits_are_those_of_its_table(folder, plain, kind):
    if not (folder / kind).exists():
        pytest.skip("needs pyarrow")
    for formula, wanted in plain.items():
        fit = nm.fit(formula, folder / kind, **RUN)
        np.testing.assert_array_equal(fit.draws["log_joint"], wanted)
        assert not fit.model.frame.is_streamed
    model = nm.Model("y ~ 1", str(folder / kind))  # whose method is not known yet
    np.testing.assert_array_equal(model.fit(**RUN).draws["log_joint"], plain["y ~ 1"])
    assert nm.fit("y ~ 1", folder / kind, method="ibhc", rng=1).n_clusters >= 1
    assert fit.predict(folder / kind).shape == (N, 3)


def test_variational_fits_leave_rows_in_files(folder):
    assert nm.fit("y ~ 1", folder / "a.csv", method="vb", rng=1).model.frame.is_streamed
    assert not nm.fit("y ~ 1", folder / "a.csv.gz", method="vb", rng=1).model.frame.is_streamed  # which has no parts
    assert nm.fit(None, folder / "a.npy", **RUN).model.frame.response_names == ("y1", "y2")


def test_files_that_do_not_fit(folder, monkeypatch, capsys):
    monkeypatch.setattr(whole, "machine", SimpleNamespace(available=lambda: 1000.0, text=whole.machine.text))
    for call in (lambda: nm.fit("y ~ 1", folder / "a.csv", **RUN), lambda: nm.Model("y ~ 1", folder / "a.csv").fit(**RUN)):
        with pytest.raises(ValueError, match=r"not in memory.* \(it takes about .* kB, and 1.0 kB are free\).*method=\"memoized_vb\""):
            call()
    with pytest.raises(MemoryError, match=r"'.*a.csv.gz' does not fit into memory: it takes about"):
        nm.fit("y ~ 1", folder / "a.csv.gz", **RUN)
    assert main(["fit", "y1 ~ 1", "--data", str(folder / "a.npy"), *SHELL]) == 2
    assert re.search(r"kB are free\): give --method memoized_vb, or a file of fewer rows", capsys.readouterr().err)


@pytest.mark.parametrize(("name", "python", "shell"), [
    ("a.xlsx", r"give the table, pandas\.read_excel\('a.xlsx'\)", r"save the sheet as csv, or in Python .* pandas\.read_excel"),
    ("a.dta", r"pandas\.read_stata", r"convert it to csv or Parquet, or in Python .* pandas\.read_stata"),
    ("a.rds", r"write\.csv\(table", r"write\.csv\(table"),
    ("a.jsonl", r"pandas\.read_json\('a.jsonl', lines=True\)", r"convert it to csv or Parquet, or in Python .* lines=True"),
    ("a.pkl", r"pandas\.read_pickle", r"convert it to csv or Parquet"),
    ("a.npz", r"several arrays, or is a saved fit", r"several arrays, or is a saved fit"),
])
def test_files_of_other_kinds(tmp_path, capsys, name, python, shell):
    (tmp_path / name).write_text("x")
    for call in (nm.fit, nm.Model):
        with pytest.raises(ValueError, match=python):
            call("y ~ 1", tmp_path / name)
    assert main(["fit", "y ~ 1", "--data", str(tmp_path / name)]) == 2
    assert re.search(shell, capsys.readouterr().err)


def test_files_that_are_none(tmp_path):
    (tmp_path / "a.foo").write_text("x")
    (tmp_path / "a.csv.gz").write_text("no gzip")
    with pytest.raises(ValueError, match=r"ends in none of \.parquet, .*\.csv\.gz, \.zip"):
        nm.fit("y ~ 1", tmp_path / "a.foo")
    with pytest.raises(ValueError, match=r"cannot be read: .*read it with pandas, and give the table"):
        nm.fit("y ~ 1", tmp_path / "a.csv.gz")
    with pytest.raises(TypeError, match=r"Data cannot be a name or path such as 'nothing'.*There is no such file"):
        nm.fit("y ~ 1", "nothing")


# ---- the shell

def outcome(capsys, arguments):
    """Clusters and such of a fit as JSON, without what differs from run to run."""
    assert main([*arguments, *SHELL, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return {name: value for name, value in found.items() if name in ("n_clusters", "draws", "tables", "responses", "summary", "glance")}


def test_the_same_fit_of_every_file_in_the_shell(folder, capsys, monkeypatch):
    fits = {}
    monkeypatch.setattr(nm.Model, "fit", _keeping(nm.Model.fit, fits))
    kinds = [kind for kind in KINDS if (folder / kind).exists()]
    for kind in kinds:
        outcome(capsys, ["fit", "y ~ x", "--data", str(folder / kind)])
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO((folder / "a.csv").read_bytes())))
    outcome(capsys, ["fit", "y ~ x", "--data", "-"])
    draws = fits["draws"]
    assert len(draws) == len(kinds) + 1
    for one in draws:
        np.testing.assert_array_equal(one, draws[0])


def _keeping(fit, fits):
    def kept(self, *given, **named):
        found = fit(self, *given, **named)
        fits.setdefault("draws", []).append(found.draws["log_joint"])
        return found

    return kept


def test_predictions_for_files(folder, tmp_path, capsys):
    saved = nm.fit("y ~ x", DATA, **RUN).save(tmp_path / "fit.npz")
    found = []
    for kind in [kind for kind in ("a.csv", "a.zip", "a.parquet") if (folder / kind).exists()]:
        assert main(["predict", str(saved), "--data", str(folder / kind)]) == 0
        found.append(capsys.readouterr().out)
    assert len(set(found)) == 1 and found[0].count("\n") == N + 1


def test_words_of_python_and_of_others_in_the_shell(capsys):
    fit = ["fit", "y ~ 1", "--data", "galaxy"]
    for words, said in (
        (["--burn-in", "5"], r"unrecognized arguments: --burn-in 5; give --tune \(iterations before the first draw\)"),
        (["--random-state", "5"], r"give --seed"), (["--n_jobs=2"], r"give --cores"),
        (["--time-limt", "5"], r"did you mean --time-limit\?"),
        (["--burnin", "5"], "give --tune"), (["stray"], "unrecognized arguments: stray$"),
        (["--colour", "5"], "there are --formula, --data"),
    ):
        with pytest.raises(SystemExit) as caught:
            main([*fit, *words])
        assert caught.value.code == 2 and re.search(said, capsys.readouterr().err.strip())
    assert main(["fit", "velocity_km_s ~ 1", "--data", "galaxy", *SHELL[:-3], "--rng", "1", "--init", "each"]) == 0
    assert main(["fit", "velocity_km_s ~ 1", "--data", "galaxy", *SHELL, "--init", "ech"]) == 2
    assert "did you mean 'each'?" in capsys.readouterr().err


# ---- text

def table_of(tmp_path, column, **options):
    path = tmp_path / "own.csv"
    pd.DataFrame({"v": column, "n": range(len(column))}).to_csv(path, index=False, sep=options.get("sep", ","))
    return read_table(path, **options)


@pytest.mark.parametrize(("column", "wanted", "mark"), [
    (["1,234.5", "12,000", "999"], [1234.5, 12000, 999], "','"), (["1,234,567", "5", "-1,000"], [1234567, 5, -1000], "','"),
    (["1'234", "7"], [1234, 7], '"\'"'), (["1\u202f234", "12.5"], [1234, 12.5], "u202f"), (["1 234 567.25", "3"], [1234567.25, 3], "' '"),
])
def test_marks_between_thousands_are_read_and_said(tmp_path, column, wanted, mark):
    table, remarks = table_of(tmp_path, column)
    assert table["v"].tolist() == wanted
    (remark,) = remarks
    assert "'own.csv': the column 'v' has" in remark and mark in remark and "between thousands" in remark


def test_marks_that_may_be_decimal_commas_are_asked_about(tmp_path):
    with pytest.raises(ValueError, match=r"'1,234' in the column 'v' has a decimal comma or a mark between thousands; give --decimal ,"):
        table_of(tmp_path, ["1,234", "2,345"])
    assert table_of(tmp_path, ["1,234", "2,345"], thousands=",")[0]["v"].tolist() == [1234, 2345]
    assert table_of(tmp_path, ["1,234", "2,345"], decimal=",", sep=";")[0]["v"].tolist() == [1.234, 2.345]
    assert table_of(tmp_path, ["1.234,5", "2.345"], decimal=",", sep=";")[0]["v"].tolist() == [1234.5, 2345]
    for column in (["1,5", "2,25"], ["1,234", "2,345", "6,37"], ["2,698", "0,078"]):  # one of which is of no thousands
        with pytest.raises(ValueError, match=r"has decimal commas; give --decimal ,$"):
            table_of(tmp_path, column)
        with pytest.raises(ValueError, match=r"in the column 'v', line \d, has ',' elsewhere than between thousands.*--decimal , if it is"):
            table_of(tmp_path, column, thousands=",")
    assert table_of(tmp_path, ["12,34,567", "-1,000.5", "7"], thousands=",")[0]["v"].tolist() == [1234567, -1000.5, 7]  # as in India
    assert table_of(tmp_path, ["1,2 and 3", "4,5"], thousands=",")[0]["v"].tolist() == ["1,2 and 3", "4,5"]
    with pytest.raises(ValueError, match=r"--thousands '\.' must be one character"):
        table_of(tmp_path, ["1", "2"], thousands=".")
    assert table_of(tmp_path, ["1,234 a", "b"])[0]["v"].tolist() == ["1,234 a", "b"]  # text stays text


@pytest.mark.parametrize(("column", "wanted", "said"), [
    (["13.02.2020", "01.02.2020", "2020-03-04", None], ["2020-02-13", "2020-02-01", "2020-03-04", None], "with a day, as '13.02.2020'"),
    (["01.02.2020", "3.2.2020 9:05"], ["2020-02-01", "2020-02-03 09:05"], "begin with a day, as '01.02.2020'"),
    (["1/2/2020", "1/31/2020"], ["2020-01-02", "2020-01-31"], "begin with a month, as '1/31/2020'"),
    (["02-01-2020", "13-01-2020"], ["2020-01-02", "2020-01-13"], "begin with a day, as '13-01-2020'"),
    (["2020/1/2", "2020/12/31"], ["2020-01-02", "2020-12-31"], ""),
    (["01/02/2020", "03/04/2020"], None, "'own.csv': the column 'v' has dates that are not read, as '01/02/2020' may begin with a day"),
    (["13/02/2020", "02/13/2020"], None, "as no one order fits them; write them yyyy-mm-dd"),
    (["2020-13-01", "2020-01-31"], None, ""), (["31.02.2020", "01.02.2020"], None, "begin with a day"),
])
def test_the_dates_of_a_column_have_one_order(tmp_path, column, wanted, said):
    table, remarks = table_of(tmp_path, column)
    wanted = pd.Series(column if wanted is None else pd.to_datetime(wanted, format="ISO8601"))
    assert table["v"].equals(wanted)
    assert said in " ".join(remarks) and bool(remarks) == bool(said)


def test_dates_of_no_plain_order_are_refused_by_the_shell(tmp_path, capsys):
    rows = [(f"{1 + i % 12:02d}/{1 + i // 12:02d}/2020", i % 5 + i / 9) for i in range(20)]
    pd.DataFrame(rows, columns=["v", "y"]).to_csv(tmp_path / "a.csv", index=False)
    assert main(["fit", "y ~ v", "--data", str(tmp_path / "a.csv"), *SHELL]) == 2
    said = capsys.readouterr().err
    assert "'01/01/2020' may begin with a day or a month; write them yyyy-mm-dd" in said and "The column 'v' holds dates as text" in said
    table = pd.DataFrame({"v": pd.date_range("2020-01-01", periods=20), "y": [y for _, y in rows]})
    fit = nm.fit("y ~ v", table, draws=5, tune=5, chains=1, rng=1).save(tmp_path / "fit.npz")
    for days, status in (("02/01/2020", 2), ("02.01.2020", 0), ("13/01/2020", 0)):
        (tmp_path / "new.csv").write_text(f"v\n{days}\n")
        assert main(["predict", str(fit), "--data", str(tmp_path / "new.csv")]) == status
        assert status == 0 or "write 2020-12-31" in capsys.readouterr().err


def test_numbers_that_are_read_as_text_on_demand_are_categories(tmp_path):
    table, _ = table_of(tmp_path, ["01", "2", "01"], dtype={"v": "str"})
    assert table["v"].cat.categories.tolist() == ["01", "2"]
    assert nm.Model("n ~ v", table).frame.is_category.all()


@pytest.mark.parametrize(("text", "said"), [
    ("sep=;\nx;y\n1;2.5\n3;4.5\n", ""), ('"sep=|"\r\nx|y\r\n1|2.5\r\n3|4.5\r\n', ""), ("sep=;\n# from Excel\nx;y\n1;2.5\n3;4.5\n", ""),
    ("# made by A, B\n#\n\nx,y\n1,2.5\n3,4.5\n", ""), ("x y\n1 2.5\n3 4.5\n", "'own.csv': fields are separated by spaces"),
])
def test_lines_before_the_names(tmp_path, text, said):
    (tmp_path / "own.csv").write_bytes(text.encode())
    table, remarks = read_table(tmp_path / "own.csv")
    pd.testing.assert_frame_equal(table, pd.DataFrame({"x": [1, 3], "y": [2.5, 4.5]}))
    assert remarks == ([said] if said else [])


@pytest.mark.parametrize(("text", "said"), [
    ("# a\nx,y\n1,2,3\n", "line 3 has 3 fields"), ("x;y\n1;1.000,5\n2;12.345,25\n", "the column 'y' has decimal commas; give --decimal ,$"),
    ('"x" "y"\n"1" 0.5 2.5\n"2" 0.5 3\n', r"header 2 \('x', 'y'\).*needs a name for it \(in R write.csv\(table, row.names = FALSE"),
])
def test_lines_that_do_not_fit(tmp_path, text, said):
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        read_table(tmp_path / "own.csv")


def test_names_that_are_marked_or_missing(tmp_path, capsys):
    for row in ("1,2.5", "r1,u"):
        (tmp_path / "a.csv").write_text(f"# a remark\n#id,y\n{row}\n{row}\n")
        assert list(read_table(tmp_path / "a.csv")[0]) == ["#id", "y"]
    (tmp_path / "a.csv").write_text("waiting time\n1\n2\n")
    assert list(read_table(tmp_path / "a.csv")[0]) == ["waiting time"]
    (tmp_path / "a.csv").write_text("0.25,0.5,a\n0.5,1.5,b\n1.5,0.75,c\n")
    assert main(["fit", "y ~ x", "--data", str(tmp_path / "a.csv"), *SHELL]) == 2
    assert "These look like values: has the file no line of names? Then write one above them." in capsys.readouterr().err


@pytest.mark.parametrize(("column", "kind", "said"), [
    ([1, 2.5], "int", "'v' holds '2.5' in row 1, which is no int; give --dtype v=float"), ([1, None], "int", "'v' holds nothing in row 1"),
    ([1, "a"], "float", "'v' holds 'a' in row 1, which is no float; give --dtype v=str, or leave --dtype out"),
])
def test_types_that_a_column_has_not_are_refused_by_its_name(tmp_path, column, kind, said):
    with pytest.raises(ValueError, match=said):
        table_of(tmp_path, column, dtype={"v": kind})


def test_separators_by_their_words(folder, tmp_path, capsys):
    for word, sep in (("semicolon", ";"), ("comma", ","), ("pipe", "|"), ("tab", "\t"), ("space", " ")):
        DATA.to_csv(tmp_path / "a.csv", index=False, sep=sep)
        for options in ([], ["--stream", "--method", "vb"]):
            assert main(["fit", "y ~ 1", "--data", str(tmp_path / "a.csv"), "--sep", word, *(options or SHELL), "--seed", "1"]) == 0
    assert main(["fit", "y ~ 1", "--data", str(folder / "a.csv"), "--family", "gaussian="]) == 2
    assert capsys.readouterr().err.endswith("each needs its responses, gaussian=NAME+NAME\n")


def test_compressed_text_that_cannot_be_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as file:
        file.writestr("a.csv", "x\n1\n")
        file.writestr("b.csv", "x\n1\n")
    with pytest.raises(ValueError, match=r"'two.zip' holds 2 files \('a.csv', 'b.csv'\); give a .zip of one"):
        read_table(tmp_path / "two.zip")
    for name in ("a.zip", "a.csv.gz", "a.csv.xz"):
        (tmp_path / name).write_bytes(b"no such thing")
        with pytest.raises(ValueError, match=f"'{name}' cannot be read"):
            read_table(tmp_path / name)
