"""Data tables of nrmmix; `nrmmix.datasets` reads them."""
