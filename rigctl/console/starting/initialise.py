"""`rigctl init`: from what a person says, and what is found at ports and hosts, to a commented configuration."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from rigctl.campaign.lock import bus_locks
from rigctl.config import answers
from rigctl.config.draft import Draft, FoundDevice, configuration, missing
from rigctl.config.load import load_text
from rigctl.console import output
from rigctl.console.options import InitFlags
from rigctl.console.starting.interview import Interview, Prompt
from rigctl.errors import ConfigError, Locked, UsageError, counted
from rigctl.files import whole
from rigctl.flaws import Flaw, flaw_of, got
from rigctl.rig.clocks import RealClock
from rigctl.rig.finding import Sighting, search, urls_of
from rigctl.rig.places import physical
from rigctl.rig.registry import Registry

MOST_UNITS = 247


@dataclass(frozen=True, slots=True)
class ProbePlace:
    """Where to look."""

    name: str
    """What the person calls who is there; empty: nothing."""
    text: str
    urls: tuple[str, ...]


def places_of(given: Sequence[str]) -> tuple[ProbePlace, ...]:
    """Read each `[NAME=]PORT|HOST|URL`; raises UsageError if one has another form, or two lead to the same port."""
    places: list[ProbePlace] = []
    taken: dict[str, str] = {}
    for text in given:
        named = re.fullmatch(r"([A-Za-z][A-Za-z0-9_-]*)=(.+)", text)
        name, where = (named[1], named[2]) if named else ("", text)
        try:
            urls = urls_of(where)
        except ValueError as error:
            raise UsageError(flaw_of(error).within("--probe")) from error
        for end in {end for url in urls for end in physical(url)}:
            if taken.setdefault(end, where) != where:
                raise UsageError(f"--probe: {where} is the same as {taken[end]}; give one of them")
        places.append(ProbePlace(name, where, urls))
    return tuple(places)


def units_of(text: str) -> tuple[int, ...]:
    """Read addresses such as `1-8`, `3` or `1-4,17`; raises UsageError if the text has another form."""
    units: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,3})\s*(?:-\s*(\d{1,3})\s*)?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= MOST_UNITS:
            must = f"must be addresses from 1 to {MOST_UNITS} such as 1-8 or 1-4,17"
            raise UsageError(got(text, must, where="--units"))
        units |= set(range(first, last + 1))
    return tuple(sorted(units))


def sightings(places: Sequence[ProbePlace], units: Sequence[int]) -> list[Sighting]:
    """Look at every place; nothing is written there."""
    registry = Registry.installed()
    with ThreadPoolExecutor(max_workers=max(1, len(places))) as pool:
        return list(pool.map(lambda place: _looked(place, units, registry), places))


def _looked(place: ProbePlace, units: Sequence[int], registry: Registry) -> Sighting:
    try:
        with bus_locks(place.urls):
            return search(place.text, place.urls, units, registry, RealClock(1.0))
    except Locked as error:
        return Sighting(place.text, remark=f"left alone: {error}")


def devices_of(places: Sequence[ProbePlace], seen: Sequence[Sighting]) -> tuple[FoundDevice, ...]:
    """Return all that was found under names that differ."""
    devices: list[FoundDevice] = []
    for place, sighting in zip(places, seen, strict=True):
        for found in sighting.found:
            name = _free(place.name or found.name, [d.name for d in devices])
            who = found.identity
            said = ", ".join(filter(None, (who.model, who.firmware, f"serial {who.serial}" if who.serial else "")))
            channels = tuple((dict(options), text) for options, text in found.channels)
            devices.append(FoundDevice(name, found.driver, sighting.url, found.options, said, channels))
    return tuple(devices)


def _free(wanted: str, taken: Sequence[str]) -> str:
    plain = re.sub(r"[^a-z0-9_]+", "_", wanted.lower()).strip("_")
    plain = plain if plain[:1].isalpha() else f"device_{plain}".rstrip("_")
    numbered = (f"{plain}_{n}" for n in range(2, len(taken) + 3))
    return next(name for name in (plain, *numbered) if name not in taken)


def told(places: Sequence[ProbePlace], seen: Sequence[Sighting], devices: Sequence[FoundDevice]) -> Iterator[str]:
    """Yield what was found where, and what was not."""
    rest = list(devices)
    for place, sighting in zip(places, seen, strict=True):
        for _ in sighting.found:
            device = rest.pop(0)
            yield f"found {device.name}: {device.said}"
            yield f"  driver {device.driver}, {sighting.url}"
        if not sighting.found:
            yield f"{place.text}: {sighting.remark}"


T = TypeVar("T")
BY_ID: Final = Path("/dev/serial/by-id")
ENDED: Final = "init: ended before the last answer; nothing was written"
_NEITHER: Final = "init: say --by-hand where a person does the trials, or --probe PORT|HOST where instruments are wired"
_NOBODY: Final = "init: nobody answers there, so nothing was written; see above why, or say --by-hand"


@dataclass(frozen=True, slots=True)
class Written:
    """What was written, and from what."""

    path: Path
    draft: Draft
    devices: tuple[FoundDevice, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where questions are asked: on standard error if the answer on standard output is for a program."""

    stderr: bool

    def section(self, title: str) -> None:
        self.say(f"\n{title}")

    def say(self, text: str) -> None:
        output.write(text, sys.stderr if self.stderr else None)

    def ask(
        self, question: str, reader: Callable[[str], T], default: str | None = None, example: str = "", empty: str = ""
    ) -> T:
        """Ask until the answer holds; raises UsageError if nobody answers any more (Ctrl-C, the end of the input)."""
        shown = question_line(question, default, example, empty)
        return output.asked(shown, lambda text: reader(text or default or ""), ENDED, err=self.stderr)


def question_line(question: str, default: str | None, example: str, empty: str) -> str:
    """Return a question as it stands on a line of a terminal."""
    shown = f"{question}, e.g. {example}" if example else question
    return f"{shown}; Enter: {empty}" if empty else f"{shown} [{default}]" if default else shown


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for."""

    file: Path
    said: InitFlags
    probes: tuple[str, ...]
    units: tuple[int, ...]
    force: bool

    def asked(self, prompt: Prompt | None, find: Find) -> tuple[Draft, tuple[FoundDevice, ...], bool]:
        """Return everything that a configuration needs, what was found, and whether a person was asked for it.

        Raises:
            UsageError: flags are wrong, or missing where nobody can be asked (`prompt` is None).
        """
        said, probes = self.said, self.probes
        if prompt is not None and not probes and not said.by_hand:
            probes = _ask_for_places(prompt)
            said = said if probes else replace(said, by_hand=True)
        devices, seen = find(places_of(probes), self.units)
        for line in seen:
            prompt.say(line) if prompt is not None else output.write(line, sys.stderr)
        if not devices and not said.by_hand:
            if prompt is None:
                raise UsageError(_NOBODY if probes else _NEITHER)
            prompt.say("Nobody answers there, so a person does the trials. If a place was mistyped, begin again.")
            said = replace(said, by_hand=True)
        draft = _flags(said, self.file, devices)
        lacking = missing(draft, devices)
        if lacking and prompt is None:
            raise UsageError(_lacking(lacking))
        draft = Interview(prompt).fill(draft, devices) if lacking and prompt is not None else draft
        return draft, devices, bool(lacking)

    def write(self, draft: Draft, devices: tuple[FoundDevice, ...], interviewed: bool) -> Written:
        """Check the configuration, and only then write it; what a person has answered is kept in any case.

        Raises:
            ConfigError: what was said does not go together.
            UsageError: the file cannot be written.
        """
        text = configuration(draft, devices)
        try:
            loaded = load_text(text, self.file, to_run=True)
        except ConfigError as error:
            refused = f"\n{self.file}, with these lines, was not written: give other values"
            error.extend(_kept(self.file, text) if interviewed else refused)
            raise
        _write(self.file, text, force=self.force)
        return Written(self.file, draft, devices, loaded.warnings)


def wanted_of(file: Path, said: InitFlags, probes: Sequence[str], units: str, *, force: bool) -> Wanted:
    """Check the flags before anything is opened; raises UsageError if they are wrong, or the file is there already."""
    _may_write(file, force)
    _flags(said, file, (), places=False)
    return Wanted(file, said, tuple(probes), units_of(units), force)


def initialise(wanted: Wanted, *, stderr: bool) -> Written:
    """Ask at the terminal, if there is one, and write the configuration.

    Raises:
        UsageError: flags are wrong, or missing where nobody can be asked.
        ConfigError: what was said does not go together.
    """
    prompt = Terminal(stderr) if output.at_a_terminal() else None
    if prompt is not None and missing(_flags(wanted.said, wanted.file, (), places=False), ()):
        prompt.say("Each question has an example, or in [] what Enter takes.")
        prompt.say("Ctrl-C ends it; nothing is written before the last answer.")
    return wanted.write(*wanted.asked(prompt, find))


def _kept(file: Path, text: str) -> str:
    """Keep what somebody has answered, in a file of another name; return what is said of it."""
    kept = file.with_name(f"{file.stem}.draft{file.suffix}")
    _write(kept, text, force=True)
    return f"\n{file} was not written; your answers are in {kept}: mend them there, then `rigctl check {kept}`"


def _ask_for_places(prompt: Prompt) -> tuple[str, ...]:
    ports = sorted(map(str, BY_ID.iterdir())) if BY_ID.is_dir() else []
    prompt.section("Are instruments wired to this computer?")
    prompt.say("They would be asked who they are; nothing is set or moved.")
    prompt.say(f"Serial ports here: {', '.join(ports) or 'none'}")

    def read(text: str) -> tuple[str, ...]:
        try:
            return tuple(place.text for place in places_of(shlex.split(text)))
        except UsageError as error:
            raise ValueError(error.flaw) from error

    question = "Ports and hosts, with spaces between, e.g. 192.168.0.10"
    return prompt.ask(question, read, "", empty="none, by hand")


Find = Callable[[Sequence[ProbePlace], Sequence[int]], tuple[tuple[FoundDevice, ...], tuple[str, ...]]]


def find(places: Sequence[ProbePlace], units: Sequence[int]) -> tuple[tuple[FoundDevice, ...], tuple[str, ...]]:
    """Look who is there; return the devices, and what is said of each place."""
    if places:
        output.write(f"Asking who is there ({', '.join(place.text for place in places)}) ...", sys.stderr)
    seen = sightings(places, units)
    devices = devices_of(places, seen)
    return devices, tuple(told(places, seen, devices))


def _flags(said: InitFlags, file: Path, devices: Sequence[FoundDevice], *, places: bool = True) -> Draft:
    """Return what the flags say; raises UsageError with everything that is wrong with them."""
    wrong: list[str] = []

    def read(flag: str, text: str | None, reader: Callable[[str], T]) -> T | None:
        try:
            return None if text is None else reader(text)
        except ValueError as error:
            wrong.append(f"{flag}: {error}")
            return None

    currency = read("--currency", said.currency or _code_of(said.budget) or "EUR", answers.currency_of)

    def price(per: str = "") -> Callable[[str], str]:
        return partial(answers.amount_of, currency=currency, per=per)

    draft = Draft(
        name=read("--name", said.name or _name_from(file), answers.name_of),
        currency=currency,
        budget=read("--budget", said.budget, lambda t: answers.amount_of(t, currency, or_nothing=False)),
        max_per_trial=read(
            "--max-per-trial", said.max_per_trial, lambda t: answers.amount_of(t, currency, or_nothing=False)
        ),
        outcome=read("--outcome", said.outcome, lambda t: answers.outcome_of(t, devices, places=places)),
        per_trial=read("--per-trial", said.per_trial, price()),
        per_hour=read("--per-hour", said.per_hour, price("/h")),
        energy_price=read("--energy-price", said.energy_price, price("/kWh")),
        settle=read("--settle", said.settle, answers.duration_of),
        measure=read("--measure", said.measure, answers.duration_of),
        every=read("--every", said.every, answers.duration_of),
        by_hand=said.by_hand,
    )
    for text in said.variable or ():
        v = read("--variable", text, partial(answers.variable_of, draft=draft, devices=devices, places=places))
        draft = draft if v is None else replace(draft, variables=(*draft.variables, v))
    if wrong:
        raise UsageError("init: " + "\n".join(wrong))
    return draft


def _code_of(budget: str | None) -> str | None:
    """Return the currency that an amount carries."""
    words = (budget or "").split()
    return words[-1] if len(words) > 1 and words[-1].isalpha() else None


def _name_from(file: Path) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in file.stem).strip("-")
    return kept if kept[:1].isalpha() else "rig"


def _lacking(lacking: Mapping[str, str]) -> str:
    width = max(map(len, lacking))
    listed = "\n".join(f"  {flag.ljust(width)}  e.g. {example}" for flag, example in lacking.items())
    return f"init: nobody can be asked here, for standard input is no terminal; give what is missing:\n{listed}"


# the file ---------------------------------------------------------------------------------------------------------


def _may_write(file: Path, force: bool) -> None:
    if file == Path("-"):  # other programs take it for standard output; `rigctl check -` would look for a file
        raise UsageError(Flaw("", "must be the name of a file, such as rig.yaml", got='"-"', where="init"))
    if file.exists() and not force:
        raise UsageError(f"init: {file} is there already; give another name, or --force to write over it")
    if not file.parent.is_dir():
        raise UsageError(f"init: {file.parent} is no folder; make it first, or give another place")


def _write(file: Path, text: str, *, force: bool) -> None:
    """Put it there whole or not at all; raises UsageError if somebody else has put a file there meanwhile."""
    try:
        with whole(file, replace=force) as new:
            new.write_text(text, encoding="utf-8")
    except FileExistsError as error:
        raise UsageError(f"init: {file} is there already; give another name, or --force to write over it") from error
    except OSError as error:
        raise UsageError(f"init: {file} cannot be written ({error.strerror}); nothing was") from error


# telling ----------------------------------------------------------------------------------------------------------


def to_json(done: Written) -> Mapping[str, Any]:
    return {
        "config": str(done.path),
        "rig": done.draft.name,
        "by_hand": done.draft.by_hand,
        "variables": [v.name for v in done.draft.variables],
        "devices": [{"name": d.name, "driver": d.driver, "url": d.url, "said": d.said} for d in done.devices],
        "warnings": done.warnings,
        "next": output.after_init(done.path),
    }


def lines(done: Written) -> list[str]:
    variables, found = counted(len(done.draft.variables), "variable"), counted(len(done.devices), "device")
    kind = "a bench by hand" if done.draft.by_hand else f"a rig with {found} found"
    said = f"{done.path} written: {kind}, {variables}, {done.draft.budget} {done.draft.currency}."
    return [said, f"{output.HEAD}{output.after_init(done.path)}"]
