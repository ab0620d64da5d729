"""Pictures of every kind.  `make docs` runs this script and writes docs/plots.md; needs statsmodels."""

# %% [markdown]
# # Plots
#
# `fit.plot(kind)` draws on new axes, or on those given as `ax=`, and returns them; nothing is shown or saved. Colours can be told apart with the
# usual kinds of colour blindness. `nm.plots.available(model)` lists the kinds that suit a model.

# %%
import numpy as np
import pandas as pd
import statsmodels.datasets as sets

import nrmmix as nm

faithful, mcycle = nm.datasets.load_faithful(), nm.datasets.load_mcycle()
galaxy, iris = nm.datasets.load_galaxy(), nm.datasets.load_iris()
run = {"draws": 1000, "tune": 1000, "thin": 5, "rng": 1}
mixture = nm.fit("velocity_km_s ~ 1", galaxy, prior=nm.NGGP(), **run)
nm.plots.available(mixture.model)

# %%
regression = nm.fit("accel_g ~ times_ms", mcycle, draws=1000, tune=2000, thin=20, rng=1)
nm.plots.available(regression.model)

# %% [markdown]
# ## Densities

# %%
mixture.plot("density")

# %%
pair = nm.fit("eruptions_min + waiting_min ~ 1", faithful, **run)
pair.plot("density")

# %%
four = nm.fit("sepal_length_cm + sepal_width_cm + petal_length_cm + petal_width_cm ~ 1", iris, **run)
four.plot("density")

# %% [markdown]
# ## Density regression

# %%
regression.plot("mean")

# %%
regression.plot("conditional")

# %%
regression.plot("quantiles")

# %%
regression.plot("slices")

# %%
levels = nm.fit("petal_length_cm ~ species", iris, **run)
levels.plot("mean")

# %% [markdown]
# ## Several covariates
#
# `effects` moves one covariate after the other over its values and holds the rest at their medians; `surface` shows two at once; `importance`
# says which matter, by the slots that depend on them and by how far predictions move; `contrasts` are differences, between levels of a factor
# or between two values of a number.

# %%
several = nm.fit("sepal_length_cm ~ petal_length_cm + sepal_width_cm + species", iris, rng=1)
several.plot("effects", draws=100)

# %%
several.plot("surface", x=["petal_length_cm", "sepal_width_cm"], draws=100)

# %%
several.plot("importance", draws=100)

# %%
several.plot("contrasts", values={"species": ["setosa", "versicolor", "virginica"]}, draws=200)

# %% [markdown]
# ## Times until an event
#
# `survival` draws the probability of surviving each time, beside the Kaplan-Meier curve, which assumes nothing of its form;
# [Survival](survival.md) goes through such a fit.

# %%
heart = sets.heart.load_pandas().data.set_axis(["days", "died", "age"], axis=1)
times = nm.fit("Surv(log(days), died) ~ 1", heart, rng=1)
times.plot("survival", draws=200)

# %% [markdown]
# ## Chains

# %%
mixture.plot("trace")

# %%
mixture.plot("autocorrelation")

# %% [markdown]
# ## Clusters

# %%
mixture.plot("n_clusters")

# %%
pair.plot("clusters")

# %%
four.plot("clusters")

# %%
regression.plot("clusters")

# %%
pair.plot("similarity")

# %% [markdown]
# How uncertain it is to which cluster a row belongs:

# %%
pair.plot("uncertainty")

# %% [markdown]
# ## Checks

# %%
mixture.plot("prior_posterior")

# %%
mixture.plot("ppc")

# %%
pair.plot("ppc")

# %% [markdown]
# ## Many responses, and components that are lines
#
# `profiles` shows clusters of many responses: words of counts, else means in standard deviations. `components` draws the lines of regression
# components.

# %%
corpus = nm.datasets.load_reuters()  # of 100 stories the 40 words that are most frequent in all
frequent = np.asarray(corpus.counts.sum(axis=0)).ravel().argsort()[-40:]
counts = pd.DataFrame(corpus.counts[:100, frequent].toarray(), columns=np.array(corpus.vocabulary)[frequent])
words = nm.fit(None, counts, family=nm.Multinomial(), draws=1000, thin=10, rng=1)
words.plot("profiles")

# %%
lines = nm.fit("petal_length_cm ~ 1", nm.datasets.load_iris(), family=nm.Regression("1 + sepal_length_cm"), draws=500, thin=5, rng=1)
lines.plot("components")
