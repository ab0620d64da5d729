"""Every call of ours on the page for users of other packages runs."""

import re
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm
import nrmmix.sklearn

PAGE = Path(__file__).resolve().parent.parent / "docs" / "site" / "pages" / "coming_from.md"
ROWS = re.findall(r"^\| `.+ \| `(.+)` \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
CALLS = list(dict.fromkeys(ROWS))
SHORT = {"draws": 20, "tune": 20, "chains": 2}


@pytest.fixture(scope="module")
def names():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(0, 1, (20, 2)), rng.normal(6, 1, (20, 2))])
    data = pd.DataFrame({"x": np.linspace(0, 1, 40), "group": np.tile(["a", "b"], 20)})
    data["y"] = np.sin(6 * data["x"]) + rng.normal(0, 0.2, 40)
    return {
        "nm": nm, "nrmmix": nrmmix, "X": X, "data": data, "new": data[["x"]].head(3), "print": print,
        "mixture": nm.Model(data=X).fit(**SHORT | {"draws": 60}, rng=1), "fit": nm.fit("y ~ x", data, **SHORT, rng=1),
    }


def test_the_page_has_the_four_packages():
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == ["mclust", "brms", "scikit-learn", "dirichletprocess"]
    assert len(CALLS) > 30 and len(ROWS) == len(re.findall(r"^\| `", text, flags=re.MULTILINE))


@pytest.mark.parametrize("call", by_turns(CALLS))
@pytest.mark.filterwarnings("ignore:loo")
def test_calls_run(call, names, monkeypatch):
    """Chains are short where the call leaves their length open."""
    fits = nm.Model.fit

    def short(self, *given, **run):
        is_open = run.get("draws", "auto") == "auto" and (not given or given[0] == "auto")
        return fits(self, *given, **(run | SHORT if is_open else run))

    monkeypatch.setattr(nm.Model, "fit", short)
    if "to_datatree" in call:
        pytest.importorskip("xarray")
    found = eval(call, names)
    assert found is not None or call.startswith("print")
    if "plot" in call:
        assert all(isinstance(ax, matplotlib.axes.Axes) for ax in np.ravel(np.array(found, dtype=object)))
