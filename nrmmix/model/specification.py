"""The specification of a model: all that is settled before anything is sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nrmmix.common.messages import listed
from nrmmix.model.families import Blocks, Family, Gaussian, assign, designs
from nrmmix.model.frame.formula import ModelFrame, model_frame
from nrmmix.model.priors.covariate_kernels import CovariateKernel, SquaredExponential
from nrmmix.model.priors.grid import Grid
from nrmmix.model.priors.hyperpriors import Gamma, Hyperparameter, hyper_start
from nrmmix.model.priors.measures import DirichletProcess, Prior


class Specification:
    """What is fitted: data, random measure, component families, covariate kernel.  It prints itself, and fits nothing.

    Parameters, attributes and errors are those of `nrmmix.Model`, which adds the methods that fit and evaluate.
    """

    def __init__(
        self, formula: str | None = None, data: Any = None, *, family: Family | Mapping[Any, Family] | None = None,
        prior: Prior | None = None, kernel: CovariateKernel | None = None, missing: str = "drop",
    ) -> None:
        if data is None:
            raise ValueError("data is missing; give a DataFrame, or with formula=None an array.")
        family = Gaussian() if family is None else family
        prior = DirichletProcess() if prior is None else prior
        if not isinstance(family, Mapping):
            _check_type("family", family, Family, "nm.Gaussian()")
        _check_type("prior", prior, Prior, "nm.DirichletProcess() or nm.NGGP()")
        if kernel is not None:
            _check_type("kernel", kernel, CovariateKernel, "nm.SquaredExponential() or nm.Box(width)")
        if isinstance(data, ModelFrame):
            self.frame = data
        else:
            self.frame = model_frame(formula, data, missing, lambda names: assign(family, names).reads, designs(family))
        self.formula = formula
        self.prior = prior
        self.measure = prior.kind_of(self.frame.covariates is not None)
        self.log_V = prior.log_tables(self.n_obs)
        self.blocks = Blocks.resolved(assign(family, self.frame.response_names), self.frame)
        self.family: Family | dict[Any, Family] = self.blocks.blocks[0].family
        if isinstance(family, Mapping):
            self.family = dict(zip(family, (block.family for block in self.blocks.blocks), strict=True))
        self.kernel: CovariateKernel | None = None
        self.grid: Grid | None = None
        if self.frame.covariates is not None:
            self.kernel = SquaredExponential() if kernel is None else kernel
            self.grid = self.kernel.grid(self.frame.covariates, self.frame.covariate_names)
            self._check_reach(self.frame.covariates, self.frame.index)
        elif kernel is not None:
            raise ValueError("kernel is given but the formula has no covariates; write `response ~ covariate`.")
        self.packed = self.blocks.pack(self.frame.response, self.frame.inputs)

    @property
    def n_obs(self) -> int:
        return self.frame.response.shape[0]

    @property
    def n_dim(self) -> int:
        return self.frame.response.shape[1]

    @property
    def is_regression(self) -> bool:
        return self.grid is not None

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

    @property
    def widths(self) -> tuple[Hyperparameter, ...]:
        if self.kernel is None:
            return ()
        return self.kernel.width_of(len(self.frame.covariate_names), self.frame.covariate_names)

    @property
    def width_names(self) -> tuple[str, ...]:
        """Names of the widths among the draws: `width`, or one for each covariate."""
        if self.kernel is None:
            return ()
        if self.kernel.shared_width:
            return ("width",)
        return tuple(f"width_{name}" for name in self.frame.covariate_names)

    @property
    def hyperparameters(self) -> dict[str, Hyperparameter]:
        """Numbers or priors, by their names among the draws."""
        return {"mass": self.prior.mass, "sigma": self.prior.sigma} | dict(zip(self.width_names, self.widths, strict=False))

    @property
    def sampled(self) -> tuple[str, ...]:
        """Names of the hyperparameters that are sampled."""
        return tuple(name for name, value in self.hyperparameters.items() if not isinstance(value, float))

    @property
    def title(self) -> str:
        return "Kernel-NRM density regression" if self.is_regression else "NRM mixture"

    def width_of_each(self, widths: Sequence[float]) -> np.ndarray:
        """Widths by the names among the draws, or of one for all, as one for each covariate."""
        return np.resize(np.array(widths, dtype=float), len(self.widths))

    def __str__(self) -> str:
        lines = [("formula", self.formula or "(every column)")]
        dropped = len(self.frame.used) - self.n_obs
        text = f"{self.n_obs} rows" + (f" ({dropped} dropped: missing values)" if dropped else "")
        names = listed(self.frame.response_names) if self.frame.is_sparse else ", ".join(self.frame.response_names)
        lines.append(("data", f"{text}; response{'s' if self.n_dim > 1 else ''} {names}"))
        lines.append(("prior", f"{self.prior} ({self.prior.title})"))
        lines += self.blocks.describe()
        if self.kernel is not None and self.grid is not None:
            lines.append(("kernel", f"{self.kernel}: {self.kernel.formula}"))
            scaled = "scaled to [0, 1]" if self.kernel.scale == "unit" else "in their own units"
            count = f"{len(self.grid.values)} distinct values, {len(self.grid.locations)} locations"
            lines.append(("covariates", f"{', '.join(self.frame.covariate_names)} ({count}), {scaled}"))
        return "\n".join([self.title] + [f"  {label:<11}{text}" for label, text in lines])

    __repr__ = __str__

    def start_widths(self) -> np.ndarray:
        return np.array([hyper_start(w) for w in self.widths])

    def _check_reach(self, covariates: np.ndarray, index: Any) -> None:
        """Every observation must be within reach of a location at fixed widths, or at the start of sampled ones."""
        log_K = self.kernel.log_kernel(self.grid.distance, self.start_widths())
        out = ~np.isfinite(log_K).any(axis=1)
        if out.any():
            row = int(np.flatnonzero(out[self.grid.group])[0])
            raise ValueError(
                f"row {index[row]!r} ({', '.join(self.frame.covariate_names)} = {covariates[row].tolist()}) is out of reach of "
                f"every location of {self.kernel}; widen the kernel or add locations near it."
            )
        idle = ~np.isfinite(log_K).any(axis=0)
        if idle.any() and self.prior.tau == 0.0:
            place = self.grid.locations[np.flatnonzero(idle)[0]].tolist()
            raise ValueError(
                f"the location {place} of {self.kernel} is out of reach of every row, and nm.NormalizedStable, whose atoms have no scale "
                "of their own, says nothing of those there; leave the location out, widen the kernel, or take nm.PitmanYor."
            )


def _check_type(name: str, value: Any, wanted: type, example: str) -> None:
    if isinstance(value, type) and issubclass(value, wanted):
        raise ValueError(f"{name} is the class {value.__name__}; make an object of it, {value.__name__}(...).")
    if not isinstance(value, wanted):
        raise ValueError(f"{name} must be an object such as {example}, not {value!r}.")
