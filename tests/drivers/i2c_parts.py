"""An I2C bus in memory and what stands on it, written for these tests from the data sheets.

`Bus` takes the place of the kernel's adapter; everything else is what runs on a Raspberry Pi.
"""

import errno

import pytest

from rigctl.rig.testing import ManualClock
from rigctl_drivers import i2c_line

READING_S = {"pH": 0.9, "EC": 0.6, "RTD": 0.6}


class Bus:
    """Parties by address; `error` is what the kernel says instead, if it is set."""

    def __init__(self, **parties):
        self.parties = {int(name.removeprefix("at_"), 16): party for name, party in parties.items()}
        self.error = 0
        self.opened = 0

    def __call__(self, _node):
        self.opened += 1
        return self

    def close(self):
        self.opened -= 1

    def transfer(self, address, sent, count):
        if self.error:
            raise OSError(self.error, "as the test wants")
        party = self.parties.get(int(address))
        if party is None:
            raise OSError(errno.EREMOTEIO, "Remote I/O error")
        if sent:
            party.take(sent)
        return party.give(count) if count else b""

    def line(self, clock=None):
        """The line of this bus, as a configuration opens it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(i2c_line, "KernelAdapter", self)
            return i2c_line.open_i2c("i2c:///dev/i2c-1", clock or ManualClock())


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


class Adc:
    """An ADS1115: volts by input; a conversion takes as long as its rate says."""

    INPUTS = ("0-1", "0-3", "1-3", "2-3", "0", "1", "2", "3")
    RANGES_V = (6.144, 4.096, 2.048, 1.024, 0.512, 0.256, 0.256, 0.256)
    RATES = (8, 16, 32, 64, 128, 250, 475, 860)

    def __init__(self, clock, **volts):
        self.clock = clock
        self.volts = {name.removeprefix("in").replace("_", "-"): value for name, value in volts.items()}
        self.config, self.count, self.pointer, self.ready_s = 0x8583, 0, 0, 0.0
        self.meddled = 0
        """Bits that somebody else changes in what it was sent."""

    def take(self, sent):
        self.pointer = sent[0]
        if len(sent) == 3:
            self.config = int.from_bytes(sent[1:]) ^ self.meddled
            volts = self.volts[self.INPUTS[self.config >> 12 & 7]]
            count = round(volts / self.RANGES_V[self.config >> 9 & 7] * 32768)
            self.count = max(-32768, min(32767, count))
            self.ready_s = self.clock.now_s() + 1 / self.RATES[self.config >> 5 & 7]

    def give(self, count):
        ready = self.clock.now_s() >= self.ready_s
        config = (self.config & 0x7FFF) | (0x8000 if ready else 0)
        return (config if self.pointer == 1 else self.count & 0xFFFF).to_bytes(2)[:count]


class Chip:
    """A GPIO chip in memory; a line that nobody drives is held by its pull."""

    def __init__(self):
        self.levels, self.outputs, self.error = {}, set(), 0
        """Levels of pins, by number; 1 is high."""

    def __call__(self, _node):
        return self

    def close(self):
        """Lines stay as they are, as on a Raspberry Pi."""

    def transfer(self, address, sent, count):
        if self.error:
            raise OSError(self.error, "as the test wants")
        number, *words = address.split()
        inverted = "active-low" in words
        if sent:
            self.outputs.add(number)
            self.levels[number] = (sent == b"on") != inverted
        level = self.levels.get(number, "pull-up" in words)
        return (b"on" if level != inverted else b"off") if count else b""
