"""The queue of one device's derived values."""

from __future__ import annotations

from agent.derived.delivery import RESEND_S, Delivery, Waiting
from agent.wire.base import MAX_DERIVED_TOGETHER


def value(position: int) -> Waiting:
    return Waiting(position, position * 1_000, {"at": float(position)})


def positions(batch: tuple[Waiting, ...]) -> list[int]:
    return [each.position for each in batch]


def test_a_batch_goes_once_and_again_when_nothing_is_heard_of_it() -> None:
    delivery = Delivery("iad1/n1", "clone")
    assert delivery.put(value(1)) == ()
    assert positions(delivery.due("link", 0.0)) == [1]
    delivery.put(value(2))
    assert delivery.due("link", RESEND_S - 0.1) == ()
    assert positions(delivery.due("link", RESEND_S)) == [1, 2]
    assert positions(delivery.taken(2)) == [1, 2]
    assert delivery.due("link", 1e9) == ()


def test_a_new_link_gets_what_the_old_one_did_not_acknowledge() -> None:
    delivery = Delivery("iad1/n1", "clone")
    delivery.put(value(1))
    assert delivery.due(None, 0.0) == ()
    assert positions(delivery.due("one", 1.0)) == [1]
    assert delivery.due(None, 2.0) == ()
    assert positions(delivery.due("one", 3.0)) == [1]
    assert positions(delivery.due("two", 4.0)) == [1]


def test_batches_are_bounded_and_the_next_goes_when_the_first_was_taken() -> None:
    delivery = Delivery("iad1/n1", "clone")
    for position in range(1, MAX_DERIVED_TOGETHER + 3):
        delivery.put(value(position))
    first = delivery.due("link", 0.0)
    assert len(first) == MAX_DERIVED_TOGETHER
    delivery.taken(first[-1].position)
    assert positions(delivery.due("link", 0.0)) == [129, 130]


def test_of_a_device_that_is_away_for_long_the_oldest_are_dropped() -> None:
    delivery = Delivery("iad1/n1", "clone", most=3)
    for position in range(1, 4):
        delivery.put(value(position))
    assert delivery.put(value(7)) == (value(1),)
    assert (len(delivery), delivery.dropped) == (3, 1)
    assert positions(delivery.due("link", 0.0)) == [2, 3, 7]


def test_what_was_put_in_before_is_not_put_in_again() -> None:
    delivery = Delivery("iad1/n1", "clone")
    delivery.put(value(3))
    assert delivery.put(value(3)) is None
    assert delivery.put(value(2)) is None
    delivery.taken(3)
    assert delivery.put(value(3)) is None
