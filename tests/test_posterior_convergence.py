"""Verdicts on chains: partitions that never change, runs that end by themselves, and one piece of advice."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm
from nrmmix.posterior import diagnostics
from nrmmix.posterior.convergence import Evidence, agreed, converged, unmoved, verdict, warn_unless_converged
from nrmmix.posterior.draws import Draws

KNOWN = nm.Gaussian(known_covariance=np.eye(2), m=np.zeros(2), r=1e-4)


def groups(gap=20.0, each=20, d=2):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(gap * k, 1.0, (each, d)) for k in range(3)])


def said(fit):
    return verdict(fit.evidence, fit.diagnostics(), fit.curve_diagnostics())


def draws_of(partitions, n_draws=100):
    """Draws of chains that keep a partition each."""
    return Draws({"labels": np.repeat(np.array(partitions, np.int32)[:, None], n_draws, axis=1)})


@pytest.mark.parametrize(
    ("partitions", "never", "one_start", "text"),
    [
        ([[0, 0, 1], [0, 0, 1]], False, False, ""),
        ([[0, 0, 1], [0, 0, 1]], False, True, ""),  # they have gone there from elsewhere
        ([[0, 0, 1], [0, 0, 1]], True, False, ""),  # each has come there by an order of its own
        ([[0, 0, 1], [0, 0, 1]], True, True, "all chains have started from it, and no move has changed it"),
        ([[0, 0, 1], [0, 1, 1]], False, False, "chains keep different ones, and no move has changed them"),
        ([[0, 0, 1]], False, False, "no move has changed it"),
    ],
)
def test_partitions_that_never_change(partitions, never, one_start, text):
    found = unmoved(draws_of(partitions), never, one_start)
    assert (text in found) if text else found == ""


def test_rows_that_are_alone_throughout_are_an_objection_where_chains_start_as_they_are_told():
    alone = draws_of([range(12)] * 2)
    assert "each row is alone in every draw" in unmoved(alone, False, False, True)
    assert unmoved(alone, False, False, False) == unmoved(draws_of([range(5)] * 2), False, False, True) == ""
    joined = [0, *range(11)]
    assert unmoved(draws_of([joined, joined]), False, False, True) == ""


def test_a_partition_that_changes_or_few_draws_are_no_objection():
    labels = np.tile(np.array([0, 0, 1], np.int32), (2, 100, 1))
    labels[1, 7] = [0, 1, 1]
    assert unmoved(Draws({"labels": labels}), False, True) == ""
    assert unmoved(draws_of([[0, 0, 1], [0, 1, 1]], 99), False, False) == ""


@pytest.mark.parametrize("prior", by_turns([nm.DirichletProcess(), nm.DirichletProcess(1e-9)], 3))
@pytest.mark.parametrize("init", by_turns(["spread", "one", "each"], 3))
def test_clear_groups_are_trusted(prior, init):
    """Three groups 20 standard deviations apart: all chains have the same partition in every draw, wherever they start."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = nm.Model(data=groups(), family=KNOWN, prior=prior).fit("split_merge", draws=300, tune=300, rng=1, init=init)
    labels = fit.draws["labels"]
    assert prior == nm.DirichletProcess() or (labels == labels[0, 0]).all()
    text = said(fit)
    assert "agree" in text and "not trust" not in text and "cannot be judged" not in text and "elsewhere" not in text
    assert bool(fit.glance()["converged"].iloc[0]) and agreed(fit.evidence, fit.diagnostics())


def test_a_start_that_nobody_has_named_is_not_spoken_of():
    """Starts by default may be one partition, which several searches have found."""
    r = np.random.default_rng(5)
    a, b, noise = r.normal(size=(3, 80))
    data = pd.DataFrame({"a": a, "b": b, "y": a + 0.5 * noise})
    fit = nm.fit("y ~ a + b", data, draws=100, tune=20, chains=2, rng=5)
    assert fit.run.one_start and "one partition" not in said(fit)
    assert "All chains have started from one partition" in said(nm.fit("y ~ a + b", data, draws=100, tune=20, chains=2, rng=5, init="one"))


def test_curves_that_differ_are_warned_of():
    """Whatever numbers of the clusters say; `glance` goes by both."""
    good, bad = table(1.001, 900), table(1.3, 9, "mean y at x = 1")
    evidence = Evidence(4, 200, 100, 1)
    with pytest.warns(nm.ConvergenceWarning, match="Curves: chains differ, most of all in mean y at x = 1"):
        warn_unless_converged(evidence, lambda: good, lambda: bad)
    assert agreed(evidence, good) and agreed(evidence, good, good) and not agreed(evidence, good, bad)


def test_chains_that_are_caught_apart_are_not_trusted(tmp_path):
    """Gibbs sweeps do not leave either start: one cluster of all, and the groups."""
    X = groups(gap=200.0)
    starts = np.stack([np.zeros(60, int), np.repeat([0, 1, 2], 20)])
    model = nm.Model(data=X, prior=nm.DirichletProcess(1e-12), family=nm.Gaussian(nu=200.0))
    with pytest.warns(nm.ConvergenceWarning, match="chains keep different ones") as caught:
        fit = model.fit("gibbs", draws=150, tune=0, chains=2, init=starts, rng=1)
    text = str(caught[0].message)
    assert text.count("Start elsewhere") == 1 and "Run longer" not in text and not fit.glance()["converged"].any()
    with pytest.warns(nm.ConvergenceWarning, match="all chains have started from it"):
        caught_together = model.fit("gibbs", draws=150, tune=0, chains=2, init=starts[0], rng=1)
    again = nm.load(caught_together.save(tmp_path / "fit.npz"))
    assert again.run.one_start and said(again) == said(caught_together)
    with pytest.warns(nm.ConvergenceWarning, match="no move has changed it"):
        alone = model.fit("gibbs", draws=150, tune=0, chains=1, init=starts[0], rng=1)
    assert said(alone).count("chains=4") <= 1


def table(rhat, ess, name="mass"):
    found = diagnostics.table({name: np.random.default_rng(0).normal(size=(4, 200))})
    found[["rhat", "ess", "ess_tail"]] = rhat, ess, ess
    return found


AGREE, NEARLY, DIFFER = (1.001, 900.0), (1.02, 300.0), (1.3, 20.0)


@pytest.mark.parametrize(("interrupted", "goes_on"), [(False, False), (True, True)])
@pytest.mark.parametrize(("clusters", "curves"), [(AGREE, NEARLY), (NEARLY, AGREE), (NEARLY, NEARLY)])
def test_a_run_that_has_ended_by_itself_need_not_go_on(interrupted, goes_on, clusters, curves):
    evidence = Evidence(4, 200, 100, 1, interrupted=interrupted, seconds=9.0, by_itself=True, limit=1.0 * interrupted)
    text = verdict(evidence, table(*clusters), table(*curves, name="mean y at x = 1"))
    assert ("Go on" in text) is goes_on and "Run longer" not in text
    fixed = verdict(evidence._replace(by_itself=False), table(*clusters), table(*curves, name="mean y at x = 1"))
    assert fixed.count("Run longer") == 1


@pytest.mark.parametrize(("clusters", "curves"), [(AGREE, DIFFER), (DIFFER, AGREE), (DIFFER, DIFFER)])
@pytest.mark.parametrize("by_itself", [True, False])
def test_chains_that_differ_get_one_remedy(clusters, curves, by_itself):
    evidence = Evidence(4, 200, 100, 1, seconds=9.0, by_itself=by_itself)
    text = verdict(evidence, table(*clusters), table(*curves, name="mean y at x = 1"))
    assert text.count("Go on") + text.count("Run longer") == 1


@pytest.mark.parametrize("by_itself", [True, False])
def test_chains_that_agree_get_no_remedy(by_itself):
    evidence = Evidence(4, 200, 100, 1, seconds=9.0, by_itself=by_itself)
    text = verdict(evidence, table(*AGREE), table(*AGREE, name="mean y at x = 1"))
    assert not any(word in text for word in ("Go on", "Run longer", "extend"))


def test_constant_values_agree_if_they_are_the_same():
    same = diagnostics.table({"n_clusters": np.full((4, 200), 3.0)})
    apart = diagnostics.table({"n_clusters": np.repeat([[3.0], [3.0], [4.0], [3.0]], 200, axis=1)})
    evidence = Evidence(4, 200, 100, 1, seconds=9.0)
    assert agreed(evidence, same) and "agree" in verdict(evidence, same) and "longer" not in verdict(evidence, same)
    assert not agreed(evidence, apart) and verdict(evidence, apart).startswith("Do not trust n_clusters: R-hat > 10")
    assert not agreed(evidence._replace(n_chains=1), same) and "chains=4" in verdict(evidence._replace(n_chains=1), same)
    assert not agreed(evidence._replace(n_draws=20), same) and "cannot be judged" in verdict(evidence._replace(n_draws=20), same)
    assert not agreed(evidence._replace(objection="Do not trust it."), same)
    assert pd.isna(same["rhat"]).all() and not converged(same), "numbers alone do not say how many draws there were"


@pytest.mark.parametrize(("init", "together"), [("one", True), (np.repeat([0, 1], 30), True), ("spread", False), ("sequential", False)])
def test_chains_that_start_from_one_partition_are_said_to(init, together):
    """They may agree on a mode that none of them leaves, which no diagnostic sees."""
    fit = nm.Model(data=groups(), family=KNOWN).fit("split_merge", draws=40, tune=40, chains=2, rng=1, init=init)
    assert ("All chains have started from one partition" in said(fit)) is together
    assert "started from one" not in said(nm.Model(data=groups(), family=KNOWN).fit(draws=40, tune=40, chains=1, rng=1, init=init))
