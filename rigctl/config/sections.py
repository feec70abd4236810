"""What any section is; how variables vary when left alone, what a trial consists of, what wears out, who is told what.

Each docstring goes into the JSON schema, so into the editor.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rigctl.config.fields import Doses, Quantity, Samples, Time, Trials, one_of, or_words
from rigctl.kinds import Duration, PositiveDuration, PositiveVolume


class Section(BaseModel):
    """A mapping of the file: unknown keys are errors, numbers are no text and text is no number."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class OpenSection(Section):
    """A mapping whose other keys belong to a driver or policy, and are checked by it."""

    model_config = ConfigDict(extra="allow")


class LateSection(Section):
    """How an outcome comes: measured in the trial, or later."""

    by: Literal["sensor", "hand"] = "sensor"
    """Who gives it: a sensor, or a person with `rigctl outcome` after the rig has done its part: by: hand."""
    after: PositiveDuration | None = None
    """Time after the rig's part at which the sensor is read, e.g. 20 h; default: in the trial."""
    within: PositiveDuration | None = None
    """Time after the rig's part for it to come; then the trial ends without it. Default 7 d, or twice `after`."""
    then: Literal["go-on", "hold"] = "go-on"
    """What the campaign does meanwhile: begin the next trial, or hold until the outcome has come."""
    pending: int = Field(default=16, ge=1, le=1000)
    """Trials at most whose outcomes are awaited when another one begins."""
    at_end: Literal["wait", "end"] = "wait"
    """What a campaign does that is over while outcomes are awaited: wait for them, or end."""


class TruncatedNormalNatural(Section):
    """A normal distribution cut at the variable's natural range; give mean and sd, or loc and scale."""

    mean: Quantity | None = None
    """Mean of the variable itself, as measured."""
    sd: Quantity | None = None
    """Standard deviation of the variable itself, as measured."""
    loc: Quantity | None = None
    """Mean of the normal distribution before it is cut."""
    scale: Quantity | None = None
    """Standard deviation of the normal distribution before it is cut."""


class UniformNatural(Section):
    """All values between two alike."""

    low: Quantity | None = None
    """Default: the lowest of the natural range."""
    high: Quantity | None = None
    """Default: the highest of the natural range."""


class DeclaredNatural(Section):
    """A distribution: exactly one of these."""

    model_config = ConfigDict(json_schema_extra=or_words("uniform"))

    truncated_normal: TruncatedNormalNatural | None = None
    """Normal, cut at the natural range."""
    uniform: UniformNatural | None = None
    """All alike, in the whole natural range or a part of it."""
    empirical: Samples | None = None
    """Measured values, as a list or as {file, column} of a CSV file beside the configuration."""


class LearnedNatural(Section):
    """Learned from the readings of trials that left the variable alone."""

    prior: Annotated[DeclaredNatural, BeforeValidator(one_of("truncated_normal, uniform, empirical"))] = Field(
        default_factory=lambda: DeclaredNatural(uniform=UniformNatural())
    )
    """What is believed until there are enough readings, and again after the supply has changed; default: uniform."""
    at_least: int = Field(default=8, ge=2)
    """How many readings are enough."""


class NaturalSection(DeclaredNatural):
    """How a variable varies when it is left alone: exactly one of these."""

    model_config = ConfigDict(json_schema_extra=or_words("uniform", "learned"))

    learned: LearnedNatural | None = None
    """From readings; a supply that changes is noticed."""


class SecretSection(Section):
    """Where a URL is kept that nobody else should know: exactly one of these."""

    file: str | None = None
    """A file that others cannot read (mode 600); its path is from the configuration's folder."""
    env: str | None = None
    """A variable of the environment that rigctl is started in."""

    @model_validator(mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        if not isinstance(value, dict) or len(value) != 1:
            raise ValueError("got something else, must be exactly one of {file: PATH}, {env: NAME}")
        name = value.get("env", "NAME")
        if not (isinstance(name, str) and name.isascii() and name.isidentifier()):  # may be the secret itself
            raise ValueError("got no name, must be that of an environment variable such as RIGCTL_NOTIFY")
        return value


class AliveSection(Section):
    """A URL that is asked for as long as the watch looks: whoever is behind it tells when that ends."""

    url: SecretSection
    """Where the URL is kept."""
    every: Duration = 900.0
    """Wall time between two."""


class NotifySection(Section):
    """Who is told what; needs the extra `notify`."""

    urls: SecretSection | None = None
    """Where the URLs are kept, one on each line, as the library apprise has them: mailto, ntfy, mqtt, json, ..."""
    at_least: Literal["MINOR", "MAJOR", "INVALID"] = "MAJOR"
    """Severity from which on people are told of an alarm."""
    alive: AliveSection | None = None
    """A sign of life."""
    daily: Time | None = None
    """Civil time of a daily summary, as "08:00"."""
    zone: str | None = None
    """Zone of that time and of all times that are told, as Europe/Berlin; default: this machine's."""

    @model_validator(mode="before")
    @classmethod
    def _in_the_open(cls, value: Any) -> Any:
        if _holds_url(value):
            must = "must not stand in a configuration, which is copied into the journal; write it into a file"
            raise ValueError(f"got a URL in the open, {must}, `chmod 600` it, and name it here: {{file: PATH}}")
        if not isinstance(value, dict) or not isinstance(value.get("alive", {}), dict):  # may be the secret itself
            must = "must be a mapping such as {urls: {file: PATH}, alive: {url: {env: NAME}}}"
            raise ValueError(f"got something else, {must}")  # noqa: TRY004  # pydantic collects ValueErrors only
        return value


def _holds_url(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_url(part) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return any(map(_holds_url, value))
    return isinstance(value, str) and "://" in value


class MetricsSection(Section):
    """Where Prometheus finds the campaign's numbers; needs the extra `notify`."""

    textfile: str | None = None
    """Written anew every 15 s for node_exporter's textfile collector: an absolute path that ends in .prom."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Of 127.0.0.1, where they are also given over HTTP at /metrics."""


class InventorySection(Section):
    """A pump's bottle. Doses are counted since `rigctl refilled`; a pump with too little for a trial is not used."""

    volume: PositiveVolume
    """What a full bottle holds."""
    warn_at: Doses = 20
    """An alarm is raised when so many usual doses are left."""


class TubingSection(Section):
    """A pump's tubing, whose mL are counted since `rigctl replaced PUMP tubing`."""

    replace_after: PositiveVolume
    """An alarm is raised when it has seen so much."""


class CalibrationSection(Section):
    """How often a device is calibrated: since `rigctl calibrated`, or since it said so itself."""

    every: PositiveDuration | None = None
    """A probe by which doses are judged is not used when it is overdue; others only raise an alarm."""
    slope: Annotated[list[float], Field(min_length=2, max_length=2)] = Field(default_factory=lambda: [85.0, 105.0])
    """What a probe's slopes must be, percent of an ideal probe's; outside doses are not judged by it."""


class TodaySection(Section):
    """How the rig is run today, for recommendations to be compared with."""

    control: list[str] = Field(default_factory=list)
    """Variables that are controlled today; none: everything is left alone."""
    at: dict[str, Quantity] = Field(default_factory=dict)
    """Setpoint of each."""


class ReferenceSection(Section):
    """A setting that is played again every so many trials, for what changes in between to show."""

    every: Trials
    """How many trials lie between two of them: 25 trials."""
    control: list[str] = Field(default_factory=list)
    """Variables that are controlled in it, one of the control sets; none: what would be recommended at the first."""
    at: dict[str, Quantity] = Field(default_factory=dict)
    """Setpoint of each."""
    second_sensor: str | None = None
    """The one of `further_outcomes` that another sensor of the first outcome measures: tells a sensor that ages."""
