"""States that a prediction averages over: states of the posterior, one after the other.

A state has clusters, and says what the next observation would be like: with what weight it joins each cluster or begins a new one, and
how it is distributed there.  Estimates are averages of that over states.  Bands come from the random measure itself, of which every
state gives draws: atoms with their shares and parameters, and a rest of atoms too light to be drawn one by one.

Clusters and atoms are asked the same questions, those of `Components`, so that a functional of a distribution is written once.
Predictions read nothing else: whoever makes draws, by whatever method, writes a class with the methods of `States` and of the
`PosteriorState` that it loads, adds it to `states_of`, and has all predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nrmmix.model.families.distributions import Distribution, Elliptical
from nrmmix.model.specification import Specification
from nrmmix.posterior.factors import FactorPosterior
from nrmmix.posterior.kernel_factors import AnyPosterior, KernelFactorPosterior
from nrmmix.posterior.predict.factor_states import FactorDraws, KernelFactorDraws
from nrmmix.posterior.predict.kernel_states import RecordedDraws
from nrmmix.posterior.predict.rows import CovariateWeights


class Components(Protocol):
    """C distributions of a row of responses.

    Points are what `States.points` made of responses and inputs.
    """

    @property
    def n_components(self) -> int:
        """C"""

    def log_densities(self, points: Any) -> np.ndarray:
        """(J, C): at each point, up to `Blocks.log_coefficient` of it, which no component changes; missing responses integrated out."""

    def means(self, points: Any) -> np.ndarray:
        """(J, C, n_mean): at the inputs of each point, in the coordinates that `Blocks.means` takes to the units of the responses."""

    def distributions(self, inputs: np.ndarray) -> list[Distribution | None]:
        """Return each response's distribution at rows of inputs (I, e), parameters (I, C); None where it has none of its own.

        Where components do not depend on inputs the parameters are (1, C).
        """

    def joint(self, block: int, inputs: np.ndarray) -> Elliptical | None:
        """The joint law of the responses of a block of the model by component; None where it has none in closed form."""


class Measure(Components, Protocol):
    """A draw of the random measure: its M atoms as components, the first those of the K clusters.

    Given the state parameters of atoms are independent of each other and of the weights; those of atoms of no cluster are from the prior.
    """

    @property
    def theta(self) -> np.ndarray:
        """(T, M): parameters of the atoms, as `Blocks.draw_responses` takes them."""

    def shares(self, covariates: CovariateWeights) -> tuple[np.ndarray, np.ndarray]:
        """Shares (R, M) of the atoms at distinct covariate rows, and (R,) of the rest; the components of that are from the prior."""

    def some(self, atoms: np.ndarray) -> Measure:
        """Some of the atoms, by a mask (M,), as components."""

    def seen_from(self, covariates: CovariateWeights) -> Measure:
        """Return the measure for these rows: what has next to no share of a row joins its rest, what has none anywhere is gone."""


class PosteriorState(Components, Protocol):
    """One state: its K clusters and a new one, last, as components, with all integrated out that can be."""

    model: Specification

    def weights(self, covariates: CovariateWeights) -> np.ndarray:
        """(R, K + 1): probabilities that an observation at distinct covariate rows joins each cluster, or begins a new one."""

    def measure(self, rng: np.random.SeedSequence | np.random.Generator) -> Measure:
        """A draw of the random measure in this state."""

    def drawn_clusters(self, rng: np.random.Generator) -> Measure:
        """The K clusters with parameters drawn from their posterior, once for all rows; without shares."""

    def components(self, clusters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(T, M): parameters of clusters (M,) from their posterior, each drawn anew, K standing for a new one; as in `Measure.theta`."""

    def joined(self, clusters: np.ndarray, points: Any, known: np.ndarray, rng: np.random.Generator) -> Measure:
        """Draw the clusters (J,) that rows y (J, d) at inputs (J, e), or (1, e), join as J atoms, without shares.

        Their parameters are drawn given the row too, K standing for a new cluster, those of each row with the same random numbers.  `known`
        says of which blocks of the kernels something is, and there all is, but for cells that a family leaves out.
        """

    def points(self, y: Any, inputs: np.ndarray) -> Any:
        """Points as of `States.points`, for this state alone."""

    def refilled(self, points: Any, y: np.ndarray, inputs: np.ndarray) -> Any:
        """Points whose responses are others, all of them numbers that were known before."""

    def new_components(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """(T, size): parameters of components from the prior, as in `Measure.theta`."""


class States(Protocol):
    """A sequence of states; going through it loads one after the other, and each holds until the next is loaded.

    Responses are prepared once for all states (`points`), and so is the covariate kernel at rows (`CovariateWeights`).  A measure is drawn
    apart from the rows that it is wanted at: rows of many blocks can share one.
    """

    model: Specification
    most_clusters: int  # in any of the states
    most_atoms: int  # that a drawn measure is expected to have; room is set aside for so many

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[PosteriorState]: ...

    def points(self, y: Any, inputs: np.ndarray) -> Any:
        """Points with responses (J, d), NaN where one is not known, at inputs (J, e), or (1, e) for all of them.

        Without responses (None) points are rows of inputs, for means.
        """


@runtime_checkable
class HardStates(Protocol):
    """States whose clusters have rows by a partition."""

    def partitions(self) -> Iterator[np.ndarray]:
        """Return the clusters (n,) of the fitted rows in each state, numbered 0, ..., K - 1, none empty; no state is loaded."""


@runtime_checkable
class StatesInParts(States, Protocol):
    """States that several threads can go through at once, each a part of them."""

    def part(self, first: int, last: int) -> StatesInParts:
        """The states first, ..., last - 1, which are loaded into arrays of their own."""

    def adopted(self, points: Any) -> Any:
        """Points that other states of the same posterior have made, for these."""


@runtime_checkable
class SoftStates(Protocol):
    """States whose clusters have rows by probabilities, not by a partition: they answer for themselves what follows from partitions."""

    def shares_in(self, estimate: np.ndarray) -> Iterator[np.ndarray]:
        """Return, for each state (K, C), the shares of its clusters in the clusters 0, ..., C - 1 of a partition (n,) of the rows."""

    def company(self, estimate: np.ndarray) -> np.ndarray:
        """(n,) how surely each fitted row is in its cluster of a partition."""

    def membership(self, estimate: np.ndarray) -> np.ndarray:
        """(n, C) how surely each fitted row is in the clusters 0, ..., C - 1 of a partition."""

    def drawn_clusters_of(self, rows: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Draw clusters (R,) for the fitted rows at positions (R,), in each state."""


def partitions_of(states: States) -> Iterator[np.ndarray]:
    """Partitions of the fitted rows, of states that are not `SoftStates`."""
    assert isinstance(states, HardStates)
    return states.partitions()


def joint_law(of: Components, block: int, inputs: np.ndarray) -> Elliptical:
    """The joint law of the responses of a block, of a family that has one in closed form."""
    found = of.joint(block, inputs)
    assert found is not None
    return found


def states_of(posterior: AnyPosterior, limit: int | None) -> States:
    """The states of a posterior, evenly spread over them where there are more than `limit`; None for all."""
    if isinstance(posterior, KernelFactorPosterior):
        return KernelFactorDraws(posterior, limit)
    return FactorDraws(posterior, limit) if isinstance(posterior, FactorPosterior) else RecordedDraws(posterior, limit)
