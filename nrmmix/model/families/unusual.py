"""What is said of columns that families do not expect, when a model is made."""

from __future__ import annotations

from nrmmix.model.families.blocks import Blocks
from nrmmix.model.families.regression import Regression
from nrmmix.model.frame.formula import ModelFrame
from nrmmix.model.frame.unusual import warn_of_far, warn_of_ties


def warn_of_unusual(frame: ModelFrame, blocks: Blocks) -> None:
    """Warn of ties among continuous responses, and of values far from all others among responses, covariates and inputs of regressions.

    Nothing is looked at where rows are not in memory, or are sparse counts.
    """
    if frame.is_streamed or frame.is_sparse:
        return
    y, names = frame.seen, frame.response_names  # that many rows were seen to one end is no tie
    continuous, numbers, inputs = {}, {}, {}
    for block in blocks.blocks:
        for j in block.columns if block.family.reads in ("numbers", "counts") else ():
            numbers[names[j]] = y[:, j]
            if block.family.reads == "numbers" and not block.family.point_masses:
                continuous[names[j]] = y[:, j]
        if isinstance(block.family, Regression):
            inputs |= {frame.input_names[a]: frame.inputs[:, a] for a in block.inputs}
    if frame.covariates is not None:
        inputs |= {name: x for name, x, is_category in zip(frame.covariate_names, frame.covariates.T, frame.is_category) if not is_category}
    where = frame.index, frame.used.nonzero()[0]
    warn_of_ties(continuous, frame.weight)
    warn_of_far(numbers, *where, frame.weight, "defaults of priors take their centre and scale from the other rows")
    warn_of_far(inputs, *where, frame.weight, "covariates are scaled by the other rows")
