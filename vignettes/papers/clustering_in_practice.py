"""A clustering from question to conclusion.  `make vignettes` runs this script and writes docs/papers/clustering_in_practice.md."""

# %% [markdown]
# # Clustering in practice
#
# A mixture with an unknown number of components gives a distribution over partitions. What can be concluded from it about groups, and what
# not? This page goes through one analysis with an answer kept aside, and through four traps: the prior's opinion on the number of clusters, a best
# partition that hides how unsure it is, components that are no groups, and rows that belong nowhere. The calls are explained in
# [Results](../results.md) and [Choosing a prior](../priors.md).
#
# ## The analysis
#
# Four lengths of 150 iris flowers, which are 50 each of three species. The species stay aside until the end.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nrmmix as nm

iris = nm.datasets.load_iris()
formula = "sepal_length_cm + sepal_width_cm + petal_length_cm + petal_width_cm ~ 1"
fit = nm.fit(formula, iris, rng=1)
best = fit.partition()
fit

# %% [markdown]
# `fit.partition()` is the partition that loses least on average over the draws, by variation of information. It is one partition, and says nothing of
# how far others are. Three things do: the probability of each number of clusters, the probability that two rows are together, and the credible
# ball. The ball holds 95% of the draws, those nearest to the partition; its border shows how different clusterings may still be.

# %%
order = np.lexsort((iris["petal_length_cm"], best.labels))
shares = pd.Series(fit.draws["n_clusters"].ravel()).value_counts(normalize=True).sort_index()
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=(1, 1.1))
axes[0].bar(shares.index, shares, color="#0072B2")
axes[0].set(xlabel="number of clusters", ylabel="posterior probability")
image = axes[1].imshow(fit.similarity()[np.ix_(order, order)], cmap="viridis", vmin=0, vmax=1)
for edge in np.cumsum(best.sizes)[:-1]:
    axes[1].axhline(edge - 0.5, color="white", lw=0.8)
    axes[1].axvline(edge - 0.5, color="white", lw=0.8)
axes[1].set(title="probability of being together", xticks=[], yticks=[])
fig.colorbar(image, ax=axes[1])
fig

# %%
ball = best.credible_ball
bounds = {"fewest clusters": ball.vertical_upper, "most clusters": ball.vertical_lower, "farthest": ball.horizontal}
edges = {name: sorted({len(np.unique(labels)) for labels in np.atleast_2d(found)}) for name, found in bounds.items()}

# %% [prose]
# The point estimate has {best.n_clusters} clusters, of sizes {', '.join(map(str, best.sizes))}; its expected distance from a draw is {best.expected_loss:.2f} nats. The bounds
# of the ball have {' or '.join(map(str, edges['fewest clusters']))} (fewest) and {' or '.join(map(str, edges['most clusters']))} clusters (most). In the picture rows are
# in the order of the estimate, white lines between its clusters: what is dark off the diagonal is sure to be apart, and what is neither dark nor bright
# is undecided.
#
# ## First trap: who says how many?
#
# The number of clusters has a prior, which the measure implies, and data of this size do not drown it. So fit again under others, and see what
# stays:

# %%
def adjusted_rand(a, b):
    """Agreement of two partitions: 1 where they are the same, about 0 by chance (Hubert and Arabie 1985)."""
    table = pd.crosstab(a, b).to_numpy()

    def pairs(x):
        return (x * (x - 1) / 2).sum()

    both, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    chance = rows * columns / pairs(np.array([table.sum()]))
    return float((both - chance) / ((rows + columns) / 2 - chance))


priors = {
    "DirichletProcess(), the default": nm.DirichletProcess(), "mass 0.1": nm.DirichletProcess(0.1), "mass 5": nm.DirichletProcess(5.0),
    "NGGP()": nm.NGGP(), "PitmanYor()": nm.PitmanYor(), "FiniteMixture(10)": nm.FiniteMixture(10),
}
table, partitions = [], {}
for name, prior in priors.items():
    model = nm.Model(formula, iris, prior=prior)
    other = model.fit(rng=1)
    partitions[name] = other.partition()
    before = model.prior_n_clusters()
    table.append({
        "prior": name, "K a priori": (before.index * before).sum(), "K a posteriori": other.draws["n_clusters"].mean(),
        "K of the estimate": partitions[name].n_clusters, "agreement with the first": adjusted_rand(partitions[name].labels, best.labels),
        "R-hat": other.diagnostics()["rhat"].max(),
    })
table = pd.DataFrame(table).set_index("prior")
table.round(2)

# %% [prose]
# The posterior mean of K lies between {table['K a posteriori'].min():.1f} and {table['K a posteriori'].max():.1f}, where prior means lie between {table['K a priori'].min():.1f} and {table['K a priori'].max():.1f}; the point estimate
# has {' or '.join(map(str, sorted(set(table['K of the estimate']))))} clusters, and agrees with the first one to {table['agreement with the first'].min():.2f} or more
# (adjusted Rand index, 1 is the same). Report what all priors agree on, and report the number of clusters only together with the prior that it had.

# %% [markdown]
# Units do not matter: the default base measure takes its location and scale from the data, so inches in place of centimetres for one column
# change nothing.

# %%
inches = iris.assign(petal_length_cm=iris["petal_length_cm"] / 2.54)
again = nm.fit(formula, inches, rng=1)
adjusted_rand(again.partition().labels, best.labels)

# %% [markdown]
# ## The answer that was kept aside

# %%
pd.crosstab(iris["species"], pd.Series(best.labels, name="cluster"))

# %%
full = adjusted_rand(iris["species"], best.labels)
diagonal = nm.fit(formula, iris, family=nm.Gaussian("diagonal"), rng=1)
by_diagonal = adjusted_rand(iris["species"], diagonal.partition().labels)

# %% [prose]
# Agreement with the species: {full:.2f}. *Setosa* stands apart from the others by a wide gap. *Versicolor* and *virginica* are neighbours, and
# some flowers of the one are with the other; the picture above shows that border less sharp, without knowing the species. The shape of the components
# matters more than the measure: with `nm.Gaussian("diagonal")`, whose components cannot be tilted, there are
# {diagonal.partition().n_clusters} clusters and the agreement is {by_diagonal:.2f}. Chains of it may end in two modes that none of them leaves: in one,
# clusters hold single petal widths, which are in whole millimetres. Where that is so `summary()` says it, and what to do.
#
# ## Second trap: components are not groups
#
# A component is a normal distribution. One group that is not normal needs several, and more of them the more rows there are to show its shape. Skewed
# data of a single group:

# %%
counts = []
for n in (50, 200, 800):
    y = np.random.default_rng(3).gamma(2.0, size=n)
    one = {"plain": "y ~ 1", "by its logarithm": "log(y) ~ 1"}
    found = {name: nm.fit(text, pd.DataFrame({"y": y}), rng=1) for name, text in one.items()}
    counts.append({"rows": n, **{name: other.draws["n_clusters"].mean() for name, other in found.items()}})
counts = pd.DataFrame(counts).set_index("rows")
counts.round(1)

# %% [prose]
# There is one group, and clusters go from {counts['plain'].iloc[0]:.1f} to {counts['plain'].iloc[-1]:.1f}: with more rows the number of components that a skewed
# group takes grows. A transformation that makes groups more nearly normal helps ({counts['by its logarithm'].iloc[-1]:.1f} by the logarithm, which is
# still not normal). The density that is fitted can be right all the while; it is the reading of components as groups that is wrong. Look
# at the density (`fit.plot()`): groups are its modes, or are what a subject expert calls groups.
#
# ## Third trap: rows that belong nowhere
#
# `kind="cluster"` says of new rows to which cluster of the estimate they most likely belong; -1 is a cluster that has not been seen. The first flower is a
# *setosa* of the table, the second between two clusters, the third like none:

# %%
new = pd.DataFrame({
    "sepal_length_cm": [5.0, 6.1, 9.5], "sepal_width_cm": [3.4, 2.8, 1.5], "petal_length_cm": [1.5, 4.9, 2.0], "petal_width_cm": [0.2, 1.7, 3.5],
})
belongs = fit.predict(new, kind="cluster")
belongs.assign(log_density=fit.log_density(new)).round(3)

# %% [prose]
# The third has log density {fit.log_density(new).iloc[2]:.0f}, where the rows of the table have {fit.log_density().median():.1f} in the middle and
# {fit.log_density().min():.1f} at the least.
#
# ## What to write
#
# - the measure and its prior mean of K beside the posterior, and what changed under others;
# - the point estimate with its loss and the bounds of its credible ball, not alone;
# - which rows are undecided, from `fit.similarity()` or the purity in `fit.summary()`;
# - the family, for it decides what a cluster is;
# - the verdict on convergence: partitions that no chain visits leave no trace in R-hat, so begin chains in different ways
#   ([Choosing a sampler](choosing_a_sampler.md)).
