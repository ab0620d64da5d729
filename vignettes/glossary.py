"""Glossary.  `make docs` runs this script and writes docs/glossary.md."""

# %% [markdown]
# # Glossary
#
# **What does a word on these pages mean?** Symbols and formulas are in [Mathematics](site/pages/mathematics.md).
#
# ## Models
#
# | word | meaning |
# |---|---|
# | mixture | a density that is a weighted sum of components; `y ~ 1` |
# | component family | the kind of distribution that a component is: Gaussian, Poisson, ... ([Component families](families.md)) |
# | density regression | a mixture whose weights depend on covariates, so that the whole distribution of the response changes; `y ~ x` |
# | random measure | the prior of weights and components together; divided by its total it is a random distribution |
# | Dirichlet process | the most usual such prior; its number of clusters grows as the logarithm of the number of rows |
# | NGGP | normalized generalized gamma process, a family of priors of which the Dirichlet process is one |
# | Pitman-Yor process | a prior with a power law of cluster sizes |
# | mass | a parameter of the random measure: the larger it is, the more clusters are expected ([Choosing a prior](priors.md)) |
# | sigma | stability index, between 0 and 1: the larger, the more small clusters |
# | atom | a component with its weight, and in density regression its location and width among the covariates |
# | base measure | the prior of the parameters of one component |
# | covariate kernel | how the weight of an atom falls with the distance from its location ([Choosing a kernel](kernels.md)) |
# | width | the distance over which it falls, in units of the range of the covariate |
# | slot | the kernel of an atom with several covariates: which of them it uses, with a place and a width in each ([Several covariates](papers/several_covariates.md)) |
# | censored | known by limits alone, as the lifetime of one who still lives ([Survival](survival.md)) |
#
# ## Results
#
# | word | meaning |
# |---|---|
# | partition | a division of the rows into clusters |
# | cluster | rows that share an atom |
# | point estimate of the partition | the one of least expected distance (variation of information) from the draws; `fit.partition()` |
# | stability | posterior probability that two members of a cluster share one |
# | purity | of the rows that share a cluster with a member, the posterior mean share that are members; of a draw in which a member is alone 0, or 1 where it is the only one |
# | draw | one sample of everything from the posterior |
# | credible band | an interval that has a stated posterior probability; 90% unless asked otherwise |
# | posterior predictive | the distribution of a new row, averaged over the draws |
# | replicate | a data set simulated from one draw, at the covariates of the rows |
# | contrast | a difference of predictions, taken draw by draw |
# | exceedance | the probability that a response is larger than a value |
# | elpd | expected log predictive density: the sum over rows of log densities given the others; larger is better |
# | Pareto k | a diagnostic of leave-one-out: where it is above 0.7, the density of a left-out row cannot be computed reliably from the draws |
# | verdict | what the summary says of the chains: agree, nearly agree, do not trust ([Troubleshooting](troubleshooting.md)) |
# | nat | the unit of log densities, by natural logarithms |
#
# ## Computation
#
# | word | meaning |
# |---|---|
# | chain | a sequence of states, each drawn given the one before |
# | tune | iterations before the first draw that is kept |
# | thin | iterations for each draw that is kept |
# | move | a way to change the state: Gibbs, split-merge, ... ([Samplers](samplers.md)) |
# | sweep | one round of a move through all rows |
# | R-hat | compares chains with each other; 1 where they agree, at most 1.01 for the verdict "agree" |
# | effective sample size (ESS) | how many independent draws would be as good; bulk for means, tail for quantiles |
# | MCSE | Monte Carlo standard error: the part of the error that longer chains would remove |
# | ELBO | a lower bound of the log evidence, which variational inference raises |
# | births and merges | components that variational inference adds and joins |
# | stacking | weights of several variational fits, by how well they predict rows that are left out ([Variational inference](variational.md)) |
# | Bayesian hierarchical clustering | a search that joins clusters from the bottom up ([Trees](trees.md)) |
# | exactness | agreement of a sampler with the enumeration of all partitions of a few rows ([Exactness](exactness.md)) |
# | calibration | agreement of stated and actual probabilities over data sets drawn from the prior ([Calibration](calibration.md)) |
