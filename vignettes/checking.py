"""Checking a model against the data.  `make docs` runs this script and writes docs/checking.md."""

# %% [markdown]
# # Checking a model
#
# **Could these data have come from this model?** Chains that agree say that the posterior was sampled, not that the model suits. Three checks do:
# replicates beside the data, the same within parts of the covariates, and probability integral transforms (PIT) of rows that the fit has not seen.

# %%
import numpy as np
import pandas as pd

import nrmmix as nm

mcycle = nm.datasets.load_mcycle()
held = np.arange(len(mcycle)) % 4 == 2
fit = nm.fit("accel_g ~ times_ms", mcycle[~held], kernel=nm.SquaredExponential(0.05), draws=1000, thin=10, rng=1)
fit.glance()[["n_clusters", "max_rhat", "min_ess", "converged"]].round(3)

# %% [markdown]
# ## Replicates
#
# Each blue line is one data set simulated at the covariates of the rows. Features of the data that no replicate has are what the model misses.

# %%
fit.plot("ppc")

# %% [markdown]
# ## Within parts of the covariates
#
# Over all rows even a poor regression may look right. Compare numbers that matter to you, in parts of the data: here the mean and the standard
# deviation of each quarter of the times. `p`, a posterior predictive p value, is the share of replicates below the data; near 0 or 1 it speaks against
# the model. None is near them here:

# %%
rows = mcycle[~held]
quarter = pd.qcut(rows["times_ms"], 4, labels=["first", "second", "third", "last"])
replicates = fit.simulate(draws=500, rng=1)["accel_g"].to_numpy().reshape(500, -1)


def by_quarter(values):
    return pd.Series(values, index=rows.index).groupby(quarter, observed=True).agg(["mean", "std"]).stack()


data, simulated = by_quarter(rows["accel_g"]), pd.DataFrame([by_quarter(values) for values in replicates])
low, high = simulated.quantile(0.05), simulated.quantile(0.95)
pd.DataFrame({"data": data, "5%": low, "95%": high, "p": (simulated < data).mean()}).round(2)

# %% [markdown]
# ## Probability integral transforms
#
# `predict(kind="cdf")` gives each row the predictive probability of a value below its own. For rows that the fit has not seen these are uniform
# if the model is right: a heap at 0 and 1 means that predictions are too narrow, one in the middle that they are too wide.

# %%
unseen = mcycle[held]
pit = np.array([fit.predict(unseen.iloc[[i]], kind="cdf", at=[y])["estimate"].iloc[0] for i, y in enumerate(unseen["accel_g"])])
expected = np.full(4, len(pit) / 4)
pd.DataFrame({"rows": np.histogram(pit, 4, (0, 1))[0], "expected": expected}, index=["0 to 1/4", "to 1/2", "to 3/4", "to 1"])

# %%
from scipy.stats import kstest

f"Kolmogorov-Smirnov test of uniformity: {len(pit)} rows, p = {kstest(pit, 'uniform').pvalue:.2f}"

# %% [markdown]
# ## What to do when a check fails
#
# - Replicates lie where the response cannot: transform it (`log(y) ~ x`), or use a family of counts.
# - A spike in the data that replicates lack: rounded values or a point mass; see [Component families](families.md).
# - One part of the covariates is wrong: another kernel or narrower widths, see [Choosing a kernel](kernels.md), or a covariate is missing.
# - All looks right: compare models by densities of rows left out, `nm.compare(a, b)`; a check does not rank models.
