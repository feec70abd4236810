"""A library that nobody here wrote at our end, a web server at the other, and a secret in every URL."""

import io
import logging
import os
import traceback

import pytest

from rigctl.errors import UsageError
from rigctl.notify.services import NotSent, parsed, ping
from rigctl.notify.texts import Notice
from rigctl.telling import Secret
from tests.notify.party import PLANTED, listening


@pytest.fixture
def root_log():
    """What reaches the log; `caplog` would listen to the library itself."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    logging.getLogger().addHandler(handler)
    yield out
    logging.getLogger().removeHandler(handler)


MESSAGE = Notice("tank: warning, ph", "low", "warning")


@pytest.mark.slow
def test_a_message_arrives_as_it_is():
    """Title, text, and how bad it is."""
    with listening() as party:
        (service,) = parsed([party.url]).services
        assert service.name == "JSON"
        service.send(MESSAGE)
    (got,) = party.messages
    assert (got["title"], got["message"], got["type"]) == ("tank: warning, ph", "low", "warning")


@pytest.mark.parametrize("how", ["refused", "gone", "nonsense"])
def test_what_goes_wrong_is_told_without_the_secret(how, root_log, capfd):
    """Whatever the library or the other end say about it, in an error, a log or a traceback."""
    with listening(status=403 if how == "refused" else 200) as party:
        url, address = party.url, party.ping
        if how == "refused":
            said = refused(url, address)
            assert "403" in said
    if how == "gone":
        assert "taken" in refused(url, address)
    if how == "nonsense":
        found = parsed([f"nonsense-{PLANTED}", url])
        assert (found.refused, [s.name for s in found.services]) == ((1,), ["JSON"])
        assert PLANTED not in f"{found!r} {found}"
    told = capfd.readouterr()
    assert PLANTED not in root_log.getvalue() + told.out + told.err


@pytest.mark.parametrize("how", ["it raises", "it logs"])
def test_what_a_library_says_of_its_urls_is_cleaned(monkeypatch, root_log, how, golden):
    """The URL, its parts, and those parts as they are once decoded."""
    url = f"json://joe:{PLANTED}%2Fmore@127.0.0.1:9/{PLANTED}path"
    says = f"cannot reach {url} as joe with {PLANTED}/more at /{PLANTED}path"

    def notify(*_, **__):
        if how == "it raises":
            raise OSError(says)
        logging.getLogger("apprise").warning(says)
        return False

    (service,) = parsed([url]).services
    monkeypatch.setattr("apprise.Apprise.notify", notify)
    with golden.raises(NotSent) as caught:
        service.send(MESSAGE)
    assert PLANTED not in "".join(traceback.format_exception(caught.value)) + root_log.getvalue()


def refused(url, address):
    """What is said of a message and of a sign of life that are not taken, tracebacks and all."""
    said = []
    for work in (lambda: parsed([url]).services[0].send(MESSAGE), lambda: ping(address)):
        with pytest.raises(NotSent) as caught:
            work()
        said.append(str(caught.value))
        said.append("".join(traceback.format_exception(caught.value)))
    assert PLANTED not in " ".join(said)
    return " ".join(said)


def test_a_sign_of_life_is_a_question_by_http(golden):
    """To the very URL; anything but http is refused."""
    with listening() as party:
        ping(party.ping)
        assert party.asked == [f"/ping/{PLANTED}"]
    with golden.raises(NotSent):
        ping(f"file:///etc/{PLANTED}")


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [
        (0o600, f"# mine\n\n  mailto://{PLANTED}@x.y  \n", None),
        (0o640, "json://x\n", None),
        (0o604, f"json://{PLANTED}\n", "others may read or change it (mode 604); `chmod 600"),
        (0o602, f"json://{PLANTED}\n", "others may read or change it (mode 602)"),
        (0o600, "# nothing\n", "is empty, must hold a URL"),
        (0o600, "json://x\n" * 51, "got 51 lines, must be at most 50"),
        (0o600, b"\xff\xfe" + PLANTED.encode(), "must be text in UTF-8"),
    ],
)
def test_a_file_with_secrets_is_its_owner_s_alone(tmp_path, mode, text, said):
    """Else it is refused, with what to do and without what is in it."""
    path = tmp_path / "notify.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    if said is None:
        assert Secret(file=str(path)).lines() == (text.strip().splitlines()[-1].strip(),)
        return
    with pytest.raises(UsageError) as caught:
        Secret(file=str(path)).lines()
    assert said in str(caught.value)
    assert PLANTED not in "".join(traceback.format_exception(caught.value))


def test_what_is_no_file_or_not_set_is_said(tmp_path):
    """A pipe is not waited for."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    for secret, said in (
        (Secret(file=str(tmp_path / "none")), "is not there, must hold the URLs; write one URL on each line"),
        (Secret(file=str(tmp_path / "pipe")), "must be an ordinary file"),
        (Secret(file=str(tmp_path)), "must be an ordinary file"),
        (Secret(env="NOWHERE"), "environment variable NOWHERE: is not set"),
    ):
        with pytest.raises(UsageError, match=said):
            secret.lines({})
    assert Secret(env="HERE").lines({"HERE": "json://x"}) == ("json://x",)
