"""The page's server as it listens: real connections, in a thread of this process."""

import http.client
import json
import socket
import threading
import time
import urllib.request
from contextlib import closing, contextmanager

import pytest

from rigctl.errors import UsageError
from rigctl.page import door, serving
from rigctl.page import server as page_server
from rigctl.page.access import TokenFile
from rigctl.page.serving import ServedAt, listening, server_of, url_of
from tests.page.served import NoScholar

WITHIN_S = 60.0
"""Wall seconds after which what a test waits for is taken not to come."""


@contextmanager
def served(state, **options):
    """Serve a state directory at a free port; gives the port."""
    place = ServedAt(state, port=0, **options)
    listener, server = listening(place), server_of(place, NoScholar())
    thread = threading.Thread(target=serving.serve, args=[server, listener])
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(WITHIN_S)
        listener.close()
        assert not thread.is_alive()


def connected(port):
    return socket.create_connection(("127.0.0.1", port), WITHIN_S)


def request(port, path, *headers):
    line = connected(port)
    text = "\r\n".join([f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers, "", ""])
    line.sendall(text.encode())
    return line


def head(line):
    """The status line of an answer."""
    return line.makefile("rb").readline().decode().strip()


def events(file):
    """The events that come, as (name, data)."""
    name = ""
    for raw in file:
        text = raw.decode().rstrip("\r\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))


@pytest.mark.slow
def test_a_reader_is_sent_all_sections_and_then_what_changes(state):
    """First everything, then only what is another than before."""
    with served(state) as port, closing(request(port, "/events")) as line:
        coming = events(line.makefile("rb"))
        name, first = next(coming)
        _, second = next(coming)
    assert name == "sections"
    assert {"now", "why", "money", "course", "log"} <= set(first)
    assert set(second) < set(first)
    assert all(second[section] != first[section] for section in second)


def test_a_reader_that_comes_again_is_not_sent_what_it_has(state):
    """By the number of the last event it has seen; of another server's events nothing is known."""
    with served(state) as port:
        with closing(request(port, "/events")) as line:
            number = next(text for text in line.makefile("rb") if text.startswith(b"id: ")).decode().split()[1]
        with closing(request(port, "/events", f"Last-Event-ID: {number}")) as line:
            _, again = next(events(line.makefile("rb")))
        with closing(request(port, "/events", "Last-Event-ID: other-1")) as line:
            _, other = next(events(line.makefile("rb")))
    assert len(again) < len(other)


def test_another_journal_is_told_to_be_loaded_anew(state, finished):
    """The file was replaced by another campaign's, or has gone."""
    with served(state) as port, closing(request(port, "/events")) as line:
        coming = events(line.makefile("rb"))
        next(coming)
        (state / "journal.sqlite").rename(state / "aside.sqlite")
        assert next(name for name, _ in coming if name != "sections") == "reload"


def test_too_many_readers_are_sent_away(state):
    """Plainly, and who reads is not disturbed; when one goes there is room again."""
    with served(state, readers=2) as port:
        lines = [request(port, "/events") for _ in range(2)]
        for line in lines:
            assert "200" in head(line)
        with closing(request(port, "/events")) as third:
            assert "503" in head(third)
        lines.pop().close()
        waited = threading.Event()
        for _ in range(2000):
            with closing(request(port, "/events")) as another:
                if "200" in head(another):
                    break
            waited.wait(0.01)
        else:
            raise AssertionError("there is no room again")
        lines.pop().close()


@pytest.mark.slow
def test_a_reader_that_does_not_read_is_dropped(state, monkeypatch):
    """What it is sent does not pile up; others go on."""
    monkeypatch.setattr(page_server, "SLOW_S", 0.2)
    monkeypatch.setattr(page_server, "event", lambda *_: "x" * 50_000_000)
    with served(state) as port, closing(socket.socket()) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", port))
        slow.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        waited = threading.Event()
        for seen in range(2000):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=WITHIN_S) as answer:
                readers = json.load(answer)["readers"]
            if seen and readers == 0:
                break
            waited.wait(0.01)
        assert readers == 0


def test_who_begins_a_request_and_does_not_go_on_is_cut_off(state, monkeypatch):
    """Nothing at all, half a header, a header at a time (slowloris)."""
    monkeypatch.setattr(serving, "HEADERS_S", 0.3)
    with served(state) as port:
        with closing(connected(port)) as silent, closing(connected(port)) as half:
            half.sendall(b"GET / HTTP/1.1\r\nHost: 127")
            assert ended(silent)
            assert ended(half)
        with closing(connected(port)) as drip:
            drip.sendall(b"GET / HTTP/1.1\r\n")
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                send_slowly(drip)


@pytest.mark.parametrize(("verb", "path"), [("GET", "/"), ("POST", "/login"), ("POST", "/act/safe"), ("GET", "/none")])
def test_who_goes_on_sending_what_was_answered_is_cut_off(state, monkeypatch, verb, path):
    """A body that never ends holds no connection once its request has its answer."""
    monkeypatch.setattr(serving, "HEADERS_S", 0.3)
    monkeypatch.setattr(door, "FORM_S", 0.1)
    monkeypatch.setattr(serving, "IDLE_S", 0.2)
    kind = "Content-Type: application/x-www-form-urlencoded\r\n"
    with served(state) as port, closing(connected(port)) as drip:
        start = f"{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}Transfer-Encoding: chunked\r\n\r\n"
        drip.sendall(start.encode())
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send_slowly(drip, "1\r\na\r\n")


def test_who_was_refused_for_too_much_may_ask_again(state):
    """On the same connection, when all has come."""
    with served(state) as port, closing(connected(port)) as line:
        line.sendall(f"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 9\r\n\r\nsome".encode())
        answers = line.makefile("rb")
        assert b" 404 " in answers.readline()
        line.sendall(f"thingGET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert any(b" 200 " in answer for answer in answers)


def send_slowly(line, text="X-1: 1\r\n"):
    """The same again and again, without end."""
    pause = threading.Event()
    for _ in range(500):
        line.sendall(text.encode())
        pause.wait(0.01)


def ended(line):
    """Tell whether the other end has ended it."""
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True


def test_endless_headers_are_refused(state):
    """More than 16 kB of them."""
    with served(state) as port, closing(connected(port)) as line:
        line.sendall(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 1000) for n in range(40)))
        assert "400" in head(line)


def test_the_server_ends_while_somebody_reads(state):
    """Readers do not keep it."""
    began_s = time.monotonic()
    with served(state) as port:
        line = request(port, "/events")
        assert "200" in head(line)
    assert time.monotonic() - began_s < WITHIN_S
    line.close()


# where it cannot listen ---------------------------------------------------------------------------------------------


def test_a_port_in_use_is_named(tmp_path):
    """With the remedy."""
    with closing(listening(ServedAt(tmp_path, port=0))) as first:
        port = first.getsockname()[1]
        with pytest.raises(UsageError) as refused:
            listening(ServedAt(tmp_path, port=port))
        assert (refused.value.flaw.where, "--port 0" in refused.value.flaw.remedy) == (f"--port {port}", True)


def test_a_port_for_root_is_named(tmp_path, monkeypatch, golden):
    """What is allowed, and what to do for port 80."""

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with golden.raises(UsageError):
        listening(ServedAt(tmp_path, port=80))


@pytest.mark.parametrize("host", ["192.0.2.9", "no such host", "a" * 300])
def test_a_host_that_is_not_this_machine_is_named(tmp_path, host, monkeypatch, golden):
    """An address of nobody here, a name that leads nowhere, what is no name."""
    if host == "no such host":

        def lost(*_, **__):
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", lost)
    with golden.raises(UsageError):
        listening(ServedAt(tmp_path, host, 0))


def test_where_a_browser_finds_it(tmp_path):
    """Also where it listens everywhere, or at an address of the sixth version."""
    with closing(listening(ServedAt(tmp_path, port=0))) as line:
        port = line.getsockname()[1]
        assert url_of(ServedAt(tmp_path), line) == f"http://127.0.0.1:{port}/"
        assert url_of(ServedAt(tmp_path, "::1"), line) == f"http://[::1]:{port}/"
        assert url_of(ServedAt(tmp_path, "0.0.0.0"), line) == f"http://localhost:{port}/"  # noqa: S104


@pytest.mark.system
def test_fault_85_behind_one_address_a_guesser_shuts_nobody_out(state):
    """Real connections: while four guess as fast as they can, the first try of the right token gets in."""
    secret, guessed, over = TokenFile(state).create("Anna", by="a test"), [], threading.Event()

    def post(port, token):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)) as line:
            line.request("POST", "/login", f"token={token}", {"Content-Type": "application/x-www-form-urlencoded"})
            return line.getresponse().status

    def guess(port):
        while not over.is_set():
            guessed.append(post(port, "rigctl-guess"))

    with served(state) as port:
        guessers = [threading.Thread(target=guess, args=[port]) for _ in range(4)]
        for guesser in guessers:
            guesser.start()
        try:
            found = []
            for more in (20, 100, 200):
                while len(guessed) < more:
                    time.sleep(0.01)
                found.append(post(port, secret))
        finally:
            over.set()
            for guesser in guessers:
                guesser.join()
    assert found == [303] * 3
    assert set(guessed) == {403, 429}
