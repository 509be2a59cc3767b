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

import msgspec

from _core.queue.edf import EdfQueue
from agent.topics.entry import TopicEntry
from agent.topics.events import (
    EnableProcessor,
    ForgetTopic,
    InboxSaid,
    KeepTopic,
    Peer,
    Progress,
    SaveTopic,
    SendReport,
    StartProcessor,
    StopProcessor,
    TopicAsked,
    TopicsDue,
    TopicsEvent,
)
from agent.topics.flow import RENEW_S, Flow, Instructions
from agent.wire.areas import AreaSet
from agent.wire.listing import alike, few, hint
from agent.wire.topics import (
    Clone,
    EnableTopic,
    ListTopics,
    RemoveTopic,
    Topic,
    TopicReport,
    TopicRequest,
    TopicStatus,
)

# A thousand clones, and others.
MAX_TOPICS = 1_280
MAX_NAMED = 8  # topics in a refusal
# States of a processor that only an operator ends, or a pause.
STOPPED = ("disabled", "backing_off")


class Topics:
    """`new_incarnation` gives 128 random bits as text; `why_not_processed(topic)` says why the
    processor of a topic cannot be started here, `why_not_read(topic)` why it cannot query,
    `remark(topic)` what its operator should know; `processed(status)` adds the processor's part to
    a topic's status, `guarded(status)` its standby's. `areas` and `nearest` are as for `Inboxes`;
    `moved` tells to which IADs topics have gone, `elsewhere` which ones other IADs keep, as far as
    they said. `now` is monotonic seconds. A message is O(attributes + log topics), a
    checkpoint O(messages that it covers)."""

    def __init__(
        self,
        iad: str,
        new_incarnation: Callable[[], str],
        *,
        why_not_processed: Callable[[Topic], str] = lambda _: "",
        why_not_read: Callable[[Topic], str] = lambda _: "",
        remark: Callable[[Topic], str] = lambda _: "",
        processed: Callable[[TopicStatus], TopicStatus] = lambda status: status,
        areas: Callable[[], Sequence[AreaSet]] = tuple,
        nearest: Callable[[str, AreaSet], str] = lambda *_: "",
        moved: Callable[[], dict[str, str]] = dict,
        elsewhere: Callable[[], dict[str, str]] = dict,
        guarded: Callable[[TopicStatus], TopicStatus] = lambda status: status,
        most: int = MAX_TOPICS,
    ) -> None:
        self._flow = Flow(iad)
        self._new_incarnation = new_incarnation
        self._why_not_processed = why_not_processed
        self._why_not_read = why_not_read
        self._remark = remark
        self._processed = processed
        self._areas, self._nearest = areas, nearest
        self._moved = moved
        self._elsewhere = elsewhere
        self._guarded = guarded
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

    def clone(self, name: str) -> Clone | None:
        """The attributes that make a topic a clone; None if it is none, or not here."""
        entry = self._entries.get(name)
        return None if entry is None else entry.topic.clone

    @property
    def statuses(self) -> tuple[TopicStatus, ...]:
        """All topics, by name, without those on their way to here."""
        owned = [entry for _, entry in sorted(self._entries.items()) if entry.owns]
        return tuple([self._status(entry) for entry in owned])

    @property
    def unreadable(self) -> int:
        """How many topics on disk this version cannot read."""
        return len(self._unreadable)

    def is_unreadable(self, name: str) -> bool:
        """Whether this is one of these."""
        return name in self._unreadable

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
        offered: Collection[str] = (),
        taken: Collection[str] = (),
    ) -> Instructions:
        """Restore from disk, before any event. Progress of a topic that is no more is forgotten;
        that of an `unreadable` one stays as it is. Topics that are `offered` to another master, or
        that it may have taken over, or `taken` from one that may take them back, do not begin."""
        progress = dict(kept)
        for name in unreadable:
            known = progress.pop(name, None)
            self._unreadable[name] = known.incarnation if known else self._new_incarnation()
        instructions: Instructions = []
        for topic in self._with_those_that_came(topics, progress):
            if (begun := progress.pop(topic.name, None)) is None:
                begun = Progress(self._new_incarnation())
                instructions.append(SaveTopic(topic, begun))
            if topic.name in offered or topic.name in taken:
                entry = self._enter(topic, begun, now)
                entry.owns = topic.name in offered
                entry.stop_clocks(now)
                entry.become("paused")
                continue
            instructions += self._begin(topic, begun, now)
            if begun.definition:
                instructions.append(KeepTopic(topic, self._entries[topic.name].epoch))
        gone = [ForgetTopic(name, each.incarnation) for name, each in progress.items()]
        return [*gone, *instructions]

    def _with_those_that_came(
        self, topics: Iterable[Topic], progress: dict[str, Progress]
    ) -> list[Topic]:
        """Besides, those whose definition is only where their progress is."""
        known = {topic.name: topic for topic in topics}
        for name, each in list(progress.items()):
            if each.definition and name not in known:
                try:
                    known[name] = msgspec.msgpack.decode(each.definition, type=Topic)
                except (ValueError, msgspec.MsgspecError):
                    self._unreadable[name] = progress.pop(name).incarnation
        return list(known.values())

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
        instructions = self._flow.handle(entry, event, now) if known else []
        self._set_timer(entry)
        return instructions

    # --- operators -----------------------------------------------------------------------------

    def _asked(self, peer: Peer, request: TopicRequest, now: float) -> Instructions:
        match request:
            case ListTopics(id_):
                told = TopicReport(id_, ok=True, topics=self.statuses, moved=self._moved())
                return [SendReport(peer, told, at_once=True)]
            case RemoveTopic(id_, name):
                return self._remove(peer, id_, name)
            case EnableTopic(id_, name):
                return self._enable(peer, id_, name)
        topic, id_ = request.topic, request.id
        before = self._entries.get(topic.name)
        if before is not None and before.topic == topic:
            return [self._made(peer, id_, before)]
        if before is None and (to := self._moved().get(topic.name)) is not None:
            line = f"topic {topic.name} has moved to {to}; remove it there, then here"
            return [SendReport(peer, TopicReport(id_, ok=False, message=line))]
        if problem := self._why_not(topic, before):
            return [SendReport(peer, TopicReport(id_, ok=False, message=problem[:512]))]
        progress = Progress(self._new_incarnation())
        saved = SaveTopic(topic, progress)
        begun = self._begin(topic, progress, now)
        return [saved, *begun, self._made(peer, id_, self._entries[topic.name])]

    def _made(self, peer: Peer, id_: str, entry: TopicEntry) -> SendReport:
        line = self._remark(entry.topic)[:512]
        return SendReport(
            peer, TopicReport(id_, ok=True, message=line, topics=(self._status(entry),))
        )

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
                return f"nobody known here covers {area}{hint(near)}"
        return ""

    def _remove(self, peer: Peer, id_: str, name: str) -> Instructions:
        if (incarnation := self._unreadable.pop(name, None)) is not None:
            return [ForgetTopic(name, incarnation), SendReport(peer, TopicReport(id_, ok=True))]
        if (entry := self._entries.get(name)) is None:
            return [self._unknown(peer, id_, name)]
        if not (entry.works and entry.owns):
            line = f"topic {name} is on its way between masters; try again in a moment"
            return [SendReport(peer, TopicReport(id_, ok=False, message=line))]
        forgotten = ForgetTopic(name, entry.progress.incarnation)
        return [*self._drop(entry), forgotten, SendReport(peer, TopicReport(id_, ok=True))]

    def _enable(self, peer: Peer, id_: str, name: str) -> Instructions:
        if (entry := self._entries.get(name)) is None:
            return [self._unknown(peer, id_, name)]
        if not entry.topic.processor:
            line = f"topic {name} has no processor"
            return [SendReport(peer, TopicReport(id_, ok=False, message=line))]
        state = self._status(entry).state
        line = "" if state in STOPPED else f"the processor of {name} is {state}: it was not stopped"
        return [EnableProcessor(name), SendReport(peer, TopicReport(id_, ok=True, message=line))]

    def _unknown(self, peer: Peer, id_: str, name: str) -> SendReport:
        if (to := self._moved().get(name)) is not None:
            line = f"topic {name} has moved to {to}; ask its master (--iad {to})"
            return SendReport(peer, TopicReport(id_, ok=False, message=line))
        if (at := self._elsewhere().get(name)) is not None:
            line = f"topic {name} is kept by {at}; ask its master (--iad {at})"
            return SendReport(peer, TopicReport(id_, ok=False, message=line))
        known = sorted(self._entries)
        line = f"no topic {name} is kept here; those that are: {few(known, MAX_NAMED) or 'none'}"
        if len(known) > MAX_NAMED:
            line += hint(alike(name, known))
        return SendReport(peer, TopicReport(id_, ok=False, message=line[:512]))

    def _begin(self, topic: Topic, progress: Progress, now: float) -> Instructions:
        entry = self._enter(topic, progress, now)
        entry.become("opening")
        return self._done(entry, [*self._start(entry), self._flow.subscribe(entry)])

    def _enter(self, topic: Topic, progress: Progress, now: float) -> TopicEntry:
        self._epochs += 1
        entry = self._entries[topic.name] = TopicEntry(topic, self._epochs, progress, now)
        return entry

    def _start(self, entry: TopicEntry) -> Instructions:
        entry.started = bool(entry.topic.processor)
        started = StartProcessor(entry.topic, entry.epoch, entry.progress)
        return [started] if entry.started else []

    def _drop(self, entry: TopicEntry) -> Instructions:
        del self._entries[entry.topic.name]
        entry.become("removed")
        entry.next_round_s = entry.retry_s = entry.renew_s = math.inf
        return self._done(entry, [StopProcessor(entry.topic.name)] if entry.started else [])

    def _done(self, entry: TopicEntry, instructions: Instructions) -> Instructions:
        self._set_timer(entry)
        return instructions

    def _status(self, entry: TopicEntry) -> TopicStatus:
        resting = entry.state in ("draining", "paused")
        status = TopicStatus(
            entry.topic,
            "moving" if resting else "starting" if entry.topic.processor else "none",
            received=entry.received,
            put_out=entry.put_out,
            missed=entry.missed,
            rounds=entry.rounds,
            rounds_failed=entry.rounds_failed,
            trouble=entry.trouble[:512],
        )
        return self._guarded(self._processed(status) if entry.started else status)

    # --- time ----------------------------------------------------------------------------------

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
                    instructions.append(self._flow.subscribe(entry))
                else:
                    entry.retry_s = math.inf
                    instructions += self._flow.advance(entry)
            if entry.renew_s <= now:
                entry.renew_s = now + RENEW_S
                instructions.append(self._flow.acknowledge(entry))
            if entry.next_round_s <= now:
                instructions += self._flow.ask_readings(entry, now)
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

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        for entry in self._entries.values():
            entry.check_invariants()
            assert entry.due_s == entry.next_s
        dues = [entry.due_s for entry in self._entries.values() if entry.due_s < math.inf]
        assert len(self._timers) == len(dues)
        assert self.next_tick == min(dues, default=None)
