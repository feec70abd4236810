"""Several campaigns on one wall: it shows all, also those that cannot be seen, and nobody acts there."""

import re

import pytest
from starlette.testclient import TestClient

from rigctl.codec import to_json
from rigctl.errors import UsageError
from rigctl.page import wall as walls
from rigctl.page.card import Card
from rigctl.page.serving import ServedAt, check_place
from tests.page.conftest import told
from tests.page.served import BASE, HOSTS, asking

ELSEWHERE = "http://rig2.example:8765"


@pytest.fixture
def shown(finished, tmp_path, monkeypatch):
    """A wall of a campaign that has ended, an empty directory, and three other pages."""
    answers = {
        f"{ELSEWHERE}/": to_json(
            Card("<b>lathe</b>", "tripped", abnormal=True, severity="INVALID", alarm="spindle too hot")
        ),
        f"{ELSEWHERE}/gone/": OSError(111, "Connection refused"),
        f"{ELSEWHERE}/other/": '{"hello": "world"}',
    }

    def fetched(address):
        answer = answers[address.removesuffix("data/card.json")]
        if isinstance(answer, OSError):
            raise answer
        return Card.read(answer)

    monkeypatch.setattr(walls, "_fetched", fetched)
    given = walls.places([str(finished), str(tmp_path), *answers])
    with TestClient(walls.wall(given, HOSTS), base_url=BASE) as client:
        yield client


def test_each_campaign_has_its_card(shown):
    """State, trial, money and the worst alarm; who cannot be seen says why; nothing of another page is markup."""
    page = shown.get("/")
    assert page.text.count("<section") == 5
    for part in (
        "greenhouse",
        "ended",
        "EUR",
        "&lt;b&gt;lathe",
        "spindle too hot",
        "Connection refused",
        "no journal here",
    ):
        assert part in page.text, part
    assert page.text.count("not seen") == 3
    assert shown.get("/cards").text in page.text
    assert shown.get("/assets/page.css").status_code == 200


def test_nobody_acts_on_a_wall(shown, golden):
    """It has the page's headers, answers to its own names only, and no form, login or act."""
    page = shown.get("/")
    golden(page.headers["content-security-policy"])
    assert "<form" not in page.text
    assert shown.get("/", headers={"host": "evil.example"}).status_code == 421
    assert [shown.post(f"/{where}").status_code for where in ("act/safe", "login", "")] == [404, 404, 405]


@pytest.mark.slow
def test_each_card_leads_to_its_page(shown):
    """That of a directory here stands beside the wall, whole but for what acts; one without a journal says so."""
    links = re.findall(r'<h2><a href="([^"]*)"', shown.get("/").text)
    assert links == ["0/", "1/", f"{ELSEWHERE}/", f"{ELSEWHERE}/gone/", f"{ELSEWHERE}/other/"]
    page = shown.get("/0/")
    assert 'id="course"' in page.text
    assert shown.get("/0/assets/page.css").status_code == 200
    assert shown.get("/0/data/series.json").status_code == 200
    assert shown.get("/1/").status_code == 200
    assert 'method="post"' not in page.text + shown.get("/0/login").text
    assert [shown.post(f"/0/{where}").status_code for where in ("act/safe", "login", "logout")] == [404, 405, 404]
    assert shown.get("/0/", headers={"host": "evil.example"}).status_code == 421
    assert 'href="../"' in shown.get("/0/no/such").text


def test_a_page_tells_a_wall_what_it_shows(finished):
    """The card that is fetched is the one that is made here."""
    with told(finished) as (facts, _):
        card = Card.of(facts, None)
    assert Card.read(to_json(card)) == card
    with asking(finished) as client:
        sent = Card.read(client.get("/data/card.json").text)
    assert (sent.rig, sent.spent, sent.best) == (card.rig, card.spent, card.best)


@pytest.mark.parametrize(
    "place",
    ["file:///etc/passwd", "http:///", "no/such/directory", "ftp://rig2.example", "http://me:secret@rig2.example"],
)
def test_a_wall_shows_directories_and_pages_only(place, golden):
    """Refused before it listens."""
    with pytest.raises(UsageError) as refused:
        walls.places([place])
    golden(str(refused.value))


def test_a_wall_needs_no_token_and_says_who_can_read_it(tmp_path, golden):
    """A token is for who may act."""
    golden(check_place(ServedAt(tmp_path, "0.0.0.0"), acts=False))  # noqa: S104 - not listened to
