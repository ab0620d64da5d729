"""`nrmmix.extending.register` by its former path."""

from nrmmix.extending import register  # noqa: F401
