"""Processes of the program without its imports: forked from one that has made them once for all.

`python -m rigctl` takes a second and more of processor for its imports, longer than most tests need for what they ask
of it. What is forked here is a process like any other: with a number, signals, streams and an end of its own. What
happens while a program imports can only be tried on one that is truly started, by `subprocess`.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NUMBER = struct.Struct("i")
"""Of a process that has begun, then its status as `os.waitpid` has it."""
LONGEST = 1 << 18
"""Bytes of a command with its environment."""
LIBC = ctypes.CDLL(None)
DECIDING = "rigctl.campaign.deciding"
TRUTH = ["-m", "sim_rig", "truth"]
HEAVY = ("scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats.qmc")


def take_terminal() -> None:
    """Have the terminal that is standard output for this process's own."""
    os.setsid()
    fcntl.ioctl(1, termios.TIOCSCTTY, 0)


def take_terminal_under_nohup() -> None:
    """The same, and do not end when the terminal is closed."""
    take_terminal()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


BEFORE = {act.__name__: act for act in (take_terminal, take_terminal_under_nohup)}
"""What a process may do before it begins, as `preexec_fn`, once its streams are in place."""


class Forked(subprocess.Popen[Any]):
    """As `subprocess.Popen([sys.executable, "-m", MODULE, ...])`, begun in a hundredth of the time.

    Streams, times and signals are `Popen`'s; replaced are how the process begins, and, since it is another one's child,
    who says that it has ended.
    """

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        cwd, env, session, streams = rest[4], rest[5], rest[-2], rest[9:15]
        interpreter, *options, module = args[: args.index("-m") + 2]
        environment = dict(os.environ if env is None else env)
        if interpreter != sys.executable or set(options) - {"-P", "-m"}:
            raise ValueError(f"{args}: only what this interpreter would run is forked")
        if rest[1] not in {None, *BEFORE.values()} or rest[3]:
            raise ValueError(f"{args}: what has to be done, or kept open, before it begins needs a process of its own")
        request = {
            "module": module,
            "arguments": [os.fspath(word) for word in args[args.index("-m") + 2 :]],
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": environment,
            "session": bool(session),
            "before": getattr(rest[1], "__name__", None),
        }
        given = _given(streams)
        self._status, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(_parent()[1], [json.dumps(request).encode()], [*given, theirs.fileno()])
        (self.pid,) = NUMBER.unpack(self._status.recv(NUMBER.size))
        self._child_created = True
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        try:
            told = self._status.recv(NUMBER.size, socket.MSG_DONTWAIT if flags & os.WNOHANG else 0)
        except BlockingIOError:
            return 0, 0
        self._status.close()
        return self.pid, NUMBER.unpack(told)[0] if told else signal.SIGKILL  # its parent was ended, by whoever

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def _given(streams: Sequence[int]) -> list[int]:
    """Input, output and errors, of the six numbers that `Popen` has of them; what is not redirected stays as it is."""
    return [number if number != -1 else usual for usual, number in enumerate((streams[0], streams[3], streams[5]))]


def run(words: Sequence[object], *, within_s: float = 180.0, **options: Any) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of `python -m` these words, with what it says as text."""
    command = [sys.executable, "-m", *map(str, words)]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with Forked(command, **(streams | options)) as process:
        try:
            out, err = process.communicate(timeout=within_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@cache  # one for each process that runs tests; it ends with that one
def _parent() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Return the process that is forked, and the way to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.forked", str(theirs.fileno())],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    return process, ours


def end() -> None:
    """End the process that is forked, if there is one, so that what all of them took counts as taken by the tests."""
    if _parent.cache_info().currsize:
        process, asked = _parent()
        asked.close()
        process.wait()
        _parent.cache_clear()


@cache
def _import_all_of(program: str) -> None:
    gc.disable()
    for place in (program, "rigctl_drivers") if program == "rigctl" else (program,):
        package = importlib.import_module(place)
        for found in pkgutil.walk_packages(package.__path__, f"{place}."):
            if not found.name.endswith("__main__") and not found.name.startswith("rigctl.bench"):
                importlib.import_module(found.name)
    if program == "rigctl":
        for name in (*HEAVY, "sim_rig.truth"):
            importlib.import_module(name)
        from rigctl.config.load import load

        load(ROOT / "config/greenhouse.yaml")  # knows all units from now on
    gc.freeze()
    gc.enable()


def _next_begun(asked: socket.socket) -> Mapping[str, Any]:
    """Fork a process for each request, and return what it is to do in each; exits once nobody can ask any more."""
    status_of: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as ready:
        ready.register(asked, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is not asked:
                    pid, status = status_of.pop(key.fd)
                    ready.unregister(key.fd)
                    os.close(key.fd)
                    status.send(NUMBER.pack(os.waitpid(pid, 0)[1]), socket.MSG_NOSIGNAL)
                    status.close()
                    continue
                message, files, _, _ = socket.recv_fds(asked, LONGEST, 4)
                if not message:
                    sys.exit(0)
                request = json.loads(message)
                _import_all_of(request["module"])
                status = socket.socket(fileno=files[3])
                pid = os.fork()
                if not pid:
                    for number, (_, other) in status_of.items():
                        os.close(number)
                        other.close()
                    asked.close()
                    status.close()
                    return {**request, "streams": files[:3]}
                for number in files[:3]:
                    os.close(number)
                end = os.pidfd_open(pid)
                status_of[end] = pid, status
                ready.register(end, selectors.EVENT_READ)
                status.send(NUMBER.pack(pid), socket.MSG_NOSIGNAL)


def _become(request: Mapping[str, Any]) -> None:
    """Make this process what an interpreter is that was just started for this command, but for its imports."""
    if request["session"]:
        os.setsid()
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    if request.get("before"):
        BEFORE[request["before"]]()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - while the process lives, as the others
    sys.stdout = open(1, "w", buffering=1 if os.isatty(1) else -1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    time.tzset()
    sys.argv[1:] = request["arguments"]
    sys.path[:] = [place for place in sys.path if place != str(ROOT)]
    for place in reversed(request["env"].get("PYTHONPATH", "").split(os.pathsep)):
        if place and place not in sys.path:
            sys.path.insert(0, place)
            if (site := Path(place) / "sitecustomize.py").is_file():
                runpy.run_path(str(site))


def decide_in_twins() -> Callable[..., None]:
    """Let the process that decides be forked from this one, which has imported all that it needs.

    It is this one's child, as it must be: it ends with its parent. So is who tells the simulator's truth. Returns what
    begins them as the program does, so that a test can take that up again.
    """
    begin = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def execute(popen: Any, args: Sequence[str], *rest: Any) -> None:
        if DECIDING not in args and list(args[1:4]) != TRUTH:
            begin(popen, args, *rest)
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        popen.pid = os.fork()
        if not popen.pid:
            try:
                module = args.index("-m") + 1
                request = {"arguments": args[module + 1 :], "cwd": Path.cwd(), "session": rest[-2]}
                request |= {"env": dict(os.environ if rest[5] is None else rest[5]), "streams": _given(rest[9:15])}
                _become_twin(before, request, args[module])
            except BaseException:  # noqa: BLE001 - as an interpreter does
                traceback.print_exc()
            finally:
                os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        popen._child_created = True
        popen._close_pipe_fds(*rest[9:15])

    subprocess.Popen._execute_child = execute  # type: ignore[attr-defined]
    return begin  # type: ignore[no-any-return]


def _become_twin(mask: Iterable[int], request: Mapping[str, Any], module: str) -> None:
    """Be a process of this module, forked from one that goes on with threads, signals and files of its own."""
    gc.freeze()  # nothing of that one may be closed here: files have other numbers now
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    found = list(sys.path)  # as the program tells it
    _become({**request, "streams": [os.dup(stream) for stream in request["streams"]]})
    sys.path[:] = found
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        if "rw-s" in line and "/" in line:  # of a journal, whose disk it would keep busy
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            LIBC.munmap(ctypes.c_void_p(first), ctypes.c_size_t(last - first))
    if module != DECIDING:
        _play(module)
    sys.modules["__main__"] = program = importlib.import_module(DECIDING)
    program.main()


def main() -> None:
    """Be forked, again and again, with everything imported that the program needs."""
    from rigctl.threads import keep_to_one_thread

    keep_to_one_thread()
    request = _next_begun(socket.socket(fileno=int(sys.argv[1])))
    _become(request)
    decide_in_twins()
    _play(request["module"])


def _play(module: str) -> None:
    """Do what the module does as a program, and end as it ends."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            raise
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except (OSError, ValueError):
            raise ended from None
        os._exit((ended.code or 0) & 0xFF)  # not one by one what was imported for all: that takes a tenth of a second


if __name__ == "__main__":
    main()
