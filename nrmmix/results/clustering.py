"""Clusters of a result: the point estimate, who belongs to which cluster, and what the clusters are like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from nrmmix.common.messages import count, guided, probability
from nrmmix.common.seeds import prediction_seed
from nrmmix.model.families import Parameter
from nrmmix.model.priors.gibbs_type import GibbsType
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Draws, partitions_in_memory
from nrmmix.posterior.partition import Partition

if TYPE_CHECKING:
    from nrmmix.posterior.kernel_factors import AnyPosterior


class Clustered:
    """The clusters of a fit, those of its point estimate throughout."""

    model: Specification
    draws: Draws
    seed: int
    posterior: Any
    predict: Callable[..., Any]
    _partitions: dict[tuple[Any, ...], Partition]
    _insist_on_draws: Callable[..., None]
    _averaged: Callable[[str, int], AnyPosterior]

    @guided
    def clusters(self, newdata: Any = None) -> pd.DataFrame:
        """The cluster of each row, and how sure that is.

        Parameters
        ----------
        newdata : DataFrame, path or other source, optional
            Rows with responses; default those that were fitted.

        Returns
        -------
        DataFrame
            With the index of the rows: cluster, its number in `partition()` (-1 of new data for a cluster that the estimate does not
            have), probability, the posterior probability of that, and uncertainty, 1 - probability, as in mclust.  Probabilities are
            those of `predict(kind="cluster")`, and for each row one of the numbers of `membership`.

        Raises
        ------
        ValueError
            If the new data hold no responses.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), draws=50, tune=50, chains=2, rng=1)
        >>> list(fit.clusters()), len(fit.clusters())
        (['cluster', 'probability', 'uncertainty'], 272)
        """
        found = self.predict(newdata, kind="cluster")
        return found.assign(uncertainty=1.0 - found["probability"])

    @guided
    def membership(self, newdata: Any = None, *, draws: int = 500, out: Any = None) -> Any:
        """Posterior probabilities that rows belong to each of the clusters.

        Parameters
        ----------
        newdata : DataFrame, path or other source, optional
            Rows with responses; default those that were fitted.
        draws : int, default 500
            Number of posterior draws to use, spread over the chains.
        out : path, optional
            File to write to; see `predict`.

        Returns
        -------
        DataFrame
            With the index of the rows a column for each cluster of `partition()`, and last the column -1 for a cluster that the estimate
            does not have.  Rows add up to 1; they are NaN where all responses are missing, or a covariate or an input.

        Raises
        ------
        ValueError
            If the new data hold no responses.

        Notes
        -----
        Draws number their clusters as they like.  A cluster of a draw counts for those of the estimate by the shares of its members that
        lie there, so that no numbering has to be matched.  A new row belongs to the clusters of a draw in proportion to weights times
        predictive densities of its responses, and draws count as much as they make it likely.  A fitted row belongs where its companions
        of each draw are in the estimate; where it has none it is in a cluster of its own.  After variational inference it belongs to the
        components of q, each of which counts for one cluster, and the last column is 0.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method="memoized_vb", rng=1)
        >>> fit.membership({"eruptions_min": [2.0, 4.5], "waiting_min": [50, 80]}).round().astype(int).to_numpy().tolist()
        [[0, 1, 0], [1, 0, 0]]
        """
        return self.predict(newdata, kind="membership", draws=draws, out=out)

    @guided
    def parameters(self, *, interval: float = 0.9, draws: int = 500, rng: Any = None) -> pd.DataFrame:
        """Describe the components of the clusters: posterior means, standard deviations and intervals of their parameters.

        Parameters
        ----------
        interval : float, default 0.9
            Probability of the interval from `lower` to `upper`.
        draws : int, default 500
            Draws of the random measure behind the weights.
        rng : int, SeedSequence, Generator or None
            Seed of these; None follows from the fit's seed.

        Returns
        -------
        DataFrame
            Columns mean, sd, lower, upper, in the units of the responses of the formula; index cluster, numbered as in `partition()`, and
            parameter, so that `fit.parameters()["mean"].unstack()` has a row for each cluster.  Parameters are `size`, the number of rows,
            or the sum of their weights; of mixtures `weight`; and those of the families: `mean y`, `sd y` and `corr y1, y2` (of up to 30
            responses) of Gaussian components, `rate y` of Poisson, `probability y` of Bernoulli, `probability y[level]` of Categorical,
            `share y` of Multinomial, `coef x` (of several responses `coef x of y`) of Regression; of Hurdle the probability of the point,
            and the parameters apart from it.

        Raises
        ------
        ValueError
            If an argument cannot be used.

        Notes
        -----
        Parameters have their posterior given the estimated partition, in closed form: without the uncertainty about who belongs to a
        cluster, as in the summary.  Moments that do not exist, and limits of families that do not say them, are NaN; parameters that all
        clusters share are held at the medians of their draws.  Where missing or censored cells are drawn, laws are mixtures over 25
        draws of these.  Weights are those in the random measure, of each draw's clusters by the
        shares of their members that lie in those of the estimate: what is missing to 1 is the weight of clusters without rows.  Weights
        of a density regression change with the covariates, and are left out; the mean response there is `predict`.
        After variational inference of rows that are not in memory, parameters are those of the largest component of each cluster, and
        sizes expected numbers of rows.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="ibhc", rng=1)
        >>> fit.parameters().loc[0].index.tolist()
        ['size', 'weight', 'mean velocity_km_s', 'sd velocity_km_s']
        """
        from nrmmix.posterior.parameters import table
        from nrmmix.posterior.predict.membership import weights
        from nrmmix.posterior.predict.states import states_of

        share, size = probability("interval", interval), count("draws", draws, 1)
        seed = prediction_seed(self.seed, rng)
        sizes, labels, own = self._given_clusters()
        of_weights, prior = None, self.model.prior
        draws_weights = prior.has_random_measure or getattr(type(prior), "draw_weights", None) is not GibbsType.draw_weights
        if not self.model.is_regression and draws_weights:
            of_weights = weights(states_of(self._averaged("mean", size), size), labels, seed)
        return table(sizes, own, of_weights, share)

    def _given_clusters(self) -> tuple[np.ndarray, np.ndarray, list[Parameter]]:
        """Return the sizes (C,) of the clusters of the point estimate, what has which label, rows or components, and the parameters."""
        from nrmmix.posterior.predict.kernel_states import parameters_of

        found, posterior = self.partition(), self.posterior
        learnt = posterior.factors.exponential.shared if hasattr(posterior, "factors") else None
        blocks = parameters_of(self.model, found.labels, getattr(posterior, "draws", None) if learnt is None else None, learnt)
        return self.model.frame.sizes_of(found.labels), found.labels, [one for block in blocks for one in block]

    @guided
    def partition(
        self, loss: Literal["vi", "binder"] = "vi", *, max_clusters: int | None = None, runs: int = 16, rng: Any = None
    ) -> Partition:
        """Point estimate of the clustering: the partition of least posterior expected loss that a search finds.

        The search goes beyond the visited draws (Dahl, Johnson & Müller 2022), and of many rows begins with some of them, which the
        estimate says; see `nrmmix.posterior.partition.estimate`.

        Parameters
        ----------
        loss : {"vi", "binder"}, default "vi"
            Variation of information, or Binder's loss.
        max_clusters : int, optional
            Most clusters that the estimate may have.
        runs : int, default 16
            Most starts of the search, which ends sooner where two of them lead to the same least loss.
        rng : int, SeedSequence, Generator or None
            Seed of the search; None follows from the fit's seed, so that the estimate repeats itself.

        Returns
        -------
        nrmmix.posterior.partition.Partition
            labels (n,) of the rows used, their index, loss, expected_loss, n_clusters, sizes, credible_ball.

        Raises
        ------
        ValueError
            If an argument cannot be used.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.partition("binder").labels.shape
        (272,)
        """
        from nrmmix.posterior.partition import estimate

        self._insist_on_draws("labels")
        key = (loss, max_clusters, runs)
        if rng is None and key in self._partitions:
            return self._partitions[key]
        seed = np.random.default_rng(prediction_seed(self.seed)) if rng is None else rng
        found = estimate(partitions_in_memory(self.draws), loss, max_clusters=max_clusters, runs=runs, rng=seed)
        found = replace(found, index=self.model.frame.index)
        if rng is None:
            self._partitions[key] = found
        return found

    @guided
    def similarity(self) -> np.ndarray:
        """Posterior probabilities that two rows share a cluster.

        Returns
        -------
        ndarray of float32, (n, n)

        Raises
        ------
        ValueError
            Above 20,000 rows, whose matrix would not fit.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.similarity().shape
        (82, 82)
        """
        from nrmmix.posterior.partition import similarity

        self._insist_on_draws("labels")
        return similarity(partitions_in_memory(self.draws))
