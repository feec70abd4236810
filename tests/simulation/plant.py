"""The simulated rig as it stands beside the controller: `sim_rig`'s plant and faces, which outlive every crash."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rigctl.errors import PortUnavailable
from rigctl.rig.spec import RigSpec
from rigctl_drivers.urls import LineUrl
from sim_rig.clock import PlannedCall, Timer
from sim_rig.process import ControlDesk
from sim_rig.rigs.assembly import PLC, Assembly
from sim_rig.scenarios import build
from tests.simulation.kernel import Kernel
from tests.simulation.ports import Cable, Hook, MemoryPort, SerialCable, TcpCable

TCP_SCHEMES = ("modbus_tcp", "tcp", "rtu_tcp")


@dataclass(slots=True)
class VirtualTimer(Timer):
    """Plans the rig's calls with the kernel."""

    kernel: Kernel = field(kw_only=True)

    def now_s(self) -> float:
        return self.kernel.now_s * self.speed

    def after(self, simulated_s: float, call: Callable[[], None]) -> PlannedCall:
        return self.kernel.after(simulated_s / self.speed, lambda: self._fire(call))


class Plant:
    """A rig with its lines; `desk` understands what `sim_rig`'s control socket does."""

    def __init__(self, kernel: Kernel, scenario: str, seed: int, hook: Hook, *, more_pumps: bool = False) -> None:
        self.kernel = kernel
        self.assembly: Assembly = build(scenario, VirtualTimer(kernel=kernel), seed, None, more_pumps=more_pumps)
        assembly = self.assembly
        self.tcp = TcpCable(kernel, PLC, hook, assembly.stations[PLC], assembly.sync)
        self.serial: dict[str, SerialCable] = {}
        self._by_link: dict[str, Cable] = {}
        for wire in assembly.serial:
            cable = SerialCable(kernel, wire.bus, hook, wire.faults, self._received(wire.face.feed))
            wire.face.send = cable.transmit
            self.serial[wire.bus] = self._by_link[wire.link] = cable
        self.desk = ControlDesk(assembly, self.tcp, self.serial)  # type: ignore[arg-type]
        assembly.power_up()

    @property
    def cables(self) -> dict[str, Cable]:
        return {PLC: self.tcp, **self.serial}

    def buses(self, rig: RigSpec) -> dict[str, str]:
        """Return the bus of each device."""
        links = {wire.link: wire.bus for wire in self.assembly.serial}
        return {n: links.get(d.url.rpartition("/")[2].partition("?")[0], PLC) for n, d in rig.devices.items()}

    def ask(self, **request: Any) -> None:
        """Do what the control socket would; raises `SimError`."""
        self.desk.handle(request)

    def opener(self, where: LineUrl, *_: object) -> Callable[[float], MemoryPort]:
        """Stand in for what opens serial ports and sockets."""
        cable = self.tcp if where.scheme in TCP_SCHEMES else self._by_link.get(where.path.name)

        def open_port(patience_s: float) -> MemoryPort:
            if cable is None:
                raise PortUnavailable(f"there is no port {where.place} to wait {patience_s:g} s for", bus=where.text)
            return cable.plug(where)

        return open_port

    def _received(self, feed: Callable[[bytes], None]) -> Callable[[bytes], None]:
        def receive(data: bytes) -> None:
            self.assembly.sync()
            feed(data)

        return receive


def options_of(rig: RigSpec, device: str) -> dict[str, Any]:
    """Return what the configuration says of a device, by the keys of the file."""
    return rig.devices[device].options.model_dump(by_alias=True)


def places(rig: RigSpec) -> dict[tuple[str, int], str]:
    """Return the actuators by table and address of what is written for them."""
    found = {}
    for name in rig.limits:
        options = options_of(rig, name)
        write, enable = options.get("write") or {}, options.get("enable") or {}
        if write.get("at") is not None:
            found["holding", int(write["at"])] = name
        if enable.get("coil") is not None:
            found["coil", int(enable["coil"])] = name
    return found
