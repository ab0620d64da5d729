"""Methods and lists of moves: what is accepted, what is refused and why, and what a fit says of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns, each_once

import nrmmix as nm
from nrmmix.extending import DONE, MOVE_T, NEED_ROOM, Count, Move, entry, gibbs_one, redraw_cells
from nrmmix.inference.methods import CYCLES, OF_LOCATIONS, OF_SLOTS, SEARCHES, VARIATIONAL, choose, code_of, method_of, named
from nrmmix.kernels.core import state as layout

Y = np.random.default_rng(0).normal(size=(30, 2)) + np.repeat([[0.0], [4.0]], 15, axis=0)
RUN = {"draws": 20, "tune": 10, "chains": 2, "rng": 3}
MOVES = {
    "gibbs": nm.Gibbs(),
    "subset": nm.Gibbs(subset=1),
    "split_merge": nm.SplitMerge(),
    "sequential": nm.SplitMerge(proposals=2, proposal="sequential"),
    "no scans": nm.SplitMerge(scans=0),
    "slice": nm.Slice(),
    "table": nm.Permutation(dynamic_program="table"),
    "metropolis": nm.Permutation(),
    "markov": nm.Permutation(order="markov"),
    "markov table": nm.Permutation(dynamic_program="table", order="markov"),
    "projection": [nm.Permutation(order="projection", beam=1e-3), nm.Gibbs()],
    "beam": [nm.Permutation(beam=0.1), nm.Gibbs()],
    "mass": nm.Permutation(integrate_mass=True),
    "all": [nm.Gibbs(subset=1), nm.SplitMerge(), nm.Slice(), nm.Permutation()],
}


@pytest.fixture(scope="module")
def model():
    return nm.Model(data=Y, prior=nm.NGGP())


@pytest.mark.parametrize(("n", "name"), each_once([1, 2], MOVES))
def test_few_observations(name, n):
    """Every move on one and two observations; of two the posterior of one cluster is known."""
    family = nm.Gaussian(m=[0.0, 0.0], r=0.5, nu=4.0, scale=np.eye(2))
    small = nm.Model(data=np.array([[0.3, 0.1], [-0.4, 1.0]])[:n], prior=nm.DirichletProcess(nm.Gamma(2.0, 2.0)), family=family)
    fit = small.fit(MOVES[name], draws=4000, tune=100, chains=4, rng=1)
    K = fit.draws["n_clusters"]
    assert K.max() <= n and np.isfinite(fit.draws["log_joint"]).all()
    if n == 2:  # E[1/(1 + a)] weighs one cluster, E[a/(1 + a)] two
        prior = small.prior.mass.distribution
        one = prior.expect(lambda a: 1 / (1 + a)) * np.exp(small.log_joint([0, 0], mass=1.0) - small.log_joint([0, 1], mass=1.0))
        truth = one / (one + prior.expect(lambda a: a / (1 + a)))
        found = (K == 1).mean(axis=1)
        error = max(found.std(ddof=1) / 2, 0.5 / np.sqrt(K.size))
        assert abs(found.mean() - truth) < 5 * error


@pytest.mark.parametrize("name", MOVES)
def test_seed_and_cores(model, name):
    first, second = (model.fit(MOVES[name], cores=cores, **RUN) for cores in (1, 2))
    for key, values in first.draws.items():
        np.testing.assert_array_equal(values, second.draws[key])


@pytest.mark.parametrize("name", by_turns(MOVES))
def test_saved_and_extended_as_if_never_stopped(model, name, tmp_path):
    whole = model.fit(MOVES[name], **{**RUN, "draws": 30})
    saved = nm.load(model.fit(MOVES[name], **RUN).save(tmp_path / "fit.npz"))
    assert saved.cycle == whole.cycle and saved.method == whole.method
    longer = saved.extend(10)
    for key, values in whole.draws.items():
        np.testing.assert_array_equal(values, longer.draws[key])
    pd.testing.assert_frame_equal(whole.diagnostics(), longer.diagnostics())


@pytest.mark.parametrize(("name", "init"), each_once(["split_merge", "all", "beam"], ["sequential", "one", "each"]))
def test_starts(model, name, init):
    """From every start the two groups are found."""
    fit = model.fit(MOVES[name], draws=300, tune=2000, chains=2, init=init, rng=2)
    assert fit.similarity()[:15, :15].mean() > 0.5 > fit.similarity()[:15, 15:].mean() + 0.3


def test_names():
    assert named(nm.Slice())[0] == "slice"
    assert named([nm.SplitMerge(), nm.Gibbs()])[0] == "split_merge + gibbs"
    assert named((nm.Gibbs(),))[1] == CYCLES["gibbs"]
    for name, cycle in CYCLES.items():
        assert eval(code_of(name, cycle), {"nm": nm}) == name
    cycle = nm.Cycle([nm.Gibbs(subset=3), nm.Permutation(beam=0.25)], share="work")
    assert eval(code_of("another", cycle), {"nm": nm}) == cycle
    assert str(cycle) == "Cycle([Gibbs(subset=3), Permutation(beam=0.25)], share='work')"


def test_table_of_methods(model):
    table = model.methods()
    assert list(table.index) == ["auto", *CYCLES, *SEARCHES, *VARIATIONAL]
    others = ["blocked", "sngp", *VARIATIONAL]  # of finite mixtures, density regression, Dirichlet processes
    assert table.index[~table["suits"]].tolist() == others == table.index[table["reason"] != ""].tolist()
    regression = nm.Model("y ~ x", pd.DataFrame({"y": Y[:, 0], "x": np.arange(30.0)})).methods()
    suits = ["auto", "gibbs", "split_merge", "slice", "tree", "sngp", "vb", "stochastic_vb", "memoized_vb"]
    assert regression.index[regression["suits"]].tolist() == suits
    assert regression.loc["split_merge", "moves"] == "Cycle([SplitMerge(proposal='sequential'), Gibbs(), Relocation()])"
    assert "density regression" in regression.loc["permutation", "reason"]
    held = nm.Model(data=Y[:, :1], family=nm.SemiconjugateGaussian(mean=(0.0, 9.0), precision=nm.Gamma(1.0, 1.0))).methods()
    assert held.index[held["suits"]].tolist() == ["auto", "gibbs", "slice"]
    assert "integrated out" in held.loc["permutation", "reason"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nm.Gibbs(subset=0), "subset must be an integer of at least 1, not 0"),
        (lambda: nm.Gibbs(subset=2.5), "subset must be an integer"),
        (lambda: nm.SplitMerge(scans=-1), "scans must be an integer of at least 0, not -1"),
        (lambda: nm.SplitMerge(proposals=0), "proposals must be an integer of at least 1"),
        (lambda: nm.SplitMerge(proposal="sequental"), "did you mean 'sequential'"),
        (lambda: nm.Slice(max_atoms=0), "max_atoms must be an integer of at least 1"),
        (lambda: nm.Permutation(beam=1.0), r"beam must be None or a number in \[0, 1\)"),
        (lambda: nm.Permutation(beam=-0.1), "beam must be"),
        (lambda: nm.Permutation(beam=float("nan")), "beam must be"),
        (lambda: nm.Permutation(beam="wide"), "beam must be"),
        (lambda: nm.Permutation(beam=0.1, dynamic_program="table"), 'dynamic_program="metropolis"'),
        (lambda: nm.Permutation(dynamic_program="list"), "dynamic_program must be one of 'metropolis', 'table'"),
        (lambda: nm.Permutation(order="random"), "order must be one of"),
        (lambda: nm.Permutation(integrate_mass=1), "integrate_mass must be True or False"),
        (lambda: nm.Cycle([]), "moves is empty"),
        (lambda: nm.Cycle([nm.Gibbs]), "make an object of it"),
        (lambda: nm.Cycle(nm.Gibbs()), "moves must be a list"),
        (lambda: nm.Cycle(["gibbs"]), "holds the name 'gibbs'; lists hold moves"),
        (lambda: nm.Cycle([3]), "which is no move"),
        (lambda: nm.Cycle([nm.Cycle([nm.Gibbs()])]), "give its moves instead"),
        (lambda: nm.SplitMerge(proposals=10**309), "proposals must be at most 1,000,000"),
        (lambda: nm.SplitMerge(scans=10**7), "scans must be at most 1,000,000"),
        (lambda: nm.Slice(max_atoms=10**12), "max_atoms must be at most 1,000,000"),
        (lambda: nm.Cycle([nm.Gibbs()], share="twice"), "share must be one of 'once', 'work'"),
        (lambda: nm.Cycle([nm.Permutation(beam=0.1)]), "does not reach every partition"),
        (lambda: nm.Cycle([nm.Permutation(beam=0.1), nm.Permutation(beam=0.2)]), "none of these moves"),
    ],
)
def test_options_are_checked(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ([], {}, "moves is empty"),
        (nm.Gibbs, {}, "make an object of it"),
        ("slize", {}, "did you mean 'slice'"),
        (nm.Permutation(beam=0.5), {}, "does not reach every partition"),
        (nm.Gibbs(subset=31), {}, "subset=31 is more than the 30 observations"),
        ([nm.Permutation(order="projection"), nm.Gibbs()], {"tune": 0}, "random projections run in tuning only; tune must be at least 1"),
        (nm.Cycle([nm.Gibbs(), nm.SplitMerge()], share="work"), {"tune": 0}, "tune must be at least 1"),
    ],
)
def test_methods_are_checked(model, method, options, message):
    with pytest.raises(ValueError, match=message):
        model.fit(method, **{**RUN, **options})


@pytest.mark.parametrize("method", ["permutation", "tree_published"])
def test_moves_for_the_other_model(method):
    regression = nm.Model("y ~ x", pd.DataFrame({"y": Y[:, 0], "x": np.arange(30.0)}))
    with pytest.raises(ValueError, match="density regression; methods for this model are 'auto', 'gibbs', 'split_merge', 'slice'"):
        regression.fit(method, **RUN)


def test_moves_for_other_families_and_priors():
    held = nm.Model(data=Y[:, :1], family=nm.SemiconjugateGaussian(mean=(0.0, 9.0), precision=nm.Gamma(1.0, 1.0)))
    with pytest.raises(ValueError, match=r"component parameters .* methods for this model are 'auto', 'gibbs', 'slice'"):
        held.fit("split_merge", **RUN)
    for prior in (nm.PitmanYor(), nm.DirichletProcess(nm.LogNormal(0.0, 1.0)), nm.DirichletProcess(1.0), nm.FiniteMixture(3)):
        with pytest.raises(ValueError, match="integrate_mass needs a mass with a gamma prior"):
            nm.Model(data=Y, prior=prior).fit(nm.Permutation(integrate_mass=True), **RUN)


def test_a_table_that_is_too_large():
    large = nm.Model(data=np.random.default_rng(0).normal(size=(20_000, 1)))
    with pytest.raises(ValueError, match=r"table of 20000 observations would take \d\.\d GiB .* 1 GiB is the limit"):
        large.fit(nm.Permutation(dynamic_program="table"), **RUN)


@pytest.mark.parametrize(("order", "message"), [("uniform", "give a beam"), ("markov", "give a beam and order='uniform'")])
def test_columns_that_are_too_large(model, monkeypatch, order, message):
    monkeypatch.setattr("nrmmix.inference.mcmc.moves.permutation.MAX_COLUMNS", 1000)
    with pytest.raises(ValueError, match=r"columns of statistics would take .*; give a beam"):
        model.fit(nm.Permutation(order=order), **RUN)
    assert nm.Permutation(order=order).option_error(model).endswith(message)
    model.fit([nm.Permutation(beam=0.1), nm.Gibbs()], **RUN)


def test_work_is_shared(model):
    """A cheap move is called more often than a costly one, as often after tuning as at its end."""
    cycle = nm.Cycle([nm.Gibbs(), nm.Gibbs(subset=3)], share="work")
    fit = model.fit(cycle, **{**RUN, "tune": 200})
    for checkpoint in fit.checkpoints:
        work = checkpoint.state["work"]
        assert work[0, layout.CALLS] == 1 and 9 <= work[1, layout.CALLS] <= 11
        np.testing.assert_allclose(work[1, layout.EACH] / work[0, layout.EACH], 0.1, rtol=0.15)
        tally = checkpoint.state["tally"][:, layout.PROPOSED]
        assert tally[0] == 20 * 30 and tally[1] == 20 * 3 * work[1, layout.CALLS]


def test_proposals_are_reported(model):
    fit = model.fit([nm.SplitMerge(proposals=4), nm.SplitMerge(), nm.Gibbs()], **RUN)
    table = fit.proposals()
    assert table["move"].tolist() == ["split_merge"] * 4 + ["gibbs"] and table["kind"].tolist() == ["split", "merge"] * 2 + [""]
    assert table["proposed"][:2].sum() == 2 * 20 * 4 and table["proposed"][2:4].sum() == 2 * 20 and table["proposed"][4] == 2 * 20 * 30
    assert (table["accepted"].dropna() <= 1).all() and (table["log_ratio_sd"][:2] > 0).all()
    rows = fit.diagnostics().iloc[len(fit.scalars) :]
    assert list(rows.index) == [
        f"{kind} {what}{again}" for again in ("", " (2)") for kind in ("split", "merge") for what in ("accepted", "log ratio")
    ]
    assert rows.loc["merge accepted", "mean"] == table["accepted"][1] and rows.loc["merge log ratio", "sd"] == table["log_ratio_sd"][1]
    assert rows[["ess", "rhat", "iact"]].isna().all(axis=None)
    text = fit.summary().as_text()
    assert "split_merge" in text and "Log ratio" in text and "Skipped" in text
    assert "Log ratio" not in model.fit("gibbs", **RUN).summary().as_text()


def test_an_interrupted_list_goes_on_where_it_stopped(model):
    """A run cut by the time limit is extended as if it had not been cut."""
    cycle = [nm.SplitMerge(), nm.Permutation(), nm.Slice(), nm.Gibbs()]
    cut = model.fit(cycle, draws=10**6, tune=5, chains=2, rng=4, time_limit=0.2)
    assert cut.interrupted
    T = cut.draws.n_draws
    more = cut.extend(50)
    whole = model.fit(cycle, draws=T + 50, tune=5, chains=2, rng=4)
    np.testing.assert_array_equal(more.draws["labels"], whole.draws["labels"])
    np.testing.assert_array_equal(more.draws["u"], whole.draws["u"])


@entry(MOVE_T)
def sweep_backwards(data, state, memory, rng):
    n = state.labels.shape[0]
    for t in range(state.num[Count.CURSOR], n):
        if state.num[Count.CLUSTERS] > state.size.shape[0] - 3:
            state.num[Count.CURSOR] = t
            return NEED_ROOM
        status = gibbs_one(data, state, n - 1 - t, rng)
        if status != DONE:
            return status
        redraw_cells(data, state, n - 1 - t, rng)
    state.num[Count.CURSOR] = 0
    return DONE


class Backwards(Move):
    name = "backwards"
    entry = sweep_backwards


def test_a_move_of_ones_own(model, tmp_path):
    fit = model.fit([Backwards(), nm.SplitMerge()], **RUN)
    assert fit.method == "backwards + split_merge" and fit.similarity()[:15, :15].mean() > 0.5
    with pytest.raises(TypeError, match="cannot be saved"):
        fit.save(tmp_path / "fit.npz")
    nm.register(Backwards)
    assert nm.load(fit.save(tmp_path / "fit.npz")).extend(5).draws.n_draws == 25


def groups(n_groups, each, d, spread=20.0):
    rng = np.random.default_rng(0)
    return 0.3 * rng.normal(size=(n_groups * each, d)) + np.repeat(spread * rng.normal(size=(n_groups, d)), each, axis=0)


@pytest.mark.parametrize("order", ["uniform", "markov"])
def test_a_permutation_move_leaves_one_cluster(order):
    """With the slope at the present number of clusters it would refuse every proposal, for ever."""
    model = nm.Model(data=groups(10, 8, 3), prior=nm.DirichletProcess(1.0))
    fit = model.fit(nm.Permutation(order=order), draws=100, tune=200, chains=2, init="one", rng=1)
    assert fit.draws["n_clusters"].min() >= 5 and fit.proposals()["accepted"][0] > 0


@pytest.mark.parametrize("components", [1, 2, 4])
@pytest.mark.parametrize("program", ["table", "metropolis"])
def test_searches_propose_only_what_the_prior_allows(components, program):
    model = nm.Model(data=groups(6, 6, 2), prior=nm.FiniteMixture(components))
    fit = model.fit([nm.Permutation(program, order="projection"), nm.Gibbs()], **RUN)
    assert fit.draws["n_clusters"].max() <= components and np.isfinite(fit.draws["log_joint"]).all()


@pytest.mark.filterwarnings("ignore:.*quartile ranges away:UserWarning")
def test_a_row_far_out_drowns_nothing():
    """Log predictives of -1e18 are common to all partitions: they must not take the digits of the rest."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    X[0] = 1e9
    family = nm.Gaussian(known_covariance=np.eye(2), m=np.zeros(2), r=0.01)
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=family)
    moves = ("gibbs", nm.Permutation("table"), nm.Permutation(), nm.Permutation(order="markov"), "split_merge", "slice")
    found = [model.fit(move, draws=2000, tune=200, chains=4, rng=1).draws["n_clusters"].mean(axis=1) for move in moves]
    for K in found[1:]:
        error = np.hypot(K.std(ddof=1), found[0].std(ddof=1)) / 2
        assert error < 0.1 and abs(K.mean() - found[0].mean()) < 5 * error


def test_a_partition_that_never_moved_is_reported():
    model = nm.Model(data=groups(2, 20, 11, spread=3.0), prior=nm.DirichletProcess(1.0))
    with pytest.warns(nm.ConvergenceWarning, match="no move has changed it"):
        fit = model.fit("gibbs", draws=200, tune=0, chains=2, init="one", rng=1)
    assert fit.draws["n_clusters"].max() == 1 and not fit.glance()["converged"].any()


def test_many_skipped_calls_are_reported(model):
    with pytest.warns(nm.ConvergenceWarning, match=r"skipped \d+% of its calls.*max_atoms"):
        fit = model.fit(nm.Slice(max_atoms=1), draws=200, tune=50, chains=2, rng=1)
    row = fit.proposals().iloc[0]
    assert fit.diagnostics().loc["slice skipped", "mean"] == row["skipped"] / 400 > 0.2
    assert "Skipped" in fit.summary().as_text()


def test_two_groups_beside_each_other_are_found_by_default():
    """Of two columns whose correlation is 0.99: all chains of Gibbs take them for one group, 50 nats below, and agree."""
    rng = np.random.default_rng(200)
    group = rng.choice(2, 200, p=[0.6, 0.4])
    a = rng.normal(size=200)
    model = nm.Model(data=np.column_stack([a, a + 0.3 * group + 0.05 * rng.normal(size=200)]))
    found = {method: model.fit(method, draws=200, tune=300, chains=4, rng=1) for method in ("auto", "gibbs")}
    labels = found["auto"].partition().labels
    assert (labels == group).mean() > 0.98 or (labels != group).mean() > 0.98
    level = {method: fit.draws["log_joint"].mean(axis=1) for method, fit in found.items()}
    assert level["auto"].min() > level["gibbs"].max() + 30


def test_what_auto_chooses():
    rng = np.random.default_rng(0)
    assert choose(nm.Model(data=rng.normal(size=(499, 1)))) == "gibbs"
    assert choose(nm.Model(data=rng.normal(size=(499, 2)))) == "split_merge"
    assert choose(nm.Model(data=rng.normal(size=(500, 2)))) == "tree"
    assert choose(nm.Model(data=rng.normal(size=(40, 3)))) == "tree"
    assert choose(nm.Model(data=rng.normal(size=(120, 40)))) == "tree", "few rows of many columns"
    assert choose(nm.Model(data=rng.normal(size=(60, 50)))) == "split_merge", "a tree for every draw of the scale"
    assert choose(nm.Model(data=rng.normal(size=(2000, 20)))) == "tree"
    assert choose(nm.Model(data=rng.normal(size=(60, 200)))) == "split_merge", "one tree takes seconds"
    assert choose(nm.Model(data=rng.normal(size=(500, 50)))) == "split_merge"
    assert choose(nm.Model(data=rng.normal(size=(60, 200)), family=nm.Gaussian("diagonal"))) == "tree"
    assert choose(nm.Model(data=rng.normal(size=(400, 300)), family=nm.Gaussian("diagonal"))) == "split_merge"
    assert choose(nm.Model(data=rng.poisson(3.0, size=(500, 2)), family=nm.Poisson(), prior=nm.PitmanYor())) == "tree"
    held = nm.SemiconjugateGaussian(mean=(0.0, 9.0), precision=nm.Gamma(1.0, 1.0))
    assert choose(nm.Model(data=rng.normal(size=(600, 1)), family=held)) == "gibbs"
    regression = nm.Model("y ~ x", pd.DataFrame({"y": rng.normal(size=600), "x": np.linspace(0, 1, 600)}))
    assert choose(regression) == "split_merge" and method_of("auto", regression)[1] == OF_LOCATIONS["split_merge"]
    several = nm.Model("y ~ x + z", regression.frame.source.assign(z=rng.normal(size=600)))
    assert choose(several) == "split_merge" and method_of("auto", several)[1] == OF_SLOTS["split_merge"]
    one_mean = nm.SemiconjugateGaussian(mean=(0.0, 9.0), precision=nm.Gamma(1.0, 1.0))
    assert choose(nm.Model("y ~ x", regression.frame.source, family=one_mean)) == "gibbs"
    fit = nm.Model(data=rng.normal(size=(500, 2))).fit(draws=3, tune=2, chains=1, rng=1)
    assert fit.method == "tree" and fit.cycle == CYCLES["tree"]
