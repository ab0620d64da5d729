"""Liang, Jordan & Taskar (2007), a permutation-augmented sampler.  `make vignettes` runs this script and writes docs/papers/permutation.md."""

# short: draws = 25_000 -> draws = 4_000
# short: for iterations in (1, 5, 20, 80) -> for iterations in (1, 5, 20)

# %% [markdown]
# # A whole partition at once: the permutation-augmented sampler
#
# P. Liang, M. I. Jordan and B. Taskar, *A permutation-augmented sampler for DP mixture models*, ICML 2007.
#
# Gibbs sampling moves one observation at a time, and may have to pass through partitions that hardly ever happen on its way to a better
# one. The paper draws the whole partition anew. There are too many partitions of *n* rows to weigh them all, but if the rows stand in a
# line and clusters must be segments of it, there are only 2^(n-1), and dynamic programming adds them up. This page builds that sum in a few
# lines of NumPy, compares `nm.Permutation()` with exact probabilities, and repeats the paper's Figure 3. [Samplers](../samplers.md) says
# how the move is used beside others.
#
# ## The sum over segments
#
# Under a Dirichlet process of mass α a partition C of the rows x has the joint density (the paper's equations 1 and 2)
#
#     p(C, x) = α^|C| Π (|c| - 1)! p(x_c) / (α (α + 1) ... (α + n - 1)),
#
# the product over clusters c, with p(x_c) the density of its rows when they share a parameter that is integrated out. Now let π be an
# order of the rows in which the members of every cluster stand together, drawn uniformly from such orders: there are |C|! Π |c|! of them. With π
# the joint density becomes a product over clusters and a factor that depends on their number alone (equation 4):
#
#     p(C, π, x)  is proportional to  A(|C|) Π B(c),      A(k) = α^k / k!,      B(c) = p(x_c) / |c|.
#
# The sum over all partitions of the first r rows into k segments follows from those of fewer rows: g(r, k) is the sum over the size m of
# the last segment of g(r - m, k - 1) B(last m rows). Rows with known variance 1 and a N(0, 10²) mean:

# %%
import itertools
import math

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import gammaln, logsumexp

import nrmmix as nm
from nrmmix.report import claims
from nrmmix.report.recorded import recorded

MASS = 1.3


def log_marginal(x):
    """log p(x_c) of rows that share a N(0, 100) mean, their variance 1."""
    n, s = len(x), x.sum()
    return -0.5 * (n * np.log(2 * np.pi) + np.log1p(100 * n) + (x * x).sum() - s * s / (n + 0.01))


def log_segments(x):
    """log B of the segment from a up to, not including, b."""
    return {(a, b): log_marginal(x[a:b]) - np.log(b - a) for b in range(1, len(x) + 1) for a in range(b)}


def log_table(x):
    """log g(r, k)."""
    n, B = len(x), log_segments(x)
    g = np.full((n + 1, n + 1), -np.inf)
    g[0, 0] = 0.0
    for r in range(1, n + 1):
        for k in range(1, r + 1):
            g[r, k] = logsumexp([g[r - m, k - 1] + B[r - m, r] for m in range(1, r + 1)])
    return g


def log_A(k):
    return k * np.log(MASS) - gammaln(k + 1)


x = np.array([-3.0, -2.2, -2.5, 0.4, 0.1, 4.0, 3.1, 3.6, 0.9, -2.0])
g = log_table(x)
by_table = logsumexp(g[len(x), 1:] + log_A(np.arange(1, len(x) + 1)))

B = log_segments(x)
terms = []
for k in range(len(x)):  # all ways to place k borders between neighbours
    for borders in itertools.combinations(range(1, len(x)), k):
        edges = (0, *borders, len(x))
        terms.append(log_A(k + 1) + sum(B[a, b] for a, b in itertools.pairwise(edges)))
print(f"dynamic program {by_table:.10f}, sum of {len(terms)} partitions {logsumexp(terms):.10f}")

# %% [markdown]
# Drawing a partition goes the way back: from the right end, the size of the last segment in proportion to its term, and so on. What the
# move does is draw π given C, then C given π. Both are draws from conditional distributions of one joint distribution, so the posterior of C
# stays as it is.
#
# ## Is it exact?
#
# Six rows have 203 partitions, few enough to compute the posterior. The move alone, in two forms: with the table above, which takes n³
# operations and n² memory, and with the paper's first optimization (section 3.2). That one replaces |C|! by β^|C|, which makes the program
# one-dimensional (n² operations), and corrects by a Metropolis-Hastings step.

# %%
six = np.array([[-2.1], [-1.7], [-0.2], [0.1], [1.6], [2.4]])
model = nm.Model(data=six, family=nm.Gaussian(known_covariance=[[1.0]], m=0.0, r=0.01), prior=nm.DirichletProcess(MASS))

states = [s for s in itertools.product(range(6), repeat=6) if all(k <= max(s[:i], default=-1) + 1 for i, k in enumerate(s))]
posterior = np.array([model.log_joint(s) for s in states])
posterior = np.exp(posterior - logsumexp(posterior))
index = {s: j for j, s in enumerate(states)}


def apart(move, draws):
    """Total variation distance between 4 chains and the posterior, and its size for as many independent draws."""
    fit = model.fit(move, draws=draws, tune=500, chains=4, rng=1)
    labels = fit.draws["labels"].reshape(-1, 6)
    shares = np.bincount([index[tuple(map(int, one))] for one in labels], minlength=len(states)) / len(labels)
    noise = math.sqrt(2 / math.pi) * np.sqrt(posterior * (1 - posterior) / len(labels)).sum() / 2
    return np.abs(shares - posterior).sum() / 2, noise


draws = 25_000
exact = {name: apart(nm.Permutation(dynamic_program=name), draws) for name in ("table", "metropolis")}

# %% [prose]
# Total variation distance of {4 * draws:,} draws from the posterior over {len(states)} partitions: {exact['table'][0]:.4f} with the table and
# {exact['metropolis'][0]:.4f} with the Metropolis-Hastings form; as many independent draws would be at {exact['table'][1]:.4f} on average.
# [Exactness](../exactness.md) has this comparison for Gibbs and tree-guided moves with every prior and family, and for the other
# moves with five of each.

# %% [markdown]
# ## Few segments matter
#
# The second optimization (section 3.3) is a beam. Given the row r at which a segment ends, nearly all of the sum comes from a few sizes m, and
# nearly the same ones, one longer, for r + 1. So keep at each r only the sizes that make up all but a share ε of it. The paper
# reports a data set of 500 points with ε = 10^-32, but not its dimension; here are 500 points of ten groups in 10, 40 and 160
# dimensions, along a random direction as in section 4.2.

# %%
PAPER_BEAM = {"share of the sum": 0.97, "sizes kept": 5}
EPSILON = 1e-32


def beamed(dim):
    """log of the sum with all sizes and with a beam, the numbers of sizes kept, and the log shares of the sizes at three rows."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(10), 50)
    points = np.sqrt(2.0) * rng.normal(size=(10, dim))[groups] + rng.normal(size=(500, dim))
    means, u = np.array([points[groups == k].mean(axis=0) for k in range(10)]), rng.normal(size=dim)
    points = points[np.lexsort((points @ u, (means @ u)[groups]))]
    sums, squares = (np.vstack([np.zeros(dim), np.cumsum(a, axis=0)]) for a in (points, points**2))

    def log_B(end, sizes):
        """log of alpha p(x_c) / (|c| beta) for segments that end before a row; alpha = 1, beta = 10."""
        s, q = sums[end] - sums[end - sizes], squares[end] - squares[end - sizes]
        parts = sizes[:, None] * np.log(2 * np.pi) + np.log1p(100 * sizes)[:, None] + q - s * s / (sizes + 0.01)[:, None]
        return -0.5 * parts.sum(axis=1) - np.log(sizes) - np.log(10.0)

    whole, beam, kept, counts, profiles = np.zeros(501), np.zeros(501), np.array([], int), [], {}
    for r in range(1, 501):
        sizes = np.arange(1, r + 1)
        terms = whole[r - sizes] + log_B(r, sizes)
        whole[r] = logsumexp(terms)
        if r in (150, 275, 400):
            profiles[r] = terms - whole[r]
        near = np.concatenate([[1], kept + 1])
        terms = beam[r - near] + log_B(r, near)
        falling = np.argsort(-terms)
        rest = np.logaddexp.accumulate(terms[falling][::-1])[::-1] - logsumexp(terms)  # share of the sum from each place on
        chosen = falling[: max(1, np.count_nonzero(rest > math.log(EPSILON)))]
        kept, beam[r] = np.sort(near[chosen]), logsumexp(terms[chosen])
        counts.append(len(kept))
    return whole[-1], beam[-1], np.mean(counts), profiles


beams = {dim: beamed(dim) for dim in (10, 40, 160)}
fig, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True, layout="constrained")
for ax, r in zip(axes, (150, 275, 400), strict=True):
    for dim, (_, _, _, profiles) in beams.items():
        ax.plot(np.arange(1, r + 1), profiles[r] / math.log(10), lw=1, label=f"{dim} dimensions")
    ax.axhline(math.log10(EPSILON), color="black", lw=0.8, ls="--")
    ax.set(title=f"row {r}", xlabel="size of the last segment", ylim=(-200, 8), xlim=(0, 160))
axes[0].set_ylabel("log10 of its share")
axes[2].legend(frameon=False, fontsize=8)
fig

# %% [prose]
# The dashed line is ε. Groups have 50 rows: a segment that takes in a part of the group before it costs dearly, and the more so the more
# dimensions there are. The beam keeps {', '.join(f'{one[2]:.0f}' for one in beams.values())} sizes on average in {', '.join(map(str, beams))}
# dimensions (the paper: about {PAPER_BEAM['sizes kept']}) of {np.mean(np.arange(1, 501)):.0f}, and of the sum
# {', '.join(f'{np.exp(one[1] - one[0]):.3f}' for one in beams.values())} (the paper: {PAPER_BEAM['share of the sum']}). In
# `nm.Permutation(beam=1e-32)` a move whose old partition falls outside the beam stays where it is, and a move beside it, such as
# Gibbs, makes the chain reach all partitions.

# %% [markdown]
# ## Burn-in: Figure 3, panels a to j
#
# From a bad start, the order should help: along a random direction (section 4.2) rows that are alike stand near each other. The
# probability of such an order is not known, so these moves search and are not exact; `order="projection"` makes them in tuning only and
# puts rows in uniform order afterwards. First a small one to run here: 1,000 points of 20 groups in 20 dimensions, all in one cluster at the start. A
# fit of no more than one draw after t iterations of tuning shows where its chain is after t iterations, as the same seed leads the same way.

# %%
rng = np.random.default_rng(2)
truth = rng.integers(0, 20, 1000)
Y = np.sqrt(2.0) * rng.normal(size=(20, 20))[truth] + rng.normal(size=(1000, 20))
small = nm.Model(data=Y, prior=nm.DirichletProcess(1.0), family=nm.Gaussian(known_covariance=np.eye(20), m=np.zeros(20), r=0.01))
best = small.log_joint(np.unique(truth, return_inverse=True)[1])

split_merge, permutation = nm.SplitMerge(proposal="sequential"), nm.Permutation(order="projection", beam=1e-32)
hybrids = {
    "Gibbs": [nm.Gibbs()],
    "Gibbs + split-merge": nm.Cycle([split_merge, nm.Gibbs()], share="work"),
    "Gibbs + permutation": nm.Cycle([permutation, nm.Gibbs()], share="work"),
    "all three": nm.Cycle([split_merge, permutation, nm.Gibbs()], share="work"),
}
for name, method in hybrids.items():
    after = []
    for iterations in (1, 5, 20, 80):
        fit = small.fit(method, tune=iterations, draws=1, chains=1, init="one", rng=1)
        after.append(f"{fit.draws['log_joint'][0, 0] - best:9.0f} after {iterations}")
    print(f"{name:20} log joint less that of the truth: " + "".join(after))

# %% [markdown]
# The paper's sizes take longer: 10,000 points in each of eight simulated settings, 10,000 digits, 2,246 news stories.
# `python -m benchmarks.permutation --seeds 5` ran them; this page reads what it recorded.

# %%
found = recorded("permutation")
told, climbs = found["settings"], found["results"]["burn_in"]
names = list(hybrids)
colors = dict(zip(names, ("#8C8C8C", "#0072B2", "#D55E00", "#009E73"), strict=True))


def runs(panel, hybrid):
    return [row for row in climbs if row["panel"] == panel and row["hybrid"] == hybrid]


def level(row):
    """0 of one cluster, 1 of the truth; of data without a truth, of the best that any run has found."""
    top = max(one["best"] for one in climbs if one["panel"] == row["panel"]) if row["truth"] is None else row["truth"]
    return (np.array(row["log_joint"]) - row["one"]) / (top - row["one"])


fig, axes = plt.subplots(4, 3, figsize=(10, 11), layout="constrained")
for ax, panel in zip(axes.flat, "abcdefghij", strict=False):
    for hybrid in names:
        rows = runs(panel, hybrid)
        width = min(len(row["seconds"]) for row in rows)
        low, high = (pick([level(row)[:width] for row in rows], axis=0) for pick in (np.min, np.max))
        seconds = np.median([row["seconds"][:width] for row in rows], axis=0)
        ax.fill_between(seconds, low, high, color=colors[hybrid], alpha=0.25, lw=0)
        ax.plot(seconds, np.median([level(row)[:width] for row in rows], axis=0), color=colors[hybrid], lw=1.3, label=hybrid)
    ax.set(title=f"({panel}) {rows[0]['name']}", xscale="log", ylim=(0.5 if panel in "ij" else -0.05, 1.03), xlabel="CPU seconds")
    ax.set_xlim(0.008, 15)
    ax.title.set_fontsize(9)
of_mixing = found["results"]["mixing"]
for ax, panel, statistic in zip(axes.flat[10:], "kl", ("clusters", "largest"), strict=True):
    for hybrid in names:
        rows = [row for row in of_mixing if row["hybrid"] == hybrid and row["statistic"] == statistic]
        ax.plot(rows[0]["lags"], np.mean([row["autocorrelation"] for row in rows], axis=0), color=colors[hybrid], marker=".", lw=1.3)
    ax.axhline(0, color="black", lw=0.5)
    ax.set(title=f"({panel}) {'number of clusters' if panel == 'k' else 'size of the largest cluster'}", xlabel="lag, iterations", ylabel="autocorrelation", ylim=(-0.1, 1.03))
    ax.title.set_fontsize(9)
for ax in axes[:, 0]:
    ax.set_ylabel("0: one cluster, 1: the truth")
axes[2, 2].set_ylabel("1: the best of any run")
axes[3, 0].set_ylabel("1: the best of any run")
fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
fig

# %% [prose]
# Panels as in the paper's Figure 3: {told['seeds']} runs, as the paper has, band from the lowest to the highest, line their median. Log joint densities are
# on a scale where one cluster is 0 and the truth 1; for digits (i) and words (j), which have no truth, 1 is the best that any run found. Seconds are CPU time
# of one thread ({found['machine']['processor']}, {found['date']}), {told['seconds']:g} s a run, {told['longer']['i']:g} times as long for i and j.
#
# CPU seconds to 99% of the way from one cluster to the truth (i and j: to the best of the seed's runs), medians:

# %%
def reached(panel, hybrid):
    return float(np.median([np.inf if row["reached"] is None else row["reached"] for row in runs(panel, hybrid)]))


print(f"{'':52}" + "".join(f"{name:>22}" for name in names))
for panel in "abcdefghij":
    row = runs(panel, "Gibbs")[0]
    cells = "".join(f"{'not reached' if np.isinf(t) else f'{t:.2f}':>22}" for t in (reached(panel, name) for name in names))
    print(f"({panel}) {row['name']:48}{cells}")

# %% [markdown]
# ## What the paper says, and what was found
#
# The paper prints curves and no numbers, so its sentences are what can be compared.

# %%
G, SM, PERM, ALL = names


def ended(panel, hybrid):
    """Median of the highest level that a run has shown."""
    return float(np.median([level(row).max() for row in runs(panel, hybrid)]))


def tau(statistic, hybrid):
    return float(np.median([row["tau"] for row in of_mixing if row["hybrid"] == hybrid and row["statistic"] == statistic]))


def cost(hybrid):
    return float(np.median([row["seconds"] for row in of_mixing if row["hybrid"] == hybrid]))


def seconds(value):
    return "not reached" if np.isinf(value) else f"{value:.2f} s"


def times(panel, hybrid):
    """By seed, logarithms of the seconds to 99% of the way; a run that did not get there counts with all of its time."""
    limit = told["seconds"] * told["longer"].get(panel, 1.0)
    return np.log([row["reached"] or limit for row in sorted(runs(panel, hybrid), key=lambda row: row["seed"])])


def ends(panel, hybrid):
    """By seed, the highest level that a run has shown."""
    return np.array([level(row).max() for row in sorted(runs(panel, hybrid), key=lambda row: row["seed"])])


def mixing(statistic, hybrid):
    """By seed, logarithms of autocorrelation times."""
    return np.log([row["tau"] for row in sorted(of_mixing, key=lambda row: row["seed"]) if (row["hybrid"], row["statistic"]) == (hybrid, statistic)])


starts = {name: [reached(panel, name) for panel in "abc"] for name in names}
far = np.max([np.ptp([times(panel, name) for panel in "abc"], axis=0) for name in (PERM, ALL)], axis=0)
slower = {name: times("f", name) - times("d", name) for name in (SM, PERM)}
gained = {panel: times(panel, SM) - times(panel, PERM) for panel in "gh"}
table = claims.table([
    ("permutation moves are largely insensitive to the start (a-c): their times lie within a factor of four", math.log(4) - far,
     "; ".join(f"{n}: {', '.join(map(seconds, starts[n]))}" for n in (PERM, ALL))),
    ("split-merge gets slower with more clusters at the start (a, c)", times("c", SM) - times("a", SM), ", ".join(map(seconds, starts[SM]))),
    ("Gibbs gets farther from more clusters (a, c)", ends("c", G) - ends("a", G), ", ".join(f"{ended(panel, G):.2f}" for panel in "abc") + " of the way"),
    ("more true clusters slow split-merge more than permutation (d, f)", slower[SM] - slower[PERM],
     "; ".join(f"{n}: {', '.join(seconds(reached(panel, n)) for panel in 'def')}" for n in (SM, PERM))),
    ("the gain from permutation is larger in 80 dimensions (h) than in 10 (g)", gained["h"] - gained["g"],
     "time of split-merge over that of permutation: "
     + ", ".join(f"{reached(panel, SM) / reached(panel, PERM):.2f} in {dim}" for panel, dim in zip("geh", (10, 40, 80), strict=True))),
    ("permutation improves digits (i)", np.maximum(ends("i", PERM), ends("i", ALL)) - np.maximum(ends("i", SM), ends("i", G)),
     ", ".join(f"{n}: {ended('i', n):.3f}" for n in names)),
    ("on words permutation alone is behind split-merge (j)", ends("j", SM) - ends("j", PERM), ", ".join(f"{n}: {ended('j', n):.3f}" for n in names)),
    ("on words it is competitive when combined with split-merge (j), within 0.01", 0.01 - (ends("j", SM) - ends("j", ALL)), ", ".join(f"{n}: {ended('j', n):.3f}" for n in names)),
    ("mixing: numbers of clusters differ little (k): autocorrelation times within a factor of three",
     math.log(3) - np.ptp([mixing("clusters", n) for n in names], axis=0), "τ " + ", ".join(f"{n}: {tau('clusters', n):.1f}" for n in names)),
    ("mixing: the largest cluster is faster with split-merge (l)", mixing("largest", G) - np.maximum(mixing("largest", SM), mixing("largest", ALL)),
     "τ " + ", ".join(f"{n}: {tau('largest', n):.1f}" for n in names)),
])

# %% [prose]
# {table}
#
# {claims.RULE} Margins of times are of their logarithms; the last column has medians.
#
# The paper's panels k and l count iterations, and iterations differ in cost: here one with permutation moves in uniform order and without a
# beam takes {1e3 * cost(PERM):.0f} ms, one of Gibbs {1e3 * cost(G):.1f} ms, one of Gibbs and split-merge {1e3 * cost(SM):.1f} ms (1,000
# rows). Effective draws of the size of the largest cluster a second: {1 / (tau('largest', G) * cost(G)):.0f} by Gibbs,
# {1 / (tau('largest', SM) * cost(SM)):.0f} with split-merge, {1 / (tau('largest', PERM) * cost(PERM)):.0f} with permutation moves. By this
# count permutation moves are for the climb from a bad start; for what comes after there are others, such as split-merge or [tree-guided
# moves](../trees.md).

# %% [markdown]
# ## Differences from the paper
#
# - Its text does not say which start is panel a, b or c, nor which numbers of true clusters are d to f. Here the starts are one cluster,
#   sequential prediction and a cluster for each point, and the numbers 10, 40 and 80.
# - "N(0, 2)" is taken as variance 2, and the prior "N(0, 100)" as variance 100. The mass has a Gamma(1, 1) prior and is sampled after
#   every iteration, as in the paper, which does not give its prior. Curves show log p(X, partition) at mass 1.
# - The digits: the paper's normalization is not described. Pixels are standardised here, which makes its covariance 16 I fit the 50 components, and the prior
#   variance of means is 100. For panels k and l a thousand digits by two components, with the same covariance.
# - The base measure of the words is not described: `Dirichlet(0.1)` for each word.
# - Split-merge is sequentially allocated (Dahl 2003), in the paper too. Moves share the work equally, the paper's CPU time "roughly evenly".
# - Integrating the mass out within the dynamic program, which the paper mentions, is `nm.Permutation(integrate_mass=True)`; it was not used here.
# - Its machine of 2007 and its implementation are not ours; only the order of the curves can be compared, not seconds.
#
# The digits and stories do not come with the package: `NRMMIX_DATA_DIR=... python -m benchmarks.permutation --seeds 5` reads them, and
# takes 1,797 small digits and 395 stories that do come with it otherwise.
