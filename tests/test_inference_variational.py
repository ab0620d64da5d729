"""Variational methods as users call them: options, results, files, interrupts, the command line, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from support.cover import by_turns
from support.rand import adjusted_rand

import nrmmix as nm
from nrmmix import cli
from nrmmix.inference.variational import climb, cuts

FAITHFUL = nm.datasets.load_faithful()
FORMULA = "eruptions_min + waiting_min ~ 1"


@pytest.fixture(scope="module")
def fit():
    return nm.fit(FORMULA, FAITHFUL, method="memoized_vb", rng=1)


def test_three_methods_find_two_clusters(fit):
    assert fit.n_clusters == 2 and sorted(fit.partition().sizes) == [97, 175]
    merged = nm.fit(FORMULA, FAITHFUL, method=nm.VB(components=10, merges=True), rng=1)
    assert merged.n_clusters == 2 and merged.elbo == pytest.approx(fit.elbo, abs=1e-3)
    stochastic = nm.fit(FORMULA, FAITHFUL, method=nm.StochasticVB(components=2, batches=4), rng=1)
    assert stochastic.elbo < fit.elbo + 1e-6


@pytest.mark.nightly
def test_merges_at_the_end_join_what_has_come_to_rest():
    """By default components that one would do for are not left; merges begin once the bound has settled, and it never falls."""
    for seed in (1, 2, 3):
        left = nm.fit(FORMULA, FAITHFUL, method=nm.VB(merges=False), rng=seed)
        found = nm.fit(FORMULA, FAITHFUL, method="vb", rng=seed)
        assert found.elbo > left.elbo + 1 and found.n_components < left.n_components and found.has_converged
        first = int(np.flatnonzero(found.passes["merged"])[0])
        bounds, settled = found.passes["elbo"].to_numpy(), 10 * climb.SETTLED * len(FAITHFUL)
        assert first > 5 and bounds[first - 1] - bounds[first - 2] < settled
        np.testing.assert_array_equal(bounds[:first - 1], left.passes["elbo"].to_numpy()[:first - 1])
        assert (np.diff(bounds) > -1e-9 * abs(bounds[-1])).all()


def test_a_fit_is_reproducible_and_its_bound_never_falls(fit):
    again = nm.fit(FORMULA, FAITHFUL, method="memoized_vb", rng=1)
    assert again.elbo == fit.elbo and np.array_equal(again.factors.s, fit.factors.s) and again.passes.equals(fit.passes)
    bounds = nm.fit(FORMULA, FAITHFUL, method=nm.VB(components=8), rng=2).passes["elbo"].to_numpy()
    assert (np.diff(bounds) > -1e-9 * abs(bounds[-1])).all() and len(bounds) > 5


def test_few_rows_of_many_columns_leave_one_component():
    """Of one lump no pair of many small components gains by a merge at the scale that they have learnt, but all of them do."""
    for seed in (0, 1):
        y = np.random.default_rng([seed, 60, 20]).normal(size=(60, 20))
        found, one = (nm.Model(data=y).fit("vb", init=init, rng=seed) for init in ("k-means++", np.zeros(60, int)))
        assert found.n_components == 1 and found.elbo == pytest.approx(one.elbo, abs=0.01)
        assert found.has_converged and (np.diff(found.passes.index) == 1).all()


def test_fewer_components_are_kept_only_where_the_bound_is_higher(monkeypatch):
    """Groups stay apart, and a fit that has nothing to gain on the way down to one component ends as it would have without it."""
    y = np.random.default_rng(3).normal(size=(60, 5)) + 6.0 * np.eye(5)[np.arange(60) % 3]
    found = nm.Model(data=y).fit("vb", rng=1)
    assert sorted(found.partition().sizes) == [20, 20, 20]
    monkeypatch.setattr(climb.Climb, "try_fewer", lambda self: False)
    assert nm.Model(data=y).fit("vb", rng=1).elbo == found.elbo


def apart(K: int, n: int, d: int, seed: int, gap: float = 8.0) -> tuple[np.ndarray, np.ndarray]:
    """Normal groups of equal size, each pair of centres `gap` standard deviations apart, in all d columns."""
    rng, z = np.random.default_rng([seed, n, d]), np.arange(n) % K
    centres = np.linalg.qr(rng.normal(size=(d, K)))[0].T
    return rng.normal(size=(n, d)) + gap / np.sqrt(2.0) * centres[z], z


@pytest.mark.parametrize("seed", by_turns([201, 202, 203], 3))
@pytest.mark.parametrize("method", ["vb", "memoized_vb"])
def test_groups_in_few_rows_of_many_columns_are_found(method, seed):
    """A fit whose scale is learnt by many small components has no way back to the groups but another start."""
    y, z = apart(3, 90, 20, seed)
    units = 10.0 ** np.arange(-10, 10)
    found, scaled = (nm.Model(data=table).fit(method, rng=seed) for table in (y, y * units + 3.0 * units))
    assert found.n_clusters == 3 and adjusted_rand(found.labels, z) > 0.95 and found.has_converged
    assert np.array_equal(found.labels, scaled.labels)


@pytest.mark.parametrize("K, n, d, covariance", by_turns([
    (3, 60, 10, "full"), (3, 200, 20, "full"), (6, 60, 20, "full"), (6, 90, 10, "full"),
    (3, 90, 20, "diagonal"), (6, 60, 10, "diagonal"),
], 6, 1))
def test_the_bound_is_that_of_a_start_at_the_truth_or_higher(K, n, d, covariance):
    for seed in (301, 302):
        y, z = apart(K, n, d, seed)
        model = nm.Model(data=y, family=nm.Gaussian(covariance))
        truth = max(model.fit(method, init=z, rng=seed).elbo for method in ("vb", nm.VB(merges=False)))
        assert model.fit("vb", rng=seed).elbo > truth - 1.0


def test_other_starts_are_the_same_whoever_works_and_keep_to_what_was_asked_for():
    y, z = apart(3, 90, 20, 205)
    model = nm.Model(data=y)
    one, threads = (model.fit(nm.MemoizedVB(batches=6, round_size=3, executor=who), rng=1) for who in (None, "threads"))
    assert one.elbo == threads.elbo and np.array_equal(one.factors.s, threads.factors.s) and one.n_clusters == 3
    assert model.fit(nm.VB(components=2), rng=1).n_components <= 2
    swapped = np.where(z == 2, 1, z)
    assert model.fit("vb", init=swapped, rng=1).n_components <= 2  # labels are where a fit begins, and it stays near
    assert model.fit(nm.VB(merges=False), rng=1).n_components > 3


def test_cuts_of_trees_are_the_same_in_any_units_and_leave_out_what_has_two_values():
    y, z = apart(3, 60, 6, 5)
    columns = y.T.copy()
    found = cuts.partitions(columns, 4)
    assert {labels.max() + 1 for labels in found} <= {2, 3, 4} and any(adjusted_rand(labels, z) > 0.95 for labels in found)
    assert len({labels.tobytes() for labels in found}) == len(found)
    beside = np.concatenate([columns * 1e7 - 5e8, np.ones((1, 60)), (np.arange(60) % 2)[None]])
    assert [labels.tolist() for labels in cuts.partitions(beside, 4)] == [labels.tolist() for labels in found]
    assert cuts.partitions(np.ones((3, 60)), 4) == [] and cuts.partitions(np.zeros((0, 60)), 4) == []
    assert all(labels.shape == (3,) for labels in cuts.partitions(np.arange(6.0).reshape(2, 3), 25))


def test_births_and_merges_find_clusters_of_several_kinds():
    rng, n = np.random.default_rng(4), 3000
    z = rng.integers(5, size=n)
    data = {"a": rng.normal(size=n) + 6 * (z % 3), "b": rng.normal(size=n) + 6 * (z // 3), "visits": rng.poisson(2 + 10 * (z == 4))}
    fit = nm.fit("a + b + visits ~ 1", data, family={"a + b": nm.Gaussian(), "visits": nm.Poisson()}, method="memoized_vb", rng=1)
    assert fit.n_clusters == 5 and nm.fit("a ~ 1", data, method=nm.MemoizedVB(births=False), rng=1).n_clusters < 25
    assert (fit.passes["born"] > 0).any() and fit.has_converged
    table = np.zeros((5, fit.partition().n_clusters))
    np.add.at(table, (z, fit.labels), 1)
    assert table.max(axis=1).sum() > 0.97 * n
    greedy = nm.fit("a + b + visits ~ 1", data, family={"a + b": nm.Gaussian(), "visits": nm.Poisson()},
                    method=nm.MemoizedVB(components=20, births=False, merges="greedy", batches=10), rng=1)
    assert greedy.elbo <= fit.elbo + 1e-6


def test_births_that_lower_the_bound_are_undone(monkeypatch):
    """Fresh fits that claim a gain they do not have."""
    from nrmmix.inference.variational import births

    real = births.against_one
    monkeypatch.setattr(births, "against_one", lambda fresh: real(fresh)._replace(gain=1.0))
    monkeypatch.setattr(climb.merges, "merge_chains", lambda memory, lost: 0)
    start = nm.fit(FORMULA, FAITHFUL, method=nm.VB(components=2, merges=True), rng=1)
    wild = nm.fit(FORMULA, FAITHFUL, method=nm.MemoizedVB(merges=False, passes=15), init=start, rng=1)
    bounds = wild.passes["elbo"].to_numpy()
    assert (wild.passes["born"] > 0).any() and wild.elbo >= start.elbo - 1e-6 and (np.diff(bounds) > -1e-6).all()


def test_predictions_bands_and_draws(fit):
    table = fit.predict(kind="density", draws=100)
    assert ((table["lower"] < table["estimate"]) & (table["estimate"] < table["upper"])).all()
    assert np.log(table["estimate"].to_numpy()) == pytest.approx(fit.log_density().to_numpy(), abs=1e-9)
    cluster = fit.predict(kind="cluster")
    r = fit.responsibilities()
    assert r.shape == (272, 2) and r.sum(axis=1) == pytest.approx(1.0)
    assert (cluster["cluster"].to_numpy() == fit.labels).all() and cluster["probability"].to_numpy() == pytest.approx(r.max(axis=1))
    new = fit.predict(FAITHFUL.head(20), kind="cluster")
    assert (new["cluster"].to_numpy() == fit.labels[:20]).all()
    assert fit.simulate(draws=2, rng=1).shape == (544, 2)
    assert list(fit.augment())[-3:] == [".log_density", ".cluster", ".probability"]
    similarity = fit.similarity()
    assert (np.diag(similarity) == 1).all() and similarity[0, 1] == pytest.approx(float(r[0] @ r[1]), abs=1e-6)
    assert fit.weights.sum() == pytest.approx(1.0) and list(fit.weights.index) == [0, 1, -1]
    gaps = FAITHFUL.head(3).assign(waiting_min=np.nan)
    assert np.isfinite(fit.log_density(gaps)).all()


def test_clusters_have_one_number_each_by_size():
    """The smallest cluster comes first among the rows, and the largest last."""
    sizes, rng = [20, 40, 90], np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(n, 2)) + 9 * k for k, n in enumerate(sizes)])
    fit = nm.fit(data=X, method="memoized_vb", rng=1)
    truth = np.repeat([2, 1, 0], sizes)
    assert np.array_equal(fit.labels, truth) and np.array_equal(fit.partition().labels, truth)
    assert fit.partition().sizes.tolist() == [90, 40, 20] and np.array_equal(fit.augment()[".cluster"], truth)
    assert np.array_equal(fit.predict(kind="cluster")["cluster"], truth)
    assert np.array_equal(fit.predict(X[[0, 30, 100]], kind="cluster")["cluster"], [2, 1, 0])
    lines = fit.summary().as_text().splitlines()
    (row,) = [line.split() for line in lines if line.startswith(("Size", "0 "))][:1]
    assert row[1] == "90"
    assert fit.partition(max_clusters=1).n_clusters == 1


@pytest.fixture(scope="module")
def torn():
    rng, n = np.random.default_rng(3), 150
    z = rng.integers(0, 2, n)
    table = pd.DataFrame({
        "a": rng.normal(6.0 * z, 1.0), "b": rng.normal(-6.0 * z, 1.0), "k": pd.array(rng.poisson(2 + 9 * z), "Int64"),
        "c": pd.Categorical(np.where(rng.random(n) < 0.05 + 0.9 * z, "red", "blue")),
    })
    for j, name in enumerate(table):
        table.loc[j::11, name] = None
    family = {"a + b": nm.Gaussian("diagonal"), "k": nm.Poisson(), "c": nm.Categorical()}
    return table, z, nm.Model("a + b + k + c ~ 1", table, family=family, missing="marginalize")


@pytest.mark.nightly
def test_missing_cells_are_imputed_as_by_chains(torn):
    table, z, model = torn
    fit, chains = model.fit("memoized_vb", rng=1), model.fit(draws=100, tune=100, chains=2, rng=1)
    found, theirs = fit.impute(60, rng=2), chains.impute(60, rng=2)
    assert len(found) == 60 and found.cells.index.equals(theirs.cells.index) and (found[0].dtypes == table.dtypes).all()
    assert not any(one.isna().any().any() for one in found) and found[0]["a"].tolist() != found[1]["a"].tolist()
    for name in ("a", "b", "k"):
        ours, other = (cells.xs(name, level="response") for cells in (found.cells, theirs.cells))
        assert np.abs(ours["estimate"] - other["estimate"]).max() < 1.0
        widths = (ours["upper"] - ours["lower"]) / (other["upper"] - other["lower"])
        assert 0.8 < widths.median() < 1.25, "of a row that could be in either cluster that of chains is wider"
        gaps = table[name].isna().to_numpy()
        drawn = np.array([one[name][gaps].to_numpy(float) for one in found])
        assert np.abs(drawn.mean(axis=0) - ours["estimate"]).max() < 1.5
    share = found.cells.xs("c[red]", level="response")["estimate"].to_numpy()
    assert (np.abs(share - theirs.cells.xs("c[red]", level="response")["estimate"]) < 0.15).all()
    again = fit.impute(3, data=table)
    assert all(one.equals(other) for one, other in zip(again, fit.impute(3, data=table), strict=True)), "they follow from the seed"
    augmented = fit.augment()
    gaps = table["a"].isna().to_numpy()
    assert np.abs(augmented[".fitted_a"].to_numpy()[gaps] - found.cells.xs("a", level="response")["estimate"].to_numpy()).max() < 0.5


def test_what_imputation_refuses(fit, torn):
    with pytest.raises(ValueError, match=r"impute: no response is missing in the 272 rows that were fitted\.$"):
        fit.impute()
    table, _, _ = torn
    model = nm.Model("a + b ~ 1", table, missing="marginalize")
    with pytest.raises(ValueError, match=r"MemoizedVB.*missing"):
        model.fit("memoized_vb")


def test_log_density_is_the_mixture_of_predictives(fit):
    """Against the family's own predictives at whole counts: clusters far from each other have whole counts nearly."""
    family = fit.model.family
    scale = np.diag(fit.factors.exponential.shared["scale"] * [law.mean for law in family.scale])
    own = nm.Gaussian(m=family.m, r=family.r, nu=family.nu, scale=scale)
    chain = nm.Model(FORMULA, FAITHFUL, family=own, prior=nm.DirichletProcess(fit.factors.sticks.expected_mass))
    labels = fit.labels
    rows = [0, 1, 50]
    joint = chain.log_joint(labels)
    for i in rows:
        twice = nm.Model(FORMULA, FAITHFUL.iloc[[*range(272), i]], family=own, prior=chain.prior)
        found = twice.log_joint(np.append(labels, labels[i])) - joint
        assert fit.log_density().iloc[i] == pytest.approx(found, abs=0.05)


@pytest.mark.parametrize("case", by_turns(["diagonal with gaps", "counts", "sparse", "regression", "binary"]))
def test_every_kind_of_family_predicts(case):
    rng = np.random.default_rng(3)
    n = 120
    z = rng.integers(2, size=n)
    gaps = {"a": rng.normal(size=n) + 5 * z, "b": rng.normal(size=n) - 5 * z}
    gaps["a"][::7] = np.nan
    options = {
        "diagonal with gaps": {"data": gaps, "family": nm.Gaussian("diagonal"), "missing": "marginalize"},
        "counts": {"data": {"v": rng.poisson(2 + 9 * z), "t": rng.random(n) + 0.5}, "formula": "v ~ 1", "family": nm.Poisson(exposure="t")},
        "sparse": {"data": csr_array(rng.multinomial(30, [0.5, 0.3, 0.1, 0.1], n) * (z[:, None] == [0, 0, 1, 1]) + 1),
                   "family": nm.Multinomial()},
        "regression": {"data": {"y": 5 * z + rng.normal(size=n), "x": rng.random(n)}, "formula": "y ~ 1",
                       "family": nm.Regression("1 + x", shrinkage=None)},
        "binary": {"data": {f"q{j}": (rng.random(n) < 0.1 + 0.8 * z).astype(int) for j in range(8)}, "family": nm.Bernoulli()},
    }[case]
    model = nm.Model(**options)
    fit = model.fit("memoized_vb", rng=1)
    assert fit.n_clusters >= 2 and np.isfinite(fit.log_density()).all() and np.isfinite(fit.predict(draws=20)["estimate"]).all()
    assert len(fit.predict(kind="cluster")) == model.n_obs and fit.summary().as_text()
    hit = max(np.mean((fit.labels == fit.labels[0]) == (z == z[0])), 0)
    assert hit > 0.9 or fit.n_clusters > 2


def test_starts(fit):
    for init in ("random", "k-means++", fit, fit.labels, fit.labels + 7):
        again = nm.fit(FORMULA, FAITHFUL, method=nm.VB(components=6, merges=True, passes=20), init=init, rng=1)
        assert again.elbo <= fit.elbo + 1e-4
    assert nm.fit(FORMULA, FAITHFUL, method="vb", init=fit, rng=1).elbo == pytest.approx(fit.elbo, abs=1e-4)


def test_saved_fits_come_back_to_the_bit(fit, tmp_path):
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert type(again) is nm.VariationalResult and again.elbo == fit.elbo and again.passes.equals(fit.passes)
    assert again.options == fit.options and again.predict(kind="density").equals(fit.predict(kind="density"))
    with np.load(tmp_path / "fit.npz") as held:
        arrays = dict(held)
    arrays["factors/N"] = arrays["factors/N"] * 2
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match="counts of components cannot be right"):
        nm.load(tmp_path / "bad.npz")


def test_a_variational_fit_is_not_taken_up_as_a_run_of_chains(fit, tmp_path):
    with pytest.raises(ValueError, match="holds a variational fit, which has come to its end"):
        nm.resume(fit.save(tmp_path / "fit.npz"))


def test_an_interrupt_keeps_the_last_whole_pass(monkeypatch):
    whole = nm.fit(FORMULA, FAITHFUL, method=nm.MemoizedVB(components=8, births=False, passes=3, batches=4), rng=1)
    real, calls = climb.visit, []

    def visit(*arguments):
        calls.append(1)
        if len(calls) > 14:  # in the fourth pass
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(climb, "visit", visit)
    cut = nm.fit(FORMULA, FAITHFUL, method=nm.MemoizedVB(components=8, births=False, passes=9, batches=4), rng=1)
    assert cut.interrupted and len(cut.passes) == 3 and cut.elbo == whole.elbo and np.array_equal(cut.factors.s, whole.factors.s)
    assert "Stopped before it had converged" in cut.summary().as_text()
    calls.extend([1] * 20)
    with pytest.raises(KeyboardInterrupt, match="before the first pass"):
        nm.fit(FORMULA, FAITHFUL, method="vb", rng=1)


def test_a_time_limit_ends_a_fit():
    cut = nm.fit(FORMULA, FAITHFUL, method=nm.VB(components=20, tol=1e-15), rng=1, time_limit=1e-6)
    assert cut.interrupted and len(cut.passes) == 1


@pytest.mark.parametrize("kind", by_turns(["density", "clusters", "responsibilities", "elbo", "n_clusters"]))
def test_pictures(fit, kind):
    from matplotlib.figure import Figure

    axes = fit.plot(kind, Figure().subplots())
    assert np.ravel(axes)[0].has_data()


@pytest.mark.nightly
def test_report_and_glance(fit, tmp_path):
    page = fit.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "Converged to a local optimum" in page and "nm.MemoizedVB()" in page and page.count("<img") == 6
    row = fit.glance().iloc[0]
    assert row["elbo"] == fit.elbo and row["n_clusters"] == 2 and "evidence lower bound" in repr(fit)


def test_command_line(tmp_path, capsys):
    path = tmp_path / "fit.npz"
    assert cli.main(["fit", FORMULA, "--data", "faithful", "--method", "memoized_vb", "--seed", "1", "--save", str(path)]) == 0
    assert "Lower bound:" in capsys.readouterr().out
    assert cli.main(["predict", str(path), "--kind", "cluster"]) == 0
    assert capsys.readouterr().out.startswith("row,cluster,probability")


@pytest.mark.parametrize(("call", "message"), [
    (lambda: nm.VB(components=0), "components must be an integer of at least 1"),
    (lambda: nm.MemoizedVB(batches=-1), "batches must be an integer of at least 1"),
    (lambda: nm.MemoizedVB(passes=0), "passes must be an integer of at least 1"),
    (lambda: nm.MemoizedVB(merges="often"), "merges must be True or False"),
    (lambda: nm.VB(tol=0), "tol must be a finite number greater than 0"),
    (lambda: nm.StochasticVB(kappa=0.49), "kappa must be from 0.5 to 1"),
    (lambda: nm.StochasticVB(kappa=1.1), "kappa must be from 0.5 to 1"),
    (lambda: nm.StochasticVB(delay=-1), "delay must be a finite number greater than 0"),
    (lambda: nm.fit(FORMULA, FAITHFUL.head(9), method=nm.MemoizedVB(batches=10)), "batches=10 for 9 rows"),
    (lambda: nm.fit(FORMULA, FAITHFUL.head(9), method=nm.VB(components=10)), "components=10 for 9 rows"),
    (lambda: nm.fit(FORMULA, FAITHFUL, method="vb", draws=10), "draws belongs to chains, and vb is variational inference"),
    (lambda: nm.fit(FORMULA, FAITHFUL, method="vb", init="each"), "init must be 'k-means[+][+]', 'random', labels or a fit"),
    (lambda: nm.fit(FORMULA, FAITHFUL, method="vb", init=[0, 1]), "there are 272 rows: give one label for each"),
    (lambda: nm.fit(FORMULA, FAITHFUL, method="vb", init=np.full(272, 0.5)), "init must hold whole numbers"),
    (lambda: nm.fit(FORMULA, FAITHFUL, method="vb", prior=nm.NGGP()), "needs nm.DirichletProcess.*those of NGGP are not"),
    (lambda: nm.fit(FORMULA, FAITHFUL, method=nm.StochasticVB(starts=2)), "starts= are of density regression"),
    (lambda: nm.fit("waiting_min ~ 1", FAITHFUL, method="vb", family=nm.SemiconjugateGaussian()), "held and drawn, not integrated out"),
    (lambda: nm.fit(FORMULA, FAITHFUL.where(FAITHFUL < 90), method="vb", missing="marginalize"), "cells of responses with a full"),
    (lambda: nm.fit(FORMULA, FAITHFUL, method=[nm.VB(), nm.Gibbs()]), "variational inference runs alone"),
    (lambda: nm.fit(FORMULA, FAITHFUL, method=nm.VB), "make an object of it, nm.VB()"),
])
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_small_tables():
    """One row, fewer rows than dimensions, all rows equal: where the prior is given."""
    family = nm.Gaussian(m=[0.0] * 4, r=0.1, nu=6, scale=np.eye(4))
    for X in (np.ones((1, 4)), np.arange(12.0).reshape(3, 4)):
        for method in ("vb", "memoized_vb", "stochastic_vb"):
            fit = nm.Model(data=X, family=family).fit(method, rng=1)
            assert np.isfinite(fit.elbo) and fit.partition().labels.shape == (len(X),)


def test_sums_that_cancel_are_warned_of():
    X = 1e7 + np.random.default_rng(0).normal(size=(200, 2))
    model = nm.Model(data=X, family=nm.Gaussian(m=[0.0, 0.0], r=1e-12, nu=3, scale=1e-4 * np.eye(2)))
    with pytest.warns(UserWarning, match="sums of squares and squares of means have cancelled"):
        model.fit("vb", init=np.zeros(200, int), rng=1)


def test_making_a_model_makes_no_tables():
    model = nm.Model(data=np.random.default_rng(0).normal(size=(500, 3)))
    assert "packed" not in vars(model) and model.packed is model.packed


def test_climbs_do_not_take_merges_of_one_batch_for_exact():
    fit = nm.fit(FORMULA, FAITHFUL, method=nm.MemoizedVB(components=10, births=False, merges="greedy", batches=8, passes=12), rng=1)
    exact = fit.passes["elbo"].notna()
    assert (fit.passes["merged"][~exact] > 0).all() and exact.any()


# ---- regressions whose shrinkage is learnt

def clusterwise(n=400):
    rng = np.random.default_rng(4)
    x, z = rng.normal(size=n), rng.integers(2, size=n)
    return pd.DataFrame({"x": x, "y": np.where(z == 0, 1 + 2 * x, -1 - x) + 0.2 * rng.normal(size=n)})


@pytest.mark.parametrize("method", [nm.VB(components=6, merges=True), nm.MemoizedVB(batches=4)], ids=["vb", "memoized_vb"])
def test_shrinkage_of_regressions_is_learnt(method, tmp_path):
    fit = nm.fit("y ~ 1", clusterwise(), family=nm.Regression("1 + x"), method=method, rng=1)
    assert fit.n_clusters == 2 and fit.has_converged
    shared, start = fit.factors.exponential.shared, fit.model.exponential().shared
    assert all((shared[name] != start[name]).all() for name in ("shrinkage", "noise_scale"))
    further = fit.factors.exponential.learnt(fit.factors.N, fit.factors.s)
    value = lambda exponential: exponential.log_z(fit.factors.N, fit.factors.s).sum() + exponential.log_prior  # noqa: E731
    assert 0 <= value(further) - value(fit.factors.exponential) < 1e-2, "there is hardly anything left to be gained"
    fit.save(tmp_path / "fit.npz")
    np.testing.assert_array_equal(nm.load(tmp_path / "fit.npz").log_density(), fit.log_density())
    assert "coef x" in fit.summary().as_text()


def test_checkpoints_keep_what_is_learnt(tmp_path):
    data, path = clusterwise(), tmp_path / "run.npz"
    whole = nm.fit("y ~ 1", data, family=nm.Regression("1 + x"), method=nm.MemoizedVB(batches=4), rng=1)
    nm.fit("y ~ 1", data, family=nm.Regression("1 + x"), method=nm.MemoizedVB(batches=4, passes=3, checkpoint=path), rng=1)
    with pytest.raises(ValueError, match=r"run\.npz' is the checkpoint of a variational fit and no saved one; nrmmix\.resume"):
        nm.load(path)
    resumed = nm.fit("y ~ 1", data, family=nm.Regression("1 + x"), method=nm.MemoizedVB(batches=4, checkpoint=path), rng=1)
    assert resumed.elbo == whole.elbo
    np.testing.assert_array_equal(resumed.factors.exponential.shared["shrinkage"], whole.factors.exponential.shared["shrinkage"])


def test_regressions_from_a_file(tmp_path):
    data = clusterwise().assign(g=lambda one: np.where(one["x"] > 1, "high", "low"))
    data.to_csv(tmp_path / "rows.csv", index=False)
    options = {"family": nm.Regression("1 + x + g"), "method": nm.MemoizedVB(batches=4), "rng": 1}
    fits = [nm.fit("y ~ 1", source, **options) for source in (data, str(tmp_path / "rows.csv"))]
    assert fits[0].elbo == pytest.approx(fits[1].elbo, rel=1e-9)
    np.testing.assert_allclose(*(one.log_density(data).to_numpy() for one in fits), rtol=1e-7)
    later = fits[1].update(clusterwise(100).assign(g="low"))
    assert later.model.n_obs == 500 and later.n_clusters == 2
    with pytest.raises(ValueError, match=r"needs an intercept, and '0 \+ x' has none"):
        nm.fit("y ~ 1", str(tmp_path / "rows.csv"), family=nm.Regression("0 + x"), method="memoized_vb")
