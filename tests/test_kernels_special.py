"""Elementary functions of the kernels against NumPy and against 60-digit arithmetic."""

import math
from decimal import Decimal, localcontext

import numba
import numpy as np
import pytest

from nrmmix.kernels.core.jit import JIT, Kernel
from nrmmix.kernels.core.special import (
    FAR,
    add_exp,
    draw_index,
    draw_log_gamma,
    draw_near,
    exp_any,
    log1p_pos,
    log_pos,
    log_rising,
    take_exp,
    top_of,
)
from nrmmix.kernels.measure.nrm import power_of_tau, psi1_at

EPS = np.finfo(float).eps
compiled_only = pytest.mark.skipif(not JIT, reason="without compilation these are the C library's")


# In loops, as the kernels use them.
@numba.njit(error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def log_all(x, out):
    for k in range(x.shape[0]):
        out[k] = log_pos(x[k])


@numba.njit(error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def exp_all(x, out):
    for k in range(x.shape[0]):
        out[k] = exp_any(x[k])


def logs(x):
    x = np.atleast_1d(np.asarray(x, float))
    out = np.empty_like(x)
    log_all(x, out)
    return out


def exps(x):
    x = np.atleast_1d(np.asarray(x, float))
    out = np.empty_like(x)
    exp_all(x, out)
    return out


def ulps(found, wanted):
    return np.abs(found - wanted) / np.spacing(np.abs(wanted))


# ---- log and exp


def log_arguments():
    rng = np.random.default_rng(1)
    anywhere = np.exp(rng.uniform(-707, 709, 200_000))
    near_one = 1.0 + rng.uniform(-1, 1, 50_000) * 10.0 ** rng.uniform(-16, -0.31, 50_000)
    # both sides of every power of two, and of sqrt(2) and sqrt(1/2), where the reduction changes its exponent
    powers = np.ldexp(1.0, np.arange(-1021, 1024))
    roots = np.concatenate([powers * math.sqrt(0.5), np.ldexp(math.sqrt(2.0), np.arange(-1021, 1023))])
    edges = np.concatenate([powers, roots[roots >= np.finfo(float).tiny]])
    extremes = [np.finfo(float).tiny, np.finfo(float).max, 1.0]
    x = np.concatenate([anywhere, near_one, edges, np.nextafter(edges, np.inf), np.nextafter(edges, 0), extremes])
    return x[x >= np.finfo(float).tiny]


def test_log_pos_is_within_two_units_in_the_last_place():
    x = log_arguments()
    wanted = np.log(x)
    zero = wanted == 0
    assert (logs(x[zero]) == 0).all()
    # NumPy itself may be half a unit off
    assert ulps(logs(x[~zero]), wanted[~zero]).max() <= 2.5


def test_log_pos_is_the_same_alone_and_in_a_loop():
    x = log_arguments()[::997]
    scalar = np.array([log_pos(value) for value in x])
    np.testing.assert_allclose(scalar, logs(x), rtol=4 * EPS, atol=0)


def test_exp_any_is_within_two_units_in_the_last_place():
    rng = np.random.default_rng(2)
    half_integers = (np.arange(-1020, 1022) + 0.5) * math.log(2.0)  # where the reduction changes its integer
    x = np.concatenate([
        rng.uniform(-708, 709, 200_000), rng.uniform(-1, 1, 50_000) * 10.0 ** rng.uniform(-18, 0, 50_000),
        half_integers, np.nextafter(half_integers, np.inf), np.nextafter(half_integers, -np.inf),
        [0.0, -0.0, 1e-320, -1e-320, 709.0, np.nextafter(-708.0, 0.0)],
    ])
    x = x[(x > -708) & (x <= 709)]
    assert ulps(exps(x), np.exp(x)).max() <= 2.5
    assert (exps([0.0, -0.0]) == 1.0).all()


def test_exp_any_underflows_to_exactly_zero():
    x = np.array([np.nextafter(-708.0, -np.inf), -708.5, -745.0, -1e3, -1e10, -1e300, -np.finfo(float).max, -np.inf])
    assert (exps(x) == 0.0).all()
    assert exp_any(-np.inf) == 0.0
    assert exp_any(np.nextafter(-708.0, 0.0)) > 0.0


def test_log1p_of_positive_numbers():
    x = np.concatenate([[0.0], np.geomspace(1e-300, 1e300, 20_001)])
    found = np.array([log1p_pos(value) for value in x])
    np.testing.assert_allclose(found, np.log1p(x), rtol=4 * EPS, atol=0)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 24, 37])
def test_exponentials_of_a_row(size):
    """Those that are all 0 are passed over eight at a time; others among them are not."""
    rng = np.random.default_rng(size)
    for share in (0.0, 0.1, 0.9):
        x = np.where(rng.random(size) < share, rng.normal(size=size), -1e3)
        x[rng.random(size) < 0.1] = -np.inf
        found, wanted = x.copy(), np.exp(x - 0.7)
        total = take_exp(found, 0.7)
        np.testing.assert_allclose(found, wanted, rtol=8 * EPS, atol=0)
        assert total == pytest.approx(wanted.sum(), rel=size * EPS, abs=0)
        out = rng.random(size)
        added = out.copy()
        add_exp(added, x, 0.3, -0.2)
        np.testing.assert_allclose(added, out + np.exp(0.3 * x - 0.2), rtol=8 * EPS, atol=0)


def test_the_largest_of_a_row():
    rng = np.random.default_rng(3)
    for size in range(1, 40):
        for place in range(size):
            x = rng.normal(size=size)
            x[rng.random(size) < 0.3] = -np.inf
            x[place] = 9.0
            assert top_of(x) == 9.0
        assert top_of(np.full(size, -np.inf)) == -np.inf


# ---- log of rising factorials


@numba.njit(error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def rising_all(a, c, out):
    for k in range(a.shape[0]):
        out[k] = log_rising(a[k], c)


def exact_log_rising(a, c):
    """log a (a + 1) ... (a + c - 1) with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        product, a = Decimal(1), Decimal(a)
        for r in range(c):
            product *= a + r
        return float(product.ln())


RISING = np.concatenate([np.geomspace(1e-50, 1e-3, 12), np.linspace(0.01, 20, 57), np.geomspace(20, 1e15, 25), [1e30, 1e50]])


@pytest.mark.parametrize("c", [0, 1, 2, 3, 5, 8, 33, 1000])
def test_log_rising_against_many_digits(c):
    found = np.empty_like(RISING)
    rising_all(RISING, float(c), found)
    wanted = np.array([exact_log_rising(a, c) for a in RISING.tolist()])
    if c == 0:
        assert (found == 0).all()
    allowed = EPS * (40 + 8 * c + 8 * np.abs(wanted))  # rounding of the terms, and of the series
    assert (np.abs(found - wanted) <= allowed).all()


def test_log_rising_of_large_counts():
    """Against sums of whole-number logarithms: Gamma(a + c) / Gamma(a) for whole a."""
    logs_up_to = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, 2_000_001, dtype=np.longdouble)))])
    for a, c in [(1, 1_999_999), (2, 500_000), (1000, 1_000_000), (1_500_000, 400_000)]:
        assert log_rising(float(a), float(c)) == pytest.approx(float(logs_up_to[a + c - 1] - logs_up_to[a - 1]), rel=1e-14)


@pytest.mark.parametrize("shape", [1e-3, 0.1, 0.9, 1.0, 7.5])
def test_log_gamma_variates(shape):
    """Mean and variance of log G are digamma and trigamma of the shape; nothing underflows."""
    from scipy.special import digamma, polygamma

    rng = np.random.default_rng(4)
    draws = np.array([draw_log_gamma(shape, rng) for _ in range(20_000)])
    assert np.isfinite(draws).all()
    error = draws.std() / math.sqrt(len(draws))
    assert abs(draws.mean() - digamma(shape)) < 4 * error
    squares = (draws - digamma(shape)) ** 2
    assert abs(squares.mean() - polygamma(1, shape)) < 4 * squares.std() / math.sqrt(len(draws))


# ---- psi / mass


def exact_psi1(A, sigma, tau):
    """((A + tau)^sigma - tau^sigma) / sigma with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        A, sigma, tau = Decimal(A), Decimal(sigma), Decimal(tau)
        if tau == 0:
            return float((sigma * A.ln()).exp() / sigma)
        span = (A + tau).ln() - tau.ln()
        if sigma == 0:
            return float(span)
        context.prec = 120  # sigma may be 1e-300: the difference needs digits, its logarithms do not
        z = sigma * span
        if z < Decimal("1e-30"):
            growth = span * (1 + z / 2 + z * z / 6)
        else:
            growth = (z.exp() - 1) / sigma
        return float((sigma * tau.ln()).exp() * growth)


def psi1_kernel(A, sigma, tau):
    log_tau = math.log(tau) if tau > 0 else 0.0
    return psi1_at(math.log(tau + A), sigma, log_tau, power_of_tau(sigma, tau))


@pytest.mark.parametrize("tau", [1.0, 0.01, 37.0, 1e-6])
@pytest.mark.parametrize("sigma", [0.0, 1e-300, 1e-16, 1e-12, 1e-8, 1e-4, 0.02, 0.1, 0.25, 0.5, 0.75, 0.97])
def test_psi1_at_against_many_digits(sigma, tau):
    for A in [0.0, 1e-12, 1e-6, 1e-3, 0.1, 0.35, 0.7, 1.0, 3.0, 50.0, 1e3, 1e8, 1e15, 1e60, 1e200, 1e260]:
        wanted = exact_psi1(A, sigma, tau)
        b = A + tau
        # The argument log b is rounded, and d psi1 / d log b = b^sigma; exp(sigma log) is as exact as its argument.
        log_size = abs(math.log(b)) + abs(math.log(tau)) + 1.0
        allowed = 4 * EPS * (b**sigma * log_size + abs(wanted) * (4.0 + sigma * log_size))
        assert abs(psi1_kernel(A, sigma, tau) - wanted) <= allowed, A


def test_psi1_at_has_no_step_where_series_and_difference_meet():
    for sigma in (1e-3, 0.1, 0.5, 0.9):
        A = math.expm1(0.3 / sigma) if sigma > 5e-4 else 0.0
        for factor in (1 - 1e-9, 1 + 1e-9):
            assert psi1_kernel(A * factor, sigma, 1.0) == pytest.approx(exact_psi1(A * factor, sigma, 1.0), rel=1e-13)


@pytest.mark.parametrize("sigma", [0.01, 0.3, 0.5, 0.9])
def test_psi1_at_of_the_stable_process(sigma):
    for A in [1e-200, 1e-8, 0.5, 1.0, 1e6, 1e100]:
        rtol = 8 * EPS * (1 + sigma * abs(math.log(A)))
        assert psi1_kernel(A, sigma, 0.0) == pytest.approx(exact_psi1(A, sigma, 0.0), rel=rtol)


def test_psi1_at_is_continuous_at_sigma_zero():
    for A in (1e-3, 1.0, 1e10):
        assert psi1_kernel(A, 0.0, 1.0) == pytest.approx(math.log1p(A), rel=1e-12)
        assert psi1_kernel(A, 1e-14, 1.0) == pytest.approx(math.log1p(A), rel=1e-12)


# ---- drawing an index


def test_draw_index_inverts_the_distribution_function():
    rng = np.random.default_rng(3)
    for m in (1, 2, 3, 8, 33, 100):
        log_weight = rng.normal(scale=5, size=m) + rng.choice([0.0, 1e5, -1e5])
        p = np.exp(log_weight - log_weight.max())
        edges = np.cumsum(p / p.sum())
        for r in rng.random(300):
            if np.abs(edges - r).min() > 1e-12:  # the two sums may round apart at an edge
                assert draw_index(log_weight.copy(), m, r) == np.searchsorted(edges, r)


@pytest.mark.parametrize("m", [1, 2, 7, 8, 9, 31, 40])
def test_draw_near_is_draw_index_in_one_pass(m):
    rng = np.random.default_rng(m)
    for _ in range(40):
        weight, r = np.append(rng.normal(0, 20, m), np.full(8, np.nan)), rng.random()
        wanted = draw_index(weight.copy(), m, r)
        for near in (weight[:m].max(), weight[:m].min(), weight[rng.integers(m)]):
            assert draw_near(weight.copy(), m, near, r) == wanted
        for near in (weight[:m].max() - 701.0, -np.inf, np.nan):
            assert draw_near(weight.copy(), m, near, r) == FAR
        weight[rng.integers(m)] = np.nan
        assert draw_near(weight.copy(), m, 0.0, r) == FAR
    weight[:m] = -np.inf
    assert draw_near(weight.copy(), m, 0.0, 0.5) == -1


def test_draw_index_frequencies():
    p = np.array([0.5, 0.25, 0.0, 0.2, 0.05])
    with np.errstate(divide="ignore"):
        weight = np.log(p) + 300.0
    r = (np.arange(20_000) + 0.5) / 20_000  # equidistant: the counts are exact
    counts = np.bincount([draw_index(weight.copy(), 5, x) for x in r], minlength=5)
    np.testing.assert_allclose(counts, p * 20_000, atol=1)


@pytest.mark.parametrize("r", [0.0, 0.3, np.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("m", [1, 2, 5, 17])
def test_draw_index_with_all_mass_in_one(m, r):
    for k in range(m):
        weight = np.full(m, -np.inf)
        weight[k] = -1234.5
        assert draw_index(weight, m, r) == k


def test_draw_index_never_draws_a_weight_of_zero():
    for r in (0.0, 0.5, np.nextafter(1.0, 0.0)):
        assert draw_index(np.array([-np.inf, 0.0, -np.inf, 0.0, -np.inf]), 5, r) in (1, 3)
    assert draw_index(np.array([-np.inf, 0.0, 0.0, -np.inf]), 4, 0.0) == 1
    assert draw_index(np.array([-np.inf, 0.0, 0.0, -np.inf]), 4, np.nextafter(1.0, 0.0)) == 2
    # far below the others is as good as zero
    assert draw_index(np.array([-2000.0, 0.0, -2000.0]), 3, np.nextafter(1.0, 0.0)) == 1


def test_draw_index_reads_only_the_first_weights():
    weight = np.array([0.0, 0.0, 50.0])
    assert draw_index(weight.copy(), 2, 0.999) == 1
    assert draw_index(np.array([0.0, 0.0, np.nan]), 2, 0.25) == 0


def test_draw_index_without_any_mass():
    for m in (1, 2, 9):
        assert draw_index(np.full(m, -np.inf), m, 0.5) == -1
        assert draw_index(np.full(m, np.nan), m, 0.5) == -1


@pytest.mark.parametrize("where", range(4))
def test_draw_index_reports_a_score_that_is_not_a_number(where):
    weight = np.array([0.0, -1.0, 1.0, -np.inf])
    weight[where] = np.nan
    assert draw_index(weight, 4, 0.5) == -1


@compiled_only
def test_kernels_are_compiled():
    assert all(isinstance(f, Kernel) and f.signatures for f in (log_pos, exp_any, draw_index))
