"""Choosing a covariate kernel.  `make docs` runs this script and writes docs/kernels.md."""

# %% [markdown]
# # Choosing a kernel
#
# **Which covariate kernel suits my data?** Usually the default. It says how fast the distribution of the response may change with the covariate:
#
# | data | kernel |
# |---|---|
# | one number | the default, `nm.SquaredExponential()`: each atom chooses one of four widths |
# | one number, and the distribution changes equally fast everywhere | `nm.SquaredExponential(0.05)`: one width, in units of the range; chains mix faster |
# | jumps at unknown places | `nm.Box(0.2)`: an atom counts fully within its width and not beyond; chains mix slowly |
# | several covariates, or factors | the default, `nm.SparseProduct()`: each atom chooses the covariates it depends on |
# | very many distinct values | `nm.SquaredExponential(groups=200)`: values in bins |
#
# ## Compare widths by rows that were not seen
#
# Three widths on the motorcycle data, in units of the range of the covariate:

# %%
import nrmmix as nm

mcycle = nm.datasets.load_mcycle()
run = {"draws": 1000, "tune": 1000, "thin": 10, "rng": 1}
fits = {f"width {width}": nm.fit("accel_g ~ times_ms", mcycle, kernel=nm.SquaredExponential(width), **run) for width in (0.025, 0.05, 0.1)}

# %%
nm.compare(fits).round(2)

# %% [markdown]
# `elpd` is the sum of the log densities of the rows, each given the others, and `se` its standard error. `difference` is the difference from the best
# fit, and `difference_se` its standard error: a difference of less than two standard errors does not decide. Here none does, though the widest kernel
# is behind by most. The warning names fits in which a row is nearly alone in its cluster, so that its left-out density cannot be computed reliably
# from the draws; a comparison by rows held out from the start, `newdata=`, does without. A width that is too large rounds off the turns
# of the curve, as the second picture shows beside the first:

# %%
fits["width 0.05"].plot("mean")

# %%
fits["width 0.1"].plot("mean")

# %% [markdown]
# ## Advice
#
# - Start from the default, and fix the width only if chains do not agree in good time or you know it.
# - Do not sample one width that all atoms share: it mixes badly, see [Density regression](density_regression.md).
# - Do not extrapolate far: beyond the data predictions go on along the lines of the nearest atoms, and bands widen as atoms without rows gain weight.
# - Transform a covariate whose effect goes with ratios: `y ~ log(x)`.
# - Kernels of your own: [Extending](papers/extending.md).
