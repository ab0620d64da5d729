"""Troubleshooting and frequent questions.  `make docs` runs this script and writes docs/troubleshooting.md."""

# %% [markdown]
# # Troubleshooting and FAQ
#
# ## "Do not trust ...": what now?
#
# Every summary ends with a verdict. **Agree**: R-hat is at most 1.01, and there are at least 400 effective draws. **Do not trust**, for
# curves and densities **chains differ**: R-hat is above 1.05, or there are fewer than 100 effective draws; a warning says so too. **Nearly
# agree** is what lies between these. This run is too short on purpose:

# %%
import nrmmix as nm

galaxy = nm.datasets.load_galaxy()
short = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=100, tune=100, rng=1)

# %% [markdown]
# The remedies, in this order:
#
# 1. **Go on**: `fit.extend(n)` continues the same chains, or leave out `draws=`, and chains go on until they agree, two minutes at most
#    (`time_limit=600` for ten). Here is a mixture whose chains agree:

# %%
fit = nm.fit("velocity_km_s ~ 1", galaxy, draws=1000, thin=20, rng=1)
fit.glance()[["max_rhat", "min_ess", "converged"]].round(3)

# %% [markdown]
# 2. **Look at what disagrees**: `fit.diagnostics()` has R-hat by quantity, `fit.plot("trace")` the chains. Where only `mass` or `n_clusters`
#    is slow while the density agrees, predictions may be used and the number of clusters may not.
# 3. **Rounded responses**: where `summary()` says that clusters hold one value each, `interval(low, high) ~ 1`, with columns of the value less and
#    plus half the unit, has chains draw the values before rounding.
# 4. **Another sampler**: `fit.model.methods()` lists those that suit; see [Samplers](samplers.md).
# 5. **A simpler question**: a kernel of fixed width, a diagonal covariance, fewer columns.
#
# ## Why has the partition another number of clusters than most draws?
#
# `fit.partition()` is one clustering, that of the least expected loss; clusters that only some draws have, often of a row or two, are not in it.
# The posterior of the number is `fit.draws["n_clusters"]`. Neither is the number of groups in the world: components are Gaussians, and one skew
# group takes several.

# %%
fit.partition().n_clusters, round(float(fit.draws["n_clusters"].mean()), 1)

# %% [markdown]
# ## There are far too many clusters
#
# The usual causes are rounded or repeated values, a skew response (try `log(y)`), or a prior scale that is far from the data. A mixture of
# Gaussians has as many clusters as the density needs, which are not the groups that a reader would count. See [Sensitivity to
# priors](sensitivity.md).
#
# How wide clusters are is learnt: their scale is sampled, one number for each response, the same in all clusters. A fixed scale of your own
# that is too narrow breaks one lump into many where clusters have few rows. Here are 30 rows of one normal law:

# %%
import numpy as np

lump = {name: np.random.default_rng(seed).normal(size=30) for seed, name in enumerate(["a", "b"])}
for name, family in {"sampled": nm.Gaussian(), "fixed": nm.Gaussian(scale=0.06 * np.eye(2))}.items():
    found = nm.fit("a + b ~ 1", lump, family=family, draws=1000, thin=5, rng=1)
    print(f"{name}: {found.partition().n_clusters}")

# %% [markdown]
# ## It is slow
#
# - The first fit compiles, once on a machine; `nrmmix warmup` does all of it ahead.
# - Chains run in threads, as many at once as there are cores.
# - From ten thousand rows or so on, consider `method="memoized_vb"`, which needs few passes over the rows, and compare it with chains on a
#   sample; see [Variational inference](variational.md).
# - Many covariate values make density regression slow: `kernel=nm.SquaredExponential(groups=200)` puts them in bins.
#
# ## It takes too much memory
#
# `store="partition"` keeps labels and numbers of each draw, `store="scalars"` numbers alone; `thin=` keeps fewer draws. Files larger than memory go
# through variational inference, see [Beyond memory](beyond_memory.md).
#
# ## Two runs differ
#
# Without `rng=` each fit takes a new seed, which `fit.seed` has. With it draws are the same to the bit, whatever the number of cores, on
# the same kind of processor and with the same versions. How many draws there are depends on the speed of the machine where a time limit
# ends the run, as it may by default; `draws=` fixes their number.
#
# ## A row or a column was dropped
#
# Rows with missing values are dropped with a warning that counts them; `missing="marginalize"` keeps rows that miss some of their responses. See
# [Formulas and data](formulas.md).
#
# ## Labels change from draw to draw
#
# Clusters have no names in the posterior. Use `fit.partition()`, `fit.clusters()` and `fit.parameters()`, which number clusters of one partition
# by size, or quantities that need no labels: predictions, the probability that two rows share a cluster.
