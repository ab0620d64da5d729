"""Getting started with nrmmix.  `make docs` runs this script and writes docs/getting_started.md."""

# %% [markdown]
# # Getting started
#
# nrmmix fits two kinds of models from a formula on a table: **mixtures**, for data whose clusters cannot be counted in advance, and
# **density regressions**, for a response whose whole distribution changes with a covariate. In both the mixing distribution is a
# normalized random measure, such as a Dirichlet process, so that the number of clusters is inferred together with everything else.
#
# ## A mixture
#
# Old Faithful, 272 eruptions: how long each took, and the time to wait for the next. The right side `1` of the formula says that there are
# no covariates.

# %%
import nrmmix as nm

faithful = nm.datasets.load_faithful()
model = nm.Model("eruptions_min + waiting_min ~ 1", faithful)
model

# %% [markdown]
# A model can be printed before anything is sampled: every prior is there, with its numbers. What does it say about the number of clusters?

# %%
model.prior_n_clusters().head(8).round(3)

# %% [markdown]
# A prior that expects, say, three clusters among as many rows would have this mass:

# %%
round(nm.mass_for_clusters(3, n=len(faithful)), 3)

# %% [markdown]
# The fit takes a few seconds. Four chains are the default; the seed makes the result repeat itself bit for bit.

# %%
fit = model.fit(rng=1)
fit.summary()

# %% [markdown]
# The last line says whether the chains can be trusted, and what to do where they cannot. Pictures are drawn with matplotlib, and come back as
# its axes:

# %%
fit.plot("density")

# %%
fit.plot("trace")

# %% [markdown]
# ### Clusters
#
# Each draw is a clustering of the rows. `partition()` searches the one of least expected loss, beyond those that were drawn; its credible
# ball says how sure that is.

# %%
clusters = fit.partition()
print(clusters)
clusters.credible_ball

# %%
fit.plot("clusters")

# %%
fit.plot("n_clusters")

# %% [markdown]
# Where would new eruptions belong?

# %%
import pandas as pd

new = pd.DataFrame({"eruptions_min": [2.0, 3.2, 4.5], "waiting_min": [52, 66, 80]}, index=["short", "between", "long"])
fit.predict(new, kind="cluster")

# %% [markdown]
# ### Predictions
#
# Everything that is predicted is a functional of the random density, with its posterior mean and a credible band: here the median waiting
# time, and how sure that is.

# %%
fit.predict(kind="quantile", q=0.5, response="waiting_min")

# %% [markdown]
# ## A density regression
#
# A motorcycle hits a wall; `accel_g` is the acceleration of the rider's head, `times_ms` the time since. A covariate on the right side of
# the formula makes the mixture weights depend on it, through a kernel in the covariate.

# %%
mcycle = nm.datasets.load_mcycle()
regression = nm.fit("accel_g ~ times_ms", mcycle, rng=1)
regression.summary()

# %%
regression.plot()

# %% [markdown]
# The left picture has the conditional mean with its band, the right one the whole conditional density. Quantiles at given times:

# %%
regression.predict({"times_ms": [10, 20, 30]}, kind="quantile", q=[0.1, 0.5, 0.9])

# %% [markdown]
# Are data that the model makes up like those observed? Each line is a data set drawn from the posterior predictive distribution.

# %%
regression.plot("ppc")

# %% [markdown]
# ## Keeping a fit
#
# A saved fit predicts the same to the bit, and goes on sampling as if it had never stopped.

# %%
import tempfile
from pathlib import Path

path = regression.save(Path(tempfile.mkdtemp()) / "mcycle.npz")
again = nm.load(path)
longer = again.extend(500)
longer.draws

# %% [markdown]
# `regression.report("mcycle.html")` writes all of this as one page. The same from a shell is on the page [Command line](command_line.md); every
# method of a fit is on the page [Results](results.md), pictures of every kind on the page [Plots](plots.md), and what formulas and tables
# may hold on the page [Formulas and data](formulas.md).
