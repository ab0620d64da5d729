"""Censored responses: survival after a heart transplant.  `make docs` runs this script and writes docs/survival.md; needs statsmodels."""

# %% [markdown]
# # Survival
#
# The table has 69 patients of the Stanford heart transplant programme (Miller 1976, Biometrika 63; the data set `heart` of statsmodels):
# the days from the operation to death. For those alive at the end of the study it has the days until then; they are right-censored, which
# means that only a lower limit of the survival time is known. **How much does the age at the operation matter for the chance to live
# another year?**

# %%
import numpy as np
import statsmodels.datasets as sets

import nrmmix as nm

heart = sets.heart.load_pandas().data.set_axis(["days", "died", "age"], axis=1)
heart.head(3)

# %% [markdown]
# `Surv(time, event)` is the response: `event` is 1 where the end was seen and 0 where the time is right-censored. A transformation of the time is
# written inside, `Surv(log(days), died)`. `interval(lower, upper)` is the general form, for left and interval censoring too: the two limits are equal
# where the value was seen, and one of them is infinite where only the other is known.

# %%
model = nm.Model("Surv(log(days), died) ~ age", heart, prior=nm.DirichletProcess(1.0))
model

# %% [markdown]
# Once a sweep the chains draw each censored value within its limits, given the cluster of its row and the other members, so that their stationary
# distribution is the exact posterior. Searches and variational inference refuse such data.

# %%
fit = model.fit(tune=2000, draws=2000, thin=10, chains=4, rng=1)
fit.diagnostics().round(3)

# %% [markdown]
# The picture shows the posterior survival curve, averaged over the patients, beside the Kaplan-Meier estimate, which makes no
# assumption on the form of the curve and does not use age:

# %%
fit.plot("survival")

# %% [markdown]
# `predict(kind="survival")` gives the probability of surviving beyond a point, here a year, for each age, with 90% bands. Points are in the
# units of the response, which is log(days); with `units="response"` they are days. `kind="hazard"` gives the density divided by this
# probability. `contrasts` gives the difference between two ages:

# %%
year = np.log(365.0)
by_age = fit.predict({"age": [30, 40, 50, 60]}, "survival", at=[year])
by_age.round(2)

# %%
later = fit.contrasts({"age": [40, 55]}, "survival", at=[year])
later.round(2)

# %% [markdown]
# **Answer.** The older the patient, the smaller the chance of another year: the estimate falls from nearly a half at 40 to less than a fifth at
# 60. The 90% band of the difference between 55 and 40 contains 0, though barely: with 69 patients the direction is likely but not certain, and the size
# of the difference is known only roughly.
