"""The result of variational inference: factors that stand for the posterior, and the bound on the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np
import pandas as pd

from nrmmix.common.messages import count, guided, one_of
from nrmmix.common.seeds import prediction_seed
from nrmmix.inference.variational.options import VariationalOutcome
from nrmmix.model.families import Parameter
from nrmmix.model.frame.labels import by_size
from nrmmix.model.specification import Specification
from nrmmix.posterior.factors import FactorPosterior, drawn_components
from nrmmix.posterior.parameters import of_columns
from nrmmix.posterior.partition import LOSSES, SIMILARITY_LIMIT, Partition, expected_loss
from nrmmix.posterior.predict.membership import KINDS as OF_CLUSTERS
from nrmmix.posterior.predict.states import states_of
from nrmmix.results.base import Result, wraps
from nrmmix.results.shown import PlotKind, PlotOptions, Saved

PICTURES = ("density", "clusters", "uncertainty", "responsibilities", "elbo", "n_clusters")
MAX_SAMPLED, MIN_SAMPLED, LABELS = 100, 10, 2e6  # partitions drawn from q for the loss of a point estimate, and labels in them all


@wraps(VariationalOutcome)
class VariationalResult(Saved, Result):
    """A variational posterior of a Dirichlet process mixture, q(z) q(phi) q(v, mass), and its lower bound on the log evidence.

    Made by `Model.fit` and `nrmmix.fit` with `method="vb"`, `"stochastic_vb"` or `"memoized_vb"`.  Predictions are averages over the
    factors: E[w_k] of the weights, posterior predictives of the components, and what is left to new ones.  Bands are of random measures
    drawn from q: they lack that rows could be divided otherwise than q has it, and are narrower than those of chains.

    Attributes
    ----------
    model : Model
    method : str
        Name of the method.
    options : VB, StochasticVB or MemoizedVB
        The method itself.
    elbo : float
        Lower bound of log p(X), the sum of exp(`Model.log_joint`) over all partitions, the mass integrated out; all constants are in it,
        but for multinomial coefficients, which `log_joint` leaves out too.
    passes : DataFrame
        By number of the pass: elbo at its end (an estimate in passes of stochastic inference, NaN where it is not exact), n_components,
        n_clusters, and components merged and born.
    n_clusters : int
        Components with half a row or more.
    n_components : int
        Components of q, the largest first.
    weights : Series
        E[w_k] of the components, and of all others together under the name -1.
    factors : nrmmix.posterior.factors.Factors
        Expected counts `N` (K,) and statistics, and what follows from them.
    has_converged : bool
        Whether it was the tolerance that ended the fit.
    seed : int
    seconds : float
        Wall clock.
    interrupted : bool
        Whether it was stopped; then it is as after the last whole pass.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method="memoized_vb", rng=1)
    >>> fit.n_clusters, round(fit.elbo, 2)
    (2, -1170.61)
    """

    def __init__(self, model: Specification, outcome: VariationalOutcome) -> None:
        super().__init__(model, outcome.seed)
        self._outcome: Any = outcome
        self.options: Any = outcome.method
        self.factors: Any = outcome.factors
        self.method, self.elbo = outcome.name, outcome.elbo
        self.has_converged, self.seconds, self.interrupted = outcome.has_converged, outcome.seconds, outcome.interrupted
        self.passes = pd.DataFrame(outcome.passes).set_index("number").rename_axis("pass").rename(columns={"bound": "elbo"})
        self.passes = self.passes[["elbo", "n_components", "n_clusters", "merged", "born"]]
        self._clusters: np.ndarray | None = None  # of components, where rows are not in memory
        self._most_probable: tuple[np.ndarray, np.ndarray] | None = None

    # ---- further rows

    @guided
    def update(self, newdata: Any, *, rng: Any = None, executor: Any = None) -> VariationalResult:
        """A fit of the rows seen, new ones added to those before, which are not gone through again.

        The earlier rows keep their probabilities of the components, so that what is needed of them are the factors alone: a fit from a
        file can be updated, and one whose data are gone.  The new rows are visited in passes, with births and merges of components that
        no earlier row is in.

        Parameters
        ----------
        newdata : DataFrame, path or other source
            Rows with the responses of the model.
        rng : int, SeedSequence, Generator or None
            Seed of the batches' order and of births; None follows from the fit's seed and the number of rows.
        executor : optional
            See `nrmmix.MemoizedVB`.

        Returns
        -------
        VariationalResult
            A new one; this one stays as it is.  Its `elbo` is the bound for the rows seen, `model.n_obs` their number.  Hyperparameters
            stay those that the first rows gave.  Where these or the new ones were a source, it cannot find its rows again: `predict` then
            needs newdata=.

        Raises
        ------
        ValueError
            If the new rows cannot be used.

        Examples
        --------
        >>> import nrmmix as nm
        >>> faithful = nm.datasets.load_faithful()
        >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", faithful.head(200), method="memoized_vb", rng=1)
        >>> further = fit.update(faithful.tail(72))
        >>> further.model.n_obs, further.n_clusters
        (272, 2)
        """
        from nrmmix.results.updating import updated

        return updated(self, newdata, rng, executor)

    # ---- rows that are not in memory

    def _estimate(self) -> np.ndarray:
        """Clusters of the rows, or where these are not in memory of the components."""
        if not self.model.frame.is_streamed:
            return super()._estimate()
        frame: Any = self.model.frame
        if self._clusters is None and frame.rows is None:
            return np.arange(self.n_components)
        if self._clusters is None:
            self._clusters = self.posterior.component_clusters()
        return self._clusters

    def _own_clusters(self, kind: str) -> Iterator[pd.DataFrame] | None:
        if not self.model.frame.is_streamed:
            return None
        from nrmmix.results.streams import own_clusters

        return own_clusters(self.posterior, self._estimate(), kind)

    def _given_clusters(self) -> tuple[np.ndarray, np.ndarray, list[Parameter]]:
        """Return, for rows that are not in memory, the largest component of each cluster."""
        if not self.model.frame.is_streamed:
            return super()._given_clusters()
        of_component, N = self._estimate(), np.asarray(self.factors.N)
        state: Any = next(iter(states_of(self._averaged("cluster", 1), 1)))
        largest = np.array([np.where(of_component == c, N, -1.0).argmax() for c in range(int(of_component.max()) + 1)])
        own = [of_columns(one, largest) for block in state.parameters() for one in block]
        return np.bincount(of_component, weights=N), of_component, own

    # ---- the factors

    @property
    def posterior(self) -> Any:
        """The factors and the rows, from which predictions are made."""
        return FactorPosterior(self.model, self.factors, self._outcome.rows, self.seed)

    def _averaged(self, kind: str, draws: int) -> Any:
        return self.posterior._replace(draws=1 if kind in OF_CLUSTERS else count("draws", draws, 1))

    @property
    def n_components(self) -> int:
        return self.factors.n_components

    @property
    def n_clusters(self) -> int:
        return int((self.factors.N >= 0.5).sum())

    @property
    def expected_mass(self) -> float:
        return self.factors.sticks.expected_mass

    @property
    def weights(self) -> pd.Series:
        weights, rest = self.factors.sticks.expected_weights
        return pd.Series(np.append(weights, rest), index=pd.Index([*range(len(weights)), -1], name="component"), name="weight")

    @property
    def labels(self) -> np.ndarray:
        """(n,) clusters of the rows used: their most probable components, numbered by size as those of `partition()`."""
        return by_size(self._components()[0], self.model.frame.weight)

    def _components(self) -> tuple[np.ndarray, np.ndarray]:
        """Most probable component of each row, and its probability."""
        if self._most_probable is None:
            self._most_probable = self.posterior.most_probable()
        return self._most_probable

    @guided
    def responsibilities(self) -> np.ndarray:
        """Probabilities of the components for each row used.

        Returns
        -------
        ndarray, (n, n_components)
            Rows add up to 1; components in the order of `weights`, not of the clusters of `partition()`.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="memoized_vb", rng=1)
        >>> fit.responsibilities().shape == (82, fit.n_components)
        True
        """
        out = np.empty((self.model.n_obs, self.n_components))
        for some, r in self.posterior.blocks():
            out[some] = r.T
        return out

    # ---- clusters

    def partition(self, loss: str = "vi", *, max_clusters: int | None = None, runs: int = 16, rng: Any = None) -> Partition:
        """Rows by their most probable components, clusters numbered by size, the largest 0.

        Where rows have weights clusters are numbered by the sums of these, and `sizes` and losses are of the distinct rows.

        Parameters
        ----------
        loss : {"vi", "binder"}, default "vi"
            Of which the expectation is given, over partitions drawn from q: 100, of more than 20,000 rows fewer, 10 at least.
        max_clusters : int, optional
            Most clusters: rows go to the most probable of the largest components.
        runs : int
            Of searches; here there is nothing to search.
        rng : int, SeedSequence, Generator or None
            Seed of the partitions drawn; None follows from the fit's seed.

        Returns
        -------
        nrmmix.posterior.partition.Partition
            labels (n,) of the rows used, loss, expected_loss, n_clusters, sizes, credible_ball.

        Raises
        ------
        ValueError
            If an argument cannot be used.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method="memoized_vb", rng=1)
        >>> fit.partition().sizes.tolist()
        [175, 97]
        """
        one_of("loss", loss, LOSSES)
        most = self.n_components if max_clusters is None else count("max_clusters", max_clusters, 1)
        key = (loss, most)
        if rng is None and key in self._partitions:
            return self._partitions[key]
        random = np.random.default_rng(prediction_seed(self.seed) if rng is None else rng)
        n, is_streamed = self.model.n_obs, self.model.frame.is_streamed
        size = int(np.clip(LABELS / n, MIN_SAMPLED, MAX_SAMPLED))
        labels, drawn = np.empty(n, np.int64), np.empty((size, n), np.int32)
        for some, r in self.posterior.blocks():
            labels[some] = r[:most].argmax(axis=0)
            drawn[:, some] = drawn_components(r, size, random)
        labels = by_size(labels, self.model.frame.weight)
        found = Partition(labels, loss, expected_loss(labels, drawn, loss), drawn, index=None if is_streamed else self.model.frame.index)
        if rng is None:
            self._partitions[key] = found
        return found

    @guided
    def similarity(self) -> np.ndarray:
        """Probabilities under q that two rows share a component.

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
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="memoized_vb", rng=1)
        >>> fit.similarity().shape
        (82, 82)
        """
        if self.model.n_obs > SIMILARITY_LIMIT:
            raise ValueError(f"similarity: the matrix of {self.model.n_obs:,} rows would not fit; the limit is {SIMILARITY_LIMIT:,} rows.")
        r = self.responsibilities().astype(np.float32)
        out = r @ r.T
        np.fill_diagonal(out, 1.0)
        return out

    # ---- reports

    def _summary(self) -> Any:
        from nrmmix.report.summary import variational_summary

        return variational_summary(self)

    @guided
    def glance(self) -> pd.DataFrame:
        """The whole fit in one row: model, method, size, bound and number of clusters.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="vb", rng=1)
        >>> int(fit.glance()["n_obs"].iloc[0])
        82
        """
        from nrmmix.report.frames import variational_glance

        return variational_glance(self)

    def _kinds(self) -> tuple[str, ...]:
        from nrmmix.plots.methods.variational import available

        return available(self)

    def plot(self, picture: PlotKind | None = None, /, ax: Any = None, **options: Unpack[PlotOptions]) -> Any:
        """Draw the fit: "density", "clusters", "uncertainty", "responsibilities", "elbo" or "n_clusters".

        Parameters
        ----------
        picture : str, optional
            Default the density where the model has such a picture, else the bound.
        ax : matplotlib Axes or array of them, optional
            Where to draw; default a new figure.
        **options
            Those of the picture; see `nrmmix.plots.plot` and `nrmmix.plots.methods.variational`.

        Returns
        -------
        Axes, or an array of them

        Raises
        ------
        ValueError
            If the kind is unknown or does not suit the model.

        Examples
        --------
        >>> import nrmmix as nm
        >>> from matplotlib.figure import Figure
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="memoized_vb", rng=1)
        >>> fit.plot("elbo", Figure().subplots()).get_xlabel()
        'pass'
        """
        from nrmmix.plots.methods.variational import plot

        return plot(self, picture, ax, **options)

    def __repr__(self) -> str:
        model = self.model
        stopped = ", stopped early" if self.interrupted else "" if self.has_converged else ", not converged"
        return (
            f"VariationalResult: NRM mixture {model.formula or 'of every column'} ({model.n_obs} observations)\n"
            f"  {self.n_clusters} clusters by {self.method}, {len(self.passes)} passes, {self.seconds:.1f} s, seed {self.seed}{stopped}\n"
            f"  evidence lower bound {self.elbo:.2f}; more in .summary(), .plot(), .predict()"
        )
