"""The link of a node whose home moves, or that follows its home's stand-in."""

from __future__ import annotations

from typing import Any

import pytest

from agent.edge.events.outbox import Cut, Joined
from agent.edge.link import (
    GREETING_S,
    MOVING_S,
    Close,
    Execute,
    Finished,
    Instruction,
    Link,
    Open,
    Send,
    SendResult,
    Start,
    State,
    Stop,
    TellOperator,
    Tick,
    UseMaster,
)
from agent.wire.node_messages import Goodbye, Hello, HelloWanted, HomeMoved
from tests.edge.links import WELCOME, choosing, kinds, subtask


def at_home(**options: Any) -> Link:
    link = choosing(**options)
    link.handle(Start(), 0.0)
    link.handle(WELCOME, 0.0)
    return link


def gone(link: Link, instructions: list[Instruction], home: str, now: float) -> None:
    """These instructions end with the way to that home."""
    *_, goodbye, close, use, opened, hello = instructions
    assert goodbye == Send(Goodbye("here", "n1"))
    assert kinds([close, opened]) == [Close, Open]
    assert use == UseMaster(home, home=True)
    assert isinstance(hello, Send)
    assert isinstance(hello.message, Hello)
    assert not hello.message.followed
    assert link.state is State.GREETING
    assert link.wake_at == now + GREETING_S


def test_a_node_whose_home_has_moved_says_goodbye_and_goes_there() -> None:
    link = at_home()
    instructions = link.handle(HomeMoved("here", "iad2"), 1.0)
    assert instructions[0] == Cut()  # its events wait for the new home
    gone(link, instructions, "iad2", 1.0)
    assert kinds(link.handle(WELCOME, 1.1)) == [TellOperator, Joined]
    gone(link, link.handle(HomeMoved("here", "iad1"), 1.2), "iad1", 1.2)


def test_running_subtasks_are_answered_before_the_node_goes() -> None:
    link = at_home()
    link.handle(subtask(1), 0.5)
    assert link.handle(HomeMoved("here", "iad2"), 1.0) == [Cut()]
    assert link.state is State.MOVING
    assert kinds(link.handle(subtask(2), 1.1)) == [Execute]  # sent before the master knew
    assert link.handle(Finished(1), 1.2) == [SendResult(1)]
    instructions = link.handle(Finished(2), 1.3)
    assert instructions[0] == SendResult(2)
    gone(link, instructions, "iad2", 1.3)


def test_a_node_that_stays_busy_goes_all_the_same() -> None:
    link = at_home()
    link.handle(subtask(1), 0.5)
    link.handle(HomeMoved("here", "iad2"), 1.0)
    assert link.wake_at == 1.0 + MOVING_S
    assert link.handle(Tick(), 2.9) == []
    instructions = link.handle(Tick(), 3.0)
    gone(link, instructions, "iad2", 3.0)
    hello = instructions[-1]
    assert isinstance(hello, Send)
    assert hello.message.running == (1,)  # type: ignore[union-attr]  # gone() has looked
    assert link.handle(Finished(1), 3.1) == []
    assert SendResult(1) in link.handle(WELCOME, 3.2)


@pytest.mark.parametrize("name", ["iad9", "iad1"])
def test_a_home_that_is_none_of_its_other_masters_is_ignored_and_told(name: str) -> None:
    link = at_home()
    (told,) = link.handle(HomeMoved("here", name), 1.0)
    assert isinstance(told, TellOperator)
    assert name in told.line
    assert "its events wait" in told.line
    assert link.state is State.JOINED


def test_what_was_meant_for_an_earlier_process_is_ignored() -> None:
    link = at_home()
    assert link.handle(HomeMoved("before", "iad2"), 1.0) == []
    assert link.state is State.JOINED


def test_a_master_that_has_forgotten_the_node_does_not_keep_it() -> None:
    link = at_home()
    link.handle(subtask(1), 0.5)
    link.handle(HomeMoved("here", "iad2"), 1.0)
    gone(link, link.handle(HelloWanted(), 1.1), "iad2", 1.1)


def test_a_node_waits_for_its_home_unless_it_is_told_to_follow() -> None:
    link = at_home()
    for _ in range(50):
        assert UseMaster not in kinds(link.handle(Tick(), link.wake_at))
    assert link.master == "iad1"


def test_a_node_that_follows_goes_to_the_next_master_and_says_so() -> None:
    link = at_home(follow_s=60.0)
    now, went = 0.0, []
    while now < 250.0:
        now = link.wake_at
        for each in link.handle(Tick(), now):
            if isinstance(each, UseMaster):
                went.append((each.iad, each.home))
            if isinstance(each, Send) and isinstance(each.message, Hello):
                assert each.message.followed == (link.master != "iad1")
    # Its home is not another one for that: after a restart it looks there first.
    assert went == [("iad2", False), ("iad3", False), ("iad1", True)]
    assert link.home == "iad1"


def test_a_short_absence_is_not_followed() -> None:
    link = at_home(follow_s=60.0)
    for round_ in range(1, 30):
        now = 3.0 + round_ * 20.0
        while link.state is not State.GREETING:
            link.handle(Tick(), max(now, link.wake_at))
        link.handle(WELCOME, now + 5.0)
    assert link.master == "iad1"


def test_stopping_on_the_way_is_a_goodbye_to_the_master_that_it_leaves() -> None:
    link = at_home()
    link.handle(subtask(1), 0.5)
    link.handle(HomeMoved("here", "iad2"), 1.0)
    assert kinds(link.handle(Stop(), 1.1)) == [Send, Close]
    assert link.handle(Finished(1), 1.2) == []
