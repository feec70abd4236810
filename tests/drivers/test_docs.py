"""The driver pages are true: their code runs, their examples load, nothing is left out."""

import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

from rigctl.config.document import parse
from rigctl.rig.registry import Registry
from tests.console.test_pages import accepted

DOCS = Path(__file__).parents[2] / "docs"


def block(page: str, label: str) -> str:
    """The code block after `<!-- label -->`."""
    found = re.search(rf"<!-- {label} -->\n```\w+\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, label
    return found[1]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The page's driver, installed as a distribution of its own next to the others."""
    project = tomllib.loads(block("write-a-driver.md", "entry point"))["project"]
    (tmp_path / "rigctl_balance.py").write_text(block("write-a-driver.md", "driver"))
    info = tmp_path / f"rigctl_balance-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["rigctl.drivers"]
    (info / "entry_points.txt").write_text("[rigctl.drivers]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("rigctl_balance", None)


def test_the_example_driver_is_found_and_passes_its_own_test(installed):
    """The driver on the page is found by its entry point, and the page's test passes."""
    driver = Registry.installed().driver("mt-sics-balance")
    namespace = {}
    exec(compile(block("write-a-driver.md", "test"), "write-a-driver.md", "exec"), namespace)  # noqa: S102
    assert namespace["BalanceDriver"] is driver
    namespace["test_the_balance_keeps_every_promise"]()


@pytest.mark.parametrize(("page", "group"), [("write-a-driver.md", "drivers"), ("write-a-policy.md", "policies")])
def test_the_package_of_a_page_names_its_module(page, group):
    """Without that `pip install .` refuses a folder with the page's test in it, and installs nothing beside a venv."""
    made = tomllib.loads(block(page, "entry point"))
    points = made["project"]["entry-points"][f"rigctl.{group}"].values()
    assert [point.partition(":")[0] for point in points] == made["tool"]["setuptools"]["py-modules"]


@pytest.mark.parametrize(
    ("answer", "severity", "value"),
    [("S D     12.3 g", "MINOR", 12.3), ("S +", "INVALID", None), ("S S     -0.5 g", "NONE", -0.5)],
)
def test_the_example_driver_reads_what_a_balance_says(installed, answer, severity, value):
    """Moving and overloaded weights are told apart from settled ones."""
    from rigctl.rig.protocols import Deadline
    from rigctl.rig.testing import ScriptedLine

    driver = Registry.installed().driver("mt-sics-balance")
    device = driver.connect(driver.options(), ScriptedLine(lambda _: [answer], terminator=b"\r\n"))
    reading = device.read(Deadline.after(1.0))
    assert reading.severity.name == severity
    assert value is None or reading.value == value


def test_every_example_of_the_page_holds():
    """Each device in docs/drivers.md has a driver and options that it accepts."""
    text = (DOCS / "drivers.md").read_text(encoding="utf-8")
    examples = [parse(part, "drivers.md")[0].data for part in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    devices = {name: dict(device) for example in examples for name, device in example.items()}
    used = set()
    for device in devices.values():
        accepted(device)
        used.add(device["driver"])
    assert used >= {"modbus", "ezo", "ezo-pmp", "scpi", "sdm120"}


@pytest.mark.parametrize("name", sorted(Registry.installed().drivers))
def test_every_driver_and_option_is_on_the_page(name):
    """No driver, scheme or option is missing from docs/drivers.md."""
    text = (DOCS / "drivers.md").read_text(encoding="utf-8")
    driver = Registry.installed().driver(name)
    named = [driver.name, *driver.schemes, *driver.options.model_fields]
    assert [n for n in named if f"`{n}`" not in text] == []
