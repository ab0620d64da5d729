"""The front door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nrmmix.common.interrupts import held

if TYPE_CHECKING:
    from nrmmix.results.mcmc import MCMCResult
    from nrmmix.results.search import SearchResult


def fit(
    formula: str | None = None,
    data: Any = None,
    *,
    family: Any = None,
    prior: Any = None,
    kernel: Any = None,
    missing: str = "drop",
    method: Any = "auto",
    **run: Any,
) -> MCMCResult | SearchResult:
    """Fit a mixture (`responses ~ 1`) or a density regression (`responses ~ covariates`).

    The same as `nm.Model(formula, data, ...).fit(method, ...)`; see there for every argument.

    Parameters
    ----------
    formula, data, family, prior, kernel, missing
        See `nrmmix.Model`.
    method, **run
        See `nrmmix.Model.fit`: draws, tune, thin, chains, init, rng, cores, progress, time_limit.

    Returns
    -------
    MCMCResult
        Of a search, such as `method="ibhc"`, a SearchResult.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and says what would work.

    Examples
    --------
    >>> import nrmmix as nm
    >>> result = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=20, tune=20, chains=2, rng=1)
    >>> result.draws["v"].shape
    (2, 20, 94)
    """
    with held():
        from nrmmix.model.specification import Model

    return Model(formula, data, family=family, prior=prior, kernel=kernel, missing=missing).fit(method, **run)
