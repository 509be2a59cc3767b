"""An owner and its standby, step by step; all orders are in test_take_over.py."""

from __future__ import annotations

from msgspec.structs import replace

from agent.placement.handover.events import Checkpoint, Work
from agent.placement.standby.primary import Primary
from agent.placement.standby.standby import Standby
from agent.placement.standby.take_over import (
    REIGN,
    Dead,
    Dismiss,
    Dismissed,
    Event,
    Instruction,
    Kept,
    Leased,
    Role,
    Saved,
    Send,
    Stop,
    TakenOver,
    Update,
    Write,
    Written,
)
from agent.placement.world import Unit

UNIT = Unit("processor", "comfort")
FIRST, SECOND = Checkpoint(b"1"), Checkpoint(b"2")
UPDATE = Update(UNIT, 1, 1, 1, complete=True, checkpoint=FIRST)


def told(made: list[Instruction]) -> object:
    """The one message that is sent."""
    [send] = made
    assert isinstance(send, Send)
    return send.message


def written(machine: Primary | Standby, made: list[Instruction]) -> list[Instruction]:
    """What follows when that is on disk."""
    [write] = [each for each in made if isinstance(each, Write)]
    return machine.handle(Written(write.role))


def named() -> Primary:
    """An owner whose standby has the first checkpoint."""
    owner = Primary(UNIT, "iad2", 1, 1, 0)
    update = told(written(owner, owner.start(FIRST, complete=True)))
    assert update == UPDATE
    owner.handle(Kept(UNIT, 1, 1))
    return owner


def standing_by(update: Update = UPDATE) -> Standby:
    standby = Standby(UNIT, "iad1")
    assert told(written(standby, standby.handle(update))) == Kept(UNIT, update.term, update.number)
    return standby


def test_the_owner_puts_out_under_the_lease_of_the_units_term():
    owner = Primary(UNIT, "iad2", 1, 1, 0)
    made = owner.start(FIRST, complete=True)
    assert not owner.puts_out(1), "nobody may learn of a standby that the disk does not know"
    written(owner, made)
    assert owner.puts_out(1)
    assert not owner.puts_out(None)
    assert not owner.puts_out(2)


def test_a_checkpoint_is_sent_until_the_standby_has_it():
    owner = named()
    assert owner.safe
    assert owner.handle(Leased(1)) == []
    second = told(owner.handle(Saved(SECOND)))
    assert not owner.safe
    again = told(owner.handle(Leased(1)))
    assert isinstance(second, Update)
    assert again == replace(second, number=3)
    owner.handle(Kept(UNIT, 1, 3))
    assert owner.safe


def test_a_standby_without_all_of_the_unit_takes_nothing_over():
    standby = standing_by(replace(UPDATE, complete=False))
    assert standby.state == "copying"
    assert standby.handle(Dead(1)) == []
    written(standby, standby.handle(replace(UPDATE, number=2)))
    made = standby.handle(Dead(1))
    assert made == [Write(Role(UNIT, "owner", "iad1", 1, REIGN), FIRST)]


def test_a_standby_takes_over_on_the_word_about_its_own_term_only():
    standby = standing_by(replace(UPDATE, term=2))
    assert standby.handle(Dead(1)) == []
    update: Event = replace(UPDATE, term=1, number=2)
    assert standby.handle(update) == [], "it was under way for long"
    assert written(standby, standby.handle(Dead(2))) == [Work(REIGN, FIRST)]


def test_a_standby_that_is_writing_a_later_term_does_not_act_on_the_former():
    standby = standing_by()
    made = standby.handle(replace(UPDATE, term=2, number=2, checkpoint=SECOND))
    assert standby.handle(Dead(1)) == []
    written(standby, made)
    assert standby.handle(Dead(1)) == []


def test_after_a_restart_the_standby_is_what_its_disk_says():
    standby = Standby(UNIT, "iad1")
    assert standby.recover(Role(UNIT, "standby", "iad1", 3, 1), FIRST) == []
    assert standby.judges
    again = Standby(UNIT, "iad1")
    made = again.recover(Role(UNIT, "owner", "iad1", 3, REIGN), FIRST)
    assert not again.owns
    assert written(again, made) == [Work(REIGN + 1, FIRST)]
    assert again.owns


def test_a_killed_owner_needs_its_lease_and_begins_a_new_epoch():
    owner = Primary(UNIT, "iad2", 1, 1, 10)
    assert owner.recover(SECOND, complete=True) == []
    assert not owner.puts_out(1)
    made = owner.handle(Leased(1))
    assert made == [Write(Role(UNIT, "primary", "iad2", 1, 2))]
    assert written(owner, made) == [Work(2, SECOND)]
    assert owner.puts_out(1)


def test_an_owner_whose_term_is_over_asks_its_standby():
    owner = named()
    update = told(owner.handle(Leased(2)))
    assert update == Update(UNIT, 2, 1, 2, complete=True, checkpoint=FIRST)
    assert not owner.puts_out(2)
    made = owner.handle(Kept(UNIT, 2, 2))
    assert made == [Write(Role(UNIT, "primary", "iad2", 2, 1))]
    assert written(owner, made) == [], "the same process goes on in the same epoch"
    assert owner.puts_out(2)


def test_an_owner_that_was_taken_over_stops():
    owner = named()
    owner.handle(Leased(2))
    made = owner.handle(TakenOver(UNIT, 2, REIGN))
    assert made == [Stop(), Write(Role(UNIT, "void", "iad2", 1, REIGN))]
    assert not owner.puts_out(2)


def test_who_had_the_unit_is_told_that_it_is_taken_over():
    standby = standing_by()
    written(standby, standby.handle(Dead(1)))
    taken = TakenOver(UNIT, 2, REIGN)
    assert told(standby.handle(replace(UPDATE, term=2))) == taken
    later = Primary(UNIT, "iad3", 5, REIGN, 0)
    written(later, later.start(SECOND, complete=True))
    assert told(later.handle(replace(UPDATE, term=2))) == taken
    assert later.state == "guarded"


def test_without_a_standby_no_lease_is_needed_once_that_one_knows():
    owner, standby = named(), standing_by()
    dismiss = told(owner.dismiss())
    assert isinstance(dismiss, Dismiss)
    assert not owner.puts_out(None)
    assert told(owner.handle(Leased(1))) == dismiss
    dismissed = told(written(standby, standby.handle(dismiss)))
    assert isinstance(dismissed, Dismissed)
    assert standby.handle(Dead(1)) == []
    assert owner.handle(replace(dismissed, number=1)) == [], "of an earlier process"
    written(owner, owner.handle(dismissed))
    assert owner.puts_out(None)
    assert told(standby.handle(dismiss)) == dismissed, "its answer was lost"


def test_a_standby_that_was_dismissed_may_be_named_again():
    standby = standing_by()
    written(standby, standby.handle(Dismiss(UNIT, 1, 2)))
    assert standby.state == "void"
    written(standby, standby.handle(replace(UPDATE, number=3, checkpoint=SECOND)))
    assert standby.state == "standing_by"
    assert standby.checkpoint == SECOND
