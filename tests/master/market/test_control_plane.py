"""The glue of the market: what is kept of a pool is on stable storage before anybody is told."""

from __future__ import annotations

import sqlite3
import time
from types import SimpleNamespace

import msgspec
import pytest

from agent.market.rollout import Owned
from agent.master.market import control_plane
from agent.master.market.control_plane import ControlPlane
from agent.master.market.counterparties import counterparty_hosts
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import LATER, RETRY_S, State
from agent.runtime.reactor import Reactor
from agent.wire.config import parse
from agent.wire.directory import Account
from agent.wire.market import Joined, Member, Service
from agent.wire.master_config import MasterConfig
from agent.wire.messages import Slo
from agent.wire.operator import CreateService, DropService, ServiceReport
from tests.market.test_seller import AREA, OWNER, join
from tests.master.held_writer import HeldWriter

BUYER = RequestOrigin(b"c", b"M", OWNER)
TABLE = {
    "iad": {"name": "iad1"},
    "sockets": {"public": "ipc:///run/p", "operator": "ipc:///run/o", "nodes": "ipc:///run/n"},
    "market": {"directories": ["tcp://127.0.0.1:5799"]},
    "offers": [{"capability": "temperature", "areas": [AREA]}],
}
CREATE = CreateService("c1", "warmth", "temperature", (AREA,), Slo(99.0, 800.0), rate_per_s=5.0)


class Rig:
    def __init__(self, folder, directory=None, unreachable=()):
        self.now = 100.0
        self.changed_s = []  # when schedulers were told of services
        self.path = folder / "state.sqlite"
        self.writer = HeldWriter()
        self.full = False
        self.state = State(self.path, lambda: self.now, lambda line: None, self)
        self.handlers, self.replies, self.done, self.connected = {}, [], [], []
        self.reactor = Reactor(lambda: self.now)
        node = SimpleNamespace(node="n1", mean_s=0.05, samples=1_000, live=True)
        scheduler = SimpleNamespace(
            handle=self.schedule, resources=lambda _areas: [node], joining=lambda *_: False
        )
        plane = SimpleNamespace(
            takes=self.handlers.__setitem__,
            reply=lambda _origin, message: self.replies.append(message),
        )
        peers = SimpleNamespace(
            takes=self.handlers.__setitem__,
            unreachable=unreachable,
            connect=lambda *given, **named: self.connected.append((given, named)),
        )
        self.plane = ControlPlane(
            self.reactor, parse(TABLE, MasterConfig, "test"), self.state, plane, peers, plane,
            directory, scheduler, scheduler,
            SimpleNamespace(set_pods=lambda *_: self.done.append("pods")),
            run="r", say=lambda line: None,
        )  # fmt: skip

    def schedule(self, event, now):
        self.changed_s.append(now)
        self.done.append(type(event).__name__)
        return []

    def submit(self, job, then):
        self.writer.submit(lambda: "no space left" if self.full else job(), then)

    def drain(self):
        self.writer.drain()

    def take(self, message):
        self.handlers[type(message)](BUYER, message, self.now)
        self.let_pass()

    def let_pass(self, seconds=0.0):
        self.now += seconds
        for part in (self.state, self.plane):
            if part.next_due is not None and part.next_due <= self.now:
                part.tick(self.now)

    def on_disk(self):
        file = sqlite3.connect(self.path)
        rows = file.execute("SELECT key, body FROM document WHERE kind = 'service'").fetchall()
        file.close()
        return {key: msgspec.json.decode(body)["service"]["version"] for key, body in rows}


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.full = False
    rig.state.close()


POOL = [{"iad": f"iad{n}", "address": f"ipc:///run/{n}", "areas": [AREA]} for n in (1, 2)]


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        ({"directories": []}, set()),
        ({"directories": ["tcp://localhost:5799"]}, {"127.0.0.1", ""}),
        ({"pool": POOL[:1]}, set()),
        ({"pool": POOL}, {"127.0.0.1", ""}),
        ({"trust": {"key": "iad1.secret"}}, None),
    ],
)
def test_the_configuration_says_from_where_the_market_comes(given, hosts):
    market = {"directories": given.pop("directories", [])}
    assert counterparty_hosts(parse(TABLE | {"market": market} | given, MasterConfig, "t")) == hosts


@pytest.mark.parametrize("how", ["slow", "full"])
def test_a_member_replies_after_its_membership_is_on_disk(rig, how):
    setattr(rig.writer if how == "slow" else rig, how, True)
    rig.take(join())
    rig.let_pass(3 * RETRY_S)
    assert (rig.replies, rig.on_disk()) == ([], {})
    rig.writer.slow = rig.full = False
    rig.writer.drain()
    rig.let_pass(RETRY_S)
    rig.let_pass(RETRY_S)  # for the links to the members
    assert rig.on_disk() == {"climate": 1}
    (joined,) = rig.replies
    assert isinstance(joined, Joined)
    assert joined.ok


def test_while_the_disk_refuses_nothing_new_is_begun_and_an_operator_is_told(rig):
    rig.full = True
    rig.take(join())
    rig.take(join(service="other"))  # it is sent again
    rig.take(CREATE)
    (told,) = rig.replies
    assert isinstance(told, ServiceReport)
    assert (told.ok, "disk" in told.message) == (False, True)
    rig.full = False
    rig.let_pass(RETRY_S)
    rig.let_pass(RETRY_S)
    assert rig.on_disk() == {"climate": 1}


def test_an_operator_whose_change_the_disk_refuses_is_told_so_once(tmp_path):
    rig = Rig(tmp_path)
    own = Member("iad1", "tcp://127.0.0.1:1", (AREA,), rate_per_s=5.0)
    owned = Owned(CREATE, Service("warmth", "iad1", 1, (own,), "temperature"))
    rig.state.put("owned", "warmth", msgspec.json.encode(owned))
    rig.state.flush()
    rig.state.close()
    rig = Rig(tmp_path)
    rig.full = True
    rig.take(DropService("d1", "warmth"))
    for _ in range(3):
        rig.let_pass(RETRY_S)
    (told,) = rig.replies
    assert (told.id, told.ok, told.message) == ("d1", False, LATER)
    rig.full = False
    for _ in range(3):
        rig.let_pass(RETRY_S)
    assert rig.replies == [told]
    assert rig.state.all("owned") == {}
    rig.state.close()


def test_what_waits_for_a_slow_disk_is_bounded(rig, monkeypatch):
    monkeypatch.setattr(control_plane, "MAX_QUEUED", 10)
    rig.writer.slow = True
    for version in range(1, 40):
        rig.take(join(version))
    assert len(rig.plane._queue) < 20
    assert rig.plane.next_due is None
    rig.writer.slow = False
    for _ in range(50):
        rig.writer.drain()
        rig.let_pass(RETRY_S)
    # Those that were not taken are sent again; what was, is on disk and told.
    rig.take(join(100))
    for _ in range(3):
        rig.let_pass(RETRY_S)
    assert rig.on_disk() == {"climate": 100}
    assert rig.replies[-1].ok


def test_versions_are_judged_by_the_clock_as_it_is_not_as_it_was_at_the_start(rig, monkeypatch):
    """A machine without a clock of its own learns the time a while after its master started."""
    days_s = 3 * 86_400.0
    there_s = time.time() + days_s
    version = round(there_s * 1e3)
    rig.take(join(version))
    assert not rig.replies[-1].ok
    monkeypatch.setattr(time, "time", lambda: there_s)
    rig.take(join(version))
    rig.let_pass(RETRY_S)
    rig.let_pass(RETRY_S)
    assert rig.replies[-1].ok


def test_so_are_those_that_this_master_makes(rig, monkeypatch):
    told = []
    monkeypatch.setattr(rig.plane._buyer, "clock_set", told.append)
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    rig.take(CREATE)
    assert told[-1] == 1_000.0 - rig.now


def test_a_link_is_made_in_the_name_of_the_owner_that_names_the_member(rig):
    own = Member("iad1", "tcp://127.0.0.1:1", (AREA,), rate_per_s=5.0)
    other = Member("iad2", "tcp://127.0.0.1:2", ("b2",), ("k" * 40,), 5.0)
    rig.take(join(members=(own, other)))
    rig.let_pass(1.0)
    link = ("iad2", other.address, other.keys)
    assert rig.connected == [(link, {"owner": OWNER.name})]
    assert rig.plane._partners() == {"iad1": {OWNER.name}, "iad2": {OWNER.name}}


def test_a_restarted_master_begins_the_agreed_rate_of_a_service_at_its_start(tmp_path):
    """Not at the end of the wait for links, which may be without end: it was never refilled."""
    own = Member("iad1", "tcp://127.0.0.1:1", (AREA,), rate_per_s=5.0)
    other = Member("iad2", "tcp://127.0.0.1:2", ("b2",), (), 5.0)
    before = Rig(tmp_path)
    before.take(join(members=(own, other)))
    before.let_pass(RETRY_S)
    before.state.close()
    rig = Rig(tmp_path, unreachable=("iad2",))
    assert rig.done.count("ServiceChanged") == 2  # for queries at once, for tasks
    assert set(rig.changed_s) == {rig.now}
    rig.state.close()


class Directory:
    """The link to a directory, which answers when it is told to."""

    accounts = ()

    def on_accounts(self, listener):
        self.listener = listener

    def answer(self, *accounts):
        self.accounts = accounts
        self.listener(accounts)

    def restore(self, accounts):
        self.answer(*accounts)


def test_the_accounts_of_owners_survive_a_restart_while_no_directory_answers(tmp_path):
    owner, other = (Account(name, "csp", ("k" * 40,)) for name in (OWNER.name, "iad7"))

    def restarted():
        made = Rig(tmp_path, directory := Directory())
        found = directory.accounts
        made.state.close()
        return found

    rig = Rig(tmp_path, directory := Directory())
    directory.answer(owner, other)
    rig.take(join())
    rig.let_pass(RETRY_S)
    rig.state.close()
    assert restarted() == restarted() == (owner,)
    # An account that is closed is not.
    rig = Rig(tmp_path, directory := Directory())
    directory.answer(other)
    rig.let_pass(RETRY_S)
    rig.state.close()
    assert restarted() == ()


def test_a_pool_that_is_changed_again_and_again_waits_no_longer_for_a_member_that_is_away(tmp_path):
    rig = Rig(tmp_path, unreachable=("iad2",))
    own = Member("iad1", "tcp://127.0.0.1:1", (AREA,), rate_per_s=5.0)
    away = Member("iad2", "tcp://127.0.0.1:2", ("b2",), rate_per_s=5.0)
    for version in range(1, 40):
        rig.take(join(version, members=(own, away)))
        rig.let_pass(control_plane.LINKING_S / 10)
    waiting = [len(each.replies) for each in rig.plane._linking.values()]
    assert sum(waiting) <= 10
    assert len(rig.replies) >= 29
    assert rig.changed_s, "queries use it"
    rig.state.close()
