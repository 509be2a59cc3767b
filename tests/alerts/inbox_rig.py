"""Inboxes, a clock that stands still, and what they send."""

from agent.alerts.inbox_events import (
    AcknowledgeArrived,
    ContentArrived,
    SendPush,
    SubscribeArrived,
    UnsubscribeArrived,
)
from agent.alerts.inboxes import Inboxes
from agent.alerts.limits import Limits
from agent.wire.push import (
    AcknowledgeNotifications,
    Notified,
    Subscribe,
    Unsubscribe,
)
from tests.alerts.samples import notification, read_filter

LEASE_MS = 60_000.0


class Rig:
    """Inboxes, a clock that stands still, and one client on one connection unless told."""

    def __init__(self, **settings):
        self.inboxes = Inboxes(read_filter, Limits(**settings))
        self.now = 0.0
        self.peer = "p1"

    def handle(self, event):
        instructions = self.inboxes.handle(event, self.now)
        self.inboxes.check_invariants()
        return instructions

    def subscribe(self, name="s", *, durable=False, after=None, wanted="f", client="c", peer=None):
        message = Subscribe(name, wanted, durable, after)
        return self.handle(SubscribeArrived(peer or self.peer, client, message))

    def acknowledge(self, position, name="s"):
        return self.handle(
            AcknowledgeArrived(self.peer, "c", AcknowledgeNotifications(name, position))
        )

    def unsubscribe(self, name="s"):
        return self.handle(UnsubscribeArrived(self.peer, "c", Unsubscribe(name)))

    def come(self, *sequences, names=("1",), **kind):
        return [
            instruction
            for each in sequences
            for instruction in self.handle(ContentArrived(names, notification(each, **kind)))
        ]


def sent(instructions):
    """Messages; of notifications, position and sequence."""
    return [
        (each.message.position, each.message.notification.origin.sequence)
        if isinstance(each.message, Notified)
        else each.message
        for each in instructions
        if isinstance(each, SendPush)
    ]


def refusal(rig, **request):
    [message] = sent(rig.subscribe(**request))
    assert message.state == "refused"
    return message.message
