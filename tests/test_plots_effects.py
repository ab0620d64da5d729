"""Pictures of every functional over several covariates, and in the units of the column behind a response."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import nrmmix as nm

pytestmark = pytest.mark.filterwarnings("ignore:.*(converge|agree|R-hat|effective|chains).*")
FEW = {"draws": 20, "points": 4}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"age": rng.uniform(20, 60, 80), "tenure": rng.uniform(0, 20, 80), "site": rng.choice(["Bern", "Zug"], 80)})
    return table.assign(wage=np.exp(2 + 0.01 * table["age"] + 0.3 * (table["site"] == "Zug") + 0.3 * rng.normal(size=80)))


@pytest.fixture(scope="module")
def fit(data):
    return nm.fit("log(wage) ~ age + tenure + site", data, draws=40, tune=40, chains=2, rng=1, progress=False)


@pytest.fixture(scope="module")
def one(data):
    return nm.fit("log(wage) ~ age", data, draws=40, tune=40, chains=2, rng=1, progress=False)


def lines(ax):
    return [line for line in ax.lines if len(line.get_xdata()) == 4]


@pytest.mark.parametrize(
    ("options", "predicted"),
    [
        ({}, {}), ({"kind": "quantile"}, {"kind": "quantile", "q": 0.5}),
        ({"kind": "exceedance", "y": 3.0}, {"kind": "exceedance", "at": [3.0]}),
        ({"kind": "cdf", "y": 20.0, "units": "response"}, {"kind": "cdf", "at": [20.0], "units": "response"}),
        ({"kind": "density", "y": 3.0}, {"kind": "density", "at": [3.0]}),
        ({"kind": "quantile", "q": 0.9, "units": "response"}, {"kind": "quantile", "q": 0.9, "units": "response"}),
    ],
)
def test_effects_are_predictions(fit, options, predicted):
    """A number and a factor together: the curve of each level is what `predict` says at held values."""
    axes = fit.plot("effects", Figure().subplots(1, 3), at={"tenure": 5.0}, **options, **FEW)
    assert [ax.get_xlabel() for ax in axes] == ["age", "tenure", "site"]
    curves = lines(axes[0])
    assert [line.get_label() for line in curves] == ["site = Bern", "site = Zug"]
    for line, level in zip(curves, ("Bern", "Zug"), strict=True):
        rows = pd.DataFrame({"age": line.get_xdata(), "tenure": 5.0, "site": level})
        assert line.get_ydata() == pytest.approx(fit.predict(rows, **predicted, draws=20)["estimate"].to_numpy())
    assert [tick.get_text() for tick in axes[2].get_xticklabels()] == ["Bern", "Zug"]


def test_names_of_axes(fit):
    ax = fit.plot("effects", Figure().subplots(), kind="exceedance", y=20, units="response", x="age", **FEW)
    assert ax.get_ylabel() == "P(wage > 20 | x)"
    strokes = ax.lines[0].get_ydata()
    assert set(np.round(strokes, 2)) == {-0.04, 1.04} and (strokes > 1).sum() == (np.exp(fit.model.frame.response[:, 0]) > 20).sum()
    mean = fit.plot("effects", Figure().subplots(), units="response", x="age", by="", **FEW)
    assert mean.get_ylabel() == "wage" and lines(mean)[0].get_label() == "posterior median of E[wage | x]"
    assert mean.lines[0].get_ydata() == pytest.approx(np.exp(fit.model.frame.response[:, 0]))
    several = fit.plot("effects", Figure().subplots(), kind="quantile", q=[0.1, 0.5, 0.9], x="age", **FEW)
    assert [line.get_label() for line in lines(several)] == ["10% and 90% quantiles", "median", "10% and 90% quantiles"]


def test_averages_of_probabilities(fit):
    ax = fit.plot("effects", Figure().subplots(), kind="exceedance", y=3.0, x="site", average=True, **FEW)
    estimate = ax.lines[-1].get_ydata()
    source = fit.model.frame.source
    some = source.iloc[np.unique(np.linspace(0, len(source) - 1, 12).astype(int))]
    for level, value in zip(("Bern", "Zug"), estimate, strict=True):
        wanted = fit.predict(some.assign(site=level), kind="exceedance", at=[3.0], draws=20)["estimate"].mean()
        assert value == pytest.approx(wanted, abs=1e-9)


def test_quantiles_over_several_covariates(fit, one):
    axes = fit.plot("quantiles", Figure().subplots(1, 3), q=[0.25, 0.5, 0.75], units="response", **FEW)
    assert [ax.get_ylabel() for ax in axes] == ["wage"] * 3 and len(lines(axes[0])) == 3
    assert one.plot("quantiles", Figure().subplots(), units="response", **FEW).get_ylabel() == "wage"
    with pytest.raises(ValueError, match="by is for several covariates"):
        one.plot("quantiles", Figure().subplots(), by="site")


@pytest.mark.parametrize("picture", ["mean", "conditional", "slices"])
def test_units_of_pictures_over_one_covariate(one, picture):
    ax = one.plot(picture, Figure().subplots(), units="response", draws=20, points=12)
    assert "wage" in (ax.get_ylabel(), ax.get_xlabel())
    low, high = ax.get_xlim() if picture == "slices" else ax.get_ylim()
    assert low > 0 or picture == "mean"
    assert high > np.exp(one.model.frame.response).max() * 0.9


def test_contrasts_of_every_kind(fit):
    values = {"site": ["Bern", "Zug"]}
    ax = fit.plot("contrasts", Figure().subplots(), kind="quantile", q=0.9, values=values, units="response", draws=20)
    assert ax.get_xlabel() == "difference of 90% quantile of wage" and ax.get_yticklabels()[0].get_text() == "site: Zug - Bern"
    wanted = fit.contrasts(values, "quantile", q=0.9, units="response", draws=20)["estimate"].iloc[0]
    assert ax.lines[-1].get_xdata()[0] == pytest.approx(wanted)


def test_what_is_refused(fit, one):
    with pytest.raises(ValueError, match=r"kind of effect 'quantil'.*quantile"):
        fit.plot("effects", kind="quantil")
    with pytest.raises(ValueError, match="a quantile has none"):
        fit.plot("effects", kind="quantile", y=1.0)
    with pytest.raises(ValueError, match="option of plot 'mean' 'kind'"):
        one.plot("mean", kind="quantile")
    assert one.plot(kind="mean", ax=Figure().subplots(), **FEW).get_ylabel() == "log(wage)"
