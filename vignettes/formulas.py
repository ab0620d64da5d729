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
# Responses and covariates may be transformed by `log`, `sqrt`, `logit` and similar functions (also as `np.log`), by `center` and `standardize`,
# and by the splines `bs`, `cr` and `cc`. Text and categories stay categories among the covariates and get a kernel of their own
# (`nm.Matching`); within `C()`, and in the formula of `nm.Regression`, they become indicator columns. All levels are alike in the prior:
# answers depend neither on which level comes first nor on how levels are coded. New data are transformed by what was learnt from the
# training data, such as a mean.
#
# Write a response that is partly known by its limits alone as `Surv(time, event)` or `interval(lower, upper)`: see [Survival](survival.md).

# %%
nm.Model("log(petal_length_cm) ~ center(sepal_length_cm) + species", iris)

# %%
nm.Model("accel_g ~ bs(times_ms, df=4)", mcycle).frame.covariate_names

# %% [markdown]
# Each covariate is scaled to [0, 1] by the training data, because the kernel's width is in those units; `scale=None` of the kernel leaves units
# alone. With `nm.SparseProduct`, the default of several covariates, the scale is half that of the range and half that of the ranks. Results are in
# the units of the data, and default priors follow the scale of the responses, so that units do not matter.
#
# Without a formula every column is a response, and an array is enough:

# %%
nm.Model(data=iris[["sepal_length_cm", "sepal_width_cm"]].to_numpy()).frame.response_names

# %% [markdown]
# ## Names, powers and dates
#
# Write a column whose name is not a Python name as `Q("...")` in a formula; `family=`, `kernel=`, `response=`, `given=` and new data take
# its name with or without `Q()`. Dates among the covariates become days since the first date of the training data, in new data too. Numbers
# given in place of dates in new data are taken to be such days.

# %%
ozone = pd.DataFrame({"Solar.R": [190.0, 118, 149, 313, 299, 99], "day": pd.date_range("1973-05-01", periods=6)})
nm.Model('Q("Solar.R") ~ day', ozone, family={"Solar.R": nm.Gaussian()})

# %% [markdown]
# In formulas a power of one term is that term, as `x:x` is `x`, so `x**2`, `(x - 1)**2`, `x*x` and `x:x` are errors that name `I(x**2)`.
# Words from the formulas of other packages give an error that names the nearest of ours.

# %% raises
nm.Model("accel_g ~ times_ms + times_ms**2", mcycle)

# %% raises
nm.Model("accel_g ~ s(times_ms, k=10)", mcycle)

# %% [markdown]
# ## Missing values
#
# Rows with a missing value in a column of the formula are dropped with a warning that counts them; `missing="raise"` refuses them, and
# `missing="marginalize"` keeps rows that miss some of several responses (see [Component families](families.md)).

# %%
gaps = mcycle.copy()
gaps.loc[[3, 10], "accel_g"] = np.nan
nm.Model("accel_g ~ times_ms", gaps).n_obs

# %% raises
nm.Model("accel_g ~ times_ms", gaps, missing="raise")

# %% [markdown]
# ## What the data look like
#
# A continuous family has no point masses. Where many values of a response are exactly equal, single values become clusters, and probabilities
# and quantiles follow these spikes. A warning says so when the model is made, and names what suits.

# %%
visits = np.where(np.arange(120) < 90, 0.0, np.linspace(1, 12, 120))
nm.Model("visits ~ 1", {"visits": visits}).n_obs

# %% [markdown]
# Typing errors and codes for missing values would set the scale of default priors and the range of covariates. A warning names values that
# lie far from all others (ten quartile ranges beyond a quartile, and ten times as far as any value before them), and defaults are computed
# from the other values. The rows still count, and are clusters of their own where nothing is near them. Long tails and small distant groups
# are left alone. Two more warnings are about repeated rows and about factors. The first is given where half of the rows or more are the
# same as others in all columns of the formula, as after a join or a bootstrap; the second where a factor has more levels than half of the
# rows, as the number of a patient has.

# %%
coded = mcycle.copy()
coded.loc[[3, 10], "accel_g"] = -9999
model = nm.Model("accel_g ~ times_ms", coded)
model.n_obs

# %% [markdown]
# ## Weights
#
# `weights=` says how often each row counts; it is the name of a column, or an array. Whole numbers are exact in every method: the result is that of
# the table with repeated rows. Chains and searches repeat the rows, so copies of a row may lie in different clusters, and results have a row for
# each copy under its label in the data. Variational inference visits each distinct row once; it alone takes other positive weights, as powers of
# the likelihood, and the centres, scales and knots of formulas are then those of unweighted rows. Rows of weight 0 are left out.

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
# New data need the columns of the covariates. Predictions for rows that miss one are NaN; a level that the training data do not have is an error.

# %%
fit = nm.fit("petal_length_cm ~ species", iris, rng=1)
fit.predict(pd.DataFrame({"species": ["setosa", None]}, index=["a", "b"]))

# %% raises
fit.predict(pd.DataFrame({"species": ["sylvestris"]}))

# %% [markdown]
# ## What is refused
#
# Error messages name the column, row or argument, and say what would work.

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
# A formula is checked before any of it is evaluated; it may hold only names of columns, numbers, arithmetic and the listed functions. The
# formula of a saved fit is checked in the same way.

# %% raises
nm.Model("__import__('os').system('ls') ~ 1", mcycle)
