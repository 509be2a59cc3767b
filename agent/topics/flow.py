"""Data flow of a topic: messages of its inbox, readings, outputs of its processor, and disk
acknowledgements."""

from __future__ import annotations

import math

from msgspec.structs import replace

from agent.topics.contents import (
    PEER,
    heard_body,
    inputs_of,
    is_time,
    outputs_of,
    peer_of,
    published_body,
    published_part,
    reading_bodies,
    why_not,
)
from agent.topics.entry import TopicEntry
from agent.topics.events import (
    AskInbox,
    AskReadings,
    Checkpointed,
    Emitted,
    Feed,
    Held,
    InboxSaid,
    Output,
    Progress,
    Release,
    Released,
    Resumed,
    RoundAnswered,
    TakeCheckpoint,
    TellOperator,
    TopicHeld,
    TopicKept,
    TopicPaused,
    TopicsInstruction,
)
from agent.wire.base import MAX_COUNTED
from agent.wire.messages import Query, Slo, Window
from agent.wire.processor_limits import MAX_AHEAD_MS
from agent.wire.push import AcknowledgeNotifications, Gap, Notified, Subscribe, Subscribed

# An inbox detaches a client that is silent for a minute.
RENEW_S = 20.0
# Another try for a checkpoint that did not cover all outputs.
AGAIN_S = 0.25
# The objective of a round's query, whose answer is due before the next round.
PERCENTILE = 99.0
MAX_ROUND_S = 10.0
# The loss of a publisher's messages is told at once, and again after this time. Beyond so many
# publishers, those of others together.
TELL_LOSS_S = 60.0
MAX_LOSERS = 16
AHEAD = "messages are dated more than a minute ahead of this master's clock; they count as of now"

Instructions = list[TopicsInstruction]
ProcessorEvent = Emitted | Checkpointed | Held | Resumed
EntryEvent = InboxSaid | RoundAnswered | Released | TopicKept | ProcessorEvent


class Flow:
    """The same for every topic of a master; what differs is in its entry. A message is
    O(attributes), a checkpoint O(messages that it covers)."""

    def __init__(self, iad: str) -> None:
        self._iad = iad

    def handle(self, entry: TopicEntry, event: EntryEvent, now: float) -> Instructions:
        """The instructions that follow, in order."""
        match event:
            case InboxSaid():
                return self._inbox_said(entry, event, now)
            case RoundAnswered():
                return self._round_answered(entry, event)
            case Released():
                return self._released(entry)
            case TopicKept():
                entry.progress = replace(entry.progress, definition=b"")
                idle = entry.works and not entry.releasing and not entry.holding
                return [self._release(entry, entry.progress)] if idle else []
        # What its processor says after its end is void: its messages come again.
        return self._processor_said(entry, event, now) if entry.works else []

    def _processor_said(self, entry: TopicEntry, event: ProcessorEvent, now: float) -> Instructions:
        match event:
            case Emitted():
                return self._emitted(entry, event)
            case Checkpointed():
                return self._checkpointed(entry, event, now)
            case Held():
                entry.held = True
                return []
            case Resumed(after=after):
                entry.held = False
                waiting = [each for each in entry.inputs if each.position > after]
                return [Feed(event.name, each.position, each.body) for each in waiting]

    # --- inbox ---------------------------------------------------------------------------------

    def subscribe(self, entry: TopicEntry) -> AskInbox:
        entry.retry_s = entry.renew_s = math.inf
        wanted = inputs_of(entry.topic.name, entry.topic.clone)
        after = entry.durable_inbox or None
        message = Subscribe(entry.progress.incarnation, wanted, durable=True, after=after)
        return AskInbox(entry.topic.name, message)

    def _inbox_said(self, entry: TopicEntry, said: InboxSaid, now: float) -> Instructions:
        match said.message:
            case _ if not entry.works:
                return []
            case Notified() | Gap() if entry.state == "opening":
                return []  # sent before it asked to be sent this again
            case Notified() as notified:
                return self._published(entry, notified, said.wall_ms)
            case Gap() as gap:
                return self._gap(entry, gap, now)
            case Subscribed(state="open"):
                if entry.state == "opening":
                    entry.become("open")
                entry.pauses.reset()
                entry.trouble = ""
                entry.renew_s = now + RENEW_S
                return self.advance(entry)
            case Subscribed(state="refused", message=why):
                return self._refused(entry, why, now)
            case None:
                if entry.state == "opening":
                    entry.retry_s = now + entry.pauses.next()
                return []
        if entry.state == "open":
            entry.become("opening")
        return [self.subscribe(entry)]

    def _refused(self, entry: TopicEntry, why: str, now: float) -> Instructions:
        if entry.durable_inbox:
            # It is no more: perhaps nobody renewed it for too long.
            entry.inbox_lost()
            line = f"topic {entry.topic.name}: its inbox is lost; messages to it may be missing"
            return [TellOperator(line), self.subscribe(entry)]
        entry.trouble = f"its inbox is refused: {why}"
        if entry.state == "open":
            entry.become("opening")
        entry.retry_s = now + entry.pauses.next()
        return []

    def _published(
        self, entry: TopicEntry, notified: Notified, wall_ms: int | None
    ) -> Instructions:
        if notified.position <= entry.seen:
            return []  # sent again
        entry.seen = notified.position
        entry.received += 1
        own, time_ms = published_part(notified.notification), notified.notification.time_ms
        received_ms = time_ms if wall_ms is None else wall_ms
        warning: Instructions = []
        if time_ms > received_ms + MAX_AHEAD_MS:
            # Its clock was ahead. Messages after it must not be late until then.
            time_ms = received_ms
            warning = self._warn_once(entry, AHEAD)
        return [*warning, *self._take_published(entry, notified, time_ms, received_ms, own)]

    def _take_published(
        self, entry: TopicEntry, notified: Notified, time_ms: int, received_ms: int, own: Output
    ) -> Instructions:
        if (clone := entry.topic.clone) is not None:
            peer = peer_of(notified.notification, clone)
            body = heard_body(time_ms, own, received_ms, peer, entry.topic.name)
            return self._take(entry, time_ms, body, notified.position, peer)
        if entry.topic.processor:
            body = published_body(time_ms, own, received_ms)
            return self._take(entry, time_ms, body, notified.position)
        taken = entry.accept(time_ms, b"", notified.position)
        entry.made.append((taken.position, time_ms, own))
        return self.advance(entry)

    def _warn_once(self, entry: TopicEntry, text: str) -> Instructions:
        if text in entry.told:
            return []
        entry.told.add(text)
        return [TellOperator(f"topic {entry.topic.name}: {text}")]

    def _gap(self, entry: TopicEntry, gap: Gap, now: float) -> Instructions:
        if gap.last <= entry.seen:
            return []
        entry.seen = gap.last
        count = gap.last - gap.first + 1 if gap.lost is None else gap.lost.count
        entry.missed = min(entry.missed + count, MAX_COUNTED)  # a loser may say any
        publisher = gap.lost.publisher if gap.lost else ""
        if publisher not in entry.losses and len(entry.losses) >= MAX_LOSERS:
            publisher = "others"
        told_s, untold = entry.losses.get(publisher, (-math.inf, 0))
        count += untold
        if now < told_s + TELL_LOSS_S:
            entry.losses[publisher] = told_s, count
            return []
        entry.losses[publisher] = now, 0
        where = f"of {publisher}" if publisher else "that its inbox had no room for"
        what = "1 message" if count == 1 else f"{count} messages"
        text = f"topic {entry.topic.name}: {what} {where} {'is' if count == 1 else 'are'} lost"
        return [TellOperator(text)]

    def acknowledge(self, entry: TopicEntry) -> AskInbox:
        had = AcknowledgeNotifications(entry.progress.incarnation, entry.durable_inbox)
        return AskInbox(entry.topic.name, had)

    # --- readings ------------------------------------------------------------------------------

    def ask_readings(self, entry: TopicEntry, now: float) -> Instructions:
        topic, every_s = entry.topic, entry.topic.every_s
        assert every_s is not None
        # Rounds that were due while nothing could be done are not made up for.
        entry.next_round_s += every_s * (1 + (now - entry.next_round_s) // every_s)
        entry.rounds += 1
        if entry.full:
            entry.trouble = "no readings are asked for: what it made waits for disk or spool"
        if entry.round_open or entry.held or entry.full:
            entry.rounds_failed += 1
            return []
        entry.round_open = True
        latency_ms = min(every_s, MAX_ROUND_S) * 1e3
        query = Query(
            id=f"{topic.name[:48]}.{entry.rounds}",
            areas=topic.areas,
            window=Window(last_s=every_s),
            slo=Slo(PERCENTILE, latency_ms),
            channels=topic.channels,
            form="aggregate",
            timeout_ms=latency_ms,
            service=topic.service,
            label="topic",
            takes_too_large=True,
        )
        return [AskReadings(topic.name, entry.epoch, query)]

    def _round_answered(self, entry: TopicEntry, event: RoundAnswered) -> Instructions:
        if not entry.works:
            return []
        entry.round_open = False
        bodies = reading_bodies(event.time_ms, event.answer)
        if not bodies:
            entry.rounds_failed += 1
            why = event.answer.message or "no area had a reading"
            entry.trouble = f"its last round brought nothing: {why}"
            return []
        entry.trouble = ""
        return [each for body in bodies for each in self._take(entry, event.time_ms, body, None)]

    # --- through the processor -----------------------------------------------------------------

    def _take(
        self, entry: TopicEntry, time_ms: int, body: bytes, inbox: int | None, peer: str = ""
    ) -> Instructions:
        taken = entry.accept(time_ms, body, inbox, peer)
        fed: Instructions = []
        if not entry.held:
            fed.append(Feed(entry.topic.name, taken.position, body))
        return [*fed, *self.advance(entry)]

    def _emitted(self, entry: TopicEntry, event: Emitted) -> Instructions:
        told: Instructions = []
        if event.position <= entry.progress.position:
            return []  # put out before
        made_of = entry.input_at(event.position)
        told_as = {} if entry.topic.clone is None else {PEER: made_of.peer}
        for each in event.outputs:
            output = {**each, **told_as}
            if problem := why_not(output):
                entry.trouble = f"an output is not put out: {problem}"
                told += self._warn_once(entry, entry.trouble)
            else:
                own = output
                # A processor may say when it was; else it was when the message was.
                told_ms = own.pop("time_ms", None)
                at_ms = told_ms if is_time(told_ms) else made_of.time_ms
                entry.made.append((event.position, at_ms, own))
        return [*told, *self.advance(entry)]

    def advance(self, entry: TopicEntry) -> Instructions:
        """Have what was made put out, unless that is under way."""
        if entry.state == "draining":
            return self._drain(entry)
        busy = entry.releasing or entry.asked or entry.holding
        if not entry.owns or busy or not entry.wants_checkpoint:
            return []
        if not entry.topic.processor:
            return [self._cover(entry, entry.position, b"")]
        entry.asked = True
        return [TakeCheckpoint(entry.topic.name)]

    def _checkpointed(self, entry: TopicEntry, event: Checkpointed, now: float) -> Instructions:
        entry.asked = False
        if entry.holding:
            return []
        if event.position > entry.progress.position and not entry.releasing:
            return [self._cover(entry, event.position, event.state)]
        if entry.wants_checkpoint and not entry.releasing:
            # It processes once more what its worker had lost; that takes a moment.
            entry.retry_s = now + AGAIN_S
        return []

    def _drain(self, entry: TopicEntry) -> Instructions:
        """It is paused as soon as nothing of it is on its way to the disk. What is not there is as
        if it had never been."""
        if entry.releasing:
            return []
        entry.rest()
        entry.become("paused")
        return [self.acknowledge(entry), TopicPaused(entry.topic.name)]

    def _cover(self, entry: TopicEntry, position: int, state: bytes) -> Release:
        before = entry.progress
        made = entry.cover(position, state)
        return self._release(entry, before, made)

    def _release(
        self, entry: TopicEntry, before: Progress, made: list[tuple[int, Output]] | None = None
    ) -> Release:
        entry.releasing = True
        notifications = outputs_of(self._iad, entry.topic, before, made or [])
        return Release(entry.topic.name, entry.epoch, entry.progress, notifications)

    def _released(self, entry: TopicEntry) -> Instructions:
        entry.releasing = False
        entry.durable_inbox = entry.progress.inbox
        instructions: Instructions = []
        if entry.durable_inbox and entry.state == "open":
            instructions.append(self.acknowledge(entry))
        if entry.holding:
            instructions.append(TopicHeld(entry.topic.name))
        return [*instructions, *self.advance(entry)]
