"""The measures of the house, on texts small enough to count by hand."""

import ast

import pytest

from tests.house.measure import Source, circles, complexity, floors, import_graph, knows, within


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
