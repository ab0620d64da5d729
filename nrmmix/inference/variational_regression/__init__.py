"""Variational inference of kernel-weighted measures: density regression in passes over the rows."""
