"""Density regression: kernels, widths, locations.  `make docs` runs this script and writes docs/density_regression.md."""

# %% [markdown]
# # Density regression
#
# `y ~ x` fits the whole distribution of y at every x. It is a mixture whose weights depend on x: each atom of the random measure has a
# component, a weight, and a location among the covariates; at x it counts for its weight times a kernel of the distance from x to its location.
# Where no atom is near in comparison to the others, the nearest ones still share the whole probability, so that there is a density
# everywhere.

# %%
import nrmmix as nm

mcycle = nm.datasets.load_mcycle()
model = nm.Model("accel_g ~ times_ms", mcycle)
model

# %% [markdown]
# Unless told otherwise,
#
# - components are lines in the covariates, `nm.Regression("1 + times_ms")`, whose shrinkage, a precision for each column, and noise
#   scale are learnt from all components; `nm.Gaussian()` gives components of constant mean;
# - with one number as covariate the kernel is `nm.SquaredExponential(nm.PerAtom((0.02, 0.04, 0.08, 0.16)))`: every atom has a width of its own
#   among these, in units of the range of the covariate, so that wide atoms serve where the density changes slowly and narrow ones where it
#   changes fast; atoms can be at 40 places, equally spaced over the covariate;
# - with several covariates, or a factor, it is `nm.SparseProduct()`: every atom chooses the covariates that it depends on, see below; and
#   components have, beside the lines, squares of up to 20 numbers, of which most are shrunk to nothing, in tables of up to 2,000 rows,
#   and products of up to 5 numbers in tables of up to 200 rows.

# %%
fit = model.fit(rng=1)
fit.plot()

# %% [markdown]
# ## Can it be trusted?
#
# Chains are compared in the curves themselves: the conditional mean and the distribution function at quartiles of the rows near, at five
# places. The verdict, which the summary ends with and a warning after the fit repeats, reads them beside the number of clusters and the
# hyperparameters. `log_joint` is the joint density of everything that is drawn, auxiliary variables by their logarithms included.

# %%
fit.curve_diagnostics().round(3)

# %% [markdown]
# ## Predictions
#
# Everything comes with a credible band of the random density: means, quantiles, densities, distribution functions, and the probability
# to exceed a value:

# %%
at = {"times_ms": [10, 20, 30]}
fit.predict(at, kind="quantile", q=[0.1, 0.5, 0.9], rng=1)

# %%
fit.predict(at, kind="exceedance", at=[-50, 0], rng=1)

# %% [markdown]
# Differences between values of a covariate are taken draw by draw; other columns are held at their median, or at the level given:

# %%
fit.contrasts({"times_ms": [20, 30]}, kind="mean", rng=1)

# %% [markdown]
# ## Widths
#
# `width=0.05` fixes one width for all atoms, `width=nm.LogNormal(-3, 1)` samples one, and `nm.PerAtom(values, weights)` gives each atom its
# own. Integrated autocorrelation times, in sweeps; fewer are better:

# %%
import pandas as pd

kernels = {
    "per atom": nm.SquaredExponential(),
    "fixed at 0.05": nm.SquaredExponential(0.05),
    "shared, sampled": nm.SquaredExponential(nm.LogNormal(-3, 1)),
}
fits = {
    name: nm.fit("accel_g ~ times_ms", mcycle, kernel=kernel, draws=1000, tune=2000, thin=10, chains=4, rng=2)
    for name, kernel in kernels.items()
}
pd.DataFrame({name: 10 * one.diagnostics()["iact"] for name, one in fits.items()}).dropna(how="all").round(0)

# %% [markdown]
# **A width that all atoms share does not mix**: clusters hold the width where it is, and the width holds the clusters; integrating the
# locations out of its step, as is done here, does not change that. A short run shows little more than where it started, and its
# autocorrelation time grows with the length of the run that it is taken from. Widths of atoms have no such step: the width of an atom is
# integrated out together with its location. Use them unless the shared width itself is what is asked for, and then look at its `ess` and
# `rhat`. The mass is the slowest of the others; curves depend little on it.

# %%
fits["shared, sampled"].diagnostics().round(3)

# %% [markdown]
# ## Kernels, categories, several covariates
#
# | kernel | log K at distance d |
# |---|---|
# | `SquaredExponential(width)` | -d² / (2 width²) |
# | `Laplace(width)` | -d / width |
# | `Epanechnikov(width)` | log(1 - d²/width²), nothing beyond the width |
# | `Triangular(width)` | log(1 - d/width), nothing beyond the width |
# | `Box(width)` | 0 within the width, nothing beyond |
# | `Matching(rho)` | 0 for the same category, log rho for another |
#
# With several covariates, or a factor, the default is `nm.SparseProduct()`: an atom's kernel is a product over those covariates that it uses,
# squared exponentials of numbers and matching of categories, and which ones these are is sampled. `kernels=` gives a covariate another kernel.
# One of the kernels above, such as `nm.SquaredExponential()`, serves all numeric covariates as a product over them, with one width or one
# each, and `nm.Product` gives each covariate a kernel of its own; there every atom depends on all covariates. Factors enter the weights, and
# with `nm.SparseProduct()`, one response and up to 40 levels in all the lines too, which their levels shift as groups do in a random-effects
# model. The order of an ordered categorical is not used; give its codes as a number for that.

# %%
import numpy as np

rng = np.random.default_rng(1)
doses = pd.DataFrame({"dose": rng.uniform(0, 10, 300).round(1), "drug": rng.choice(["a", "b"], 300)})
steep = np.where(doses["drug"] == "a", 0.2, 1.0)
doses["response"] = steep * doses["dose"] + rng.normal(0, 0.3 + 0.1 * doses["dose"])
by_drug = nm.fit("response ~ dose + drug", doses, rng=1)
by_drug.predict({"dose": [2, 8, 2, 8], "drug": ["a", "a", "b", "b"]}, rng=1)

# %% [markdown]
# The true means are 0.4, 1.6, 2 and 8. How much more does drug b do than drug a, at a dose of 5? The truth is 4:

# %%
by_drug.contrasts({"drug": ["a", "b"], "dose": 5}, rng=1)

# %% [markdown]
# What each covariate matters: the share of rows whose cluster depends on it by the kernel, how far it moves the mean and two quantiles, and
# the larger R-hat of use and inclusion. `plot("importance")` draws it, and [Several covariates](papers/several_covariates.md) goes through an
# analysis.

# %%
by_drug.importance().round(2)

# %% [markdown]
# A family with a formula of its own has components that are lines in one variable, and weights that drift over another:
# `nm.fit("y ~ t", table, family=nm.Regression("x"))`.
#
# ## Many rows
#
# Rows with equal covariates share their weights, and rows whose covariates are all different make one group each. `groups=` puts the
# values of the covariate into bins of about as many rows, each at its mean, for the weights; components still see every x as it is:

# %%
n = 5000
x = rng.uniform(0, 1, n)
big = pd.DataFrame({"x": x, "y": np.sin(6 * x) + (0.1 + 0.6 * x**2) * rng.normal(size=n)})
print(nm.Model("y ~ x", big, kernel=nm.SquaredExponential(groups=200)))

# %% [markdown]
# ## Against the truth
#
# Foti and Williamson (2012) simulate components that enter and leave a mixture over time. `simulate_dynamic_mixture` draws such data, and
# knows their density. `scale=None` leaves time stamps as they are, so that widths are in their unit.

# %%
data, truth = nm.datasets.simulate_dynamic_mixture(rng=1)
train, held_out = data.drop(data.index[::10]), data.iloc[::10]
dynamic = nm.fit("y ~ time", train, kernel=nm.SquaredExponential(scale=None), rng=1)
scores = {"true density": np.log(truth.density(held_out["time"], held_out["y"])).mean(), "fit": dynamic.log_density(held_out).mean()}
pd.Series(scores, name="held-out log density a row").round(3)

# %% [markdown]
# `log_density(average="log")` is the mean of the logarithms over draws, as the paper reports, and no greater than the logarithm of the mean
# density:

# %%
dynamic.log_density(held_out, average="log").mean().round(3)

# %% [markdown]
# ## How well does it predict?
#
# Mean log density of held-out rows, in nats, of standardised responses, by the defaults: splits of the motorcycle data and of two tables of
# statsmodels, simulations of each of the others (`python -m benchmarks.density_regression --json vignettes/results/density_regression.json`).
# Beside it Gaussian process regression with one noise variance, with a noise variance that changes with the covariates, and a mixture of
# covariates and response together, conditioned on the covariates.

# %%
from nrmmix.report.recorded import recorded

found = recorded("density_regression")
splits = pd.DataFrame(found["results"]["splits"])
methods = ["density regression", "GP", "heteroscedastic GP", "joint mixture"]
lines = ["| data | " + " | ".join(methods) + " | rows inside 90% bands |", "|---" * (len(methods) + 2) + "|"]
for name, row in splits.groupby("set", sort=False)[[*methods, "cover"]].mean().iterrows():
    best = row[methods].idxmax()
    cells = [f"**{row[method]:.2f}**" if method == best else f"{row[method]:.2f}" for method in methods]
    lines.append(" | ".join([f"| {name}", *cells, f"{row['cover']:.2f} |"]))
print("\n".join(lines))

# %% [markdown]
# Differences from the best of the others, split by split: mean, standard error, and what that says where two standard errors decide.

# %%
from nrmmix.report.claims import verdict

rows = {}
for name, part in splits.groupby("set", sort=False):
    other = part[methods[1:]].mean().idxmax()
    difference = part["density regression"] - part[other]
    mean, error = difference.mean().round(3), difference.sem().round(3)
    rows[name] = {"beside": other, "difference": mean, "standard error": error, "is better": verdict(difference)}
pd.DataFrame(rows).T

# %%
print(f"{splits['split'].nunique()} splits; commit {found['commit'][:7]}, {found['date']}, {found['machine']['processor']}")

# %% [markdown]
# Where a smooth mean with normal noise is the truth, a Gaussian process whose noise may change is as good or a little better; where it is
# not, much worse. More tables of several covariates are in [Several covariates](papers/several_covariates.md).
