"""The campaign's memory: one SQLite file, and the only SQL in rigctl."""

from rigctl.campaign.journal.reader import Reader, open_reader
from rigctl.campaign.journal.thread import JournalDoseLog, JournalThread
from rigctl.campaign.journal.writer import Journal

__all__ = ["Journal", "JournalDoseLog", "JournalThread", "Reader", "open_reader"]
