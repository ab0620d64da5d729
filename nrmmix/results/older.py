"""Files of formats before 5: draws of density regression held v, by group, the log joint density was one in v, categories were columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from nrmmix.model.specification import Specification

OF_A = 5  # the format from which on draws hold A, by location


def with_all_options(kernel: dict[str, Any] | None) -> dict[str, Any] | None:
    """Of the options that kernels have got since."""
    return None if kernel is None else {"weights": None, "groups": None} | kernel


def A_and_log_joint(model: Specification, v: np.ndarray, log_joint: np.ndarray, widths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A (..., P) of draws of v (..., G) and widths (..., W), and the density in log v of that in v."""
    assert model.grid is not None, "density regression alone has v by group"
    shape, P = v.shape[:-1], len(model.grid.locations)
    A, each = np.empty((int(np.prod(shape)), P)), v.reshape(-1, v.shape[-1])
    for t, row in enumerate(widths.reshape(len(A), widths.shape[-1])):
        A[t] = each[t] @ np.exp(model.log_kernel(model.grid.distance, model.widths_of(row)))
    return A.reshape(*shape, P), log_joint + np.log(v).sum(axis=-1)
