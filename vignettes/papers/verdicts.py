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
    """A share with its 95% interval of Clopper and Pearson."""
    interval = stats.binomtest(int(count), int(of)).proportion_ci()
    return f"{count} of {of}, {100 * count / of:.0f}% ({100 * interval.low:.0f} to {100 * interval.high:.0f}%)"


names = list(dict.fromkeys(fits["table"]))
wrong, short = fits["wrong"].str.len() > 0, fits["short"].str.len() > 0
sound, only_short = ~wrong & ~short, ~wrong & short
of_false = fits.loc[fits["false"], "worth"]

# %% [prose]
# A fit reports the number of clusters, hyperparameters, the log joint density, the density at rows, and curves. It is *wrong* where the
# posterior mean of one of these differs from that of the long run by more than {told["off"]} posterior standard deviations plus
# {told["sure"]:.0f} standard errors of the long run. It is *short* where, by the autocorrelation in the long run, its draws are worth fewer
# than 100 effective draws of some quantity. An *alarm* is a verdict that some quantity is not to be trusted, or that chains differ. An
# alarm is *missed* where a fit is wrong and there is none, and *false* where a fit is neither wrong nor short.
#
# Fits have 4 chains of {told["draws"]:,} draws, long runs of {told["long"]:,}. There are {len(fits)} fits of {len(names)} tables, simulated
# and real, by mixtures and density regressions; the table below names them, and `TABLES` in `benchmarks/verdicts.py` makes them. The fits
# are of commits {", ".join(fits["commit"].unique())}. Intervals are 95% intervals of Clopper and Pearson, as if fits of one table were
# independent.
#
# - Missed alarms: {fits["missed"].sum()} of {wrong.sum()} wrong fits; among all fits {share(fits["missed"].sum(), len(fits))}.
# - False alarms: {share(fits["false"].sum(), sound.sum())} of the fits that are neither wrong nor short.
# - Short fits that are not wrong: {share((only_short & ~fits["alarm"]).sum(), only_short.sum())} are without an alarm.
# - Alarms in all: {fits["alarm"].sum()}.
#
# With so few wrong fits the counts say how often a reader is misled, and not what share of the wrong fits an alarm finds.

# %%
counts = fits.groupby("table", sort=False).agg(
    fits=("seed", "size"), alarms=("alarm", "sum"), missed=("missed", "sum"), false=("false", "sum"), farthest=("farthest", "max"),
    worth=("worth", "first"),
)
counts["R-hat of the long run"] = long["rhat"]
counts["worth of the long run"] = long[["ess", "tail"]].min(axis=1)
counts.round({"farthest": 2, "worth": 0, "R-hat of the long run": 3, "worth of the long run": 0})

# %% [markdown]
# *farthest* is the largest distance of a mean from that of the long run, in posterior standard deviations. *worth* is the number of effective
# draws of the quantity that mixes worst: of a fit, by the autocorrelation in the long run, and of the long run itself.

# %% [prose]
# The false alarms are of fits worth {of_false.min():.0f} to {of_false.max():.0f} effective draws, where the limit of an alarm is 100: with so few, the estimate
# of the effective sample size is itself uncertain.
# `draws="auto"`, the default, goes on to 400 effective draws and meets this seldom. With fixed draws the remedy after an alarm is to run longer.
