"""Slice, blocked and region samplers of density regression, each alone, against quadrature over v for every partition and locations."""

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
from support.cover import by_turns, only
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import named
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.moves import sngp
from nrmmix.kernels.moves.atoms import blocked
from nrmmix.kernels.moves.atoms import slice as slicing

CHAINS, DRAWS = 8, by_day(6_000)
DESIGNS = priors.DESIGNS | {
    "3 locations": ([0.0, 1.0, 1.0, 0.0], [0.0, 0.4, 1.0], nm.SquaredExponential(0.5, locations=[0.0, 0.4, 1.0])),
    "3 groups": ([0.0, 0.5, 1.0], [0.2, 0.8], nm.SquaredExponential(0.3, locations=[0.2, 0.8])),
}


def exact_law(K, group, sigma):
    return location_posterior(KernelJoint(K, group, 1.3, sigma, 161 if K.shape[0] == 2 else 101), log_marginal)


@pytest.mark.parametrize(
    ("design", "method", "sigma"),
    only([*((design, "sngp", 0.0) for design in DESIGNS), ("box", "slice", 0.6), *((design, "slice", sigma) for sigma in (0.0, 0.3)
     for design in DESIGNS)], ("3 locations", "sngp", 0.0), ("3 groups", "slice", 0.3)),
)
def test_partition_and_locations(design, method, sigma):
    data, K, group, kernel = priors.setting(design, DESIGNS)
    fit = regression(data, kernel, priors.nggp(sigma)).fit(method, draws=DRAWS, tune=500, chains=CHAINS, rng=11)
    priors.compare(fit, exact_law(K, group, sigma))


FINITE = [name for name in priors.MEASURES if name.startswith("finite")]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("measure", "method"),
    only([*((one, "slice") for one in priors.MEASURES), *((one, "blocked") for one in FINITE)], ("PY", "slice")),
)
def test_other_measures(measure, method):
    data, K, group, kernel = priors.setting("se")
    prior, law = priors.of_measure(K, group, **priors.SPREAD.get(measure, {"points": 161}))[measure]
    fit = regression(data, kernel, prior).fit(method, draws=DRAWS, tune=500, chains=CHAINS, rng=5)
    log_p = priors.with_likelihood(law(), len(data))
    priors.compare(fit, normalised(list(log_p), list(log_p.values())))


@pytest.mark.nightly
@pytest.mark.parametrize("method", only(["slice", "blocked"], "blocked"))
def test_parameters_that_are_not_integrated_out(method):
    """Three rows; what partition and locations say of the components is a two-dimensional integral for each cluster."""
    groups, group, locations = np.array([0.0, 1.0]), [0, 1, 1], [0.0, 1.0]
    K = kernel_matrix(nm.SquaredExponential(0.7, locations=locations), groups, locations)
    family = nm.SemiconjugateGaussian(mean=(0.2, 1.5), precision=nm.Gamma(2.0, 1.0))

    def log_marginal_of(rows):
        return semiconjugate_log_marginal(Y[rows], 0.2, 1.5, (2.0, 1.0))

    if method == "slice":
        prior, law = nm.NGGP(1.3, 0.3), location_posterior(KernelJoint(K, group, 1.3, 0.3, 161), log_marginal_of)
    else:
        prior = nm.FiniteMixture(3, 1.5)
        log_p = priors.FiniteJoint(K, group, 3, 1.5).posterior(log_marginal_of)
        law = normalised(list(log_p), list(log_p.values()))
    data = pd.DataFrame({"x": groups[group], "y": Y[:3]})
    model = nm.Model("y ~ x", data, kernel=nm.SquaredExponential(0.7, locations=locations), prior=prior, family=family)
    priors.compare(model.fit(method, draws=DRAWS, tune=500, chains=CHAINS, rng=3), law)


SAMPLED = {
    "slice": nm.NGGP(nm.Gamma(2.0, 1.5), nm.Beta(1, 2)), "sngp": nm.DirichletProcess(nm.Gamma(2.0, 1.5)),
    "blocked": nm.FiniteMixture(4, nm.Gamma(2.0, 1.5)),
}


@pytest.mark.nightly
@pytest.mark.parametrize("method", only(SAMPLED, "blocked"))
def test_sampled_hyperparameters(method):
    """Gibbs draws the same law, width, mass and sigma included."""
    data, _, _, _ = priors.setting("se", DESIGNS)
    built = regression(data, nm.SquaredExponential(nm.LogNormal(-0.5, 0.6), locations=[0.0, 1.0]), SAMPLED[method])
    fits = [built.fit(one, draws=DRAWS, tune=500, chains=CHAINS, rng=7) for one in (method, "gibbs")]
    for name in ("width", "mass", "n_clusters", *(("sigma",) if method == "slice" else ())):
        means = [fit.draws[name].mean(axis=1) for fit in fits]
        error = np.sqrt(sum(mean.var(ddof=1) / CHAINS for mean in means))
        assert abs(means[0].mean() - means[1].mean()) < 5 * error
        assert error < coarser(0.05 * means[1].mean()), "too few draws to tell"


@pytest.mark.nightly
def test_a_finite_measure_approaches_the_infinite_one():
    """The paper's finite sampler is of another prior: with 10 atoms it can be told from a Dirichlet process, with 1,000 it cannot."""
    data, K, group, kernel = priors.setting("3 locations", DESIGNS)
    exact, distances = exact_law(K, group, 0.0), {}
    for components in (2, 10, 100, 1000):
        draws = 2 * DRAWS if components < 1000 else DRAWS // 2
        fit = regression(data, kernel, nm.FiniteMixture(components, 1.3)).fit("blocked", draws=draws, tune=200, chains=CHAINS, rng=2)
        distances[components], limit = total_variation(exact, states(fit), deviations=6.0)
        assert limit < coarser(0.05), "too few draws to tell"
        assert (distances[components] < limit) == (components >= 100), components
    assert distances[2] > 2 * distances[10] > 4 * distances[100]


@pytest.mark.nightly
@pytest.mark.parametrize("max_atoms", only([5, 15], 5))
def test_calls_that_are_skipped(max_atoms):
    data, K, group, kernel = priors.setting("se", DESIGNS)
    fit = regression(data, kernel, nm.NGGP(1.3, 0.3)).fit(nm.Slice(max_atoms), draws=DRAWS, tune=500, chains=CHAINS, rng=1)
    priors.compare(fit, exact_law(K, group, 0.3))
    assert fit.proposals()["skipped"].iloc[0] > 0.1 * fit.draws["labels"][..., 0].size


# ---- wrong samplers


@dataclass(frozen=True)
class Wrong(nm.Gibbs):
    """A move with the scratch of another, and an entry of its own."""

    entry: ClassVar = None
    of: ClassVar = None

    def options(self, model):
        return self.of.options(model)

    def scratch_size(self, model):
        return self.of.scratch_size(model)


MUTANTS = {  # the sampler, what stands in it, and what takes its place
    "a bound that is too high": (slicing, nm.Slice(), "lowest[g] / state.cache.K[g, p])", "2.0 * lowest[g] / state.cache.K[g, p])"),
    "slices without the kernel": (slicing, nm.Slice(), "K_row[place[origin[m]]] * sizes[m] < slices[i]", "K_row[place[origin[m]]] == 0.0"),
    "tables of all regions alike": (sngp, nm.SNGP(), "region[SIZE, p] / (mass + region[LOAD, p])", "1.0 / (mass + region[LOAD, p])"),
    "no location of a new table": (sngp, nm.SNGP(), "state.location[state.labels[i]] = at", "pass"),
    "sizes without members": (blocked, nm.Blocked(), "(state.size[m] if m < K else 0.0) - sigma", "-sigma"),
    "atoms all over": (blocked, nm.Blocked(), "draw_share(shares, shares.shape[0], rng.random() * total)", "0"),
}


@pytest.mark.parametrize("name", only(MUTANTS, "a bound that is too high"))
def test_wrong_samplers_are_found(monkeypatch, name):
    module, move, right, wrong = MUTANTS[name]
    source = inspect.getsource(module)
    assert source.count(right) == 1
    path = f"{name}.py"
    space = {"__name__": "wrong", "__file__": path}
    exec(source.replace(right, wrong).replace("from __future__ import annotations", ""), space)
    monkeypatch.setattr(Wrong, "entry", space[move.entry.__name__])
    monkeypatch.setattr(Wrong, "of", move)
    data, K, group, kernel = priors.setting("3 groups", DESIGNS)
    if module is blocked:
        prior = nm.FiniteMixture(3, 1.5)
        log_p = priors.FiniteJoint(K, group, 3, 1.5, points=101).posterior(log_marginal)
        law = normalised(list(log_p), list(log_p.values()))
    else:
        prior, law = nm.DirichletProcess(1.3), exact_law(K, group, 0.0)
    fit = regression(data, kernel, prior).fit(Wrong(), draws=max(DRAWS, 1_500), tune=500, chains=CHAINS, rng=2)
    distance, limit = total_variation(law, states(fit), deviations=6.0)
    assert distance > 1.5 * limit


# ---- what they refuse


def test_refusals():
    data, _, _, kernel = priors.setting("se", DESIGNS)
    held = nm.SemiconjugateGaussian(mean=(0.0, 1.0), precision=nm.Gamma(2.0, 1.0))
    for prior, family, method, reason in (
        (nm.NGGP(1.0, 0.3), None, "sngp", "an NGGP with sigma=0, and the prior is NGGP"),
        (nm.NGGP(1.0, nm.Beta(1, 2)), None, "sngp", "it needs a DirichletProcess"),
        (nm.PitmanYor(1.0, 0.3), None, "sngp", "it needs a DirichletProcess"),
        (nm.FiniteMixture(4), None, "sngp", "it needs a DirichletProcess"),
        (nm.DirichletProcess(), held, "sngp", "integrated out, and the family's are not"),
        (nm.DirichletProcess(), held, "split_merge", "integrated out, and the family's are not"),
        (nm.DirichletProcess(), None, "blocked", "has infinitely many; it needs a FiniteMixture"),
    ):
        model = nm.Model("y ~ x", data, kernel=kernel, prior=prior, family=family)
        with pytest.raises(ValueError, match=f"{reason}.*; methods for this model are 'auto'"):
            model.fit(method, draws=10)
    with pytest.raises(ValueError, match=r"this is a mixture.*; methods for this model are 'auto'"):
        nm.Model("y ~ 1", data).fit("sngp", draws=10)
    finite = nm.Model("y ~ x", data, kernel=kernel, prior=nm.FiniteMixture(4), family=held)
    assert finite.methods().query("suits").index.tolist() == ["auto", "gibbs", "slice", "blocked"]


@pytest.mark.parametrize("method", by_turns(["slice", "blocked", "sngp"], 3))
@pytest.mark.parametrize("x", by_turns([[0.5], [0.4, 0.5, 0.6]], 2, 1), ids=["one row", "all rows alike"])
def test_where_it_is_a_mixture(method, x):
    """One location that all rows reach alike."""
    data = pd.DataFrame({"x": x, "y": Y[: len(x)]})
    prior = nm.FiniteMixture(4, 1.3) if method == "blocked" else nm.DirichletProcess(1.3)
    kernel, run = nm.Box(0.7, locations=[0.5], scale=None), {"draws": by_day(4000), "tune": 100, "chains": 8}
    fit = regression(data, kernel, prior).fit(method, rng=1, **run)
    mixture = nm.Model(data=data[["y"]].to_numpy(), prior=prior, family=nm.Gaussian(**priors.FAMILY)).fit(rng=2, **run)
    means = [one.draws["n_clusters"].mean(axis=1) for one in (fit, mixture)]
    error = np.sqrt(sum(mean.var(ddof=1) / 8 for mean in means))
    assert abs(means[0].mean() - means[1].mean()) <= 5 * error


@pytest.mark.parametrize("method", ["slice", "sngp"])
def test_room_grows_and_draws_do_not_depend_on_it(method):
    """A call that wants room goes on with what it has drawn."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": np.linspace(0.0, 1.0, 40), "y": rng.normal(size=40).cumsum()})
    model = nm.Model(
        "y ~ x", data, kernel=nm.SquaredExponential(0.2), prior=nm.DirichletProcess(30.0), family=nm.Gaussian(m=0, r=0.01, nu=3, scale=0.1))
    chains = []
    for doublings in (0, 9):
        record = Record.allocate(model, 60)
        chain = new_chain(model, named(method)[1], np.zeros(40, np.int64), np.random.default_rng(5), record)
        for _ in range(doublings):
            chain.state = layout.enlarged(chain.state)
        first = chain.state.size.shape[0]
        chain.run(update_addresses(model), 0, 1)
        chains.append((chain, first))
    (a, small), (b, large) = chains
    assert a.state.size.shape[0] > small
    assert b.state.size.shape[0] == large
    np.testing.assert_array_equal(a.record.labels, b.record.labels)
    np.testing.assert_array_equal(a.record.scalars, b.record.scalars)
