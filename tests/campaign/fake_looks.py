"""What the fake rig does before a trial is decided: a fresh tank, and a window of samples of it."""

from rigctl.rig.spec import LookSpec
from rigctl.rig.values import Measurement

PREPARE_S = 20.0
LOOK = LookSpec(10.0, 2.0, valid_for_s=300.0)


class FakeLooks:
    """Half of `FakeRig`."""

    async def prepare(self):
        await self._op("prepare")
        self.world.do("prepare")
        self.world.do("time", s=PREPARE_S)
        await self._op("prepare end")

    async def look_at(self):
        await self._op("look")
        self.world.do("energy", kwh=0.0625)
        self.world.do("time", s=LOOK.for_s)
        values = {"a": 4.0 + 0.1 * self.world.count("prepare"), "b": 0.25}
        return {n: self.seen.get(n, Measurement(v, 0.02, 4)) for n, v in values.items()}
