"""A broken configuration is told of where it is broken, once, in words that help; broken/said.yaml has them all."""

import json
from functools import cache

import pytest
import yaml
from pydantic import Field, ValidationError

from rigctl.config.document import parse
from rigctl.errors import ConfigError
from rigctl.options import problems_of
from rigctl.rig.protocols import DeviceOptions
from tests.config.broken.cases import GOLDEN, Case, cases, page, said_of, section, words_of
from tests.config.conftest import loaded, loaded_to_run
from tests.config.texts import BASES, WATCHED
from tests.golden import LOADER
from tests.profiles import slow_between

BY_OTHERS = ("meters[0].device: metered in Wh", "devices.ca_valve: range of a switch")
"""Worded by the rig's wiring and by a driver, so far without what is allowed."""
NOT_TO_BE_RUN = "What no rig should be run with"
MOST_WORDS = 75
"""Of one message; most have about 20, lists of names have more."""


@cache
def golden() -> dict[str, list[str]]:
    said: dict[str, list[str]] = yaml.load(GOLDEN.read_text(encoding="utf-8"), LOADER)  # noqa: S506 - the safe one, in C
    return said


@pytest.mark.parametrize("case", slow_between(6, cases()), ids=lambda case: case.name)
def test_it_is_told_where_and_in_the_golden_words(case: Case):
    """At the lines counted by hand, once for each mistake, with a remedy, and in the words of broken/said.yaml."""
    mistakes, warnings = said_of(case)
    lines = [m.line for m in mistakes] or [int(w.split(":")[1]) for w in warnings]
    assert lines == list(case.at)
    assert case.warns == (not mistakes)
    assert words_of(case) == golden()[case.name], "python -m tests.config.broken.cases writes them anew"
    for mistake in mistakes:
        assert mistake.flaw.allowed or mistake.flaw.remedy or case.name in BY_OTHERS, mistake
        assert len(str(mistake).split()) <= MOST_WORDS
        assert not any(word in mistake.what for word in ("pydantic", "None", "Errno", "NoneType", "<class", "^["))


@pytest.mark.parametrize("case", [c for c in cases() if c.family == NOT_TO_BE_RUN], ids=lambda case: case.name)
def test_what_no_rig_should_be_run_with_can_still_be_read(case: Case):
    """A campaign of the past can be looked at, and its rig be made safe."""
    assert loaded(case.text or "").name == "tank"


def test_what_somebody_elses_driver_asks_for_is_said_as_the_rest():
    """Also of kinds that no option of ours has: no sentence is the parser's own."""

    class Options(DeviceOptions):
        serial: str = Field(default="x", min_length=1)
        ends: list[float] = Field(default=[1, 2], min_length=2)
        step: float = Field(default=5, multiple_of=5)

    with pytest.raises(ValidationError) as refused:
        Options.model_validate({"serial": "", "ends": [1], "step": 3})
    flaws = [flaw for _, flaw in problems_of(refused.value, Options)[0]]
    assert [flaw.got for flaw in flaws] == ["nothing", "[1]", "3"]
    assert all(flaw.allowed for flaw in flaws)


def leaves(node, path=()):
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else None
    if children is None:
        return [path]
    return [leaf for key, child in children for leaf in leaves(child, (*path, key))]


LATE = ("floor: 0}", "floor: 0, after: 20 h, within: 3 d, max_rate: 1 cm2/day/h, stale_after: 1 min, watch_every: 5 s}")
WHOLE = {"volume": BASES["volume"], "late": BASES["small"].replace(*LATE), "watched": WATCHED}


@pytest.mark.parametrize("every", [pytest.param(4, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("base", WHOLE)
def test_one_slip_is_one_mistake(base, every):
    """What follows from a value that does not hold is told neither beside it nor elsewhere."""

    def told(tree):
        try:
            loaded_to_run(json.dumps(tree))
        except ConfigError as error:
            return [m.path for m in error.mistakes]
        return []

    text = json.dumps(dict(parse(WHOLE[base], "rig.yaml")[0].data))
    usual, strays = told(json.loads(text)), {}
    for path in leaves(json.loads(text))[::every]:
        holder = tree = json.loads(text)
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = "5 foo"
        new = [p for p in told(tree) if p not in usual]
        if path in new and new != [path] and path[0] != "devices" and path[-1] != "pump":
            strays[path] = new
    assert strays == {}


def test_the_golden_file_has_them_all():
    """No two cases have one name, the file has no others, and there are more than a person would think of in a day."""
    assert len(cases()) >= 150
    assert sorted(golden()) == sorted(case.name for case in cases())


@pytest.mark.slow
def test_the_page_has_all_of_its_own():
    """The site's page shows every case but those of more.yaml."""
    shown = page()
    assert all(section(case) in shown for case in cases() if case.spec.get("from") not in BASES)
