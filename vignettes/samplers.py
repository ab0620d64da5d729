"""Samplers: the moves, lists of them, and how well they mix.  `make docs` runs this script and writes docs/samplers.md."""

# %% [markdown]
# # Samplers
#
# **Which sampler should I take?** The default, `"auto"`, chooses by the model; take another where its chains disagree. A sampler is a move
# on the partition, or a list of moves that take turns; hyperparameters are updated once in every iteration. Every move of the table leaves
# the posterior invariant, so any of them can be combined, and each is tested against exact posteriors ([Exactness](exactness.md)). They
# differ in how fast they move between partitions.
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
# A method is a name, a move or a list. `"auto"`, the default, is `"split_merge"` for density regression. For mixtures of 500 rows or more,
# of three responses or more, or with a tied covariance, it is `"tree"`, or `"split_merge"` where trees would take too long or too much
# memory; for fewer rows of two responses it is `"split_merge"`; for fewer rows of one, and where neither suits, it is `"gibbs"`.
# `"bhc"` and `"ibhc"` are searches for one partition.

# %%
from time import process_time

import matplotlib.pyplot as plt
import numpy as np

import nrmmix as nm

galaxy = nm.datasets.load_galaxy()
model = nm.Model("velocity_km_s ~ 1", galaxy, prior=nm.NGGP())
print(model.methods()[["moves"]].to_string(max_colwidth=90))

# %% [markdown]
# Which methods suit depends on the model: the column `suits` says so, and the error message of a method that does not suit names those that do.

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
# Burn-in on 10,000 points in 40 dimensions with known covariance, as in Liang, Jordan & Taskar (2007, figure 3), is on the page
# [Permutation moves](papers/permutation.md), with pictures and times.
#
# All hybrids with split-merge or permutation moves reach the truth. Gibbs sampling alone does so only when every point begins as its own cluster,
# and is stuck on the way otherwise. In 40 dimensions and with 40 clusters or more, permutation moves get there sooner than split-merge, and all
# three together about as soon; in ten dimensions split-merge is faster.
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
# Gibbs sampling needs little help on data as small as these: split-merge, permutation and tree-guided moves shorten the autocorrelation time,
# but the first two gain nothing for what they cost, and the last not much (an iteration of `"tree"` has several Gibbs sweeps). The slice sampler moves labels given parameters, which holds
# clusters in place. Take `"tree"` or `"split_merge"` where clusters are far apart or many, or where chains disagree; where the start is bad, add
# `nm.Permutation(order="projection")` for the tuning. [Trees](trees.md) has two examples in which Gibbs chains do not get from one mode to another.
#
# ## Density regression
#
# Gibbs, split-merge and tree-guided moves have the locations of atoms integrated out; slice, blocked and SNGP sampling, the samplers that
# Foti and Williamson (2012) compare, draw them. All are exact for the same posterior, except with the finite measures, which are another
# prior.

# %%
import pandas as pd
from scipy.stats import norm

from nrmmix.report.recorded import recorded

measured = recorded("kernel_samplers")
told, runs = measured["settings"], pd.DataFrame(measured["results"]["runs"])
runs["data"] = runs["data"].replace("synthetic", "simulated")
mean = runs.groupby(["data", "kernel", "sampler"], sort=False).mean(numeric_only=True)
columns = {"score": ".2f", "clusters": ".1f", "tau_clusters": ".0f", "tau_joint": ".0f", "seconds_100": ".3f", "ess_clusters": ".0f", "ess_score": ".0f"}
lines = [
    "| data and kernel | sampler | score | clusters | τ clusters | τ log joint | s / 100 sweeps | ESS clusters | ESS score |", "|---" * 9 + "|",
]
for (data, kernel, sampler), row in mean.iterrows():
    lines.append(" | ".join([f"| {data}, {kernel}", sampler, *(format(row[name], form) for name, form in columns.items())]) + " |")
as_table, uncentred = "\n".join(lines), measured["results"]["uncentred"][0]["tau"]
apart = np.ptp(mean.loc[("microwave background", "box"), "score"].drop(["gibbs, 100 atoms", "blocked, 100 atoms"]))
agreed = recorded("kernel_agreement")
others = pd.DataFrame(agreed["results"]["agreement"]).set_index(["kernel", "sampler"])["apart"].drop(["gibbs", "gibbs, 100 atoms"], level=1)
differences = np.concatenate(others.to_list())
farthest = ", ".join(f"{max(map(max, found)):.1f} ({kernel})" for kernel, found in others.groupby(level=0, sort=False))
beyond = others.map(lambda found: sum(one > 2 for one in found))
most, expected = beyond.idxmax(), 2 * norm.sf(2) * len(differences)


def gain(sampler, on_motorcycle):
    """Effective draws a second beside those of Gibbs: the least and the most over data and kernels."""
    draws = mean["ess_clusters"].unstack()
    ratio = (draws[sampler] / draws["gibbs"])[(draws.index.get_level_values("data") == "motorcycle") == on_motorcycle]
    return f"{ratio.min():.1f} to {ratio.max():.1f}"


# %% [prose]
# The settings are those of the paper: {told["splits"]} splits of the motorcycle data, of simulated mixtures that change with time, and of
# the cosmic microwave background at 18 multipole moments, which does not come with the package. Components are normal, with known variance
# in the last two. Chains have {told["sweeps"]:,} sweeps after {told["tune"]:,}
# (`python -m benchmarks.kernel_samplers --splits {told["splits"]}`). A score is the log of the mean density over draws, averaged over
# held-out rows; τ is the autocorrelation time in sweeps, of the number of clusters and of the log joint. Effective draws (ESS) of the
# number of clusters and of the score are those of a second of CPU time.
#
# {as_table}
#
# The samplers agree on scores and clusters, but on the microwave background with a box: there scores of one model differ by up to
# {apart:.2f}, which says that single chains of this length have not converged. A τ of 100 or more means at most 40 effective draws. A sweep
# of slice sampling takes no more time than one of Gibbs, and slice and blocked sampling lose by what they draw: components and locations.
# Effective draws of the number of clusters beside those of Gibbs: split-merge (a sequential proposal, a Gibbs sweep and a relocation of
# atoms) has {gain("split_merge", True)} times as many on the motorcycle data and {gain("split_merge", False)} times on the others;
# tree-guided moves have {gain("tree", True)} and {gain("tree", False)} times. None is best on all of these data; `"auto"` is this
# split-merge cycle, which does well with the default kernel, that of widths of atoms.
#
# On one split of the motorcycle data, with each of the {len(others.index.levels[0])} kernels, {agreed["settings"]["chains"]} chains of each
# sampler, {agreed["settings"]["sweeps"]:,} sweeps in all, gave posterior means of the number of clusters, of the mass and of the held-out
# score. That makes {len(differences)} differences from Gibbs; measured in their Monte Carlo errors they are at most {farthest}. Among as
# many independent normal values {expected:.1f} would be beyond 2 on average; here there are {beyond.sum()}, {beyond.max()} of them the
# three means, which move together, of {most[1]} with the kernel {most[0]}
# (`python -m benchmarks.kernel_samplers --agreement --only motorcycle`). [Exactness of density regression](exactness_regression.md)
# compares all of them with exact posteriors of four observations.
#
# The paper reports -0.90 and -1.19 (slice and finite, box) and -0.87 and -0.99 (SE) on the motorcycle data, -2.67 to -2.78 on its simulated
# data, whose means it does not state, and -0.15 to -0.41 on the microwave background, which we do not reach. Its autocorrelation times of
# 2,159 to 2,497 say nothing of mixing: of a number that is not centred, 5,000 independent draws have {uncentred:,.0f}.
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
