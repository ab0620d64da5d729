"""How long things take, by size, beside simpler loops.  `make vignettes` runs this script and writes docs/papers/how_fast.md."""

# short: for sweeps in (1000, 5000) -> for sweeps in (200, 1000)

# %% [markdown]
# # How fast
#
# How long will a run take, and how near is that to what the machine can do? This page answers both by measurement: sweeps by the number of
# rows, clusters and columns, beside simpler loops; the other methods; density regression; variational passes; the first minute on a new
# machine. The figures are those of two benchmarks, `benchmarks/how_fast.py` and `benchmarks/compare.py`, and were taken on one thread.
#
# ## A Gibbs sweep
#
# A sweep takes each row out of its cluster, scores it in every cluster, and draws a new one. So its work is a number of *pairs*, rows times
# clusters, and the number to know is nanoseconds a pair.

# %%
import time
import warnings

import matplotlib.pyplot as plt
import pandas as pd

import nrmmix as nm
from nrmmix.report.recorded import recorded

fast, whole = recorded("how_fast"), recorded("compare")
colors = {"ns a pair": "#D55E00", "floor": "#0072B2", "reading": "#009E73", "log and exp": "#8C8C8C"}
names = {"ns a pair": "sweep", "floor": "statistics frozen", "reading": "reading the statistics", "log and exp": "a logarithm, an exponential"}

fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
for ax, (what, letter, title) in zip(
    axes, (("rows", "n", "{d} columns, {K} clusters"), ("clusters", "K", "{n} rows, {d} columns"), ("columns", "d", "{n} rows, {K} clusters")),
    strict=True,
):
    rows = fast["results"][what]
    ranges = {one: sorted({row[one] for row in rows}) for one in "ndK"}
    title = title.format_map({one: " to ".join(f"{value:,}" for value in dict.fromkeys((found[0], found[-1]))) for one, found in ranges.items()})
    for name, color in colors.items():
        ax.plot([row[letter] for row in rows], [row[name] for row in rows], "o-", color=color, ms=4, label=names[name])
    ax.set(xscale="log", yscale="log", xlabel=f"{what}, {letter}", title=title)
axes[0].set_ylabel("nanoseconds a pair")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
fig

# %% [markdown]
# - **Frozen**: a loop that scores and draws while nothing changes, and does nothing else. A sweep does more: after each row that moves two
#   clusters have new statistics, and their columns are computed anew. The loop is no bound, for with many clusters sweeps take less than it.
# - **Reading**: a loop that only adds up the statistics of all clusters, as often as a sweep reads them. From four columns and sixteen clusters
#   on, sweeps score four rows at once and read the statistics once for them; what a row's move has changed is scored anew for those after it,
#   so that the draws are those of scoring row by row.
# - **Logarithm and exponential**: what a Student t density needs of each pair, and nothing else.

# %%
by_rows, by_clusters, by_columns = (pd.DataFrame(fast["results"][what]) for what in ("rows", "clusters", "columns"))
everything = pd.concat([by_rows, by_clusters, by_columns])
over = everything["ns a pair"] / everything["floor"]
large = by_rows[by_rows["n"] > by_rows["n"].min()]
flat = large["ms a sweep"].iloc[-1] / large["ms a sweep"].iloc[0] / (large["n"] * large["K"]).pipe(lambda pairs: pairs.iloc[-1] / pairs.iloc[0])
at_least = everything[["reading", "log and exp"]].max(axis=1)
table = everything.drop_duplicates(["n", "d", "K"]).sort_values(["d", "n", "K"])
table = table.assign(**{"frozen": table["floor"], "sweep / frozen": table["ns a pair"] / table["floor"]})
table[["n", "d", "K", "ms a sweep", "ns a pair", "frozen", "reading", "log and exp", "sweep / frozen"]].round(2).set_index("n")

# %% [prose]
# All begin at 50 clusters, or as many as the panel says, and keep those that the data support: {by_rows['n'].min():,} rows
# keep {by_rows['K'].iloc[0]}. Apart from that a sweep is linear in the rows: a pair takes {flat:.2f} times as long among {large['n'].max():,} rows as
# among {large['n'].min():,}. A sweep takes {over.min():.2f} to {over.max():.2f} times what the frozen loop does, most where columns are few: there clusters
# overlap, many rows move, and computing two columns anew costs much beside cheap pairs. The frozen loop in turn takes {(everything['floor'] / at_least).min():.1f} to
# {(everything['floor'] / at_least).max():.1f} times the larger of the two loops below it: a score takes the logarithm *and* the
# numbers, and with {by_columns['d'].max()} columns it multiplies {by_columns['bytes a pair'].max() / 8:,.0f} of them a pair.
#
# For a rule of thumb: a chain of 2,000 sweeps of {by_rows['n'].iloc[1]:,} rows in {by_rows['K'].iloc[1]} clusters and {by_rows['d'].iloc[1]}
# columns takes {2 * by_rows['ms a sweep'].iloc[1]:.0f} seconds, and chains run on cores of their own. Rows, clusters and, from some ten columns
# on, the square of the columns multiply that.
#
# ## The other methods
#
# An iteration, on 10,000 rows in 6 columns and 100 clusters, begun at the truth:

# %%
moves = pd.DataFrame(fast["results"]["moves"]).set_index("method")
moves["of a Gibbs sweep"] = moves["ms an iteration"] / moves.loc["gibbs", "ms an iteration"]
moves.round(2)

# %% [markdown]
# The methods with split-merge, permutation or tree-guided moves have Gibbs sweeps in each iteration, so they cost a sweep at least; the
# slice sampler has none and scores a row in the clusters of its slice alone. What an iteration is worth is another question:
# [Choosing a sampler](choosing_a_sampler.md).
#
# ## Your own run
#
# Time a few sweeps, then ask for as many as you need; or leave the length to `draws="auto"` and set `time_limit=`, and the progress line
# says how long it will take.

# %%
model = nm.Model("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful())
model.fit("gibbs", draws=5, tune=5, chains=1, rng=1)  # whatever has to be compiled is, now
took = {}
for sweeps in (1000, 5000):
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nm.ConvergenceWarning)  # draws are not the point here
        model.fit("gibbs", draws=sweeps, tune=0, chains=1, cores=1, rng=1, time_limit=None)
    took[sweeps] = time.process_time() - began
few, many = took
each = (took[many] - took[few]) / (many - few)

# %% [prose]
# Here: {1e6 * each:.0f} microseconds a sweep of {model.n_obs} rows, and {1e3 * max(took[few] - few * each, 0):.0f} milliseconds for what does not
# depend on the length.
#
# ## Density regression
#
# Every row at an x of its own, lines as components, the default locations: 160 for widths of atoms, 200 for one width that all share, fixed
# or sampled; the last by a kernel that is 0 beyond its width. The kernel is a matrix, groups of rows at one x by locations, and the only one
# of that size that a chain keeps; sweeps read it where they draw labels and the weights of the groups.

# %%
curves = pd.DataFrame(fast["results"]["curves"]).pivot(index="n", columns="widths", values="ms a sweep")
curves.round(2)

# %% [prose]
# Milliseconds a sweep. From {curves.index[0]:,} to {curves.index[-1]:,} rows a sweep with widths of atoms takes
# {curves.iloc[-1]['of atoms'] / curves.iloc[0]['of atoms']:.1f} times as long, and one with a sampled width
# {curves.iloc[-1]['one, sampled'] / curves.iloc[0]['one, sampled']:.1f} times. Widths of atoms are a fixed set, so the kernel is evaluated
# once, before the first sweep. A sampled width is updated by slice sampling, which tries several values a sweep. The kernel's logarithm is
# linear in a power of the width, so that a trial need only scale a matrix that all chains share, and the row sums that are kept of it. Such
# sweeps cost {(curves['one, sampled'] / curves['fixed']).min():.1f} to {(curves['one, sampled'] / curves['fixed']).max():.1f} times those
# of a fixed width. A kernel that is 0 beyond its width has no such form: each trial evaluates it anew, and sweeps cost
# {(curves['one, compact'] / curves['fixed']).min():.1f} to {(curves['one, compact'] / curves['fixed']).max():.1f} times those of a fixed
# width.
#
# ## Variational inference
#
# A pass of full variational Bayes, in microseconds of processor time for each row:

# %%
passes = pd.DataFrame(fast["results"]["variational"]).set_index("n")
passes.round(2)

# %% [prose]
# {passes['d'].iloc[0]} columns with full covariances and {passes['K'].iloc[0]} components are {passes['d'].iloc[0] * (passes['d'].iloc[0] + 3) // 2 + 1} statistics a row, and a pass
# is two matrix products with them. Per row it takes {passes['us a row and pass'].iloc[-1] / passes['us a row and pass'].iloc[0]:.2f} times as long with
# {passes.index[-1]:,} rows as with {passes.index[0]:,}. [A million rows](million_rows.md) has a whole run, from a file.

# %% [markdown]
# ## Whole tasks
#
# Processor seconds of short runs, of what comes before and after sampling, and of whole processes, with all code compiled and with none. The run
# called *motorcycle* is a density regression, and a part of its time is that of the verdict on its curves. A first fit compiles once on a machine;
# `nrmmix warmup` compiles everything beforehand, in several processes.

# %%
tasks = pd.DataFrame(whole["results"]["seconds"]).set_index("what")
parts = {"sampling": "sampling", "after": "before and after", "start": "process, compiled", "cold": "process, nothing compiled"}
tasks.assign(part=tasks["part"].map(parts), seconds=tasks["this"])[["part", "seconds"]].round(2)

# %% [prose]
# ## Limits of this page
#
# Two virtual cores ({fast['machine']['processor']}), which share their memory with others: times differ by a tenth or two from day to day, ratios by
# less. Rows and clusters are simulated Gaussian ones; families of counts and of categories read fewer numbers a pair, and score row by row.
# Sizes end where the benchmark does, not where the samplers end.
