"""The notifier's process from inside: given clocks, given services, and nothing that is waited for."""

from datetime import UTC, datetime, timedelta

import pytest

from rigctl.errors import UsageError
from rigctl.notify.gathering import HANGS_S, WORRYING_S
from rigctl.notify.process import AGAIN_S, STUCK, NotifierLoop
from rigctl.notify.services import MessageService, NotSent
from rigctl.notify.setup import Setup, Shelved
from rigctl.telling import AliveSpec, NotifySpec, Secret, Telling
from tests.notify.party import listening

BEGIN = datetime(2026, 3, 1, 7, 0, tzinfo=UTC)


class World:
    """Services that take, refuse or hang; and the time."""

    def __init__(self, *names, spec=None, shelved=()):
        self.now_s = 0.0
        self.got = {name: [] for name in names}
        self.refuse, self.hang = set(), set()
        self.hanging = []
        spec = spec or NotifySpec(urls=Secret(env="URLS"))
        setup = Setup("tank", "EUR", "state", Telling(spec), tuple(shelved))
        self.notifier = NotifierLoop(
            setup,
            self.beside,
            clock=lambda: self.now_s,
            wall=lambda: BEGIN + timedelta(seconds=self.now_s),
            services=lambda: tuple(MessageService(name, name, self.sender(name)) for name in self.got),
            summary=lambda setup: f"all about {setup.rig}",
        )

    def sender(self, name):
        def send(message):
            if name in self.refuse:
                raise NotSent(f"{name}: was not taken")
            if name in self.hang:
                raise BlockingIOError
            self.got[name].append(message.title)

        return send

    def beside(self, work, done):
        try:
            work()
        except BlockingIOError:
            self.hanging.append(done)
        except NotSent as error:
            done(str(error))
        else:
            done("")

    def tell(self, event, **what):
        utc = (BEGIN + timedelta(seconds=self.now_s)).isoformat()
        self.notifier.take({"event": event, "at_s": self.now_s, "utc": utc, **what})

    def alarm(self, source="ph", kind="low"):
        told = {"severity": 2, "kind": kind, "source": source, "message": kind}
        self.tell("alarm", **told, state="stands", action="hold")

    def wait(self, seconds, step_s=5.0):
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += step_s
            self.notifier.step()


def test_fault_46_one_receiver_that_is_down_or_hangs_delays_no_other(golden):
    """Those that can be told are; when they can be again, the others are told what they have missed, once."""
    world = World("ntfy", "mail", "mqtt")
    world.refuse, world.hang = {"mail"}, {"mqtt"}
    world.alarm()
    world.wait(60)
    assert world.got == {"ntfy": ["tank: warning, ph"], "mail": [], "mqtt": []}
    world.wait(WORRYING_S + HANGS_S)
    golden(world.notifier.trouble)
    world.refuse, world.hang = set(), set()
    assert len(world.hanging) == STUCK
    for done in world.hanging:
        done("too late")  # a thread that returns after all
    world.wait(1000)
    assert world.got == {name: ["tank: warning, ph"] for name in ("ntfy", "mail", "mqtt")}
    assert world.notifier.trouble == ""


def test_a_secret_that_is_not_there_yet_is_waited_for(golden):
    """What there is to be told meanwhile is told then; until then it is said why nobody is."""
    world = World("ntfy")
    services, world.notifier.services = world.notifier.services, refusing
    world.alarm()
    world.wait(30)
    golden(world.notifier.trouble)
    world.notifier.services = services
    world.wait(AGAIN_S + 5)
    assert world.got["ntfy"] == ["tank: warning, ph"]
    assert world.notifier.trouble == ""


def test_a_secret_may_be_changed_while_the_campaign_runs(golden):
    """Who is still told is told nothing twice; who is new gets what could not be brought to the one before."""
    world = World("ntfy", "mail")
    world.refuse = {"mail"}
    world.alarm()
    world.wait(60)
    world.got = {"ntfy": world.got["ntfy"], "mqtt": []}
    world.wait(AGAIN_S)
    assert world.got == {"ntfy": ["tank: warning, ph"], "mqtt": ["tank: warning, ph"]}
    services, world.notifier.services = world.notifier.services, refusing
    world.wait(AGAIN_S + 5)
    golden(world.notifier.trouble)
    world.alarm("ec")
    world.wait(60)
    golden(world.got["ntfy"][1:])
    assert world.got["ntfy"][1:] == world.got["mqtt"][1:]
    world.notifier.services = services
    world.wait(AGAIN_S + 5)
    assert world.notifier.trouble == ""


def refusing():
    raise UsageError("file notify.txt: is not there")


@pytest.mark.parametrize(
    ("last", "title"),
    [
        (None, "tank: the controller has ended"),
        (("failed", {"why": "the rig has tripped"}), "tank: the controller has ended"),
        (("refused", {"why": "no such file"}), None),
        (("ended", {"ending": "budget", "reason": "", "facts": "9 trials.", "safe": True}), "tank: ended"),
        (("ended", {"ending": "budget", "reason": "", "facts": "9 trials.", "safe": False}), "tank: ended, NOT SAFE"),
    ],
)
def test_how_it_ends_is_told(last, title):
    """A controller that is gone without a word is told of, too, and whatever still waits goes first."""
    world = World("ntfy")
    world.tell("started", trials=3, lost=2)
    world.alarm()
    if last is not None:
        world.tell(last[0], **last[1])
    world.notifier.closed()
    world.wait(30)
    expected = ["tank: runs", "tank: warning, ph"] + ([title] if title else [])
    assert sorted(world.got["ntfy"]) == sorted(expected)
    assert world.notifier.idle


def test_what_was_shelved_before_it_began_stays_so(golden):
    """A restart of the controller, or of this process, tells nobody of what is shelved."""
    until = (BEGIN + timedelta(hours=9)).isoformat()
    world = World("ntfy", shelved=[Shelved(7200.0, until, "Ada", "known", "low", "ph")])
    world.alarm()
    world.alarm("ec")
    world.tell("tick")
    world.wait(60)
    golden(world.got["ntfy"])
    world.now_s = 7300.0
    world.tell("tick")
    world.wait(60)
    golden(world.got["ntfy"])


def test_the_day_s_summary_comes_at_its_time(golden):
    """Once, however long one waits on that day."""
    world = World("ntfy", spec=NotifySpec(urls=Secret(env="URLS"), daily="08:00", zone="UTC"))
    world.wait(3500)
    assert world.got["ntfy"] == []
    world.wait(8 * 3600, 60.0)
    assert len(world.got["ntfy"]) == 1
    golden(world.got["ntfy"])


def test_a_sign_of_life_is_given_while_the_watch_looks(monkeypatch, golden):
    """At a real web server; a service that does not answer well is said."""
    spec = NotifySpec(alive=AliveSpec(Secret(env="PING_URL"), 60.0))
    with listening() as party:
        monkeypatch.setenv("PING_URL", party.ping)
        world = World(spec=spec)
        for _ in range(25):
            world.tell("tick")
            world.wait(5)
        assert len(party.asked) == 3
        world.wait(600)
        assert len(party.asked) == 3
        party.status = 404
        world.tell("tick")
        world.wait(5)
        golden(world.notifier.trouble)
