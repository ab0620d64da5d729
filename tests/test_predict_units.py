"""Predictions in the units of the column behind a response, against quadrature and the formula's own."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from support.cover import by_turns

import nrmmix as nm
from nrmmix.model.frame.columns.units import ways_back

SHORT = "ignore:.*(converge|agree|R-hat|effective|chains).*"
pytestmark = pytest.mark.filterwarnings(SHORT)
RUN = {"draws": 40, "tune": 60, "chains": 2, "rng": 1, "progress": False}
USED = {"draws": 60, "rng": 2}
NO_MEAN = "ignore:.*posterior mean of E.*"


def table(n=60):
    rng = np.random.default_rng(3)
    x = rng.uniform(size=n)
    share = 1 / (1 + np.exp(-rng.normal(0.5 * x, 0.6)))
    return pd.DataFrame({"x": x, "wage": np.exp(2 + x + 0.5 * rng.normal(size=n)), "share": share, "b": rng.normal(size=n)})


DATA = table()
WAYS = {
    "log(wage)": np.log, "log10(wage)": np.log10, "np.log2(wage)": np.log2, "log1p(wage)": np.log1p, "sqrt(wage)": np.sqrt,
    "cbrt(wage)": np.cbrt, "logit(share)": lambda u: np.log(u / (1 - u)), "I(-wage)": np.negative,
    "I(2 * log(wage) - 3)": lambda u: 2 * np.log(u) - 3, "I(5 - wage / 1000)": lambda u: 5 - u / 1000,
    "center(log(wage))": lambda u: np.log(u) - np.log(DATA["wage"]).mean(), "arcsin(sqrt(share))": lambda u: np.arcsin(np.sqrt(u)),
    "standardize(wage)": lambda u: (u - DATA["wage"].mean()) / DATA["wage"].std(ddof=0), "I(wage ** 0.25)": lambda u: u**0.25,
    "I(log(wage) / np.log(3))": lambda u: np.log(u) / np.log(3), "arccos(share)": np.arccos, "I(b ** 3)": lambda u: u**3,
    "arctan(b)": np.arctan, "sinh(b)": np.sinh, "tanh(b)": np.tanh, "exp(b)": np.exp, "expm1(b)": np.expm1,
}


@pytest.mark.parametrize("text", WAYS)
def test_ways_back(text):
    model = nm.Model(f"{text} ~ 1", DATA)
    (back,) = ways_back(model.frame, [0]).values()
    y = DATA[back.column].to_numpy()
    z = model.frame.response[:, 0]
    assert back.forward(y) == pytest.approx(WAYS[text](y)) and z == pytest.approx(WAYS[text](y))
    assert back.inverse(z) == pytest.approx(y)
    slope = (back.forward(y * (1 + 1e-6)) - back.forward(y * (1 - 1e-6))) / (2e-6 * y)
    assert back.jacobian(y) == pytest.approx(np.abs(slope), rel=1e-5)
    assert back.increases == (slope[0] > 0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I(wage + b)", "several columns"), ("abs(b)", "abs has the same value at several values"), ("I(b ** 2)", "same value at several"),
        ("I(1 / wage)", "jumps at one"), ("sin(b)", "sin has the same"), ("floor(wage)", "floor has the same"),
        ("I(b * log(b + 9))", "in several places"), ("center(standardize(b))", "stand within each other"),
    ],
)
def test_no_way_back(text, why):
    fit = nm.fit(f"{text} ~ 1", DATA, draws=5, tune=5, chains=1, rng=1, progress=False)
    with pytest.raises(ValueError, match=f'units="response": there is no way back from .*{why}'):
        fit.predict(kind="quantile", units="response")
    assert fit.predict(kind="quantile").shape[0] == 3
    with pytest.raises(ValueError, match="units"):
        fit.predict(units="responses")


@pytest.fixture(scope="module")
def fits():
    return {text: nm.fit(f"{text} ~ x", DATA, **RUN) for text in ("log(wage)", "sqrt(wage)", "logit(share)", "I(-log(wage))")}


NEW = {"x": [0.2, 0.8]}


@pytest.mark.parametrize("text", by_turns(["log(wage)", "sqrt(wage)", "logit(share)", "I(-log(wage))"], 4))
def test_curves(fits, text):
    """Densities are the slopes of distribution functions, and integrate to one; these are those of the formula at its own points."""
    fit = fits[text]
    (back,) = ways_back(fit.model.frame, [0]).values()
    y = np.quantile(DATA[back.column], [0.1, 0.5, 0.9])
    z = back.forward(y)
    cdf = fit.predict(NEW, "cdf", at=y, units="response", **USED)
    over = fit.predict(NEW, "exceedance", at=y, units="response", **USED)
    kind = "cdf" if back.increases else "exceedance"
    theirs = fit.predict(NEW, kind, at=z, **USED)
    assert cdf.to_numpy() == pytest.approx(theirs.to_numpy(), abs=1e-9)
    assert cdf["estimate"].to_numpy() + over["estimate"].to_numpy() == pytest.approx(1.0)
    assert cdf["lower"].to_numpy() + over["upper"].to_numpy() == pytest.approx(1.0)
    assert cdf.index.get_level_values("y").to_numpy()[:3] == pytest.approx(y)
    step = 1e-4 * y
    above, below = (fit.predict(NEW, "cdf", at=y + sign * step, units="response", **USED) for sign in (1, -1))
    density = fit.predict(NEW, "density", at=y, units="response", **USED)
    slope = (above["estimate"].to_numpy() - below["estimate"].to_numpy()) / np.tile(2 * step, 2)
    assert density["estimate"].to_numpy() == pytest.approx(slope, rel=2e-3)
    scale = density["estimate"].to_numpy() / fit.predict(NEW, "density", at=z, **USED)["estimate"].to_numpy()
    assert scale == pytest.approx(np.tile(back.jacobian(y), 2))
    # on a grid in the units of the column
    ends = {"wage": (1e-3, 400.0), "share": (1e-6, 1 - 1e-6)}[back.column]
    grid = np.linspace(*ends, 6001) if back.column == "share" else np.geomspace(*ends, 6001)
    values = fit.predict({"x": [0.5]}, "density", at=grid, units="response", **USED)["estimate"].to_numpy()
    mass = integrate.trapezoid(values, grid)
    at_ends = fit.predict({"x": [0.5]}, "cdf", at=list(ends), units="response", **USED)["estimate"].to_numpy()
    assert mass == pytest.approx(at_ends[1] - at_ends[0], abs=3e-3) and mass > 0.95


@pytest.mark.parametrize("text", by_turns(["log(wage)", "sqrt(wage)", "logit(share)", "I(-log(wage))"]))
def test_quantiles_are_taken_back(fits, text):
    fit, q = fits[text], np.array([0.05, 0.5, 0.8])
    (back,) = ways_back(fit.model.frame, [0]).values()
    ours = fit.predict(NEW, "quantile", q=q, units="response", **USED)
    theirs = back.inverse(fit.predict(NEW, "quantile", q=q if back.increases else np.sort(1 - q), **USED).to_numpy()).reshape(2, 3, 3)
    if not back.increases:
        theirs = theirs[:, ::-1][..., [0, 2, 1]]
    assert ours["estimate"].to_numpy().reshape(2, 3) == pytest.approx(theirs[..., 0], rel=1e-9)
    assert ours.to_numpy().reshape(2, 3, 3) == pytest.approx(theirs, rel=0.02)  # quantiles over draws lie between two of them
    below = fit.predict({"x": [0.2]}, "cdf", at=ours["estimate"].to_numpy()[:3], units="response", **USED)
    assert below["estimate"].to_numpy() == pytest.approx(q, abs=2e-3)


@pytest.mark.parametrize("text", ["log(wage)", "sqrt(wage)", "logit(share)", "I(3 * log1p(wage) - 1)", "I(wage / 7 + 1)", "cbrt(wage)"])
def test_mean_under_a_normal(text):
    model = nm.Model(f"{text} ~ 1", DATA)
    (back,) = ways_back(model.frame, [0]).values()
    mean, sd = np.array([[0.3, 2.0]]), np.array([[0.7, 1.3]])
    found = back.mean_under_normal(mean, sd)

    def by_quadrature(m, s):
        of = lambda z: float(back.inverse(z)) * stats.norm.pdf(z, m, s)  # noqa: E731
        return integrate.quad(of, m - 12 * s, m + 12 * s, points=[m, 0.0], limit=200)

    wanted = [by_quadrature(m, s)[0] for m, s in zip(mean[0], sd[0], strict=True)]
    assert found[0] == pytest.approx(wanted, rel=1e-5)


def test_mean_behind_log_is_a_median_of_random_means(fits):
    """By hand: of each draw of the measure the atoms' means of the log-normal, by their shares."""
    from nrmmix.common.seeds import draw_seeds, seed_sequence
    from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
    from nrmmix.posterior.predict.states import states_of

    fit = fits["log(wage)"]
    with pytest.warns(UserWarning, match=r"posterior mean of E\[wage\] does not exist"):
        found = fit.predict(NEW, units="response", **USED)
    states, rows = states_of(fit.posterior, 60), prediction_rows(fit.model, NEW)
    covariates, means = CovariateWeights(fit.model, rows), []
    for state, child in zip(states, draw_seeds(seed_sequence(2), 60), strict=True):
        measure = state.measure(child).seen_from(covariates)
        share, _ = measure.shares(covariates)
        (law,) = measure.distributions(rows.inputs)
        means.append((share * np.exp(law.mean + 0.5 * law.sd**2)).sum(axis=1) / share.sum(axis=1))
    means = np.array(means)
    assert found["estimate"].to_numpy() == pytest.approx(np.median(means, axis=0))
    assert found["lower"].to_numpy() == pytest.approx(np.quantile(means, 0.05, axis=0))
    assert "in the units of wage" in found.attrs["units"]


def test_means_of_bounded_and_affine_columns(fits):
    found = fits["logit(share)"].predict(NEW, units="response", **USED)
    assert ((found > 0) & (found < 1)).all(axis=None)
    simulated = fits["logit(share)"].simulate({"x": [0.2] * 400}, draws=60, rng=5, units="response")
    assert list(simulated) == ["share"]
    assert found["estimate"].iloc[0] == pytest.approx(simulated["share"].mean(), abs=0.03)
    fit = nm.fit("I(5 - wage / 10) ~ x", DATA, **RUN)
    ours, theirs = (fit.predict(NEW, units=units, **USED).to_numpy() for units in ("response", "formula"))
    assert ours == pytest.approx(10 * (5 - theirs[:, [0, 2, 1]]))
    plain = nm.fit("wage ~ x", DATA, **RUN)
    pd.testing.assert_frame_equal(plain.predict(NEW, units="response", **USED), plain.predict(NEW, **USED))
    refused = nm.fit("exp(b) ~ x", DATA, **RUN)
    with pytest.raises(ValueError, match="the mean of b cannot be had from that of exp"):
        refused.predict(NEW, units="response")


@pytest.mark.filterwarnings(NO_MEAN)
def test_contrasts_and_averages(fits):
    fit = fits["log(wage)"]
    (back,) = ways_back(fit.model.frame, [0]).values()
    values = {"x": [0.2, 0.8]}
    quantile = fit.contrasts(values, "quantile", q=0.5, units="response", **USED)
    medians = fit.predict(NEW, "quantile", q=0.5, units="response", **USED)["estimate"].to_numpy()
    assert quantile["estimate"].iloc[0] == pytest.approx(medians[1] - medians[0])
    y = 12.0
    density = fit.contrasts(values, "density", at=y, units="response", **USED).to_numpy()
    theirs = fit.contrasts(values, "density", at=math.log(y), **USED).to_numpy()
    assert density == pytest.approx(theirs / y)
    falling = fits["I(-log(wage))"]
    cdf = falling.contrasts(values, "cdf", at=y, units="response", **USED).to_numpy()
    parts = falling.predict(NEW, "cdf", at=y, units="response", **USED)["estimate"].to_numpy()
    assert cdf[0, 0] == pytest.approx(parts[1] - parts[0]) and cdf[0, 1] <= cdf[0, 0] <= cdf[0, 2]
    mean = fit.contrasts(values, units="response", **USED)
    assert mean["lower"].iloc[0] <= mean["estimate"].iloc[0] <= mean["upper"].iloc[0]


def test_own_responses_grids_and_missing_points(fits):
    fit = fits["log(wage)"]
    own, theirs = fit.predict(kind="density", units="response", **USED), fit.predict(kind="density", **USED)
    assert own["estimate"].to_numpy() == pytest.approx(theirs["estimate"].to_numpy() / DATA["wage"].to_numpy())
    assert own.index.get_level_values("y").to_numpy() == pytest.approx(DATA["wage"].to_numpy())
    grid = fit.predict({"x": [0.5]}, "density", units="response", **USED)
    y = grid.index.get_level_values("y").to_numpy()
    assert len(y) == 100 and y.min() > 0 and integrate.trapezoid(grid["estimate"], y) == pytest.approx(1.0, abs=0.1)
    with pytest.raises(ValueError, match=r"at: -1 is out of the range of wage: log\(wage\) is not finite there"):
        fit.predict(NEW, "cdf", at=[-1.0, 3.0], units="response")


def test_probabilities_at_the_end_of_a_range(fits):
    """A survival curve begins at time 0, where its logarithm is not finite."""
    for name, fit in fits.items():
        if "log(wage)" in name:  # rising and falling
            table = fit.predict(NEW, "cdf", at=[0.0, 3.0], units="response", **USED)
            first = table.xs(0.0, level="y") if "y" in table.index.names else table[::2]
            assert first[["estimate", "lower", "upper"]].to_numpy() == pytest.approx(0.0, abs=1e-12)
            above = fit.predict(NEW, "exceedance", at=[0.0], units="response", **USED)
            assert above[["estimate", "lower", "upper"]].to_numpy() == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(ValueError, match=r"at: 0 is out of the range of wage"):
        fits["log(wage)"].predict(NEW, "density", at=[0.0], units="response")


@pytest.mark.nightly
def test_several_responses_and_given():
    fit = nm.fit("log(wage) + b ~ 1", DATA, **RUN)
    at = np.array([[8.0, 0.3], [20.0, -1.0]])
    ours = fit.predict(kind="density", at=at, units="response", **USED)
    theirs = fit.predict(kind="density", at=np.column_stack([np.log(at[:, 0]), at[:, 1]]), **USED)
    assert ours.to_numpy() == pytest.approx(theirs.to_numpy() / at[:, :1])
    assert ours.index.get_level_values("log(wage)").to_numpy() == pytest.approx([8.0, 20.0])
    new = {"b": [0.1, -0.4]}
    ours = fit.predict(new, "quantile", given="b", q=[0.2, 0.5], units="response", **USED)["estimate"].to_numpy()
    theirs = fit.predict(new, "quantile", given="b", q=[0.2, 0.5], **USED)["estimate"].to_numpy()
    assert ours == pytest.approx(np.exp(theirs))
    ours = fit.predict(new, "density", given="b", at=[9.0], units="response", **USED)
    theirs = fit.predict(new, "density", given="b", at=[math.log(9.0)], **USED)
    assert ours.to_numpy() == pytest.approx(theirs.to_numpy() / 9.0)
    with pytest.raises(ValueError, match="means given some responses are those of the formula"):
        fit.predict(new, given="b", units="response")
    both = fit.predict(kind="quantile", q=0.5, units="response", **USED)
    assert both.loc["log(wage)", "estimate"].iloc[0] > 3 and abs(both.loc["b", "estimate"].iloc[0]) < 1


def test_point_masses_come_back():
    data = DATA.assign(wage=np.where(DATA["x"] < 0.3, 1.0, DATA["wage"]))
    fit = nm.fit("log(wage) ~ 1", data, family=nm.Hurdle(nm.Gaussian(), at=0.0), **RUN)
    at_one, beside = fit.predict(kind="cdf", at=[1.0, 0.999], units="response", **USED)["estimate"]
    assert at_one - beside == pytest.approx((data["wage"] == 1.0).mean(), abs=0.05)
