"""A full inbox is shared by its publishers: who sends most loses, and nobody else."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.alerts.inbox import FORGOTTEN_AT_ONCE, Inbox
from agent.alerts.inbox_events import (
    AcknowledgeArrived,
    ContentArrived,
    InboxesDue,
    SendPush,
    SubscribeArrived,
)
from agent.alerts.inboxes import Inboxes
from agent.alerts.items import Item
from agent.alerts.limits import Limits
from agent.alerts.shares import path_of
from agent.wire.overlay import Notification, Origin
from agent.wire.push import AcknowledgeNotifications, Gap, Lost, Notified, Subscribe
from tests.alerts.disk import Disk
from tests.alerts.samples import FILTER, notification, read_filter
from tests.examples import examples

NO_INBOX = (SendPush,)
LOST = Lost("iad1", "h", 1, 2, 2)


def message(sequence, history="h9", publisher="iad1", topic="x"):
    told = {"iad": publisher, "topic": topic, "kind": "input"}
    return Notification(Origin(publisher, history, sequence), 1_000, told)


# --- one inbox, and what should go by counting ----------------------------------------------------

CONTENTS = st.one_of(
    st.builds(
        lambda history, iad: notification(0, f"h{history}", f"iad{iad}"),
        st.integers(1, 3),
        st.integers(1, 2),
    ),
    st.builds(lambda history: message(0, f"c{history}"), st.integers(1, 3)),
    st.just(LOST),
)


def of_largest(entries, by_bytes):
    """The publishers that have most at each level; several if they have the same."""
    chosen = [()]
    for level in range(1, 4):
        following = []
        for prefix in chosen:
            totals = Counter()
            for path, size in entries:
                if path[: level - 1] == prefix:
                    totals[path[:level]] += size if by_bytes else 1
            most = max(totals.values())
            following += [path for path, total in totals.items() if total == most]
        chosen = following
    return chosen


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.one_of(st.tuples(CONTENTS, st.integers(1, 60)), st.integers(0, 40)), max_size=120),
    st.integers(1, 12),
    st.integers(40, 300),
)
def test_what_is_dropped_is_the_oldest_of_a_publisher_that_has_most(steps, most, most_bytes):
    inbox = Inbox(1, "c", "s", FILTER, durable=True)
    kept = {}  # path and size by position
    for number, step in enumerate(steps):
        if isinstance(step, int):
            if inbox.acknowledged < step <= inbox.last:
                inbox.acknowledge(step)
                kept = {at: each for at, each in kept.items() if at > step}
        else:
            content, size = step
            item = Item(number, content)
            item.content, item.bytes = content, size
            inbox.put(item)
            kept[inbox.last] = path_of(content), size
            for dropped in inbox.overflow(most, most_bytes):
                by_bytes = len(kept) <= most
                assert not by_bytes or sum(size for _, size in kept.values()) > most_bytes
                gone = path_of(dropped.content)
                assert gone in of_largest(kept.values(), by_bytes)
                del kept[min(at for at, (path, _) in kept.items() if path == gone)]
        assert inbox.positions == list(kept)
        inbox.check_invariants(most, most_bytes, 0)


# --- all of them, on a disk -----------------------------------------------------------------------


class Rig:
    """Inboxes on a disk that has everything at once, and a client that writes down what it gets."""

    def __init__(self, **settings):
        self.settings = settings
        self.disk = Disk()
        self.sequences = Counter()
        self.told = {}
        self.had = 0
        self.peer = 0
        self.restart()
        self.subscribe(after=None)

    def restart(self):
        self.inboxes = Inboxes(read_filter, Limits(**self.settings))
        self.perform(self.inboxes.restore(self.disk.load()[1], 0.0))

    def perform(self, instructions):
        changes = []
        for each in instructions:
            if isinstance(each, SendPush):
                self.get(each.message)
            elif not type(each).__name__.startswith(("Start", "End")):
                changes.append(each)
        self.disk.write(changes)

    def handle(self, event, now=0.0):
        self.perform(self.inboxes.handle(event, now))

    def subscribe(self, after):
        self.peer += 1
        self.handle(SubscribeArrived(self.peer, "c", Subscribe("s", FILTER, True, after)))

    def get(self, message):
        if isinstance(message, Notified):
            assert message.position == self.had + 1
            self.told[message.position] = message.notification
            self.had = message.position
        elif isinstance(message, Gap):
            assert message.first == self.had + 1
            self.had = message.last
            if message.lost:
                self.told[message.first] = message.lost

    def leave(self):
        """The client is gone, without a word."""
        self.peer += 1
        self.handle(InboxesDue(), 60.0)

    def come(self, make, count, history):
        for _ in range(count):
            self.sequences[history] += 1
            self.handle(ContentArrived(("1",), make(self.sequences[history], history)))

    def drain(self):
        """Acknowledge until nothing more comes."""
        while True:
            before = self.had
            acknowledged = AcknowledgeNotifications("s", self.had)
            self.handle(AcknowledgeArrived(self.peer, "c", acknowledged))
            if self.had == before:
                return


def histories(rig):
    origins = [each.origin for each in rig.told.values() if isinstance(each, Notification)]
    assert len(set(origins)) == len(origins), "twice"
    return Counter(origin.history for origin in origins)


def test_no_flood_of_messages_takes_an_alert_from_a_client_that_is_away():
    rig = Rig()
    rig.leave()
    for _ in range(20):
        rig.come(notification, 1, "honest")
        rig.come(message, 600, "flood")
        if rig.sequences["honest"] == 10:
            rig.restart()
    assert rig.inboxes.waiting == Limits().most
    # More came than is remembered: the alerts stay, and nothing else of so long ago.
    assert len(rig.disk.positions) < Limits().most_remembered + FORGOTTEN_AT_ONCE + 20
    rig.restart()
    rig.subscribe(after=0)
    rig.drain()
    assert histories(rig) == {"honest": 20, "flood": Limits().most - 20}
    assert rig.had == 20 * 601
    newest = [each.origin.sequence for each in rig.told.values() if each.origin.history == "flood"]
    assert newest == list(range(12_000 - len(newest) + 1, 12_001))
    assert rig.inboxes.waiting == 0


def test_a_node_with_invented_triggers_takes_no_alert_of_another_node():
    rig = Rig(most=100)
    rig.leave()
    for _ in range(20):
        rig.come(notification, 1, "honest")
        rig.come(notification, 200, "evil")
    rig.subscribe(after=0)
    rig.drain()
    assert histories(rig) == {"honest": 20, "evil": 80}


def test_messages_of_many_histories_take_no_alert():
    rig = Rig(most=100)
    rig.leave()
    rig.come(notification, 20, "honest")
    for number in range(500):
        rig.come(message, 1, f"flood{number}")
    rig.subscribe(after=0)
    rig.drain()
    assert histories(rig)["honest"] == 20


def test_an_old_alert_that_is_had_leaves_the_disk():
    rig = Rig(most=10, most_remembered=70)
    rig.leave()
    rig.come(notification, 3, "honest")
    rig.come(message, 300, "flood")
    assert [place for place in rig.disk.positions if place[0] < 0] == [(-1, 1), (-1, 2), (-1, 3)]
    rig.subscribe(after=0)
    rig.drain()
    rig.come(message, 200, "flood")
    assert min(rig.disk.positions) > (1, 300)
    assert len(rig.disk.items) == len(rig.disk.positions)


STEPS = st.one_of(
    st.tuples(st.just("alerts"), st.integers(1, 4), st.integers(1, 2)),
    st.tuples(st.just("messages"), st.integers(1, 90), st.integers(1, 2)),
    st.tuples(st.just("again"), st.integers(1, 200), st.integers(1, 2)),
    st.sampled_from(["restart", "leave", "subscribe", "drain"]),
)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_each_position_is_told_once_as_it_was(steps):
    rig = Rig(most=8, most_bytes=900, most_remembered=70, window=4)
    attached = True
    for step in steps:
        match step:
            case "alerts", count, who:
                rig.come(notification, count, f"h{who}")
            case "messages", count, who:
                rig.come(message, count, f"c{who}")
            case "again", back, who:
                last = rig.sequences[f"c{who}"]
                if back < min(last, 60):
                    repeated = rig.inboxes.counters["notifications_repeated"]
                    rig.handle(ContentArrived(("1",), message(last - back, f"c{who}")))
                    if rig.sequences.total() < 70:
                        assert rig.inboxes.counters["notifications_repeated"] == repeated + 1
            case "restart":
                rig.restart()
                attached = False
            case "leave":
                rig.leave()
                attached = False
            case "subscribe":
                rig.subscribe(after=rig.had)
                attached = True
            case "drain" if attached:
                rig.drain()
        rig.inboxes.check_invariants()
        for inbox in rig.inboxes._by_name.values():
            of_disk = {at for of, at in rig.disk.positions if of < 0}
            assert of_disk == set(inbox.early)
    rig.subscribe(after=rig.had)
    rig.drain()
    assert rig.inboxes.waiting == 0
    (inbox,) = rig.inboxes._by_name.values()
    assert rig.had == inbox.last
