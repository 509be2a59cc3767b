"""The outbox under scripted events; at random in tests/master/push/test_node_events_model.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.edge.events.outbox import (
    BATCH_S,
    BEFORE_ALL,
    MAX_LIVE,
    MAX_OLD,
    RESEND_S,
    Cut,
    Instruction,
    Joined,
    Outbox,
    Page,
    Raised,
    Read,
    Remove,
    SendEvents,
    Taken,
    Tick,
)
from agent.wire.node_messages import NodeEvent

RATE_PER_S = 8.0
BATCH = int(RATE_PER_S * BATCH_S)


def event(sequence: int) -> NodeEvent:
    return NodeEvent(sequence, "fault_began", 0, synchronised=True)


def events(*sequences: int) -> tuple[NodeEvent, ...]:
    return tuple(event(sequence) for sequence in sequences)


def sent(instructions: list[Instruction]) -> list[int]:
    return [e.sequence for i in instructions if isinstance(i, SendEvents) for e in i.events]


def joined(rate_per_s: float = RATE_PER_S) -> Outbox:
    outbox = Outbox(rate_per_s)
    assert outbox.handle(Joined(takes_events=True), 0.0) == []
    return outbox


def caught_up() -> Outbox:
    """One whose backlog is empty, at time 1."""
    outbox = joined()
    assert outbox.handle(Tick(), 0.5) == [Read(BEFORE_ALL, BATCH)]
    assert outbox.handle(Page(()), 0.5) == []
    assert outbox.wake_at == float("inf")
    return outbox


def test_what_is_raised_while_joined_goes_at_once() -> None:
    outbox = joined()
    assert outbox.handle(Raised(events(5, 6)), 0.1) == [SendEvents(events(5, 6))]
    assert outbox.handle(Taken((5, 6)), 0.2) == [Remove((5, 6))]


def test_what_is_raised_while_the_link_is_cut_waits_in_the_store() -> None:
    outbox = Outbox(RATE_PER_S)
    assert outbox.handle(Raised(events(1)), 0.0) == []
    assert outbox.wake_at == float("inf")
    outbox.handle(Joined(takes_events=True), 1.0)
    outbox.handle(Cut(), 2.0)
    assert outbox.handle(Raised(events(2)), 3.0) == []
    assert outbox.handle(Tick(), 100.0) == []
    assert outbox.wake_at == float("inf")


def test_a_master_that_knows_no_events_gets_none() -> None:
    outbox = Outbox(RATE_PER_S)
    outbox.handle(Joined(takes_events=False), 0.0)
    assert outbox.wake_at == float("inf")
    assert outbox.handle(Raised(events(1)), 1.0) == []
    assert outbox.handle(Tick(), 2.0) == []


def test_the_backlog_goes_oldest_first_a_batch_every_half_second() -> None:
    outbox = joined()
    waiting = list(range(10, 20))
    went = []
    while (now := outbox.wake_at) < 100.0 and waiting:
        (read,) = outbox.handle(Tick(), now)
        assert isinstance(read, Read)
        page = [n for n in waiting if n > read.after][: read.most]
        batch = sent(outbox.handle(Page(events(*page)), now))
        assert outbox.handle(Taken(tuple(batch)), now + 0.1) == [Remove(tuple(batch))]
        waiting = [n for n in waiting if n not in batch]
        went.append((now, batch))
    assert went == [(0.5, [10, 11, 12, 13]), (1.0, [14, 15, 16, 17]), (1.5, [18, 19])]
    assert outbox.wake_at == float("inf"), "the page was not full: the backlog is over"


def test_a_live_event_does_not_wait_for_the_backlog() -> None:
    outbox = joined()
    outbox.handle(Tick(), 0.5)
    outbox.handle(Page(events(1, 2, 3, 4)), 0.5)
    assert outbox.handle(Raised(events(900)), 0.6) == [SendEvents(events(900))]
    # The backlog comes to it, and passes over it.
    assert outbox.handle(Tick(), 1.0) == [Read(4, BATCH)]
    assert outbox.handle(Page(events(900)), 1.0) == []


def test_an_event_that_a_page_had_is_not_live_as_well() -> None:
    """The samplers store events while the loop reads them."""
    outbox = joined()
    outbox.handle(Tick(), 0.5)
    assert sent(outbox.handle(Page(events(7)), 0.5)) == [7]
    assert outbox.handle(Raised(events(7, 8)), 0.6) == [SendEvents(events(8))]


def reading_the_end() -> tuple[Outbox, Read]:
    """One with no room for live events, and the page after all of them under way, at time 2."""
    outbox = joined(128.0)
    outbox.handle(Raised(events(*range(MAX_LIVE))), 0.1)
    for number in range(MAX_LIVE // MAX_OLD):
        after = number * MAX_OLD - 1
        (read,) = outbox.handle(Tick(), 0.5 + number / 2)
        assert read == Read(after, MAX_OLD)
        page = Page(events(*range(after + 1, after + 1 + MAX_OLD)), read)
        assert outbox.handle(page, 0.5 + number / 2) == []
    (read,) = outbox.handle(Tick(), 2.0)
    assert read == Read(MAX_LIVE - 1, MAX_OLD)
    return outbox, read


def test_what_is_raised_beyond_the_room_while_a_page_is_read_comes_with_the_next() -> None:
    """The disk writer may have read the page before the event was stored."""
    outbox, read = reading_the_end()
    assert outbox.handle(Raised(events(MAX_LIVE)), 2.1) == []
    assert outbox.handle(Page((), read), 2.2) == []
    assert outbox.handle(Tick(), 2.5) == [read]
    assert sent(outbox.handle(Page(events(MAX_LIVE), read), 2.6)) == [MAX_LIVE]
    assert outbox.handle(Tick(), 3.0) == []


def test_a_late_event_that_the_store_gave_up_is_looked_for_once() -> None:
    outbox, read = reading_the_end()
    assert outbox.handle(Raised(events(MAX_LIVE)), 2.1) == []
    assert outbox.handle(Page((), read), 2.2) == []
    assert outbox.handle(Tick(), 2.5) == [read]
    assert outbox.handle(Page((), read), 2.6) == []
    assert outbox.handle(Tick(), 3.0) == []


def test_what_is_not_acknowledged_is_sent_again() -> None:
    outbox = joined()
    outbox.handle(Tick(), 0.5)
    outbox.handle(Page(events(1, 2)), 0.5)
    outbox.handle(Raised(events(9)), 2.0)
    outbox.handle(Taken((2,)), 3.0)
    assert outbox.wake_at == 0.5 + RESEND_S
    assert outbox.handle(Tick(), 10.4) == []
    assert outbox.handle(Tick(), 10.5) == [SendEvents(events(1))]
    assert outbox.handle(Tick(), 12.0) == [SendEvents(events(9))]
    assert outbox.wake_at == 10.5 + RESEND_S


def test_after_a_cut_everything_is_backlog() -> None:
    outbox = caught_up()
    outbox.handle(Raised(events(5)), 1.0)
    outbox.handle(Cut(), 2.0)
    outbox.handle(Joined(takes_events=True), 3.0)
    assert outbox.handle(Tick(), 3.5) == [Read(BEFORE_ALL, BATCH)]
    assert sent(outbox.handle(Page(events(5)), 3.5)) == [5]


def test_an_acknowledgement_after_the_cut_counts() -> None:
    outbox = joined()
    outbox.handle(Raised(events(5)), 1.0)
    outbox.handle(Cut(), 2.0)
    assert outbox.handle(Taken((5,)), 2.1) == [Remove((5,))]


def test_a_burst_beyond_what_may_be_under_way_goes_with_the_backlog() -> None:
    outbox = caught_up()
    burst = range(100, 100 + MAX_LIVE + 3)
    assert sent(outbox.handle(Raised(events(*burst)), 1.0)) == list(burst[:MAX_LIVE])
    assert outbox.wake_at == 1.0
    assert outbox.handle(Tick(), 1.0) == [Read(BEFORE_ALL, BATCH)]
    assert outbox.handle(Page(events(100, 101, 102, 103)), 1.0) == []
    # Threads raise events: they may come in another order than that of their sequences.
    assert outbox.handle(Raised(events(99)), 1.1) == []
    assert outbox.handle(Tick(), 1.5) == [Read(98, BATCH)]
    assert sent(outbox.handle(Page(events(99, 100, 101, 102)), 1.5)) == [99]


def test_a_master_that_acknowledges_nothing_gets_so_many_and_no_more() -> None:
    outbox = joined(rate_per_s=1e4)
    now, stored, out = 0.0, list(range(1_000)), set()
    for _ in range(10):
        now = outbox.wake_at
        if now >= RESEND_S:
            break
        for instruction in outbox.handle(Tick(), now):
            if isinstance(instruction, Read):
                page = [n for n in stored if n > instruction.after][: instruction.most]
                out.update(sent(outbox.handle(Page(events(*page)), now)))
    assert out == set(range(MAX_OLD))
    assert now >= RESEND_S, "it polls a master that is full"
    again = outbox.handle(Tick(), now)
    assert sent(again) == list(range(MAX_OLD))


def test_a_store_that_cannot_be_read_is_asked_again_with_the_next_batch() -> None:
    outbox = joined()
    assert outbox.handle(Tick(), 0.5) == [Read(BEFORE_ALL, BATCH)]
    assert outbox.wake_at == 1.0
    assert outbox.handle(Tick(), 1.0) == [Read(BEFORE_ALL, BATCH)]


@given(rate_per_s=st.floats(0.1, 10_000.0))
def test_a_batch_and_its_pause_keep_the_rate(rate_per_s: float) -> None:
    outbox = joined(rate_per_s)
    first = outbox.wake_at
    (read,) = outbox.handle(Tick(), first)
    assert isinstance(read, Read)
    assert 1 <= read.most <= MAX_OLD
    outbox.handle(Page(events(*range(read.most))), first)
    outbox.handle(Taken(tuple(range(read.most))), first)
    assert outbox.wake_at - first == pytest.approx(read.most / rate_per_s)


def test_a_page_that_comes_late_keeps_the_rate() -> None:
    outbox = joined()
    (read,) = outbox.handle(Tick(), 0.5)
    assert isinstance(read, Read)
    assert sent(outbox.handle(Page(events(*range(1, 5)), read), 0.95)) == [1, 2, 3, 4]
    assert outbox.handle(Tick(), 1.0) == []
    assert outbox.wake_at == pytest.approx(0.95 + BATCH_S)


def test_repeats_that_went_while_a_page_was_read_are_counted() -> None:
    outbox = joined()
    (first,) = outbox.handle(Tick(), 0.5)
    assert isinstance(first, Read)
    outbox.handle(Page(events(1, 2, 3, 4), first), 0.5)
    (second,) = outbox.handle(Tick(), 1.0)  # hangs until the first batch is due again
    assert isinstance(second, Read)
    outbox.handle(Taken((2,)), 1.0)
    assert sent(outbox.handle(Tick(), 0.5 + RESEND_S)) == [1, 3, 4]
    assert sent(outbox.handle(Page(events(5, 6, 7, 8), second), 0.6 + RESEND_S)) == [5]
    (third,) = outbox.handle(Tick(), 0.6 + RESEND_S + BATCH_S)
    assert third == Read(5, BATCH)
