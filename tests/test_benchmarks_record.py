"""Files of what benchmarks have measured."""

import json

import numpy as np
import pytest

import nrmmix as nm
from benchmarks import record

ROWS = [{"method": "gibbs", "tau": np.float64(2.5), "draws": np.arange(2)}, {"method": "slice", "tau": np.inf, "draws": (1.0, None)}]


def test_a_file_has_what_was_written_and_where(tmp_path):
    path = record.write(tmp_path / "mixing.json", "mixing", {"sweeps": np.int64(10), "seeds": range(2).stop}, {"times": ROWS})
    found = record.read(path)
    assert found["benchmark"] == "mixing" and found["nrmmix"] == nm.__version__ and found["settings"] == {"sweeps": 10, "seeds": 2}
    assert found["results"]["times"] == [
        {"method": "gibbs", "tau": 2.5, "draws": [0, 1]}, {"method": "slice", "tau": None, "draws": [1.0, None]},
    ]
    assert found["machine"]["numpy"] == np.__version__ and found["machine"]["processor"] and found["machine"]["usable"] >= 1
    assert len(found["date"]) == 10
    assert json.loads(path.read_text()) == found


def test_numbers_have_eight_digits(tmp_path):
    path = record.write(tmp_path / "x.json", "x", {}, {"t": [{"a": 1234.56789012, "b": 123456789012}]})
    assert record.read(path)["results"]["t"] == [{"a": 1234.5679, "b": 123456789012}]


@pytest.mark.parametrize(("results", "message"), [
    ({"t": []}, "table 't' has no rows"),
    ({"t": {"a": 1}}, "table 't' must be a list of rows"),
    ({"t": [1]}, "table 't' must be a list of rows"),
    ({"t": [{"a": 1}, {"b": 1}]}, r"row 1 has the columns \['b'\], and the first row \['a'\]"),
])
def test_what_is_no_table_is_refused(tmp_path, results, message):
    with pytest.raises(ValueError, match=message):
        record.write(tmp_path / "x.json", "x", {}, results)
    assert list(tmp_path.iterdir()) == []


def test_other_values_endings_and_files(tmp_path):
    with pytest.raises(TypeError, match="not complex"):
        record.write(tmp_path / "x.json", "x", {}, {"t": [{"a": 1j}]})
    with pytest.raises(ValueError, match=r"must end in \.json"):
        record.write(tmp_path / "x.txt", "x", {}, {"t": [{"a": 1}]})
    with pytest.raises(FileNotFoundError, match=r"python -m benchmarks\.nowhere --json"):
        record.read("nowhere")


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert record.commit() is None
