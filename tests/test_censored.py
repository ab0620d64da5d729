"""Censored responses: formulas and tables, predictions, files, pictures; tests/exact/test_censored.py has the posterior."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats
from support.cover import by_turns

import nrmmix as nm
from nrmmix.model.families.distributions import NegativeBinomial, Normal, PoissonDistribution, StudentT, log_between
from nrmmix.model.frame.formula import model_frame
from nrmmix.plots.survival import largest_likelihood

pytestmark = pytest.mark.filterwarnings("ignore:.*", category=nm.ConvergenceWarning)
INF = np.inf
RUN = {"draws": 40, "tune": 40, "chains": 2, "rng": 1}


def table(n: int = 30, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    t, until = np.exp(1.0 + 0.3 * x + 0.6 * rng.normal(size=n)), np.exp(1.3 + 0.6 * rng.normal(size=n))
    counts = rng.poisson(3, n)
    return pd.DataFrame({
        "time": np.minimum(t, until), "event": (t <= until).astype(int), "x": x, "z": rng.normal(size=n),
        "lower": np.floor(t), "upper": np.floor(t) + 1.0, "few": counts, "many": np.where(rng.random(n) < 0.3, INF, counts),
    }, index=[f"r{i}" for i in range(n)])


DATA = table()
FITS = {
    "time": ("Surv(log(time), event) ~ 1", None),
    "full": ("Surv(log(time), event) + z ~ 1", None),
    "diagonal": ("Surv(log(time), event) + z ~ 1", nm.Gaussian("diagonal")),
    "spherical": ("Surv(log(time), event) + z ~ 1", nm.Gaussian("spherical")),
    "intervals": ("interval(log(lower), log(upper)) ~ 1", None),
    "counts": ("interval(few, many) ~ 1", nm.Poisson()),
    "blocks": ("interval(few, many) + Surv(time, event) ~ 1", {"interval(few, many)": nm.Poisson(), "time": nm.Gaussian()}),
    "regression": ("Surv(log(time), event) ~ x", None),
}


@pytest.fixture(scope="module")
def fits():
    made: dict[str, nm.MCMCResult] = {}

    def fit(name: str) -> nm.MCMCResult:
        if name not in made:
            formula, family = FITS[name]
            made[name] = nm.fit(formula, DATA.drop(index="r0") if name == "intervals" else DATA, family=family, **RUN)
        return made[name]

    return fit


# ---- formulas and tables

def test_what_is_read():
    frame = model_frame("Surv(log(time), event) + interval(lower, upper) ~ x", DATA)
    assert frame.response_names == ("log(time)", "interval(lower, upper)") and frame.covariate_names == ("x",)
    censored = DATA["event"].to_numpy() == 0
    assert np.array_equal(frame.response[:, 0], np.log(DATA["time"])) and np.array_equal(frame.response[:, 1], DATA["lower"] + 0.5)
    assert np.array_equal(~np.isnan(frame.limits[:, 0, 0]), censored) and np.array_equal(np.isnan(frame.seen[:, 0]), censored)
    assert (frame.limits[censored, 0] == np.column_stack([np.log(DATA["time"])[censored], np.full(censored.sum(), INF)])).all()
    assert np.array_equal(frame.limits[:, 1], DATA[["lower", "upper"]]) and np.isnan(frame.seen[:, 1]).all()


def test_where_every_value_was_seen_nothing_is_censored():
    whole = DATA.assign(event=True, upper=DATA["lower"])
    for formula, plain in (("Surv(time, event) ~ 1", "time ~ 1"), ("interval(lower, upper) ~ 1", "lower ~ 1")):
        censored, same = (nm.fit(one, whole, **RUN) for one in (formula, plain))
        assert censored.model.frame.limits is None and "imputed" not in censored.draws
        assert np.array_equal(censored.draws["labels"], same.draws["labels"])


def test_a_negative_limit_and_lower_ends_at_minus_infinity():
    data = {"a": [-INF, 0.5, 1.0, 2.0], "b": [0.3, INF, 1.0, 2.5]}
    assert model_frame("interval(a, b) ~ 1", data).response[:, 0].tolist() == [0.3, 0.5, 1.0, 2.25]
    logs = model_frame("interval(log(a), log(b)) ~ 1", {"a": [0.0, 0.5, 1.0], "b": [0.3, INF, 1.0]})
    assert logs.limits[0, 0, 0] == -INF and np.isfinite(logs.response).all()


def test_missing_values_are_dropped_and_said():
    data = DATA.assign(event=DATA["event"].mask(DATA.index == "r4"), time=DATA["time"].mask(DATA.index == "r7"))
    with pytest.warns(UserWarning, match=r"2 of 30 rows"):
        frame = model_frame("Surv(time, event) ~ 1", data)
    assert frame.n_used == 28 and {"r4", "r7"}.isdisjoint(frame.index)


CODES = DATA.assign(event=DATA["event"] + 1)
CROSSED = DATA.assign(upper=DATA["upper"].where(~DATA.index.isin(["r3", "r5"]), -1.0))


@pytest.mark.parametrize(("formula", "data", "message"), [
    ("Surv(time, event) ~ 1", CODES, r"event of Surv.* is 2.* in row \d+ \(index label 'r\d+'\).* 1 where the event was seen"),
    ("Surv(time, event) ~ 1", DATA.assign(event="dead"), r"'event' of .* holds text or categories; give numbers: 1 where"),
    ("interval(lower, upper) ~ 1", CROSSED, r"lower end of .* is above the upper one in row 3 .*, row 5 .*; exchange"),
    ("interval(lower, upper) ~ 1", DATA.assign(lower=-INF, upper=INF), r"Both ends of .* are infinite in row 0.* and 26 more"),
    ("interval(lower, upper) ~ 1", DATA.assign(lower=INF, upper=INF), r"lies beyond all numbers in row 0"),
    ("interval(lower, upper) ~ 1", DATA.assign(upper=INF), r"Every value of .* is censored at the right: nothing says how far"),
    ("interval(lower, upper) ~ 1", DATA.assign(lower=-INF), r"Every value of .* is censored at the left"),
    ("Surv(time, event) ~ 1", DATA.assign(event=0), r"Every value of .* is censored at the right.* rows in which the event was seen"),
    ("Surv(log(time), event) ~ 1", DATA.assign(time=DATA["time"].where(DATA["event"] == 1, 0.0)), r"has no finite value there"),
    ("interval(log(lower), log(upper)) ~ 1", DATA.assign(lower=-1.0), r"'log\(lower\)' is nan in row 0"),
    ("Surv(1 / time, event) ~ 1", DATA, r"'I.1 / time.' does not grow with one column.* write interval"),
    ("Surv(time, event) ~ 1", DATA.assign(time=INF), r"'time' is inf in row 0"),
    ("log(Surv(time, event)) ~ 1", DATA, r"Surv stands alone on the left: transform what is in it, Surv\(log\(time\), event\)"),
    ("x ~ Surv(time, event)", DATA, r"Surv stands alone on the left"),
    ("Surv(time, event) * z ~ 1", DATA, r"responses are joined by \+"),
    ("Surv(time) ~ 1", DATA, r"Surv takes two columns, Surv\(time, event\)"),
    ("interval(lower, 3) ~ 1", DATA, r"in interval there are columns, arithmetic"),
    ("interval(center(lower), upper) ~ 1", DATA, r"in interval there are columns, arithmetic"),
    ("Surv(time, event) ~ time", DATA, r"'time' stands on both sides"),
])
def test_what_cannot_be_read(formula, data, message):
    with pytest.raises(ValueError, match=message):
        nm.Model(formula, data)


@pytest.mark.parametrize(("formula", "family", "message"), [
    ("interval(few, many) ~ 1", nm.Categorical(), r"Categorical has no way with censored responses \(interval\(few, many\)\); nm.Gaussian"),
    ("Surv(time, event) ~ 1", nm.Hurdle(nm.Gaussian()), r"Hurdle has no way with censored responses"),
    ("Surv(time, event) ~ 1", nm.SemiconjugateGaussian(), r"SemiconjugateGaussian has no way with censored"),
    ("Surv(time, event) + z ~ x", nm.Regression("1 + x"), r"Regression of several responses has no way with censored ones"),
    ("Surv(time, event) + z ~ 1", nm.Gaussian(known_covariance=np.eye(2) + 0.2), r"known_covariance=.* has no way with censored ones"),
    ("interval(lower, upper) ~ 1", nm.Poisson(), None),
    ("Surv(time, event) ~ 1", nm.Poisson(), r"'time' is .* not a count"),
])
def test_families(formula, family, message):
    if message is None:
        assert nm.Model(formula, DATA, family=family).packed.limit[0].tolist() == [DATA["lower"].iloc[0], DATA["upper"].iloc[0] + 1.0]
        return
    with pytest.raises(ValueError, match=message):
        nm.Model(formula, DATA, family=family)


@pytest.mark.parametrize("method", ["vb", "memoized_vb", "bhc", "ibhc", "tree_published"])
def test_methods_that_draw_nothing_say_which_do(method):
    with pytest.raises(ValueError, match=r"censored responses|responses are censored.*methods for this model are.*'gibbs'.*'tree'"):
        nm.fit("Surv(time, event) ~ 1", DATA, method=method)
    suits = nm.Model("Surv(time, event) ~ 1", DATA).methods()["suits"]
    assert suits[["gibbs", "split_merge", "slice", "permutation", "tree"]].all() and not suits[method]


def test_rows_in_files_are_refused(tmp_path):
    DATA.to_csv(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match=r"Surv.*need the rows in memory"):
        nm.Model("Surv(time, event) ~ 1", str(tmp_path / "rows.csv"))


# ---- fits

@pytest.mark.parametrize("name", by_turns(FITS))
def test_values_stay_within_limits_and_files_bring_them_back(name, fits, tmp_path):
    fit = fits(name)
    model = fit.model
    rows, responses = model.blocks.drawn(model.packed)
    lower, upper = np.moveaxis(model.frame.limits[rows, responses], -1, 0)
    drawn = fit.draws["imputed"]
    assert (drawn >= lower - 1e-9).all() and (drawn <= upper + 1e-9).all() and len(rows) == len(model.packed.censored)
    fit.save(tmp_path / "fit.npz")
    again = nm.load(tmp_path / "fit.npz")
    assert np.array_equal(again.model.frame.limits, model.frame.limits, equal_nan=True)
    more, same = fit.extend(5), again.extend(5)
    assert all(np.array_equal(more.draws[one], same.draws[one]) for one in ("labels", "imputed", "log_joint"))
    assert np.array_equal(again.log_density(), fit.log_density())


def test_a_run_that_was_kept_goes_on_as_if_it_had_not_stopped():
    formula, moves = "Surv(log(time), event) ~ 1", [nm.Gibbs(), nm.TreeGuided(), nm.Permutation()]
    part = nm.fit(formula, DATA, method=moves, draws=10, tune=20, chains=2, rng=1).extend(20)
    whole = nm.fit(formula, DATA, method=moves, draws=30, tune=20, chains=2, rng=1)
    assert all(np.array_equal(part.draws[name], whole.draws[name]) for name in whole.draws)


def test_weights_are_rows_that_are_repeated():
    w = np.random.default_rng(1).integers(1, 4, len(DATA))
    weighed = nm.fit("Surv(log(time), event) ~ 1", DATA.assign(w=w), weights="w", **RUN)
    repeated = nm.fit("Surv(log(time), event) ~ 1", DATA.loc[np.repeat(DATA.index, w)], **RUN)
    assert all(np.array_equal(weighed.draws[name], repeated.draws[name]) for name in ("labels", "imputed", "log_joint"))
    assert weighed.draws["imputed"].shape[2] == w[DATA["event"] == 0].sum()


def test_ties_of_censored_values_are_none():
    """At the end of a study many rows are censored at the same time."""
    data = DATA.assign(time=DATA["time"].clip(upper=3.0), event=((DATA["time"] < 3.0) & (DATA["event"] == 1)).astype(int))
    nm.Model("Surv(time, event) ~ 1", pd.concat([data, data.assign(time=data["time"] * 0.97)], ignore_index=True))


def test_log_joint_is_that_of_the_completed_data(fits):
    fit = fits("full")
    draws = {name: fit.draws[name][1, -1] for name in ("labels", "imputed", "mass", "scale", "log_joint")}
    found = fit.model.log_joint(draws["labels"], mass=draws["mass"], scale=draws["scale"], imputed=draws["imputed"])
    assert found == pytest.approx(draws["log_joint"], abs=1e-8)
    whole = fit.model.frame.response.copy()
    whole[fit.model.blocks.drawn(fit.model.packed)] = draws["imputed"]
    family = nm.Gaussian(**{name: getattr(fit.model.family, name) for name in ("m", "r", "nu", "scale")})
    again = nm.Model(data=whole, family=family).log_joint(draws["labels"], mass=draws["mass"], scale=draws["scale"])
    assert again == pytest.approx(found, abs=1e-8)


def test_values_far_out_are_drawn_to_full_accuracy():
    """Rows censored 30 standard deviations beyond all others: the value beyond the limit falls off as the tail of Student's t."""
    y = np.r_[np.random.default_rng(2).normal(size=50), 30.0]
    data = {"a": y, "b": np.r_[y[:-1], INF]}
    family = nm.Gaussian(m=0.0, r=1.0, nu=5.0, scale=5.0)
    fit = nm.fit("interval(a, b) ~ 1", data, family=family, prior=nm.FiniteMixture(1), init="one", draws=4000, tune=50, chains=4, rng=1)
    n, seen = 50, y[:-1]
    r, nu, mean = 1.0 + n, 5.0 + n, seen.sum() / (1.0 + n)
    square = 5.0 + ((seen - seen.mean()) ** 2).sum() + n / (1.0 + n) * seen.mean() ** 2
    law = stats.t(nu, mean, np.sqrt(square / nu * (1 + 1 / r)))
    for at in (30.5, 31.0, 32.0):
        share = (fit.draws["imputed"][..., 0] > at).mean(axis=1)
        assert share.mean() == pytest.approx(law.sf(at) / law.sf(30.0), abs=5 * share.std(ddof=1) / 2 + 0.01)


# ---- predictions

@pytest.mark.parametrize("name", by_turns(FITS, 2, 1))
def test_log_density_of_new_rows_is_that_of_the_fitted_ones(name, fits):
    fit = fits(name)
    own = fit.log_density()
    new = fit.log_density(fit.model.frame.source.rename(index="new {}".format))
    assert own.notna().all() and np.allclose(own, new)


@pytest.mark.parametrize("name", by_turns(["time", "full", "diagonal", "spherical", "counts"]))
def test_log_density_of_a_censored_row_is_the_log_of_an_integral(name, fits):
    fit = fits(name)
    limits = fit.model.frame.limits[:, 0]
    i = int(np.flatnonzero(np.isinf(limits[:, 1]))[0])
    if name == "counts":
        y, weight = np.arange(limits[i, 0], 400.0), 1.0
    else:
        u = (np.polynomial.legendre.leggauss(400)[0] + 1) / 2
        y, weight = limits[i, 0] + u / (1 - u), np.polynomial.legendre.leggauss(400)[1] / 2 / (1 - u) ** 2
    at = y if fit.model.n_dim == 1 else np.column_stack([y, np.full(len(y), DATA["z"].iloc[i])])
    density = fit.predict(kind="density", at=at, draws=1000)["estimate"].to_numpy()
    assert fit.log_density().iloc[i] == pytest.approx(np.log((density * weight).sum()), abs=2e-4)


def test_survival_and_hazard(fits):
    fit = fits("time")
    at = [0.2, 1.0, 2.5]
    survival, hazard = (fit.predict(kind=kind, at=at, draws=50) for kind in ("survival", "hazard"))
    cdf, density = (fit.predict(kind=kind, at=at, draws=50) for kind in ("cdf", "density"))
    assert np.allclose(survival["estimate"], 1 - cdf["estimate"]) and np.allclose(survival["lower"], 1 - cdf["upper"])
    assert np.allclose(hazard["estimate"], density["estimate"] / survival["estimate"])
    assert (hazard["lower"] <= hazard["estimate"]).all() and (hazard["estimate"] <= hazard["upper"]).all()
    curve = fit.predict(kind="survival", draws=20)["estimate"]
    assert len(curve) == 100 and (np.diff(curve) <= 0).all()
    assert survival.attrs["units"] == "probabilities" and hazard.attrs["units"] == "events per unit of the response"


def test_survival_of_new_rows_needs_no_response(fits):
    fit = fits("regression")
    new = pd.DataFrame({"x": [-1.0, 1.0]})
    assert fit.predict(new, "survival", at=[1.0, 2.0], draws=20).shape == (4, 3)
    assert fit.predict(new, "hazard", draws=20).shape == (200, 3)
    contrast = fit.contrasts({"x": [-1, 1]}, "survival", at=[1.0], draws=20)
    assert contrast.index.tolist() == [("1 - -1", 1.0)] or contrast.index.tolist() == [("1.0 - -1.0", 1.0)]
    with pytest.raises(ValueError, match=r"newdata has no time, event; log_density needs the response"):
        fit.log_density(new)


def test_hazard_of_counts_is_refused(fits):
    with pytest.raises(ValueError, match='probability of their own, and no hazard; use kind="survival"'):
        fits("counts").predict(kind="hazard", at=[2])


def test_own_densities_of_censored_rows_are_not_known(fits):
    fit = fits("time")
    found = fit.predict(kind="density", draws=20)["estimate"].isna().to_numpy()
    assert np.array_equal(found, DATA["event"] == 0)
    assert np.array_equal(fit.augment()[".resid"].isna(), DATA["event"] == 0)


def test_clusters_of_censored_rows(fits):
    fit = fits("time")
    found = fit.predict(DATA.rename(index="new {}".format), "cluster")
    assert found["cluster"].notna().all() and found["probability"].between(0, 1).all()


def test_several_censored_responses_that_depend_on_each_other():
    fit = nm.fit("Surv(log(time), event) + interval(lower, upper) ~ 1", DATA, **RUN)
    with pytest.raises(ValueError, match=r"row .* has several censored responses among log\(time\), interval"):
        fit.log_density()


@pytest.mark.filterwarnings("ignore:loo. Pareto k")
@pytest.mark.parametrize("name", ["time", "full", "regression"])
def test_leave_one_out(name, fits):
    found = fits(name).loo()
    assert found.rows["elpd"].notna().all() and found.p_loo > 0


@pytest.mark.parametrize(("law", "reference"), [
    (StudentT(1.0, 2.0, np.array([4.0])), stats.t(4.0, 1.0, 2.0)), (Normal(1.0, 2.0), stats.norm(1.0, 2.0)),
    (NegativeBinomial(2.5, 0.7), stats.nbinom(2.5, 1 / 1.7)), (PoissonDistribution(3.5), stats.poisson(3.5)),
])
def test_probabilities_of_intervals(law, reference):
    for lower, upper in ((2.0, 5.0), (-INF, 3.0), (4.0, INF), (40.0, INF), (40.0, 41.0)):
        low = lower - 1 if law.discrete else lower
        p = reference.sf(low) - reference.sf(upper) if lower > 3 else reference.cdf(upper) - reference.cdf(low)
        assert log_between(law, np.array([lower]), np.array([upper])).item() == pytest.approx(np.log(p), rel=1e-7)


# ---- pictures

def test_curve_of_kaplan_and_meier():
    time, event = np.array([6.0, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]), np.zeros(21)
    event[[0, 1, 2, 4, 6, 9, 10, 14, 15]] = 1  # the leukaemia patients of Freireich et al. (1963)
    _, at, above, last = largest_likelihood(np.column_stack([time, np.where(event == 1, time, INF)]))
    assert at.tolist() == [6, 7, 10, 13, 16, 22, 23] and last == 35
    assert above.round(3).tolist() == [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448]


def test_curve_of_turnbull():
    """Where every value was seen or is censored at the right it is that of Kaplan & Meier; else it has the largest likelihood."""
    ends = np.array([[1.0, 1.0], [2.0, INF], [3.0, 3.0], [4.0, INF], [0.0, 2.5], [2.0, 3.5], [-INF, 1.5]])
    since, at, above, _ = largest_likelihood(ends)

    def log_likelihood(p: np.ndarray) -> float:
        places = np.r_[at, INF]
        within = [(places == a) if a == b else (a < places) & (places <= b) for a, b in ends]
        return float(sum(np.log(p[one].sum()) for one in within))

    p = np.append(-np.diff(np.r_[1.0, above]), above[-1])
    best, rng = log_likelihood(np.maximum(p, 1e-12)), np.random.default_rng(1)
    assert all(log_likelihood((1 - 0.01) * p + 0.01 * rng.dirichlet(np.ones(len(p)))) <= best + 1e-9 for _ in range(200))
    assert (since <= at).all()


@pytest.mark.parametrize("name", by_turns(["time", "intervals", "counts", "blocks", "regression"]))
def test_pictures(name, fits):
    fit = fits(name)
    names = fit.model.frame.response_names
    assert {"survival", "ppc"} <= {*nm.plots.available(fit.model)}
    for kind, options in (("survival", {"draws": 20}), ("ppc", {"draws": 5})):
        axes = np.ravel(np.array(fit.plot(kind, ax=Figure().subplots(1, len(names)), **options), dtype=object))
        labels = [{line.get_label() for line in one.lines} for one in axes]
        assert all({"Kaplan-Meier", "Turnbull"} & one for one in labels)
    with pytest.raises(ValueError, match=r"needs a response that is censored"):
        nm.plots.check(nm.Model("time ~ 1", DATA), "survival")


def test_models_and_summaries_count_censored_rows(fits):
    fit, censored = fits("time"), int((DATA["event"] == 0).sum())
    assert f"response log(time) ({censored} rows censored)" in str(fit.model)
    assert f"Censored:{censored:>18}" in str(fit.summary()) or f"{censored}" in str(fit.summary())
