"""A campaign on the fake rig whose trials look first."""

from dataclasses import dataclass, replace

from rigctl.rig.spec import MeasureSpec, TrialTiming
from tests.campaign.fake_looks import LOOK
from tests.campaign.fakes import SETTLE_S, TenLines, make_rig_spec, make_spec


def looking_spec(budget=100, valid_for_s=300.0, **changes):
    """The same campaign, with a look before every decision."""
    look = replace(LOOK, valid_for_s=valid_for_s)
    timing = TrialTiming(SETTLE_S, MeasureSpec(10.0, 2.0, "median", 3), look=look)
    rig = {"rig": make_rig_spec(timing=timing), "policy": Seeing()}
    problem = replace(make_spec(budget).problem, looks=True)
    return make_spec(**{**rig, "problem": problem, **changes})


@dataclass(frozen=True)
class Seeing(TenLines):
    """Plays what was read of `a`, and says so: a decision that nothing but the look gives."""

    def propose(self, state, problem, history, rng):
        proposal, after = super().propose(state, problem, history, rng)
        read = None if problem.look is None else problem.look.x[0]
        setting = tuple(0.5 if read is None else read for _ in proposal.setting)
        return replace(proposal, setting=setting), {**after, "read": read}
