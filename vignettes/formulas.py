"""Formulas and data: what is read, and what is refused.  `make docs` runs this script and writes docs/formulas.md."""

# %% [markdown]
# # Formulas and data
#
# A formula names responses, joined by `+`, then a tilde, then covariates, or `1` for a mixture.

# %%
import numpy as np
import pandas as pd

import nrmmix as nm

iris, mcycle = nm.datasets.load_iris(), nm.datasets.load_mcycle()
nm.Model("sepal_length_cm + sepal_width_cm ~ 1", iris)

# %% [markdown]
# ## Transformations and covariates
#
# Responses and covariates may be transformed, by `log`, `sqrt`, `logit` and their like (also as `np.log`), by `center`, `standardize`, and by the splines
# `bs`, `cr` and `cc`. Text and categories stay categories among the covariates, with a kernel of their own (`nm.Matching`); within
# `C()`, and in the formula of `nm.Regression`, they become indicator columns. What a transformation has learnt from the data, such as a
# mean, is kept for new data.
#
# A response of which some values are known by limits alone is `Surv(time, event)` or `interval(lower, upper)`: see [Survival](survival.md).

# %%
nm.Model("log(petal_length_cm) ~ center(sepal_length_cm) + species", iris)

# %%
nm.Model("accel_g ~ bs(times_ms, df=4)", mcycle).frame.covariate_names

# %% [markdown]
# Each covariate is scaled to [0, 1] by the training data, because the kernel's width is in those units; `scale=None` of the kernel leaves units
# alone. With `nm.SparseProduct`, the default of several covariates, the scale is half that of the range and half that of the ranks. Results are in
# the units of the data, and default priors follow the scale of the responses, so that units do not matter.
#
# Without a formula every column is a response, and an array will do:

# %%
nm.Model(data=iris[["sepal_length_cm", "sepal_width_cm"]].to_numpy()).frame.response_names

# %% [markdown]
# ## Names, powers and dates
#
# A column whose name is no name of Python stands as `Q("...")` in a formula; in `family=`, `kernel=`, `response=`, `given=` and new data its name
# does with the quotes or without. Dates among the covariates are days since the first one, of new data since the same day.

# %%
ozone = pd.DataFrame({"Solar.R": [190.0, 118, 149, 313, 299, 99], "day": pd.date_range("1973-05-01", periods=6)})
nm.Model('Q("Solar.R") ~ day', ozone, family={"Solar.R": nm.Gaussian()})

# %% [markdown]
# A power of one term is that term, as `x:x` is `x`; what is meant is written with `I()`. Words of other packages' formulas are answered alike.

# %% raises
nm.Model("accel_g ~ times_ms + times_ms**2", mcycle)

# %% raises
nm.Model("accel_g ~ s(times_ms, k=10)", mcycle)

# %% [markdown]
# ## Missing values
#
# Rows that miss a value in a column of the formula are dropped, with a warning that counts them, or refused by `missing="raise"`.
# With `missing="marginalize"` rows stay that miss some of several responses; see [Component families](families.md).

# %%
gaps = mcycle.copy()
gaps.loc[[3, 10], "accel_g"] = np.nan
nm.Model("accel_g ~ times_ms", gaps).n_obs

# %% raises
nm.Model("accel_g ~ times_ms", gaps, missing="raise")

# %% [markdown]
# ## What the data look like
#
# A continuous family has no point masses: where many values of a response are exactly equal, clusters are of single values, and probabilities
# and quantiles are of the spikes there. It is said when a model is made, with what suits.

# %%
visits = np.where(np.arange(120) < 90, 0.0, np.linspace(1, 12, 120))
nm.Model("visits ~ 1", {"visits": visits}).n_obs

# %% [markdown]
# Errors of typing and codes for missing values would set the scale of default priors and the range of covariates. Values that lie far from all
# others, ten quartile ranges beyond a quartile and ten times as far as any value before them, are named, and defaults are those of the others;
# the rows count all the same, and are clusters of their own where nothing is near them. Long tails and small groups far away are left alone.

# %%
coded = mcycle.copy()
coded.loc[[3, 10], "accel_g"] = -9999
model = nm.Model("accel_g ~ times_ms", coded)
model.n_obs

# %% [markdown]
# ## Weights
#
# `weights=` says how often each row counts, by the name of a column or an array. Whole numbers are exact in every method: all is as of the table
# in which rows are repeated. Chains and searches repeat them, so that copies of a row may lie in different clusters, and their results have a
# row for each copy, by the labels of the data; variational inference goes through the distinct rows. It alone takes other weights: powers of the
# likelihood. A row of weight 0 is left out.

# %%
waits = nm.datasets.load_faithful()["waiting_min"].value_counts().rename("often").reset_index()
fit = nm.fit("waiting_min ~ 1", waits, weights="often", method="vb", rng=1)
print(fit.model)
fit.augment().head(3)

# %% raises
nm.fit("waiting_min ~ 1", waits, weights=waits["often"] / 2)

# %% [markdown]
# ## New data
#
# New data need the columns of the covariates. Rows that miss one become NaN; a level that the training data do not have is an error.

# %%
fit = nm.fit("petal_length_cm ~ species", iris, rng=1)
fit.predict(pd.DataFrame({"species": ["setosa", None]}, index=["a", "b"]))

# %% raises
fit.predict(pd.DataFrame({"species": ["sylvestris"]}))

# %% [markdown]
# ## What is refused
#
# A message says which column, row or argument it is about, and what would work.

# %% raises
nm.Model("acell_g ~ times_ms", mcycle)

# %% raises
nm.Model("accel_g ~ accel_g", mcycle)

# %% raises
nm.Model("accel_g ~ times_ms", mcycle.assign(accel_g=1.0))

# %% raises
nm.Model("accel_g ~ times_ms", mcycle, prior=nm.NGGP(sigma=1.5))

# %% raises
nm.fit("accel_g ~ times_ms", mcycle, method="gibs")

# %% [markdown]
# A formula is checked before anything in it is evaluated: names of columns, numbers, arithmetic and the listed functions are all there is. The
# same check meets the formula of a saved fit.

# %% raises
nm.Model("__import__('os').system('ls') ~ 1", mcycle)
