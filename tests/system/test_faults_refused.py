"""A PLC that refuses writes while a rig is to be made safe: real processes at speed 1, a PLC nobody here wrote."""

import os
import signal
import sqlite3
from contextlib import ExitStack, closing

import pytest
from pyModbusTCP.constants import EXP_ACKNOWLEDGE, EXP_SLAVE_DEVICE_BUSY
from pyModbusTCP.server import DataBank, DataHandler

from tests.drivers.peers import foreign_plc
from tests.system.stack import Stack, wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

RIG = """
rig: bench
currency: EUR
budget: 1000 EUR
policy: {name: explore-then-commit, explore: {share: 0.9, by: spend}}
model: {hyperparameters: fixed, lengthscales: 0.3, signal_sd: 3, noise_sd: 0.3, mean: 8}
variables:
  p: {unit: bar, range: [1, 9], sensor: gauge, actuator: valve, natural: uniform}
control_sets: [[p]]
outcome: {name: yield, unit: g, sensor: balance}
trial: {settle: 60 s, measure: {for: 0.2 s, every: 0.1 s, min_count: 1}}
meters: [{name: water, kind: fixed, price: 0.05 EUR}]
buses: {plc: "modbus_tcp://127.0.0.1:PORT"}
devices:
  gauge: {driver: modbus, bus: plc, unit: bar, read: {register: input, at: 0, type: uint16}}
  balance: {driver: modbus, bus: plc, unit: g, read: {register: input, at: 2, type: uint16}}
  valve: {driver: modbus, bus: plc, unit: bar, write: {at: 10, type: float32}, enable: {coil: 1}}
safety: {safe_state: {valve: "off"}}
"""

SPENT = "{total: 0.05 EUR, max_per_trial: 0.05 EUR}"
"""After one trial."""


class Plc(DataHandler):
    """Refuses every write while it is told to; its coil is the witness."""

    def __init__(self):
        super().__init__(DataBank())
        self.refuses, self.refused = 0, 0
        self.shut = False
        """Whether a coil was switched off."""
        self.refuses_once_measured = False
        """Whether it refuses writes from the first reading of its balance on, with the valve on."""
        self.data_bank.set_input_registers(0, [5, 0, 7])

    @property
    def on(self):
        return self.data_bank.get_coils(1)[0]

    def read_i_regs(self, address, count, srv_info):
        if address == 2 and self.on and self.refuses_once_measured:
            self.refuses = EXP_ACKNOWLEDGE
        return super().read_i_regs(address, count, srv_info)

    def write_coils(self, address, bits_l, srv_info):
        if self.refuses:
            self.refused += 1
            return DataHandler.Return(exp_code=self.refuses)
        self.shut = self.shut or not any(bits_l)
        return super().write_coils(address, bits_l, srv_info)

    def write_h_regs(self, address, words_l, srv_info):
        if self.refuses:
            return DataHandler.Return(exp_code=self.refuses)
        return super().write_h_regs(address, words_l, srv_info)


@pytest.fixture
def plc():
    """Stands where the PLC would, on a TCP port."""
    with foreign_plc(Plc()) as handler:
        yield handler


@pytest.fixture
def driven(plc, tmp_path):
    """A campaign in mid-trial, the valve on: how to ask something of it, and the process."""
    (tmp_path / "rig.yaml").write_text(RIG.replace("PORT", str(plc.port)), encoding="utf-8")
    stack, state = Stack(None, tmp_path), tmp_path / "state"
    run = stack.rigctl("run", tmp_path / "rig.yaml", "--state", state, state=state)
    run.until(lambda: state.exists() and run.count("RUNNING") and plc.on, "a trial that settles")
    yield lambda *words: stack.rigctl(*words, "--state", state, state=state), run
    for process in stack.processes:  # one that stays would stay for ever: its PLC ends with the test
        if process.alive:
            process.kill()


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("SIGTERM", EXP_ACKNOWLEDGE),
        ("safe", EXP_SLAVE_DEVICE_BUSY),
        pytest.param("SIGINT", EXP_ACKNOWLEDGE, marks=pytest.mark.nightly),
        pytest.param("SIGHUP", EXP_SLAVE_DEVICE_BUSY, marks=pytest.mark.nightly),
    ],
)
def test_fault_82_who_ends_while_writes_are_refused_stays_until_the_valve_is_shut(driven, plc, how, code):
    """It tries on, tells whoever asked what is not safe, and ends once the coil is off."""
    rigctl, run = driven
    plc.refuses = code
    if how == "safe":
        safe = rigctl("safe", "--json")
        assert safe.wait() == 1
        assert set(safe.answer["failed"]) == {"valve"}
    else:
        run.process.send_signal(getattr(signal, how))
    wait_until(lambda: plc.refused > 3, "further attempts")
    assert plc.on
    assert run.process.poll() is None
    for verb in ("safe", "stop"):
        again = rigctl(verb, "--json")
        assert again.wait() == 1
        assert set(again.answer["failed"]) == {"valve"}
    plc.refuses = 0
    run.wait()
    assert not plc.on
    assert [row["state"] for row in run.rows("SELECT state FROM trials")] == ["ABANDONED"]


class Ending:
    """A campaign on a PLC of its own, and what ends it while that PLC refuses writes."""

    def __init__(self, directory, plc, words, changes):
        directory.mkdir()
        text = RIG.replace("PORT", str(plc.port))
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (directory / "rig.yaml").write_text(text, encoding="utf-8")
        self.plc, self.state = plc, directory / "state"
        self.run = Stack(None, directory).rigctl(
            *words, directory / "rig.yaml", "--state", self.state, state=self.state
        )
        plc.refuses_once_measured = any(old.startswith("budget") for old, _ in changes)

    def begins(self, act):
        """Once the valve is on, refuse writes and do what ends the campaign."""
        self.run.until(lambda: self.state.exists() and self.run.phases() and self.plc.on, "a trial")
        if self.plc.refuses_once_measured:
            return
        self.run.until(lambda: self.run.count("RUNNING"), "a trial that settles")
        self.plc.refuses = EXP_ACKNOWLEDGE
        act(self)


def forget(ending):
    """Take the trial under way out of the campaign's hands: its next step is an error."""
    with closing(sqlite3.connect(ending.state / "journal.sqlite", timeout=60.0)) as journal, journal:
        journal.execute("UPDATE trials SET state = 'ABANDONED'")


ENDS = {
    "budget": (
        ("run",),
        (("budget: 1000 EUR", f"budget: {SPENT}"), ("settle: 60 s", "settle: 0.2 s")),
        None,
        0,
    ),
    "error": (("run",), (("settle: 60 s", "settle: 5 s"),), forget, 1),
    "trip": (
        ("run",),
        (
            (
                'safety: {safe_state: {valve: "off"}}',
                'safety: {safe_state: {valve: "off"}, interlocks: [{name: over, when: "p > 8 bar", then: trip}]}',
            ),
        ),
        lambda ending: ending.plc.data_bank.set_input_registers(0, [9]),
        3,
    ),
    "operate": (("operate", "--set", "p=5"), (), lambda ending: ending.run.process.send_signal(signal.SIGTERM), 0),
}


def test_fault_82_every_other_end_stays_too_until_the_valve_is_shut(tmp_path):
    """A spent budget, an error, a trip, and production ended by a signal: each tries until the coil is off."""
    with ExitStack() as stack:
        endings = {}
        for name, (words, changes, _, _) in ENDS.items():
            plc = stack.enter_context(foreign_plc(Plc()))
            endings[name] = ending = Ending(tmp_path / name, plc, words, changes)
            stack.callback(ending.run.wait)
            stack.callback(ending.run.process.kill)
        for name, ending in endings.items():
            ending.begins(ENDS[name][2])
        for name, ending in endings.items():
            wait_until(lambda plc=ending.plc: plc.refused > 3, f"further attempts after {name}")
        for name, ending in endings.items():
            assert (name, ending.plc.on, ending.run.alive) == (name, True, True), ending.run.said[-2000:]
            ending.plc.refuses_once_measured, ending.plc.refuses = False, 0
        for name, ending in endings.items():
            assert (name, ending.run.wait(), ending.plc.on) == (name, ENDS[name][3], False), ending.run.said[-2000:]


def test_fault_82_a_second_signal_ends_it_and_the_next_start_goes_safe_first(driven, plc):
    """Whoever insists is let go, with exit 1; what was left on is known."""
    rigctl, run = driven
    plc.refuses = EXP_ACKNOWLEDGE
    run.process.send_signal(signal.SIGTERM)
    wait_until(lambda: run.alarms(source="safe state", severity="MAJOR"), "its word")
    run.process.send_signal(signal.SIGHUP)  # a terminal that is closed does not insist
    before = plc.refused
    wait_until(lambda: plc.refused > before, "further attempts")
    assert run.process.poll() is None
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 1
    assert plc.on
    plc.refuses = 0
    assert rigctl("safe").wait() == 0
    assert not plc.on


@pytest.fixture
def again(driven, plc, tmp_path):
    """A start after a crash that left the valve on, which the PLC refuses to shut: how to ask it, and the process."""
    rigctl, run = driven
    run.kill()
    plc.refuses = EXP_ACKNOWLEDGE
    start = rigctl("run", tmp_path / "rig.yaml")
    start.until(lambda: "HOLDING" in start.phases(), "its word")
    return rigctl, start


def test_fault_116_a_start_after_a_crash_holds_until_the_valve_is_shut_then_goes_on(again, plc):
    """It tries on and says so; what was in flight is settled, and a trial begins, only once the coil was off."""
    rigctl, start = again
    before = plc.refused
    wait_until(lambda: plc.refused > before + 3, "further attempts")
    status = rigctl("status", "--json")
    assert status.wait() == 0
    assert status.answer["phase"] == "holding"
    assert start.alarms(kind="unconfirmed", source="safe state", state="stands")
    assert [row["state"] for row in start.rows("SELECT state FROM trials")] == ["RUNNING"]
    assert plc.on
    plc.shut, plc.refuses = False, 0
    start.until(lambda: len(start.rows("SELECT 1 FROM trials")) == 2 and start.count("RUNNING"), "the next trial")
    assert plc.shut
    assert [row["state"] for row in start.rows("SELECT state FROM trials ORDER BY trial")] == ["LOST", "RUNNING"]
    start.process.send_signal(signal.SIGTERM)
    assert (start.wait(), plc.on) == (0, False)


def test_fault_116_two_signals_end_a_start_that_holds(again, plc):
    """Exit 1; what was left on is known to whoever comes next."""
    rigctl, start = again
    for expected in ("stays", "leaving"):
        start.process.send_signal(signal.SIGTERM)
        wait_until(lambda word=expected: word in start.said, "its answer")
    assert (start.wait(), plc.on) == (1, True)
    plc.refuses = 0
    assert rigctl("safe", "--if-left-driven").wait() == 0
    assert not plc.on


def test_fault_89_a_hung_campaign_is_ended_by_force_and_its_rig_made_safe(driven, plc):
    """Without force it is named only; with it the process is gone, and the coil off."""
    rigctl, run = driven
    os.kill(run.process.pid, signal.SIGSTOP)
    assert rigctl("safe").wait() == 1
    assert plc.on
    safe = rigctl("safe", "--force", "--json")
    assert safe.wait() == 0
    assert safe.answer["by"] == "rigctl safe"
    assert not plc.on
    assert run.wait() == -signal.SIGKILL


def test_fault_89_a_campaign_that_answers_is_asked_and_not_killed(driven, plc, golden):
    """Force is for one that hangs."""
    rigctl, run = driven
    safe = rigctl("safe", "--force", "--json")
    assert safe.wait() == 0
    golden(safe.answer["by"])
    assert not plc.on
    assert run.wait() >= 0


@pytest.mark.parametrize("how", [["safe"], ["safe", "--if-left-driven"]], ids=" ".join)
def test_fault_82_safe_by_itself_stays_until_the_valve_is_shut(driven, plc, how):
    """After a crash `rigctl safe` tries until the coil is off, and exits by that."""
    rigctl, run = driven
    run.kill()
    plc.refuses = EXP_SLAVE_DEVICE_BUSY
    safe = rigctl(*how, "--json")
    wait_until(lambda: "NOT CONFIRMED SAFE" in safe.said, "its word")
    refused = plc.refused
    wait_until(lambda: plc.refused > refused, "further attempts")
    assert safe.alive
    assert plc.on
    plc.refuses = 0
    assert safe.wait() == 0
    assert not plc.on


def test_fault_82_a_signal_ends_safe_by_itself_once_it_has_said_what_is_not(driven, plc):
    """Exit 1, with the names; a terminal that is closed does not end it."""
    rigctl, run = driven
    run.kill()
    plc.refuses = EXP_ACKNOWLEDGE
    safe = rigctl("safe", "--json")
    wait_until(lambda: "NOT CONFIRMED SAFE" in safe.said, "its word")
    safe.process.send_signal(signal.SIGHUP)
    refused = plc.refused
    wait_until(lambda: plc.refused > refused, "further attempts")
    assert safe.alive
    safe.process.send_signal(signal.SIGINT)
    assert safe.wait() == 1
    assert set(safe.answer["failed"]) == {"valve"}


STARTS = {
    "run": ("run", "CONFIG", "--state", "STATE", "--json"),
    "operate": ("operate", "CONFIG", "--state", "STATE", "--json"),
    "manual": ("manual", "read", "BEFORE", "gage", "--state", "STATE", "--json"),
}


@pytest.fixture
def refused(driven, plc, tmp_path):
    """Starts after a crash that left the valve on, each refused for a mistyped word while the PLC refuses writes."""
    run, before, config = driven[1], tmp_path / "rig.yaml", tmp_path / "changed.yaml"
    run.kill()
    config.write_text(before.read_text(encoding="utf-8").replace("budget: 1000 EUR", "budget: 1000 kg"), "utf-8")
    plc.refuses = EXP_ACKNOWLEDGE
    stack, known = Stack(None, tmp_path), {"BEFORE": before, "CONFIG": config, "STATE": tmp_path / "state"}
    stack.processes += [run]  # so that files get numbers of their own
    started = {name: stack.rigctl(*(known.get(word, word) for word in words)) for name, words in STARTS.items()}
    try:
        for name, process in started.items():
            process.until(lambda p=process: "it stays and tries again" in p.said, f"the word of {name}")
        yield started
    finally:
        for process in started.values():
            process.kill()


def test_fault_82_a_start_that_is_refused_after_a_crash_stays_until_the_valve_is_shut(refused, plc):
    """Where no campaign begins that could stay, `run`, `operate` and `manual` stay, then exit as refused."""
    before = plc.refused
    wait_until(lambda: plc.refused > before + 3, "further attempts")
    assert plc.on
    assert all(process.alive for process in refused.values())
    plc.refuses = 0
    for name, process in refused.items():
        assert (name, process.wait()) == (name, 2), process.said[-2000:]
        assert process.answer["exit_code"] == 2
    assert not plc.on


def test_fault_82_a_signal_ends_a_refused_start_that_stays(refused, plc):
    """Whoever insists is let go; the refusal is told with the valve that is not confirmed safe."""
    for process in refused.values():
        process.process.send_signal(signal.SIGTERM)
    for name, process in refused.items():
        assert (name, process.wait()) == (name, 2), process.said[-2000:]
        assert "valve" in process.answer["error"]["what"]
    assert plc.on
