"""Pictures of results that are not of chains: trees of searches, variational fits."""
