"""Topics that can be given to another master.

The source pauses a topic: no further message goes to its processor, and what came of those before
is put out or, if it is not on its way to the disk yet, done again. Its copy is then all that it is;
its messages are in its inbox, which goes along
(`agent.alerts.inbox_handover`). The target works on it before the source has let it go, but puts
nothing out before it owns it: so neither of them put out what the other does, too.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agent.alerts.inbox_handover import InboxCopy, require_reached
from agent.topics.events import (
    Feed,
    KeepTopic,
    Progress,
    StopProcessor,
    TopicHeld,
)
from agent.topics.flow import Instructions
from agent.topics.topics import Topics
from agent.wire.topics import Topic, TopicStatus


class Reading(Struct, frozen=True, array_like=True):
    """A message for the processor that no inbox has."""

    time_ms: int
    body: bytes


class TopicCopy(Struct, frozen=True, array_like=True):
    """A topic as it goes to another master: before the move without, at the move with its
    `readings`, the time until its next round, and its inbox; then perhaps without its state, but
    with what to change in the earlier one, as a `patch` of `progress`."""

    topic: Topic
    progress: Progress
    inbox: InboxCopy
    readings: tuple[Reading, ...] = ()
    round_in_s: float = 0.0

    def check(self) -> None:
        """ValueError if no topic is so."""
        require_counted(self.progress, self.inbox)


def require_counted(progress: Progress, inbox: InboxCopy) -> None:
    """ValueError if a topic that another master tells of has counted further than any does."""
    require_reached(progress.position, progress.put_out, progress.inbox, inbox.last)


class MovableTopics(Topics):
    """KeyError for a topic that is not here: the caller keeps account."""

    def lives(self, name: str) -> bool:
        """Whether the topic is this master's, at work or paused."""
        return name in self._entries and self._entries[name].owns

    @property
    def living(self) -> list[str]:
        """All of these."""
        return [name for name, entry in self._entries.items() if entry.owns]

    @property
    def with_standby(self) -> list[str]:
        """Those that live here and are to have a standby."""
        entries = self._entries.items()
        return [name for name, entry in entries if entry.owns and entry.topic.standby]

    def topic(self, name: str) -> Topic:
        """Definition of a topic."""
        return self._entries[name].topic

    def incarnation(self, name: str) -> str:
        """The name of the topic's inbox."""
        return self._entries[name].progress.incarnation

    def status(self, name: str) -> TopicStatus:
        """Of one topic, also of one that is on its way here: its processor's state tells whether it
        is built."""
        return self._status(self._entries[name])

    def progress(self, name: str) -> Progress:
        """What of a topic is to be on disk before it works here: with its inbox, in one
        transaction."""
        return self._entries[name].progress

    # --- at the source -------------------------------------------------------------------------

    def copy(self, name: str, inbox: InboxCopy) -> TopicCopy:
        """The topic as it is; all of it if it is paused."""
        entry = self._entries[name]
        if entry.state != "paused":
            return TopicCopy(entry.topic, entry.progress, inbox)
        readings = tuple([Reading(each.time_ms, each.body) for each in entry.inputs])
        return TopicCopy(entry.topic, entry.progress, inbox, readings, entry.round_in_s)

    def hold(self, name: str) -> Instructions:
        """Begin nothing that the disk would hold up: `TopicHeld` follows when nothing is on its
        way there. Messages are processed on. `pause` follows."""
        entry = self._entries[name]
        entry.holding = True
        return self._done(entry, [] if entry.releasing else [TopicHeld(name)])

    def pause(self, name: str, now: float) -> Instructions:
        """Take no further message; `TopicPaused` follows when what is on its way to the disk is
        there. The rest is done again by whoever works on it next."""
        entry = self._entries[name]
        entry.holding = False
        entry.become("draining")
        entry.stop_clocks(now)
        stopped: Instructions = [StopProcessor(name)] if entry.started else []
        return self._done(entry, [*stopped, *self._flow.advance(entry)])

    # --- at the target -------------------------------------------------------------------------

    def why_not_load(self, topic: Topic) -> str:
        """Why the topic cannot come here; empty if it can."""
        if topic.clone is not None and not topic.clone.leaves:
            return f"{topic.name} is a clone that does not leave its IAD"
        return self._why_not(topic, self._entries.get(topic.name))

    def load(self, copy: TopicCopy, now: float) -> Instructions:
        """Have the processor built, with a copy or with the final state: it gets no message before
        `work`."""
        name = copy.topic.name
        before = self.drop(name) if name in self._entries else []
        progress = replace(copy.progress, definition=msgspec.msgpack.encode(copy.topic))
        entry = self._enter(copy.topic, progress, now)
        entry.owns = False
        entry.become("warm")
        entry.stop_clocks(now)
        entry.round_in_s = copy.round_in_s
        for each in copy.readings:
            entry.accept(each.time_ms, each.body, None)
        return self._done(entry, [*before, *self._start(entry)])

    def own(self, name: str) -> Instructions:
        """Put out what it makes, from now on."""
        entry = self._entries[name]
        entry.owns = True
        kept = KeepTopic(entry.topic, entry.epoch)
        return self._done(entry, [kept, *self._flow.advance(entry)])

    def halt(self, name: str, now: float) -> Instructions:
        """Stop one that does not own what it makes; `work` or `drop` follows."""
        entry = self._entries[name]
        assert not entry.owns
        if entry.state == "paused":
            return []
        stopped: Instructions = [StopProcessor(name)] if entry.started else []
        entry.stop_clocks(now)
        entry.rest()
        entry.become("paused")
        return self._done(entry, stopped)

    # --- at either -----------------------------------------------------------------------------

    def work(self, name: str, now: float) -> Instructions:
        """Work on a topic that is paused, or loaded with its final state. Its inbox is there. One
        that works already works on, and is held no longer."""
        entry = self._entries[name]
        if entry.works:
            entry.holding = False
            return self._done(entry, self._flow.advance(entry))
        instructions: Instructions = []
        if not entry.started:
            self._epochs += 1
            entry.epoch = self._epochs
            instructions = self._start(entry)
        entry.become("opening")
        if entry.topic.every_s is not None:
            entry.next_round_s = now + min(entry.round_in_s, entry.topic.every_s)
        fed = [Feed(name, each.position, each.body) for each in entry.inputs]
        return self._done(entry, [*instructions, *fed, self._flow.subscribe(entry)])

    def drop(self, name: str) -> Instructions:
        """The topic is no more, or another master's; nothing of it on disk is touched."""
        return self._drop(self._entries[name])
