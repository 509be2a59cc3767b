"""What a partner's key may say of units that move: nothing of it ends a master."""

from __future__ import annotations

import msgspec
import pytest

from agent.wire import handover as w
from tests.fuzz.master import MasterTargets
from tests.fuzz.moves import BODIES, Mover

SERIES = ["ci", *(pytest.param(f"ci {n}", marks=pytest.mark.long) for n in range(1, 5))]


@pytest.fixture
def at(tmp_path):
    made = MasterTargets(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("seed", SERIES)
def test_no_move_ends_a_master_and_honest_parties_are_served(at, seed):
    mover = Mover(at, seed)
    for number in range(1_500):
        try:
            if number % 4:
                mover.move()
            else:
                mover.stand_by()
        except Exception as error:
            raise AssertionError(f"move {number} of seed {seed!r}: {mover.told}") from error
    at.serves()


@pytest.mark.parametrize(
    ("kind", "name", "what"),
    [("processor", "t", "topic"), ("home", "client/app/s1", "client"), ("home", "node/n1", "node")],
)
def test_a_final_state_that_comes_at_once_is_refused(at, kind, name, what):
    mover = Mover(at, "x")
    copy, final = mover._good[what][:2]
    mover.tell(kind, name, w.MoveAsk(1, 5.0), turns=0)
    mover.tell(kind, name, w.MoveState(1, copy), turns=0)
    mover.tell(kind, name, w.MoveState(1, final, 1), turns=30)
    at.serves()


def test_copies_of_ever_other_topics_leave_nothing(at):
    mover = Mover(at, "x")
    inboxes = at.master._push.inboxes
    before = len(inboxes)
    for number in range(1, 50):
        copy = BODIES["topic"][0]
        copy = msgspec.structs.replace(
            copy, progress=msgspec.structs.replace(copy.progress, incarnation=f"inc{number}")
        )
        mover.tell("processor", "t", w.MoveAsk(number, 5.0))
        mover.tell("processor", "t", w.MoveState(number, msgspec.msgpack.encode(copy)))
    assert len(inboxes) <= before + 1
