"""Custody by hand: the broker b of cluster 0 of a path a - b - c - d, two or three clusters."""

from msgspec import msgpack

from agent.overlay.custody import Custody, Held, places_of
from agent.overlay.scot import BrokerId as At
from agent.overlay.scot import Scot
from agent.wire.overlay import Notification, Origin

SCOT = Scot([("a", "b"), ("b", "c"), ("c", "d")], 3)
A, B, C, D = (At(vertex, 0) for vertex in "abcd")
B1, B2 = At("b", 1), At("b", 2)


def notification(sequence: int = 1) -> Notification:
    return Notification(Origin("p", "h", sequence), 0, {})


def custody(most_held: int = 10, most_remembered: int = 10) -> Custody:
    return Custody(B, SCOT, most_held, most_remembered)


def taken(of: Custody, *asked: tuple[At | None, list[int]], sequence: int = 1) -> Held:
    held = of.take(notification(sequence), 1, None, 0.0)
    for asker, clusters in asked:
        of.ask(held, asker, clusters)
    return held


def test_the_asker_is_told_once_when_all_behind_has_it() -> None:
    kept = custody()
    held = taken(kept, (A, [0]))
    kept.add(held, C, [0])
    assert kept.done(held) == []
    kept.settle(held, C, [0])
    assert kept.done(held) == [(A, [0])]
    assert len(kept) == 0


def test_what_nobody_waits_for_is_done_at_once() -> None:
    kept = custody()
    held = taken(kept, (A, [0]))
    assert kept.done(held) == [(A, [0])]
    assert not kept.is_new(held.notification.origin)


def test_two_neighbours_that_ask_each_other_through_here_do_not_wait_for_themselves() -> None:
    kept = custody()
    held = taken(kept, (A, [0]), (C, [0]))
    kept.add(held, A, [0])
    kept.add(held, C, [0])
    kept.settle(held, C, [0])
    assert kept.done(held) == [(A, [0])]
    kept.settle(held, A, [0])
    assert kept.done(held) == [(C, [0])]


def test_another_cluster_is_told_of_apart() -> None:
    kept = custody()
    held = taken(kept, (A, [0, 1]))
    kept.add(held, C, [0])
    kept.add(held, B1, [1])
    kept.settle(held, B1, [1])
    assert kept.done(held) == [(A, [1])]
    kept.settle(held, C, [0])
    assert kept.done(held) == [(A, [0])]


def test_the_publisher_is_told_when_everything_is_done() -> None:
    kept = custody()
    held = taken(kept, (None, [0, 1]))
    kept.add(held, C, [0])
    kept.add(held, B1, [1])
    kept.settle(held, B1, [1])
    assert kept.done(held) == []
    kept.settle(held, C, [0])
    assert kept.done(held) == [(None, [0, 1])]


def test_a_bit_that_the_asker_has_to_serve_itself_does_not_count() -> None:
    kept = custody()
    held = taken(kept, (A, [0]))
    kept.add(held, C, [0, 1])
    assert kept.serves(held, 1, A)
    assert not kept.serves(held, 1, C)
    kept.ask(held, C, [1])
    kept.add(held, B1, [1])
    kept.settle(held, B1, [1])
    assert (C, [1]) in kept.done(held)


def test_a_neighbour_vouches_for_those_behind_it() -> None:
    kept = custody()
    held = taken(kept, (A, [0]))
    kept.add(held, C, [0])
    kept.add(held, D, [0])  # round c, which was not there
    kept.settle(held, D, [0])
    assert kept.done(held) == []
    kept.settle(held, C, [0])
    assert kept.done(held) == [(A, [0])]
    held = taken(kept, (A, [0]), sequence=2)
    kept.add(held, C, [0])
    kept.add(held, D, [0])
    kept.settle(held, C, [0])
    assert kept.done(held) == [(A, [0])]


def test_the_broker_here_of_another_cluster_vouches_for_all_of_it() -> None:
    kept = custody()
    held = taken(kept, (None, [0, 1, 2]))
    kept.add(held, B2, [2, 1])
    kept.add(held, B1, [1])
    kept.add(held, At("a", 1), [1])
    kept.settle(held, B1, [1])
    assert kept.done(held) == []
    kept.settle(held, B2, [2])
    assert kept.done(held) == [(None, [0, 1, 2])]


def test_what_is_done_is_remembered_with_the_direction_that_nobody_asked_for() -> None:
    kept = custody()
    held = taken(kept, (A, [0]))
    kept.add(held, C, [0, 1])
    kept.settle(held, C, [0, 1])
    kept.done(held)
    again = taken(kept, (B2, [0]))
    assert kept.covers(again, C, 0)
    assert not kept.covers(again, A, 0)
    assert kept.serves(again, 1, B2)
    assert not kept.serves(again, 2, B2)
    assert kept.done(again) == [(B2, [0])]
    last = taken(kept, (None, [0]))
    assert kept.covers(last, A, 0)


def test_what_is_given_up_was_delivered_here_and_nothing_else() -> None:
    kept = custody(most_held=1)
    first = taken(kept, (None, [0]))
    kept.add(first, C, [0])
    assert not kept.has_room(1)
    assert kept.first_of(None) is first
    kept.give_up(first)
    assert kept.has_room(1)
    assert not kept.is_new(first.notification.origin)
    assert not kept.covers(taken(kept, (None, [0])), C, 0)


def test_the_memory_is_bounded() -> None:
    kept = custody(most_remembered=2)
    for sequence in range(3):
        kept.done(taken(kept, (A, [0]), sequence=sequence))
    assert [kept.is_new(Origin("p", "h", each)) for each in range(3)] == [True, False, False]


def test_what_is_remembered_shares_the_names_of_publishers() -> None:
    kept = custody()
    for sequence in (1, 2):
        sent = msgpack.encode(Notification(Origin("iad1", "9f86d081", sequence), 0, {}))
        kept.done(kept.take(msgpack.decode(sent, type=Notification), 1, None, 0.0))
    first, second = kept._memory
    assert first.publisher is second.publisher
    assert first.history is second.history


def test_the_one_sent_longest_ago_stands_first() -> None:
    kept = custody()
    first, second = (kept.take(notification(each), 1, None, float(each)) for each in (1, 2))
    assert kept.oldest == 1.0
    kept.again(first, 3.0)
    assert kept.sent_before(2.5) == [second]
    assert kept.oldest == 2.0


def test_who_brought_the_most_has_to_give_up_one() -> None:
    kept = custody()
    brought = [A, A, A, C, C, None]
    for sequence, neighbour in enumerate(brought):
        kept.add(kept.take(notification(sequence), 1, neighbour, 0.0), B1, [1])
    assert [kept.loser(each) for each in (A, C, B1)] == [A, A, A]
    assert kept.loser(None) == A
    for sequence in (6, 7):
        kept.add(kept.take(notification(sequence), 1, C, 0.0), B1, [1])
    assert [kept.loser(each) for each in (A, C, B1)] == [C, C, C]
    kept.give_up(first(kept, C))
    # Equal shares: nobody loses one for whoever has as many.
    assert [kept.loser(each) for each in (A, C)] == [A, C]


def test_for_a_publisher_here_nobody_loses_one_who_has_but_one_more() -> None:
    kept = custody()
    for sequence, neighbour in enumerate([None, A, A]):
        kept.take(notification(sequence), 1, neighbour, 0.0)
    assert kept.loser(None) is None
    assert kept.loser(C) == A
    kept.take(notification(3), 1, A, 0.0)
    assert kept.loser(None) == A


def test_of_what_one_brought_that_goes_first_which_was_sent_longest_ago() -> None:
    kept = custody()
    for sequence, neighbour in enumerate([C, A, A]):
        kept.take(notification(sequence), 1, neighbour, 0.0)
    assert first(kept, A).notification.origin.sequence == 1
    kept.again(first(kept, A), 1.0)
    assert first(kept, A).notification.origin.sequence == 2
    kept.give_up(first(kept, A))
    kept.give_up(first(kept, A))
    assert kept.first_of(A) is None
    assert kept.loser(A) == C


def test_a_large_notification_takes_the_places_of_several() -> None:
    kept = custody(most_held=40)
    for sequence, neighbour in enumerate([A, A, A, C]):
        brought = large(sequence) if neighbour == C else notification(sequence)
        kept.take(brought, places_of(brought), neighbour, 0.0)
    assert kept.loser(A) == C
    assert kept.has_room(1)
    assert not kept.has_room(places_of(large(5)))
    kept.give_up(first(kept, C))
    assert kept.loser(C) == A
    assert kept.has_room(places_of(large(5)))
    assert custody(most_held=1).has_room(places_of(large(5)))


def large(sequence: int) -> Notification:
    """As large as the wire allows: of 64 KiB, in 33 places."""
    texts = {f"a{number:02}": "\U0001f426" * 512 for number in range(31)}
    made = msgpack.decode(msgpack.encode(texts), type=dict[str, str])  # no text is shared
    return Notification(Origin("p", "h", sequence), 0, {**made})


def first(kept: Custody, neighbour: At) -> Held:
    held = kept.first_of(neighbour)
    assert held is not None
    return held
