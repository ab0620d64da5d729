"""A million rows in a file, from the first look to new rows.  `make vignettes` runs this script and writes docs/papers/million_rows.md."""

# short: n, K, part = (1_000_000, 30, 50_000) -> n, K, part = (40_000, 12, 10_000)
# short: run = {"draws": 500, "tune": 1000, "chains": 4} -> run = {"draws": 100, "tune": 200, "chains": 2}

# %% [markdown]
# # A million rows
#
# Chains go through all rows in every sweep. For some thousands of rows that is what to do; for a million, variational inference finds the
# clusters in passes over a file, within the memory of a laptop. This page takes a million rows from the file to labels, stops half-way and
# goes on, adds rows later, and ends with what is lost against chains. [Beyond memory](../beyond_memory.md) is the reference for each call,
# [Memoized variational inference](memoized.md) has the idea and the paper's experiments.
#
# ## The file

# %%
import resource
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nrmmix as nm

n, K, part = (1_000_000, 30, 50_000)
folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(1)
centres, shares = rng.uniform(-12, 12, (K, 3)), rng.dirichlet(np.full(K, 3.0))
spreads = np.linalg.cholesky(np.stack([np.cov(rng.normal(size=(3, 12))) for _ in range(K)]))


def rows(n):
    """Rows about centres, each cluster with correlations of its own, and their true clusters."""
    z = rng.choice(K, n, p=shares)
    return pd.DataFrame(centres[z] + np.einsum("nij,nj->ni", spreads[z], rng.normal(size=(n, 3))), columns=["a", "b", "c"]), z


(folder / "points").mkdir()
truth = np.empty(n, np.int64)
for first in range(0, n, part):
    table, truth[first : first + part] = rows(part)
    table.to_parquet(folder / "points" / f"{first:07}.parquet")


def peak():
    """Megabytes of memory that the process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


size = sum(file.stat().st_size for file in (folder / "points").iterdir()) / 1e6

# %% [prose]
# A folder of {n // part} Parquet files, {size:.0f} MB, {n:,} rows of three columns. A folder is one table; so is a CSV file, a `.npy`
# file, or an object with a method that loads part `b`.
#
# ## The fit

# %%
before, began, clock = peak(), time.process_time(), time.perf_counter()
model = nm.Model("a + b + c ~ 1", folder / "points")
made = time.process_time() - began
fit = model.fit("memoized_vb", rng=1)
taken, wall, above = time.process_time() - began, time.perf_counter() - clock, peak() - before
fit

# %% [prose]
# {fit.n_clusters} clusters (the data have {K}) after {len(fit.passes)} passes: {taken:.0f} CPU seconds, {made:.0f} of them to go
# through the file for types, gaps and the scales of the prior before the first pass; and at most {max(above, 0):.0f} MB beyond what
# Python and the libraries had taken. No array as long as the data was made.
#
# The fit began with one component. Births split components that hold several clusters, merges join what births have made too many of,
# and both are kept only if the bound over all rows is better for it:

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
fit.plot("elbo", axes[0])
fit.plot("n_clusters", axes[1])
fig

# %% [markdown]
# ## Stopped, and gone on
#
# With `checkpoint=` everything that the fit knows is written after each pass. Here a time limit stands for a power cut; afterwards
# `nm.resume` goes on, in this process or another one, to the same bits.

# %%
path = folder / "run.npz"
stopped = model.fit(nm.MemoizedVB(checkpoint=path), rng=1, time_limit=0.3 * wall)
resumed = nm.resume(path)
pd.DataFrame(
    {"passes": [len(one.passes) for one in (stopped, resumed, fit)], "clusters": [one.n_clusters for one in (stopped, resumed, fit)],
     "bound": [f"{one.elbo:.6f}" for one in (stopped, resumed, fit)]},
    index=["stopped", "gone on", "never stopped"],
)

# %% [markdown]
# ## A label for every row
#
# `predict` takes the folder too, and with `out=` writes part by part:

# %%
began = time.process_time()
written = fit.predict(folder / "points", kind="cluster", out=folder / "labels.parquet")
taken_by_labels = time.process_time() - began
labels = pd.read_parquet(written)
labels.head(3)

# %%
counts = np.zeros((labels["cluster"].max() + 1, K), np.int64)
np.add.at(counts, (labels["cluster"].to_numpy(), truth), 1)
aligned = counts.max(axis=1).sum() / n
likely = counts.max(axis=0).sum() / n

# %% [prose]
# {taken_by_labels:.0f} CPU seconds, and a file of {Path(written).stat().st_size / 1e6:.0f} MB. Of all rows {100 * aligned:.1f}% are in
# a cluster whose most frequent true cluster is theirs, and {100 * likely:.1f}% in the cluster that has most of their true one; some of
# the {K} overlap.
#
# ## New rows
#
# Tomorrow's rows go into the same fit; yesterday's file need not be there. What was learnt is in sums, and stays.

# %%
new, _ = rows(part)
later = fit.update(new)
strange = pd.DataFrame(rng.normal(size=(part // 10, 3)) * 0.5 + [0.0, 0.0, 30.0], columns=["a", "b", "c"])
latest = later.update(strange)
pd.DataFrame({"rows": [one.model.n_obs for one in (fit, later, latest)], "clusters": [one.n_clusters for one in (fit, later, latest)]},
             index=["the file", "and new rows", "and rows where none had been"])

# %%
born = "became a cluster of their own" if latest.n_clusters > later.n_clusters else "were put into clusters that there are"

# %% [prose]
# The rows that lie where none had been {born}.
#
# ## Several processes
#
# `executor=` is a number of threads or a client of Dask, which visit the batches of a round at the same time. `round_size=` says how many
# there are; by default there is one up to 20 x 65,536 rows. Numbers depend on `round_size=`, but to the bit not on who does the work, even
# where a worker dies: what it had is computed anew. In a script:
#
# ```python
# from dask.distributed import Client
#
# if __name__ == "__main__":
#     fit = nm.fit("a + b + c ~ 1", "points", method=nm.MemoizedVB(round_size=8, executor=Client("tcp://scheduler:8786")), rng=1)
# ```
#
# From a shell, with a checkpoint:
#
# ```
# nrmmix fit "a + b + c ~ 1" --data points --method memoized_vb --checkpoint run.npz --save fit.npz
# nrmmix predict fit.npz --data points --kind cluster --out labels.parquet
# ```
#
# ## A regression
#
# With covariates the components have weights that depend on them: density regression, from files as well. Each start is found on 10,000
# rows, and then goes through all of them. Here as many rows with two numbers and a factor; the noise depends on `x`:

# %%
own = np.random.default_rng(2)


def flows(n):
    """Rows whose mean is a curve, raised in group a, with more noise where x is positive."""
    table = pd.DataFrame({"x": own.uniform(-2, 2, n), "t": own.standard_normal(n), "group": own.choice(list("abc"), n)})
    table["truth"] = np.sin(2 * table["x"]) + 1.5 * (table["group"] == "a")
    return table.assign(y=table["truth"] + np.where(table["x"] > 0, 0.4, 0.1) * own.standard_normal(n))


(folder / "flows").mkdir()
for number in range(n // part):
    flows(part).to_parquet(folder / "flows" / f"{number:02}.parquet")

method = nm.MemoizedVB(starts=1, passes=5, components=30)
regression = nm.fit("y ~ x + t + group", folder / "flows", method=method, rng=1)
test = flows(5000)
found = regression.predict(test, draws=20)["estimate"]
inside = regression.predict(test, "quantile", q=[0.1, 0.9], draws=20)["estimate"].unstack()
inside = test["y"].between(inside[0.1], inside[0.9])

# %% [prose]
# In {len(regression.passes)} passes {int(regression.starts["n_clusters"].iloc[0])} components have rows. Means of 5,000 new rows are wrong by
# {np.sqrt(((found - test["truth"]) ** 2).mean()):.3f} (root mean square), far less than the noise, and
# {100 * inside.mean():.1f}% of the responses are between the 10% and the 90% quantile that are predicted for them,
# {100 * inside[test["x"] > 0].mean():.1f}% where there is more noise. Predictions go to a file with `out=`, as those of clusters do.

# %% [markdown]
# ## What is lost
#
# Variational inference gives one explanation of the data and treats its parts as independent. Chains say how sure it is. Here are 1,500 new
# rows of the same kind, fitted by both:

# %%
some, _ = rows(1500)
run = {"draws": 500, "tune": 1000, "chains": 4}
chains = nm.fit("a + b + c ~ 1", some, rng=1, **run)
one = nm.fit("a + b + c ~ 1", some, method="memoized_vb", rng=1)
drawn = chains.draws["n_clusters"].ravel()
at = np.linspace(-12, 12, 41)
bands = {name: found.predict(kind="density", at=at, response="a", rng=1) for name, found in {"chains": chains, "variational": one}.items()}
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for (name, band), color in zip(bands.items(), ("#0072B2", "#D55E00"), strict=True):
    ax.plot(at, band["estimate"], color=color, label=name)
    ax.fill_between(at, band["lower"], band["upper"], color=color, alpha=0.2, lw=0)
ax.set(xlabel="a", ylabel="density, with 90% band", ylim=(0, None))
ax.legend(frameon=False)
fig

# %%
held_out, _ = rows(5000)
scores = {name: found.log_density(held_out).mean() for name, found in {"chains": chains, "variational": one, "all rows": fit}.items()}
wide = {name: float((band["upper"] - band["lower"]).mean()) for name, band in bands.items()}
more = "rows count for more than the method" if scores["all rows"] > max(scores["chains"], scores["variational"]) else "more rows do not help"

# %% [prose]
# The chains have {np.quantile(drawn, 0.025):.0f} to {np.quantile(drawn, 0.975):.0f} clusters (95%), the variational fit
# {one.n_clusters}. Its bands are {wide["variational"] / wide["chains"]:.2f} times as wide. Mean log density of 5,000 rows that none has
# seen: chains {scores["chains"]:.3f}, variational {scores["variational"]:.3f}, and the fit of the {n:,} rows {scores["all rows"]:.3f}:
# {more}.
#
# So: as long as chains finish, take chains; where the question is about small clusters in many rows, take all rows and variational
# inference, and chains on a sample of them to see how uncertain its answers are.
