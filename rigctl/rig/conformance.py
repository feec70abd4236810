"""What every driver must do, checked: `check_driver()`, in the manner of scikit-learn's `check_estimator`.

Three parts: what can be seen without an instrument (description, options), behaviour on lines that misbehave (silence,
noise), and behaviour with an instrument that answers. The last part *moves things*: it applies setpoints and starts
the smallest dose. Run it on a simulator or with nothing dangerous connected, or with `actuate=False`.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import Any, Final

from pydantic import ValidationError

from rigctl.errors import DeviceError, DeviceFault, DeviceTimeout, DriverNonConformance, RigctlError
from rigctl.kinds import meanings_of
from rigctl.rig import testing
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import (
    Actuator,
    Deadline,
    Device,
    DeviceOptions,
    Doser,
    Driver,
    Line,
    Meter,
    Reading,
    Sensor,
    Severity,
)
from rigctl.rig.registry import Registry
from rigctl.rig.testing import GarbageLine, RecordingLine, SilentLine


class Broken(AssertionError):
    """A promise is broken; says how."""


@dataclass(frozen=True, slots=True)
class TestBench:
    """The driver under test and how to test it."""

    driver: type[Driver]
    given: Mapping[str, Any]
    clock: Clock
    setpoint: float
    tolerance: float
    timeout_s: float

    @property
    def name(self) -> str:
        """Return what to call the driver, even if it does not say."""
        return str(getattr(self.driver, "name", self.driver.__name__))

    def connect(self, line: Line) -> Device:
        return self.driver.connect(self.driver.options.model_validate(self.given), line)

    def deadline(self) -> Deadline:
        return Deadline.after(self.timeout_s)

    @property
    def comes_by_itself(self) -> bool:
        """Tell whether its values are not asked for: without one a reading is INVALID."""
        return self.connect(SilentLine(self.clock)).max_age_s > 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raise `Broken` if anything but a line or the clock sleeps meanwhile: nothing can cut that short."""
        sleepers: list[str] = []

        def profile(frame: FrameType, event: str, called: Any) -> None:
            if event == "c_call" and called is time.sleep and not self._may_wait(frame):
                sleepers.append(frame.f_code.co_name)

        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before)
        if sleepers:
            raise Broken(f"{sleepers[0]}() calls time.sleep, must wait by its line, or rig time by line.clock.sleep()")

    def _may_wait(self, frame: FrameType | None) -> bool:
        """Tell whether a line, each of which is called through one of `rigctl.rig.testing`, or the clock is at work."""
        while frame is not None and frame.f_locals.get("self") is not self.clock:
            if frame.f_globals.get("__name__") == testing.__name__:
                return True
            frame = frame.f_back
        return frame is not None


SHORT_S: Final = 0.03
"""Wall seconds of a deadline on a line that misbehaves."""
PATIENCE_S: Final = (SHORT_S, 10 * SHORT_S)
"""Deadlines that are tried one after the other until something was sent: a busy machine may need the longer one."""
SLACK_S: Final = 0.005
"""Between a deadline and one made from what remains of it."""
ABILITIES: Final = (Sensor, Actuator, Meter, Doser)
CALLS: Final[tuple[tuple[type, tuple[str, ...]], ...]] = (
    (Device, ("identify",)),
    (Sensor, ("read",)),
    (Actuator, ("apply", "release", "safe", "read_back")),
    (Meter, ("total",)),
    (Doser, ("ready", "start_dose", "dose_status", "total_volume_ml", "stop")),
)
COMMANDS: Final = ("apply", "release", "safe", "start_dose", "stop")
"""Calls that change something; all others only ask."""


def abilities(device: Device) -> tuple[str, ...]:
    return tuple(a.__name__ for a in ABILITIES if isinstance(device, a))


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


# without an instrument --------------------------------------------------------------------------------------------


def _is_described(bench: TestBench) -> None:
    """It has a name, a one-line summary and line schemes."""
    driver = bench.driver
    _expect(bool(re.fullmatch(r"[a-z0-9][a-z0-9-]*", str(driver.name))), f"name {driver.name!r}: lower case, digits, -")
    summary = driver.summary
    _expect(bool(summary.strip()) and "\n" not in summary, f"summary {summary!r} must be one line of text")
    schemes = driver.schemes
    _expect(isinstance(schemes, tuple) and len(schemes) > 0, f"schemes {schemes!r} must be a tuple, not empty")
    _expect(all(re.fullmatch(r"[a-z][a-z0-9_]*", s) for s in schemes), f"schemes {schemes!r} must be like 'serial'")


def _options_are_described(bench: TestBench) -> None:
    """Its options derive from DeviceOptions and each has a docstring."""
    options = bench.driver.options
    _expect(issubclass(options, DeviceOptions), f"{options!r} is no subclass of DeviceOptions")
    meanings = meanings_of(options)
    silent = [n for n, f in options.model_fields.items() if not (f.description or meanings.get(n))]
    _expect(not silent, f"no docstring below: {', '.join(silent)}")


def _options_are_accepted(bench: TestBench) -> None:
    """It accepts the options it is tested with."""
    bench.driver.options.model_validate(bench.given)


def _unknown_options_are_refused(bench: TestBench) -> None:
    """It refuses options it does not know."""
    try:
        bench.driver.options.model_validate({**bench.given, "no_such_option": 1})
    except ValidationError as refused:
        named = any("no_such_option" in fault["loc"] for fault in refused.errors())
        _expect(named, "the refusal does not name the unknown option")
    else:
        raise Broken("`no_such_option: 1` was accepted")


DESCRIPTION_CHECKS: Final = (_is_described, _options_are_described, _options_are_accepted, _unknown_options_are_refused)


# on lines that misbehave ------------------------------------------------------------------------------------------


def _calls(bench: TestBench, device: Device) -> Iterator[tuple[str, Callable[[Deadline], Any]]]:
    """Yield every call the device offers, ready but for the deadline."""
    for ability, names in CALLS:
        for name in names if isinstance(device, ability) else ():
            given = {"apply": bench.setpoint, "start_dose": getattr(device, "min_dose_ml", None)}
            yield name, partial(getattr(device, name), *([given[name]] if name in given else ()))


def _names(bench: TestBench) -> list[str]:
    return [name for name, _ in _calls(bench, bench.connect(SilentLine(bench.clock)))]


def _connecting_is_quiet(bench: TestBench) -> None:
    """connect() sends nothing and makes a device with at least one ability."""
    line = RecordingLine(SilentLine(bench.clock))
    device = bench.connect(line)
    _expect(line.traffic == 0, f"{line.traffic} exchanges during connect()")
    _expect(isinstance(device, Device), f"{type(device).__name__} is no Device")
    _expect(bool(abilities(device)), f"{type(device).__name__} is no Sensor, Actuator, Meter or Doser")


def _silence_is_a_timeout(bench: TestBench) -> None:
    """On a silent line every call raises DeviceTimeout and waits no longer than its deadline."""
    for name in _names(bench):
        asked = any(_asks_in_silence(bench, name, seconds) for seconds in PATIENCE_S)
        _expect(asked, f"{name}() timed out without asking anything")


def _asks_in_silence(bench: TestBench, name: str, seconds: float) -> bool:
    """Tell whether a call that times out on a silent line has asked anything before."""
    line = SilentLine(bench.clock)
    call = dict(_calls(bench, bench.connect(line)))[name]
    deadline = Deadline.after(seconds)
    try:
        got = call(deadline)
    except DeviceTimeout:
        pass
    else:
        _expect(bench.comes_by_itself and _is_no_value(got), f"{name}() returned {got!r}")
    late_s = max((asked.at_s for asked in line.asked), default=0.0) - deadline.at_s
    _expect(late_s <= SLACK_S, f"{name}() waited {late_s:.2g} s beyond its deadline")
    return bool(line.asked)


def _noise_is_no_value(bench: TestBench) -> None:
    """On a line that carries noise nothing is taken for a value or a confirmation."""
    for name in _names(bench):
        call = dict(_calls(bench, bench.connect(GarbageLine(bench.clock))))[name]
        try:
            got = call(Deadline.after(SHORT_S))
        except DeviceError:
            continue
        _expect(_is_no_value(got), f"{name}() returned {got!r}")


def _is_no_value(got: Any) -> bool:
    return isinstance(got, Reading) and got.severity is Severity.INVALID and math.isnan(got.value)


def _says_how_fast_it_is(bench: TestBench) -> None:
    """pace() and safe_all_s(), where it has them, are finite, above 0, and send nothing."""
    line = RecordingLine(SilentLine(bench.clock))
    device = bench.connect(line)
    said: dict[str, float] = {}
    pace = device.pace()
    if pace is not None:
        said |= {"pace().command_s": pace.command_s, "pace().confirm_s": pace.confirm_s}
    if isinstance(device, Actuator) and device.safe_group() is not None:
        said["safe_all_s()"] = device.safe_all_s([device])
    for what, seconds in said.items():
        _expect(math.isfinite(seconds) and seconds > 0, f"{what} is {seconds}")
    _expect(line.traffic == 0, f"{line.traffic} exchanges")


def _commands_before_it_asks(bench: TestBench) -> None:
    """safe() and stop() send their command before they ask anything."""
    began = {}
    for name in _names(bench):
        for seconds in PATIENCE_S:
            line = RecordingLine(SilentLine(bench.clock))
            with suppress(DeviceTimeout):
                dict(_calls(bench, bench.connect(line)))[name](Deadline.after(seconds))
            began[name] = line.sent[:1]
            if began[name]:
                break
    asked = [sent for name, sent in began.items() if name not in COMMANDS]
    early = [name for name in ("safe", "stop") if name in began and (not began[name] or began[name] in asked)]
    _expect(not early, f"{', '.join(early)}() began with a question")


FAULTY_LINE_CHECKS: Final = (
    *(_connecting_is_quiet, _says_how_fast_it_is, _silence_is_a_timeout, _noise_is_no_value),
    _commands_before_it_asks,
)


# with an instrument that answers ----------------------------------------------------------------------------------


def _identifies(bench: TestBench, device: Device, line: RecordingLine) -> None:
    """identify() says who is there, twice the same, and writes no register."""
    first = device.identify(bench.deadline())
    _expect(bool(first.model), "the model is empty")
    second = device.identify(bench.deadline())
    _expect(first == second, f"{first} and then {second}")
    written = [sent for sent in line.sent if sent[0] not in ("write", "publish")]
    _expect(not written, f"it wrote {written}")


def _remembers_nothing(bench: TestBench, device: Device, line: RecordingLine) -> None:
    """A question whose answer comes too late is asked once, raises DeviceTimeout, and leaves the next one in step."""
    for name, ask in _calls(bench, device):
        if name not in (*COMMANDS, "identify") and not (
            bench.comes_by_itself and name in ("read", "total")
        ):  # that may take two, where the first only wakes
            ask(bench.deadline())
            _asked_while_deaf(line, name, ask)
            ask(bench.deadline())


def _presses_on(bench: TestBench, device: Device, line: RecordingLine) -> None:
    """Its line has press_on(), after which it answers as before."""
    line.press_on()
    device.identify(bench.deadline())


def _check_reading(reading: Reading, unit: str, earliest_s: float, bench: TestBench) -> None:
    _expect(reading.unit == unit, f"unit {reading.unit!r}, promised {unit!r}")
    _expect(reading.valid, f"INVALID from an instrument that works: {reading.detail}")
    _expect(math.isfinite(reading.value), f"value {reading.value} is not finite")
    latest_s = bench.clock.now_s()
    _expect(earliest_s <= reading.time_s <= latest_s, f"time {reading.time_s} is not between asking and answering")


def _reads(bench: TestBench, device: Sensor, _line: RecordingLine) -> None:
    """read() gives a fresh, valid value in the promised unit."""
    for _ in range(3):
        earliest_s = bench.clock.now_s() - device.max_age_s * bench.clock.speedup
        _check_reading(device.read(bench.deadline()), device.unit, earliest_s, bench)


def _counts(bench: TestBench, device: Meter, _line: RecordingLine) -> None:
    """total() is valid, in the promised unit, and never falls."""
    before = -math.inf
    for _ in range(3):
        earliest_s = bench.clock.now_s() - device.max_age_s * bench.clock.speedup
        reading = device.total(bench.deadline())
        _check_reading(reading, device.meter_unit, earliest_s, bench)
        _expect(reading.value >= before, f"{before} and then {reading.value} {device.meter_unit}")
        before = reading.value


def _applies_and_releases(bench: TestBench, device: Actuator, line: RecordingLine) -> None:
    """apply() and release() show in read_back(), also when repeated."""
    for _ in range(2):
        device.apply(bench.setpoint, bench.deadline())
        _asked_while_deaf(line, "read_back", device.read_back)
        state = device.read_back(bench.deadline())
        _expect(state.controlled, f"after apply({bench.setpoint}): {state}")
        _expect(
            state.setpoint is not None and abs(state.setpoint - bench.setpoint) <= bench.tolerance,
            f"sent to {bench.setpoint}, holds {state.setpoint}",
        )
    device.identify(bench.deadline())
    _expect(device.read_back(bench.deadline()) == state, "identify() changed the state")
    for _ in range(2):
        device.release(bench.deadline())
        state = device.read_back(bench.deadline())
        held = state.setpoint is not None and abs(state.setpoint - bench.setpoint) <= bench.tolerance
        _expect(not state.controlled and not held, f"after release(): {state}")


def _reaches_safety(bench: TestBench, device: Actuator, _line: RecordingLine) -> None:
    """safe() leads to the same state from anywhere, also when repeated."""
    device.apply(bench.setpoint, bench.deadline())
    device.safe(bench.deadline())
    first = device.read_back(bench.deadline())
    device.safe(bench.deadline())
    second = device.read_back(bench.deadline())
    device.release(bench.deadline())
    device.safe(bench.deadline())
    third = device.read_back(bench.deadline())
    _expect(first == second == third, f"{first}, {second}, {third}")


def _goes_safe_with_others(bench: TestBench, device: Actuator, _line: RecordingLine) -> None:
    """safe_all() leads where safe() does, or refuses with DeviceFault."""
    if device.safe_group() is None:
        return
    device.safe(bench.deadline())
    alone = device.read_back(bench.deadline())
    device.apply(bench.setpoint, bench.deadline())
    try:
        device.safe_all([device], bench.deadline())
    except DeviceFault:
        device.safe(bench.deadline())
    together = device.read_back(bench.deadline())
    _expect(together == alone, f"{together}, by itself {alone}")


def _refuses_no_number(bench: TestBench, device: Actuator, line: RecordingLine) -> None:
    """apply() refuses NaN and infinity, and sends nothing."""
    _refuses(line, lambda value: device.apply(value, bench.deadline()), (math.nan, math.inf, -math.inf))


def _applies_once(bench: TestBench, device: Actuator, line: RecordingLine) -> None:
    """apply() sends each command once, even if the reply is lost."""
    _sent_once_while_deaf(line, lambda: device.apply(bench.setpoint, Deadline.after(10 * SHORT_S)))
    device.release(bench.deadline())


def _refuses(line: RecordingLine, command: Callable[[float], None], values: Iterable[float], unit: str = "") -> None:
    before = len(line.sent)
    for value in values:
        try:
            command(value)
        except RigctlError:
            continue
        raise Broken(f"{value}{unit} was accepted")
    _expect(len(line.sent) == before, f"it sent {line.sent[before:]}")


def _sent_once_while_deaf(line: RecordingLine, call: Callable[[], Any], who: str = "") -> set[Any]:
    """Return what a call sends, each once, when no reply is seen; it must raise `DeviceTimeout`."""
    before = len(line.sent)
    line.lose_replies = True
    try:
        call()
    except DeviceTimeout:
        sent = Counter(line.sent[before:])
    else:
        raise Broken(f"{who}the reply was lost, yet it reports success")
    finally:
        line.lose_replies = False
    _expect(all(n == 1 for n in sent.values()), f"{who}sent more than once: {[s for s, n in sent.items() if n > 1]}")
    return set(sent)


def _asked_while_deaf(line: RecordingLine, name: str, ask: Callable[[Deadline], Any]) -> None:
    _sent_once_while_deaf(line, lambda: ask(Deadline.after(10 * SHORT_S)), f"{name}(): ")


def _is_ready(bench: TestBench, device: Doser, _line: RecordingLine) -> None:
    """A doser that stands still is ready, and says its smallest dose and its rate."""
    device.ready(bench.deadline())
    _expect(device.min_dose_ml > 0, f"min_dose_ml is {device.min_dose_ml}")
    _expect(device.max_rate_ml_per_min > 0, f"max_rate_ml_per_min is {device.max_rate_ml_per_min}")
    _expect(not device.dose_status(bench.deadline()).running, "it runs although nothing was dosed")


def _stops_harmlessly(bench: TestBench, device: Doser, _line: RecordingLine) -> None:
    """stop() does no harm when nothing runs."""
    before = device.total_volume_ml(bench.deadline()).value
    for _ in range(2):
        device.stop(bench.deadline())
    after = device.total_volume_ml(bench.deadline()).value
    _expect(after == before, f"the total went from {before} to {after} mL")
    device.ready(bench.deadline())


def _refuses_no_dose(bench: TestBench, device: Doser, line: RecordingLine) -> None:
    """start_dose() refuses what is no volume or too small, and sends nothing."""
    volumes_ml = (math.nan, math.inf, -1.0, 0.0, 0.9 * device.min_dose_ml)
    _refuses(line, lambda volume_ml: device.start_dose(volume_ml, bench.deadline()), volumes_ml, " mL")


def _doses_once(bench: TestBench, device: Doser, line: RecordingLine) -> None:
    """A dose whose reply is lost is never sent again, and the total tells what was dispensed."""
    device.ready(bench.deadline())
    volume_ml = device.min_dose_ml
    before_ml = device.total_volume_ml(bench.deadline()).value
    sent = _sent_once_while_deaf(line, lambda: device.start_dose(volume_ml, Deadline.after(10 * SHORT_S)))
    mark = len(line.sent)
    expected_s = 60.0 * volume_ml / device.max_rate_ml_per_min
    for _ in range(10):
        if not device.dose_status(bench.deadline()).running:
            break
        bench.clock.sleep(expected_s / 4)
    device.stop(bench.deadline())
    after_ml = device.total_volume_ml(bench.deadline()).value
    again = sent & set(line.sent[mark:])
    _expect(not again, f"{again} was sent again")
    _expect(after_ml <= before_ml + 1.2 * volume_ml, f"a dose of {volume_ml} mL became {after_ml - before_ml:g} mL")


LIVE_CHECKS: Final[tuple[tuple[Any, bool, tuple[Callable[..., None], ...]], ...]] = (
    (Device, False, (_identifies, _remembers_nothing, _presses_on)),
    (Sensor, False, (_reads,)),
    (Meter, False, (_counts,)),
    (Actuator, True, (_applies_and_releases, _reaches_safety, _refuses_no_number, _applies_once)),
    (Actuator, True, (_goes_safe_with_others,)),
    (Doser, True, (_is_ready, _stops_harmlessly, _refuses_no_dose, _doses_once)),
)
"""Ability, whether its checks move something, the checks."""


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
