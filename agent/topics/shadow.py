"""A topic's standby: what its owner tells it with each checkpoint, and what it has of the topic.

The owner puts nothing out that its standby does not have. So what the standby goes on from covers
all that was put out, and what of it some subscriber may not have goes out again, under the same
origins: they know it by these. A processor need not be deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agent.alerts.inbox_events import Content
from agent.alerts.inbox_handover import InboxCopy
from agent.alerts.items import Key
from agent.topics.events import Progress
from agent.topics.movable_topics import TopicCopy, require_counted
from agent.wire.overlay import Notification, Origin
from agent.wire.topics import Topic

# As many messages as an inbox remembers, and fewer if there are many shadows: of all of them.
MAX_KNOWN: Final = 10_000
MAX_KNOWN_IN_ALL: Final = 500_000


class Named(Struct, frozen=True, array_like=True):
    """Request to a standby; the `incarnation` names the topic's inbox."""

    topic: Topic
    incarnation: str


class Checkpoint(Struct, frozen=True, array_like=True):
    """A topic up to `progress`. Of its inbox and outputs those that earlier ones did not tell;
    outputs whose number is less than `settled` are with all subscribers' masters."""

    topic: Topic
    progress: Progress
    inbox: InboxCopy
    outputs: tuple[Notification, ...]
    settled: int

    def check(self) -> None:
        """ValueError if no topic is so."""
        require_counted(self.progress, self.inbox)


class Shadow:
    """A standby's copy of a topic: the last checkpoint, what the inbox remembers and what the
    checkpoint does not cover of it, outputs that some subscriber may not have. A checkpoint is
    O(what is new in it + outputs)."""

    __slots__ = ("_bytes", "_contents", "_known", "_last", "_latest", "_rest", "outputs")

    def __init__(self, first: Checkpoint, shadows: int = 1) -> None:
        self._bytes = self._rest = 0  # of contents and outputs, and of what else is kept
        self._known: dict[Key, int] = {}  # with their positions, ascending
        self._contents: dict[int, Content] = {}
        self._last = first.inbox.first - 1
        self.outputs: dict[Origin, Notification] = {}
        self.follow(first, shadows)

    def knows(self, key: Key) -> bool:
        """Whether the owner's inbox has, or had, that message."""
        return key in self._known

    @property
    def bytes(self) -> int:
        """What it keeps, in MessagePack, but for the keys that it remembers. O(1)."""
        return self._bytes + self._rest

    def follow(self, checkpoint: Checkpoint, shadows: int = 1) -> None:
        """One more, which follows the last. ValueError if it does not: something is missing.
        `shadows`: of how many this is one."""
        inbox, progress = checkpoint.inbox, checkpoint.progress
        if inbox.first > self._last + 1:
            raise ValueError("messages between two checkpoints are missing")
        for position, (key, content) in enumerate(inbox.items(), inbox.first):
            if position > self._last:
                self._known.pop(key, None)
                self._known[key] = position
                if content is not None:
                    self._contents[position] = content
                    self._bytes += _size(content)
        self._last = max(self._last, inbox.last)
        for position in [each for each in self._contents if each <= progress.inbox]:
            self._bytes -= _size(self._contents.pop(position))
        most = min(MAX_KNOWN, MAX_KNOWN_IN_ALL // shadows) + len(self._contents)
        for key in list(islice(self._known, max(0, len(self._known) - most))):
            del self._known[key]
        for each in checkpoint.outputs:
            self._bytes += _size(each) - self._size_of(each.origin)
            self.outputs[each.origin] = each
        for origin in [each for each in self.outputs if each.sequence < checkpoint.settled]:
            self._bytes -= self._size_of(origin)
            del self.outputs[origin]
        wanted = InboxCopy(inbox.filter, 0, 0)
        self._latest = replace(checkpoint, inbox=wanted, outputs=())
        self._rest = len(msgspec.msgpack.encode(self._latest))

    def _size_of(self, origin: Origin) -> int:
        return _size(self.outputs[origin]) if origin in self.outputs else 0

    def copy(self) -> TopicCopy:
        """The topic as its owner had it on disk, or was about to; its inbox with what the state
        does not cover."""
        latest = self._latest
        return TopicCopy(latest.topic, latest.progress, self._inbox())

    def _inbox(self) -> InboxCopy:
        # A position that came twice is the later one: in between nothing may be missing.
        run: list[tuple[int, Key]] = []
        for key, position in self._known.items():
            if run and run[-1][0] + 1 != position:
                run = []
            run.append((position, key))
        contents: list[Content] = []
        for position, _ in run:
            content = self._contents.get(position)
            if content is None:
                contents.clear()
            else:
                contents.append(content)
        acknowledged, keys = self._latest.progress.inbox, (key for _, key in run)
        return InboxCopy.of_keys(
            self._latest.inbox.filter, acknowledged, self._last, keys, contents
        )


def _size(content: Content) -> int:
    return len(msgspec.msgpack.encode(content))


def named_by(iad: str, outputs: Sequence[Notification]) -> list[Notification]:
    """Another master's outputs as this one puts them out: their origins stay."""
    return [replace(each, attributes={**each.attributes, "iad": iad}) for each in outputs]
