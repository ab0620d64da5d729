"""SemiconjugateGaussian: conditionals, densities, predictions, resuming and messages."""

from __future__ import annotations

import math

import numba
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp
from support.cover import each_once
from support.length import by_day

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.clusters import empty_column, marginal_column, score_columns, update_column
from nrmmix.kernels.families.semiconjugate import log_normal_gamma
from nrmmix.kernels.families.shared_parameters import redraw_shared
from nrmmix.kernels.moves.algorithm8 import redraw, redraw_column
from nrmmix.kernels.predictive import cluster_means, component_densities, component_means, draw_components, predictive_scores
from nrmmix.model.families.distributions import NormalGamma
from nrmmix.model.pack import arrays_of

M, VARIANCE = np.array([0.2, -1.0]), np.array([1.3, 4.0])
GAMMAS = (nm.Gamma(1.5, 0.4), nm.Gamma(0.7, 2.0))
KINDS = {
    "own": nm.SemiconjugateGaussian((M, VARIANCE), GAMMAS),
    "shared": nm.SemiconjugateGaussian((M, VARIANCE), GAMMAS, shared_precision=True),
    "known": nm.SemiconjugateGaussian((M, VARIANCE), (2.0, 0.5)),
}
LABELS = np.repeat([0, 1, 2], [9, 5, 1])
N = len(LABELS)


def responses(seed=0):
    y = np.random.default_rng(seed).normal(size=(N, 2)) * [1.0, 2.0] + M
    y[3, 0] = y[10, 1] = np.nan
    return y


def started(kind, seed=0):
    model = nm.Model(data=responses(seed), prior=nm.NGGP(0.8, 0.3), family=KINDS[kind], missing="marginalize")
    data, state = arrays_of(model, 8)
    chain.start(data, state, LABELS.astype(np.int64))
    rng = np.random.default_rng(seed)
    redraw(data, state, rng)
    redraw_shared(data, state, rng)
    empty_column(data, state.stat, 3)
    return model, data, state


def held(data, state, K=3):
    """Means and precisions (2, K)."""
    return state.stat[:2, :K], state.stat[2:4, :K]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_densities_and_means(kind):
    model, data, state = started(kind)
    y, (mu, precision) = responses(), held(data, state)
    if kind == "known":
        assert (precision == np.array([[2.0], [0.5]])).all()
    if kind == "shared":
        assert (precision == data.rows.constant[data.shared][:, None]).all()
    wanted = np.nansum(stats.norm.logpdf(y[:, :, None], mu, 1 / np.sqrt(precision)), axis=1)
    for own in (-1, 0):
        out = np.zeros(state.size.shape[0])
        score_columns(data, state.stat, state.scratch.work, out, 3, 4, own)
        assert out[:3] == pytest.approx(wanted[4], abs=1e-10), "what is known of the parameters is what is held"
    assert predictive_scores(data, state)[:, :3] == pytest.approx(wanted, abs=1e-10)
    laws = model.blocks.predictive_distributions(state.stat, 4, np.zeros((1, 0)), model.packed)
    with np.errstate(divide="ignore"):
        by_law = np.nansum([np.log(law.density(y[:, [j]])) for j, law in enumerate(laws)], axis=0)
    assert by_law == pytest.approx(predictive_scores(data, state), abs=1e-8)
    assert cluster_means(data, state, 2)[0] == pytest.approx(np.vstack([mu.T, M]))
    theta = draw_components(data, state, model.packed.n_theta, len(mu[0]), 6, np.random.default_rng(1))
    of_theta = np.nansum(stats.norm.logpdf(y[:, :, None], theta[:2], 1 / np.sqrt(theta[2:])), axis=1)
    assert component_densities(data, theta, model.packed.n_work) == pytest.approx(of_theta, abs=1e-10)
    assert component_means(data, theta, 2)[0] == pytest.approx(theta[:2].T)
    for j, law in enumerate(model.blocks.component_distributions(theta, np.zeros((1, 0)), model.packed)):
        assert law.cdf(0.3)[0] == pytest.approx(stats.norm.cdf(0.3, theta[j], 1 / np.sqrt(theta[2 + j])))


@pytest.mark.parametrize("kind", KINDS)
def test_marginal_counts_parameters_and_shared_ones_do_not(kind):
    _, data, state = started(kind)
    y, (mu, precision) = responses(), held(data, state)
    for k in range(3):
        members = y[LABELS == k]
        wanted = np.nansum(stats.norm.logpdf(members, mu[:, k], 1 / np.sqrt(precision[:, k])))
        wanted += stats.norm.logpdf(mu[:, k], M, np.sqrt(VARIANCE)).sum()
        if kind == "own":
            wanted += sum(stats.gamma.logpdf(precision[j, k], g.shape, scale=1 / g.rate) for j, g in enumerate(GAMMAS))
        assert marginal_column(data, state.stat, k) == pytest.approx(wanted, abs=1e-10)


@numba.njit
def _redrawn(data, state, k, start, times, rng):
    """Held rows of column k, each time drawn from the same start."""
    out = np.empty((times, start.shape[0]))
    for t in range(times):
        for r in range(start.shape[0]):
            state.stat[r, k] = start[r]
        redraw_column(data, state, k, rng)
        for r in range(start.shape[0]):
            out[t, r] = state.stat[r, k]
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [0, 1, 2, 3])  # the last without members
def test_redraw_has_the_full_conditionals(kind, k):
    _, data, state = started(kind, 2)
    y = responses(2)[LABELS == k]
    start = state.stat[:4, k].copy()
    drawn = _redrawn(data, state, k, start, 20_000, np.random.default_rng(5))
    for j in range(2):
        seen = y[~np.isnan(y[:, j]), j]
        precision = 1 / VARIANCE[j] + start[2 + j] * len(seen)
        law = stats.norm((M[j] / VARIANCE[j] + start[2 + j] * seen.sum()) / precision, 1 / math.sqrt(precision))
        assert stats.kstest(drawn[:, j], law.cdf).pvalue > 1e-4
        if kind == "own":
            g = GAMMAS[j]
            rate = g.rate + 0.5 * ((seen[:, None] - drawn[:, j]) ** 2).sum(axis=0)
            assert stats.kstest(stats.gamma.cdf(drawn[:, 2 + j], g.shape + len(seen) / 2, scale=1 / rate), "uniform").pvalue > 1e-4
        else:
            assert (drawn[:, 2 + j] == start[2 + j]).all()


@numba.njit
def _redrawn_shared(data, state, times, rng):
    out = np.empty((times, data.shared.shape[0]))
    for t in range(times):
        redraw_shared(data, state, rng)
        for j in range(out.shape[1]):
            out[t, j] = data.rows.constant[data.shared[j]]
    return out


@pytest.mark.parametrize("n_clusters", [0, 3])
def test_shared_precision_has_its_full_conditional(n_clusters):
    _, data, state = started("shared", 3)
    y, mu = responses(3), state.stat[:2, :3].copy()
    state.num[layout.Count.CLUSTERS] = n_clusters
    drawn = _redrawn_shared(data, state, 20_000, np.random.default_rng(6))
    for j, g in enumerate(GAMMAS):
        e = (y[:, j] - mu[j, LABELS])[~np.isnan(y[:, j])] if n_clusters else np.zeros(0)
        law = stats.gamma(g.shape + len(e) / 2, scale=1 / (g.rate + 0.5 * (e**2).sum()))
        assert stats.kstest(drawn[:, j], law.cdf).pvalue > 1e-4
    assert (state.stat[2:4, :n_clusters] == drawn[-1][:, None]).all()


@pytest.mark.parametrize(("square", "v", "shape"), each_once([0.0, 1.0, 1e3, 1e12], [1e-6, 1.0, 1e4], [0.03, 0.4, 1.0, 8.0, 3e3]))
def test_prior_predictive_by_quadrature(square, v, shape):
    rate = 0.7 * shape
    far = max(square, v, 1.0)
    points = []  # finer than any of the kernel's, about every scale of the integrand
    centre = np.array([math.log(shape / rate), -math.log(max(square, 1e-3)), -math.log(v), -math.log(far)])
    lo, hi = centre.min() - 200.0 - 3 / shape, centre.max() + 10.0
    points = np.unique(np.concatenate([np.linspace(lo, hi, 400_001), *(np.linspace(c - 8, c + 8, 200_001) for c in centre)]))
    variance = v + np.exp(-points)
    f = shape * points - rate * np.exp(points) - 0.5 * (np.log(variance) + square / variance)
    f += shape * math.log(rate) - gammaln(shape) - 0.5 * math.log(2 * math.pi)
    top = f.max()
    wanted = top + math.log(np.trapezoid(np.exp(f - top), points))
    assert log_normal_gamma(square, v, shape, rate) == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize(("shape", "rate"), [(0.4, 2.0), (1.0, 0.02), (50.0, 3.0)])
def test_law_of_a_new_cluster(shape, rate):
    law = NormalGamma(np.array([[0.5, 1.0]]), np.array([[2.0, 0.25]]), np.array([[shape, np.inf]]), np.array([[rate, np.inf]]))
    x = np.linspace(-9, 9, 13)[:, None]
    alone = [log_normal_gamma((value - 0.5) ** 2, 2.0, shape, rate) for value in x[:, 0]]
    assert np.log(law.density(x)[:, 0]) == pytest.approx(alone, abs=1e-8)
    assert law.density(x)[:, 1] == pytest.approx(stats.norm(1.0, 0.5).pdf(x[:, 0]))
    assert law.cdf(x)[:, 1] == pytest.approx(stats.norm(1.0, 0.5).cdf(x[:, 0]), abs=1e-14)
    draws = stats.norm.rvs(0.5, np.sqrt(2.0 + 1 / stats.gamma.rvs(shape, scale=1 / rate, size=20_000, random_state=1)), random_state=2)
    assert stats.kstest(draws, lambda z: law.cdf(z[:, None])[:, 0] if z.ndim else law.cdf(z)[0, 0]).pvalue > 1e-4
    p = np.array([[1e-6], [0.1], [0.5], [0.9], [1 - 1e-9]])
    assert law.cdf(law.quantile(p)) == pytest.approx(np.broadcast_to(p, (5, 2)), rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*quartile ranges away:UserWarning")
def test_removals_keep_the_digits():
    y = np.random.default_rng(4).normal(size=(30, 2)) + 1e4
    y[7] = 1e9
    model = nm.Model(data=y, family=KINDS["own"])
    data, state = arrays_of(model, 8)
    chain.start(data, state, np.zeros(30, np.int64))
    assert not update_column(data, state.stat, 0, 7, -1.0)
    chain.start(data, state, np.where(np.arange(30) == 7, 1, 0))
    before = state.stat[4:11, 0].copy()
    rng = np.random.default_rng(5)
    for i in rng.permutation(np.delete(np.arange(30), 7))[:20]:
        assert update_column(data, state.stat, 0, int(i), -1.0)
        update_column(data, state.stat, 0, int(i), 1.0)
    assert state.stat[4:11, 0] == pytest.approx(before, rel=1e-9)


def test_posterior_moments_of_a_partition():
    """`cluster_parameters` against long runs of the conditionals at fixed labels."""
    for kind in ("own", "shared"):
        model, data, state = started(kind, 7)
        found = {p.name: p for p in model.blocks.cluster_parameters(state.stat, 3, model.packed)[0]}
        draws, rng = np.empty((by_day(40_000), 4, 3)), np.random.default_rng(8)
        for one in draws:
            redraw(data, state, rng)
            redraw_shared(data, state, rng)
            one[:] = state.stat[:4, :3]
        draws[:, 2:] = 1 / np.sqrt(draws[:, 2:])
        for j, name in enumerate(("mean y1", "mean y2", "sd y1", "sd y2")):
            batches = draws[:, j].reshape(40, -1, 3).mean(axis=1)
            error = batches.std(axis=0, ddof=1) / math.sqrt(40)
            if name == "sd y2" and kind == "own":  # of a heavy tail: an infinite variance under the prior of shape 0.7
                continue
            assert (np.abs(batches.mean(axis=0) - found[name].mean) < 4.5 * error).all(), (kind, name)
            assert draws[:, j].std(axis=0)[:2] == pytest.approx(found[name].sd[:2], rel=0.1), (kind, name)


# ---- fits


def galaxy():
    data = nm.datasets.load_galaxy()[["velocity_km_s"]].copy()
    data["other"] = np.random.default_rng(1).normal(size=len(data))
    return data


FITS = {
    "own": ("velocity_km_s + other ~ 1", nm.SemiconjugateGaussian()),
    "shared": ("velocity_km_s ~ 1", nm.SemiconjugateGaussian(shared_precision=True)),
    "beside": ("velocity_km_s + other ~ 1", {"velocity_km_s": nm.SemiconjugateGaussian(), "other": nm.Gaussian()}),
    "kernel": ("velocity_km_s ~ other", nm.SemiconjugateGaussian(shared_precision=True)),
    "many clusters": ("velocity_km_s ~ 1", nm.SemiconjugateGaussian(precision=1e-4)),  # more than there is room for at first
}
RUN = {"tune": 30, "chains": 2, "rng": 3}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_resumed_is_the_fit_that_never_stopped(name, tmp_path):
    formula, family = FITS[name]
    whole = nm.fit(formula, galaxy(), family=family, draws=60, **RUN)
    part = nm.fit(formula, galaxy(), family=family, draws=25, **RUN)
    loaded = nm.load(part.save(tmp_path / "part.npz"))
    for fit in (part.extend(35), loaded.extend(35)):
        assert set(fit.draws) == set(whole.draws)
        for draws in whole.draws:
            np.testing.assert_array_equal(fit.draws[draws], whole.draws[draws], err_msg=draws)
    assert str(loaded.model) == str(part.model)
    at = galaxy()[:3]
    pd.testing.assert_frame_equal(
        loaded.predict(at, kind="density", draws=10, rng=1), part.predict(at, kind="density", draws=10, rng=1)
    )
    theta = whole.draws["theta"]
    assert name != "many clusters" or theta.shape[2] > layout.capacity(8)
    there = np.arange(theta.shape[2]) < whole.draws["n_clusters"][..., None]
    assert np.array_equal(np.isfinite(theta).all(axis=-1), there) and not np.isfinite(theta).any(axis=-1)[~there].any()


@pytest.mark.parametrize("name", FITS)
def test_recorded_log_joint_is_that_of_the_model(name):
    formula, family = FITS[name]
    fit = nm.fit(formula, galaxy(), family=family, prior=nm.NGGP(), draws=20, **RUN)
    for c, t in ((1, 19),) if name == "kernel" else ((0, 0), (1, 13), (1, 19)):  # v is known of the last state alone
        d = {key: values[c, t] for key, values in fit.draws.items()}
        K = int(d["n_clusters"])
        options = {"mass": float(d["mass"]), "sigma": float(d["sigma"]), "theta": d["theta"][:K]}
        options |= {name: d[name] for name in ("precision", "scale") if name in d}
        if "A" in d:
            first = [int(np.flatnonzero(d["labels"] == k)[0]) for k in range(K)]
            options |= {"v": fit.checkpoints[1].state["v"], "locations": d["locations"][first]}
        else:
            options["u"] = float(d["u"])
        assert fit.model.log_joint(d["labels"], **options) == pytest.approx(float(d["log_joint"]), abs=1e-8)
    with pytest.raises(ValueError, match="theta is not integrated out in this model"):
        fit.model.log_joint(d["labels"], **{key: value for key, value in options.items() if key != "theta"})
    with pytest.raises(ValueError, match="theta must hold finite numbers"):
        fit.model.log_joint(d["labels"], **(options | {"theta": d["theta"]}))


def test_theta_does_not_belong_to_conjugate_models():
    with pytest.raises(ValueError, match="no such parameters"):
        nm.Model("other ~ 1", galaxy()).log_joint(np.zeros(82, int), theta=[[0.0, 1.0]], mass=1.0)


@pytest.mark.parametrize("name", FITS)
def test_all_predictions(name):
    formula, family = FITS[name]
    fit = nm.fit(formula, galaxy(), family=family, draws=20, **RUN)
    new = galaxy()[:4]
    for kind in ("mean", "density", "cluster"):
        found = fit.predict(new, kind=kind, draws=10)
        assert np.isfinite(found.to_numpy(float)).all()
    assert np.isfinite(fit.log_density(new)).all()
    assert fit.simulate(new, draws=2, rng=1).notna().all().all()
    q = fit.predict(new, kind="quantile", draws=10) if len(formula.split("+")) == 1 else None
    assert q is None or (q["lower"] <= q["upper"]).all()
    assert "velocity_km_s" in str(fit.summary())
    assert fit.model.prior_predictive(draws=3, rng=1).shape[0] == 3 * 82


def test_the_density_is_the_mean_over_draws_of_what_is_held():
    data = galaxy()
    fit = nm.fit("velocity_km_s ~ 1", data, family=nm.SemiconjugateGaussian(), prior=nm.DirichletProcess(1.0), draws=40, **RUN)
    x = np.array([9000.0, 20000.0, 23000.0])
    found = fit.log_density(pd.DataFrame({"velocity_km_s": x}))
    (m,), (v,), (g,) = *fit.model.family.mean, fit.model.family.precision
    new = np.array([log_normal_gamma((value - m) ** 2, v, g.shape, g.rate) for value in x])
    logs = []
    for labels, theta in zip(fit.draws.flat("labels"), fit.draws.flat("theta"), strict=True):
        size = np.bincount(labels)
        held = theta[: len(size)]
        terms = np.log(size / 83) + stats.norm.logpdf(x[:, None], held[:, 0], 1 / np.sqrt(held[:, 1]))
        logs.append(np.logaddexp(logsumexp(terms, axis=1), math.log(1 / 83) + new))
    assert found.to_numpy() == pytest.approx(logsumexp(logs, axis=0) - math.log(len(logs)), abs=1e-9)


def test_prior_predictive_draws_a_shared_precision_anew():
    """Within a replicate all rows have one precision: with a tight prior of means the squares tell it."""
    y = np.random.default_rng(0).normal(size=(400, 1))
    family = nm.SemiconjugateGaussian((0.0, 1e-12), nm.Gamma(3.0, 2.0), shared_precision=True)
    model = nm.Model(data=y, family=family, prior=nm.DirichletProcess(2.0))
    replicates = model.prior_predictive(draws=600, rng=2).to_numpy().reshape(600, 400)
    precision = 1 / (replicates**2).mean(axis=1)
    # the sum of squares given the precision is chi-squared: precision * 400 / precision_hat
    marginal = stats.betaprime(3.0, 200.0)  # of precision_hat^-1: sum of squares / (2 rate) = Gamma(200) / Gamma(3)
    assert stats.kstest(1 / (400 / precision / (2 * 2.0)), marginal.cdf).pvalue > 1e-4


def test_units_change_nothing():
    data = galaxy()
    other = data.assign(velocity_km_s=data["velocity_km_s"] * 2.0**20)
    for family in (nm.SemiconjugateGaussian(), nm.SemiconjugateGaussian(shared_precision=True)):
        one, two = (nm.fit("velocity_km_s ~ 1", d, family=family, draws=30, **RUN) for d in (data, other))
        assert np.array_equal(one.draws["labels"], two.draws["labels"])
        assert two.draws["log_joint"] == pytest.approx(one.draws["log_joint"] - _jacobian(one, 20 * math.log(2.0)), rel=1e-9)


def _jacobian(fit, log_unit):
    """Of the responses, of the means, and against them of the precisions, whose unit is the squared reciprocal."""
    K = fit.draws["n_clusters"]
    return log_unit * (fit.model.n_obs + K - (0 if "precision" in fit.draws else 2 * K))


def test_defaults_are_what_the_documentation_says():
    from nrmmix.model.families import semiconjugate

    data = galaxy()
    y = data["velocity_km_s"].to_numpy()
    family = nm.Model("velocity_km_s ~ 1", data, family=nm.SemiconjugateGaussian()).family
    assert family.mean[0] == pytest.approx([y.mean()]) and family.mean[1] == pytest.approx([semiconjugate.VARIANCE * y.var(ddof=1)])
    assert family.precision == (nm.Gamma(semiconjugate.SHAPE, semiconjugate.SHAPE * semiconjugate.SPREAD * float(y.var(ddof=1))),)
    text = str(nm.Model("velocity_km_s ~ 1", data, family=nm.SemiconjugateGaussian(mean=(20000, 1e7), precision=1e-6)))
    assert "m = 20000, variance = 1e+07" in text and "precision = 1e-06" in text


BAD = {
    "mean": (lambda d: nm.SemiconjugateGaussian(3.0), "pair (m, variance)"),
    "variance": (lambda d: nm.Model(data=d, family=nm.SemiconjugateGaussian((0.0, -1.0))), "variance of the means"),
    "shape of m": (lambda d: nm.Model(data=d, family=nm.SemiconjugateGaussian(([0.0] * 3, 1.0))), "m must be a number or have shape (2,)"),
    "precision": (lambda d: nm.SemiconjugateGaussian(precision="a"), "precision must be nm.Gamma"),
    "negative": (lambda d: nm.SemiconjugateGaussian(precision=-1.0), "precision must be nm.Gamma"),
    "mixed": (lambda d: nm.SemiconjugateGaussian(precision=(1.0, nm.Gamma(1, 1))), "all known or all"),
    "number": (lambda d: nm.Model(data=d, family=nm.SemiconjugateGaussian(precision=(1.0, 1.0, 2.0))), "or 2 of them, not 3"),
    "array": (lambda d: nm.Model(data=d, family=nm.SemiconjugateGaussian(precision=np.ones(3))), "or 2 of them, not 3"),
    "none": (lambda d: nm.Model(data=d, family=nm.SemiconjugateGaussian(precision=())), "or 2 of them, not 0"),
    "tiny shape": (lambda d: nm.SemiconjugateGaussian(precision=nm.Gamma(0.001, 1)), "0.025"),
    "known and shared": (lambda d: nm.SemiconjugateGaussian(precision=1.0, shared_precision=True), "leave shared_precision out"),
    "flag": (lambda d: nm.SemiconjugateGaussian(shared_precision="no"), "True or False"),
    "one row": (lambda d: nm.Model(data=d[:1], family=nm.SemiconjugateGaussian()), "variance 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_messages(name):
    make, message = BAD[name]
    with pytest.raises(ValueError) as error:
        make(responses()[4:9])
    assert message in str(error.value)


def test_held_rows_are_named_to_the_chain():
    model, data, state = started("own")
    assert data.explicit.tolist() == [0, 1, 2, 3] and len(data.shared) == 0
    assert model.packed.n_stat == state.stat.shape[0] == 12
    model, data, _ = started("shared")
    assert data.explicit.tolist() == [0, 1] and data.shared.tolist() == [0, 1]
    assert data.rows.constant is not model.packed.rows.constant, "each chain has its own"
    assert data.block[0, layout.Block.REDRAW] != 0


DAMAGES = {
    "a parameter that is not there": ("draws/theta", lambda a: _with(a, (0, 0, 0, 0), np.nan), "draws of theta"),
    "a parameter too many": ("draws/theta", lambda a: np.nan_to_num(a), "draws of theta"),
    "fewer clusters": ("draws/theta", lambda a: a[:, :, :-1], "shape of the draws of theta"),
    "a negative precision": ("draws/precision", lambda a: -a, "draws of precision"),
    "the chain's precision": ("chain0/shared", lambda a: a[:0], "chain's shared"),
}


def _with(array, place, value):
    array[place] = value
    return array


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_are_refused(name, tmp_path):
    member, change, message = DAMAGES[name]
    formula, family = FITS["shared"]
    path = nm.fit(formula, galaxy(), family=family, draws=5, **RUN).save(tmp_path / "fit.npz")
    with np.load(path) as archive:
        held = {key: archive[key] for key in archive.files}
    held[member] = change(held[member].copy())
    np.savez(path, **held)
    with pytest.raises(ValueError, match=f"its {message} cannot be right"):
        nm.load(path)
