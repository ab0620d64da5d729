"""How to choose a sampler for one's own data.  `make vignettes` runs this script and writes docs/papers/choosing_a_sampler.md."""

# short: budget = 4.0 -> budget = 0.6

# %% [markdown]
# # Choosing a sampler
#
# Three papers propose samplers and compare each with others ([permutation moves](permutation.md), [tree-guided moves](tree_guided.md),
# [slice sampling of kernel measures](kernel_nrm.md)). Each paper reports that its sampler wins on its data. This page puts the measurements
# of all three beside each other, and shows how to ask the question of your own data in a minute. [Samplers](../samplers.md) says what the
# moves do; `method="auto"` is where to begin, and the verdict of `fit.summary()` says whether there is anything to choose.
#
# ## Two questions, and only two
#
# 1. **Does it get there?** A chain that begins badly can stay where it is. R-hat does not show this if all chains begin alike. Start them from opposite
#    ends, from one cluster and from many, and see whether the posterior means agree within their Monte Carlo errors.
# 2. **How much does a second buy?** Effective draws a second of CPU time, of the number that you will report. Neither an autocorrelation time by
#    itself nor the speed of a sweep answers this; their quotient does.
#
# ## A contest on your own data

# %%
import time
import warnings

import numpy as np
import pandas as pd

import nrmmix as nm
from nrmmix.report.recorded import recorded


def contest(model, methods, seconds, starts=("one", "sequential"), chains=2):
    """Each method from each start for about so many CPU seconds: do the starts agree, and what does a second buy?"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nm.ConvergenceWarning)  # that is what the table is about
        return pd.DataFrame([_row(model, name, method, seconds, starts, chains) for name, method in methods.items()]).set_index("method")


def _row(model, name, method, seconds, starts, chains):
    fits, used = [], []
    for start in starts:
        began = time.process_time()
        model.fit(method, draws=50, tune=50, chains=chains, init=start, rng=0, cores=1)
        each = (time.process_time() - began) / 100
        n = max(100, int(seconds / len(starts) / each / 1.3))
        tune = max(100, n // 3)
        began = time.process_time()
        fits.append(model.fit(method, draws=n, tune=tune, chains=chains, init=start, rng=1, cores=1))
        used.append((time.process_time() - began) * n / (n + tune))
    tables = [fit.diagnostics().loc[["n_clusters", "log_joint"]] for fit in fits]
    gap = (tables[0]["mean"] - tables[1]["mean"]).abs() / np.hypot(tables[0]["mcse"], tables[1]["mcse"])
    ess = sum(table["ess"] for table in tables) / sum(used)
    return {
        "method": name, "draws": sum(fit.draws["n_clusters"].size for fit in fits),
        "K by start": " / ".join(f"{table.loc['n_clusters', 'mean']:.1f}" for table in tables), "apart, in errors": gap.max().round(1),
        "R-hat": max(table["rhat"].max() for table in tables), "ESS of K a second": ess["n_clusters"].round(0),
        "of log joint": ess["log_joint"].round(0),
    }


def wanting(table):
    """Methods whose starts disagree by more than four Monte Carlo errors, whose chains differ, or which never moved."""
    return [name for name, row in table.iterrows() if not row["apart, in errors"] < 4 or not row["R-hat"] < 1.2]


pd.set_option("display.width", 150, "display.float_format", "{:.4g}".format)
budget = 4.0
methods = {"gibbs": "gibbs", "split_merge": "split_merge", "tree": "tree", "slice": "slice"}
galaxy = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
near_table = contest(galaxy, methods, budget)
near_table

# %% [prose]
# 82 rows of one column. Out by the first question: {', '.join(wanting(near_table)) or 'none'}. (What is out may only need a longer budget.) Of the others, take what buys most.
# Groups in eleven dimensions, which stand apart, are another matter:

# %%
rng = np.random.default_rng(1)
groups = np.repeat(np.arange(6), 60)
X = rng.normal(size=(360, 11)) + 2.2 * rng.normal(size=(6, 11))[groups]
far = nm.Model(data=X, prior=nm.DirichletProcess(1.0))
far_table = contest(far, methods, budget)
far_table

# %% [prose]
# By the first question these are out: {', '.join(wanting(far_table)) or 'none'}. A method that never leaves its start may have a fine autocorrelation time, or none at
# all; only the other start shows it. Density regression has one more column to look at, the curves; `fit.curve_diagnostics()` has R-hat and
# effective draws of means and quartiles.

# %%
motorcycle = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle())
contest(motorcycle, {**methods, "sngp": "sngp"}, 2 * budget, starts=("one", "each"))

# %% [markdown]
# ## What the papers' data say
#
# The same two numbers on the data of the papers, from `vignettes/results/`. First, whether and when a chain arrives: CPU seconds to the true partition (10,000
# points in 40 and 80 dimensions: to 99% of the way), medians of runs.

# %%
trees, permutation, kernels = recorded("tree_figures"), recorded("permutation"), recorded("kernel_samplers")


def middle(rows, name):
    values = [np.inf if row[name] is None else row[name] for row in rows]
    return float(np.median(values)) if values else np.nan


def seconds(value):
    return "not reached" if np.isinf(value) else f"{value:.2f}"


arrivals = []
for figure, prior, name in (("3", "DP", "1,300 x 2, DP"), ("3", "NGGP", "1,300 x 2, NGGP"), ("4", "NGGP", "10,000 x 6, NGGP, 119 clusters")):
    for method in ("Gibbs", "SM", "exact"):
        rows = [row for row in trees["results"]["runs"] if (row["figure"], row["prior"], row["method"]) == (figure, prior, method)]
        arrivals.append({"data": name, "sampler": {"SM": "split-merge", "exact": "tree"}.get(method, method), "seconds": seconds(middle(rows, "reached")),
                         "best beside the truth": f"{middle(rows, 'best') - rows[0]['truth']:.0f}"})
for panel, name in (("d", "10,000 x 40, 10 clusters"), ("f", "10,000 x 40, 80 clusters"), ("h", "10,000 x 80, 40 clusters")):
    for hybrid in ("Gibbs", "Gibbs + split-merge", "Gibbs + permutation", "all three"):
        rows = [row for row in permutation["results"]["burn_in"] if (row["panel"], row["hybrid"]) == (panel, hybrid)]
        ends = [max(row["log_joint"]) - row["truth"] for row in rows]
        arrivals.append({"data": name, "sampler": hybrid, "seconds": seconds(middle(rows, "reached")), "best beside the truth": f"{np.median(ends):.0f}"})
pd.DataFrame(arrivals).set_index(["data", "sampler"])

# %% [markdown]
# Then, what a second buys after that: effective draws of the number of clusters for each CPU second.

# %%
wins = {}
rates = {}
for figure, prior, name in (("3", "DP", "1,300 x 2, DP"), ("3", "NGGP", "1,300 x 2, NGGP"), ("4", "NGGP", "10,000 x 6, NGGP"), ("5", "NGGP", "words, NGGP")):
    rates[name] = {
        short: middle([row for row in trees["results"]["runs"] if (row["figure"], row["prior"], row["method"]) == (figure, prior, method)], "ess_a_second")
        for method, short in (("Gibbs", "gibbs"), ("SM", "split_merge"), ("exact", "tree"))
    }
for data in ("motorcycle", "synthetic", "microwave background"):
    for kernel in ("box", "SE"):
        rows = [row for row in kernels["results"]["runs"] if (row["data"], row["kernel"]) == (data, kernel)]
        rates[f"{data}, {kernel}"] = {
            name: float(np.mean([row["ess_clusters"] for row in rows if row["sampler"] == name])) for name in ("gibbs", "slice", "sngp")
        }
table = pd.DataFrame(rates).T
table.round(1)

# %%
best = table.idxmax(axis=1)
worst = (table.max(axis=1) / table.min(axis=1)).round(1)

# %% [prose]
# The best of each row: {'; '.join(f'{name}: {winner}' for name, winner in best.items())}. Between the best and the worst of a row lies a factor of {worst.min():.1f} to {worst.max():.1f}. So
# the second question seldom matters as much as the first: a sampler that is twice as fast saves half the time, and one that does not get
# there saves nothing.
#
# ## What to take
#
# | your data | take | why |
# |---|---|---|
# | up to a few hundred rows, one column | `"auto"`, which is Gibbs; where chains disagree, `"split_merge"` | seldom stuck, and sweeps are cheap |
# | up to a few hundred rows, two columns | `"auto"`, which is `"split_merge"` | as fast as Gibbs, which may take two groups beside each other for one in all chains |
# | more rows or columns, groups that stand apart | `"auto"`, which is `"tree"` | splits and merges that are accepted; exact |
# | a bad start, many dimensions, thousands of rows | `[nm.Permutation(order="projection", beam=1e-32), nm.SplitMerge(), nm.Gibbs()]` | climbs in seconds; searches while tuning, exact after it |
# | 200,000 rows and more | `"auto"`, which is split-merge; or [variational inference](../variational.md) | a guide tree takes minutes |
# | density regression of 20,000 rows and more | [`"vb"`](variational_regression.md) | chains take long to agree; but bands of `"vb"` are too narrow |
# | a family whose parameters are not integrated out | Gibbs, `"slice"`, or `"blocked"` for finite mixtures | the others need the integral |
# | density regression | `"auto"`, which is `"split_merge"`; then `"tree"` or `"sngp"` | run the contest: none is best on all data |
#
# Lists of moves take turns; `nm.Cycle(moves, share="work")` gives each the same share of the work. Chains that disagree are better helped by
# another move than by more of the same.
#
# ## Limits of this page
#
# Seconds are CPU time of one thread, on machines that others used as well: {trees['machine']['processor']} for the tree-guided moves,
# {permutation['machine']['processor']} for the permutation moves and {kernels['machine']['processor']} for density regression. Compare seconds on the same data only. Runs are few ({min(trees['settings']['seeds'])} to {max(trees['settings']['seeds'])}, {permutation['settings']['seeds']} and
# {kernels['settings']['splits']}), so factors below two mean little. The synthetic data were drawn from mixtures, for which these models are right; real data
# are less tidy.
