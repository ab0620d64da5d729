"""Files of formats before 5: draws of density regression held v, by group, and the log joint density was one in v."""

from __future__ import annotations

from typing import Any

import numpy as np

from nrmmix.model.encoding import NotKnown
from nrmmix.model.frame.formula import ModelFrame
from nrmmix.model.specification import Specification

OF_A = 5  # the format from which on draws hold A, by location


def check_covariates(frame: ModelFrame) -> None:
    """Categories were columns of 0 and 1."""
    if frame.is_category.any():
        name = frame.covariate_names[int(frame.is_category.argmax())]
        raise NotKnown(f"its covariate {name!r} holds categories, which this version compares otherwise; fit the model again.")


def with_all_options(kernel: dict[str, Any] | None) -> dict[str, Any] | None:
    """Of the options that kernels have got since."""
    return None if kernel is None else {"weights": None, "groups": None} | kernel


def A_and_log_joint(model: Specification, v: np.ndarray, log_joint: np.ndarray, widths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A (..., P) of draws of v (..., G) and widths (..., W), and the density in log v of that in v."""
    shape, P = v.shape[:-1], len(model.grid.locations)
    A, each = np.empty((int(np.prod(shape)), P)), v.reshape(-1, v.shape[-1])
    for t, row in enumerate(widths.reshape(len(A), -1)):
        A[t] = each[t] @ np.exp(model.log_kernel(model.grid.distance, model.widths_of(row)))
    return A.reshape(*shape, P), log_joint + np.log(v).sum(axis=-1)
