"""What is stored as JSON is known and checked, and names no class."""

import dataclasses
import json
import pkgutil
import re
import sqlite3
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

import rigctl
from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.rows import TABLES, Amendment
from rigctl.campaign.spec import NATURALS, identity_of
from rigctl.campaign.trial import Looked
from rigctl.config.load import load
from rigctl.core.experiment.marginals.families import Uniform
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.page.campaign import campaign_spec
from rigctl.rig.protocols import Calibration
from tests.campaign.fakes import make_spec
from tests.campaign.records import SetClock, make_decision

CONFIGURATIONS = sorted((Path(__file__).parent.parent.parent / "config").glob("*.yaml"))
TABLE = {"policy_options": "campaign", "identity": "campaign", "code": "starts"} | dict.fromkeys(
    ("was", "becomes"), "corrections"
)
TABLE |= {"slopes": "calibrations", "looks": "suggestions"}


@pytest.mark.slow
async def test_every_document_is_known(stage):
    """Whatever column begins with a brace or a bracket is one of those that are checked, and is JSON."""
    await stage.run(make_spec())
    with closing(Journal(stage.state, SetClock(), "boot-1")) as journal:
        journal.people.correct(1, "amend", Amendment(note=""), Amendment(note="by Ada"), who="Ada", why="left out")
        journal.upkeep.read({"probe": Calibration(2, (99.0, 98.0), "Cal,2")})
        journal.people.suggest(make_decision(4, looks={"a": Looked(4.0)}))
    with closing(sqlite3.connect(stage.state / "journal.sqlite")) as file:
        file.row_factory = sqlite3.Row
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        cells = {
            (table, column, value)
            for table in tables
            for row in file.execute(f"SELECT * FROM {table}")  # noqa: S608 - its own names
            for column, value in dict(row).items()
            if isinstance(value, str) and value[:1] in ("{", "[")
        }
    declared = {(table.name, one.name) for table in TABLES.values() for one in table.columns.values() if one.json}
    assert {(table, column) for table, column, _ in cells} <= declared
    assert {column for _, column, _ in cells} == {column for _, column in declared}
    assert all(json.loads(text) is not None for _, _, text in cells)


def test_hyper_parameters_say_their_version(golden):
    """Those of a newer version are refused."""
    known = Hyperparameters((0.5,), 1.0, 0.1)
    written = known.to_json()
    assert Hyperparameters.from_json({k: v for k, v in written.items() if k != "version"}) == known
    with golden.raises(ValueError):
        Hyperparameters.from_json({**written, "version": 99})


def classes():
    """The names of all classes of the project, as far as they cannot be anything else."""
    for module in pkgutil.walk_packages(rigctl.__path__, "rigctl."):
        if not module.name.startswith(("rigctl.bench", "rigctl.__main__")):
            found = vars(import_module(module.name)).values()
            yield from (c.__name__ for c in found if isinstance(c, type) and c.__module__.startswith("rigctl"))


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda p: p.stem)
def test_an_identity_names_no_class(path):
    """Classes may be renamed and moved; what a campaign is must stay the same."""
    identity = identity_of(campaign_spec(load(path)))
    words = set(re.findall(r"\w+", json.dumps(identity)))
    assert "truncated_normal" in words
    assert words.isdisjoint(classes())


def test_every_marginal_has_a_word():
    """So that a changed kind is noticed when a campaign is resumed."""
    there = {
        c for c in vars(sys.modules[Uniform.__module__]).values() if dataclasses.is_dataclass(c) and hasattr(c, "zz")
    }
    assert there
    assert there <= set(NATURALS)
    assert len(set(NATURALS.values())) == len(NATURALS)
