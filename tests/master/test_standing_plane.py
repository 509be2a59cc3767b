"""What is on disk of watches on alerts before their inboxes hear of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agent.board import Board
from agent.master.standing_plane import ALERTS, LOOK_S, StandingPlane
from agent.master.state import State
from agent.scheduling.standing_events import AskInbox, SaveAlerts, SavedAlerts
from agent.wire.push import Subscribe
from tests.topics.samples import FILTER

KEYS = ("alice", "w"), ("bob", "w"), ("", "v")


class Disk(State):
    """Counts what is written."""

    full, writes = False, 0

    def flush(self):
        if self.full:
            self._dirty, self._due = {}, None
            return False
        self.writes += bool(self._dirty)
        return super().flush()


class Rig:
    def __init__(self, folder):
        self.now = 0.0
        self.board = Board(lambda: self.now)
        self.disk = Disk(folder / "state.db", lambda: self.now)
        self.asked = []
        push = SimpleNamespace(kept_for=lambda _prefix: [], ask=self.ask)
        public = SimpleNamespace(takes=lambda *_: None)
        queries = SimpleNamespace(capability=lambda _service: "")
        config = SimpleNamespace(
            clients=SimpleNamespace(most_watches=9, watched_readings_per_s=1e9)
        )
        self.plane = StandingPlane(
            self.board, config, self.disk, public, queries, lambda _: (), push, lambda: self.now
        )

    def ask(self, _peer, client, _message):
        self.asked.append((client, {*self.disk.all(ALERTS)}))
        return True

    def begin(self):
        for key in KEYS:
            saving = SaveAlerts(key, SavedAlerts("s"), at_once=True)
            self.board.perform([saving, AskInbox(key, Subscribe("s", FILTER, durable=True))])

    def tick(self):
        for part in self.board._timekeepers:
            part.tick(self.now)


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.disk.close()


def test_what_made_rounds_of_many_watches_is_one_write_before_any_is_acknowledged(rig):
    rig.begin()
    rig.tick()
    everything = {"alice/w", "bob/w", "/v"}
    clients = ["watch/alice/w", "watch/bob/w", "watch//v"]
    # After these the first is renewed.
    assert rig.asked[:3] == [(client, everything) for client in clients]
    assert rig.disk.writes == 1


def test_what_the_disk_does_not_take_is_written_with_the_next(rig):
    rig.disk.full = True
    rig.begin()
    rig.tick()
    assert rig.asked == []
    rig.disk.full = False
    rig.board.perform([AskInbox(KEYS[1], Subscribe("s", FILTER, durable=True))])
    rig.tick()
    assert rig.asked == [("watch/bob/w", {"alice/w", "bob/w", "/v"})]
    assert rig.disk.writes == 1


def test_the_wall_clock_is_looked_at_though_nothing_is_due_for_long(rig, monkeypatch):
    standing = SimpleNamespace(next_tick=None, handle=lambda _event, _wall: [])
    monkeypatch.setattr(rig.plane, "_standing", standing)
    assert rig.plane.next_due is None
    standing.next_tick = 3_600.0
    rig.tick()
    assert rig.plane.next_due == LOOK_S
    rig.now = LOOK_S / 2
    assert rig.plane.next_due == LOOK_S
