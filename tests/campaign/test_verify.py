"""`rigctl journal verify`: nothing is found in a journal that rigctl has written, and each thing that cannot be is."""

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from rigctl.campaign.acts import Replaced
from rigctl.campaign.journal import Journal, Reader
from rigctl.campaign.journal.invariants import CHECKS, violations
from rigctl.campaign.journal.rows import TABLES, Amendment, ByHand, ImportRow
from rigctl.campaign.journal.stored import Rows
from rigctl.campaign.journal.verifying import verified
from rigctl.campaign.journal.writer import ManualTrial
from rigctl.errors import DeviceFault
from rigctl.rig.limits import ActuatorLimits, TankSpec
from rigctl.rig.protocols import Calibration, Severity
from rigctl.rig.values import Alarm
from tests.campaign.fakes import FakeClock, Stage, make_rig_spec, make_spec
from tests.campaign.records import amend, make_decision, void

PUMP = ActuatorLimits(low=0.0, high=10.0, safe_state="off", per_dose_ml=25.0, per_day_ml=100.0)
TANK = TankSpec(pumps=("pump", "other"), per_hour_ml=90.0, per_trial_ml=50.0, per_campaign_ml=200.0)
RIG = make_rig_spec(limits={"pump": PUMP}, tanks={"tank": TANK})
CAPS = {1: RIG, 2: RIG}


def by_hand(trial, **known):
    """A trial that a person did."""
    decision = make_decision(trial, origin="manual", setpoints={}, proposal=None, policy_state=None)
    return ManualTrial(decision, {"a": 5.0, "b": 0.5}, 3.75, 250_000, known=ByHand(**known))


def of_people(journal):
    """Something of everything that people do."""
    journal.alarms.add(Alarm(Severity.MINOR, "pump", "slow", kind="slow"))
    journal.alarms.acknowledge(1, "Ada", "seen")
    journal.ingest([by_hand(7)], ("y",))
    journal.ingest([by_hand(8, amount=500_000)], ("y",), ImportRow(0, "old.csv", "0" * 64, 1, 0.5, 1.0, "Ada", ""))
    Replaced(device="pump", part="tubing", who="Ada").apply(journal, make_rig_spec())
    journal.upkeep.read({"probe": Calibration(2, (99.0, 98.0), "Cal,2")})
    void(journal, 2, "Ada", "tap open")
    for trial, cost in ((1, 1_000_000), (1, 2_000_000), (8, 600_000)):
        amend(journal, trial, Amendment(amount=cost), "Ada", "found the bill")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The journal of a campaign in two parts, one of whose trials fails, and of people, closed in good order."""
    stage = Stage(tmp_path_factory.mktemp("verify"))
    faults = iter([None, None, DeviceFault("jammed", device="pump")])

    def once():
        if (fault := next(faults, None)) is not None:
            raise fault

    for trials in (3, 6):
        asyncio.run(stage.run(make_spec(max_trials=trials), fail={"control": once}, idle_kwh=1 / 64))
    with closing(Journal(stage.state, FakeClock(stage.world), "boot-1")) as journal:
        of_people(journal)
        journal.doses.found("pump", PUMP.per_dose_ml + 1.0, 0.0)  # no cap is held against what nobody asked for
        journal.doses.answered("pump", "a_probe", 0.1, 0.1, answered=True)
    return stage.state / "journal.sqlite"


def found(path, check=None):
    with closing(sqlite3.connect(path)) as connection:
        return [str(v) for v in violations(Reader(connection), CAPS, None if check is None else [check])]


def doctored(path, *statements):
    """Changed as no rigctl would: without keys and checks, and past what keeps rows as they were written."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        kept = file.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in kept:
            file.execute(f"DROP TRIGGER {name}")
        file.execute("PRAGMA ignore_check_constraints = ON")
        file.executescript(";".join(statements))
        assert file.total_changes, statements
        for _, sql in kept:
            file.execute(sql)


@pytest.mark.slow
def test_nothing_is_found_in_what_rigctl_wrote(sound):
    """And everything was looked at: no check finds its tables empty."""
    verdict = verified(sound, lambda _: CAPS)
    assert verdict.violations == ()
    assert verdict.held.trials == 8
    few = {name for name, rows in verdict.held.rows.items() if not rows}
    assert few <= {"trips", "pins", "suggestions", "looks", "awaited"}


@pytest.mark.parametrize("table", [table for table in TABLES.values() if table.kept], ids=lambda table: table.name)
def test_what_people_did_cannot_be_rewritten(sound, tmp_path, table):
    """Nor deleted, whatever program tries."""
    path = shutil.copy(sound, tmp_path)
    for change in (f"DELETE FROM {table.name}", f"UPDATE {table.name} SET {table.key[0]} = 9"):  # noqa: S608
        with closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.IntegrityError):
            other.execute(change)


GOLDEN = Path(__file__).parent / "golden_violations.yaml"
CASES = yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number]['check']} {number}")
def test_each_thing_that_cannot_be_is_found(sound, tmp_path, number):
    """By the check that is there for it, which names table and row, and says what to do."""
    case, path = CASES[number], shutil.copy(sound, tmp_path)
    doctored(path, *case["sql"])
    check = next(c for c in CHECKS if c.__name__ == case["check"])
    said = found(path, check)
    if os.environ.get("WRITE_GOLDEN"):
        case["told"] = said
        GOLDEN.write_text(yaml.safe_dump(CASES, sort_keys=False, width=110), encoding="utf-8")
    assert said == case["told"] != []


def test_every_check_can_fail():
    """A check that finds nothing whatever is changed would be none."""
    assert {case["check"] for case in CASES} == {check.__name__ for check in CHECKS}


def test_a_file_that_others_changed_or_damaged_or_whose_log_is_gone_is_told(sound, tmp_path):
    """By its seals, SQLite's own check, and what it says of itself."""
    path = Path(shutil.copy(sound, tmp_path))
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE ledger SET note = 'by the neighbour' WHERE id = 1")
        file.execute("UPDATE starts SET closed = 0")
    assert [v.table for v in verified(path).violations] == ["file", "ledger", "starts"]
    data = sound.read_bytes()
    position = data.rindex(b"tap open")
    for spoilt in (
        data[:position] + b"T" + data[position + 1 :],
        b"SQLite format 4" + data[15:],
        data[: len(data) // 2],
    ):
        path.write_bytes(spoilt)
        assert {v.table for v in verified(path).violations} == {"file"}


def test_a_journal_that_has_lost_its_file_is_told(tmp_path):
    """A log without a file is no journal, and no reason to begin one."""
    path = tmp_path / "journal.sqlite"
    path.with_name("journal.sqlite-wal").write_bytes(b"x")
    assert [v.table for v in verified(path).violations] == ["file"]


def test_a_meter_whose_price_changes_with_the_time_of_day_is_not_held_against_one(sound, tmp_path):
    """What it must have been charged by is not in its line."""
    path = shutil.copy(sound, tmp_path)
    with closing(sqlite3.connect(path)) as file:
        file.row_factory = sqlite3.Row
        rows = Rows.of(file)
        assert rows.prices["power"] == Decimal("0.30")
        rows.identity["meters.power.tariff.zone"] = "Europe/Berlin"
        del rows.__dict__["prices"]
        assert set(rows.prices) == {"acid", "labour", "water"}
