"""Choosing a prior before the fit.  `make docs` runs this script and writes docs/priors.md."""

# %% [markdown]
# # Choosing a prior
#
# The random measure decides how many clusters are expected, and how fast their number grows with the data; the family's prior decides what
# clusters look like. Both can be examined before anything is fitted.

# %%
import nrmmix as nm

galaxy = nm.datasets.load_galaxy()

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
# `prior_predictive` draws whole data sets: hyperparameters, random measure, then every row. With the default prior of the family clusters are
# narrow against the data and can be anywhere in them.

# %%
model = nm.Model("velocity_km_s ~ 1", galaxy)
replicates = model.prior_predictive(draws=200, rng=1)
replicates["velocity_km_s"].groupby("draw").agg(["mean", "std", "min", "max"]).quantile([0.05, 0.5, 0.95]).round(-2)

# %% [markdown]
# ## What has the fit learnt?

# %%
fit = nm.fit("velocity_km_s ~ 1", galaxy, prior=nm.NGGP(), draws=1000, tune=1000, thin=10, rng=1)
fit.plot("prior_posterior")

# %%
fit.plot("n_clusters")
