"""Inboxes, step by step."""

import pytest

from agent.alerts import inbox
from agent.alerts.inbox import FORGOTTEN_AT_ONCE
from agent.alerts.inbox_events import (
    AcknowledgeArrived,
    ContentArrived,
    EndSubscription,
    ForgetBody,
    ForgetItem,
    ForgetPositions,
    ForgetSubscription,
    InboxesDue,
    SaveCursor,
    SavedSubscription,
    SaveSubscription,
    SendPush,
    StartSubscription,
    StoreItem,
    StorePosition,
    SubscribeArrived,
    UnsubscribeArrived,
)
from agent.alerts.inboxes import Inboxes
from agent.alerts.shares import Shares
from agent.alerts.spool import MAX_SPOOLED as SPOOLED
from agent.wire.predicates import Predicate
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Lost,
    Notified,
    ShortContent,
    ShortForm,
    ShortNotified,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from tests.alerts.samples import FILTER, OTHER_FILTER, notification, read_filter

LEASE_MS = 60_000.0


class Rig:
    """Inboxes, a clock that stands still, and one client on one connection unless told."""

    def __init__(self, **settings):
        self.inboxes = Inboxes(read_filter, **settings)
        self.now = 0.0
        self.peer = "p1"

    def handle(self, event):
        instructions = self.inboxes.handle(event, self.now)
        self.inboxes.check_invariants()
        return instructions

    def subscribe(self, name="s", *, durable=False, after=None, wanted="f", client="c", peer=None):
        message = Subscribe(name, wanted, durable, after)
        return self.handle(SubscribeArrived(peer or self.peer, client, message))

    def acknowledge(self, position, name="s"):
        return self.handle(
            AcknowledgeArrived(self.peer, "c", AcknowledgeNotifications(name, position))
        )

    def unsubscribe(self, name="s"):
        return self.handle(UnsubscribeArrived(self.peer, "c", Unsubscribe(name)))

    def come(self, *sequences, names=("1",), **kind):
        return [
            instruction
            for each in sequences
            for instruction in self.handle(ContentArrived(names, notification(each, **kind)))
        ]


def sent(instructions):
    """Messages; of notifications, position and sequence."""
    return [
        (each.message.position, each.message.notification.origin.sequence)
        if isinstance(each.message, Notified)
        else each.message
        for each in instructions
        if isinstance(each, SendPush)
    ]


def test_a_subscription_that_is_not_durable_needs_no_disk():
    rig = Rig()
    assert rig.subscribe() == [
        StartSubscription("1", FILTER),
        SendPush("p1", Subscribed("s", "open", 0, LEASE_MS), waits=False),
    ]
    assert rig.come(70, 80) == [
        SendPush("p1", Notified("s", 1, notification(70)), waits=False),
        SendPush("p1", Notified("s", 2, notification(80)), waits=False),
    ]
    assert rig.acknowledge(2) == []
    assert rig.unsubscribe() == [
        EndSubscription("1"),
        SendPush("p1", Subscribed("s", "cancelled"), waits=False),
    ]
    assert rig.inboxes.next_tick is None
    assert rig.come(90) == []
    assert len(rig.inboxes._items) == 0


def test_a_client_that_asks_for_it_gets_the_short_form():
    rig = Rig()
    rig.subscribe()
    short = ShortForm(7, ("value",))
    rig.handle(SubscribeArrived("p1", "c", Subscribe("t", "f", short=short)))
    told = notification(70, history="00c0ffee00c0ffee")
    content = ShortContent("iad1", bytes.fromhex("00c0ffee00c0ffee"), 70, 1_000, (0,), (31.5,))
    assert content.notification(short.names) == told
    assert rig.come(70, names=("1", "2"), history="00c0ffee00c0ffee") == [
        SendPush("p1", Notified("s", 1, told), waits=False),
        SendPush("p1", ShortNotified(((7, 1),), content), waits=False),
    ]
    # What has no short form comes as ever.
    assert rig.come(80, names=("2",)) == [
        SendPush("p1", Notified("t", 2, notification(80)), waits=False)
    ]
    # It is asked for with each connection.
    rig.subscribe("t", after=0)
    assert rig.come(81, names=("2",), history="00c0ffee00c0ffee")[0].message.id == "t"


def test_what_is_durable_is_on_disk_before_it_is_sent():
    rig = Rig()
    assert rig.subscribe(durable=True) == [
        SaveSubscription(1, SavedSubscription("c", "s", FILTER)),
        StartSubscription("1", FILTER),
        SendPush("p1", Subscribed("s", "open", 0, LEASE_MS), waits=True),
    ]
    item, position, message = rig.come(70)
    assert isinstance(item, StoreItem)
    assert position == StorePosition(1, 1, 1)
    assert message == SendPush("p1", Notified("s", 1, notification(70)), waits=True)
    assert rig.acknowledge(1) == [ForgetBody(1), SaveCursor(1, 1)]
    assert rig.unsubscribe() == [
        EndSubscription("1"),
        ForgetItem(1),
        ForgetSubscription(1),
        SendPush("p1", Subscribed("s", "cancelled"), waits=True),
    ]


def test_one_notification_is_stored_once_and_sent_at_once_where_no_disk_is_needed():
    rig = Rig()
    rig.subscribe("a", durable=True)
    rig.subscribe("b")
    rig.subscribe("c", durable=True)
    instructions = rig.come(70, names=("1", "2", "3", "17"))
    assert instructions[0] == SendPush("p1", Notified("b", 1, notification(70)), waits=False)
    kinds = [type(each) for each in instructions[1:]]
    assert kinds == [StoreItem, StorePosition, StorePosition, SendPush]
    assert instructions[-1].message == Notified("a", 1, notification(70), (("c", 1),))
    # The last one that needs the body makes it go.
    assert rig.acknowledge(1, "a") == [SaveCursor(1, 1)]
    assert rig.acknowledge(1, "b") == []
    assert rig.acknowledge(1, "c") == [ForgetBody(1), SaveCursor(3, 1)]


def test_one_acknowledgement_is_about_several_subscriptions():
    rig = Rig(window=1)
    for name in "abc":
        rig.subscribe(name)
    rig.come(70, 80, names=("1", "2", "3"))
    rig.peer = "p2"
    rig.subscribe("b")  # by another connection
    rig.peer = "p1"
    message = AcknowledgeNotifications("a", 1, (("b", 1), ("c", 9), ("d", 1)))
    replies = rig.handle(AcknowledgeArrived("p1", "c", message))
    # Nobody has more than he was sent.
    assert [each.message for each in replies] == [
        Notified("a", 2, notification(80), (("c", 2),)),
        Subscribed("b", "unknown"),
        Subscribed("d", "unknown"),
    ]
    assert rig.inboxes.waiting == 1 + 2 + 1


def test_what_comes_again_is_no_news_even_after_it_was_acknowledged():
    rig = Rig()
    rig.subscribe("a")
    rig.come(70)
    rig.acknowledge(1, "a")
    assert rig.come(70) == []
    rig.subscribe("b", durable=True)
    # It is one to the second, whose disk has not seen it.
    kinds = [type(each) for each in rig.come(70, names=("1", "2"))]
    assert kinds == [StoreItem, StorePosition, SendPush]
    assert rig.inboxes.counters["notifications_repeated"] == 2


def test_a_body_that_the_disk_gave_up_is_stored_again_for_somebody_else():
    rig = Rig()
    rig.subscribe("a", durable=True)
    rig.come(70)
    rig.acknowledge(1, "a")
    rig.subscribe("b", durable=True)
    kinds = [type(each) for each in rig.come(70, names=("1", "2"))]
    assert kinds == [StoreItem, StorePosition, SendPush]


def test_a_window_is_in_flight_and_the_rest_follows_acknowledgements():
    rig = Rig(window=2)
    rig.subscribe()
    assert sent(rig.come(10, 20, 30, 40)) == [(1, 10), (2, 20)]
    assert sent(rig.acknowledge(1)) == [(3, 30)]
    assert sent(rig.acknowledge(1)) == []
    assert sent(rig.acknowledge(900)) == [(4, 40)]  # never beyond what was sent
    assert rig.acknowledge(4) == []
    assert rig.inboxes.waiting == 0


def test_what_was_not_acknowledged_comes_again_in_its_positions():
    rig = Rig()
    rig.subscribe(durable=True)
    rig.come(10, 20, 30)
    rig.acknowledge(1)
    rig.peer = "p2"
    assert sent(rig.subscribe(durable=True, after=2)) == [
        Subscribed("s", "open", 2, LEASE_MS),
        (3, 30),
    ]
    # A client that lost its memory takes it from where it was acknowledged.
    assert sent(rig.subscribe(durable=True)) == [Subscribed("s", "open", 2, LEASE_MS), (3, 30)]


def test_who_looks_for_what_is_kept_begins_nothing_anew():
    rig = Rig()
    looks = Subscribe("s", "f", durable=True, kept_only=True)
    (reply,) = sent(rig.handle(SubscribeArrived(rig.peer, "c", looks)))
    assert reply == Subscribed(
        "s", "refused", message="subscription 's' is not kept at this master"
    )
    rig.subscribe(durable=True)
    rig.come(10)
    assert sent(rig.handle(SubscribeArrived(rig.peer, "c", looks))) == [
        Subscribed("s", "open", 0, LEASE_MS),
        (1, 10),
    ]


def test_a_client_that_goes_back_behind_what_it_had_gets_a_gap():
    rig = Rig()
    rig.subscribe(durable=True)
    rig.come(10, 20, 30)
    rig.acknowledge(2)
    assert sent(rig.subscribe(durable=True, after=0)) == [
        Subscribed("s", "open", 0, LEASE_MS),
        Gap("s", 1, 2),
        (3, 30),
    ]
    rig.acknowledge(3)
    assert sent(rig.subscribe(durable=True, after=1))[1:] == [Gap("s", 2, 3)]
    assert sent(rig.come(40)) == [(4, 40)]


def test_an_inbox_that_is_full_gives_up_the_oldest():
    rig = Rig(most=3)
    rig.subscribe(durable=True)
    rig.now = 60.0
    assert rig.handle(InboxesDue()) == []  # nobody was heard of
    assert sent(rig.come(10, 20, 30, 40, 50)) == []
    assert rig.inboxes.counters["notifications_dropped"] == 2
    assert sent(rig.subscribe(durable=True, after=0)) == [
        Subscribed("s", "open", 0, LEASE_MS),
        Gap("s", 1, 2),
        (3, 30),
        (4, 40),
        (5, 50),
    ]


def test_a_slow_client_is_sent_no_more_for_what_is_dropped_behind_it():
    rig = Rig(window=2, most_queued=3)
    rig.subscribe()
    assert sent(rig.come(10, 20, 30, 40, 50, 60)) == [(1, 10), (2, 20)]
    assert sent(rig.acknowledge(1)) == [Gap("s", 3, 3)]
    assert sent(rig.acknowledge(3)) == [(4, 40), (5, 50)]


def test_bytes_are_bounded_and_what_came_last_stays():
    rig = Rig(most_bytes=400, window=1)
    rig.subscribe(durable=True)
    rig.come(1, 2, 3, padding=100)
    assert rig.inboxes.waiting == 2
    rig.come(4, padding=1_000)
    assert rig.inboxes.waiting == 1
    rig.come(5)
    assert rig.inboxes.waiting == 1


def test_the_bytes_of_clients_are_told_by_what_follows_a_prefix():
    rig = Rig(window=1)
    rig.subscribe(durable=True, client="topic/a")
    rig.subscribe(durable=True, client="c")
    assert rig.inboxes.bytes_for("topic/") == {"a": 0}
    rig.come(1, padding=1_000)
    few = rig.inboxes.bytes_for("topic/")["a"]
    assert few > 1_000
    rig.come(2, 3, padding=1_000)
    assert rig.inboxes.bytes_for("topic/") == {"a": 3 * few}
    assert rig.inboxes.bytes_for("none/") == {}


def test_what_a_publisher_lost_takes_a_position():
    rig = Rig()
    rig.subscribe(durable=True)
    lost = Lost("iad2", "h", 3, 9, 4)
    rig.come(10)
    instructions = rig.handle(ContentArrived(("1",), lost))
    assert sent(instructions) == [Gap("s", 2, 2, lost)]
    assert rig.handle(ContentArrived(("1",), lost)) == []
    assert sent(rig.subscribe(durable=True, after=1))[1:] == [Gap("s", 2, 2, lost)]
    assert rig.acknowledge(2) == [ForgetBody(2), SaveCursor(1, 2)]


def test_memory_of_what_came_is_bounded():
    rig = Rig(most=10, most_remembered=100)
    rig.subscribe(durable=True)
    instructions = rig.come(*range(1, 165))
    assert [each for each in instructions if isinstance(each, ForgetPositions)] == [
        ForgetPositions(1, 64)
    ]
    assert len([each for each in instructions if isinstance(each, ForgetItem)]) == 64
    assert rig.come(65) == []
    assert rig.come(64) != []


def test_what_a_whole_spool_publishes_again_is_no_news():
    rig = Rig()
    rig.subscribe(durable=True)
    for _ in range(2):
        for n in range(SPOOLED):
            rig.inboxes.handle(ContentArrived(("1",), notification(n)), 0.0)
    assert rig.inboxes.counters["notifications_repeated"] == SPOOLED
    rig.inboxes.check_invariants()


def test_many_subscriptions_share_what_is_remembered():
    rig = Rig(most=10, most_remembered=500, most_remembered_in_all=800)
    for number in range(8):
        rig.subscribe(f"s{number}", durable=True)
    names = tuple([str(number) for number in range(1, 9)])
    rig.come(*range(200), names=names)
    known = [len(list(inbox.known)) for inbox in rig.inboxes._by_name.values()]
    assert all(100 <= each < 100 + FORGOTTEN_AT_ONCE for each in known)


def test_a_lease_runs_out_and_says_so_to_a_client_that_comes_late():
    rig = Rig()
    rig.subscribe("volatile")
    rig.subscribe("durable", durable=True)
    rig.come(10, names=("1", "2"))
    rig.now = 50.0
    rig.acknowledge(1, "volatile")
    rig.now = 60.0
    assert rig.handle(InboxesDue()) == []
    rig.now = 110.0
    assert rig.inboxes.next_tick == 110.0
    assert rig.handle(InboxesDue()) == [EndSubscription("1")]
    unknown = SendPush("p1", Subscribed("volatile", "unknown"), waits=False)
    assert rig.acknowledge(1, "volatile") == [unknown]
    # What is durable went on without being sent.
    assert sent(rig.come(20, names=("2",))) == []
    assert sent(rig.acknowledge(1, "durable")) == [Subscribed("durable", "unknown")]
    assert sent(rig.subscribe("durable", durable=True, after=1))[1:] == [(2, 20)]
    assert rig.inboxes.next_tick == 170.0
    assert rig.inboxes.counters["subscriptions_expired"] == 1


def test_a_durable_subscription_that_nobody_comes_back_for_expires():
    rig = Rig(expire_s=1_000.0)
    rig.subscribe(durable=True)
    rig.come(10)
    rig.now = 60.0
    rig.handle(InboxesDue())
    assert rig.inboxes.next_tick == 1_000.0
    rig.now = 1_000.0
    ending = [EndSubscription("1"), ForgetBody(1), ForgetItem(1), ForgetSubscription(1)]
    assert rig.handle(InboxesDue()) == ending
    [refused] = sent(rig.subscribe(durable=True, after=1))
    assert refused.state == "refused"
    assert "no subscription 's' is kept here" in refused.message


def test_a_second_connection_takes_over():
    rig = Rig()
    rig.subscribe()
    rig.peer = "p2"
    assert sent(rig.acknowledge(0)) == [Subscribed("s", "unknown")]
    rig.subscribe()
    [message] = rig.come(10)
    assert message.peer == "p2"
    rig.peer = "p1"
    assert sent(rig.acknowledge(1)) == [Subscribed("s", "unknown")]


def test_another_filter_counts_from_now_on():
    rig = Rig()
    rig.subscribe(durable=True)
    saving, starting, _ = rig.subscribe(durable=True, wanted=OTHER_FILTER)
    assert saving == SaveSubscription(1, SavedSubscription("c", "s", OTHER_FILTER))
    assert starting == StartSubscription("1", OTHER_FILTER)
    assert len(rig.subscribe(durable=True, wanted=OTHER_FILTER)) == 1


def refusal(rig, **request):
    [message] = sent(rig.subscribe(**request))
    assert message.state == "refused"
    return message.message


def test_refusals_say_why():
    rig = Rig(most_owned=2, most_subscriptions=3)
    assert "filter: at character 4" in refusal(rig, wanted="no filter")
    large = tuple([(Predicate("area", "in", ("b1/f4" * 100,) * 64),)] * 2)
    assert "filter: 64" in refusal(rig, wanted=large)
    # It is not even read.
    rig.inboxes._read_filter = None
    assert "filter: 64" in refusal(rig, wanted=large)
    rig.inboxes._read_filter = read_filter
    assert "subscribe anew without 'after'" in refusal(rig, after=0)
    rig.subscribe()
    assert "is open and not durable" in refusal(rig, durable=True)
    assert "position 1 of subscription 's' is yet to come" in refusal(rig, after=1)
    rig.subscribe("t")
    assert "2 subscriptions are open for you" in refusal(rig, name="u")
    rig.subscribe("t", client="d")
    assert "3 subscriptions are open here" in refusal(rig, name="u", client="d")
    rig.unsubscribe("t")
    assert sent(rig.subscribe("u")) == [Subscribed("u", "open", 0, LEASE_MS)]


def test_a_connection_without_a_name_uses_up_nobody_elses_subscriptions():
    rig = Rig(most_owned=2)
    for name in ("s", "t"):
        assert sent(rig.subscribe(name, client="", peer="stranger"))[0].state == "open"
    refused = sent(rig.subscribe("u", client="", peer="stranger"))[0]
    assert "2 subscriptions are open for you" in refused.message
    assert sent(rig.subscribe("v", client="", peer="honest"))[0].state == "open"
    # Found again from a new connection, it counts there.
    assert sent(rig.subscribe("t", client="", peer="again"))[0].state == "open"
    assert sent(rig.subscribe("u", client="", peer="stranger"))[0].state == "open"
    rig.inboxes.check_invariants()


def large(number, bytes_):
    """A filter of so many bytes, or a few more."""
    return ((Predicate("metric", "=", (f"{number}" + "x" * bytes_,)),),)


def test_the_filters_of_one_client_and_of_all_are_bounded_in_bytes():
    rig = Rig(most_filter_bytes=1_000, most_filter_bytes_in_all=1_800)
    rig.subscribe("s", wanted=large(1, 450), durable=True)
    rig.subscribe("t", wanted=large(2, 450))
    assert "your filters would have more than 1000 bytes" in refusal(
        rig, name="u", wanted=large(3, 100)
    )
    assert "your filters would" in refusal(rig, name="t", wanted=large(2, 550))
    # What gets no larger goes on: after a reconnection, or with a smaller filter.
    assert sent(rig.subscribe("s", wanted=large(1, 450), durable=True))[0].state == "open"
    assert sent(rig.subscribe("t", wanted=large(2, 300)))[0].state == "open"
    rig.subscribe("t", wanted=large(2, 450))
    rig.subscribe("s", client="d", wanted=large(1, 700))
    assert "all filters here would have more than 1800 bytes" in refusal(
        rig, client="e", wanted=large(1, 200)
    )
    rig.unsubscribe("s")
    assert sent(rig.subscribe("s", client="e", wanted=large(1, 200)))[0].state == "open"


@pytest.mark.parametrize("durable", [False, True])
def test_ending_what_is_not_there_is_no_error(durable):
    rig = Rig()
    [nothing] = sent(rig.unsubscribe())
    assert (nothing.id, nothing.state) == ("s", "cancelled")
    assert nothing.message == "no subscription 's' is kept here"
    rig.subscribe(durable=durable)
    rig.come(10)
    assert sent(rig.unsubscribe()) == [Subscribed("s", "cancelled")]
    assert len(rig.inboxes) == 0
    assert sent(rig.subscribe(durable=durable)) == [Subscribed("s", "open", 0, LEASE_MS)]
    assert sent(rig.come(10, names=("2",))) == [(1, 10)]


def test_inboxes_that_are_full_at_the_same_time_are_not_counted_in_one_turn(monkeypatch):
    counted = []

    def count():
        counted.append(True)
        return Shares()

    monkeypatch.setattr(inbox, "Shares", count)
    rig = Rig(most=100)
    names = tuple(map(str, range(1, 101)))
    for name in names:
        rig.subscribe(name, durable=True)
    each_turn = []
    for sequence in range(1, 103):
        before = len(counted)
        rig.come(sequence, names=names)
        each_turn.append(len(counted) - before)
    assert sum(each_turn) == 100
    assert max(each_turn) == 2
    assert rig.inboxes.counters["notifications_dropped"] == 200
