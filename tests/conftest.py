"""What every test starts from."""

import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def interrupts_are_heard():
    """A shell starts commands in the background with SIGINT ignored; tests of Ctrl-C, and their children, would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
