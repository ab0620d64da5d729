"""Variational inference for Dirichlet process mixtures (Hughes & Sudderth 2013)."""
