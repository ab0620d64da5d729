"""Samplers: the moves, lists of them, and how well they mix.  `make docs` runs this script and writes docs/samplers.md."""

# %% [markdown]
# # Samplers
#
# Every sampler is a move on the partition, or a list of moves that take turns; hyperparameters are updated once in every iteration.
# All in the table leave the same posterior as it is, so any of them can be combined, and each is tested against exact posteriors
# ([Exactness](exactness.md)). What differs is how fast they get around.
#
# | move | what it does | source |
# |---|---|---|
# | `nm.Gibbs()` | one observation at a time, parameters integrated out; `subset=m` visits m of them drawn at random | Neal 2000; Favaro & Teh 2013 |
# | `nm.SplitMerge()` | parts a cluster or joins two, by restricted Gibbs scans or sequential allocation | Jain & Neal 2004; Dahl 2003 |
# | `nm.Slice()` | draws weights and parameters of the random measure, then all labels at once | Griffin & Walker 2011 |
# | `nm.Permutation()` | puts the data in an order, then draws a whole partition into segments of it by dynamic programming | Liang, Jordan & Taskar 2007 |
# | `nm.Blocked()` | of a finite mixture: draws weights and parameters of all components, then all labels at once | Ishwaran & James 2001 |
# | `nm.SNGP()` | of density regression: draws the size of every region of covariates, then tables within regions | Rao & Teh 2009 |
# | `nm.TreeGuided()` | splits clusters along trees and merges like ones: [Trees](trees.md) | after Lee & Choi 2015 |
#
# `nm.PublishedTreeGuided()`, the tree-guided sampler as published, does not leave the posterior as it is; it runs alone and says so.
#
# A method is a name, a move or a list. `"auto"`, the default, is `"tree"` for mixtures that it suits of 500 rows or more, or of three
# responses or more (`"split_merge"` where trees do not fit into memory), and `"gibbs"` otherwise; `"bhc"` and `"ibhc"` are searches for
# one partition.

# %%
from time import process_time

import matplotlib.pyplot as plt
import numpy as np

import nrmmix as nm

galaxy = nm.datasets.load_galaxy()
model = nm.Model("velocity_km_s ~ 1", galaxy, prior=nm.NGGP())
print(model.methods()[["moves"]].to_string(max_colwidth=90))

# %% [markdown]
# Whether they suit depends on the model; the error message of a method that does not suit says which do.

# %%
mcycle = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle())
print(mcycle.methods()["suits"].to_string())
try:
    mcycle.fit("permutation")
except ValueError as error:
    print(error)

# %% [markdown]
# ## Lists of moves
#
# A list is run in order in every iteration. With `share="work"` cheap moves are called more often, as long as all calls of one together
# score no more observations against clusters than the costliest move; how often is measured while tuning and then kept.

# %%
cycle = nm.Cycle([nm.SplitMerge(), nm.Slice(), nm.Gibbs(subset=20)], share="work")
fit = model.fit(cycle, draws=2000, tune=500, rng=1)
fit.proposals().round(3)

# %% [markdown]
# `calls` is the mean number of calls in an iteration. Acceptance rates and log Metropolis-Hastings ratios are also rows of `fit.diagnostics()`, and
# the summary has them:

# %%
print(fit.summary())

# %% [markdown]
# ## Where Gibbs sampling is stuck
#
# Fifty points in eleven dimensions, in two groups, and chains that start from one cluster. One observation at a time cannot leave it: a new
# cluster of one, two or three points is worse than none. A split can, and so can a partition drawn as a whole.

# %%
rng = np.random.default_rng(1)
X = rng.normal(size=(50, 11)) + np.repeat([[10.0], [-10.0]], 25, axis=0) / np.sqrt(11)
two = nm.Model(data=X, prior=nm.DirichletProcess(1.0))
methods = {
    "Gibbs": "gibbs",
    "split-merge + Gibbs": "split_merge",
    "permutation + Gibbs": [nm.Permutation(order="projection", beam=1e-32), nm.Gibbs()],
}
fig, axes = plt.subplots(1, 3, figsize=(10, 2.6), sharey=True, layout="constrained")
for ax, (name, method) in zip(axes, methods.items(), strict=True):
    tune = 100 if "permutation" in name else 0
    fit = two.fit(method, draws=300, tune=tune, chains=4, init="one", rng=1)
    ax.plot(tune + np.arange(300), fit.draws["n_clusters"].T, lw=1)
    ax.set(title=name, xlabel="iteration", yticks=[1, 2, 3])
axes[0].set_ylabel("number of clusters")
fig

# %% [markdown]
# The order along a random direction (`order="projection"`) has no known probability, so it searches: it is used while tuning and never for draws
# (the right panel begins after 100 iterations of tuning); afterwards the order is uniform, and such moves rarely change anything here, while
# split-merge goes on between two and three clusters. In `order="markov"` each observation follows one it resembles, with a probability that
# is known.
#
# ## How fast
#
# Burn-in on 10,000 points in 40 dimensions with known covariance, as in Liang, Jordan & Taskar (2007, figure 3): CPU time of one core against the
# log joint. `python -m benchmarks.burn_in --to docs` draws this picture.
#
# ![Burn-in of four hybrids](burn_in.png)
#
# All hybrids with split-merge or permutation moves reach the truth; Gibbs sampling alone does only when every point begins as its own
# cluster, and is stuck on the way otherwise. Permutation moves get there two to four times sooner than split-merge where there are 40 clusters
# or more, and all three together are about as fast.
#
# ## Mixing
#
# Effective draws of the number of clusters on the galaxy velocities in a second of CPU time, medians of five seeds:

# %%
prior = nm.DirichletProcess(1.0)
galaxies = nm.Model("velocity_km_s ~ 1", galaxy, prior=prior)
rates = {}
for method in ("gibbs", "split_merge", "slice", "permutation", "tree"):
    rows, seconds = [], []
    for seed in range(5):
        began = process_time()
        fit = galaxies.fit(method, draws=5000, tune=500, chains=2, cores=1, rng=seed)
        seconds.append(process_time() - began)
        rows.append(fit.diagnostics().loc["n_clusters"])
    rates[method] = np.median([row["ess"] / each for row, each in zip(rows, seconds, strict=True)])
    print(
        f"{method:12} autocorrelation time {np.median([row['iact'] for row in rows]):4.0f} iterations, "
        f"effective draws a second {rates[method] / rates['gibbs']:.2f} of Gibbs"
    )

# %% [markdown]
# On data as small as these Gibbs sampling needs no help: split-merge, permutation and tree-guided moves shorten the autocorrelation time, but
# cost more than they gain (an iteration of `"tree"` has several Gibbs sweeps). The slice sampler moves labels given parameters, which holds
# clusters in place. Take `"tree"` or `"split_merge"` where clusters are far apart or many, or where chains disagree; begin with random
# projections where the start is bad. [Trees](trees.md) has two examples in which Gibbs chains do not get from one mode to another.
#
# ## Density regression
#
# DENSITY
#
# ## Limits
#
# - `nm.Slice()` skips an iteration where more than `max_atoms` atoms would be needed on average, which happens for large sigma, many
#   observations or a large mass; that is exact, but nothing moves then. A fit that skipped more than a fifth gives a warning. Gibbs-type priors of one's own have no random measure to draw: not for `nm.Slice()`.
# - `nm.Permutation()` without a beam takes a time that grows with the square of the number of observations (`dynamic_program="table"`: with its
#   cube). A beam makes that about linear; moves whose old partition is outside the beam stay, which keeps the sampler exact, but it needs another
#   move beside it. Without a table, its first few moves may be refused: tuning finds how many clusters to propose, and Gibbs moves beside it help.
# - Split-merge, permutation, tree-guided moves and `nm.SNGP()` need parameters that are integrated out, so `nm.SemiconjugateGaussian` runs
#   with Gibbs, slice and, for a finite mixture, blocked sampling.
# - `nm.Permutation()` and searches by trees are for mixtures alone; `nm.SNGP()` is for density regression by a Dirichlet process.
