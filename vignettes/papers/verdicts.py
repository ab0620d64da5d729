"""How often the verdict on chains is wrong.  `make vignettes` writes docs/papers/verdicts.md by it."""

# %% [markdown]
# # How often is the verdict wrong?
#
# The summary of a fit says whether its chains can be trusted. `python -m benchmarks.verdicts` makes short fits of tables, each beside a very
# long run of the same model, and counts where the verdict is wrong.

# %%
import pandas as pd
from scipy import stats

from nrmmix.report.recorded import recorded

found = recorded("verdicts")
fits, truth, told = pd.DataFrame(found["results"]["fits"]), pd.DataFrame(found["results"]["truth"]), found["settings"]
fits["missed"] = (fits["wrong"].str.len() > 0) & ~fits["alarm"]
fits["false"] = fits["alarm"] & (fits["wrong"].str.len() == 0) & (fits["short"].str.len() == 0)
long = truth.groupby("table").agg(rhat=("rhat", "max"), ess=("ess", "min"), tail=("ess_tail", "min"))


def share(count, of):
    """A share with its interval of 95%, of Clopper and Pearson."""
    interval = stats.binomtest(int(count), int(of)).proportion_ci()
    return f"{count} of {of}, {100 * count / of:.0f}% ({100 * interval.low:.0f} to {100 * interval.high:.0f}%)"


names = list(dict.fromkeys(fits["table"]))
rest = int(fits["wrong"].str.len().gt(0).sum())

# %% [prose]
# A fit is *wrong* where the posterior mean of something that it reports (the number of clusters, hyperparameters, the log joint density, the
# density at rows, curves) is more than {told["off"]} posterior standard deviations from that of the long run, {told["sure"]:.0f} standard errors of the long run
# added. It is *short* where by the long run's autocorrelation so many draws are worth fewer than 100 of something. An alarm says not to trust
# something, or that chains differ. It is missed where a fit is wrong and nothing is said, and false where a fit is neither wrong nor short.
#
# Fits have 4 chains of {told["draws"]:,} draws, long runs of {told["long"]:,}. There are {len(fits)} fits of {len(names)} kinds of tables, simulated and real, mixtures and
# density regressions: {", ".join(names)}.
# The fits are of commits {", ".join(fits["commit"].unique())}.
#
# - Missed alarms: {share(fits["missed"].sum(), len(fits))}.
# - False alarms: {share(fits["false"].sum(), len(fits))}.
# - Alarms in all: {int(fits["alarm"].sum())}; wrong fits: {rest}; fits that were wrong or short: {int(((fits["wrong"].str.len() > 0) | (fits["short"].str.len() > 0)).sum())}.

# %%
counts = fits.groupby("table", sort=False).agg(
    fits=("seed", "size"), alarms=("alarm", "sum"), missed=("missed", "sum"), false=("false", "sum"), farthest=("farthest", "max"),
    worth=("worth", "first"),
)
counts["R-hat of the long run"] = long["rhat"]
counts["worth of the long run"] = long[["ess", "tail"]].min(axis=1)
counts.round({"farthest": 2, "worth": 0, "R-hat of the long run": 3, "worth of the long run": 0})

# %% [markdown]
# Farthest: the largest distance of a mean from that of the long run, in posterior standard deviations. Worth: effective draws of the quantity
# that mixes worst, of a fit as the long run tells it, and of the long run.
#
# False alarms are of fits that are worth little more than the 100 effective draws from which on nothing is said: from draws that few the
# effective sample size is itself uncertain. `draws="auto"`, the default, goes on to 400 and meets
# this seldom. With fixed draws an alarm says at worst to run longer.
