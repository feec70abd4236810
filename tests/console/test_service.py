"""`rigctl tools service`: a unit that systemd accepts, that lets through what the rig needs and nothing else."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from rigctl import errors
from rigctl.campaign import safe_file
from rigctl.campaign.safe_file import Driven, SafeFile, Writer
from rigctl.config.load import Overrides, load
from rigctl.console import safe
from rigctl.console.cli import app
from rigctl.console.options import ServiceFlags
from rigctl.console.services import service
from rigctl.console.services.service_unit import allowed_nodes, command_line, device_unit, doubled, unit, word
from rigctl.errors import RigctlError, UsageError
from tests.profiles import slow_beyond

ROOT = Path(__file__).parent.parent.parent
ANALYZE = shutil.which("systemd-analyze")
SERIAL = {"mains": "modbus_rtu:///dev/ttyUSB0?baud=2400", "ph": "serial:///dev/ttyUSB1", "ca": "serial:///dev/ttyACM0"}
SERIAL |= {"acid": "serial:///dev/ttyACM1", "cam": "serial:///dev/ttyS77", "plc": "modbus_tcp://192.168.7.5"}
OVER_NETWORK = {
    name: f"rtu_tcp://192.168.7.{i}" if name == "mains" else f"tcp://192.168.7.{i}:4001"
    for i, name in enumerate(SERIAL, 10)
} | {"plc": "modbus_tcp://plc.example"}
MOST_EXPOSED = 1.5
"""What docs/how-to/run-as-a-service.md states."""


@pytest.fixture
def real(bench):
    """The example greenhouse on real instruments, where its name is hard to quote."""
    rig = yaml.safe_load((ROOT / "config/greenhouse.yaml").read_text(encoding="utf-8"))
    del rig["clock"]
    rig["safety"]["safe_state"] = dict.fromkeys(rig["safety"]["safe_state"], "off")
    file = bench.folder / 'my "rig" 100% $HOME' / "växthus.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(rig), encoding="utf-8")
    return str(file)


def on(buses):
    return [part for name, url in buses.items() for part in ("--bus", f"{name}={url}")]


def settings(text):
    """The unit's settings, each with all its values."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.slow
def test_a_unit_for_production_operates_and_learns_as_told(bench, real):
    """What systemd would take for a specifier is doubled; `--learn` alone is refused."""
    (start,) = settings(
        bench.rigctl("service", real, "--as", "rigctl", "--operate", "--learn", "5 %", *on(SERIAL)).out
    )["ExecStart"]
    assert " operate " in start
    assert '--learn "5 %%"' in start
    assert "--operate" in bench.rigctl("service", real, "--learn", "5 %", *on(SERIAL), code=2).err
    assert "--operate" in bench.rigctl("service", real, "--full", *on(SERIAL), code=2).err


@pytest.mark.slow
def test_a_unit_is_derived_from_the_configuration(bench, real, golden):
    """Its times from the time to safe, its devices and hosts from the buses, its exit codes from the table."""
    found = settings(bench.rigctl("service", real, "--as", "rigctl", *on(SERIAL)).out)
    assert (found["Type"], found["NotifyAccess"], found["Restart"]) == (["notify"], ["main"], ["on-failure"])
    safe_s = bench.rigctl("check", real, "--json", *on(SERIAL)).json["safe"]["confirmed_s"]
    assert int(found["TimeoutStartSec"][0]) >= 180 + 2 * safe_s > 180
    assert int(found["TimeoutStopSec"][0]) >= 180 + 2 * safe_s
    golden(sorted(found["DeviceAllow"]))
    assert (found["IPAddressAllow"], found["IPAddressDeny"]) == (["192.168.7.5"], ["any"])
    assert found["StateDirectoryMode"] == ["0700"]
    assert found["UMask"] == ["0077"]
    assert found["SupplementaryGroups"] == ["dialout"]
    assert "dev-ttyS77.device" in found["After"][0].split()
    golden(found["ExecStopPost"][0])


def test_what_is_not_needed_is_not_allowed(bench, real):
    """Without serial ports no device; with a host by name no list of addresses; a begun campaign stays where it is."""
    (bench.folder / "state" / "greenhouse").mkdir(parents=True)
    (bench.folder / "state" / "greenhouse" / "journal.sqlite").touch()
    text = bench.rigctl("service", real, "--as", "rigctl", *on(OVER_NETWORK)).out
    found = settings(text)
    assert (found["PrivateDevices"], "DeviceAllow" in found, "SupplementaryGroups" in found) == (["yes"], False, False)
    assert "IPAddressAllow" not in found
    assert "# plc.example" in text
    assert found["ReadWritePaths"] == [str(bench.folder / "state" / "greenhouse")]


@dataclass
class Told:
    """A configuration's text as it was read."""

    data: dict


@pytest.mark.slow
def test_who_is_told_decides_what_it_may_reach(real, golden):
    """Notifications need the network; numbers on this machine a port of it and a directory, and nobody else's."""
    loaded = load(real, Overrides(SERIAL))
    assert service._telling(loaded) == (False, (), ())
    numbers = {"metrics": {"port": 9123, "textfile": "/var/lib/node_exporter/rigctl.prom"}}
    counted = replace(loaded, document=Told(numbers))
    assert service._telling(counted) == (False, ("tcp://localhost",), (Path("/var/lib/node_exporter"),))
    assert service._telling(replace(loaded, document=Told({"notify": {"daily": "08:00"}})))[0]
    made = replace(
        service.made(Path(real), SERIAL, ServiceFlags(account="rigctl")).service, written=(Path("/var/lib/no de"),)
    )
    golden(settings(unit(made))["ReadWritePaths"])
    assert "IPAddressDeny" not in settings(unit(replace(made, speaks_out=True)))


def test_exit_codes_that_stop_the_restarting_are_those_of_the_table():
    """2, 3 and 4, and no other, are what trying again does not mend."""
    template = (ROOT / "rigctl/console/templates/run.service").read_text(encoding="utf-8")
    [stops] = [line for line in template.splitlines() if line.startswith("RestartPreventExitStatus=")]
    kinds = [RigctlError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    codes = {kind.exit_code for kind in kinds if kind.__module__ == errors.__name__}
    assert codes == {1, *map(int, stops.partition("=")[2].split())}
    assert {k.__name__ for k in kinds if k.exit_code == 1 and k.__module__ == errors.__name__} >= {
        "DeviceError", "DeviceTimeout", "JournalError", "JournalCorrupt", "JournalUnwritable", "PolicyError"
    }  # fmt: skip
    table = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert all(f"\n| {code} | " in table for code in (0, *codes, 130))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("/srv/rig.yaml", "/srv/rig.yaml"),
        ("/srv/my rig.yaml", '"/srv/my rig.yaml"'),
        ("/srv/100%.yaml", "/srv/100%%.yaml"),
        ('/srv/a"b\\c', '"/srv/a\\"b\\\\c"'),
        ("/srv/$HOME;x'", '"/srv/$$HOME;x\'"'),
        ("/srv/växt", "/srv/växt"),
    ],
)
def test_words_are_written_as_systemd_reads_them(text, written):
    """Spaces, quotes, specifiers and variables stay what they are in the file's name."""
    assert command_line([doubled(text)]) == written


def test_what_no_unit_can_hold_is_refused(golden):
    """A line break would begin another setting."""
    with golden.raises(UsageError):
        doubled("/srv/rig\nExecStart=/bin/sh")
    assert word("plain") == "plain"


@pytest.mark.parametrize("path", ["/dev/ttyS0", "/dev/serial/by-id/usb-FTDI_é x-if00-port0", "/dev/.hidden"])
def test_device_units_are_called_as_systemd_calls_them(path):
    """The same name as `systemd-escape` gives, where there is one to ask."""
    escape = shutil.which("systemd-escape")
    if escape is None:
        pytest.skip("needs Debian's systemd: systemd-escape is missing")
    told = subprocess.run([escape, "--path", "--suffix=device", path], capture_output=True, text=True, check=True)
    assert device_unit(path) == told.stdout.strip()


def test_a_port_by_its_kind_if_it_may_come_back_under_another_number(tmp_path):
    """A pseudo-terminal by its kind, a port that is not there as USB of either kind and by its name."""
    ours, theirs = os.openpty()
    try:
        assert allowed_nodes(os.ttyname(theirs)) == ("char-pts",)
    finally:
        os.close(ours)
        os.close(theirs)
    missing = str(tmp_path / "by-id")
    assert allowed_nodes(missing) == ("char-ttyUSB", "char-ttyACM", missing)


@pytest.mark.slow
def test_what_no_service_can_run_is_refused(bench, real, golden):
    """A bench by hand, a port by a path from here, an account that is none, an account for one's own service."""
    golden(bench.rigctl("service", "bench.yaml", code=2).err)
    near = on({**SERIAL, "ph": "serial://sim/ph"})
    golden(bench.rigctl("service", real, *near, code=2).err)
    golden(bench.rigctl("service", real, "--as", "a b", *on(SERIAL), code=2).err)
    golden(bench.rigctl("service", real, "--as", "anna", "--user", *on(SERIAL), code=2).err)


# installing ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_unit_is_installed_and_another_s_is_left_alone(bench, real, monkeypatch, golden):
    """It is written whole, again over itself, and over what somebody else wrote or edited only if forced."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(bench.folder / "home"))
    call = ("service", real, "--user", *on(SERIAL))
    done = bench.rigctl(*call, "--install", "--json").json
    path = Path(done["path"])
    assert path == bench.folder / "home/systemd/user/rigctl-greenhouse.service"
    assert path.read_text(encoding="utf-8") == done["unit"] == bench.rigctl(*call).out
    golden(done["next"])
    bench.rigctl(*call, "--install")
    path.write_text(done["unit"] + "Nice=5\n", encoding="utf-8")
    golden(bench.rigctl(*call, "--install", code=2).err)
    mark, _, unit = done["unit"].partition("{")
    for strange in ("[Service]\nExecStart=/bin/true\n", f"{mark}{{{unit[9:]}", f"{mark}[]\n", f"{mark}{{}}\n"):
        path.write_text(strange, encoding="utf-8")
        assert "--force" in bench.rigctl(*call, "--install", code=2).err
    bench.rigctl(*call, "--install", "--force")
    assert path.read_text(encoding="utf-8") == done["unit"]
    other = service.marked("[Unit]\n", Path("/srv/other.yaml"))
    with golden.raises(UsageError):
        service.install(path, other, force=False)


# systemd's own opinion ------------------------------------------------------------------------------------------------


def analyzed(*arguments):
    if ANALYZE is None:
        pytest.skip("needs Debian's systemd: systemd-analyze is missing")
    return subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("buses", slow_beyond(1, [SERIAL, OVER_NETWORK]), ids=["serial and network", "network"])
def test_systemd_accepts_the_unit_and_finds_little_exposed(bench, real, buses, monkeypatch):
    """`verify` has nothing to say, and `security` no more than is stated; a wrong unit is told from a right one."""
    installed = service.made(Path(real), buses, ServiceFlags(account="rigctl")).service
    where = Path('/srv/my "rig" 100% $HOME/växthus.yaml')  # the tests' own directories are temporary
    assert settings(unit(replace(installed, watch_every_s=1.0)))["WatchdogSec"] == ["30"]
    assert settings(unit(replace(installed, watch_every_s=60.0)))["WatchdogSec"] == ["180"]
    text = unit(replace(installed, config=where, command=("/bin/sh",), needed=()))
    path = bench.folder / "rigctl-greenhouse.service"
    path.write_text(text, encoding="utf-8")
    verified = analyzed("verify", "--man=no", str(path))
    assert (verified.returncode, verified.stderr) == (0, "")
    scored = analyzed("security", "--offline=true", f"--threshold={MOST_EXPOSED * 10:.0f}", "--no-pager", str(path))
    assert scored.returncode == 0, scored.stdout[-300:]
    path.write_text(unit(replace(installed, config=where, command=("/bin/sh",), account="")), encoding="utf-8")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bench.folder))
    verified = analyzed("verify", "--user", "--man=no", str(path))
    assert (verified.returncode, verified.stderr) == (0, "")
    path.write_text(text.replace("WatchdogSec=", "WatchDogSec="), encoding="utf-8")
    assert "WatchDogSec" in analyzed("verify", "--man=no", str(path)).stderr


@pytest.mark.slow
def test_a_timer_copies_the_journal_every_day(bench, real, monkeypatch, golden):
    """With the options that `rigctl journal backup` has, as the same account, writing there and beside the journal."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(bench.folder / "home"))
    done = bench.rigctl("service", real, "--user", "--install", "--backup", "/mnt/my disk", "--json", *on(SERIAL)).json
    golden(done["next"])
    assert sorted(path.name for path in Path(done["path"]).parent.iterdir()) == sorted(done["units"])
    units = service.made(Path(real), SERIAL, ServiceFlags(account="rigctl", backup=Path("/mnt/my disk"))).units
    texts = {path.name: text for path, text in units.items()}
    found = settings(texts["rigctl-backup-greenhouse.service"])
    words = found["ExecStart"][0].split(" ")[1:]
    golden(" ".join(words))
    known = {option for p in get_command(app).get_command(None, "backup").params for option in p.opts}
    assert {option for option in words if option.startswith("--")} <= known
    golden(found["ReadWritePaths"])
    assert (found["RestrictAddressFamilies"], found["PrivateDevices"]) == (["AF_UNIX"], ["yes"])
    program = str(Path(sys.prefix) / "bin" / "rigctl")
    for name in ("rigctl-backup-greenhouse.service", "rigctl-backup-greenhouse.timer"):
        (bench.folder / name).write_text(texts[name].replace(program, "/bin/sh"), encoding="utf-8")
        verified = analyzed("verify", "--man=no", str(bench.folder / name))
        assert (verified.returncode, verified.stderr) == (0, "")


# safe afterwards ----------------------------------------------------------------------------------------------------


def left(directory, *, driven, writer):
    valve = Driven("valve", "no-such-driver", "tcp://127.0.0.1:1", {}, 1.0, "actuator", "off")
    directory.mkdir(exist_ok=True)
    safe_file.write(directory, SafeFile("rig", driven, 1.0, (valve,), writer))


def test_safe_afterwards_needs_nothing_and_leaves_the_living_alone(bench, monkeypatch):
    """`safe --if-left-driven`: nothing there, or not driven, or driven by who lives: done; left by the dead: driven."""
    state = bench.folder / "state-dir"
    call = ("safe", "--if-left-driven", "--state", str(state), "--json")
    dead = Writer(1, "0", "another boot")
    assert bench.rigctl(*call).json["by"] == "nobody"
    left(state, driven=False, writer=dead)
    assert bench.rigctl(*call).json["by"] == "nobody"
    left(state, driven=True, writer=Writer.this_process())
    assert bench.rigctl(*call).json["by"] == "nobody"
    left(state, driven=True, writer=dead)
    assert list(bench.rigctl(*call, code=1).json["failed"]) == ["valve"]
    monkeypatch.setattr(safe, "campaign_here", lambda _: 4711)  # it has begun, and not driven anything yet
    assert bench.rigctl(*call).json["by"] == "nobody"


PI = """
rig: pi
currency: EUR
budget: 20 EUR
buses: {i2c: "i2c:///dev/i2c-1", w1: "w1:///sys/bus/w1/devices", gpio: "gpio:///dev/gpiochip0"}
devices:
  ph_probe: {driver: ezo-ph, bus: i2c, address: 0x63}
  acid: {driver: ezo-pmp, bus: i2c, address: 0x67}
  bath: {driver: ds18b20, bus: w1, id: 28-0316a2795a3d}
  aerator: {driver: gpio-relay, bus: gpio, line: 17}
variables:
  ph: {unit: pH, range: [5.5, 6.5], plausible: [3, 10], sensor: ph_probe, actuator: acid, natural: uniform}
control_sets: all
outcome: {name: warmth, unit: degC, sensor: bath}
dosing:
  acid: {sensor: ph_probe, effect: -0.04 pH/mL, tolerance: 0.05 pH, mix: 60 s, max_doses: 6}
trial: {prepare: [{actuator: aerator, value: 1, wait: 1 s}], settle: 1 s, measure: {for: 3 s, every: 1 s, min_count: 1}}
meters: [{name: water, kind: fixed, price: 0.05 EUR}]
safety:
  safe_state: {acid: "off", aerator: "off"}
  limits: {acid: {per_dose: 20 mL, per_day: 500 mL}}
"""


def test_a_unit_on_a_raspberry_pi_may_use_its_buses(bench, golden):
    """The devices of I2C and GPIO and the groups that own them; 1-Wire is files of the kernel, which needs neither."""
    file = bench.folder / "pi.yaml"
    file.write_text(PI, encoding="utf-8")
    found = settings(bench.rigctl("service", str(file), "--as", "rigctl").out)
    golden({what: sorted(found[what]) for what in ("DeviceAllow", "SupplementaryGroups")})
