"""Density regression: kernels, widths, locations.  `make docs` runs this script and writes docs/density_regression.md."""

# %% [markdown]
# # Density regression
#
# `y ~ x` fits the whole distribution of y at every x. It is a mixture whose weights depend on x. Each atom of the random measure has a
# component, a weight, and a location among the covariates; its share at x is proportional to its weight times a kernel of the distance from
# x to its location. The shares at x are normalized, so that there is a density everywhere: where no atom is near, the nearest ones share
# the whole probability.

# %%
import nrmmix as nm

mcycle = nm.datasets.load_mcycle()
model = nm.Model("accel_g ~ times_ms", mcycle)
model

# %% [markdown]
# Unless told otherwise,
#
# - components are lines in the covariates, `nm.Regression("1 + times_ms")`, whose shrinkage, a precision for each column, and noise scale
#   are learnt from all components; `nm.Gaussian()` gives components of constant mean.
# - with one number as covariate the kernel is `nm.SquaredExponential(nm.PerAtom((0.02, 0.04, 0.08, 0.16)))`: every atom has a width of its
#   own among these, in units of the range of the covariate. Wide atoms serve where the density changes slowly, narrow ones where it changes
#   fast. Atoms can be at 40 places, equally spaced over the covariate.
# - with several covariates, or a factor, the kernel is `nm.SparseProduct()`: every atom chooses the covariates that it depends on, see
#   below. With one response, components have curvature beside the lines: the squares of the numbers, if there are at most 20 numbers and at
#   most 2,000 rows, and their products, if there are at most 5 numbers and at most 200 rows, apart from what the formula has itself, such as
#   `I(x**2)` or `x:z`. Most of these are shrunk to nothing.

# %%
fit = model.fit(rng=1)
fit.plot()

# %% [markdown]
# ## Can it be trusted?
#
# Chains are compared in the curves themselves, at five values of the covariate: in the conditional mean, and in the distribution function at the
# quartiles of the responses near there. The verdict at the end of the summary uses these, the number of clusters and the hyperparameters; where
# chains disagree, a warning after the fit repeats it. `q5` and `q95` are posterior quantiles.

# %%
fit.curve_diagnostics().round(3)

# %% [markdown]
# ## Predictions
#
# Means, quantiles, densities, distribution functions and the probability to exceed a value all come with 90% credible bands (`interval=` gives
# another level). Predictions are in the units of the response:

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
# own. The table has integrated autocorrelation times in sweeps: the shorter,
# the better the chain mixes.

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
# integrated out together with its location. Use widths of atoms, unless the shared width itself is of interest; then look at its `ess` and
# `rhat`. Among the other quantities the mass and the number of clusters are the slowest; curves depend little on the mass.

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
# With several covariates, or a factor, the default is `nm.SparseProduct()`: an atom's kernel is a product over those covariates that it
# uses, squared exponentials of numbers and matching of categories, and which ones these are is sampled. `kernels=` gives a covariate
# another kernel. One of the kernels above, such as `nm.SquaredExponential()`, serves all numeric covariates as a product over them, with
# one width or one each, and `nm.Product` gives each covariate a kernel of its own; there every atom depends on all covariates. Factors
# enter the weights. With `nm.SparseProduct()`, one response and at most 40 levels of all factors together they enter the lines as well:
# each level shifts the line, as groups do in a random-effects model. The order of an ordered categorical is not used; give its codes as a
# number for that.

# %%
import numpy as np

rng = np.random.default_rng(1)
doses = pd.DataFrame({"dose": rng.uniform(0, 10, 300).round(1), "drug": rng.choice(["a", "b"], 300)})
steep = np.where(doses["drug"] == "a", 0.2, 1.0)
doses["response"] = steep * doses["dose"] + rng.normal(0, 0.5, 300)
by_drug = nm.fit("response ~ dose + drug", doses, rng=1)
by_drug.predict({"dose": [2, 8, 2, 8], "drug": ["a", "a", "b", "b"]}, rng=1)

# %% [markdown]
# The true means are 0.4, 1.6, 2 and 8. Noise that grows with the dose as well, such as `rng.normal(0, 0.3 + 0.1 * doses["dose"])`, can be
# made of clusters in several ways, between which chains change slowly: two minutes are too short for it, and the fit says so
# ([Troubleshooting](troubleshooting.md)). How much more does drug b do than drug a, at a dose of 5? The truth is 4:

# %%
by_drug.contrasts({"drug": ["a", "b"], "dose": 5}, rng=1)

# %% [markdown]
# `importance()` says how much each covariate matters. `use` is the share of rows whose cluster depends on it by the kernel, `inclusion` the
# chance, learnt from the data, that an atom depends on it. `effect` is how far it moves the mean, `effect_q05` and `effect_q95` how far it
# moves the 5% and the 95% quantile. `rhat` is the larger R-hat of use and inclusion. `plot("importance")` draws it, and [Several
# covariates](papers/several_covariates.md) goes through an analysis.

# %%
by_drug.importance().round(2)

# %% [markdown]
# A family with a formula of its own has components that are lines in one variable, and weights that drift over another:
# `nm.fit("y ~ t", table, family=nm.Regression("x"))`.
#
# ## Many rows
#
# The weights are computed once for each distinct value of the covariate. `groups=` puts the values into bins with about equal numbers of rows, and
# the weights take all rows of a bin to be at its mean; components still see every x as it is:

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
# The fit may score higher than the truth by chance, as only a tenth of the rows is held out. `log_density(average="log")` is the mean of
# the logarithms over draws, which Foti and Williamson report; it is no greater than the logarithm of the mean density:

# %%
dynamic.log_density(held_out, average="log").mean().round(3)

# %% [markdown]
# ## How well does it predict?
#
# The table compares mean log densities of held-out rows, in nats, of standardised responses. The methods are density regression by its
# defaults, Gaussian process regression (GP) with one noise variance and with one that changes with the covariates, and a mixture of
# covariates and response together, conditioned on the covariates. They are measured by
# `python -m benchmarks.density_regression --json vignettes/results/density_regression.json`. The data are
#
# | name | data |
# |---|---|
# | motorcycle | random splits of the motorcycle data |
# | hetero | simulated: a sine curve with normal noise that grows with x |
# | bimodal | simulated: two lines that move apart, the share of the upper one growing with x |
# | skew | simulated: a line with gamma noise |
# | two | simulated: two covariates, a sine curve in one, a second mode whose share grows with the other |
# | three | simulated: three covariates, a plane in two, normal noise that grows with the third |
# | engel | food expenditure and income of 235 households (statsmodels) |
# | ccard | credit card expenditure, income and age of 72 people (statsmodels) |
#
# The last column is the share of held-out rows inside the 90% predictive intervals of density regression.

# %%
from nrmmix.report.recorded import recorded

found = recorded("density_regression")
splits = pd.DataFrame(found["results"]["splits"])
methods = ["density regression", "GP", "heteroscedastic GP", "joint mixture"]
lines = ["| data | " + " | ".join(methods) + " | rows inside 90% intervals |", "|---" * (len(methods) + 2) + "|"]
for name, row in splits.groupby("set", sort=False)[[*methods, "cover"]].mean().iterrows():
    best = row[methods].idxmax()
    cells = [f"**{row[method]:.2f}**" if method == best else f"{row[method]:.2f}" for method in methods]
    lines.append(" | ".join([f"| {name}", *cells, f"{row['cover']:.2f} |"]))
print("\n".join(lines))

# %% [markdown]
# The differences of density regression from the best of the others, split by split, with their mean and standard error. It is called better, or not
# better, where the mean is more than two standard errors from zero; splits of the same data share rows, so that their standard errors are rough.

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
# Where the truth is a smooth mean with normal noise (hetero, three), a Gaussian process whose noise may change is as good or a little better; where
# the response has two modes (bimodal, two), it is much worse. More tables of several covariates are in [Several covariates](papers/several_covariates.md).
