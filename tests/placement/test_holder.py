"""A unit at one master: what is granted, refused, answered and restored."""

from __future__ import annotations

from math import inf

import pytest

from agent.placement.handover.events import (
    Abort,
    Ask,
    Checkpoint,
    Copied,
    Copy,
    Final,
    Grant,
    Instruction,
    Load,
    Loaded,
    MakeCopy,
    Pause,
    Paused,
    Ready,
    Reclaimed,
    Record,
    Refuse,
    Send,
    Settled,
    Stop,
    Tick,
    Timing,
    Took,
    Work,
    Write,
    Written,
)
from agent.placement.handover.holder import UNSETTLED, Holder
from agent.placement.handover.target import LONGEST_LEASE_S
from agent.placement.world import PlacementError, Unit
from tests.placement.exactly_once import MAX_HISTORIES, Processed, Received, Subscribed

UNIT = Unit("processor", "comfort")
TIMING = Timing()
STATE = Checkpoint(b"state")


def owner() -> Holder:
    """A unit that works here in epoch 1."""
    holder = Holder(UNIT, TIMING)
    [write] = holder.create()
    assert isinstance(write, Write)
    assert holder.works(0.0) is None  # Not before it is on disk.
    assert holder.handle(Written(write.record), 0.0) == [Work(1, Checkpoint())]
    return holder


def draining() -> Holder:
    """A unit that was paused for attempt 7, with its final state sent."""
    holder = owner()
    offered = Record(UNIT, 2, "offered", "t", TIMING.lease_s)
    assert holder.begin("t", 7, 0.0) == [Send(Ask(UNIT, 7, TIMING.lease_s))]
    assert holder.handle(Grant(UNIT, 7), 0.0) == [MakeCopy()]
    assert holder.handle(Copied(STATE), 0.0) == [Send(Copy(UNIT, 7, STATE))]
    assert holder.handle(Ready(UNIT, 7), 0.0) == [Write(offered)]
    assert holder.works(0.0) == 1
    assert holder.handle(Written(offered), 0.0) == [Pause()]
    assert holder.works(0.0) == 1  # The message under way is still done.
    assert holder.handle(Paused(STATE), 0.0) == [Send(Final(UNIT, 7, 2, STATE))]
    assert holder.works(0.0) is None
    return holder


def asked() -> Holder:
    """A target that is ready."""
    holder = Holder(UNIT, TIMING)
    assert holder.handle(Ask(UNIT, 7, 5.0), 0.0, "s") == [Send(Grant(UNIT, 7))]
    assert holder.handle(Copy(UNIT, 7, STATE), 0.0) == [Load(STATE)]
    assert holder.handle(Loaded(), 0.0) == [Send(Ready(UNIT, 7))]
    return holder


def taken(now: float) -> tuple[Holder, list[Instruction]]:
    """A target that has written the unit at this time, and what it did then."""
    holder = asked()
    record = Record(UNIT, 2, "taken", "s")
    assert holder.handle(Final(UNIT, 7, 2, STATE), 1.0) == [Write(record, STATE)]
    return holder, holder.handle(Written(record), now)


def test_a_handover_from_one_side_to_the_other() -> None:
    source = draining()
    target, done = taken(1.0)
    assert done == [Work(2, STATE), Send(Took(UNIT, 2))]
    assert target.works(1.0) == 2
    assert not target.owns
    released = Record(UNIT, 2, "released", "t")
    assert source.handle(Took(UNIT, 2), 1.0) == [Write(released)]
    assert source.handle(Took(UNIT, 2), 1.0) == []
    assert source.handle(Written(released), 1.0) == [Send(Settled(UNIT, 2))]
    assert source.handle(Took(UNIT, 2), 1.0) == [Send(Settled(UNIT, 2))]
    assert target.handle(Settled(UNIT, 2), 1.0) == [Write(Record(UNIT, 2, "owner"))]
    assert target.owns
    assert target.works(100.0) == 2
    assert target.begin("s", 8, 2.0)


def test_the_source_waits_longer_than_the_target_works() -> None:
    source = draining()
    target, _ = taken(1.0)
    assert target.works(4.9) == 2
    assert target.works(5.0) is None
    assert target.handle(Tick(), 5.0) == [Stop(), Send(Took(UNIT, 2))]
    assert source.handle(Tick(), 5.4) == []
    owned = Record(UNIT, 3, "owner", "t")
    assert source.handle(Tick(), 5.5) == [Write(owned)]
    assert source.handle(Took(UNIT, 2), 5.5) == []
    assert source.handle(Written(owned), 5.6) == [Work(3), Send(Reclaimed(UNIT, 2))]
    assert source.handle(Took(UNIT, 2), 5.7) == [Send(Reclaimed(UNIT, 2))]
    assert target.handle(Reclaimed(UNIT, 2), 5.8) == [Stop(), Write(None)]


def test_a_write_that_is_done_too_late_gives_no_right_to_work() -> None:
    target, done = taken(5.0)
    assert done == [Send(Took(UNIT, 2))]
    assert target.works(5.0) is None
    resumed = Record(UNIT, 3, "owner")
    assert target.handle(Settled(UNIT, 2), 6.0) == [Write(resumed)]
    assert target.handle(Written(resumed), 6.0) == [Work(3, STATE)]


def test_a_source_that_offers_an_hour_holds_its_target_for_a_minute() -> None:
    holder = Holder(UNIT, TIMING)
    holder.handle(Ask(UNIT, 7, 3_600.0), 0.0, "s")
    holder.handle(Copy(UNIT, 7, STATE), 0.0)
    assert holder.handle(Loaded(), 0.0) == [Send(Ready(UNIT, 7))]
    assert holder.handle(Tick(), LONGEST_LEASE_S - 0.1) == []
    assert holder.machine is not None
    refusal, stop = holder.handle(Tick(), LONGEST_LEASE_S)
    assert refusal == Send(Refuse(UNIT, 7, "the source is silent"))
    assert stop == Stop()
    assert holder.machine is None


def test_a_release_that_is_heard_after_the_lease_begins_a_new_epoch() -> None:
    target, _ = taken(1.0)
    assert target.handle(Settled(UNIT, 2), 5.0) == [Stop(), Write(Record(UNIT, 3, "owner"))]


def test_a_silent_target_costs_nothing_before_the_unit_pauses() -> None:
    holder = owner()
    holder.begin("t", 7, 0.0)
    assert holder.handle(Tick(), TIMING.patience_s) == [Send(Abort(UNIT, 7))]
    assert holder.works(0.0) == 1
    assert holder.handle(Grant(UNIT, 7), 40.0) == []


def test_a_refusal_ends_the_pause_at_once() -> None:
    holder = draining()
    refused = Refuse(UNIT, 7, "the lease has ended")
    assert holder.handle(refused, 0.1) == [Write(Record(UNIT, 3, "owner", "t"))]


def test_a_final_state_that_comes_too_late_or_unasked_is_refused() -> None:
    late = asked()
    [send, stop] = late.handle(Final(UNIT, 7, 2, STATE), 5.0)
    assert (send, stop) == (Send(Refuse(UNIT, 7, "the lease has ended")), Stop())
    [send] = late.handle(Final(UNIT, 7, 2, STATE), 5.1)
    assert send == Send(Refuse(UNIT, 7, "it was given up here"))


def test_a_processor_that_does_not_load_is_refused_with_its_error() -> None:
    holder = Holder(UNIT, TIMING)
    holder.handle(Ask(UNIT, 7, 5.0), 0.0, "s")
    holder.handle(Copy(UNIT, 7, STATE), 0.0)
    refused = [Send(Refuse(UNIT, 7, "no module comfort")), Stop()]
    assert holder.handle(Loaded("no module comfort"), 0.0) == refused


def test_a_final_state_before_the_copy_is_loaded_is_refused() -> None:
    holder = Holder(UNIT, TIMING)
    holder.handle(Ask(UNIT, 7, 5.0), 0.0, "s")
    assert holder.handle(Copy(UNIT, 7, STATE), 0.0) == [Load(STATE)]
    refused, stop = holder.handle(Final(UNIT, 7, 2, STATE), 0.0)
    assert isinstance(refused, Send)
    assert isinstance(refused.message, Refuse)
    assert stop == Stop()
    assert holder.machine is None
    assert holder.handle(Loaded(), 0.0) == []


def test_a_source_that_begins_anew_is_granted_and_an_owner_refuses() -> None:
    holder = asked()
    # What it loaded ends: the next copy may be one of another topic of this name.
    assert holder.handle(Ask(UNIT, 8, 5.0), 1.0, "s") == [Stop(), Send(Grant(UNIT, 8))]
    refusal = [Send(Refuse(UNIT, 8, "it is here already"))]
    assert owner().handle(Ask(UNIT, 8, 5.0), 0.0, "s") == refusal
    assert taken(1.0)[0].handle(Ask(UNIT, 8, 5.0), 1.0, "s") == refusal
    restarted = Holder(UNIT, TIMING)
    restarted.recover(Record(UNIT, 4, "taken", "s"), STATE, 100.0)
    assert restarted.handle(Ask(UNIT, 8, 5.0), 100.0, "s") == [Send(Refuse(UNIT, 8, UNSETTLED))]


def test_what_is_nowhere_or_under_way_is_not_moved() -> None:
    with pytest.raises(PlacementError, match="processor comfort is nowhere at work here"):
        Holder(UNIT, TIMING).begin("t", 1, 0.0)
    with pytest.raises(PlacementError, match="processor comfort is nowhere at work here"):
        draining().begin("t", 8, 0.0)
    moving = owner()
    moving.begin("t", 7, 0.0)
    with pytest.raises(PlacementError, match="processor comfort is being moved already"):
        moving.begin("t", 8, 0.0)


def test_each_record_on_disk_is_restored() -> None:
    def restored(record: Record) -> tuple[Holder, list[Instruction]]:
        holder = Holder(UNIT, TIMING)
        return holder, holder.recover(record, STATE, 100.0)

    holder, done = restored(Record(UNIT, 4, "owner"))
    assert done == [Write(Record(UNIT, 5, "owner"))]
    assert holder.handle(Written(Record(UNIT, 5, "owner")), 100.0) == [Work(5, STATE)]
    holder, done = restored(Record(UNIT, 4, "offered", "t"))
    assert (done, holder.next_due) == ([], 105.5)
    assert holder.works(100.0) is None
    holder, done = restored(Record(UNIT, 4, "taken", "s"))
    assert done == [Send(Took(UNIT, 4))]
    assert holder.works(100.0) is None
    holder, done = restored(Record(UNIT, 4, "released", "t"))
    assert (done, holder.next_due) == ([], None)
    assert holder.handle(Took(UNIT, 4), 100.0) == [Send(Settled(UNIT, 4))]


def test_a_source_that_restarts_waits_for_the_lease_that_it_gave() -> None:
    """Two masters would work on the unit if it waited for a shorter one that it gives today."""
    given = Timing(lease_s=60.0)
    source = Holder(UNIT, given)
    source.create()
    source.handle(Written(Record(UNIT, 1, "owner")), 0.0)
    source.begin("t", 7, 0.0)
    source.handle(Grant(UNIT, 7), 0.0)
    source.handle(Copied(STATE), 0.0)
    [write] = source.handle(Ready(UNIT, 7), 0.0)
    assert isinstance(write, Write)
    assert write.record is not None
    again = Holder(UNIT, TIMING)
    assert again.recover(write.record, STATE, 1.0) == []
    assert again.next_due == pytest.approx(67.0)
    assert again.handle(Tick(), 66.9) == []
    assert again.handle(Tick(), 67.1) == [Write(Record(UNIT, 3, "owner", "t"))]


def test_a_write_that_takes_longer_than_patience_or_lease_leaves_no_timer_that_is_past() -> None:
    """A shell would wake up for it over and over."""
    target = asked()
    assert target.next_due == TIMING.lease_s
    target.handle(Final(UNIT, 7, 2, STATE), 1.0)
    assert target.next_due == inf
    source = owner()
    source.begin("t", 7, 0.0)
    source.handle(Grant(UNIT, 7), 0.0)
    source.handle(Copied(STATE), 0.0)
    source.handle(Ready(UNIT, 7), 0.0)  # Its offer is being written.
    assert source.handle(Tick(), TIMING.patience_s) == []
    assert source.next_due == inf
    offered = Record(UNIT, 2, "offered", "t", TIMING.lease_s)
    assert source.handle(Written(offered), 40.0) == [Send(Abort(UNIT, 7))]


def test_outputs_are_numbered_anew_in_each_epoch_and_taken_once() -> None:
    first = Processed(1, Checkpoint())
    assert first.take("p", 1)
    assert not first.take("p", 1)
    one = first.emit("p", 1, b"a")
    assert first.take("p", 2)
    two = first.emit("p", 2, b"b")
    kept = first.checkpoint(b"ab")
    master = Subscribed(Received())
    assert master.accept(one)
    assert not master.accept(one)
    second = Processed(2, kept)
    assert not second.take("p", 2)
    assert [output.position for output in second.outputs] == [1, 2]
    again, new = second.outputs
    assert not master.accept(new)  # Its predecessor comes first.
    assert not master.accept(again)
    master = Subscribed(master.received())
    assert master.accept(new)
    assert not master.accept(two)  # An older epoch.
    second.acknowledged(1, 2)
    assert len(second.outputs) == 2
    second.acknowledged(2, 2)
    assert second.outputs == ()


def test_any_number_of_messages_may_be_unsettled() -> None:
    first, master = Processed(1, Checkpoint()), Subscribed(Received())
    sequences = range(1, 2_001)
    for sequence in sequences:
        assert first.take("p", sequence)
        assert master.accept(first.emit("p", sequence, b""))
    second = Processed(2, first.checkpoint(b""))
    master = Subscribed(master.received())
    assert not any(second.take("p", sequence) for sequence in sequences)
    assert not any(master.accept(output) for output in second.outputs)
    assert second.take("p", 2_001)


def test_the_history_that_was_silent_for_longest_is_forgotten() -> None:
    unit = Processed(1, Checkpoint())
    for number in range(MAX_HISTORIES):
        assert unit.take(f"p{number}", 1)
    assert not unit.take("p0", 1)
    assert unit.take("one more", 1)
    unit = Processed(2, unit.checkpoint(b""))
    assert not unit.take("p0", 1)
    assert unit.take("p1", 1)  # A limit: what it sends again counts again.
