"""Notifications, and filters of which the text form is never read."""

from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Predicate

FILTER = ((Predicate("value", ">", (30.0,)),),)
OTHER_FILTER = ((Predicate("value", ">", (35.0,)),),)


def read_filter(given):
    if given == "no filter":
        raise ValueError("at character 4: expected an operator; got 'filter'")
    return FILTER if isinstance(given, str) else given


def notification(sequence, history="h1", publisher="iad1", padding=0):
    attributes = {"value": 31.5, "text": "x" * padding} if padding else {"value": 31.5}
    return Notification(Origin(publisher, history, sequence), 1_000, attributes)
