"""Virtual time around brokers: cases worked out by hand, with brokers that do as they are told."""

from __future__ import annotations

import math

import pytest
from msgspec import Struct

from agent.overlay.events import (
    Deliver,
    LinkMeasured,
    LinkUp,
    Publish,
    Received,
    Send,
    Settled,
    Tick,
    Undeliverable,
)
from agent.overlay.scot import BrokerId, Scot
from agent.wire.overlay import Notification, Origin
from lab.overlay.world import Costs, World

A, B, C = (BrokerId(vertex, 0) for vertex in "abc")


class Word(Struct, frozen=True):
    """Goes on along `path`."""

    path: tuple[BrokerId, ...]
    number: int


class Long(Struct, frozen=True):
    """Goes to a neighbour, and stays there."""


class Told:
    """Sends what a test publishes; takes note of everything."""

    srt_entries = prt_entries = 0

    def __init__(self, at: BrokerId) -> None:
        self.at = at
        self.seen: list[tuple[float, object]] = []
        self.next_tick: float | None = None
        self.on_tick: list[Send] = []

    def handle(self, event, now):
        self.seen.append((now, event))
        match event:
            case Received(message=Word(path=(first, *rest), number=number)):
                return [Send(first, Word(tuple(rest), number))]
            case Received(message=Word(number=number)):
                return [Deliver(("s",), told(number))]
            case Publish(notification=notification):
                return [*self.sends(notification)]
            case Tick():
                self.next_tick = None
                return self.on_tick
        return []

    def sends(self, notification):
        number = notification.origin.sequence
        for way in notification.attributes["ways"].split():
            first, *rest = (BrokerId(vertex, 0) for vertex in way)
            yield Send(first, Word(tuple(rest), number))


def told(number: int, ways: str = "") -> Notification:
    return Notification(Origin("p", "h", number), 0, {"ways": ways})


def publish(number: int, ways: str) -> Publish:
    return Publish(told(number, ways))


def service(broker, event, instructions):
    """1 s for an event, and 0.5 s for each message that it sends on."""
    return 1.0 + 0.5 * len([each for each in instructions if isinstance(each, Send)])


class Run:
    """A world of three brokers in a row, a, b and c."""

    def __init__(self, links=(("a", "b"), ("b", "c")), **options) -> None:
        self.brokers: dict[BrokerId, Told] = {}
        self.delivered: list[tuple[int, float]] = []
        costs = options.pop("costs", {})
        self.world = World(
            Scot(links, 1),
            self.make,
            Costs(
                **{
                    "service": service,
                    "transmission": lambda message: 2.0,
                    "delay_s": 10.0,
                    **costs,
                }
            ),
            delivered=lambda subscriptions, one, now: self.delivered.append(
                (one.origin.sequence, now)
            ),
            **options,
        )

    def make(self, at: BrokerId) -> Told:
        self.brokers[at] = Told(at)
        return self.brokers[at]

    def received(self, at: BrokerId) -> list[tuple[float, int]]:
        return [
            (now, event.message.number)
            for now, event in self.brokers[at].seen
            if isinstance(event, Received)
        ]


def test_one_message_over_one_link():
    run = Run()
    run.world.happen(100.0, A, publish(1, "b"))
    run.world.run()
    # At work 1 + 0.5, on the link 2, on the way 10; then 1 at work at b.
    assert run.received(B) == [(113.5, 1)]
    assert run.delivered == [(1, 114.5)]
    assert run.world.messages == {"Word": 1}


def test_how_long_what_is_measured_waited_for_a_link():
    run = Run(measured=["Word"])
    for number, at_s in ((1, 0.0), (2, 0.1), (3, 0.2)):
        run.world.happen(at_s, A, publish(number, "b"))
    run.world.run()
    # Handed to the link at 1.5, 3.0 and 4.5, which is free at 0, 3.5 and 5.5.
    assert run.world.mean_wait_s("aLink") == pytest.approx((0.0 + 0.5 + 1.0) / 3)
    assert run.world.mean_wait_s("iLink") == 0.0


def test_a_broker_takes_one_event_at_a_time_in_the_order_of_arrival():
    run = Run()
    for number, at_s in ((1, 0.0), (2, 0.1), (3, 0.2)):
        run.world.happen(at_s, A, publish(number, "b"))
    run.world.happen(9.0, A, publish(4, "b"))
    run.world.run()
    assert [now for now, _ in run.brokers[A].seen] == [0.0, 1.5, 3.0, 9.0]
    # The link (2 s) is slower than the broker (1.5 s): free at 3.5, 5.5, 7.5, then after 10.5.
    assert run.received(B) == [(13.5, 1), (15.5, 2), (17.5, 3), (22.5, 4)]


def test_links_of_a_broker_send_side_by_side_or_in_turn():
    side_by_side = Run()
    side_by_side.world.happen(0.0, B, publish(1, "a c"))
    side_by_side.world.run()
    # At work 1 + 0.5 + 0.5.
    assert side_by_side.received(A) == side_by_side.received(C) == [(14.0, 1)]
    in_turn = Run(costs={"one_sender": True})
    in_turn.world.happen(0.0, B, publish(1, "a c"))
    in_turn.world.run()
    assert in_turn.received(A) == [(14.0, 1)]
    assert in_turn.received(C) == [(16.0, 1)]


def test_the_two_directions_of_a_link_do_not_wait_for_each_other():
    run = Run()
    run.world.happen(0.0, A, publish(1, "b"))
    run.world.happen(0.0, B, publish(2, "a"))
    run.world.run()
    assert run.received(A) == [(13.5, 2)]
    assert run.received(B) == [(13.5, 1)]


def test_what_an_event_causes_is_followed():
    run = Run()
    one = run.world.happen(0.0, A, publish(1, "bc"), frozenset({"Word"}))
    other = run.world.happen(0.0, B, publish(2, "c"), frozenset({"Word"}))
    unseen = run.world.happen(50.0, C, publish(3, "b"), frozenset({"Long"}))
    run.world.run()
    assert one.messages == {"Word": 2}
    assert one.brokers == {B, C}
    # a 1.5, way 12, b 1.5, way 12, c 1.
    assert one.delay_s == 28.0
    assert (other.delay_s, other.brokers) == (14.5, {C})
    assert (unseen.delay_s, unseen.brokers, unseen.messages) == (0.0, set(), {"Word": 1})


def test_a_second_copy_does_not_count_as_reaching():
    run = Run(links=(("a", "b"),))
    one = run.world.happen(0.0, A, publish(1, "b b"), frozenset({"Word"}))
    run.world.run()
    assert one.messages == {"Word": 2}
    assert one.delay_s == 15.0  # not 17


def test_queues_are_measured_window_by_window_until_they_are_empty_once():
    run = Run(measured=["Word"], window_s=2.0, links=(("a", "b"),))
    for number in range(3):
        run.world.happen(0.0, A, publish(number, "b"))
    run.world.run()
    # They enter at 1.5, 3, 4.5 and leave at 3.5, 5.5, 7.5. What is handled in a window counts in
    # it, though it enters a little later.
    assert [
        (now, event.entered, event.left, event.length)
        for now, event in run.brokers[A].seen
        if isinstance(event, LinkMeasured)
    ] == [
        (3.5, 3, 1, 2),
        (5.5, 0, 1, 1),
        (7.5, 0, 1, 0),
        (9.5, 0, 0, 0),
    ]
    assert not [e for _, e in run.brokers[B].seen if isinstance(e, LinkMeasured)]


def test_other_messages_are_not_measured():
    run = Run(measured=["Long"], window_s=2.0)
    run.world.happen(0.0, A, publish(1, "b"))
    run.world.run()
    assert not [e for _, e in run.brokers[A].seen if isinstance(e, LinkMeasured)]


def test_a_tick_comes_when_it_is_wanted_and_takes_no_time():
    run = Run()
    b = run.brokers[B]
    b.next_tick, b.on_tick = 1.2, [Send(C, Word((), 7))]
    run.world.happen(0.0, B, publish(1, "a"))
    run.world.run()
    assert [(now, type(event)) for now, event in b.seen] == [(0.0, Publish), (1.2, Tick)]
    # What it sends comes after what the broker is at work on until 1.5.
    assert run.received(A) == [(13.5, 1)]
    assert run.received(C) == [(13.5, 7)]


def test_a_run_stops_when_it_is_told_and_goes_on():
    run = Run(measured=["Word"], window_s=2.0)
    run.world.happen(0.0, A, publish(1, "b"))
    run.world.run(until_s=13.0)
    assert run.received(B) == []
    assert run.world.now <= 13.0
    run.world.run()
    assert run.received(B) == [(13.5, 1)]


def test_events_are_fed_in_order():
    run = Run(links=(("a", "b"),))
    run.world.feed(iter([(0.0, A, publish(1, "b")), (5.0, A, publish(2, "b"))]))
    run.world.feed(iter([(3.0, A, publish(3, "b"))]))
    run.world.feed(iter([]))
    run.world.run()
    assert [now for now, _ in run.brokers[A].seen] == [0.0, 3.0, 5.0]


def test_all_links_come_up_before_it_begins():
    run = Run()
    run.world.connect()
    ups = {at: [e for _, e in broker.seen] for at, broker in run.brokers.items()}
    assert ups == {A: [LinkUp(B)], B: [LinkUp(A), LinkUp(C)], C: [LinkUp(B)]}
    assert run.world.messages == {}


def test_what_is_settled_and_what_is_not_is_counted(monkeypatch):
    run = Run()
    origin = Origin("p", "h", 1)
    answers = [Settled(origin), Undeliverable(origin, "nobody"), Undeliverable(origin, "nobody")]
    monkeypatch.setattr(run.world._nodes[A], "handle", lambda event, now: answers)
    run.world.happen(0.0, A, publish(1, ""))
    run.world.run()
    assert run.world.settled == 1
    assert run.world.undeliverable == {"nobody": 2}


def test_nothing_reached_is_no_delay():
    run = Run()
    reach = run.world.happen(3.0, A, publish(1, ""), frozenset({"Word"}))
    run.world.run()
    assert reach.delay_s == 0.0
    assert math.isfinite(reach.last_s)


@pytest.mark.parametrize("window_s", [None, 0.5])
def test_the_same_events_give_the_same_run(window_s):
    def once():
        run = Run(measured=["Word"], window_s=window_s)
        for number in range(20):
            run.world.happen(number * 0.7, A, publish(number, "bc b"))
            run.world.happen(number * 0.9, C, publish(100 + number, "ba"))
        run.world.run()
        return run.delivered, run.world.messages, run.world.now

    assert once() == once()
