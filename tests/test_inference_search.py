"""Searches by trees: against plain Python, on data that are awkward, and what their results offer."""

from __future__ import annotations

import math
import time

import numpy as np
import pandas as pd
import pytest
from exact import marginals
from exact.enumeration import gaussian_log_marginal
from scipy.sparse import csr_array
from support.cover import by_turns
from support.search_models import FAMILY, gaussian_of, grown, joined, model_of, scattered
from support.search_trees import agree, gardener, naive_tree

import nrmmix as nm
from nrmmix import cli
from nrmmix.common import archive
from nrmmix.inference.mcmc.chain import new_chain
from nrmmix.inference.mcmc.start import INITS, initial_labels
from nrmmix.inference.methods import CYCLES, named
from nrmmix.inference.search.grower import STARTS, TreeGrower, first_labels
from nrmmix.kernels.trees import ibhc

# ---- against plain Python


@pytest.mark.parametrize("prior", by_turns([nm.DirichletProcess(1.0), nm.NGGP(0.7, 0.4), nm.FiniteMixture(4, 2.0)], 3, 1), ids=str)
def test_all_cases_of_insertion_and_splits_are_those_of_plain_python(prior):
    seen = {"new": 0, "top": 0, "left": 0, "right": 0, "split": 0}
    for seed in range(12):
        y = scattered(40, seed)
        order = np.random.default_rng(seed).permutation(40)
        grower = grown(model_of(y, prior), order)
        plain = gardener(grower, gaussian_of(y))
        trees, counts = plain.ibhc(order.tolist(), grower.most, ibhc.MAX_SPLITS)
        num = grower.scratch.num
        assert (num[ibhc.ON_TOP], num[ibhc.WITHIN], num[ibhc.SPLIT]) == (counts["top"], counts["left"] + counts["right"], counts["split"])
        assert agree(naive_tree(grower.tree()), plain.bhc(trees), plain) and plain.gap > 1e-9
        seen = {name: seen[name] + counts[name] for name in seen}
    assert min(seen.values()) > 1, seen


@pytest.mark.parametrize("most_splits", [0, 1])
def test_splits_come_to_an_end(monkeypatch, most_splits):
    """An observation causes so many at most."""
    monkeypatch.setattr(ibhc, "grow", getattr(ibhc.grow, "py_func", ibhc.grow))  # in which the constant can be changed
    monkeypatch.setattr(ibhc, "MAX_SPLITS", most_splits)
    splits = fewer = 0
    for seed in (19, 62, 104):  # where a part of a split tree splits another
        rng = np.random.default_rng(seed)
        y = rng.normal(size=(40, 1)) * 0.8 + rng.choice([-2.0, -1.0, 0, 1.0, 2.0], size=(40, 1))
        order = rng.permutation(40)
        family = nm.Gaussian(m=0, r=0.05, nu=3, scale=0.05)
        grower = grown(nm.Model(data=y, family=family, prior=nm.DirichletProcess(1.0)), order)
        plain = gardener(grower, lambda rows, y=y: gaussian_log_marginal(y[rows], np.zeros(1), 0.05, 3.0, np.eye(1) * 0.05))
        trees, counts = plain.ibhc(order.tolist(), 40, most_splits)
        assert agree(naive_tree(grower.tree()), plain.bhc(trees), plain) and plain.gap > 1e-9
        splits += grower.scratch.num[ibhc.SPLIT]
        fewer += counts["split"] < plain.ibhc(order.tolist(), 40, 16)[1]["split"]
    assert (splits > 0) == (most_splits > 0) and fewer == 3


@pytest.mark.parametrize("prior", [nm.DirichletProcess(1.0), nm.PitmanYor(0.5, 0.3)], ids=str)
def test_greedy_trees_are_those_of_plain_python(prior):
    for seed in range(4):
        y = scattered(30, seed)
        grower = joined(model_of(y, prior))
        plain = gardener(grower, gaussian_of(y))
        assert agree(naive_tree(grower.tree()), plain.bhc([plain.leaf(i) for i in range(30)]), plain) and plain.gap > 1e-9


def test_greedy_trees_in_small_steps(monkeypatch):
    model = model_of(scattered(60))
    whole = joined(model).tree()
    monkeypatch.setattr("nrmmix.inference.search.grower.UNIONS", 1)
    assert all(np.array_equal(a, b) for a, b in zip(vars(whole).values(), vars(joined(model).tree()).values(), strict=True))
    monkeypatch.setattr("nrmmix.inference.search.grower.ROWS", 1)
    order = np.random.default_rng(0).permutation(60)
    small = grown(model, order).tree()
    monkeypatch.undo()
    assert all(np.array_equal(a, b) for a, b in zip(vars(small).values(), vars(grown(model, order).tree()).values(), strict=True))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("method", ["bhc", "ibhc"])
def test_few_rows(n, method):
    y = scattered(n)
    fit = model_of(y, nm.NGGP()).fit(method, rng=1)
    plain = gardener(joined(model_of(y)), gaussian_of(y))
    again = plain.again(naive_tree(fit.tree))
    assert again.rows == frozenset(range(n)) and len(fit.labels) == n and fit.labels[0] == 0
    assert fit.lower_bound >= fit.log_joint and fit.to_frame().shape == (n - 1, 6)
    fit.plot()
    assert "clusters by" in repr(fit) and fit.summary().as_text()


def test_sparse_counts_and_blocks_of_twenty_rows():
    rng = np.random.default_rng(5)
    words = np.array([rng.multinomial(30, p) for p in rng.dirichlet(np.full(6, 0.3), size=3)[rng.integers(0, 3, 20)]])
    table = pd.DataFrame({"y": rng.normal(size=20) * 2, "visits": rng.poisson(3.0, 20) * 1.0, "smoker": rng.integers(0, 2, 20) * 1.0})
    table.loc[3, "y"] = table.loc[5, "smoker"] = math.nan
    family = {
        "y": nm.Gaussian("diagonal", m=0.2, r=0.3, nu=4.0, scale=1.0), "visits": nm.Poisson(0.8, 0.3), "smoker": nm.Bernoulli(0.7, 1.2)
    }

    def of_blocks(rows):
        own = table.iloc[rows]
        return (
            marginals.normal_gamma_log_marginal(own[["y"]].to_numpy(), np.array([0.2]), 0.3, 4.0, np.array([1.0]))
            + marginals.poisson_log_marginal(own[["visits"]].to_numpy(), np.ones(len(own)), np.array([0.8]), np.array([0.3]))
            + marginals.bernoulli_log_marginal(own[["smoker"]].to_numpy(), np.array([0.7]), np.array([1.2]))
        )

    cases = [
        (
            nm.Model(data=csr_array(words), family=nm.Multinomial(0.4)),
            lambda rows: marginals.multinomial_log_marginal(words[rows], np.full(6, 0.4)),
        ),
        (nm.Model(data=table, family=family, missing="marginalize"), of_blocks),
    ]
    for model, log_marginal in cases:
        order = np.random.default_rng(2).permutation(20)
        grower = grown(model, order)
        plain = gardener(grower, log_marginal)
        trees, counts = plain.ibhc(order.tolist(), 20, ibhc.MAX_SPLITS)
        assert agree(naive_tree(grower.tree()), plain.bhc(trees), plain) and plain.gap > 1e-9 and counts["new"] > 1
        assert model.fit("ibhc", rng=1).labels.shape == (20,)


# ---- awkward data


@pytest.mark.filterwarnings("ignore:.*point masses:UserWarning")
@pytest.mark.parametrize("method", ["bhc", "ibhc"])
def test_identical_rows_share_a_cluster(method):
    fit = model_of(np.repeat([[0.0, 1.0], [5.0, 5.0]], 30, axis=0)).fit(method, rng=1)
    np.testing.assert_array_equal(fit.labels, np.repeat([0, 1], 30))
    assert np.isfinite(fit.tree.log_phi).all()


@pytest.mark.parametrize("method", ["bhc", "ibhc"])
def test_far_rows(method):
    """Dissimilarities far beyond floating point, of which only logarithms are kept."""
    y = np.vstack([scattered(40) * 1e-3, scattered(40) * 1e-3 + 1e9])
    family = nm.Gaussian(m=[0, 0], r=1e-20, nu=40, scale=np.eye(2) * 1e-4)
    fit = nm.Model(data=y, family=family, prior=nm.DirichletProcess(1.0)).fit(method, rng=1)
    assert fit.tree.log_d.max() > 750 and np.isfinite([fit.lower_bound, fit.log_joint]).all()
    assert set(fit.labels[:40]).isdisjoint(fit.labels[40:])
    with pytest.raises(ValueError, match=r"row 0 lies more than 1e\+100 prior standard deviations out"):
        nm.Model(data=np.array([[1e99, 0.0], [0.0, 1.0]]), family=nm.Gaussian(m=[0, 0], r=1, nu=4, scale=np.eye(2) * 1e-9)).fit(method)


# ---- trees


def test_trees_are_well_formed():
    tree = model_of(scattered(50)).fit("ibhc", rng=2).tree
    n = tree.n_leaves
    assert sorted([*tree.left, *tree.right]) == list(range(2 * n - 2))  # every node but the root is a child
    inner = np.arange(n, 2 * n - 1)
    assert (tree.left < inner).all() and (tree.right < inner).all()
    np.testing.assert_array_equal(tree.count[n:], tree.count[tree.left] + tree.count[tree.right])
    np.testing.assert_allclose(tree.log_d, tree.log_phi[tree.left] + tree.log_phi[tree.right] - tree.log_h[n:])
    np.testing.assert_allclose(tree.log_phi[n:], np.logaddexp(tree.log_h[n:], tree.log_h[n:] + tree.log_d))
    for node in (0, n, tree.root):
        rows = {node} if node < n else {*tree.rows(tree.left[node - n]), *tree.rows(tree.right[node - n])}
        assert set(tree.rows(node)) == rows


def test_cut():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(60, 2)) + rng.choice([-20.0, 0.0, 20.0], size=(60, 2))
    grower = joined(nm.Model(data=y, family=nm.Gaussian(m=[0, 0], r=0.01, nu=4, scale=np.eye(2))))
    tree = grower.tree()
    plain = gardener(grower, lambda rows: gaussian_log_marginal(y[rows], np.zeros(2), 0.01, 4.0, np.eye(2)))
    wanted = {part.rows for part in plain.cut(naive_tree(tree))}
    assert {frozenset(tree.rows(node).tolist()) for node in tree.cut()} == wanted and len(wanted) > 3, len(wanted)
    labels = tree.labels()
    assert {frozenset(np.flatnonzero(labels == k).tolist()) for k in range(labels.max() + 1)} == wanted
    sizes = [len(tree.cut(most)) for most in (1, 2, 3, len(wanted), 60)]
    assert sizes == [1, 2, 3, len(wanted), len(wanted)]
    two = tree.cut(2)
    assert set(two) == {tree.left[-1], tree.right[-1]}


def test_sums_by_clusters_add_up_to_the_potential():
    for n in (1, 2, 500):
        tree = joined(model_of(scattered(n))).tree()
        assert np.logaddexp.reduce(tree.log_sums()) == pytest.approx(tree.log_phi[tree.root], abs=1e-9)


def test_labels_of_a_finite_mixture_are_no_more_than_its_components():
    y = np.repeat(np.arange(8.0) * 50, 5)[:, None] + np.random.default_rng(1).normal(size=(40, 1))
    for components in (1, 2, 5):
        model = nm.Model(data=y, prior=nm.FiniteMixture(components), family=nm.Gaussian(m=0, r=1e-4, nu=4, scale=4))
        for method in ("bhc", "ibhc"):
            fit = model.fit(method, rng=1)
            assert fit.n_clusters == components and np.isfinite([fit.log_joint, fit.lower_bound]).all()
        for init in STARTS:
            assert model.fit(init=init, draws=1, tune=0, chains=1, rng=1).draws["n_clusters"].max() <= components


# ---- the search


@pytest.mark.external
def test_published_toy_data():
    """Lee & Choi's 1300 points: the true partition has log joint -1577.5696, and IBHC is almost perfect on them."""
    with np.load(nm.datasets.external("tgmcmc_toy_1300x2.npz")) as z:
        X, labels = z["X"], z["labels"].astype(int) - z["labels"].min()
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.lee_choi_base(X))
    fit = model.fit("ibhc", rng=1)
    assert fit.log_joint == pytest.approx(-1577.57, abs=0.01) and fit.n_clusters == 13
    assert _moved(fit.labels, labels) == 0


def test_toy_data():
    X, labels = nm.datasets.simulate_toy(rng=1)
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.lee_choi_base(X))
    started = time.perf_counter()
    fit = model.fit("ibhc", rng=1)
    assert time.perf_counter() - started < 60
    assert fit.log_joint > model.log_joint(labels) - 10  # groups of this draw overlap
    assert fit.lower_bound == pytest.approx(fit.bounds.max(), abs=1e-9)  # nothing is sampled: no hyperprior
    noisy = first_labels(model, "ibhc_noisy", np.random.default_rng(1).permutation(len(X)))
    assert model.log_joint(noisy) < fit.log_joint - 100


def test_noisy_start_in_plain_python():
    y = scattered(40)
    model, order = model_of(y), np.random.default_rng(1).permutation(40)
    plain = gardener(TreeGrower(model), gaussian_of(y))
    trees = []
    for i in order:
        x = plain.leaf(int(i))
        d = [plain.log_d(tree, x) for tree in trees]
        k = int(np.argmin(d)) if d and min(d) <= 0 else len(trees)
        trees[k : k + 1] = [plain.join(trees[k], x)] if k < len(trees) else [x]
    labels = first_labels(model, "ibhc_noisy", order)
    assert {frozenset(np.flatnonzero(labels == k).tolist()) for k in range(labels.max() + 1)} == {tree.rows for tree in trees}
    assert len(trees) > 2


def test_same_seed_same_result():
    model = model_of(scattered(80), nm.NGGP())
    first, again, other = (model.fit(nm.IBHC(passes=3), rng=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.bounds, again.bounds)
    np.testing.assert_array_equal(first.tree.order, again.tree.order)
    assert first.hyper == again.hyper and first.seed == 5 and len(first.bounds) == 3
    assert (first.bounds != other.bounds).all()
    assert model.fit("ibhc", rng=1).bounds.max() >= model.fit(nm.IBHC(passes=1), rng=1).bounds.max()


def test_hyperparameters_are_those_of_the_tree():
    model = model_of(scattered(80), nm.NGGP())
    fit = model.fit("ibhc", rng=2)
    assert fit.log_joint == pytest.approx(model.log_joint(fit.labels, **fit.hyper)) and list(fit.hyper) == ["mass", "sigma", "u"]
    density = -fit.hyper["mass"] + math.log1p(-fit.hyper["sigma"])  # of Gamma(1, 1) and Beta(1, 2)
    assert fit.bounds.max() == pytest.approx(fit.lower_bound + density, abs=1e-9)
    assert len(set(np.round(fit.bounds, 6))) == len(fit.bounds) == 10


def test_passes_that_would_repeat_themselves_are_left_out():
    assert len(model_of(scattered(30)).fit("bhc", rng=1).bounds) == 1
    assert len(model_of(scattered(30), nm.DirichletProcess()).fit("bhc", rng=1).bounds) == 5


def test_stopped_by_time_or_by_hand(monkeypatch):
    model = model_of(scattered(60), nm.NGGP())
    with pytest.raises(TimeoutError, match="before the first tree was built"):
        model.fit("ibhc", time_limit=1e-9)
    build, calls = nm.IBHC.build, []

    def interrupted(self, grower, rng):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return build(self, grower, rng)

    monkeypatch.setattr(nm.IBHC, "build", interrupted)
    fit = model.fit("ibhc", rng=1)
    assert fit.interrupted and len(fit.bounds) == 2 and "stopped early" in repr(fit)
    calls[:] = [1, 1]
    with pytest.raises(KeyboardInterrupt, match="before the first tree"):
        model.fit("ibhc", rng=1)


def test_progress(capsys):
    model_of(scattered(20)).fit(nm.IBHC(passes=2), progress=True, rng=1)
    assert "pass 2 of 2" in capsys.readouterr().err


# ---- starts of chains


@pytest.mark.parametrize("init", STARTS)
def test_starts(init):
    y = scattered(60) * [1.0, 0.5]
    model = model_of(y, nm.NGGP())
    run = {"init": init, "draws": 4, "tune": 3, "chains": 3}
    first, again, other = (model.fit(rng=seed, cores=cores, **run) for seed, cores in ((1, 1), (1, 3), (2, 1)))
    for name in first.draws:
        np.testing.assert_array_equal(first.draws[name], again.draws[name])
    assert not np.array_equal(first.draws["labels"], other.draws["labels"])
    longer = model.fit(rng=1, **run | {"draws": 2}).extend(2)
    np.testing.assert_array_equal(longer.draws["log_joint"], first.draws["log_joint"])
    # the start itself: chains have orders of their own
    seeds = np.random.SeedSequence(1).spawn(3)
    starts = []
    for seed in seeds:
        chain = new_chain(model, named("gibbs")[1], initial_labels(init, 60, 1)[0], np.random.default_rng(seed), None)
        starts.append(chain.order.copy())
        assert sorted(starts[-1]) == list(range(60))
        labels = first_labels(model, init, starts[-1])
        assert labels.min() == 0 and (np.bincount(labels) > 0).all()
    assert len({tuple(start) for start in starts}) == 3


@pytest.mark.parametrize("method", [name for name in CYCLES if name != "sngp"])
def test_starts_suit_every_sampler(method):
    """Of mixtures: starts by trees are for no others."""
    model = model_of(scattered(40), **({"prior": nm.FiniteMixture(60)} if method == "blocked" else {}))
    for init in STARTS:
        assert model.fit(method, init=init, draws=3, tune=3, chains=1, rng=1).draws["labels"].shape == (1, 3, 40)
    assert set(STARTS) < set(INITS)


def test_starts_with_missing_cells():
    """Cells that are drawn: searches are refused, starts are not."""
    y = scattered(40)
    y[3, 0] = y[7, 1] = math.nan
    model = nm.Model(data=y, family=FAMILY, missing="marginalize")
    with pytest.raises(ValueError, match="missing cells of the family are drawn"):
        model.fit("ibhc")
    for init in STARTS:
        fit = model.fit(init=init, draws=3, tune=3, chains=2, rng=1)
        assert np.isfinite(fit.draws["imputed"]).all() and np.isfinite(fit.draws["log_joint"]).all()
    fit = nm.Model(data=y, family=nm.Gaussian("diagonal"), missing="marginalize").fit("ibhc", rng=1)
    assert np.isfinite(fit.lower_bound)


def test_start_of_a_chain_is_the_partition_of_the_search():
    """One row has been visited when the first draw is recorded."""
    model = model_of(scattered(60))
    run = model.fit(nm.Gibbs(subset=1), init="ibhc", draws=1, tune=0, chains=1, rng=4)
    chain = new_chain(model, named("gibbs")[1], initial_labels("ibhc", 60, 1)[0],
                      np.random.default_rng(np.random.SeedSequence(4).spawn(1)[0]), None)
    start = first_labels(model, "ibhc", chain.order)
    assert _moved(run.draws["labels"][0, 0], start) <= 1


def _moved(a, b):
    """Rows that have to move to make one partition of the other, at least."""
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((a.max() + 1, b.max() + 1), int)
    np.add.at(table, (a, b), 1)
    return len(a) - table[linear_sum_assignment(-table)].sum()


# ---- results


@pytest.fixture(scope="module")
def fit():
    return nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method="ibhc", rng=1)


@pytest.mark.nightly
def test_predictions_are_given_the_partition(fit):
    """Of one draw of the same partition and hyperparameters; bands have a width."""
    model = fit.model
    new = pd.DataFrame({"eruptions_min": [2.0, 4.5], "waiting_min": [55.0, 80.0]})
    density = fit.predict(new, "density", draws=200)
    assert (density["lower"] < density["estimate"]).all() and (density["estimate"] < density["upper"]).all()
    np.testing.assert_allclose(density["estimate"], np.exp(fit.log_density(new)), rtol=1e-12)
    n, mass = model.n_obs, fit.hyper["mass"]
    base = fit.model.family
    scale = np.diag(fit.draws["scale"][0, 0] * [law.mean for law in base.scale])
    weights = [*(np.bincount(fit.labels) / (n + mass)), mass / (n + mass)]
    y = model.frame.response
    expected = 0.0
    for k, weight in enumerate(weights):
        own = y[fit.labels == k]

        def log_marginal(rows):
            return gaussian_log_marginal(rows, base.m, base.r, base.nu, scale) if len(rows) else 0.0

        expected += weight * math.exp(log_marginal(np.vstack([own, new.to_numpy()[:1]])) - log_marginal(own))
    assert density["estimate"].iloc[0] == pytest.approx(expected, rel=1e-9)
    assert fit.predict(new, "cluster")["cluster"].tolist() == [fit.labels[y[:, 0].argmin()], fit.labels[y[:, 0].argmax()]]
    assert (fit.predict(kind="cluster")["probability"] == 1).all()
    np.testing.assert_array_equal(fit.predict(kind="cluster")["cluster"], fit.labels)
    assert fit.predict(kind="quantile").shape == (6, 3) and fit.predict().shape == (544, 3)
    np.testing.assert_array_equal(fit.simulate(draws=3), fit.simulate(draws=3))
    assert list(fit.augment())[-3:] == [".log_density", ".cluster", ".probability"]


def test_result_is_one_partition(fit):
    np.testing.assert_array_equal(fit.partition().labels, fit.labels)
    assert fit.partition("binder").expected_loss == 0 and set(np.unique(fit.similarity())) == {0.0, 1.0}
    assert fit.draws["labels"].shape == (1, 1, 272)
    assert fit.partition().credible_ball is None, "a search knows nothing of other partitions"
    with pytest.raises(ValueError, match="ball: a search has one partition and no draws"):
        fit.partition().ball()
    with pytest.raises(ValueError, match=r"fit\.tree\.labels\(max_clusters\)"):
        fit.partition(max_clusters=1)
    chain = fit.model.fit(init=fit.labels, draws=2, tune=0, chains=1, rng=1)
    assert _moved(chain.draws["labels"][0, 0], fit.labels) < 20


def test_result_says_that_it_is_a_search(fit):
    assert "a search, not samples" in repr(fit) and "SearchResult" in repr(fit)
    text = fit.summary().as_text()
    assert "not samples from the posterior" in text and "Stability" not in text and "R-hat" not in text
    assert f"{fit.lower_bound:.2f}" in text and f"{fit.log_joint:.2f}" in text and "mass:" in text
    assert fit._repr_html_() == fit.summary().as_html()


@pytest.mark.parametrize(
    "prior", [nm.NormalizedStable(0.4), nm.PitmanYor(0.5, 0.2), nm.FiniteMixture(9), nm.NormalizedInverseGaussian()], ids=str
)
def test_results_of_other_priors(prior):
    fit = model_of(scattered(60), prior).fit("ibhc", rng=1)
    assert fit.log_joint <= fit.lower_bound and fit.log_joint == pytest.approx(fit.model.log_joint(fit.labels, **fit.hyper))
    table = fit.predict(kind="density", at=[[0.0, 0.0]], draws=50)
    assert (table["lower"] < table["upper"]).all() and np.isfinite(table.to_numpy()).all()
    assert fit.summary().as_text()


def test_pictures(fit):
    from matplotlib.figure import Figure

    tree = fit.tree
    ax = fit.plot(ax=Figure().subplots())
    triangles, lines = ax.collections
    assert len(triangles.get_paths()) == fit.n_clusters and len(lines.get_paths()) == fit.n_clusters - 1
    assert ax.get_yscale() == "symlog" and [label.get_text() for label in ax.get_xticklabels()] != []
    ax = fit.plot("dendrogram", Figure().subplots(), leaves=True)
    (lines,) = ax.collections
    tops = [path.vertices[1, 1] for path in lines.get_paths()]
    assert len(tops) == tree.n_leaves - 1 and max(tops) == pytest.approx(tree.log_d[-1])
    assert sum(top > 0 for top in tops) == fit.n_clusters - 1  # the cut is where the picture crosses d = 1
    assert len(fit.plot("clusters", Figure().subplots()).collections) == fit.n_clusters
    with pytest.raises(ValueError, match="unknown kind of plot of a search 'trace'; there are 'dendrogram', 'clusters', 'density'"):
        fit.plot("trace")
    one = model_of(np.zeros((20, 2)) + 1e-3 * scattered(20)).fit("bhc", rng=1)
    assert one.n_clusters == 1 and one.plot(ax=Figure().subplots()).get_ylabel() == "log d"


def test_command_line(tmp_path, capsys):
    arguments = ["fit", "velocity_km_s ~ 1", "--data", "galaxy", "--seed", "1", "--method", "ibhc"]
    assert cli.main([*arguments, "--plot", str(tmp_path / "tree.png")]) == 0
    assert "not samples from the posterior" in capsys.readouterr().out and (tmp_path / "tree.png").exists()
    assert cli.main([*arguments, "--draws", "5"]) == 2
    assert "draws belongs to chains" in capsys.readouterr().err
    saved, page = tmp_path / "fit.npz", tmp_path / "fit.html"
    assert cli.main([*arguments, "--save", str(saved), "--report", str(page)]) == 0
    assert "fit saved to" in capsys.readouterr().err and "dendrogram" in page.read_text(encoding="utf-8")
    assert nm.load(saved).seed == 1
    assert cli.main(["predict", str(saved), "--kind", "cluster"]) == 0
    assert capsys.readouterr().out.startswith("row,cluster,probability\n0,")
    assert cli.main(["resume", str(saved)]) == 2
    assert "holds a search, which has come to its end" in capsys.readouterr().err


@pytest.mark.parametrize(("method", "prior"), by_turns([
    ("bhc", nm.DirichletProcess()), ("ibhc", nm.NGGP()), ("ibhc", nm.NormalizedStable(0.4)),
], 3, 1))
def test_saved_searches(method, prior, tmp_path):
    fit = model_of(scattered(30, 2), prior=prior).fit(method, rng=3)
    again = nm.load(fit.save(tmp_path / "search.npz"))
    for name in ("left", "right", "count", "log_h", "log_phi", "log_d", "order", "_first"):
        np.testing.assert_array_equal(getattr(again.tree, name), getattr(fit.tree, name))
    for name, values in fit.draws.items():
        np.testing.assert_array_equal(again.draws[name], values)
    for name in ("labels", "n_clusters", "log_joint", "lower_bound", "hyper", "seed", "method", "interrupted"):
        assert np.array_equal(getattr(again, name), getattr(fit, name)), name
    assert str(again.search) == str(fit.search)
    pd.testing.assert_frame_equal(again.predict(kind="density", at=np.zeros((1, 2))), fit.predict(kind="density", at=np.zeros((1, 2))))
    assert str(again.summary()) == str(fit.summary())


def test_saved_searches_have_the_parameters_of_all_clusters(tmp_path):
    fit = nm.Model(data=scattered(30, 2), family=nm.Gaussian("diagonal", scale=nm.Gamma(1.0, 1.0))).fit("ibhc", rng=3)
    again = nm.load(fit.save(tmp_path / "search.npz"))
    assert fit.draws["scale"].shape == (1, 1, 2)
    np.testing.assert_array_equal(again.draws["scale"], fit.draws["scale"])
    assert again.log_joint == fit.log_joint


@pytest.mark.parametrize(("what", "change"), [
    ("tree", lambda arrays: arrays["tree/left"].__setitem__(0, arrays["tree/right"][0])),
    ("counts of the tree", lambda arrays: arrays["tree/count"].__setitem__(-1, 3)),
    ("order of rows", lambda arrays: arrays["tree/order"].__setitem__(slice(None), arrays["tree/order"][::-1].copy())),
    ("labels", lambda arrays: arrays["tree/labels"].__setitem__(0, 99)),
    ("tree", lambda arrays: arrays["tree/log_h"].__setitem__(0, np.nan)),
    ("bounds", lambda arrays: arrays["tree/bounds"].__setitem__(0, np.nan)),
])
def test_searches_in_files_that_cannot_be_right(what, change, tmp_path):
    path = model_of(scattered(30, 2)).fit("ibhc", rng=3).save(tmp_path / "search.npz")
    with path.open("rb") as file:
        header, arrays = archive.read(file, 1e9)
    arrays = {name: values.copy() for name, values in arrays.items()}
    change(arrays)
    with path.open("wb") as file:
        archive.write(file, header, arrays)
    with pytest.raises(ValueError, match=f"is damaged: ValueError: its {what} cannot be right"):
        nm.load(path)
