"""Flows that take turns: in order each, and none served twice while another one waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.overlay.events import Received, Send
from agent.overlay.round_robin_queue import Flow, RoundRobinQueue, flow_of
from agent.overlay.session import Heard, Put, Session, Transmit
from agent.wire.overlay import (
    AdvertisementVersion,
    Have,
    Kept,
    NoWay,
    Origin,
    Relay,
    SubscriptionChange,
)
from agent.wire.overlay_links import OverlayBeat, OverlayFrame, OverlayHello
from tests.overlay.one_broker import B1, A, B, C, broker, copy, told
from tests.overlay.world import EVERYTHING

# None: take one out.
steps = st.lists(st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=80)


@given(steps)
def test_first_in_first_out_within_a_flow_and_turns_between_them(taken):
    queue, waiting = RoundRobinQueue(), {}
    # By group, and by flow, those served since it was served last, while it waited.
    served_beside = {}
    for number, step in enumerate(taken):
        if step is not None:
            queue.put(Flow(*step, kept=True), number, number)
            for key in (step[:1], step):
                if not any(waiting.get(each) for each in waiting if each[: len(key)] == key):
                    served_beside[key] = []
            waiting.setdefault(step, []).append(number)
        elif not len(queue):
            with pytest.raises(IndexError):
                queue.pop()
        else:
            item = queue.pop()
            (flow,) = (each for each, items in waiting.items() if items and items[0] == item)
            waiting[flow].pop(0)
            for key, beside in served_beside.items():
                if key in {flow, flow[:1]}:
                    beside.clear()
                elif len(key) == 1:
                    beside.append(flow[:1])
                elif key[0] == flow[0]:
                    beside.append(flow)
                waits = any(items for each, items in waiting.items() if each[: len(key)] == key)
                assert not waits or len(set(beside)) == len(beside), (key, beside)
        assert len(queue) == sum(map(len, waiting.values()))
        for group in range(3):
            of_group = [items for flow, items in waiting.items() if flow[0] == group]
            assert queue.waiting(group) == sum(map(len, of_group))
            # Each is as large as its number.
            assert queue.bytes_waiting(group) == sum(map(sum, of_group))
        assert queue.bytes == sum(map(sum, waiting.values()))


def test_nothing_waits_in_a_queue_that_was_cleared():
    queue = RoundRobinQueue()
    queue.put(Flow(1, 1, kept=True), "old")
    queue.clear()
    assert (len(queue), queue.waiting(1)) == (0, 0)
    queue.put(Flow(1, 1, kept=True), "new")
    assert queue.pop() == "new"


def test_the_flow_of_a_message():
    have = Have((Kept(Origin("p", "h", 1), b"\x01"),))
    change = SubscriptionChange("c", 1, 1, 1, EVERYTHING)
    assert flow_of(Send(C, copy(), A)) == (A, "p", True)
    assert flow_of(Send(C, copy())) == (None, "p", True)
    assert flow_of(Send(C, Relay(B, (C,), 0, copy()), A)) == (A, "p", True)
    assert flow_of(Send(C, NoWay(B, (C,), 0, 0, copy()), A)) == (A, "p", True)
    assert flow_of(Send(C, have)) == ("settled", "", False)
    assert flow_of(Send(C, Relay(B, (C,), 0, have))) == ("settled", "", False)
    # What others have it pass on counts for who brought it.
    for kind in (Relay(A, (B, C), 1, have), NoWay(C, (B, A), 1, -1, have)):
        assert flow_of(Send(C, kind, A)) == (A, ("settled",), True)
    for kind in (Relay(A, (B, C), 1, change), NoWay(C, (B, A), 1, -1, change)):
        assert flow_of(Send(C, kind, A)) == (A, ("tables",), True)
    assert flow_of(Send(C, Relay(B, (A, C), 0, change))) == ("tables", "", False)
    # Whoever tells of tables: a version may not overtake the one before.
    assert flow_of(Send(C, change, A)) == flow_of(Send(C, AdvertisementVersion(1, 1)))


def test_a_neighbour_that_floods_a_broker_delays_what_another_one_brings_by_one_message():
    made = broker()
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    numbers = iter(range(11, 20))
    link = Session(OverlayHello("b", "b", 0, "o", 1, 0, False), lambda: next(numbers), window=1)
    link.handle(Heard(OverlayHello("c", "c", 0, "o", 7, 11, True)), 0.0)
    under_way = []

    def carry_out(instructions):
        for each in instructions:
            if isinstance(each, Send) and each.neighbour == C:
                put(link.handle(Put(each.message, flow_of(each)), 0.0))

    def put(instructions):
        sent = [each.message for each in instructions if isinstance(each, Transmit)]
        frames = [each.message for each in sent if isinstance(each, OverlayFrame)]
        under_way.extend(each.notification.origin.sequence for each in frames)

    for sequence in range(1_000):
        carry_out(made.handle(Received(A, copy(sequence)), 0.0))
    carry_out(made.handle(Received(B1, copy(2_000)), 0.0))
    while len(link):
        put(link.handle(Heard(OverlayBeat(7, 0, len(under_way))), 0.0))
    assert len(under_way) == 1_001
    assert under_way[:3] == [0, 1, 2_000]


def test_no_flood_of_neighbours_takes_the_link_to_a_slower_one_down():
    """Whatever they have this broker pass on."""
    numbers = iter(range(11, 20))
    link = Session(OverlayHello("b", "b", 0, "o", 1, 0, False), lambda: next(numbers))
    link.handle(Heard(OverlayHello("c", "c", 0, "o", 7, 11, True)), 0.0)
    version = AdvertisementVersion(1, 1)
    have = Have((Kept(Origin("p", "h", 1), b"\x01"),))
    flood = [
        Send(C, copy(), A),
        Send(C, copy()),
        Send(C, Relay(B1, (B, C), 1, have), B1),
        Send(C, Relay(A, (B, C), 1, version), A),
    ]
    for _ in range(10_000):
        for each in flood:
            link.handle(Put(each.message, flow_of(each)), 0.0)
    # A quarter of the queue is for its own words.
    assert 12_000 < len(link) < 15_000
    for each in (Send(C, have), Send(C, version)) * 2_500:
        link.handle(Put(each.message, flow_of(each)), 0.0)
    assert link.up
