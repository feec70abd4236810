import os
import threading
from contextlib import suppress

import pytest

from rigctl.console.sink import Outlet, Sink

SURE_S = 30.0
"""Generous: only a test that fails waits so long."""


@pytest.fixture
def gate():
    """Opened at the end, so that no thread is left blocked."""
    made = threading.Event()
    yield made
    made.set()


def test_what_comes_while_the_queue_is_full_is_dropped_counted_and_told(gate):
    """A blocked sink costs messages; once it delivers again their number is told, and order is kept."""
    out, lost, busy = [], [], threading.Event()

    def deliver(message):
        busy.set()
        assert gate.wait(SURE_S)
        out.append(message)

    sink = Sink("test", deliver, lost.append, most=3)
    sink.put(0)
    assert busy.wait(SURE_S)
    for message in range(1, 10):
        sink.put(message)
    gate.set()
    assert sink.close(SURE_S)
    assert out == [0, 1, 2]
    assert lost == [7]


def test_a_sink_that_raises_loses_the_message_and_goes_on():
    """What delivering raises harms nobody who puts."""
    out, lost = [], []

    def deliver(message):
        if message == 1:
            raise OSError("input/output error")
        out.append(message)

    sink = Sink("test", deliver, lost.append)
    for message in range(3):
        sink.put(message)
    assert sink.close(SURE_S)
    assert (out, lost) == ([0, 2], [1])


def test_closing_does_not_wait_for_a_sink_that_is_blocked(gate):
    """The end has a limit."""
    sink = Sink("test", lambda _: gate.wait(SURE_S), lambda _: None)
    sink.put("never out")
    assert not sink.close(0.01)


@pytest.fixture
def pipe():
    """Both ends, and how to fill it."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def filled(writing):
    """Write until the pipe takes no more; how many bytes."""
    os.set_blocking(writing, False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            count += os.write(writing, b"x" * 512)
    os.set_blocking(writing, True)
    return count


def test_59_writing_to_a_full_pipe_returns_at_once_and_says_later_what_was_lost(pipe):
    """As standard error of a campaign whose reader stalls, and then reads again."""
    reading, writing = pipe
    count = filled(writing)
    with os.fdopen(writing, "w") as stream:
        outlet = Outlet(stream, "test", lambda lost: f"({lost} lost)\n")
        for number in range(5000):
            outlet.write(f"{number}\n")
        while count:
            count -= len(os.read(reading, count))
        assert outlet.end(SURE_S)
    told = b"".join(iter(lambda: os.read(reading, 65536), b"")).decode().split("\n")
    assert told[:2] == ["0", "(4000 lost)"]


def test_an_outlet_is_taken_for_a_text_stream():
    """Whoever probes a stream by writing bytes is told that it takes text."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        outlet = Outlet(stream, "test", str)
        with pytest.raises(TypeError):
            outlet.write(b"")
        assert (outlet.isatty(), outlet.writable(), outlet.encoding) == (False, True, stream.encoding)
        assert outlet.end(SURE_S)
