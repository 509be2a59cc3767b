"""Each message counts once in a unit's state and each output reaches a subscriber once, in order,
however often the unit is moved or restarted.

Publishers keep messages until they are settled and send all of those again to each new epoch. Those
of a history always come in order, so the last one tells which the unit's state has, however many
are not settled yet. An epoch numbers its outputs from 1; a subscriber's master takes them without
gaps, drops older epochs, and knows by origin which outputs it had from an earlier one.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from agent.alerts.dedup_window import Taken
from agent.placement.handover.events import Checkpoint, Output

# Histories of publishers that are remembered. Beyond, the one that was silent for longest goes, and
# what it sends again counts again.
MAX_HISTORIES = 4_096


Seen = dict[str, Taken]  # of each history up to which message, the latest heard of last; immutable


def knows(seen: Seen, history: str, sequence: int) -> bool:
    """Whether the message is known: the last of its history is, and so are all before it."""
    return history in seen and sequence < seen[history].mark


def with_message(seen: Seen, history: str, sequence: int) -> Seen:
    """What is known with this message. O(histories)."""
    new = dict(seen)
    last = new.pop(history, Taken())
    new[history] = Taken(max(last.mark, sequence + 1))
    if len(new) > MAX_HISTORIES:
        del new[next(iter(new))]
    return new


class Processed:
    """At the unit: which messages its state has, and which outputs are not acknowledged. All
    attributes are immutable values."""

    __slots__ = ("epoch", "outputs", "position", "seen")

    def __init__(self, epoch: int, checkpoint: Checkpoint) -> None:
        """O(histories + outputs)."""
        self.epoch = epoch
        self.seen = checkpoint.taken
        self.outputs = tuple(
            replace(output, epoch=epoch, position=position)
            for position, output in enumerate(checkpoint.outputs, 1)
        )
        self.position = len(self.outputs)

    def take(self, history: str, sequence: int) -> bool:
        """Whether the message is new. O(histories)."""
        new = not knows(self.seen, history, sequence)
        self.seen = with_message(self.seen, history, sequence)
        return new

    def emit(self, history: str, sequence: int, body: bytes) -> Output:
        """The output that this message causes, to be sent at once. O(outputs)."""
        self.position += 1
        output = Output(self.epoch, self.position, history, sequence, body)
        self.outputs = (*self.outputs, output)
        return output

    def acknowledged(self, epoch: int, position: int) -> None:
        """Every subscriber's master has the outputs of this epoch up to this position."""
        if epoch == self.epoch:
            self.outputs = tuple(each for each in self.outputs if each.position > position)

    def checkpoint(self, state: bytes) -> Checkpoint:
        """All of it, with the state after the last message. O(1)."""
        return Checkpoint(state, self.seen, self.outputs)


class Received(Struct, frozen=True, array_like=True):
    """What a subscriber's master keeps of a unit on disk, together with the outputs."""

    epoch: int = 0
    position: int = 0
    taken: dict[str, Taken] = {}


class Subscribed:
    """At a subscriber's master: the fence, and which outputs it has. All attributes are immutable
    values."""

    __slots__ = ("epoch", "position", "seen")

    def __init__(self, received: Received) -> None:
        self.epoch = received.epoch
        self.position = received.position
        self.seen = received.taken

    def fence(self, epoch: int) -> bool:
        """A unit works in this epoch; whether it is the latest known. Earlier ones are over."""
        if epoch > self.epoch:
            self.epoch, self.position = epoch, 0
        return epoch == self.epoch

    def accept(self, output: Output) -> bool:
        """Whether subscribers get this output: it is the next of the latest epoch, and caused by a
        message whose output they do not have. What comes after a gap is sent again."""
        if not self.fence(output.epoch) or output.position != self.position + 1:
            return False
        self.position = output.position
        new = not knows(self.seen, output.history, output.sequence)
        self.seen = with_message(self.seen, output.history, output.sequence)
        return new

    def received(self) -> Received:
        """What goes on disk. O(1)."""
        return Received(self.epoch, self.position, self.seen)
