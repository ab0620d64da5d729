"""The log joint of a state against the reference in `naive`."""

import math

import naive
import numpy as np
import pytest
from support.models import mixture, regression
from support.states import point_of, problem_of, random_point, started

import nrmmix as nm
from nrmmix.kernels.measure import joint


def joint_cases():
    yield "dp", mixture(9, 2, prior=nm.DirichletProcess(0.7)), {}
    yield "dp-sampled", mixture(9, 1, prior=nm.DirichletProcess()), {"mass": 2.3}
    for sigma in (1e-9, 0.05, 0.4, 0.9):
        yield f"nggp-{sigma}", mixture(9, 2, prior=nm.NGGP(1.3, tau=0.6)), {"sigma": sigma}
    yield "nggp-0", mixture(9, 2, prior=nm.NGGP(1.3, 0.0)), {}
    yield "nig", mixture(9, 3, prior=nm.NormalizedInverseGaussian(1.1, tau=2.5)), {}
    priors = {"dp": nm.DirichletProcess(0.7), "nggp": nm.NGGP(0.7, 0.3, tau=1.7), "nig": nm.NormalizedInverseGaussian(2)}
    priors |= {"py": nm.PitmanYor(0.7, 0.3), "stable": nm.NormalizedStable(0.3), "finite": nm.FiniteMixture(3, 0.7)}
    for name in ("py", "stable", "finite"):
        yield name, mixture(9, 2, prior=priors[name]), {}
    yield "py-negative", mixture(9, 2, prior=nm.PitmanYor(-0.2, 0.3)), {}
    yield "finite-many", mixture(9, 2, prior=nm.FiniteMixture(500, 3.0)), {}
    for name, prior in priors.items():
        yield f"se-{name}", regression(9, nm.SquaredExponential(0.4), prior=prior), {}
        yield f"box-{name}", regression(9, nm.Box(0.8), prior=prior, d=2), {}
    yield "se-widths", regression(9, nm.SquaredExponential([0.4, 0.9, 0.2]), q=3), {}
    yield "se-shared", regression(9, nm.SquaredExponential(0.3), q=2), {"widths": [0.5, 0.5]}
    yield "box-widths", regression(9, nm.Box([0.9, 1.1]), q=2), {}


JOINTS = {name: (model, hyper) for name, model, hyper in joint_cases()}


@pytest.mark.parametrize("name", JOINTS)
def test_log_joint(name):
    model, hyper = JOINTS[name]
    rng = np.random.default_rng(6)
    for _ in range(5):
        data, state = random_point(model, rng, **hyper)
        wanted = naive.log_joint(problem_of(model, data), point_of(state)) + (np.log(state.v).sum() if model.is_regression else 0.0)
        assert math.isfinite(wanted)
        assert joint.log_joint(data, state) == pytest.approx(wanted, rel=1e-10)


def test_log_joint_of_the_model_integrates_u_out():
    for prior in (nm.NGGP(1.3, 0.4, tau=0.6), nm.NormalizedInverseGaussian(0.5), nm.NGGP(0.8, 0.0)):
        model = mixture(9, 2, prior=prior)
        labels = (0, 1, 0, 2, 2, 1, 0, 0, 1)
        data, state = started(model, labels)
        problem, point = problem_of(model, data), point_of(state)
        sizes = [len(point.members(k)) for k in range(3)]
        wanted = naive.log_likelihood(problem, point) + naive.log_eppf(sizes, point.mass, point.sigma, point.tau)
        assert model.log_joint(labels) == pytest.approx(wanted, rel=1e-10)
