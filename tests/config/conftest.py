"""Configurations to break, one way at a time."""

from pathlib import Path

import pytest

from rigctl.config.load import LoadedConfig, load_text
from rigctl.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted((ROOT / "config").glob("*.yaml"))


def loaded(text: str) -> LoadedConfig:
    return load_text(text, Path("rig.yaml"))


def loaded_to_run(text: str) -> LoadedConfig:
    return load_text(text, Path("rig.yaml"), to_run=True)


def problems(text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    return {p.where: p.what for p in caught.value.mistakes}
