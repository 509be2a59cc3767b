"""Topics as units that move: what the handover plane does with them, in inboxes and processors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from agent.alerts.inbox_events import InboxInstruction
from agent.alerts.inbox_handover import STANDBY, InboxCopy
from agent.master.moves.late_inboxes import LateInboxes, client_of, contents_of
from agent.master.moves.movable import NOT_HERE, UNREADABLE, Changes
from agent.master.push.push_plane import PushPlane
from agent.placement.handover.events import Standing
from agent.placement.world import Kind, Unit
from agent.runtime.reactor import Reactor
from agent.topics.events import ForgetProgress, SaveCopy, SaveProgress, TopicHeld, TopicPaused
from agent.topics.movable_topics import MovableTopics, TopicCopy
from agent.topics.state_patch import applied, patch
from agent.wire.handover import read_body

# After it publishers' masters know that messages for the topic are wanted here, too. It is about
# their order: what goes to its former master only is sent after it.
SPREAD_S: Final = 0.5
# How often it is looked whether a processor is built.
LOOK_S: Final = 0.05
# A state of so many bytes is on the target's disk before the pause; in it, what has changed.
LARGE: Final = 1 << 16
TOPIC: Final = "topic/"
CANNOT: Final = frozenset({"backing_off", "disabled"})


class _Coming:
    """A topic on its way here: standing by, then adopted."""

    __slots__ = (
        "adopted", "before", "due_s", "final", "id", "kept", "parts", "patch", "running", "then",
        "to_work",
    )  # fmt: skip

    def __init__(self, id_: str) -> None:
        self.id = id_  # of its inbox
        self.parts: Iterator[InboxCopy] = iter(())
        self.then: Callable[[str], object] | None = None
        # The state that it came with; whether that is on disk, if it has to be; what changed since.
        self.before = b""
        self.kept = True
        self.patch = b""
        self.due_s = 0.0
        self.final: TopicCopy | None = None
        self.adopted = False
        self.to_work = False
        self.running = False

    def is_kept(self) -> None:
        """The state that it came with is on disk."""
        self.kept = True


def _patched(copy: TopicCopy, before: bytes) -> TopicCopy:
    """Without its state if what has changed in it is much less."""
    if len(before) < LARGE:
        return copy
    change = patch(before, copy.progress.state)
    if len(change) * 2 > len(copy.progress.state):
        return copy
    return replace(copy, progress=replace(copy.progress, state=b"", patch=change))


def _whole(copy: TopicCopy, before: bytes) -> TopicCopy:
    """With its state. ValueError if it is the change of another."""
    if not copy.progress.patch:
        return copy
    state = applied(before, copy.progress.patch)
    return replace(copy, progress=replace(copy.progress, state=state, patch=b""))


class TopicMoves:
    """`Movable` for the topics of this master. `left(name)` is called when a topic's release is on
    disk."""

    kind: Kind = "processor"

    def __init__(
        self,
        reactor: Reactor,
        topics: MovableTopics,
        push: PushPlane,
        left: Callable[[str], object],
    ) -> None:
        self._clock = reactor.clock
        self._perform = reactor.perform
        self._topics = topics
        self._push = push
        self._inboxes = push.inboxes
        self._left = left
        self._late = LateInboxes(push)
        # Up to which position the target's standby inbox knows what the inbox here remembers.
        # And the state that the target was given.
        self._told: dict[str, tuple[int, bytes]] = {}
        self._holding: dict[str, Callable[[], object]] = {}
        self._pausing: dict[str, Callable[[bytes], object]] = {}
        self._cuts: dict[str, int] = {}  # the last positions that targets were given
        self._coming: dict[str, _Coming] = {}
        # (topic, incarnation) → whether this master stands by for it, with the same inbox.
        self.stands_by: Callable[[str, str], bool] = lambda _name, _incarnation: False
        self._inboxes.on_the_move.append(self._is_inbox)
        reactor.performs(TopicHeld, self._is_held)
        reactor.performs(TopicPaused, self._is_paused)
        reactor.add_timer(self)

    @property
    def on_late(self) -> Callable[[Unit], object]:
        """Gets a topic that has left, when there is a late item of it."""
        return self._late.on_late

    @on_late.setter
    def on_late(self, then: Callable[[Unit], object]) -> None:
        self._late.on_late = then

    def units(self) -> Iterable[Unit]:
        """The topics that live here."""
        return [Unit(self.kind, name) for name in self._topics.living]

    def is_coming(self, name: str, incarnation: str) -> bool:
        """Whether that topic moves to here; its inbox is that of the move until then."""
        coming = self._coming.get(name)
        return coming is not None and coming.id == incarnation

    def lives(self, unit: Unit) -> bool:
        """Whether it is one of these."""
        return self._topics.lives(unit.name)

    def _is_inbox(self, client: str, id_: str) -> bool:
        """Whether that is the inbox of a topic that is here, be it at rest."""
        name = client.removeprefix(TOPIC)
        here = client.startswith(TOPIC) and name in self._topics
        return here and self._topics.incarnation(name) == id_

    def restore(self, unit: Unit, standing: Standing, other: str) -> bool:
        """Restore from the record on disk; the topics have been restored by it."""
        name = unit.name
        if standing in ("offered", "taken") and name not in self._topics:
            return False
        if standing == "taken":
            coming = self._coming[name] = _Coming(self._topics.incarnation(name))
            coming.adopted = True
        if standing in ("taken", "released"):
            self._forward(unit, other)
        return True

    # --- at the source -------------------------------------------------------------------------

    def copy(self, unit: Unit) -> bytes:
        """The topic as it is, with what its inbox remembers."""
        name = unit.name
        known = self._inboxes.remembered(f"{TOPIC}{name}", self._topics.incarnation(name))
        copy = self._topics.copy(name, known)
        self._told[name] = known.last, copy.progress.state
        return msgspec.msgpack.encode(copy)

    def forget_copy(self, unit: Unit) -> None:
        """The target has it no more, or needs it no more."""
        self._told.pop(unit.name, None)

    def hold(self, unit: Unit, then: Callable[[], object]) -> None:
        """`then` is called when nothing of it is on its way to the disk."""
        self._holding[unit.name] = then
        self._perform(self._topics.hold(unit.name))

    def _is_held(self, instruction: TopicHeld) -> None:
        if (then := self._holding.pop(instruction.name, None)) is not None:
            then()

    def pause(self, unit: Unit, then: Callable[[bytes], object]) -> None:
        """`then` gets the topic with its inbox when nothing of it is on its way to the disk."""
        self._pausing[unit.name] = then
        self._perform(self._topics.pause(unit.name, self._clock()))

    def _is_paused(self, instruction: TopicPaused) -> None:
        name = instruction.name
        if (then := self._pausing.pop(name, None)) is None:
            return
        client, id_ = f"{TOPIC}{name}", self._topics.incarnation(name)
        last, before = self._told.pop(name, (0, b""))
        inbox = self._inboxes.copy(client, id_, last)
        self._cuts[name] = inbox.last
        then(msgspec.msgpack.encode(_patched(self._topics.copy(name, inbox), before)))

    def resume(self, unit: Unit) -> None:
        """Work again on what is here."""
        self._holding.pop(unit.name, None)
        self._pausing.pop(unit.name, None)
        self._cuts.pop(unit.name, None)
        self._perform(self._topics.work(unit.name, self._clock()))

    def release(self, unit: Unit, to: str) -> Changes:
        """Its inbox forwards from now on."""
        name = unit.name
        id_ = self._topics.incarnation(name)
        wanted = self._inboxes.wanted(f"{TOPIC}{name}", id_)
        self._late.begin(unit, to, id_, wanted)
        # After a restart it is not known up to where the target has it: it tells by key.
        cut = self._cuts.pop(name, 0)
        forwards = self._inboxes.release(f"{TOPIC}{name}", id_, self._late.client(unit), cut)
        self._perform(self._topics.drop(name))
        self._push.topics.when_kept(partial(self._left, name))
        return [*forwards, ForgetProgress(name)]

    def settles(self, unit: Unit, then: Callable[[], object]) -> None:
        """As soon as every subscriber's master has what was put out here."""
        self._push.topics.when_left(unit.name, self._late.id_of(unit), then)

    def _forward(self, unit: Unit, to: str) -> None:
        wanted = client_of(to, unit.name)
        for client, id_ in self._push.inboxes.kept_for(wanted):
            if client == wanted:
                self._late.begin(unit, to, id_, self._inboxes.wanted(client, id_))

    def late(self, unit: Unit) -> tuple[int, bytes] | None:
        """The next messages that came for it here."""
        return self._late.late(unit)

    def kept(self, unit: Unit, number: int) -> None:
        """They are in its inbox there."""
        self._late.kept(unit, number)

    def end(self, unit: Unit) -> None:
        """No message for it is taken here any more."""
        client, id_ = self._late.client(unit), self._late.id_of(unit)
        self._late.drop(unit)
        self._push.take(self._inboxes.end(client, id_))

    # --- at the target -------------------------------------------------------------------------

    def load(self, unit: Unit, copy: bytes, then: Callable[[str], object]) -> None:
        """Build its processor; let an inbox stand by, and learn what the topic's remembers."""
        name = unit.name
        try:
            loaded = read_body(copy, TopicCopy)
            loaded.check()
        except ValueError as error:
            then(f"its copy cannot be read: {error}")
            return
        if loaded.topic.name != name or loaded.inbox.contents:
            then("its copy is not one of this topic")
            return
        if problem := self._topics.why_not_load(loaded.topic):
            then(problem)
            return
        now = self._clock()
        coming = self._coming[name] = _Coming(loaded.progress.incarnation)
        coming.then, coming.due_s = then, now + SPREAD_S
        coming.parts = loaded.inbox.parts()
        coming.running = True
        self._perform(self._topics.load(loaded, now))
        coming.before = loaded.progress.state
        if len(coming.before) >= LARGE:
            # So that little is left to write while the topic is paused.
            coming.kept = False
            self._push.topics.copied.add(name)
            self._push.write([SaveCopy(name, coming.before)], coming.is_kept)
        standby, wanted = f"{STANDBY}{name}", loaded.inbox.filter
        self._push.take(self._inboxes.stand_by(standby, coming.id, wanted, now))

    def _look(self, name: str, coming: _Coming, now: float) -> None:
        """Whether it is ready."""
        assert coming.then is not None
        coming.due_s = now + LOOK_S
        if self._push.refusing:
            return
        if (part := next(coming.parts, None)) is not None:
            coming.due_s = now
            self._push.take(self._inboxes.learn(f"{STANDBY}{name}", coming.id, part))
            return
        if not coming.kept:
            return
        status = self._topics.status(name)
        if status.state in CANNOT:
            then, coming.then = coming.then, None
            then(status.trouble or f"its processor is {status.state}")
        elif status.state != "starting":
            then, coming.then = coming.then, None
            then("")

    def accept(self, unit: Unit, final: bytes) -> str:
        """Give the processor its final state."""
        coming = self._coming[unit.name]
        try:
            read = read_body(final, TopicCopy)
            read.check()
        except ValueError as error:
            return f"its state cannot be read: {error}"
        if (read.topic.name, read.progress.incarnation) != (unit.name, coming.id):
            return "its state is that of another topic"
        try:
            coming.final = _whole(read, coming.before)
        except ValueError as error:
            return str(error)
        coming.patch = read.progress.patch
        return ""

    def adopt(self, unit: Unit) -> Changes:
        """The standby inbox becomes the topic's; its progress comes with its definition."""
        return self._adopt(unit)

    def _adopt(self, unit: Unit, *, source_is_dead: bool = False) -> Changes:
        name = unit.name
        coming = self._coming[name]
        final = coming.final
        assert final is not None
        coming.adopted = True
        client = f"{TOPIC}{name}"
        changes: list[Any] = self._inboxes.adopt(
            f"{STANDBY}{name}",
            coming.id,
            client,
            final.inbox,
            self._clock(),
            source_is_dead=source_is_dead,
        )
        definition = msgspec.msgpack.encode(final.topic)
        progress = replace(final.progress, definition=definition)
        if coming.patch:
            return [*changes, SaveProgress(name, replace(progress, state=b"", patch=coming.patch))]
        return [*changes, SaveProgress(name, progress), *self._push.topics.forget_copy(name)]

    def take_over(self, unit: Unit, final: TopicCopy) -> Changes:
        """The same of a topic whose master is dead; its standby inbox is here. `work` and `own`
        follow."""
        coming = self._coming[unit.name] = _Coming(final.progress.incarnation)
        coming.final = final
        return self._adopt(unit, source_is_dead=True)

    def _build(self, coming: _Coming) -> None:
        """Give the processor its final state."""
        final, coming.final = coming.final, None
        if final is not None:
            coming.running = True
            self._perform(self._topics.load(final, self._clock()))

    def work(self, unit: Unit) -> None:
        """Work on it, from the next turn on: the source is told first, which takes it longer than
        the processor takes to get its state. Nothing is put out before `own`."""
        self._coming[unit.name].to_work = True

    def _work(self, name: str, coming: _Coming) -> None:
        coming.to_work = False
        self._build(coming)
        coming.running = True
        self._perform(self._topics.work(name, self._clock()))

    def own(self, unit: Unit) -> None:
        """It lives here."""
        name = unit.name
        coming = self._coming.pop(name, None)
        if coming is not None and coming.to_work:
            self._work(name, coming)
        self._late.drop(unit)
        # It was here before. Had its source taken it back, this would have gone there.
        self._push.take(self._inboxes.absorb(f"{TOPIC}{name}", self._topics.incarnation(name)))
        self._perform(self._topics.own(name))

    def stop(self, unit: Unit) -> None:
        """Stop its processor; if it was not adopted, the inbox ends, too, unless it stands by."""
        name = unit.name
        if (coming := self._coming.get(name)) is None:
            return
        coming.then, coming.to_work = None, False
        if coming.adopted:
            self._build(coming)
            if coming.running:
                self._perform(self._topics.halt(name, self._clock()))
            coming.running = False
        else:
            del self._coming[name]
            self._perform(self._topics.drop(name))
            if not self.stands_by(name, coming.id):
                self._push.take(self._inboxes.end(f"{STANDBY}{name}", coming.id))
            self._push.take(self._push.topics.forget_copy(name))

    def discard(self, unit: Unit) -> Changes:
        """Forget what was adopted."""
        name = unit.name
        coming = self._coming.pop(name)
        self._perform(self._topics.drop(name))
        ended: list[InboxInstruction] = self._inboxes.end(f"{TOPIC}{name}", coming.id)
        return [*ended, ForgetProgress(name), *self._push.topics.forget_copy(name)]

    def forwarded(self, unit: Unit, items: bytes, then: Callable[[int], object]) -> None:
        """Messages that came to its former master."""
        name = unit.name
        if (contents := contents_of(items)) is None:
            then(UNREADABLE)
            return
        found = self._push.inboxes.ids_of(f"{TOPIC}{name}")
        found += [self._late.id_of(unit)] if self._late.client(unit) else []
        if not found:
            # Removed, or moved on; or it is taken back by its source, which keeps them itself.
            then(-1 if name in self._coming else NOT_HERE)
            return
        changes, new = self._inboxes.take(f"{TOPIC}{name}", found[0], contents)
        self._push.write(changes, partial(then, new))

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When something on its way here is looked at, or a client has to say that it is there."""
        dues = [each.due_s for each in self._coming.values() if each.then is not None]
        dues += [0.0 for each in self._coming.values() if each.to_work]
        if (due := self._late.next_due) is not None:
            dues.append(due)
        return min(dues, default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for name, coming in list(self._coming.items()):
            if coming.to_work:
                self._work(name, coming)
            elif coming.then is not None and coming.due_s <= now:
                self._look(name, coming, now)
        self._late.tick(now)
