"""The loop of a chain: what it records, room, seeds, errors; without compilation, and with bounds checked."""

import json
import re

import naive
import numpy as np
import pytest
from support.chains import same_draws
from support.models import mixture, regression
from support.processes import subprocess_of
from support.states import copy_of, point_of, problem_of, started

import nrmmix as nm
from nrmmix.inference.mcmc import moves
from nrmmix.inference.mcmc.cycle import program as program_of
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import CYCLES
from nrmmix.kernels import chain
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import JIT
from nrmmix.kernels.measure import joint

# ---- the chain


def draws_of(model, *, draws=40, tune=20, chains=1, rng=1, **options):
    return model.fit("gibbs", draws=draws, tune=tune, chains=chains, rng=rng, **{"cores": 1} | options).draws


def test_record_numbers_clusters_by_first_appearance():
    model = regression(8, nm.SquaredExponential(0.4), values=4)
    labels = np.array([2, 0, 2, 3, 1, 0, 1, 3])
    data, state = started(model, labels, locations=[3, 1, 0, 2])
    out, where = np.full((3, 8), -9, np.int32), np.full((3, 8), -9, np.int32)
    A, scalars = np.zeros((3, len(state.cache.A))), np.zeros((3, chain.R_WIDTH + 1))
    before = copy_of(state)
    none = np.zeros((3, 0, 0)), np.zeros((3, 0)), np.zeros((3, 0)), np.zeros((3, 0, 0), np.int16), np.zeros((3, 0))
    chain.record(data, state, 1, out, where, A, scalars, *none)
    assert out[1].tolist() == list(naive.canonical(labels)) == [0, 1, 0, 2, 3, 1, 3, 2]
    assert where[1].tolist() == [0, 3, 0, 2, 1, 3, 1, 2]
    assert (out[[0, 2]] == -9).all() and (where[[0, 2]] == -9).all()
    np.testing.assert_array_equal(A[1], state.cache.A)
    wanted = naive.log_joint(problem_of(model, data), point_of(state)) + np.log(state.v).sum()
    assert scalars[1, chain.R_CLUSTERS] == 4
    assert scalars[1, chain.R_JOINT] == pytest.approx(wanted, rel=1e-10)
    assert scalars[1, [chain.R_MASS, chain.R_SIGMA, chain.R_WIDTH]].tolist() == [0.7, 0.3, 0.4]
    for name, a, b in pairs(state, before):
        if name not in layout.Scratch._fields:
            np.testing.assert_array_equal(a, b, name)


BY_CLUSTER = ("size", "stat", "theta", "location", "log_weight", "score", "work")  # the cluster last


def pairs(one, other):
    """Names of the arrays of a state, and of what it holds, with those of two states."""
    for name, a, b in zip(one._fields, one, other, strict=True):
        if isinstance(a, tuple):
            yield from pairs(a, b)
        else:
            yield name, a, b


def test_enlarged_keeps_what_a_state_holds():
    model = regression(12, nm.SquaredExponential(0.4), d=2)
    data, state = started(model, [0, 1, 2, 0, 1, 2, 3, 3, 4, 4, 4, 4], locations=[1, 0, 2, 3, 1])
    wider = layout.enlarged(state)
    old = len(state.size)
    assert len(wider.size) > old
    for name, a, b in pairs(state, wider):
        if name in BY_CLUSTER:
            np.testing.assert_array_equal(a, b[..., :old])
            assert b.shape[-1] == len(wider.size) and b.dtype == a.dtype and b.flags.c_contiguous
        elif name in layout.CLUSTER_FIRST:
            np.testing.assert_array_equal(a, b[:old])
            assert b.shape == (len(wider.size), a.shape[1]) and b.dtype == a.dtype and b.flags.c_contiguous
        else:
            assert a is b
    assert joint.log_joint(data, wider) == joint.log_joint(data, state)


MODELS = {
    "mixture": lambda: mixture(40, 2, prior=nm.NGGP(3.0)),
    "mixture-dp": lambda: mixture(40, 3, prior=nm.DirichletProcess(4.0)),
    "regression": lambda: regression(40, nm.SquaredExponential(0.05), prior=nm.NGGP(3.0, 0.5), values=9),
    "regression-box": lambda: regression(40, nm.Box(0.4), prior=nm.DirichletProcess(4.0), values=9),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("init", ["sequential", "one"])
def test_a_chain_that_runs_out_of_room_goes_on_as_if_it_had_not(monkeypatch, name, init):
    model = MODELS[name]()
    if init == "one" and name == "regression-box":
        init = np.unique(model.frame.covariates, return_inverse=True)[1].reshape(-1) // 2
    enlarged = []
    original = layout.enlarged

    def counted(state):
        enlarged.append(len(state.size))
        return original(state)

    monkeypatch.setattr(layout, "enlarged", counted)
    monkeypatch.setattr(layout, "capacity", lambda n_clusters: 7)
    small = draws_of(model, init=init, draws=90)  # fewer than are judged: what judges them takes room too
    assert enlarged and small["n_clusters"].max() > 4
    enlarged.clear()
    monkeypatch.setattr(layout, "capacity", lambda n_clusters: 400)
    same_draws(draws_of(model, init=init, draws=90), small)
    assert not enlarged


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_draws_on_any_number_of_cores(name):
    model = MODELS[name]()
    one = draws_of(model, chains=3, cores=1, rng=7)
    same_draws(one, draws_of(model, chains=3, cores=2, rng=7))
    assert not np.array_equal(one["labels"][0], one["labels"][1])
    assert not np.array_equal(one["labels"], draws_of(model, chains=3, rng=8)["labels"])


def test_the_global_generator_of_numpy_is_left_alone():
    before = np.random.get_state()  # noqa: NPY002
    for name in ("mixture", "regression"):
        draws_of(MODELS[name](), rng=3)
        draws_of(MODELS[name](), rng=None, draws=2)
    after = np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0] and before[2:] == after[2:]
    np.testing.assert_array_equal(before[1], after[1])


def test_recorded_joints_are_those_of_the_recorded_draws():
    for name in MODELS:
        model = MODELS[name]()
        fit = model.fit(draws=5, tune=100, chains=1, rng=5)
        draws = fit.draws
        for t in range(4 if model.is_regression else 0, 5):  # v is known of the last state alone
            labels = draws["labels"][0, t]
            hyper = {key: float(draws[key][0, t]) for key in ("mass", "sigma")}
            K = labels.max() + 1
            first = [int(np.flatnonzero(labels == k)[0]) for k in range(K)]
            locations, v = None, None
            if model.is_regression:
                hyper["widths"] = float(draws["width"][0, t])
                locations, v = draws["locations"][0, t, first], fit.checkpoints[0].state["v"]
                np.testing.assert_array_equal(draws["locations"][0, t], np.asarray(locations)[labels])
            elif model.has_u:
                v = draws["u"][0, t]
            data, state = started(model, labels, locations=locations, v=v, **hyper)
            wanted = naive.log_joint(problem_of(model, data), point_of(state))
            if model.is_regression:
                wanted += np.log(v).sum()
                np.testing.assert_allclose(draws["A"][0, t], state.cache.A, rtol=1e-12)
            assert draws["log_joint"][0, t] == pytest.approx(wanted, rel=1e-9)
            assert draws["n_clusters"][0, t] == K


@entry(MOVE_T)
def failing_move(data, state, memory, rng):
    return 0 if rng.random() < 0.1 else layout.DONE  # 0 is also what an exception inside an entry point gives


class FailingMove(moves.Gibbs):
    entry = failing_move


def test_a_move_that_fails_is_an_error():
    with pytest.raises(RuntimeError, match=r"broke off at iteration .*status 0"):
        mixture(10, 1).fit(FailingMove(), draws=200, tune=0, chains=1, init="one", rng=1)


def test_thinning_keeps_every_so_many_draws():
    model = MODELS["regression"]()
    every, third = draws_of(model, draws=30), draws_of(model, draws=10, thin=3)
    for name in every:
        np.testing.assert_array_equal(every[name][:, 2::3], third[name])


# ---- without compilation, with bounds checked, and how much is compiled


# Written to be run by itself: two short fits, their draws saved.
SCRIPT = '''
import sys
import numpy as np
import pandas as pd
import nrmmix as nm

def fits(n, draws, tune):
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"x": np.round(rng.random(n), 1), "y": rng.normal(size=n), "z": rng.normal(size=n)})
    models = {
        "mixture": nm.Model("y + z ~ 1", table, prior=nm.NGGP(), family=nm.Gaussian(m=[0, 0], r=0.3, nu=4, scale=np.eye(2))),
        "regression": nm.Model("y ~ x", table, prior=nm.NGGP(), family=nm.Gaussian(m=0, r=0.3, nu=3, scale=1)),
        "sparse": nm.Model(
            "y ~ x + z", table, prior=nm.NGGP(), family=nm.Gaussian(m=0, r=0.3, nu=3, scale=1), kernel=nm.SparseProduct(slots=6)),
    }
    out = {}
    for name, model in models.items():
        run = model.fit("gibbs", draws=draws, tune=tune, chains=1, rng=11)
        out |= {f"{name}-{key}": values for key, values in run.draws.items()}
    return out
'''

SIGNATURES = '''
import importlib, json, pkgutil
import nrmmix.kernels
from nrmmix.kernels.core.jit import Kernel

# other layouts and types of the same data, one to seven dimensions, both kernels, every kind of prior
rng = np.random.default_rng(0)
y = rng.normal(size=(20, 3))
table = pd.DataFrame(y, columns=list("abc"))
wide = rng.normal(size=(20, 7))
options = dict(draws=70, tune=2, chains=1, rng=1)
for model in (
    nm.Model(data=np.asfortranarray(y)), nm.Model(data=y.astype(np.float32)[::-1, :1]), nm.Model(data=wide),
    nm.Model(data={"y": y[:, 0].tolist()}), nm.Model(data=table, prior=nm.NormalizedInverseGaussian(1)),
    nm.Model(data=table.astype("Float64"), prior=nm.NGGP(nm.LogNormal(0, 1))),
    nm.Model("a ~ b", table, kernel=nm.Box(0.3)), nm.Model("a + b ~ c", table, prior=nm.DirichletProcess(2)),
    nm.Model("a ~ b + c", table, kernel=nm.SquaredExponential([nm.Beta(1, 1), 0.2]), prior=nm.NGGP(1, 0.5)),
):
    model.fit("gibbs", init="each" if model.n_dim == 3 else "sequential", **options)
for method in (
    [nm.SplitMerge(), nm.SplitMerge(proposal="sequential"), nm.Gibbs(subset=3)], "slice", nm.Permutation("table"),
    [nm.Permutation(beam=0.1, order="markov"), nm.Permutation(order="projection"), nm.Gibbs()],
):
    for prior in (nm.NGGP(), nm.FiniteMixture(5, 2.0)):
        nm.Model(data=y, prior=prior).fit(method, **options)
found = {}
for module in pkgutil.walk_packages(nrmmix.kernels.__path__, "nrmmix.kernels."):
    for name, value in vars(importlib.import_module(module.name)).items():
        if isinstance(value, Kernel) and value.py_func.__module__ == module.name:
            found[module.name + "." + name] = [str(s) for s in value.signatures]
'''


@pytest.mark.nightly
def test_plain_python_gives_the_same_draws(tmp_path):
    """The kernels are ordinary Python: without compilation they make the same draws from the same seed."""
    subprocess_of(SCRIPT + "\nnp.savez(sys.argv[1], **fits(8, 20, 10))", tmp_path / "plain.npz", NUMBA_DISABLE_JIT="1")
    here: dict = {}
    exec(SCRIPT, here)
    compiled = here["fits"](8, 20, 10)
    with np.load(tmp_path / "plain.npz") as plain:
        assert sorted(plain) == sorted(compiled)
        for name, values in compiled.items():
            if values.dtype.kind == "i":
                np.testing.assert_array_equal(plain[name], values, err_msg=name)
            else:
                np.testing.assert_allclose(plain[name], values, rtol=1e-9, err_msg=name)
    assert len(np.unique(compiled["mixture-labels"][0], axis=0)) > 1
    assert len(np.unique(compiled["regression-labels"][0], axis=0)) > 1
    assert len(np.unique(compiled["sparse-codes"][0], axis=0)) > 1


@pytest.mark.nightly
@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_bounds_are_kept_and_arrays_of_one_kind_reach_every_kernel(tmp_path):
    """Compiled from scratch with bounds checked: no index leaves its array, and each kernel meets one layout of each argument."""
    few = "import warnings, nrmmix as nm\nwarnings.simplefilter('ignore', nm.ConvergenceWarning)\n"  # draws, too few to agree by
    script = few + SCRIPT + SIGNATURES + "\nfound['draws'] = [fits(30, 100, 30)['mixture-labels'].shape]\nprint(json.dumps(found))"
    output = subprocess_of(script, quiet=True, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    signatures = json.loads(output.splitlines()[-1])
    assert signatures.pop("draws") == [[1, 100, 30]]
    for name in (
        "chain.run", "chain.start", "moves.gibbs.gibbs_one", "core.clusters.attach", "core.locations.weigh_locations",
        "measure.nrm.weighted_sums",
    ):
        assert signatures[f"nrmmix.kernels.{name}"], name
    # numba compiles literals apart; what must not differ are the types of arrays and numbers
    literal = re.compile(r"Literal\[(int|bool)\]\([^)]*\)")
    kinds = {
        name: {literal.sub(lambda at: {"int": "int64", "bool": "bool"}[at[1]], one) for one in all_}
        for name, all_ in signatures.items()
    }
    assert not {name: several for name, several in kinds.items() if len(several) > 1}


def test_the_chain_stops_when_told_and_when_there_is_no_room():
    model = mixture(6, 1)
    data, state = started(model, np.arange(6), room=1)
    assert len(state.size) - 3 >= 6
    tight = layout.resized(state, 7)
    control = np.zeros(chain.CONTROL, np.int64)
    control[chain.LIMIT] = 10**6
    program, updates = program_of(CYCLES["gibbs"], model), update_addresses(model)
    scalars = np.zeros((5, chain.R_WIDTH))
    none = np.zeros((5, 0, 0)), np.zeros((5, 0)), np.zeros((5, 0)), np.zeros((5, 0, 0), np.int16), np.zeros((5, 0))
    chain.run(
        data, tight, np.random.default_rng(0), program, updates, 0, 1, np.zeros((5, 6), np.int32), np.zeros((5, 0), np.int32),
        np.zeros((5, 0)), scalars, *none, control,
    )
    assert control[chain.STATUS] == layout.NEED_ROOM and control[chain.ITERATION] == 0
    control[:] = 0
    control[chain.LIMIT], control[chain.STOP] = 10**6, 1
    chain.run(
        data, state, np.random.default_rng(0), program, updates, 0, 1, np.zeros((5, 6), np.int32), np.zeros((5, 0), np.int32),
        np.zeros((5, 0)), scalars, *none, control,
    )
    assert control[chain.ITERATION] == 0
