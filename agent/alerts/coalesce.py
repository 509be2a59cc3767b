"""A notification for several subscriptions of one connection goes there in one message."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from agent.alerts.inbox_events import Peer, SendPush
from agent.wire.push import MAX_TOGETHER, Notified, Place


def together(runs: Iterable[list[SendPush]]) -> list[SendPush]:
    """What is to be sent for several subscriptions, a run for each, in fewer messages: each run
    keeps its order. `MAX_TOGETHER` subscriptions are in one at most. O(messages)."""
    sent: list[SendPush] = []
    also: dict[int, list[Place]] = {}  # by index in `sent`
    # By connection, whether it waits, and which notification: where others may join.
    opened: dict[tuple[Peer, bool, int], int] = {}
    for run in runs:
        behind = -1  # what this run's last message is in
        for each in run:
            message = each.message
            if not isinstance(message, Notified):
                behind = len(sent)
                sent.append(each)
                continue
            key = each.peer, each.waits, id(message.notification)
            index = opened.get(key, -1)
            if index > behind and len(places := also.setdefault(index, [])) < MAX_TOGETHER - 1:
                places.append((message.id, message.position))
                behind = index
            else:
                behind = opened[key] = len(sent)
                sent.append(each)
    for index, places in also.items():
        first = sent[index]
        assert isinstance(first.message, Notified)
        message = replace(first.message, also=tuple(places))
        sent[index] = SendPush(first.peer, message, first.waits)
    return sent
