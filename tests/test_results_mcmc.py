"""Results of a fit: methods, diagnostics, and the summary in its formats."""

import csv
import io
import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from support.cover import by_turns

import nrmmix as nm
from nrmmix.inference.mcmc.sampling import Run
from nrmmix.kernels.chain import start
from nrmmix.model.frame.rows import NewRows
from nrmmix.model.pack import arrays_of
from nrmmix.posterior import diagnostics
from nrmmix.posterior.convergence import converged, verdict
from nrmmix.posterior.draws import Draws
from nrmmix.report import clusters
from nrmmix.report.summary import rounded
from nrmmix.report.tables import escape_latex
from nrmmix.results.mcmc import MCMCResult

RUN = {"draws": 60, "tune": 20, "chains": 2, "rng": 1, "cores": 1}


@pytest.fixture(scope="module")
def mixture():
    return nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), prior=nm.NGGP(), **RUN)


@pytest.fixture(scope="module")
def regression():
    table = nm.datasets.load_mcycle()
    table.loc[3, "accel_g"] = np.nan
    with pytest.warns(UserWarning, match="1 of 133 rows dropped"):
        model = nm.Model("accel_g ~ times_ms", table, family=nm.Gaussian(), kernel=nm.SquaredExponential(nm.LogNormal(-3, 1)))
    return model.fit(**RUN)


@pytest.fixture(scope="module")
def model():
    return nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy(), family=nm.Gaussian(scale=0.8))


def made(model, mass, *, n_clusters=None, labels=0, interrupted=False, thin=1):
    """A result with draws of one's own, mass (chain, draw)."""
    chains, draws = mass.shape
    n_clusters = np.arange(mass.size).reshape(mass.shape) % 2 + 3 if n_clusters is None else n_clusters
    values = {
        "n_clusters": n_clusters, "log_joint": np.full((chains, draws), -10.0), "mass": mass, "sigma": np.zeros((chains, draws)),
        "labels": np.broadcast_to(np.int32(labels), (chains, draws, model.n_obs)).copy(),
    }
    return MCMCResult(model, Run(Draws(values), "gibbs", 500, thin, 7, 1.25, 0.1234, interrupted, ()))


def noise(chains=4, draws=2000, seed=1):
    return np.random.default_rng(seed).gamma(3.0, size=(chains, draws))


# ---- methods


def test_attributes_are_those_of_the_run(model):
    run = Run(Draws({"n_clusters": np.ones((2, 5), int)}), "gibbs", 11, 3, 42, 0.5, 0.1, True, ())
    fit = MCMCResult(model, run)
    assert fit.model is model and fit.draws is run.draws
    assert (fit.method, fit.tune, fit.thin, fit.seed, fit.seconds) == ("gibbs", 11, 3, 42, 0.5)
    assert (fit.moved, fit.interrupted) == (0.1, True)


def test_seed_draws_the_same_again(mixture):
    again = mixture.model.fit(**{**RUN, "rng": mixture.seed})
    assert np.array_equal(again.draws["labels"], mixture.draws["labels"])


def test_predictions_are_those_of_the_predict_module(mixture, monkeypatch):
    seen = []

    def given(rows):
        return rows.data if isinstance(rows, NewRows) else rows

    module = SimpleNamespace(
        predict=lambda posterior, rows, *args, **options: seen.append(((posterior, given(rows), *args), options)) or "table",
        log_density=lambda posterior, rows, *args: seen.append(((posterior, given(rows), *args), {})) or "series",
    )
    monkeypatch.setitem(__import__("sys").modules, "nrmmix.posterior.predict.tables", module)
    assert mixture.predict("rows", "density", at=[1.0], q=0.3, interval=0.5, draws=9, rng=3) == "table"
    assert mixture.log_density("rows") == "series"
    assert callable(seen[0][1].pop("estimate"))
    assert seen == [
        ((mixture.posterior, "rows", "density"), {
            "at": [1.0], "q": 0.3, "interval": 0.5, "draws": 9, "rng": 3, "response": None, "given": None, "units": "formula",
        }),
        ((mixture.posterior, "rows", 1000, "density"), {}),
    ]


def test_predict_and_log_density_follow_the_rows(regression):
    table = regression.predict(draws=20, rng=1)
    assert table.index.equals(regression.model.frame.index) and 3 not in table.index
    assert (table["lower"] <= table["upper"]).all()
    density = regression.predict(kind="density", draws=120, rng=1)
    assert np.allclose(np.log(density["estimate"]).to_numpy(), regression.log_density().to_numpy())


def test_diagnostics_cover_label_invariant_numbers(mixture, regression):
    assert list(mixture.diagnostics().index) == ["n_clusters", "log_joint", "mass", "sigma", "u"]
    table = regression.diagnostics()
    of_proposals = [f"sequential {kind} {what}" for kind in ("split", "merge") for what in ("accepted", "log ratio")]
    assert list(table.index) == ["n_clusters", "log_joint", "mass", "sigma", "width", *of_proposals]
    assert table.loc["width", "rhat"] == diagnostics.rhat(regression.draws["width"])
    assert table.loc["sigma", "mean"] == 0 and table.loc["sigma"].drop("mean").isna().all()


def test_autocorrelation_is_a_table_by_chain(mixture):
    table = mixture.autocorrelation("mass", 7)
    assert table.index.name == "lag" and table.columns.name == "chain"
    assert np.array_equal(table.to_numpy().T, diagnostics.autocorrelation(mixture.draws["mass"], 7))
    assert (table.loc[0] == 1).all() and table.shape == (8, 2)
    assert len(mixture.autocorrelation("u")) == 41
    longest = mixture.autocorrelation("mass", 10**6)
    assert len(longest) == RUN["draws"] and longest.notna().all(axis=None)


def test_autocorrelation_names_what_there_is(mixture):
    with pytest.raises(ValueError, match=r"'n_cluster' is unknown; there are n_clusters, .*did you mean 'n_clusters'"):
        mixture.autocorrelation("n_cluster")
    with pytest.raises(ValueError, match="'labels' is not one number a draw"):
        mixture.autocorrelation("labels")


def test_attributes_without_the_draws_that_they_need():
    """`hasattr`, and editors that ask for every attribute, go on; the words are those of the error."""
    fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=5, tune=5, chains=1, rng=1, store="scalars")
    assert not hasattr(fit, "posterior") and [name for name in dir(fit) if not hasattr(fit, name)] == ["posterior"]
    for error in (ValueError, AttributeError):
        with pytest.raises(error, match=r"has no draws of labels, .*left out by store="):
            fit.posterior  # noqa: B018
    row = fit.glance().iloc[0]
    assert np.isnan(row["mean_log_density"]) and row["n_obs"] == 82


def test_repr_fits_on_a_screen(regression):
    text = repr(regression)
    assert len(text.splitlines()) <= 4 and max(map(len, text.splitlines())) <= 100
    mean = regression.draws["n_clusters"].mean()
    for piece in ("accel_g ~ times_ms", "132 observations", "2 chains x 60 draws", "seed 1", f"{mean:.1f} clusters"):
        assert piece in text


# ---- summary


def sections(fit):
    """Rows of the summary's CSV, blank cells left out."""
    rows = csv.reader(io.StringIO(fit.summary().as_csv()))
    return {row[0]: row[1:] for row in rows if row}


def test_summary_says_what_was_fitted(regression):
    rows = sections(regression)
    assert rows["Formula:"] == ["accel_g ~ times_ms"]
    assert rows["Covariates:"] == ["times_ms"]
    assert rows["Measure:"] == ["DirichletProcess(mass ~ Gamma(1, 1)) (Dirichlet process)"]
    assert rows["Family:"][0].startswith("Gaussian: lambda ~ Gamma(nu/2, rate scale/2)")
    assert f"mean {regression.model.family.scale[0].mean:.5g}" in regression.summary().as_text()
    assert rows["Kernel:"] == [f"{regression.model.kernel}, K(x, mu) = exp(-d^2 / (2 width^2))"]
    assert rows["Locations:"] == ["93 distinct values, 93 locations; covariates scaled to [0, 1]"]
    assert rows["Seed:"] == ["1"]
    assert rows["Observations:"] == ["132", "Method:", "split_merge", "Chains:", "2"]
    assert rows["Dropped rows:"] == ["1", "Tune:", "20", "Draws a chain:", "60"]
    assert rows["Labels moved:"][:3] == [f"{100 * regression.moved:.3g}%", "Thin:", "1"]
    assert rows["Interrupted:"][0] == "no"


def test_summary_shows_numbers_to_their_monte_carlo_error(model):
    fit = made(model, noise())
    table, rows = fit.diagnostics(), sections(fit)
    assert "sigma" not in rows  # a Dirichlet process has none
    assert rows[""] == ["mean", "sd", "5%", "95%", "ESS bulk", "ESS tail", "R-hat", "MCSE"]
    mean, error = rows["mass"][0], rows["mass"][-1]
    assert len(error.lstrip("0.")) == 2 and len(mean.split(".")[1]) == len(error.split(".")[1])
    assert abs(float(mean) - table.loc["mass", "mean"]) < float(error) / 10
    assert float(rows["mass"][4]) == round(table.loc["mass", "ess"])
    assert rows["log_joint"][:2] == ["-10", "constant"]


def test_summary_reports_the_logarithm_of_u(mixture):
    mean, error = (float(sections(mixture)["log(u)"][column]) for column in (0, -1))
    assert abs(mean - np.log(mixture.draws["u"]).mean()) < error / 10
    assert {"sigma", "mass"} <= sections(mixture).keys() and "u" not in sections(mixture)


def test_summary_counts_the_clusters(model):
    n_clusters = np.repeat([2, 3, 5], [50, 30, 20]).reshape(1, 100)
    rows = sections(made(model, noise(1, 100), n_clusters=n_clusters))
    assert rows["Number of clusters"] == ["2", "3", "5"]
    assert rows["Probability"] == ["0.50", "0.30", "0.20"]


def test_summary_sums_rare_numbers_of_clusters(model):
    rows = sections(made(model, noise(1, 100), n_clusters=np.arange(100).reshape(1, 100) % 20))
    assert rows["Number of clusters"] == [*map(str, range(10)), "other"]
    assert rows["Probability"][-1] == "0.50"


def test_summary_fits_a_terminal(mixture, regression):
    for fit in (mixture, regression):
        text = fit.summary().as_text()
        assert max(map(len, text.splitlines())) <= 100
        assert not re.search(r" +$", text, flags=re.MULTILINE)
        assert str(fit.summary()) == text


@pytest.mark.nightly
def test_summary_cuts_only_endless_priors(model):
    X = np.random.default_rng(1).normal(size=(30, 12))
    fit = nm.Model(data=X, family=nm.Gaussian(scale=np.cov(X.T))).fit(draws=4, tune=0, chains=1, rng=1)
    text = fit.summary().as_text()
    assert "(all of it:" in text and max(map(len, text.splitlines())) <= 100
    assert "all of it" not in made(model, noise()).summary().as_text()


# ---- clusters of the point estimate


def test_summary_shows_the_clusters_of_the_partition(mixture):
    found, rows = mixture.partition(), sections(mixture)
    assert rows["Cluster"] == ["Size", "Stability", "Purity", "mean velocity_km_s", "sd velocity_km_s"]
    order = np.argsort(-found.sizes, kind="stable")
    start = [*rows].index("Cluster") + 1
    assert [*rows][start : start + len(order)] == [str(label) for label in order]
    probability = mixture.predict(kind="cluster")["probability"].to_numpy()
    for label in order:
        members = found.labels == label
        pairs = mixture.similarity()[np.ix_(members, members)]
        together = (pairs.sum() - len(pairs)) / (len(pairs) * (len(pairs) - 1)) if len(pairs) > 1 else np.nan
        size, stability, purity = rows[str(label)][:3]
        assert (size, purity) == (str(members.sum()), f"{probability[members].mean():.2f}")
        assert stability == "" if np.isnan(together) else float(stability) == pytest.approx(together, abs=0.005001)  # half: either way
    text = " ".join(mixture.summary().notes)
    assert f"expected VI loss {found.expected_loss:.3g}" in text and "given this partition" in text


def test_summary_numbers_carry_their_posterior_sd(mixture):
    columns = {column.name: column for column in clusters.clusters(mixture).columns}
    first = sections(mixture)[str(clusters.clusters(mixture).label[0])]
    for text, name in zip(first[3:], ("mean velocity_km_s", "sd velocity_km_s"), strict=True):
        value, sd = text.split(" ± ")
        assert float(sd) == pytest.approx(columns[name].sd[0], rel=0.05)
        assert abs(float(value) - columns[name].value[0]) <= columns[name].sd[0] / 10


def test_summary_joins_small_clusters(model):
    """12 clusters, of sizes 12, 11, ... and 4 observations more in the first: two have no row of their own."""
    rows = sections(made(model, noise(1, 20), labels=np.repeat(np.arange(12), [16, *range(11, 0, -1)])))
    assert rows["0"][:3] == ["16", "1.00", "1.00"] and rows["9"][0] == "3"
    assert rows["others (2)"] == ["3", "1.00", "1.00", "", ""] and "10" not in rows


def test_a_fragment_is_pure_and_not_stable():
    """In each draw a cluster of eight is cut elsewhere: what is together in the estimate is together in some draws only."""
    draws = np.array([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 2, 2], [0, 1, 2, 3, 4, 4, 4, 4]])
    stability = clusters.together(draws, np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    np.testing.assert_allclose(stability, [(1 + 1 / 3 + 0) / 3, 1.0])
    assert np.isnan(clusters.together(draws, np.array([0, 1, 1, 1, 1, 1, 1, 1]))[0])


def test_clusters_of_a_regression_have_their_covariates(regression):
    found = clusters.clusters(regression)
    assert [column.name for column in found.columns] == ["mean accel_g", "sd accel_g", "mean times_ms"]
    x = regression.model.frame.source["times_ms"].to_numpy()
    for row, label in enumerate(found.label):
        assert found.columns[2].value[row] == pytest.approx(x[regression.partition().labels == label].mean())


def test_summary_seeks_no_partition_that_takes_long(model, monkeypatch):
    fit = made(model, noise(2, 50))
    monkeypatch.setattr(clusters, "WORK_LIMIT", fit.draws["n_clusters"].sum() * model.n_obs - 1)
    fit.partition("binder")
    assert "Cluster" not in sections(fit) and "call fit.partition()" in fit.summary().as_text()
    fit.partition()
    assert "Cluster" in sections(fit) and "call fit.partition()" not in fit.summary().as_text()
    monkeypatch.setattr(clusters, "WORK_LIMIT", fit.draws["n_clusters"].sum() * model.n_obs)
    assert clusters.affordable(made(model, noise(2, 50)))


@pytest.mark.parametrize("d", by_turns([1, 3]))
def test_cluster_parameters_are_those_of_the_posterior(d):
    rng = np.random.default_rng(d)
    X = rng.normal([5.0, -300.0, 0.01][:d], [1.0, 40.0, 2.0][:d], size=(25, d))
    family = nm.Gaussian(m=X.mean(axis=0), r=0.3, nu=d + 0.5, scale=np.cov(X.T).reshape(d, d) / 3)
    model = nm.Model(data=X, family=family)
    labels = np.repeat([0, 1, 2], [20, 4, 1])
    data, state = arrays_of(model, 3)
    start(data, state, labels)
    found = {parameter.name: parameter for parameter in model.family.cluster_parameters(state.stat, 3)}
    for k in range(3):
        own = X[labels == k]
        n, gap = len(own), own.mean(axis=0) - family.m
        r, df = 0.3 + n, d + 0.5 + n - d + 1
        psi = family.scale + n * np.cov(own.T, bias=True).reshape(d, d) + 0.3 * n / r * np.outer(gap, gap)
        for j in range(d):
            mu = stats.t(df, family.m[j] + n / r * gap[j], np.sqrt(psi[j, j] / (r * df)))
            variance = stats.invgamma(df / 2, scale=psi[j, j] / 2)
            sd = variance.expect(np.sqrt)
            of_sd = np.sqrt(variance.mean() - sd**2)
            assert [m[k] for m in found[f"mean y{j + 1}"][1:3]] == pytest.approx([mu.mean(), mu.std()], rel=1e-9)
            assert [m[k] for m in found[f"sd y{j + 1}"][1:3]] == pytest.approx([sd, of_sd], rel=1e-5)
            for p in (0.05, 0.5, 0.9):
                assert found[f"mean y{j + 1}"].quantile(p)[k] == pytest.approx(mu.ppf(p), rel=1e-9)
                assert found[f"sd y{j + 1}"].quantile(p)[k] == pytest.approx(np.sqrt(variance.ppf(p)), rel=1e-6)
        for i, j in zip(*np.tril_indices(d, -1), strict=True):
            drawn = stats.invwishart(d + 0.5 + n, psi).rvs(20_000, random_state=1)
            share = drawn[:, i, j] / np.sqrt(drawn[:, i, i] * drawn[:, j, j])
            own = found[f"corr y{j + 1}, y{i + 1}"]
            assert own.mean[k] == pytest.approx(share.mean(), abs=5 * share.std() / 20_000**0.5)
            for p in (0.05, 0.5, 0.9):
                assert (share <= own.quantile(p)[k]).mean() == pytest.approx(p, abs=4.5 * (p * (1 - p) / 20_000) ** 0.5)


def test_cluster_parameters_without_moments_are_blank():
    """With nu = 0.1 and one observation the mean has 1.1 degrees of freedom: a mean, and no variance."""
    model = nm.Model(data=np.array([[0.0], [5.0], [5.1]]), family=nm.Gaussian(nu=0.1))
    data, state = arrays_of(model, 2)
    start(data, state, np.array([0, 1, 1]))
    for parameter in model.family.cluster_parameters(state.stat, 2):
        assert np.isfinite(parameter.mean).all()
        assert np.isnan(parameter.sd[0]) and np.isfinite(parameter.sd[1])


def test_escape_latex():
    assert escape_latex("50% {x}~\\") == r"50\% \{x\}\textasciitilde{}\textbackslash{}"
    assert escape_latex("a & b_1 [2] é ß α Σ ± 中") == r"a \& b\_1 {[}2] \'{e} \ss{} $\alpha$ $\Sigma$ $\pm$ {[}U+4E2D]"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (2.71828, 0.0123, "2.718"), (-1234.56, 6.7, "-1234.6"), (12345.6, 230.0, "12350"), (0.5, np.nan, "0.5"), (3.0, 0.0, "3"),
        (1.5e12, 3.0, "1.500e+12"), (1e-9, 1e-11, "1.000e-09"), (np.float64(0.1), 0.99, "0.10"), (-0.01, 2.9, "0.0"),
    ],
)
def test_rounded(value, error, text):
    assert rounded(value, error) == text


# ---- the verdict


def said(fit):
    return verdict(fit.evidence, fit.diagnostics())


def test_verdict_on_chains_that_agree(model):
    text = said(made(model, noise()))
    assert converged(made(model, noise()).diagnostics())
    assert text.startswith("Chains agree: largest R-hat 1.0") and "longer" not in text


def test_verdict_on_chains_that_disagree(model):
    mass = noise()
    mass[0] += 5.0
    text = said(made(model, mass))
    assert text.startswith("Do not trust mass: R-hat 1.") and "n_clusters" not in text
    draws = int(re.search(r"draws=(\d+)", text)[1])
    assert "Run longer: tune=1000" in text and draws >= 4 * 2000


def test_verdict_asks_for_thinning_rather_than_for_many_draws(model):
    mass = noise(draws=6000)
    mass[0] += 5.0
    text = said(made(model, mass, thin=3))
    draws, thin = (int(re.search(rf"{name}=(\d+)", text)[1]) for name in ("draws", "thin"))
    assert draws <= 10_000 and draws * thin >= 4 * 6000 * 3


def test_verdict_on_few_draws(model):
    assert said(made(model, noise(4, 3))).startswith("Convergence cannot be judged from 3 draws a chain.")
    flat = made(model, np.ones((4, 50)), n_clusters=np.ones((4, 50), int))
    assert said(flat).startswith("Convergence cannot be judged: nothing varied")


def test_verdict_on_small_effective_size(model):
    assert said(made(model, noise(4, 15))).startswith("Do not trust")
    assert said(made(model, noise(4, 70))).startswith("Chains nearly agree")
    assert not converged(made(model, noise(4, 70)).diagnostics())


def test_verdict_mentions_one_chain_and_an_interrupt(model):
    text = said(made(model, noise(1, 4000), interrupted=True))
    assert "there is one; use chains=4" in text and "stopped before the end" in text


# ---- clusterings


def test_partition_is_the_estimate_from_all_draws(mixture):
    from nrmmix.posterior.partition import estimate, expected_loss

    found = mixture.partition("binder", rng=3)
    draws = mixture.draws.flat("labels")
    np.testing.assert_array_equal(found.labels, estimate(draws, "binder", rng=3).labels)
    assert found.expected_loss == pytest.approx(expected_loss(found.labels, draws, "binder"))
    assert found.expected_loss <= expected_loss(draws, draws, "binder").min() + 1e-12
    np.testing.assert_array_equal(mixture.partition().labels, mixture.partition().labels)


def test_similarity_is_the_share_of_draws(mixture):
    draws = mixture.draws.flat("labels")
    np.testing.assert_allclose(mixture.similarity()[3, 40], (draws[:, 3] == draws[:, 40]).mean(), atol=1e-6)
