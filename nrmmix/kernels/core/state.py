"""State of a chain.  Plain arrays in named tuples: one compiled signature for every model.

Letters are those of the mathematics: n observations, K clusters, G covariate groups, P locations, D covariates.
Arrays over clusters have room for `cap` of them, the cluster index last.

A `State` has three parts, by who may write there: what the posterior is of, which moves draw; `Cache`, which must agree with it wherever a
move ends; and `Scratch`, which any kernel may write over.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nrmmix.kernels.compiling.handles import F1, F2, F3, I1, I2, I3, U2, Anything, handle

TINY = 1e-300
LINE = 64  # bytes of a cache line
OUT_OF_REACH = -1e6  # log K of K = 0: sums of it can be taken back
LOG_V_MAX = 600.0  # v is truncated to e^-600 .. e^600, beyond which it would under- or overflow

# Status codes of moves.
DONE = 1  # an exception inside an entry point returns 0
NEED_ROOM = 2  # nothing was changed; more columns, please
BROKEN = 3  # a score was not a number
LOST_PRECISION = 4  # of families' updates, by cancellation: build the statistics anew
HALTED = 5  # it was told to halt, and goes on at Count.CURSOR when it is called again
GIVEN_UP = 6  # it was told to give up: its work is lost, and the chain goes back to where it stood before
STALE = 7  # of redraws of shared parameters: build the statistics anew
RESCALED = 8  # of redraws of shared parameters: the statistics have followed


# The constants of one array stand together, in a named tuple: kernels read its fields as they would numbers.


class _Count(NamedTuple):
    """Places in `State.num`."""

    CLUSTERS: int = 0
    CURSOR: int = 1  # where an interrupted move goes on
    BAD_ROW: int = 2  # the observation that has no finite score
    MOVED: int = 3  # label changes since the start
    SCORED: int = 4  # (observation, cluster) pairs scored since the start
    TUNING: int = 5  # 1 before the first draw: moves may still adapt
    HALT: int = 6  # set by the main thread: moves that can go on later end as soon as they can, and at GIVE_UP the others
    HEAT: int = 7  # sweeps of the start that are still to come at a power of the likelihood


class _Hyper(NamedTuple):
    """Places in `State.hyper`."""

    MASS: int = 0
    SIGMA: int = 1
    TAU: int = 2
    WIDTH: int = 3  # and following, one per covariate


class _Setup(NamedTuple):
    """Places in `Data.setup`: what a model is, and entry points; 0 where they are not used."""

    JOINT_WITH_V: int = 0  # 1: log p(y, s, mu, V); 0: a mixture with u integrated out
    SHARED_WIDTH: int = 1
    SCALES: int = 2  # 1: widths scale the matrices of Cache.log_K, each with one column and degree at the end of this array
    LOG_KERNEL: int = 3  # evaluates log K of a density regression without SCALES
    SIGMA_DENSITY: int = 4
    MASS_DENSITY: int = 5
    WIDTH_DENSITY: int = 6
    STRETCH_DENSITY: int = 7
    MEASURE: int = 8  # CRM and following
    COMPONENTS: int = 9  # of a finite mixture
    # What several kernels do, so that it is compiled once: of all models,
    REFRESH: int = 10
    GROWTH: int = 11
    SET_KERNEL: int = 12  # of density regression alone,
    REFRESH_LOCATIONS: int = 13
    REBUILD_LOG_K: int = 14
    ADD_LOG_K: int = 15
    LOCATION_SUM: int = 16
    JOIN: int = 17
    WITHOUT: int = 18
    ALGORITHM8: int = 19  # of models with explicit parameters,
    REDRAW_CELLS: int = 20  # with cells that are drawn,
    DRAW_UNSEEN: int = 21  # of density regression too: which it is the random measure says
    # and following: the kernel of each covariate; then where there are SCALES for each matrix COLUMN and OF_DEGREE
    COVARIATES: int = 22


class _Block(NamedTuple):
    """Columns of `Data.block`: where the parts of a block of responses begin, and the entry points of its family.

    y[:, FIRST:LAST] are its responses, or indptr[FIRST:LAST] its row pointers; y[:, INPUT:INPUT_LAST] its inputs; then where its part
    begins of means, stat, theta and constant.  Entry points are in the order of `nrmmix.model.families.base.Entries`; the last ten are 0
    where a family does without.
    """

    FIRST: int = 0
    LAST: int = 1
    INPUT: int = 2
    INPUT_LAST: int = 3
    MEANS: int = 4
    STAT: int = 5
    THETA: int = 6
    CONSTANT: int = 7
    EMPTY: int = 8
    UPDATE: int = 9
    SCORE: int = 10
    MARGINAL: int = 11
    SAMPLE: int = 12
    DENSITY: int = 13
    MEAN: int = 14
    MEAN_THETA: int = 15
    ALONE: int = 16
    IMPUTE: int = 17
    REDRAW: int = 18
    COMBINE: int = 19
    AFFINITY: int = 20
    SCORE_FOUR: int = 21
    TRANSFER: int = 22
    BOUND: int = 23
    SCORE_GAPS: int = 24
    REDRAW_SHARED: int = 25


Count, Hyper, Setup, Block = _Count(), _Hyper(), _Setup(), _Block()

GIVE_UP = 2  # a value of HALT, beside 0 and 1
HEED_EVERY = 1024  # observations between two looks at it

# Scratch.four
FOUR = 4  # observations that a sweep scores at once
ROWS_OF_FOUR, OWN_OF_FOUR = 0, FOUR  # which, and the clusters that they are in with others, or -1
CHANGED = 2 * FOUR  # how many clusters have changed since; behind it which

# Scratch.by_location
LOG_ROW, FACTOR = 4, 5  # a row of log K, and of one of its factors
LOCATION_ROWS = 6

# Data.hyperprior has a row for each entry of hyper: kind and two parameters.
FIXED, GAMMA, BETA, LOGNORMAL = 0, 1, 2, 3

# Rows.missing: cells of which nothing is known, which are drawn with the cluster of their row and do not count in its scores; and those of
# which limits are known, numbers and counts, which count as data and are drawn once a sweep.
MISSING, CENSORED, CENSORED_COUNT = 1, 2, 3
# Columns of Data.censored
OF_ROW, OF_COLUMN, IS_COUNT = 0, 1, 2

# Data.setup[Setup.COVARIATES:]
COLUMN, OF_DEGREE = 0, 1  # the covariate whose width scales it, -1 where none does; k: it is -d^k / k times width^-k
LOGARITHM = -1  # in place of a degree: it is -d times -log width
# The random measure.  CRM: completely random, normalised, of given mass; STABLE: of mass sigma and tau = 0.
# PITMAN_YOR: its mass a gamma variable, integrated out; FINITE: the same with sigma = -mass / COMPONENTS.  GIBBS_TYPE: Data.log_V.
CRM, PITMAN_YOR, FINITE, STABLE, GIBBS_TYPE = 0, 1, 2, 3, 4

# What asks for entry points of families: every chain, search and prediction; Gibbs sweeps; moves that draw the parameters of atoms; trees;
# expected responses.
OF_COLUMNS = (
    Block.EMPTY, Block.UPDATE, Block.SCORE, Block.MARGINAL, Block.ALONE, Block.IMPUTE, Block.REDRAW, Block.SCORE_GAPS, Block.REDRAW_SHARED,
)
OF_SWEEPS = (Block.SCORE_FOUR, Block.TRANSFER)
OF_ATOMS = (Block.SAMPLE, Block.DENSITY)
OF_UNIONS = (Block.COMBINE, Block.AFFINITY)
OF_MEANS = (Block.MEAN, Block.MEAN_THETA)
ENTRIES = tuple(range(Block.EMPTY, len(Block)))


@handle
class Rows(NamedTuple):
    """Rows as component families read them: the observations, and their own constants."""

    y: F2  # (n, d + e): responses in the coordinates of the kernels, NaN where missing, then inputs
    missing: U2  # (n, d + e) uint8: MISSING, CENSORED or CENSORED_COUNT in cells that the chain draws; (0, 0) where there are none
    indptr: I1  # sparse counts by row; empty where there are none
    indices: I1
    counts: F1
    constant: F1  # hyperparameters and tables of all blocks


@handle
class Data(NamedTuple):
    """Constant during a run."""

    rows: Rows
    block: I2  # (blocks, len(Block)) int64
    log_prior_predictive: F1  # (n,) log p(y_i)
    group: I1  # (n,) covariate group
    group_size: F1  # (G,) float64
    distance: F3  # (D, G, P)
    R0: F1  # (P,)
    hyperprior: F2  # (3 + D, 3)
    setup: I1  # (Setup.COVARIATES + D + 2 S,) int64; S = 0 where there are no SCALES
    explicit: I1  # rows of stat that hold parameters; none where all families are conjugate
    shared: I1  # places in rows.constant of parameters that all clusters share, drawn given all of them
    log_V: F2  # (2, n + 2) log V_n(k) and log V_(n + 1)(k) of a Gibbs-type prior; (0, 0) for others
    guide: I3  # (2, blocks + 1, len(Block)) of `nrmmix.kernels.trees.guide_data`; (0, 0, len(Block)) where trees have no guide of their own
    log_guide: F1  # (n,) log p(y_i, x_i) by the guide; likewise (0,)
    code_log_K: F3  # (q, 1 + N, G) log kernels of the codes of sparse products, 0 of code 0; (0, 0, 0) for other kernels
    code_K: F3  # and their exponentials
    n_codes: I1  # (q,) codes of each covariate beside 0
    inclusion_prior: F2  # (q, 2) parameters of the beta prior of `State.inclusion`, 0 where it is fixed
    censored: I2  # (cells, 3) row and column in rows.y of each censored cell, row by row, and 1 where it is a count
    limit: F2  # (cells, 2) its limits, of which one may be infinite; of a count the upper one is excluded

    @property
    def complete(self) -> Rows:
        """The rows with no cell marked that the chain draws: all count as observed."""
        return self.rows._replace(missing=self.rows.missing[:0])

    @property
    def views(self) -> tuple[Data, ...]:
        """The data as tree-guided moves read them, by the numbers of `nrmmix.kernels.trees.guide_data`."""
        silent, speaking = self.guide if len(self.guide) else (self.block, self.block)
        guide = self._replace(block=speaking, log_prior_predictive=self.log_guide if len(self.guide) else self.log_prior_predictive)
        y = np.where(self.rows.missing >= CENSORED, self.rows.y, 0.0) if self.rows.missing.size else self.rows.y
        constant = self.rows.constant.copy() if len(self.shared) else self.rows.constant  # shared parameters as they start
        made = self._replace(block=silent), guide, guide._replace(rows=self.rows._replace(y=y, constant=constant))
        for one in made:
            vars(one)["views"] = ()
        return made


# Memory.tally: for each kind of proposal of a move so many columns, counted since the end of tuning.
PROPOSED, ACCEPTED, FINITE_RATIOS, LOG_RATIO, LOG_RATIO_2, SKIPPED = 0, 1, 2, 3, 4, 5
TALLY = 6
KINDS = 2  # of proposals that one move may count apart
OPTIONS, LEARNT = 16, 4


@handle
class Memory(NamedTuple):
    """Memory that one move of a chain has to itself; `nrmmix.inference.mcmc.moves` says what each puts where."""

    option: F1  # (OPTIONS,) constant
    learnt: F1  # (LEARNT,) what it has learnt in tuning; saved with the chain
    tally: F1  # (KINDS * TALLY,) counts; saved with the chain
    floats: F1  # scratch, lost between calls unless a call returned NEED_ROOM
    ints: I1  # int64 scratch; likewise
    parts: tuple[Memory, ...] = ()  # memories of other moves that it calls
    divided: Anything = ()  # the scratch as the move divides it, a tuple of its own


@handle
class Program(NamedTuple):
    """The list of moves of a chain, and their memories one after the other."""

    address: I1  # (moves,) int64
    option: F2  # (moves, OPTIONS)
    learnt: F2  # (moves, LEARNT)
    tally: F2  # (moves, KINDS * TALLY)
    work: F2  # (moves, WORK)
    floats: F1
    ints: I1
    memory: tuple[Memory, ...]  # of each, parts of these arrays


# Columns of Program.work: calls in each iteration; pairs scored by one call, averaged in tuning, and in this iteration; 1 where the
# calls of all moves are to score alike.
CALLS, EACH, SCORED, BY_WORK = 0, 1, 2, 3
WORK = 4


@handle
class Scratch(NamedTuple):
    """Working memory of kernels: nothing that the posterior is of or that follows from it, so any kernel may write over it.

    A kernel reads there what it has written, or one that it called; nothing lasts from one call of a move to the next, and no checkpoint
    has it.
    """

    theta: F2  # (T, cap) parameters of atoms, of moves that draw them; T = 0 for others
    trial: F2  # (S, some) statistics of clusters that a move tries
    score: F1  # (cap,) of an observation in each cluster
    work: F2  # (W, cap) of families, FOUR rows of scores, and one row more
    by_location: F2  # (LOCATION_ROWS, P) of updates of the measure; LOG_ROW, FACTOR
    by_group: F2  # (4, G) of moves of many V_g at once
    region: I1  # (G,) int64 of levels of v: the region of each group
    region_A: F2  # (cap, P) of levels of v: what each region has in A
    four: I1  # (4 FOUR + 1,) int64 of sweeps
    proposed_codes: I2  # (P, q) of updates of `State.codes`; (0, 0) where there are none
    occupied_slots: I1  # (P,) 1 where a slot has a cluster; likewise (0,), and so on
    members: I1  # (n,) int64 groups of the members of the clusters at a slot
    tried: F2  # (6, 2 + N or q) two subsets of codes, or chances with which slots use covariates


@handle
class Cache(NamedTuple):
    """Arrays that follow from the state, kept because they are read often: who changes the state makes them agree again.

    `nrmmix.kernels.core.clusters` does so for a label, `nrmmix.kernels.measure.weights.refresh_caches` for v and hyperparameters.
    """

    log_K_sum: F2  # (cap, P) sum_(i in c) log K(x_i, p) at the state's widths; P = 0 here in a mixture
    location_probability: F2  # (cap, P) posterior of the location; likewise
    probability_over_b: F2  # (cap, P) and the same over tau + A; likewise
    log_weight: F1  # (cap,) log (n_c - sigma) - log (tau + A)
    log_size: F1  # (n + 2,) log (m - sigma) by m
    log_rising: F1  # (n + 2,) log Gamma(m - sigma)/Gamma(1 - sigma) by m
    log_next: F1  # (n + 2,) by the number of other clusters: what log_new lacks where the mass is integrated out
    log_scale: F1  # (1,) log mass, or what takes its place, see `nrmmix.kernels.measure.weights.refresh_caches`
    A: F1  # (P,) sum_g V_g K(x_g, p)
    log_new: F1  # (G,) log sum_p R0 mass K (tau + A)^(sigma - 1); see `nrmmix.kernels.measure.weights.refresh_caches`
    log_R0: F1  # (P,)
    log_b: F1  # (P,) log (tau + A), as of the last `refresh_caches`
    inverse_b: F1  # (P,) 1 / (tau + A)
    K: F2  # (G, P)
    log_K: F3  # (S, G, P): log K is sum_s ratio_s log_K_s, see `locations.log_row`; shared by chains; no SCALES: S = 0, mixtures 1
    ratio: F1  # (S,)
    band: I2  # (G, 2) int64: columns of K from the first that is not 0 to the last, which is excluded


@handle
class State(NamedTuple):
    """Variables that the posterior is of, changed by every move; with them what follows from them, and working memory.

    Invariants are in `nrmmix.kernels.core.clusters`.
    """

    labels: I1  # (n,) cluster of each observation, -1 while unassigned
    size: I1  # (cap,)
    stat: F2  # (S, cap) sufficient statistics of the members, and in rows `Data.explicit` parameters
    location: I1  # (cap,) drawn after each sweep of moves
    v: F1  # (G,)
    hyper: F1  # (3 + D,)
    codes: I2  # (P, q) codes of the slots of sparse products, see `nrmmix.kernels.measure.codes`; (0, 0) for other kernels
    inclusion: F1  # (q,) chances with which slots use covariates; (0,) for other kernels
    num: I1  # (len(Count),) int64 counts and flags
    step: F1  # (3 + D,) how wide the slices of hyperparameters are tried first; those of widths are learnt in tuning
    cache: Cache
    scratch: Scratch


def drawn(rows: Rows) -> tuple[np.ndarray, ...]:
    """Rows and columns of the missing cells that the chain draws."""
    return np.nonzero(rows.missing)


def capacity(n_clusters: int) -> int:
    """Room for so many clusters and a few more; never a power of two, whose columns would share cache sets."""
    cap = 32
    while cap - 8 < n_clusters + 3:
        cap *= 2
    return cap - 8


def aligned_zeros(shape: tuple[int, ...], dtype: Any = float) -> np.ndarray:
    """An array that begins with a cache line: where rows have a multiple of eight numbers, no vector of eight of them straddles two."""
    size = math.prod(shape)
    room = np.zeros(size + LINE // 8, dtype)
    first = -room.ctypes.data % LINE // 8
    return room[first : first + size].reshape(shape)


def array_of(state: State, name: str) -> np.ndarray:
    """The array of this name, of a state or of its cache."""
    found: np.ndarray = getattr(state.cache if name in Cache._fields else state, name)
    return found


# Arrays of a state, and of what it holds, over clusters: with the cluster last, and first.
CLUSTER_LAST = ("size", "stat", "location", "log_weight", "theta", "score", "work")
CLUSTER_FIRST = ("log_K_sum", "location_probability", "probability_over_b", "region_A")


def resized(state: Any, cap: int) -> Any:
    """A copy, of a state or of what it holds, with room for `cap` clusters."""

    def columns(a: np.ndarray) -> np.ndarray:
        out = aligned_zeros(a.shape[:-1] + (cap,), a.dtype)
        both = min(cap, a.shape[-1])
        out[..., :both] = a[..., :both]
        return out

    made: dict[str, Any] = {}
    for name, value in state._asdict().items():
        if isinstance(value, tuple):
            made[name] = resized(value, cap)
        elif name in CLUSTER_LAST:
            made[name] = columns(value)
        elif name in CLUSTER_FIRST:
            made[name] = np.ascontiguousarray(columns(value.T).T)
    return state._replace(**made)


def enlarged(state: State) -> State:
    """A copy with room for about twice as many clusters."""
    return resized(state, 2 * state.size.shape[0] + 8)
