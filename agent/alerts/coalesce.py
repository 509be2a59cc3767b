"""Coalescing of notifications: one message for several subscriptions of one connection."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from agent.alerts.inbox_events import Peer, SendPush
from agent.wire.overlay import Notification
from agent.wire.push import MAX_TOGETHER, Notified, SentPush, ShortContent, ShortNotified


def together(runs: Iterable[list[SendPush]]) -> list[SendPush]:
    """Coalesce the runs of messages, one run per subscription, into fewer messages. Each run keeps
    its order; one message holds at most `MAX_TOGETHER` subscriptions. O(messages)."""
    sent: list[SendPush] = []
    also: dict[int, list[SendPush]] = {}  # by index in `sent`
    # The message that later subscriptions can join, by connection, whether it waits for the disk,
    # and notification.
    opened: dict[tuple[Peer, bool, int], int] = {}
    for run in runs:
        behind = -1  # index of the message that holds this run's last notification
        for each in run:
            if (content := _content(each.message)) is None:
                behind = len(sent)
                sent.append(each)
                continue
            key = each.peer, each.waits, id(content)
            index = opened.get(key, -1)
            if index > behind and len(joined := also.setdefault(index, [])) < MAX_TOGETHER - 1:
                joined.append(each)
                behind = index
            else:
                behind = opened[key] = len(sent)
                sent.append(each)
    for index, joined in also.items():
        first = sent[index]
        message = _joined(first.message, [each.message for each in joined])
        sent[index] = SendPush(first.peer, message, first.waits)
    return sent


def _content(message: SentPush) -> Notification | ShortContent | None:
    """Content that one message shares among several subscriptions: one object for all of them."""
    if isinstance(message, ShortNotified):
        return message.of
    return message.notification if isinstance(message, Notified) else None


def _joined(first: SentPush, others: list[SentPush]) -> SentPush:
    """One message in place of several with the same content."""
    if isinstance(first, ShortNotified):
        more = [place for each in others if isinstance(each, ShortNotified) for place in each.to]
        return ShortNotified((*first.to, *more), first.of)
    assert isinstance(first, Notified)
    also = [(each.id, each.position) for each in others if isinstance(each, Notified)]
    return replace(first, also=tuple(also))
