"""States in the kernels' arrays: recorded draws put back into them, clusters of a given partition, and draws of the random measure.

`RecordedDraws` is the implementation of `nrmmix.posterior.predict.states.States` for draws of chains and of searches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nrmmix.common.compiling import announced
from nrmmix.kernels import predictive
from nrmmix.kernels.chain import start
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.clusters import empty_column
from nrmmix.model.families.base import Parameter
from nrmmix.model.families.distributions import Distribution, Elliptical
from nrmmix.model.families.exponential import Stacked
from nrmmix.model.frame.arrays import TOO_FAR
from nrmmix.model.pack import arrays_of, provide
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Draws, Posterior
from nrmmix.posterior.parameters import mixed
from nrmmix.posterior.predict.rows import CovariateWeights
from nrmmix.posterior.representatives import spaced

OUT_OF_REACH = (
    "a row is out of reach of every atom of a finite measure in some draw: there is no density there; predict closer to the data, or fit "
    "a wider kernel or more components."
)
COMPLETED = 25  # draws of missing and censored cells that parameters of clusters are averaged over
INVISIBLE = 1e-5  # share of a row up to which atoms are part of what is left there


@dataclass(frozen=True)
class DrawnMeasure:
    """A draw of the unnormalised measure, as of `nrmmix.kernels.predictive.draw_measure`; a `states.Measure`."""

    model: Specification
    widths: np.ndarray  # of the covariate kernel, or codes of its slots
    log_weight: np.ndarray  # (M,)
    place: np.ndarray  # (M,) location of each atom
    theta: np.ndarray  # (T, M)
    log_rest: np.ndarray  # (P,) log weight of what is left at each location
    known: tuple[CovariateWeights, np.ndarray, np.ndarray] | None = None  # covariate rows and the shares there

    @property
    def n_components(self) -> int:
        return self.theta.shape[1]

    def shares(self, covariates: CovariateWeights) -> tuple[np.ndarray, np.ndarray]:
        if self.known is not None and self.known[0] is covariates:
            return self.known[1:]
        log_K = covariates.log_at(self.widths)  # far away the lightest of atoms may be all there is, at e^-1000
        share, rest = log_K[:, self.place] + self.log_weight, log_K + self.log_rest
        top = np.maximum(share.max(axis=1, initial=-np.inf), rest.max(axis=1))[:, None]
        if np.isneginf(top).any():  # of a finite measure
            raise ValueError(OUT_OF_REACH)
        share, rest = np.exp(share - top), np.exp(rest - top).sum(axis=1)
        total = share.sum(axis=1) + rest
        return share / total[:, None], rest / total

    def some(self, atoms: np.ndarray) -> DrawnMeasure:
        return replace(
            self, log_weight=self.log_weight[atoms], place=self.place[atoms], theta=np.ascontiguousarray(self.theta[:, atoms]), known=None,
        )

    def seen_from(self, covariates: CovariateWeights) -> DrawnMeasure:
        share, rest = self.shares(covariates)
        large = share > INVISIBLE
        seen: np.ndarray = np.asarray(large.any(axis=0))
        rest = rest + np.where(large, 0.0, share).sum(axis=1)
        share = np.where(large, share, 0.0)[:, seen]
        return replace(self.some(seen), known=(covariates, share, rest))

    def log_densities(self, points: layout.Data) -> np.ndarray:
        provide(self.model, points.block, (layout.Block.DENSITY,))
        return predictive.component_densities(points, self.theta, self.model.packed.n_work)

    def means(self, points: layout.Data) -> np.ndarray:
        provide(self.model, points.block, (layout.Block.MEAN_THETA,))
        return predictive.component_means(points, self.theta, self.model.packed.n_mean)

    def distributions(self, inputs: np.ndarray) -> list[Distribution | None]:
        return self.model.blocks.component_distributions(self.theta, inputs, self.model.packed)

    def joint(self, block: int, inputs: np.ndarray) -> Elliptical | None:
        return self.model.blocks.joint_component(block, self.theta, inputs, self.model.packed)


class KernelState:
    """Kernel arrays with room for some clusters and a new one; once they are filled, a `states.PosteriorState`.

    With `starts` a partition can be set up in them as chains begin; recorded draws do without, and compile less.
    """

    def __init__(self, model: Specification, n_clusters: int, starts: bool = False):
        self.model = model
        self.data, self.state = arrays_of(model, n_clusters, entries=layout.OF_COLUMNS, moves=starts)  # others by `provide`

    @property
    def n_clusters(self) -> int:
        return int(self.state.num[layout.Count.CLUSTERS])

    @property
    def n_components(self) -> int:
        return self.n_clusters + 1

    @property
    def widths(self) -> np.ndarray:
        """Widths of the covariate kernel; of a sparse product the codes of its slots."""
        return (self.state.hyper[layout.Hyper.WIDTH :] if self.model.slots is None else self.state.codes).copy()

    def fill(self, exponential: Stacked, N: np.ndarray, s: np.ndarray) -> None:
        """Put in clusters of counts N (K,) and statistics s (K, S), with a new one behind them, and what is learnt of all."""
        K, data = len(N), self.data
        for name, values in exponential.shared.items():
            data.rows.constant[data.shared[self.model.packed.shared_names[name]]] = values
        self.state.stat[:, :K] = exponential.columns(N, s)
        empty_column(data, self.state.stat, K)
        self.state.num[layout.Count.CLUSTERS] = K

    def weights(self, covariates: CovariateWeights) -> np.ndarray:
        weights = predictive.predictive_weights(self.data, self.state, covariates.at(self.widths))
        if not (weights.sum(axis=1) > 0).all():  # of a finite measure
            raise ValueError(OUT_OF_REACH)
        return weights

    def points(self, y: Any, inputs: np.ndarray) -> layout.Data:
        """Kernel data with other responses (J, d) and inputs (J, e), or (1, e) for all of them, in place of the training ones."""
        model = self.model
        if y is None:  # whatever the responses
            y = model.frame.response[np.zeros(len(inputs), np.int64)]
        inputs = np.broadcast_to(inputs, (y.shape[0], inputs.shape[1]))
        rows, table = model.blocks.to_kernel_arrays(y, inputs, model.packed.table)
        far = (np.abs(rows.y) > TOO_FAR).any(axis=1)
        if far.any():
            raise ValueError(f"the point {y[far][0]} lies more than {TOO_FAR:g} prior standard deviations out; correct it.")
        block = self.data.block.copy()
        block[:, : layout.Block.EMPTY] = table
        if rows.missing.size:
            provide(model, block, (layout.Block.SCORE_GAPS,))
        return self.data._replace(rows=rows._replace(constant=self.data.rows.constant), block=block)

    def refilled(self, points: layout.Data, y: np.ndarray, inputs: np.ndarray) -> layout.Data:
        """Points with other responses, of which the same are known: in the same arrays, of which kernels know the addresses."""
        rows, _ = self.model.blocks.to_kernel_arrays(y, np.broadcast_to(inputs, (len(y), inputs.shape[1])), self.model.packed.table)
        points.rows.y[:] = rows.y
        return points

    def adopted(self, points: layout.Data) -> layout.Data:
        """Points that another state of the model has made, with the constants of this one."""
        return self.data._replace(rows=points.rows._replace(constant=self.data.rows.constant), block=points.block.copy())

    def log_densities(self, points: layout.Data) -> np.ndarray:
        return predictive.predictive_scores(points, self.state)

    def means(self, points: layout.Data) -> np.ndarray:
        provide(self.model, points.block, (layout.Block.MEAN,))
        return predictive.cluster_means(points, self.state, self.model.packed.n_mean)

    def distributions(self, inputs: np.ndarray) -> list[Distribution | None]:
        return self.model.blocks.predictive_distributions(self.state.stat, self.n_components, inputs, self.model.packed)

    def joint(self, block: int, inputs: np.ndarray) -> Elliptical | None:
        return self.model.blocks.joint_predictive(block, self.state.stat, self.n_components, inputs, self.model.packed)

    def parameters(self) -> list[list[Parameter]]:
        """Draw the parameters of the clusters of each block, given who is in them."""
        return self.model.blocks.cluster_parameters(self.state.stat, self.n_clusters, self.model.packed)

    def drawn_clusters(self, rng: np.random.Generator) -> DrawnMeasure:
        return self._without_shares(self.components(np.arange(self.n_clusters), rng))

    def _without_shares(self, theta: np.ndarray) -> DrawnMeasure:
        M = theta.shape[1]
        return DrawnMeasure(self.model, self.widths, np.zeros(M), np.zeros(M, np.int64), theta, np.full(1, -np.inf))

    def components(self, clusters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        provide(self.model, self.data.block, (layout.Block.SAMPLE,))
        return predictive.draw_components_of(self.data, self.state, self.model.packed.n_theta, clusters, rng)

    def joined(self, clusters: np.ndarray, points: layout.Data, known: np.ndarray, rng: np.random.Generator) -> DrawnMeasure:
        provide(self.model, points.block, (layout.Block.SAMPLE, layout.Block.REDRAW))
        return self._without_shares(predictive.draw_joined(points, self.state, self.model.packed.n_theta, clusters, known, rng))

    def new_components(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.draw_components(self.n_clusters, size, rng)

    def draw_components(self, first: int, size: int, rng: np.random.Generator) -> np.ndarray:
        """(T, size): parameters of the clusters from `first` on, and of new ones after them."""
        provide(self.model, self.data.block, (layout.Block.SAMPLE,))
        return predictive.draw_components(self.data, self.state, self.model.packed.n_theta, first, size, rng)

    def measure(self, rng: np.random.SeedSequence | np.random.Generator) -> DrawnMeasure:
        """A draw of the random measure."""
        model, rng = self.model, np.random.default_rng(rng)
        if not model.prior.has_random_measure:
            return DrawnMeasure(model, self.widths, *self._measure_from_outside(rng))
        if model.prior.tau == 0.0 and not (self.state.cache.A > 0).all():
            raise ValueError(
                f"in a draw a location of {model.kernel} is out of reach of every row, and nm.NormalizedStable, whose atoms have no "
                "scale of their own, says nothing of those there; fit with a prior of wider kernels, or with nm.PitmanYor."
            )
        provide(model, self.data.block, (layout.Block.SAMPLE,))
        return DrawnMeasure(model, self.widths, *predictive.draw_measure(self.data, self.state, model.packed.n_theta, rng))

    def _measure_from_outside(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Log weights from a Gibbs-type prior's own `draw_weights`."""
        prior: Any = self.model.prior  # of a class of one's own
        K = self.n_clusters
        clusters, further, rest = prior.draw_weights(self.state.size[:K].copy(), rng)
        weight = np.concatenate([np.asarray(clusters, float).reshape(-1), np.asarray(further, float).reshape(-1)])
        if np.shape(clusters) != (K,) or not np.isfinite([*weight, rest]).all() or min(*weight, rest) < 0 or weight.sum() + rest <= 0:
            raise ValueError(
                f"{type(prior).__name__}.draw_weights must give weights of the {K} clusters, of further atoms, and of what is left, none "
                "of them negative and not all of them 0."
            )
        theta = self.draw_components(0, len(weight), rng)
        with np.errstate(divide="ignore"):
            return np.log(weight), np.zeros(len(weight), np.int64), theta, np.log([float(rest)])


class RecordedDraws:
    """Recorded draws put back into kernel arrays one by one: the `states.States` of chains and of searches.

    Where there are more than `limit`, so many are gone through, evenly spread over all chains; None for all.
    """

    def __init__(self, posterior: Posterior, limit: int | None):
        self.model, draws = posterior.specification, posterior.draws
        total = draws.n_chains * draws.n_draws
        size = total if limit is None else min(limit, total)
        self.chosen = (np.arange(size) * total) // size
        self.most_clusters = int(draws["n_clusters"].max())
        locations = 1 if self.model.grid is None else len(self.model.grid.weights)
        self.most_atoms = self.most_clusters + locations + int(1.3 * predictive.MAX_JUMPS)
        self._kernel_state = KernelState(self.model, self.most_clusters)
        self._flat = {name: draws.flat(name) for name in draws}

    def __len__(self) -> int:
        return len(self.chosen)

    def __iter__(self) -> Iterator[KernelState]:
        for t in self.chosen.tolist():
            self._load(t)
            yield self._kernel_state

    def points(self, y: Any, inputs: np.ndarray) -> layout.Data:
        return self._kernel_state.points(y, inputs)

    def part(self, first: int, last: int) -> RecordedDraws:
        made = copy(self)
        made.chosen, made._kernel_state = self.chosen[first:last], KernelState(self.model, self.most_clusters)
        return made

    def adopted(self, points: layout.Data) -> layout.Data:
        return self._kernel_state.adopted(points)

    def partitions(self) -> Iterator[np.ndarray]:
        labels = self._flat["labels"]
        return (labels[t] for t in self.chosen)

    def _load(self, t: int) -> None:
        """Make the state that of a draw: parameters and cells that were drawn with it first, from which the statistics follow."""
        model, flat, data, state = self.model, self._flat, self._kernel_state.data, self._kernel_state.state
        widths = model.widths_of([flat[name][t] for name in model.width_names])
        hyper = np.array([*model.prior.kernel_values(flat["mass"][t], flat["sigma"][t]), model.prior.tau, *widths], dtype=float)
        # one type each for compiled code, however the draws are kept
        A = np.array(flat["A"][t] if "A" in flat else [flat["u"][t] if "u" in flat else 1.0])
        location = flat["locations"][t].astype(np.int32) if "locations" in flat else np.zeros(0, np.int32)
        if "theta" in flat:
            K = flat["n_clusters"][t]
            state.stat[data.explicit, :K] = flat["theta"][t, :K].T
        if "codes" in flat:
            state.codes[:], state.inclusion[:] = flat["codes"][t], flat["inclusion"][t]
        for name, those in model.packed.shared_names.items():
            if name in flat:
                data.rows.constant[data.shared[those]] = flat[name][t]
        if "imputed" in flat:
            frame = model.frame
            data.rows.y[:] = model.blocks.completed(frame.response, flat["imputed"][t], frame.inputs, model.packed)
        predictive.load_draw(data, state, flat["labels"][t].astype(np.int32), location, A, hyper)


def clusters_of(
    model: Specification, labels: np.ndarray, draws: Draws | None = None, shared: Mapping[str, np.ndarray] | None = None,
    cells: np.ndarray | None = None,
) -> KernelState:
    """The clusters 0, ..., K - 1 of a partition of the fitted rows, with the given values of cells that chains draw.

    Parameters that they share are at the medians of their draws, matrices at the mean, or as given; hyperparameters, on which they do not
    depend, at their starts.  Rows count as often as their weights say.
    """
    if model.frame.is_weighted:
        return _weighted_clusters(model, labels, shared)
    found = KernelState(model, int(labels.max()) + 1, starts=True)
    data = found.data
    for name, those in model.packed.shared_names.items():
        if shared is not None:
            data.rows.constant[data.shared[those]] = shared[name]
        elif draws is not None and name in draws:
            data.rows.constant[data.shared[those]] = model.packed.middle(draws.flat(name), those)
    if cells is not None:
        data.rows.y[:] = model.blocks.completed(model.frame.response, cells, model.frame.inputs, model.packed)
    with announced():
        start(found.data, found.state, labels)
    return found


def _weighted_clusters(model: Specification, labels: np.ndarray, shared: Mapping[str, np.ndarray] | None) -> KernelState:
    """The clusters of rows that have weights, which variational inference alone takes as they are: by the families' exponential forms."""
    exponential = model.exponential()
    exponential = exponential if shared is None else exponential.with_shared(dict(shared))
    rows, clusters, weight = model.statistics(exponential), np.arange(int(labels.max()) + 1)[:, None], np.asarray(model.frame.weight)
    s = np.zeros((len(clusters), exponential.n_stat))
    for first, last, features in rows.blocks(0, rows.n):
        s += features.totals(np.where(labels[first:last] == clusters, weight[first:last], 0.0))
    found = KernelState(model, len(clusters))
    with announced():
        found.fill(exponential, model.frame.sizes_of(labels), s)
    return found


def completed_clusters(
    model: Specification, labels: np.ndarray, draws: Draws | None = None, shared: Mapping[str, np.ndarray] | None = None
) -> Iterator[KernelState]:
    """Yield the clusters of a partition once, or where chains have drawn missing and censored cells for each of some draws of these."""
    if draws is None or "imputed" not in draws:
        yield clusters_of(model, labels, draws, shared)
        return
    cells = draws.flat("imputed")
    for t in spaced(len(cells), COMPLETED):
        yield clusters_of(model, labels, draws, shared, cells[t])


def parameters_of(
    model: Specification, labels: np.ndarray, draws: Draws | None = None, shared: Mapping[str, np.ndarray] | None = None
) -> list[list[Parameter]]:
    """Parameters of the clusters of a partition, block by block; where cells were drawn their law is the mixture over draws of these."""
    found = [state.parameters() for state in completed_clusters(model, labels, draws, shared)]
    if len(found) == 1:
        return found[0]
    return [[mixed([block[p] for block in blocks]) for p in range(len(blocks[0]))] for blocks in zip(*found, strict=True)]


def prior_distributions(model: Specification) -> list[Distribution | None]:
    """Return the distribution of each response in a new cluster, at the inputs of the first row; None for one that has none of its own."""
    found = KernelState(model, 1)
    with announced():
        empty_column(found.data, found.state.stat, 0)
    return found.distributions(model.frame.inputs[:1])
