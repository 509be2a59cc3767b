"""Coalescing of notifications: one message for several subscriptions of one connection."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from agent.alerts.inbox_events import Peer, SendPush
from agent.wire.push import MAX_TOGETHER, Notified, Place


def together(runs: Iterable[list[SendPush]]) -> list[SendPush]:
    """Coalesce the runs of messages, one run per subscription, into fewer messages. Each run keeps
    its order; one message holds at most `MAX_TOGETHER` subscriptions. O(messages)."""
    sent: list[SendPush] = []
    also: dict[int, list[Place]] = {}  # by index in `sent`
    # The message that later subscriptions can join, by connection, whether it waits for the disk,
    # and notification.
    opened: dict[tuple[Peer, bool, int], int] = {}
    for run in runs:
        behind = -1  # index of the message that holds this run's last notification
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
