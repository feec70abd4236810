"""A PLC that carries eight variables and dies is told of as one thing: at speed 1, by a PLC of pyModbusTCP."""

import asyncio
import threading

import pytest
from pyModbusTCP.server import ModbusServer

from rigctl.campaign.events import TrialStep
from rigctl.campaign.trial import State
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from tests.campaign.test_at_speed_one import Bench, Plc

pytestmark = pytest.mark.slow

NAMES = "abcdefgh"
CHANGES = (
    (
        "  b: {unit: uM, range: [5, 60], sensor: probe, actuator: valve, natural: uniform, watch_every: 0.5 s}\n",
        "".join(
            f"  {n}: {{unit: uM, range: [5, 60], sensor: probe_{n}, actuator: valve_{n}, natural: uniform, "
            "watch_every: 0.5 s, stale_after: 3 s}\n"
            for n in NAMES
        ),
    ),
    (
        "  probe:   {driver: modbus, bus: plc, unit: uM, read: {at: 0, type: float32}}\n",
        "".join(
            f"  probe_{n}: {{driver: modbus, bus: plc, unit: uM, read: {{at: {20 + 2 * i}, type: float32}}}}\n"
            for i, n in enumerate(NAMES)
        ),
    ),
    (
        "  valve:   {driver: modbus, bus: plc, unit: uM, write: {at: 10, type: float32}, enable: {coil: 1}}\n",
        "".join(
            f"  valve_{n}: {{driver: modbus, bus: plc, unit: uM, write: {{at: {40 + 2 * i}, type: float32}}, "
            f"enable: {{coil: {10 + i}}}}}\n"
            for i, n in enumerate(NAMES)
        ),
    ),
    ('{valve: "off", ', "{" + "".join(f'valve_{n}: "off", ' for n in NAMES)),
    ("control_sets: all", f"control_sets: [[{', '.join(NAMES)}]]"),
    ("measure: {for: 0.4 s", "measure: {for: 6 s"),
)


class Board(Plc):
    """It may fall mute."""

    def __init__(self):
        super().__init__()
        self.answers = threading.Event()
        self.answers.set()
        for i in range(len(NAMES)):
            self.reads(20 + 2 * i, 20.0)

    def read_i_regs(self, *asked):
        self.answers.wait(60.0)
        return super().read_i_regs(*asked)

    def read_coils(self, *asked):
        self.answers.wait(60.0)
        return super().read_coils(*asked)

    def read_h_regs(self, *asked):
        self.answers.wait(60.0)
        return super().read_h_regs(*asked)

    def write_coils(self, *told):
        self.answers.wait(60.0)
        return super().write_coils(*told)


@pytest.mark.parametrize("how", ["dead", "mute"])
async def test_one_dead_plc_is_told_once_and_not_for_each_variable(tmp_path, how):
    """One alarm stands of the line, until all of it is over, and one says what is not safe because of it."""
    plc, alarms = Board(), []
    server = ModbusServer("127.0.0.1", 0, no_block=True, data_hdl=plc)
    server.start()
    plc.port = server._service.server_address[1]
    bench, runs, unsafe = Bench(plc, tmp_path / "state"), asyncio.Event(), asyncio.Event()

    def heard(event):
        if isinstance(event, TrialStep) and event.state is State.RUNNING:
            runs.set()
        if isinstance(event, Alarm):
            alarms.append(event)
            if event.source == "safe state":
                unsafe.set()

    async def fail():
        nonlocal server
        await runs.wait()
        await asyncio.sleep(1.0)  # the watch has read each once
        server.stop() if how == "dead" else plc.answers.clear()
        await unsafe.wait()
        if how == "dead":
            server = ModbusServer("127.0.0.1", plc.port, no_block=True, data_hdl=plc)
            server.start()
        plc.answers.set()

    bench.heard = heard
    failing = asyncio.create_task(fail())
    await bench.run(*CHANGES, then="warn", max_trials=1)
    await failing
    server.stop()
    line = f"modbus_tcp://127.0.0.1:{plc.port}"
    worst = [a for a in alarms if a.severity is Severity.MAJOR]
    assert {(a.kind, a.source) for a in worst} == {("line", line), ("unconfirmed", "safe state")}
    assert all(f"valve_{n}" in " ".join(a.message for a in worst) for n in NAMES)
    assert [a.state for a in alarms if a.source == "safe state"] == ["stands", "over"]
    of_line = [a.state for a in alarms if a.source == line]
    assert (of_line[0], of_line[-1], of_line.count("over")) == ("stands", "over", 1)
