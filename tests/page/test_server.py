import json
import re
import sqlite3

import pytest

from rigctl.campaign import control
from rigctl.page.gatherer import SECRET
from rigctl.page.render import SECTIONS
from tests.page.served import asking, copied, log_in, token_for

# reading ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_is_one_document_without_a_login(state):
    """First view at most 150 kB with all its files; no forms that act, no cookie, nothing from elsewhere."""
    with asking(state) as client:
        page = client.get("/")
        files = re.findall(r'(?:src|href)="(assets/[^"]+)"', page.text)
        sizes = [len(client.get(f"/{file}").content) for file in files]
    assert page.status_code == 200
    assert "greenhouse" in page.text
    assert len(page.content) + sum(sizes) <= 150_000
    assert 'action="act/' not in page.text
    assert "set-cookie" not in page.headers
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page.text)


def test_every_answer_carries_the_policy(state, golden):
    """Whatever is asked for, also what is not there."""
    with asking(state) as client:
        for path in ("/", "/login", "/healthz", "/data/series.json", "/assets/page.css", "/nothing", "/assets/nothing"):
            headers = client.get(path).headers
            golden(headers["content-security-policy"])
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"


def test_files_named_with_their_hash_are_kept_for_good(state):
    """Another name, or none, is asked for anew; what the browser has already is not sent again."""
    with asking(state) as client:
        page = client.get("/").text
        named = re.search(r"assets/page\.css\?v=\w+", page)[0]
        kept = client.get(f"/{named}")
        plain = client.get("/assets/page.css")
        wrong = client.get("/assets/page.css?v=0123456789abcdef")
        again = client.get("/assets/page.css", headers={"If-None-Match": plain.headers["etag"]})
    assert "immutable" in kept.headers["cache-control"]
    assert [a.headers["cache-control"] for a in (plain, wrong)] == ["no-cache", "no-cache"]
    assert (again.status_code, again.content) == (304, b"")


def test_series_are_json_and_not_sent_twice(state):
    """As long as nothing has changed."""
    with asking(state) as client:
        first = client.get("/data/series.json")
        again = client.get("/data/series.json", headers={"If-None-Match": first.headers["etag"]})
    assert first.json()["trials"] > 0
    assert again.status_code == 304


def test_before_there_is_a_journal_the_page_waits(tmp_path, golden):
    """It says so, and looks again by itself; the directory may be missing, too."""
    with asking(tmp_path / "not yet") as client:
        page = client.get("/")
        assert (page.status_code, client.get("/data/series.json").status_code) == (200, 503)
    golden(page.text)
    assert 'http-equiv="refresh"' in page.text


def test_a_journal_that_comes_later_is_shown(finished, tmp_path, golden):
    """The server was there first."""
    with asking(tmp_path / "state") as client:
        golden(client.get("/").text)
        copied(finished, tmp_path / "state")
        client.door.app.state.gatherer._seen_s = float("-inf")  # a second later
        assert "greenhouse" in client.get("/").text


def test_a_damaged_journal_is_told_in_words(state, golden):
    """The page says what it is, and the server goes on."""
    (state / "journal.sqlite").write_bytes(b"this is no journal" * 100)
    with asking(state) as client:
        page = client.get("/")
    assert page.status_code == 200
    golden(page.text)


def test_one_trials_log_can_be_asked_for(state):
    """By number; what is no number is all of them."""
    with asking(state) as client:
        all_of_them, one, none = (client.get(path).text for path in ("/", "/?trial=2", "/?trial=two"))
    assert one != all_of_them
    assert len(one) < min(len(all_of_them), len(none))


def test_the_server_leaves_no_trace_in_the_state_directory(state):
    """It writes nothing: not into the journal, no lock, no file of its own."""

    def files():  # SQLite's shared memory is whoever reads last's
        return {path.name: path.read_bytes() for path in state.iterdir() if not path.name.endswith("-shm")}

    before = files()
    with asking(state) as client:
        client.get("/")
        client.get("/data/series.json")
    after = files()
    assert {name: data for name, data in after.items() if data or name in before} == before


def test_a_writer_is_not_kept_waiting(state):
    """While the page is looked at, another program takes the journal's write lock at once."""
    with asking(state) as client, sqlite3.connect(state / "journal.sqlite", timeout=0) as writer:
        client.get("/")
        writer.execute("BEGIN EXCLUSIVE")
        assert client.get("/healthz").status_code == 200
        writer.execute("ROLLBACK")


def test_who_asks_for_the_head_of_the_events_is_not_kept(state):
    """There is no body to wait for."""
    with asking(state) as client:
        answer = client.head("/events")
        readers = client.get("/healthz").json()["readers"]
    assert (answer.status_code, readers) == (200, 0)


def test_health_says_what_it_sees(state):
    """For whatever watches over it."""
    with asking(state) as client:
        before = client.get("/healthz").json()
        client.get("/")
        after = client.get("/healthz").json()
    assert before == {"ok": True, "readers": 0, "journal": False}
    assert after["journal"] is True


# acting -------------------------------------------------------------------------------------------------------------


def test_without_tokens_nobody_can_log_in(state, golden):
    """The page says how one is made, and shows no form."""
    with asking(state) as client:
        page = client.get("/login").text
    golden(page)
    assert "<form" not in page


@pytest.mark.parametrize(
    ("path", "verb"),
    [("finish", "stop"), ("stop", "stop"), ("safe", "safe"), ("pause", "pause"), ("resume", "resume")],
)
def test_who_is_logged_in_acts_by_name(state, campaign, path, verb, golden):
    """Each act goes over the control socket, once, with who did it and why."""
    secret = token_for(state)
    with asking(state) as client:
        csrf = log_in(client, secret)
        answer = client.post(f"/act/{path}", data={"csrf": csrf, "why": "a leak"})
    assert (answer.status_code, answer.headers["location"]) == (303, "../")
    (asked,) = [request for request in campaign.asked if request.verb != "note"]
    assert (asked.verb, asked.why) == (verb, "a leak")
    golden(asked.who)


def test_trials_and_alarms_are_named_by_number(state, campaign):
    """Whole numbers, and nothing else."""
    with asking(state) as client:
        csrf = log_in(client, token_for(state))
        void = client.post("/act/void", data={"csrf": csrf, "trial": "3", "why": "spilled"})
        ack = client.post("/act/ack", data={"csrf": csrf, "alarm": "7"})
        wrong = [client.post("/act/void", data={"csrf": csrf, "trial": t}) for t in ("-1", "1e3", "", "9" * 99, "٣")]
    assert (void.status_code, ack.status_code) == (303, 303)
    assert [answer.status_code for answer in wrong] == [400, 400, 400, 400, 303]
    assert [dict(r.arguments) for r in campaign.asked if r.verb in ("void", "ack")][:2] == [{"trial": 3}, {"alarm": 7}]


def test_what_the_campaign_refuses_is_told_in_its_words(state, campaign, golden):
    """As a page for people, as JSON for programs."""
    campaign.refuse = "nobody has paused this campaign"
    with asking(state) as client:
        csrf = log_in(client, token_for(state))
        page = client.post("/act/resume", data={"csrf": csrf})
        told = client.post("/act/resume", data={"csrf": csrf}, headers={"Accept": "application/json"})
    assert (page.status_code, told.status_code) == (409, 409)
    golden(page.text)
    assert told.json()["ok"] is False


def test_without_a_campaign_that_runs_nothing_can_be_done(state, golden):
    """It is said, and nothing is written."""
    secret = token_for(state)
    with asking(state) as client:
        csrf = log_in(client, secret)
        answer = client.post("/act/pause", data={"csrf": csrf})
    assert answer.status_code == 409
    golden(answer.text)


def test_a_campaign_that_does_not_answer_is_told_apart_from_a_refusal(state, monkeypatch):
    """Programs may ask again."""

    def hangs(*_, **__):
        raise control.CampaignSilent("it hangs")

    with asking(state) as client:
        csrf = log_in(client, token_for(state))
        monkeypatch.setattr(control, "ask", hangs)
        assert client.post("/act/pause", data={"csrf": csrf}).status_code == 504


def test_an_unknown_act_is_refused(state, campaign):
    """Only what the page offers goes to the campaign."""
    with asking(state) as client:
        csrf = log_in(client, token_for(state))
        answer = client.post("/act/reset-trip", data={"csrf": csrf})
    assert answer.status_code == 404
    assert campaign.verbs() == ["note"]


def test_logging_out_ends_it(state, campaign):
    """The cookie is taken back, and a copy of it is worth nothing."""
    with asking(state) as client:
        csrf = log_in(client, token_for(state))
        cookies = dict(client.cookies)
        assert client.post("/logout", data={"csrf": csrf}).status_code == 303
        client.cookies.update(cookies)
        answer = client.post("/act/pause", data={"csrf": csrf})
    assert answer.status_code == 403
    assert "pause" not in campaign.verbs()


def test_a_revoked_token_ends_its_sessions(state, campaign):
    """Before the next act, not after it."""
    from rigctl.page.access import TokenFile

    with asking(state) as client:
        csrf = log_in(client, token_for(state))
        TokenFile(state).revoke("Anna")
        answer = client.post("/act/pause", data={"csrf": csrf})
    assert answer.status_code == 403
    assert "revoked" in answer.text
    assert "pause" not in campaign.verbs()


def test_forms_of_different_people_differ(state):
    """Each has a secret word of its own; what stands in its place is never sent."""
    anna, ben = token_for(state, "Anna"), token_for(state, "Ben")
    with asking(state) as client:
        first = log_in(client, anna)
        page = client.get("/").text
        client.cookies.clear()
        second = log_in(client, ben)
    assert first != second
    assert SECRET not in page


def test_logins_are_kept(state, campaign):
    """Who, and from where."""
    with asking(state) as client:
        log_in(client, token_for(state))
    (note,) = campaign.asked
    assert (note.who, note.arguments["act"], note.arguments["outcome"]) == ("Anna", "login", "logged in")
    assert "testclient" in note.arguments["argument"]


def test_without_a_campaign_the_audit_is_a_file_beside_the_journal(state):
    """Logins and refusals, one JSON object per line, for its owner alone; no token in it."""
    secret = token_for(state)
    with asking(state) as client:
        client.post("/login", data={"token": "guess-me"})
        log_in(client, secret)
    path = state / "page-audit.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(entry["verb"] for entry in entries) == ["denied", "login"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert "guess-me" not in path.read_text()
    assert secret not in path.read_text()


@pytest.mark.slow
def test_each_panel_leads_to_what_explains_it(finished):
    """In the manual that rigctl brings along; what is not in it is not there."""
    with asking(finished) as client:
        links = re.findall(r'class="help" href="([^"#]+)#([^"]+)"', client.get("/").text)
        assert len(links) == len(SECTIONS) - 1
        assert {page for page, _ in links} == {"help/watch-it-in-a-browser"}
        manual = client.get("/help/watch-it-in-a-browser")
        assert all(f'id="{place}"' in manual.text for _, place in links)
        others = set(re.findall(r'<a href="([a-z-]+)(?:#[^"]*)?">', manual.text))
        assert {client.get(f"/help/{other}").status_code for other in others} == {200}
        assert (len(others) > 3, client.get("/help/nothing").status_code) == (True, 404)
