"""PyMeasure's own recorded exchanges, carried by our lines: `python -m tests.drivers.bridge_exchanges FOLDER`.

FOLDER is `tests/instruments` of PyMeasure's sources of the version that is installed. Each recorded exchange runs
twice: on PyMeasure's own adapter, and over pyvisa, our VISA library and a `TextLine`, at whose other end the record
answers.
"""

import json
import math
import select
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rigctl.rig.protocols import Deadline
from rigctl.rig.testing import ManualClock
from rigctl_drivers.byte_line import QUIET, TextLine
from rigctl_drivers.foreign_call import ForeignCall
from rigctl_drivers.instrument_libraries import PyMeasure, resource_name
from rigctl_drivers.urls import LineUrl
from rigctl_drivers.visa_library import LineLibrary

URL = "serial:///dev/ttyS0?quiet=0.01"


class RecordedPort:
    """An instrument that answers as recorded; it ends a message only for who waits for more than the message.

    Records are without terminators: what they are, the class says.
    """

    def __init__(self, pairs, to_bytes, ends):
        self.ends = ends
        self.pairs = [tuple(None if part is None else to_bytes(part) for part in pair) for pair in pairs]
        self.at = 0
        self.raw = self.bare = b""
        self.coming = b""
        self.owed = False

    def ready(self, event, seconds):
        if event == select.POLLIN and not self.coming and not self.owed and self._speaks_first():
            self._answer()
        return event == select.POLLOUT or bool(self.coming) or self.owed

    def read(self):
        data, self.coming = self.coming, b""
        if not data:
            data, self.owed = self.ends()[0], False
        elif data.endswith(self.ends()[0]):
            self.owed = False
        return data

    def write(self, data):
        self.raw, self.bare = self.raw + bytes(data), self.bare + bytes(data).removesuffix(self.ends()[1])
        self.owed = False
        if self.at < len(self.pairs) and self.pairs[self.at][0] in (self.raw, self.bare):
            self.raw = self.bare = b""
            self._answer()
        return len(data)

    def close(self):
        """Stay as it is."""

    def done(self):
        return self.at == len(self.pairs) and not self.raw and not self.coming

    def _speaks_first(self):
        return self.at < len(self.pairs) and self.pairs[self.at][0] is None

    def _answer(self):
        said = self.pairs[self.at][1]
        self.at += 1
        if said is not None:
            self.coming, self.owed = said, True


@contextmanager
def carried(instrument_class, pairs, connection_attributes=None, connection_methods=None, **settings):
    """Stand in for `pymeasure.test.expected_protocol`."""
    from pymeasure.adapters import VISAAdapter
    from pymeasure.adapters.protocol import to_bytes

    def ends():
        for resource in visa.resource_manager._created_resources:
            return (resource.read_termination or "\n").encode(), (resource.write_termination or "").encode()
        return b"\n", b"\r\n"

    port = RecordedPort(pairs, to_bytes, ends)
    line = TextLine(LineUrl.parse(URL, QUIET), ManualClock(), lambda patience_s: port)
    line.open()
    visa, done = LineLibrary.alone(), threading.Event()
    visa.call = ForeignCall(line, Deadline(math.inf))
    bus = threading.Thread(target=visa.call.run, args=(done.wait,), daemon=True)
    bus.start()
    try:
        try:
            instrument = PyMeasure.make(instrument_class, resource_name(URL), visa, settings)
        except TypeError:  # a part of an instrument, which hands nothing on to its connection
            instrument = instrument_class(VISAAdapter(resource_name(URL), visa_library=visa), **settings)
        for name, value in (connection_attributes or {}).items():
            with suppress(Exception):
                setattr(instrument.adapter.connection, name, value)
        for name, value in (connection_methods or {}).items():
            setattr(instrument.adapter.connection, name, lambda *_, value=value, **__: value)
        yield instrument
        assert port.done(), f"not all was said: {port.pairs[port.at :]}"
        assert line._buffer in (b"", ends()[0]), "not all was read"
    finally:
        done.set()
        bus.join(120.0)


class Counting:
    """A pytest plug-in: how each test ended, and how many recorded exchanges it holds."""

    def __init__(self, *, over_us):
        import pymeasure.test

        self.ended: dict[str, bool] = {}
        self.exchanges: dict[str, int] = {}
        self._running = ""
        own = carried if over_us else pymeasure.test.expected_protocol

        def counted(instrument_class, comm_pairs, *given: Any, **settings: Any):
            self.exchanges[self._running] = self.exchanges.get(self._running, 0) + len(comm_pairs)
            return own(instrument_class, comm_pairs, *given, **settings)

        pymeasure.test.expected_protocol = counted

    def pytest_runtest_setup(self, item):
        self._running = item.nodeid

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.ended[report.nodeid] = report.passed


def run(folder, *, over_us):
    """Return how many exchanges each test holds that uses recorded ones, and whether it passed."""
    counting = Counting(over_us=over_us)
    given = ["-q", "-p", "no:cacheprovider", "--tb=line", "--timeout=10", "--import-mode=importlib"]
    with TemporaryDirectory() as scratch:
        settings = Path(scratch, "pytest.ini")  # neither PyMeasure's nor ours
        settings.write_text("[pytest]\n", encoding="utf-8")
        pytest.main([*given, "-c", str(settings), "--rootdir", str(folder), str(folder)], plugins=[counting])
    return {
        name: (counting.exchanges[name], passed)
        for name, passed in counting.ended.items()
        if name in counting.exchanges
    }


def main():
    """Run both ways, each in a process of its own, for PyMeasure's tests bind their adapter when they are imported."""
    folder, *way = sys.argv[1:]
    if way:
        Path(way[1]).write_text(json.dumps(run(Path(folder).resolve(), over_us=way[0] == "ours")), encoding="utf-8")
        return
    ways = {}
    with TemporaryDirectory() as scratch:
        for name in ("own", "ours"):
            file = Path(scratch, name)
            subprocess.run([sys.executable, "-m", __spec__.name, folder, name, file], check=True)
            ways[name] = json.loads(file.read_text(encoding="utf-8"))
    well = {name: pairs for name, (pairs, passed) in ways["own"].items() if passed}
    ours = {name: pairs for name, pairs in well.items() if ways["ours"].get(name, (0, False))[1]}
    print("not over our lines:", *sorted(set(well) - set(ours)), sep="\n  ")
    print(f"{len(ours)} of {len(well)} records pass over our lines ({len(ours) / len(well):.1%}),")
    print(
        f"{sum(ours.values())} of {sum(well.values())} pairs of bytes ({sum(ours.values()) / sum(well.values()):.1%})"
    )


if __name__ == "__main__":
    main()
