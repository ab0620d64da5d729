"""A specification as arrays for kernels: the only writer of their layout."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nrmmix.kernels.core import locations
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.core.slicing import STEP
from nrmmix.kernels.measure import auxiliary, hyper, masses, nrm, weights
from nrmmix.kernels.moves import algorithm8, imputation
from nrmmix.model.guide import guided, size_of
from nrmmix.model.priors.hyperpriors import hyper_row
from nrmmix.model.specification import Specification


def data_of(model: Specification, entries: Collection[int] = layout.ENTRIES, moves: bool = True) -> layout.Data:
    """Return what is constant during a run.  Rows and constants are copies: chains write imputed cells and shared parameters into them.

    `entries` are the columns of entry points that are filled in, for an address is that of a compiled function, and compiling takes time.
    Where there are none, arrays are made for their shapes, and no kernel may be called on them.  Without `moves` none may be that changes
    a partition or what is drawn with it: states of recorded draws do without.
    """
    n, packed, grid = model.n_held, model.packed, model.grid
    if grid is None:
        group, distance = np.zeros(n, np.int64), np.zeros((0, 1, 1))
    else:
        group, distance = grid.group, grid.distance
    G, slots = int(group.max(initial=0)) + 1, model.slots
    return layout.Data(
        rows=packed.own_rows(),
        block=_block_table(model, entries),
        log_prior_predictive=np.zeros(n),
        group=group,
        group_size=np.bincount(group, minlength=G).astype(float),
        distance=distance,
        R0=np.ones(1) if grid is None else grid.weights.copy(),
        hyperprior=_hyperpriors(model),
        setup=_setup(model, len(entries) > 0, moves),
        explicit=packed.explicit,
        shared=packed.shared,
        log_V=model.log_V,
        guide=np.zeros((0, 0, len(layout.Block)), np.int64),
        log_guide=np.zeros(0),
        code_log_K=np.zeros((0, 0, 0)) if slots is None else slots.code_log_K,
        code_K=np.zeros((0, 0, 0)) if slots is None else slots.code_K,
        n_codes=np.zeros(0, np.int64) if slots is None else slots.n_codes,
        inclusion_prior=np.zeros((0, 2)) if slots is None else slots.inclusion_prior,
        censored=packed.censored,
        limit=packed.limit,
    )


def _block_table(model: Specification, entries: Collection[int]) -> np.ndarray:
    """(blocks, BLOCK): where each block's parts of the arrays begin, and the addresses of its entry points."""
    packed = model.packed
    block = np.zeros((len(packed.table), len(layout.Block)), np.int64)
    block[:, : layout.Block.EMPTY] = packed.table
    provide(model, block, [one for one in entries if one != layout.Block.SCORE_GAPS or packed.rows.missing.size])
    return block


def provide(model: Specification, block: np.ndarray, entries: Collection[int]) -> None:
    """Fill in the addresses of further entry points, where blocks have them, before a kernel is called that needs them."""
    for row, those in zip(block, model.packed.entries, strict=True):
        row[list(entries)] = those.addresses([column - layout.Block.EMPTY for column in entries])


def _hyperpriors(model: Specification) -> np.ndarray:
    """(3 + D, 3): kind and parameters of the priors of mass, sigma, tau and the widths."""
    shared = model.kernel is not None and model.kernel.shared_width
    rows = [hyper_row(model.prior.mass), hyper_row(model.prior.sigma), hyper_row(1.0)]
    rows += [hyper_row(1.0 if shared and j > 0 else w) for j, w in enumerate(model.widths)]
    return np.array(rows)


def _draw_unseen(model: Specification) -> Entry:
    """Return what draws the masses of atoms without clusters."""
    if model.measure == layout.FINITE:
        return masses.draw_unseen_of_finite
    return masses.draw_unseen_of_dirichlet if model.prior.sigma == 0 else masses.draw_unseen


def has_sides(model: Specification) -> bool:
    """Whether locations lie along one number, and unseen masses have gamma laws, as `nrmmix.kernels.measure.sides` needs them."""
    if not model.is_regression or model.slots is not None or model.measure != layout.CRM or model.prior.sigma != 0:
        return False
    return model.frame.is_category.tolist() == [False]


def _setup(model: Specification, is_called: bool, moves: bool) -> np.ndarray:
    entries = model.covariate_entries
    scales = np.array(model.scales, np.int64).ravel()
    D = 0 if model.grid is None else len(model.grid.distance)
    setup = np.zeros(layout.Setup.COVARIATES + D + len(scales), np.int64)
    setup[layout.Setup.JOINT_WITH_V] = int(model.has_v)
    setup[layout.Setup.SHARED_WIDTH] = int(model.kernel is not None and model.kernel.shared_width)
    setup[layout.Setup.SCALES] = int(len(scales) > 0)
    setup[layout.Setup.COVARIATES : layout.Setup.COVARIATES + len(entries)] = [entry.address if is_called else 0 for entry in entries]
    setup[layout.Setup.COVARIATES + D :] = scales
    setup[layout.Setup.MEASURE], setup[layout.Setup.COMPONENTS] = model.measure, model.prior.components
    located, conjugate = moves and model.is_regression, model.has_v and model.has_gamma_mass
    entry_points = {
        layout.Setup.REFRESH: (weights.refresh_caches_entry, True),
        layout.Setup.GROWTH: (nrm.total_growth_entry, True),
        layout.Setup.SET_KERNEL: (nrm.set_kernel_entry if model.slots is None else nrm.set_kernel_of_slots, located),
        layout.Setup.DRAW_UNSEEN: (_draw_unseen(model), located),
        layout.Setup.REFRESH_LOCATIONS: (locations.refresh_locations_entry, located),
        layout.Setup.REBUILD_LOG_K: (locations.rebuild_log_K_entry, located),
        layout.Setup.ADD_LOG_K: (locations.add_log_K_entry, located),
        layout.Setup.LOCATION_SUM: (locations.log_location_sum_entry, located),
        layout.Setup.JOIN: (locations.location_weights_entry, located),
        layout.Setup.WITHOUT: (locations.location_weight_without_entry, located),
        layout.Setup.ALGORITHM8: (algorithm8.algorithm8_one, moves and len(model.packed.explicit) > 0),
        layout.Setup.REDRAW_CELLS: (imputation.redraw_missing_cells, moves and model.packed.rows.missing.size > 0),
        layout.Setup.LOG_KERNEL: (locations.evaluate_log_K, located and not model.scales),
        layout.Setup.STRETCH_DENSITY: (auxiliary.log_density_stretch, located),
        layout.Setup.SIGMA_DENSITY: (hyper.log_density_sigma, moves and "sigma" in model.sampled),
        layout.Setup.MASS_DENSITY: (hyper.log_density_mass, moves and "mass" in model.sampled and not conjugate),
        layout.Setup.WIDTH_DENSITY: (hyper.log_density_width, moves and any(name in model.sampled for name in model.width_names)),
    }
    for place, (one, used) in entry_points.items():  # compiled only where used
        setup[place] = one.address if used and is_called else 0
    return setup


def state_of(
    model: Specification, data: layout.Data, n_clusters: int, n_trial: int = 0, with_theta: bool = False, with_guide: bool = False
) -> layout.State:
    """A state with room for so many clusters, nothing assigned, hyperparameters at their starting values.

    `n_trial`, `with_theta` and `with_guide`: columns of trial clusters, parameters and a guide's statistics for moves that need them.
    """
    n, packed = model.n_held, model.packed
    n_stat, n_work = size_of(model, with_guide)
    G, P, slots = len(data.group_size), data.distance.shape[2], model.slots
    codes, tried = (0, 0) if slots is None else (P, len(slots.n_codes)), 0 if slots is None else slots.n_tried
    cap = layout.capacity(n_clusters)
    start = [*model.prior.start(), model.prior.tau, *model.start_widths()]
    if slots is not None:
        log_K = np.zeros((1, G, P))  # each chain's own
    else:
        log_K = model.log_kernels if model.scales else np.zeros((1 - int(model.is_regression), G, P))
    scratch = layout.Scratch(
        theta=np.zeros((packed.n_theta if with_theta else 0, cap)),
        trial=layout.aligned_zeros((n_stat, n_trial)),
        score=layout.aligned_zeros((cap,)),
        work=layout.aligned_zeros((n_work + layout.FOUR + 1, cap)),
        by_location=np.zeros((layout.LOCATION_ROWS, P)),
        by_group=np.zeros((4, G)),
        region=np.zeros(G, np.int64),
        region_A=np.zeros((cap, P if model.is_regression else 0)),
        four=np.zeros(4 * layout.FOUR + 1, np.int64),
        proposed_codes=np.zeros(codes, np.int64),
        occupied_slots=np.zeros(codes[0], np.int64),
        members=np.zeros(0 if slots is None else n, np.int64),
        tried=np.zeros((6, tried)),
    )
    cache = layout.Cache(
        log_K_sum=np.zeros((cap, P if model.is_regression else 0)),
        location_probability=np.zeros((cap, P if model.is_regression else 0)),
        probability_over_b=np.zeros((cap, P if model.is_regression else 0)),
        log_weight=np.zeros(cap),
        log_size=np.zeros(n + 2),
        log_rising=np.zeros(n + 2),
        log_next=np.zeros(n + 2),
        log_scale=np.zeros(1),
        A=np.zeros(P),
        log_new=np.zeros(G),
        log_R0=np.zeros(P),
        log_b=np.zeros(P),
        inverse_b=np.zeros(P),
        K=np.ones((G, P)),
        log_K=log_K,
        ratio=np.ones(len(model.scales) or 1 - int(model.is_regression)),
        band=np.tile([0, P], (G, 1)),
    )
    return layout.State(
        labels=np.full(n, -1, np.int64),
        size=np.zeros(cap, np.int64),
        stat=layout.aligned_zeros((n_stat, cap)),
        location=np.zeros(cap, np.int64),
        v=data.group_size.copy() if model.has_v else np.ones(G),
        hyper=np.array(start, dtype=float),
        codes=np.zeros(codes, np.int64),
        inclusion=np.zeros(0) if slots is None else slots.start_inclusion(),
        num=np.zeros(len(layout.Count), np.int64),
        step=np.full(len(start), STEP),
        cache=cache,
        scratch=scratch,
    )


def arrays_of(
    model: Specification, n_clusters: int, n_trial: int = 0, with_theta: bool = False, with_guide: bool = False,
    entries: Collection[int] = layout.ENTRIES, moves: bool = True,
) -> tuple[layout.Data, layout.State]:
    """Both at once."""
    data = data_of(model, entries, moves)
    if with_guide and model.is_regression:
        data = guided(model, data, entries)
    return data, state_of(model, data, n_clusters, n_trial, with_theta, with_guide)
