"""What one broker does with notifications, message by message."""

from agent.overlay.broker import Broker
from agent.overlay.events import (
    Advertise,
    Deliver,
    Instruction,
    LinkDown,
    LinkMeasured,
    LinkUp,
    Publish,
    Received,
    Send,
    Subscribe,
    Tick,
    Undeliverable,
)
from agent.overlay.limits import Limits
from agent.overlay.scot import BrokerId as At
from agent.wire.overlay import (
    CibSet,
    Have,
    HomeVersion,
    Kept,
    Notification,
    Notify,
    NoWay,
    Origin,
    Relay,
    SubscriptionChange,
    SubscriptionVersions,
)
from tests.overlay.one_broker import B1, B2, A, B, C, broker, copy, does, sent, told
from tests.overlay.world import EVERYTHING, between


def test_a_copy_is_passed_on_delivered_and_told_of() -> None:
    made = broker()
    does(made, Subscribe("s", EVERYTHING))
    told(made, C, SubscriptionChange("c", 1, 1, 1, between(1, 1)))
    instructions = made.handle(Received(A, copy()), 0.0)
    # First to the others, which deliver meanwhile.
    assert instructions == [Send(C, copy(), A), Deliver(("s",), copy().notification)]
    # Again, while it is under way: c is not told twice, and a is told that it is kept.
    keeps = Have((Kept(copy().notification.origin, b"\x00"),))
    assert told(made, A, copy()) == [(A, keeps)]
    kept = Have((Kept(copy().notification.origin, b"\x01"),))
    assert told(made, C, kept) == [(A, kept)]
    assert made.handle(Received(A, copy()), 0.0) == [Send(A, kept)]
    assert made.held == 0


def test_a_copy_never_goes_back() -> None:
    made = broker()
    for home in (A, C):
        told(made, home, SubscriptionChange(home.vertex, 1, 1, 1, EVERYTHING))
    assert told(made, A, copy()) == [(C, copy())]
    # What came from another cluster goes both ways.
    assert told(made, B1, copy(2)) == [(A, copy(2)), (C, copy(2))]


def test_haves_of_one_message_go_on_in_one() -> None:
    made = broker()
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    for sequence in (1, 2):
        told(made, A, copy(sequence))
    both = Have(tuple(Kept(Origin("p", "h", each), b"\x01") for each in (1, 2)))
    assert told(made, C, both) == [(A, both)]


def test_congested_ilinks_are_bypassed_by_idr_and_not_by_snr() -> None:
    for routing, expected in [("idr", [(B1, b"\x04")]), ("snr", [(B1, b""), (B2, b"")])]:
        made = broker(routing=routing)
        does(made, LinkMeasured(B2, 50, 1, 50))
        does(made, Advertise("p", EVERYTHING))
        for neighbour in (B1, B2):
            told(made, neighbour, CibSet(1, 1, (1, 5)))
        copies = does(made, Publish(copy().notification))
        assert [(to, message.clusters) for to, message in copies] == expected
        # What is published again is routed as it was, or not at all.
        assert does(made, Publish(copy().notification)) == []


def test_who_asks_again_from_elsewhere_is_routed_statically() -> None:
    """What was decided about a notification before is not known to who comes second."""
    made = broker()
    for neighbour in (B1, B2):
        does(made, LinkMeasured(neighbour, 50, 1, 50))
    told(made, A, copy())
    later = told(made, C, copy(clusters=b"\x06"))
    assert later == [(B1, copy()), (B2, copy()), (C, Have((Kept(Origin("p", "h", 1), b"\x01"),)))]


def test_a_bit_that_comes_back_from_its_carrier_is_served_directly() -> None:
    made = broker()
    does(made, LinkMeasured(B1, 50, 1, 50))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    assert told(made, A, copy(clusters=b"\x02")) == [(C, copy(clusters=b"\x02"))]
    assert (B1, copy()) in told(made, C, copy(clusters=b"\x02"))


def test_what_was_under_way_goes_round_as_soon_as_the_link_is_down() -> None:
    made = broker()
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    assert told(made, A, copy()) == [(C, copy())]
    ((first, relay),) = does(made, LinkDown(C))
    assert (first, relay.path, relay.message) == (B1, (B1, At("c", 1), C), copy())


def test_the_bits_of_a_broker_without_a_way_are_served_directly() -> None:
    made = broker()
    does(made, LinkMeasured(B2, 50, 1, 50))
    does(made, Advertise("p", EVERYTHING))
    for neighbour in (B1, B2):
        told(made, neighbour, CibSet(1, 1, (1, 5)))
    does(made, Publish(copy().notification))
    for neighbour in (A, C, B2, B1):
        does(made, LinkDown(neighbour))
    # Alone until now; b/1 may be reached through b/2.
    up = does(made, LinkUp(B2))
    relay = Relay(B, (B2, B1), 0, copy(clusters=b"\x04"))
    assert (B2, relay) in up
    # It is dead: cluster 2 need not wait for it.
    back = NoWay(B, (B2, B1), 0, -1, copy(clusters=b"\x04"))
    assert (B2, copy()) in told(made, B2, back)
    kept = Have((Kept(Origin("p", "h", 1), b"\x04"),))
    assert told(made, B2, kept) == []
    assert made.held == 1


def test_a_subscription_comes_before_what_is_passed_on_after_it() -> None:
    """The link was down when it was made: its neighbour might make something of the notification
    before it knew who wants that."""
    made = broker()
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    for neighbour in (B1, B2, C):
        does(made, LinkDown(neighbour))
    does(made, Subscribe("s", EVERYTHING))
    told(made, A, copy())
    up = does(made, LinkUp(C))
    assert [type(message) for _, message in up] == [SubscriptionVersions]
    assert told(made, A, copy(2)) == []
    # One who asks for a single home is not done.
    assert told(made, C, SubscriptionVersions((HomeVersion("a", 1, 0),), False)) == []
    known = (HomeVersion("a", 1, 0), HomeVersion("b", 1, 0), HomeVersion("c", 1, 1))
    answer = told(made, C, SubscriptionVersions(known, True))
    change = (C, SubscriptionChange("b", 1, 1, 1, EVERYTHING))
    assert answer == [change, (C, copy()), (C, copy(2))]
    # From then on nothing waits.
    assert told(made, A, copy(3)) == [(C, copy(3))]
    assert told(made, C, SubscriptionVersions(known, True)) == [change]


def test_time_sends_again_what_is_not_settled() -> None:
    made = broker(limits=Limits(resend_s=10.0, unknown_s=1e9))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    told(made, A, copy())
    assert made.next_tick == 10.0
    assert sent(made.handle(Tick(), 9.0)) == []
    assert sent(made.handle(Tick(), 10.0)) == [(C, copy())]
    assert made.next_tick == 20.0


def test_nothing_is_sent_again_over_a_link_to_one_who_is_at_work() -> None:
    made = broker(limits=Limits(resend_s=10.0, unknown_s=1e9))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    for sequence in range(30):
        told(made, A, copy(sequence))
    again = []
    for sequence in range(20):
        now = 5.0 * sequence
        kept = Have((Kept(Origin("p", "h", sequence), b"\x01"),))
        made.handle(Received(C, kept), now)
        again += sent(made.handle(Tick(), now))
    assert again == []
    # It may have given them up: after ten times the wait it is asked again.
    assert made.next_tick == 100.0
    assert len(sent(made.handle(Tick(), 100.0))) == 10


def test_who_is_at_work_is_asked_again_at_last_though_another_one_is_down() -> None:
    made = broker(limits=Limits(resend_s=10.0, unknown_s=1e9))
    for home in (A, C):
        told(made, home, SubscriptionChange(home.vertex, 1, 1, 1, EVERYTHING))
    does(made, Advertise("p", EVERYTHING))
    does(made, LinkDown(C))
    does(made, Publish(copy(0).notification))
    asked = []
    for number in range(1, 80):
        now = 5.0 * number
        out = sent(made.handle(Tick(), now))
        asked += [now for each in out if each == (A, copy(0))]
        # It settles all but the first, which it has lost.
        made.handle(Publish(copy(number).notification), now)
        kept = Have((Kept(Origin("p", "h", number), b"\x01"),))
        made.handle(Received(A, kept), now)
    # After ten times the wait, each time, and not sooner.
    assert asked == [100.0, 200.0, 300.0]


def test_word_that_it_is_settled_waits_for_more() -> None:
    made = broker(limits=Limits(batch_s=0.5, unknown_s=1e9))
    assert sent(made.handle(Received(A, copy(1)), 1.0)) == []
    assert made.next_tick == 1.5
    assert sent(made.handle(Received(A, copy(2)), 1.25)) == []
    both = Have(tuple(Kept(Origin("p", "h", each), b"\x01") for each in (1, 2)))
    assert sent(made.handle(Tick(), 1.5)) == [(A, both)]
    assert made.next_tick is None


def full(*, links: bool) -> Broker:
    """It keeps two notifications that c may want, and no more."""
    made = broker(limits=Limits(most_held=2, unknown_s=1e9))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    does(made, Advertise("p", EVERYTHING))
    for neighbour in () if links else (A, C, B1, B2):
        does(made, LinkDown(neighbour))
    for sequence in (1, 2):
        does(made, Publish(copy(sequence).notification))
    assert made.held == 2
    return made


def undeliverable(instructions: list[Instruction]) -> list[tuple[int, str]]:
    return [
        (each.origin.sequence, each.reason)
        for each in instructions
        if isinstance(each, Undeliverable)
    ]


TOO_MANY = "more than 2 notifications, of 2 KiB each, wait at b/0"


def test_what_waits_for_a_lost_link_makes_room_for_what_may_get_through() -> None:
    made = full(links=False)
    assert undeliverable(made.handle(Publish(copy(3).notification), 0.0)) == [
        (1, TOO_MANY),
        (3, "no way from b/0 to c/0 at the moment"),
    ]
    assert made.held == 2


def test_what_the_spool_can_keep_is_not_taken_while_all_is_well() -> None:
    made = full(links=True)
    assert undeliverable(made.handle(Publish(copy(3).notification), 0.0)) == [(3, TOO_MANY)]
    # What others passed on has to be taken; the spool here still has the other.
    assert undeliverable(made.handle(Received(A, copy(4)), 0.0)) == [(1, TOO_MANY)]
    assert made.held == 2
    assert made.counters["given_up"] == 2


def test_who_floods_a_broker_pushes_out_nobody_else() -> None:
    made = broker(limits=Limits(most_held=4, unknown_s=1e9))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    does(made, Advertise("p", EVERYTHING))
    told(made, B1, copy(1))
    does(made, Publish(copy(2).notification))
    for sequence in range(3, 100):
        assert told(made, A, copy(sequence)) == [(C, copy(sequence))]
    assert made.counters["given_up"] == 95
    # What a third brings goes at the cost of the one who floods.
    told(made, B2, copy(100))
    kept = Have(tuple(Kept(Origin("p", "h", each), b"\x01") for each in range(1, 101)))
    assert told(made, C, kept) == [
        (B1, Have((Kept(Origin("p", "h", 1), b"\x01"),))),
        (A, Have((Kept(Origin("p", "h", 99), b"\x01"),))),
        (B2, Have((Kept(Origin("p", "h", 100), b"\x01"),))),
    ]


def test_who_sends_large_notifications_takes_no_more_memory_and_pushes_out_nobody_else() -> None:
    """Ten thousand of the largest took 1.2 GiB."""
    made = broker(limits=Limits(most_held=100, unknown_s=1e9))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    for sequence in range(1, 31):
        told(made, B1, copy(sequence))
    attributes = {f"a{number}": "\U0001f426" * 512 for number in range(31)}
    for sequence in range(31, 61):
        told(made, A, Notify(Notification(Origin("p", "h", sequence), 0, attributes), b""))
    assert made.held == 32
    kept = Have(tuple(Kept(Origin("p", "h", each), b"\x01") for each in range(1, 61)))
    settled = dict(told(made, C, kept))
    assert len(settled[B1].parts) == 30
    assert [each.origin.sequence for each in settled[A].parts] == [59, 60]


def test_what_comes_by_a_detour_counts_for_who_brought_it() -> None:
    """Whatever source it names: else a neighbour could be many."""
    made = broker(limits=Limits(most_held=2, unknown_s=1e9))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    told(made, B2, copy(1))
    for sequence in range(2, 20):
        source = At("ac"[sequence % 2], 1)
        told(made, B1, Relay(source, (B1, B), 1, copy(sequence)))
    kept = Have((Kept(Origin("p", "h", 1), b"\x01"),))
    assert told(made, C, kept) == [(B2, kept)]


def test_a_lost_ilink_is_bypassed_like_a_congested_one() -> None:
    made = broker()
    does(made, Advertise("p", EVERYTHING))
    for neighbour in (B1, B2):
        told(made, neighbour, CibSet(1, 1, (1, 5)))
    does(made, LinkDown(B2))
    does(made, LinkMeasured(B2, 0, 0, 0))
    copies = does(made, Publish(copy().notification))
    assert [(to, message.clusters) for to, message in copies] == [(B1, b"\x04")]
