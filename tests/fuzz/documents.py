"""Configurations, changed as text, as bytes and as trees, through everything that is checked before a rig is run.

A file on disk is read where the bytes matter; else the text is loaded as it is.
"""

import copy
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rigctl.config.load import load, load_text
from rigctl.errors import ConfigError
from rigctl.printable import printable
from tests.config.broken.cases import base
from tests.config.texts import WATCHED
from tests.fuzz.mutation import changed

TARGETS = ("yaml",)
FILES = 10
ROOT = Path(__file__).parent.parent.parent
TEXTS: tuple[str, ...] = (
    *("~", "off", "1e400", ".nan", "-.inf", "9" * 400, "0x" + "f" * 300, "2026-03-29 02:30:00", "12:30"),
    *("!!binary aGk=", "!!python/object/apply:os.system [id]", "!!python/name:os.system", "&a [*a]", "*a", "<<: *a"),
    *("{<<: {a: 1}}", '"\\e]52;c;cm0=\\a"', '"\\u202e"', '"\\0"', "\ud7ff", "x" * 2000, "[[[[[[[[[[", "{{{{", "'", '"'),
    *("|", ">", "- -", "? x", "5 mM", "-1 s", "3 EUR", "4.2 EUR/L", "1e29 EUR", "0 EUR/h", "20 min", "1e-300 min"),
    *("pH < 1 and not (ca > 2)", "(((", "/dev/zero", "../../../etc/passwd", "serial:///dev/null", "tcp://", "http://x"),
    *("modbus_tcp://[::1]:99999", "%s%n"),
)
"""What is written in place of a value."""
KEYS = ("x", "", "9" * 30, "a b", "k" * 500, "__class__", "../x", "\u202ex")


@cache
def seeds() -> tuple[str, ...]:
    """Return the files that are changed, the smaller ones more often."""
    configurations = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "config").glob("*.yaml"))]
    return (*configurations, *(base("rig"), base("bench"), WATCHED) * 4)


def block(target: str, rng: random.Random) -> Counter[str]:
    """Load some changed files; return what came of them."""
    del target
    came: Counter[str] = Counter()
    for _ in range(FILES):
        how = rng.choice(WAYS)
        came["cases"] += 1
        came[_tried(how(rng.choice(seeds()), rng))] += 1
    return came


def _tried(given: str | bytes) -> str:
    try:
        if isinstance(given, str):
            load_text(given, Path("rig.yaml"), to_run=True)
        else:
            with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
                Path(file.name).write_bytes(given)
                load(Path(file.name), to_run=True)
    except ConfigError as error:
        refused = error
    else:
        return "taken"
    told = str(refused)
    assert refused.mistakes, "nothing is told"
    assert printable(told) == told, told
    return "refused"


# ways ------------------------------------------------------------------------------------------------------------


def _bytes(text: str, rng: random.Random) -> bytes:
    return changed(text.encode(rng.choice(("utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig", "utf-32"))), rng)


def _lines(text: str, rng: random.Random) -> str:
    """Lose, double, swap, indent or join lines."""
    lines = text.splitlines()
    for _ in range(rng.randrange(1, 4)):
        a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(5):
            case 0:
                lines.pop(a)
            case 1:
                lines.insert(a, lines[b])
            case 2:
                lines[a], lines[b] = lines[b], lines[a]
            case 3:
                lines[a] = " " * rng.randrange(1, 5) + lines[a]
            case _:
                lines[a] += lines[b]
    return "\n".join(lines)


def _words(text: str, rng: random.Random) -> str:
    """Write something else for one value in the text."""
    lines = text.splitlines()
    at = rng.randrange(len(lines))
    head, colon, _ = lines[at].rpartition(":" if rng.random() < 0.5 else ",")
    lines[at] = f"{head}{colon} {rng.choice(TEXTS)}"
    return "\n".join(lines)


def _tree(text: str, rng: random.Random) -> str:
    """Change the data: other values, other types, depth, long keys, what stands elsewhere in the file."""
    tree = copy.deepcopy(_parsed(text))
    for _ in range(rng.randrange(1, 4)):
        holder, key = rng.choice(list(_places(tree)))
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1:
                holder[key] = copy.deepcopy(rng.choice(list(_places(tree)))[0])
            case 2 if isinstance(holder, dict):
                holder[rng.choice(KEYS)] = holder.pop(key)
            case 3:
                holder[key] = _strange(rng, 0)
            case 4:
                holder[key] = {f"k{i}": holder[key] for i in range(rng.choice((1, 3, 200)))}
            case _:
                holder[key] = rng.choice(TEXTS)
        if not list(_places(tree)):
            break
    return yaml.dump(
        tree, Dumper=_NoAliases, allow_unicode=True, sort_keys=False, default_flow_style=rng.random() < 0.5
    )


@cache
def _parsed(text: str) -> Any:
    return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - BaseLoader makes nothing but text


def _bombs(text: str, rng: random.Random) -> str:
    """Put in front or behind what grows: aliases of aliases, depth, many keys, long texts."""
    lol = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 9))
    grown = rng.choice(
        (
            "l0: &l0 lol\n" + lol,
            "x: " + "[" * rng.randrange(1, 400),
            "x: " + "{a: " * rng.randrange(1, 400),
            "".join(f"{' ' * i}a:\n" for i in range(rng.randrange(1, 200))),
            "\n".join(f"k{i}: {i}" for i in range(rng.choice((10, 300)))),
            "x: [" + "1, " * rng.choice((10, 3000)) + "1]",
            "? [a, b]\n: 1",
            "? {a: 1}\n: 1",
            "%YAML 9.9\n---",
            "---\n...\n---",
            "rig: a\nrig: b",
        )
    )
    return f"{grown}\n{text}" if rng.random() < 0.5 else f"{text}\n{grown}\n"


WAYS: tuple[Callable[[str, random.Random], str | bytes], ...] = (
    *(_bytes, _lines, _words, _words, _tree, _tree, _tree, _bombs),
)


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _places(tree: Any, depth: int = 0) -> Any:
    children = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in children:
        yield tree, key
        if depth < 6:
            yield from _places(tree[key], depth + 1)


def _strange(rng: random.Random, depth: int) -> Any:
    if depth < 4 and rng.random() < 0.4:
        many = rng.randrange(4)
        if rng.random() < 0.5:
            return [_strange(rng, depth + 1) for _ in range(many)]
        return {rng.choice(("name", "kind", "mean", "sd", "at", "x")): _strange(rng, depth + 1) for _ in range(many)}
    return rng.choice((None, True, 0, -1, 10**18, 10**400, 1e308, float("nan"), "", "x", b"\xff", rng.choice(TEXTS)))
