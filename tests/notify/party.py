"""The party at the other end: a web server that takes what it is sent, and behaves as it is told."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PLANTED = "Zr7plantedsecretQ9"


@dataclass
class Party:
    """Listens on a port of this machine."""

    port: int = 0
    messages: list = field(default_factory=list)
    """Bodies of what was posted, JSON."""
    asked: list = field(default_factory=list)
    """Paths that were asked for."""
    status: int = 200
    hangs: bool = False
    came: threading.Event = field(default_factory=threading.Event)
    free: threading.Event = field(default_factory=threading.Event)
    """Lets go of those that hang."""

    @property
    def url(self):
        return f"json://joe:{PLANTED}@127.0.0.1:{self.port}/{PLANTED}path?x={PLANTED}"

    @property
    def ping(self):
        return f"http://127.0.0.1:{self.port}/ping/{PLANTED}"


@contextmanager
def listening(**how) -> Iterator[Party]:
    party = Party(**how)

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(lambda: party.messages.append(json.loads(body)))

        def do_GET(self):
            self._answer(lambda: party.asked.append(self.path))

        def _answer(self, keep):
            if party.hangs:
                party.came.set()
                party.free.wait(60)
                return
            if party.status == 200:
                keep()
            party.came.set()
            self.send_response(party.status)
            self.end_headers()
            self.wfile.write(f"no: {self.path}".encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    party.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield party
    finally:
        party.free.set()
        server.shutdown()
        thread.join()
        server.server_close()
