"""PyMeasure's own recorded exchanges over pyvisa, our VISA library and a `TextLine`; the record answers."""

import math
import select
import threading
from contextlib import contextmanager, suppress

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
