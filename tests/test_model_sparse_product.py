"""Sparse products: their options, tables of codes, defaults, and what fits with them print, save, predict and refuse."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln
from support.cover import by_turns

import nrmmix as nm
from nrmmix.model.priors.sparse_product import FLOOR, MAX_CODES

RUN = {"draws": 12, "tune": 12, "chains": 2, "rng": 5, "cores": 1}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    n = 60
    found = pd.DataFrame({
        "x": rng.random(n) ** 3 * 30, "z": rng.normal(size=n), "two": rng.integers(0, 2, n) * 5.0, "few": rng.integers(0, 4, n) ** 2.0,
        "g": rng.choice(["a", "b", "c"], n), "h": rng.choice(["u", "v"], n),
    })
    found["y"] = np.sin(found["x"]) + (found["g"] == "b") + 0.1 * rng.normal(size=n)
    return found


def tables_of(formula, table, **options):
    model = nm.Model(formula, table, kernel=nm.SparseProduct(**options))
    return dict(zip(model.frame.covariate_names, model.slots.tables, strict=True)), model


# ---- options


@pytest.mark.parametrize(("kernel", "text"), [
    (nm.SparseProduct(), "SparseProduct(150 slots, 11 places, widths 0.05, 0.1, 0.2, 0.4)"),
    (
        nm.SparseProduct({"x": nm.Box(0.1), "g": nm.Matching(nm.PerAtom((0.1, 0.2)))}, slots=20, places=5, widths=[0.3], inclusion=0.25),
        "SparseProduct(20 slots, 5 places, widths 0.3, x: Box(width = 0.1), g: Matching(rho = PerAtom((0.1, 0.2))), inclusion 0.25)",
    ),
    (
        nm.SparseProduct({}, inclusion=nm.Beta(2, 3)),
        "SparseProduct(150 slots, 11 places, widths 0.05, 0.1, 0.2, 0.4, inclusion Beta(2, 3))",
    ),
])
def test_what_it_prints(kernel, text):
    assert str(kernel) == repr(kernel) == text


def test_what_a_model_prints(table):
    text = str(nm.Model("y ~ x + g", table))
    assert "SparseProduct(150 slots, 11 places, widths 0.05, 0.1, 0.2, 0.4): K(x, slot) = the product" in text
    assert "x, g (60 distinct values, 150 slots), scaled to [0, 1], half by range and half by rank" in text
    assert "g, h (6 distinct values, 150 slots), by level" in str(nm.Model("y ~ g + h", table))


@pytest.mark.parametrize(("arguments", "message"), [
    ({"slots": 1}, "slots must be an integer of at least 2, not 1"),
    ({"slots": 2.5}, "slots must be an integer"),
    ({"slots": 4001}, "4001 slots are more than 4000; give fewer"),
    ({"places": 1}, "places must be an integer of at least 2, not 1"),
    ({"widths": (0.1, 0.0)}, "widths must be numbers greater than 0; 0.0 is none"),
    ({"widths": (0.1, np.nan)}, "widths must be numbers greater than 0"),
    ({"widths": ()}, "widths must be a sequence"),
    ({"widths": 0.1}, "widths must be a sequence"),
    ({"widths": (0.1, 0.2, 0.1)}, "widths has one of 0.1, 0.2, 0.1 twice"),
    ({"inclusion": 0.0}, r"inclusion must be a number in \(0, 1\)"),
    ({"inclusion": 1.0}, r"inclusion must be a number in \(0, 1\)"),
    ({"inclusion": np.nan}, r"inclusion must be a number in \(0, 1\)"),
    ({"inclusion": nm.Gamma(1, 1)}, "inclusion cannot have a Gamma prior"),
    ({"kernels": [nm.Box(0.1)]}, "kernels must be a dict from names"),
    ({"kernels": {0: nm.Box(0.1)}}, "kernels has the key 0; keys are names"),
    ({"kernels": {"x": 0.1}}, "the kernel of 'x' must be one such as"),
    ({"kernels": {"x": nm.SparseProduct()}}, "the kernel of 'x' must be one such as"),
    ({"kernels": {"x": nm.Product({"x": nm.Box(0.1)})}}, "the kernel of 'x' must be one such as"),
    ({"kernels": {"x": nm.Box(nm.Beta(1, 1))}}, r"the width in 'x' is that of each slot; give a number or nm\.PerAtom"),
    ({"kernels": {"g": nm.Matching(nm.Beta(1, 1))}}, r"the rho in 'g' is that of each slot; give a number or nm\.PerAtom"),
    ({"kernels": {"x": nm.Laplace([0.1, 0.2])}}, "the width in 'x' is that of each slot"),
    ({"kernels": {"x": nm.Laplace(nm.PerAtom((0.1, 0.2), (1, 2)))}}, "leave the weights of those in 'x' out"),
    ({"kernels": {"x": nm.SquaredExponential(scale=None)}}, "with scale=None the kernel of 'x' needs a width"),
    ({"kernels": {"x": nm.Box(0.1, locations=[0.0, 1.0])}}, "slots have places of their own; the kernel of 'x' has locations"),
    ({"kernels": {"x": nm.Box(0.1, groups=5)}}, "slots have places of their own; the kernel of 'x' has locations or groups"),
])
def test_arguments_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^SparseProduct: .*{message}"):
        nm.SparseProduct(**arguments)


@pytest.mark.parametrize(("kernels", "message"), [
    ({"xx": nm.Box(0.1)}, "there is no covariate 'xx', but x, g; did you mean 'x'?"),
    ({"y": nm.Box(0.1)}, "there is no covariate 'y', but x, g"),
    ({"x": nm.Matching(0.1)}, r"the covariate 'x' holds numbers; its kernel must be .* nm\.SquaredExponential\(\), not Matching"),
    ({"g": nm.Box(0.1)}, r"the covariate 'g' holds categories; its kernel must be .* nm\.Matching\(0\.1\), not Box"),
    ({"g": nm.SquaredExponential()}, "the covariate 'g' holds categories"),
])
def test_kernels_that_do_not_suit_the_covariates(kernels, message, table):
    with pytest.raises(ValueError, match=f"^SparseProduct: {message}"):
        nm.Model("y ~ x + g", table, kernel=nm.SparseProduct(kernels))


def test_more_codes_than_draws_can_hold(table):
    assert MAX_CODES == np.iinfo(np.int16).max
    wide = pd.DataFrame({"x": np.arange(9000.0), "z": np.arange(9000.0) ** 2, "y": np.zeros(9000) + np.arange(9000) % 2})
    with pytest.raises(ValueError, match="places and widths in 'x' make 36000 codes, more than 32767; give fewer"):
        nm.Model("y ~ x + z", wide, kernel=nm.SparseProduct(places=9000))
    kernel = nm.SparseProduct(places=59, widths=np.linspace(0.01, 1.0, 600))
    with pytest.raises(ValueError, match="places and widths in 'x' make 35400 codes"):
        nm.Model("y ~ x + z", table, kernel=kernel)


def test_tables_for_which_there_is_no_room(table, monkeypatch):
    from nrmmix.common import machine

    model = nm.Model("y ~ x + z", table)
    monkeypatch.setattr(machine, "available", lambda: 3e5)
    with pytest.raises(ValueError, match=r"kernels of 60 values of 2 covariates would take .*; give fewer places, widths or slots"):
        model.fit(draws=2, tune=0, chains=1)
    assert np.isfinite(model.fit(nm.VB(starts=1, passes=1, components=3), rng=1).starts["elbo"]).all()  # which makes no such tables


# ---- tables of codes


def half_by_rank(x, at):
    """Half by range and half by mid-ranks, interpolated between values of the data, and beyond them at half the slope of the range."""
    values = np.unique(x)
    ranks = np.array([(x < value).sum() + 0.5 * (x == value).sum() for value in values])
    by_rank = (ranks - ranks[0]) / (ranks[-1] - ranks[0])
    by_range = (values - values[0]) / (values[-1] - values[0])
    inside = np.interp(at, values, 0.5 * by_rank + 0.5 * by_range)
    beyond = np.where(at < values[0], at - values[0], np.where(at > values[-1], at - values[-1], 0.0))
    return inside + 0.5 * beyond / (values[-1] - values[0])


SHAPES = {
    "SquaredExponential": lambda d, w: -0.5 * (d / w) ** 2,
    "Laplace": lambda d, w: -d / w,
    "Box": lambda d, w: np.where(d <= w, 0.0, -np.inf),
}


def direct(u, places, widths, shape):
    """(1 + N, m): code 0, then for every width the places."""
    rows = [np.zeros(len(u))] + [np.maximum(shape(np.abs(u - place), w), FLOOR) for w in widths for place in places]
    return np.array(rows)


def test_numbers_are_scaled_half_by_range_and_half_by_rank(table):
    tables, model = tables_of("y ~ x + z", table)
    for j, name in enumerate(("x", "z")):
        x = table[name].to_numpy()
        low, high = x.min(), x.max()
        at = np.concatenate([x, [low - 3.0, high + 7.0, 0.5 * (low + high)], np.quantile(x, [0.11, 0.52])])
        wanted = direct(half_by_rank(x, at), np.linspace(0, 1, 11), (0.05, 0.1, 0.2, 0.4), SHAPES["SquaredExponential"])
        assert tables[name].n_codes == 44 and wanted.min() >= FLOOR
        np.testing.assert_allclose(tables[name].log_K(at), wanted, atol=1e-10)
        both = np.zeros((len(at), 2))
        both[:, j] = at
        np.testing.assert_allclose(model.slots.distances(both)[j], wanted, atol=1e-10)
    order = np.argsort(table["x"])
    assert (np.diff(tables["x"].measured(table["x"].to_numpy()[order])) >= 0).all()
    assert tables["x"].measured(np.array([table["x"].min(), table["x"].max()])).tolist() == [0.0, 1.0]


def test_ties_share_their_rank(table):
    tied = table.assign(x=np.round(table["x"]))
    tables, _ = tables_of("y ~ x + z", tied)
    at = np.array([0.0, 1.0, 2.5, 30.0])
    np.testing.assert_allclose(tables["x"].measured(at), half_by_rank(tied["x"].to_numpy(), at), atol=1e-12)


def test_few_values_are_the_places(table):
    tables, _ = tables_of("y ~ few + z", table)
    x = table["few"].to_numpy()
    places = half_by_rank(x, np.unique(x))
    assert tables["few"].n_codes == 4 * len(np.unique(x)) == 16
    at = np.array([0.0, 1.0, 4.0, 9.0, 2.0, -1.0, 12.0])
    wanted = direct(half_by_rank(x, at), places, (0.05, 0.1, 0.2, 0.4), SHAPES["SquaredExponential"])
    np.testing.assert_allclose(tables["few"].log_K(at), wanted, atol=1e-10)
    more, _ = tables_of("y ~ few + z", table, places=3)
    np.testing.assert_allclose(np.unique(more["few"].place), [0.0, 0.5, 1.0])


def test_two_values_have_widths_of_their_own(table):
    tables, _ = tables_of("y ~ two + z", table, widths=(0.3,))
    wanted = direct(np.array([0.0, 1.0, 0.4]), (0.0, 1.0), (0.25, 0.5), SHAPES["SquaredExponential"])
    np.testing.assert_allclose(tables["two"].log_K(np.array([0.0, 5.0, 2.0])), wanted, atol=1e-10)
    given, _ = tables_of("y ~ two + z", table, kernels={"two": nm.Laplace(0.3)})
    wanted = direct(np.array([0.0, 1.0]), (0.0, 1.0), (0.3,), SHAPES["Laplace"])
    np.testing.assert_allclose(given["two"].log_K(np.array([0.0, 5.0])), wanted, atol=1e-10)


@pytest.mark.parametrize("kind", SHAPES)
def test_kernels_of_ones_own(kind, table):
    made = getattr(nm, kind)
    tables, _ = tables_of("y ~ x + z", table, kernels={"x": made(0.15), "z": made(nm.PerAtom((0.6, 1.2)), scale=None)}, places=4)
    x, z = table["x"].to_numpy(), table["z"].to_numpy()
    wanted = direct(half_by_rank(x, x), np.linspace(0, 1, 4), (0.15,), SHAPES[kind])
    np.testing.assert_allclose(tables["x"].log_K(x), wanted, atol=1e-10)
    at = np.append(z, [-9.0, 9.0])  # in the units of z
    wanted = direct(at, np.linspace(z.min(), z.max(), 4), (0.6, 1.2), SHAPES[kind])
    np.testing.assert_allclose(tables["z"].log_K(at), wanted, atol=1e-10)


def test_factors_have_their_levels(table):
    several = {"g": nm.Matching(nm.PerAtom((0.1, 0.5)))}
    for kernels, rho in (None, (0.001, 0.02, 0.2)), ({"g": nm.Matching(0.3)}, (0.3,)), (several, (0.1, 0.5)):
        tables, _ = tables_of("y ~ x + g", table, kernels=kernels)
        at = np.array([0.0, 1.0, 2.0])
        rows = [np.zeros(3)] + [np.where(at == level, 0.0, np.log(r)) for r in rho for level in range(3)]
        np.testing.assert_allclose(tables["g"].log_K(at), rows, atol=1e-12)


def test_a_covariate_with_one_value_has_no_codes():
    """Formulas refuse such columns; tables of one row have them."""
    one = pd.DataFrame({"y": [1.0], "x": [2.0], "g": ["a"]})
    family = nm.Gaussian(m=0, r=1, nu=3, scale=1)
    model = nm.Model("y ~ x + g", one, family=family, kernel=nm.SparseProduct(slots=5))
    assert model.slots.n_codes.tolist() == [0, 0] and model.slots.start_inclusion().tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(model.slots.distances(np.array([[2.0, 0.0], [9.0, 0.0]])), np.zeros((2, 1, 2)))
    fit = model.fit(draws=5, tune=5, chains=1, rng=1)
    assert (fit.draws["codes"] == 0).all() and (fit.draws["inclusion"] == 0).all()
    assert np.isfinite(fit.predict({"x": [7.0], "g": ["a"]}).to_numpy()).all()


def test_the_kernel_of_slots_is_the_product_of_what_they_use(table):
    _, model = tables_of("y ~ x + z + g", table, slots=7)
    codes = model.slots.draw_codes(np.full(3, 0.6), np.random.default_rng(1))
    tables = model.slots.code_log_K
    wanted = sum(tables[j][codes[:, j]] for j in range(3)).T
    np.testing.assert_allclose(model.log_kernel(tables, codes), wanted, atol=1e-12)
    assert tables.shape == (3, 45, 60) and (tables[:, 0] == 0).all() and (tables[2, 10:] == 0).all()


# ---- defaults


@pytest.mark.parametrize(("formula", "b"), [
    ("y ~ g", 1.0), ("y ~ x + z", 1.0), ("y ~ x + z + g", 1.0), ("y ~ x + z + g + h + few", 5 / 1.5 - 1),
    ("y ~ x + z + g + h + few + two", 3.0),
])
def test_the_default_prior_of_inclusion(formula, b, table):
    model = nm.Model(formula, table)
    q = len(model.frame.covariate_names)
    assert isinstance(model.kernel, nm.SparseProduct) and model.kernel.inclusion is None
    np.testing.assert_allclose(model.slots.inclusion_prior, np.tile([1.0, b], (q, 1)))
    np.testing.assert_allclose(model.slots.start_inclusion(), 1 / (1 + b))


def test_inclusion_of_ones_own(table):
    fixed = nm.Model("y ~ x + g", table, kernel=nm.SparseProduct(inclusion=0.3))
    fit = fixed.fit(**RUN)
    assert fixed.slots.inclusion_prior.tolist() == [[0, 0], [0, 0]] and (fit.draws["inclusion"] == 0.3).all()
    own = nm.Model("y ~ x + g", table, kernel=nm.SparseProduct(inclusion=nm.Beta(2, 6)))
    assert own.slots.inclusion_prior.tolist() == [[2, 6], [2, 6]]
    drawn = own.fit(**RUN).draws["inclusion"]
    assert drawn.shape == (2, 12, 2) and ((drawn > 0) & (drawn < 1)).all() and len(np.unique(drawn)) > 12


def test_one_number_can_have_it_too(table):
    model = nm.Model("y ~ x", table, kernel="sparse")
    assert isinstance(model.kernel, nm.SparseProduct) and isinstance(nm.Model("y ~ x", table).kernel, nm.SquaredExponential)
    assert model.fit(**RUN).draws["codes"].shape == (2, 12, 150, 1)


# ---- fits


@pytest.fixture(scope="module")
def fit(table):
    return nm.Model("y ~ x + z + g", table).fit(**RUN)


def same(first, second):
    assert list(first.draws) == list(second.draws)
    for name, values in first.draws.items():
        np.testing.assert_array_equal(second.draws[name], values, err_msg=name)


def test_draws_have_codes_and_inclusion(fit):
    codes, slots = fit.draws["codes"], fit.model.slots
    assert codes.shape == (2, 12, 150, 3) and codes.dtype == np.int16
    assert (codes >= 0).all() and (codes <= slots.n_codes).all() and slots.n_codes.tolist() == [44, 44, 9]
    assert fit.draws["inclusion"].shape == (2, 12, 3)
    assert len(np.unique(codes.reshape(24, -1), axis=0)) >= 20  # a sweep may refuse what it proposes


def test_a_saved_fit_goes_on_as_if_never_stopped(fit, tmp_path):
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    same(fit, again)
    longer = fit.model.fit(**RUN | {"draws": 20})
    same(longer, again.extend(8))
    same(longer, nm.load(fit.extend(3).save(tmp_path / "fit.npz")).extend(5, cores=2))
    pd.testing.assert_frame_equal(again.predict(draws=6), fit.predict(draws=6), check_exact=True)


@pytest.mark.parametrize("store", by_turns(["partition", "scalars"]))
def test_fits_that_keep_no_codes_go_on(store, fit, tmp_path):
    less = fit.model.fit(**RUN, store=store)
    assert "codes" not in less.draws and "inclusion" not in less.draws
    again = nm.load(less.extend(3).save(tmp_path / "fit.npz"))
    same(fit.model.fit(**RUN | {"draws": 20}, store=store), again.extend(5))


def test_a_checkpoint_goes_on_as_if_never_stopped(fit, table, tmp_path):
    path = tmp_path / "checkpoint.npz"
    cut = fit.model.fit(**RUN, checkpoint=path)
    same(fit, cut)
    same(fit, nm.load(path))
    same(fit.model.fit(**RUN | {"draws": 15}), nm.resume(path).extend(3))


@pytest.mark.parametrize("cores", by_turns([1, 2]))
def test_a_fit_that_was_stopped_goes_on_to_the_same_draws(cores, fit, monkeypatch, tmp_path):
    path = tmp_path / "stopped.npz"
    stopped = fit.model.fit(**RUN | {"cores": cores, "draws": 3000}, time_limit=0.2, checkpoint=path)
    n = stopped.draws.n_draws
    assert n < 3000
    same(fit.model.fit(**RUN | {"draws": n + 5}), nm.load(path).extend(5))


@pytest.mark.parametrize(("change", "message"), [
    (("draws/codes", (0, 3, 2, 1), 45), "draws of codes"),
    (("draws/codes", (0, 3, 2, 2), -1), "draws of codes"),
    (("draws/inclusion", (0, 3, 1), 1.5), "draws of inclusion"),
    (("draws/inclusion", (0, 3, 1), np.nan), "draws of inclusion"),
    (("chain1/codes", (0, 2), 10), "chain's codes"),
    (("chain1/inclusion", 0, -0.5), "chain's inclusion"),
])
def test_files_that_cannot_be_right(change, message, fit, tmp_path):

    with np.load(fit.save(tmp_path / "fit.npz")) as archive:
        held = {name: archive[name] for name in archive.files}
    name, index, value = change
    held[name][index] = value
    np.savez(tmp_path / "other.npz", **held)
    with pytest.raises(ValueError, match=f"is damaged: .*{message}"):
        nm.load(tmp_path / "other.npz")


def state_of(fit, chain):
    """What `log_joint` is given for the last draw of a chain."""
    draws, K = fit.draws, int(fit.draws["n_clusters"][chain, -1])
    labels = draws["labels"][chain, -1]
    first = [int(np.flatnonzero(labels == k)[0]) for k in range(K)]
    given = {"labels": labels, "locations": draws["locations"][chain, -1, first], "v": fit.checkpoints[chain].state["v"]}
    given |= {name: draws[name][chain, -1] for name in ("codes", "shrinkage", "noise_scale") if name in draws}
    return given | {name: float(draws[name][chain, -1]) for name in ("mass", "sigma") if name in fit.model.prior.parameters}


def test_log_joint_is_that_of_the_last_draws(fit):
    for chain in range(2):
        given = state_of(fit, chain)
        assert fit.model.log_joint(**given) == pytest.approx(fit.draws["log_joint"][chain, -1], rel=1e-9)
        np.testing.assert_array_equal(given["codes"], fit.checkpoints[chain].state["codes"])


@pytest.mark.parametrize("prior", [nm.DirichletProcess(nm.Gamma(2, 1)), nm.NGGP(nm.Gamma(2, 1), 0.4)], ids=str)
def test_log_joint_by_a_direct_formula(prior, table):
    """Up to a constant, by the density of partition, locations and log v given the codes."""
    s2, r, sigma = 0.5, 0.3, 0.0 if isinstance(prior, nm.DirichletProcess) else 0.4
    model = nm.Model("y ~ few + g", table, family=nm.Gaussian(known_covariance=[[s2]], m=[0.0], r=r), prior=prior,
                     kernel=nm.SparseProduct(slots=9))
    fit = model.fit(**RUN | {"chains": 4})
    y, group = table["y"].to_numpy(), model.grid.group

    def wanted(given):
        labels, v, mass = given["labels"], given["v"], given["mass"]
        log_K = model.slots.log_K_of(model.slots.code_log_K, given["codes"])
        A = v @ np.exp(log_K)
        psi = np.log1p(A) if sigma == 0 else ((1 + A) ** sigma - 1) / sigma
        value = (np.bincount(group) * np.log(v)).sum() - mass * psi.mean()
        for k, p in enumerate(given["locations"]):
            rows = np.flatnonzero(labels == k)
            n = len(rows)
            C = s2 * np.eye(n) + s2 / r
            value += np.log(mass / 9) + gammaln(n - sigma) - gammaln(1 - sigma) - (n - sigma) * np.log1p(A[p]) + log_K[group[rows], p].sum()
            value -= 0.5 * (n * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + y[rows] @ np.linalg.solve(C, y[rows]))
        return value

    states = [state_of(fit, chain) for chain in range(4)]
    states.append(states[0] | {"codes": model.slots.draw_codes(np.full(2, 0.4), np.random.default_rng(1))})
    found, direct_ = [model.log_joint(**one) for one in states], [wanted(one) for one in states]
    assert np.ptp(direct_) > 1
    np.testing.assert_allclose(np.diff(found), np.diff(direct_), atol=1e-8)


@pytest.mark.parametrize(("codes", "message"), [
    (None, r"codes of the slots are part of the state of this model; give them, integers of shape \(150, 3\)"),
    (np.zeros((150, 2), int), r"codes must hold integers of shape \(150, 3\), in each column from 0 to \[44, 44, 9\]"),
    (np.zeros((150, 3)), "codes must hold integers"),
    (np.full((150, 3), 10), "codes must hold integers"),
    (np.full((150, 3), -1), "codes must hold integers"),
])
def test_codes_that_log_joint_refuses(codes, message, fit):
    with pytest.raises(ValueError, match=message):
        fit.model.log_joint(**state_of(fit, 0) | {"codes": codes})


def test_other_kernels_have_no_codes(table):
    model = nm.Model("y ~ x", table, prior=nm.DirichletProcess(1.0), family=nm.Gaussian())
    with pytest.raises(ValueError, match=r"codes are those of nm\.SparseProduct, and this model has another kernel"):
        model.log_joint(np.zeros(60, int), v=np.ones(60), locations=[0], scale=[1.0], codes=np.zeros((150, 1), int))


# ---- predictions


@pytest.mark.parametrize("kind", ["mean", "density", "quantile"])
def test_predictions_far_outside_are_finite(kind, fit):
    new = pd.DataFrame({"x": [-1e3, 1e6, 15.0, 15.0], "z": [0.0, 1e8, 1e5, -1e9], "g": ["a", "b", "c", "a"]})
    options = {"density": {"y": np.zeros(4)}}.get(kind, {})
    found = fit.predict(new) if kind != "density" else fit.log_density(new.assign(**options))
    assert np.isfinite(found.to_numpy()).all()


def test_unseen_values_between_the_data(fit, table):
    x = np.sort(table["x"].to_numpy())
    near = pd.DataFrame({"x": [x[30], x[30] + 1e-9, 0.5 * (x[30] + x[31]), x[31]], "z": 0.0, "g": "b"})
    mean = fit.predict(near).iloc[:, 0].to_numpy()
    assert mean[1] == pytest.approx(mean[0], abs=1e-6)
    assert min(mean[0], mean[3]) - 0.5 < mean[2] < max(mean[0], mean[3]) + 0.5


def test_unseen_levels_are_refused(fit):
    new = pd.DataFrame({"x": [1.0, 2.0], "z": [0.0, 0.0], "g": ["a", "q"]})
    with pytest.raises(ValueError, match=r"'g' holds the level 'q' in row 1, which the training data do not have; .*'a', 'b', 'c'"):
        fit.predict(new)
    with pytest.raises(ValueError, match="holds the level 'q'"):
        fit.log_density(new.assign(y=0.0))


# ---- data at the edge


@pytest.mark.nightly
def test_more_covariates_than_half_the_rows():
    rng = np.random.default_rng(3)
    names = [f"x{j}" for j in range(40)]
    wide = pd.DataFrame(rng.normal(size=(60, 40)), columns=names)
    wide["y"] = np.where(wide["x3"] > 0, 2.0, -2.0) + 0.1 * rng.normal(size=60)
    fit = nm.fit(f"y ~ {' + '.join(names)}", wide, **RUN)
    assert fit.model.slots.inclusion_prior[0].tolist() == [1.0, 40 / 1.5 - 1]
    assert fit.draws["codes"].shape == (2, 12, 150, 40) and np.isfinite(fit.draws["log_joint"]).all()
    assert np.isfinite(fit.predict(wide.head(5)).to_numpy()).all()


def test_a_factor_of_many_levels_one_of_a_single_row():
    rng = np.random.default_rng(5)
    level = np.append(np.arange(120) % 29, 29)
    many = pd.DataFrame({"g": [f"l{k:02d}" for k in level], "x": rng.random(121), "y": np.sin(level) + 0.1 * rng.normal(size=121)})
    fit = nm.fit("y ~ x + g", many, **RUN)
    assert fit.model.slots.n_codes.tolist() == [44, 90]
    assert np.isfinite(fit.predict({"x": [0.5, 0.5], "g": ["l29", "l00"]}).to_numpy()).all()
    alone = nm.fit("y ~ g", many, **RUN)
    assert np.isfinite(alone.predict({"g": ["l29", "l00"]}).to_numpy()).all()


def test_products_of_factors_and_numbers(table):
    """A product gives columns of numbers; where a cell is empty one of them is constant, and formulas refuse that."""
    fit = nm.fit("y ~ g * x", table, **RUN)
    assert fit.model.frame.covariate_names == ("x", "g[T.b]:x", "g[T.c]:x", "g")
    assert np.isfinite(fit.predict({"x": [3.0, 4.0], "g": ["c", "a"]}).to_numpy()).all()
    within = nm.fit("y ~ g:x", table, **RUN)
    assert within.model.frame.covariate_names == ("g[a]:x", "g[b]:x", "g[c]:x")
    empty = table.assign(x=np.where(table["g"] == "c", 0.0, table["x"]), h=np.where(table["g"] == "c", "u", table["h"]))
    for formula, column in ("y ~ g * x", r"g\[T\.c\]:x"), ("y ~ g:x", r"g\[c\]:x"), ("y ~ g * h", r"g\[T\.c\]:h\[v\]"):
        with pytest.raises(ValueError, match=f"The covariate '{column}' is constant"):
            nm.Model(formula, empty)
    assert np.isfinite(nm.fit("y ~ g + h + x", empty, **RUN).draws["log_joint"]).all()  # cells may be empty


PRIORS = [
    nm.PitmanYor(), nm.NGGP(), nm.NormalizedInverseGaussian(), nm.FiniteMixture(5), nm.NormalizedStable(), nm.PitmanYor(0.5, 0.3),
    nm.DirichletProcess(2.0),
]


@pytest.mark.parametrize("prior", by_turns(PRIORS, 3), ids=str)
def test_every_random_measure(prior, table):
    model = nm.Model("y ~ x + g", table, prior=prior)
    fit = model.fit(**RUN)
    assert np.isfinite(fit.draws["log_joint"]).all() and np.isfinite(fit.predict(table.head(4)).to_numpy()).all()
    simulated = model.prior_predictive(2, rng=1)
    assert simulated.shape == (120, 1) and np.isfinite(simulated.to_numpy()).all()
    for chain in range(2):
        assert model.log_joint(**state_of(fit, chain)) == pytest.approx(fit.draws["log_joint"][chain, -1], rel=1e-9)


@pytest.mark.parametrize("method", by_turns(["gibbs", "split_merge", "slice", "tree", "sngp"]))
def test_methods_that_suit(method, table):
    fit = nm.Model("y ~ x + g", table).fit(method, **RUN | {"draws": 60, "tune": 60})
    assert np.isfinite(fit.draws["log_joint"]).all() and len(np.unique(fit.draws.flat("labels"), axis=0)) > 1


@pytest.mark.parametrize("method", ["permutation", "tree_published", "blocked", "bhc", "ibhc"])
def test_methods_that_do_not(method, table):
    with pytest.raises(ValueError, match="methods for this model are 'auto', 'gibbs', 'split_merge', 'slice', 'tree', 'sngp'"):
        nm.Model("y ~ x + g", table).fit(method)


def test_nothing_depends_on_units(table):
    """Covariates are scaled by their range and ranks, and the family by what it learns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = nm.Model("y ~ x + z + g", table).fit(**RUN)
        scaled = nm.Model("y ~ x + z + g", table.assign(x=1024 * table["x"], z=table["z"] / 256)).fit(**RUN)
    np.testing.assert_array_equal(scaled.draws["labels"], plain.draws["labels"])
    np.testing.assert_array_equal(scaled.draws["codes"], plain.draws["codes"])
