"""What people have done to the instruments, and what these say of their calibration."""

from __future__ import annotations

from collections.abc import Mapping

from rigctl.campaign.journal.database import Questions, ask, transaction
from rigctl.campaign.journal.inserts import Book
from rigctl.campaign.journal.rows import CalibrationRow, UpkeepKind, UpkeepRow
from rigctl.rig.abilities import Calibration


class UpkeepBook(Book):
    """Writes it. Each call returns only after the record is on disk."""

    def keep(
        self,
        kind: UpkeepKind,
        device: str,
        *,
        verb: str,
        who: str,
        why: str = "",
        part: str = "",
        volume_ml: float | None = None,
        age_s: float = 0.0,
        outcome: str = "",
    ) -> None:
        """Record what a person has done to a device, and the act in the audit; `age_s`: how long ago that was."""
        values = {"device": device, "kind": kind, "part": part, "volume_ml": volume_ml, "age_s": age_s}
        with transaction(self._connection):
            self._do.insert("upkeep", {**values, "why": why, "who": who, **self._now()})
            self._do.add_act(verb, who, " ".join(filter(None, (device, part))), why, outcome)

    def read(self, found: Mapping[str, Calibration], *, fresh: bool = False) -> tuple[str, ...]:
        """Record what devices say of their calibration; return those that say something else than the last time.

        With `fresh` they were calibrated just now, whatever they say.
        """
        known, changed = UpkeepRows(self._connection).calibrations(), []
        with transaction(self._connection):
            for device, said in found.items():
                last = known.get(device)
                other = fresh or (last is not None and (last.points, last.slopes) != (said.points, said.slopes))
                if other:
                    changed.append(device)
                values = {"device": device, "points": said.points, "slopes": said.slopes, "detail": said.detail}
                self._do.insert("calibrations", {**values, "changed": other, **self._now()})
        return tuple(changed)

    def _now(self) -> Mapping[str, object]:
        return {**self._time.stamp(), "epoch": self._time.epoch}


class UpkeepRows(Questions):
    """Answers what is asked about it."""

    def rows(self) -> tuple[UpkeepRow, ...]:
        """Return what people have done, in order."""
        return self._rows(UpkeepRow, "SELECT * FROM upkeep ORDER BY id")

    def calibrations(self) -> Mapping[str, CalibrationRow]:
        """Return what each device last said of its calibration, by name."""
        return self._by_device("max(id)")

    def calibrated(self) -> Mapping[str, CalibrationRow]:
        """Return since when each device says so, by name: as of the last change, else as it was first read."""
        return self._by_device("coalesce(max(CASE WHEN changed THEN id END), min(id))")

    def dosed_ml(self, pump: str, since_s: float = 0.0) -> tuple[float, int]:
        """Return the volume of a pump's doses since a campaign time, open ones in full, and how many they are."""
        (row,) = ask(
            self._connection,
            "SELECT coalesce(sum(coalesce(dispensed_ml, volume_ml)), 0.0) AS ml, count(*) AS doses FROM doses "
            "WHERE actuator = ? AND at_s >= ?",
            pump,
            since_s,
        )
        return float(row["ml"]), int(row["doses"])

    def dearest_trial_ml(self, pump: str) -> float:
        """Return the most that one of the last trials has dispensed with this pump."""
        (row,) = ask(
            self._connection,
            "SELECT coalesce(max(ml), 0.0) AS ml FROM (SELECT sum(coalesce(dispensed_ml, volume_ml)) AS ml FROM doses "
            "WHERE actuator = ? AND trial > (SELECT max(trial) - 20 FROM trials) GROUP BY trial)",
            pump,
        )
        return float(row["ml"])

    def off_setpoint(self, variable: str, since_s: float, most: int) -> tuple[tuple[int, float], ...]:
        """Return how far a variable was measured from its setpoint in the last trials that controlled it since then.

        In order, by trial, as it was measured at the time. Only the last `most` such trials are looked at.
        """
        rows = ask(
            self._connection,
            "SELECT s.trial, abs(m.value - s.setpoint) AS off, "
            "(SELECT max(at_s) FROM events WHERE trial = s.trial AND event = 'RUN') AS at_s FROM states s "
            "JOIN measurements m ON m.trial = s.trial AND m.name = s.variable WHERE s.variable = ? AND s.controlled "
            "AND m.severity < 3 AND off IS NOT NULL ORDER BY s.trial DESC LIMIT ?",
            variable,
            most,
        )
        return tuple((r["trial"], r["off"]) for r in reversed(rows) if r["at_s"] is None or r["at_s"] > since_s)

    def _by_device(self, which: str) -> Mapping[str, CalibrationRow]:
        sql = f"SELECT * FROM calibrations WHERE id IN (SELECT {which} FROM calibrations GROUP BY device)"  # noqa: S608 - our own words
        return {row.device: row for row in self._rows(CalibrationRow, sql)}
