"""What to report of a fit, and how to cite.  `make docs` runs this script and writes docs/reporting.md."""

# %% [markdown]
# # Reporting and citing
#
# **What must a paper say so that others can judge and repeat the analysis?** Model, priors, run, verdict, results with intervals, versions.
# Each is one call. The fit of this page:

# %%
import nrmmix as nm

fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), draws=1000, thin=20, rng=1)

# %% [markdown]
# ## Model and priors
#
# The printed model has all defaults by their numbers:

# %%
fit.model

# %% [markdown]
# ## The run, and whether chains agree

# %%
fit.glance().T

# %%
fit.diagnostics().round(3)

# %% [markdown]
# ## Results
#
# Say of each number what it is: "the posterior mean and a 90% credible interval of ...". Bands of predictions are 90% unless you ask for others.

# %%
share = (fit.draws["n_clusters"] == 2).mean()
median = fit.predict(kind="quantile", q=0.5, response="waiting_min", rng=1)
print(f"P(two clusters | data) = {share:.2f}")
median.round(1)

# %% [markdown]
# `fit.report("faithful.html")` writes all of it with pictures and the code into one file, `fit.save("faithful.npz")` the fit itself.
#
# ## A paragraph to adapt
#
# > We fitted a Dirichlet process mixture of bivariate Gaussians with nrmmix 0.1.0, priors as printed by the model. Four chains of
# > 20,000 iterations after 1,000 of tuning were thinned to 1,000 draws each, seed 1; the largest R-hat and the smallest effective sample
# > size are in Table 1. Intervals are 90% credible intervals. Results were compared over other priors of the mass and the scale.
#
# Say also how the partition was chosen, if one is shown (least expected variation of information), and which checks of the
# model were made ([Checking a model](checking.md), [Sensitivity to priors](sensitivity.md)).
#
# ## Versions

# %%
import numba
import numpy

print("nrmmix", nm.__version__, "| numba", numba.__version__, "| numpy", numpy.__version__)

# %% [markdown]
# ## Citing
#
# `CITATION.cff` in the repository has the software and the four papers whose experiments are repeated here. Cite the software with its
# version, and the paper of the method that you ran, which `fit.method` names; for a density regression also that of the model.
#
# | method | paper |
# |---|---|
# | `gibbs` | Neal (2000), Markov chain sampling methods for Dirichlet process mixture models, JCGS 9; for other random measures Favaro & Teh (2013), MCMC for normalized random measure mixture models, Statistical Science 28 |
# | `split_merge` | Jain & Neal (2004), A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model, JCGS 13; sequential proposals, which density regressions use, Dahl (2003), An improved merge-split sampler for conjugate Dirichlet process mixture models, Technical report 1086, University of Wisconsin |
# | `bhc`, `ibhc` | Heller & Ghahramani (2005), Bayesian hierarchical clustering, ICML 22 |
# | `tree`, `tree_published`, `ibhc_noisy` starts | Lee & Choi (2015), Tree-guided MCMC inference for normalized random measure mixture models, NIPS 28 |
# | density regression: the model, and `slice`, `blocked` and `sngp` | Foti & Williamson (2012), Slice sampling normalized kernel-weighted completely random measure mixture models, NIPS 25 |
# | `permutation` | Liang, Jordan & Taskar (2007), A permutation-augmented sampler for DP mixture models, ICML 24 |
# | `memoized_vb` | Hughes & Sudderth (2013), Memoized online variational inference for Dirichlet process mixture models, NIPS 26 |
