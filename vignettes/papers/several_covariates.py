"""Several covariates and factors, measured and shown.  `make vignettes` writes docs/papers/several_covariates.md by it."""

# short: run = {"draws": 500, "tune": 1000, "thin": 2, "chains": 4} -> run = {"draws": 40, "tune": 40, "chains": 2}

# %% [markdown]
# # Several covariates
#
# With many covariates most of them do not matter, or only for some rows. This page says what density regression does then by default, how
# well that predicts beside other methods, how to read from a fit which covariates matter, how factors enter, and what is not solved.
# Figures of the comparison are those of `benchmarks/several_covariates.py`.
#
# ## The model
#
# The distribution of y at x is a mixture of lines with normal noise, and the weight of a line depends on x. Each atom of the random measure
# has a weight $w_m$, a line, and a slot $\mu_m$; its share at x is in proportion to
#
# $$w_m K(x, \mu_m), \qquad K(x, l) = \prod_{j \in \text{used by } l} k_j(x_j) .$$
#
# A slot uses some of the covariates, each with a place and a width in it, and ignores the others: an atom can be for all rows with a small
# $x_2$, whatever their other covariates are. Which covariates a slot uses is sampled with everything else, and so is the chance with which
# each covariate is used. A priori a slot uses about one or two. This is `nm.SparseProduct()`, with 150 slots.
#
# - A number has squared exponential kernels, at eleven places and of four widths. Distances are measured half by range and half by rank, so
#   that neither a long tail nor a heap of equal values takes all places.
# - A factor has a kernel that is 1 at one level and small at the others, so that atoms can be for one level.
# - Lines are in all covariates. Where there are at most 20 numbers and at most 2,000 rows, they are in the squares of the numbers too, each
#   about the middle of its range; where there are at most 5 numbers and at most 200 rows, in their products as well. How far coefficients
#   are from zero is learnt column by column, from all components, and so is how large the noise is; a column that does not matter is shrunk
#   towards zero. The levels of factors, at most 40 in all, shift the lines, by effects whose spread is learnt for all levels of a factor
#   together, as random effects are.
#
# Chains start from [variational fits](variational_regression.md), each from one of its own. The formulae of the sampler are in
# [Mathematics](../site/pages/mathematics.md).
#
# ## Beside other methods

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nrmmix as nm
from nrmmix.report.recorded import recorded

found = recorded("several_covariates")
runs = pd.DataFrame(found["results"]["runs"])
labels = {
    "nrmmix": "nrmmix", "isotropic": "nrmmix, isotropic kernel", "linear": "linear model", "additive": "additive model",
    "process": "Gaussian process", "forest": "quantile forest", "ngboost": "NGBoost",
}
tables = list(dict.fromkeys(runs["table"]))
methods = [name for name in labels if name in set(runs["method"])]
grouped = runs.groupby(["table", "method"])[["log density", "rmse", "coverage"]]
mean, error = grouped.mean(), grouped.sem()
of_file = [name for name in ("yacht", "energy") if name in tables]


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
# Five simulated tables: *concrete-like*, smooth with interactions, noise that grows and covariates that are zero in many rows;
# *Boston-like*, thirteen correlated covariates of which three move the mean and one the noise; *yacht-like*, where the last of six
# covariates matters, exponentially, and noise is tiny; *factor*, four levels with four shapes; *levels*, twenty that shift one curve.
# *iris* is `petal_length_cm ~ species + sepal_length_cm`; {" and ".join(f"*{name}*" for name in of_file)} are of the UCI repository and do
# not come with the package. There are three splits of each table, and five of {" and ".join(of_file)}, of which the isotropic kernel had
# three. Entries are means ± their standard errors; rows are training rows. The best entry of a row is in bold type, though not always
# better by more than its error. The default samples for {found["settings"]["seconds"]:.0f} s, the isotropic kernel for 30 s, and on energy
# for 60 s. Responses are in units of their standard deviation among training rows.
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
beaten = "; ".join(f"{table}: {', '.join(names)}" for table, names in worse.items() if names)
of_kernel = {table: gaps[table, "isotropic"] for table in tables}
gained = [table for table, (gap, sem) in of_kernel.items() if gap > 2 * sem]
lost = [table for table, (gap, sem) in of_kernel.items() if gap < -2 * sem]
first = [table for table in tables if rank["nrmmix"][table] == 1]
closer = {}
for table in tables:
    own = runs[runs["table"] == table].pivot(index="split", columns="method", values="rmse")
    over = own["nrmmix"].to_numpy()[:, None] - own
    closer[table] = [labels[name] for name in methods if name != "nrmmix" and over[name].mean() > 2 * over[name].sem()]
by_mean = "; ".join(f"{table}: {', '.join(names)}" for table, names in closer.items() if names) or "none"

# %% [prose]
# Split by split the default has a higher log density than another method by more than two standard errors in {len(clear["better"])} of
# {len(gaps)} comparisons, and a lower one in {len(clear["worse"])}{f" ({beaten})" if beaten else ""}; with three to five splits such errors
# are rough. It has the highest mean on {", ".join(first) or "no table"}. Against the isotropic kernel, by which every atom depends on all
# covariates, it is better on {", ".join(gained) or "no table"} and worse on {", ".join(lost) or "none"}. By RMSE, which measures the mean
# alone, these are better by more than two standard errors: {by_mean}.
#
# ## Which covariates matter
#
# A table made much like the Boston-like one of the comparison: thirteen correlated covariates. The mean depends on x1, on x2, whose slope
# is steeper beyond a half, and on x6; x9 changes the size of the noise alone; the others do not matter, though they are correlated with
# those. What does a fit find without being told any of this?

# %%
def bent(x2):
    return np.where(x2 > 0.5, 4.5, 1.0) * (x2 - 0.5)


def noise(x9):
    return 1.2 * np.exp(0.8 * np.tanh(x9))


rng = np.random.default_rng(5)
X = rng.normal(size=(506, 3)) @ rng.normal(0, 0.6, (3, 13)) + rng.normal(0, 0.8, (506, 13))
parts = {"x1": -3 * X[:, 0], "x2": bent(X[:, 1]), "x6": 2 * np.tanh(2 * X[:, 5])}
houses = pd.DataFrame({f"x{j + 1}": X[:, j] for j in range(13)}).assign(y=20 + sum(parts.values()) + noise(X[:, 8]) * rng.normal(size=506))

run = {"draws": 500, "tune": 1000, "thin": 2, "chains": 4}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of convergence, which is looked at below
    fit = nm.fit("y ~ " + " + ".join(f"x{j + 1}" for j in range(13)), houses, rng=1, **run)
matter = fit.importance(draws=100, rows=30)
ninths = {name: part[np.argsort(houses[name])[((np.arange(9) + 0.5) / 9 * 505).round().astype(int)]] for name, part in parts.items()}
truth = pd.Series({name: part.std() for name, part in ninths.items()}, name="truth")  # over the values that rows are moved to
columns = ["use", "effect", "effect_lower", "effect_upper", "effect_q05", "effect_q95", "rhat"]
matter[columns].join(truth).fillna({"truth": 0.0}).sort_values("effect", ascending=False).round(2)

# %%
fit.plot("importance", draws=100)

# %% [markdown]
# On the left: the share of rows whose cluster depends on a covariate by its slot. On the right, in units of y: how far the conditional mean
# moves, as one covariate moves over its values while the others stay as they are, and how far the 5% and the 95% quantile move. The two
# panels need not agree: what enters by a line alone moves the mean and is used by few slots.

# %%
order = matter.sort_values("effect", ascending=False)
moves = list(order.index[order["effect_lower"] > 0.5])
others = order.drop(index=moves)
noisy = others["effect_q95"].idxmax()
idle = others.drop(index="x9")
typical = {name: float(houses[name].median()) for name in matter.index}
low, high = -1.5, 1.5


def spread_at(value):
    """Of the distance from the 5% to the 95% quantile the estimate, and the truth."""
    found = fit.predict(pd.DataFrame([typical | {"x9": value}]), kind="quantile", q=[0.05, 0.95], draws=200, rng=1)["estimate"].to_numpy()
    return found[1] - found[0], 2 * 1.645 * noise(value)


def true_density(y, x):
    mean = 20 - 3 * x["x1"] + bent(x["x2"]) + 2 * np.tanh(2 * x["x6"])
    return np.exp(-0.5 * ((y - mean) / noise(x["x9"])) ** 2) / (noise(x["x9"]) * np.sqrt(2 * np.pi))


spreads = {value: spread_at(value) for value in (low, high)}
fig, axes = plt.subplots(1, 2, figsize=(10, 3.7), layout="constrained", sharey=True)
grid = np.linspace(8, 34, 180)
for ax, name, values in ((axes[0], "x2", (-1.0, 0.5, 2.0)), (axes[1], "x9", (low, 0.0, high))):
    for value, color in zip(values, ("#0072B2", "#8C8C8C", "#D55E00"), strict=True):
        one = fit.predict(pd.DataFrame([typical | {name: value}]), kind="density", at=grid, draws=200, rng=1)
        ax.plot(grid, one["estimate"].to_numpy(), color=color, label=f"{name} = {value:g}")
        ax.fill_between(grid, one["lower"].to_numpy(), one["upper"].to_numpy(), color=color, alpha=0.18, linewidth=0)
        ax.plot(grid, true_density(grid, typical | {name: value}), color=color, linestyle="--", linewidth=1)
    ax.set(xlabel="y", ylim=(0, 0.72), xlim=(grid[0], grid[-1]))
    ax.legend(frameon=False)
axes[0].set_ylabel("conditional density (dashed: true)")
fig

# %%
steps = fit.contrasts({"x2": [-1.0, 0.0, 1.0, 2.0]}, rng=1)
from_to = {label: [float(end) for end in label.split(" - ")] for label in steps.index}
steps = steps.assign(truth=[float(bent(to) - bent(start)) for to, start in from_to.values()])
missed = int(((steps["truth"] < steps["lower"]) | (steps["truth"] > steps["upper"])).sum())
steps.round(2)

# %%
from nrmmix.posterior.draws import Draws, Posterior
from nrmmix.posterior.importance import importance

chains = []
for c in range(fit.draws.n_chains):
    own = Draws({name: fit.draws[name][c : c + 1].copy() for name in fit.draws})
    chains.append(importance(Posterior(fit.model, own, fit.seed), draws=50, rows=30))
same = sum(set(one["effect"].nlargest(len(moves)).index) == set(moves) for one in chains)
next_ = sum(one["effect_q95"].drop(moves).idxmax() == noisy for one in chains)

# %% [prose]
# These densities are right in outline only: centres are off by up to one unit, estimates have shoulders that the truth has not,
# and bands leave out the truth in places.
#
# Conclusion. The mean moves with {", ".join(moves)}: of these the band of the effect is above a half of a unit of y. Of the {len(others)}
# others none moves it by more than {others["effect"].max():.2f}. Among those {noisy} has the largest effect on the 95% quantile,
# {others["effect_q95"].max():.2f}, against {others["effect_q95"].drop(noisy).max():.2f} for the next: it matters more for the spread than
# for the mean. With the other covariates at their medians the distance from the 5% to the 95% quantile is {spreads[low][0]:.1f} at x9 =
# {low} and {spreads[high][0]:.1f} at x9 = {high}, where the truth is {spreads[low][1]:.1f} and {spreads[high][1]:.1f}: the direction is
# found, and the change is
# {"too small" if spreads[high][0] - spreads[low][0] < 0.9 * (spreads[high][1] - spreads[low][1]) else "about right"}. From 1 to 2 in x2 the
# mean rises by {steps.loc["2 - 1", "estimate"]:.1f}, from -1 to 0 by {steps.loc["0 - -1", "estimate"]:.1f} (the truth:
# {steps.loc["2 - 1", "truth"]:.1f} and {steps.loc["0 - -1", "truth"]:.1f}), so that the bend is found. These are associations given the
# other covariates; nothing here says what an intervention would do.
#
# An effect is a standard deviation, and never below zero. Posterior means of the effects of the nine covariates that do not matter at all
# are up to {idle["effect"].max():.2f} here, with bands up to {idle["effect_upper"].max():.2f}, and the mean does not depend on {noisy}
# either, whose band is {matter.loc[noisy, "effect_lower"]:.2f} to {matter.loc[noisy, "effect_upper"]:.2f}. So effects are to be read
# against each other, not against zero.
#
# The largest R-hat of the curves of this fit is {fit.curve_diagnostics()["rhat"].max():.2f}, and that of use or inclusion
# {matter["rhat"].max():.2f}: the chains do not agree, and {missed} of the {len(steps)} bands of contrasts miss the truth. Which covariates
# matter does not depend on that. Taken alone, {same} of the {len(chains)} chains have the same {len(moves)} covariates first, and in
# {next_} of them {noisy} has the largest effect on the 95% quantile among the others. Sizes and bands need longer chains.
#
# ## A factor
#
# Four levels by which y has another shape in x: a line, a wave, two modes, noise that grows. The model is told `y ~ level + x`.

# %%
n = 400
x, level = np.round(rng.uniform(0, 1, n), 3), rng.choice(list("abcd"), n)
e = rng.normal(size=n)
shape = {"a": 2 * x + 0.2 * e, "b": np.sin(7 * x) + 0.2 * e, "c": np.where(rng.random(n) < x, 1.5, -1.5) * x + 0.2 * e, "d": 1 - x + (0.05 + x) * e}
levels = pd.DataFrame({"y": np.select([level == one for one in shape], list(shape.values())), "level": level, "x": x})
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    by_level = nm.fit("y ~ level + x", levels, rng=1, **run)
point = 0.7
fig, axes = plt.subplots(1, 4, figsize=(11, 3.1), layout="constrained", sharey=True)
at = np.linspace(0.01, 0.99, 50)
heights = np.linspace(-2.6, 3.2, 140)
for ax, one in zip(axes, "abcd", strict=True):
    new = pd.DataFrame({"level": one, "x": at})
    density = by_level.predict(new, kind="density", at=heights, draws=100, rng=1)["estimate"].to_numpy().reshape(len(at), -1)
    ax.pcolormesh(at, heights, np.sqrt(density.T), cmap="Blues", vmin=0, vmax=1.4, rasterized=True)
    own = levels[levels["level"] == one]
    ax.plot(own["x"], own["y"], ".", color="#D55E00", ms=3)
    ax.set(title=f"level {one}", xlabel="x", ylim=(heights[0], heights[-1]))
axes[0].set_ylabel("y; shade: root of the density")
fig

# %%
by_level.importance(draws=100)[columns].round(2)

# %%
apart = by_level.contrasts({"level": ["a", "b"], "x": point}, rng=1).iloc[0]
true = float(np.sin(7 * point) - 2 * point)
by_level.contrasts({"level": ["a", "b", "c", "d"], "x": point}, rng=1).round(2)

# %% [prose]
# One fit has all four shapes, the two modes of c and the growing spread of d among them, and each level has its own bands. At x of {point}
# the mean of b is that of a {apart["estimate"]:+.2f} ({apart["lower"]:+.2f} to {apart["upper"]:+.2f}); the truth is {true:+.2f}.

# %%
ours = runs[runs["method"].isin(["nrmmix", "isotropic"])].assign(gain=lambda own: own["log density"] - own["of one chain"])
of_default = ours[ours["method"] == "nrmmix"].groupby("table", sort=False)
rhat, gain = of_default["rhat"].max(), of_default["gain"].agg(["mean", "sem"])
limit = 1.05
agree = [table for table in rhat.index if rhat[table] < limit]
open_ = [table for table in rhat.index if table not in agree]
most = gain["mean"].idxmax()
sweeps, taken = of_default["sweeps"].median(), of_default["seconds"].mean()
lines = ["| table | rows | largest R-hat | mean R-hat | one chain | all four less one chain | sweeps of a chain | seconds |", "|---" * 8 + "|"]
for table in rhat.index:
    own = of_default.get_group(table)
    lines.append(
        f"| {table} | {own['rows'].iloc[0]:,} | {rhat[table]:.2f} | {own['rhat'].mean():.2f} | {own['of one chain'].mean():.2f} "
        f"| {gain.loc[table, 'mean']:.3f} ± {gain.loc[table, 'sem']:.3f} | {sweeps[table]:,.0f} | {taken[table]:.0f} |"
    )
sampled = "\n".join(lines)
largest = max(tables, key=lambda table: runs.loc[runs["table"] == table, "rows"].max())
seconds_of = {
    name: runs[(runs["table"] == largest) & (runs["method"] == name)]["seconds"].mean() for name in methods if name not in ("nrmmix", "isotropic")
}

measured, cells = recorded("bands_four")["settings"], pd.DataFrame(recorded("bands_four")["results"]["bands"])
lines = ["| rows | where | bands that hold the mean | width |", "|---" * 4 + "|"]
for cell in cells.to_dict("records"):
    held, width = (f"{cell[name]:.2f} ± {cell[f'{name} standard error']:.2f}" for name in ("coverage", "width"))
    lines.append(f"| {cell['n']} | {cell['where']} | {held} | {width} |")
shown_bands = "\n".join(lines)

# %% [prose]
# ## What is not solved
#
# Chains of the larger tables do not agree fully within such a time. The R-hat of a fit is the largest of up to 32 curves, means and
# distribution functions at up to eight rows; *one chain* is the log density by the draws of a single chain, on average over the four.
#
# {sampled}
#
# R-hat is below {limit} in all splits on {", ".join(agree) or "no table"}, and not on {", ".join(open_) or "none"}. Where it is not, chains
# are at different sets of atoms, and do not exchange them in the time given. The log density by the draws of all four chains is at least
# the average of those of single chains (Jensen's inequality), up to Monte Carlo error, as each is computed from 1,000 draws at most. The
# gain shows how far chains differ in what they predict. It is most on {most}, {gain.loc[most, "mean"]:.3f} ± {gain.loc[most, "sem"]:.3f}
# nats a row, and less than a hundredth on {int((gain["mean"] < 0.01).sum())} of {len(gain)} tables. So chains that disagree by R-hat differ
# little in what they predict, and all four are to be used. Credible bands of such a fit are approximate: coverage in the table above is of
# new rows, not of curves.
#
# The coverage of curves is measured on simulated data with a known mean: a wave in x1 whose size is x2, and two covariates that do not
# matter; x1 has a gap. {measured["sets"]} tables of each size, {measured["seconds"]:.0f} s of sampling each, 90% bands of the mean
# (`python -m benchmarks.bands four --sizes 100 400 --seconds 20`):
#
# {shown_bands}
#
# ## How long it takes
#
# The fits of the comparison sampled for at most {found["settings"]["seconds"]:.0f} seconds, a third of it for tuning, with four chains, on
# {found["machine"]["usable"]} cores that were shared with other work: these cores alone would allow more sweeps. Seconds in the table are
# of the fit, its check and all predictions. The work of a sweep grows with rows times clusters, and with rows times covariates times codes
# tried at the occupied slots: {sweeps.idxmin()} got {sweeps.min():,.0f} sweeps for each chain, {sweeps.idxmax()} {sweeps.max():,.0f}.
# `nm.fit(formula, table, time_limit=600)` goes on until chains agree or ten minutes are over, and `fit.extend()` after that. For the other
# methods seconds are, on the largest table, {", ".join(f"{labels[name]} {seconds_of[name]:.0f}" for name in seconds_of)}.
