"""Density regression by variational inference, measured.  `make vignettes` writes docs/papers/variational_regression.md by it."""

# %% [markdown]
# # Density regression of many rows
#
# Chains of a density regression draw from the posterior, and they take long for many rows. Variational inference finds, in seconds, an
# approximation of it, and goes through a million rows. This page says how well it predicts beside chains, what its bands are worth, and
# what a row costs. Figures are those of `benchmarks/variational_regression.py` and `benchmarks/several_covariates.py`.
#
# ## A fit

# %%

import numpy as np
import pandas as pd

import nrmmix as nm
from nrmmix.report.recorded import recorded

rng = np.random.default_rng(1)
n = 1500
data = pd.DataFrame({"x": rng.uniform(-2, 2, n), "t": rng.standard_normal(n), "group": rng.choice(["a", "b", "c"], n)})
data["y"] = np.sin(2 * data["x"]) + np.where(data["group"] == "a", 1.0, 0.0) + np.where(data["x"] > 0, 0.4, 0.1) * rng.standard_normal(n)
fit = nm.fit("y ~ x + t + group", data, method="vb", rng=1)
fit

# %%
fit.importance(draws=50).iloc[:, :9].round(2)

# %%
fit.plot("effects", draws=100)

# %% [markdown]
# The model is that of chains with the finite measure of M components (40, or 100 beyond 2,000 rows), each with its own code of the kernel.
# Weights, mass, allocations and parameters have a law; codes, shrinkage and noise scale are points. A start cuts the covariates where that
# raises the marginal likelihood, then all factors are improved in turn, and none of these steps lowers the bound. The bound is a poor guide
# between optima, so predictions average over several starts, weighted by how well they predict rows that are left out (stacking).
#
# ## Held-out scores

# %%
found, chains = recorded("variational_regression"), recorded("several_covariates")
runs = pd.DataFrame(found["results"]["runs"])
of_chains = pd.DataFrame(chains["results"]["runs"]).query("method == 'nrmmix'")
ways = ["stacking", "equal", "best", "one start"]
mean = runs.groupby(["table", "how"]).mean(numeric_only=True)
tables = list(dict.fromkeys(runs["table"]))
lines = ["| table | rows | covariates | " + " | ".join(ways) + " | chains | CPU s, all starts |", "|---" * (5 + len(ways)) + "|"]
lost = []
for table in tables:
    first, own = runs[runs["table"] == table].iloc[0], of_chains[of_chains["table"] == table]
    values = [mean.loc[(table, way), "log density"] for way in ways]
    beside = own[own["split"].isin(runs.loc[runs["table"] == table, "split"])]["log density"].mean()
    lost.append(beside - values[0])
    cells = [table, f"{first['rows']:,}", str(first["covariates"]), *(f"{value:.3f}" for value in values), f"{beside:.3f}"]
    lines.append("| " + " | ".join([*cells, f"{mean.loc[(table, 'stacking'), 'cpu']:.0f}"]) + " |")
as_table = "\n".join(lines)
splits = runs["split"].nunique()
better = int((np.array(lost) > 0).sum())

# %% [prose]
# Mean log density of held-out rows, in units of the response's standard deviation, over three splits of each table, up to {splits} of those of the UCI repository, higher is better. The
# starts are combined in three ways; the fourth column is one start alone, on average. Chains ran {chains["settings"]["seconds"]:.0f} seconds on two
# cores.
#
# {as_table}
#
# Chains predict better in {better} of {len(tables)} tables, by {np.mean(lost):.3f} nats a row on average over all of them.
#
# ## Coverage

# %%
lines = ["| table | 80%, stacking | 90%, stacking | 90%, chains |", "|---|---|---|---|"]
for table in tables:
    one, own = mean.loc[(table, "stacking")], of_chains[of_chains["table"] == table]
    lines.append(f"| {table} | {one['coverage 80']:.2f} | {one['coverage 90']:.2f} | {own['coverage'].mean():.2f} |")
as_table = "\n".join(lines)

# %% [prose]
# Shares of held-out responses within predictive intervals.
#
# {as_table}
#
# ## Bands

# %%
one_covariate, four = recorded("bands_variational"), recorded("bands_four_variational")
own, beside = (
    pd.concat([pd.DataFrame(one["results"]["bands"]) for one in pair]).set_index(["shape", "n", "where"])
    for pair in ((one_covariate, four), (recorded("bands"), recorded("bands_four")))
)
lines = ["| shape | rows | where | coverage | chains | width | chains |", "|---" * 7 + "|"]
for key, one in own.iterrows():
    both = [one, beside.loc[key]] if key in beside.index else [one]
    coverage = [f"{of['coverage']:.2f} ± {of['coverage standard error']:.2f}" for of in both] + ["–"] * (2 - len(both))
    width = [f"{of['width']:.3g}" for of in both] + ["–"] * (2 - len(both))
    lines.append("| " + " | ".join([key[0], str(key[1]), key[2], *coverage, *width]) + " |")
as_table = "\n".join(lines)
sets, sets_of_four = one_covariate["settings"]["sets"], four["settings"]["sets"]
inside = [key for key in own.index if key[2] == "inside" and key in beside.index]
share, share_of_chains = (table.loc[inside, "coverage"].mean() for table in (own, beside))

# %% [prose]
# Bands of curves are too narrow: each start takes its codes, shrinkage and noise scale for given, and divisions of the rows that no start
# has found are left out. `python -m benchmarks.bands line wave step --method vb --draws 200` measures 90% bands of the mean, truth known, x
# uniform on two intervals with a gap between them, {sets} tables each: shares of points within them, with standard errors, and mean widths.
# In shape `four`, {sets_of_four} tables each, two of four covariates matter. Inside the data bands hold the mean in {share:.2f} of all
# points where chains do in {share_of_chains:.2f}.
#
# {as_table}
#
# ## Merges and births

# %%
moves = pd.DataFrame(recorded("variational_moves")["results"]["moves"])
names = ["log density", "bound", "components", "cpu"]
lines = ["| table | tried | log density | bound of the best start | components with rows | CPU s |", "|---" * 6 + "|"]
for (table, how), one in moves.groupby(["table", "how"], sort=False)[names].mean().iterrows():
    lines.append(f"| {table} | {how} | {one['log density']:.3f} | {one['bound']:.1f} | {one['components']:.1f} | {one['cpu']:.0f} |")
as_table = "\n".join(lines)
splits, mean_of = moves["split"].nunique(), moves.groupby("how")[names].mean()
change = mean_of.loc["merges and births", "log density"] - mean_of.loc["neither", "log density"]
factor = mean_of.loc["merges and births", "cpu"] / mean_of.loc["neither", "cpu"]

# %% [prose]
# `nm.MemoizedVB(births=True, merges=True)` joins components, leaves those of few rows out, and lets components without rows begin with
# those of others that fit worst there, each as far as the bound rises. Means over {splits} splits:
#
# {as_table}
#
# With both the log density of held-out rows changes by {change:+.3f} on average over these tables, for {factor:.1f} times the time; they
# are off by default.
#
# ## What a row costs

# %%
large = pd.DataFrame(recorded("variational_rows")["results"]["rows"]).rename(columns=lambda name: name.replace(" ", "_"))
lines = ["| rows | kernel | CPU s of a start and one pass | microseconds a row and pass | peak MB | below the law itself, nats a row |", "|---" * 6 + "|"]
for one in large.itertuples():
    gap = one.truth - one.log_density
    lines.append(f"| {one.rows:,} | {one.kernel} | {one.start:.0f} | {one.microseconds:.1f} | {one.megabytes:.0f} | {gap:.3f} |")
as_table = "\n".join(lines)
starts = large["starts"].max()
boosted = " ".join(
    f"Of {one['rows']:,} such rows {one['starts']} starts end {one['truth'] - one['log density']:.3f} nats below the law, in "
    f"{one['starts'] * (one['start'] + 20e-6 * one['rows'] * one['microseconds']):.0f} CPU s; NGBoost {one['NGBoost, version']}, normal, its "
    f"number of trees found by a tenth of the rows, {one['truth'] - one['NGBoost']:.3f}, in {one['NGBoost, CPU s']:.0f} CPU s."
    for one in recorded("variational_boosting")["results"]["rows"]
)

# %% [prose]
# {starts} starts and twenty passes over a simulated table of six covariates, 100 components, whose law is known. With more than 10,000 rows
# a start is found on 10,000 of them, where codes are searched; passes over all rows follow, in which samples of the rows propose codes.
# From 200,000 rows on the default kernel has more places and a narrower width. Memory is the peak of the process so far, data included. The
# last column is how far the held-out log density stays below that of the law that made the rows.
#
# {as_table}
#
# {boosted}
#
# `nm.MemoizedVB(round_size=8, executor="threads")` visits the eight batches of a round in threads, to the bits of one process.
#
# ## When to take which
#
# Up to some thousand rows take chains: they say how sure they are, and start from variational fits by themselves where that helps. Beyond
# 20,000 rows, or for a first look in seconds, take `method="vb"`. Rows may stay in files, with checkpoints, and `fit.update` adds new rows
# ([Beyond memory](../beyond_memory.md)). Where many values of a response are repeated, it is taken to be rounded: no component is then narrower than
# the rounding error, and a message says so where it matters.
