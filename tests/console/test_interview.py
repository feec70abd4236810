"""The questions of `rigctl init` at a real terminal: wrong answers, defaults, its end; nothing half done."""

import os
import pty
import select
import sys
import termios
import time

import pytest

from rigctl.config.load import load
from tests.forked import Forked, take_terminal

BY_HAND = [sys.executable, "-m", "rigctl", "init", "new.yaml", "--by-hand"]
ANSWER_S = 60.0
PRESSED_AGAIN_S = 5.0

pytestmark = pytest.mark.system


class Terminal:
    """A program at a pseudo-terminal, and what it has said."""

    def __init__(self, command, folder, columns=80, env=None):
        self.near, far = pty.openpty()
        termios.tcsetwinsize(far, (24, columns))
        # a controlling terminal, so that Ctrl-C is a signal
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), far)
        self.process = Forked(command, cwd=folder, env=env, preexec_fn=take_terminal, **streams)
        os.close(far)
        self.said, self._read_to = "", 0

    def wait_for(self, text):
        """Read until it says this, after what it was last waited for."""
        end_s = time.monotonic() + ANSWER_S
        while text not in self.said[self._read_to :] and self._take(end_s - time.monotonic()):
            pass
        at = self.said.find(text, self._read_to)
        assert at >= 0, f"ended, or silent for {ANSWER_S:g} s, without {text!r}: {self.said}"
        self._read_to = at + len(text)

    def answer(self, question, text):
        self.wait_for(question)
        self.wait_for(": ")
        os.write(self.near, text.encode() + b"\n")

    def press(self, key, until):
        """Press a key, and again after a while of silence, until it says this.

        Python loses a Ctrl-C that comes right before it begins to read a line (9 of 1000 sent with the question's
        first words): a person presses again, too.
        """
        for _ in range(round(ANSWER_S / PRESSED_AGAIN_S)):
            os.write(self.near, key)
            while until not in self.said[self._read_to :]:
                if not self._take(PRESSED_AGAIN_S):
                    break
            else:
                return
        raise AssertionError(f"ended, or heard no {key!r}, without {until!r}: {self.said}")

    def end(self):
        """Read the rest and return the exit code."""
        while self._take(ANSWER_S):
            pass
        code = self.process.wait(ANSWER_S)
        os.close(self.near)
        return code

    def _take(self, most_s):
        ready, _, _ = select.select([self.near], [], [], max(most_s, 0.0))
        try:
            data = os.read(self.near, 4096) if ready else b""
        except OSError:  # the other end was closed
            data = b""
        self.said += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)


@pytest.fixture
def terminal(tmp_path):
    made = []

    def start(*more, command=BY_HAND):
        made.append(Terminal([*command, *more], tmp_path))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_wrong_answers_are_explained_and_asked_again(terminal, tmp_path):
    """A wrong answer to each question, then a right one: the file holds what was said last."""
    t = terminal()
    for question, wrong, told, right in (
        ("Its name", "a+b", "must start with a letter", "growth"),
        ("Its unit", "furlongs/fortnite", "known unit", "cm2/day"),
        ("maximise or minimise", "big", "must be maximise or minimise", ""),
        ("be content with", "plenty", "must be a number", "300"),
        ("Name of the first", "", "t least one is needed", "ph"),
        ("ph: unit", "", "got nothing", "pH"),
        ("ph: lowest and highest", "7 .. 5", "lower end must be below", "5 .. 7"),
        ("ph: uncontrolled", "often", "uniform or unknown", "6.3 +- 0.3"),
        ("ph: step", "0.3", "a whole number of times", ""),
        ("Name of the next", "growth", "in use already", ""),
        ("Currency", "euros", "three-letter code", ""),
        ("whole campaign cost", "0", "more than nothing", "40"),
        ("Controlling ph costs", "1 USD", "EUR", "0.40"),
        ("Every trial costs besides", "little", "amount of money", "0.05"),
    ):
        t.answer(question, wrong)
        t.wait_for(told)
        assert not (tmp_path / "new.yaml").exists()
        t.answer(question, right)
    t.wait_for("Next: rigctl check new.yaml")
    assert t.end() == 0
    loaded = load(tmp_path / "new.yaml")
    assert (loaded.problem.known_costs, loaded.problem.budget) == ((0.45,), 40_000_000)
    assert max(map(len, t.said.splitlines())) <= 160


@pytest.mark.parametrize(("sent", "name"), [(b"\x03", "Ctrl-C"), (b"\x04", "the end of the input")])
def test_whoever_ends_it_leaves_nothing_behind(terminal, tmp_path, sent, name):
    """Ctrl-C or Ctrl-D in the middle: it says so, exits with 2, and there is no file."""
    t = terminal("--outcome", "growth cm2/day")
    t.answer("Name of the first", "ph")
    t.wait_for("ph: unit")
    t.press(sent, until="\nrigctl: init: ")
    t.wait_for("nothing was written")
    assert t.end() == 2
    assert list(tmp_path.iterdir()) == []


def test_what_flags_have_said_is_not_asked(terminal, tmp_path):
    """Only the budget is missing, so only it and what belongs to it are asked."""
    t = terminal("--outcome", "growth cm2/day", "--variable", "ph pH 5 7 cost=0.4", "--per-trial", "0")
    t.answer("Currency", "")
    t.answer("whole campaign cost", "20")
    t.wait_for("Next: ")
    assert t.end() == 0
    assert "Its name" not in t.said
    assert load(tmp_path / "new.yaml").problem.budget == 20_000_000


def test_without_wiring_it_asks_for_none(terminal, tmp_path):
    """Neither --by-hand nor --probe: it asks where to look, and Enter means that a person does the trials."""
    t = terminal("--budget", "9 EUR", "--outcome", "y g", "--variable", "x mM 0 1", command=BY_HAND[:-1])
    t.answer("Ports and hosts", "10.0.0.7:http")
    t.wait_for("must be a serial port, a host")
    t.answer("Ports and hosts", "")
    t.wait_for("Next: ")
    assert t.end() == 0
    assert not load(tmp_path / "new.yaml").wired
