"""What one broker says about its tables, message by message."""

from typing import Any

import msgspec
import pytest

from agent.overlay.broker import Broker
from agent.overlay.events import (
    Advertise,
    Deliver,
    Event,
    Instruction,
    LinkDown,
    LinkMeasured,
    LinkUp,
    Publish,
    Received,
    Send,
    Subscribe,
    Tick,
    Unadvertise,
    Undeliverable,
    Unsubscribe,
)
from agent.overlay.limits import Limits
from agent.overlay.scot import Broker as At
from agent.overlay.scot import Scot
from agent.wire.overlay import (
    AdvertisementChange,
    AdvertisementPart,
    AdvertisementVersion,
    CibClear,
    CibSet,
    CibState,
    Have,
    HomeVersion,
    Kept,
    Notification,
    Notify,
    Origin,
    OverlayMessage,
    Relay,
    SubscriptionChange,
    SubscriptionPart,
    SubscriptionVersions,
)
from agent.wire.predicates import Filter, Predicate
from tests.overlay.world import EVERYTHING, between

PATH = Scot([("a", "b"), ("b", "c")], 3)
A, B, C = (At(vertex, 0) for vertex in "abc")
B1, B2 = At("b", 1), At("b", 2)
NONSENSE: Filter = ((Predicate("x", "<", ()),),)


def broker(*, known: bool = True, routing: Any = "idr", limits: Limits | None = None) -> Broker:
    """The one at b of cluster 0, all links up; `known`: it has heard of all others, and they of
    it."""
    made = Broker(B, PATH, epoch=1, routing=routing, limits=limits or Limits(unknown_s=1e9))
    for neighbour in (A, C, B1, B2):
        made.handle(LinkUp(neighbour), 0.0)
    if known:
        for home in "ac":
            told(made, At(home, 0), SubscriptionPart(home, 1, 0, 0, 0, ()))
        for host in (B1, B2):
            told(made, host, AdvertisementPart(1, 0, 0, 0, ()))
            told(made, host, CibState(1, (), (), (1, 1)))
    return made


def told(made: Broker, sender: At, message: Any) -> list[tuple[At, Any]]:
    """What it sends when that comes."""
    return sent(made.handle(Received(sender, message), 0.0))


def sent(instructions: list[Instruction]) -> list[tuple[At, Any]]:
    return [(each.neighbour, each.message) for each in instructions if isinstance(each, Send)]


def does(made: Broker, event: Event) -> list[tuple[At, Any]]:
    return sent(made.handle(event, 0.0))


def copy(sequence: int = 1, clusters: bytes = b"", x: float = 1.0) -> Notify:
    return Notify(Notification(Origin("p", "h", sequence), 0, {"x": x}), clusters)


# --- subscriptions -------------------------------------------------------------------------------


def test_a_subscription_goes_to_the_cluster_and_on_along_the_tree() -> None:
    made = broker()
    change = SubscriptionChange("b", 1, 1, 1, EVERYTHING)
    assert does(made, Subscribe("s", EVERYTHING)) == [(A, change), (C, change)]
    assert does(made, Subscribe("s", EVERYTHING)) == []
    other = SubscriptionChange("a", 1, 1, 1, EVERYTHING)
    assert told(made, A, other) == [(C, other)]
    assert told(made, A, other) == []
    gone = SubscriptionChange("b", 1, 2, 1, None)
    assert does(made, Unsubscribe("s")) == [(A, gone), (C, gone)]
    assert made.prt_entries == 1


def test_a_gap_is_asked_for_where_it_was_seen() -> None:
    made = broker()
    late = SubscriptionChange("a", 1, 2, 2, EVERYTHING)
    asked = SubscriptionVersions((HomeVersion("a", 1, 0),), False)
    assert told(made, A, late) == [(A, asked)]
    assert made.prt_entries == 0


def test_who_asks_is_told_what_it_misses_and_no_more() -> None:
    made = broker()
    does(made, Subscribe("s", EVERYTHING))
    does(made, Subscribe("t", EVERYTHING))
    one = SubscriptionVersions((HomeVersion("b", 1, 1),), False)
    assert told(made, A, one) == [(A, SubscriptionChange("b", 1, 2, 2, EVERYTHING))]
    none = SubscriptionVersions((HomeVersion("a", 1, 0),), False)
    assert told(made, A, none) == []


def test_a_filter_that_makes_no_sense_changes_nothing() -> None:
    made = broker()
    with pytest.raises(ValueError):
        made.handle(Subscribe("s", NONSENSE), 0.0)
    with pytest.raises(ValueError):
        made.handle(Advertise("p", NONSENSE), 0.0)
    assert (made.srt_entries, made.prt_entries) == (0, 0)
    told(made, A, SubscriptionChange("a", 1, 1, 1, NONSENSE))
    told(made, B1, AdvertisementChange(1, 1, 1, NONSENSE))
    assert made.counters["unusable"] == 2
    assert does(made, Subscribe("s", EVERYTHING))
    told(made, A, SubscriptionChange("a", 1, 2, 1, None))
    told(made, B1, AdvertisementChange(1, 2, 1, None))
    assert (made.srt_entries, made.prt_entries) == (0, 1)


def test_an_epoch_that_was_too_low_is_told_to_all() -> None:
    made = broker()
    does(made, Subscribe("s", EVERYTHING))
    past = SubscriptionVersions((HomeVersion("b", 7, 3),), True)
    anew = SubscriptionPart("b", 8, 1, 0, 1, ((1, EVERYTHING),))
    assert (C, anew) in told(made, A, past)
    does(made, Advertise("p", EVERYTHING))
    own = AdvertisementPart(8, 1, 0, 1, ((1, EVERYTHING),))
    assert told(made, B1, AdvertisementVersion(7, 9)) == [(B1, own), (B2, own)]


# --- advertisements ------------------------------------------------------------------------------


def test_an_advertisement_goes_to_the_region() -> None:
    made = broker()
    change = AdvertisementChange(1, 1, 1, EVERYTHING)
    assert does(made, Advertise("p", EVERYTHING)) == [(B1, change), (B2, change)]
    assert does(made, Advertise("p", EVERYTHING)) == []
    gone = AdvertisementChange(1, 2, 1, None)
    assert does(made, Unadvertise("p")) == [(B1, gone), (B2, gone)]
    assert made.srt_entries == 0


def test_the_first_subscription_sets_the_bit_and_the_last_clears_it() -> None:
    made = broker()
    assert told(made, B1, AdvertisementChange(1, 1, 1, between(0, 2))) == []
    first = told(made, A, SubscriptionChange("a", 1, 1, 1, between(2, 3)))
    assert (B1, CibSet(1, 1, (1, 3))) in first
    second = told(made, A, SubscriptionChange("a", 1, 2, 2, between(1, 1)))
    assert [to for to, _ in second] == [C]
    assert [to for to, _ in told(made, A, SubscriptionChange("a", 1, 3, 1, None))] == [C]
    last = told(made, A, SubscriptionChange("a", 1, 4, 2, between(3, 4)))
    assert (B1, CibClear(1, 1, (1, 4))) in last


def test_a_set_that_takes_the_place_of_another_says_nothing_if_nothing_changed() -> None:
    made = broker()
    told(made, B1, AdvertisementChange(1, 1, 1, EVERYTHING))
    told(made, A, SubscriptionChange("a", 1, 1, 1, between(1, 1)))
    anew = SubscriptionPart("a", 2, 1, 0, 1, ((1, between(2, 2)),))
    assert [to for to, _ in told(made, A, anew)] == [C]


def test_who_does_not_know_all_subscriptions_clears_no_bit() -> None:
    made = broker(known=False)
    told(made, B1, AdvertisementPart(1, 1, 0, 1, ((1, EVERYTHING),)))
    assert (B1, CibSet(1, 1, (1, 1))) in told(
        made, A, SubscriptionPart("a", 1, 1, 0, 1, ((1, EVERYTHING),))
    )
    assert [to for to, _ in told(made, A, SubscriptionChange("a", 1, 2, 1, None))] == [C]
    # The last home that it had not heard of: now it knows.
    complete = told(made, C, SubscriptionPart("c", 1, 0, 0, 0, ()))
    assert (B1, CibState(1, (), (1,), (1, 2))) in complete


def test_after_its_patience_an_unknown_home_wants_nothing() -> None:
    made = broker(known=False, limits=Limits(unknown_s=5.0))
    told(made, B1, AdvertisementPart(1, 1, 0, 1, ((1, EVERYTHING),)))
    assert made.next_tick == 5.0
    assert sent(made.handle(Tick(), 5.0)) == [(B1, CibState(1, (), (1,), (1, 1)))]


def test_the_host_believes_what_was_said_last() -> None:
    made = broker()
    does(made, Advertise("p", EVERYTHING))
    told(made, B1, CibSet(1, 1, (1, 5)))
    assert made.targets_of("p") == [1]
    told(made, B1, CibClear(1, 1, (1, 4)))
    assert made.targets_of("p") == [1]
    told(made, B1, CibClear(1, 1, (1, 6)))
    told(made, B1, CibSet(1, 1, (1, 5)))
    assert made.targets_of("p") == []
    told(made, B1, CibState(1, (1,), (), (2, 1)))
    assert made.targets_of("p") == [1]


def test_what_belongs_to_another_epoch_or_advertisement_sets_no_bit() -> None:
    made = broker()
    does(made, Advertise("p", EVERYTHING))
    told(made, B1, CibSet(2, 1, (1, 5)))
    told(made, B1, CibSet(1, 9, (1, 6)))
    assert made.targets_of("p") == []


def test_a_name_that_comes_back_is_another_advertisement() -> None:
    made = broker()
    does(made, Advertise("p", EVERYTHING))
    does(made, Unadvertise("p"))
    does(made, Advertise("p", EVERYTHING))
    told(made, B1, CibSet(1, 1, (1, 5)))
    assert made.targets_of("p") == []


# --- notifications -------------------------------------------------------------------------------


def test_a_copy_is_delivered_passed_on_and_told_of() -> None:
    made = broker()
    does(made, Subscribe("s", EVERYTHING))
    told(made, C, SubscriptionChange("c", 1, 1, 1, between(1, 1)))
    instructions = made.handle(Received(A, copy()), 0.0)
    assert instructions == [Deliver(("s",), copy().notification), Send(C, copy())]
    # Again, while it is under way: nobody is told twice.
    assert told(made, A, copy()) == []
    kept = Have((Kept(copy().notification.origin, b"\x01"),))
    assert told(made, C, kept) == [(A, kept)]
    assert made.handle(Received(A, copy()), 0.0) == [Send(A, kept)]
    assert made.held == 0


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
    for neighbour in (A, C):
        does(made, LinkDown(neighbour))
    does(made, LinkDown(B2))
    assert does(made, LinkUp(B2))
    # Neither b/1 itself, nor a way to it: its cluster waits, the other does not.
    made.handle(LinkDown(B2), 0.0)
    down = made.handle(LinkDown(B1), 0.0)
    assert not sent(down)
    assert (B2, copy()) in does(made, LinkUp(B2))


def test_time_sends_again_what_is_not_settled() -> None:
    made = broker(limits=Limits(resend_s=10.0, unknown_s=1e9))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    told(made, A, copy())
    assert made.next_tick == 10.0
    assert sent(made.handle(Tick(), 9.0)) == []
    assert sent(made.handle(Tick(), 10.0)) == [(C, copy())]
    assert made.next_tick == 20.0


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


TOO_MANY = "more than 2 notifications wait at b/0"


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


def test_a_lost_ilink_is_bypassed_like_a_congested_one() -> None:
    made = broker()
    does(made, Advertise("p", EVERYTHING))
    for neighbour in (B1, B2):
        told(made, neighbour, CibSet(1, 1, (1, 5)))
    does(made, LinkDown(B2))
    does(made, LinkMeasured(B2, 0, 0, 0))
    copies = does(made, Publish(copy().notification))
    assert [(to, message.clusters) for to, message in copies] == [(B1, b"\x04")]


# --- on the wire ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        SubscriptionChange("a", 1, 2, 3, between(1, 2, "a")),
        SubscriptionChange("a", 1, 3, 3),
        SubscriptionPart("a", 1, 2, 0, 1, ((1, EVERYTHING),)),
        SubscriptionVersions((HomeVersion("a", 1, 2),), True),
        AdvertisementChange(1, 2, 3, EVERYTHING),
        AdvertisementPart(1, 2, 0, 1, ((1, EVERYTHING),)),
        AdvertisementVersion(1, 2),
        CibSet(1, 2, (1, 3)),
        CibClear(1, 2, (1, 3)),
        CibState(1, (1,), (2,), (1, 3)),
        copy(clusters=b"\x02"),
        Have((Kept(Origin("p", "h", 1), b"\x01"),)),
        Relay(A, (B1, At("c", 1), C), 1, copy()),
    ],
)
def test_messages_survive_the_wire(message: Any) -> None:
    decode = msgspec.msgpack.Decoder(OverlayMessage).decode
    assert decode(msgspec.msgpack.encode(message)) == message
