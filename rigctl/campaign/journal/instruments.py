"""The instruments: which stands where, what people have done to them, what they say of their calibration; the trip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rigctl.campaign.journal.database import transaction
from rigctl.campaign.journal.rows import CalibrationRow, Pin, TripRow
from rigctl.campaign.journal.store import Book
from rigctl.codec import fields_of
from rigctl.rig.protocols import Calibration


class PinBook(Book):
    """Which instrument stands where: a row is never changed, the last one of a device counts."""

    def by_device(self) -> dict[str, Pin]:
        return {pin.device: pin for pin in self._rows(Pin)}

    def keep(self, pins: Iterable[Pin], accepted_by: str = "") -> None:
        """Pin instruments; `accepted_by` names the person who said so."""
        said = {"utc": self._time.utc(), "accepted": bool(accepted_by), "who": accepted_by}
        with transaction(self._connection):
            for pin in pins:
                self._insert(Pin, {**fields_of(pin), **said})
                if accepted_by:
                    self._act("accept-device", accepted_by, pin.device, outcome=f"{pin} is expected there")


class TripBook(Book):
    """The trip's latch: what tripped stays tripped, also for the next process, until a person resets it."""

    def latch(self, reason: str) -> None:
        """Record a trip; while one is latched, the first reason stays."""
        with transaction(self._connection):
            self._connection.execute(
                "INSERT INTO trips (reason, utc, at_s) SELECT ?, ?, ? "
                "WHERE NOT EXISTS (SELECT 1 FROM trips WHERE reset_utc IS NULL)",
                (reason, self._time.utc(), self._time.now_s()),
            )

    def latched(self) -> TripRow | None:
        return self._row(TripRow, "WHERE reset_utc IS NULL")

    def reset(self, who: str = "") -> TripRow | None:
        """Let go of the latch, and record when and by whom; returns what it was, None if nothing was latched.

        Doses without an answer are forgiven: whoever has found the cause has looked at pumps and probes too.
        """
        was = self.latched()
        with transaction(self._connection):
            self._connection.execute("UPDATE trips SET reset_utc = ? WHERE reset_utc IS NULL", (self._time.utc(),))
            if was is not None:
                self._act("reset-trip", who, outcome=f"what had tripped: {was.reason}")
                self._connection.execute("UPDATE answers SET forgiven = 1 WHERE NOT answered AND NOT forgiven")
        return was


class UpkeepBook(Book):
    """What instruments say of themselves."""

    def read(self, found: Mapping[str, Calibration], *, fresh: bool = False) -> tuple[str, ...]:
        """Record what devices say of their calibration; return those that say something else than the last time.

        With `fresh` they were calibrated just now, whatever they say.
        """
        known, changed = self.calibrations(), []
        with transaction(self._connection):
            for device, said in found.items():
                last = known.get(device)
                other = fresh or (last is not None and (last.points, last.slopes) != (said.points, said.slopes))
                if other:
                    changed.append(device)
                values = {"device": device, "points": said.points, "slopes": said.slopes, "detail": said.detail}
                self._insert(CalibrationRow, {**values, "changed": other})
        return tuple(changed)

    def calibrations(self) -> Mapping[str, CalibrationRow]:
        """Return what each device last said of its calibration, by name."""
        return self._by_device("max(id)")

    def calibrated(self) -> Mapping[str, CalibrationRow]:
        """Return since when each device says so, by name: as of the last change, else as it was first read."""
        return self._by_device("coalesce(max(CASE WHEN changed THEN id END), min(id))")

    def off_setpoint(self, variable: str, since_s: float, most: int) -> tuple[tuple[int, float], ...]:
        """Return how far a variable was measured from its setpoint in the last trials that controlled it since then.

        In order, by trial, as it was measured at the time. Only the last `most` such trials are looked at.
        """
        rows = self._ask(
            "SELECT s.trial, abs(m.value - s.setpoint) AS off, "
            "(SELECT max(at_s) FROM events WHERE trial = s.trial AND event = 'RUN') AS at_s FROM states s "
            "JOIN measurements m ON m.trial = s.trial AND m.name = s.variable WHERE s.variable = ? AND s.controlled "
            "AND m.severity < 3 AND off IS NOT NULL ORDER BY s.trial DESC LIMIT ?",
            variable,
            most,
        )
        return tuple((r["trial"], r["off"]) for r in reversed(rows) if r["at_s"] is None or r["at_s"] > since_s)

    def _by_device(self, which: str) -> Mapping[str, CalibrationRow]:
        found = self._rows(CalibrationRow, f"WHERE id IN (SELECT {which} FROM calibrations GROUP BY device)")  # noqa: S608 - ours
        return {row.device: row for row in found}
