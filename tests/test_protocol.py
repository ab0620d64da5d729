"""Everything that can be plugged in keeps to one protocol: it prints, it survives a file whatever its options, it says what it refuses."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

import nrmmix as nm
from nrmmix.common import registry
from nrmmix.model.encoding import decode, encode
from nrmmix.results import saving  # knows all that files may hold

# Objects of each class.  Between them every argument differs from its default; some arguments exclude others.
EXAMPLES = [
    nm.Gamma(2.5, 0.75), nm.Beta(1.5, 3.0), nm.LogNormal(-1.25, 0.5),
    nm.DirichletProcess(nm.LogNormal(0.5, 2.0)), nm.NGGP(nm.Gamma(2, 3), nm.Beta(2, 5), tau=2.5),
    nm.NormalizedInverseGaussian(0.75, tau=0.5), nm.PitmanYor(0.4, 0.3), nm.NormalizedStable(nm.Beta(3, 2)),
    nm.FiniteMixture(7, nm.Gamma(4, 2)),
    nm.Gaussian("diagonal", m=[1.0, 2.0], r=0.25, nu=3.5, scale=[0.5, 0.75]), nm.Gaussian(known_mean=[1.5, 2.0]),
    nm.Gaussian("tied", m=[1.0, 2.0], scale=[[2.0, 0.5], [0.5, 1.0]]), nm.Gaussian(known_covariance=[[2.0, 0.5], [0.5, 1.0]]),
    nm.Multinomial([0.5, 0.25]), nm.Poisson([2.0, 3.0], 0.5, exposure="months"), nm.Bernoulli(0.25, [0.5, 0.75]), nm.Categorical(0.75),
    nm.Regression("1 + x", b=[1.0, 2.0], r=0.5, nu=3.0, scale=0.25), nm.Regression("0 + x", precision=[[2.0]]),
    nm.Regression("x", b=[[1.0, 0.5], [2.0, 0.0]], scale=[[2.0, 0.5], [0.5, 1.0]]),
    nm.SemiconjugateGaussian((0.5, 2.0), nm.Gamma(2, 3), shared_precision=True),
    nm.Hurdle(nm.Gaussian("diagonal", r=0.25), at=[0.0, 1.5], a=[1.0, 2.0], b=0.75),
    nm.PerAtom((0.25, 0.5), (1.0, 3.0)), nm.Matching(nm.Beta(2, 3), locations=[0.0, 1.0], weights=[1.0, 2.0], groups=5),
    nm.SquaredExponential([0.25, nm.LogNormal(-2, 1)], locations=[[0.0, 1.0], [1.0, 0.5]], weights=[1.0, 2.0], scale=None, groups=5),
    nm.SquaredExponential(nm.PerAtom((0.1, 0.2)), locations=("farthest", 9)), nm.Laplace(0.5, locations="quantiles"),
    *(kind(nm.Gamma(2, 3), locations=[0.25, 0.75], weights=[1.0, 2.0], scale=None, groups=5)
      for kind in (nm.Box, nm.Laplace, nm.Epanechnikov, nm.Triangular)),
    nm.Product({"x": nm.Box(0.25), "g": nm.Matching(0.5)}, locations=[[0.0, 1.0], [1.0, 0.0]], weights=[1.0, 2.0], groups=5),
    nm.SparseProduct({"x": nm.Laplace(0.25), "g": nm.Matching(nm.PerAtom((0.01, 0.1)))}, slots=20, places=5, widths=[0.1, 0.3]),
    nm.SparseProduct(inclusion=nm.Beta(2, 3)), nm.SparseProduct(inclusion=0.25),
    nm.Gibbs(subset=3), nm.SplitMerge(proposals=2, scans=4, proposal="sequential"), nm.Slice(max_atoms=500), nm.Blocked(), nm.SNGP(),
    nm.Relocation(),
    nm.Permutation(beam=1e-3, order="markov", integrate_mass=True), nm.Permutation(dynamic_program="table"),
    nm.TreeGuided(global_moves=3, depth=4, scan_share=0.5, scans=2, refresh=50, eta=0.75),
    nm.PublishedTreeGuided(global_moves=3, depth=4, repaired=("tree", "subset"), moves="global"),
    nm.Cycle([nm.SplitMerge(scans=2), nm.Gibbs()], share="work"), nm.BHC(passes=3), nm.IBHC(passes=4),
    nm.VB(components=4, passes=30, tol=1e-5, merges=True),
    OF_REGRESSION := nm.VB(starts=2, combine="best"),
    nm.StochasticVB(components=4, batches=2, passes=5, kappa=0.75, delay=2.0, round_size=2, executor=2),
    STOCHASTIC_OF_REGRESSION := nm.StochasticVB(starts=3, combine="best"),
    nm.MemoizedVB(components=3, batches=2, passes=40, births=False, merges="greedy", tol=1e-5, round_size=2),
    nm.MemoizedVB(checkpoint="vb.npz", executor=2),
    MEMOIZED_OF_REGRESSION := nm.MemoizedVB(starts=3, combine="equal"),
]
OWN = {one.made: one for one in registry.plugins() if registry.is_own(one.made)}
Y = np.random.default_rng(0).normal(size=(14, 1)) + np.repeat([[0.0], [5.0]], 7, axis=0)
TABLE = {"y": Y[:, 0], "x": np.arange(14.0)}


def named(example):
    return str(example)[:60]


def arguments(example):
    return {name: encode(value) for name, value in registry.arguments_of(example).items()}


def test_everything_has_an_example():
    assert {type(example) for example in EXAMPLES} == set(OWN)


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
def test_examples_leave_no_argument_at_its_default(kind):
    """Else an argument that a file loses would come back as the same."""
    examples = [example for example in EXAMPLES if type(example) is kind]
    for name in OWN[kind].arguments:
        default = registry.default_of(kind, name)
        if default is not inspect.Parameter.empty:
            assert any(arguments(example)[name] != encode(default) for example in examples), name


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_it_prints(example):
    """In one line, and with its name; what a family says at length is `describe`."""
    for text in (str(example), repr(example)):
        assert text.strip() == text and "\n" not in text and type(example).__name__ in text


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_it_survives_json(example):
    again = decode(json.loads(json.dumps(encode(example), allow_nan=False)))
    assert type(again) is type(example) and arguments(again) == arguments(example) and str(again) == str(example)
    if type(example).__eq__ is not object.__eq__:
        assert again == example


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_options_that_are_missing_or_unknown_are_refused(example):
    name = type(example).__name__
    for argument in OWN[type(example)].arguments:
        with pytest.raises(ValueError, match=f"a {name} without the option '{argument}', which was not saved; fit the model again"):
            decode({key: value for key, value in encode(example).items() if key != argument})
    with pytest.raises(ValueError, match=f"a {name} with 'colour', which is no option"):
        decode(encode(example) | {"colour": "red"})


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
def test_it_is_public_and_documented(kind):
    assert kind.__name__ in nm.__all__ and getattr(nm, kind.__name__) is kind
    assert ">>> " in kind.__doc__ and OWN[kind].role in registry.ROLES


def test_the_command_line_knows_priors_families_and_kernels_by_one_name_each():
    for role in ("prior", "family", "kernel"):
        for name, (kind, options) in registry.shell_names(role).items():
            assert name == name.lower() and kind in OWN and set(options) <= set(OWN[kind].arguments)


MODELS = {
    "mixture": lambda: nm.Model("y ~ 1", TABLE, family=nm.Gaussian(m=2, r=0.1, nu=3, scale=1)),
    "density regression": lambda: nm.Model("y ~ x", TABLE),
    "semiconjugate": lambda: nm.Model("y ~ 1", TABLE, family=nm.SemiconjugateGaussian()),
}


# of finite mixtures, and of density regression
OF_OTHERS = [nm.Blocked(), nm.SNGP(), nm.Relocation(), OF_REGRESSION, STOCHASTIC_OF_REGRESSION, MEMOIZED_OF_REGRESSION]


@pytest.mark.parametrize("what", MODELS)
def test_refusals_are_text(what):
    model = MODELS[what]()
    for example in EXAMPLES:
        if registry.plugin_of(example).role in ("move", "method"):
            why = example.refusal(model)
            assert isinstance(why, str) and why.strip() == why and (not why or len(why.split()) > 3), example
            assert what != "mixture" or (why == "") == (example not in OF_OTHERS), example
    assert nm.Gibbs().refusal(model) == "" == nm.Cycle([nm.Gibbs()]).refusal(model)


SAVED = {
    "family and hyperprior": lambda: nm.Model("y ~ 1", TABLE, family=nm.SemiconjugateGaussian((0.5, 2.0), nm.Gamma(2, 3))),
    "prior and kernel": lambda: nm.Model(
        "y ~ x", TABLE, prior=nm.NGGP(nm.Gamma(2, 3), 0.3, tau=2.5), kernel=nm.Box(0.4, locations=[3.0, 5.0, 9.0], scale="unit")
    ),
}


@pytest.mark.parametrize("what", SAVED)
def test_a_saved_fit_has_them(what, tmp_path):
    fit = SAVED[what]().fit("gibbs", draws=4, tune=4, chains=1, rng=1)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert str(again.model) == str(fit.model)
    for part in ("prior", "family", "kernel"):
        assert encode(getattr(again.model, part)) == encode(getattr(fit.model, part))


MOVES = [example for example in EXAMPLES if registry.plugin_of(example).role == "move"]


@pytest.mark.parametrize("move", MOVES, ids=named)
def test_a_saved_fit_has_its_moves(move, tmp_path):
    method = nm.Cycle([move] if move.runs_alone else [move, nm.Gibbs()])
    others = {"blocked": {"prior": nm.FiniteMixture(4)}, "sngp": {"formula": "y ~ x"}, "relocation": {"formula": "y ~ x"}}
    others = others.get(move.name, {})
    fit = nm.Model(**({"formula": "y ~ 1", "data": TABLE} | others)).fit(method, draws=3, tune=3, chains=1, rng=1)
    assert nm.load(fit.save(tmp_path / "fit.npz")).cycle == fit.cycle == method


def test_only_registered_classes_are_made():
    assert saving.VERSION == 6
    with pytest.raises(ValueError, match=r"an object of the class 'Popen', which is not known here.*nm\.register\(Popen\)"):
        decode({"class": "Popen", "args": ["ls"]})
