"""Several covariates and factors, measured and shown.  `make vignettes` writes docs/papers/several_covariates.md by it."""

# %% [markdown]
# # Several covariates
#
# With many covariates most of them do not matter, or only for some rows. This page says what density regression does then by default, how well
# that predicts beside other methods, how to read from a fit which covariates matter, how factors enter, and what is not solved. Figures of the
# comparison are those of `benchmarks/several_covariates.py`.
#
# ## The model
#
# The distribution of y at x is a mixture of lines with normal noise, and the weight of a line depends on x. Each atom of the random measure
# has a weight $w_m$, a line, and a slot $\mu_m$; its share at x is in proportion to
#
# $$w_m K(x, \mu_m), \qquad K(x, l) = \prod_{j \in \text{used by } l} k_j(x_j) .$$
#
# A slot uses some of the covariates, each with a place and a width in it, and is blind to the others: an atom can be for the rows with a
# small $x_2$ and whatever else. Which covariates a slot uses is sampled with everything else, and so is the chance with which each
# covariate is used. A priori a slot uses about one or two. This is `nm.SparseProduct()`, with 150 slots.
#
# - A number has squared exponential kernels, at eleven places and of four widths. Distances are measured half by range and half by rank, so that
#   neither a long tail nor a heap of equal values takes all places.
# - A factor has a kernel that is 1 at one level and small at the others, so that atoms can be for one level.
# - Lines are in all numeric covariates. How far coefficients are from zero is learnt column by column, from all components, and so is how large the
#   noise is; a column that does not matter is shrunk to nothing.
#
# The formulae of the sampler are in [Mathematics](../site/pages/mathematics.md).
#
# ## Beside other methods

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nrmmix as nm
from nrmmix.report.recorded import is_fast, recorded

found = recorded("several_covariates")
runs = pd.DataFrame(found["results"]["runs"])
labels = {
    "nrmmix": "nrmmix", "isotropic": "nrmmix, isotropic kernel", "linear": "linear model", "additive": "additive model",
    "process": "Gaussian process", "forest": "quantile forest", "ngboost": "NGBoost",
}
tables = list(dict.fromkeys(runs["table"]))
methods = [name for name in labels if name in set(runs["method"])]
mean, error = (getattr(runs.groupby(["table", "method"])[["log density", "rmse", "coverage", "rhat", "of one chain"]], of)() for of in ("mean", "sem"))
splits = runs["split"].nunique()


def shown(column, digits):
    """Means over splits and their standard errors; the best mean of each row is in bold type."""
    lines = ["| table | rows | covariates | " + " | ".join(labels[name] for name in methods) + " |", "|---" * (3 + len(methods)) + "|"]
    for table in tables:
        own = mean.loc[table, column].dropna()
        best = {"log density": own.idxmax, "rmse": own.idxmin}.get(column, lambda: None)()
        first = runs[runs["table"] == table].iloc[0]
        cells = [table, f"{first['rows']:,}", str(first["covariates"])]
        for name in methods:
            text = f"{own[name]:.{digits}f} ± {error.loc[(table, name), column]:.{digits}f}" if name in own else ""
            cells.append(f"**{text}**" if name == best else text)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


# %% [prose]
# Four simulated tables: *concrete-like*, smooth with interactions, noise that grows and covariates that are zero in many rows; *Boston-like*,
# thirteen correlated covariates of which three move the mean and one the noise; *yacht-like*, where the last of six covariates matters, exponentially, and noise is
# tiny; *factor*, four levels with four shapes. *iris* is `petal_length_cm ~ species + sepal_length_cm`; *yacht* and *energy* are of the UCI
# repository and do not come with the package. {splits} splits each, means ± their standard errors; what is best in a row is
# in bold type, though not always by more than its error. Responses are in units of their standard deviation among training rows.
#
# Mean log density of a held-out row, higher is better (a quantile forest has none):
#
# {shown("log density", 2)}
#
# Root mean squared error of the mean, lower is better:
#
# {shown("rmse", 3)}
#
# Share of held-out rows within the 90% interval:
#
# {shown("coverage", 2)}

# %%
rank = {name: mean["log density"].unstack("method").rank(axis=1, ascending=False)[name] for name in methods if name != "forest"}
gaps = {}
for name in methods:
    if name in ("nrmmix", "forest"):
        continue
    for table in tables:
        own = runs[runs["table"] == table].pivot(index="split", columns="method", values="log density")
        gap = own["nrmmix"] - own[name]
        gaps[table, name] = gap.mean(), gap.sem()
clear = {
    way: [pair for pair, (gap, sem) in gaps.items() if (gap if way == "better" else -gap) > 2 * sem] for way in ("better", "worse")
}
worse = {table: [labels[name] for at, name in clear["worse"] if at == table] for table in tables}
beaten = "; ".join(f"{table}: {', '.join(names)}" for table, names in worse.items() if names) or "none"
of_kernel = {table: gaps[table, "isotropic"] for table in tables}
gained = [table for table, (gap, sem) in of_kernel.items() if gap > 2 * sem]
lost = [table for table, (gap, sem) in of_kernel.items() if gap < -2 * sem]
first = [table for table in tables if rank["nrmmix"][table] == 1]

# %% [prose]
# Split by split the default has a higher log density than another method by more than two standard errors in {len(clear["better"])} of {len(gaps)}
# comparisons, and a lower one in {len(clear["worse"])}, namely against ({beaten}). It has the highest mean on {", ".join(first) or "no table"}. Against
# the isotropic kernel, by which every atom depends on all covariates, it is better on {", ".join(gained) or "no table"}
# and worse on {", ".join(lost) or "none"}.
#
# ## Which covariates matter
#
# A table made like the Boston-like one of the comparison: thirteen correlated covariates. The mean depends on $x_1$, $x_2$, whose slope is
# steeper beyond a value of a half, and $x_6$; $x_9$ changes the size of the noise alone; the others do not matter, though they are correlated with
# those. What does a fit find, that is told nothing of this?

# %%
rng = np.random.default_rng(5)
n = 506
common = rng.normal(size=(n, 3))
X = common @ rng.normal(0, 0.6, (3, 13)) + rng.normal(0, 0.8, (n, 13))
centre = 20 - 3 * X[:, 0] + np.where(X[:, 1] > 0.5, 4.5, 1.0) * (X[:, 1] - 0.5) + 2 * np.tanh(2 * X[:, 5])
noise = np.exp(0.8 * np.tanh(X[:, 8]))
houses = pd.DataFrame({"y": centre + noise * rng.normal(0, 1.2, n)} | {f"x{j + 1}": X[:, j] for j in range(13)})
run = {"draws": 40, "tune": 40, "chains": 2} if is_fast() else {"draws": 500, "tune": 700, "thin": 2, "chains": 4}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of convergence, which is looked at below
    fit = nm.fit("y ~ " + " + ".join(f"x{j + 1}" for j in range(13)), houses, rng=1, **run)
matter = fit.importance()
matter[["use", "effect", "effect_lower", "effect_upper", "effect_q05", "effect_q95", "rhat"]].round(2)

# %%
fit.plot("importance")

# %% [markdown]
# On the left: the share of rows whose cluster depends on a covariate by its slot. On the right: how far the conditional mean moves as one covariate
# moves over its values while the others stay as they are, in units of y, and the same of the 5% and the 95% quantile. The two need not
# agree: a covariate that enters by a line alone moves the mean and is used by no slot.

# %%
order = matter.sort_values("effect", ascending=False)
means = list(order.index[order["effect_lower"] > 0.5])
spread = (matter["effect_q95"] + matter["effect_q05"]) / 2 - matter["effect"]
both = list(order.index[(order[["effect_q05", "effect_q95"]].min(axis=1) > 0.5) & (order["effect_lower"] <= 0.5)])
rest = [name for name in order.index if name not in means + both]
typical = {name: float(houses[name].median()) for name in matter.index}
at = pd.DataFrame([typical | {"x9": value} for value in (-1.5, 1.5)])
quantiles = fit.predict(at, kind="quantile", q=[0.05, 0.5, 0.95], rng=1)["estimate"].unstack("q").to_numpy()
true = {value: 2 * 1.2 * 1.645 * float(np.exp(0.8 * np.tanh(value))) for value in (-1.5, 1.5)}

fig, axes = plt.subplots(1, 2, figsize=(10, 3.7), layout="constrained")
grid = np.linspace(*np.quantile(houses["y"], [0.0, 1.0]), 200)
for ax, name, values in ((axes[0], "x2", (-1.0, 0.5, 1.5)), (axes[1], "x9", (-1.5, 0.0, 1.5))):
    for value, color in zip(values, ("#0072B2", "#8C8C8C", "#D55E00"), strict=True):
        one = fit.predict(pd.DataFrame([typical | {name: value}]), kind="density", at=grid, draws=200, rng=1)
        ax.plot(grid, one["estimate"].to_numpy(), color=color, label=f"{name} = {value:g}")
        ax.fill_between(grid, one["lower"].to_numpy(), one["upper"].to_numpy(), color=color, alpha=0.18, linewidth=0)
    ax.set(xlabel="y", ylim=(0, None), xlim=(8, 36))
    ax.legend(frameon=False)
axes[0].set_ylabel("conditional density, 90% bands")
fig

# %%
steps = fit.contrasts({"x2": [-0.5, 0.5, 1.5]} | {name: value for name, value in typical.items() if name != "x2"}, rng=1)
steps.round(2)
