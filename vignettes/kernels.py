"""Choosing a covariate kernel.  `make docs` runs this script and writes docs/kernels.md."""

# %% [markdown]
# # Choosing a kernel
#
# **Which covariate kernel suits my data?** Usually the default. It says how fast the distribution of the response may change with the covariate:
#
# | data | kernel |
# |---|---|
# | one number | the default, `nm.SquaredExponential()`: each atom chooses one of four widths |
# | change everywhere of the same speed | `nm.SquaredExponential(0.05)`: one width, in units of the range; chains mix faster |
# | jumps at unknown places | `nm.Box(0.2)`: an atom counts fully within its width and not beyond; chains mix slowly |
# | several covariates, or factors | the default, `nm.SparseProduct()`: each atom chooses the covariates it depends on |
# | very many distinct values | `nm.SquaredExponential(groups=200)`: values in bins |
#
# ## Compare widths by rows that were not seen
#
# The width matters more than the shape. Three of them on the motorcycle data:

# %%
import nrmmix as nm

mcycle = nm.datasets.load_mcycle()
run = {"draws": 1000, "tune": 1000, "thin": 10, "rng": 1}
fits = {f"width {width}": nm.fit("accel_g ~ times_ms", mcycle, kernel=nm.SquaredExponential(width), **run) for width in (0.025, 0.05, 0.1)}

# %%
nm.compare(fits).round(2)

# %% [markdown]
# `elpd` is the sum of the log densities of the rows, each given the others; `difference` is from the best, and `se` its standard error: what is
# smaller than two of them is not decided. The warning names fits in which a row is nearly alone in its cluster, so that leaving it out is
# uncertain; rows held out from the start, as `newdata=`, settle it. A width that is too wide rounds off where the curve turns:

# %%
fits["width 0.05"].plot("mean")

# %%
fits["width 0.1"].plot("mean")

# %% [markdown]
# ## Advice
#
# - Start from the default, and fix the width only if chains do not agree in good time or you know it.
# - Do not sample one width that all atoms share: it mixes badly, see [Density regression](density_regression.md).
# - Predictions beyond the data return to the atoms nearest to them; no kernel extrapolates.
# - A formula may need another scale: `y ~ log(x)` where changes are by ratios.
# - Kernels of your own: [Extending](papers/extending.md).
