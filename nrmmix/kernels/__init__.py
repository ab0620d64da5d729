"""Compiled kernels: numba only, no pandas, no exceptions; status codes go back to Python."""
