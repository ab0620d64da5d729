"""Censored responses: survival after a heart transplant.  `make docs` runs this script and writes docs/survival.md; needs statsmodels."""

# %% [markdown]
# # Survival
#
# Of 69 patients of the Stanford heart transplant programme the table has the days from the operation to death, or for those alive at the end
# of the study the days until then: a value that is known by its lower limit alone (Miller 1976, Biometrika 63; the data set `heart` of
# statsmodels). **How much does the age at the operation matter for the chance to live another year?**

# %%
import numpy as np
import statsmodels.datasets as sets

import nrmmix as nm

heart = sets.heart.load_pandas().data.set_axis(["days", "died", "age"], axis=1)
heart.head(3)

# %% [markdown]
# `Surv(time, event)` is the response, `event` being 1 where the end was seen and 0 where it was not; a transformation stands within.
# `interval(lower, upper)` is the general form: two ends, equal where the value was seen, one of them infinite where only the other is known.

# %%
model = nm.Model("Surv(log(days), died) ~ age", heart, prior=nm.DirichletProcess(1.0))
model

# %% [markdown]
# Chains draw the values that were not seen within their limits, once a sweep, given the cluster of their row and its other members, so that
# the draws are those of the exact posterior; searches and variational inference refuse such data.

# %%
fit = model.fit(tune=2000, draws=2000, thin=10, chains=4, rng=1)
fit.diagnostics().round(3)

# %% [markdown]
# The posterior, averaged over the patients, beside the curve of Kaplan and Meier, which assumes nothing and knows nothing of age:

# %%
fit.plot("survival")

# %% [markdown]
# `predict(kind="survival")` has the probability of more than a point, here of a year for each age; points are in the units of the response,
# which is log(days). `kind="hazard"` is the density over that.

# %%
year = np.log(365.0)
by_age = fit.predict({"age": [30, 40, 50, 60]}, "survival", at=[year])
by_age.round(2)

# %%
later = fit.contrasts({"age": [40, 55]}, "survival", at=[year])
later.round(2)

# %% [markdown]
# **Answer.** The older the patient, the smaller the chance of another year: the estimate falls from nearly a half at 40 to less than a fifth at
# 60. The band of the difference between 40 and 55 just reaches 0: 69 patients tell the direction, and little of how large it is.
