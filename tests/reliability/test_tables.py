"""Text tables from the shell: read as they are meant, or refused by line; and streams that cannot be written to."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from reliability.amount import note, times
from support.cover import by_turns

import nrmmix as nm
from nrmmix.cli import main
from nrmmix.datasets.text import read_table

SMALL = ["--draws", "6", "--tune", "4", "--chains", "1", "--seed", "1", "--no-progress"]


def table(tmp_path, text, name="own.csv", **options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(path, **options)


@pytest.mark.parametrize(("text", "message"), [
    ("x,y\n1,2,\n3,4,\n", r"line 2 has 3 fields and ends in a separator, and the header 2 \('x', 'y'\)"),
    ("x,y\n1,2\n3,4,5\n", "line 3 has 3 fields, and the header 2"),
    ("x,y\n1,2\n3\n", "line 3 has 1 fields"),
    ('x,y\n"1\n",2\n3,4,5\n', "line 4 has 3 fields"),
    ("x,y\nr1,1,2\nr2,3,4\n", "the header needs a name for it"),
    ("x,x\n1,2\n", "the column name 'x' occurs more than once"),
    ("", "it is empty"),
    ("x;y\n1,5;2,5\n3,5;4,5\n", "'x' has decimal commas; give --decimal ,"),
    (b"x,y\n1,2\n\xe9,3\n", "cannot be read as utf-8: line 3 holds the byte 0xe9; give --encoding"),
    (b"x,y\n1,\x002\n", "holds null characters in line 2"),
])
def test_tables_that_are_not_what_they_seem_are_refused_by_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        table(tmp_path, text)


@pytest.mark.parametrize(("text", "options", "said"), [
    ("x,y\n1,2.5\n3,4.5\n", {}, ""),
    ("x;y\n1;2.5\n3;4.5\n", {}, "separated by semicolons"),
    ("x\ty\n1\t2.5\n3\t4.5\n", {}, "separated by tabs"),
    ("x|y\n1|2.5\n3|4.5\n", {}, "separated by bars"),
    ("x;y\n1;2,5\n3;4,5\n", {"decimal": ","}, "semicolons"),
    ("x y\n1 2.5\n3 4.5\n", {"sep": " "}, ""),
    ("\ufeffx,y\n1,2.5\n3,4.5\n", {}, ""),
    ("x,y\n1,2.5\n3,4.5\n".encode("utf-16"), {}, ""),
    ('"x","y"\r\n"1","2.5"\r\n"3","4.5"\r\n', {}, ""),
    ("x, y\n1, 2.5\n\n3, 4.5\n", {}, ""),
])
def test_tables_are_read_as_they_are_meant(tmp_path, text, options, said):
    found, remarks = table(tmp_path, text, **options)
    pd.testing.assert_frame_equal(found, pd.DataFrame({"x": [1, 3], "y": [2.5, 4.5]}))
    assert said in " ".join(remarks) and bool(remarks) == bool(said)


def test_types_missing_values_and_encodings_as_they_are_given(tmp_path):
    found, remarks = table(tmp_path, "id,y,land\n007,1,NA\n012,-99,DE\n", dtype={"id": "str"}, na=["-99"])
    assert found["id"].tolist() == ["007", "012"] and np.isnan(found["y"][1]) and found["land"].tolist() == ["NA", "DE"] and not remarks
    found, _ = table(tmp_path, "größe\n1\n2\n".encode("latin-1"), encoding="latin-1")
    assert list(found) == ["größe"]
    with pytest.raises(ValueError, match=r"unknown column in --dtype 'idd'.*did you mean 'id'"):
        table(tmp_path, "id,y\n007,1\n", dtype={"idd": "str"})
    _, remarks = table(tmp_path, "y\n1\n2\n3\nn.d.\n")
    assert remarks == [
        "'own.csv': the column 'y' is taken for text, because of 'n.d.' in row 3; give --na n.d. if that is a missing value, --dtype y=str "
        "if it is text"
    ]


def run(capsys, *arguments):
    status = main([*map(str, arguments), *(SMALL if arguments[0] == "fit" else [])])
    return status, *capsys.readouterr()


def test_the_shell_refuses_what_would_fit_the_wrong_column(tmp_path, capsys):
    path = tmp_path / "own.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i % 3},\n" for i in range(20)))
    status, out, err = run(capsys, "fit", "y ~ 1", "--data", path)
    assert status == 2 and out == "" and "line 2 has 3 fields and ends in a separator" in err
    path.write_text("x;y\n" + "".join(f"{i};{i % 3},5\n" for i in range(20)))
    status, out, err = run(capsys, "fit", "y ~ 1", "--data", path, "--decimal", ",")
    assert status == 0 and "fields are separated by semicolons" in err
    assert run(capsys, "fit", "y ~ 1", "--data", path, "--decimal", ",", "--sep", ";")[2] == ""


@pytest.mark.parametrize("days", ["2024-01-{:02d}", "2024-01-{:02d}T10:30:00Z"])
def test_dates_are_days_since_the_first(tmp_path, capsys, days):
    path = tmp_path / "own.csv"
    rows = [(days.format(i + 1), i % 5) for i in range(20)]
    path.write_text("day,y\n" + "".join(f"{day},{y}\n" for day, y in rows))
    table = pd.DataFrame({"day": pd.to_datetime([day for day, _ in rows], format="mixed"), "y": [y for _, y in rows]})
    assert nm.Model("y ~ day", table).frame.covariates.ravel().tolist() == list(range(20))
    for formula in ("y ~ day", "y ~ 1"):
        assert run(capsys, "fit", formula, "--data", path)[0] == 0
    assert run(capsys, "fit", "y ~ C(day)", "--data", path, "--dtype", "day=str")[0] == 0
    status, _, err = run(capsys, "fit", "y ~ day", "--data", path, "--dtype", "day=str")
    assert status == 2 and "holds dates as text" in err and "write C(day) for categories" in err


def test_control_characters_of_names_are_shown_escaped(tmp_path, capsys):
    path = tmp_path / "own.csv"
    bad = "y\x1b[2J"
    path.write_text(f"{bad},x\n" + "".join(f"{i % 5},{i}\n" for i in range(20)))
    status, out, err = run(capsys, "fit", f"Q('{bad}') ~ 1", "--data", path)
    assert status == 2 and "\x1b" not in out + err and "y\\x1b[2J" in err
    _, out, err = run(capsys, "fit", "z ~ 1", "--data", path)
    assert "\x1b" not in err and "y\\x1b[2J" in err
    fit = nm.fit(None, pd.DataFrame({bad: np.arange(9.0)}), draws=4, tune=1, chains=1, rng=1)
    for text in (str(fit.model), repr(fit), str(fit.summary()), fit.summary().as_html()):
        assert "\x1b" not in text
    assert "\\x1b" in str(fit.model) and "\\x1b" in str(fit.summary())


def hostile(rng):
    """A small table as text, and what was done to it; what is right in the end is what `expected` would be read from it."""
    columns = {"y": rng.normal(size=12).round(3), "x": rng.integers(0, 9, 12)}
    sep = str(rng.choice([",", ";", "\t", "|"]))
    lines = [sep.join(columns), *(sep.join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    kind = rng.choice(["none", "trailing", "extra", "short", "quote", "null", "bytes", "twice", "cut", "blank", "junk"])
    at = int(rng.integers(1, len(lines)))
    change = {
        "trailing": lambda line: line + sep, "extra": lambda line: line + sep + "5", "short": lambda line: line.split(sep)[0],
        "quote": lambda line: line + '"', "null": lambda line: line + "\0", "bytes": lambda line: line + "\udcff",
        "junk": lambda line: sep.join(["?", line.split(sep)[1]]),
    }
    if kind in change:
        lines[at] = change[kind](lines[at])
    if kind == "twice":
        lines[0] = sep.join(["y", "y"])
    if kind == "blank":
        lines.insert(at, "")
    content = "\n".join(lines).encode("utf-8", "surrogateescape")
    return kind, content[: int(rng.integers(1, len(content)))] if kind == "cut" else content, pd.DataFrame(columns)


def test_hostile_tables_are_read_right_or_refused(tmp_path):
    """No table gives other numbers than it holds: what is read is the table, or a part of it that was cut off at its end."""
    rng, tried, refused = np.random.default_rng(7), times(150, 1000), 0
    for _ in range(tried):
        kind, content, whole = hostile(rng)
        try:
            found, remarks = table(tmp_path, content)
        except ValueError as error:
            refused += 1
            assert kind not in ("none", "blank") and "own.csv" in str(error) and len(str(error)) < 400
            continue
        assert kind in ("none", "blank", "quote", "cut", "junk"), kind
        if kind in ("none", "blank"):
            pd.testing.assert_frame_equal(found, whole)
        if kind == "junk":
            assert found["x"].tolist() == whole["x"].tolist() and remarks
        if kind == "cut" and "y" in found and len(found) > 1:
            assert found["y"].tolist()[:-1] == whole["y"].tolist()[: len(found) - 1]
    note(**{"hostile tables": {"tried": tried, "refused": refused, "read wrongly": 0}})


# ---- streams


class Closed:
    """A stream that nothing can be written to."""

    closed = False

    def write(self, _text):
        raise OSError(9, "Bad file descriptor")

    flush = isatty = lambda self: self.write("")


def test_a_broken_stderr_costs_no_fit(tmp_path, monkeypatch, capsys):
    path = tmp_path / "fit.npz"
    monkeypatch.setattr(sys, "stderr", Closed())
    assert main(["fit", "velocity_km_s ~ 1", "--data", "galaxy", *SMALL[:-1], "--progress", "--save", str(path)]) == 0
    assert nm.load(path).draws.n_draws == 6
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["fit", "velocity_km_s ~ 1", "--data", "galaxy", *SMALL[:-1], "--progress"]) == 0
    nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=5, tune=2, rng=1, progress=True)


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by the shell")
@pytest.mark.parametrize(("shell", "status"), by_turns([(">/dev/full", 1), ("2>&-", 0), ("| true", 0), (">&-", 0), ("2>/dev/full", 0)], 5))
def test_streams_that_the_shell_closes_cost_no_fit(tmp_path, shell, status):
    path = tmp_path / "fit.npz"
    command = f'{sys.executable} -m nrmmix fit "eruptions_min + waiting_min ~ 1" --data faithful {" ".join(SMALL)} --save {path} {shell}'
    # unbuffered, Python holds nothing for a stream, and its end cannot fail
    held = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, shell=True, capture_output=True, env=held, check=False)
    assert done.returncode == status and nm.load(path).draws.n_draws == 6


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is full is that of Linux")
@pytest.mark.parametrize(("given", "status", "said"), by_turns([
    ("fit y --data nowhere.csv 2>/dev/full", 2, ""),
    ("fit --mystery 2>/dev/full", 2, ""),
    ("--version 2>/dev/full", 0, ""),
    ("datasets >/dev/full", 1, "nrmmix: error: [Errno 28] No space left on device\n"),
    ("--help >/dev/full", 1, "nrmmix: error: [Errno 28] No space left on device\n"),
    ("datasets >/dev/full 2>/dev/full", 1, ""),
], 6, 3))
def test_the_status_is_that_of_the_command_where_a_disk_is_full(given, status, said):
    held = os.environ | {"PYTHONUNBUFFERED": ""}
    done = subprocess.run(f"{sys.executable} -m nrmmix {given}", shell=True, capture_output=True, text=True, env=held, check=False)
    assert (done.returncode, done.stderr) == (status, said)


def test_output_that_cannot_be_encoded_is_written_by_numbers(capsys):
    with contextlib.redirect_stdout(io.TextIOWrapper(raw := io.BytesIO(), encoding="ascii")):
        assert main(["fit", "velocity_km_s ~ 1", "--data", "galaxy", *SMALL]) == 0
        sys.stdout.flush()
        assert b"\\xb1" in raw.getvalue()
