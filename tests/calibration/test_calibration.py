"""Simulators against what is known of the prior, quantities against the package, and a short run that a wrong prior shows in."""

import json

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln
from support.cover import by_turns

import nrmmix as nm
from calibration import __main__ as calibration_main
from calibration import defaults, simulators
from calibration.__main__ import Row, main, verdict
from calibration.cells import BY_NAME, CELLS, CHAINS, DRAWS, log_joint, replicate, simulate
from calibration.quantities import components, log_likelihood, log_predictives, weights
from calibration.ranks import Uniformity, holm, rank, uniformity
from nrmmix.model.prior_predictive import expected_clusters


def assert_mean(draws, expected):
    """Within 4.5 standard errors."""
    error = np.std(draws) / np.sqrt(len(draws))
    assert abs(np.mean(draws) - expected) < 4.5 * error, (np.mean(draws), expected, error)


ONE = (np.ones((1, 1)), np.zeros(25, int))  # K and groups of a mixture


@pytest.mark.parametrize(("mass", "sigma"), by_turns([(1.5, 0.0), (1.0, 0.3), (0.4, 0.8)], 3, 1))
def test_number_of_clusters_of_a_mixture(mass, sigma):
    rng = np.random.default_rng(1)
    drawn = [simulators.measure(mass, sigma, *ONE, rng) for _ in range(1000)]
    n = len(ONE[1])
    law = sum(mass / (mass + i) for i in range(n)) if sigma == 0 else expected_clusters(n, mass, sigma)
    assert_mean([labels.max() + 1 for labels, *_ in drawn], law)
    together = expected_clusters(2, mass, sigma)
    assert_mean([labels[7] != labels[21] for labels, *_ in drawn], together - 1.0)  # exchangeable


def test_number_of_clusters_with_hyperpriors():
    rng = np.random.default_rng(2)
    cell = BY_NAME["NGGP, gibbs"]
    drawn = [simulate(cell, rng) for _ in range(150)]
    law = cell.model(drawn[0][0]).prior_n_clusters()
    assert_mean([state.labels.max() + 1 for _, state in drawn], float((law.index * law).sum()))


def test_total_mass():
    rng = np.random.default_rng(3)
    for mass, sigma in ((1.3, 0.0), (0.02, 0.3), (1.3, 0.3), (2.0, 0.9)):
        drawn = np.array([simulators.total_mass(mass, sigma, rng) for _ in range(4000)])
        growth = np.log(3.0) if sigma == 0 else (3.0**sigma - 1.0) / sigma
        assert_mean(np.exp(-2.0 * drawn), np.exp(-mass * growth))
        assert_mean(drawn, mass)


def by_jumps(mass, sigma, K, group, rng, least=1e-9):
    """The measure itself: all jumps above `least`, each with a location; those below add up to less than 1e-6 on average."""
    count = rng.poisson(mass / np.exp(gammaln(1 - sigma)) * least**-sigma / sigma)
    w = least * rng.random(count) ** (-1 / sigma)
    w = w[rng.random(count) < np.exp(-w)]
    place = rng.integers(K.shape[1], size=len(w))
    weight = K[:, place] * w
    sums = np.cumsum(weight, axis=1)
    atom = np.array([np.searchsorted(sums[g], rng.random() * sums[g, -1]) for g in group])
    return simulators.by_appearance(atom), place[atom], rng.gamma(np.bincount(group)) / sums[:, -1]


def test_kernel_weighted_measure_against_its_jumps():
    x, mass, sigma = np.linspace(0.0, 1.0, 5), 1.2, 0.3
    K, group = simulators.kernel(x, np.array([0.0, 0.4, 1.0]), 0.3), np.repeat(np.arange(5), 6)
    rng = np.random.default_rng(4)
    drawn = [[f(mass, sigma, K, group, rng) for _ in range(400)] for f in (by_jumps, simulators.measure)]
    for functional in (
        lambda labels, place, v: labels.max() + 1,
        lambda labels, place, v: np.bincount(labels).max(),
        lambda labels, place, v: len(np.unique(labels[[0, 14, 29]])),
        lambda labels, place, v: place[0] + place[29] ** 2,
        lambda labels, place, v: np.log(v[0]),
        lambda labels, place, v: np.log(v[3]) * (labels.max() + 1),
    ):
        a, b = (np.array([functional(*one) for one in some], dtype=float) for some in drawn)
        assert abs(a.mean() - b.mean()) < 4.5 * np.sqrt((a.var() + b.var()) / len(a))


def test_responses_have_the_moments_of_their_prior():
    base = BY_NAME["NGGP, gibbs"].base
    rng = np.random.default_rng(5)
    y = np.array([simulators.responses(np.array([0, 0, 1]), base, rng) for _ in range(3000)]) - base.m
    within = base.scale / (base.nu - 3)  # E of the covariance of a component
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert_mean(y[:, 0, i] * y[:, 0, j], within[i, j] * (1 + 1 / base.r))
        assert_mean(y[:, 0, i] * y[:, 1, j], within[i, j] / base.r)
        assert_mean(y[:, 0, i] * y[:, 2, j], 0.0)


def test_weights_are_shares_of_the_kernel():
    cell = BY_NAME["kernel, NGGP"]
    y, state = simulate(cell, np.random.default_rng(6))
    share, design = weights(state, cell.design), cell.design
    K, at_x = simulators.kernel(design.x, design.places, state.width), np.exp(-0.5 * ((0.37 - design.places) / state.width) ** 2)
    A = [sum(state.v[g] * K[g, p] for g in range(len(state.v))) for p in range(len(design.places))]
    place = dict(zip(state.labels, state.location, strict=True))
    own = [at_x[p] * ((state.labels == c).sum() - 0.3) / (1 + A[p]) for c, p in place.items()]
    new = sum(state.mass / len(A) * k * (1 + a) ** -0.7 for k, a in zip(at_x, A, strict=True))
    assert np.allclose(np.sort(share[:-1]), np.sort(own) / (sum(own) + new))
    assert np.isclose(share.sum(), 1.0) and np.isclose(share[-1], new / (sum(own) + new))


def test_likelihood_is_that_of_the_log_joint():
    """log p(y, partition) less that of another partition with clusters of the same sizes."""
    cell = BY_NAME["DP, split_merge"]
    y, state = simulate(cell, np.random.default_rng(7))
    other = state._replace(labels=simulators.by_appearance(state.labels[::-1]))
    gap = log_joint(cell.model(y), state) - log_joint(cell.model(y), other)
    of, of_other = (log_likelihood(components(y, one.labels, cell.base), cell.base) for one in (state, other))
    assert np.isclose(gap, of - of_other) and abs(gap) > 1.0


def test_predictive_is_a_ratio_of_likelihoods():
    cell = BY_NAME["DP, split_merge"]
    y, state = simulate(cell, np.random.default_rng(7))
    before = components(y[:-1], state.labels[:-1], cell.base)
    grown = [np.append(state.labels[:-1], k) for k in range(state.labels[:-1].max() + 2)]
    ratio = [log_likelihood(components(y, labels, cell.base), cell.base) - log_likelihood(before, cell.base) for labels in grown]
    assert np.allclose(log_predictives(before, cell.base, y[-1]), ratio)


def test_defaults_are_those_of_a_model():
    """What cells of defaults fit is what a formula alone gives, but for the units of the responses."""
    for cell in CELLS:
        if cell.formula:
            y = np.random.default_rng(9).standard_normal((cell.n, cell.d))
            model, data = cell.model(y), defaults.table(cell.n).assign(y=y[:, 0], z=y[:, -1])
            plain = nm.Model(cell.formula, data)
            assert (str(model.prior), str(model.kernel)) == (str(plain.prior), str(plain.kernel)) and str(model.prior) == str(cell.prior)
            if cell.formula == defaults.MIXTURE:
                assert (model.family.r, model.family.nu) == (plain.family.r, plain.family.nu)
                assert set(model.family.scale) == {defaults.LAW} and {law.shape for law in plain.family.scale} == {defaults.LAW.shape}
                assert np.allclose([law.mean for law in plain.family.scale], defaults.LAW.mean * y.var(axis=0, ddof=1))
            else:
                ours, theirs = model.family.form, plain.family.form
                assert np.array_equal(ours.factor, theirs.factor) and np.array_equal(ours.groups, theirs.groups)
                assert (ours.nu, ours.shrinkage, ours.scale, ours.level) == (theirs.nu, theirs.shrinkage, 1.0, 0.0)


def test_likelihood_of_lines_is_that_of_t_and_of_the_log_joint():
    rng = np.random.default_rng(10)
    cell = BY_NAME["default, several covariates"]
    model = cell.model(rng.standard_normal((cell.n, 1)))
    z, groups = model.family.form.observe_inputs(model.frame.inputs), model.family.form.groups
    labels, shrinkage, noise, nu = np.repeat([0, 1, 2], cell.n // 3), rng.gamma(1.0, 1.0, len(groups))[groups], 0.3, 2.0
    y = defaults.responses(z, labels, shrinkage, noise, nu, rng)
    t = [
        stats.multivariate_t(None, noise / nu * (np.eye((labels == c).sum()) + z[labels == c] / shrinkage @ z[labels == c].T), nu)
        for c in range(3)
    ]
    expected = sum(own.logpdf(y[labels == c, 0]) for c, own in enumerate(t))
    other = simulators.by_appearance(rng.permutation(labels))
    found = [defaults.log_likelihood(y[:, 0], z, one, shrinkage, noise, nu) for one in (labels, other)]
    assert np.isclose(found[0], expected) and found[0] - found[1] > 1.0


def test_responses_of_lines_have_their_law():
    """Of one row they are of a t distribution of two degrees of freedom: its quantiles."""
    rng = np.random.default_rng(11)
    z, shrinkage, noise, nu = np.array([[1.0, -0.7], [1.0, 0.4]]), np.array([0.5, 2.0]), 0.3, 2.0
    y = np.array([defaults.responses(z, np.array([0, 0]), shrinkage, noise, nu, rng)[:, 0] for _ in range(3000)])
    for combination in ([1.0, 0.0], [1.0, -1.0], [1.0, 1.0]):
        a = np.array(combination)
        spread = np.sqrt(noise / nu * (a @ a + (a @ z) ** 2 @ (1 / shrinkage)))
        assert stats.kstest(y @ a / spread, stats.t(nu).cdf).pvalue > 1e-4


def test_ranks_and_their_tests():
    rng = np.random.default_rng(8)
    draws = np.array([1.0, 2.0, 2.0, 3.0])
    assert {rank(2.0, draws, rng) for _ in range(100)} == {1, 2, 3} and rank(0.0, draws, rng) == 0 and rank(9.0, draws, rng) == 4
    u = rng.random((300, 200))
    p = np.array([uniformity(row).p for row in u])
    assert (p < 0.05).mean() < 0.08
    assert uniformity(0.8 * u[0]).p < 1e-4 and uniformity(u[0] ** 1.5).mean < 0.45
    assert uniformity(0.5 + 0.7 * (u[0] - 0.5)).spread < 0.75
    assert np.allclose(holm(np.array([0.01, 0.04, 0.03])), [0.03, 0.06, 0.06])


def test_verdict():
    right, wrong = (next(cell for cell in CELLS if cell.wrong is is_wrong) for is_wrong in (False, True))

    def said(p_right, p_wrong):
        return verdict([Row(right, 9, "mass", Uniformity(0.5, 1, p_right), 99), Row(wrong, 9, "mass", Uniformity(0.5, 1, p_wrong), 99)])

    assert said(0.5, 1e-6)[1] and not said(1e-3, 1e-6)[1] and not said(0.5, 0.01)[1]
    assert f"FAILED: RANKS ARE NOT UNIFORM IN {right.name}: mass" in said(1e-3, 1e-6)[0]
    assert f"FAILED: {wrong.name.upper()} WAS NOT FOUND" in said(0.5, 0.01)[0]


def short_run(name, replicates):
    rows = [replicate(name, index) for index in range(replicates)]
    assert all(0 <= r <= CHAINS * DRAWS for one in rows for r in one.ranks.values())
    assert {"mass", "clusters", "log joint"} <= set(rows[0].ranks)
    return {quantity: np.mean([one.ranks[quantity] for one in rows]) / (CHAINS * DRAWS) for quantity in rows[0].ranks}


NIGHTLY = ("NGGP, gibbs", "kernel, DP", "default, one covariate", "default, a factor")


@pytest.mark.parametrize("name", ["DP, gibbs", *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY)])
def test_ranks_are_in_range_and_not_all_at_one_end(name):
    means = short_run(name, 4)
    assert all(0.05 < mean < 0.95 for mean in means.values())


def test_a_wrong_prior_shows():
    means = short_run("wrong prior of the mass", 10)
    assert means["mass"] < 0.3 and means["clusters"] < 0.4  # draws too large


def test_a_replicate_is_the_same_again():
    assert replicate("NGGP, gibbs", 3).ranks == replicate("NGGP, gibbs", 3).ranks


def test_command_line(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "invalid choice: 'nothing'" in capsys.readouterr().err


@pytest.mark.nightly
def test_a_run_goes_on_where_it_was_ended(tmp_path, monkeypatch, capsys):
    kept, to, wrong = tmp_path / "kept.json", tmp_path / "page.md", "wrong prior of the mass"
    monkeypatch.setattr(calibration_main, "KEPT", kept)
    ran = []

    def rows_of(cell, found):
        ran.append(cell.name)
        return [Row(cell, len(found), "mass", Uniformity(0.5, 1, 0.4), 99)]

    monkeypatch.setattr(calibration_main, "rows_of", rows_of)
    only = ["--replicates", "3", "--to", str(to), "--only"]
    assert main([*only, "DP, gibbs"]) == 0 and ran == ["DP, gibbs"]
    assert "Not run yet: DP, split_merge" in to.read_text() and "| mass | 0.500 | 1.000 | 99 | 0.400 |" in to.read_text()
    assert main([*only, "DP, gibbs", wrong]) == 1 and ran == ["DP, gibbs", wrong]  # which the ranks made up here do not show
    assert "DP, gibbs: ran on" in capsys.readouterr().err
    found = json.loads(kept.read_text())
    found["DP, gibbs"]["digest"] = "of other sources"
    kept.write_text(json.dumps(found))
    assert main([*only, "DP, gibbs", wrong]) == 1 and ran[2:] == ["DP, gibbs"]
