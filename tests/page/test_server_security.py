import pytest

from rigctl.page.access import FIRST_S
from rigctl.page.door import hostname, is_loopback
from rigctl.page.serving import ServedAt, check_place, names
from tests.page.served import asking, log_in, token_for

ALL = "0.0.0.0"  # noqa: S104 - nothing is bound here


# names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "evil.example:8765",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "a b",
            "[::1",
            ":",
        ),
        *(
            "127.0.0.1@evil.example",
            "evil.example/127.0.0.1",
            "127.0.0.1:x",
            "192.0.2.9",
            "localhost:8765@evil.example",
        ),
    ],
)
def test_a_name_that_is_not_ours_is_not_answered(state, host):
    """A page of another site that has its name lead to this machine (DNS rebinding) reads and does nothing."""
    with asking(state) as client:
        answers = [
            client.request(m, path, headers={"Host": host})
            for m, path in (("GET", "/"), ("GET", "/events"), ("GET", "/data/series.json"), ("POST", "/act/safe"))
        ]
    assert [answer.status_code for answer in answers] == [421] * 4
    assert "greenhouse" not in "".join(answer.text for answer in answers)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8765", "127.0.0.1:8765", "[::1]:8765", "[::1]", "rig.example."]
)
def test_our_own_names_are(state, host):
    """With any port, in capitals, with a dot at the end."""
    with asking(state) as client:
        assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_an_address_is_ours_where_we_were_reached_at_it(state):
    """A browser cannot be made to ask for a bare address by a name that leads elsewhere."""
    with asking(state, base="http://192.0.2.9:8765") as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/healthz", headers={"Host": "192.0.2.10"}).status_code == 421


def test_two_hosts_are_none(state):
    """A proxy and we might each believe another one."""
    with asking(state) as client:
        answer = client.get("/healthz", headers=[("Host", "localhost"), ("Host", "evil.example")])
    assert answer.status_code in (400, 421)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("a.b:80", "a.b"),
        ("[fe80::1]:1", "fe80::1"),
        ("A", "a"),
        ("a:99999", ""),
        ("u:p@a", ""),
        ("a#b", ""),
        ("a?b", ""),
    ],
)
def test_a_host_header_has_a_name_or_none(host, name):
    """Whatever is no name and no port makes it none."""
    assert hostname(host) == name


# forms from elsewhere -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_form_from_another_site_is_not_carried_out(state, campaign, headers):
    """Also with the right cookie and the right secret word."""
    with asking(state) as client:
        csrf = log_in(client, token_for(state))
        answer = client.post("/act/safe", data={"csrf": csrf}, headers=headers)
    assert answer.status_code == 403
    assert "safe" not in campaign.verbs()


@pytest.mark.parametrize("csrf", ["", "x", "é", None])
def test_a_form_without_the_secret_word_is_not_carried_out(state, campaign, csrf):
    """Also with the right cookie; it is kept in the audit."""
    with asking(state) as client:
        log_in(client, token_for(state))
        answer = client.post("/act/safe", data={} if csrf is None else {"csrf": csrf})
    assert answer.status_code in (403, 415)
    assert "safe" not in campaign.verbs()


def test_the_secret_word_of_another_session_is_none(state, campaign):
    """Each session has its own."""
    anna, ben = token_for(state, "Anna"), token_for(state, "Ben")
    with asking(state) as client:
        annas = log_in(client, anna)
        client.cookies.clear()
        log_in(client, ben)
        assert client.post("/act/safe", data={"csrf": annas}).status_code == 403
    assert "safe" not in campaign.verbs()


def test_without_a_login_nothing_is_carried_out(state, campaign):
    """Whatever the form says."""
    with asking(state) as client:
        codes = [client.post(f"/act/{verb}", data={"csrf": "x"}).status_code for verb in ("safe", "finish", "void")]
    assert codes == [403] * 3
    assert campaign.asked == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_only_a_form_acts(state, campaign, method):
    """A link or a picture does nothing."""
    with asking(state) as client:
        log_in(client, token_for(state))
        answer = client.request(method, "/act/safe")
    assert answer.status_code == 405
    assert "safe" not in campaign.verbs()


def test_the_cookie_is_for_this_page_alone(state):
    """No script reads it, no other site sends it; over TLS it goes over TLS only."""
    secret = token_for(state)
    with asking(state) as client:
        plain = client.post("/login", data={"token": secret}).headers["set-cookie"]
        origin = {"Origin": "https://rig.example", "Host": "rig.example"}
        behind = client.post("/login", data={"token": secret}, headers=origin).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(plain.split("; "))
    assert "Secure" not in plain
    assert "Secure" in behind
    assert secret not in plain


# guessing -----------------------------------------------------------------------------------------------------------


def test_guessing_is_slowed_logged_and_kept(state, campaign, capsys, golden):
    """The second wrong token at once is told to wait; the audit says from where, neither log has a token."""
    secret = token_for(state)
    with asking(state) as client:
        wrong = [client.post("/login", data={"token": "rigctl-guess"}) for _ in range(2)]
        client.door.app.state.desk.throttle.clock = lambda: 1e9  # much later
        later = client.post("/login", data={"token": "rigctl-guess"})
    assert [answer.status_code for answer in (*wrong, later)] == [403, 429, 403]
    assert int(wrong[1].headers["retry-after"]) >= FIRST_S
    denied = [request for request in campaign.asked if request.arguments.get("act") == "denied"]
    golden(({d.who for d in denied}, denied[0].arguments["outcome"]))
    said = capsys.readouterr()
    assert "refused" in said.out + said.err
    for text in (said.out, said.err, str(campaign.asked)):
        assert "guess" not in text
        assert secret not in text


@pytest.mark.slow
def test_fault_85_the_right_token_gets_in_at_once_while_somebody_guesses(state):
    """From the address that everybody shares behind a proxy, at any moment of a day of guesses."""
    secret, statuses = token_for(state), []
    with asking(state) as client:
        throttle = client.door.app.state.desk.throttle
        for second in range(0, 86_400, 3600):
            throttle.clock = lambda now_s=second: 1e6 + now_s
            guesses = [client.post("/login", data={"token": f"rigctl-{n}"}).status_code for n in range(4)]
            statuses.append(client.post("/login", data={"token": secret}).status_code)
            assert set(guesses) <= {403, 429}
            assert 429 in guesses
    assert statuses == [303] * 24


def test_many_guesses_make_few_entries(state, campaign):
    """A stranger cannot fill the journal: what follows the first is kept once, with how many they were."""
    token_for(state)
    with asking(state) as client:
        for _ in range(50):
            client.door.app.state.desk.throttle.right()
            assert client.post("/login", data={"token": "x"}).status_code == 403
    outcomes = [r.arguments["outcome"] for r in campaign.asked if r.arguments.get("act") == "denied"]
    assert len(outcomes) <= 2
    assert sum(1 if o == "wrong token" else int(o.split(", ")[1].split()[0]) for o in outcomes) == 50


# files and sizes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *("/assets/../server.py", "/assets/..%2fserver.py", "/assets/%2e%2e/tokens.py", "/assets/....//tokens.py"),
        *(
            "/assets//etc/passwd",
            "/assets/%2fetc%2fpasswd",
            "/assets/page.css%00.js",
            "/assets/" + "a" * 5000,
            "/assets/",
        ),
        *("/static/page.css", "/tokens.json", "/assets/tokens.json", "/journal.sqlite", "/.git/config"),
    ],
)
def test_only_the_pages_own_files_are_given(state, path):
    """By a list of names, not by paths."""
    token_for(state)
    with asking(state) as client:
        answer = client.get(path)
    assert answer.status_code in (400, 404, 405)
    assert "sha256" not in answer.text


def test_a_form_is_small(state, campaign):
    """What is larger than any form of the page is refused before it is read."""
    with asking(state) as client:
        csrf = log_in(client, token_for(state))
        large = client.post("/act/pause", data={"csrf": csrf, "why": "x" * 100_000})
        fields = client.post("/act/pause", data={"csrf": csrf, **{f"f{n}": "1" for n in range(200)}})
        kind = client.post("/act/pause", json={"csrf": csrf})
        login = client.post("/login", content=b"x" * 1_000_000, headers={"Content-Type": "text/plain"})
    assert (large.status_code, fields.status_code, kind.status_code, login.status_code) == (413, 400, 415, 415)
    assert "pause" not in campaign.verbs()


def test_what_a_person_wrote_is_not_html(state, campaign):
    """A message with markup in it is shown as it is."""
    campaign.refuse = "<script>alert(1)</script>"
    with asking(state) as client:
        csrf = log_in(client, token_for(state))
        page = client.post("/act/pause", data={"csrf": csrf}).text
        title = client.post("/act/<b>", data={"csrf": csrf}).text
    assert "<script>" not in page
    assert "<b>" not in title


# where it listens ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.9.9.9"])
def test_on_this_machine_alone_no_token_is_needed(tmp_path, host):
    """Reading is open, acting is off."""
    assert is_loopback(host)
    assert check_place(ServedAt(tmp_path, host)) == ""


@pytest.mark.parametrize("host", [ALL, "::", "192.0.2.9", "rig.example"])
def test_for_others_a_token_is_needed_and_the_warning_is_plain(tmp_path, host, golden):
    """Without one it is refused with the remedy; with one it says that nothing is encrypted, and what to do."""
    from rigctl.errors import UsageError

    with pytest.raises(UsageError) as refused:
        check_place(ServedAt(tmp_path, host))
    assert refused.value.flaw.where == f"--host {host}"
    assert "`rigctl tools token create NAME`" in refused.value.flaw.remedy
    token_for(tmp_path)
    warning = check_place(ServedAt(tmp_path, host))
    golden(warning)
    assert "--allow-host" in warning


def test_a_bound_address_is_answered_to_and_all_of_them_is_no_name(tmp_path):
    """`0.0.0.0` is where one listens, not what one is called."""
    hosts = ServedAt(tmp_path, ALL, 1, ("Rig.example",)).hosts
    assert hosts == {"localhost", "127.0.0.1", "::1", "rig.example"}
    assert "192.0.2.9" in ServedAt(tmp_path, "192.0.2.9").hosts


@pytest.mark.parametrize("name", ["", "a:80", "http://a", "*", "*.a", "a b", "ä", "a@b"])
def test_a_name_to_allow_must_be_one(name, golden):
    """No ports, no patterns."""
    from rigctl.errors import UsageError

    with golden.raises(UsageError):
        names([name])
