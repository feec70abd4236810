"""From a configuration to a campaign: the one place where all parts of the house meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigctl.campaign import control
from rigctl.campaign.journal import Journal, Reader, open_reader
from rigctl.campaign.journal.database import guarded, open_for_reading
from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.campaign.lock import campaign_here, state_lock
from rigctl.campaign.spec import check_readable
from rigctl.codec import plain
from rigctl.config.load import LoadedConfig, Overrides, load, name_of
from rigctl.console.options import STATES, require_devices, require_linux
from rigctl.errors import UsageError
from rigctl.flaws import flaw_of
from rigctl.page.campaign import campaign_spec, configured
from rigctl.people import this_person
from rigctl.rig.clocks import Clock, RealClock, SteppedClock, boot_id
from rigctl.rig.registry import Registry
from rigctl.rig.rig import Rig

if TYPE_CHECKING:
    from rigctl.campaign.acts import Act
    from rigctl.campaign.daemon import RigFactory

ANSWER_S: Final = 60.0
"""Wall seconds that a running campaign may take to do what a person asks for."""


def rig_factory(loaded: LoadedConfig, clock: Clock) -> RigFactory:
    """Return what makes the rig once the campaign has a dose log and an alarm desk.

    Raises:
        UsageError: the configuration has no devices, or this system cannot drive them.
    """
    require_devices(loaded)
    if not isinstance(clock, SteppedClock):  # beside a simulation nothing is driven
        require_linux(str(loaded.path))
    return lambda doses, news: Rig(loaded.rig, Registry.installed(), clock, doses, news)


def state_directory(given: Path | None, rig: str) -> Path:
    return STATES / rig if given is None else given


@dataclass(frozen=True, slots=True)
class OpenCampaign:
    """Holds a campaign on disk, and its configuration."""

    loaded: LoadedConfig
    reader: Reader


@contextmanager
def open_campaign(
    config: Path | None, state: Path | None, buses: Mapping[str, str] | None = None
) -> Iterator[OpenCampaign]:
    """Open the campaign in a state directory, read-only; configured by `config`, else as it was last started.

    Raises:
        UsageError: there is none, it is not clear which, or `config` has other variables or units.
        ConfigError: the configuration does not hold (any more).
        JournalError: the journal cannot be read.
    """
    directory = find_state(config, state)
    with open_reader(directory) as reader:
        row = reader.campaign()
        loaded = configured(row, directory, buses, config)
        if config is not None:
            check_readable(row.identity, campaign_spec(loaded))
        yield OpenCampaign(loaded, reader)


def has_journal(directory: Path) -> bool:
    """Tell whether a journal has begun here: of one that its disk had no room for there is a file, and nothing in it.

    Raises:
        JournalError: there is one that cannot be read.
    """
    try:
        open_for_reading(directory / FILE_NAME, whole=False).close()
    except UsageError:
        return False
    return True


@contextmanager
def own_journal(directory: Path, speedup: float = 1.0) -> Iterator[Journal]:
    """Open the journal for writing, made if missing, while nobody else may; `speedup`: of rig time, where it counts.

    Raises:
        Locked: a campaign is running here.
        JournalError: it cannot be used.
    """
    with (
        state_lock(directory),
        guarded(directory / FILE_NAME),  # neither every book of it nor its closing says what SQLite found in words
        closing(Journal(directory, RealClock(speedup), boot_id())) as journal,
    ):
        yield journal


def perform(act: Act, directory: Path, config: Path | None = None) -> Mapping[str, Any]:
    """Have the campaign that runs here do it, else write it into its journal; return what comes of it.

    Raises:
        UsageError: there is no campaign here, or it cannot be done.
        RigctlError: the campaign that runs here refuses, or does not answer.
        JournalError: the journal cannot be used.
    """
    from rigctl.campaign.acts import Care  # noqa: PLC0415 - acts, for who only looks of no use

    act = replace(act, who=act.who or this_person())
    about = {act.about: getattr(act, act.about)}
    if campaign_here(directory) is not None:  # it has the journal, and the next decision must know
        return {**about, "outcome": control.ask(directory, act.verb, ANSWER_S, **plain(act))["outcome"]}
    with open_reader(directory) as reader:  # before the lock, which would make a missing directory
        reader.campaign()
    rig = loaded_here(config, directory, {}).rig if isinstance(act, Care) else None
    with own_journal(directory, 1.0 if rig is None else rig.speedup) as journal:
        try:
            return {**about, "outcome": act.apply(journal, rig)}
        except UsageError as error:
            raise UsageError(flaw_of(error).within(act.verb)) from error


def begin_by_hand(loaded: LoadedConfig, journal: Journal) -> None:
    """Begin a campaign, or go on with it, for trials that no rig did.

    Raises:
        UsageError: a trial is under way, or the journal belongs to another configuration.
    """
    journal.begin(campaign_spec(loaded), version("rigctl"))
    under_way = journal.read.open_trial()
    if under_way is not None:
        raise UsageError(f"trial {under_way.trial} is under way; `rigctl run` settles it")


def loaded_here(config: Path | None, directory: Path, buses: Mapping[str, str]) -> LoadedConfig:
    """Return the configuration given, else the one the campaign in this directory was last started with."""
    if config is not None:
        return load(config, Overrides(buses))
    with open_campaign(None, directory, buses) as campaign:
        return campaign.loaded


def find_state(config: Path | None, state: Path | None) -> Path:
    """Return `--state`, else the configured rig's directory, else the only one there is.

    Raises:
        UsageError: there is none, or more than one.
        ConfigError: the configuration cannot be read, or names no rig.
    """
    if state is not None:
        return state
    if config is not None:
        return STATES / name_of(config)
    found = sorted(path.parent for path in STATES.glob(f"*/{FILE_NAME}"))
    if len(found) == 1:
        return found[0]
    there = ", ".join(map(str, found)) or f"none under {STATES.resolve()}"
    raise UsageError(f"which campaign? give a configuration or --state DIR; found: {there}")


def find_own_state(config: Path | None, state: Path | None) -> Path:
    """Return the directory that a person records something in.

    Raises:
        UsageError: as `find_state`; or it holds the campaign of another rig than `config` describes.
        ConfigError: the configuration cannot be read, or names no rig.
    """
    directory = find_state(config, state)
    if config is not None and state is not None and has_journal(directory):
        with open_reader(directory) as reader:
            theirs, ours = reader.campaign().rig, name_of(config)
        if theirs != ours:
            raise UsageError(
                f'{directory}: holds the campaign of rig "{theirs}", but {config} describes rig "{ours}"; nothing was '
                "recorded. Give only --state or only the configuration, or two that belong together"
            )
    return directory
