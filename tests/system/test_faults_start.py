"""Faults that must keep a campaign from starting: wrong wiring, wrong instruments, held ports, wrong files."""

from collections.abc import Iterator

import pytest

from tests.drivers.peers import TcpPeer, cut_mbap
from tests.profiles import nightly_beyond
from tests.system.stack import PORT, greenhouse, rows, stranger

pytestmark = pytest.mark.system


def witnessed(sim) -> tuple[object, object]:
    """Everything that was written to the rig, and every dose."""
    state = sim.state()
    return state["writes"], state["doses"]


def settled_start(process) -> str:
    """How the campaign's only start ended, says the journal."""
    (start,) = process.rows("SELECT ended FROM starts")
    return str(start["ended"])


@pytest.fixture
def refusing(request) -> Iterator[TcpPeer]:
    """A Modbus TCP server that answers every request with the exception code given."""

    def answer(asked: bytes) -> list[bytes]:
        return [asked[:5] + bytes([3, asked[6], asked[7] | 0x80, request.param])]

    peer = TcpPeer(cut_mbap, answer)
    yield peer
    peer.stop()


@pytest.mark.parametrize(
    ("refusing", "meaning"),
    nightly_beyond(1, [(2, "illegal data address"), (1, "illegal function"), (3, "illegal data value")], several=True),
    indirect=["refusing"],
)
def test_fault_09_a_modbus_refusal_is_a_configuration_fault(sim, stack, tmp_path, refusing, meaning):
    """Modbus exceptions 01 to 03 are a configuration fault: no retry, register and device are named, nothing moves."""
    before = witnessed(sim)

    def to_the_refusing_one(rig):
        rig["buses"]["other"] = f"modbus_tcp://127.0.0.1:{refusing.port}"
        rig["devices"]["nh4_probe"]["bus"] = "other"

    config = greenhouse(tmp_path / "rig.yaml", edit=to_the_refusing_one)
    run = stack.run(config, tmp_path / "state")
    assert run.wait() == 1
    assert (run.error["kind"], run.error["device"]) == ("Refused", "nh4_probe")
    assert meaning in run.error["what"]
    assert "register 4" in run.error["what"]
    assert len(refusing.requests) == 1
    assert witnessed(sim) == before
    assert meaning in settled_start(run)


def test_fault_12_an_answer_from_the_wrong_unit_is_rejected(sim, stack, tmp_path):
    """When another unit answers, nothing is taken from it and nothing is written; the message names both."""
    before = witnessed(sim)
    sim.control({"fault": "wrong_unit", "bus": "mains", "count": -1})
    run = stack.run(greenhouse(tmp_path / "rig.yaml"), tmp_path / "state")
    assert run.wait() == 1
    assert run.error["kind"] == "GarbledReply"
    assert "mains_meter" in run.error["devices"]
    assert "unit 2" in run.error["what"]
    assert witnessed(sim) == before
    assert run.rows("SELECT 1 FROM trials") == []


@pytest.mark.parametrize(
    ("bus", "identity", "device"),
    nightly_beyond(
        1,
        [("ca", "?I,pH,2.14", "ca_doser"), ("ph", "?I,PMP,1.06", "ph_probe"), ("cam", "Other,XY-9,1,1", "camera")],
        several=True,
    ),
)
def test_fault_18_the_wrong_device_on_a_port_is_not_written_to(sim, stack, tmp_path, bus, identity, device):
    """Another instrument than configured answers on a port: identity mismatch naming the device, no writes at all."""
    before = witnessed(sim)
    sim.control({"fault": "identity", "bus": bus, "as": identity})
    run = stack.run(greenhouse(tmp_path / "rig.yaml"), tmp_path / "state")
    assert run.wait() == 1
    assert run.error["kind"] == "IdentityMismatch"
    assert device in run.error["devices"]
    assert device in settled_start(run)
    assert witnessed(sim) == before


def test_fault_19_a_port_held_by_another_process_is_named(sim, stack, tmp_path):
    """A serial port that another process holds: refuses to start with exit 4, names the port and its holder."""
    before, port = witnessed(sim), sim.path("ca")
    with stranger(PORT, port) as holder:
        run = stack.run(greenhouse(tmp_path / "rig.yaml"), tmp_path / "state")
        assert run.wait() == 4
    assert run.error["kind"] == "PortHeld"
    assert port in run.error["bus"]
    assert f"pid {holder.pid}" in run.error["what"]
    assert witnessed(sim) == before


def test_fault_43_every_mistake_of_a_configuration_is_told_at_once(sim, stack, tmp_path):
    """Unknown key, wrong unit, duplicate key: exit 2 with file, line and nearest key of all; nothing is made."""
    before = sim.state()["requests"]
    config = greenhouse(tmp_path / "rig.yaml")
    lines = config.read_text(encoding="utf-8").splitlines()
    settle = next(i for i, line in enumerate(lines) if line.startswith("  settle:"))
    lines[settle] = "  settle: 30 mM"
    lines += ["budgett: 5 EUR", "seed: 2"]
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = stack.run(config, tmp_path / "state")
    assert run.wait() == 2
    told = {mistake["line"]: mistake for mistake in run.error["mistakes"]}
    assert {line: mistake["path"] for line, mistake in told.items()} == {
        settle + 1: "trial.settle",
        len(lines) - 1: "budgett",
        len(lines): "seed",
    }
    assert told[settle + 1]["got"] == '"30 mM"'
    assert '"budget"' in told[len(lines) - 1]["remedy"]
    assert not (tmp_path / "state").exists()
    assert sim.state()["requests"] == before


def test_fault_44_a_second_instance_is_refused_by_pid(sim, stack, tmp_path):
    """A second process on the same state, or on the same ports, exits with 4 and names the first, which goes on."""
    config = greenhouse(tmp_path / "rig.yaml")
    first = stack.run(config, tmp_path / "state")
    first.until(lambda: first.count("RECORDED"), "a first trial")
    same_state, same_ports = stack.run(config, tmp_path / "state"), stack.run(config, tmp_path / "other")
    assert (same_state.wait(), same_ports.wait()) == (4, 4)
    assert (same_state.error["kind"], same_ports.error["kind"]) == ("Locked", "Locked")
    assert str(first.process.pid) in same_state.error["what"]
    assert f"pid {first.process.pid}" in same_ports.error["what"]
    assert sim.path("ca") in same_ports.error["what"]
    assert rows(tmp_path / "other", "SELECT 1 FROM trials") == []
    done = first.count("RECORDED")
    first.until(lambda: first.count("RECORDED") > done, "the first to go on")
