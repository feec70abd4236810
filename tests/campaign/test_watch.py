import math

import pytest

from rigctl.campaign.watch import Finding, Snapshot, Standing, judge, rules_of
from rigctl.rig.conditions import Compare, at_level
from rigctl.rig.spec import InterlockSpec, WatchSpec
from rigctl.rig.values import RigGlance, SeenReading

ACID = Compare("ph", "<", 4.5, "pH")


def seen(value, age_s=0.0, **changes):
    """A reading that the watch takes itself, and that may be 5 s old."""
    return SeenReading(**{"value": value, "unit": "pH", "age_s": age_s, "stale_after_s": 5.0, **changes})


def at(now_s, value=6.0, age_s=0.0, **changes):
    """What is seen at this rig time: the pH, and whatever else."""
    return Snapshot(now_s, RigGlance({"ph": seen(value, age_s)}), **changes)


def watched(*snapshots, **interlock):
    """The rules that stand after each of the snapshots, by name."""
    specs = (InterlockSpec(**{"name": "acid", "when": ACID, "then": "hold", **interlock}),) if interlock else ()
    standing, told = Standing(), []
    for snapshot in snapshots:
        standing = judge(rules_of(WatchSpec(interlocks=specs)), standing, snapshot).standing
        told.append([f.rule for f in standing.found.values()])
    return told


FIRED = ["interlock acid"]


def test_an_interlock_fires_as_soon_as_it_holds():
    """Without `for` one look is enough; it is over with the condition."""
    assert watched(at(0), at(1, 4.4), at(2, 4.6), then="fail") == [[], FIRED, []]


def test_an_interlock_waits_for_its_time():
    """`for: 10 s` counts from the first look at which the condition held, and starts anew after a break."""
    looks = [at(0, 4.0), at(9, 4.0), at(10, 4.0), at(11, 6.0), at(12, 4.0), at(21, 4.0), at(22, 4.0)]
    assert watched(*looks, for_s=10.0) == [[], [], FIRED, [], [], [], FIRED]


def test_hysteresis_keeps_an_interlock_until_its_own_end():
    """With `until` it stands while the reading lies between the two limits, and while it is unknown."""
    until = Compare("ph", ">", 5.0, "pH")
    looks = [at(0, 4.0), at(1, 4.7), at(2, None, 60.0), at(3, 4.9), at(4, 5.1), at(5, 4.7)]
    assert watched(*looks, until=until) == [FIRED, FIRED, FIRED, FIRED, [], []]


def test_a_stale_reading_fires_the_interlock_that_needs_it():
    """An interlock that cannot be judged is not taken for one that holds off; a reading within its age is."""
    assert watched(at(0, 6.0, 4.9), at(1, 6.0, 5.1), at(2, 6.0, 0.1), then="trip") == [[], FIRED, []]


def test_before_the_first_reading_there_is_time_for_it():
    """A sensor that has just been asked for the first time is not stale yet."""
    assert watched(at(0, None, 0.0), at(1, None, 4.0), at(2, None, 6.0), then="trip") == [[], [], FIRED]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"journal_s": 5.0}, "journal"),
        ({"missing": "the journal was deleted"}, "files"),
        ({"free_bytes": 20 * 2**20 - 1}, "disk full"),
        ({"late_s": 10.1}, "watch very late"),
    ],
)
def test_what_is_under_the_campaign_holds_it(changes, rule):
    """A journal that hangs, files that are gone, a full disk, a loop that was held up: hold, until it is over."""
    bad, good = Snapshot(0.0, **changes), Snapshot(1.0)
    found = judge(rules_of(WatchSpec()), Standing(), bad)
    assert rule in [f.rule for f in found.standing.demanding("hold")]
    after = judge(rules_of(WatchSpec()), found.standing, good)
    assert (after.standing.found, rule in [f.rule for f in after.over]) == ({}, True)


@pytest.mark.parametrize(
    ("late_s", "found"), [(3.0, []), (3.1, [("watch late", "warn")]), (9.9, [("watch late", "warn")])]
)
def test_a_look_that_comes_a_little_late_is_told_and_holds_nothing(late_s, found):
    """Three seconds are usual on a busy computer; from ten on nobody looks often enough."""
    new = judge(rules_of(WatchSpec()), Standing(), Snapshot(0.0, late_s=late_s)).new
    assert [(finding.rule, finding.then) for finding in new] == found


@pytest.mark.parametrize(
    ("glance", "rule", "then"),
    [
        (RigGlance(astray={"valve": "reads back released"}), "read-back", "fail"),
        (RigGlance(strays={"pump": "dispensed 3 mL"}), "pump", "fail"),
        (RigGlance(steps={"ph": "went from 6 to 4"}), "step", "trip"),
        (RigGlance(stuck={"modbus": "read"}), "bus", "hold"),
        (RigGlance({"ph": seen(6.0, 9.0, must_be_fresh=True)}), "stale sensor", "hold"),
        (RigGlance({"ph": seen(6.0, same_for_s=60.0, frozen_after_s=60.0)}), "frozen sensor", "hold"),
    ],
)
def test_what_the_rig_shows_has_its_consequence(glance, rule, then):
    """Each thing that a rig can be seen to do wrong has one rule, and one thing that follows."""
    (finding,) = judge(rules_of(WatchSpec()), Standing(), Snapshot(0.0, glance)).new
    assert (finding.rule, finding.then) == (rule, then)


def test_a_good_rig_is_left_alone():
    """Nothing is found where nothing is wrong."""
    fine = Snapshot(0.0, RigGlance({"ph": seen(6.0)}), late_s=0.5, journal_s=0.1, free_bytes=1e12)
    assert judge(rules_of(WatchSpec()), Standing(), fine).standing.found == {}


def test_a_finding_is_new_once():
    """What stands is told when it begins and when it is over, not at every look."""
    rules = rules_of(WatchSpec())
    first = judge(rules, Standing(), Snapshot(0.0, missing="gone"))
    second = judge(rules, first.standing, Snapshot(1.0, missing="gone"))
    assert ([f.why for f in first.new], second.new, second.over) == (["gone"], (), ())


def test_a_reading_that_is_no_number_is_unknown():
    """NaN neither holds nor does not."""
    assert ACID.holds({"ph": math.nan}) is None


def test_a_finding_says_what_and_why(golden):
    """In one line, for the trial it ends."""
    golden(Finding("interlock acid", "", "hold", "ph too low"))


@pytest.mark.parametrize(
    ("free_bytes", "disk_bytes", "told"),
    [(200 * 2**20 - 1, 10**12, True), (200 * 2**20, 10**12, False), (99, 1000, True), (100, 1000, False)],
)
def test_little_space_is_told_of_before_it_holds(free_bytes, disk_bytes, told):
    """Less than 200 MiB, or than a tenth of a small disk."""
    verdict = judge(rules_of(WatchSpec()), Standing(), Snapshot(0.0, free_bytes=free_bytes, disk_bytes=disk_bytes))
    assert [(f.rule, f.then) for f in verdict.new] == [("disk", "warn")] * told


@pytest.mark.parametrize(
    ("free_bytes", "disk_bytes", "full"),
    [(20 * 2**20 - 1, 10**12, True), (20 * 2**20, 10**12, False), (9, 1000, True), (10, 1000, False)],
)
def test_a_disk_is_full_below_its_limit(free_bytes, disk_bytes, full):
    """Less than 20 MiB, or than a hundredth of a small disk; there the campaign holds."""
    verdict = judge(rules_of(WatchSpec()), Standing(), Snapshot(0.0, free_bytes=free_bytes, disk_bytes=disk_bytes))
    assert [f.then for f in verdict.new if f.rule == "disk full"] == ["hold"] * full


def test_an_interlock_on_a_category_tells_what_was_read_in_its_words(golden):
    """Not by the number that stands for it: a person who is called knows the word."""
    spec = InterlockSpec("nozzle", at_level("nozzle", "cone", {0.0: "flat", 1.0: "cone"}), "hold")
    glance = RigGlance({"nozzle": seen(1.0, unit="1")})
    (finding,) = judge(rules_of(WatchSpec(interlocks=(spec,))), Standing(), Snapshot(0.0, glance)).new
    golden(finding.why)
    assert "cone" in finding.why
