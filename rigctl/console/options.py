"""Options and arguments that several verbs share, and what a shell offers for them."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from typer import Argument, Option
from typer.core import TyperCommand

from rigctl import system
from rigctl.errors import UsageError
from rigctl.flaws import Flaw, got

if TYPE_CHECKING:
    from rigctl.config.load import LoadedConfig

CONFIG_SUFFIXES = (".yaml", ".yml")


def complete_config(incomplete: str) -> Iterator[str]:
    """Offer the configurations that may be meant, and the directories on the way to them."""
    given = Path(incomplete)
    folder = given if incomplete.endswith("/") or not incomplete else given.parent
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not str(path).startswith(incomplete.removeprefix("./")):
            continue
        if path.is_dir():
            yield f"{path}/"
        elif path.suffix in CONFIG_SUFFIXES:
            yield str(path)


STATES = Path("state")
"""Where state directories are unless `--state` says otherwise."""
STDOUT = Path("-")
"""Names standard output, as for other programs."""

Config = Annotated[Path, Argument(metavar="CONFIG", help="The rig's YAML file.", autocompletion=complete_config)]
MaybeConfig = Annotated[
    Path | None, Argument(metavar="[CONFIG]", help="Default: as last started.", autocompletion=complete_config)
]
State = Annotated[Path | None, Option(metavar="DIR", help="State directory; default ./state/<rig>.")]
Bus = Annotated[list[str] | None, Option(metavar="NAME=URL", help="Use another URL for a bus; repeatable.")]
IfLeftDriven = Annotated[bool, Option("--if-left-driven", help="Act only where a dead campaign left something driven.")]
Seed = Annotated[int | None, Option(min=0, help="Replaces the configuration's seed.")]
Budget = Annotated[str | None, Option(metavar="MONEY", help='Replaces the configuration\'s budget, e.g. "20 EUR".')]
Serve = Annotated[bool, Option("--serve", help="Show the campaign as a live page in a browser.")]
MaxTrials = Annotated[int | None, Option(min=1, help="Stop after this many trials.")]
AsJson = Annotated[bool, Option("--json", help="One JSON document on standard output.")]
Technical = Annotated[bool, Option("--technical", help="Use the terms of the policy's paper.")]
Details = Annotated[bool, Option("--details", help="Add the worth of each way and variable, and what would change it.")]
Watch = Annotated[bool, Option("--watch", help="Follow a running campaign until it ends.")]
Now = Annotated[str | None, Option(metavar="NAME=X,...", help="Decide by these readings, in the variables' units.")]
HistoryFile = Annotated[
    Path | None, Option("--history", metavar="FILE", help="Trials: a CSV file, or a journal; default: --state.")
]

Decimals = Literal["comma", "point"]
"""What stands before fractions."""
Form = StrEnum("Form", "JSON CONFIGURATION COMMANDS")
Format = StrEnum("Format", "CSV JSONL")
Records = StrEnum("Records", "TRIALS LEDGER MEASUREMENTS EVENTS DOSES ALARMS ACTS")


def named(verb: str, which: Sequence[str], *wanted: str, number: bool = False) -> tuple[Path | None, Sequence[str]]:
    """Return the configuration, if it is given, and the other words of `[CONFIG] NAME` and the like.

    Raises:
        UsageError: there are too few or too many, or the last is no number where one must be.
    """
    if not 0 <= len(which) - len(wanted) <= 1 or (number and not which[-1].isdecimal()):
        last = f", the {wanted[-1].lower()}'s number last" if number else ""
        raise UsageError(got(" ".join(which), f"must be [CONFIG] {' '.join(wanted)}{last}", where=verb))
    return Path(which[0]) if len(which) > len(wanted) else None, which[-len(wanted) :]


def table_named(verb: str, config: Path | None, file: str) -> Path:
    """Return the table that stands after the configuration on the command line.

    Raises:
        UsageError: it is a configuration, or the two are swapped.
    """
    if Path(file).suffix in CONFIG_SUFFIXES:
        if config is not None and config.suffix not in CONFIG_SUFFIXES:
            remedy = f"write rigctl {verb} {file} {config}"
            raise UsageError(Flaw("configuration and table are swapped", remedy=remedy, where=verb))
        raise UsageError(got(file, "must be a table", f"write rigctl {verb} {file} FILE", where=verb))
    return Path(file)


def buses(given: Sequence[str] | None) -> dict[str, str]:
    """Return the URLs of `--bus NAME=URL`, by name."""
    return pairs("--bus", given, "NAME=URL")


def pairs(option: str, given: Sequence[str] | None, form: str, *, last: bool = False) -> dict[str, str]:
    """Return what an option that is repeated says, by name; the first `=` parts the two, or the `last`.

    Raises:
        UsageError: one is nothing of the kind.
    """
    found = {}
    for text in given or ():
        name, equals, value = text.rpartition("=") if last else text.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise UsageError(got(text, f"must be {form}", where=option))
        found[name.strip()] = value.strip()
    return found


# options that go together -----------------------------------------------------------------------------------------


OUTCOME_HELP = (
    'The outcome to improve: "NAME UNIT", then if you like maximise or minimise, target=X, sensor=DEVICE; '
    'e.g. "growth cm2/day maximise".'
)
VARIABLE_HELP = (
    'A variable that can be controlled, repeatable: "NAME UNIT LOW HIGH", then KEY=VALUE pairs, e.g. '
    '"ph pH 5 7 natural=6.3+-0.3 cost=0.4". Keys: natural (6.3+-0.3, 2..4, uniform or unknown), step; '
    "by hand cost (what controlling it adds to a trial); with wiring sensor, actuator (a device that was found, or a "
    "place in one: plc/input/0/float32/CDAB, plc/holding/2/float32/coil=2, camera/MEAS:GROW?), safe (off, or a value), "
    "and of a pump effect (change per mL), per_dose, per_day, price (per L), mix, treatment."
)


@dataclass(frozen=True, slots=True)
class InitFlags:
    """What flags say of a configuration that is to be written."""

    by_hand: Annotated[bool, Option("--by-hand", help="A bench without wiring: a person does the trials.")] = False
    name: Annotated[str | None, Option(help="The rig's name; default: the file's.")] = None
    outcome: Annotated[str | None, Option(help=OUTCOME_HELP)] = None
    variable: Annotated[list[str] | None, Option(help=VARIABLE_HELP)] = None
    budget: Annotated[str | None, Option(metavar="MONEY", help='Budget of the campaign, e.g. "40 EUR".')] = None
    max_per_trial: Annotated[str | None, Option(metavar="MONEY", help='Most a trial may cost, e.g. "2 EUR".')] = None
    currency: Annotated[str | None, Option(metavar="CODE", help="Default: the budget's, else EUR.")] = None
    per_trial: Annotated[str | None, Option(metavar="MONEY", help="Fixed cost of every trial.")] = None
    per_hour: Annotated[str | None, Option(metavar="MONEY", help="Cost of an hour of trial.")] = None
    energy_price: Annotated[str | None, Option(metavar="MONEY", help="Price of 1 kWh, where a meter counts.")] = None
    settle: Annotated[str | None, Option(metavar="TIME", help="Wait between setting and measuring.")] = None
    measure: Annotated[str | None, Option(metavar="TIME", help="Length of the measurement.")] = None
    every: Annotated[str | None, Option(metavar="TIME", help="Interval between two samples.")] = None


@dataclass(frozen=True, slots=True)
class TrialFlags:
    """What options say of a trial that a person did."""

    control_set: Annotated[str | None, Option(help="Variables that were controlled, joined by +.")] = None
    values: Annotated[str, Option(metavar="NAME=X,...", help="Measured values of all variables.")] = ""
    setpoints: Annotated[str, Option("--set", metavar="NAME=X,...", help="Setpoints; default: those suggested.")] = ""
    outcome: Annotated[str | None, Option(metavar="NUMBER", help="Outcome; leave out if the trial failed.")] = None
    cost: Annotated[str | None, Option(metavar="AMOUNT", help="Cost of the trial, in the rig's currency.")] = None
    date: Annotated[str, Option(help="Day of the trial, e.g. 2026-03-01.")] = ""
    operator: Annotated[str, Option(help="Person who did the trial.")] = ""
    batch: Annotated[str, Option(help="Batch of the material.")] = ""
    note: Annotated[str, Option(help="Free text, kept with the trial.")] = ""

    @property
    def known(self) -> Mapping[str, str]:
        return {"date": self.date, "operator": self.operator, "batch": self.batch, "note": self.note}


@dataclass(frozen=True, slots=True)
class TableFlags:
    """What options say of how a table is to be read; else it is found out."""

    sheet: Annotated[str | None, Option(metavar="NAME", help="Sheet of a spreadsheet; default: the first.")] = None
    maps: Annotated[
        list[str] | None, Option("--map", metavar="HEADER=NAME", help="Meaning of a column; - ignores it; repeatable.")
    ] = None
    decimal: Annotated[Decimals | None, Option(help="Decimal mark; default: found from the numbers.")] = None
    separator: Annotated[str | None, Option(help="Column separator, or tab; default: found in the file.")] = None
    header: Annotated[int | None, Option(metavar="LINE", min=1, help="Line of the header; default: found.")] = None
    constants: Annotated[
        list[str] | None,
        Option("--constant", metavar="NAME=VALUE", help="Value of all rows that has no column; repeatable."),
    ] = None
    answers: Annotated[
        list[str] | None,
        Option("--answer", metavar="QUESTION=ANSWER", help="Answer about the table, e.g. totals=skip; repeatable."),
    ] = None


@dataclass(frozen=True, slots=True)
class AmendFlags:
    """What options say is to be amended of a trial."""

    outcome: Annotated[str | None, Option(metavar="NUMBER", help="Corrected first outcome.")] = None
    failed: Annotated[bool, Option("--failed", help="The trial gave no outcome.")] = False
    values: Annotated[str, Option(metavar="NAME=X,...", help="Corrected values, further outcomes included.")] = ""
    cost: Annotated[str | None, Option(metavar="AMOUNT", help="Cost of the trial, in the rig's currency.")] = None
    note: Annotated[str | None, Option(help="Free text, kept with the trial.")] = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What options say a person wants of production."""

    learn: Annotated[
        str | None,
        Option(
            metavar="SHARE",
            help='Go on learning; exploring may lose this share, "5 %", of the gain over controlling nothing.',
        ),
    ] = None
    at: Annotated[
        str | None, Option("--set", metavar="NAME=X,...", help="Run these setpoints, not what a campaign has found.")
    ] = None
    batches: Annotated[int | None, Option(min=1, help="Stop after this many batches.")] = None
    anew: Annotated[bool, Option("--anew", help="Make the rule anew, of all trials and batches so far.")] = False
    full: Annotated[bool, Option("--full", help="Run the best for the day's readings, not the rule's line.")] = False


@dataclass(frozen=True, slots=True)
class ServiceFlags:
    """What options say of a unit."""

    state: Annotated[
        Path | None, Option(metavar="DIR", help="State directory; default: the campaign's, else /var/lib/rigctl/<rig>.")
    ] = None
    account: Annotated[str, Option("--as", metavar="ACCOUNT", help="Account; default: you, or rigctl for root.")] = ""
    own: Annotated[bool, Option("--user", help="For your own service manager, not the system's.")] = False
    install: Annotated[bool, Option("--install", help="Write it where systemd finds it; default: print it.")] = False
    force: Annotated[bool, Option("--force", help="Overwrite a unit that somebody else wrote or edited.")] = False
    backup: Annotated[Path | None, Option(metavar="DIR", help="Folder for a daily backup of the journal.")] = None
    operate: Annotated[bool, Option("--operate", help="Run it for production, not as a campaign.")] = False
    learn: Annotated[str | None, Option(metavar="SHARE", help="With --operate: as for `operate --learn`.")] = None
    full: Annotated[bool, Option("--full", help="With --operate: run the best for the day's readings.")] = False


@dataclass(frozen=True, slots=True)
class CellFlags:
    """What options say of how simulated campaigns are run."""

    form: Annotated[Literal["parquet", "csv"], Option("--format", help="Format of the tables.")] = "parquet"
    jobs: Annotated[int, Option(min=1, help="Worker processes.")] = 1
    dask: Annotated[str | None, Option(metavar="ADDRESS", help="Run on this dask.distributed scheduler.")] = None
    data: Annotated[Path | None, Option(metavar="DIR", help="Folder of plant_growth.npz and airfoil.npz.")] = None


# How `--help` shows them ----------------------------------------------------------------------------------------------

_TAKES: Final[Mapping[str, str]] = {"int": "N", "float": "N", "str": "TEXT"}
"""What an option takes, by its type."""


class PlainHelp:
    """Says in `--help` what an option takes as people would; of a flag and an argument its name says all."""

    def get_params(self, ctx: Any) -> Any:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in found:
            if param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: ""  # noqa: ARG005  # the library's
            elif param.metavar is None:
                kind = param.display_type(ctx).strip("<>").removesuffix(" range")
                param.metavar = "" if param.is_flag else _TAKES.get(kind, kind)
        return found


class Verb(PlainHelp, TyperCommand):
    """Does one thing."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002  # the library's
        return ["[OPTIONS]", *(str(param.metavar) for param in self.params if param.param_type_name == "argument")]


def require_devices(loaded: LoadedConfig) -> None:
    """Raise UsageError where there is nothing to drive."""
    if not loaded.wired:
        raise UsageError(
            f"{loaded.path}: declares no devices, so there is nothing to drive; "
            f"use `rigctl suggest` and `rigctl ingest`, or add devices"
        )


def require_linux(where: str) -> None:
    """Raise UsageError where no instrument can be driven, and nobody could ask the campaign to go safe."""
    if not system.drives_instruments():
        remedy = (
            "run it on a computer with Linux; here `init --by-hand`, `suggest`, `ingest`, `recommend` and `report` work"
        )
        raise UsageError(Flaw("", "must be Linux to drive instruments", remedy, platform.system(), where))
