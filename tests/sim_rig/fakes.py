"""A timer under the test's hand, arrays small enough to check by eye, and a serial port that is closed again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import serial

from sim_rig.clock import SteppedTimer


class FakeTimer(SteppedTimer):
    """Simulated time that passes when the test says so, as do answers; `on_pass` moves a plant along."""

    def __init__(self, on_pass: Callable[[float], object] = lambda seconds: None):
        super().__init__()
        self.on_pass = on_pass
        self.moved_s = 0.0
        self.sync = self._move

    def soon(self, simulated_s, call):
        self.after(simulated_s, call)

    def run(self, seconds):
        """Let time pass; whatever is due happens on its way."""
        self.go_to(self.now_s() + seconds)

    def _move(self):
        self.on_pass(self.now_s() - self.moved_s)
        self.moved_s = self.now_s()


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


class Talk:
    """A face at the end of a wire, with the test's hand on its clock."""

    def __init__(self, face, timer, wire):
        self.face, self.timer, self.wire = face, timer, wire
        face.send = wire

    def ask(self, command, seconds):
        """Send a command, or nothing if it is empty; what was said after so much time."""
        self.face.feed(command.encode() + self.wire.terminator * bool(command))
        self.timer.run(seconds)
        return self.wire.lines()

    def assert_goes_as(self, dialogue):
        """Raise AssertionError unless each command is answered so after its time."""
        for command, seconds, answer in dialogue:
            assert self.ask(command, seconds) == answer, command


def small_arrays(kernel="rbf"):
    """A response of the stored kind, for tests; says nothing about any real process."""
    rng = np.random.default_rng(3)
    return {
        "centers": rng.random((7, 5)),
        "alpha": rng.normal(size=7),
        "lengthscales": rng.uniform(0.3, 0.8, 5),
        "outputscale": np.array(1.7),
        "mean_constant": np.array(0.2),
        "kernel": np.array(kernel),
        "lower": np.array([200.0, 0.0, 0.0254, 31.7, 0.000400682]),
        "upper": np.array([20000.0, 22.2, 0.3048, 71.3, 0.0584113]),
        "log_input": np.array([True, False, False, False, True]),
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
