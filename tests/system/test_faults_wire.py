"""Faults on the wires of a campaign that is under way: it loses a trial at most, and never sends a write twice."""

import pytest

from tests.system.stack import TIMEOUT_S, at_s, because, cost, greenhouse, next_trial

pytestmark = pytest.mark.system

REFILL_COIL = 5
ON, OFF = "050005ff00", "0500050000"


@pytest.fixture(scope="module")
def campaign_config(tmp_path_factory):
    """Valves only, and a wait after the refill has been commanded that is long enough to strike in."""
    return greenhouse(tmp_path_factory.mktemp("config") / "rig.yaml", prepare="8 min")


def strike_the_next_write(sim, fault) -> None:
    """Right after the refill was commanded: the next the PLC is told is to end it."""
    batches = sim.state()["plant"]["batches"]
    sim.wait_for(lambda s: s["plant"]["batches"] > batches, "a refill")
    sim.control(fault)


@pytest.mark.parametrize(
    "fault", [{"fault": "drop_reply", "bus": "plc"}, {"fault": "reset", "bus": "plc"}], ids=["01 lost", "13 reset"]
)
def test_fault_01_13_a_write_without_reply_is_sent_once(sim, campaign, fault):
    """The reply to a write is lost, or the connection reset: UNKNOWN, sent once, the read-back decides."""
    alarms = len(campaign.alarms(kind="command unknown", source="refill"))
    sim.control(fault | {"after": [ON, OFF]})
    campaign.until(lambda: campaign.alarms(kind="command unknown", source="refill")[alarms:], "the alarm")
    (struck,) = campaign.rows("SELECT max(trial) AS trial FROM trials")
    trial = next_trial(campaign, "RECORDED", after=struck["trial"] - 1)["trial"]
    assert trial == struck["trial"]
    began_s, ended_s = at_s(campaign, trial, "ARM"), at_s(campaign, trial, "MEASURE")
    told = [w for w in sim.state()["writes"]["plc"] if began_s < w["time_s"] < ended_s and w["at"] == REFILL_COIL]
    assert [w["pdu"] for w in told] == [OFF, ON, OFF]


@pytest.mark.parametrize(
    "faults",
    [
        {"mains": {"fault": "corrupt"}, "plc": {"fault": "garbage"}, "ph": {"fault": "garbage"}},
        {"mains": {"fault": "garbage"}},
        {"mains": {"fault": "truncate"}},
        {"mains": {"fault": "exception", "code": 6, "count": 3}},
    ],
    ids=["05 CRC, 08 TCP, 08 text", "08 RTU", "06 RTU", "10 busy"],
)
def test_fault_05_06_08_10_a_spoilt_or_busy_answer_is_asked_for_again(sim, campaign, faults):
    """A bit flip, half a frame, garbage before one, exception 06: no value is taken from it, and no trial is lost."""
    failed = campaign.count("FAILED")
    for bus, fault in faults.items():
        sim.control({**fault, "bus": bus})
    trial = next_trial(campaign, "RECORDED")["trial"]
    next_trial(campaign, "RECORDED", after=trial)
    assert campaign.count("FAILED") == failed
    assert campaign.rows("SELECT 1 FROM ledger WHERE trial IN (?, ?) AND estimated", trial - 1, trial) == []


def test_fault_03_a_late_reply_is_not_taken_for_the_next(sim, campaign):
    """A meter's reply comes after its deadline: discarded; no counter is ever another register's value."""
    sim.control({"fault": "delay", "bus": "mains", "seconds": 2 * TIMEOUT_S})
    first = next_trial(campaign, "RECORDED")["trial"]
    last = next_trial(campaign, "RECORDED", after=first)["trial"]
    read = campaign.rows("SELECT value FROM meter_readings WHERE meter = 'electricity' AND severity < 3 ORDER BY at_s")
    values = [r["value"] for r in read]
    assert values == sorted(values)
    assert 412.0 < values[0] < values[-1] <= sim.state()["metered"]["energy_kwh"] + 0.001
    assert cost(campaign, last) > 0


@pytest.mark.parametrize(
    ("fault", "mend"),
    [
        ({"fault": "drop_reply", "bus": "plc", "count": -1}, {"clear": True}),
        ({"fault": "half_open"}, {"fault": "half_open", "on": False}),
    ],
    ids=["02 lost", "14 half-open"],
)
def test_fault_02_14_a_silent_plc_costs_the_trial_not_the_campaign(sim, campaign, fault, mend):
    """No replies, or a half-open connection: a timeout within the device's own, everything safe; then it goes on."""
    strike_the_next_write(sim, fault)
    lost = next_trial(campaign, "FAILED")
    asked = sim.state()["requests"]["plc"]
    sim.control(mend)
    campaign.until(lambda: campaign.alarms(kind="trial failed", severity="MAJOR"), "a major alarm")
    assert next_trial(campaign, "RECORDED")["trial"] > lost["trial"]
    assert sim.state()["requests"]["plc"] > asked


def test_fault_02_a_plc_whose_replies_are_lost_goes_to_its_safe_state(sim, campaign):
    """With every reply lost the commands to the safe state go out all the same; one line is told, not each device."""
    before = len(campaign.alarms(severity="MAJOR"))
    strike_the_next_write(sim, {"fault": "drop_reply", "bus": "plc", "count": -1})
    next_trial(campaign, "FAILED")

    def told_since() -> dict[str, str]:
        return {alarm["kind"]: alarm["source"] for alarm in campaign.alarms(severity="MAJOR")[before:]}

    campaign.until(lambda: {"unconfirmed", "trial failed"} <= told_since().keys(), "what is not safe, and the trial")
    told = told_since()
    assert told == {"line": sim.buses["plc"], "trial failed": told["trial failed"], "unconfirmed": "safe state"}
    assert sim.state()["plant"]["setpoints"] == {}


def test_fault_16_17_an_unplugged_pump_is_found_again(sim, campaign):
    """A port goes away: the trial fails, the rest is safe; once it is back, on another tty, the campaign goes on."""
    sim.control({"fault": "unplug", "bus": "acid"})
    try:
        lost = next_trial(campaign, "FAILED")["trial"]
        assert "acid_pump" in because(campaign, lost)
        sim.wait_until_safe()
        assert campaign.alarms(kind="unconfirmed", source="ph_doser", severity="MAJOR")
    finally:
        sim.control({"fault": "replug", "bus": "acid"})
    assert next_trial(campaign, "RECORDED")["trial"] > lost


def test_fault_18_another_instrument_after_a_replug_gets_no_command(sim, campaign):
    """While a pump is unplugged a pH circuit takes its port: the mismatch is told, and nothing is dosed."""
    doses = sim.state()["doses"]
    sim.control({"fault": "unplug", "bus": "acid"})
    sim.control({"fault": "identity", "bus": "acid", "as": "?I,pH,2.14"})
    sim.control({"fault": "replug", "bus": "acid"})
    campaign.until(
        lambda: any("'pH'" in told["message"] for told in campaign.alarms(source="ph_doser", severity="MAJOR")),
        "an alarm that names the stranger",
    )
    assert sim.state()["doses"] == doses
