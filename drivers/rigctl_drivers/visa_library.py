"""Offers one of rigctl's lines to pyvisa, as a backend with a single resource.

pyvisa's resources, and all that is built on them, run on it unchanged. Ports, deadlines and silences stay the line's.
A line of bytes has no service requests, triggers or serial polls.
"""

# ruff: noqa: ARG002 - methods take what pyvisa hands them

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyvisa import attributes, constants, errors, rname
from pyvisa.highlevel import VisaLibraryBase

from rigctl.errors import DeviceError
from rigctl_drivers.foreign_call import ForeignCall

OK: Final = constants.StatusCode.success
MESSAGE_END: Final = b"\n"
"""End of a message if no termination character is set: a line of bytes has no other sign of it."""
FRAME: Final[Mapping[int, tuple[str, Callable[[int], int | str]]]] = {
    constants.ResourceAttribute.asrl_baud_rate: ("baud", int),
    constants.ResourceAttribute.asrl_data_bits: ("bits", int),
    constants.ResourceAttribute.asrl_stop_bits: ("stopbits", lambda tenths: tenths // 10),
    constants.ResourceAttribute.asrl_parity: ("parity", lambda parity: "NOEMS"[parity]),
}
"""Names of a port's settings in a line's URL, and how their values are written there."""


class LineLibrary(VisaLibraryBase):
    """One line as a VISA library; `ResourceManager(library)` opens it under any name of a serial port or socket."""

    call: ForeignCall | None
    """The call that may use the line now, or that was abandoned, if any."""

    @classmethod
    def alone(cls) -> LineLibrary:
        """Create a library that is shared with nobody: pyvisa keeps one for each path."""
        library: LineLibrary = cls(uuid.uuid4().hex)
        return library

    def _init(self) -> None:
        self.call = None
        self.settings: dict[int, dict[int, Any]] = {}
        """Attributes by session."""

    def wanted_frame(self) -> dict[str, int | str]:
        """Return the settings of a serial port that the class asked for, as in a line's URL, which alone decides."""
        asked = [(*FRAME[a], value) for known in self.settings.values() for a, value in known.items() if a in FRAME]
        return {name: written(value) for name, written, value in asked}

    def open_default_resource_manager(self) -> tuple[Any, constants.StatusCode]:
        return 1, OK

    def list_resources(self, session: int, query: str = "") -> tuple[str, ...]:
        return ()

    def open(
        self, session: int, resource_name: str, access_mode: Any = None, open_timeout: Any = None
    ) -> tuple[Any, constants.StatusCode]:
        parsed = rname.parse_resource_name(resource_name)
        known = constants.ResourceAttribute
        opened = 2 + len(self.settings)
        self.settings[opened] = {
            known.resource_manager_session: session,
            known.resource_name: str(parsed),
            known.resource_class: parsed.resource_class,
            known.interface_type: parsed.interface_type_const,
        }
        return opened, OK

    def close(self, session: int) -> constants.StatusCode:
        self.settings.get(session, {}).clear()
        return OK

    def get_attribute(self, session: int, attribute: Any) -> tuple[Any, constants.StatusCode]:
        known = attributes.AttributesByID.get(attribute)
        if known is None:
            return 0, constants.StatusCode.error_nonsupported_attribute
        return self.settings.get(session, {}).get(attribute, known.default), OK

    def set_attribute(self, session: int, attribute: Any, attribute_state: Any) -> constants.StatusCode:
        self.settings[session][attribute] = attribute_state
        return OK

    def write(self, session: int, data: bytes) -> tuple[int, constants.StatusCode]:
        self._use(lambda call: call.write(bytes(data)))
        return len(data), OK

    def read(self, session: int, count: int) -> tuple[bytes, constants.StatusCode]:
        """Return up to `count` bytes, ended by the termination character or, if none is set, by a line feed."""
        names = constants.ResourceAttribute
        has_end = self.get_attribute(session, names.termchar_enabled)[0]
        end = bytes([self.get_attribute(session, names.termchar)[0]]) if has_end else MESSAGE_END
        patience_ms = self.get_attribute(session, names.timeout_value)[0]
        patience_s = math.inf if patience_ms == constants.VI_TMO_INFINITE else patience_ms / 1000
        data = self._use(lambda call: call.read(count, end, patience_s))
        if data.endswith(end):
            return data, constants.StatusCode.success_termination_character_read if has_end else OK
        return data, constants.StatusCode.success_max_count_read

    def clear(self, session: int) -> constants.StatusCode:
        """Drop what has arrived; sends nothing, for a line of bytes has no device clear."""
        self._use(lambda call: call.drop())
        return OK

    def flush(self, session: int, mask: Any) -> constants.StatusCode:
        return self.clear(session)

    def disable_event(self, session: int, event_type: Any, mechanism: Any) -> constants.StatusCode:
        return OK

    discard_events = disable_event

    def _use(self, work: Any) -> Any:
        """Use the line; its errors become pyvisa's, which foreign classes know. Raises `CallOver` once abandoned."""
        if self.call is None:
            raise errors.VisaIOError(constants.StatusCode.error_connection_lost)
        try:
            return work(self.call)
        except DeviceError as problem:
            raise errors.VisaIOError(constants.StatusCode.error_timeout) from problem
