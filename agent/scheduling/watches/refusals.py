"""Refusals for clients of watches, and the keys that identify watches."""

from __future__ import annotations

from msgspec.structs import fields, replace

from agent.scheduling.watches.events import (
    SendWatch,
    WatchArrived,
    WatchInstruction,
    WatchKey,
)
from agent.wire.messages import Answer
from agent.wire.principals import Sender
from agent.wire.watches import Watch, Watching


def key_of(sender: Sender, watch_id: str) -> WatchKey:
    """The key of a watch. A client without a key is a new one after each reconnection; it is
    identified by an unguessable id. No other role has watches, whatever its name."""
    if sender.role == "client":
        return sender.name, watch_id
    return "" if sender.role == "anyone" else f"{sender.role} {sender.name}", watch_id


def refuse(event: WatchArrived, message: str) -> list[WatchInstruction]:
    """Refuse a watch, with the reason."""
    return [SendWatch(event.peer, Watching(event.watch.id, "refused", message=message[:500]))]


def differing(known: Watch, again: Watch) -> str:
    """Names of the fields in which they differ, in words; empty: none."""
    again = replace(again, after=known.after)
    if known == again:
        return ""
    names = [f.name for f in fields(Watch) if getattr(known, f.name) != getattr(again, f.name)]
    return " and ".join(names)


def trouble_of(number: int, answer: Answer) -> str:
    """A round's problem, in words; empty: none."""
    if answer.status == "refused":
        return f"round {number} was refused: {answer.message or answer.reason}"[:500]
    if answer.status == "partial":
        coverage = answer.coverage
        return f"round {number}: {coverage.answered} of {coverage.asked} areas answered"
    return ""
