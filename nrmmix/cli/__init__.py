"""The command line; `main` runs it."""

from nrmmix.cli.program import main

__all__ = ["main"]
