"""Profiles: options of a driver for one make of instrument, in a YAML file of its own.

`profile: julabo/bath` in a device stands for what `julabo.yaml` says of its quantity `bath`. The file is looked for in
the folder `profiles/DRIVER` beside the configuration, then among those that come with the driver. Keys at its top hold
for all of its quantities, keys of the quantity go before them, and keys of the device itself before both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from rigctl.config.document import Document, parse, read
from rigctl.config.findings import unknown
from rigctl.errors import BrokenPlugin, ConfigError, KeyPath, Mistake
from rigctl.files import whole
from rigctl.flaws import Flaw, got
from rigctl.options import problems_of
from rigctl.rig.protocols import Driver
from rigctl.rig.registry import Registry

FOLDER: Final = "profiles"
"""Of people's own profiles, beside the configuration and in a state directory."""
ABOUT: Final = ("instrument", "source", "url")
"""Keys that tell people of the instrument: what it is, where that was read, how its port is set when it is new."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The options that a driver takes for one quantity of one make of instrument."""

    document: Document
    quantity: str

    @property
    def _own(self) -> Mapping[str, Any]:
        own: Mapping[str, Any] = self.document.data["quantities"][self.quantity]
        return own

    @property
    def options(self) -> dict[str, Any]:
        """Return what the file says of the quantity, and of all that it has."""
        beside = (*ABOUT, "quantities")
        return {**{k: v for k, v in self.document.data.items() if k not in beside}, **self._own}

    def mistake(self, path: KeyPath, flaw: Flaw) -> Mistake | None:
        """Return what is wrong with the options, where it stands in the file; None if the file says nothing there."""
        place = path if path and path[0] not in self._own else ("quantities", self.quantity, *path)
        return self.document.mistake(place, flaw) if place[0] in self.document.data else None


def files(driver: type[Driver], folder: Path) -> Mapping[str, Path]:
    """Return the profiles that a driver finds for a configuration in this folder; the user's own come first."""
    folders = (driver.profiles, folder / FOLDER / driver.name)
    return {file.stem: file for where in folders if where is not None for file in sorted(where.glob("*.yaml"))}


def profile_of(driver: type[Driver], said: str, folder: Path) -> Profile:
    """Return the profile that `name` or `name/quantity` stands for; a name is enough of one that has one quantity.

    Raises:
        ValueError: there is none of this name, or it needs another quantity.
        ConfigError: its file does not hold.
    """
    found = files(driver, folder)
    name, _, quantity = said.partition("/")
    if name not in found:
        raise ValueError(unknown(name, sorted(found), f"a profile of driver {driver.name}"))
    document = opened(found[name])
    known = list(document.data["quantities"])
    if not quantity and len(known) == 1:
        return Profile(document, known[0])
    if quantity not in known:
        raise ValueError(unknown(said, [f"{name}/{one}" for one in known], f"a quantity of {found[name]}"))
    return Profile(document, quantity)


def opened(path: Path) -> Document:
    """Read the file of a profile; whether the driver takes its options is not checked.

    Raises:
        ConfigError: it does not hold.
    """
    document, mistakes = parse(read(path), str(path))
    data, must = document.data, "must say what instrument it is, and in which manual its commands were read"
    for key in ("instrument", "source"):
        if not isinstance(data.get(key), str):
            mistakes.append(document.mistake((key,), got(data.get(key), must)))
    quantities, such = data.get("quantities"), "such as {temperature: {query: in_pv_00}}"
    if not isinstance(quantities, dict) or not quantities:
        mistakes.append(document.mistake(("quantities",), got(quantities, f"must be a mapping of quantities {such}")))
    for name, options in quantities.items() if isinstance(quantities, dict) else ():
        if not isinstance(options, dict):
            mistakes.append(document.mistake(("quantities", name), got(options, f"must be a mapping {such}")))
    if mistakes:
        raise ConfigError(mistakes)
    return document


def keep_own(document: Document, folder: Path, directory: Path) -> None:
    """Copy people's own profiles that a configuration in this folder names to where its campaign is read again.

    Raises:
        OSError: they cannot be written.
    """
    for device in document.data.get("devices", {}).values():
        name = str(device.get("profile", "")).partition("/")[0]
        here, there = (where / FOLDER / device["driver"] / f"{name}.yaml" for where in (folder, directory))
        if name and here.is_file() and here.absolute() != there.absolute():
            there.parent.mkdir(parents=True, exist_ok=True)
            with whole(there) as new:
                new.write_bytes(here.read_bytes())


# what there is ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """What `rigctl tools drivers --profiles` shows of a profile."""

    name: str
    driver: str
    path: str
    instrument: str = ""
    quantities: tuple[str, ...] = ()
    source: str = ""
    url: str = ""
    problems: tuple[str, ...] = ()


def listed(registry: Registry, folder: Path) -> Sequence[ProfileInfo]:
    """Return all profiles there are for a configuration in this folder, also those that do not hold."""
    found = []
    for name in sorted(registry.drivers):
        try:
            driver = registry.driver(name)
        except BrokenPlugin:  # told by `rigctl tools drivers`
            continue
        found += [_info(driver, path) for _, path in sorted(files(driver, folder).items())]
    return found


def _info(driver: type[Driver], path: Path) -> ProfileInfo:
    try:
        document = opened(path)
    except ConfigError as error:
        return ProfileInfo(path.stem, driver.name, str(path), problems=tuple(map(str, error.mistakes)))
    instrument, source, url = (str(document.data.get(key, "")) for key in ABOUT)
    offered = [Profile(document, quantity) for quantity in document.data["quantities"]]
    problems = {str(profile.mistake(*told)): None for profile in offered for told in _told(driver, profile)}
    quantities = tuple(profile.quantity for profile in offered)
    return ProfileInfo(path.stem, driver.name, str(path), instrument, quantities, source, url, tuple(problems))


def _told(driver: type[Driver], profile: Profile) -> Sequence[tuple[KeyPath, Flaw]]:
    """Return what a driver does not take of it; what a device must give besides is no mistake."""
    try:
        driver.options.model_validate(profile.options)
    except ValidationError as error:
        told = problems_of(error, driver.options, f"driver {driver.name}")[0]
        return [(path, flaw) for path, flaw in told if profile.mistake(path, flaw) is not None]
    return ()
