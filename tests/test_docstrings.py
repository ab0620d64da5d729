"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import nrmmix

MODULES = sorted(
    m.name for m in pkgutil.walk_packages(nrmmix.__path__, "nrmmix.") if not m.name.startswith(("nrmmix.data", "nrmmix.__main__"))
)


@pytest.mark.parametrize("name", ["nrmmix", *MODULES])
def test_examples(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"np": np}, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_public_names_have_docstrings_with_examples():
    for name in nrmmix.__all__:
        thing = getattr(nrmmix, name)
        if callable(thing):
            assert thing.__doc__, name
            assert ">>>" in thing.__doc__, f"{name} has no example"
