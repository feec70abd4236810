"""A month of a rig, left alone: `python -m tests.system.month [--days 30] [--out FOLDER]`.

A campaign on the simulated greenhouse at speed 2400, under a manager as `rigctl tools service` describes it, goes
through what a month has in store: reboots, kills, a full disk, an exchanged probe, bottles that run empty, tariffs, a
change of the clock. Nobody touches it, but for what it asks for: a person types the commands that its alarms name, and
nothing else. At the end what the rig counted is held against the journal. Prints a table; exit code 1 if anything
differs.
"""

import argparse
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rigctl.rig.protocols import Severity
from tests.simulated import SimHandle, start_sim
from tests.system.stack import ROOT, SPEED, SURE, Process, Stack, fill, greenhouse, mounted

DAY_S = 86400.0 / SPEED
"""Wall seconds of a day of rig time."""
BEGINS = "2026-10-10T00:00+02:00"
ASKED = re.compile(r"`(rigctl [^`]+)`")
NIGHT, DAY = 0.22, 0.31
RESTARTS_NOT = (2, 3, 4)
"""Exit codes after which the unit does not start it again, and 0."""
LOOK_S = 0.25


def config(path: Path) -> Path:
    """The greenhouse of the example, with bottles, tariffs and civil time; a trial takes an hour."""

    def edit(rig: dict[str, Any]) -> None:
        rig |= {"budget": "100000 EUR", "model": dict(SURE), "zone": "Europe/Berlin"}
        rig["clock"] |= {"begins": BEGINS}
        (electricity,) = (meter for meter in rig["meters"] if meter["name"] == "electricity")
        electricity["price"] = [
            {"name": "night", "price": f"{NIGHT} EUR/kWh", "during": "22:00-06:00"},
            {"name": "day", "price": f"{DAY} EUR/kWh"},
        ]
        for pump, volume in (("ca_doser", "4 L"), ("ph_doser", "2.5 L")):
            rig["devices"][pump]["inventory"] = {"volume": volume, "warn_at": 5}
        rig["devices"]["ph_probe"]["calibration"] = {"every": "20 d"}

    return greenhouse(path, (("ca", "b"), ("nh4", "k"), ("k", "ph")), settle="50 min", edit=edit)


@dataclass
class Manager:
    """Starts the campaign again as systemd does by its unit, and makes it safe after each end."""

    stack: Stack
    config: Path
    state: Path
    starts: int = 0
    ends: list[int] = field(default_factory=list)
    run: Process | None = None

    def start(self) -> None:
        self.starts += 1
        self.run = self.stack.run(self.config, self.state)

    def look(self) -> None:
        """Do what is to be done about an end."""
        if self.run is None or self.run.alive:
            return
        code = self.run.wait()
        self.ends.append(code)
        self.stack.rigctl("safe", "--if-left-driven", "--state", self.state).wait()
        said, self.run = self.run, None
        if code not in (0, *RESTARTS_NOT):
            self.start()
        else:
            print(f"ended for good with {code}: {said.said[-500:]}", file=sys.stderr)

    def reboot(self) -> None:
        """As a computer does: everybody is asked to end, and started again."""
        assert self.run is not None
        self.run.process.terminate()
        self.ends.append(self.run.wait())
        self.start()

    def kill(self) -> None:
        """Without a word."""
        assert self.run is not None
        self.run.process.send_signal(signal.SIGKILL)
        self.run.wait()


@dataclass
class Person:
    """Types what alarms and errors ask for, word for word, once each time that they do."""

    manager: Manager
    sim: SimHandle
    typed: list[str] = field(default_factory=list)
    seen: int = 0

    def look(self) -> None:
        """Read what is new, and do what it says."""
        if not (self.manager.state / "journal.sqlite").exists() or self.manager.run is None:
            return
        sql = "SELECT id, message FROM alarms WHERE id > ? AND severity >= ? ORDER BY id"
        for row in self.manager.run.rows(sql, self.seen, Severity.MINOR):
            self.seen = row["id"]
            for command in ASKED.findall(row["message"]):
                self.type(command)

    def type(self, command: str) -> None:
        """Type a command as it stands, in the directory of the rig; `status` and such change nothing."""
        words = shlex.split(command)[1:]
        if words[0] in ("status", "alarms", "explain", "export", "doctor"):
            return
        if words[0] == "calibrated":
            slopes(self.sim, "99.7,100.3,-0.89")  # "clean or replace the probe": it is a new one
        done = self.manager.stack.rigctl(*words, "--state", self.manager.state)
        code = done.wait()
        self.typed.append(f"{command}: {code}")
        print(f"typed {command}: {code} {done.said[-300:]}", file=sys.stderr)


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of its own that can be filled; where none can be mounted, the disk stays as it is."""
    place.mkdir()
    held = mounted(place, "64m")
    try:
        yield place
    finally:
        if held:
            subprocess.run(["umount", "-l", str(place)], check=False)


def happenings(sim: SimHandle, manager: Manager, disk: Path) -> tuple[tuple[float, str, Callable[[], object]], ...]:
    """What happens on which day."""
    return (
        (2.0, "killed", manager.kill),
        (4.0, "reboot", manager.reboot),
        (6.0, "the disk is full", lambda: fill(disk / "ballast")),
        (6.2, "the disk has room again", (disk / "ballast").unlink),
        (9.0, "the pH probe has worn out", lambda: slopes(sim, "71.2,74.9,-21.00")),
        (12.0, "the power meter is away", lambda: sim.control({"fault": "unplug", "bus": "mains"})),
        (12.1, "and back", lambda: sim.control({"fault": "replug", "bus": "mains"})),
        (18.0, "killed", manager.kill),
        (18.05, "and killed again", manager.kill),
        (24.0, "reboot", manager.reboot),
    )


def slopes(sim: SimHandle, percent: str) -> None:
    """Let the pH probe have these slopes."""
    sim.control({"fault": "slopes", "bus": "ph", "as": percent})


def live(days: float, home: Path) -> int:
    """Let the month pass; return how much is wrong."""
    sim = start_sim("greenhouse", home, speed=SPEED, seed=10)
    stack = Stack(sim, home)
    with small_disk(home / "disk") as disk:
        try:
            manager = Manager(stack, config(home / "rig.yaml"), disk / "state")
            person = Person(manager, sim)
            manager.start()
            pass_days(days, happenings(sim, manager, disk), manager, person)
            wrong = summary(sim, manager, person)
            shutil.copytree(manager.state, home / "state", ignore=shutil.ignore_patterns("*.sock"))  # the disk goes
            return wrong
        finally:
            stack.end()
            sim.stop()


def pass_days(
    days: float, plan: tuple[tuple[float, str, Callable[[], object]], ...], manager: Manager, person: Person
) -> None:
    """Look after the manager and the person while time passes."""
    began_s, left = time.monotonic(), [entry for entry in plan if entry[0] < days]
    while (day := (time.monotonic() - began_s) / DAY_S) < days:
        if left and left[0][0] <= day and manager.run is not None:
            _, what, do = left.pop(0)
            print(f"day {day:5.2f}: {what}", file=sys.stderr)
            do()
        manager.look()
        person.look()
        time.sleep(LOOK_S)


def summary(sim: SimHandle, manager: Manager, person: Person) -> int:
    """Hold what the rig has counted against the journal, and print it."""
    run = manager.run
    assert run is not None, "the campaign had ended for good"
    run.process.terminate()
    manager.ends.append(run.wait())
    state = sim.state()
    checks: dict[str, bool] = {}
    for verb in ("verify", "replay"):
        checked = manager.stack.rigctl(verb, "--state", manager.state)
        checks[f"rigctl {verb}"] = checked.wait() == 0
        print(checked.out.read_text(encoding="utf-8")[-600:], checked.said[-600:], file=sys.stderr)
    sums = run.rows("SELECT actuator, sum(dispensed_ml) AS ml FROM doses GROUP BY 1")
    booked = {row["actuator"]: row["ml"] for row in sums}
    given: dict[str, float] = {}
    for dose in state["doses"]:
        given[dose["pump"]] = given.get(dose["pump"], 0.0) + dose["dispensed_ml"]
    checks["everything is let go"] = state["plant"]["setpoints"] == {}
    checks["no pump gave more than is booked"] = sum(booked.values()) >= sum(given.values()) - 0.1
    print(f"booked {booked}, given {given}", file=sys.stderr)
    sql = "SELECT quantity, amount_micros / 1e6 AS amount FROM ledger WHERE meter = 'electricity' AND NOT estimated"
    lines = [(row["quantity"], row["amount"]) for row in run.rows(sql)]
    checks["electricity costs what its hours do"] = all(NIGHT * q - 1e-6 <= a <= DAY * q + 1e-6 for q, a in lines)
    checks["both rates, and their mixtures, were charged"] = len({round(a / q, 3) for q, a in lines if q}) > 2
    trials = {row["state"]: row["n"] for row in run.rows("SELECT state, count(*) AS n FROM trials GROUP BY 1")}
    checks["trials went on to the end"] = trials.get("RECORDED", 0) > 0
    print(f"trials {trials}; {manager.starts} starts; ends {manager.ends}; typed, because it was asked for:")
    print(*(f"  {line}" for line in person.typed), sep="\n")
    print("| check | |\n|---|---|")
    print(*(f"| {name} | {'holds' if ok else 'FAILS'} |" for name, ok in checks.items()), sep="\n")
    return sum(not ok for ok in checks.values())


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--days", type=float, default=30.0)
    options.add_argument("--out", type=Path)
    given = options.parse_args(arguments)
    if given.out is not None:
        given.out.mkdir(parents=True)
        return int(live(given.days, given.out) > 0)
    with tempfile.TemporaryDirectory(prefix="rigctl-month-") as folder:
        return int(live(given.days, Path(folder)) > 0)


if __name__ == "__main__":
    assert ROOT.is_dir()
    sys.exit(main(sys.argv[1:]))
