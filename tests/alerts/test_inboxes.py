"""Inboxes, step by step."""

import pytest

from agent.alerts.inbox import FORGOTTEN_AT_ONCE, FORGOTTEN_IN_A_TURN
from agent.alerts.inbox_events import (
    AcknowledgeArrived,
    ContentArrived,
    EndSubscription,
    ForgetBody,
    ForgetItem,
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
)
from agent.alerts.limits import Limits
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
)
from tests.alerts.inbox_rig import LEASE_MS, Rig, refusal, sent
from tests.alerts.samples import FILTER, OTHER_FILTER, notification, read_filter


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


def test_different_items_that_are_remembered_are_bounded_together():
    """Each subscription has its own, one after another."""
    most, subscriptions = 20 * FORGOTTEN_AT_ONCE, 10
    rig = Rig(most=10, most_remembered=500, most_remembered_items=most)
    for number in range(subscriptions):
        rig.subscribe(f"s{number}", durable=True)
    for number in range(subscriptions):
        came = range(1_000 * number, 1_000 * number + 600)
        rig.come(*came, names=(str(number + 1),))
        known = list(list(rig.inboxes._by_name.values())[number].known)
        assert known[-1].key.sequence == came[-1]
        assert len(known) >= most // subscriptions
    assert len(rig.inboxes._items) < 2 * most + subscriptions * FORGOTTEN_AT_ONCE
    rig.inboxes.check_invariants()


def test_what_all_keep_is_bounded_and_who_has_many_subscriptions_gives_way():
    most, greedy = 40_000, 20
    rig = Rig(most_bytes=20_000, most_bytes_in_all=most)
    rig.subscribe("honest", client="honest", durable=True)
    rig.come(*range(20), names=("1",), padding=400)
    for number in range(2, greedy + 2):
        rig.subscribe(f"s{number}", client="greedy", durable=True)
        for n in range(50):
            came = rig.come(1_000 * number + n, names=(str(number),), padding=400)
            assert sum(isinstance(each, ForgetBody) for each in came) <= 2
        assert rig.inboxes._items.bytes < 2 * most
    rig.come(20, 21, 22, names=("1",), padding=400)
    honest, *others = rig.inboxes._by_name.values()
    assert [each.key.sequence for each in honest.kept] == list(range(23))
    assert all(each.kept for each in others)


def test_what_one_client_keeps_is_bounded():
    rig = Rig(most_bytes=20_000, most_bytes_owned=40_000)
    for number in range(1, 21):
        rig.subscribe(f"s{number}", durable=True)
    for number in range(1, 21):
        for n in range(50):
            rig.come(1_000 * number + n, names=(str(number),), padding=400)
    assert rig.inboxes._items.bytes < 40_000
    assert all(each.kept for each in rig.inboxes._by_name.values())


def test_another_content_of_the_same_origin_changes_no_count():
    rig = Rig()
    rig.subscribe("volatile")
    rig.subscribe("durable", durable=True)
    rig.come(70, names=("1",))
    rig.come(70, names=("2",), padding=400)
    rig.inboxes.check_invariants()
    rig.acknowledge(1, "volatile")
    rig.inboxes.check_invariants()


def test_few_items_are_forgotten_in_a_turn():
    """As after a subscription more, which leaves each of the others less."""
    rig = Rig(most=10, most_remembered=4 * FORGOTTEN_IN_A_TURN)
    rig.subscribe(durable=True)
    rig.come(*range(3 * FORGOTTEN_IN_A_TURN))
    rig.inboxes._limits = Limits(most=10, most_remembered=100)
    for turn in range(3):
        came = rig.come(10**6 + turn)
        assert sum(isinstance(each, ForgetItem) for each in came) <= FORGOTTEN_IN_A_TURN
    [inbox] = rig.inboxes._by_name.values()
    assert 100 <= len(list(inbox.known)) < 100 + FORGOTTEN_AT_ONCE


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
