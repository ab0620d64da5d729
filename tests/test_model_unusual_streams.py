"""Ties, values far from all others and rounding in rows that are loaded part by part: as in memory."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.model.frame import quantiles

rng = np.random.default_rng(0)
GROUPS = np.r_[rng.normal(0, 1, 100), rng.normal(8, 1, 100)]
WILD = pd.DataFrame({
    "y": np.r_[GROUPS, 1000.0], "z": np.r_[-999.0, rng.normal(size=200)], "x": rng.uniform(size=201),
    "w": rng.integers(1, 4, 201).astype(float), "v": rng.uniform(0.3, 2.0, 201),
}).sample(frac=1.0, random_state=1).reset_index(drop=True)


def parts(table, k=7):
    return [table.iloc[rows] for rows in np.array_split(np.arange(len(table)), k)]


def said(formula, data, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = nm.Model(formula, data, **options)
    return model, [str(one.message) for one in caught]


def numbers_of(family):
    """All hyperparameters and constants, as one array."""
    if isinstance(family, nm.Regression):
        form = family.form
        return np.concatenate([np.ravel(np.abs(value)) for value in (form.b, form.scale, form.level, form.factor)])
    values = [getattr(family, name) for name in ("m", "scale", "shape", "rate") if hasattr(family, name)]
    return np.concatenate([[law.mean for law in one] if isinstance(one, tuple) else np.ravel(one) for one in values])


MODELS = {
    "one response": ("y ~ 1", {}), "two": ("y + z ~ 1", {}), "diagonal": ("y + z ~ 1", {"family": nm.Gaussian("diagonal")}),
    "counted weights": ("y + z ~ 1", {"weights": "w"}), "other weights": ("y ~ 1", {"weights": "v"}),
    "lines": ("y ~ x + z", {}), "lines of two responses": ("y + x ~ z", {}), "one covariate": ("y ~ z", {"family": nm.Gaussian()}),
    "a known mean": ("y ~ 1", {"family": nm.Gaussian(known_mean=0.0)}),
}


@pytest.mark.parametrize("case", MODELS)
def test_words_and_defaults_are_those_of_rows_in_memory(case):
    formula, options = MODELS[case]
    (whole, of_whole), (part, of_parts) = (said(formula, data, **options) for data in (WILD, parts(WILD)))
    assert of_whole == of_parts and any("quartile ranges away" in text for text in of_whole)
    exact = not any(isinstance(block.family, nm.Regression) for block in whole.blocks.blocks) and "weights" not in options
    for one, other in zip(whole.blocks.blocks, part.blocks.blocks, strict=True):
        (np.testing.assert_array_equal if exact else np.testing.assert_allclose)(numbers_of(one.family), numbers_of(other.family))
    if whole.grid is not None:
        np.testing.assert_array_equal(whole.grid.scales.ends, part.grid.scales.ends)
        np.testing.assert_array_equal(whole.grid.locations, part.grid.locations)


def test_counts_and_point_masses_apart():
    y = np.r_[np.zeros(60), rng.poisson(5, 100), 9999]
    for family in (nm.Poisson(), nm.Hurdle(nm.Gaussian(), at=0.0)):
        (whole, of_whole), (part, of_parts) = (said("y ~ 1", data, family=family) for data in ({"y": y}, parts(pd.DataFrame({"y": y}))))
        assert of_whole == of_parts and "9999): a code for missing?" in of_whole[0]
        assert whole.family.describe() == part.family.describe()


@pytest.mark.parametrize("y", [
    np.where(np.arange(600) < 450, 0.0, rng.uniform(size=600)), rng.integers(1, 6, 300).astype(float),
    np.r_[GROUPS, [-999.0] * 60], np.repeat(np.arange(12.0), 4), GROUPS,
])
def test_ties_are_said_as_in_memory(y):
    table = pd.DataFrame({"y": y})
    (_, of_whole), (_, of_parts) = said("y ~ 1", table), said("y ~ 1", parts(table))
    assert of_whole == of_parts and (len(of_whole) == 1 or y is GROUPS)


def test_a_fit_of_a_file_that_is_saved_and_made_anew_keeps_its_defaults(tmp_path):
    WILD.to_csv(tmp_path / "wild.csv", index=False)
    with warnings.catch_warnings(action="ignore"):
        fit = nm.fit("y ~ 1", tmp_path / "wild.csv", method="memoized_vb", rng=1)
    fit.save(tmp_path / "fit.npz")
    again = nm.load(tmp_path / "fit.npz")  # warnings are errors
    assert again.model.family.scale == fit.model.family.scale
    assert again.model.family.scale[0].mean == pytest.approx(0.1 * 2.0 * np.var(GROUPS, ddof=1))


def test_more_values_than_are_counted(monkeypatch):
    """Quantiles tell what is far away, and which values stand out; rows and how often values stand there are exact."""
    monkeypatch.setattr(quantiles, "MAX_VALUES", 500)
    monkeypatch.setattr(quantiles, "BUFFER", 256)
    monkeypatch.setattr(quantiles, "PENDING", 1000)
    y = np.where(rng.random(40_000) < 0.3, 2.5, rng.normal(size=40_000))
    table = pd.DataFrame({"y": y, "z": rng.normal(size=40_000), "x": rng.normal(size=40_000)})
    table.loc[[5, 7000], "z"] = 400.0, 1e6
    table.loc[30_000, "x"] = -999.0
    (whole, of_whole), (part, of_parts) = (said("y + z + x ~ 1", data) for data in (table, parts(table, 11)))
    assert len(of_whole) == len(of_parts) == 2 and of_whole[0] == of_parts[0] and f"{(y == 2.5).sum()} of 40000" in of_parts[0]
    assert "2 of 40000 values of 'z'" in of_parts[1] and "(rows 5, 7000)" in of_parts[1] and "row 30000: -999" in of_parts[1]
    np.testing.assert_array_equal(whole.family.scale, part.family.scale)
    np.testing.assert_array_equal(whole.family.m, part.family.m)


def test_without_far_values_nothing_is_gone_through_again():
    table, loads = WILD.assign(y=rng.normal(size=201), z=0.5), []

    class Counting:
        n_batches = 3

        def load(self, b):
            loads.append(b)
            return parts(table, 3)[b]

    assert said("y ~ x", Counting())[1] == []
    usual = len(loads)
    table.loc[4, "y"], loads[:] = 1e5, []
    assert len(said("y ~ x", Counting())[1]) == 1
    assert usual < len(loads) <= usual + 3 * 3, "one way to name rows, two for defaults"
