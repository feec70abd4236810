"""A bit flipped in the log that a crash has left."""

import random
import shutil

import pytest

from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.database import _check_before_writing, open_for_reading, open_for_writing
from rigctl.campaign.journal.log import damaged_log
from rigctl.errors import JournalCorrupt
from tests.campaign.records import SetClock, begun, make_decision

HEADER, FRAME = 32, 24
FRAME_BYTES = FRAME + 4096


@pytest.fixture
def crashed(tmp_path):
    """What a process has left that was killed: its file and its log."""
    journal = begun(tmp_path / "live", 1)
    journal.propose(make_decision(2))
    (tmp_path / "left").mkdir()
    for name in ("journal.sqlite", "journal.sqlite-wal"):
        shutil.copy(tmp_path / "live" / name, tmp_path / "left" / name)
    journal.close()
    return tmp_path / "left" / "journal.sqlite-wal"


def one_bit(data, end, tail):
    """Whether the frame that is cut differs in a single bit: nobody could tell that from a flipped one."""
    left = FRAME_BYTES - (end - HEADER) % FRAME_BYTES
    return sum((a ^ b).bit_count() for a, b in zip(data[end : end + left], tail[:left], strict=False)) == 1


@pytest.mark.parametrize("ends", [8, pytest.param(60, marks=pytest.mark.nightly)])
def test_a_sound_log_is_no_damage(crashed, ends):
    """Nor is one that ends anywhere, as a power loss leaves it: with half a frame, zeros or noise."""
    data = crashed.read_bytes()
    assert len(data) > 10 * FRAME_BYTES
    assert damaged_log(crashed) == ""
    some = random.Random(1)
    for _ in range(ends):
        end = some.randrange(len(data) // 512) * 512  # a disk writes sectors
        for tail in (b"", bytes(len(data) - end), some.randbytes(len(data) - end)):
            crashed.write_bytes(data[:end] + tail)
            assert damaged_log(crashed) == "" or one_bit(data, end, tail), end


@pytest.mark.slow
def test_a_torn_last_transaction_is_no_damage(crashed):
    """Of its pages any may be missing where it was not yet synced."""
    data = crashed.read_bytes()
    frames = (len(data) - HEADER) // FRAME_BYTES
    starts = [HEADER + n * FRAME_BYTES for n in range(frames)]
    ends = [n for n, s in enumerate(starts) if data[s + 4 : s + 8] != bytes(4)]
    for lost in range(ends[-2] + 1, frames):
        place = starts[lost] + FRAME
        crashed.write_bytes(data[:place] + bytes(4096) + data[place + 4096 :])
        assert damaged_log(crashed) == "", lost


def test_a_write_torn_over_an_older_version_of_its_page_is_no_damage(crashed):
    """What is left of that version may differ in a single bit; a flipped bit would not have lost the next page, too."""
    data = bytearray(crashed.read_bytes())
    frames = (len(data) - HEADER) // FRAME_BYTES
    starts = [HEADER + n * FRAME_BYTES for n in range(frames)]
    first = [n for n, s in enumerate(starts) if data[s + 4 : s + 8] != bytes(4)][-2] + 1
    assert frames - first > 2
    data[starts[first] + FRAME + 100] ^= 1
    crashed.write_bytes(data)
    assert damaged_log(crashed)
    place = starts[first + 1] + FRAME
    data[place : place + 4096] = bytes(4096)
    crashed.write_bytes(data)
    assert damaged_log(crashed) == ""


@pytest.mark.slow
@pytest.mark.parametrize("flips", [40, pytest.param(400, marks=pytest.mark.nightly)])
def test_fault_80_one_bit_flipped_anywhere_in_the_log_is_found(crashed, flips):
    """In its header, in the frames' heads, in pages; in the last commit, too. Nothing is written then."""
    data = crashed.read_bytes()
    some = random.Random(80)
    heads = [HEADER + n * FRAME_BYTES + some.randrange(FRAME) for n in range((len(data) - HEADER) // FRAME_BYTES)]
    last = [len(data) - 1 - some.randrange(FRAME_BYTES) for _ in range(30)]
    anywhere = [some.randrange(len(data)) for _ in range(flips)]
    for position in (*range(HEADER), *heads, *last, *anywhere):
        flipped = bytearray(data)
        flipped[position] ^= 1 << some.randrange(8)
        crashed.write_bytes(flipped)
        assert damaged_log(crashed), position
    with pytest.raises(JournalCorrupt):
        open_for_writing(crashed.with_name("journal.sqlite"))
    assert crashed.read_bytes() == flipped


def test_what_a_crash_left_is_taken_over_as_ever(crashed):
    """The check reads, and leaves no trace."""
    path = crashed.with_name("journal.sqlite")
    before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    _check_before_writing(path)
    assert {n: (path.parent / n).read_bytes() for n in before} == before
    journal = Journal(path.parent, SetClock(), "boot-1")
    assert len(journal.read.trials()) == 2
    journal.close()
    assert [p.name for p in path.parent.iterdir()] == ["journal.sqlite"]


@pytest.mark.parametrize("left", ["none of it", "an empty file"])
def test_fault_79_a_log_without_its_journal_is_no_new_campaign(crashed, left):
    """SQLite would make a new file and drop the log: refused, to readers too, and the log stays as it is."""
    path = crashed.with_name("journal.sqlite")
    path.unlink()
    if left == "an empty file":
        path.touch()
    before = crashed.read_bytes()
    for attempt in (open_for_writing, open_for_reading):
        with pytest.raises(JournalCorrupt) as error:
            attempt(path)
        assert error.value.damage == "no-file"
    assert crashed.read_bytes() == before
