"""Files of the version before: what it kept of nodes' events goes to the store."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from agent.alerts.event_state import EventState, SaveNodeState
from agent.master.master import Master
from agent.master.storage.event_take_over import node_states
from agent.master.storage.notification_store import NotificationStore
from agent.master.storage.state import State
from agent.wire.config import parse
from agent.wire.master_config import MasterConfig
from agent.wire.operator import NodeFault
from tests.alerts.test_event_state import RECORDS, assert_whole, message

ROOT = Path(__file__).parents[3]
BEFORE = EventState().recorded([("n1", message(3, 4))], RECORDS)
# Of somebody else, who keeps them where they are.
OTHERS = {"iad1": b"others"}


class World:
    """A master's two files in a folder."""

    def __init__(self, folder):
        self.state_path = folder / "state.sqlite"
        self.store_path = folder / "state-notifications.sqlite"

    def state(self):
        return State(self.state_path, time.monotonic)

    def store(self):
        return NotificationStore(self.store_path)

    def write_as_before(self, documents=BEFORE):
        """The documents where the version before had them; its store had no table for them."""
        with closing(self.state()) as state:
            state.put("service", "iad1", OTHERS["iad1"])
            for each in documents:
                state.put(each.kind, each.node, each.body)
        self.store().close()
        with closing(sqlite3.connect(self.store_path)) as file:
            file.execute("DROP TABLE node_state")

    def start(self):
        """What a master knows of events at its start."""
        with closing(self.state()) as state, closing(self.store()) as store:
            saved = node_states(state, store)
            assert [state.all(each.kind) for each in BEFORE] == [{}] * len(BEFORE)
            assert state.all("service") == OTHERS
        with closing(self.store()) as store:
            assert {(s.kind, s.node, s.body) for s in store.load_nodes()} == {
                (s.kind, s.node, s.body) for s in saved
            }
        return saved


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_it_is_moved_once(world):
    world.write_as_before()
    assert_whole(EventState(world.start()))
    assert_whole(EventState(world.start()))


def test_the_version_before_can_open_both_files_again(world):
    world.write_as_before()
    world.start()
    with closing(sqlite3.connect(world.store_path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,)


def test_what_the_version_before_wrote_after_a_rollback_is_newer(world):
    world.write_as_before()
    world.start()
    newer = EventState().recorded([("n1", message(3))], RECORDS[:1])
    with closing(world.state()) as state:
        for each in newer:
            state.put(each.kind, each.node, each.body)
    [fault] = [each for each in newer if each.kind == "node_faults"]
    assert fault in world.start()
    assert EventState(world.start()).raised("n1"), "of its triggers it wrote nothing"


CHILD = """
import os, signal, sys, time
from pathlib import Path
from agent.master.storage import notification_store
from agent.master.storage import state as states
from agent.master.storage.event_take_over import node_states

folder, step = Path(sys.argv[1]), sys.argv[2]

def killed(): os.kill(os.getpid(), signal.SIGKILL)

def around(function, name):
    def wrapped(*args):
        if step == f"before {name}": killed()
        result = function(*args)
        if step == f"after {name}": killed()
        return result
    return wrapped

notification_store.NotificationStore.write = around(
    notification_store.NotificationStore.write, "the store")
states._transact = around(states._transact, "the state")
state = states.State(folder / "state.sqlite", time.monotonic)
store = notification_store.NotificationStore(folder / "state-notifications.sqlite")
node_states(state, store)
print("whole")
"""


@pytest.mark.parametrize(
    "step", ["before the store", "after the store", "before the state", "after the state"]
)
def test_a_kill_between_any_two_steps_loses_nothing(world, tmp_path, step):
    world.write_as_before()
    for _ in range(2):
        child = subprocess.run(
            [sys.executable, "-c", CHILD, str(tmp_path), step],
            capture_output=True, cwd=ROOT, env=os.environ, text=True, check=False,
        )  # fmt: skip
        # The last step is done only once.
        if step != "after the state":
            assert child.returncode == -signal.SIGKILL, child.stderr
    assert_whole(EventState(world.start()))


def test_a_store_that_refuses_leaves_everything_where_it_was(world, monkeypatch):
    world.write_as_before()
    monkeypatch.setattr(NotificationStore, "write", lambda *_: False)
    refused = pytest.raises(OSError, match="cannot move the state of nodes' events")
    with closing(world.state()) as state, closing(world.store()) as store, refused:
        node_states(state, store)
    monkeypatch.undo()
    assert_whole(EventState(world.start()))


def test_a_state_that_refuses_is_asked_again_at_the_next_start(world, monkeypatch):
    world.write_as_before()
    monkeypatch.setattr("agent.master.storage.state._transact", lambda *_: "the disk is full")
    state, store = State(world.state_path, time.monotonic, lambda _line: None), world.store()
    with pytest.raises(OSError, match="cannot remove the state of nodes' events"):
        node_states(state, store)
    store.close()
    state.close()
    monkeypatch.undo()
    assert_whole(EventState(world.start()))


def test_a_master_that_cannot_start_for_that_leaves_its_files_free(world, tmp_path, monkeypatch):
    world.write_as_before()
    sockets = {name: f"ipc://{tmp_path}/{name}" for name in ("public", "operator")}
    config = parse({"iad": {"name": "iad1"}, "sockets": sockets}, MasterConfig, "test")
    monkeypatch.setattr(NotificationStore, "write", lambda *_: False)
    with pytest.raises(OSError, match="cannot move the state of nodes' events"):
        Master(config, tmp_path, run="run")
    monkeypatch.undo()
    assert_whole(EventState(world.start()))


def test_without_files_there_is_nothing_to_move():
    assert node_states(State(None, time.monotonic), NotificationStore(None)) == []


def test_a_real_master_goes_on_from_the_files_of_the_version_before(master, join):
    master.stop()
    world = World(master.folder)
    assert world.state_path.exists()
    with closing(world.state()) as state:
        for each in BEFORE:
            state.put(each.kind, each.node, each.body)
    with closing(sqlite3.connect(world.store_path)) as file:
        file.execute("DROP TABLE node_state")
    master.start()
    join(master)
    [node] = master.status().nodes
    assert node.faults == (NodeFault("desk", "temperature", 1_003, True, "spike: 80 celsius"),)
    assert [alert.trigger for alert in node.alerts] == ["hot"]
    master.stop(signal.SIGKILL)
    with closing(world.state()) as state, closing(world.store()) as store:
        assert state.all("node_faults") == {}
        assert_whole(EventState(store.load_nodes()))


def test_a_document_is_its_kind_and_node(world):
    one, other = (SaveNodeState("node_events", "n1", body) for body in (b"1", b"2"))
    with closing(world.store()) as store:
        assert store.write([one, other])
    with closing(world.store()) as store:
        assert store.load_nodes() == [other]
