"""The JSON schema and the configuration's documentation say what the loader takes."""

import json
import tomllib
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from pydantic import BaseModel

from rigctl.config.editor import json_schema, schema_text
from rigctl.config.schema import RigConfig
from rigctl.core.policies.registry import USUAL_POLICY, policy_class, policy_names
from rigctl.options import options_model
from rigctl.rig.registry import Registry

ROOT = Path(__file__).parent.parent.parent


@cache
def shipped() -> Registry:
    """All drivers of this project, also those that it has got since it was installed."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    drivers = points["rigctl.drivers"].items()
    return Registry({n: EntryPoint(n, at, "rigctl.drivers").load for n, at in drivers}, Registry.installed().lines)


def test_the_schema_in_the_repository_is_current():
    """config/schema.json is what `rigctl tools schema` prints; write it again after a change."""
    assert (ROOT / "config/schema.json").read_text(encoding="utf-8") == schema_text(json_schema(shipped()))


@pytest.mark.slow
def test_the_driver_that_is_named_says_which_options_there_are():
    """An editor that reads the driver offers exactly that driver's options, and speaks of no other."""
    section = json_schema(shipped())["$defs"]["DeviceSection"]
    assert section["properties"]["driver"]["enum"] == sorted(shipped().drivers)
    cases = {case["if"]["properties"]["driver"]["const"]: case for case in section["allOf"]}
    assert set(cases) == set(shipped().drivers)
    assert all(case["if"]["required"] == ["driver"] for case in cases.values())
    modbus = cases["modbus"]["then"]
    assert {"driver", "bus", "timeout", "address", "read", "write", "enable"} <= set(modbus["properties"])
    assert modbus["additionalProperties"] is False
    assert cases["ezo"]["then"]["required"] == ["model"]


def test_no_policy_named_means_the_usual_one():
    """Only its options are offered where the policy has no name."""
    cases = json_schema(shipped())["$defs"]["PolicySection"]["allOf"]
    unnamed = [case["if"]["properties"]["name"]["const"] for case in cases if "required" not in case["if"]]
    assert unnamed == [USUAL_POLICY]


def test_every_reference_in_the_schema_leads_somewhere():
    """No `$ref` dangles after the drivers' own definitions are merged in."""
    schema = json_schema(shipped())
    text = json.dumps(schema)
    references = {part.split('"')[0] for part in text.split('"$ref": "#/$defs/')[1:]}
    assert references
    assert references <= set(schema["$defs"])


def keys_of(model: type[BaseModel]) -> set[str]:
    schema = model.model_json_schema(by_alias=True)
    parts = [schema, *schema.get("$defs", {}).values()]
    parts += [alternative for part in parts for alternative in part.get("anyOf", ())]
    return {key for part in parts for key in part.get("properties", {})}


@cache
def sources() -> dict[str, type[BaseModel]]:
    policies = {f"policy {name}": options_model(policy_class(name)) for name in policy_names()}
    drivers = {f"driver {name}": shipped().driver(name).options for name in shipped().drivers}
    return {"configuration": RigConfig, **policies, **drivers}


PUBLISHED = {name for name in policy_names() if ".published." in policy_class(name).__module__}


@pytest.mark.parametrize("source", [name for name in sources() if name.removeprefix("policy ") not in PUBLISHED])
def test_every_key_is_documented(source):
    """docs/configuration.md names every key; those of policies out of papers stand in the reference alone."""
    documented = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    keys = keys_of(sources()[source])
    assert bool(keys) == (source != "policy random")  # which has no options
    assert sorted(key for key in keys if f"`{key}`" not in documented) == []
