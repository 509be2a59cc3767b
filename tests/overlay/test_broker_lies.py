"""What a neighbour may say of others, and what is not believed."""

import msgspec
import pytest

from agent.overlay.anti_entropy import EPOCHS_PER_S, MAX_OUTBID
from agent.overlay.broker import Broker
from agent.overlay.events import Advertise, LinkDown, LinkUp, Subscribe, Tick
from agent.overlay.scot import BrokerId
from agent.overlay.tables import OUTBID_S
from agent.wire.overlay import (
    AdvertisementChange,
    AdvertisementPart,
    AdvertisementVersion,
    CibClear,
    CibState,
    HomeVersion,
    OverlayMessage,
    Relay,
    SubscriptionChange,
    SubscriptionPart,
    SubscriptionVersions,
)
from agent.wire.predicates import Predicate
from tests.overlay.one_broker import B1, PATH, A, B, C, broker, does, sent, told
from tests.overlay.world import EVERYTHING

A1 = BrokerId("a", 1)
MAX_EPOCH = MAX_OUTBID  # of brokers whose clocks show 1970


@pytest.mark.parametrize(
    "lie",
    [
        SubscriptionChange("b", 7, 3, 9, None),
        SubscriptionPart("b", 7, 3, 0, 0, ()),
        SubscriptionVersions((HomeVersion("b", 7, 3),), False),
    ],
)
def test_who_tells_of_a_later_own_set_is_outbid_before_all(lie) -> None:
    made = broker()
    does(made, Subscribe("s", EVERYTHING))
    said = told(made, A, lie)
    own = SubscriptionPart("b", 8, 1, 0, 1, ((1, EVERYTHING),))
    assert (A, own) in said
    assert (C, own) in said


@pytest.mark.parametrize(
    ("liar", "lie"),
    [
        (A, lambda epoch: SubscriptionVersions((HomeVersion("b", epoch, 3),), False)),
        (A, lambda epoch: SubscriptionChange("b", epoch, 3, 9, None)),
        (B1, lambda epoch: AdvertisementVersion(epoch, 3)),
    ],
)
def test_who_tells_of_ever_later_own_sets_has_them_told_again_now_and_then(liar, lie) -> None:
    made = broker()
    does(made, Subscribe("s", EVERYTHING))
    does(made, Advertise("p", EVERYTHING))
    assert told(made, liar, lie(7))
    for epoch in range(9, 99):
        assert told(made, liar, lie(epoch)) == []
    assert made.next_tick == OUTBID_S
    again = sent(made.handle(Tick(), OUTBID_S))
    assert {message.epoch for _, message in again if hasattr(message, "total")} == {99}
    assert made.next_tick is None or made.next_tick > OUTBID_S


@pytest.mark.parametrize("epoch", [MAX_EPOCH, MAX_EPOCH + 1, 2**48 - 1, 2**53 - 1])
def test_an_epoch_always_has_one_above_it(epoch: int) -> None:
    made = broker()
    does(made, Subscribe("s", EVERYTHING))
    does(made, Advertise("p", EVERYTHING))
    for sender, lie in [
        (A, SubscriptionVersions((HomeVersion("b", epoch, 1),), False)),
        (A, SubscriptionChange("b", epoch, 1, 1, None)),
        (B1, AdvertisementVersion(epoch, 1)),
    ]:
        for _, message in told(made, sender, lie):
            raw = msgspec.msgpack.encode(message)
            assert msgspec.msgpack.decode(raw, type=OverlayMessage) == message
    # It goes on with what all believe.
    (first, _) = does(made, Subscribe("t", EVERYTHING))
    raw = msgspec.msgpack.encode(first[1])
    assert msgspec.msgpack.decode(raw, type=OverlayMessage).epoch <= MAX_EPOCH + 1


def test_what_a_cluster_wants_is_believed_anew_when_its_link_comes_up() -> None:
    """However high its neighbour has stamped what it said before."""
    made = broker()
    does(made, Advertise("p", EVERYTHING))
    last = (2**48 - 1, 2**53 - 1)
    told(made, B1, CibState(1, (), (1,), last))
    told(made, B1, CibState(1, (1,), (), (9, 1)))
    assert made.targets_of("p") == []
    does(made, LinkDown(B1))
    does(made, LinkUp(B1))
    late = Relay(B1, (B1, A1, A, B), 3, CibState(1, (), (1,), (8, 1)))
    told(made, A, late)
    told(made, B1, CibState(1, (1,), (), (9, 2)))
    assert made.targets_of("p") == [1]
    told(made, A, late)
    told(made, B1, CibClear(1, 1, (9, 1)))
    assert made.targets_of("p") == [1]
    told(made, B1, CibClear(1, 1, (9, 3)))
    assert made.targets_of("p") == []


def test_of_a_home_no_epoch_is_believed_that_it_could_not_exceed() -> None:
    wall = 1.8e9
    home, other = (Broker(at, PATH, epoch=int(wall), wall=lambda: wall) for at in (C, B))
    for made, link in ((home, B), (other, C)):
        made.handle(LinkUp(link), 0.0)
    does(home, Subscribe("s", EVERYTHING))
    least = MAX_OUTBID + EPOCHS_PER_S * int(wall)
    known = HomeVersion("c", 0, 0)
    for epoch in (2**48 - 1, least + 1, least):
        assert known.epoch == 0
        told(other, C, SubscriptionChange("c", epoch, 1, 1, None))
        (known,) = other._tables.subscriptions.versions("c").homes
    assert known.epoch == least
    # The home hears of it, and tells its set anew; a moment later that is believed.
    (said,) = [
        message
        for _, message in told(home, B, SubscriptionVersions((known,), False))
        if isinstance(message, SubscriptionPart)
    ]
    assert said.epoch == least + 1
    told(other, C, said)
    assert other.prt_entries == 0
    wall += 1.0
    told(other, C, said)
    assert other.prt_entries == 1


def test_a_broker_whose_clock_is_years_behind_believes_the_others_and_is_believed() -> None:
    """Such as that of a Pi whose time server is not reached."""
    walls = [1.8e9, 0.0]
    home = Broker(C, PATH, epoch=int(walls[0]), wall=lambda: walls[0])
    behind = Broker(B, PATH, epoch=1, wall=lambda: walls[1])
    for made, link in ((home, B), (behind, C)):
        made.handle(LinkUp(link), 0.0)
    for made, at, other in ((home, C, behind), (behind, B, home)):
        for _, message in does(made, Subscribe("s", EVERYTHING)):
            told(other, at, message)
    assert (home.prt_entries, behind.prt_entries) == (2, 2)
    # An epoch that others may believe of its set is exceeded once its clock is right.
    lied = HomeVersion("b", MAX_OUTBID + EPOCHS_PER_S * int(walls[0]), 1)
    for right in (False, True):
        walls[1] = walls[0] + 1.0 if right else 0.0
        answers = told(behind, C, SubscriptionVersions((lied,), False))
        epochs = [m.epoch for _, m in answers if isinstance(m, SubscriptionPart)]
        assert epochs == ([lied.epoch + 1] if right else [])


def test_epochs_beyond_all_are_no_messages() -> None:
    raw = msgspec.msgpack.encode(SubscriptionChange("a", 2**48, 1, 1, None))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(raw, type=OverlayMessage)


def test_of_a_home_its_own_side_is_believed() -> None:
    made = broker()
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    lie = SubscriptionChange("c", 2, 1, 9, None)
    assert told(made, A, lie) == []
    assert made.prt_entries == 1
    does(made, LinkDown(C))
    assert told(made, A, lie)
    assert made.prt_entries == 0


def test_of_a_home_that_nobody_knows_everybody_is_believed() -> None:
    made = broker(known=False)
    told(made, A, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    assert made.prt_entries == 1


def test_subscriptions_are_told_within_a_cluster() -> None:
    made = broker(known=False)
    told(made, B1, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    told(made, B1, SubscriptionVersions((), True))
    assert made.prt_entries == 0
    assert made.counters["malformed"] == 2


def large(size: int):
    words = tuple(f"{i:03}" + "x" * (size // 60) for i in range(60))
    return ((Predicate("y", "in", words),),)


def test_filters_beyond_the_size_are_neither_kept_nor_passed_on() -> None:
    made = broker()
    assert told(made, A, SubscriptionChange("a", 1, 1, 1, large(9_000))) == []
    assert told(made, A, SubscriptionPart("a", 1, 1, 0, 1, ((1, large(9_000)),))) == []
    assert told(made, B1, AdvertisementChange(1, 1, 1, large(9_000))) == []
    assert told(made, B1, AdvertisementPart(1, 1, 0, 1, ((1, large(9_000)),))) == []
    assert (made.srt_entries, made.prt_entries) == (0, 0)
    assert made.counters["unusable"] == 4
    assert told(made, A, SubscriptionChange("a", 1, 1, 1, large(7_000)))
    assert made.prt_entries == 1


def test_a_host_has_so_many_advertisements_and_no_more() -> None:
    made = broker()
    entries = tuple((i, EVERYTHING) for i in range(1_025))
    told(made, B1, AdvertisementPart(2, 1_025, 0, 1_025, entries))
    assert (made.srt_entries, made.counters["unusable"]) == (0, 1)
    told(made, B1, AdvertisementPart(2, 1_024, 0, 1_024, entries[:1_024]))
    assert made.srt_entries == 1_024
