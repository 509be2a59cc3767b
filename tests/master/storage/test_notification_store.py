"""What spool and inboxes keep: against dicts, after restarts, and on a disk that is broken."""

import sqlite3
from contextlib import closing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.alerts import inbox_events as i
from agent.alerts import spool_events as s
from agent.alerts.dedup_window import Taken
from agent.alerts.event_state import KINDS, EventState, SaveNodeState
from agent.alerts.inboxes import Inboxes
from agent.master.storage.notification_store import STATEMENTS, NotificationStore
from agent.placement.handover.events import Record
from agent.placement.handover.unit_records import ForgetUnit, SaveUnit
from agent.placement.world import Unit
from agent.topics.events import ForgetCopy, ForgetProgress, Progress, SaveCopy, SaveProgress
from agent.topics.state_patch import patch
from agent.wire.push import Lost, Subscribe
from tests.alerts.disk import Disk
from tests.alerts.samples import FILTER, OTHER_FILTER, notification
from tests.examples import examples

BODY = msgspec.msgpack.encode(notification(7))
SAVED = i.SavedSubscription("c", "s", FILTER)
KEY = msgspec.msgpack.encode(("iad1", "h", 7))
EMPTY = (s.SavedSpool(), i.SavedInboxes())


def reopened(path):
    store = NotificationStore(path)
    loaded = store.load()
    assert store.load() == EMPTY
    store.close()
    return loaded


def nodes_in(path):
    with closing(NotificationStore(path)) as store:
        loaded = store.load_nodes()
        assert store.load_nodes() == []
    return loaded


def topics_in(path):
    with closing(NotificationStore(path)) as store:
        loaded = store.load_topics()
        assert store.load_topics() == []
    return loaded


def units_in(path):
    with closing(NotificationStore(path)) as store:
        loaded = store.load_units()
        assert store.load_units() == []
    return loaded


class Scribe:
    """Draws changes that make sense after those before."""

    def __init__(self, data, twin):
        self.data = data
        self.twin = twin
        self.number = 0

    def next(self):
        self.number += 1
        number = self.number
        pick = lambda known: self.data.draw(st.sampled_from(sorted(known)))  # noqa: E731
        twin = self.twin
        history = self.data.draw(st.sampled_from(["h1", "h2"]))
        node = self.data.draw(st.sampled_from(["n1", "n2"]))
        choices = [
            lambda: s.StoreSpooled(number, BODY),
            lambda: s.SaveTaken(node, history, Taken(number, (number,))),
            lambda: s.ForgetTaken(node, history),
            lambda: s.SaveLost(Lost("iad1", history, 1, number, number)),
            lambda: s.ForgetLost("iad1", history),
            lambda: SaveNodeState("node_events", node, str(number).encode()),
            lambda: SaveProgress(node, Progress(history, number, state=b"s")),
            lambda: ForgetProgress(node),
            lambda: SaveUnit(Record(Unit("processor", node), number, "taken", "iad2", 5.0)),
            lambda: ForgetUnit(Unit("processor", node)),
            lambda: i.SaveSubscription(number, SAVED),
            lambda: i.StoreItem(number, KEY, BODY),
        ]
        if twin.spooled:
            choices.append(lambda: s.ForgetSpooled(pick(twin.spooled)))
        if twin.subscriptions:
            one = pick(twin.subscriptions)
            choices += [
                lambda: i.SaveSubscription(one, i.SavedSubscription("c", "s", OTHER_FILTER)),
                lambda: i.SaveCursor(one, twin.subscriptions[one][1] + 1),
                lambda: i.ForgetSubscription(one),
                lambda: i.ForgetPositions(one, self.data.draw(st.integers(0, number))),
            ]
            run = [at for of, at in twin.positions if of == one]
            if run:
                choices.append(lambda: i.SetPositionApart(one, pick(run)))
            apart = [at for of, at in twin.positions if of == -one]
            if apart:
                choices.append(lambda: i.ForgetPosition(one, pick(apart)))
            whole = [n for n, (_, body) in twin.items.items() if body is not None]
            if whole:
                choices.append(lambda: i.StorePosition(one, number, pick(whole)))
        if twin.items:
            choices.append(lambda: i.ForgetBody(pick(twin.items)))
        return self.data.draw(st.sampled_from(choices))()


@settings(max_examples=examples(25), deadline=None)
@given(st.data(), st.lists(st.integers(1, 12), max_size=5))
def test_it_keeps_what_dicts_would(tmp_path_factory, data, writes):
    path = tmp_path_factory.mktemp("store") / "notifications.sqlite"
    twin = Disk()
    scribe = Scribe(data, twin)
    # A draw may end an example early.
    with closing(NotificationStore(path)) as store:
        for many in writes:
            changes = []
            for _ in range(many):
                changes.append(scribe.next())
                twin.write(changes[-1:])
            assert store.write(changes)
    assert reopened(path) == twin.load()
    assert nodes_in(path) == twin.load_nodes()
    assert topics_in(path) == twin.load_topics()
    assert units_in(path) == twin.load_units()


def test_every_change_can_be_written(tmp_path):
    changes = [
        s.StoreSpooled(1, BODY),
        s.SaveTaken("n", "h", Taken(1, (2,))),
        s.SaveLost(Lost("iad1", "h", 1, 2, 2)),
        SaveNodeState("node_faults", "n", b"body"),
        SaveProgress("comfort", Progress("f1", 7, 9, 5, b"state")),
        SaveProgress("notes", Progress("f2")),
        SaveUnit(Record(Unit("processor", "comfort"), 3, "released", "iad2")),
        ForgetUnit(Unit("processor", "notes")),
        i.SaveSubscription(1, SAVED),
        i.StoreItem(1, KEY, BODY),
        i.StorePosition(1, 1, 1),
        i.SaveCursor(1, 1),
        i.ForgetBody(1),
        i.SetPositionApart(1, 1),
        i.ForgetPositions(1, 1),
        i.ForgetPosition(1, 1),
        i.ForgetItem(1),
        i.ForgetSubscription(1),
        s.ForgetLost("iad1", "h"),
        s.ForgetTaken("n", "h"),
        s.ForgetSpooled(1),
        ForgetProgress("notes"),
        SaveCopy("gone", b"state"),
        ForgetCopy("gone"),
    ]
    assert {type(change) for change in changes} == STATEMENTS.keys()
    path = tmp_path / "n.sqlite"
    store = NotificationStore(path)
    assert store.write(changes[:10])
    assert store.write(changes[10:])
    store.close()
    assert reopened(path) == EMPTY
    assert topics_in(path) == [SaveProgress("comfort", Progress("f1", 7, 9, 5, b"state"))]
    assert nodes_in(path) == [SaveNodeState("node_faults", "n", b"body")]


def test_a_state_is_made_of_its_copy_and_what_has_changed(tmp_path):
    path = tmp_path / "n.sqlite"
    store = NotificationStore(path)
    before, after = bytes(range(256)) * 300, bytes(range(256)) * 299 + b"more"
    change = patch(before, after)
    assert len(change) < 100
    progress = Progress("f1", 7, 9, 5, definition=b"topic", patch=change)
    store.write([SaveCopy("comfort", before), SaveCopy("other", b"x")])
    store.write([SaveProgress("comfort", progress)])
    store.close()
    whole = SaveProgress("comfort", Progress("f1", 7, 9, 5, after, b"topic"))
    assert topics_in(path) == [whole]
    # Until the next progress it is read so again.
    store = NotificationStore(path)
    assert store.load_topics() == [whole]
    store.write([SaveProgress("comfort", Progress("f1", 8))])
    store.close()
    assert topics_in(path) == [SaveProgress("comfort", Progress("f1", 8))]
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT count(*) FROM topic_copy").fetchone() == (0,)
    file.close()


def test_a_write_is_whole_or_not_at_all(tmp_path):
    path, lines = tmp_path / "n.sqlite", []
    store = NotificationStore(path, lines.append)
    assert store.write([s.StoreSpooled(1, BODY)])
    assert not store.write([s.StoreSpooled(2, BODY), s.StoreSpooled(1, BODY)])
    assert not store.write([s.StoreSpooled(2, BODY), s.StoreSpooled(1, BODY)])
    assert len(lines) == 1
    assert lines[0].startswith("notifications: changes (now 2) could not be written: ")
    assert store.write([s.StoreSpooled(3, BODY)])
    assert lines[1:] == ["notifications: changes are written again\n"]
    store.close()
    assert [number for number, _ in reopened(path)[0].spooled] == [1, 3]


def test_a_disk_that_refuses_costs_nothing_that_was_written(tmp_path):
    path = tmp_path / "n.sqlite"
    store = NotificationStore(path, lambda line: None)
    store._file.execute("PRAGMA busy_timeout = 0")
    blocker = sqlite3.connect(path, isolation_level=None, timeout=0)
    blocker.execute("BEGIN IMMEDIATE")
    assert not store.write([s.StoreSpooled(1, BODY)])
    blocker.execute("ROLLBACK")
    blocker.close()
    assert store.write([s.StoreSpooled(1, BODY)])
    store.close()


def test_without_a_path_nothing_is_kept():
    store = NotificationStore(None)
    assert store.write([s.StoreSpooled(1, BODY)])
    assert store.load() == EMPTY
    store.close()


def rotten_row(path):
    store = NotificationStore(path)
    store.write([s.StoreSpooled(1, b"\xc1 no notification")])
    store.close()


def another_database(path):
    file = sqlite3.connect(path)
    file.execute("CREATE TABLE photographs (bird TEXT)")
    file.close()


def no_database(path):
    path.write_bytes(b"not a database at all" * 100)


def torn_page(path):
    store = NotificationStore(path)
    store.write([s.StoreSpooled(n, BODY) for n in range(1, 2_000)])
    store.close()
    content = bytearray(path.read_bytes())
    content[40_000:60_000] = bytes(20_000)
    path.write_bytes(content)


@pytest.mark.parametrize("break_it", [rotten_row, another_database, no_database, torn_page])
def test_a_broken_file_is_put_aside(tmp_path, break_it):
    path, lines = tmp_path / "n.sqlite", []
    break_it(path)
    content = path.read_bytes()
    store = NotificationStore(path, lines.append)
    assert len(lines) == 1
    assert "n.sqlite is broken" in lines[0]
    assert "must subscribe anew" in lines[0]
    [aside] = [each for each in tmp_path.glob("n.sqlite.broken-*") if each.name in lines[0]]
    assert aside.read_bytes()[100:] == content[100:]  # the header may say how it was opened
    assert store.load() == EMPTY
    assert store.write([s.StoreSpooled(1, BODY)])
    store.close()
    assert len(reopened(path)[0].spooled) == 1


@pytest.mark.parametrize(
    "damage", ["body = x'c1'", "body = x''", "key = x'c1'", "key = x'93a1ffa16801'", "key = x''"]
)
def test_a_damaged_item_is_lost_alone_and_told(tmp_path, damage):
    path, lines = tmp_path / "n.sqlite", []
    inboxes = Inboxes(lambda given: given)
    with closing(NotificationStore(path)) as store:
        changes = [
            each
            for event in (
                i.SubscribeArrived("conn", "c", Subscribe("s", FILTER, durable=True)),
                *[i.ContentArrived(("1",), notification(n)) for n in (7, 8, 9)],
            )
            for each in inboxes.handle(event, 100.0)
        ]
        store.write([each for each in changes if type(each) in STATEMENTS])
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute(f"UPDATE item SET {damage} WHERE number = 2").rowcount == 1
    with closing(NotificationStore(path, lines.append)) as store:
        _, saved = store.load()
    assert len(lines) == 1
    assert "1 of the notifications that wait for durable subscriptions cannot be read" in lines[0]
    again = Inboxes(lambda given: given)
    again.restore(saved, 100.0)
    [inbox] = again._by_name.values()
    assert (inbox.last, list(inbox.positions)) == (3, [1, 3])


@pytest.mark.parametrize("body", [b"\xc1", b"\x81\xa1\xff\x90"], ids=["nothing", "no UTF-8"])
def test_what_is_kept_of_a_node_and_cannot_be_read_is_left_out(body):
    EventState([SaveNodeState(kind, "n", body) for kind in KINDS])


def test_a_file_of_a_newer_version_is_left_as_it_is(tmp_path):
    path = tmp_path / "n.sqlite"
    NotificationStore(path).close()
    file = sqlite3.connect(path)
    file.execute("PRAGMA user_version = 2")
    file.close()
    with pytest.raises(OSError, match=r"cannot use .*: written by a newer version.*format 2"):
        NotificationStore(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["n.sqlite", "n.sqlite.lock"]


def test_a_file_that_cannot_be_used_is_one_line(tmp_path):
    with pytest.raises(OSError, match=r"cannot use .*nowhere"):
        NotificationStore(tmp_path / "nowhere" / "n")


def test_two_masters_do_not_share_a_file(tmp_path):
    first = NotificationStore(tmp_path / "n")
    with pytest.raises(OSError, match="in use by another process"):
        NotificationStore(tmp_path / "n")
    first.close()
    NotificationStore(tmp_path / "n").close()


def test_a_file_of_an_earlier_version_gets_what_it_lacks(tmp_path):
    path = tmp_path / "n"
    NotificationStore(path).close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("DROP TABLE unit")
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
    record = Record(Unit("processor", "comfort"), 3, "released", "iad2")
    with closing(NotificationStore(path)) as store:
        assert store.write([SaveUnit(record)])
    assert units_in(path) == [record]


def test_a_topic_its_inbox_and_its_record_are_written_together_or_not_at_all(tmp_path):
    changes = [
        SaveUnit(Record(Unit("processor", "comfort"), 3, "taken", "iad2", 5.0)),
        SaveProgress("comfort", Progress("f1", 7, 9, 5, b"state", b"definition")),
        i.SaveSubscription(1, SAVED),
        i.StoreItem(1, KEY, None),
        i.StorePosition(1, 1, 1),
    ]
    path = tmp_path / "n"
    with closing(NotificationStore(path, lambda _: None)) as store:
        assert not store.write([*changes, i.StorePosition(1, 1, 1)])
    assert (units_in(path), topics_in(path), reopened(path)) == ([], [], EMPTY)
    with closing(NotificationStore(path)) as store:
        assert store.write(changes)
    assert units_in(path) == [changes[0].record]
    assert topics_in(path) == [changes[1]]
    assert reopened(path)[1] == i.SavedInboxes(((1, SAVED, 0),), ((1, KEY, None),), ((1, 1, 1),))
