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
# The data are 272 eruptions of Old Faithful: how long each took, and the time to wait for the next. A right side of `1` means that there are no
# covariates.

# %%
import nrmmix as nm

faithful = nm.datasets.load_faithful()
model = nm.Model("eruptions_min + waiting_min ~ 1", faithful)
model

# %% [markdown]
# A model prints every prior with its numbers, before anything is sampled. It also says what the prior expects of the number of clusters:

# %%
model.prior_n_clusters().head(8).round(3)

# %% [markdown]
# The mass at which a Dirichlet process expects three clusters among the 272 rows:

# %%
round(nm.mass_for_clusters(3, n=len(faithful)), 3)

# %% [markdown]
# By default a fit has four chains, which run until they agree, for two minutes at most. The same seed gives the same draws, bit for bit.
# Where the time limit ends the run, the number of draws depends on the machine; `draws=1000` fixes it.

# %%
fit = model.fit(rng=1)
fit.summary()

# %% [markdown]
# The last lines say whether the chains can be trusted, and what to do where they cannot. `plot` draws with matplotlib and returns the axes:

# %%
fit.plot("density")

# %%
fit.plot("trace")

# %% [markdown]
# ### Clusters
#
# Each draw is a clustering of the rows. `partition()` searches for the clustering of least expected loss, which need not be one of the draws; its
# credible ball says how sure it is.

# %%
clusters = fit.partition()
print(clusters)
clusters.credible_ball

# %%
fit.plot("clusters")

# %%
fit.plot("n_clusters")

# %% [markdown]
# `kind="cluster"` says where new eruptions would belong:

# %%
import pandas as pd

new = pd.DataFrame({"eruptions_min": [2.0, 3.2, 4.5], "waiting_min": [52, 66, 80]}, index=["short", "between", "long"])
fit.predict(new, kind="cluster")

# %% [markdown]
# ### Predictions
#
# Every prediction is a functional of the random density, with an estimate and a 90% credible band (`interval=` gives another level). This is the
# median waiting time, in minutes:

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
# The left picture shows the conditional mean with its band, the right one the whole conditional density. `predict` gives quantiles at given times:

# %%
regression.predict({"times_ms": [10, 20, 30]}, kind="quantile", q=[0.1, 0.5, 0.9])

# %% [markdown]
# Each thin line is a data set drawn from the posterior predictive distribution; the observed one should look like one of them.

# %%
regression.plot("ppc")

# %% [markdown]
# ## Keeping a fit
#
# A saved fit gives the same predictions to the bit, and continues sampling as if it had never stopped.

# %%
import tempfile
from pathlib import Path

path = regression.save(Path(tempfile.mkdtemp()) / "mcycle.npz")
again = nm.load(path)
longer = again.extend(500)
longer.draws

# %% [markdown]
# `regression.report("mcycle.html")` writes all of this as one page. [Command line](command_line.md) does the same from a shell,
# [Results](results.md) shows the methods of a fit, [Plots](plots.md) all kinds of pictures, and [Formulas and data](formulas.md) what formulas
# and tables may hold.
