"""What a standby remembers of many topics."""

from agent.alerts.inbox_handover import InboxCopy
from agent.topics.contents import inputs_of
from agent.topics.events import Progress
from agent.topics.shadow import MAX_KNOWN_IN_ALL, Checkpoint, Shadow
from agent.wire.overlay import Notification, Origin
from agent.wire.topics import Topic

SHADOWS = 1_000
SHARE = MAX_KNOWN_IN_ALL // SHADOWS


def checkpoint(first, count):
    """The messages at so many positions, all of which were worked on."""
    last = first + count - 1
    sequences = tuple(range(first, last + 1))
    inbox = InboxCopy(inputs_of("t"), last, last, (("iad1", "h1"),), (0,) * count, sequences)
    return Checkpoint(Topic("t", standby=True), Progress("inc", inbox=last), inbox, (), 0)


def known(shadow, most):
    return [n for n in range(1, most + 1) if shadow.knows(Origin("iad1", "h1", n))]


def test_a_standby_of_many_topics_remembers_as_much_as_it_has_memory_for():
    shadow = Shadow(checkpoint(1, 3 * SHARE), SHADOWS)
    assert known(shadow, 3 * SHARE) == [*range(2 * SHARE + 1, 3 * SHARE + 1)]
    shadow.follow(checkpoint(3 * SHARE + 1, 10), SHADOWS)
    assert len(known(shadow, 4 * SHARE)) == SHARE
    copy = shadow.copy().inbox
    assert (copy.first, copy.last) == (2 * SHARE + 11, 3 * SHARE + 10)


def test_a_standby_of_few_topics_remembers_all_of_an_inbox():
    shadow = Shadow(checkpoint(1, 3 * SHARE))
    assert len(known(shadow, 3 * SHARE)) == 3 * SHARE


def test_a_shadow_says_what_it_takes():
    """An owner that never settles anything made it grow without end, and nobody looked."""

    def told(first, last, done=0):
        numbers = range(first, last + 1)
        messages = [Notification(Origin("iad1", "h1", n), 0, {"text": "x" * 500}) for n in numbers]
        copy = InboxCopy.of_keys(inputs_of("t"), done, last, [m.origin for m in messages], messages)
        outputs = tuple([Notification(Origin("iad1", "o", n), 0, {"n": n}) for n in numbers])
        progress = Progress("inc", inbox=done, state=b"x" * 1_000)
        return Checkpoint(Topic("t", standby=True), progress, copy, outputs, done + 1)

    shadow = Shadow(told(1, 10))
    begun = shadow.bytes
    assert 6_000 < begun < 8_000
    shadow.follow(told(5, 20))
    assert 2 * begun - 1_500 < shadow.bytes < 2 * begun
    shadow.follow(told(20, 20, done=20))
    assert 1_000 < shadow.bytes < 1_500
    assert not shadow.copy().inbox.contents
