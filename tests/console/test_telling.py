"""What `check` and `notify` say of who is told, and that neither says what is secret."""

import pytest

from tests.notify.party import PLANTED, listening

TELLS = 'notify: {urls: {file: n.txt}, alive: {url: {env: PING_URL}}, daily: "8:00"}\n'


@pytest.fixture
def told(bench, monkeypatch):
    """A bench that tells a web server, somebody by mail, and nobody at all."""
    with listening() as party:
        monkeypatch.setenv("PING_URL", party.ping)
        bench.write("told.yaml", (bench.folder / "bench.yaml").read_text() + TELLS)
        bench.write("n.txt", f"{party.url}\nnonsense-{PLANTED}\n")
        (bench.folder / "n.txt").chmod(0o600)
        yield bench, party


@pytest.mark.slow
def test_check_says_whom_by_the_kinds_of_their_services(told, golden):
    """How many, from which severity on, and what was not understood; for people and programs."""
    bench, _ = told
    answer = bench.rigctl("check", "told.yaml")
    golden(answer.out)
    found = bench.rigctl("check", "told.yaml", "--json")
    urls = found.json["tells"]["notify"]["urls"]
    assert (urls["services"], urls["not_understood"]) == (["JSON"], [2])
    assert PLANTED not in answer.out + answer.err + found.out + found.err


@pytest.mark.slow
def test_a_test_message_reaches_whom_it_can(told, golden):
    """Exit 1, with the number of what could not be told; the secret is not among what is said."""
    bench, party = told
    answer = bench.rigctl("notify", "told.yaml", "--test", code=1)
    assert len(party.messages) == 1
    assert party.asked == [f"/ping/{PLANTED}"]
    golden(answer.out.splitlines())
    bench.write("n.txt", party.url)
    bench.rigctl("notify", "told.yaml", "--test", code=0)
    party.status = 403
    refused = bench.rigctl("notify", "told.yaml", "--test", "--json", code=1)
    golden(refused.json["1 JSON"])
    assert PLANTED not in answer.out + answer.err + refused.out + refused.err


def test_what_is_not_installed_is_said(told, monkeypatch, golden):
    """With what to install."""
    bench, party = told
    monkeypatch.setattr("rigctl.console.checking.find_spec", lambda _: None)
    golden(bench.rigctl("notify", "told.yaml").out)
    assert party.messages == []
