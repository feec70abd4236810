"""A whole campaign against a simulated rig: a process of its own that speaks the real protocols."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import rigctl
from rigctl import system
from rigctl.campaign.journal import open_reader
from rigctl.campaign.lock import make_directory
from rigctl.config.load import LoadedConfig, Overrides, load, load_text
from rigctl.console import run
from rigctl.console.output import number, recommend_command
from rigctl.console.serving import linger, page_beside
from rigctl.core.advice.recommend import Option
from rigctl.core.advice.rule import Rule
from rigctl.core.experiment.money import to_units
from rigctl.errors import RigctlError, UsageError, counted
from rigctl.flaws import got
from rigctl.page.shown import ShownLabels
from rigctl.rig.clocks import SteppedClock
from rigctl.text import set_label

if TYPE_CHECKING:
    from rich.console import Console

    from rigctl.signals import Signals


MODULE = "sim_rig"
CONTROL_SOCKET, READY = "control.sock", "ready.json"
READY_S = 30.0
"""Wall seconds until every port must listen; generous, for a loaded machine."""
ANSWER_S = 30.0
"""Wall seconds within which it has let its time pass."""
STOP_S = 5.0
TRUTH_S = 120.0
NAMES: Final = ("greenhouse", "lathe", "wind-tunnel")
ARRAYS: Final = {"greenhouse": "plant_growth.npz", "wind-tunnel": "airfoil.npz"}
"""What a scenario reads from its data directory."""
NEED_ARRAYS: Final = ("wind-tunnel",)
"""Scenarios without a response of their own."""


@dataclass(frozen=True, slots=True)
class DemoRig:
    """Which simulated rig."""

    name: str
    speedup: float
    """Rig seconds per wall second, shared with the campaign's clock."""
    seed: int
    data: Path | None = None
    """Directory with the arrays some scenarios read."""
    stepped: bool = False
    """Whether its time moves only when a `Stepper` says so; else it runs by itself."""


def check_scenario(name: str, data: Path | None) -> None:
    """Check that there is such a simulated rig and that it has what it reads; start nothing.

    Raises:
        UsageError: there is not, or it has not.
    """
    if name not in NAMES:
        raise UsageError(got(name, f"must be one of {', '.join(NAMES)}", where="--scenario"))
    file = ARRAYS.get(name)
    if data is None and name in NEED_ARRAYS:
        raise UsageError(f"--scenario {name}: needs --data DIR, the directory that {file} is in")
    if data is not None and file is not None and not (data / file).is_file():
        raise UsageError(f"--data {data}: {file} is not there; --scenario {name} reads it")


@dataclass(frozen=True, slots=True)
class Stepper:
    """Tells a simulated rig how far its time goes, over the control socket that it has announced in its directory."""

    directory: Path

    async def __call__(self, time_s: float) -> None:
        """Let the rig's time pass up to this one, rig seconds; raises RigctlError if it does not answer, or refuses."""
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self._ask({"go_to": time_s})
        except (OSError, TimeoutError, ValueError) as error:
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            raise RigctlError(f"the simulated rig cannot be told of the time: {what}") from error
        if not answer.get("ok"):
            raise RigctlError(f"the simulated rig refuses to go on: {answer.get('error')}")

    async def _ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        reader, writer = await self._connected()
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            answer: Mapping[str, Any] = json.loads(await reader.readline() or b"{}")
            return answer
        finally:
            writer.close()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not system.drives_instruments():
            host, port = json.loads((self.directory / READY).read_text(encoding="utf-8"))["control"]
            return await asyncio.open_connection(host, port)
        folder = os.open(self.directory, os.O_RDONLY)
        try:  # through the folder's descriptor: a socket's own path must be shorter than 108 bytes
            return await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{CONTROL_SOCKET}")
        finally:
            os.close(folder)


@contextmanager
def simulator(scenario: DemoRig, directory: Path) -> Iterator[Mapping[str, str]]:
    """Give bus name -> URL of a simulated rig that runs while the block does.

    It has a session of its own, so that Ctrl-C reaches only us: the rig must still be there to be made safe. Where a
    system has no serial ports of its own making, its instruments are behind TCP.

    Raises:
        RigctlError: it does not come up; carries what it said.
    """
    ready, serial = directory / READY, system.drives_instruments()
    options = [scenario.name, "--speed", repr(scenario.speedup), "--seed", str(scenario.seed), "--port", "0"]
    options += ["--with-parent", str(os.getpid()), *(["--stepped"] if scenario.stepped else [])]
    options += [] if serial else ["--network"]
    with (directory / "sim.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(  # noqa: S603  # our own module, in our own interpreter
            _command(scenario, *options, "--ready", str(ready), "--dir", str(directory)),
            stdin=subprocess.DEVNULL if serial else subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield _wait(process, ready, directory / "sim.log")
        finally:
            _stop(process)


def truth(scenario: DemoRig, option: Option, *, blind: bool = False) -> Mapping[str, Any]:
    """Ask the simulator what this setting is truly worth; `blind`: by trials that do not look first.

    Raises:
        RigctlError: it does not say.
    """
    setpoints = ",".join(f"{name}={value!r}" for name, value in option.setpoints.items())
    options = ["--control-set", set_label(option.control_set), "--setpoints", setpoints, "--json"]
    return _told(scenario, [*options, *(["--blind"] if blind else [])])


def truth_of_rule(scenario: DemoRig, rule: Rule) -> Mapping[str, Any]:
    """Ask the simulator what following this rule is truly worth, and on what share of the days each line holds.

    Raises:
        RigctlError: it does not say.
    """
    lines = [{"when": [asdict(c) for c in o.when], "set": [asdict(s) for s in o.settings]} for o in rule.lines]
    return _told(scenario, ["--rule", json.dumps(lines)])


def _told(scenario: DemoRig, options: Sequence[str]) -> Mapping[str, Any]:
    done = subprocess.run(  # noqa: S603  # our own module, in our own interpreter
        _command(scenario, "truth", scenario.name, *options),
        capture_output=True,
        text=True,
        timeout=TRUTH_S,
        check=False,
    )
    if done.returncode != 0:
        raise RigctlError(f"the simulator does not tell the truth: {done.stderr.strip()}")
    told: Mapping[str, Any] = json.loads(done.stdout)
    return told


def _command(scenario: DemoRig, *options: str) -> list[str]:
    data = [] if scenario.data is None else ["--data", str(scenario.data)]
    return [sys.executable, "-m", MODULE, *options, *data]


def _wait(process: subprocess.Popen[bytes], ready: Path, log: Path) -> Mapping[str, str]:
    deadline = time.monotonic() + READY_S
    while not ready.exists():
        if process.poll() is not None:
            raise RigctlError(f"the simulated rig ended before it was ready: {_tail(log)}")
        if time.monotonic() > deadline:
            raise RigctlError(f"the simulated rig is not ready after {READY_S:g} s: {_tail(log)}")
        time.sleep(0.02)
    buses: Mapping[str, str] = json.loads(ready.read_text(encoding="utf-8"))["buses"]
    return buses


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " | ".join(lines[-5:]) or "it said nothing"


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


@dataclass(frozen=True, slots=True)
class Demo:
    """Holds what came of it."""

    scenario: str
    keep: Path | None
    """Where state stays; None: nowhere."""
    loaded: LoadedConfig
    outcome: run.Ended
    truth: Mapping[str, Any] | None
    """The recommendation's, from the simulator; None without one."""
    untold: str
    """Why the simulator does not tell; empty if it does."""
    campaign_s: float
    """Wall seconds."""
    average: float | None = None
    """Of all outcomes; None: there was none."""
    rule_truth: Mapping[str, Any] | None = None
    """The rule's, from the simulator; None where there is none that follows a reading."""
    blind: Demo | None = None
    """The same without looking, to be compared with."""

    @property
    def exit_code(self) -> int:
        """Return that of the campaign, or of the second one if only that did not go well."""
        return self.outcome.exit_code or (0 if self.blind is None else self.blind.outcome.exit_code)


def example(name: str) -> Path:
    """Return an example configuration: packaged, or beside the sources.

    Raises:
        UsageError: there is none of that name.
    """
    package = Path(rigctl.__file__).parent
    for folder in (package / "examples", package.parent / "config"):
        path = folder / f"{name}.yaml"
        if path.exists():
            return path
    raise UsageError(f"--scenario {name}: no such example configuration")


def demo(
    name: str,
    changes: Overrides,
    console: Console,
    signals: Signals | None,
    *,
    data: Path | None,
    keep: Path | None,
    tell: Callable[[Demo], object],
    serve: bool = False,
    blind: bool = False,
    compare: bool = False,
) -> Demo:
    """Start the simulated rig, run the campaign on it, ask for the truth, stop the rig whatever happens.

    One seed is that of the campaign's decisions and of the simulated rig. `blind`: nobody looks before a trial;
    `compare`: the same campaign is run again like that, on a rig of the same seed. What came of it is told by `tell`
    before the page, where there is one, is closed.

    Raises:
        UsageError: there is no such scenario, it needs what was not given, or nobody looks in it anyway.
        RigctlError: as a campaign, or the simulated rig does not come up.
    """
    check_scenario(name, data)
    first = load(example(name), changes)
    if (blind or compare) and first.rig.timing.look is None:
        raise UsageError(f"--{'compare' if compare else 'blind'}: in --scenario {name} nobody looks before a trial")
    scenario = DemoRig(name, first.rig.speedup, first.seed, data, stepped=True)
    with _place(keep) as directory, page_beside(serve, directory / "state", console) as page:
        alone = blind and not compare
        done = replace(_played(scenario, changes, directory, console, signals, blind=alone), keep=keep)
        if compare and done.outcome.result.ending != "abandoned":
            beside = directory / "blind"
            beside.mkdir(exist_ok=True)
            console.print("The same campaign once more, without looking first.")
            done = replace(done, blind=_played(scenario, changes, beside, console, signals, blind=True))
        tell(done)
        linger(page, signals, console)
        return done


def _played(
    scenario: DemoRig, changes: Overrides, directory: Path, console: Console, signals: Signals | None, *, blind: bool
) -> Demo:
    began = time.monotonic()
    with simulator(scenario, directory) as buses:
        loaded = _configured(scenario.name, replace(changes, buses=buses), blind=blind)
        clock = SteppedClock(loaded.rig.speedup, Stepper(directory))
        outcome = run.run_campaign(loaded, directory / "state", console, signals, clock)
        campaign_s = time.monotonic() - began
    with open_reader(directory / "state") as reader:
        outcomes = [row.outcome for row in reader.trials() if row.outcome is not None]
    told, followed, untold, found = None, None, "there is no recommendation", outcome.recommendation
    if found is not None:
        try:
            told, untold = truth(scenario, found.choice, blind=blind), ""
            if found.rule is not None and found.rule.follows:
                followed = truth_of_rule(scenario, found.rule)
        except RigctlError as error:  # the campaign's own result must not be lost for it
            untold = str(error)
    average = fmean(outcomes) if outcomes else None
    return Demo(scenario.name, None, loaded, outcome, told, untold, campaign_s, average, followed)


def _configured(name: str, changes: Overrides, *, blind: bool) -> LoadedConfig:
    """Return the example's configuration; `blind`: without the line that has trials look first."""
    config = example(name)
    if not blind:
        return load(config, changes)
    lines = config.read_text(encoding="utf-8").splitlines(keepends=True)
    return load_text("".join(line for line in lines if not line.startswith("  look:")), config, changes)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        make_directory(keep)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="rigctl-demo-") as temporary:
        yield Path(temporary)


def to_json(done: Demo) -> Mapping[str, Any]:
    return {
        "scenario": done.scenario,
        "seed": done.loaded.seed,
        "campaign_s": done.campaign_s,
        "state": None if done.keep is None else str(done.keep / "state"),
        **run.to_json(done.outcome),
        "average_outcome": done.average,
        "simulators_truth": done.truth,
        "simulators_truth_of_rule": done.rule_truth,
        **({} if done.blind is None else {"blind": to_json(done.blind)}),
    }


def show(done: Demo, console: Console) -> None:
    of_rule = "" if done.rule_truth is None else f"the rule gives {_yields(done, done.rule_truth)}; the fixed setting "
    ask = "" if done.keep is None else recommend_command(None, done.keep / "state")
    run.show(done.outcome, done.loaded, console, f"simulator's truth: {of_rule}{_truth(done)}", ask)
    console.print()
    for line in compared(done):
        console.print(line)
    console.print(f"simulated rig: {done.scenario}, seed {done.loaded.seed}, {done.campaign_s:.1f} s")
    if done.keep is not None:
        console.print(f"kept in {done.keep / 'state'}")


def compared(done: Demo) -> Iterator[str]:
    """Say what looking was worth: what both campaigns measured and paid, and what is true of what they recommend."""
    blind = done.blind
    if blind is None:
        return
    yield "Seeing against blind, the same seed and budget:"
    for word, one in (("seeing", done), ("blind ", blind)):
        result = one.outcome.result
        each = to_units(result.spent) / max(result.trials, 1)
        told = {"outcome": one.average or 0.0, "cost": each}
        yield f"  {word}  {counted(result.trials, 'trial')}, on average {_yields(one, told)}"
    seen, unseen = done.rule_truth or done.truth, blind.truth
    if seen is None or unseen is None:
        return
    what = "its rule" if done.rule_truth is not None else "its setting"
    yield "By the simulator's truth of what each recommends:"
    yield f"  seeing  {_yields(done, seen)}, by {what}"
    yield f"  blind   {_yields(blind, unseen)}, by {set_label(unseen['control_set']) or 'nothing'}"
    yield f"  Looking was worth {_difference(done, seen, unseen)}."
    as_good = _as_good(unseen["sets"], seen["outcome"], 1.0 if done.loaded.problem.maximise else -1.0)
    if as_good is None:
        yield "  No fixed setting is as good as that."
        return
    cost, sets = as_good
    saved, names = cost - seen["cost"], " and ".join(set_label(names) for names in sets)
    yield (
        f"  As good without looking costs {number(cost, 3)} {done.loaded.currency} a trial: {names}"
        f"{' in turn' if len(sets) > 1 else ''}."
    )
    yield f"  So looking {'saves' if saved > 0 else 'costs'} {abs(saved):.3f} {done.loaded.currency} a trial."


def _as_good(
    sets: Sequence[Mapping[str, Any]], outcome: float, sign: float
) -> tuple[float, Sequence[Sequence[str]]] | None:
    """Return the least cost at which fixed settings, one or two in turn, are as good, and which; None: none is."""
    found = [(float(s["cost"]), [s["control_set"]]) for s in sets if sign * (s["outcome"] - outcome) >= 0]
    for good, less in product(sets, sets):
        if sign * (good["outcome"] - outcome) >= 0 > sign * (less["outcome"] - outcome):
            share = (outcome - less["outcome"]) / (good["outcome"] - less["outcome"])
            cost = less["cost"] + share * (good["cost"] - less["cost"])
            found.append((cost, [less["control_set"], good["control_set"]]))
    return min(found, key=lambda one: one[0], default=None)


def _difference(done: Demo, seen: Mapping[str, Any], unseen: Mapping[str, Any]) -> str:
    better, cheaper = seen["outcome"] - unseen["outcome"], unseen["cost"] - seen["cost"]
    labels = ShownLabels.of(done.loaded)
    more = "more" if better >= 0 else "less"
    unit = f" {labels.outcome.unit}".rstrip()
    money = f"{abs(cheaper):.3f} {labels.currency} a trial {'cheaper' if cheaper >= 0 else 'more expensive'}"
    return f"{number(abs(better), 3)}{unit} {more}, {money}"


def _yields(done: Demo, told: Mapping[str, Any]) -> str:
    labels = ShownLabels.of(done.loaded)
    worth = f"{labels.outcome.label} {number(told['outcome'])} {labels.outcome.unit}".rstrip()
    return f"{worth} at {number(told['cost'], 3)} {labels.currency} per trial"


def _truth(done: Demo) -> str:
    told = done.truth
    if told is None:
        return f"unknown, {done.untold}"
    best = told["best"]
    share = f"{told['share_of_best']:.1%} of the best there is"
    return f"{_yields(done, told)}; {share} ({set_label(best['control_set'])}: {number(best['outcome'])})"
