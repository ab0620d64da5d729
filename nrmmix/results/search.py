"""The result of a search: one partition, and the tree that it was cut from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd

from nrmmix.common.messages import count, guided, known_word
from nrmmix.inference.search.options import Search
from nrmmix.inference.search.run import Found, SearchOutcome
from nrmmix.model.frame.labels import by_size
from nrmmix.model.log_joint import log_joint
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Draws, Posterior
from nrmmix.posterior.partition import Partition
from nrmmix.posterior.predict.membership import KINDS as OF_CLUSTERS
from nrmmix.results.base import Result, wraps
from nrmmix.results.shown import PlotKind, PlotOptions, Saved

PICTURES = ("dendrogram", "clusters", "density")


class SearchResult(Saved, Result):
    """One partition of the rows, found by a search over trees, and the tree.

    Made by `Model.fit` and `nrmmix.fit` with a search, `method="bhc"` or `"ibhc"`.  Nothing is sampled from the posterior: hyperparameters
    and u are those at which the tree was built, and predictions are given this one partition, so that their bands lack the uncertainty
    about partition and hyperparameters.

    Attributes
    ----------
    model : Model
    method : str
        Name of the search.
    search : BHC or IBHC
        With its options.
    tree : nrmmix.inference.search.options.Tree
        Over all rows: the tree with the highest lower bound, log density of the hyperparameters included, among all passes.
    labels : ndarray of int64, (n,)
        The partition: the tree is cut where d > 1, from the root down.  Clusters are numbered by size, the largest 0.
    n_clusters : int
    log_joint : float
        As `Model.log_joint` of the labels at these hyperparameters, and this u where the joint has one.  With `NormalizedStable` u is
        integrated out.
    lower_bound : float
        log of the sum of the joint over all partitions of the tree (Lee & Choi 2015, equation 10): no more than log p(X, u), or than log
        p(X) where u is integrated out of the joint, at these hyperparameters.
    bounds : ndarray, (passes,)
        Of each pass, the log density of the hyperparameters added up to a constant.
    hyper : dict
        mass and sigma, and u where the joint has it.
    draws : nrmmix.posterior.draws.Draws
        The same as one draw of one chain.
    seed : int
    seconds : float
        Wall clock, compilation left out.
    interrupted : bool
        Whether it was stopped before the last pass.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method="ibhc", rng=1)
    >>> fit.n_clusters, fit.lower_bound > fit.log_joint
    (2, True)
    """

    def __init__(
        self, model: Specification, search: Search, found: Found, bounds: Sequence[float], seed: int, seconds: float,
        interrupted: bool = False,
    ) -> None:
        self.search, self.method, self.tree, self.labels = search, search.name, found.tree, by_size(found.labels)
        self.n_clusters, self.lower_bound = int(found.labels.max()) + 1, found.lower_bound
        self.hyper = {name: value for name, value in found.values.items() if name in (*model.prior.parameters, "u")}
        hyper = {name: value for name, value in self.hyper.items() if name != "u"}
        self.log_joint = log_joint(model, found.labels, self.hyper.get("u"), shared=found.shared, hyper_values=hyper)
        self.bounds, self.seconds, self.interrupted = np.array(bounds), seconds, interrupted
        values = {"n_clusters": self.n_clusters, "log_joint": self.log_joint, **found.values}
        if model.has_u:
            values.setdefault("u", 1.0)
        one = {name: np.full((1, 1), value) for name, value in values.items()} | {"labels": found.labels.astype(np.int32)[None, None]}
        one |= {name: np.array(of_all)[None, None] for name, of_all in found.shared.items()}
        super().__init__(model, seed, Draws(one))

    # ---- given the partition

    def _averaged(self, kind: str, draws: int) -> Posterior:
        """The one draw many times over, without copies: each has a random density of its own."""
        times = 1 if kind in OF_CLUSTERS else count("draws", draws, 1)
        repeated = {name: np.broadcast_to(values, (1, times, *values.shape[2:])) for name, values in self.draws.items()}
        return Posterior(self.model, Draws(repeated), self.seed)

    @guided
    def partition(
        self, loss: Literal["vi", "binder"] = "vi", *, max_clusters: int | None = None, runs: int = 16, rng: Any = None
    ) -> Partition:
        """The partition that was found; there is no other to choose from, so that its expected loss is 0, and its credible ball None.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="ibhc", rng=1)
        >>> bool((fit.partition().labels == fit.labels).all())
        True
        """
        if max_clusters is not None:
            raise ValueError("max_clusters: a search has found one partition; `fit.tree.labels(max_clusters)` cuts its tree higher up.")
        found = super().partition(loss, runs=runs, rng=rng)
        return replace(found, draws=found.draws[:0])

    # ---- reports

    def _summary(self) -> Any:
        from nrmmix.report.summary import search_summary

        return search_summary(self)

    @guided
    def to_frame(self) -> pd.DataFrame:
        """The internal nodes of the tree, children before parents.

        Returns
        -------
        DataFrame
            By number of the node: left, right, count, log_h, log_phi, log_d; see `nrmmix.inference.search.options.Tree`.

        Examples
        --------
        >>> import nrmmix as nm
        >>> nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="bhc", rng=1).to_frame().shape
        (81, 6)
        """
        tree, n = self.tree, self.tree.n_leaves
        columns = {
            "left": tree.left, "right": tree.right, "count": tree.count[n:], "log_h": tree.log_h[n:], "log_phi": tree.log_phi[n:],
            "log_d": tree.log_d,
        }
        return pd.DataFrame(columns, index=pd.RangeIndex(n, 2 * n - 1, name="node"))

    def _kinds(self) -> tuple[str, ...]:
        from nrmmix.plots.methods.trees import available

        return available(self)

    def plot(self, picture: PlotKind | None = None, /, ax: Any = None, **options: Unpack[PlotOptions]) -> Any:
        """Draw the tree or the clusters: "dendrogram", the default, "clusters" or "density"; else as `MCMCResult.plot`.

        Raises
        ------
        ValueError
            If the kind is unknown, needs more than one draw, or does not suit the model.

        See Also
        --------
        nrmmix.plots.methods.trees.dendrogram : the tree, with its options.

        Examples
        --------
        >>> import nrmmix as nm
        >>> from matplotlib.figure import Figure
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="bhc", rng=1)
        >>> fit.plot("dendrogram", Figure().subplots()).get_ylabel()
        'log d'
        """
        from nrmmix.plots import plot
        from nrmmix.plots.methods.trees import dendrogram

        named: Any = options.pop("kind", None) if picture is None else picture
        if named is not None and known_word("kind of plot of a search", named, PICTURES) != PICTURES[0]:
            return plot(self, named, ax, **options)
        own: dict[str, Any] = {**options}
        return dendrogram(self, ax, **own)

    def __repr__(self) -> str:
        model = self.model
        stopped = ", stopped early" if self.interrupted else ""
        return (
            f"SearchResult: NRM mixture {model.formula or 'of every column'} ({model.n_obs} observations)\n"
            f"  {self.n_clusters} clusters by {self.method}, a search, not samples: the best of {len(self.bounds)} "
            f"pass{'es' if len(self.bounds) > 1 else ''}, {self.seconds:.1f} s, seed {self.seed}{stopped}\n"
            f"  log joint {self.log_joint:.2f}, lower bound {self.lower_bound:.2f}; more in .summary(), .plot(), .predict()"
        )


@wraps(SearchOutcome)
def _(model: Specification, outcome: SearchOutcome) -> SearchResult:
    return SearchResult(model, *outcome)
