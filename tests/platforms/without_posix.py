"""`python -m tests.platforms.without_posix VERB ...`: `rigctl VERB ...` on a system without what only POSIX has.

What a system without POSIX lacks is taken away once the standard library, which knows its system, is loaded.
`-m MODULE ...` runs a module instead. So do the processes that it starts. `-` reads the words of several such calls as
JSON, and prints what each has answered, said and returned: what takes time is to start.
"""

import asyncio
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from importlib.abc import MetaPathFinder

MODULES = ("fcntl", "termios", "pwd", "grp", "resource", "tty", "pty")
LACKING = {
    os: (
        *("geteuid", "getegid", "getgroups", "killpg", "fchmod", "nice", "statvfs"),
        *("openpty", "pread", "pwrite", "pidfd_open"),
        *("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY"),
    ),
    signal: ("SIGHUP", "SIGQUIT"),
    socket: ("AF_UNIX", "SO_PEERCRED", "SOCK_NONBLOCK", "SOCK_CLOEXEC"),
    asyncio: ("start_unix_server", "open_unix_connection"),
}
LOADED = (subprocess, tempfile)


class Child(subprocess.Popen):
    """Runs a module of Python on the same system."""

    def __init__(self, arguments, *others, **options):
        if list(arguments[:2]) == [sys.executable, "-m"]:
            arguments = [sys.executable, "-m", __spec__.name, *arguments[1:]]
        super().__init__(arguments, *others, **options)


class Missing(MetaPathFinder):
    """Finds no module that only POSIX has."""

    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(arguments: list[str]) -> None:
    pair = partial(socket.socketpair, socket.AF_UNIX)
    for module in MODULES:
        sys.modules.pop(module, None)
    sys.meta_path.insert(0, Missing())
    room, subprocess.Popen = shutil.disk_usage("."), Child
    shutil.disk_usage = lambda _: room  # there by another call of the system
    for place, names in LACKING.items():
        for name in names:
            delattr(place, name)
    socket.socketpair = pair  # there by TCP; what of the event loop needs it is not ours
    os.environ.setdefault("USERNAME", "somebody")
    if arguments == ["-"]:
        print(json.dumps([answered(words) for words in json.load(sys.stdin)]))
    else:
        play(arguments)


def play(words: list[str]) -> None:
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = ["rigctl", *words]
    from rigctl.entry import main as rigctl

    rigctl()


def answered(words: list[str]) -> dict[str, str | int | None]:
    code: str | int | None = 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:  # `rigctl` asks for descriptors
        with redirect_stdout(out), redirect_stderr(said):
            try:
                play(words)
            except SystemExit as end:
                code = end.code
        out.seek(0)
        said.seek(0)
        return {"stdout": out.read(), "stderr": said.read(), "returncode": code or 0}


if __name__ == "__main__":
    main(sys.argv[1:])
