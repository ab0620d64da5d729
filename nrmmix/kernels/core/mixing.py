"""Distribution functions and quantiles of mixtures of t and normal distributions, row by row, without an array for each component."""

from __future__ import annotations

import math

from nrmmix.kernels.core.jit import fast, inlined, kernel, root
from nrmmix.kernels.core.special import asinh_any, between_nodes

CLOSE, MAX_STEPS = 1e-9, 80  # of a probability; a bracket is halved at least every other step
NEGLIGIBLE = 1e-13  # of a weight


@inlined
def beyond_nodes(z, values, df, width):
    """The distribution function of t beyond its table, where it falls as a power."""
    if z != z:
        return math.nan
    tail = values[0] * math.exp(-df * (math.log(abs(z)) - (width - math.log(2.0))))  # sinh(width) is exp(width) / 2
    return tail if z < 0.0 else 1.0 - tail


@fast
def place_points(y, centre, spread, width, scale, at):
    """Place points among nodes that are equally spaced in asinh of (y - centre) / spread, from -width on."""
    for j in range(y.shape[0]):
        at[j] = (asinh_any((y[j] - centre) / spread) + width) * scale


@root
@kernel
def mix_t(y, centre, spread, df, values, slopes, width, weight, given, at, out):
    """out[c, j]: distribution function at y[i, j], i = given[c], of components with weight[c, k], t with df[k], centre[i, k], spread[i, k].

    Tables (K, M) as in `special.interpolate_columns`; `at` is scratch for as many numbers as there are points in a row.
    """
    K, M = values.shape
    scale = (M - 1) / (2.0 * width)
    for c in range(out.shape[0]):
        i = given[c]
        for j in range(out.shape[1]):
            out[c, j] = 0.0
        for k in range(K):
            place_points(y[i], centre[i, k], spread[i, k], width, scale, at)
            for j in range(out.shape[1]):
                if 0.0 <= at[j] < M - 1:
                    out[c, j] += weight[c, k] * between_nodes(at[j], values[k], slopes[k])
                else:
                    out[c, j] += weight[c, k] * beyond_nodes((y[i, j] - centre[i, k]) / spread[i, k], values[k], df[k], width)


@kernel
def t_at(z, df, values, slopes, width):
    at = (asinh_any(z) + width) * (values.shape[0] - 1) / (2.0 * width)
    return between_nodes(at, values, slopes) if 0.0 <= at < values.shape[0] - 1 else beyond_nodes(z, values, df, width)


@root
@kernel
def solve_normal(q, of_normal, of_t, weight, mean, sd, rest, centre, spread, df, values, slopes, width, given, out):
    """out[c, t]: where the distribution function of row c is q[t]: normals with weight[c], mean[i], sd[i], i = given[c], and t with `rest`.

    Weights sum to 1.  `of_normal` and `of_t` (len(q),) are quantiles of the standard distributions: that of a mixture lies between those of
    its components.
    """
    log_constant = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(math.pi * df)
    for c in range(out.shape[0]):
        i = given[c]
        for t in range(q.shape[0]):
            low, high, total = math.inf, -math.inf, 0.0
            if rest[c] > NEGLIGIBLE:
                low = high = centre[i] + spread[i] * of_t[t]
                total = rest[c]
            for m in range(mean.shape[1]):
                if weight[c, m] > NEGLIGIBLE:
                    x = mean[i, m] + sd[i, m] * of_normal[t]
                    low, high, total = min(low, x), max(high, x), total + weight[c, m]
            x, length = 0.5 * (low + high), high - low
            for step in range(MAX_STEPS):
                below, density = -q[t] * total, 0.0
                if rest[c] > NEGLIGIBLE:
                    z = (x - centre[i]) / spread[i]
                    below += rest[c] * t_at(z, df, values, slopes, width)
                    density += rest[c] * math.exp(log_constant - 0.5 * (df + 1.0) * math.log1p(z * z / df)) / spread[i]
                for m in range(mean.shape[1]):
                    if weight[c, m] > NEGLIGIBLE:
                        z = (x - mean[i, m]) / sd[i, m]
                        below += weight[c, m] * 0.5 * math.erfc(-z * math.sqrt(0.5))
                        density += weight[c, m] * math.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * sd[i, m])
                if below < 0.0:
                    low = x
                else:
                    high = x
                if abs(below) <= CLOSE * total or not low < high:
                    break
                x -= below / density if density > 0.0 else math.inf
                if not low < x < high or (step % 2 == 1 and high - low > 0.5 * length):
                    x = 0.5 * (low + high)
                if step % 2 == 1:
                    length = high - low
            out[c, t] = x


@inlined
def log_odds_ratio(part, other, whole):
    return math.log1p((part - other) / other) + math.log1p((part - other) / (whole - part))


@root
@kernel
def find_crossings(q, cdf, grid, given, out):
    """out[c, t]: where cdf[c] (J,), straight in its log odds between the points grid[given[c]], reaches q[t] of its last.

    So tails are followed between points that are far apart; where odds are 0 or infinite the cdf itself is straight.  Rows of cdf increase
    but for rounding; beyond them it is the first or the last point.
    """
    last = cdf.shape[1] - 1
    for c in range(out.shape[0]):
        y = grid[given[c]]
        for t in range(q.shape[0]):
            level = q[t] * cdf[c, last]
            below, above = -1, last + 1  # cdf[below] <= level < cdf[above]
            while above - below > 1:
                middle = (below + above) >> 1
                if cdf[c, middle] <= level:
                    below = middle
                else:
                    above = middle
            if below < 0 or below >= last:
                out[c, t] = y[0] if below < 0 else y[last]
            else:
                low, high, most = cdf[c, below], cdf[c, above], cdf[c, last]
                share = (level - low) / (high - low)
                if low > 0.0 and high < most:
                    of_odds = log_odds_ratio(level, low, most) / log_odds_ratio(high, low, most)
                    if 0.0 <= of_odds <= 1.0:  # unless odds overflow
                        share = of_odds
                out[c, t] = y[below] + share * (y[above] - y[below])
