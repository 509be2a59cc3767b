"""What a standby remembers of many topics."""

from agent.alerts.inbox_handover import InboxCopy
from agent.topics.contents import inputs_of
from agent.topics.events import Progress
from agent.topics.shadow import MAX_KNOWN_IN_ALL, Checkpoint, Shadow
from agent.wire.overlay import Origin
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
