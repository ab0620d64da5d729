"""Component families: one fit and one picture of each.  `make docs` runs this script and writes docs/families.md."""

# %% [markdown]
# # Component families
#
# A mixture model is a random measure times a family: the law of the responses within one component. Families divide the responses among
# themselves; within a component their blocks are independent. Without `family=` responses are Gaussian in a mixture, and lines in the
# covariates in a density regression; `nm.Poisson()` is for counts, `nm.Bernoulli()` for yes or no, `nm.Categorical()` for categories,
# `nm.Multinomial()` for counts of words, and a dictionary gives each column its own. Defaults follow the data and are independent of units;
# `print(model)` shows their numbers, and the docstring of each family says what they are and how they were chosen.

# %%
import numpy as np
import pandas as pd

import nrmmix as nm

run = {"draws": 1000, "tune": 1000, "thin": 5, "rng": 1}
iris = nm.datasets.load_iris()
sizes = "sepal_length_cm + sepal_width_cm + petal_length_cm + petal_width_cm ~ 1"

# %% [markdown]
# ## Gaussian, four ways
#
# With one free covariance matrix a component:

# %%
fit = nm.fit(sizes, iris, family=nm.Gaussian(), **run)
fit.plot("clusters")

# %% [markdown]
# With independent columns. There is a precision for each column and component, and rows of hundreds of columns are feasible:

# %%
faithful = nm.datasets.load_faithful()
model = nm.Model("eruptions_min + waiting_min ~ 1", faithful, family=nm.Gaussian("diagonal"))
model

# %%
fit = model.fit(rng=1)
fit.plot("clusters")

# %% [markdown]
# With one matrix for all components, which is drawn: `nm.Gaussian("tied")`, scikit-learn's `covariance_type="tied"` and mclust's EEE. With one
# variance for all columns of a component: `nm.Gaussian("spherical")`. With a known covariance, only means are learnt:

# %%
galaxy = nm.datasets.load_galaxy()
fit = nm.fit("velocity_km_s ~ 1", galaxy, family=nm.Gaussian(known_covariance=1000.0**2), **run)
fit.plot()

# %% [markdown]
# With a known mean, only covariances: scale mixtures, here of daily returns that have calm and wild days.

# %%
rng = np.random.default_rng(1)
returns = pd.DataFrame({"percent": rng.normal(size=500) * np.where(rng.random(500) < 0.2, 3.0, 0.6)})
fit = nm.fit("percent ~ 1", returns, family=nm.Gaussian(known_mean=0.0), **run)
fit.plot()

# %% [markdown]
# ## Means and precisions independent a priori
#
# In `SemiconjugateGaussian` the mean of a component does not depend on its precision a priori, and one precision can be shared by all. Parameters are
# then part of the chain (`fit.draws["theta"]`).

# %%
fit = nm.fit("velocity_km_s ~ 1", galaxy, family=nm.SemiconjugateGaussian(shared_precision=True), **run)
fit.plot()

# %% [markdown]
# ## Regression
#
# Every component has a line of its own: clusterwise regression.

# %%
x = rng.uniform(0, 10, 300)
kind = rng.integers(0, 2, 300)
lines = pd.DataFrame({"dose": x, "effect": np.where(kind == 0, 2 + 0.8 * x, 9 - 0.5 * x) + 0.6 * rng.normal(size=300)})
fit = nm.fit("effect ~ 1", lines, family=nm.Regression("1 + dose"), **run)
fit.plot()

# %%
fit.summary()

# %% [markdown]
# With a covariate kernel as well, densities change with the covariate and the components follow it linearly in between. These components are
# the default of a [density regression](density_regression.md):

# %%
mcycle = nm.datasets.load_mcycle()
fit = nm.fit("accel_g ~ times_ms", mcycle, family=nm.Regression("1 + times_ms"), rng=1)
fit.plot()

# %% [markdown]
# ## Many responses at one point
#
# Expenses, rainfall or doses are often exactly 0, and otherwise numbers. A continuous family has no probability for such a point: in a
# `Hurdle` every component has one, beside a family for the other responses. Distribution functions jump at the point, and simulated
# responses can lie exactly at it. With a covariate kernel the probability depends on the covariate, as all of the distribution does:

# %%
people = np.random.default_rng(1)
age = people.uniform(20, 80, 300)
spends = people.random(300) < 1 / (1 + np.exp((50 - age) / 10))
expenses = pd.DataFrame({"age": age, "expense": np.where(spends, 2 + age / 20 + 0.8 * people.normal(size=300), 0.0)})
fit = nm.fit("expense ~ age", expenses, family=nm.Hurdle(nm.Regression("1 + age"), at=0.0), **run)
fit.plot("conditional")

# %%
fit.predict({"age": [30, 50, 70]}, "exceedance", at=0.0).round(3)

# %% [markdown]
# ## Counts with exposure
#
# Visits in months under observation. Means and densities of predictions are those of the rows' own exposure. There is no negative binomial
# family. Its law is a mixture of Poisson laws whose rates are gamma, so a mixture of Poisson components fits such overdispersed counts, and
# those of any other mixture of Poisson laws. Counts that spread less than a Poisson law have no family here but `nm.Categorical()`.

# %%
patients, truth, _ = nm.datasets.simulate_mixed(300, rng=1)
fit = nm.fit("visits ~ 1", patients, family=nm.Poisson(exposure="months"), **run)
fit.predict({"months": [1, 12, 24]})

# %%
fit = nm.fit("visits ~ 1", patients, family=nm.Poisson(), **run)
fit.plot()

# %% [markdown]
# ## Binary columns
#
# Images of handwritten digits as 64 pixels, ink or not:

# %%
digits = nm.datasets.load_digits()
pixels = (digits.drop(columns="digit") >= 8).astype(int).iloc[:500]
pixels = pixels.loc[:, pixels.nunique() > 1]
fit = nm.Model(data=pixels, family=nm.Bernoulli()).fit(rng=1)
fit.plot()

# %% [markdown]
# ## Categories
#
# Text, pandas categories or whole numbers. Predictions have a probability for each level.

# %%
fit = nm.fit("colour ~ 1", patients, family=nm.Categorical(), **run)
fit.predict(kind="density").round(3)

# %%
fit.plot()

# %% [markdown]
# ## Words
#
# Rows of counts given their total: news stories as a sparse matrix, which is never made dense. Components are distributions over the vocabulary.
# pandas gives the columns their words; a bare matrix of SciPy does as well. Chains of so many words do not agree within minutes: variational
# inference takes seconds.

# %%
corpus = nm.datasets.load_reuters()
stories = pd.DataFrame.sparse.from_spmatrix(corpus.counts, index=corpus.titles, columns=corpus.vocabulary)
fit = nm.Model(data=stories, family=nm.Multinomial()).fit("vb", rng=1)
fit.plot()

# %% [markdown]
# ## All together, with missing cells
#
# One model of a normal, a count, a binary and a categorical column. A tenth of all cells is missing: with `missing="marginalize"` rows count by
# what was observed of them.

# %%
table, labels, _ = nm.datasets.simulate_mixed(300, rng=2, missing=0.1)
family = {"height": nm.Gaussian(), "visits": nm.Poisson(exposure="months"), "smoker": nm.Bernoulli(), "colour": nm.Categorical()}
fit = nm.fit("height + visits + smoker + colour ~ 1", table, family=family, missing="marginalize", **run)
fit.plot()

# %%
pd.crosstab(labels, fit.partition().labels, rownames=["truth"], colnames=["cluster"])

# %% [markdown]
# Gaussian components with full covariance have no closed form for rows with gaps. There the missing cells are drawn with the rest of the
# chain, given what was observed; `fit.draws["imputed"]` holds them.

# %%
holes = iris.copy()
gaps = rng.random((150, 4)) < 0.1
gaps[gaps.all(axis=1)] = False
holes.iloc[:, :4] = iris.iloc[:, :4].mask(gaps)
fit = nm.fit(sizes, holes, missing="marginalize", **run)
fit.draws["imputed"].shape, int(gaps.sum())

# %%
error = fit.draws.flat("imputed").mean(axis=0) - iris.iloc[:, :4].to_numpy()[gaps]
spread = iris.iloc[:, :4].std().to_numpy()[np.argwhere(gaps)[:, 1]]
print(f"root mean square error of the imputed cells, in standard deviations of their columns: {np.sqrt(np.mean((error / spread) ** 2)):.2f}")
