from __future__ import annotations

import os
import signal

import pytest

from rigctl.signals import Signals


@pytest.fixture
def hung_up():
    """A SIGHUP that ends the process, also where the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hung_up")
def test_every_signal_is_noted_in_order_and_told_once():
    """Those that came before anybody could act, and those that come while somebody does."""
    signals, told, queue = Signals(), [], []
    with signals.caught():
        os.kill(os.getpid(), signal.SIGHUP)
        with signals.told(told.append, queue.append):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            while queue:
                queue.pop()()
            assert told == ["SIGHUP", "SIGINT", "SIGINT"]
        os.kill(os.getpid(), signal.SIGTERM)
    assert told == ["SIGHUP", "SIGINT", "SIGINT"]
    assert signals.heard == ["SIGHUP", "SIGINT", "SIGINT", "SIGTERM"]


def test_what_was_ignored_stays_ignored_and_everything_is_put_back():
    """A SIGHUP ignored under nohup is none of ours; afterwards signals do what they did."""
    caught = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        handlers = [signal.getsignal(number) for number in caught]
        signals = Signals()
        with signals.caught(), signals.caught():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signals.heard == []
        assert [signal.getsignal(number) for number in caught] == handlers
    finally:
        signal.signal(signal.SIGHUP, before)
