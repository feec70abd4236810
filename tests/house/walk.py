"""Prints which files one thing goes through, in order: `python -m tests.house.walk`.

Real drivers run one trial on a PLC of another library, at speed 1. Five things are followed through `rigctl` and
`drivers`: a setpoint, a meter's reading, an alarm, an act of a person, a key of the configuration. A file is listed
once one of its functions is called with the thing, or returns it: itself, as text or bytes that hold it, or directly
in a record, sequence or mapping. `again` marks a file that was left and is entered once more, by a call that no
function of its own has led to.
"""

import asyncio
import logging
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from unittest.mock import patch

import structlog

from rigctl.campaign.events import AlarmRaised, TrialEnded, TrialStep
from rigctl.campaign.trial import State
from rigctl.core.experiment.policy import Proposal
from rigctl.rig.values import Alarm
from tests.campaign import test_at_speed_one as bench
from tests.campaign.fakes import TenLines
from tests.campaign.test_acts import ask, phases, soon
from tests.drivers.peers import foreign_plc

ROOT: Final = Path(__file__).parents[2]
SETTING, SETPOINT = 0.4375, 29.0625
"""On the unit cube, and in the variable's range of 5 to 60 uM: both are whole in single precision."""
READ_KWH: Final = 1234.5
WHY: Final = "to see the way of an act"
KEY: Final = ("0.2656 s", 0.2656)
LONGEST: Final = 400
"""Characters of a line, a message or a request."""
METER_AT: Final = 4
METER: Final = f"{{driver: modbus, bus: plc, unit: kWh, counter: true, read: {{at: {METER_AT}, type: float32}}}}"
METERED: Final = (
    ("meters: [", "meters: [{name: power, kind: energy, device: meter, price: 0.31 EUR/kWh}, "),
    ("  valve:", f"  meter: {METER}\n  valve:"),
    ("settle: 0.2 s", f"settle: {KEY[0]}"),
)


@dataclass(frozen=True)
class OneSetting(TenLines):
    """Proposes the setting that is followed."""

    def propose(self, state: Any, problem: Any, history: Any, rng: Any) -> Any:
        proposal = Proposal(len(history) + 1, self.name, "explore", 0, (SETTING,), "to see its way")
        return proposal, {"asked": state["asked"] + 1, "best": state["best"]}


def _is_number(*numbers: float) -> Callable[[object], bool]:
    words = tuple(struct.pack(">f", number) for number in numbers)

    def found(value: object) -> bool:
        if isinstance(value, bytes | bytearray):
            return any(word in value for word in words)
        return isinstance(value, float) and value in numbers

    return found


def _says(value: object, words: str) -> bool:
    """Tell whether a text holds these words, and not a whole file besides."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else value
    return isinstance(text, str) and len(text) < LONGEST and words in text


THINGS: Final[Mapping[str, Callable[[object], bool]]] = {
    "setpoint": _is_number(SETTING, SETPOINT),
    "meter reading": _is_number(READ_KWH),
    "alarm": lambda value: isinstance(value, Alarm) and value.source.startswith("interlock"),
    "act": lambda value: _says(value, WHY),
    "key": lambda value: _says(value, KEY[0]) or (isinstance(value, float) and value == KEY[1]),
}


@dataclass
class Walk:
    """The files of one thing, in order."""

    files: dict[str, bool] = field(default_factory=dict)
    """By file: whether it was entered again."""
    last: str = ""

    def enters(self, file: str, *, inside: bool) -> None:
        self.files[file] = file in self.files and (self.files[file] or (file != self.last and not inside))
        self.last = file


class Follower:
    """Looks at each call and return of ours, in every thread."""

    def __init__(self) -> None:
        self.walks = {thing: Walk() for thing in THINGS}
        self._files: dict[CodeType, str] = {}
        self._seen: set[FrameType] = set()
        """A coroutine that goes on is no second call; frames are kept, so that none is taken for another."""
        self._lock = threading.Lock()

    def __call__(self, frame: FrameType, event: str, returned: object) -> None:
        if event not in ("call", "return"):
            return
        file = self._file(frame.f_code)
        if not file or (event == "call" and frame in self._seen):
            return
        if event == "call":
            self._seen.add(frame)
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        values = [returned] if event == "return" else [frame.f_locals.get(name) for name in names]
        for thing, is_it in THINGS.items():
            if any(is_it(part) for value in values for part in _parts(value)):
                with self._lock:
                    self.walks[thing].enters(file, inside=event == "return" or self._led_here(frame, file))

    def _file(self, code: CodeType) -> str:
        if code not in self._files:
            path = Path(code.co_filename)
            ours = path.is_relative_to(ROOT / "rigctl") or path.is_relative_to(ROOT / "drivers")
            self._files[code] = str(path.relative_to(ROOT)) if ours else ""
        return self._files[code]

    def _led_here(self, frame: FrameType, file: str) -> bool:
        above = frame.f_back
        while above is not None:
            if self._file(above.f_code) == file:
                return True
            above = above.f_back
        return False


def _parts(value: object) -> Iterable[object]:
    """Give a thing, and what it is directly made of."""
    yield value
    if is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, f.name, None) for f in fields(value))
    elif isinstance(value, Mapping):
        yield from list(value.values())
    elif isinstance(value, list | tuple):
        yield from value


async def _trial(stage: bench.Bench) -> None:
    """Run one trial; a person pauses meanwhile, and an interlock stands after it."""
    acting: list[asyncio.Task[None]] = []

    async def person() -> None:
        await ask(stage, "pause", why=WHY)
        await soon(lambda: any(isinstance(event, TrialEnded) for event in stage.told))
        stage.plc.reads(bench.PROBE, 5.0)
        await soon(lambda: any(isinstance(event, AlarmRaised) for event in stage.told))
        await ask(stage, "stop", why="seen")

    def heard(event: object) -> None:
        if isinstance(event, TrialStep) and event.state is State.RUNNING:
            acting.append(asyncio.create_task(person()))

    stage.heard = heard
    await stage.run(*METERED, then="hold", max_trials=2)
    await acting[0]
    assert "PAUSED" in phases(stage)


def walked() -> Mapping[str, Walk]:
    """Return the way of each thing through one trial."""
    follower = Follower()
    chosen = patch.object(bench, "TenLines", OneSetting)
    with tempfile.TemporaryDirectory() as directory, foreign_plc(bench.Plc()) as plc, chosen:
        plc.reads(METER_AT, READ_KWH)
        stage = bench.Bench(plc, Path(directory) / "state")
        threading.setprofile(follower)
        sys.setprofile(follower)
        try:
            asyncio.run(_trial(stage))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    return follower.walks


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for thing, walk in walked().items():
        print(f"{thing}: {len(walk.files)} files, {sum(walk.files.values())} of them entered again")
        for file, again in walk.files.items():
            print(f"  {file}{' (again)' * again}")


if __name__ == "__main__":
    main()
