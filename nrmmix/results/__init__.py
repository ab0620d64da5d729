"""Results of fits."""

from nrmmix.results.base import Result, result_of
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.search import SearchResult
from nrmmix.results.variational import VariationalResult
from nrmmix.results.variational_regression import VariationalRegressionResult

__all__ = ["MCMCResult", "Result", "SearchResult", "VariationalRegressionResult", "VariationalResult", "result_of"]
