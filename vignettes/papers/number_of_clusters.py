"""How many clusters the default finds where the truth is known.  `make vignettes` writes docs/papers/number_of_clusters.md by it."""

# %% [markdown]
# # How many clusters?
#
# A mixture that does not fix the number of clusters still has a prior of it, and of what a cluster looks like. Where that prior is wrong
# for the table, one lump falls into pieces, or groups that everyone sees are one cluster. This page says what `nm.fit` finds by default
# where the truth is known: single lumps of four shapes, and groups six standard deviations apart, in 1 to 50 columns. Figures are those of
# `python -m benchmarks.number_of_clusters`: 500 draws of each chain after 500 iterations. Beside it are `BayesianGaussianMixture` of
# scikit-learn (20 components, full covariance) and Gaussian mixtures of 1 to 8 components and four kinds of covariance, among which BIC
# chooses.
#
# ## A fit

# %%

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nrmmix as nm
from nrmmix.report.recorded import recorded

rng = np.random.default_rng(1)
centres = 3.0 * rng.normal(size=(3, 12))
labels = rng.integers(0, 3, 150)
data = pd.DataFrame(centres[labels] + rng.normal(size=(150, 12)), columns=[f"y{j}" for j in range(12)])
model = nm.Model(" + ".join(data.columns) + " ~ 1", data)
model

# %%
fit = model.fit(rng=1)
pd.crosstab(labels, fit.partition().labels, rownames=["truth"], colnames=["cluster"])

# %% [markdown]
# The printed model says how many clusters the prior expects before it sees the data. `nm.mass_for_clusters(expected, n)` gives the mass for
# another number.
#
# The scale of the clusters' covariances is sampled too, one number for each column; its draws are in `fit.draws["scale"]`. A fixed number
# is right for some tables and wrong for others. A small share of the variances breaks a lump of few rows, or of many independent columns,
# into pieces; a large share joins groups, and hides that columns are nearly dependent. A scale of your own is `nm.Gaussian(scale=...)`,
# another law `nm.Gaussian(scale=nm.Gamma(shape, rate))`.
#
# ## One lump

# %%
found = recorded("number_of_clusters")
cells = pd.DataFrame(found["results"]["cells"])
no_answer = cells[cells["how"] == "no draw"]
STYLE = {"nrmmix": ("#0072B2", "-"), "nrmmix, vb": ("#56B4E9", "--"), "BayesianGaussianMixture": ("#D55E00", "-"), "BIC": ("0.5", ":")}


def lines(ax, table, value):
    for method, (color, dashes) in STYLE.items():
        own = table[table["method"] == method].groupby("columns")[value].mean()
        ax.plot(own.index, own, dashes, color=color, label=method, marker="o", ms=3)
    ax.set_xscale("log", base=2)
    ticks = sorted(table["columns"].unique())
    ax.set_xticks(ticks, [str(tick) for tick in ticks])


lumps = {"normal": "normal", "skewed": "gamma, shape 2", "t4": "t, 4 degrees of freedom", "uniform": "uniform"}
rows = sorted(cells["rows"].unique())
fig, axes = plt.subplots(len(rows), 4, figsize=(9, 2.2 * len(rows)), sharex=True, sharey=True, layout="constrained")
for of_rows, n in zip(axes, rows, strict=True):
    for ax, (shape, title) in zip(of_rows, lumps.items(), strict=True):
        lines(ax, cells[(cells["shape"] == shape) & (cells["rows"] == n)], "clusters")
        ax.set_title(f"{title}, {n:,} rows", fontsize=8)
        ax.set_yscale("log")
    of_rows[0].set_ylabel("clusters")
for ax in axes[-1]:
    ax.set_xlabel("columns")
fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8, frameon=False)
fig

# %%
normal = cells[cells["shape"].isin(["normal", "uniform"])].pivot_table(index="columns", columns="method", values="clusters")
normal[list(STYLE)].round(1)

# %% [prose]
# Chains had {", ".join(f"{limit:.0f}" for limit in sorted(cells["limit"].unique()))} seconds (`--seconds`) on two cores that had other work. Where no draw came of them there is no answer, and no point: {len(no_answer)} of {(cells["method"] == "nrmmix").sum()} tables,
# of {no_answer["rows"].min():,} rows and {" and ".join(map(str, sorted(no_answer["columns"].unique())))} columns. That many rows of that many columns take longer: give them minutes, or `method="vb"`.
#
# Mean numbers of clusters of one lump; the table is of the normal and the uniform one, over all numbers of rows. The default has at most
# {normal["nrmmix"].max():.1f} on average, `BayesianGaussianMixture` up to {normal["BayesianGaussianMixture"].max():.0f}. A skewed lump, and
# one with heavy tails, is a mixture of several normal components to every method that has only these; the fit then describes their density,
# and its components are not groups.
#
# ## Groups

# %%
groups = ["2 groups", "4 groups", "6 groups", "3 groups in 2 columns"]
fig, axes = plt.subplots(len(rows), 4, figsize=(9, 2.2 * len(rows)), sharex=True, sharey=True, layout="constrained")
for of_rows, n in zip(axes, rows, strict=True):
    for ax, shape in zip(of_rows, groups, strict=True):
        lines(ax, cells[(cells["shape"] == shape) & (cells["rows"] == n)], "adjusted Rand")
        ax.set_title(f"{shape}, {n:,} rows", fontsize=8)
    of_rows[0].set_ylabel("adjusted Rand index")
for ax in axes[-1]:
    ax.set_xlabel("columns")
fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8, frameon=False)
fig

# %%
grouped = cells[cells["shape"].isin(groups)]
index = grouped.pivot_table(index="columns", columns="method", values="adjusted Rand")[list(STYLE)]
index.round(2)

# %%
by_rows = grouped[grouped["method"] == "nrmmix"].pivot_table(index="rows", columns="columns", values="adjusted Rand")
widest = by_rows.iloc[:, -1].dropna()
by_rows.round(2)

# %%
outside = grouped.pivot_table(index="columns", columns="method", values="outside")[list(STYLE)]
outside.round(3)

# %% [prose]
# Adjusted Rand index of the estimated partition against the truth: 1 is the truth, 0 no better than chance; the third table has the share
# of the rows that are in none of the clusters that hold a twentieth of them. Up to five columns the index is
# {index.loc[index.index <= 5, "nrmmix"].mean():.2f} by default, `BayesianGaussianMixture` has
# {index.loc[index.index <= 5, "BayesianGaussianMixture"].mean():.2f} there. In many columns full covariances cost: each of K groups has d
# (d + 1) / 2 numbers of its own, and few rows do not determine them. The second table shows it:
# {", ".join(f"{value:.2f}" for value in widest)} with {", ".join(f"{n:,}" for n in widest.index)} rows of {widest.name} columns. BIC may
# choose spherical or equal covariances, which these simulated groups have, and finds them with fewer rows. Where you know that columns are
# independent within a group say so, `family=nm.Gaussian("diagonal")`.
#
# ## What to do
#
# - One lump in pieces, and many columns: is the scale fixed (`nm.Gaussian(scale=...)`)? Leave it to the default.
# - One cluster where you see several, and few rows for the number of columns: `nm.Gaussian("diagonal")`, or fewer columns.
# - Fewer components of a variational fit than you see groups, and only a few rows for each column: it stops at an optimum that depends on its
#   start. Compare `fit.elbo` of several `rng=`, or take chains.
# - A number of clusters that you expect: `prior=nm.DirichletProcess(nm.mass_for_clusters(expected, n))`.
# - Heavy tails or skewness of one group: clusters then stand for parts of its shape. `fit.partition(max_clusters=...)` joins them.
