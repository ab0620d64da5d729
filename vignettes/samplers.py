"""Samplers: the moves, lists of them, and how well they mix.  `make docs` runs this script and writes docs/samplers.md."""

# %% [markdown]
# # Samplers
#
# A sampler is a move on the partition, or a list of moves that take turns; hyperparameters are updated once in every iteration.
# Every move of the table leaves the posterior invariant, so any of them can be combined, and each is tested against exact posteriors
# ([Exactness](exactness.md)). They differ in how fast they move between partitions.
#
# | move | what it does | source |
# |---|---|---|
# | `nm.Gibbs()` | one observation at a time, parameters integrated out; `subset=m` visits m of them drawn at random | Neal 2000; Favaro & Teh 2013 |
# | `nm.SplitMerge()` | parts a cluster or joins two, by restricted Gibbs scans or sequential allocation | Jain & Neal 2004; Dahl 2003 |
# | `nm.Slice()` | draws weights and parameters of the random measure, then all labels at once | Griffin & Walker 2011 |
# | `nm.Permutation()` | puts the data in an order, then draws a whole partition into segments of it by dynamic programming | Liang, Jordan & Taskar 2007 |
# | `nm.Blocked()` | of a finite mixture: draws weights and parameters of all components, then all labels at once | Ishwaran & James 2001 |
# | `nm.SNGP()` | of density regression: draws the size of every region of covariates, then tables within regions | Rao & Teh 2009 |
# | `nm.Relocation()` | of density regression, beside `nm.Gibbs()`, last in the default of one covariate: three clusters' atoms get other locations and weights with labels integrated out, then all labels are drawn | [Exactness](exactness_regression.md) |
# | `nm.TreeGuided()` | splits clusters along trees and merges like ones: [Trees](trees.md) | after Lee & Choi 2015 |
#
# `nm.PublishedTreeGuided()`, the tree-guided sampler as published, does not leave the posterior invariant; it runs alone and says so.
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
# Which of them suit depends on the model; the error message of a method that does not suit names those that do.

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
# score no more observations against clusters than the costliest move; the number of calls is measured in tuning and then kept.

# %%
cycle = nm.Cycle([nm.SplitMerge(), nm.Slice(), nm.Gibbs(subset=20)], share="work")
fit = model.fit(cycle, draws=2000, tune=1000, thin=3, rng=1)
fit.proposals().round(3)

# %% [markdown]
# `calls` is the mean number of calls in an iteration. Acceptance rates and log Metropolis-Hastings ratios are also rows of `fit.diagnostics()`, and
# the summary has them:

# %%
print(fit.summary())

# %% [markdown]
# ## Where Gibbs sampling is stuck
#
# Chains start here with fifty points of two groups, in eleven dimensions, in one cluster. Moves of one observation at a time cannot leave it,
# because a new cluster of one, two or three points is less probable than none. A split can, and so can a partition drawn as a whole.

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
    fit = two.fit(method, draws=90, tune=tune, chains=4, init="one", rng=1)
    ax.plot(tune + np.arange(90), fit.draws["n_clusters"].T, lw=1)
    ax.set(title=name, xlabel="iteration", yticks=[1, 2, 3])
axes[0].set_ylabel("number of clusters")
fig

# %% [markdown]
# The order along a random direction (`order="projection"`) has no known probability, so it only searches: it is used in tuning and never for draws
# (the right panel begins after 100 iterations of tuning). Afterwards the order is uniform, and such moves rarely change anything here. In
# `order="markov"` each observation follows one it resembles, with a known probability.
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
# Effective draws of the number of clusters on the galaxy velocities in a second of CPU time, medians of three seeds:

# %%
prior = nm.DirichletProcess(1.0)
galaxies = nm.Model("velocity_km_s ~ 1", galaxy, prior=prior)
rates = {}
for method in ("gibbs", "split_merge", "slice", "permutation", "tree"):
    rows, seconds = [], []
    for seed in range(3):
        began = process_time()
        fit = galaxies.fit(method, draws=20_000, tune=500, chains=2, cores=1, rng=seed)
        seconds.append(process_time() - began)
        rows.append(fit.diagnostics().loc["n_clusters"])
    rates[method] = np.median([row["ess"] / each for row, each in zip(rows, seconds, strict=True)])
    print(
        f"{method:12} autocorrelation time {np.median([row['iact'] for row in rows]):4.0f} iterations, "
        f"effective draws a second {rates[method] / rates['gibbs']:.2f} of Gibbs"
    )

# %% [markdown]
# Gibbs sampling needs no help on data as small as these: split-merge, permutation and tree-guided moves shorten the autocorrelation time, but
# gain little or nothing for what they cost (an iteration of `"tree"` has several Gibbs sweeps). The slice sampler moves labels given parameters, which holds
# clusters in place. Take `"tree"` or `"split_merge"` where clusters are far apart or many, or where chains disagree; begin with random
# projections where the start is bad. [Trees](trees.md) has two examples in which Gibbs chains do not get from one mode to another.
#
# ## Density regression
#
# Gibbs, split-merge and tree-guided moves have the locations of atoms integrated out; slice, blocked and SNGP sampling, the samplers that Foti and
# Williamson (2012) compare, draw them. Each is exact for the same posterior, but for the finite measures, whose prior is another.
# The settings of the paper: three splits of the motorcycle data, of simulated mixtures that change with
# time, and of the cosmic microwave background at 18 multipole moments; normal components, of known variance in the last two; 4,000 sweeps
# after 1,000 (`python -m benchmarks.kernel_samplers --splits 3`). Scores are mean log densities of held-out rows, of the mean density over
# draws; τ is in sweeps, of the number of clusters and of the log joint; effective draws (ESS), of the number of clusters and of the score, are
# those of a second of CPU time.
#
# | data and kernel | sampler | score | clusters | τ clusters | τ log joint | s / 100 sweeps | ESS clusters | ESS score |
# |---|---|---|---|---|---|---|---|---|
# | motorcycle, box | gibbs | -0.36 | 7.8 | 65 | 32 | 0.050 | 33 | 47 |
# |  | split_merge | -0.33 | 8.0 | 40 | 14 | 0.051 | 51 | 44 |
# |  | tree | -0.32 | 7.7 | 71 | 14 | 0.057 | 41 | 69 |
# |  | slice | -0.35 | 7.8 | 232 | 51 | 0.040 | 13 | 47 |
# |  | sngp | -0.37 | 7.6 | 240 | 47 | 0.049 | 11 | 24 |
# |  | gibbs, 100 atoms | -0.35 | 7.9 | 138 | 35 | 0.128 | 6 | 12 |
# |  | blocked, 100 atoms | -0.34 | 7.9 | 156 | 46 | 0.119 | 6 | 19 |
# | motorcycle, SE | gibbs | -0.45 | 7.8 | 35 | 20 | 0.060 | 50 | 58 |
# |  | split_merge | -0.44 | 7.7 | 51 | 21 | 0.061 | 41 | 54 |
# |  | tree | -0.45 | 7.7 | 28 | 8 | 0.134 | 39 | 52 |
# |  | slice | -0.46 | 7.9 | 245 | 126 | 0.055 | 8 | 19 |
# |  | sngp | -0.44 | 7.8 | 65 | 34 | 0.060 | 30 | 60 |
# |  | gibbs, 100 atoms | -0.44 | 7.6 | 42 | 22 | 0.131 | 18 | 29 |
# |  | blocked, 100 atoms | -0.45 | 7.6 | 112 | 64 | 0.129 | 8 | 21 |
# | motorcycle, widths of atoms | gibbs | -0.51 | 7.5 | 46 | 26 | 0.091 | 34 | 46 |
# |  | split_merge | -0.52 | 7.2 | 19 | 10 | 0.085 | 70 | 36 |
# |  | tree | -0.51 | 7.1 | 27 | 13 | 0.128 | 37 | 28 |
# |  | slice | -0.53 | 7.3 | 123 | 59 | 0.073 | 14 | 20 |
# |  | sngp | -0.51 | 7.1 | 65 | 33 | 0.089 | 36 | 38 |
# |  | gibbs, 100 atoms | -0.51 | 7.0 | 49 | 30 | 0.215 | 14 | 11 |
# |  | blocked, 100 atoms | -0.52 | 6.9 | 77 | 51 | 0.208 | 7 | 7 |
# | simulated, box | gibbs | -3.12 | 17.7 | 32 | 56 | 0.050 | 70 | 68 |
# |  | split_merge | -3.12 | 17.3 | 23 | 32 | 0.051 | 101 | 71 |
# |  | tree | -3.12 | 17.6 | 34 | 48 | 0.075 | 46 | 62 |
# |  | slice | -3.12 | 18.0 | 107 | 172 | 0.031 | 33 | 69 |
# |  | sngp | -3.12 | 17.7 | 31 | 62 | 0.046 | 71 | 44 |
# |  | gibbs, 100 atoms | -3.12 | 17.3 | 40 | 61 | 0.058 | 44 | 58 |
# |  | blocked, 100 atoms | -3.12 | 16.6 | 63 | 96 | 0.060 | 27 | 18 |
# | simulated, SE | gibbs | -3.13 | 15.2 | 243 | 200 | 0.063 | 13 | 67 |
# |  | split_merge | -3.13 | 16.3 | 196 | 127 | 0.071 | 8 | 59 |
# |  | tree | -3.13 | 15.7 | 242 | 133 | 0.088 | 26 | 43 |
# |  | slice | -3.13 | 17.8 | 271 | 258 | 0.033 | 18 | 49 |
# |  | sngp | -3.12 | 17.0 | 98 | 75 | 0.043 | 42 | 102 |
# |  | gibbs, 100 atoms | -3.13 | 15.0 | 191 | 117 | 0.059 | 25 | 62 |
# |  | blocked, 100 atoms | -3.13 | 15.4 | 322 | 168 | 0.054 | 7 | 35 |
# | microwave background, box | gibbs | -0.72 | 29.6 | 20 | 30 | 0.086 | 59 | 80 |
# |  | split_merge | -0.65 | 30.0 | 22 | 143 | 0.083 | 55 | 76 |
# |  | tree | -0.64 | 30.0 | 23 | 37 | 0.125 | 39 | 59 |
# |  | slice | -0.65 | 30.0 | 93 | 126 | 0.042 | 29 | 57 |
# |  | sngp | -0.69 | 29.9 | 31 | 36 | 0.057 | 58 | 154 |
# |  | gibbs, 100 atoms | -0.61 | 30.0 | 20 | 33 | 0.088 | 60 | 76 |
# |  | blocked, 100 atoms | -0.62 | 29.7 | 64 | 166 | 0.068 | 27 | 47 |
# | microwave background, SE | gibbs | -0.53 | 32.7 | 33 | 25 | 0.114 | 41 | 100 |
# |  | split_merge | -0.53 | 32.7 | 21 | 20 | 0.120 | 46 | 58 |
# |  | tree | -0.53 | 32.2 | 17 | 17 | 0.122 | 55 | 71 |
# |  | slice | -0.53 | 31.5 | 53 | 81 | 0.040 | 52 | 82 |
# |  | sngp | -0.53 | 32.3 | 19 | 24 | 0.046 | 120 | 162 |
# |  | gibbs, 100 atoms | -0.53 | 31.1 | 22 | 20 | 0.119 | 38 | 78 |
# |  | blocked, 100 atoms | -0.53 | 31.3 | 37 | 43 | 0.057 | 50 | 112 |
#
# The samplers agree on scores and clusters, but on the microwave background with a box: there scores of one model differ by up to 0.08, which
# says that single chains of this length have not converged. A τ of 100 and more means fewer than 40 effective draws. A sweep of slice sampling
# takes no more time than one of Gibbs, and slice and blocked sampling lose by what they draw: components and locations. Split-merge (three
# sequential proposals and a Gibbs sweep) gains most where atoms have widths of their own, twice the effective draws of Gibbs, and costs
# little; tree-guided moves take longer. None is best on all of these data; `"auto"` is split-merge with Gibbs, for the widths of atoms are the
# default.
#
# On one split of the motorcycle data, four chains with 20,000 sweeps of each sampler agree on the posterior means of the number of clusters, of
# the mass and of the held-out score, with both kernels of the table that have one width: no sampler differs from Gibbs by more than 1.6 Monte
# Carlo errors (`python -m benchmarks.kernel_samplers --agreement --only motorcycle`). [Exactness of density
# regression](exactness_regression.md) compares all of them with exact posteriors of four observations.
#
# The paper reports -0.90 and -1.19 (slice and finite, box) and -0.87 and -0.99 (SE) on the motorcycle data, -2.67 to -2.78 on its simulated
# data, whose means it does not state, and -0.15 to -0.41 on the microwave background, which we do not reach. Its autocorrelation times of
# 2,159 to 2,497 say nothing of mixing: of a number that is not centred, 5,000 independent draws have 2,306.
#
# ## Limits
#
# - `nm.Slice()` skips an iteration where more than `max_atoms` atoms would be needed on average, which happens for large sigma, many
#   observations or a large mass; that is exact, but nothing moves then. A fit that skipped more than a fifth gives a warning. It does not take
#   Gibbs-type priors of one's own, which have no random measure to draw.
# - `nm.Permutation()` without a beam takes a time that grows with the square of the number of observations (`dynamic_program="table"`: with its
#   cube). A beam makes that about linear; moves whose old partition is outside the beam stay, which keeps the sampler exact, but it needs another
#   move beside it. Without a table, its first few moves may be refused: tuning finds how many clusters to propose, and Gibbs moves beside it help.
# - Split-merge, permutation, tree-guided moves and `nm.SNGP()` need parameters that are integrated out, so `nm.SemiconjugateGaussian` runs
#   with Gibbs, slice and, for a finite mixture, blocked sampling.
# - `nm.Permutation()` and searches by trees are for mixtures alone; `nm.SNGP()` is for density regression by a Dirichlet process.
# - `nm.Blocked()` draws the locations of all atoms. Atoms at given places would be another prior, which the package does not have.
