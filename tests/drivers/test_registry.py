"""The registry: drivers and lines by entry point, one broken one takes no other down."""

import importlib
import subprocess
import sys

import pytest

from rigctl.errors import BrokenPlugin, UnknownPlugin
from rigctl.rig.registry import Registry
from rigctl.rig.testing import SilentLine
from tests.config.test_schema import shipped

SHIPPED = {"modbus", "ezo", "ezo-pmp", "scpi", "sdm120", "sdm630"}


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """Installs a distribution with these entry points: `third_party("good = module:Class", ...)`."""

    def install(*points, group="rigctl.drivers", code=""):
        info = tmp_path / "thirdparty-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n" + "\n".join(points) + "\n")
        (tmp_path / "thirdparty_module.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()

    yield install
    sys.modules.pop("thirdparty_module", None)


def test_the_shipped_drivers_are_found():
    """Every shipped driver is installed, loads, and describes itself."""
    found = {info.name: info for info in Registry.installed().describe()}
    assert set(found) >= SHIPPED
    assert all(found[name].problem is None and found[name].summary and found[name].schemes for name in SHIPPED)


def test_a_driver_s_name_is_its_entry_point():
    """What the configuration says is what the driver calls itself."""
    registry = Registry.installed()
    assert {name: registry.driver(name).name for name in SHIPPED} == {name: name for name in SHIPPED}


def test_an_unknown_driver_names_the_nearest(golden):
    """A misspelt driver is an error that names the one that was meant, and all there are."""
    with golden.raises(UnknownPlugin):
        shipped().driver("ezo_pmp")


@pytest.mark.parametrize(
    ("point", "code", "says"),
    [
        ("bad = no_such_module:Driver", "", "ModuleNotFoundError"),
        ("bad = thirdparty_module:Driver", "raise RuntimeError('needs a licence')", "needs a licence"),
        ("bad = thirdparty_module:Nothing", "", "AttributeError"),
        ("bad = thirdparty_module:thing", "thing = 3", "must be a class"),
        (
            "bad = thirdparty_module:Half",
            "from rigctl import Driver\nclass Half(Driver): name = 'bad'",
            "has no summary, schemes, options",
        ),
        (
            "bad = thirdparty_module:Driver",
            "class Driver: name = 'bad'",
            "must be a class that inherits from rigctl.Driver",
        ),
    ],
)
def test_a_broken_third_party_takes_no_other_down(third_party, point, code, says):
    """A driver that does not load is named with its problem; the others go on working."""
    third_party(point, code=code)
    registry = Registry.installed()
    with pytest.raises(BrokenPlugin, match=f'"bad".*{says}'):
        registry.driver("bad")
    found = {info.name: info.problem for info in registry.describe()}
    assert says in found.pop("bad")
    assert set(found.values()) == {None}


def test_options_must_be_device_options(third_party, golden):
    """A driver whose options are no DeviceOptions is broken, not half usable."""
    code = (
        "from rigctl import Driver\nclass Half(Driver):\n    name = summary = 'x'\n    schemes = ('serial',)\n"
        "    options = dict\n"
    )
    third_party("bad = thirdparty_module:Half", code=code)
    with golden.raises(BrokenPlugin):
        Registry.installed().driver("bad")


def test_a_broken_line_scheme_is_named(third_party, clock, golden):
    """The same for lines."""
    third_party("bad = no_such_module:open", group="rigctl.lines")
    with golden.raises(BrokenPlugin):
        Registry.installed().open_line("bad://place", clock)


def test_a_third_party_line_is_used(third_party, clock):
    """A line scheme of another distribution opens its own URLs."""
    code = "from rigctl.rig.testing import SilentLine\ndef open(url, clock): return SilentLine(clock)\n"
    third_party("quiet = thirdparty_module:open", group="rigctl.lines", code=code)
    assert isinstance(Registry.installed().open_line("quiet://anywhere", clock), SilentLine)


@pytest.mark.slow
def test_nothing_is_imported_before_it_is_needed():
    """The registry and every driver load without pymodbus, pyserial, numpy or scipy."""
    code = (
        "import sys; from rigctl.rig.registry import Registry; r = Registry.installed(); r.describe(); "
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'pymodbus', 'serial', 'numpy', 'scipy', 'sklearn'}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
