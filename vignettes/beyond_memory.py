"""Data larger than memory, several processes, checkpoints, new rows.  `make docs` runs this script and writes docs/beyond_memory.md."""

# %% [markdown]
# # Variational inference beyond memory and beyond one process
#
# A variational fit goes through its rows in batches, and needs only sums over each batch. So the rows may stay in a file, or anywhere, and
# the batches may be visited by several processes. None of this changes the results, which are compared to the bit below.
#
# ## A fit from a file

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nrmmix as nm

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(1)
z = rng.integers(5, size=30_000)
table = pd.DataFrame(rng.normal(size=(30_000, 2)) + 5 * np.stack([z % 2, z // 2], axis=1), columns=["a", "b"])
table.to_parquet(folder / "points.parquet", row_group_size=10_000)
table.to_csv(folder / "points.csv", index=False)

fit = nm.fit("a + b ~ 1", folder / "points.parquet", method="memoized_vb", rng=1)
fit

# %% [markdown]
# Data may be
#
# | | loaded in parts of |
# |---|---|
# | a `.parquet` file, or a folder of them (the extra `nrmmix[parquet]`) | row groups; those of about 65,536 rows serve best |
# | a `.csv` file | 1 MB of text |
# | a `.npy` file, a `numpy.memmap` | 16,384 rows |
# | an object with `n_batches` and `load(b)`, which gives part `b` as a table or a sparse matrix | its own |
# | a list of tables, or a function that begins anew with them whenever it is called | its own |
#
# Formulas work on all of them, as long as they learn nothing from the whole column (`scale`, splines). Before the fit the source is gone
# through three times: for types, levels and gaps; to check, to count and for means; and for the squares about these. Default
# hyperparameters are taken from them, and are those of a table in memory to the bit (with several responses to rounding; families such as
# `Poisson` and `Hurdle` go through it once or twice more). The model holds no array as long as the data. Rows with missing values are
# dropped and counted, refused or kept, as `missing=` says. Here the same fit from other sources:

# %%
class Source:
    n_batches = 6

    def load(self, b):
        return table.iloc[b * 5000 : (b + 1) * 5000]


others = {"in memory": table, "csv": folder / "points.csv", "object": Source(), "list": [table[:100], table[100:]]}
pd.Series({name: nm.fit("a + b ~ 1", data, method="memoized_vb", rng=1).elbo == fit.elbo for name, data in others.items()}, name="same bound")

# %% [markdown]
# Every part that is loaded is compared with what it was when the model was made, so that data that change since then or between passes end the fit
# and do not mix into it.
#
# ## Batches, rounds, executors
#
# The batches of a round are visited at the same parameters and summed in a tree whose form follows from their number: still coordinate
# ascent of the bound. Numbers depend on `batches=` and `round_size=`, and not on who visits the batches: `executor=` is None (this
# process), `"threads"`, a number of threads, or a client of `dask.distributed`. The linear algebra is held to one thread each, as sums of
# several threads differ in the last bits. By default a batch has at most 65,536 rows, and there are at most 20 rounds (100 of
# `"stochastic_vb"`). So up to 1.3 million rows a round has one batch, and workers need `round_size=` to have something to do at the same
# time.

# %%
def elbo(**options):
    return nm.fit("a + b ~ 1", folder / "points.parquet", method=nm.MemoizedVB(batches=8, **options), rng=1).elbo


pd.Series({
    "rounds of 4, one process": elbo(round_size=4), "rounds of 4, two threads": elbo(round_size=4, executor=2), "rounds of 1": elbo(),
}).map("{:.9f}".format)

# %% [markdown]
# A cluster (the extra `nrmmix[dask]`), in a script that begins its work under `if __name__ == "__main__":`, as all that start processes must:
#
#     from dask.distributed import Client
#     client = Client("tcp://scheduler:8786")           # or LocalCluster(n_workers=8, threads_per_worker=1)
#     nm.fit("a + b ~ 1", "points.parquet", method=nm.MemoizedVB(round_size=8, executor=client))
#
# Workers need the same version of nrmmix and must reach the file by its name. Parameters and sums are results of tasks, nothing is scattered and
# there are no actors: what a worker held that dies is computed anew, to the same bits. A round has the same batches in every pass. What must be
# remembered of earlier visits is then one sum a round, kept where the fit runs; batches remember nothing, and births, merges and sorting touch no
# worker.
#
# Chains of MCMC go to the same cluster by `nm.fit(..., cores=client)`. A chain travels as a checkpoint and comes back as one, with its draws,
# about every half second, so that time limits, interrupts and checkpoints work as they do here. The draws are those of threads, to the bit,
# and a turn whose worker dies is done anew. That pays for long chains.
#
# ## Checkpoints
#
# With `checkpoint=` all that the fit knows is written after each pass, in place of the file before, which stays whole should the disk be full. The
# same call goes on from there, and so does `nm.resume`; both refuse a checkpoint of another model, other options or other data.

# %%
path = folder / "run.npz"
stopped = nm.Model("a + b ~ 1", folder / "points.parquet").fit(nm.MemoizedVB(checkpoint=path), rng=1, time_limit=0.001)
len(stopped.passes), nm.resume(path).elbo == fit.elbo

# %% [markdown]
# ## Predictions for files
#
# `predict` and `log_density` take sources too, part by part, and with `out=` write to a file:

# %%
written = fit.predict(folder / "points.csv", kind="cluster", out=folder / "labels.parquet")
pd.read_parquet(written).head(3)

# %% [markdown]
# From a shell:
#
#     nrmmix fit "a + b ~ 1" --data points.parquet --method memoized_vb --checkpoint run.npz --save fit.npz
#     nrmmix resume run.npz
#     nrmmix predict fit.npz --data points.parquet --kind cluster --out labels.parquet
#
# ## A regression from a file
#
# Density regression goes through its rows in the same way, with sums by bins of the covariates. The example has 40,000 rows and three covariates,
# one of them a factor; each start is found on 10,000 of the rows:

# %%
n = 40_000
rows = pd.DataFrame({"x": rng.uniform(-2, 2, n), "t": rng.standard_normal(n), "group": rng.choice(list("abc"), n)})
noise = np.where(rows["x"] > 0, 0.4, 0.1)
rows["y"] = np.sin(2 * rows["x"]) + np.where(rows["group"] == "a", 1.5, 0) + noise * rng.standard_normal(n)
rows.to_parquet(folder / "rows.parquet", row_group_size=10_000)

method = nm.MemoizedVB(starts=1, passes=10, components=40, round_size=2, executor="threads", checkpoint=folder / "regression.npz")
regression = nm.fit("y ~ x + t + group", folder / "rows.parquet", method=method, rng=1)
regression

# %%
new = pd.DataFrame({"x": [-1.0, 1.0, 1.0], "t": 0.0, "group": ["b", "b", "a"]})
truth = np.sin(2 * new["x"]) + np.where(new["group"] == "a", 1.5, 0)
regression.predict(new, draws=100).assign(truth=truth).round(3)

# %% [markdown]
# The fit has not converged within its ten passes, and its bands take the division of the rows for given: they are too narrow, and not all of
# them hold the truth, though the estimates are near it.
#
# Covariates are measured half by their ranks and half by their ranges. Both come from the pass that checks the source. It counts the values
# of a covariate exactly if there are at most 200,000 distinct ones. If there are more, ranks are wrong by at most log2(n / 16384) / 32768
# of the rows, which is 0.0002 for a million rows and 0.0005 for 1e9. Levels of factors are those of all parts; a level that comes later, or
# a covariate that is another in a later pass, ends the fit with its name and its rows. Checkpoints, `resume`, executors, saved fits and
# predictions to files are as above:

# %%
again = nm.fit("y ~ x + t + group", rows, method=nm.MemoizedVB(starts=1, passes=10, components=40, round_size=2), rng=1)
written = regression.predict(folder / "rows.parquet", "quantile", q=[0.1, 0.9], draws=10, out=folder / "bands.parquet")
abs(regression.elbo - again.elbo) < 1e-6, pd.read_parquet(written).head(2).round(3)

# %% [markdown]
# The importance of a covariate is computed by moving rows along it: 20,000 rows of the source, evenly spaced.

# %%
regression.importance(draws=20, rows=20)[["use", "effect", "effect_q05", "effect_q95"]].round(2)

# %% [markdown]
# `method="stochastic_vb"` remembers no sums: after each round of batches it takes a step towards what that round says, and steps get
# smaller. It is for data so large that no pass ends. Where rows can be gone through ten times, the memoized fit needs no step size and has
# an exact bound all along:

# %%
options = {"starts": 1, "components": 40, "passes": 10}
both = {"memoized": regression, "stochastic": nm.fit("y ~ x + t + group", rows, method=nm.StochasticVB(batches=20, **options), rng=1)}
other = np.random.default_rng(2)
fresh = pd.DataFrame({"x": other.uniform(-1.9, 1.9, 5000), "t": other.uniform(-2, 2, 5000), "group": other.choice(list("abc"), 5000)})
fresh["y"] = np.sin(2 * fresh["x"]) + np.where(fresh["group"] == "a", 1.5, 0) + np.where(fresh["x"] > 0, 0.4, 0.1) * other.standard_normal(5000)
pd.DataFrame({name: [one.elbo / n, one.log_density(fresh).mean()] for name, one in both.items()}, index=["bound a row", "held-out log density"]).round(4)

# %% [markdown]
# ## New rows
#
# `update` adds rows to a fit whose own rows may be gone: they keep their probabilities of the components. Components can be born that have
# new rows alone. The bound is that of the rows seen.

# %%
new = pd.DataFrame(rng.normal(size=(2000, 2)) + [2.5, 16.0], columns=["a", "b"])
later = fit.update(new)
pd.DataFrame({name: [one.model.n_obs, one.n_clusters, one.elbo] for name, one in {"before": fit, "after": later}.items()},
             index=["rows", "clusters", "bound"])

# %% [markdown]
# In a density regression `update` has no births, but components without rows can get new ones, and codes move where the sums over the
# earlier rows give the gain exactly. Covariates are measured as the first rows were. Given that, each step is coordinate ascent on the
# bound of all rows seen; what differs from a fit of all rows is that earlier rows stay in their components.

# %%
more = regression.update(fresh)
pd.DataFrame({name: [one.model.n_obs, one.elbo / one.model.n_obs] for name, one in {"before": regression, "after": more}.items()},
             index=["rows", "bound a row"]).round(4)

# %% [markdown]
# Batches that keep coming are updates in a loop. Each goes through its own rows alone, so that the time does not grow with what has been seen; the
# fit between two of them is one like any other, of the rows so far. Here every fourth batch brings a cluster that was not there before:

# %%
centres = 8 * rng.normal(size=(8, 2))


def batch(t, n=5000):
    return pd.DataFrame(centres[rng.integers(0, 3 + t // 4, n)] + rng.normal(size=(n, 2)), columns=["a", "b"])


stream, seen = nm.fit("a + b ~ 1", batch(0), method="memoized_vb", rng=1), []
for t in range(1, 21):
    stream = stream.update(batch(t))
    seen.append((stream.model.n_obs, 3 + t // 4, stream.n_clusters, stream.elbo / stream.model.n_obs))
pd.DataFrame(seen, columns=["rows", "true clusters", "clusters", "bound a row"]).iloc[3::4].round(3)

# %% [markdown]
# ## What it takes
#
# The figures are those of `python -m benchmarks.streams pass memory messages`, `python -m benchmarks.regression_workers --rows 1e5 4e5 1e6 --clock 2e6` and
# `python -m benchmarks.variational_regression --files 1e6`, each with `--json`. `python -m benchmarks.streams scaling` runs one and two workers of a
# Dask cluster on your machine.

# %%
from nrmmix.report.recorded import recorded

clusterings, regressions = recorded("streams"), recorded("regression_workers")
whole, limited, of_64 = clusterings["results"]["pass"], clusterings["results"]["memory"][0], clusterings["results"]["messages"][0]
work, (clock,) = pd.DataFrame(regressions["results"]["work"]), regressions["results"]["clock"]
files = recorded("variational_files")["results"]["files"]


def table(head, rows):
    return "\n".join(["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)])


of_files = table(
    ["rows", "MB of the file", "CPU microseconds a row and pass", "of these reading", "peak MB above the imports"],
    [[f"{one['rows']:,}", f"{one['MB']:.0f}", f"{one['us a row and pass']:.2f}", f"{one['of these reading']:.2f}",
      f"{one['peak MB above the imports']:.0f}"] for one in whole],
)
of_lines = table(
    ["rows", "MB of the file", "CPU microseconds a row and pass", "of these reading", "before the first pass", "peak MB above the imports"],
    [[f"{one['rows']:,}", f"{one['file']:.0f}", f"{one['microseconds']:.1f}", f"{one['reading']:.1f}", f"{one['before']:.1f}",
      f"{one['megabytes']:.0f}"] for one in files],
)
of_visits = table(
    ["rows", "components", "visits, by workers", "all else", "its share", "two workers at most, times as fast"],
    [[f"{one.rows:,}", f"{one.components}", f"{one.visits:.2f}", f"{one.rest:.2f}", f"{one.share:.2f}", f"{one.most:.2f}"]
     for one in work.rename(columns={"at most": "most"}).itertuples()],
)

# %% [prose]
# Rows of 16 responses in Parquet, 20 components of full covariance, on a machine of {clusterings['machine']['cores']} processors
# that others used as well:
#
# {of_files}
#
# In a process that may take {limited['MB of address space']:.0f} MB of address space beyond its imports a fit of the file of {limited['MB']:.0f} MB has its
# peak at {limited['peak MB above the imports']:.0f} MB. Before the first pass the source is gone through at {whole[-1]['us a row before the fit']:.1f} CPU microseconds a row.
#
# Density regression of six covariates, by 30 components:
#
# {of_lines}
#
# How many workers are worthwhile depends on what the process of the fit does between the rounds. The table has the CPU microseconds a row
# and pass of both, for density regression in memory with six covariates, in 20 rounds of two batches:
#
# {of_visits}
#
# By the clock, of {clock['rows']:,} rows and {clock['components']} components (medians of {regressions['settings']['runs']} runs), two
# threads are {clock['threads, times as fast']:.2f} times as fast as one process; two independent processes do
# {clock['independent, times as fast']:.2f} times the work of one here. Two processes of a Dask cluster on the same two cores are
# {clock['processes, times as fast']:.2f} times as fast as one: beside its visits a round has what it sends.
#
# ## A projection
#
# For 1e9 rows of 64 responses and 200 components of full covariance with a known mean. A result of a batch has K (S + 2) numbers, S = 2,080
# statistics: {of_64['MB of a result']:.1f} MB, and as much go out as parameters. Visiting a row takes {of_64['us a row']:.0f} CPU microseconds, so that a batch of
# 65,536 rows takes {65_536e-6 * of_64['us a row']:.1f} s. The 15,259 batches sent one by one would bring 51 GB a pass to the process of the fit; summed in a tree on the
# workers it is one result a round. Beside the visits a round has its tasks (5 ms of the scheduler each is assumed), the parameters, which go from worker to
# worker, and the levels of the tree, each with one transfer at 1 Gbit/s and one sum. Reading is left out.

# %%
rows, d, K = 1e9, 64, 200
S = d * (d + 1) // 2
result = 8.0 * K * (S + 2)
batches, rounds, bandwidth, of_task = int(np.ceil(rows / 65_536)), 20, 125e6, 5e-3
second_of_row, of_sum, of_factors = 1e-6 * of_64["us a row"], 1e-3 * of_64["ms of a sum"], 1e-3 * of_64["ms of new factors"]


def seconds(workers):
    each = batches / rounds
    visits = np.ceil(each / workers) * 65_536 * second_of_row
    levels = np.ceil(np.log2(each))
    travel = (np.ceil(np.log2(workers + 1)) + levels) * result / bandwidth + levels * of_sum
    return rounds * (visits + travel + 3 * each * of_task + of_factors), rounds * visits


workers = np.array([1, 2, 5, 10, 20, 50, 100, 200])
times = np.array([seconds(w) for w in workers])
pd.DataFrame({
    "hours a pass": times[:, 0] / 3600, "of these visits": times[:, 1] / times[:, 0], "times as fast": times[0, 0] / times[:, 0],
    "GB a pass to the fit": rounds * result / 1e9, "GB one by one": batches * result / 1e9,
}, index=pd.Index(workers, name="workers")).round(3)

# %%
figure, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
ax.loglog(workers, times[:, 0] / 3600, marker="o", label="projected")
ax.loglog(workers, times[0, 0] / 3600 / workers, linestyle=":", color="0.5", label="without anything but visits")
ax.set(xlabel="workers", ylabel="hours a pass")
ax.legend()

# %% [markdown]
# In density regression the sums over a batch are counts, S statistics, and H and G at each of B places of q covariates: M (1 + S + 2 q B) + 4
# numbers for M components, whatever the rows and the number of codes. One response on q lines has S = (q + 2) (q + 3) / 2. Megabytes by
# components and covariates of 128 places:

# %%
def message(M, q, B, S):
    return 8.0 * (M * (1 + S + 2 * q * B) + 4)


def n_statistics(q):
    return (q + 2) * (q + 3) // 2


sizes = pd.DataFrame({q: [message(M, q, 128, n_statistics(q)) / 1e6 for M in (40, 100, 200)] for q in (1, 6, 20)}, index=[40, 100, 200])
sizes.rename_axis(index="components", columns="covariates").round(2)

# %%
M, q = 100, 6
million = work[(work["rows"] == 1_000_000) & (work["components"] == M)].iloc[0]
second_of_row = 1e-6 * (million["visits"] + files[0]["reading"])
of_sum, of_factors, each = 1e-3 * million["sum, ms"], 1e-6 * million["rest"] * million["rows"] / 20, batches / rounds

# %% [prose]
# For 1e9 rows, six covariates and {M} components, a visit takes {million['visits']:.1f} CPU microseconds a row and reading {files[0]['reading']:.1f} (both measured, above), a
# sum of two messages {1e3 * of_sum:.2f} ms, and {1e3 * of_factors:.0f} ms are between two rounds (as of a million rows in 20 rounds). All else is as in the projection
# above, with as much going out as parameters as q B numbers of each component:

# %%
result, parameters = message(M, q, 128, n_statistics(q)), 8.0 * M * (q * 128 + n_statistics(q) + 2)


def seconds_of_regression(workers):
    visits = np.ceil(each / workers) * 65_536 * second_of_row
    levels = np.ceil(np.log2(each))
    travel = (np.ceil(np.log2(workers + 1)) * parameters + levels * result) / bandwidth + levels * of_sum
    return rounds * (visits + travel + 3 * each * of_task + of_factors), rounds * visits


times = np.array([seconds_of_regression(w) for w in workers])
pd.DataFrame({
    "minutes a pass": times[:, 0] / 60, "of these visits": times[:, 1] / times[:, 0], "times as fast": times[0, 0] / times[:, 0],
    "GB a pass to the fit": rounds * result / 1e9, "GB one by one": batches * result / 1e9,
}, index=pd.Index(workers, name="workers")).round(3)

# %% [prose]
# A visit is so short here ({65_536 * second_of_row:.1f} s a batch) that with 100 workers the scheduler's 5 ms a task dominate. Batches of
# more rows help where there is memory for them, with a `round_size=` equal to the number of workers.

# %% [markdown]
# ## What it does not do
#
# - Chains and searches need their table in memory. So do `nm.Regression(shrinkage=None)`, which takes its prior from all rows at once, and designs
#   without an intercept.
# - Density regression of several covariates needs `nm.SparseProduct()`, the default. Its `update` measures covariates as the first rows were, and the
#   result has no rows to go back to: `importance` is refused there.
# - Where the rows of a fit are not in memory, what goes row by row needs `newdata=`: `simulate`, `augment`, pictures of the density.
# - An iterator cannot go back: to reach an earlier part, all parts before it are gone through again. An object with `load(b)` has no such
#   cost.
# - Rounds wait for their slowest batch; batches of less than 0.1 s lose to the scheduler.
