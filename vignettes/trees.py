"""Trees: a search for one partition, a start of chains, and tree-guided MCMC.  `make docs` runs this script and writes docs/trees.md."""

# %% [markdown]
# # Trees
#
# A tree over rows stands for many partitions at once: every way of cutting it into subtrees is one. Bayesian hierarchical clustering for
# normalized random measures (Lee & Choi 2015) weighs them. Given the latent variable u of the measure, the joint density of the rows and a
# partition is a product over clusters, and the factor of a cluster c is its potential φ(h). A tree t is either one cluster or falls apart
# into its two subtrees, so its potential is the sum of two terms (their equation 8),
#
#     φ(t) = φ(h) + φ(left) φ(right)      and      d(left, right) = φ(left) φ(right) / φ(h)
#
# is the dissimilarity of the two subtrees (equation 9): the odds that they are not one cluster. Where d > 1 they are better kept apart. The
# potential of a whole tree is the sum of the joint density over the partitions that are cuts of the tree. These are only some of all
# partitions, so its logarithm is a lower bound of log p(X, u) (equation 10).
#
# Trees have three uses here: to search for one good partition, to begin chains, and to guide Metropolis-Hastings proposals. All need
# component parameters that are integrated out; `model.methods()` says whether a model suits.
#
# ## A search
#
# `"bhc"` compares all pairs of trees and joins the nearest two, from single rows to one tree (Heller & Ghahramani 2005). `"ibhc"` takes up one
# row after another, in random order, and joins what has grown. Both cut the tree where d > 1.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nrmmix as nm

galaxy = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
search = galaxy.fit("ibhc", rng=1)
search

# %% [markdown]
# Passes alternate with one update of the hyperparameters given the partition, and the tree with the highest bound is kept, the log density of
# the hyperparameters added:

# %%
print(search.bounds.round(2))
print(search.hyper)

# %% [markdown]
# The bound is no less than the log joint of the partition that was found, for this is one of those that it sums. Their difference is the
# log of the share that this partition has of all partitions of the tree, at these hyperparameters:

# %%
print(f"log joint {search.log_joint:.3f}, lower bound {search.lower_bound:.3f}")
print(f"share {np.exp(search.log_joint - search.lower_bound):.2f}")

# %%
search.plot()

# %% [markdown]
# Each row is a leaf, and a node stands at its log d; black nodes lie above the cut, the dashed line at d = 1. With more than 120 rows a
# cluster is drawn as one triangle. `search.to_frame()` has the nodes, and `search.tree.labels(2)` cuts so that at most two clusters are
# left.
#
# A search gives labels, and predictions given them. Nothing is sampled from the posterior: bands lack the uncertainty about the partition
# and the hyperparameters, and there is no R-hat. The chains of a fit have it:

# %%
fit = galaxy.fit(rng=1)
at = [10_000, 17_000, 20_000, 25_000]
tables = {name: 1e6 * by.predict(kind="density", at=at, rng=1) for name, by in {"search": search, "chains": fit}.items()}
pd.concat(tables, axis=1).round(1)

# %% [markdown]
# Densities are in millionths per km/s, with 90% bands. At 17,000 and 20,000 the estimates of the chains lie outside the bands of the search.
#
# ## A start of chains
#
# `init="ibhc"` begins every chain at the trees of `"ibhc"`, before these are joined, in a random order of its own; `init="ibhc_noisy"` puts
# rows on top of trees, which are not split again. Toy data like those of the paper, 1,300 points of 13 groups, of which some overlap; the
# first iterations of Gibbs sampling, two chains from each start:

# %%
X, truth = nm.datasets.simulate_toy(rng=1)
toy = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.lee_choi_base(X))
ax = plt.figure(figsize=(6, 3), layout="constrained").subplots()
for color, init in enumerate(("one", "each", "sequential", "ibhc_noisy", "ibhc")):
    short = toy.fit("gibbs", draws=40, tune=0, chains=2, init=init, rng=1)
    ax.plot(np.arange(1, 41), short.draws["log_joint"].T, color=f"C{color}", label=[init, None], lw=1)
ax.set(xlabel="iteration", ylabel="log joint", ylim=(-2700, -1300))
ax.legend()

# %% [markdown]
# A start has no bearing on what a chain converges to, but chains with starts that are alike can agree before they have converged. Number of
# clusters, the mean of each of four chains:

# %%
for method in ("gibbs", "split_merge", "tree"):
    for init in ("one", "ibhc"):
        fit = toy.fit(method, draws=1000, tune=500, thin=5, init=init, rng=1)
        rhat = fit.diagnostics().loc["n_clusters", "rhat"]
        print(f"{method:11} from {init:4} {fit.draws['n_clusters'].mean(axis=1).round(1)} R-hat {rhat:.2f}")

# %% [markdown]
# Gibbs sampling rarely parts a pair of groups that it has joined at the beginning. Its chains have fewer clusters than the others, by numbers
# that differ, and the warnings say so. A shorter run would not show it: R-hat sees nothing of what no chain has visited.
#
# ## Tree-guided MCMC
#
# `method="tree"` is a list of two moves, `nm.TreeGuided()` and Gibbs sampling; `"auto"` takes it for mixtures that it suits of 500 rows
# or more, or three responses or more. In a global move a cluster is drawn, and every other one joins it with odds that fall with the
# dissimilarity d. Where some join, their union is proposed. Where none does, a split of the cluster along its tree is proposed, in one of
# two ways that are drawn beforehand. In the first, the subtrees that hang from the path to a node of the tree are put into two or more blocks. In the
# second, two members are drawn, each begins a cluster with what is nearest to it on its side of the tree, and restricted Gibbs scans follow. After
# the global moves the leaves of a subtree are visited by Gibbs sampling.
#
# A proposal is accepted with a probability that has to count every way to propose it and every way to undo it. That is possible because all
# trees come from one guide tree over all rows, which is grown from the data in a random order and never from the partition. The tree of a
# cluster is the restriction of the guide tree to its rows, so it is a function of the cluster, and all probabilities of proposals are
# functions of partitions. The guide tree is made anew in another order after `refresh` global moves, a number that does not depend on what
# was accepted; its constants follow the chain in tuning and are kept afterwards. [Exactness](exactness.md) and the tests compare the draws with
# enumeration.
#
# ### Two modes
#
# Fourteen groups of 40 points in five dimensions, two of them 5.6 standard deviations apart. One cluster of these two is about as probable as
# two, and what lies halfway is not:

# %%
groups = np.repeat(np.arange(14), 40)
means = np.zeros((14, 5))
means[:, 0], means[:, 1] = 10.0 * (np.arange(14) % 4), 10.0 * (np.arange(14) // 4)
means[13] = means[12] + [5.6, 0, 0, 0, 0]
Y = means[groups] + np.random.default_rng(1).normal(size=(560, 5))
family = nm.Gaussian(m=Y.mean(axis=0), r=0.01, nu=8.0, scale=np.eye(5))
far = nm.Model(data=Y, prior=nm.DirichletProcess(1.0), family=family)

two, one, half = groups, np.where(groups == 13, 12, groups), np.where(np.arange(560) >= 540, 12, groups)
{"two": round(far.log_joint(two), 1), "one": round(far.log_joint(one), 1), "halfway": round(far.log_joint(half), 1)}

# %% [markdown]
# Four chains that start with two clusters: switches from one answer to the other, and the share of the draws in which the two groups are
# one cluster.

# %%
def modes(fit, a, b):
    """Of each draw, whether most pairs of a row of a and one of b share a cluster."""
    labels = fit.draws["labels"]
    return (labels[:, :, a, None] == labels[:, :, None, b]).mean(axis=(2, 3)) > 0.5


def compare(model, methods, start, a, b):
    for name, method in methods.items():
        fit = model.fit(method, draws=1000, tune=500, thin=10, init=start, rng=1, cores=1)
        one = modes(fit, a, b)
        switches = (one[:, 1:] != one[:, :-1]).sum(axis=1)
        print(f"{name:11} switches of each chain {switches}, {fit.seconds:.1f} s, one cluster in {one.mean():.2f} of the draws")
    return fit


methods = {"gibbs": "gibbs", "split_merge": "split_merge", "tree": "tree"}
fit = compare(far, methods, groups, np.arange(480, 500), np.arange(520, 540))

# %% [markdown]
# The four Gibbs chains agree with one another, never leave the answer that they start from, and get no warning: begin chains in different ways.
# The proposals of the last fit, and how many were accepted:

# %%
fit.proposals().round(3)

# %% [markdown]
# Most splits are refused, as they should be: twelve of the fourteen groups are clusters beyond doubt.
#
# Nearer clusters are easier for Gibbs sampling and split-merge too. Twelve groups in the plane, and a thirteenth 3.5 standard deviations
# from the first:

# %%
groups = np.repeat(np.arange(13), 40)
rng = np.random.default_rng(0)
means = 8.0 * rng.normal(size=(12, 2))
means = np.vstack([means, means[0] + [2.1, 0.0]])
near = nm.Model(data=means[groups] + 0.6 * rng.normal(size=(520, 2)), prior=nm.DirichletProcess(1.0))
_ = compare(near, methods, groups, np.arange(20), np.arange(480, 500))

# %% [markdown]
# An iteration of `"tree"` takes longer than one of the others, which is to be set against the switches.
# `python -m benchmarks.trees modes` counts switches in a second of CPU time for these and other pairs of clusters, `toy` and `large` the time
# to the mode and how the number of clusters mixes.
#
# ## The sampler as published
#
# `nm.PublishedTreeGuided()` is tree-guided MCMC as Lee & Choi (2015) describe it. It is there to be compared with, for its draws do not follow
# the posterior, and every summary and report of it says so:

# %%
published = galaxy.fit("tree_published", draws=1000, tune=500, thin=5, rng=1)
print(published.summary().as_text().rsplit("=" * 20, 1)[1].lstrip("="))

# %% [markdown]
# There are three causes, each of which the option `repaired` removes by its name. The local moves redraw the clusters of observations below nodes that
# are drawn from the current trees, so that the choice of observations depends on what they change (`"subset"`). The trees depend on the past of the
# chain, and the reverse of a proposal starts from other trees (`"tree"`). A merge can be proposed from each of its clusters, and the forward
# probability counts only one of them (`"first_pick"`). [Tree-guided MCMC](papers/tree_guided.md) has the total variation distance of the draws from
# the posterior for each repair: with all three it is within Monte Carlo error.
#
# ## Limits
#
# - Searches, starts by trees and `nm.TreeGuided()` are for every prior, and families whose component parameters are integrated out and which
#   can add clusters to one another: not for `nm.SemiconjugateGaussian`. Searches and starts by trees are for mixtures alone.
# - Searches refuse a family whose missing cells are drawn, for they draw nothing; `nm.TreeGuided()` takes it.
# - `"bhc"` compares all pairs, and takes at most 20,000 rows; the time of a pass of `"ibhc"` grows with the square of the size of the largest
#   clusters.
# - The result of a search is saved by `search.save(path)`, and `init=search.labels` begins chains at it.
# - `nm.PublishedTreeGuided()` runs alone, in no list of moves, with `nm.DirichletProcess`, `nm.NGGP` or `nm.NormalizedInverseGaussian`.
