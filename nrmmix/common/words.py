"""Words of other packages for arguments, their values, and attributes of results: what is meant by them here.

Those of formulas are in `nrmmix.model.frame.foreign`.  `messages` reads these tables.
"""

from __future__ import annotations

from typing import TypeVar

M = TypeVar("M")
# Arguments that may be meant, of which the first that there is counts, and what to know; "" for what there is instead.
Meaning = tuple[tuple[str, str], ...]


def _by_word(table: dict[str, M]) -> dict[str, M]:
    """A table whose keys are several words of one meaning, by each of them."""
    return {word: meaning for words, meaning in table.items() for word in words.split()}


_MASS = "the total mass is that of the prior: nm.DirichletProcess(mass)"
_COUNT_OF_CLUSTERS = "the number of components: nm.FiniteMixture(components); of other priors it is inferred"
_WEIGHTS = ("", "how often a row counts is said where rows are: nm.fit(..., weights=), of an estimator .fit(X, sample_weight=)")
_CENSORED = "of censored responses the formula is Surv(time, event) ~ x"
_EXPOSURE = 'of counts nm.Poisson(exposure="column"), the exposure and not its logarithm'

ARGUMENTS: dict[str, Meaning] = _by_word({
    # ---- runs
    "rng": (("random_state", "an int or Generator"), ("seed", "a whole number")),
    "seed random_state random_seed rng_key generator rng_seed set_seed": (
        ("rng", "an int, SeedSequence or Generator"), ("random_state", "an int or Generator"), ("seed", "a whole number"),
    ),
    "burnin burn_in burn nburn n_burn warmup warm_up n_warmup num_warmup iter_warmup adapt n_tune tuning": (
        ("tune", "iterations before the first draw"),
    ),
    "n_iter niter iter n_iterations iterations max_iter sweeps iters num_iters n_epochs epochs": (
        ("draws", "draws kept in each chain: a chain runs tune + draws * thin iterations"), ("passes", "passes over the rows"),
    ),
    "n_samples num_samples nsamples samples ndraws n_draws num_draws nsim n_sims iter_sampling n_imputations size n_sim mc mcmc "
    "n_samples_posterior": (("draws", "the number of draws"),),
    "n_chains nchain nchains num_chains": (("chains", "their number"),),
    "n_thin nthin thinning": (("thin", "iterations for each draw"),),
    "n_jobs n_cores threads num_threads workers n_threads ncores parallel backend": (("cores", "the number of threads, or a Dask client"),),
    "verbose progressbar progress_bar show_progress disp refresh verbosity silent quiet": (("progress", "True or False"),),
    "timeout max_time time timelimit max_seconds": (("time_limit", "in seconds"),),
    "initial inits start initvals init_values init_params initialization initial_labels means_init labels cluster z": (
        ("init", "a name, or labels of the rows"),
    ),
    "n_init nrep nstart n_starts repetitions": (("chains", "starts are those of the chains"), ("starts", "their number")),
    "sampler algorithm algo engine step inference inference_method moves kernel_type": (
        ("method", "a name of Model.methods(), or a move"),
    ),
    "target_accept adapt_delta max_treedepth control nuts nuts_sampler step_size nuts_kwargs": (
        ("method", "no gradients are used, so that there are no steps to adapt; methods are those of Model.methods()"),
    ),
    "tol rtol ftol tolerance eps": (
        ("draws", '"auto" goes on until chains agree; the tolerance of variational inference is one of nm.VB(tol=...)'),
    ),
    "file path filename save save_to": (("checkpoint", "a .npz file, written as chains run; fit.save(path) saves a fit that is there"),),
    "warm_start resume": (("", "fit.extend(draws) goes on with a fit, nm.resume(path) with a checkpoint"),),
    "sample_prior prior_only prior_samples": (("", "Model.prior_predictive() draws from the prior"),),
    "criterion IC modelNames models penalty ic": (
        ("", "the number of clusters is part of the posterior, so that no criterion chooses it; nm.compare(a, b) compares fits"),
    ),
    "cv folds n_splits validation_fraction": (
        ("", "fit without each fold and take fit.log_density(fold); nm.compare(a, b) leaves out one row at a time"),
    ),
    # ---- predictions
    "level conf_level conf_int ci hdi_prob ci_prob prob credible coverage alpha_level ci_level": (
        ("interval", "the probability of the band, such as 0.9"),
    ),
    "quantile quantiles probs p percentiles": (("q", "probabilities of quantiles"),),
    "new_data X_new new X_test test": (("newdata", "a DataFrame of rows"), ("data", "a DataFrame")),
    "data": (("newdata", "a DataFrame of rows"),),
    "newdata": (("data", "a DataFrame"),),
    "grid points x_grid y_grid values": (("at", "points of the responses"), ("newdata", "a DataFrame of rows")),
    "se se_fit return_std return_cov std_error": (
        ("interval", "the probability of the band, which every prediction has"), ("", "bands are those of result_.predict()"),
    ),
    "type what output": (("kind", 'what is wanted, such as "mean"'),),
    "conditional_on condition evidence conditioning": (("given", "names of responses that the rows hold"),),
    "responses target outcome y Y resp": (
        ("response", "names of responses"), ("formula", '"y ~ x"'), ("data", 'a table, with a formula "y ~ x"'),
    ),
    "scale_type transform inverse backtransform": (("units", '"response" or as modelled'),),
    # ---- data
    "df dataset X frame table x": (("data", "a DataFrame"), ("newdata", "a DataFrame")),
    "subset": (("data", 'the rows that are wanted, data[data["x"] > 0]'), ("newdata", "the rows that are wanted")),
    "weight wts sample_weight sample_weights case_weights freq fweights frequencies counts": (
        ("weights", "how often a row counts: a column or an array"), ("sample_weight", "how often a row counts"), _WEIGHTS,
    ),
    "weights": (("sample_weight", "how often a row counts"), _WEIGHTS),
    "offset exposure offsets": (("exposure", "a column"), ("family", _EXPOSURE), ("", _EXPOSURE)),
    "censored cens censoring event status truncated lower_bound upper_bound": (("formula", _CENSORED), ("", _CENSORED)),
    "groups group id cluster_id random random_effects": (
        ("formula", "a group is a covariate of the formula; random effects are not available"),
    ),
    "na_action missing_values dropna na_rm na": (("missing", '"drop", "raise" or "marginalize"'),),
    "standardize standardise normalize scale_data whiten center preprocess noise scaling": (
        ("", "nothing is to be standardized: default priors follow the scale of the data"),
    ),
    "model equation fml": (("formula", '"y ~ x", or "y1 + y2 ~ 1" for a mixture'),),
    # ---- models
    "likelihood distribution dist response_distribution component emission base_measure G0 base noise_model": (
        ("family", "such as nm.Gaussian()"),
    ),
    "link links": (("", "there are no links: transform the response, log(y) ~ x, or give a family such as nm.Poisson()"),),
    "measure process prior_measure priors stick_breaking weight_concentration_prior_type": (("prior", "such as nm.DirichletProcess()"),),
    "n_components n_clusters k K max_components G n_groups nclusters clusters truncation T L ncomp": (
        ("components", _COUNT_OF_CLUSTERS), ("max_clusters", "the most clusters that the estimate may have"), ("prior", _COUNT_OF_CLUSTERS),
    ),
    "alpha concentration concentration_parameter concentration_prior total_mass theta strength weight_concentration_prior alpha0 a0": (
        ("mass", "the total mass of the random measure"), ("concentration", "of the Dirichlet distribution of the levels"),
        ("prior", _MASS), ("interval", "the probability of the band, such as 0.9"),
    ),
    "mass": (("prior", _MASS),),
    "sigma discount d stability": (
        ("sigma", "the discount, or index of stability"), ("prior", "the prior: nm.DirichletProcess(mass), nm.PitmanYor(mass, sigma), ..."),
    ),
    "covariance covariance_type cov cov_type covariance_structure model_name modelName": (
        ("covariance", '"full", "diagonal", "spherical" or "tied"'),
        ("family", '"full", "diagonal", "spherical" or "tied" covariances: nm.Gaussian("diagonal")'),
    ),
    "reg_covar covariance_prior mean_prior mean_precision_prior degrees_of_freedom_prior hyper hyperprior hyperparameters hyperpriors "
    "prior_params prior_parameters": (("family", "whose arguments are its prior: nm.Gaussian(m=, r=, nu=, scale=)"),),
    "lengthscale length_scale bandwidth ls scale width bw": (
        ("width", "for covariates in [0, 1]"), ("kernel", "such as nm.SquaredExponential(width)"),
    ),
})

# Values of arguments that take one of a few names, by what they name, in small letters: what to give.
VALUES: dict[str, dict[str, str]] = {
    "kind": _by_word({
        "log_density logpdf": ".log_density(new) has logarithms of densities",
        "samples sample draws simulate": ".simulate() draws new values",
        "pdf dens": 'kind="density" has densities',
        "prob proba probability probabilities posterior responsibilities": 'kind="membership" has the probabilities of clusters',
        "class label labels": 'kind="cluster" has the most probable cluster of each row',
        "response expectation expected epred link fitted": 'kind="mean" has means of the responses',
        "median": 'kind="quantile", q=0.5 has medians',
        "predictive prediction interval": 'kind="quantile", q=[0.05, 0.95] has limits of new values, .simulate() draws them',
        "variance var sd std": 'of spread kind="quantile" tells, or .simulate(), whose draws have any moment',
    }),
    "method": _by_word({
        "mcmc nuts hmc sampling sample mh metropolis": 'leave method out for the chains that suit the model, or give "gibbs"',
        "em vi advi variational vbem vbgm meanfield": 'variational inference is "vb", of many rows "memoized_vb"',
        "map mle optimize": 'a search for one partition is "bhc" or "ibhc", and fit.partition() an estimate from chains',
    }),
    "family": _by_word({
        "normal norm": 'give "gaussian"',
        "student t studentt student_t laplace cauchy gamma beta lognormal weibull exponential skew_normal":
            'mixtures of Gaussians take on any shape: give "gaussian", of positive responses with log(y) on the left',
        "negbinomial negative_binomial negbin nb zero_inflated_poisson zip":
            'mixtures of Poissons spread as widely as the counts do: give "poisson"',
        "binomial": 'give "bernoulli" for 0 and 1, or the counts of all outcomes and "multinomial"',
        "bernouilli binary logistic": 'give "bernoulli"',
    }),
    "kernel": _by_word({"rbf gaussian exp_quad expquad squared_exponential sqexp": 'give "se"'}),
    "prior": _by_word({
        "dirichlet dirichlet_process crp": 'give "dp"',
        "pitman-yor pitman_yor pitmanyor": 'give "py"',
    }),
}

# Attributes that results of chains alone have: what others have in their place, and how to get them.
OF_CHAINS: dict[str, str] = _by_word({
    "draws scalars": 'chains have draws, method="gibbs"; .simulate() draws rows from every fit',
    "extend": 'chains go on, method="gibbs"; other methods end by themselves, or where an option such as passes says',
    "loo": 'chains leave rows out, method="gibbs"; .log_density(new) compares fits by rows that they have not seen',
    "diagnostics curve_diagnostics proposals autocorrelation evidence":
        'chains have them, method="gibbs"; .summary() says how the fit ended',
    "tidy": 'chains have it, method="gibbs"; .summary() is the table of the fit',
    "glance": 'chains and variational fits have it, method="gibbs" or "vb"; .summary() is the table of the fit',
    "importance": 'density regressions by chains have it, method="gibbs", or by variational inference, method="vb"',
    "to_arviz to_datatree": 'chains have draws for ArviZ, method="gibbs"; .simulate() draws rows from every fit',
})

# Attributes that users of R, scikit-learn, brms, bambi and PyMC try on results: what there is here, after "fit.".
ATTRIBUTES: dict[str, str] = _by_word({
    "predict_proba z classification labels labels_ cluster membership_ posterior_probabilities uncertainty responsibilities "
    "assignments fit_predict allocations clustering":
        "clusters() has the cluster of each row, .membership(new) probabilities, .partition() the estimate with its credible ball",
    "means_ covariances_ weights_ precisions_ params params_ parameters_ coef coef_ coefs coefficients fixef ranef means covariances "
    "sigma pro bse intercept_ components components_ cluster_parameters weights": "parameters() is a table of them by cluster",
    "bic BIC aic AIC icl ICL dic DIC waic WAIC loo_compare kfold logLik loglik llf deviance log_likelihood lower_bound_ score "
    "score_samples marginal_likelihood bayes_factor log_evidence compare elpd":
        "nm.compare(a, b) compares fits by leaving rows out, .log_density(new) by rows that they have not seen",
    "posterior_predict posterior_epred posterior_predictive pp_check sample_posterior_predictive sample replicate rvs "
    "posterior_linpred predictive plot_ppc posterior_samples": 'simulate() draws rows, and .plot("ppc") shows them beside the data',
    "conditional_effects marginal_effects hypothesis comparisons slopes margins emmeans avg_comparisons partial_dependence "
    "plot_effects effects marginaleffects t_test wald_test":
        'plot("effects") shows effects, and .contrasts({"x": [0, 1]}) differences with their bands',
    "rhat ess neff_ratio neff converged converged_ check_diagnostics gelman geweke rhats":
        "diagnostics() has R-hat and effective sample sizes, .summary() a verdict",
    "trace idata chains samples as_draws_df as_draws to_dataframe get_samples stan_variables to_inference_data to_idata mcmc extract "
    "as_matrix": "draws has them by name, and .to_arviz() all for ArviZ",
    "resid residuals fitted fittedvalues fitted_values": "augment() has them beside the data",
    "traceplot plot_trace mcmc_plot plot_posterior plot_density": 'plot("trace") shows chains, .plot() the fit',
    "n_components_ n_clusters_ G K k n_clusters n_components":
        'draws["n_clusters"] has their number in each draw, .partition().n_clusters that of the estimate',
    "update refit partial_fit resume continue_sampling": "extend(draws) goes on, nm.resume(path) from a checkpoint",
    "dump to_pickle save_model to_netcdf write to_file": "save(path) saves it, nm.load(path) reads it again",
    "feature_importances_ variable_importance varimp vip inclusion_probabilities": "importance() says what each covariate matters",
    "predict_quantile predict_quantiles quantile quantiles predict_interval":
        'predict(new, "quantile", q=[0.05, 0.95]) has quantiles with their bands',
    "predict_survival predict_survival_function survival_function cumulative_hazard":
        'predict(new, "exceedance") has probabilities of larger values',
    "pdf cdf density predict_density predict_dist pred_dist logpdf":
        'predict(new, "density") and "cdf" have them with bands, .log_density(new) their logarithms',
    "rsquared r2 bayes_R2 r_squared pvalues tvalues conf_int anova":
        "summary() is the table of the fit, and .contrasts(...) has differences with their bands",
    "psm coclustering co_clustering similarity_matrix": "similarity() has the chances that rows are together",
    "transition viterbi decode": "partition() has the clusters; there are no hidden Markov models here",
})
