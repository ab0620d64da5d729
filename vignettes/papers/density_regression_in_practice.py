"""Density regression from question to report.  `make vignettes` writes docs/papers/density_regression_in_practice.md by it."""

# %% [markdown]
# # Density regression in practice
#
# A regression answers how the mean of y changes with x. Many questions are about something else: how the spread changes, how likely a
# value beyond a limit is, whether there are two kinds of y at the same x. Density regression fits the whole distribution of y at each x
# and answers all of these from one fit. This page goes through an analysis: the question, what the prior says before any data, the fit
# and whether to believe it, a comparison with models that assume more, several covariates with a factor, and what to write down. The
# calls are explained in [Density regression](../density_regression.md); what the sampler does, and the paper behind it, in
# [Kernel-weighted measures](kernel_nrm.md).
#
# ## The question
#
# Income and expenditure on food of 235 Belgian working class households (Engel 1857), in francs a year. How much do households with a given
# income spend, and how unequally? How likely is a household with 700 francs to spend more than 500? Both columns are positive, and their
# spread grows with their size, so the formula takes logarithms; answers come back in francs.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import norm

import nrmmix as nm

engel = sm.datasets.engel.load_pandas().data
model = nm.Model("log(foodexp) ~ log(income)", engel)
model

# %% [markdown]
# ## What the prior says
#
# Defaults take the scale of the response and of the covariates from the data. What they amount to is easier to judge in the response
# than in hyperparameters: simulated tables, with the incomes as they are.

# %%
prior = model.prior_predictive(draws=6, rng=1)
fig, axes = plt.subplots(2, 3, figsize=(9, 4.6), layout="constrained", sharex=True, sharey=True)
for ax, (_, simulated) in zip(axes.flat, prior.groupby(level="draw"), strict=False):
    ax.plot(engel["income"], np.exp(simulated["log(foodexp)"].to_numpy()), ".", color="#0072B2", alpha=0.5)
    ax.set(yscale="log", ylim=(10, 50_000))
axes[0, 0].plot(engel["income"], engel["foodexp"], ".", color="0.6")
fig.supxlabel("income")
fig.supylabel("foodexp: prior, and data (grey)")
fig

# %% [markdown]
# The prior allows for far more than the data show, slopes and spreads of either sign and size, and several clusters. That is what a
# default should do. A transformed response says what is known, such as that expenditure cannot be negative, better than hyperparameters do.
#
# ## The fit

# %%
fit = model.fit(rng=1, time_limit=600)  # until the chains agree, ten minutes at most
curves = fit.curve_diagnostics()

# %% [prose]
# For means and quartiles at five incomes the largest R-hat is {curves["rhat"].max():.3f} and the smallest effective sample size
# {curves["ess"].min():,.0f}: the chains agree. The number of clusters is no answer to the question, for a density can be cut into
# components in many ways.

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
fit.plot("quantiles", axes[0], draws=200, points=60, units="response")
fit.plot("slices", axes[1], x=[500, 900, 1500], draws=200, units="response")
fig

# %% [prose]
# Beyond an income of 2,500 there are {(engel["income"] > 2500).sum()} rows, and the bands say so.

# %%
two = {"income": [700, 1400]}
beyond = fit.predict(two, kind="exceedance", at=500, units="response", rng=1).droplevel(-1)
quantiles = fit.predict(two, kind="quantile", q=[0.1, 0.5, 0.9], units="response", rng=1)
more, (low, middle, high) = beyond.iloc[0], quantiles["estimate"].unstack().to_numpy().T
pd.concat({"median": quantiles.xs(0.5, level="q"), "P(foodexp > 500)": beyond}).round(3)

# %% [prose]
# A household of 700 francs spends more than 500 on food with probability {more["estimate"]:.2f} (90% band {more["lower"]:.2f} to
# {more["upper"]:.2f}). The distance from the 10% to the 90% quantile grows from {high[0] - low[0]:.0f} francs at an income of 700 to
# {high[1] - low[1]:.0f} at 1,400: from {(high[0] - low[0]) / middle[0]:.0%} of the median to {(high[1] - low[1]) / middle[1]:.0%}.
#
# ## Does it fit?
#
# Data simulated from the posterior, beside the data; and each row's density when it is left out, which tells rows that the model did
# not expect.

# %%
fit.plot("ppc", rng=1, units="response")

# %%
loo = fit.loo()
print(loo)
engel.assign(elpd=loo.rows["elpd"].to_numpy()).nsmallest(3, "elpd").round(1)

# %% [markdown]
# ## Beside models that assume more
#
# The same rows, divided at random into tenths that are predicted from the others: a line, a spline and a Gaussian process, each with normal
# noise, the mixture of income and expenditure together, conditioned on income, and density regression. All are fitted to logarithms; a line
# and density regression are fitted to francs as well. The score is the mean log density of francs of a row that the fit has not seen.

# %%
class GaussianProcess:
    """Squared exponential kernel and normal noise; hyperparameters of largest marginal likelihood."""

    def __init__(self, x, y):
        self.x, self.center, self.scale = x, y.mean(), y.std()
        self.y = (y - self.center) / self.scale
        self.width, self.size, self.noise = np.exp(minimize(self._cost, np.log([0.5, 1.0, 0.3]), method="Nelder-Mead").x)

    def _cost(self, log_parameters):
        width, size, noise = np.exp(log_parameters)
        factor = cho_factor(self._kernel(self.x, width, size) + (noise**2 + 1e-8) * np.eye(len(self.x)), lower=True)
        return 0.5 * self.y @ cho_solve(factor, self.y) + np.log(np.diag(factor[0])).sum()

    def _kernel(self, other, width, size):
        return size**2 * np.exp(-0.5 * ((other[:, None] - self.x) / width) ** 2)

    def normal(self, x):
        """Mean and standard deviation of a new response."""
        factor = cho_factor(self._kernel(self.x, self.width, self.size) + (self.noise**2 + 1e-8) * np.eye(len(self.x)), lower=True)
        across = self._kernel(x, self.width, self.size)
        variance = self.size**2 + self.noise**2 - (across * cho_solve(factor, across.T).T).sum(axis=1)
        return self.center + self.scale * across @ cho_solve(factor, self.y), self.scale * np.sqrt(variance)


def of_least_squares(formula):
    def score(train, test):
        found = smf.ols(formula, train).fit()
        table = found.get_prediction(test)
        sd = np.sqrt(table.se_mean**2 + found.scale)
        return norm.logpdf(test["foodexp"], table.predicted_mean, sd)
    return score


def of_gaussian_process(train, test):
    process = GaussianProcess(train["income"].to_numpy(), train["foodexp"].to_numpy())
    return norm.logpdf(test["foodexp"], *process.normal(test["income"].to_numpy()))


def of_joint_mixture(train, test):
    joint = nm.fit("foodexp + income ~ 1", train, rng=1, **short)
    return joint.log_density(test) - joint.log_density(test.assign(foodexp=np.nan))  # given income


def of_density_regression(train, test):
    return nm.fit("foodexp ~ income", train, rng=1, **short).log_density(test)


def of_logarithms(method):
    def score(train, test):
        return method(np.log(train), np.log(test)) - np.log(test["foodexp"])  # a density of francs
    return score


short = {"draws": 500, "tune": 500, "thin": 4, "chains": 2}
methods = {
    "line": of_least_squares("foodexp ~ income"), "spline": of_least_squares("foodexp ~ bs(income, df=5, lower_bound=5, upper_bound=9)"),
    "Gaussian process": of_gaussian_process, "joint mixture": of_joint_mixture, "density regression": of_density_regression,
}
methods = {name: of_logarithms(method) for name, method in methods.items()} | {
    "line of francs": of_least_squares("foodexp ~ income"), "density regression of francs": of_density_regression,
}
tenth = np.random.default_rng(1).permutation(len(engel)) % 10
scores = pd.DataFrame(index=engel.index, columns=list(methods), dtype=float)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", nm.ConvergenceWarning)  # of numbers of clusters; the curves that are scored mix within short chains
    for k in range(10):
        for name, method in methods.items():
            scores.loc[tenth == k, name] = np.asarray(method(engel[tenth != k], engel[tenth == k]))
gaps = scores.sub(scores["density regression"], axis=0)
worse = [name for name in methods if gaps[name].mean() < -2 * gaps[name].sem()]
table = pd.DataFrame({"log density a row": scores.mean(), "less density regression": gaps.mean(), "standard error": gaps.sem()}).round(3)
table

# %% [prose]
# Worse than density regression of the logarithms by more than two standard errors: {", ".join(worse) or "none"}. Once logarithms are taken,
# normal noise of one size around a line is nearly right, and a model that assumes more loses nothing: report the line. Without them the
# line loses {-gaps["line of francs"].mean():.2f} ± {gaps["line of francs"].sem():.2f} a row, and density regression
# {-gaps["density regression of francs"].mean():.3f} ± {gaps["density regression of francs"].sem():.3f}: it finds a spread that changes by itself, without being told
# the scale. That is what it is for. The joint mixture is a fair choice where covariates are numbers and few, and a sample, not a design.
#
# Linear quantile regression, which made these data famous, has no density to score, but its quantiles can be counted. How many of the
# households lie below the 10% and the 90% line, in sample, for incomes below and above the median?

# %%
below = pd.DataFrame(index=["income below the median", "above"])
half = (engel["income"] > engel["income"].median()).to_numpy()
ours = fit.predict(engel, kind="quantile", q=[0.1, 0.9], units="response", rng=1)["estimate"].to_numpy().reshape(-1, 2)
for j, q in enumerate((0.1, 0.9)):
    line = smf.quantreg("foodexp ~ income", engel).fit(q).predict(engel)
    for name, quantile in (("quantile regression", line), ("density regression", ours[:, j])):
        under = (engel["foodexp"].to_numpy() <= np.asarray(quantile)).astype(float)
        below[f"{name}, {q}"] = [under[~half].mean(), under[half].mean()]
below.round(2)

# %% [markdown]
# ## Several covariates, and a factor
#
# Expenditure by credit card of 72 people, by income (in 10,000 dollars), age, and whether they own their home. With few rows and a
# skewed response the band says what is not known.

# %%
cards = sm.datasets.ccard.load_pandas().data.rename(columns=str.lower)
cards["home"] = np.where(cards["ownrent"] == 1, "owned", "rented")
spending = nm.fit("avgexp ~ income + age + home", cards, rng=1)
fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
spending.plot("effects", axes, draws=200, points=30)
fig

# %%
difference = spending.contrasts({"income": [2, 6], "age": 30, "home": "rented"}, rng=1).iloc[0]
home = spending.contrasts({"home": ["rented", "owned"], "income": 3, "age": 30}, rng=1).iloc[0]
likely = spending.predict({"income": [2, 6], "age": [30, 30], "home": ["rented", "rented"]}, kind="exceedance", at=500, rng=1)
likely.round(2)

# %% [prose]
# People of 30 who rent spend {difference["estimate"]:.0f} dollars a month more at an income of 60,000 than at 20,000
# ({difference["lower"]:.0f} to {difference["upper"]:.0f}); owners of their home {home["estimate"]:+.0f} ({home["lower"]:+.0f} to
# {home["upper"]:+.0f}) at the same age and an income of 30,000. The second band
# {"has zero in it" if home["lower"] < 0 < home["upper"] else "does not have zero in it"}. These are comparisons of people, not effects
# of an income: nothing was assigned.
#
# ## What to write down
#
# - The model: formula, number of rows, and how many were dropped; the measure and its prior; the family; the kernel and its widths. `str(model)` has
# all of it.
# - The run: method, chains, draws, seed, version; `fit.report("report.html")` has these, the pictures, the verdict and
# the call that makes it again.
# - Whether to believe it: the largest R-hat and the smallest effective sample size of the curves, not of the number of clusters.
# - Answers with their bands, on the scale of the question, and by how much a simpler model is worse; where it is
# not, report the simpler one.
