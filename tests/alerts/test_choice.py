"""Masters among which a subscription may move, and the count of what it is given."""

import pytest

from agent.alerts.choice import Choice, topics_in
from agent.alerts.inbox_events import ContentArrived, SubscribeArrived
from agent.alerts.inbox_handover import MovableInboxes
from agent.alerts.limits import Limits
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Predicate
from agent.wire.push import GivenMaster, Lost, ShortForm, Subscribe
from tests.alerts.samples import FILTER, OTHER_FILTER, notification, read_filter

MASTERS = (GivenMaster("tcp://a:5700", 0.5), GivenMaster("tcp://b:5700"))
COMFORT = ((Predicate("topic", "=", ("comfort",)),),)


def output(topic, publisher="iad1", sequence=1):
    return Notification(Origin(publisher, "h", sequence), 0, {"topic": topic, "kind": "output"})


def inbox_of(message, inboxes=None):
    inboxes = MovableInboxes(read_filter) if inboxes is None else inboxes
    inboxes.handle(SubscribeArrived("p", "c", message), 0.0)
    return inboxes, inboxes.choosing()


def test_what_a_subscription_is_given_counts_by_who_put_it_out_but_for_topics_that_it_names():
    choice = Choice(MASTERS, (*COMFORT, *FILTER))
    for content in (
        notification(1),
        notification(2),
        notification(3, publisher="iad2"),
        Lost("iad3", "h", 1, 5, 5),
        output("notes", "iad3"),
        output("comfort", "iad4"),
    ):
        choice.count(content)
    assert choice.given == {"iad1": 2, "iad2": 1, "iad3": 2}
    assert choice.topics == {"comfort"}
    assert not choice.stays


def test_one_that_hears_a_clone_that_does_not_leave_stays_with_it():
    clone = "clone.0123456789abcdef"
    assert Choice(MASTERS, ((Predicate("topic", "=", (clone,)),),)).stays
    choice = Choice(MASTERS, FILTER)
    choice.count(output("clone-0123456789abcdef"))
    assert not choice.stays
    choice.count(output(clone))
    assert choice.stays
    assert choice.again(MASTERS, FILTER).stays


@pytest.mark.parametrize(
    ("operator", "operands", "topics"),
    [
        ("=", ("a",), {"a"}),
        ("in", ("a", "b"), {"a", "b"}),
        ("!=", ("a",), set()),
        ("=", (1.0,), set()),
    ],
)
def test_topics_that_a_filter_names(operator, operands, topics):
    assert topics_in(((Predicate("topic", operator, operands),),)) == topics
    assert topics_in(((Predicate("kind", operator, operands),),)) == set()


@pytest.mark.parametrize(
    "message",
    [
        Subscribe("s", FILTER, durable=True),
        Subscribe("s", FILTER, durable=True, masters=MASTERS[:1]),
        Subscribe("s", FILTER, masters=MASTERS),
    ],
)
def test_without_other_masters_or_a_disk_there_is_no_choice(message):
    assert inbox_of(message)[1] == []


def test_a_client_says_with_each_request_among_which_masters_it_may_move():
    inboxes, (inbox,) = inbox_of(Subscribe("s", FILTER, durable=True, masters=MASTERS))
    for sequence in (1, 1, 2):  # one of them comes twice
        inboxes.handle(ContentArrived(("1",), notification(sequence)), 0.0)
    assert inbox.choice.given == {"iad1": 2}
    others = (*MASTERS, GivenMaster("tcp://c:5700"))
    inbox_of(Subscribe("s", OTHER_FILTER, durable=True, masters=others), inboxes)
    assert inbox.choice.masters == others
    assert inbox.choice.given == {"iad1": 2}  # counted on
    inbox_of(Subscribe("s", OTHER_FILTER, durable=True), inboxes)
    assert inboxes.choosing() == []


def test_the_masters_that_a_client_names_count_among_the_bytes_of_its_filters():
    many = tuple([GivenMaster(f"tcp://{n}:5700" + "x" * 200) for n in range(16)])
    inboxes = MovableInboxes(read_filter, Limits(most_filter_bytes=4_000))
    for masters in (many, MASTERS, (), many):
        inbox_of(Subscribe("s", FILTER, durable=True, masters=masters), inboxes)
        inboxes.check_invariants()
    (refused,) = inboxes.handle(
        SubscribeArrived("p", "c", Subscribe("t", FILTER, durable=True, masters=many)), 0.0
    )
    assert "more than 4000 bytes" in refused.message.message
    # Where there is no choice they are not kept.
    inbox_of(Subscribe("u", FILTER, masters=many), inboxes)
    assert inboxes.has("c", "u")
    inboxes.check_invariants()


def test_what_its_client_asked_is_asked_again_with_all_that_it_said():
    asked = Subscribe("s", FILTER, durable=True, short=ShortForm(1, ("iad",)), masters=MASTERS)
    inboxes, _ = inbox_of(asked)
    assert inboxes.again("c", "s") == asked
