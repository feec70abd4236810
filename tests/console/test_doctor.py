"""`rigctl tools doctor`: every finding on a machine that is made up, and nothing written to it."""

from pathlib import Path

import pytest

from rigctl.campaign import safe_file
from rigctl.campaign.journal import integrity
from rigctl.campaign.lock import Writer
from rigctl.campaign.safe_file import SafeFile
from rigctl.campaign.starts import FILE_NAME
from rigctl.config.load import Overrides, load
from rigctl.console import doctor, machine
from rigctl.console.checking import checked
from rigctl.console.doctor import Machine, MachineFinding, Subject, examined, to_json, well
from rigctl.console.services.service_unit import stopping_s
from tests.console.test_service import PI

ROOT = Path(__file__).parent.parent.parent
BUSES = {"mains": "modbus_rtu:///dev/ttyUSB0", "ph": "serial:///dev/serial/by-id/usb-Atlas_pH-if00"}
BUSES |= {"ca": "serial:///dev/ttyAMA0", "acid": "serial:///dev/ttyUSB9", "cam": "tcp://camera.lab:5025"}
BUSES |= {"plc": "modbus_tcp://192.168.7.5"}


class Made:
    """A machine made of files."""

    def __init__(self, root):
        self.root = root
        self.commands = {}
        self.environment = {}
        self.uid, self.groups = 12345, frozenset({12345})

    def file(self, path, text=""):
        at = self.root / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text, encoding="utf-8")
        return at

    def link(self, path, to):
        at = self.root / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(to)

    @property
    def machine(self):
        def run(words):
            return self.commands.get(words[0], "")

        return Machine(self.root, run, self.uid, self.groups, self.environment)


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "machine")


@pytest.fixture(scope="module")
def loaded():
    return load(ROOT / "config/greenhouse.yaml", Overrides(BUSES))


def found(check, made, subject=None):
    """Subject, verdict and what is said, of one check; each that is not well says what to do."""
    findings = list(check(made.machine, subject or Subject()))
    assert [f for f in findings if f.verdict != "ok" and not f.remedy and f.subject != "time to safe"] == []
    return [(f.subject, f.verdict, f.what) for f in findings]


def verdicts(check, made, subject=None):
    return [(subject, verdict) for subject, verdict, _ in found(check, made, subject)]


# the machine --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "path", "text", "verdict"),
    [
        ("_memory", "/proc/meminfo", "MemTotal: 1 kB\nMemAvailable:  900000 kB\n", "ok"),
        ("_memory", "/proc/meminfo", "MemAvailable:  300000 kB\n", "warn"),
        ("_memory", "/proc/meminfo", "MemAvailable:  100000 kB\n", "bad"),
        ("_clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n", "ok"),
        ("_clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource", "jiffies\n", "warn"),
        ("_time", "/run/systemd/timesync/synchronized", "", "ok"),
        ("_time", "/run/none", "", "warn"),
        ("_clock_chip", "/sys/class/rtc/rtc0/date", "", "ok"),
        ("_clock_chip", "/sys/none", "", "warn"),
        ("_power", "/sys/devices/platform/soc/soc:firmware/get_throttled", "0\n", "ok"),
        ("_power", "/sys/devices/platform/soc/soc:firmware/get_throttled", "10000\n", "bad"),
        ("_power", "/sys/devices/platform/soc/soc:firmware/get_throttled", "50001\n", "bad"),
        ("_watchdog", "/sys/none", "", "warn"),
        ("_watchdog", "/sys/class/watchdog/watchdog0/state", "inactive\n", "warn"),
        ("_watchdog", "/sys/class/watchdog/watchdog0/state", "active\n", "ok"),
        ("_braille", "/proc/77/comm", "brltty\n", "bad"),
        ("_desktop_sleep", "/sys/class/power_supply/BAT0/status", "", "warn"),
        ("_system", "/etc/os-release", 'PRETTY_NAME="Debian GNU/Linux 12"\n', "ok"),
    ],
)
def test_the_machine_itself(made, check, path, text, verdict):
    """Each condition that can be told from its files, with what to do where it is not well."""
    made.file(path, text)
    assert found(getattr(machine, check), made)[0][1] == verdict


def test_a_machine_without_such_things_is_not_reproached_with_them(made):
    """No Raspberry Pi has no throttling, no laptop no battery, and where brltty does not run nothing is said."""
    quiet = (machine._power, machine._braille, machine._desktop_sleep, machine._memory)
    assert [found(check, made) for check in quiet] == [[]] * 4


def test_a_board_says_what_it_suffers_from_by_command_too(made, golden):
    """`vcgencmd`, where the kernel has no file for it: hot now, and capped at times."""
    made.commands["vcgencmd"] = "throttled=0x20008"
    power, hot = found(machine._power, made)
    assert power[1] == "ok"
    golden(hot[2])


# ports ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def wired(made):
    """A machine with two USB adapters, a port of its own, and one configured port missing."""
    for name, mode in (("ttyUSB0", 0o660), ("ttyUSB1", 0o660), ("ttyAMA0", 0o600)):
        made.file(f"/dev/{name}").chmod(mode)
    made.link("/dev/serial/by-id/usb-FTDI_x-if00", "../../ttyUSB0")
    made.link("/dev/serial/by-id/usb-Atlas_pH-if00", "../../ttyUSB1")
    return made


def test_ports_are_named_for_good_or_not(wired, loaded, golden):
    """A number moves: its stable name is given; a missing one is told with what there is."""
    stable = "/dev/serial/by-id/usb-Atlas_pH-if00"
    said = list(machine._named(wired.machine, Subject(loaded)))
    assert {f.subject.removeprefix("port "): f.verdict for f in said} == {
        "/dev/ttyUSB0": "warn", stable: "ok", "/dev/ttyAMA0": "ok", "/dev/ttyUSB9": "bad"
    }  # fmt: skip
    golden(said[[f.verdict for f in said].index("warn")].remedy)
    assert next(f for f in said if f.verdict == "bad").remedy.count("usb-") == 2
    assert [f.what for f in machine._found(wired.machine, Subject())] == ["/dev/serial/by-id/usb-FTDI_x-if00", stable]


def test_a_port_by_a_relative_path_is_where_the_campaign_would_look(made, monkeypatch, golden):
    """From the folder that the verb is called in, as the simulated rig's ports are."""
    made.file("/home/anna/sim/ph")
    monkeypatch.setattr(Path, "absolute", lambda path: Path("/home/anna") / path)
    simulated = Subject(load(ROOT / "config/greenhouse.yaml"))
    said = {f.subject: (f.verdict, f.remedy) for f in machine._named(made.machine, simulated)}
    verdicts_of = {name.removeprefix("port "): told for name, told in said.items()}
    assert verdicts_of["/home/anna/sim/ph"] == ("ok", "")
    golden(verdicts_of["/home/anna/sim/mains"])


def test_ports_may_be_opened_or_not(wired, loaded, golden):
    """By the file's mode, its group and this account's groups; the group is named as the remedy needs it."""
    group = (wired.root / "dev/ttyUSB0").stat().st_gid
    wired.file("/etc/group", f"root:x:99999:\ndialout:x:{group}:\n")
    usb, stable, own = "access /dev/ttyUSB0", "access /dev/serial/by-id/usb-Atlas_pH-if00", "access /dev/ttyAMA0"
    assert sorted(verdicts(machine._allowed, wired, Subject(loaded))) == [(stable, "bad"), (own, "bad"), (usb, "bad")]
    remedies = {f.remedy for f in machine._allowed(wired.machine, Subject(loaded))}
    golden(remedies)
    wired.groups |= {group}
    assert sorted(verdicts(machine._allowed, wired, Subject(loaded))) == [(stable, "ok"), (own, "bad"), (usb, "ok")]
    wired.uid = 0
    assert {v for _, v in verdicts(machine._allowed, wired, Subject(loaded))} == {"ok"}


def test_a_raspberry_pi_is_told_what_switches_a_bus_on(made, tmp_path, golden):
    """A missing bus has its line of config.txt; files of the kernel are read only, as everybody may."""
    file = tmp_path / "pi.yaml"
    file.write_text(PI, encoding="utf-8")
    subject = Subject(load(file))
    made.file("/sys/bus/w1/devices/28-0316a2795a3d/w1_slave", "")
    said = {finding.subject: finding for finding in machine._named(made.machine, subject)}
    golden({subject: finding.verdict for subject, finding in said.items()})
    assert list(machine._allowed(made.machine, subject)) == []
    golden(said["port /dev/i2c-1"].remedy)


def test_who_has_a_port_open_is_named(wired, loaded, golden):
    """From the kernel's list of open files, without opening it."""
    wired.link("/proc/4711/fd/3", "/dev/ttyUSB0")
    wired.file("/proc/4711/comm", "minicom\n")
    wired.link("/proc/4712/fd/3", "/dev/null")
    said = found(machine._holders, wired, Subject(loaded))
    assert [verdict for _, verdict, _ in said] == ["bad"]
    golden(said)


def test_modem_manager_is_told_which_ports_to_leave_alone(wired, loaded):
    """By udev's property on each port; the rule that sets it names the adapter's maker."""
    assert found(machine._modem_manager, wired, Subject(loaded)) == []
    wired.file("/proc/500/comm", "ModemManager\n")
    wired.file("/sys/class/tty/ttyUSB0/dev", "188:0\n")
    wired.file("/sys/class/tty/ttyUSB1/dev", "188:1\n")
    wired.file("/run/udev/data/c188:0", "E:ID_USB_VENDOR_ID=0403\n")
    wired.file("/run/udev/data/c188:1", "E:ID_MM_DEVICE_IGNORE=1\n")
    said = {f.subject.split()[-1]: f for f in machine._modem_manager(wired.machine, Subject(loaded))}
    assert said["/dev/serial/by-id/usb-Atlas_pH-if00"].verdict == "ok"
    assert said["/dev/ttyUSB0"].verdict == "bad"
    assert 'ATTRS{idVendor}=="0403"' in said["/dev/ttyUSB0"].remedy
    assert verdicts(machine._modem_manager, wired) == [("ModemManager", "warn")]


def test_consoles_sleepers_and_names_that_move(wired, loaded, golden):
    """The kernel's console on a port, an adapter that is put to sleep, a host by name."""
    wired.file("/proc/cmdline", "root=/dev/mmcblk0p2 console=ttyAMA0,115200 console=tty1\n")
    golden(verdicts(machine._consoles, wired, Subject(loaded)))
    wired.file("/sys/devices/usb1/1-1/idVendor", "0403\n")
    wired.file("/sys/devices/usb1/1-1/power/control", "auto\n")
    wired.file("/sys/devices/usb1/1-1/1-1:1.0/ttyUSB0/uevent")
    wired.link("/sys/class/tty/ttyUSB0/device", "../../../devices/usb1/1-1/1-1:1.0/ttyUSB0")
    golden(verdicts(machine._asleep, wired, Subject(loaded)))
    golden(verdicts(machine._hosts, wired, Subject(loaded)))


# the campaign ---------------------------------------------------------------------------------------------------------


def mounted(made, directory, kind="ext4", options="rw,relatime", source="/dev/mmcblk0p2"):
    at = str(directory).replace(" ", "\\040")
    made.file("/proc/self/mounts", f"/dev/root / ext4 rw 0 0\n{source} {at} {kind} {options} 0 0\n")


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("ext4", "rw,relatime", []),
        ("nfs4", "rw", [("file system", "bad")]),
        ("overlay", "rw", [("file system", "bad")]),
        ("ext4", "ro", [("mount options", "bad")]),
        ("ext4", "rw,nobarrier", [("mount options", "bad")]),
    ],
)
def test_file_systems_that_lose_things(made, tmp_path, kind, options, expected):
    """What does not keep what it was given, or takes nothing, is told, of the mount that the directory is on."""
    directory = tmp_path / "a state"
    directory.mkdir()
    mounted(made, directory, kind, options, "none")
    said = verdicts(doctor._file_system, made, Subject(directory=directory))
    assert [finding for finding in said if finding[1] != "ok"] == expected


@pytest.mark.parametrize(
    ("card", "life", "verdict"), [("SD", "", "warn"), ("MMC", "0x01 0x02", "ok"), ("MMC", "0x0b 0x02", "bad")]
)
def test_cards_and_chips_wear(made, tmp_path, card, life, verdict):
    """An SD card hardly ever says it, an eMMC does."""
    mounted(made, tmp_path)
    made.file("/sys/block/mmcblk0/device/type", card)
    made.file("/sys/block/mmcblk0/device/life_time", life)
    assert ("disk wear", verdict) in verdicts(doctor._file_system, made, Subject(directory=tmp_path))


def test_a_directory_and_what_was_left_in_it(made, tmp_path, golden):
    """Open to others; left driven by a process that died; starts that ended badly."""
    directory = tmp_path / "state"
    directory.mkdir(mode=0o755)
    subject = Subject(directory=directory)
    golden(verdicts(doctor._directory, made, subject))
    assert found(doctor._left_driven, made, subject) == []
    safe_file.write(directory, SafeFile("rig", True, 1.0, (), Writer(1, "0", "another boot")))
    (directory / FILE_NAME).write_text('{"version": 1, "bad": 2}', encoding="utf-8")
    golden(verdicts(doctor._left_driven, made, subject))


def test_the_journal_at_the_end_of_the_budget_is_foretold(made, tmp_path, loaded, golden):
    """Free space, and how large the journal will have grown."""
    space, journal = found(doctor._space, made, Subject(loaded, tmp_path))
    golden((space[0], journal))


@pytest.mark.parametrize(
    ("version", "has_it"),
    [
        ((3, 6, 23), False), ((3, 40, 1), True), ((3, 44, 5), True), ((3, 44, 6), False), ((3, 45, 0), True),
        ((3, 50, 7), False), ((3, 51, 2), True), ((3, 51, 3), False), ((3, 53, 0), False),
    ],
)  # fmt: skip
def test_releases_of_sqlite_with_the_log_reset_bug(version, has_it):
    """From 3.7.0 on, but for the series it was mended in."""
    assert integrity.reset_bug(version) is has_it


def test_sync_is_measured_and_judged(made, tmp_path):
    """Really written and waited for, leaving nothing; too fast is doubted, too slow holds campaigns, faked is told."""
    ticks = iter(range(100))
    assert doctor.synced(tmp_path, lambda: float(next(ticks))) == (1.0,) * doctor.SYNCS
    assert [doctor.judged(s, s).verdict for s in (1e-6, 0.005, 2.0)] == ["warn", "ok", "bad"]
    subject = Subject(directory=tmp_path)
    assert list(tmp_path.iterdir()) == []
    made.environment["LD_PRELOAD"] = "libeatmydata.so"
    assert verdicts(doctor._sync, made, subject) == [("sync", "bad")]


def test_the_service_is_there_and_watched(made, loaded):
    """Not installed, not enabled, without a watchdog, and as it should be."""
    as_written, stop = f"TimeoutStopUSec={stopping_s(checked(loaded).times)}s", ("service stop", "ok")
    subject = Subject(loaded)
    assert verdicts(doctor._service, made, subject) == [("service", "warn")]
    made.commands["systemctl"] = (
        "LoadState=loaded\nUnitFileState=disabled\nActiveState=active\nWatchdogUSec=0\n" + as_written
    )
    assert verdicts(doctor._service, made, subject) == [("service", "warn"), ("service watchdog", "bad"), stop]
    made.commands["systemctl"] = (
        "LoadState=loaded\nUnitFileState=enabled\nActiveState=active\nWatchdogUSec=30s\n" + as_written
    )
    assert verdicts(doctor._service, made, subject) == [("service", "ok"), ("service watchdog", "ok"), stop]


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ("", "bad"),
        ("1min 30s", "bad"),
        ("3min", "bad"),
        ("infinity", "ok"),
        ("1h 2s", "ok"),
        ("1d", "ok"),
        ("2h", "ok"),
    ],
)
def test_a_service_that_may_not_take_as_long_to_stop_as_the_rig_needs_is_told(made, loaded, given, verdict):
    """An older unit or a drop-in ends `rigctl safe` while an instrument refuses; the remedy names the seconds."""
    words = f"LoadState=loaded\nUnitFileState=enabled\nWatchdogUSec=30s\nTimeoutStopUSec={given}"
    made.commands["systemctl"] = words
    *_, stop = doctor._service(made.machine, Subject(loaded))
    assert (stop.subject, stop.verdict) == ("service stop", verdict)
    assert (str(stopping_s(checked(loaded).times)) in stop.remedy) == (verdict == "bad")


@pytest.mark.parametrize(("span", "s"), [("3min 20s", 200.0), ("1min 30.500ms", 60.0305), ("1w 2d", 777600.0)])
def test_a_span_is_read_as_systemd_writes_it(span, s):
    """Minutes are not metres, nor months."""
    assert doctor.seconds(span) == pytest.approx(s)


# all of it ------------------------------------------------------------------------------------------------------------


def test_one_check_that_fails_hides_no_other(made, monkeypatch, golden):
    """It is a finding itself."""
    made.file("/sys/devices/platform/soc/soc:firmware/get_throttled", "no number")
    said = examined(None, None, {}, made.machine)
    golden([f.what for f in said if f.subject == "power"])
    assert any(f.subject == "sqlite" for f in said)
    assert well(said) is all(f.verdict != "bad" for f in said)
    assert not well([MachineFinding("x", "bad", "y", "z")])
    assert to_json([MachineFinding("x", "ok", "y")])["findings"][0]["remedy"] is None


def test_a_service_s_state_is_found(made, bench, real_ports):
    """Where systemd keeps it, unless the campaign has begun here or `--state` says otherwise."""
    kept = made.root / "var/lib/rigctl/greenhouse"
    kept.mkdir(parents=True)
    (kept / FILE_NAME).write_text('{"version": 1, "bad": 3}', encoding="utf-8")
    here = Path(real_ports)
    assert "starts" in [f.subject for f in examined(here, None, {}, made.machine)]
    assert "starts" not in [f.subject for f in examined(here, bench.folder, {}, made.machine)]


@pytest.mark.slow
def test_the_verb_asks_no_instrument_and_ends_with_what_it_found(bench, real_ports):
    """Exit 1 where something is bad, with the remedy; a configuration that does not hold is one more finding."""
    answer = bench.rigctl("doctor", real_ports, "--json", code=1)
    ports = [f for f in answer.json["findings"] if f["subject"].startswith("port ")]
    assert ports
    assert all(f["verdict"] == "bad" and f["remedy"] for f in ports)
    text = bench.rigctl("doctor", real_ports, code=1).out
    assert [f for f in ports if f["subject"] not in text] == []
    wrong = bench.write("wrong.yaml", "rig: x\n")
    assert "configuration" in [f["subject"] for f in bench.rigctl("doctor", wrong, "--json", code=1).json["findings"]]
    assert sorted(path.name for path in bench.folder.iterdir()) == [
        "bench.yaml",
        "rig.yaml",
        "trials.csv",
        "wrong.yaml",
    ]


@pytest.fixture
def real_ports(bench):
    return bench.write("rig.yaml", (ROOT / "config/greenhouse.yaml").read_text(encoding="utf-8"))
