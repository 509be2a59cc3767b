"""Topics and their standbys: what is told of one that lives here, and what is had of one that lives
elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from agent.alerts.inbox_handover import STANDBY
from agent.master.moves.movable import Changes
from agent.master.moves.topic_moves import TOPIC, TopicMoves
from agent.master.push.push_plane import PushPlane
from agent.placement.world import Unit
from agent.topics.contents import inputs_of
from agent.topics.events import Release
from agent.topics.movable_topics import MovableTopics
from agent.topics.shadow import Checkpoint, Named, Shadow, named_by
from agent.wire.overlay import Notification


class TopicShadows:
    """KeyError for a topic that is not here: the caller keeps account."""

    def __init__(self, iad: str, topics: MovableTopics, moves: TopicMoves, push: PushPlane) -> None:
        self._iad = iad
        self._moves = moves
        self._topics = topics
        self._push = push
        self._inboxes = push.inboxes

    # --- at the owner --------------------------------------------------------------------------

    @property
    def wanted(self) -> Sequence[str]:
        """The topics here that are to have a standby."""
        return self._topics.with_standby

    def incarnation(self, name: str) -> str:
        """The name of a topic's inbox; empty if there is no such topic here."""
        return self._topics.incarnation(name) if name in self._topics else ""

    def named(self, name: str) -> bytes:
        """A request of another master to stand by."""
        return msgspec.msgpack.encode(
            Named(self._topics.topic(name), self._topics.incarnation(name))
        )

    def last(self, name: str) -> int | None:
        """The last position of the topic's inbox; None if there is none yet."""
        client, id_ = f"{TOPIC}{name}", self._topics.incarnation(name)
        return self._inboxes.last(client, id_) if self._inboxes.has(client, id_) else None

    def checkpoint(
        self, name: str, after: int, beyond: int, waiting: Release | None
    ) -> tuple[bytes, int, int]:
        """The topic as it was given to the disk last, or is about to be with what is `waiting`.
        The standby has the inbox up to `after`, and outputs whose numbers are less than `beyond`.
        Returns besides up to where it has them then."""
        progress = self._topics.progress(name)
        client, id_ = f"{TOPIC}{name}", progress.incarnation
        inbox = self._inboxes.copy(client, id_, after)
        held: dict[object, Notification] = {
            each.origin: each for each in self._push.topics.of(name, id_)
        }
        held |= {each.origin: each for each in (waiting.notifications if waiting else ())}
        settled = min([each.origin.sequence for each in held.values()], default=progress.put_out)
        told = tuple([each for each in held.values() if each.origin.sequence >= beyond])
        topic = self._topics.topic(name)
        body = msgspec.msgpack.encode(
            Checkpoint(
                topic, msgspec.structs.replace(progress, definition=b""), inbox, told, settled
            )
        )
        return body, inbox.last, progress.put_out

    def disown(self, name: str, incarnation: str) -> None:
        """Another master has taken it over, with all that it put out here."""
        self._push.topics.disown(name, incarnation)

    # --- at the standby ------------------------------------------------------------------------

    def why_not(self, named: Named) -> str:
        """Why this master cannot stand by for it; empty if it can."""
        if named.topic.name in self._topics:
            return f"a topic {named.topic.name} is here already"
        return self._topics.why_not_load(named.topic)

    def begin(self, named: Named, now: float) -> None:
        """Let an inbox stand by."""
        topic = named.topic
        wanted = inputs_of(topic.name, topic.clone)
        client = f"{STANDBY}{topic.name}"
        self._push.take(self._inboxes.stand_by(client, named.incarnation, wanted, now))

    def has_inbox(self, named: Named) -> bool:
        """Whether its inbox stands by. A move to here that succeeds makes it the topic's own."""
        return self._inboxes.has(f"{STANDBY}{named.topic.name}", named.incarnation)

    def cover(self, named: Named, shadow: Shadow) -> None:
        """What the shadow has need not be kept for it."""
        client = f"{STANDBY}{named.topic.name}"
        self._push.take(self._inboxes.forget_known(client, named.incarnation, shadow.knows))

    def has_room(self, outputs: Sequence[Notification]) -> bool:
        """Whether these may be taken over: alerts of nodes here must not make way for them."""
        return self._push.topics.has_room_for(outputs)

    def end(self, named: Named) -> None:
        """No inbox stands by any more, unless a move to here needs it."""
        if self._moves.is_coming(named.topic.name, named.incarnation):
            return
        self._push.take(self._inboxes.end(f"{STANDBY}{named.topic.name}", named.incarnation))

    def take_over(self, shadow: Shadow) -> tuple[Changes, Callable[[], object]]:
        """The topic is this master's: what is to be on disk first, and what publishes then what its
        owner may not have put out."""
        final = shadow.copy()
        name = final.topic.name
        changes = self._moves.take_over(Unit("processor", name), final)
        outputs = named_by(self._iad, [*shadow.outputs.values()])
        spooled, publish = self._push.topics.take_over(name, final.progress, outputs)
        return [*changes, *spooled], publish
