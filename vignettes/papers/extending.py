"""Families, priors, moves, kernels and pictures of one's own.  `make vignettes` runs this script and writes docs/papers/extending.md."""

# %% [markdown]
# # Extending nrmmix
#
# A prior of partitions, a move of a chain, a covariate kernel, a component family and a picture can each be plugged in from outside the
# package, as a class or a function of a few lines. Everything around it (formulas, the other samplers, predictions, diagnostics, reports)
# then works with it. All names that this needs are in `nrmmix.extending`.
#
# What runs in inner loops is compiled: an *entry point* is a function of plain loops over arrays, under `@entry(...)` with its type,
# that gives back a status. What runs once is Python.
#
# Every sampler of the package is compared with enumeration, and so should be what is plugged in: six points have 203 partitions, whose
# posterior probabilities can be written down. This page does that for each of its own.
#
# ## All partitions of six points

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import gammaln, logsumexp

import nrmmix as nm
from nrmmix import extending

Y = np.array([-0.6, 0.5, 0.7, -1.2, 1.4, 0.1])
family = nm.Gaussian(m=[0.0], r=0.4, nu=3.0, scale=[[0.6]])
n_draws = 10_000


def partitions(n):
    """Labels of all partitions of n points, clusters numbered by their first point."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*labels, c] for labels in found for c in range(max(labels) + 2)]
    return found


def exact(model):
    """Posterior probabilities of the partitions, from the log joint density of each."""
    log_p = np.array([model.log_joint(labels) for labels in partitions(model.n_obs)])
    return np.exp(log_p - logsumexp(log_p))


def total_variation(model, method):
    """Between the exact posterior and the draws; and what as many independent draws would have, on average."""
    p = exact(model)
    fit = model.fit(method, draws=n_draws, tune=100, chains=8, rng=1)
    number = {tuple(labels): k for k, labels in enumerate(partitions(model.n_obs))}
    first = fit.draws["labels"].reshape(-1, model.n_obs)
    seen = np.zeros(len(p))
    for labels in first:
        _, place, own = np.unique(labels, return_index=True, return_inverse=True)
        seen[number[tuple(np.argsort(np.argsort(place))[own])]] += 1
    return 0.5 * np.abs(seen / seen.sum() - p).sum(), 0.5 * np.sqrt(2 / np.pi * p * (1 - p) / len(first)).sum()


model = nm.Model(data=Y[:, None], family=family, prior=nm.DirichletProcess(1.0))
gibbs = total_variation(model, "gibbs")

# %% [prose]
# The package's Gibbs sampler is {gibbs[0]:.4f} from the exact posterior in total variation; {8 * n_draws:,} independent draws would be
# {gibbs[1]:.4f} away on average. (Draws of a chain are not independent, so somewhat more is to be expected.)
#
# ## A move
#
# A move changes the state of a chain so that the posterior stays as it is. This one is a Gibbs sweep through the rows backwards;
# `gibbs_one` draws the cluster of one row given all others, `NEED_ROOM` asks for more columns, and `Count.CURSOR` is where the sweep goes on.

# %%
from nrmmix.extending import DONE, MOVE_T, NEED_ROOM, Count, entry, gibbs_one, redraw_cells


@entry(MOVE_T)
def sweep_backwards(data, state, memory, rng):
    n = state.labels.shape[0]
    for t in range(state.num[Count.CURSOR], n):
        if state.num[Count.CLUSTERS] > state.size.shape[0] - 3:
            state.num[Count.CURSOR] = t
            return NEED_ROOM
        status = gibbs_one(data, state, n - 1 - t, rng)
        if status != DONE:
            return status
        redraw_cells(data, state, n - 1 - t, rng)  # missing cells that are part of the state
    state.num[Count.CURSOR] = 0
    return DONE


class Backwards(extending.Move):
    name = "backwards"
    entry = sweep_backwards


backwards = total_variation(model, [Backwards()])

# %% [markdown]
# Is such a test worth anything? Here is a sweep with a mistake that is easy to make. It skips rows that are alone in their cluster, which
# looks harmless, as every row that *is* drawn is drawn from its full conditional. But whether a row is drawn now depends on where it is,
# and clusters of one row are entered more often than left.

# %%
@entry(MOVE_T)
def sweep_without_single_rows(data, state, memory, rng):
    for i in range(state.labels.shape[0]):
        if state.num[Count.CLUSTERS] > state.size.shape[0] - 3:
            return NEED_ROOM
        if state.size[state.labels[i]] > 1:
            status = gibbs_one(data, state, i, rng)
            if status != DONE:
                return status
    return DONE


class Wrong(extending.Move):
    name = "wrong"
    entry = sweep_without_single_rows


wrong = total_variation(model, [Wrong(), nm.SplitMerge()])
pd.DataFrame({"total variation": [gibbs[0], backwards[0], wrong[0]]}, index=["gibbs", "backwards", "with the mistake"])

# %% [prose]
# The right one is {backwards[0]:.4f} away, the wrong one {wrong[0]:.3f}, although it runs together with a split-merge move that is
# right. Enumeration is the test.
#
# ## A prior of partitions
#
# A prior is a class derived from `nm.GibbsType` with a fixed sigma and a table of log V_n(k). The mixture of finite mixtures (Miller
# and Harrison 2018) has k - 1 components from a Poisson distribution and Dirichlet weights:

# %%
class Mixtures(nm.GibbsType):
    title = "mixture of finite mixtures"

    def __init__(self, gamma, rate=1.0):
        super().__init__(sigma=-gamma)
        self.gamma, self.rate = gamma, rate

    def log_v(self, n):
        k = np.arange(1, 200.0)
        table = [0.0]
        for t in range(1, n + 1):
            own = k[k >= t]
            terms = gammaln(own + 1) - gammaln(own - t + 1) + gammaln(self.gamma * own) - gammaln(self.gamma * own + n)
            table.append(logsumexp(terms + stats.poisson.logpmf(own - 1, self.rate)) + t * np.log(self.gamma))
        return np.array(table)


def log_prior(sizes, gamma=0.7, rate=1.0):
    """Of a partition with clusters of these sizes: over the number of components, and the ways to name the clusters."""
    sizes, t = np.asarray(sizes), len(sizes)
    return logsumexp([
        stats.poisson.logpmf(k - 1, rate) + gammaln(k + 1) - gammaln(k - t + 1)
        + gammaln(k * gamma) - gammaln(k * gamma + sizes.sum()) + (gammaln(sizes + gamma) - gammaln(gamma)).sum()
        for k in range(t, 60)
    ])


finite = nm.Model(data=Y[:, None], family=family, prior=Mixtures(0.7))
# Under the Dirichlet process the log joint density has the same marginals of the components; what differs is the prior.
differences = [
    finite.log_joint(labels) - model.log_joint(labels) - log_prior(np.bincount(labels))
    + (gammaln(np.bincount(labels)).sum() - gammaln(7.0))  # log prior of the Dirichlet process of mass 1
    for labels in partitions(6)
]
mixtures = total_variation(finite, "gibbs")
finite

# %% [prose]
# Over all 203 partitions the log joint density is that of the formula to {np.abs(differences).max():.0e}, and the draws are
# {mixtures[0]:.4f} from the exact posterior. A fit of real data has all that other fits have:

# %%
fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), prior=Mixtures(1.0, rate=4.0), rng=1)
print(fit.summary().as_text())

# %% [markdown]
# With a method `draw_weights` besides, which draws the weights of clusters given their sizes, such a prior has bands and replicates
# too; the docstring of `nm.GibbsType` says how.
#
# ## A covariate kernel
#
# In density regression the kernel says how the weight of an atom falls off with the distance from its place. Its entry point fills log
# K from distances; widths, places, products with other kernels and sampling of the width are the package's.

# %%
@entry(extending.COVARIATE_T)
def heavy(distance, width, log_K):
    for g in range(log_K.shape[0]):
        for p in range(log_K.shape[1]):
            total = 0.0
            for j in range(distance.shape[0]):
                total += (distance[j, g, p] / width[j]) ** 2
            log_K[g, p] = -np.log(1.0 + total)
    return DONE


class Cauchy(extending.CovariateKernel):
    entry = heavy
    formula = "K(x, mu) = 1 / (1 + d^2 / width^2)"


mcycle = nm.datasets.load_mcycle()
kernels = {"squared exponential (default)": None, "Cauchy": Cauchy(nm.PerAtom((0.01, 0.02, 0.04, 0.08)))}
curves = {
    name: nm.fit("accel_g ~ times_ms", mcycle, rng=1, **({} if kernel is None else {"kernel": kernel}))
    for name, kernel in kernels.items()
}
x = {"times_ms": np.linspace(3, 57, 80)}
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.plot(mcycle["times_ms"], mcycle["accel_g"], ".", color="0.6")
for (name, found), color in zip(curves.items(), ("#0072B2", "#D55E00"), strict=True):
    table = found.predict(x)
    ax.plot(x["times_ms"], table["estimate"], color=color, label=name)
    ax.fill_between(x["times_ms"], table["lower"], table["upper"], color=color, alpha=0.15, lw=0)
ax.set(xlabel="times_ms", ylabel="accel_g, mean with 90% band")
ax.legend(frameon=False)
fig

# %%
scores = {name: found.loo() for name, found in curves.items()}
best = max(scores, key=lambda name: scores[name].elpd)
pd.DataFrame({name: {"elpd": score.elpd, "error": score.se} for name, score in scores.items()}).T.round(1)

# %% [prose]
# By leave-one-out the better one is: {best}.

# %% [markdown]
# ## A component family
#
# A family needs the most code, as it works on sufficient statistics within every sampler. Its entry points say how a row enters and leaves
# a cluster, the log predictive density of a row in all clusters, the marginal, and how parameters are drawn; its methods in Python give
# hyperparameters, names and distributions. The file `tests/support/exponential_family.py` of the source is one for waiting times, and
# `tests/test_outside_family.py` holds it against enumeration; `CONTRIBUTING.md` goes through its parts. It is then used like the package's
# own, alone or as one column of several: `family={"wait": Exponential(), "z": nm.Gaussian()}`.
#
# ## A picture
#
# A function under `@kind` with a reason to refuse models that it does not suit, and a line that says what it shows. `fit.plot` finds it
# by its name, and `nrmmix.plots.available` lists it.

# %%
@extending.kind(lambda model: "needs a mixture" if model.is_regression else None, "sizes of the clusters, draw by draw")
def sizes(fit, ax=None, *, largest=8):
    """Shares of the largest clusters over the draws of the first chain."""
    labels = fit.draws["labels"][0]
    counts = np.array([np.sort(np.bincount(one, minlength=largest))[::-1][:largest] for one in labels])
    ax.stackplot(np.arange(len(labels)), (counts / labels.shape[1]).T, colors=plt.cm.viridis(np.linspace(0.1, 0.9, largest)))
    ax.set(xlabel="draw", ylabel="share of the rows", ylim=(0, 1), xlim=(0, len(labels) - 1))
    return ax


fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
fit.plot("sizes", ax, largest=6)
fig

# %% [markdown]
# ## Files
#
# A saved fit names the classes of its model. Those of one's own have to be registered, before they are saved and where they are read:
#
# ```python
# nm.register(Mixtures)
# fit.save("galaxy.npz")
# ```
#
# Its arguments must then be attributes of the same names, by which it is made again.
