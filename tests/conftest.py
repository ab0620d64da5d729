"""What every test starts from, and which tests run."""

import os

# Arrays of tests are small, and threads that wait for each other take far more than they do.  This comes before SciPy is loaded;
# NumPy, which pytest has loaded by now, hears of it from `make test`.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from nrmmix.kernels.compiling import disk

EXACT = Path(__file__).parent / "exact"


def pytest_configure():
    """Processes of pytest-xdist do not compile the same functions twice."""
    if os.environ.get("PYTEST_XDIST_WORKER") and os.environ.get("NUMBA_CACHE_DIR"):
        folder = Path(os.environ["NUMBA_CACHE_DIR"]) / "claims" / os.environ["PYTEST_XDIST_TESTRUNUID"]
        folder.mkdir(parents=True, exist_ok=True)
        disk.share(disk.Claims(folder))


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config, items):
    """Marks what is in tests/exact; skips what needs files that are not there; leaves `nightly` out where `-m` does not name it."""
    without_files = pytest.mark.skip(reason="NRMMIX_DATA_DIR names no folder of the files that do not come with the package")
    for item in items:
        if EXACT in item.path.parents:
            item.add_marker(pytest.mark.exact)
        if item.get_closest_marker("external") and not os.environ.get("NRMMIX_DATA_DIR"):
            item.add_marker(without_files)
    if "nightly" not in config.option.markexpr:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("nightly")])
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


@pytest.fixture(autouse=True, scope="session")
def interrupts_are_heard():
    """A shell starts commands in the background with SIGINT ignored; tests of Ctrl-C, and their children, would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def global_generator_is_untouched():
    """Random numbers come from the generator that was passed in, never from NumPy's own."""
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    yield
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    assert after["state"]["pos"] == before["state"]["pos"]
    assert np.array_equal(after["state"]["key"], before["state"]["key"]) and after["gauss"] == before["gauss"]


@pytest.fixture(autouse=True)
def figures_are_closed():
    """A test that draws leaves no open figures to the next one in the same process."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
