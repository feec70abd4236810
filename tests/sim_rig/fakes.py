"""A timer under the test's hand, arrays small enough to check by eye, and a serial port that is closed again."""

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import serial


class FakeHandle:
    """A planned call."""

    def __init__(self, call):
        self.call = call

    def cancel(self):
        self.call = None


class FakeTimer:
    """Simulated time that passes when the test says so; `on_pass` moves a plant along."""

    def __init__(self, on_pass: Callable[[float], object] = lambda seconds: None):
        self.time_s = 1000.0
        self.on_pass = on_pass
        self._planned = []
        self._order = itertools.count()

    def now_s(self):
        return self.time_s

    def after(self, simulated_s, call):
        handle = FakeHandle(call)
        heapq.heappush(self._planned, (self.time_s + simulated_s, next(self._order), handle))
        return handle

    def soon(self, simulated_s, call):
        self.after(simulated_s, call)

    def at_least_s(self, wall_s):
        return wall_s

    def run(self, seconds):
        """Let time pass; whatever is due happens on its way."""
        end_s = self.time_s + seconds
        while self._planned and self._planned[0][0] <= end_s + 1e-9:
            due_s, _, handle = heapq.heappop(self._planned)
            self._move(due_s)
            if handle.call is not None:
                handle.call()
        self._move(end_s)

    def _move(self, to_s):
        if to_s > self.time_s:
            self.on_pass(to_s - self.time_s)
            self.time_s = to_s


class Wire:
    """Collects what a face sends, as lines."""

    def __init__(self, terminator: bytes):
        self.terminator = terminator
        self.raw = b""

    def __call__(self, data: bytes):
        self.raw += data

    def lines(self):
        """Everything since last asked."""
        taken, self.raw = self.raw, b""
        return [line.decode() for line in taken.split(self.terminator) if line]


def small_arrays(kernel="rbf", dimension=5, centres=7, seed=3):
    """A response of the stored kind, for tests; says nothing about any real process."""
    rng = np.random.default_rng(seed)
    return {
        "centers": rng.random((centres, dimension)),
        "alpha": rng.normal(size=centres),
        "lengthscales": rng.uniform(0.3, 0.8, dimension),
        "outputscale": np.array(1.7),
        "mean_constant": np.array(0.2),
        "kernel": np.array(kernel),
        "lower": np.array([200.0, 0.0, 0.0254, 31.7, 0.000400682])[:dimension],
        "upper": np.array([20000.0, 22.2, 0.3048, 71.3, 0.0584113])[:dimension],
        "log_input": np.array([True, False, False, False, True])[:dimension],
        "output_mean": np.array(120.0),
        "output_std": np.array(5.0),
    }


@contextmanager
def serial_port(path: str, baud: int = 9600) -> Iterator[serial.Serial]:
    """An open port with nothing stale in it."""
    with serial.Serial(path, baud, timeout=5, write_timeout=5) as port:
        port.reset_input_buffer()
        yield port


def ask(port: serial.Serial, command: str) -> list[str]:
    """Send an EZO command and return its lines up to and including `*OK` or `*ER`."""
    port.write(command.encode() + b"\r")
    lines = []
    while not lines or lines[-1] not in ("*OK", "*ER"):
        line = port.read_until(b"\r")
        assert line.endswith(b"\r"), f"{command}: no answer after {lines}"
        lines.append(line[:-1].decode())
    return lines
