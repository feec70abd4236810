"""Which instruments PyMeasure's classes can read, set and switch: `python -m tests.drivers.instrument_census`.

Each class is looked at by its properties, and made once where nobody answers, as `rigctl check` does. Nothing here says
that a class is right: PyMeasure's own tests do, see `tests/drivers/bridge_exchanges.py`.
"""

import inspect
import pkgutil
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from rigctl_drivers.bridge import PyMeasureOptions, tried

NUMBER = re.compile(r"%[-+ 0#]*\d*(\.\d+)?[eEfFgGdi]")
SWITCHES = ({True, False}, {"on", "off"}, {"ON", "OFF"})
STANDARD = ("complete", "id", "next_error", "options", "status")
"""Properties of every SCPI instrument; none is a quantity."""


@dataclass(frozen=True)
class Entry:
    """What a class can do, by the names of its properties."""

    name: str
    """As `instrument` has it."""
    reads: tuple[str, ...]
    sets: tuple[str, ...]
    switches: tuple[str, ...]
    made: str
    """`quietly`, `asks` while it is made, or `fails`."""
    sleeps: bool


def command_of(known: property, way: str) -> str | None:
    """Return the command that a property reads or sets by; None where there is none, or it is code."""
    use = known.fget if way == "get_command" else known.fset
    given = None if use is None else inspect.signature(use).parameters.get(way)
    return given.default if given is not None and isinstance(given.default, str) else None


def mapped(known: property) -> set | None:
    """Return between which values a property chooses; None where it is a number or text."""
    values = inspect.signature(known.fget).parameters["values"].default
    maps = inspect.signature(known.fget).parameters["map_values"].default
    return set(values) if maps and isinstance(values, dict | list | tuple) else None


def abilities(found: type) -> tuple[list[str], list[str], list[str]]:
    """Return which properties of a class, and of its channels, read a number, take one, and switch."""
    from pymeasure.instruments.common_base import CommonBase

    reads, sets, switches = [], [], []
    parts = [("", found)]
    for name, creator in CommonBase.get_channels(found):
        if creator.pairs:
            several = isinstance(creator, CommonBase.MultiChannelCreator)
            prefix = creator.kwargs.get("prefix") or ""
            parts.append((f"{prefix}{creator.pairs[0][1]}." if several else f"{name}.", creator.pairs[0][0]))
    for at, part in parts:
        for name, known in inspect.getmembers(part, lambda member: isinstance(member, property)):
            asks, tells = command_of(known, "get_command"), command_of(known, "set_command")
            if asks is None or name in STANDARD:
                continue
            among = mapped(known)
            if among is None and inspect.getclosurevars(known.fget).nonlocals.get("cast", float) in (float, int):
                reads.append(at + name)
                if tells is not None and NUMBER.search(tells):
                    sets.append(at + name)
            elif among is not None and tells is not None and among in SWITCHES:
                switches.append(at + name)
    return reads, sets, switches


def classes() -> Iterator[tuple[str, type]]:
    """Yield each instrument class of each maker, by the shortest name it has."""
    import pymeasure.instruments
    from pymeasure.instruments import Instrument

    seen: set[type] = set()
    for module in pkgutil.walk_packages(pymeasure.instruments.__path__, "pymeasure.instruments."):
        below = module.name.removeprefix("pymeasure.instruments.")
        if below.count(".") > 1 or below in ("fakes", "instrument", "resources", "generic_types", "comedi"):
            continue
        try:
            loaded = import_module(module.name)
        except Exception:  # noqa: BLE001, S112 - a maker's library is missing: that class cannot be used here
            continue
        for name, found in inspect.getmembers(loaded, inspect.isclass):
            home = found.__module__.removeprefix("pymeasure.instruments.")
            if issubclass(found, Instrument) and home.split(".")[0] == below.split(".")[0] and found not in seen:
                seen.add(found)
                yield f"{below}.{name}", found


def census() -> list[Entry]:
    """Look at every class."""
    entries = []
    for name, found in classes():
        is_made, asks = tried(PyMeasureOptions(instrument=name, read="id"))
        made = "asks" if asks else "quietly" if is_made else "fails"
        sleeps = "sleep(" in inspect.getsource(inspect.getmodule(found))
        reads, sets, switches = abilities(found)
        entries.append(Entry(name, tuple(reads), tuple(sets), tuple(switches), made, sleeps))
    return sorted(entries, key=lambda entry: entry.name.casefold())


def page() -> str:
    """Write the catalogue."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pymeasure

            entries = census()
        except ImportError:
            return "# Instruments of PyMeasure\n\nThis page was made without PyMeasure: `pip install 'rigctl[visa]'`.\n"
    usable = [entry for entry in entries if entry.reads and entry.made != "fails"]
    able = [entry for entry in usable if entry.sets]
    quiet = sum(entry.made == "quietly" for entry in usable)
    both = sum(bool(entry.switches) for entry in able)
    lines = [
        "# Instruments of PyMeasure",
        "",
        f"Made by a census of PyMeasure {pymeasure.__version__}: {len(entries)} classes. Of these {len(usable)}",
        f"can be read, {len(able)} also set, {both} also switched. {quiet} are made without",
        "asking anything. See [how to use one](../how-to/use-a-library-of-instruments.md).",
        "",
        "A class that asks while it is made cannot be told to go safe before the instrument has answered once. One",
        "that sleeps may need a longer `timeout`. One that fails cannot be made on a line of bytes.",
        "",
        "| `instrument` | reads | sets | switches | when made | sleeps |",
        "|---|---|---|---|---|---|",
    ]
    for e in entries:
        cells = (f"`{e.name}`", shown(e.reads), shown(e.sets), shown(e.switches), e.made, "yes" if e.sleeps else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def shown(names: tuple[str, ...]) -> str:
    """Return some of the names, and how many more there are."""
    some = ", ".join(f"`{name}`" for name in names[:3])
    return f"{some} and {len(names) - 3} more" if len(names) > 3 else some


if __name__ == "__main__":
    print(page())
