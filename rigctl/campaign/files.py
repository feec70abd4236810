"""Whether a file that is kept open is still the one that its name leads to (fault 68)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Held:
    """A file as it was when it was opened."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path, descriptor: int | None = None) -> Self:
        """The file at this path, or the one open there under this descriptor."""
        found = path.stat() if descriptor is None else os.fstat(descriptor)
        return cls(path, found.st_dev, found.st_ino)

    def trouble(self) -> str:
        """What is wrong with it now; empty if nothing is. Asks the file system's own memory: microseconds."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return f"{self.path}: deleted while it was in use"
        except OSError as error:
            return f"{self.path}: cannot be seen any more ({error.strerror})"
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            return f"{self.path}: replaced by another file while it was in use"
        return ""
