"""Collapsed Gibbs for density regression against quadrature over v, for every partition and set of locations."""

from __future__ import annotations

import sys
import types
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import (
    KernelJoint,
    gaussian_log_marginal,
    location_posterior,
    nrm_log_eppf,
    partition_posterior,
    total_variation,
    z_score,
)
from support.cover import each_once, only
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.inference.mcmc import chain, cycle
from nrmmix.kernels.measure import masses, relocation

CHAINS, DRAWS = 16, by_day(4_000)
FAMILY = {"m": np.array([0.0]), "r": 0.4, "nu": 3.0, "scale": np.array([[0.6]])}
Y = np.array([-0.6, 0.5, 0.7, -1.2, 1.4])

# name: covariate of each observation, locations, kernel
DESIGNS = {
    "se, 2 groups": ([0.0, 0.0, 1.0, 1.0], [0.0, 1.0], nm.SquaredExponential(0.7, locations=[0.0, 1.0])),
    "se, 2 groups, 3 locations": ([0.0, 1.0, 1.0, 0.0], [0.0, 0.4, 1.0], nm.SquaredExponential(0.5, locations=[0.0, 0.4, 1.0])),
    "box, 2 groups, 3 locations": ([0.0, 0.0, 1.0, 1.0, 0.0], [-0.5, 0.5, 1.5], nm.Box(0.8, locations=[-0.5, 0.5, 1.5])),
    "se, 3 groups": ([0.0, 0.5, 1.0], [0.2, 0.8], nm.SquaredExponential(0.4, locations=[0.2, 0.8])),
}


def kernel_matrix(kernel, groups, locations):
    d = np.abs(np.subtract.outer(groups, locations))
    width = kernel.widths[0]
    return (d < width).astype(float) if isinstance(kernel, nm.Box) else np.exp(-(d**2) / (2 * width**2))


def setting(design):
    x, locations, kernel = DESIGNS[design]
    data = pd.DataFrame({"x": x, "y": Y[: len(x)]})
    groups, group = np.unique(x, return_inverse=True)
    return data, kernel_matrix(kernel, groups, locations), group, kernel


def log_marginal(block):
    return log_marginal_of(*block)


@cache
def log_marginal_of(*block):
    return gaussian_log_marginal(Y[list(block)][:, None], **FAMILY)


def model(data, kernel, prior):
    return nm.Model("y ~ x", data, kernel=kernel, prior=prior, family=nm.Gaussian(**FAMILY))


def states(fit):
    return np.concatenate([fit.draws["labels"], fit.draws["locations"]], axis=-1)


@pytest.mark.parametrize(("design", "sigma"), only(
    each_once(DESIGNS, [0.0, 0.3]), ("box, 2 groups, 3 locations", 0.3),
))
def test_partition_and_locations(design, sigma):
    data, K, group, kernel = setting(design)
    prior = nm.DirichletProcess(1.3) if sigma == 0 else nm.NGGP(1.3, sigma)
    fit = model(data, kernel, prior).fit("gibbs", draws=DRAWS, tune=500, chains=CHAINS, rng=11)
    points = 161 if K.shape[0] == 2 else 121  # two groups: the law is the same to 1e-14 with 401
    exact = location_posterior(KernelJoint(K, group, 1.3, sigma, points), log_marginal)
    distance, limit = total_variation(exact, states(fit))
    assert limit < coarser(0.04), "too few draws to tell"
    assert distance < limit


@pytest.mark.nightly
@pytest.mark.parametrize("sigma", only([0.0, 0.3], 0.3))
def test_sampled_mass(sigma):
    data, K, group, kernel = setting("se, 2 groups, 3 locations")
    mass = nm.Gamma(3, 2)
    prior = nm.DirichletProcess(mass) if sigma == 0 else nm.NGGP(mass, sigma)
    fit = model(data, kernel, prior).fit(draws=DRAWS, tune=500, chains=CHAINS, rng=4)
    exact = location_posterior(KernelJoint(K, group, (3.0, 2.0), sigma), log_marginal)
    distance, limit = total_variation(exact, states(fit))
    assert limit < coarser(0.04), "too few draws to tell"
    assert distance < limit


def mean_of_mass(design, shape, rate, sigma):
    """Posterior mean of a mass with a gamma prior: that of m times the prior is shape / rate times the integral under Gamma(shape + 1)."""
    _, K, group, _ = setting(design)
    value = []
    for a in (shape + 1.0, shape):
        joint = KernelJoint(K, group, (a, rate), sigma, 161)
        value.append(0.0)
        for labels, where in joint.states():
            blocks = [[i for i in range(len(labels)) if labels[i] == c] for c in range(max(labels) + 1)]
            value[-1] += np.exp(joint.log_joint(labels, where) + sum(map(log_marginal, blocks)))
    return shape / rate * value[0] / value[1]


@pytest.mark.parametrize("sigma", only([0.0, 0.3], 0.3))
def test_mean_of_a_sampled_mass(monkeypatch, sigma):
    """The mass is integrated out of some updates and given in others: it is drawn between them, else its mean is 14% too low here."""
    design, shape, rate = "se, 2 groups, 3 locations", 0.7, 0.1
    data, _, _, kernel = setting(design)
    mass = nm.Gamma(shape, rate)
    built = model(data, kernel, nm.DirichletProcess(mass) if sigma == 0 else nm.NGGP(mass, sigma))
    exact = mean_of_mass(design, shape, rate, sigma)

    def deviation():
        fit = built.fit("gibbs", draws=1_000 if sigma else 4_000, tune=500, chains=CHAINS, rng=4)
        return z_score(fit.draws["mass"], exact)

    assert abs(deviation()) < 4
    monkeypatch.setattr(cycle, "GIVEN_MASS", ())
    assert abs(deviation()) > 4


@pytest.mark.parametrize("sigma", only([0.0, 0.3], 0.0))
def test_partition_and_sampled_width(sigma):
    """Partitions, the width, and the width times the number of clusters by quadrature over v and 33 widths, locations summed over."""
    x, locations, _ = DESIGNS["se, 2 groups"]
    data = pd.DataFrame({"x": x, "y": Y[: len(x)]})
    groups, group = np.unique(x, return_inverse=True)
    node, weight = np.polynomial.hermite_e.hermegauss(33)
    exact: dict[tuple[int, ...], float] = {}
    of_width, of_product = 0.0, 0.0
    for width, share in zip(np.exp(-0.5 + 0.6 * node), weight / weight.sum(), strict=True):
        joint = KernelJoint(np.exp(-(np.subtract.outer(groups, locations) ** 2) / (2 * width**2)), group, 1.3, sigma, 161)
        for labels, where in joint.states():
            blocks = [[i for i in range(len(labels)) if labels[i] == c] for c in range(max(labels) + 1)]
            p = share * np.exp(joint.log_joint(labels, where) + sum(map(log_marginal, blocks)))
            exact[labels] = exact.get(labels, 0.0) + p
            of_width, of_product = of_width + p * width, of_product + p * width * len(blocks)
    total = sum(exact.values())
    prior = nm.DirichletProcess(1.3) if sigma == 0 else nm.NGGP(1.3, sigma)
    kernel = nm.SquaredExponential(nm.LogNormal(-0.5, 0.6), locations=locations)
    fit = model(data, kernel, prior).fit("gibbs", draws=DRAWS, tune=500, chains=CHAINS, rng=17)
    distance, limit = total_variation({labels: p / total for labels, p in exact.items()}, fit.draws["labels"])
    assert limit < coarser(0.02), "too few draws to tell"
    assert distance < limit
    assert abs(z_score(fit.draws["width"], of_width / total)) < 4
    assert abs(z_score(fit.draws["width"] * fit.draws["n_clusters"], of_product / total)) < 4


@pytest.mark.nightly
def test_sampled_width_and_sigma():
    """Posterior means of width and sigma by quadrature over both and v."""
    x, locations, _ = DESIGNS["se, 2 groups"]
    data = pd.DataFrame({"x": x, "y": Y[: len(x)]})
    groups, group = np.unique(x, return_inverse=True)
    node, weight = np.polynomial.hermite_e.hermegauss(14)
    widths, width_weight = np.exp(-0.5 + 0.5 * node), weight / weight.sum()
    node, weight = np.polynomial.legendre.leggauss(8)
    sigmas = 0.5 * (node + 1)
    sigma_weight = 0.5 * weight * 2 * (1 - sigmas)  # Beta(1, 2)
    total = np.zeros(3)
    for sigma, ws in zip(sigmas, sigma_weight, strict=True):
        for width, ww in zip(widths, width_weight, strict=True):
            K = np.exp(-(np.subtract.outer(groups, locations) ** 2) / (2 * width**2))
            joint = KernelJoint(K, group, 1.3, sigma, points=141, lo=-25, hi=40)
            mass = 0.0
            for labels, where in joint.states():
                blocks = [[i for i in range(len(labels)) if labels[i] == c] for c in range(max(labels) + 1)]
                mass += np.exp(joint.log_joint(labels, where) + sum(log_marginal(b) for b in blocks))
            total += ws * ww * mass * np.array([1.0, width, sigma])
    kernel = nm.SquaredExponential(nm.LogNormal(-0.5, 0.5), locations=locations)
    fit = model(data, kernel, nm.NGGP(1.3, nm.Beta(1, 2))).fit(draws=DRAWS, tune=500, chains=CHAINS, rng=9)
    assert abs(z_score(fit.draws["width"], total[1] / total[0])) < 4
    assert abs(z_score(fit.draws["sigma"], total[2] / total[0])) < 4
    assert fit.draws["width"].mean(axis=1).std() < coarser(0.1 * total[1] / total[0]), "too few draws to tell"


@pytest.mark.nightly
@pytest.mark.parametrize("sigma", only([0.0, 0.3], 0.0))
def test_one_location_in_reach_of_all_is_the_mixture(sigma):
    """K = 1: the sum of the V_g is u, and the partition has the law of the mixture's."""
    data, _, _, _ = setting("se, 2 groups")
    n = len(data)
    prior = nm.DirichletProcess(1.3) if sigma == 0 else nm.NGGP(1.3, sigma)
    fit = model(data, nm.Box(5.0, locations=[0.5]), prior).fit(draws=DRAWS, tune=500, chains=CHAINS, rng=21)
    exact = partition_posterior(n, lambda sizes: nrm_log_eppf(sizes, 1.3, sigma), log_marginal)
    distance, limit = total_variation(exact, fit.draws["labels"])
    assert limit < coarser(0.02), "too few draws to tell"
    assert distance < limit


def test_log_joint_against_the_integrand():
    """`Model.log_joint` at v and locations is the density in log V whose integral is enumerated above."""
    data, K, group, kernel = setting("box, 2 groups, 3 locations")
    fitted = model(data, kernel, nm.NGGP(1.3, 0.3))
    joint = KernelJoint(K, group, 1.3, 0.3, points=5, lo=-1.0, hi=1.0)
    labels, locations = (0, 1, 0, 2, 1), (1, 0, 2)
    grid = joint.log_integrand(labels, locations)
    at = (1, 3)
    v = [joint.v[g][at] for g in range(2)]
    expected = grid[at] + sum(log_marginal([i for i in range(5) if labels[i] == c]) for c in range(3))
    assert fitted.log_joint(labels, v=v, locations=locations) == pytest.approx(expected, abs=1e-10)


def moved(monkeypatch, before, after):
    """Chains whose atoms move by that module with a line changed."""
    text = Path(relocation.__file__).read_text(encoding="utf-8")
    assert text.count(before) == 1
    monkeypatch.setitem(sys.modules, "changed_relocation", types.ModuleType("changed_relocation"))
    exec(compile(text.replace(before, after), "<changed>", "exec"), vars(sys.modules["changed_relocation"]))
    made = types.ModuleType("changed_masses")
    text = Path(masses.__file__).read_text(encoding="utf-8")
    exec(compile(text.replace(relocation.__name__, "changed_relocation"), "<changed>", "exec"), vars(made))
    right, wrong, original = masses.update_locations_and_v.address, made.update_locations_and_v.address, cycle.update_addresses
    for module in (cycle, chain):
        monkeypatch.setattr(module, "update_addresses", lambda *given: np.where(original(*given) == right, wrong, original(*given)))


CHANGES = [  # a change is one value of the parameter: what stands in the module, and what takes its place
    (("log_K_sum[now] / n - STEP * draw_integer(WINDOW, rng)", "log_K_sum[now] / n"),),  # a window that begins with the present size
    (("math.log(data.R0[p]) + log_K_sum[p] + (n", "math.log(data.R0[p]) + (n"),),
    (("- tau * mass", "- 3.0 * tau * mass"),),
]


@pytest.mark.parametrize("change", only(CHANGES, CHANGES[0]))
def test_wrong_moves_of_atoms_are_found(monkeypatch, change):
    data, K, group, kernel = setting("se, 2 groups, 3 locations")
    built = model(data, kernel, nm.DirichletProcess(1.3))
    exact = location_posterior(KernelJoint(K, group, 1.3, 0.0, 161), log_marginal)
    moved(monkeypatch, *change)
    fit = built.fit("gibbs", draws=4_000, tune=500, chains=CHAINS, rng=11)
    distance, limit = total_variation(exact, states(fit))
    assert limit < coarser(0.06), "too few draws to tell"
    assert distance > limit
