"""Choosing a prior before the fit.  `make docs` runs this script and writes docs/priors.md."""

# %% [markdown]
# # Choosing a prior
#
# The random measure decides how many clusters are expected, and how fast their number grows with the data; the family's prior decides what
# clusters look like. Both can be examined before anything is fitted. The default, a Dirichlet process whose mass is Gamma(1, 1), is where
# to begin; take another where you know how many clusters to expect, or that their number grows faster with the data.

# %% [markdown]
# ## The random measures
#
# | prior | weights | clusters among n rows |
# |---|---|---|
# | `DirichletProcess(mass)` | Dirichlet process, the usual choice | about mass log n |
# | `NGGP(mass, sigma)` | normalized generalized gamma process; sigma = 0 is the Dirichlet process | grow as n to the power sigma |
# | `NormalizedInverseGaussian(mass)` | the same with sigma = 1/2 | as the square root of n |
# | `NormalizedStable(sigma)` | no mass: the limit of small ones | as n to the power sigma |
# | `PitmanYor(mass, sigma)` | a stable process tilted by a power | as n to the power sigma |
# | `FiniteMixture(components, mass)` | Dirichlet(mass/components, ...) of a fixed number of components | at most `components` |
#
# A number fixes a hyperparameter, a distribution has it sampled: `nm.Gamma` or `nm.LogNormal` for masses, `nm.Beta` for sigma. Each measure serves
# mixtures and density regression. Here they are at a mean of eight clusters among 82 rows:

# %%
import matplotlib.pyplot as plt
from scipy.optimize import brentq

import nrmmix as nm

galaxy = nm.datasets.load_galaxy()


def law(prior):
    return nm.Model("velocity_km_s ~ 1", galaxy, prior=prior).prior_n_clusters()


def mean(prior):
    found = law(prior)
    return float((found.index * found).sum())


def at_eight(prior_of, low, high):
    return prior_of(brentq(lambda x: mean(prior_of(x)) - 8, low, high))


measures = {
    "Dirichlet process": at_eight(nm.DirichletProcess, 0.1, 10),
    "NGGP, sigma 0.25": at_eight(lambda mass: nm.NGGP(mass, 0.25), 0.01, 10),
    "Pitman-Yor, sigma 0.25": at_eight(lambda mass: nm.PitmanYor(mass, 0.25), 0.01, 10),
    "normalized stable": at_eight(nm.NormalizedStable, 0.1, 0.9),
    "finite, 12 components": at_eight(lambda mass: nm.FiniteMixture(12, mass), 0.1, 50),
}
fig, ax = plt.subplots()
for name, prior in measures.items():
    law(prior).plot(ax=ax, label=f"{name}: {prior}", marker=".")
ax.set(xlim=(0, 30), ylim=(0, 0.4), xlabel="number of clusters", ylabel="probability")
ax.legend(fontsize=7)
ax

# %% [markdown]
# ## How many clusters?
#
# The prior distribution of the number of clusters among the 82 rows, for a Dirichlet process whose mass is Gamma(1, 1):

# %%
prior = nm.Model("velocity_km_s ~ 1", galaxy).prior_n_clusters()
prior.head(10).round(3)

# %%
round(float((prior.index * prior).sum()), 2)

# %% [markdown]
# The mass at which a given number is expected, for a Dirichlet process and for a normalized generalized gamma process, whose numbers of clusters
# vary much more about the same mean:

# %%
masses = {sigma: nm.mass_for_clusters(8, n=82, sigma=sigma) for sigma in (0.0, 0.25, 0.4)}
masses

# %%
import pandas as pd

priors = {
    sigma: nm.Model("velocity_km_s ~ 1", galaxy, prior=nm.NGGP(mass, sigma) if sigma else nm.DirichletProcess(mass)).prior_n_clusters()
    for sigma, mass in masses.items()
}
pd.DataFrame(priors).iloc[:20:3].round(4)

# %% raises
nm.mass_for_clusters(8, n=82, sigma=0.9)

# %% [markdown]
# ## What do data from the prior look like?
#
# `prior_predictive` draws whole data sets: hyperparameters, random measure, then every row. With the default prior of the family clusters can
# lie anywhere in the range of the data or beyond it, and how wide they are is left to the data. The table has quantiles, over the replicates, of
# the mean, standard deviation, minimum and maximum of a data set, in km/s:

# %%
model = nm.Model("velocity_km_s ~ 1", galaxy)
replicates = model.prior_predictive(draws=200, rng=1)
replicates["velocity_km_s"].groupby("draw").agg(["mean", "std", "min", "max"]).quantile([0.05, 0.5, 0.95]).round(-2)

# %% [markdown]
# ## What has the fit learnt?
#
# The pictures compare prior and posterior, of the hyperparameters and of the number of clusters. Where the two are alike, the data say little.

# %%
fit = nm.fit("velocity_km_s ~ 1", galaxy, prior=nm.NGGP(), draws=1000, tune=1000, thin=10, rng=1)
fit.plot("prior_posterior")

# %%
fit.plot("n_clusters")
