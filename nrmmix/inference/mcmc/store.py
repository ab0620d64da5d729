"""Store of the draws of all chains: labels in small integers, and of all else what is wanted."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np

from nrmmix.common import machine
from nrmmix.common.warnings import warn
from nrmmix.inference.mcmc.chain import Chain, Record
from nrmmix.inference.mcmc.workers import rows_at_once
from nrmmix.kernels import chain as loop
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import as_labels, label_type

KINDS = {  # by what is kept: the arrays of a record that are not
    "all": (),
    "partition": ("location", "A", "explicit", "shared", "imputed", "codes", "inclusion"),
    "scalars": ("labels", "location", "A", "explicit", "shared", "imputed", "codes", "inclusion"),
}
INITIAL_CLUSTERS = 16  # clusters with parameters of their own that there is room for at first


class Store:
    """Draws of all chains, of which `kind` of `KINDS` says what is kept; room for them takes memory as it is filled."""

    def __init__(self, model: Specification, chains: int, draws: int, kind: str = "all") -> None:
        self.model, self.kind, self.chains = model, kind, chains
        self.each = Record.allocate(model, 1)
        self.clusters = INITIAL_CLUSTERS  # with parameters
        self.lock = threading.Lock()
        self.allocate(draws)

    def allocate(self, draws: int) -> None:
        """Empty, for so many draws of each chain."""
        self.draws = draws
        self.arrays = {name: np.zeros((self.chains, draws, *shape), kind) for name, (shape, kind) in self._parts(draws).items()}

    def _parts(self, draws: int) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Shape and type of one draw, by name."""
        parts = {}
        for name, array in self.each._asdict().items():
            shape, kind = array.shape[1:], array.dtype
            if name in KINDS[self.kind] and (name != "A" or self.model.is_regression):  # of a mixture it is u, one number
                shape = (0,) * len(shape)
            if name in ("labels", "location"):
                grid = self.model.grid
                most = 0 if name == "labels" or grid is None or not shape[0] else grid.distance.shape[2] - 1
                kind = label_type((self.chains, draws, *shape), most)
            if name == "explicit" and shape[0]:
                shape = (min(self.clusters, shape[0]), shape[1])
            parts[name] = (shape, kind)
        return parts

    @property
    def bytes_each(self) -> int:
        """Bytes of one draw of all chains."""
        return self.chains * sum(int(np.prod(shape)) * kind.itemsize for shape, kind in self._parts(self.draws).values())

    def attach(self, chain: Chain, number: int, extra: Record | None = None) -> None:
        """Let a chain, the number of which is given, hand its draws over; those it has beyond the shortest chain come first."""
        rows = rows_at_once(self.each, self.draws)
        chain.record, chain.first, chain.sink = Record.allocate(self.model, rows), 0, partial(self.put, number)
        if extra is not None and len(extra.scalars):
            self.put(number, extra, 0)
            chain.first = len(extra.scalars)

    def put(self, number: int, rows: Record, first: int) -> None:
        """Draws of a chain, from draw `first` on."""
        last = first + len(rows.scalars)
        most = int(rows.scalars[:, loop.R_CLUSTERS].max(initial=1))
        with self.lock:
            self._widen(most)
            for name, array in self.arrays.items():
                if not array.size:
                    continue
                values = getattr(rows, name)
                if name == "explicit":
                    values = values[:, : array.shape[2]]
                    array[number, first:last, : values.shape[1]] = values
                else:
                    array[number, first:last] = values

    def _widen(self, clusters: int) -> None:
        """Room for labels and parameters of so many clusters."""
        labels, explicit = self.arrays["labels"], self.arrays["explicit"]
        if clusters - 1 > np.iinfo(labels.dtype).max:
            self.arrays["labels"] = labels.astype(np.int16 if clusters <= 2**15 else np.int32)
        if explicit.size and clusters > explicit.shape[2]:
            self.clusters = min(2 * clusters, self.each.explicit.shape[1])
            self.arrays["explicit"] = np.zeros((*explicit.shape[:2], self.clusters, explicit.shape[3]))
            self.arrays["explicit"][:, :, : explicit.shape[2]] = explicit

    def rows(self, chain: int, first: int, last: int) -> Record:
        """Copies of draws of one chain, as `put` takes them."""
        return Record(*(array[chain, first:last].copy() for array in self.arrays.values()))

    def named(self, draws: int, chains: list[int] | None = None) -> dict[str, np.ndarray]:
        """The first draws of all chains, or of some, in arrays (chain, draw, ...) by the names of `Draws`; of what is kept."""
        part = {name: array[:, :draws] if chains is None else array[chains, :draws] for name, array in self.arrays.items()}
        record, model = Record(**part), self.model
        scalars = record.scalars
        values = {
            "n_clusters": scalars[..., loop.R_CLUSTERS].astype(np.int64), "log_joint": scalars[..., loop.R_JOINT],
            "mass": scalars[..., loop.R_MASS], "sigma": scalars[..., loop.R_SIGMA],
        }
        for name, j in model.width_columns.items():
            values[name] = scalars[..., loop.R_WIDTH + j]
        if self.kind == "all" and model.is_regression:
            values["A"] = record.A
        elif model.has_u:
            values["u"] = record.A[..., 0]
        if self.kind != "scalars":
            values["labels"] = as_labels(record.labels)
        if self.kind == "all" and model.is_regression:
            located = record.location if record.location.shape[-1] else np.zeros_like(record.labels)
            values["locations"] = as_labels(located)
        if record.explicit.shape[-1]:
            K = values["n_clusters"]
            most = int(K.max(initial=0))
            values["theta"] = np.where(np.arange(most) < K[..., None], 0.0, np.nan)[..., None] + record.explicit[:, :, :most]
        if record.shared.shape[-1]:
            values |= {name: record.shared[..., those] for name, those in model.packed.shared_names.items()}
        if record.codes.shape[-1]:
            values |= {"codes": record.codes, "inclusion": record.inclusion}
        if record.imputed.shape[-1]:
            values["imputed"] = model.blocks.in_units(record.imputed, model.packed)
        return values


def joined(first: dict[str, np.ndarray] | None, second: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws, and those that follow them; parameters may be of different numbers of clusters, with NaN for those that are not there."""
    if first is None:
        return second
    out = {}
    for name, values in second.items():
        a, b = first[name], values
        if name == "theta" and a.shape[2] != b.shape[2]:
            size = max(a.shape[2], b.shape[2])
            a, b = (np.pad(x, ((0, 0), (0, 0), (0, size - x.shape[2]), (0, 0)), constant_values=np.nan) for x in (a, b))
        if name in ("labels", "locations"):
            most = max(int(a.max(initial=0)), int(b.max(initial=0)))
            kind = label_type((a.shape[0], a.shape[1] + b.shape[1], *a.shape[2:]), most)
            out[name] = np.concatenate([a, b], axis=1, dtype=kind, casting="same_kind")
        else:
            out[name] = np.concatenate([a, b], axis=1)
    return out


def check_memory(store: Store) -> None:
    """Refuse a store that this machine has no room for, and warn of one that takes more than half: pages are taken only when written."""
    needed, free = store.draws * store.bytes_each, machine.available()
    if needed > free:
        raise ValueError(
            f"draws={store.draws} of {store.chains} chains would take {machine.text(needed)}, and this machine has "
            f"{machine.text(free)} free; "
            'take fewer draws, with thin= to spread them over as many iterations, or keep less of each: store="partition" or "scalars".'
        )
    if needed > machine.SHARE * free:
        warn(
            f"draws={store.draws} of {store.chains} chains will take {machine.text(needed)} of the {machine.text(free)} of memory that are "
            'free; fewer draws, or store="partition" or "scalars", take less.'
        )
