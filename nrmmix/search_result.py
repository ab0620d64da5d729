"""What a search gives back, and how it is run: trees in passes, u and the hyperparameters in between."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from nrmmix.chain import check_rows
from nrmmix.compiling import announced
from nrmmix.draws import Draws
from nrmmix.interrupts import held
from nrmmix.kernels import state as layout
from nrmmix.methods import update_addresses
from nrmmix.partition import Partition
from nrmmix.posterior import Posterior
from nrmmix.sampling import seed_sequence
from nrmmix.searches import Search, Tree, Wood

if TYPE_CHECKING:
    import pandas as pd
    from statsmodels.iolib.summary import Summary

    from nrmmix.model import Model

PICTURES = ("dendrogram", "clusters", "density")


@dataclass(frozen=True)
class Found:
    """A tree, and the values that it was built at."""

    tree: Tree
    labels: np.ndarray
    lower_bound: float
    score: float  # the bound with the log density of the hyperparameters
    values: dict[str, float]  # of hyperparameters and u


class SearchResult(Posterior):
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
    tree : nrmmix.searches.Tree
        Over all rows, of the pass with the highest lower bound, the log density of the hyperparameters added.
    labels : ndarray of int64, (n,)
        The partition: the tree is cut where d > 1, from the root down.  Clusters are numbered by first appearance.
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
    draws : nrmmix.draws.Draws
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
        self, model: Model, search: Search, found: Found, bounds: Sequence[float], seed: int, seconds: float, interrupted: bool = False
    ) -> None:
        self.search, self.method, self.tree, self.labels = search, search.name, found.tree, found.labels
        self.n_clusters, self.lower_bound = int(found.labels.max()) + 1, found.lower_bound
        self.hyper = {name: value for name, value in found.values.items() if name in (*model.prior.parameters, "u")}
        self.log_joint = model.log_joint(found.labels, **self.hyper)
        self.bounds, self.seconds, self.interrupted = np.array(bounds), seconds, interrupted
        values = {"n_clusters": self.n_clusters, "log_joint": self.log_joint, **found.values}
        if model.has_u:
            values.setdefault("u", 1.0)
        one = {name: np.full((1, 1), value) for name, value in values.items()} | {"labels": found.labels.astype(np.int32)[None, None]}
        super().__init__(model, Draws(one), seed)

    # ---- given the partition

    def predict(
        self,
        newdata: Any = None,
        kind: str = "mean",
        *,
        at: Any = None,
        q: Any = (0.05, 0.5, 0.95),
        interval: float = 0.9,
        draws: int = 500,
        rng: Any = None,
        response: str | Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Means and bands of a functional of the random density given the partition and the hyperparameters.

        As `MCMCResult.predict`, with `draws` the number of random densities behind the bands, all given this one partition.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="ibhc", rng=1)
        >>> fit.predict(kind="density", at=[10, 20, 30]).shape
        (3, 3)
        """
        from nrmmix.predict import predict
        from nrmmix.sampling import count

        fit = self if kind == "cluster" else _Repeated(self, count("draws", draws, 1))
        return predict(fit, newdata, kind, at=at, q=q, interval=interval, draws=draws, rng=rng, response=response)

    def partition(self, loss: str = "vi", *, max_clusters: int | None = None, runs: int = 16, rng: Any = None) -> Partition:
        """The partition that was found; there is no other to choose from, so that its expected loss is 0.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="ibhc", rng=1)
        >>> bool((fit.partition().labels == fit.labels).all())
        True
        """
        if max_clusters is not None:
            raise ValueError("max_clusters: a search has found one partition; `fit.tree.labels(max_clusters)` cuts its tree higher up.")
        return super().partition(loss, runs=runs, rng=rng)

    # ---- reports

    def summary(self) -> Summary:
        """Tables of the model, the search, the hyperparameters and the clusters.

        Returns
        -------
        statsmodels.iolib.summary.Summary

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="ibhc", rng=1)
        >>> "not samples from the posterior" in fit.summary().as_text()
        True
        """
        from nrmmix.report.searches import summary

        return summary(self)

    def to_frame(self) -> pd.DataFrame:
        """The internal nodes of the tree, children before parents.

        Returns
        -------
        DataFrame
            By number of the node: left, right, count, log_h, log_phi, log_d; see `nrmmix.searches.Tree`.

        Examples
        --------
        >>> import nrmmix as nm
        >>> nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="bhc", rng=1).to_frame().shape
        (81, 6)
        """
        import pandas as pd

        tree, n = self.tree, self.tree.n_leaves
        columns = {
            "left": tree.left, "right": tree.right, "count": tree.count[n:], "log_h": tree.log_h[n:], "log_phi": tree.log_phi[n:],
            "log_d": tree.log_d,
        }
        return pd.DataFrame(columns, index=pd.RangeIndex(n, 2 * n - 1, name="node"))

    def plot(self, kind: str | None = None, ax: Any = None, **options: Any) -> Any:
        """Draw the tree or the clusters.

        Parameters
        ----------
        kind : {"dendrogram", "clusters", "density"}, default "dendrogram"
            See `nrmmix.plots.trees.dendrogram`, and `nrmmix.plots.plot` for the others.
        ax : matplotlib Axes or array of them, optional
            Where to draw; default a new figure.
        **options
            Those of the kind.

        Returns
        -------
        Axes, or an array of them

        Raises
        ------
        ValueError
            If the kind is unknown, needs more than one draw, or does not suit the model.

        Examples
        --------
        >>> import nrmmix as nm
        >>> from matplotlib.figure import Figure
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="bhc", rng=1)
        >>> fit.plot("dendrogram", Figure().subplots()).get_ylabel()
        'log d'
        """
        from nrmmix.plots import plot
        from nrmmix.plots.kinds import one_of
        from nrmmix.plots.trees import dendrogram

        kind = PICTURES[0] if kind is None else kind
        one_of("kind of plot of a search", kind, PICTURES)
        return dendrogram(self, ax, **options) if kind == PICTURES[0] else plot(self, kind, ax, **options)

    def report(self, path: Any) -> NoReturn:
        """Not offered: reports are on draws.

        Raises
        ------
        ValueError
            Always; says what there is.
        """
        raise ValueError("a search has no report, which is on draws; there are fit.summary().as_html() and fit.plot().")

    def save(self, path: Any) -> NoReturn:
        """Not offered: saved fits hold draws and the standing of chains.

        Raises
        ------
        ValueError
            Always; says what there is.
        """
        raise ValueError(
            f"the result of a search is not saved; rng={self.seed} finds it again, and fit.labels are the start of chains, init=fit.labels."
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        model = self.model
        stopped = ", stopped early" if self.interrupted else ""
        return (
            f"SearchResult: NRM mixture {model.formula or 'of every column'} ({model.n_obs} observations)\n"
            f"  {self.n_clusters} clusters by {self.method}, a search, not samples: the best of {len(self.bounds)} "
            f"pass{'es' if len(self.bounds) > 1 else ''}, {self.seconds:.1f} s, seed {self.seed}{stopped}\n"
            f"  log joint {self.log_joint:.2f}, lower bound {self.lower_bound:.2f}; more in .summary(), .plot(), .predict()"
        )


class _Repeated(Posterior):
    """The one draw of a search many times over, without copies: each has a random density of its own."""

    def __init__(self, fit: SearchResult, times: int) -> None:
        draws = {name: np.broadcast_to(values, (1, times, *values.shape[2:])) for name, values in fit.draws.items()}
        super().__init__(fit.model, Draws(draws), fit.seed)


# ---- running


def run_search(model: Model, search: Search, *, rng: Any, progress: bool | None, time_limit: float | None) -> SearchResult:
    """Run a search on a model; see `Model.fit`.

    Raises
    ------
    ValueError
        If the search does not suit the model, or an argument is out of range.
    """
    for why in (search.refusal(model), search.complaint(model)):
        if why:
            raise ValueError(f"nm.{search}: {why}.")
    if time_limit is not None and (isinstance(time_limit, bool) or not isinstance(time_limit, Real) or not time_limit > 0):
        raise ValueError(f"time_limit must be greater than 0 seconds, not {time_limit!r}.")
    seeds = seed_sequence(rng)
    random = np.random.default_rng(seeds.spawn(1)[0])
    show = sys.stderr.isatty() if progress is None else bool(progress)
    with announced(), held():
        wood, updates = Wood(model), update_addresses(model)
        check_rows(model, wood.data)
        wood.compile(updates)
    started = time.perf_counter()
    best, bounds, stopped = None, [], ""
    for number in range(search.passes):
        before = _changing(wood)
        try:
            for _ in search.build(wood, random):
                if time_limit is not None and time.perf_counter() - started > time_limit:
                    stopped = "time limit"
                    break
            if stopped:
                break
            found = _found(wood)
            bounds.append(found.score)
            if best is None or found.score > best.score:
                best = found
            if show:
                sys.stderr.write(f"\rpass {number + 1} of {search.passes}, {time.perf_counter() - started:.0f} s      ")
                sys.stderr.flush()
            if number + 1 < search.passes:
                wood.resample(found.labels, updates, random)
        except KeyboardInterrupt:
            stopped = "interrupt"
            break
        if not search.is_random and np.array_equal(before, _changing(wood)):
            break  # the next tree would be the same
        if time_limit is not None and time.perf_counter() - started > time_limit and number + 1 < search.passes:
            stopped = "time limit"
            break
    if show:
        sys.stderr.write("\n")
    if best is None:
        if stopped == "time limit":
            raise TimeoutError("time_limit was over before the first tree was built; give more seconds.")
        raise KeyboardInterrupt("stopped before the first tree was built")
    return SearchResult(model, search, best, bounds, int(seeds.entropy), time.perf_counter() - started, bool(stopped))


def _changing(wood: Wood) -> np.ndarray:
    """What potentials depend on beside the data."""
    return np.array([*wood.state.hyper, *wood.state.v, wood.forest.guide[0]])


def _found(wood: Wood) -> Found:
    tree, hyper = wood.tree(), wood.state.hyper
    bound = wood.lower_bound(tree)
    if not math.isfinite(bound):
        raise FloatingPointError("the potentials of the tree are no finite numbers; rescale the data or widen the prior.")
    kind = wood.data.setup[layout.MEASURE]
    values = {"mass": float(hyper[layout.MASS]), "sigma": 0.0 if kind == layout.FINITE else float(hyper[layout.SIGMA])}
    if wood.model.has_u and kind != layout.STABLE:
        values["u"] = float(wood.state.v[0])
    return Found(tree, tree.labels(wood.most), bound, bound + wood.log_hyperprior(), values)
