"""What a person does to single instruments, through the guard as a trial does; and which of them are in service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from rigctl.errors import DeviceError, DeviceFault, UsageError, in_words
from rigctl.flaws import Flaw
from rigctl.rig.dosing import Dispenser
from rigctl.rig.handle import Handle
from rigctl.rig.imposing import Imposer
from rigctl.rig.measuring import judged
from rigctl.rig.opening import refuse_real_time_lapse
from rigctl.rig.places import Seen
from rigctl.rig.protocols import Actuator, Calibration, Device, Doser, Identity, Meter, Reading, Sensor
from rigctl.rig.spec import RigSpec
from rigctl.rig.values import News
from rigctl.rig.wiring import Wiring
from rigctl.text import in_full


@dataclass(frozen=True, slots=True)
class Hands:
    """Reaches single instruments of one rig."""

    spec: RigSpec
    wiring: Wiring
    imposer: Imposer
    dispenser: Dispenser
    news: News

    @property
    def aside(self) -> frozenset[str]:
        """Return the devices that are out of service: nobody asks or tells them anything."""
        return frozenset(self.wiring.aside)

    def set_aside(self, names: frozenset[str]) -> None:
        """Take these devices out of service, and no others. Between trials; go `safe` before and after."""
        self.wiring.aside.clear()
        self.wiring.aside.update(names)
        for name in names:
            self.imposer.driven.pop(name, None)

    def expect(self, device: str, who: Seen) -> None:
        """Let a safe state that is a value reach nobody but this instrument, from before the rig is opened.

        One that lets go, or stops, may reach anybody: it imposes nothing, and what was left driven may be there by now.
        """
        if device not in self.wiring.actuators:
            return
        by_itself = getattr(self.spec.devices[device].options, "safe_value", None)  # so ours call a value of their own
        if self.spec.limits[device].safe_state != "off" or by_itself is not None:
            self.wiring.actuators[device].expected = who

    async def recognise(self, device: str) -> Identity:
        """Ask a device who it is, in service or not; writes nothing.

        Raises:
            UsageError: there is no such device.
            DeviceError: it does not answer as it should, or its bus is not simulated though the clock is sped up.
        """
        check_able(self.wiring, "recognise", device)
        handle = self.wiring.handles[device]
        found = await handle.identify()
        await refuse_real_time_lapse(self.wiring, self.spec.speedup, handle.bus)
        return found

    async def calibrations(self) -> Mapping[str, Calibration]:
        """Ask every device in service that can say so for its calibration; one that does not answer is left out."""
        found = {}
        for name, handle in self.wiring.in_service(self.wiring.handles).items():
            if handle.device.tells_calibration:
                try:
                    found[name] = await handle.ask(handle.device.calibration, "calibration")
                except DeviceError as error:
                    self._not_calibrated(name, error)
                except Exception as error:  # noqa: BLE001 - a driver's mistake must not end the campaign
                    self._not_calibrated(name, error)
        return found

    def _not_calibrated(self, name: str, error: Exception) -> None:
        self.news.minor(name, f"its calibration is not known: {in_words(error)}", kind="calibration unread")

    # one act each -----------------------------------------------------------------------------------------------------

    async def read(self, device: str) -> Reading:
        """Take one reading of a sensor, or of a meter's counter.

        Raises:
            UsageError: it is neither.
            DeviceError: it does not answer as it should.
        """
        handle = self._in_service(device, "read")
        if isinstance(handle.device, Sensor):
            return judged(await handle.ask(handle.device.read, "read"), self.spec.plausible.get(device))
        return judged(await handle.ask(cast("Meter", handle.device).total, "total"), None)

    async def apply(self, actuator: str, value: float | None) -> None:
        """Impose a value on one actuator, or release it (None), and confirm it by reading back.

        Raises:
            UsageError: it is no actuator.
            GuardRefused, Tripped: the guard does not let it pass; nothing was sent.
            ReadBackMismatch, DeviceError: it is not certain to hold; make everything safe.
        """
        known = cast("Handle[Actuator]", self._in_service(actuator, "set"))
        await self.imposer.impose(known, value)
        await self.imposer.confirm(known, value)

    async def dose(self, pump: str, volume_ml: float) -> float:
        """Dispense a volume once, by the dose protocol; return what was dispensed, mL. Raises as `Dispenser.dispense`.

        Raises:
            UsageError: it is no pump.
        """
        return await self.dispenser.dispense(self._pump(pump), volume_ml)

    def rate_ml_per_min(self, pump: str) -> float:
        """Return how fast a pump dispenses at most, as far as it was asked."""
        return self._pump(pump).device.max_rate_ml_per_min

    async def calibrate(self, pump: str, volume_ml: float) -> Calibration:
        """Tell a pump what a person has measured of its last dose; return what it says of its calibration then.

        Raises:
            UsageError: it is no pump, or none that can be told.
            DeviceError: it refuses, or it is not certain that it was told.
        """
        handle = self._pump(pump)
        device = handle.device
        if not device.calibratable:
            driver = self.spec.devices[pump].driver
            raise UsageError(f"{pump}: driver {driver} cannot calibrate; correct the volume in the pump itself")
        await handle.tell(lambda deadline: device.calibrate(volume_ml, deadline), f"calibrate {in_full(volume_ml)} mL")
        said = await handle.ask(device.calibration, "calibration")
        if said.points == 0:
            raise DeviceFault(f"{pump}: was told {in_full(volume_ml)} mL, and still says that it is not calibrated")
        return said

    def _pump(self, name: str) -> Handle[Doser]:
        return cast("Handle[Doser]", self._in_service(name, "dose"))

    def _in_service(self, name: str, operation: str) -> Handle[Device]:
        check_able(self.wiring, operation, name)
        if name in self.wiring.aside:
            raise UsageError(f"{name}: is out of service; `rigctl device in-service {name}` puts it back")
        return self.wiring.handles[name]


def check_able(wiring: Wiring, operation: str, device: str) -> None:
    """Raise `UsageError` unless this operation can be done to this device; asks and opens nothing."""
    reading = [name for name, handle in wiring.handles.items() if isinstance(handle.device, Sensor | Meter)]
    what, able = {
        "recognise": ("no device of this rig", list(wiring.handles)),
        "read": ("a device that reads nothing", reading),
        **dict.fromkeys(("set", "release"), ("no actuator", list(wiring.actuators))),
    }.get(operation, ("no pump", list(wiring.dosers)))
    if device not in wiring.handles:
        what, able = "no device of this rig", list(wiring.handles)
    if device not in able:
        raise UsageError(Flaw("", f"must be one of {', '.join(able) or 'none'}", got=what, where=device))
