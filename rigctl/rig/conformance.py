"""What every driver must do, checked: `check_driver()`, in the manner of scikit-learn's `check_estimator`.

Three parts: what can be seen without an instrument (description, options), behaviour on lines that misbehave (silence,
noise), and behaviour with an instrument that answers. The last part *moves things*: it applies setpoints and starts
the smallest dose. Run it on a simulator or with nothing dangerous connected, or with `actuate=False`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rigctl.errors import DriverNonConformance
from rigctl.rig.conformance_bench import Broken, TestBench
from rigctl.rig.conformance_checks import DESCRIPTION_CHECKS, FAULTY_LINE_CHECKS, LIVE_CHECKS, abilities
from rigctl.rig.protocols import Clock, Driver, Line
from rigctl.rig.registry import Registry
from rigctl.rig.testing import RecordingLine

LineSource = str | Callable[[], Line]
"""The URL of an instrument that answers (real, simulated or scripted), or what makes its line."""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """Which checks a driver passed."""

    driver: str
    abilities: tuple[str, ...]
    """Sensor, Actuator, Meter, Doser."""
    checks: tuple[str, ...]
    """What was promised and held, in the order it was checked."""


def check_driver(
    driver: type[Driver],
    options: Mapping[str, Any],
    line: LineSource,
    clock: Clock,
    *,
    setpoint: float = 1.0,
    tolerance: float = 1e-3,
    timeout_s: float = 2.0,
    actuate: bool = True,
) -> ConformanceReport:
    """Check a driver against what `rigctl.rig.protocols` promises.

    Args:
        driver: the class named by the entry point.
        options: as in the configuration, without `driver` and `bus`.
        line: where an instrument answers.
        clock: rig time of that instrument; a line that comes with a clock of its own keeps it.
        setpoint: a value the actuator may be sent to, engineering units.
        tolerance: how far its read-back may be off.
        timeout_s: wall seconds for one call.
        actuate: False leaves out whatever moves something.

    Raises:
        DriverNonConformance: names the driver and the promise it breaks.
        PortUnavailable: the line cannot be opened.
    """
    bench = TestBench(driver, options, clock, setpoint, tolerance, timeout_s)
    passed: list[str] = []
    _run(bench, passed, DESCRIPTION_CHECKS, bench)
    if isinstance(line, str):
        _run(bench, passed, (_scheme_is_declared,), bench, line)
    _run(bench, passed, FAULTY_LINE_CHECKS, bench)
    live = RecordingLine(Registry.installed().open_line(line, clock) if isinstance(line, str) else line())
    live.open()
    try:
        bench = replace(bench, clock=live.clock)
        device = bench.connect(live)
        for ability, moves, checks in LIVE_CHECKS:
            if isinstance(device, ability) and (actuate or not moves):
                _run(bench, passed, checks, bench, device, live)
    finally:
        live.close()
    return ConformanceReport(bench.name, abilities(device), tuple(passed))


def _scheme_is_declared(bench: TestBench, url: str) -> None:
    """Its schemes include the one it is used with."""
    scheme = url.partition("://")[0]
    if scheme not in bench.driver.schemes:
        raise Broken(f"{scheme!r} is not among {bench.driver.schemes}")


def _run(bench: TestBench, passed: list[str], checks: Iterable[Callable[..., None]], *arguments: Any) -> None:
    """Run checks; each one's docstring is the promise it checks."""
    for check in checks:
        promise = (check.__doc__ or check.__name__).strip().rstrip(".")
        broken = f"driver {bench.name!r} breaks a promise ({promise})"
        try:
            with bench.watching():
                check(*arguments)
        except Broken as found:
            raise DriverNonConformance(f"{broken}: {found}") from found
        except Exception as problem:  # a driver under test may raise anything; that is one of the findings
            raise DriverNonConformance(f"{broken}: {type(problem).__name__}: {problem}") from problem
        passed.append(promise)
