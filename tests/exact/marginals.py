"""log p(y_c) of component families, written down from their definitions: nothing here uses the package."""

from __future__ import annotations

import numpy as np
from scipy import special, stats


def regression_log_marginal(X: np.ndarray, y: np.ndarray, b: np.ndarray, precision: np.ndarray, nu: float, scale: float) -> float:
    """y = X beta + e, beta | s2 ~ N(b, s2 precision^-1), 1/s2 ~ Gamma(nu/2, rate scale/2): a multivariate t."""
    shape = scale / nu * (np.eye(len(y)) + X @ np.linalg.solve(precision, X.T))
    return float(stats.multivariate_t.logpdf(y, X @ b, shape, df=nu))


def matrix_regression_log_marginal(
    X: np.ndarray, Y: np.ndarray, b: np.ndarray, precision: np.ndarray, nu: float, scale: np.ndarray
) -> float:
    """y_i = B'x_i + e_i, e_i ~ N(0, Lambda^-1), Lambda ~ Wishart(nu, scale^-1), B | Lambda ~ MN(b, precision^-1, Lambda^-1): a matrix t."""
    n, d = Y.shape
    gap, among = Y - X @ b, np.eye(n) + X @ np.linalg.solve(precision, X.T)
    S = scale + gap.T @ np.linalg.solve(among, gap)
    return float(
        special.multigammaln((nu + n) / 2, d) - special.multigammaln(nu / 2, d) - n * d / 2 * np.log(np.pi)
        + nu / 2 * np.linalg.slogdet(scale)[1] - (nu + n) / 2 * np.linalg.slogdet(S)[1] - d / 2 * np.linalg.slogdet(among)[1]
    )


def normal_gamma_log_marginal(X: np.ndarray, m: np.ndarray, r: float, nu: float, scale: np.ndarray) -> float:
    """lambda_j ~ Gamma(nu/2, rate scale_j/2), mu_j ~ N(m_j, 1/(r lambda_j)), r = inf for known means: a multivariate t of each column.

    NaN is a cell that was not observed.
    """
    total = 0.0
    for x, centre, square in zip(X.T, m, scale, strict=True):
        x = x[~np.isnan(x)]
        if len(x):
            shape = square / nu * (np.eye(len(x)) + 1.0 / r)
            total += float(stats.multivariate_t.logpdf(x, np.full(len(x), centre), shape, df=nu))
    return total


def spherical_log_marginal(X: np.ndarray, m: np.ndarray, r: float, nu: float, scale: float) -> float:
    """lambda ~ Gamma(nu/2, rate scale/2), mu_j ~ N(m_j, 1/(r lambda)), r = inf for known means: one multivariate t of all cells.

    NaN is a cell that was not observed.
    """
    n, d = X.shape
    shape = scale / nu * np.kron(np.eye(n) + 1.0 / r, np.eye(d))
    seen = ~np.isnan(X.ravel())
    return float(stats.multivariate_t.logpdf(X.ravel()[seen], np.tile(m, n)[seen], shape[np.ix_(seen, seen)], df=nu)) if seen.any() else 0.0


def known_covariance_log_marginal(X: np.ndarray, m: np.ndarray, r: float, S: np.ndarray) -> float:
    """mu ~ N(m, S/r), x ~ N(mu, S): one normal vector of all cells, of which those that are NaN were not observed."""
    n = len(X)
    covariance = np.kron(np.eye(n) + 1.0 / r, S)
    seen = ~np.isnan(X.ravel())
    e, covariance = (X.ravel() - np.tile(m, n))[seen], covariance[np.ix_(seen, seen)]
    return -0.5 * float(e @ np.linalg.solve(covariance, e) + np.linalg.slogdet(covariance)[1] + len(e) * np.log(2 * np.pi))


def normal_wishart_log_marginal(X: np.ndarray, m: np.ndarray, r: float, nu: float, scale: np.ndarray) -> np.ndarray:
    """Lambda ~ Wishart(nu, scale^-1), mu ~ N(m, (r Lambda)^-1), r = inf for the known mean m; of a stack of data sets X (..., n, d)."""
    n, d = X.shape[-2:]
    gap = X.mean(axis=-2) - m
    centred = X - X.mean(axis=-2, keepdims=True)
    share = 1.0 / (1.0 / n + 1.0 / r)
    psi = scale + np.swapaxes(centred, -1, -2) @ centred + share * gap[..., :, None] * gap[..., None, :]
    return (
        special.multigammaln((nu + n) / 2, d) - special.multigammaln(nu / 2, d) - n * d / 2 * np.log(np.pi)
        + nu / 2 * np.linalg.slogdet(scale)[1] - (nu + n) / 2 * np.linalg.slogdet(psi)[1] - d / 2 * np.log1p(n / r)
    )


def poisson_log_marginal(y: np.ndarray, e: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """y_ij ~ Poisson(e_i lambda_j), lambda_j ~ Gamma(a_j, rate b_j); cells (m, d) that are NaN are not there."""
    total = 0.0
    for j in range(y.shape[1]):
        seen = ~np.isnan(y[:, j])
        counts, times = y[seen, j], e[seen]
        total += (counts * np.log(times) - special.gammaln(counts + 1)).sum()
        total += a[j] * np.log(b[j]) - special.gammaln(a[j])
        total += special.gammaln(a[j] + counts.sum()) - (a[j] + counts.sum()) * np.log(b[j] + times.sum())
    return float(total)


def bernoulli_log_marginal(y: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """y_ij ~ Bernoulli(p_j), p_j ~ Beta(a_j, b_j); cells (m, d) that are NaN are not there."""
    ones, zeros = (y == 1).sum(axis=0), (y == 0).sum(axis=0)
    return float((special.betaln(a + ones, b + zeros) - special.betaln(a, b)).sum())


def categorical_log_marginal(codes: np.ndarray, alpha: list[np.ndarray]) -> float:
    """Levels 0, 1, ... with probabilities Dirichlet(alpha_j) for column j; cells (m, d) that are NaN are not there."""
    total = 0.0
    for j, own in enumerate(alpha):
        n = np.array([(codes[:, j] == level).sum() for level in range(len(own))])
        total += special.gammaln(own.sum()) - special.gammaln(own.sum() + n.sum())
        total += (special.gammaln(own + n) - special.gammaln(own)).sum()
    return float(total)


def multinomial_log_marginal(counts: np.ndarray, alpha: np.ndarray) -> float:
    """Rows of counts (m, d) given their totals, probabilities Dirichlet(alpha), without multinomial coefficients."""
    n = counts.sum(axis=0)
    of_total = special.gammaln(alpha.sum()) - special.gammaln(alpha.sum() + n.sum())
    return float(of_total + (special.gammaln(alpha + n) - special.gammaln(alpha)).sum())


def with_missing_cells(X: np.ndarray, log_marginal, points: int = 161) -> float:
    """log of the integral of exp(log_marginal) over the cells of X that are NaN, at most two, by the trapezoid in arsinh.

    `log_marginal` takes a stack of data sets.
    """
    gaps = np.argwhere(np.isnan(X))
    if not len(gaps):
        return float(log_marginal(X))
    z = np.linspace(-12.0, 12.0, points)
    grid = np.array(np.meshgrid(*[z] * len(gaps), indexing="ij")).reshape(len(gaps), -1)
    stack = np.broadcast_to(X, (grid.shape[1], *X.shape)).copy()
    for (i, j), own in zip(gaps, grid, strict=True):
        stack[:, i, j] = np.sinh(own)
    return float(special.logsumexp(log_marginal(stack) + np.log(np.cosh(grid) * (z[1] - z[0])).sum(axis=0)))



def semiconjugate_log_marginal(y: np.ndarray, m: float, variance: float, precision: float | tuple[float, float]) -> float:
    """y_i ~ N(mu, 1/lambda) in one column, mu ~ N(m, variance), lambda known or Gamma(shape, rate): by quadrature over log lambda."""
    def given(values: np.ndarray) -> np.ndarray:
        covariance = np.eye(len(y)) / np.reshape(values, (-1, 1, 1)) + variance
        e = (y - m)[:, None]
        square = (np.swapaxes(e, 0, 1) @ np.linalg.solve(covariance, np.broadcast_to(e, (len(covariance), len(y), 1))))[:, 0, 0]
        return -0.5 * (square + np.linalg.slogdet(covariance)[1] + len(y) * np.log(2 * np.pi))

    if isinstance(precision, float):
        return float(given(np.array([precision]))[0])
    x = np.linspace(-14.0, 8.0, 441)
    f = given(np.exp(x)) + stats.gamma.logpdf(np.exp(x), precision[0], scale=1 / precision[1]) + x
    return float(f.max() + np.log(np.exp(f - f.max()).sum() * (x[1] - x[0])))
