"""Single instruments of the fake rig, and what people do to them."""

from dataclasses import dataclass, field

from rigctl.rig.protocols import Calibration, Identity, Reading


@dataclass
class FakeHands:
    """Keeps what it was told; faults are put into `fail` by operation."""

    rig: object = None
    said: dict = field(default_factory=dict)
    """By device: what it says of its calibration."""
    aside: frozenset = frozenset()
    done: list = field(default_factory=list)
    fail: dict = field(default_factory=dict)

    def _op(self, *what):
        self.done.append(what)
        if what[0] in self.fail:
            raise self.fail[what[0]]

    driven: dict = field(default_factory=dict)

    def set_aside(self, names):
        self.aside = frozenset(names)

    def expect(self, device, who):
        """Whoever is found is who was expected."""

    async def recognise(self, device):
        self._op("recognise", device)
        return self.rig.found.get(device, Identity("fake"))

    async def calibrations(self):
        self._op("calibrations")
        return {name: said for name, said in self.said.items() if name not in self.aside}

    async def read(self, device):
        self._op("read", device)
        return Reading(4.5, "mM", self.rig.world.now_s)

    async def apply(self, actuator, value):
        self._op("apply", actuator, value)
        self.driven = {n: v for n, v in {**self.driven, actuator: value}.items() if v is not None}

    async def dose(self, pump, volume_ml):
        self._op("dose", pump, volume_ml)
        await self.rig._dose(volume_ml)
        return volume_ml

    def rate_ml_per_min(self, pump):
        return 60.0

    async def calibrate(self, pump, volume_ml):
        self._op("calibrate", pump, volume_ml)
        self.said[pump] = Calibration(1, (), f"?CAL,1 after {volume_ml:g}")
        return self.said[pump]
