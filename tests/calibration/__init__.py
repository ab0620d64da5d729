"""Simulation-based calibration (Talts et al. 2018): parameters from the prior, data given them, and the rank of the truth among draws.

Where a sampler is exact for the model that the data come from, the rank is uniform, whatever the data.  Data come from simulators of
their own, written down from the law of the random measure with NumPy alone, so that prior, model, sampler and record are tested at once.
`make calibration` runs all cells and writes docs/calibration.md.
"""
