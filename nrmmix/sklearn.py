"""Estimators in the manner of scikit-learn: mixtures that cluster and give densities, and density regression.

scikit-learn is an extra: `pip install nrmmix[sklearn]`.  Where it is installed the estimators derive from its base classes and check data
with its functions, so that they work in pipelines and searches; where it is not they do the same with a few checks of their own.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.api import Model
from nrmmix.common.messages import count, guided, listed, shown
from nrmmix.common.names import quoted_name
from nrmmix.common.warnings import warn
from nrmmix.common.words import ATTRIBUTES
from nrmmix.inference.methods import method_of, model_for
from nrmmix.model.families import Gaussian, Regression
from nrmmix.model.frame.arrays import is_constant
from nrmmix.model.frame.columns.weights import checked
from nrmmix.model.frame.syntax import CONSTANTS, CONTRASTS, OPTIONS
from nrmmix.posterior.predict.membership import among_known_and_new
from nrmmix.posterior.predict.rows import prediction_rows
from nrmmix.posterior.predict.states import states_of
from nrmmix.posterior.predict.tables import log_density

try:
    from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin, RegressorMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_random_state, validate_data

    HAS_SKLEARN = True
except ImportError:
    HAS_SKLEARN = False

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """An estimator is asked before it was fitted."""

    class BaseEstimator:  # type: ignore[no-redef]
        """Parameters by the names of the constructor's arguments."""

        @classmethod
        def _get_param_names(cls) -> list[str]:
            return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return {name: getattr(self, name) for name in self._get_param_names()}

        def set_params(self, **params: Any) -> Any:
            for name, value in params.items():
                if name not in self._get_param_names():
                    raise ValueError(f"Invalid parameter {name!r} for estimator {self}; there are {', '.join(self._get_param_names())}.")
                setattr(self, name, value)
            return self

        def __repr__(self) -> str:
            defaults = {name: one.default for name, one in inspect.signature(type(self).__init__).parameters.items()}
            given = {name: value for name, value in self.get_params().items() if value is not defaults[name] and value != defaults[name]}
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    class ClusterMixin:  # type: ignore[no-redef]
        _estimator_type = "clusterer"
        fit: Any

        def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
            return self.fit(X).labels_

    class DensityMixin:  # type: ignore[no-redef]
        _estimator_type = "DensityEstimator"

    class RegressorMixin:  # type: ignore[no-redef]
        _estimator_type = "regressor"
        predict: Any

        def score(self, X: Any, y: Any) -> float:
            """The coefficient of determination."""
            y = np.asarray(y, float)
            return 1.0 - ((y - self.predict(X)) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum()

__all__ = ["NRMMixture", "NRMRegressor"]

RESERVED = {*OPTIONS, *CONTRASTS, *CONSTANTS, "np", "Surv", "interval"}  # words of formulas, which columns of such names are quoted beside


def _text(X: Any) -> str:
    """Say which column of a DataFrame holds text, and what to do with it; nothing where none does."""
    for name, values in X.items() if isinstance(X, pd.DataFrame) else ():
        for item in () if pd.api.types.is_numeric_dtype(values) else values.dropna():
            try:
                float(item)
            except ValueError:
                return (
                    f"The column {name!r} of X holds {shown(item)}, and estimators take numbers alone: encode it, as by "
                    "sklearn.preprocessing.OneHotEncoder, or give nm.fit a formula, which takes text and categories as they are."
                )
            except TypeError:
                continue
    return ""


@contextmanager
def _text_named(X: Any) -> Iterator[None]:
    """Within the block, let an error about values say which column of X holds text, where one does."""
    try:
        yield
    except ValueError as error:
        raise (ValueError(why) if (why := _text(X)) else error) from None


class _Estimator(BaseEstimator):
    """Base of both estimators."""

    def __getattr__(self, name: str) -> Any:
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name not in ATTRIBUTES:
            raise AttributeError(text)
        if "result_" not in vars(self):
            raise AttributeError(f"{text}; it is not fitted yet: call fit first.")
        raise AttributeError(f"{text}; the fit is .result_: {ATTRIBUTES[name]}.")

    def _array(self, X: Any, reset: bool, y: Any = None) -> Any:
        """Numbers (n, d), and responses where they are given; a ValueError where they cannot be used."""
        if HAS_SKLEARN:
            how: dict[str, Any] = {"reset": reset, "ensure_min_samples": 2 if reset else 1, "dtype": np.float64}
            how |= {} if y is None else {"y": y, "multi_output": True, "y_numeric": True}
            with _text_named(X):
                return validate_data(self, X, **how)
        names = [name for name in getattr(X, "columns", ()) if isinstance(name, str)]
        with _text_named(X):
            X = self._checked(X, "X", reset)
        if reset:
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            if len(names) == X.shape[1]:
                self.feature_names_in_ = np.array(names, dtype=object)
        elif names and hasattr(self, "feature_names_in_") and names != list(self.feature_names_in_):
            raise ValueError(f"The feature names should match those that were passed during fit: {', '.join(self.feature_names_in_)}.")
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input."
            )
        if y is None:
            return X
        y = np.asarray(y)
        if y.ndim not in (1, 2) or len(y) != len(X):
            raise ValueError(f"y must have one value, or a row of them, for each of the {len(X)} rows of X, not the shape {y.shape}.")
        return X, self._checked(y.reshape(len(y), -1), "y", reset).reshape(y.shape)

    def _checked(self, values: Any, name: str, reset: bool) -> np.ndarray:
        if hasattr(values, "toarray"):
            raise TypeError(f"{name} is sparse, and dense data are required; use {name}.toarray().")
        array = np.asarray(values)
        if array.ndim != 2:
            raise ValueError(f"{name} must have 2 dimensions, rows and features, not {array.ndim}. Reshape your data: reshape(-1, 1).")
        if np.iscomplexobj(array):
            raise ValueError(f"Complex data not supported: {name} holds complex numbers.")
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} holds something that is no number ({error}); encode text and categories first.") from None
        if 0 in array.shape:
            raise ValueError(f"{name} has {array.shape[0]} sample(s) and {array.shape[1]} feature(s); at least one of each is required.")
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            i, j = bad[0]
            raise ValueError(
                f"Input {name} contains NaN or infinity, first in row {i} and column {j}; {type(self).__name__} takes none: impute such "
                "cells before, or fit nm.Model with missing=\"marginalize\"."
            )
        if reset and len(array) < 2:
            raise ValueError(f"Found array with n_samples=1 in {name}; a minimum of 2 is required by {type(self).__name__}.")
        return array

    def _seed(self, given: Any) -> Any:
        """Return what the package takes as a seed."""
        if given is None or isinstance(given, (int, np.integer, np.random.Generator, np.random.SeedSequence)):
            return given
        if HAS_SKLEARN:
            given = check_random_state(given)
        return int(given.randint(2**31 - 1))  # a RandomState

    def _seed_of_sample(self, random_state: Any) -> Any:
        """Return the seed of `sample`: that of the estimator where none is given, a new one at every call where it has none either."""
        given = self.random_state if random_state is None else random_state
        return np.random.SeedSequence() if given is None else self._seed(given)

    def _names(self, letter: str, first: int) -> list[str]:
        """Names of the features as columns of the model: those of the DataFrame where they can stand in a formula, else a letter's."""
        own = getattr(self, "feature_names_in_", None)
        if own is None or any({"'", '"'} <= {*name} or "\\" in name or not name.isprintable() or not name for name in own):
            return [f"{letter}{j}" for j in range(first, self.n_features_in_ + first)]
        return list(own)

    def _varying(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the features that vary and equal no earlier one; and of each (d,) the one that it equals, -1 where it is constant.

        A warning names the others.
        """
        constant, places = is_constant(X), np.arange(X.shape[1])
        _, first, place = np.unique(X, axis=1, return_index=True, return_inverse=True)
        of = np.where(constant, -1, first[place.reshape(-1)])
        own = getattr(self, "feature_names_in_", None)
        same, still = places[~constant & (of != places)], places[constant]
        names = [str(j) if own is None else repr(own[j]) for j in places]
        parts = [f"{listed(names[j] for j in still)} do not vary"] if len(still) else []
        if len(same):
            parts += [f"{listed(names[j] for j in same)} do but repeat others" if parts else
                      listed(f"{names[j]} repeats {names[of[j]]}" for j in same)]
        if parts:
            left, counted = "it is" if len(same) + len(still) == 1 else "they are", ", counted from 0," if own is None else ""
            warn(f"of {X.shape[1]} features{counted} {' and '.join(parts)}; {left} left out.")
        return np.flatnonzero(of == places), of

    def _weights(self, sample_weight: Any, n: int) -> np.ndarray | None:
        """Return how often each of n rows counts; None where once."""
        if sample_weight is None:
            return None
        values = np.asarray(sample_weight)
        if values.ndim == 0:
            values = np.full(n, values)
        weight = checked(values, "sample_weight", n)
        if not (weight > 0).any():
            raise ValueError("sample_weight: every weight is zero, 0 in all rows; give some rows one above 0.")
        return weight

    def _run(self, model: Model) -> Any:
        """Fit; what belongs to chains and is as by default is not handed on to methods that do without."""
        _, method = method_of(self.method, model_for(self.method, model))
        default = inspect.signature(type(self).__init__).parameters
        own = {name: getattr(self, name) for name in ("draws", "tune", "thin", "chains", "cores")}
        taken = {name: value for name, value in own.items() if name in method.accepts or value != default[name].default}
        return model.fit(self.method, rng=self._seed(self.random_state), progress=False, **taken)

    def _fitted(self) -> Any:
        if not hasattr(self, "result_"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments first.")
        return self.result_


class NRMMixture(ClusterMixin, DensityMixin, _Estimator):
    """A normalized random measure mixture of numbers, the number of components inferred.

    Parameters
    ----------
    family, prior
        As of `nrmmix.Model`: objects, or names such as "gaussian", "diagonal", "dp", "py".
    method, draws, tune, thin, chains, cores
        As of `nrmmix.Model.fit`; fewer draws by default.
    random_state : int, RandomState, Generator or None
        Seed.

    Attributes
    ----------
    result_ : MCMCResult
        The fit, with all its methods; of a search, such as method="ibhc", a SearchResult, of variational inference, such as
        method="memoized_vb", a VariationalResult.
    labels_ : ndarray of int, (n,)
        The point estimate of the clustering, clusters by size; where rows have weights the most probable cluster of each row.
    n_clusters_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of str, (n_features_in_,)
        Where X is a DataFrame whose columns are strings.

    Notes
    -----
    Features that do not vary, as happens within a fold, and such as equal another are left out with a warning that names them: they say
    nothing of clusters, and densities are those of the other features.  The columns of `result_` are those of a DataFrame, else y1, y2,
    ..., by the number of the feature.  `draws`, `tune`, `thin`, `chains` and `cores` belong to chains, and `cores` to nothing else:
    variational inference and searches do without their defaults, and refuse other values.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([0, 8], 30)[:, None]
    >>> mixture = NRMMixture(draws=50, tune=50, random_state=1).fit(X)
    >>> mixture.n_clusters_, mixture.predict([[0.0, 0.0], [8.0, 8.0]]).tolist() == [mixture.labels_[0], mixture.labels_[-1]]
    (2, True)
    """

    @guided
    def __init__(
        self, family: Any = "gaussian", prior: Any = "dp", *, method: Any = "auto", draws: int = 500, tune: int = 500, thin: int = 1,
        chains: int = 2, cores: int | None = None, random_state: Any = None,
    ) -> None:
        self.family, self.prior, self.method, self.draws, self.tune, self.thin = family, prior, method, draws, tune, thin
        self.chains, self.cores, self.random_state = chains, cores, random_state

    @guided
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> NRMMixture:
        """Fit to rows X (n, d); y is not used.  `sample_weight` (n,) says how often each row counts; see `weights` of `nrmmix.Model`."""
        X = self._array(X, reset=True)
        weight = self._weights(sample_weight, len(X))
        some = X if weight is None else X[weight > 0]
        if is_constant(some).all():
            raise ValueError(f"No feature of X varies: all {len(some)} rows are alike; give rows that differ.")
        self._kept, self._copied = self._varying(some)
        self._constant = some[0]
        weights = None if weight is None else weight[weight > 0]
        self.result_ = self._run(Model(data=self._of_kept(some), family=self.family, prior=self.prior, weights=weights))
        found = self.result_.partition()
        self._found, self.n_clusters_ = found.labels, found.n_clusters
        self.labels_ = self._found if weight is None else self._shares(X).argmax(axis=1)
        return self

    def _of_kept(self, X: np.ndarray) -> Any:
        """Rows (n, d) as the model has them."""
        if len(self._kept) == X.shape[1] and not hasattr(self, "feature_names_in_"):
            return X
        names = self._names("y", 1)
        return pd.DataFrame(X[:, self._kept], columns=[names[j] for j in self._kept])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, (n, clusters), of the clusters of the estimate, given that a row belongs to one of them."""
        return self._shares(self._array(X, reset=False))

    def _shares(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, clusters) for rows that have been read."""
        fit = self._fitted()
        rows, y = prediction_rows(fit.model, self._of_kept(X)), np.ascontiguousarray(X[:, self._kept])
        return among_known_and_new(states_of(fit.posterior, 500), self._found, rows, y)[0]

    @guided
    def predict(self, X: Any) -> np.ndarray:
        """(n,) the most probable cluster of each row."""
        return self.predict_proba(X).argmax(axis=1)

    def score_samples(self, X: Any) -> np.ndarray:
        """(n,) log posterior predictive densities."""
        fit = self._fitted()
        return log_density(fit.posterior, self._of_kept(self._array(X, reset=False))).to_numpy()

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    @guided
    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n_samples, d) from the posterior predictive distribution, and their most probable clusters."""
        fit, size = self._fitted(), count("n_samples", n_samples, 1)
        drawn = fit.simulate(self._of_kept(np.zeros((1, self.n_features_in_))), size, self._seed_of_sample(random_state)).to_numpy()
        X = np.where(self._copied < 0, self._constant, 0.0) + np.zeros((size, 1))
        varies = self._copied >= 0
        X[:, varies] = drawn[:, np.searchsorted(self._kept, self._copied[varies])]
        return X, self._shares(X).argmax(axis=1)


class NRMRegressor(RegressorMixin, _Estimator):
    """Kernel-weighted density regression of one response or several on numbers.

    Parameters
    ----------
    family, prior, kernel
        As of `nrmmix.Model`.  The default family is a regression on the features, of those that are linearly independent.
    method, draws, tune, thin, chains, cores, random_state
        See `NRMMixture`.

    Attributes
    ----------
    result_ : MCMCResult
        The fit, with all its methods.  Its columns are those of a DataFrame, else x0, x1, ..., and y, or y0, y1, ... where there are
        several responses.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, (n_features_in_,)
        Where X is a DataFrame whose columns are strings.

    Notes
    -----
    Constant features, and such as equal another, are left out with a warning that names them.  Responses of which many are equal are not
    warned of, as those of `nrmmix.Model` are: means of them are what they are, quantiles and densities those of a continuous family.

    Examples
    --------
    >>> x = np.linspace(0, 6, 60)
    >>> regressor = NRMRegressor(draws=50, tune=50, random_state=1).fit(x[:, None], np.sin(x))
    >>> bool(regressor.score(x[:, None], np.sin(x)) > 0.9)
    True
    """

    @guided
    def __init__(
        self, family: Any = None, prior: Any = "dp", kernel: Any = None, *, method: Any = "auto", draws: int = 500, tune: int = 500,
        thin: int = 1, chains: int = 2, cores: int | None = None, random_state: Any = None,
    ) -> None:
        self.family, self.prior, self.kernel, self.method, self.draws, self.tune = family, prior, kernel, method, draws, tune
        self.thin, self.chains, self.cores, self.random_state = thin, chains, cores, random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @guided
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NRMRegressor:
        """Fit responses y (n,) or (n, d) on features X (n, q); `sample_weight` (n,) as of `NRMMixture.fit`."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        families = self.family.values() if isinstance(self.family, Mapping) else [self.family]
        if any((isinstance(one, str) and one == "categorical") or getattr(one, "reads", "") == "categories" for one in families):
            raise ValueError(
                f"family of {type(self).__name__} must be one of numbers, not nm.Categorical(), whose levels have a probability each; take "
                'nm.fit("y ~ x", data, family=nm.Categorical()), whose predict() has these.'
            )
        X, y = self._array(X, reset=True, y=y)
        flat, weight = y.ndim == 1, self._weights(sample_weight, len(X))
        if weight is not None:
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        table, names = self._table(X), ["y"] if y.ndim == 1 else [f"y{j}" for j in range(y.shape[1])]
        names = [name if name not in table else f"response {name}" for name in names]
        used = [table.columns[j] for j in self._varying(X)[0]]
        formula = f"{' + '.join(map(_quoted, names))} ~ {' + '.join(map(_quoted, used)) or '1'}"
        data = table.assign(**dict(zip(names, np.atleast_2d(y.T), strict=True)))
        family = self.family if self.family is not None else _design(table[used])
        with warnings.catch_warnings():
            if (y == np.floor(y)).all():  # whole numbers are responses of regressors too
                warnings.filterwarnings("ignore", ".*point masses", UserWarning)
            model = Model(formula, data, family=family, prior=self.prior, kernel=self.kernel if used else None, weights=weight)
        self.result_, self._flat = self._run(model), flat
        return self

    def _table(self, X: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(X, columns=self._names("x", 0))

    @guided
    def predict(self, X: Any) -> np.ndarray:
        """Means (n,) or (n, d) of the responses."""
        fit = self._fitted()
        means = fit.predict(self._table(self._array(X, reset=False)))["estimate"].to_numpy()
        return means if self._flat else means.reshape(len(X), -1)

    @guided
    def predict_quantile(self, X: Any, q: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles (n, Q) of the response, of several (n, d, Q)."""
        fit = self._fitted()
        table = fit.predict(self._table(self._array(X, reset=False)), "quantile", q=q)["estimate"].to_numpy()
        return table.reshape(len(X), -1) if self._flat else table.reshape(len(X), fit.model.n_dim, -1)

    def score_samples(self, X: Any, y: Any = None) -> np.ndarray:
        """(n,) log densities of responses y given features.

        Without y those of the means that `predict` gives: the larger, the less responses spread there.
        """
        fit = self._fitted()
        X, y = (self._array(X, reset=False), self.predict(X)) if y is None else self._array(X, reset=False, y=y)
        names = fit.model.frame.response_names
        return log_density(fit.posterior, self._table(X).assign(**dict(zip(names, np.atleast_2d(y.T), strict=True)))).to_numpy()

    @guided
    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Responses (n_samples, n) or (n_samples, n, d) drawn at the rows X."""
        fit, size = self._fitted(), count("n_samples", n_samples, 1)
        drawn = fit.simulate(self._table(self._array(X, reset=False)), size, self._seed_of_sample(random_state))
        drawn = drawn.to_numpy().reshape(size, len(X), -1)
        return drawn[..., 0] if self._flat else drawn


def _design(features: pd.DataFrame) -> Any:
    """A regression on linearly independent features; constants where there are none, or fewer rows than twice as many."""
    from scipy.linalg import qr

    X = features.to_numpy()
    if not X.size or len(X) < 2 * (X.shape[1] + 1):
        return Gaussian()
    centred = X - X.mean(axis=0)
    R, pivot = qr(centred / np.linalg.norm(centred, axis=0), mode="r", pivoting=True)
    kept = sorted(pivot[: int((np.abs(np.diag(R)) > 1e-8).sum())])
    return Regression(" + ".join(["1", *(_quoted(features.columns[j]) for j in kept)]))


def _quoted(name: str) -> str:
    """A column in a formula."""
    if name.isascii() and name not in RESERVED and quoted_name(name) == name:
        return name
    return f"Q('{name}')" if '"' in name else f'Q("{name}")'
