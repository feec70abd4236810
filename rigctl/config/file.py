"""A configuration file -> its text, or why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rigctl.errors import ConfigError, Mistake
from rigctl.plugins import did_you_mean

MOST_BYTES: Final = 1_000_000
"""Of a file: the largest rig described so far takes 30,000, and a parser takes seconds for each million."""


def read(path: Path) -> str:
    """Return the text of a configuration file.

    Raises:
        ConfigError: there is none, or it is no text.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigError([Mistake(str(path), _why(path, error), file=str(path))]) from error
    refuse_too_long(len(data), str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise ConfigError([Mistake(f"{path}:{line}", _no_text(data, error), (), line, column, str(path))]) from error


def refuse_too_long(length: int, file: str) -> None:
    """Raise `ConfigError` for more text than a configuration can have, before anything reads it."""
    if length > MOST_BYTES:
        what = f"is larger than {MOST_BYTES // 1_000_000} MB, must be a configuration; is it the right file?"
        raise ConfigError([Mistake(file, what, file=file)])


def _why(path: Path, error: OSError | ValueError) -> str:
    if isinstance(error, IsADirectoryError):
        return f"is a folder, must be a file{_there(path)}"
    if isinstance(error, FileNotFoundError):
        return f"cannot be read: there is no such file{_near(path) or _there(path.parent)}"
    reason = error.strerror if isinstance(error, OSError) else error
    return f"cannot be read: {reason}"


def _configurations(folder: Path) -> list[str]:
    return sorted(str(file) for file in folder.glob("*.y*ml") if file.is_file()) if folder.is_dir() else []


def _near(path: Path) -> str:
    return did_you_mean(str(path), _configurations(path.parent))


def _there(folder: Path) -> str:
    found = _configurations(folder)
    return f"; there are {', '.join(found[:5])}" if found else "; `rigctl init` writes one"


def _no_text(data: bytes, error: UnicodeDecodeError) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "got UTF-16, must be UTF-8 text; save the file anew as UTF-8"
    if b"\0" in data:
        return "got a binary file, must be UTF-8 text; give a configuration"
    return f"got the byte 0x{data[error.start]:02x}, must be UTF-8 text; save the file anew as UTF-8"
