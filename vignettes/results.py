"""Every method of a fit.  `make docs` runs this script and writes docs/results.md."""

# %% [markdown]
# # Results
#
# This page shows the methods of a fit on two examples: a mixture of two responses, and a density regression. Contrasts, curve diagnostics and the
# importance of covariates are on the page [Density regression](density_regression.md), proposals of moves in [Samplers](samplers.md), imputation and
# leave-one-out in [Ten analyses](analyses.md).

# %%
import nrmmix as nm

faithful, mcycle = nm.datasets.load_faithful(), nm.datasets.load_mcycle()
mixture = nm.fit("eruptions_min + waiting_min ~ 1", faithful, draws=1000, tune=1000, thin=30, rng=1)
regression = nm.fit("accel_g ~ times_ms", mcycle, rng=1)
mixture

# %% [markdown]
# ## Draws
#
# `fit.draws` has arrays with leading axes (chain, draw), by name. Labels number the clusters of a draw by first appearance: cluster 3 of one draw
# has nothing to do with cluster 3 of the next.

# %%
regression.draws

# %%
regression.draws["n_clusters"].shape, regression.draws["labels"].shape

# %% [markdown]
# ## Convergence
#
# R-hat, effective sample sizes and Monte Carlo errors are given only for quantities that do not depend on how clusters are numbered. R-hat is
# rank-normalised; `iact`, the integrated autocorrelation time, is the number of draws that are worth one independent draw.
# `q5` and `q95` are posterior quantiles. A quantity that is fixed, such as `sigma` of a Dirichlet process, has a mean only.

# %%
regression.diagnostics().round(3)

# %%
regression.autocorrelation("n_clusters", lags=4).round(3)

# %% [markdown]
# A run of 100 or more draws whose chains disagree gives a `nm.ConvergenceWarning`; the summary of every run says whether its chains agree, and
# what to do. This run is far too short, to show the warning:

# %%
short = nm.fit("accel_g ~ times_ms", mcycle, draws=150, tune=0, rng=1)

# %% [markdown]
# ## Tables
#
# `tidy`, `glance` and `augment` return plain data frames: parameters, the fit in one row, and the data with what the fit says of each row.
# `std_error` is the posterior standard deviation, `conf_low` and `conf_high` are the ends of the 90% credible interval. `.fitted` is the predictive mean
# of a row, `.log_density` its log density, `.cluster` its cluster in `partition()` and `.probability` how surely it belongs there.

# %%
mixture.tidy().round(3)

# %%
mixture.glance().T

# %%
mixture.augment().head(3).round(3)

# %% [markdown]
# ## Predictions
#
# `estimate` is computed from the posterior predictive distribution, with everything integrated out that can be: of means, densities and
# probabilities it is the posterior mean, of quantiles the quantile of that distribution. `lower` and `upper` are the ends of the 90% credible band
# (`interval=`): quantiles of the functional of the random density, for which weights, atoms and the mass of unseen atoms are drawn. Without new data,
# predictions are for the fitted rows.

# %%
regression.predict({"times_ms": [10, 20, 30]})

# %%
regression.predict({"times_ms": [10, 20]}, kind="density", at=[-100, -50, 0])

# %%
regression.predict({"times_ms": [20]}, kind="cdf", at=[-100, -50, 0], interval=0.5)

# %%
regression.predict({"times_ms": [20]}, kind="quantile", q=[0.1, 0.5, 0.9])

# %% [markdown]
# With several responses the density is the joint one, unless a response is named; distribution functions and quantiles are given for each response.

# %%
mixture.predict(kind="density", at=[[2, 55], [4.5, 80]])

# %%
mixture.predict(kind="density", response="waiting_min", at=[55, 80])

# %%
mixture.predict(kind="quantile", q=[0.05, 0.95])

# %% [markdown]
# Rows keep the index of the new data, and rows with a missing covariate are NaN:

# %%
import numpy as np
import pandas as pd

new = pd.DataFrame({"times_ms": [15.0, np.nan, 40.0]}, index=["a", "b", "c"])
regression.predict(new)

# %% [markdown]
# `kind="cluster"` assigns rows to the clusters of the point estimate `partition()`, with the posterior probability that a row belongs there, given
# the row; -1 stands for a cluster not seen yet.

# %%
mixture.predict(pd.DataFrame({"eruptions_min": [2, 3, 4.5], "waiting_min": [52, 100, 80]}), kind="cluster")

# %% [markdown]
# `membership` gives the probabilities of all clusters; `clusters()` gives those of the fitted rows, with their uncertainty.

# %%
mixture.membership(pd.DataFrame({"eruptions_min": [2, 3, 4.5], "waiting_min": [52, 100, 80]})).round(3)

# %% [markdown]
# `parameters` describes the clusters, given their members: means, standard deviations and intervals of the parameters of their components, and
# their weights.

# %%
mixture.parameters().round(2)

# %% [markdown]
# Predictions of a transformed response, such as `log(wage)`, are on the scale of the formula, or with `units="response"` on that of the wage:
# quantiles are transformed back, and densities multiplied by the slope of the logarithm. The mean is that of the wage itself in each draw of the
# random measure; its estimate is the median over draws, because the predictive distribution has the tails of Student's t, whose exponential has
# no mean.

# %%
trees = pd.DataFrame({"age": np.linspace(1, 9, 60), "height": np.exp(0.5 + 0.2 * np.linspace(1, 9, 60) + 0.2 * np.sin(np.arange(60.0)))})
heights = nm.fit("log(height) ~ age", trees, rng=1)
heights.predict({"age": [3, 6]}, kind="quantile", q=[0.1, 0.5, 0.9], units="response").round(2)

# %% [markdown]
# `log_density` is the log of the posterior mean density at each row's own response; over rows that were held out its mean is a score.
# `simulate` draws data sets from the posterior predictive distribution, each from one draw of the random measure.

# %%
held_out = mcycle.iloc[::10]
part = nm.fit("accel_g ~ times_ms", mcycle.drop(held_out.index), rng=1)
print(round(part.log_density(held_out).mean(), 3))

# %%
regression.simulate({"times_ms": [20, 30]}, draws=3, rng=1)

# %% [markdown]
# ## Comparing fits
#
# `nm.compare` scores fits on rows that none of them has seen, with the standard error of each difference to the best.

# %%
box = nm.fit("accel_g ~ times_ms", mcycle.drop(held_out.index), kernel=nm.Box(0.1), rng=1)
nm.compare({"squared exponential": part, "box": box}, newdata=held_out).round(2)

# %% [markdown]
# ## Clusters
#
# `partition` searches for the clustering of least posterior expected loss, under variation of information or Binder's loss. The credible ball of
# Wade and Ghahramani holds the 95% of the draws that are nearest to it; its bounds show how different the clusterings in the ball may be. The
# second output has the numbers of clusters of three of them: one with fewest clusters, one with most, and one that is farthest from the estimate.

# %%
best = mixture.partition()
best

# %%
ball = best.credible_ball
bounds = {"fewest clusters": ball.vertical_upper, "most clusters": ball.vertical_lower, "farthest": ball.horizontal}
{name: int(bound[0].max()) + 1 for name, bound in bounds.items()}

# %%
mixture.partition("binder").sizes

# %%
mixture.similarity()[:3, :3]

# %% [markdown]
# ## Summary
#
# `summary()` prints as text; `as_html()`, `as_latex()` and `as_csv()` give other formats, and notebooks show a fit as HTML.

# %%
mixture.summary()

# %%
print(mixture.summary().as_latex()[:400])

# %% [markdown]
# ## ArviZ
#
# `to_datatree()` hands draws, data, replicates and pointwise log likelihoods to ArviZ (it needs xarray); `to_arviz()` gives what the ArviZ
# that is installed works on, an InferenceData of ArviZ 0.20 and later 0.x, a DataTree from 1.0 on. `pip install "nrmmix[arviz]"` takes 0.x
# on Python 3.11, for which there is no later one. The docstring says what leave-one-out cross-validation then conditions on.

# %%
tree = mixture.to_datatree()
list(tree.children), dict(tree["log_likelihood"].sizes)

# %% [markdown]
# ## Keeping and continuing
#
# A file is a zip archive of plain arrays with a JSON header, never pickle, and is checked as a whole when it is read.

# %%
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
again = nm.load(mixture.save(folder / "mixture.npz"))
again.predict().equals(mixture.predict())

# %%
whole = mixture.model.fit(draws=1500, tune=1000, thin=30, rng=1)
bool((again.extend(500).draws["labels"] == whole.draws["labels"]).all())

# %% [markdown]
# `time_limit` stops a long run in time, and so does Ctrl-C; what was drawn is kept, and can be extended.

# %%
stopped = mixture.model.fit(draws=10**6, tune=100, time_limit=0.5, rng=1)
stopped.interrupted, stopped.draws.n_draws < 10**6

# %% raises
(folder / "broken.npz").write_bytes((folder / "mixture.npz").read_bytes()[:5000])
import os

os.chdir(folder)
nm.load("broken.npz")

# %% [markdown]
# A report is one HTML page with tables and pictures:

# %%
mixture.report("mixture.html").name
