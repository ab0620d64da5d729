"""Other packages on the same data.  `make vignettes` writes docs/papers/peers.md by it."""

# %% [markdown]
# # Beside other packages
#
# Two packages in Python fit the same models: [pyrichlet](https://pypi.org/project/pyrichlet/) samples Dirichlet process mixtures of Gaussians
# by slice sampling, and [bnpy](https://pypi.org/project/bnpy/) is the memoized variational inference of its authors, Hughes and Sudderth.
# `python -m benchmarks.peers` gives all of them the same rows and the same priors; its first lines say how the environments are made.
# [The number of clusters](number_of_clusters.md) has scikit-learn's `BayesianGaussianMixture` and Gaussian mixtures chosen by BIC.

# %%
import pandas as pd

from nrmmix.report.recorded import recorded

found = recorded("peers")
exact, faithful, edges = (pd.DataFrame(found["results"][name]) for name in ("exact", "faithful", "edges"))
posterior, *samplers = found["results"]["exact"]

# %% [markdown]
# ## Do they draw from the posterior?
#
# Six rows of two columns have 203 partitions, so the posterior of the number of clusters is known. A long run of a sampler must have each
# number as often as that. Distance: total variation between the two. Explained: what the spread of the chains explains of it, roughly.

# %%
shares = pd.DataFrame({row["sampler"]: row["shares"] for row in found["results"]["exact"]}, index=range(1, 7)).T
shares.columns = [f"K = {k}" for k in shares.columns]
shares.assign(distance=exact["distance"].to_numpy(), explained=exact["explained"].to_numpy()).round(4)


# %%
def said(rows):
    """Say which samplers are beyond what chance explains."""
    beyond = [row["sampler"] for row in rows if row["distance"] > row["explained"]]
    return f"Beyond what the spread explains: {', '.join(beyond)}." if beyond else "All distances are within what the spread of the chains explains."


def by(rows, name):
    """Medians over seeds, with the smallest and the largest."""
    groups = rows.groupby("sampler" if "sampler" in rows else "method", sort=False)[name]
    return {key: (one.median(), one.min(), one.max()) for key, one in groups}


rate = by(faithful, "ess a second")
peer, *ours = rate

# %% [prose]
# {said(samplers)}
#
# ## How fast do they mix, and what do they predict?
#
# The 272 eruptions of Old Faithful, two columns, standardised; DP(1) and a base measure that is fixed. Nine of ten rows are fitted, by two chains of
# 2,000 draws each; the rest is held out. Medians of {faithful["seed"].nunique()} random splits: mean number of clusters, effective draws of it a CPU second, and mean
# log predictive density of the rows held out.

# %%
faithful["ess"] = faithful["ess a second"] * faithful["CPU s"]
faithful.groupby("sampler", sort=False).agg(
    **{"clusters": ("clusters", "median"), "CPU s": ("CPU s", "median"), "effective draws": ("ess", "median"),
       "a CPU second": ("ess a second", "median"), "log density": ("held out", "median")}
).round({"clusters": 2, "CPU s": 2, "effective draws": 0, "a CPU second": 1, "log density": 3})

# %% [prose]
# Effective draws a second are {min(rate[name][0] for name in ours) / rate[peer][0]:,.0f} to {max(rate[name][0] for name in ours) / rate[peer][0]:,.0f} times
# those of {peer}, whose loops are in Python. Slice sampling of either package mixes slowly, and its mean number of clusters is uncertain with so
# few effective draws. Compiling is not counted: [How fast is it?](how_fast.md) has the first fit.
#
# ## The same bound as its authors' program
#
# {len(edges) // 2} runs each on the {100_000:,} patches of [Memoized variational inference](memoized.md), births and merges from one component on. Both programs write the
# evidence lower bound with all constants.

# %%
edges.assign(bound=edges["bound"].map("{:,.3f}".format)).round({"CPU s": 1}).set_index("method")

# %%
best = edges.loc[edges.groupby("method")["bound"].idxmax()].set_index("method")["bound"]
gap = abs(best.iloc[0] - best.iloc[1])
seconds = by(edges, "CPU s")
theirs = next(name for name in seconds if name.startswith("bnpy"))

# %% [prose]
# The highest bounds of the two {"are the same in all eight digits that are kept" if gap == 0 else f"differ by {gap:.3g}"}: two programs
# that share no code compute the same number. bnpy takes {seconds[theirs][0] / seconds["nrmmix"][0]:.1f} times our CPU seconds. Its last
# release is of 2022, and needs a function that Python has since removed to be put back.
#
# Packages of R (BNPmix, dirichletprocess) were not at hand and are not compared.
