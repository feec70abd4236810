"""What the journal says against what the simulator saw: its dose log and its writes are an independent witness."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rigctl.campaign.journal import Reader
from rigctl.campaign.journal.rows import DoseRow, TrialRow
from rigctl.campaign.trial import Event, State
from rigctl.core.experiment.space import Space
from tests.forked import run

ML = 0.011
"""The pump's display has two decimals."""
KWH = 1e-6
"""Readings that follow each other have the same digits: what is left is the rounding of the sum."""
BY_DOSES = "the sum of the trial's doses"
BY_SHARE = "the rest was idle"
REGISTERS = {"b": 2, "nh4": 4, "k": 6}
"""Where the PLC takes setpoints, see config/greenhouse.yaml."""
GIVEN_UP = (
    "cancelled before anything was controlled: what was read is",
    "not decided: ",
    "decided, but it has to wait",
    "max_per_trial: cost so far",  # on a machine so busy that the rig's hours pass meanwhile
)
STARVED = "watch very late: "
"""Says the watch itself where the machine gave the process no time for ten seconds."""
OVERTAKEN = re.compile(r"^its time was .+ ago, and what its sensor reads now is trial (\d+)'s$")
FINAL = {State.RECORDED, State.LOST, State.FAILED}


def complaints(journal: Reader, space: Space, seen: Mapping[str, Any], kills: int) -> Iterator[str]:
    """Everything in which journal and simulator disagree; nothing, if all is well."""
    yield from _trials(journal, space, kills)
    yield from _late(journal)
    yield from _money(journal, space)
    yield from doses_and_energy(journal, seen)
    yield from _setpoints(journal, seen["writes"]["plc"])


def doses_and_energy(journal: Reader, seen: Mapping[str, Any]) -> Iterator[str]:
    """Yield where the pumps, or the meter of energy, and the journal disagree."""
    for meter, pump in (("calcium", "ca_doser"), ("acid", "ph_doser")):
        intents = [d for d in journal.doses.rows() if d.actuator == pump]
        sent = [d for d in seen["doses"] if d["pump"] == pump]
        yield from _doses(pump, intents, sent)
        charged = sum(line.quantity or 0.0 for line in (*journal.ledger(), *journal.idle.rows()) if line.meter == meter)
        dispensed = sum(d["dispensed_ml"] for d in sent)
        pessimism = sum(i.volume_ml for i in intents if i.state == "UNKNOWN")
        if not -ML * (len(sent) + 1) <= charged - dispensed <= pessimism + ML * (len(sent) + 1):
            yield f"{meter}: {charged} mL charged, the pump dispensed {dispensed} mL"
    yield from _energy(journal, seen["metered"]["energy_kwh"])


def _trials(journal: Reader, space: Space, kills: int) -> Iterator[str]:
    rows = journal.trials()
    if [row.trial for row in rows] != list(range(1, len(rows) + 1)):
        yield f"trials are not numbered through: {[row.trial for row in rows]}"
    if rows and rows[-1].state is State.PROPOSED:  # what was used while nobody was in charge has spent the rest
        rows = rows[:-1]
    for row in rows:
        ends = [e for e in journal.events(row.trial) if e.state.final]
        # what was read may have grown too old while nobody was in charge, or nothing fits the budget after it
        given_up = row.state is State.ABANDONED and row.because.startswith(GIVEN_UP)
        if len(ends) != 1 or (row.state not in FINAL and not given_up):
            yield f"trial {row.trial}: ended {len(ends)} times, is {row.state}: {row.because}"
        if row.state is State.FAILED and not (overtaken(journal, row) or row.because.startswith(STARVED)):
            yield f"trial {row.trial}: FAILED on a rig without faults: {row.because}"
    lost = sum(row.state is State.LOST for row in rows)
    if lost > kills:
        yield f"{lost} trials lost to {kills} kills"
    if len(journal.history(space)) != len(rows):
        yield "a trial is missing from the history"


def overtaken(journal: Reader, row: TrialRow) -> bool:
    """Tell whether it rightly has no outcome: a later trial's was due, too, when the sensor could be read again."""
    named = OVERTAKEN.search(row.because)
    if named is None or row.awaited is None:
        return False
    later = journal.trial(int(named[1])).awaited
    ended_s = next(e.at_s for e in journal.events(row.trial) if e.event is Event.FAIL)
    return later is not None and row.awaited.due_s < later.due_s <= ended_s


def _late(journal: Reader) -> Iterator[str]:
    """Where outcomes come late, each recorded trial has awaited its own, and it has come once."""
    recorded = [row for row in journal.trials() if row.state is State.RECORDED]
    if not any(row.awaited for row in recorded):
        return
    for row in recorded:
        came = sum(correction.trial == row.trial for correction in journal.people.corrections())
        if row.awaited is None or row.came is None or row.outcome is None or came != 1:
            whether = "awaited" if row.awaited else "not awaited"
            yield f"trial {row.trial}: {whether}, outcome {row.outcome}, which came {came} times"


def _money(journal: Reader, space: Space) -> Iterator[str]:
    lines = journal.ledger()
    spent, idle, campaign = sum(line.amount for line in lines), journal.idle.spent(), journal.campaign()
    if not spent == campaign.spent - idle == journal.history(space).spent == sum(row.cost for row in journal.trials()):
        yield f"the ledger adds up to {spent}, and {idle} idle; the campaign has spent {campaign.spent}"
    for line in lines:
        if line.estimated and not line.note.endswith((BY_SHARE, BY_DOSES)):
            yield f"trial {line.trial}: {line.meter} estimated: {line.note}"
    for row in journal.trials():
        armed = any(e.event in (Event.LOOK, Event.ARM) for e in journal.events(row.trial))
        meters = {line.meter for line in journal.ledger(row.trial)}
        if armed != bool(meters):
            yield f"trial {row.trial}: armed: {armed}, charged: {sorted(meters)}"


def _doses(pump: str, intents: Sequence[DoseRow], sent: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Every dose the pump gave belongs to one intent, recorded when its total was what it was then, and none to two.

    An intent may be without a dose: settled at zero, or booked in full because the pump could not testify.
    """
    booked, total_ml = iter([i for i in intents if i.dispensed_ml != 0.0]), 0.0
    for dose in sent:
        given, target = dose["dispensed_ml"], dose["target_ml"]
        fitting = (i for i in booked if abs(i.total_before_ml - total_ml) < ML and abs(i.volume_ml - target) < ML)
        intent = next(fitting, None)
        if intent is None:
            yield f"{pump}: dose {dose['number']} of {target} mL has no intent of its own: repeated?"
        elif intent.dispensed_ml is None or intent.dispensed_ml < given - ML:
            yield f"{pump}: less booked than dispensed: {intent} of {dose}"
        elif intent.state == "DONE" and intent.dispensed_ml > given + ML:
            yield f"{pump}: more settled than dispensed: {intent} of {dose}"
        total_ml += given


def _energy(journal: Reader, now_kwh: float) -> Iterator[str]:
    """The meter's readings follow each other, and every kilowatt-hour from the first to the last is charged once."""
    first, last, metered = None, 0.0, 0
    for row in journal.trials():
        for phase in ("before", "after"):
            reading = journal.meter_readings(row.trial, phase).get("electricity")  # type: ignore[arg-type]
            if reading is None:
                continue
            if not last - 1e-3 <= reading.value <= now_kwh + 1e-3:
                yield f"trial {row.trial}: meter {phase} at {reading.value} kWh, expected {last} to {now_kwh}"
            last, metered = reading.value, row.trial
            first = last if first is None else first
    # What is booked after the last reading that a trial has kept has no such reading to be compared with.
    idle = [line for line in journal.idle.rows() if line.before_trial <= metered]
    charged = sum(line.quantity or 0.0 for line in (*journal.ledger(), *idle) if line.meter == "electricity")
    if abs(charged - (last - (first or 0.0))) > KWH:
        yield f"electricity: {charged} kWh charged, the meter rose from {first} to {last}"


def _setpoints(journal: Reader, writes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A register was written at most once per trial that controls its variable: no trial is imposed again."""
    armed = [row for row in journal.trials() if any(e.event is Event.ARM for e in journal.events(row.trial))]
    for variable, register in REGISTERS.items():
        written = sum(w["function"] in (6, 16) and w["at"] == register for w in writes)
        trials = sum(variable in row.control_set for row in armed)
        if written > trials:
            yield f"{variable}: its setpoint was written {written} times in {trials} trials"


def replayed(state: Path) -> Mapping[str, Any]:
    """What `rigctl journal replay --json` says."""
    done = run(["rigctl", "replay", "--state", state, "--json"])
    assert done.returncode in (0, 1), done.stderr
    answer: Mapping[str, Any] = json.loads(done.stdout)
    return answer
