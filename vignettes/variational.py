"""Variational inference beside Markov chains.  `make docs` runs this script and writes docs/variational.md."""

# %% [markdown]
# # Variational inference
#
# Chains draw from the posterior. Variational inference approximates it by the distribution q(z) q(phi) q(v, mass) that is nearest to it in
# Kullback-Leibler divergence. In q three parts are independent: the components z of the rows, the parameters phi of the components, and the sticks v
# together with the mass of the Dirichlet process. It also gives a lower bound of the log evidence, log p(X). It is fast, and deterministic given its
# start; its limits are at the end of this page.
#
# There are three methods, for Dirichlet process mixtures of every family whose parameters are integrated out, and for density regression:
# `"vb"` visits all rows before the components change, `"stochastic_vb"` takes a step after each batch of rows, and `"memoized_vb"`
# (Hughes & Sudderth 2013) remembers the sufficient statistics of each batch from its last visit. The last has an exact bound after every batch; in
# mixtures it starts from one component and finds their number by births and merges.
#
# ## A fit

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nrmmix as nm

faithful = nm.datasets.load_faithful()
formula = "eruptions_min + waiting_min ~ 1"
fit = nm.fit(formula, faithful, method="memoized_vb", rng=1)
fit

# %% [markdown]
# It has the methods of other fits: predictions with bands, densities of rows, simulated data, clusters, pictures, tables, a report, a file.

# %%
fit.summary()

# %%
fit.plot("density")

# %%
fit.predict(faithful.head(4), kind="cluster")

# %% [markdown]
# `fit.responsibilities()` gives the probabilities of the components, row by row, and `fit.weights` their expected weights; -1 stands for
# all components without rows.

# %%
fit.weights.round(3)

# %% [markdown]
# ## The bound
#
# The bound has every constant, so that fits with different numbers of components can be compared by it, as long as they are of the same data
# and model. Without births and merges a fit stops at an optimum near its start; `nm.VB()` merges once the bound has settled. The table has
# ten starts from ten components each, without merges and with them:

# %%
starts = [nm.fit(formula, faithful, method=nm.VB(components=10, merges=False), rng=seed) for seed in range(10)]
joined = [nm.fit(formula, faithful, method=nm.VB(components=10), rng=seed) for seed in range(10)]
pd.DataFrame({
    "bound": [one.elbo for one in starts], "clusters": [one.n_clusters for one in starts],
    "bound with merges": [one.elbo for one in joined], "clusters with merges": [one.n_clusters for one in joined],
}).round(2)

# %% [markdown]
# `fit.passes` has the bound pass by pass, and `plot("elbo")` and `plot("n_clusters")` draw it. The next example has 100,000 image patches
# in eight clusters that differ in covariance alone, like the toy data of the paper:

# %%
patches, truth, _ = nm.datasets.simulate_edge_patches(100_000, rng=1)
model = nm.Model(data=patches, family=nm.Gaussian(known_mean=0.0), prior=nm.DirichletProcess(1.0))
found = model.fit("memoized_vb", rng=1)
found.passes.tail(4)

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
found.plot("elbo", axes[0])
found.plot("n_clusters", axes[1])

# %% [markdown]
# The clusters of the estimate (columns) beside the true ones (rows), in numbers of patches:

# %%
pd.crosstab(pd.Series(truth, name="label"), pd.Series(found.labels, name="cluster"))

# %% [markdown]
# ## Beside chains
#
# The same model by Markov chains. Draws of the posterior have more clusters, small ones among them, than the one division of the rows that q has:
# within the clusters the densities are near each other, between them that of the chains is larger. The bands of variational inference are
# narrower, as it takes the clusters for given.

# %%
chains = nm.fit(formula, faithful, draws=1000, tune=1000, thin=5, rng=1)
points = [[2.0, 50.0], [3.2, 65.0], [4.5, 80.0]]
both = {name: one.predict(kind="density", at=points) for name, one in {"chains": chains, "variational": fit}.items()}
pd.concat(both, axis=1).round(4)

# %%
pd.Series({
    "variational: clusters": fit.n_clusters, "chains: mean number of clusters": chains.draws["n_clusters"].mean(),
    "mean log density, variational": fit.log_density().mean(), "mean log density, chains": chains.log_density().mean(),
}).round(3)

# %% [markdown]
# Take chains where rows are few, or where the uncertainty matters: that of the clustering, of the number of clusters, or of a density between
# clusters. Take variational inference for a clustering of many rows, for a start of chains, or for a first look. Chains can start from its point
# estimate, `init=fit.labels`; it can start from any labels, or from an earlier fit of the same rows:

# %%
nm.fit(formula, faithful, method="vb", init=chains, rng=1)

# %% [markdown]
# ## Density regression
#
# For `y ~ x` the three methods fit a finite measure with a fixed number of components (`n_components` below). Each component has a gamma weight, a
# code of the covariate kernel (its location and width) and a line; the shrinkage of the lines and the scale of the noise are learnt. The bound has
# many optima, so a fit has several starts. Predictions average over the starts with the weights that predict left-out rows best (stacking).

# %%
motorcycle = nm.datasets.load_mcycle()
quick = nm.fit("accel_g ~ times_ms", motorcycle, method="vb", rng=1)
quick.starts.round(2)

# %%
slow = nm.fit("accel_g ~ times_ms", motorcycle, draws=1000, tune=2000, thin=40, rng=1)
at = pd.DataFrame({"times_ms": [10.0, 20.0, 30.0, 40.0]})
pd.concat({"chains": slow.predict(at), "variational": quick.predict(at)}, axis=1).set_axis(at["times_ms"], axis=0).round(1)

# %%
pd.DataFrame({
    "seconds": [quick.seconds, slow.seconds], "mean log density": [quick.log_density().mean(), slow.log_density().mean()],
    "mean width of the bands": [float((one.predict(at)["upper"] - one.predict(at)["lower"]).mean()) for one in (quick, slow)],
}, index=["variational", "chains"]).round(2)

# %% [markdown]
# Each mean lies within the band of the other method. The variational bands are narrower on average, as in mixtures; `mean log density` is that of the
# fitted rows, not of held-out ones. [Density regression of many rows](papers/variational_regression.md) has
# held-out scores, coverage and what a million rows take. Chains of several covariates start from such fits by themselves,
# `init="spread"`; any chains can, `init=fit`.

# %% [markdown]
# ## Digits
#
# Images of handwritten digits, 8 x 8 pixels: their first ten principal components, without the digits' names.

# %%
digits = nm.datasets.load_digits()
pixels = digits.drop(columns="digit").to_numpy(float)
centred = pixels - pixels.mean(axis=0)
scores = centred @ np.linalg.svd(centred, full_matrices=False)[2][:10].T
images = nm.Model(data=scores, family=nm.Gaussian(scale=0.2 * 12 * np.diag(scores.var(axis=0)), nu=12)).fit("memoized_vb", rng=1)
images

# %% [markdown]
# The mean image of each cluster, the largest first, and the share of its rows that show its most frequent digit:

# %%
digit, labels = digits["digit"].to_numpy(), images.labels
order = np.argsort(-np.bincount(labels))
figure, axes = plt.subplots(2, -(-len(order) // 2), figsize=(1.3 * -(-len(order) // 2), 3.4), layout="constrained")
for ax, k in zip(axes.ravel(), order):
    ax.imshow(pixels[labels == k].mean(axis=0).reshape(8, 8), cmap="Greys")
    counts = np.bincount(digit[labels == k], minlength=10)
    ax.set_title(f"{counts.argmax()}: {counts.max() / counts.sum():.0%}", fontsize=9)
for ax in axes.ravel():
    ax.set_axis_off()

# %% [markdown]
# ## What it does not do
#
# - Mixtures need a Dirichlet process, density regressions that or a finite measure; the mass may be fixed or have any of its priors.
#   `model.methods()` says why a model is refused.
# - Density regression has births and merges only on request, `nm.MemoizedVB(births=True, merges=True)`.
# - Censored responses, kernels that are 0 beyond their width and widths that are sampled are refused. Missing cells of responses with a
#   full covariance are drawn by chains; here they are refused too. Diagonal covariances, counts and categories take them.
# - Bands are of random measures drawn from q. They are too narrow where clusters overlap.
# - The optimum that is found depends on the start. Births and merges make that rarer; they do not end it.
