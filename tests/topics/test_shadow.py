"""What a standby has of a topic: as much as its owner needs to put out no more without it."""

import pytest

from agent.alerts.inbox_handover import InboxCopy
from agent.topics.contents import inputs_of
from agent.topics.events import Progress
from agent.topics.shadow import MAX_KNOWN, Checkpoint, Shadow, named_by
from agent.wire.overlay import Notification, Origin
from agent.wire.push import Lost
from agent.wire.topics import Topic

TOPIC = Topic("notes", standby=True)
FILTER = inputs_of("notes")
LOST = Lost("a", "h", 3, 3, 1)


def message(number, history="h"):
    return Notification(Origin("a", history, number), 1_000 + number, {"n": float(number)})


def inbox(first, last, *, without=0, lost=()):
    """Positions `first` to `last` have the messages of these numbers, the first ones no content."""
    numbers = range(first, last + 1)
    contents = [None if n in lost else message(n) for n in numbers]
    of = tuple([-1 if n in lost else 0 for n in numbers])
    losses = (LOST,) if lost else ()
    return InboxCopy(
        FILTER, 0, last, (("a", "h"),), of, tuple(numbers), losses, tuple(contents[without:])
    )  # fmt: skip


def output(number):
    return Notification(Origin("a", "outputs", number), 5, {"iad": "a", "n": float(number)})


def checkpoint(copy, position=0, outputs=(), settled=0, state=b""):
    progress = Progress("f1", position, put_out=position, inbox=position, state=state)
    return Checkpoint(TOPIC, progress, copy, tuple(map(output, outputs)), settled)


def test_it_goes_on_from_the_last_checkpoint_with_what_that_does_not_cover():
    shadow = Shadow(checkpoint(inbox(1, 4), 2, state=b"two"))
    shadow.follow(checkpoint(inbox(5, 7), 5, state=b"five"))
    copy = shadow.copy()
    assert (copy.topic, copy.progress.state, copy.inbox.acknowledged) == (TOPIC, b"five", 5)
    assert [(key.sequence, content) for key, content in copy.inbox.items()] == [
        *[(n, None) for n in range(1, 6)],
        (6, message(6)),
        (7, message(7)),
    ]
    assert shadow.knows(Origin("a", "h", 3))
    assert not shadow.knows(Origin("a", "h", 8))


def test_what_comes_twice_counts_once():
    shadow = Shadow(checkpoint(inbox(1, 4), 2))
    # The answer to one checkpoint was lost, so that the next one tells the same and more.
    shadow.follow(checkpoint(inbox(3, 6), 4, outputs=(2, 3)))
    shadow.follow(checkpoint(inbox(3, 6), 4, outputs=(2, 3)))
    assert [key.sequence for key, _ in shadow.copy().inbox.items()] == [1, 2, 3, 4, 5, 6]
    assert len(shadow.copy().inbox.contents) == 2
    assert len(shadow.outputs) == 2


def test_a_loss_is_a_position_too():
    shadow = Shadow(checkpoint(inbox(1, 4, lost=(3,)), 1))
    assert [content for _, content in shadow.copy().inbox.items()] == [
        None,
        message(2),
        LOST,
        message(4),
    ]


def test_without_what_is_in_between_it_does_not_follow():
    shadow = Shadow(checkpoint(inbox(1, 4), 4))
    with pytest.raises(ValueError, match="are missing"):
        shadow.follow(checkpoint(inbox(6, 7), 6))


def test_outputs_stay_until_all_subscribers_have_them():
    shadow = Shadow(checkpoint(inbox(1, 2), 2, outputs=(0, 1)))
    shadow.follow(checkpoint(inbox(3, 4), 4, outputs=(2, 3), settled=1))
    assert [each.origin.sequence for each in shadow.outputs.values()] == [1, 2, 3]
    told = named_by("b", [*shadow.outputs.values()])
    assert {each.attributes["iad"] for each in told} == {"b"}
    assert [each.origin for each in told] == [*shadow.outputs]


def test_it_remembers_as_much_as_an_inbox():
    shadow = Shadow(checkpoint(inbox(1, MAX_KNOWN), MAX_KNOWN))
    shadow.follow(checkpoint(inbox(MAX_KNOWN + 1, MAX_KNOWN + 3), MAX_KNOWN + 2))
    copy = shadow.copy().inbox
    assert copy.last - copy.first == MAX_KNOWN  # and the one that no checkpoint covers
    assert len(copy.contents) == 1
