"""Words that other packages have for arguments: a call that uses one is told the word here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from nrmmix.common.messages import did_you_mean

P, T = ParamSpec("P"), TypeVar("T")

_RNG = "an int, SeedSequence or Generator"
WORDS: dict[str, tuple[tuple[str, ...], str]] = {  # arguments that are meant, the first of them that there is, and what to know of it
    **dict.fromkeys(("seed", "random_state", "random_seed", "rng_key", "generator"), (("rng",), _RNG)),
    **dict.fromkeys(
        ("burnin", "burn_in", "burn", "nburn", "n_burn", "warmup", "warm_up", "n_warmup", "num_warmup", "iter_warmup", "adapt"),
        (("tune",), "iterations before the first draw"),
    ),
    **dict.fromkeys(
        ("n_iter", "niter", "iter", "n_iterations", "iterations", "max_iter", "sweeps"),
        (("draws", "passes"), "draws kept in each chain: a chain runs tune + draws * thin iterations"),
    ),
    **dict.fromkeys(
        (
            "n_samples", "num_samples", "samples", "ndraws", "n_draws", "num_draws", "nsim", "n_sims", "iter_sampling", "n_imputations",
            "size",
        ),
        (("draws",), "the number of draws"),
    ),
    **dict.fromkeys(("n_chains", "nchains", "num_chains"), (("chains",), "their number")),
    **dict.fromkeys(("n_thin", "nthin", "thinning"), (("thin",), "iterations for each draw")),
    **dict.fromkeys(("n_jobs", "n_cores", "threads", "num_threads", "workers", "n_threads"), (("cores",), "the number of threads")),
    **dict.fromkeys(("verbose", "progressbar", "progress_bar", "show_progress", "disp"), (("progress",), "True or False")),
    **dict.fromkeys(("timeout", "max_time", "time", "timelimit"), (("time_limit",), "in seconds")),
    **dict.fromkeys(
        ("level", "conf_level", "conf_int", "ci", "hdi_prob", "ci_prob", "prob", "credible", "coverage"),
        (("interval",), "the probability of the band, such as 0.9"),
    ),
    **dict.fromkeys(("quantile", "quantiles", "probs", "p", "percentiles"), (("q",), "probabilities of quantiles")),
    **dict.fromkeys(("initial", "inits", "start", "initvals", "init_values"), (("init",), "a name, or labels of the rows")),
    **dict.fromkeys(("sampler", "algorithm", "engine", "step"), (("method",), "a name of Model.methods(), or a move")),
    **dict.fromkeys(("df", "dataset", "X", "frame", "table"), (("data", "newdata"), "a DataFrame")),
    **dict.fromkeys(("new_data", "X_new", "new", "X_test", "test"), (("newdata",), "a DataFrame of rows")),
    **dict.fromkeys(("type", "what", "output"), (("kind",), "what is wanted, such as \"mean\"")),
    **dict.fromkeys(("conditional_on", "condition", "evidence", "conditioning"), (("given",), "names of responses that the rows hold")),
    **dict.fromkeys(("likelihood", "distribution", "dist", "component"), (("family",), "such as nm.Gaussian()")),
    **dict.fromkeys(("measure", "process", "prior_measure"), (("prior",), "such as nm.DirichletProcess()")),
    **dict.fromkeys(("na_action", "missing_values", "dropna"), (("missing",), '"drop", "raise" or "marginalize"')),
    **dict.fromkeys(
        ("n_components", "n_clusters", "k", "K", "max_components"),
        (("components", "max_clusters", "prior"), "the number of components: nm.FiniteMixture(components); of other priors it is inferred"),
    ),
    **dict.fromkeys(
        ("alpha", "concentration", "concentration_parameter", "total_mass", "theta"), (("mass",), "the total mass of the random measure")
    ),
    **dict.fromkeys(("discount", "d", "stability"), (("sigma",), "the discount, or index of stability")),
    **dict.fromkeys(("lengthscale", "length_scale", "bandwidth", "ls", "scale"), (("width",), "for covariates in [0, 1]")),
    **dict.fromkeys(("responses", "target", "outcome"), (("response",), "names of responses")),
}


def guided(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: an argument by a wrong name raises a TypeError that names the right one, or the nearest, or all.

    Examples
    --------
    >>> @guided
    ... def fit(data, *, rng=None): ...
    >>> fit([1], seed=3)
    Traceback (most recent call last):
    TypeError: fit() has no argument 'seed'; give rng= (an int, SeedSequence or Generator).
    """
    signature = inspect.signature(function)
    known = tuple(name for name in signature.parameters if name != "self")
    if any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values()):
        raise TypeError(f"{function.__qualname__} takes any keyword; guide what it hands them to.")
    accepted = frozenset(known)

    @wraps(function)
    def checked(*given: P.args, **named: P.kwargs) -> T:
        for name in named:
            if name not in accepted:
                of = type(given[0]) if given and function.__name__ == "__init__" else function
                raise TypeError(f"{of.__name__}() has no argument {name!r}{advice(name, known)}")
        return function(*given, **named)

    return checked


def advice(name: str, known: tuple[str, ...]) -> str:
    """The end of a message about an argument that there is not: the word for it here, the nearest, or all.

    Examples
    --------
    >>> advice("burnin", ("draws", "tune")), advice("drawz", ("draws", "tune")), advice("colour", ("draws", "tune"))
    ('; give tune= (iterations before the first draw).', "; did you mean 'draws'?", '; there are draws, tune.')
    """
    for meant in WORDS.get(name, ((), ""))[0]:
        if meant in known:
            why = WORDS[name][1]
            return f"; give {meant}= ({why})."
    near = did_you_mean(name, known)
    return f"; there are {', '.join(known)}." if near == "." else near
