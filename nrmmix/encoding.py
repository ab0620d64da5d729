"""`nrmmix.extending.register` by its former path."""

