"""An I2C bus in memory and what stands on it, written for these tests from the data sheets.

`Bus` takes the place of the kernel's adapter; everything else, `I2cLine` included, is what runs on a Raspberry Pi.
"""

from __future__ import annotations

import errno

from rigctl.rig.testing import ManualClock
from rigctl_drivers.i2c_line import I2cLine
from rigctl_drivers.urls import LineUrl

READING_S = {"pH": 0.9, "EC": 0.6, "RTD": 0.6}


class Bus:
    """Parties by address; `error` is what the kernel says instead, if it is set."""

    def __init__(self, **parties):
        self.parties = {int(name.removeprefix("at_"), 16): party for name, party in parties.items()}
        self.error = 0
        self.opened = 0

    def __call__(self, _path):
        self.opened += 1
        return self

    def close(self):
        self.opened -= 1

    def transfer(self, address, sent, count):
        if self.error:
            raise OSError(self.error, "as the test wants")
        if address not in self.parties:
            raise OSError(errno.EREMOTEIO, "Remote I/O error")
        party = self.parties[address]
        if sent:
            party.take(sent)
        return party.give(count) if count else b""

    def line(self, clock=None):
        """The line of this bus, as a configuration opens it."""
        return I2cLine(LineUrl.parse("i2c:///dev/i2c-1", {}), clock or ManualClock(), self)


class Circuit:
    """An EZO circuit: `answers` is a script of UART lines, of which I2C has the data and the status alone."""

    def __init__(self, answers, clock, reading_s=0.6):
        self.answers = answers
        self.clock = clock
        self.reading_s = reading_s
        self.heard = []
        self.deaf = 0
        """Commands that it acknowledges and does not hear."""
        self.busy = False
        """Never ready."""
        self._answer, self._ready_s = None, 0.0

    def take(self, sent):
        command = sent.decode("ascii")
        self.heard.append(command)
        if self.deaf:
            self.deaf -= 1
            self._answer = None
            return
        lines = list(self.answers(command))
        data = "".join(line for line in lines if line not in ("*OK", "*ER"))
        self._answer = bytes([2]) if "*ER" in lines else bytes([1]) + data.encode("ascii")
        self._ready_s = self.clock.now_s() + (self.reading_s if command[0] == "R" else 0.3)

    def give(self, count):
        if self._answer is None:
            return bytes([255]) * count
        if self.busy or self.clock.now_s() < self._ready_s - 1e-9:
            return bytes([254]) + bytes(count - 1)
        answer, self._answer = self._answer, None
        return (answer + bytes(count))[:count]


def sensor(model, value):
    """Answers of a circuit that measures."""

    def answers(command):
        known = {"i": f"?I,{model},2.14", "R": value, "Name,?": "?NAME,north", "Cal,?": "?CAL,2"}
        known |= {"Slope,?": "?SLOPE,99.7,100.3,-0.89", "O,?": "?O,EC", "S,?": "?S,c"}
        if command.startswith("RT,"):
            return [value, "*OK"]
        return [known[command], "*OK"] if command in known else ["*ER"]

    return answers
