import pytest

from rigctl.campaign.caretaker import pin_of
from rigctl.campaign.journal.rows import Pin
from rigctl.errors import IdentityMismatch
from rigctl.rig import places
from rigctl.rig.protocols import DeviceOptions, Identity, Severity
from rigctl.rig.spec import DeviceSpec, DosingSpec
from tests.campaign.fakes import make_rig_spec, make_spec, open_journal
from tests.campaign.records import rows

PUMPS = ("acid", "calcium")
DOSING = {name: DosingSpec("a_probe", 0.5, 0.1, 0.0, 1) for name in PUMPS}


def spec(**changes):
    """A campaign with two pumps of one model."""
    devices = {n: DeviceSpec(n, "fake", f"fake://{n}", DeviceOptions(), 1.0) for n in PUMPS}
    return make_spec(rig=make_rig_spec(devices=devices, dosing=DOSING, meters=()), max_trials=1, **changes)


def pumps(acid="ACID", calcium="CALCIUM", firmware="1.0"):
    return {"acid": Identity("EZO-PMP", firmware, acid), "calcium": Identity("EZO-PMP", firmware, calcium)}


@pytest.mark.slow
async def test_fault_65_pumps_that_changed_places_are_noticed_before_anything_is_written(stage, golden):
    """Both are named with what they were; neither a command nor a safe command goes out to a rig that was left safe."""
    await stage.run(spec(), found=pumps())
    with pytest.raises(IdentityMismatch) as refusal:
        await stage.run(spec(), found=pumps("CALCIUM", "ACID"))
    message = str(refusal.value)
    golden(message)
    assert stage.rig.calls == ["open", "close"]
    assert (await stage.run(spec(), found=pumps())).ending == "trials"


async def test_an_update_of_the_firmware_is_no_other_instrument(stage):
    """Only model, number and place count."""
    await stage.run(spec(), found=pumps())
    assert (await stage.run(spec(), found=pumps(firmware="2.0"))).ending == "trials"


@pytest.mark.parametrize("now", [Identity("EZO-PMP-L", "1.0", "ACID"), Identity("EZO-PMP", "1.0", "")])
async def test_another_model_or_a_lost_number_is_another_instrument(stage, now):
    """Whatever is less sure than what was pinned needs a person's look."""
    await stage.run(spec(), found=pumps())
    with pytest.raises(IdentityMismatch, match="acid"):
        await stage.run(spec(), found={**pumps(), "acid": now})


@pytest.mark.slow
async def test_a_device_that_is_new_is_pinned_beside_the_others(stage):
    """The first start that sees it pins it; what was pinned stays as it was."""
    await stage.run(spec(), found={"acid": pumps()["acid"]})
    await stage.run(spec(), found=pumps())
    with stage.journal() as journal:
        kept = rows(journal, "pins")
    assert [(p["device"], p["serial"], bool(p["accepted"]), p["who"]) for p in kept] == [
        ("acid", "ACID", False, ""),
        ("calcium", "CALCIUM", False, ""),
    ]


@pytest.mark.slow
async def test_what_a_person_accepted_is_expected_from_then_on(stage):
    """The last pin of a device counts, and says who accepted it."""
    await stage.run(spec(), found=pumps())
    journal = open_journal(stage.state, stage.clock())
    journal.pins.keep([Pin("acid", "EZO-PMP", "NEW", "")], accepted_by="ada (uid 1000)")
    journal.close()
    await stage.run(spec(), found=pumps(acid="NEW"))
    with pytest.raises(IdentityMismatch):
        await stage.run(spec(), found=pumps())
    with stage.journal() as journal:
        pin = journal.pins.by_device()["acid"]
        assert (pin.accepted, pin.who) == (True, "ada (uid 1000)")


async def test_pumps_that_cannot_be_told_apart_are_an_alarm(stage, golden):
    """No name, no stable port: a warning that says how to give them one, and the campaign runs."""
    await stage.run(spec(), found=pumps("", ""))
    (alarm,) = [a for a in stage.alarms() if a.source == "pumps"]
    assert alarm.severity is Severity.MINOR
    golden(alarm.message)
    assert "`Name,...`" in alarm.message


async def test_pumps_with_names_are_no_alarm(stage):
    """Nor is a single one without."""
    await stage.run(spec(), found=pumps("", "CALCIUM"))
    assert [a for a in stage.alarms() if a.source == "pumps"] == []


def serial_port(folder, monkeypatch):
    """A port with its names under a folder: `ttyUSB0`, by-path and by-id."""
    by_id, by_path = folder / "by-id", folder / "by-path"
    monkeypatch.setattr(places, "STABLE", (by_id, by_path))
    (folder / "ttyUSB0").touch()
    for link in (by_id / "usb-FTDI_1", by_path / "pci-0"):
        link.parent.mkdir()
        link.symlink_to(folder / "ttyUSB0")
    return folder / "ttyUSB0", by_id / "usb-FTDI_1", by_path / "pci-0"


def test_a_port_is_known_by_id_whatever_name_the_configuration_uses(tmp_path, monkeypatch):
    """By-id first, then by-path, else nothing: the number of a ttyUSB says nothing."""
    plain, by_id, by_path = serial_port(tmp_path, monkeypatch)
    names = [places.stable_name(f"serial://{p}?baud=9600") for p in (plain, by_id, by_path)]
    assert names == [str(by_id)] * 3
    by_id.unlink()
    assert places.stable_name(f"serial://{plain}") == str(by_path)
    by_path.unlink()
    assert places.stable_name(f"serial://{plain}") == ""


def test_a_device_without_a_number_is_pinned_by_its_port(tmp_path, monkeypatch):
    """Adapters that were numbered anew are noticed; with a number of its own an instrument may move."""
    plain, by_id, _ = serial_port(tmp_path, monkeypatch)
    device = DeviceSpec("probe", "ezo-ph", f"serial://{plain}", DeviceOptions(), 1.0)
    assert pin_of(device, Identity("EZO pH")) == Pin("probe", "EZO pH", "", str(by_id))
    assert pin_of(device, Identity("EZO pH", "2.1", "X1")) == Pin("probe", "EZO pH", "X1", "")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("modbus_tcp://10.0.0.5", "10.0.0.5:502"),
        ("modbus_tcp://PLC.local:1502?quiet=1", "plc.local:1502"),
        ("tcp://[fe80::1]:4001", "fe80::1:4001"),
        ("modbus_tcp://127.0.0.1:5020", ""),
        ("fake://pump", ""),
    ],
)
def test_a_network_device_is_known_by_host_and_port(url, name):
    """But not on this machine, where a port is a tunnel's or a simulator's."""
    assert places.stable_name(url) == name
