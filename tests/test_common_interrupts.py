"""Ctrl-C that waits."""

from __future__ import annotations

import signal
import threading

import pytest

from nrmmix.common.interrupts import interrupts_delayed


def test_an_interrupt_waits_until_the_end():
    done = False
    with pytest.raises(KeyboardInterrupt), interrupts_delayed():
        signal.raise_signal(signal.SIGINT)
        done = True
    assert done and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait():
    done = False
    with pytest.raises(KeyboardInterrupt), interrupts_delayed():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done = True
    assert not done and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_blocks_may_be_nested():
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_delayed():
        with interrupts_delayed():
            signal.raise_signal(signal.SIGINT)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_errors_pass():
    with pytest.raises(ValueError, match="text"), interrupts_delayed():
        raise ValueError("text")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_and_ignored_signals_are_left_alone():
    seen = []

    def work():
        with interrupts_delayed():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_delayed():
            seen.append(signal.getsignal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, usual)
    assert seen == [signal.default_int_handler, signal.SIG_IGN]
