"""What one broker says about its tables, message by message."""

from typing import Any

import msgspec
import pytest

from agent.overlay.events import (
    Advertise,
    Subscribe,
    Tick,
    Unadvertise,
    Unsubscribe,
)
from agent.overlay.limits import Limits
from agent.overlay.scot import BrokerId as At
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
    Origin,
    OverlayMessage,
    Relay,
    SubscriptionChange,
    SubscriptionPart,
    SubscriptionVersions,
)
from agent.wire.predicates import Filter, Predicate
from tests.overlay.one_broker import B1, B2, A, C, broker, copy, does, sent, told
from tests.overlay.world import EVERYTHING, between

NONSENSE: Filter = ((Predicate("x", "<", ()),),)


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


def test_a_home_that_asks_is_not_told_its_own_set() -> None:
    made = broker()
    does(made, Subscribe("s", EVERYTHING))
    told(made, A, SubscriptionPart("a", 2, 1, 0, 1, ((1, EVERYTHING),)))
    everything = SubscriptionVersions((), True)
    assert [message.home for _, message in told(made, C, everything)] == ["b", "a"]
    assert [message.home for _, message in told(made, A, everything)] == ["b", "c"]


def test_who_asks_again_and_again_is_answered_as_fast_as_others_bear() -> None:
    made = broker()
    much = tuple((Predicate("x", "=", ("y" * 512,)),) for _ in range(64))
    for number in range(100):
        does(made, Subscribe(f"s{number}", much))
    everything = SubscriptionVersions((), True)
    whole = told(made, A, everything)
    assert [message.total for _, message in whole] == [100, 0]
    # One is ahead of the budget, and the rest waits.
    assert sum(told(made, A, everything) == whole for _ in range(9)) == 0
    one = SubscriptionVersions((HomeVersion("b", 1, 99),), False)
    assert told(made, C, one) == []
    due = made.next_tick
    assert due is not None
    assert does(made, Tick(), due / 2) == []
    # A says meanwhile that it has all but one, too.
    assert told(made, A, one, due / 2) == []
    change = SubscriptionChange("b", 1, 100, 100, much)
    assert does(made, Tick(), due) == [(A, change), whole[1]]
    then = made.next_tick
    assert then is not None
    assert does(made, Tick(), then) == [(C, change)]
    assert told(made, A, everything, then + 1.0) == whole


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
    said = told(made, A, past)
    assert (C, anew) in said
    assert (B1, CibState(1, (), (), (8, 3))) in said
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
