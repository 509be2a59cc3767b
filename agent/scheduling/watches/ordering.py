"""In-order delivery of rounds, and the messages that a client gets for them."""

from __future__ import annotations

from msgspec.structs import replace

from agent.scheduling.watches.answers import as_asked
from agent.scheduling.watches.entry import RoundEntry, WatchEntry
from agent.scheduling.watches.events import SendWatch
from agent.wire.watches import Round


def send_in_turn(entry: WatchEntry) -> list[SendWatch]:
    """The rounds to send now: answered, and all earlier ones sent or skipped."""
    instructions: list[SendWatch] = []
    while (next_one := entry.rounds.get(entry.sent + 1)) is not None:
        if next_one.ends:
            break
        if next_one.state == "answered":
            instructions += _send_or_pass(entry, next_one)
        elif next_one.state != "passed":
            break
        entry.sent += 1
    entry.settle(entry.settled)
    return instructions


def _send_or_pass(entry: WatchEntry, due: RoundEntry) -> list[SendWatch]:
    answer, due.answer = due.answer, None
    assert answer is not None
    if entry.trigger is not None:
        # A refusal means that nothing was evaluated, which must not look like a negative result.
        if not due.fired and answer.status != "refused":
            due.become("passed")
            return []
        answer = as_asked(answer, entry.watch)
    due.become("sent")
    start_ms, end_ms = entry.window_ms(due.number)
    previous = entry.sent_before(due.number)
    message = Round(entry.watch.id, due.number, previous, start_ms, end_ms, answer, due.fired)
    if entry.alerts is not None:
        made_of = entry.alerts.rounds[due.number]
        message = replace(message, alerts=made_of.alerts, alert_count=made_of.count)
    return [SendWatch(entry.peer, message)]
