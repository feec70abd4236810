"""Many seeds, each in a process of its own that a warm one forks, on so many cores."""

import gc
import os
import pickle
import resource
import select
import sys
import time
import traceback
from dataclasses import dataclass, field, fields

from tests.simulation.seed import CRASHES, Outcome, Shown, simulate
from tests.simulation.worlds import PACES, SCENARIOS, world

YEAR_S = 365.25 * 86400.0
LONGEST_S = 300
"""Seconds of processor a seed may take."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run."""

    seconds: float
    jobs: int
    first: int


@dataclass
class Sum(Shown):
    """What many seeds have shown."""

    seeds: int = 0
    cpu_s: float = 0.0
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        for name in (kind.name for kind in fields(Shown)):
            setattr(self, name, getattr(self, name) + getattr(outcome, name))
        if outcome.violation:
            self.failed.append(outcome)


def warm_up() -> None:
    """Have ready what every seed needs, before any is forked."""
    for scenario in SCENARIOS:
        for pace in PACES:
            world(scenario, pace)
    gc.collect()
    gc.freeze()


def alone(seed: int, longest_s: int = LONGEST_S) -> tuple[int, int]:
    """Begin a seed in a child; return its process and where its outcome comes from.

    It may take `longest_s` of processor, a limit that it sets itself: another's could come before or after it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    leave = os._exit
    os.close(reading)
    gc.disable()
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (longest_s, longest_s))
        outcome = simulate(seed)
    except BaseException:  # noqa: BLE001 - told to the parent
        outcome = Outcome(seed, "?", violation=f"the simulator: {traceback.format_exc()}")
    with open(writing, "wb") as out:  # noqa: PTH123 - a descriptor
        pickle.dump(outcome, out)
    leave(0)
    raise AssertionError("unreachable")


def collected(child: int, reading: int) -> bytes:
    return accounted(child, reading)[0]


def accounted(child: int, reading: int) -> tuple[bytes, float]:
    """Return what a child has told, once it has ended, and its seconds of processor."""
    with open(reading, "rb") as told:
        answer = told.read()
    _, _, used = os.wait4(child, 0)
    return answer, used.ru_utime + used.ru_stime


def outcome_of(seed: int) -> Outcome:
    outcome: Outcome = pickle.loads(collected(*alone(seed)))  # noqa: S301 - our own child's
    return outcome


def fleet(order: Order) -> int:
    """Run seeds until the time is over; return 1 if an invariant did not hold."""
    began_s, seed, total = time.monotonic(), order.first, Sum()
    warm_up()
    running: dict[int, tuple[int, int]] = {}
    while True:
        while len(running) < order.jobs and time.monotonic() - began_s < order.seconds:
            child, reading = alone(seed)
            running[reading] = child, seed
            seed += 1
        if not running:
            break
        ready, _, _ = select.select(list(running), [], [], 5.0)
        for reading in ready:
            child, number = running.pop(reading)
            answer, cpu_s = accounted(child, reading)
            total.cpu_s += cpu_s
            outcome = Outcome(number, "?", violation=f"its process ended, or took {LONGEST_S} s of processor")
            if answer:
                outcome = pickle.loads(answer)  # noqa: S301 - our own child's
            total.add(outcome)
            if outcome.violation:
                tell(outcome)
    told(total, time.monotonic() - began_s, order.first)
    return 1 if total.failed else 0


def tell(outcome: Outcome) -> None:
    print(f"seed {outcome.seed} ({outcome.world}): {outcome.violation}")
    print(f"    python -m tests.simulation --seed {outcome.seed} --trace", flush=True)


def told(total: Sum, seconds: float, first: int) -> None:
    crashes = sum(count for kind, count in total.ends.items() if kind in CRASHES)
    hour_s = 3600.0 / max(seconds, 1.0)
    both_s = 7200.0 / max(total.cpu_s, 1.0)
    years = total.rig_s / YEAR_S
    print(f"{total.seeds} seeds from {first} on in {seconds:.0f} s, {total.cpu_s:.0f} s of processor")
    print(f"{years:.3f} rig-years: {years * hour_s:.2f} an hour here, {years * both_s:.2f} with two cores to itself")
    print(
        f"{crashes} crash points: {crashes * hour_s:.0f} an hour here, {crashes * both_s:.0f} with two cores to itself"
    )
    print(f"{total.starts} starts, {total.trials} trials, {total.recorded} of them recorded")
    print("ends: " + ", ".join(f"{kind} {count}" for kind, count in sorted(total.ends.items())))
    if total.faults:
        print("faults: " + ", ".join(f"{kind} {count}" for kind, count in sorted(total.faults.items())))
    if total.met:
        print("met: " + ", ".join(f"{kind} {count}" for kind, count in sorted(total.met.items())))
    print(f"{len(total.failed)} failed: {', '.join(str(o.seed) for o in total.failed) or 'none'}")


def replayed(seed: int, *, trace: bool) -> int:
    """Run one seed here, its trace printed if asked; return 1 if an invariant did not hold."""
    gc.disable()
    out = sys.stdout
    leave = os._exit
    try:
        outcome = simulate(seed, (lambda line: print(line, file=out)) if trace else None)
    except BaseException:  # noqa: BLE001 - nothing of what is left behind may run
        traceback.print_exc()
        out.flush()
        leave(2)
    print(f"seed {seed}: {outcome.world}, {outcome.events} events, {outcome.starts} starts, trace {outcome.digest}")
    if outcome.violation:
        print(f"VIOLATION {outcome.violation}")
    out.flush()
    leave(1 if outcome.violation else 0)
    raise AssertionError("unreachable")
