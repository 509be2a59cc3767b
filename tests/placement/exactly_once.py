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

from agent.alerts.dedup_window import DedupWindow, Taken
from agent.placement.handover import Checkpoint, Output

# Histories of publishers that are remembered. Beyond, the one that was silent for longest goes, and
# what it sends again counts again.
MAX_HISTORIES = 4_096


class Seen:
    """The last message of each history: it is known, and so are all before it."""

    def __init__(self, taken: dict[str, Taken]) -> None:
        self._window: DedupWindow[str] = DedupWindow(MAX_HISTORIES)
        for history, each in taken.items():
            self._window.restore(history, each)

    def add(self, history: str, sequence: int) -> bool:
        """Whether the message is new. O(histories)."""
        new = not self._window.knows(history, sequence)
        self._window.take(history, (), sequence + 1)
        return new

    def all(self) -> dict[str, Taken]:
        """To begin from later, the most recently used history last. O(histories)."""
        return self._window.all()


class Processed:
    """At the unit: which messages its state has, and which outputs are not acknowledged."""

    def __init__(self, epoch: int, checkpoint: Checkpoint) -> None:
        """O(histories + outputs)."""
        self.epoch = epoch
        self._seen = Seen(checkpoint.taken)
        self.outputs = [
            replace(output, epoch=epoch, position=position)
            for position, output in enumerate(checkpoint.outputs, 1)
        ]
        self._position = len(self.outputs)

    def take(self, history: str, sequence: int) -> bool:
        """Whether the message is new."""
        return self._seen.add(history, sequence)

    def emit(self, history: str, sequence: int, body: bytes) -> Output:
        """The output that this message causes, to be sent at once. O(1)."""
        self._position += 1
        output = Output(self.epoch, self._position, history, sequence, body)
        self.outputs.append(output)
        return output

    def acknowledged(self, epoch: int, position: int) -> None:
        """Every subscriber's master has the outputs of this epoch up to this position."""
        if epoch == self.epoch:
            self.outputs = [output for output in self.outputs if output.position > position]

    def checkpoint(self, state: bytes) -> Checkpoint:
        """All of it, with the state after the last message. O(histories + outputs)."""
        return Checkpoint(state, self._seen.all(), tuple(self.outputs))


class Received(Struct, frozen=True, array_like=True):
    """What a subscriber's master keeps of a unit on disk, together with the outputs."""

    epoch: int = 0
    position: int = 0
    taken: dict[str, Taken] = {}


class Subscribed:
    """At a subscriber's master: the fence, and which outputs it has."""

    def __init__(self, received: Received) -> None:
        self.epoch = received.epoch
        self.position = received.position
        self._seen = Seen(received.taken)

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
        return self._seen.add(output.history, output.sequence)

    def received(self) -> Received:
        """What goes on disk. O(histories)."""
        return Received(self.epoch, self.position, self._seen.all())
