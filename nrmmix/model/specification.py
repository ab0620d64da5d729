"""The specification of a model: all that is settled before anything is sampled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal
from warnings import catch_warnings, simplefilter

import numpy as np

from nrmmix.common import machine
from nrmmix.common.messages import guided, instead_of, listed, printable, quoted, shown
from nrmmix.common.names import bare
from nrmmix.common.registry import shell_names
from nrmmix.common.warnings import warn
from nrmmix.kernels.core.covariates import DEGREES, LOGARITHM, OUT_OF_REACH
from nrmmix.kernels.core.entry import Entry
from nrmmix.model.default_design import default_family
from nrmmix.model.families import Blocks, Family, Gaussian, Regression, assign, designs
from nrmmix.model.families.blocks import PackedBlocks, exposures, places_of
from nrmmix.model.families.exponential import NotExponential, Stacked, Statistics
from nrmmix.model.families.gaussian.family import OTHER_WORDS
from nrmmix.model.families.unusual import warn_of_unusual
from nrmmix.model.frame import tables
from nrmmix.model.frame.columns.dates import describe
from nrmmix.model.frame.columns.weights import insist_on_counts, weighed
from nrmmix.model.frame.formula import ModelFrame, model_frame
from nrmmix.model.frame.sources.opening import source_of
from nrmmix.model.frame.sparse import is_sparse
from nrmmix.model.frame.streaming import StreamedFrame, gather, streamed_frame
from nrmmix.model.frame.syntax import dot_without
from nrmmix.model.frame.whole import is_file
from nrmmix.model.priors.covariate_kernels import CovariateKernel, SquaredExponential
from nrmmix.model.priors.grid import Grid
from nrmmix.model.priors.hyperpriors import Gamma, Hyperparameter, hyper_start
from nrmmix.model.priors.measures import DirichletProcess, Prior
from nrmmix.model.priors.sparse_product import SlotGrid, SparseProduct
from nrmmix.model.priors.widths import PerAtom

if TYPE_CHECKING:
    from nrmmix.model.families.exponential.streamed import StreamedRows

MIN_EFFECTIVE = 3.0  # observations that an atom sees, of a kernel that is so narrow that it is warned of
MANY_ROWS = 200_000  # from which variational inference, the only method there, gains by a finer kernel
UNLIKE = 100.0  # ratio of ranges that no one width suits


class Specification:
    """Specification of a fit: data, random measure, component families, covariate kernel.  It prints itself, and fits nothing.

    Parameters, attributes and errors are those of `nrmmix.Model`, which adds the methods that fit and evaluate.
    """

    @guided
    def __init__(
        self, formula: str | None = None, data: Any = None, *, family: Family | str | Mapping[Any, Family | str] | None = None,
        prior: Prior | str | float | None = None, kernel: CovariateKernel | str | None = None,
        missing: Literal["drop", "raise", "marginalize"] = "drop", weights: Any = None,
    ) -> None:
        if data is None and not (formula is None or isinstance(formula, str)):
            raise ValueError(f"data is missing, and the first argument, a formula, is {type(formula).__name__}; name the data, data=...")
        if data is None:
            raise ValueError("data is missing; give a DataFrame, or with formula=None an array.")
        # of a file, which may be read after all: what a model of its table is made from
        given = {"family": family, "prior": prior, "kernel": kernel, "missing": missing, "weights": weights}
        self.of_file = (data, given) if is_file(data) else None
        own_prior, own_family, own_kernel = _prior(prior), _family(family), _by_name("kernel", kernel)  # of any type until they are checked
        if own_family is not None and not isinstance(own_family, Mapping):
            _check_type("family", own_family, Family, "nm.Gaussian()")
        _check_type("prior", own_prior, Prior, "nm.DirichletProcess() or nm.NGGP()")
        if own_kernel is not None:
            _check_type("kernel", own_kernel, CovariateKernel, "nm.SquaredExponential() or nm.Box(width)")
        by_default, self._given = own_family is None, (own_family, own_prior, own_kernel)
        source, gathered, counts = None if isinstance(data, ModelFrame) else source_of(data), None, None
        is_plain = formula is None and tables.is_plain(data)
        weights = bare(weights) if isinstance(weights, str) else weights
        if not (weights is None or source is None or isinstance(weights, str)):
            raise ValueError(f"weights of {source} are the name of a column of it, not {shown(weights)}.")
        if weights is not None and source is None:
            counts = weighed(data, weights, formula)
            data = counts.data
        if isinstance(formula, str) and "." in formula and not (isinstance(data, ModelFrame) or is_sparse(data)):
            known = source.names if source is not None else tables.as_frame(data).columns
            formula = dot_without(formula, list(known), [*exposures(own_family, known), *([weights] if isinstance(weights, str) else [])])
        table = data
        if by_default and source is not None:
            gathered = gather(formula, source, missing, weights=weights)
            table = gathered.table()
        if by_default:
            by_slots = own_kernel is None or isinstance(own_kernel, SparseProduct)
            rows = None if gathered is None else gathered.n - gathered.idle
            own_family = Gaussian() if isinstance(data, ModelFrame) else default_family(formula, table, by_slots, rows)

        def framed() -> ModelFrame:
            def reads(names: Sequence[str]) -> Sequence[str]:
                return assign(own_family, names).reads

            if source is not None:
                def blocks(few: ModelFrame) -> list[tuple[np.ndarray, np.ndarray]]:
                    return places_of(assign(own_family, few.response_names), few)

                return streamed_frame(formula, source, missing, reads, designs(own_family), gathered, weights, blocks)
            made = model_frame(formula, data, missing, reads, designs(own_family), weight=None if counts is None else counts.weight)
            return made if counts is None else counts.of(made, is_plain)

        self.frame = data if isinstance(data, ModelFrame) else framed()
        if by_default and source is None and isinstance(own_family, Regression) and _spans_constant(self.frame.inputs):
            design = own_family.design.replace("1 + ", "0 + ", 1)
            own_family = Regression(design, shrinkage=own_family.shrinkage)  # as of cr(x), a basis that has the constant in it
            with catch_warnings():  # of the rows that are dropped, once
                simplefilter("ignore")
                self.frame = framed()
        self.formula = formula
        self.prior: Prior = own_prior
        self.measure = own_prior.kind_of(self.frame.covariates is not None)
        self.log_V = own_prior.log_tables(self.n_obs)
        self.blocks = Blocks.resolved(assign(own_family, self.frame.response_names), self.frame)
        self.family: Family | dict[Any, Family] = self.blocks.blocks[0].family
        if isinstance(own_family, Mapping):
            self.family = dict(zip(own_family, (block.family for block in self.blocks.blocks), strict=True))
        self.kernel: CovariateKernel | None = None
        self.grid: Grid | None = None
        if self.frame.covariates is not None:
            names, category = self.frame.covariate_names, self.frame.is_category
            own_kernel = _default_kernel(names, category, self.frame.size) if own_kernel is None else own_kernel
            self.kernel = own_kernel.named(names).resolved(len(names))
            self._by_covariate = self.kernel.by_covariate(names, category)
            counted = self.frame.places.covariates if isinstance(self.frame, StreamedFrame) and not self.frame.has_first else None
            self.grid = self.kernel.grid(self.frame.covariates, names, category, counted, self.frame.weight)
            if self.slots is None and not self.frame.is_streamed:  # the kernel of a slot is nowhere 0
                self._check_reach(self.frame.covariates, self.frame.index)
        elif own_kernel is not None:
            raise ValueError("kernel is given but the formula has no covariates; write `response ~ covariate`.")
        if not isinstance(data, ModelFrame):
            warn_of_unusual(self.frame, self.blocks)

    @cached_property
    def packed(self) -> PackedBlocks:
        """Rows and families as kernels read them, their tables for as many rows; made when first asked for."""
        return self.blocks.pack(self.frame.response, self.frame.inputs, self.frame.limits)

    def exponential(self) -> Stacked:
        """The exponential forms of the families; a NotExponential, in words, where one has none."""
        if self.frame.limits is not None:
            raise NotExponential(
                "responses are censored, values that chains draw within their limits and that are not integrated out in closed form; "
                'take a chain, method="gibbs" or "tree"'
            )
        return self.blocks.exponential(self.frame.response)

    def statistics(self, exponential: Stacked) -> Statistics | StreamedRows:
        """The fitted rows, ready to be turned into statistics."""
        if isinstance(self.frame, StreamedFrame):
            from nrmmix.model.families.exponential.streamed import StreamedRows

            return StreamedRows(exponential, self.blocks, self.frame)
        return replace(self.blocks.statistics(exponential, self.frame.response, self.frame.inputs), weight=self.frame.weight)

    def expanded(self) -> Specification:
        """The model of the table in which each row stands as often as its weight says; itself where rows have none.

        A ValueError where weights are not whole numbers, or there is no room for the rows.
        """
        frame = self.frame
        if frame.weight is None:
            return self
        insist_on_counts(frame.weight, frame.index)
        size, limit = 24.0 * frame.size * (frame.response.shape[1] + frame.inputs.shape[1] + 4), machine.available() / 2
        if size > limit:
            raise ValueError(
                f"weights: chains and searches repeat rows, and {frame.size:,.0f} of them take about {machine.text(size)}, where there is "
                f'room for {machine.text(limit)}; variational inference takes weights as they are: method="vb" or "memoized_vb".'
            )
        rows = np.repeat(np.arange(self.n_obs), frame.weight.astype(np.int64))
        source = frame.source[rows] if frame.is_sparse and frame.from_array else frame.source.iloc[rows]
        family, prior, kernel = self._given
        if family is None and isinstance(self.family, Regression):
            family = Regression(self.family.design, shrinkage=self.family.shrinkage)  # which the number of rows may change
        with catch_warnings():  # all has been said of the rows that stand once
            simplefilter("ignore")
            made = type(self)(self.formula, source, family=family, prior=prior, kernel=kernel, missing="marginalize")
        made.frame = replace(made.frame, index=frame.index[rows], from_array=frame.from_array)
        return made

    def of_few(self, rows: int) -> Specification:
        """Return the specification with its first rows alone, all else held: to put factors into kernels' arrays."""
        frame, grid, few = self.frame, self.grid, slice(0, rows)
        made = object.__new__(type(self))  # copies are made anew from the data
        vars(made).update(vars(self))
        for name, one in vars(type(self)).items() | vars(Specification).items():
            if isinstance(one, cached_property):
                made.__dict__.pop(name, None)
        made.frame = replace(
            frame, response=frame.response[few], covariates=None if frame.covariates is None else frame.covariates[few],
            inputs=frame.inputs[few], index=frame.index[few], used=np.ones(len(frame.index[few]), bool), source=frame.source[few],
            weight=None,
        )
        if grid is not None:
            group = grid.group[few]
            groups, place = np.unique(group, return_inverse=True)
            distance = grid.distance[:, groups] if grid.distance.shape[1] else grid.distance  # slots have none
            made.grid = replace(grid, values=grid.values[groups], group=place.astype(group.dtype), distance=distance)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by the format of saved fits: entry points of compiled code are made anew."""
        from nrmmix.model.encoding import from_bytes, to_bytes

        return from_bytes, (type(self), to_bytes(self))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    @property
    def n_obs(self) -> int:
        return self.frame.n_used

    @property
    def n_held(self) -> int:
        """Rows that are in memory: all, or of a source the few that stand for them."""
        return self.frame.response.shape[0]

    @property
    def n_dim(self) -> int:
        return self.frame.response.shape[1]

    @property
    def is_regression(self) -> bool:
        return self.grid is not None

    @property
    def slots(self) -> SlotGrid | None:
        """Slots of a sparse product, the codes of which are part of the state; None for other kernels."""
        return self.grid if isinstance(self.grid, SlotGrid) else None

    @property
    def has_gamma_mass(self) -> bool:
        """Whether the mass has a gamma prior, which is conjugate given u, and is that of a completely random measure."""
        return isinstance(self.prior.mass, Gamma) and self.prior.has_given_mass(self.is_regression)

    @property
    def has_u(self) -> bool:
        """Whether the joint of a mixture keeps the auxiliary variable u."""
        return not self.is_regression and not self.prior.integrates_u

    @property
    def has_v(self) -> bool:
        """Whether the joint keeps auxiliary variables: u of a mixture, or V of each covariate group."""
        return self.is_regression or not self.prior.integrates_u

    @cached_property
    def scales(self) -> tuple[tuple[int, int], ...]:
        """Covariates whose width scales each matrix of `log_kernels`, -1 if none, and the degree; see `Cache.log_K`.

        There is none where a width is sampled with which log K changes its form.
        """
        if self.kernel is None:
            return ()
        if self.slots is not None:  # one matrix, as it stands
            return ((-1, 0),)
        entries, degrees = self.covariate_entries, [DEGREES.get(entry) for entry in self.covariate_entries]
        first = degrees[0]
        if first is not None and (len(entries) == 1 or (self.kernel.shared_width and len({*entries}) == 1)):
            return ((0, first),)
        sampled = [j for name, j in self.width_columns.items() if name in self.sampled]
        if sampled and (self.kernel.shared_width or any(degrees[j] is None for j in sampled)):
            return ()
        return ((-1, 0),) * (len(sampled) < len(entries)) + tuple((j, degree) for j in sampled if (degree := degrees[j]) is not None)

    @cached_property
    def log_kernels(self) -> np.ndarray:
        """(S, G, P): matrices of which log K is the scaled sum; kept once for all that read them, none of which may write into it."""
        distance, widths, scaled = self._grid.distance, self.start_widths(), {column for column, _ in self.scales}
        found = []
        for column, degree in self.scales:
            if column < 0:
                own = [part for j, part in enumerate(zip(self._by_covariate, distance, widths, strict=True)) if j not in scaled]
                fixed = sum(part.kernel.log_kernel(d[None], np.array([width])) for part, d, width in own)
                found.append(fixed if len(self.scales) > 1 else np.where(fixed > -np.inf, fixed, OUT_OF_REACH))
            else:
                d = distance if len(self.scales) == 1 else distance[column : column + 1]
                found.append(-d.sum(axis=0) if degree == LOGARITHM else -(d**degree).sum(axis=0) / degree)
        return found[0][None] if len(found) == 1 else np.stack(found)  # no read-only array: compiled code takes it for another type

    @property
    def covariate_entries(self) -> tuple[Entry, ...]:
        """Entry point of the kernel of each covariate."""
        return () if self.kernel is None else tuple(part.kernel.entry for part in self._by_covariate)

    @property
    def widths(self) -> tuple[Hyperparameter, ...]:
        """Width of the kernel of each covariate; where atoms have widths of their own, that in which distances are measured."""
        if self.kernel is None:
            return ()
        return tuple(part.kernel.unit_width if isinstance(part.width, PerAtom) else part.width for part in self._by_covariate)

    @property
    def width_columns(self) -> dict[str, int]:
        """Names of the widths that all atoms share, among the draws, and of what covariate each is: `width`, or one for each."""
        if self.kernel is None:
            return {}
        shared = [j for j, part in enumerate(self._by_covariate) if not isinstance(part.width, PerAtom)]
        if self.kernel.shared_width:
            return {self._by_covariate[0].kernel.width_name: 0} if shared else {}
        return {f"{self._by_covariate[j].kernel.width_name}_{self.frame.covariate_names[j]}": j for j in shared}

    @property
    def width_names(self) -> tuple[str, ...]:
        return tuple(self.width_columns)

    @property
    def _grid(self) -> Grid:
        """The grid of a density regression."""
        assert self.grid is not None
        return self.grid

    @property
    def _kernel(self) -> CovariateKernel:
        """The kernel of a density regression."""
        assert self.kernel is not None
        return self.kernel

    def widths_of(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        """Widths (q,) of all covariates from those of `width_names`."""
        widths = self.start_widths()
        for j, value in zip(self.width_columns.values(), values, strict=True):
            widths[slice(None) if self._kernel.shared_width else j] = value
        return widths

    def log_kernel(self, distance: np.ndarray, widths: np.ndarray) -> np.ndarray:
        """log K (m, P) from distances (q, m, P) at widths (q,), or of a sparse product from its tables at codes (P, q)."""
        if self.slots is not None:
            return self.slots.log_K_of(distance, widths)
        return sum(part.kernel.log_kernel(distance[j : j + 1], widths[j : j + 1]) for j, part in enumerate(self._by_covariate))

    @property
    def hyperparameters(self) -> dict[str, Hyperparameter]:
        """Numbers or priors, by their names among the draws."""
        return {"mass": self.prior.mass, "sigma": self.prior.sigma} | {
            name: self.widths[j] for name, j in self.width_columns.items()
        }

    @property
    def sampled(self) -> tuple[str, ...]:
        """Names of the hyperparameters that are sampled."""
        return tuple(name for name, value in self.hyperparameters.items() if not isinstance(value, float))

    @property
    def title(self) -> str:
        return "Kernel-NRM density regression" if self.is_regression else "NRM mixture"

    def __str__(self) -> str:
        lines = [("formula", self.formula or "(every column)")]
        dropped = self.frame.n_rows - self.n_obs
        text = f"{self.n_obs} rows" + (f" ({dropped} dropped: missing values)" if dropped else "")
        if self.frame.is_weighted:
            text = f"{self.n_obs} rows that count as {self.frame.size:,.10g}" + (f" ({dropped} left out)" if dropped else "")
        names = listed(self.frame.response_names) if self.frame.is_sparse else ", ".join(self.frame.response_names)
        if self.frame.limits is not None:
            names += f" ({int((~np.isnan(self.frame.limits[..., 0])).any(axis=1).sum())} rows censored)"
        lines.append(("data", f"{text}; response{'s' if self.n_dim > 1 else ''} {names}"))
        lines.append(("prior", f"{self.prior} ({self.prior.title})"))
        if not self.is_regression and not math.isnan(expected := self.prior.expected_n_clusters(round(self.frame.size))):
            lines.append(("", f"about {expected:.{1 if expected < 10 else 0}f} clusters expected before the data are seen"))
        lines += self.blocks.describe()
        if self.kernel is not None and self.grid is not None:
            lines.append(("kernel", f"{self.kernel}: {self.kernel.formula}"))
            lines.append(("covariates", f"{', '.join(self.frame.covariate_names)} ({self.describe_groups()}), {self.describe_scale()}"))
        lines += [("" if self.grid is not None else "dates", describe(*item)) for item in self.frame.first_dates.items()]
        return "\n".join([self.title] + [f"  {label:<11}{printable(text)}" for label, text in lines])

    __repr__ = __str__

    def describe_groups(self) -> str:
        """Say how many groups and locations there are."""
        if self.slots is not None and self.frame.is_streamed:  # whose rows of values nobody has counted
            return f"{len(self._grid.weights)} slots"
        if self.slots is not None:
            return f"{len(self._grid.values)} distinct values, {len(self._grid.weights)} slots"
        values = "bins at quantiles of the rows, within which they are taken for equal" if self._grid.binned else "distinct values"
        P, pairs = len(self._grid.locations), len(np.unique(np.nan_to_num(self._grid.width), axis=0))
        of = f"{P // pairs} locations x {pairs} widths" if pairs > 1 else f"{P} locations"
        return f"{len(self._grid.values)} {values}, {of}"

    def describe_scale(self) -> str:
        if self.slots is not None:
            return "by level" if self.frame.is_category.all() else "scaled to [0, 1], half by range and half by rank"
        return "scaled to [0, 1]" if self._kernel.scale == "unit" else "in their own units"

    def start_widths(self) -> np.ndarray:
        return np.array([hyper_start(w) for w in self.widths])

    def _check_reach(self, covariates: np.ndarray, index: Any) -> None:
        """Every observation must be within reach of a location at fixed widths, or at the start of sampled ones."""
        log_K = self.log_kernel(self._grid.distance, self.start_widths())
        out = ~np.isfinite(log_K).any(axis=1)
        if out.any():
            row = int(np.flatnonzero(out[self._grid.group])[0])
            raise ValueError(
                f"row {index[row]!r} ({', '.join(self.frame.covariate_names)} = {covariates[row].tolist()}) is out of reach of "
                f"every location of {self.kernel}; widen the kernel or add locations near it."
            )
        idle = ~np.isfinite(log_K).any(axis=0)
        if idle.any() and self.prior.tau == 0.0:
            place = self._grid.locations[np.flatnonzero(idle)[0]].tolist()
            raise ValueError(
                f"the location {place} of {self.kernel} is out of reach of every row, and nm.NormalizedStable, whose atoms have no scale "
                "of their own, says nothing of those there; leave the location out, widen the kernel, or take nm.PitmanYor."
            )
        self._warn_of_reach(log_K)

    def _warn_of_reach(self, log_K: np.ndarray) -> None:
        """Warn of kernels so narrow that an atom sees one group, and of covariates that one width cannot suit."""
        names, kernel = self.frame.covariate_names, self._kernel
        if kernel.scale is None and len(names) > 1 and kernel.shared_width:
            span = np.where(self._grid.scales.category, np.nan, np.ptp(self._grid.values, axis=0))
            if np.nanmax(span) > UNLIKE * np.nanmin(span):
                small, large = names[int(np.nanargmin(span))], names[int(np.nanargmax(span))]
                warn(
                    f"with scale=None one width serves {small!r}, whose range is {np.nanmin(span):.3g}, and {large!r}, whose range is "
                    f"{np.nanmax(span):.3g}; give a width to each, or leave scale=\"unit\"."
                )
        if len(self._grid.values) < 3:
            return
        K = np.exp(np.where(np.isfinite(log_K), log_K, -np.inf))
        rows = np.bincount(self._grid.group, minlength=len(self._grid.values))
        effective = float(np.median(rows @ K))
        if effective < MIN_EFFECTIVE and ((K > 0.01).sum(axis=0) <= 1).all():
            warn(
                f"{kernel} is so narrow that atoms see one covariate value each, {effective:.2g} observations a location in "
                "the median: nothing is shared between values; widen the kernel."
            )


def _prior(given: Any) -> Any:
    """A Dirichlet process by default, and of the mass that a number is; a prior by its name in the shell."""
    if given is None:
        return DirichletProcess()
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    return DirichletProcess(given) if is_number else _by_name("prior", given)


def _family(given: Any) -> Any:
    if isinstance(given, Mapping):
        return {names: _by_name("family", own) for names, own in given.items()}
    return _by_name("family", given)


def _by_name(role: str, given: Any) -> Any:
    """Return what a string names, as on the command line; anything else as it is."""
    if not isinstance(given, str):
        return given
    known = shell_names(role)
    if role == "family" and given in OTHER_WORDS:
        return Gaussian(given)
    if given not in known:
        raise ValueError(f"unknown {role} {given!r}; there are {quoted(known)}, or an object{instead_of(role, given, known)}")
    made, options = known[given]
    needed = [name for name, one in signature(made).parameters.items() if one.default is one.empty and name not in options]
    if needed or getattr(made, "default_widths", ()) is None:
        needed = needed or ["width"]
        with_them = f"nm.{made.__name__}({', '.join(f'{name}=...' for name in needed)})"
        raise ValueError(f"{role} {given!r} needs {listed(needed)}; give an object, {with_them}.")
    return made(**options)


def _spans_constant(inputs: np.ndarray) -> bool:
    """Whether the columns of a design with an intercept span the constant without it, and are independent then.

    If they do, they are dependent once they are centred, whatever their distance from 0 in terms of their range.
    """
    columns = inputs[:, 1:]
    centred = columns - columns.mean(axis=0)
    q = columns.shape[1]
    return bool(q and _rank(centred) == q - 1 and _rank(columns) == q)


def _rank(columns: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-300), tol=1e-8))


def _default_kernel(names: Sequence[str], category: np.ndarray, n: float) -> CovariateKernel:
    """Distances in one number; of several covariates, and of categories, products over those that an atom uses, finer for many rows."""
    if len(names) == 1 and not category.any():
        return SquaredExponential()
    return SparseProduct() if n < MANY_ROWS else SparseProduct(places=21, widths=(0.02, *SparseProduct().widths))


def _check_type(name: str, value: Any, wanted: type, example: str) -> None:
    if isinstance(value, type) and issubclass(value, wanted):
        raise ValueError(f"{name} is the class {value.__name__}; make an object of it, {value.__name__}(...).")
    if not isinstance(value, wanted):
        raise ValueError(f"{name} must be an object such as {example}, not {value!r}.")
