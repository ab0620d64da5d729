"""Relocation of atoms, labels and v integrated out, against quadrature over v for every partition and set of locations."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from exact import priors
from exact.enumeration import KernelJoint, location_posterior, normalised, total_variation
from exact.marginals import semiconjugate_log_marginal
from exact.priors import Y, kernel_matrix, log_marginal, regression, states
from support.cover import each_once, only
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels.moves.atoms import relocation

CHAINS, DRAWS = 8, by_day(10_000)
DESIGNS = priors.DESIGNS | {
    "3 locations": ([0.0, 1.0, 1.0, 0.0], [0.0, 0.4, 1.0], nm.SquaredExponential(0.5, locations=[0.0, 0.4, 1.0])),
    "3 groups": ([0.0, 0.5, 1.0], [0.2, 0.8], nm.SquaredExponential(0.2, locations=[0.2, 0.8])),
}
SELDOM = nm.Gibbs(subset=1)  # opens and closes clusters, and does little else
MOVES = [nm.Relocation(), SELDOM]


def exact_law(K, group, sigma):
    return location_posterior(KernelJoint(K, group, 1.3, sigma, 161 if K.shape[0] == 2 else 101), log_marginal)


@pytest.mark.parametrize(("design", "sigma"), only(each_once(DESIGNS, [0.0, 0.3, 0.6]), ("3 locations", 0.6)))
def test_partition_and_locations(design, sigma):
    data, K, group, kernel = priors.setting(design, DESIGNS)
    fit = regression(data, kernel, priors.nggp(sigma)).fit(MOVES, draws=DRAWS, tune=500, chains=CHAINS, rng=11)
    priors.compare(fit, exact_law(K, group, sigma))


@pytest.mark.nightly
@pytest.mark.parametrize("measure", only(priors.MEASURES, "finite-3"))
def test_other_measures(measure):
    data, K, group, kernel = priors.setting("se")
    prior, law = priors.of_measure(K, group, **priors.SPREAD.get(measure, {"points": 161}))[measure]
    fit = priors.regression(data, kernel, prior).fit(MOVES, draws=DRAWS, tune=500, chains=CHAINS, rng=5)
    log_p = priors.with_likelihood(law(), len(data))
    priors.compare(fit, normalised(list(log_p), list(log_p.values())))


@pytest.mark.nightly
def test_more_places_than_are_tried():
    """Twelve, of locations and widths; what is compared is the partition of three rows and where the first one is."""
    at, widths, group = [0.1, 0.5, 0.8], (0.2, 0.4, 0.8, 1.2), [0, 0, 1]
    assert len(at) * len(widths) > relocation.PLACES
    d = np.abs(np.subtract.outer([0.0, 1.0], at))
    K = np.stack([np.exp(-(d[:, p] ** 2) / (2 * w**2)) for p in range(3) for w in widths], axis=1)
    law: dict[tuple[int, ...], float] = {}
    for state, chance in location_posterior(KernelJoint(K, group, 1.3, 0.3, 101), log_marginal).items():
        law[state[:4]] = law.get(state[:4], 0.0) + chance
    data = pd.DataFrame({"x": np.array([0.0, 1.0])[group], "y": Y[:3]})
    kernel = nm.SquaredExponential(nm.PerAtom(widths), locations=at)
    fit = regression(data, kernel, nm.NGGP(1.3, 0.3)).fit(MOVES, draws=DRAWS, tune=500, chains=CHAINS, rng=3)
    distance, limit = total_variation(law, states(fit)[..., :4], deviations=6.0)
    assert distance < limit < coarser(0.04)


@pytest.mark.nightly
def test_parameters_that_are_not_integrated_out():
    groups, group, locations = np.array([0.0, 1.0]), [0, 1, 1], [0.0, 1.0]
    kernel = nm.SquaredExponential(0.7, locations=locations)
    family = nm.SemiconjugateGaussian(mean=(0.2, 1.5), precision=nm.Gamma(2.0, 1.0))
    law = location_posterior(
        KernelJoint(kernel_matrix(kernel, groups, locations), group, 1.3, 0.3, 161),
        lambda rows: semiconjugate_log_marginal(Y[rows], 0.2, 1.5, (2.0, 1.0)),
    )
    model = nm.Model("y ~ x", pd.DataFrame({"x": groups[group], "y": Y[:3]}), kernel=kernel, prior=nm.NGGP(1.3, 0.3), family=family)
    priors.compare(model.fit([nm.Relocation(), nm.Gibbs()], draws=DRAWS, tune=500, chains=CHAINS, rng=3), law)


@pytest.mark.nightly
def test_sampled_hyperparameters():
    """Gibbs draws the same law, mass and sigma included."""
    data, _, _, _ = priors.setting("se", DESIGNS)
    kernel = nm.SquaredExponential(nm.PerAtom((0.3, 0.6, 1.2)), locations=[0.0, 0.5, 1.0])
    built = regression(data, kernel, nm.NGGP(nm.Gamma(2.0, 1.5), nm.Beta(1, 2)))
    fits = [built.fit(method, draws=DRAWS, tune=500, chains=CHAINS, rng=7) for method in ([nm.Relocation(), nm.Gibbs()], "gibbs")]
    for name in ("mass", "sigma", "n_clusters"):
        means = [fit.draws[name].mean(axis=1) for fit in fits]
        error = np.sqrt(sum(mean.var(ddof=1) / CHAINS for mean in means))
        assert abs(means[0].mean() - means[1].mean()) < 5 * error
        assert error < coarser(0.05 * means[1].mean()), "too few draws to tell"


# ---- wrong moves


@dataclass(frozen=True)
class Mutant(nm.Relocation):
    entry: ClassVar = None


WRONG = {  # what stands in the move, and what takes its place
    "sizes without their law": ("- sigma * log_size - tau * math.exp(log_size)", "- log_size"),
    "labels without the kernel": ("p[k] *= size[k] * row[state.location[k]]", "p[k] *= size[k]"),
    "rates without unseen atoms": ("mass[p] = unseen[p]", "mass[p] = 0.0"),
}


def moves_of(monkeypatch, wrong):
    """The move as often as three times in a sweep, with a line of its source replaced where one is given, and few moves besides."""
    if not wrong:
        return [nm.Relocation(), nm.Relocation(), nm.Relocation(), SELDOM]
    source = inspect.getsource(relocation)
    assert source.count(wrong[0]) == 1
    space = {"__name__": "wrong", "__file__": f"{wrong[1]}.py"}
    exec(source.replace(*wrong).replace("from __future__ import annotations", ""), space)
    monkeypatch.setattr(Mutant, "entry", space["relocate"])
    return [Mutant(), Mutant(), Mutant(), SELDOM]


@pytest.mark.parametrize("name", only([None, *WRONG], "labels without the kernel"))
def test_wrong_moves_are_found(monkeypatch, name):
    data, K, group, kernel = priors.setting("3 locations", DESIGNS)
    moves = moves_of(monkeypatch, WRONG.get(name))
    fit = regression(data, kernel, nm.NGGP(1.3, 0.3)).fit(moves, draws=max(DRAWS, 2_500) if name else DRAWS, tune=500, chains=CHAINS, rng=2)
    distance, limit = total_variation(exact_law(K, group, 0.3), states(fit))
    assert distance > 1.5 * limit if name else distance < limit


BEFORE_ANCHORS = ("anchor[k] > rank or (stays and k != own)", "stays and k != own")


def sorted_sizes(labels):
    """Sizes of the clusters in increasing order, behind zeros."""
    labels = np.asarray(labels)
    return np.sort((labels[..., None] == np.arange(labels.shape[-1])).sum(axis=-2))


@pytest.mark.nightly
@pytest.mark.parametrize("wrong", [None, BEFORE_ANCHORS], ids=["right", "rows before the anchor"])
def test_the_first_member_of_a_cluster_is_its_anchor(monkeypatch, wrong):
    """Anchors that could be any members would weigh partitions by the product of the sizes, which six rows tell apart and four hardly."""
    at, group = [0.0, 1.0], [0, 1, 1, 0, 1, 0]
    kernel = nm.SquaredExponential(0.5, locations=at)
    law: dict[tuple[int, ...], float] = {}
    joint = KernelJoint(kernel_matrix(kernel, at, at), group, 1.3, 0.0, 121)
    for state, chance in location_posterior(joint, log_marginal).items():
        sizes = tuple(sorted_sizes(state[:6]).tolist())
        law[sizes] = law.get(sizes, 0.0) + chance
    data = pd.DataFrame({"x": np.array(at)[group], "y": Y[:6]})
    moves = moves_of(monkeypatch, wrong)
    fit = regression(data, kernel, nm.DirichletProcess(1.3)).fit(moves, draws=10_000, tune=500, chains=CHAINS, rng=4)
    distance, limit = total_variation(law, sorted_sizes(fit.draws["labels"]))
    assert limit < 0.015, "too few draws to tell"
    assert distance > 1.5 * limit if wrong else distance < limit


def test_refusals():
    with pytest.raises(ValueError, match="it moves atoms to other locations, and this is a mixture"):
        nm.Model(data=Y).fit([nm.Relocation(), nm.Gibbs()], draws=10)
    with pytest.raises(ValueError, match="does not reach every partition; add a move that does"):
        nm.Cycle([nm.Relocation()])
