"""The page's server for tests: asked in this process, beside a campaign that only answers."""

import asyncio
import re
import shutil
import threading
from contextlib import contextmanager

from starlette.testclient import TestClient

from rigctl.campaign import control
from rigctl.campaign.lock import state_lock
from rigctl.errors import UsageError
from rigctl.page.access import TokenFile
from rigctl.page.door import Door
from rigctl.page.server import application

BASE = "http://127.0.0.1:8765"
HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "rig.example"})


class Clock:
    """Stands still unless told."""

    now_s = 1000.0

    def __call__(self):
        return self.now_s


class NoScholar:
    """Knows nothing of the model."""

    async def studies(self):
        return
        yield

    async def close(self):
        pass


class Answering:
    """Stands in for a campaign that runs: answers every verb, and remembers what it was asked."""

    def __init__(self, directory):
        self.directory = directory
        self.asked = []
        self.refuse = ""
        self.status = {"phase": "running", "rig": "greenhouse", "trials": 24, "trial": None}
        self._ready = threading.Event()
        self._end = None

    def _answer(self, request):
        if request.verb == "status":
            return self.status
        self.asked.append(request)
        if self.refuse:
            raise UsageError(self.refuse)
        return {"reached": [], "failed": {}} if request.verb == "safe" else {}

    def verbs(self):
        return [request.verb for request in self.asked]

    async def _serve(self):
        self._end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        names = ("status", "stop", "safe", "pause", "resume", "ack", "void", "outcome", "note")
        with state_lock(self.directory):  # whoever asks looks who has signed it
            async with control.serving(self.directory, dict.fromkeys(names, self._answer)):
                self._ready.set()
                await self._end.wait()

    @contextmanager
    def running(self):
        thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        thread.start()
        assert self._ready.wait(30)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._end.set)
            thread.join()


def copied(finished, to):
    """A state directory of its own."""
    shutil.copytree(finished, to)
    return to


@contextmanager
def asking(directory, base=BASE, judge=None, **options):
    """Give a client of the page of this state directory."""
    app = Door(application(directory, NoScholar(), judge, **options), HOSTS)
    with TestClient(app, base_url=base, follow_redirects=False) as client:
        client.door = app
        yield client


def token_for(directory, name="Anna"):
    return TokenFile(directory).create(name, by="a test")


def log_in(client, secret):
    """The secret word of the forms of who has logged in."""
    answer = client.post("/login", data={"token": secret})
    assert answer.status_code == 303, answer.text
    found = re.search(r'name="csrf" value="([^"]+)"', client.get("/login").text)
    assert found is not None
    return found[1]
