"""The topics of a master: requests of operators, messages in, notifications out.

What a processor makes of a message is put out exactly once: its outputs, its state and the
position of the inbox become durable in one transaction, and only then are the outputs published
and the inbox acknowledged. After a kill the processor goes on from that state, and the inbox sends
what came since. Outputs therefore wait for a checkpoint, which is taken as soon as there are any;
while a transaction is under way, further ones gather.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from _core.queue.edf import EdfQueue
from agent.topics.contents import (
    inputs_of,
    is_time,
    outputs_of,
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
    EnableProcessor,
    Feed,
    ForgetTopic,
    Held,
    InboxSaid,
    Peer,
    Progress,
    Release,
    Released,
    Resumed,
    RoundAnswered,
    SaveTopic,
    SendReport,
    StartProcessor,
    StopProcessor,
    TakeCheckpoint,
    TellOperator,
    TopicAsked,
    TopicsDue,
    TopicsEvent,
    TopicsInstruction,
)
from agent.wire.areas import AreaSet
from agent.wire.messages import Query, Slo, Window
from agent.wire.push import AcknowledgeNotifications, Gap, Notified, Subscribe, Subscribed
from agent.wire.topics import (
    EnableTopic,
    ListTopics,
    RemoveTopic,
    Topic,
    TopicReport,
    TopicRequest,
    TopicStatus,
)

MOST = 256
# An inbox detaches a client that is silent for a minute.
RENEW_S = 20.0
# Another try for a checkpoint that did not cover all outputs.
AGAIN_S = 0.25
# The objective of a round's query, whose answer is due before the next round.
PERCENTILE = 99.0
LONGEST_ROUND_S = 10.0

Instructions = list[TopicsInstruction]
EntryEvent = InboxSaid | RoundAnswered | Emitted | Checkpointed | Held | Resumed | Released


class Topics:
    """`new_incarnation` gives 128 random bits as text; `why_not_processed(topic)` says why the
    processor of a topic cannot be started here, `why_not_read(topic)` why it cannot query;
    `processed(status)` adds the processor's part to a topic's status. `areas` and `nearest` are as
    for `Inboxes`. `now` is monotonic seconds. A message is O(attributes + log topics), a
    checkpoint O(messages that it covers)."""

    def __init__(
        self,
        iad: str,
        new_incarnation: Callable[[], str],
        *,
        why_not_processed: Callable[[Topic], str] = lambda _: "",
        why_not_read: Callable[[Topic], str] = lambda _: "",
        processed: Callable[[TopicStatus], TopicStatus] = lambda status: status,
        areas: Callable[[], Sequence[AreaSet]] = tuple,
        nearest: Callable[[str, AreaSet], str] = lambda *_: "",
        most: int = MOST,
    ) -> None:
        self._iad = iad
        self._new_incarnation = new_incarnation
        self._why_not_processed = why_not_processed
        self._why_not_read = why_not_read
        self._processed = processed
        self._areas, self._nearest = areas, nearest
        self._most = most
        self._entries: dict[str, TopicEntry] = {}
        # Incarnations of those that a later version wrote.
        self._unreadable: dict[str, str] = {}
        self._timers: EdfQueue[TopicEntry] = EdfQueue()
        self._epochs = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    @property
    def statuses(self) -> tuple[TopicStatus, ...]:
        """All topics, by name."""
        return tuple([self._status(entry) for _, entry in sorted(self._entries.items())])

    @property
    def unreadable(self) -> int:
        """How many topics on disk this version cannot read."""
        return len(self._unreadable)

    @property
    def next_tick(self) -> float | None:
        """When `TopicsDue` is due; None if no timer is set."""
        return self._timers.peek_key() if self._timers else None

    def restore(
        self,
        topics: Iterable[Topic],
        kept: Iterable[tuple[str, Progress]],
        now: float,
        unreadable: Collection[str] = (),
    ) -> Instructions:
        """Restore from disk, before any event. Progress of a topic that is no more is forgotten;
        that of an `unreadable` one stays as it is."""
        progress = dict(kept)
        for name in unreadable:
            known = progress.pop(name, None)
            self._unreadable[name] = known.incarnation if known else self._new_incarnation()
        instructions: Instructions = []
        for topic in topics:
            if (begun := progress.pop(topic.name, None)) is None:
                begun = Progress(self._new_incarnation())
                instructions.append(SaveTopic(topic, begun))
            instructions += self._begin(topic, begun, now)
        gone = [ForgetTopic(name, each.incarnation) for name, each in progress.items()]
        return [*gone, *instructions]

    def handle(self, event: TopicsEvent, now: float) -> Instructions:
        """Handle one event; returns the instructions, in order."""
        match event:
            case TopicAsked(peer, request):
                return self._asked(peer, request, now)
            case TopicsDue():
                return self._due(now)
        entry = self._entries.get(event.name)
        if entry is None:
            return []
        if isinstance(event, InboxSaid):
            known = entry.progress.incarnation == event.incarnation
        else:
            known = entry.epoch == event.epoch
        instructions = self._heard(entry, event, now) if known else []
        self._set_timer(entry)
        return instructions

    def _heard(self, entry: TopicEntry, event: EntryEvent, now: float) -> Instructions:
        match event:
            case InboxSaid():
                return self._inbox_said(entry, event, now)
            case RoundAnswered():
                return self._round_answered(entry, event)
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
            case Released():
                return self._released(entry)

    # --- operators -----------------------------------------------------------------------------

    def _asked(self, peer: Peer, request: TopicRequest, now: float) -> Instructions:
        match request:
            case ListTopics(id_):
                return [SendReport(peer, TopicReport(id_, ok=True, topics=self.statuses))]
            case RemoveTopic(id_, name):
                return self._remove(peer, id_, name)
            case EnableTopic(id_, name):
                return self._enable(peer, id_, name)
        topic, id_ = request.topic, request.id
        before = self._entries.get(topic.name)
        if before is not None and before.topic == topic:
            return [SendReport(peer, TopicReport(id_, ok=True, topics=(self._status(before),)))]
        if problem := self._why_not(topic, before):
            return [SendReport(peer, TopicReport(id_, ok=False, message=problem[:512]))]
        progress = Progress(self._new_incarnation())
        saved = SaveTopic(topic, progress)
        begun = self._begin(topic, progress, now)
        status = self._status(self._entries[topic.name])
        return [saved, *begun, SendReport(peer, TopicReport(id_, ok=True, topics=(status,)))]

    def _why_not(self, topic: Topic, before: TopicEntry | None) -> str:
        if before is not None:
            return f"topic {topic.name} exists and is another; remove it first"
        if topic.name in self._unreadable:
            line = "is on this master's disk, of a later version; remove it first"
            return f"topic {topic.name} {line}"
        if len(self._entries) >= self._most:
            return f"{self._most} topics are kept here; remove one, or take another master"
        unreadable = self._unknown_area(topic.areas) or self._why_not_read(topic)
        if topic.areas and unreadable:
            return unreadable
        return self._why_not_processed(topic) if topic.processor else ""

    def _unknown_area(self, wanted: Iterable[str]) -> str:
        known = [areas for areas in self._areas() if areas]
        for area in wanted if known else ():
            if not any(areas.overlaps(area) for areas in known):
                near = next((meant for areas in known if (meant := self._nearest(area, areas))), "")
                hint = f"; did you mean {near}?" if near else ""
                return f"nobody known here covers {area}{hint}"
        return ""

    def _remove(self, peer: Peer, id_: str, name: str) -> Instructions:
        if (incarnation := self._unreadable.pop(name, None)) is not None:
            return [ForgetTopic(name, incarnation), SendReport(peer, TopicReport(id_, ok=True))]
        entry = self._entries.pop(name, None)
        if entry is None:
            return [self._unknown(peer, id_, name)]
        entry.become("removed")
        entry.next_round_s = entry.retry_s = entry.renew_s = math.inf
        self._set_timer(entry)
        stopped: Instructions = [StopProcessor(name)] if entry.topic.processor else []
        forgotten = ForgetTopic(name, entry.progress.incarnation)
        return [*stopped, forgotten, SendReport(peer, TopicReport(id_, ok=True))]

    def _enable(self, peer: Peer, id_: str, name: str) -> Instructions:
        if (entry := self._entries.get(name)) is None:
            return [self._unknown(peer, id_, name)]
        if not entry.topic.processor:
            line = f"topic {name} has no processor"
            return [SendReport(peer, TopicReport(id_, ok=False, message=line))]
        return [EnableProcessor(name), SendReport(peer, TopicReport(id_, ok=True))]

    def _unknown(self, peer: Peer, id_: str, name: str) -> SendReport:
        known = ", ".join(sorted(self._entries)[:8]) or "none"
        line = f"no topic {name} is kept here; those that are: {known}"
        return SendReport(peer, TopicReport(id_, ok=False, message=line[:512]))

    def _begin(self, topic: Topic, progress: Progress, now: float) -> Instructions:
        self._epochs += 1
        entry = self._entries[topic.name] = TopicEntry(topic, self._epochs, progress, now)
        entry.become("opening")
        started: Instructions = []
        if topic.processor:
            started = [StartProcessor(topic, entry.epoch, progress)]
        subscribed = self._subscribe(entry)
        self._set_timer(entry)
        return [*started, subscribed]

    def _status(self, entry: TopicEntry) -> TopicStatus:
        status = TopicStatus(
            entry.topic,
            "starting" if entry.topic.processor else "none",
            received=entry.received,
            put_out=entry.put_out,
            missed=entry.missed,
            rounds=entry.rounds,
            rounds_failed=entry.rounds_failed,
            trouble=entry.trouble[:512],
        )
        return self._processed(status) if entry.topic.processor else status

    # --- inbox ---------------------------------------------------------------------------------

    def _subscribe(self, entry: TopicEntry) -> AskInbox:
        entry.retry_s = entry.renew_s = math.inf
        wanted = inputs_of(entry.topic.name)
        after = entry.durable_inbox or None
        message = Subscribe(entry.progress.incarnation, wanted, durable=True, after=after)
        return AskInbox(entry.topic.name, message)

    def _inbox_said(self, entry: TopicEntry, said: InboxSaid, now: float) -> Instructions:
        match said.message:
            case Notified() as notified:
                return self._published(entry, notified)
            case Gap() as gap:
                return self._gap(entry, gap)
            case Subscribed(state="open"):
                if entry.state == "opening":
                    entry.become("open")
                entry.pauses.reset()
                entry.trouble = ""
                entry.renew_s = now + RENEW_S
                return self._advance(entry)
            case Subscribed(state="refused", message=why):
                return self._refused(entry, why, now)
            case None:
                if entry.state == "opening":
                    entry.retry_s = now + entry.pauses.next()
                return []
        if entry.state == "open":
            entry.become("opening")
        return [self._subscribe(entry)]

    def _refused(self, entry: TopicEntry, why: str, now: float) -> Instructions:
        if entry.durable_inbox:
            # It is no more: perhaps nobody renewed it for too long.
            entry.inbox_lost()
            line = f"topic {entry.topic.name}: its inbox is lost; messages to it may be missing"
            return [TellOperator(line), self._subscribe(entry)]
        entry.trouble = f"its inbox is refused: {why}"
        if entry.state == "open":
            entry.become("opening")
        entry.retry_s = now + entry.pauses.next()
        return []

    def _published(self, entry: TopicEntry, notified: Notified) -> Instructions:
        if notified.position <= entry.seen:
            return []  # sent again
        entry.seen = notified.position
        entry.received += 1
        own, time_ms = published_part(notified.notification), notified.notification.time_ms
        if entry.topic.processor:
            return self._take(entry, time_ms, published_body(time_ms, own), notified.position)
        taken = entry.accept(time_ms, b"", notified.position)
        entry.made.append((taken.position, time_ms, own))
        return self._advance(entry)

    def _gap(self, entry: TopicEntry, gap: Gap) -> Instructions:
        if gap.last <= entry.seen:
            return []
        entry.seen = gap.last
        count = gap.last - gap.first + 1 if gap.lost is None else gap.lost.count
        entry.missed += count
        where = f"of {gap.lost.publisher}" if gap.lost else "that its inbox had no room for"
        return [TellOperator(f"topic {entry.topic.name}: {count} messages {where} are lost")]

    # --- readings ------------------------------------------------------------------------------

    def _due(self, now: float) -> Instructions:
        instructions: Instructions = []
        due = []
        while self._timers and self._timers.peek_key() <= now:
            entry = self._timers.pop()
            entry.due_s = math.inf
            due.append(entry)
        for entry in due:
            if entry.retry_s <= now:
                if entry.state == "opening":
                    instructions.append(self._subscribe(entry))
                else:
                    entry.retry_s = math.inf
                    instructions += self._advance(entry)
            if entry.renew_s <= now:
                entry.renew_s = now + RENEW_S
                instructions.append(self._acknowledge(entry))
            if entry.next_round_s <= now:
                instructions += self._ask_readings(entry, now)
            self._set_timer(entry)
        return instructions

    def _set_timer(self, entry: TopicEntry) -> None:
        """Put the topic where it belongs among the timers. O(log topics)."""
        if entry.next_s == entry.due_s:
            return
        if entry.due_s < math.inf:
            self._timers.remove(entry.handle)
        entry.due_s = entry.next_s
        if entry.due_s < math.inf:
            entry.handle = self._timers.push(entry.due_s, entry)

    def _acknowledge(self, entry: TopicEntry) -> AskInbox:
        had = AcknowledgeNotifications(entry.progress.incarnation, entry.durable_inbox)
        return AskInbox(entry.topic.name, had)

    def _ask_readings(self, entry: TopicEntry, now: float) -> Instructions:
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
        latency_ms = min(every_s, LONGEST_ROUND_S) * 1e3
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
        self, entry: TopicEntry, time_ms: int, body: bytes, inbox: int | None
    ) -> Instructions:
        taken = entry.accept(time_ms, body, inbox)
        fed: Instructions = []
        if not entry.held:
            fed.append(Feed(entry.topic.name, taken.position, body))
        return [*fed, *self._advance(entry)]

    def _emitted(self, entry: TopicEntry, event: Emitted) -> Instructions:
        told: Instructions = []
        if event.position <= entry.progress.position:
            return []  # put out before
        time_ms = entry.time_of(event.position)
        for output in event.outputs:
            if problem := why_not(output):
                entry.trouble = f"an output is not put out: {problem}"
                if problem not in entry.told:
                    entry.told.add(problem)
                    told.append(TellOperator(f"topic {event.name}: {entry.trouble}"))
            else:
                own = dict(output)
                # A processor may say when it was; else it was when the message was.
                told_ms = own.pop("time_ms", None)
                at_ms = told_ms if is_time(told_ms) else time_ms
                entry.made.append((event.position, at_ms, own))
        return [*told, *self._advance(entry)]

    def _advance(self, entry: TopicEntry) -> Instructions:
        """Have what was made put out, unless that is under way."""
        if entry.releasing or entry.asked or not entry.wants_checkpoint:
            return []
        if not entry.topic.processor:
            return [self._release(entry, entry.position, b"")]
        entry.asked = True
        return [TakeCheckpoint(entry.topic.name)]

    def _checkpointed(self, entry: TopicEntry, event: Checkpointed, now: float) -> Instructions:
        entry.asked = False
        if event.position > entry.progress.position and not entry.releasing:
            return [self._release(entry, event.position, event.state)]
        if entry.wants_checkpoint and not entry.releasing:
            # It processes once more what its worker had lost; that takes a moment.
            entry.retry_s = now + AGAIN_S
        return []

    def _release(self, entry: TopicEntry, position: int, state: bytes) -> Release:
        before = entry.progress
        made = entry.cover(position, state)
        entry.releasing = True
        notifications = outputs_of(self._iad, entry.topic, before, made)
        return Release(entry.topic.name, entry.epoch, entry.progress, notifications)

    def _released(self, entry: TopicEntry) -> Instructions:
        entry.releasing = False
        entry.durable_inbox = entry.progress.inbox
        instructions: Instructions = []
        if entry.durable_inbox and entry.state == "open":
            instructions.append(self._acknowledge(entry))
        return [*instructions, *self._advance(entry)]

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        for entry in self._entries.values():
            entry.check_invariants()
            assert entry.due_s == entry.next_s
        dues = [entry.due_s for entry in self._entries.values() if entry.due_s < math.inf]
        assert len(self._timers) == len(dues)
        assert self.next_tick == min(dues, default=None)
