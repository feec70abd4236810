import json
import stat
from itertools import pairwise

import pytest

from rigctl.errors import RigctlError, UsageError
from rigctl.page.access import FIRST_S, LONGEST_S, Throttle, TokenFile, listed
from tests.page.served import Clock


def test_a_token_is_told_once_and_kept_as_a_hash(tmp_path):
    """The file has name and hash, mode 0600, and nothing from which the token can be had."""
    file = TokenFile(tmp_path / "state")
    secret = file.create("Anna", by="root")
    text = file.path.read_text()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert secret not in text
    assert secret.removeprefix("rigctl-") not in text
    found = file.found(secret)
    assert found is not None
    assert (found.name, found.by) == ("Anna", "root")
    assert [set(entry) for entry in listed(file.all())] == [{"name", "created", "by"}]


def test_tokens_differ_and_are_long(tmp_path):
    """256 random bits each."""
    file = TokenFile(tmp_path)
    secrets = {file.create(f"person {n}", by="root") for n in range(20)}
    assert len(secrets) == 20
    assert min(map(len, secrets)) >= 43


@pytest.mark.parametrize("wrong", ["", "x", "rigctl-", "\udcff", "a" * 5000])
def test_what_is_no_token_is_nobodys(tmp_path, wrong):
    """Nothing, anything, and what is no text."""
    file = TokenFile(tmp_path)
    file.create("Anna", by="root")
    assert file.found(wrong) is None


def test_a_hash_is_no_token(tmp_path):
    """Who has read the file has no token by it."""
    file = TokenFile(tmp_path)
    file.create("Anna", by="root")
    (token,) = file.all()
    assert file.found(token.sha256) is None


def test_a_revoked_token_holds_no_longer(tmp_path, golden):
    """Others go on holding; who has none is named with those who have."""
    file = TokenFile(tmp_path)
    anna, ben = file.create("Anna", by="root"), file.create("Ben", by="root")
    file.revoke("Anna")
    assert file.found(anna) is None
    assert file.found(ben) is not None
    with golden.raises(UsageError):
        file.revoke("Anna")


@pytest.mark.parametrize("name", ["", "  ", "a\x1bb", "x" * 61])
def test_a_name_must_be_one(tmp_path, name, golden):
    """What cannot be shown in an audit is refused."""
    with golden.raises(UsageError):
        TokenFile(tmp_path).create(name, by="root")


def test_a_name_is_given_once(tmp_path, golden):
    """A second token under the same name could not be told from the first in the audit."""
    file = TokenFile(tmp_path)
    file.create("Anna", by="root")
    with golden.raises(UsageError):
        file.create(" Anna ", by="root")


def test_a_file_that_others_can_read_is_refused(tmp_path, golden):
    """Where others could have put a token in, nobody may act."""
    file = TokenFile(tmp_path)
    secret = file.create("Anna", by="root")
    file.path.chmod(0o644)
    with golden.raises(RigctlError):
        file.found(secret)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}', '[{"name": "x"}]', "[1]"])
def test_a_file_that_is_no_token_file_says_so(tmp_path, text, golden):
    """It is not taken for an empty one."""
    file = TokenFile(tmp_path)
    file.create("Anna", by="root")
    file.path.write_text(text)
    with golden.raises(RigctlError):
        file.all()


def test_without_a_file_nobody_has_a_token(tmp_path):
    """Off by default."""
    assert TokenFile(tmp_path).all() == ()
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_stands_whole_or_not_at_all(tmp_path):
    """What a writer that died has left is no obstacle, and does not make it readable for others."""
    file = TokenFile(tmp_path)
    file.path.with_suffix(".new").write_text("half")
    file.path.with_suffix(".new").chmod(0o666)
    file.create("Anna", by="root")
    assert len(json.loads(file.path.read_text())) == 1
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


# slowing ------------------------------------------------------------------------------------------------------------


def test_guessing_becomes_slower_and_slower():
    """Each wrong token doubles the wait for the next wrong one, up to the longest, however many there were."""
    clock = Clock()
    throttle = Throttle(clock)
    waits = []
    for _ in range(5000):
        throttle.wrong()
        waits.append(throttle.wait_s())
        clock.now_s += waits[-1]
        assert throttle.wait_s() == 0
    assert all(after == min(2 * before, LONGEST_S) for before, after in pairwise(waits))
    assert waits[-1] == LONGEST_S


def test_a_right_token_and_a_long_time_forgive():
    """A person who mistyped is not punished for ever."""
    clock = Clock()
    throttle = Throttle(clock)
    for _ in range(5):
        throttle.wrong()
    throttle.right()
    assert throttle.wait_s() == 0
    for _ in range(5):
        throttle.wrong()
    clock.now_s += 7200
    throttle.wrong()
    assert throttle.wait_s() == pytest.approx(FIRST_S)
