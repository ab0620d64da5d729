"""Rows that are scored as held out, and that a fit has seen."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from support.cover import by_turns

import nrmmix as nm
from nrmmix.posterior.held_out import described, seen_rows
from nrmmix.sklearn import NRMMixture, NRMRegressor

RUN = {"draws": 6, "tune": 6, "chains": 2, "rng": 1}
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"y": RNG.normal(size=60), "x": RNG.normal(size=60), "soil": RNG.choice(["clay", "loam"], 60)}, index=range(100, 160))
OLD, NEW = TABLE.iloc[:40], TABLE.iloc[40:]


@pytest.fixture(scope="module")
def fits():
    return {"mixture": nm.fit("y ~ 1", OLD, **RUN), "regression": nm.fit("y ~ x + soil", OLD, **RUN)}


def silent(work):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return work()


def test_rows_are_known_by_their_values(fits):
    """Whatever their order, labels and types: of a density regression by the covariates too, levels of which are known by name."""
    some = pd.concat([NEW, OLD.iloc[[7, 3]]]).reset_index(drop=True)
    for fit in fits.values():
        assert seen_rows(fit.model, some).tolist() == [20, 21] and seen_rows(fit.model, NEW).size == 0
        assert seen_rows(fit.model, some.astype({"soil": "category"})).tolist() == [20, 21]
    moved = some.assign(x=some["x"] + 1)
    assert seen_rows(fits["regression"].model, moved).size == 0 and len(seen_rows(fits["mixture"].model, moved)) == 2
    assert described(np.array([0, 1, 20, 21]), some.index) == "4 of 22 rows (0, 1, 20, ...)"
    assert described(np.array([20]), TABLE.index) == "1 of 60 rows (120)"


def test_rows_with_gaps_and_zeros_of_either_sign():
    data = np.array([[0.0, 1.0], [2.0, np.nan], [3.0, 4.0], [5.0, 6.0]])
    model = nm.Model(data=data, missing="marginalize", family=nm.Gaussian("diagonal"))
    assert seen_rows(model, np.array([[-0.0, 1.0], [2.0, -np.nan], [np.nan, np.nan], [3.0, np.nan]])).tolist() == [0, 1]


def test_censored_rows_are_known_by_their_limits():
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"time": rng.exponential(1.0, 60).round(6), "event": np.arange(60) % 2, "x": rng.normal(size=60)})
    fit = nm.fit("Surv(log(time), event) ~ x", data.iloc[:40], **RUN)
    assert seen_rows(fit.model, data.iloc[30:]).tolist() == list(range(10))
    assert seen_rows(fit.model, data.iloc[30:].assign(event=0)).tolist() == [0, 2, 4, 6, 8]  # of the others the limits differ
    with pytest.warns(UserWarning, match="has seen 20 of 20 rows"):
        nm.compare(fit, newdata=data.iloc[:40].query("event == 0"))
    silent(lambda: (fit.log_density(data.iloc[:40]), nm.compare(fit, newdata=data.iloc[40:])))


def test_sparse_counts_and_inputs():
    counts = csr_array(np.random.default_rng(1).poisson(1.0, (30, 12)))
    model = nm.Model(data=counts[:20], family=nm.Multinomial())
    assert seen_rows(model, counts[18:]).tolist() == [0, 1]
    data = TABLE.assign(z=np.arange(60.0))
    model = nm.Model("y ~ 1", data.iloc[:40], family=nm.Regression("1 + z"))
    assert seen_rows(model, data.iloc[38:]).tolist() == [0, 1] and seen_rows(model, data.iloc[38:].assign(z=9.5)).size == 0


@pytest.mark.filterwarnings("ignore:.*point masses")
@pytest.mark.parametrize("levels", by_turns([3, 40], 2, 1))
def test_what_is_alike_by_chance_is_not_called_seen(levels):
    """New rows of few values are like old ones; of the same number of values, a table of old rows among them is found where it can be."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(200):
        old, new = rng.integers(levels, size=(2, 60, 2)).astype(float)
        family = nm.Gaussian(m=np.zeros(2), r=1, nu=4, scale=np.eye(2))
        model = nm.Model(data=old, family=family)
        found.append((len(seen_rows(model, new)) > 0, len(seen_rows(model, np.vstack([new, old]))) > 0))
    by_chance, leaked = np.mean(found, axis=0)
    same = pd.DataFrame(old, columns=["y1", "y2"])
    by_name = nm.Model("y1 + y2 ~ 1", same, family=family)
    assert len(seen_rows(by_name, same)) == 60 and seen_rows(by_name, same.iloc[5:25]).tolist() == list(range(20)), "by their labels too"
    assert seen_rows(by_name, pd.DataFrame(new, columns=["y1", "y2"])).size == 0
    assert by_chance < 0.06 and (leaked == 1.0 if levels == 40 else leaked < 0.06)


def test_compare_names_what_a_fit_has_seen(fits, tmp_path):
    mixed = pd.concat([OLD.iloc[:4], NEW])
    with pytest.warns(UserWarning, match=r"compare: mixture has seen 4 of 24 rows \(100, 101, 102, \.\.\.\); regression has seen 4 of 24"):
        table = nm.compare(fits, newdata=mixed)
    parts = [fits["mixture"].log_density(some).sum() for some in (mixed.iloc[:4], NEW)]
    assert table.loc["mixture", "elpd"] == pytest.approx(sum(parts))
    with pytest.warns(UserWarning, match="mixture has seen 40 of 40 rows.*in-sample"):
        nm.compare(fits, newdata=OLD)
    silent(lambda: nm.compare(fits, newdata=NEW))
    later = {"whole": nm.fit("y ~ 1", TABLE, **RUN), "old": fits["mixture"]}
    with pytest.warns(UserWarning, match=r"compare: whole has seen 20 of 20 rows \(140, 141, 142, \.\.\.\): their"):
        nm.compare(later, newdata=NEW)
    again = nm.load(fits["regression"].save(tmp_path / "fit.npz"))
    with pytest.warns(UserWarning, match="fit 1 has seen 4 of 24 rows"):
        nm.compare(again, newdata=mixed)


def test_log_density_of_a_mixed_table_says_so(fits):
    mixed = pd.concat([OLD.iloc[:4], NEW])
    for fit in fits.values():
        with pytest.warns(UserWarning, match=r"log_density: 4 of 24 rows \(100, 101, 102, \.\.\.\) were fitted: .*in-sample"):
            fit.log_density(mixed)
        silent(lambda fit=fit: (fit.log_density(), fit.log_density(OLD), fit.log_density(NEW), fit.augment(mixed)))


def test_estimators_score_what_they_were_trained_on():
    X, y = TABLE[["x"]].to_numpy(), TABLE["y"].to_numpy()
    options = {"draws": 6, "tune": 6, "chains": 2, "random_state": 1}
    mixture = NRMMixture(**options).fit(X[:40])
    regressor = NRMRegressor(**options).fit(X[:40], y[:40])
    assert np.isfinite(silent(lambda: (mixture.score(X[:40]), mixture.score(X), *regressor.score_samples(X, y)))).all()


def test_variational_fits_know_their_rows():
    fit = nm.fit("y ~ 1", OLD, method="memoized_vb", rng=1)
    assert seen_rows(fit.model, TABLE).tolist() == list(range(40))
    assert seen_rows(fit.update(NEW).model, TABLE).tolist() == list(range(60))
