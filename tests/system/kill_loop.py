"""Kills the daemon again and again and asks the simulator whether anything was lost or done twice (fault 27).

    python tests/system/kill_loop.py --kills 1000

Campaigns on the simulated greenhouse are run to the end of a small budget. Each process is killed with SIGKILL, half of
them exactly before a transaction begins or is committed, the others at random moments, until the kills are used up;
the last campaign is then left to end. Every trial looks first; in every second campaign outcomes come late, too. Every
third goes on with batches for production, which are killed likewise; and backups and recoveries are.
Prints one JSON document, progress goes to standard error; exit code 1 if anything disagreed.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from rigctl.threads import keep_to_one_thread  # noqa: E402

keep_to_one_thread()  # lives are forked from here: they must decide to the same bits as `rigctl journal replay`

from rigctl.campaign.journal import open_reader  # noqa: E402
from rigctl.campaign.trial import Event, State  # noqa: E402
from rigctl.config.load import Overrides, load  # noqa: E402
from rigctl.core.operating.policy import Operating  # noqa: E402
from rigctl.errors import UsageError  # noqa: E402
from tests.simulated import SimHandle, start_sim  # noqa: E402
from tests.system.kill.besides import backup_killed, recovery_killed  # noqa: E402
from tests.system.kill.lives import Ending, Lives, next_ending, next_of_production  # noqa: E402
from tests.system.kill.witness import complaints, doses_and_energy, replayed  # noqa: E402

CONFIG = ROOT / "config" / "greenhouse.yaml"
PATIENT = "  starts: {at_most: 1000000}\n"
"""Goes on however often it is killed; the file ends within `safety`."""
BUDGET = "6 EUR"
AT_ONCE = "sensor: camera,"
LATE = "sensor: camera, after: 20 min, within: 30 d,"
"""Some two trials are under way meanwhile; half a second."""
UNHARMED = Ending("moment", 600.0)
BESIDE = 0.2
"""How many lives are followed by a backup or a recovery that is killed."""
IN_PRODUCTION = 12
"""Kills of a production."""


@dataclass
class Tally:
    """What happened over all campaigns."""

    kills: int = 0
    campaigns: int = 0
    trials: Counter[str] = field(default_factory=Counter)
    killed_in: Counter[str] = field(default_factory=Counter)
    doses: Counter[str] = field(default_factory=Counter)
    doses_sent: int = 0
    came_late: int = 0
    batches: int = 0
    decided: int = 0
    """Trials but those that ended while they looked."""
    decisions_replayed: int = 0
    disagreements: list[str] = field(default_factory=list)


def one_campaign(home: Path, tally: Tally, kills: int, chance: random.Random) -> None:
    """A campaign of as many lives as it takes; then every question to the witness."""
    home.mkdir(parents=True)
    sim = start_sim("greenhouse", home, speed=load(CONFIG).rig.speedup, seed=tally.campaigns)
    try:
        options = ["--budget", BUDGET, "--seed", str(tally.campaigns), "--state", str(home / "state"), "--json"]
        config = home / "rig.yaml"
        text, late = CONFIG.read_text(encoding="utf-8") + PATIENT, tally.campaigns % 2 == 1
        if AT_ONCE not in text:
            raise SystemExit(f"{CONFIG.name}: nothing says '{AT_ONCE}' any more, so no outcome can come late")
        config.write_text(text.replace(AT_ONCE, LATE) if late else text, encoding="utf-8")
        command = [sys.executable, "-m", "rigctl", "run", str(config), *options, *sim.options]
        loaded = load(config, Overrides(sim.buses, budget=BUDGET, seed=tally.campaigns))
        lives = Lives(loaded, home / "state", command, home / "daemon.log")
        killed = 0
        while lives.live(next_ending(chance) if tally.kills < kills else UNHARMED):
            killed += 1
            tally.kills += 1
            tally.killed_in[standing(home / "state")] += 1
            beside(home, tally, chance)
        ask_witness(home, lives, sim, tally, killed)
        tally.disagreements += disagreeing(replayed(home / "state"), tally)
        if tally.campaigns % 3 == 2:
            produce(home, lives, sim, tally, chance)
    finally:
        tally.campaigns += 1
        sim.stop()


def beside(home: Path, tally: Tally, chance: random.Random) -> None:
    """Now and then kill a backup, or a recovery, while nobody runs the campaign."""
    draw, state = chance.random(), home / "state"
    if draw > BESIDE or not begun(state):
        return
    what = "backup" if draw < BESIDE / 2 else "recover"
    work = backup_killed if what == "backup" else recovery_killed
    try:
        found = list(work(state, home, chance))
    except UsageError:  # nothing was ever kept in it
        return
    tally.kills += 1
    tally.killed_in[what] += 1
    tally.disagreements += [f"{home.name}: {one}" for one in found]


def begun(state: Path) -> bool:
    """Tell whether there is a journal yet: a process may be killed while it makes the file."""
    try:
        with open_reader(state):
            return True
    except UsageError:
        return False


def produce(home: Path, lives: Lives, sim: SimHandle, tally: Tally, chance: random.Random) -> None:
    """Run batches for production after the campaign, by as many lives as that takes; then ask the witness again."""
    loaded = lives.loaded
    with open_reader(home / "state") as journal:
        if all(row.outcome is None for row in journal.trials()):
            return  # every trial was killed, so there is nothing to run by
    operating = Operating(loaded.policy, loaded.tolerance, loaded.seed)
    batches = Lives(loaded, home / "state", lives.command, lives.log, operating)
    killed = 0
    while batches.live(next_of_production(chance) if killed < IN_PRODUCTION else UNHARMED):
        killed += 1
        tally.kills += 1
        tally.killed_in[f"operate: {standing(home / 'state')}"] += 1
    with open_reader(home / "state") as journal:
        found = list(doses_and_energy(journal, sim.state()))
        tally.batches += sum(row.operated for row in journal.trials())
    tally.disagreements += [f"{home.name}: operate: {what}" for what in found]


def standing(state: Path) -> str:
    """Where the trial in flight was when the process was killed."""
    try:
        with open_reader(state) as journal:
            trial = journal.open_trial()
            pumping = any(dose.dispensed_ml is None for dose in journal.doses.rows())
            waits = any(row.state is State.AWAITING for row in journal.trials())
            state = "no trial" if trial is None else f"{trial.state}{' in a dose' if pumping else ''}"
            return f"{state}, others awaiting" if waits else state
    except UsageError:
        return "before the journal"


def ask_witness(home: Path, lives: Lives, sim: SimHandle, tally: Tally, kills: int) -> None:
    """Compare journal and simulator; add up."""
    seen = sim.state()
    with open_reader(home / "state") as journal:
        found = list(complaints(journal, lives.loaded.problem.space, seen, kills))
        ended = journal.starts()[-1].ended
        tally.trials.update(str(row.state) for row in journal.trials())
        tally.decided += sum(event.event == Event.PROPOSE for event in journal.events())
        tally.came_late += sum(row.came is not None for row in journal.trials())
        tally.doses.update(dose.state for dose in journal.doses.rows())
    if ended != "budget":
        found.append(f"the campaign ended as {ended}, not with its budget")
    tally.doses_sent += len(seen["doses"])
    tally.disagreements += [f"{home.name}: {what}" for what in found]


def disagreeing(answer: Mapping[str, Any], tally: Tally) -> list[str]:
    """Decisions that came out differently."""
    tally.decisions_replayed += answer["trials"]
    return [f"replay: {trial}" for trial in answer["differing"]]


def main() -> int:
    """Run until the kills are used up; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep journals and logs here")
    options = parser.parse_args()
    chance, tally, started_s = random.Random(options.seed), Tally(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kill") as temporary:
        home = options.keep or Path(temporary)
        unharmed = 0
        # by chance none of a few outcomes came late: of two more campaigns one has such
        while tally.kills < options.kills or (not tally.came_late and unharmed < 2):
            unharmed += tally.kills >= options.kills
            known = len(tally.disagreements)
            one_campaign(home / f"campaign-{tally.campaigns}", tally, options.kills, chance)
            said = (f"{tally.kills} kills, {len(tally.disagreements)} disagreements", *tally.disagreements[known:])
            sys.stderr.write("".join(f"{line}\n" for line in said))
    sys.stdout.write(json.dumps(vars(tally) | {"wall_s": round(time.monotonic() - started_s, 1)}, indent=2) + "\n")
    return 1 if tally.disagreements else 0


if __name__ == "__main__":
    import sklearn.gaussian_process  # noqa: F401 - imported once, so that a forked life starts at once

    sys.exit(main())
