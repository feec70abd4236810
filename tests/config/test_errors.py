"""Every mistake is refused with its place, what was got and what is allowed; all of them at once (fault 43)."""

from __future__ import annotations

import pytest
from pydantic import Field, ValidationError

from rigctl.config.shape import problems_of
from rigctl.rig.protocols import DeviceOptions
from tests.config.conftest import problems
from tests.config.texts import SMALL


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file():
    """Mistakes of every kind, shape and meaning alike, come in one error."""
    text = (
        SMALL.replace("budget: 12 EUR", "budget: 12 USD")
        .replace("settle: 20 min", "setle: 5 mM")
        .replace("sensor: camera", "sensor: camra")
        .replace("driver: sdm120", "driver: sdm12")
        .replace("  limits:", "  safe_state: {}\n  limits:")
    )
    found = list(problems(text))
    lines = [int(where.split(":")[1]) for where in found]
    assert lines == sorted(lines)
    assert lines == [3, 8, 10, 20, 30]


NO_MAPPINGS = ["", "- a\n- b\n", "a: [1\n", "a: &x 1\nb: *x\n", "a: " + "[" * 100, "a: \x00", "--- a\n--- b\n"]


@pytest.mark.parametrize("text", NO_MAPPINGS)
def test_what_is_no_yaml_mapping_is_refused(text):
    """Broken YAML, aliases, bottomless nesting and lists at the top are refused with a line."""
    found = problems(text)
    assert len(found) == 1
    assert next(iter(found)).startswith("rig.yaml:")


def test_what_somebody_elses_driver_asks_for_is_said_as_the_rest():
    """Also of kinds that no option of ours has: no sentence is the parser's own."""

    class Options(DeviceOptions):
        serial: str = Field(default="x", min_length=1)
        ends: list[float] = Field(default=[1, 2], min_length=2)
        step: float = Field(default=5, multiple_of=5)

    with pytest.raises(ValidationError) as refused:
        Options.model_validate({"serial": "", "ends": [1], "step": 3})
    assert [what for _, what in problems_of(refused.value, Options)[0]] == [
        'got "", must have at least 1 character',
        "got [1], must have at least 2 items",
        "got 3, must be a multiple of 5",
    ]
