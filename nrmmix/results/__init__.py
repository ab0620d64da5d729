"""What fits give back."""

from nrmmix.results.base import Result, result_of
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.search import SearchResult
from nrmmix.results.variational import VariationalResult

__all__ = ["MCMCResult", "Result", "SearchResult", "VariationalResult", "result_of"]
