"""The measures of the house, on texts small enough to count by hand."""

import ast

import pytest

from tests.house.measure import Pins, Source, circles, complexity, floors, import_graph, knows, within


def house(**files: str) -> list[Source]:
    return [Source(f"rigctl/core/{name.replace('__', '/')}.py", text) for name, text in files.items()]


def test_a_circle_is_found_through_lazy_and_type_only_imports():
    """Modules that import one another are a circle, wherever in them the imports stand."""
    lazy = "def f():\n    from rigctl.core.b import g\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rigctl.core import a\n"
    graph = import_graph(house(a=lazy, b=typed, c="import rigctl.core.a\n"))
    assert circles(graph) == [["rigctl.core.a", "rigctl.core.b"]]


def test_rooms_floors_and_arrows_count_a_folder_as_one_room():
    """A package's rooms are its files and folders; the longest chain of imports tells its floors."""
    graph = import_graph(
        house(a="", gp__fit="from rigctl.core.a import x\n", gp__kernel="from rigctl.core.gp.fit import y\n")
        + house(policy="from rigctl.core.gp import fit\nfrom rigctl.core.a import x\n")
    )
    rooms = within(graph, "rigctl.core")
    assert {room.removeprefix("rigctl.core.") for room in rooms} == {"a", "gp", "policy"}
    assert (floors(rooms), sum(map(len, rooms.values()))) == (3, 3)


@pytest.mark.parametrize(
    ("body", "paths"),
    [("pass", 1), ("if a and b:\n  pass", 3), ("for i in x:\n  y = 1 if i else 2", 3), ("[i for i in x if i]", 2)],
)
def test_complexity_counts_the_ways_through_a_function(body, paths):
    """Each branch, loop and further operand adds one way."""
    function = ast.parse("def f():\n" + "\n".join(f"  {line}" for line in body.splitlines()))
    assert complexity(function) == paths


@pytest.mark.parametrize(
    ("text", "found"),
    [("LookBooks()", True), ("x.look_now", True), ("'look here'  # look", False), ("overlook = 1", False)],
)
def test_a_concept_is_known_by_names_and_not_by_sentences(text, found):
    """A file knows of a concept where a name of its code has its word."""
    assert knows(Source("rigctl/x.py", text), "looks?") == found


PRODUCT_SAYS = [
    Source("rigctl/rig/protocols.py", "class Actuator:\n  def read_back(self): ...\n"),
    Source("rigctl/campaign/loop.py", "alarm(kind='trial failed')\nPhase = Literal['at rest']\n"),
]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("'A docstring.'\n  y('some words')\n  assert 'no water' in y", (1, 0)),
        ("with raises(E, match='no such pump here'): f()", (1, 1)),
        ("assert kind == 'trip'", (0, 0)),
        ("assert kinds == ['trial failed', 'at rest'] and calls == ['valve read_back']", (0, 0)),
        ("give('the lamp was off')\n  assert why == 'the lamp was off'", (0, 0)),
        ("assert '`rigctl alarm reset-trip CONFIG`' in y and '<p class=\"a b\">' in y", (0, 0)),
        ("assert y == 'a helper says so'", (0, 0)),
        ("assert load('model: a prior').told.startswith('no water')", (1, 0)),
        ("assert load(BENCH.replace('one', 'two of them')) == 1", (0, 0)),
        ("def inner():\n    assert 'no water' in y", (1, 0)),
    ],
)
def test_sentences_are_counted_where_a_test_compares_with_them(body, found):
    """Neither names of kinds and calls, nor what a test gave itself, nor commands and markup are its words."""
    pins = Pins.of(PRODUCT_SAYS, [Source("tests/fakes.py", "say('a helper says so')\n")])
    test = Source("tests/test_x.py", f"def test_x():\n  {body}\n")
    assert tuple(len(pins.are_in(test, words)) for words in (2, 4)) == found
