"""What triggers' events become, and losses told like notifications."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from _core.matching.engine import holds
from agent.alerts.notifications import alerts_of, content_of, history_of, losses_of, notification_of
from agent.alerts.spool_events import EventAlerts
from agent.wire.base import MAX_COUNTED, TRIGGER_CLEARED, TRIGGER_RAISED
from agent.wire.codec import MESSAGEPACK, Decoder, encode
from agent.wire.node_messages import NodeEvent, NodeEvents
from agent.wire.overlay import Notification, Notify, Origin
from agent.wire.predicates import plain
from agent.wire.push import Lost

H1 = history_of("n1", "h1")
LOST = Lost("iad1", "h1", 16, 480, 29)


def event(sequence, kind=TRIGGER_RAISED, value=31.5, areas=("b1/f4",)):
    return NodeEvent(sequence, kind, 1_234, True, "dht", "temperature", "text", "hot", value, areas)


def message(*events, oldest=0):
    return NodeEvents("boot", "h1", events, oldest=oldest)


def test_events_of_triggers_become_notifications_one_for_each_area():
    found = alerts_of(
        "iad1",
        "n1",
        message(
            event(3, areas=("b1/f4", "b1/f5")),
            event(4, kind="fault_began"),
            event(5, kind=TRIGGER_CLEARED, value=None, areas=()),
        ),
    )
    told = {"iad": "iad1", "kind": "raised", "trigger": "hot", "metric": "temperature"}
    cleared = told | {"kind": "cleared"}
    two = (
        Notification(Origin("iad1", H1, 48), 1_234, told | {"value": 31.5, "area": "b1/f4"}),
        Notification(Origin("iad1", H1, 49), 1_234, told | {"value": 31.5, "area": "b1/f5"}),
    )
    one = (Notification(Origin("iad1", H1, 80), 1_234, cleared),)
    assert found == (EventAlerts(3, two), EventAlerts(5, one))


def test_nodes_with_the_same_history_have_origins_of_their_own():
    [[first], [second]] = (alerts_of("iad1", node, message(event(1))) for node in ("n1", "n2"))
    assert first.notifications[0].origin != second.notifications[0].origin
    assert history_of("n1", "h1") == "4255962857d2596e"
    assert "n1" not in history_of("n1", "h1")


def test_numbers_never_leave_what_messages_may_have():
    most = MAX_COUNTED // 16 - 1
    [last] = alerts_of("iad1", "n1", message(event(most), event(most + 1), event(2**53 - 1)))
    assert last.notifications[0].origin.sequence <= MAX_COUNTED - 15


def test_a_loss_is_the_same_after_the_way_through_the_overlay():
    told = notification_of(LOST, 5)
    frame = encode(Notify(told, b""))
    for given in (told, Decoder(Notify).decode(frame)[0].notification):
        assert content_of(given) == LOST
        assert holds(plain(losses_of("iad1")[0]), given.attributes)
    assert frame[2:3] == MESSAGEPACK


def test_a_loss_has_an_origin_of_its_own():
    first = notification_of(LOST, 5).origin
    assert notification_of(LOST, 9).origin == first
    assert notification_of(replace(LOST, last=496, count=30), 5).origin != first


@pytest.mark.parametrize(
    "change", [{"first": "16"}, {"count": 0.5}, {"last": 1.0}, {"history": 7.0}]
)
def test_what_is_no_loss_is_told_as_it_is(change):
    told = notification_of(LOST, 5)
    odd = replace(told, attributes=told.attributes | change)
    assert content_of(odd) is odd
