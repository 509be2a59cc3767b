"""Events that go into `Processing`, and instructions that come out.

A *position* is the number of a message in its topic; it grows, gaps are allowed. An *incarnation*
is one life of a processor in one worker: answers of an older one do not count.

`Request` and `Answer` go over the wire between a master and its workers.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from agent.processing.definition import Definition
from agent.processing.outputs import Output

CHECKPOINT_VERSION = 1


class Checkpoint(Struct, frozen=True, array_like=True):
    """A processor's state after all messages up to `position`; `state` is empty before the first.
    Outputs of messages up to `emitted` were given away. It is what is stored, and what is handed
    over."""

    position: int = 0
    emitted: int = 0
    state: bytes = b""
    version: int = CHECKPOINT_VERSION


class Message(Struct, frozen=True, array_like=True):
    """A message of a topic; `body` is MessagePack. Without a body it is one to skip."""

    position: int
    body: bytes


# --- events: the topics' side -------------------------------------------------------------------


class Create(Struct, frozen=True):
    """Own this processor from now on, in this epoch, from this checkpoint."""

    definition: Definition
    epoch: int = 0
    checkpoint: Checkpoint = Checkpoint()


class Remove(Struct, frozen=True):
    """Forget this processor and its state."""

    processor: str


class Enable(Struct, frozen=True):
    """Start a disabled processor again; one that backs off is started now."""

    processor: str


class TakeCheckpoint(Struct, frozen=True):
    """Answer with `Save`, as soon as no message of this processor is being processed."""

    processor: str


class HandOver(Struct, frozen=True):
    """Give this processor away: answered with `HandedOver`."""

    processor: str


class Arrived(Struct, frozen=True):
    """A message of the processor's topic. One at or before the last position is a repetition. One
    without a body was skipped by the processor's owner before us."""

    processor: str
    position: int
    body: bytes


# --- events: the workers' side ------------------------------------------------------------------


class _Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """What more a worker writes is not read: 60 million values would take .3 s."""


class WorkerReady(_Answer, frozen=True, array_like=True, tag=True):
    """The worker waits for its first request."""

    worker: int


class WorkerEnded(Struct, frozen=True):
    """The worker's process is no more; `how` reads "was ended by signal 9"."""

    worker: int
    how: str


class Babbled(Struct, frozen=True):
    """The worker wrote what is no answer."""

    worker: int


class Loaded(_Answer, frozen=True, array_like=True, tag=True):
    """The answer to `Load`."""

    worker: int
    incarnation: int


class Finished(_Answer, frozen=True, array_like=True, tag=True):
    """The answer to `Run`: the outputs, not looked at yet, the CPU time that they took, and by how
    much the worker's memory grew meanwhile. A small state comes along."""

    worker: int
    incarnation: int
    outputs: bytes
    cpu_s: float
    grown_bytes: int
    state: bytes | None = None


class Snapshotted(_Answer, frozen=True, array_like=True, tag=True):
    """The answer to `TakeSnapshot`."""

    worker: int
    incarnation: int
    state: bytes


class Failed(_Answer, frozen=True, array_like=True, tag=True):
    """The answer to a request that could not be carried out; `text` is one line. `out_of_memory`:
    the worker has no more, which need not be this processor's doing."""

    worker: int
    incarnation: int
    text: str
    grown_bytes: int = 0
    out_of_memory: bool = False


Event = (
    Create
    | Remove
    | Enable
    | TakeCheckpoint
    | HandOver
    | Arrived
    | WorkerReady
    | WorkerEnded
    | Babbled
    | Loaded
    | Finished
    | Snapshotted
    | Failed
)


# --- instructions: to the workers ---------------------------------------------------------------


class StartWorker(Struct, frozen=True):
    """Start a process; its events carry this number, which no other worker ever had."""

    worker: int


class KillWorker(Struct, frozen=True):
    """End the process and everything that it started. `WorkerEnded` follows."""

    worker: int


class Load(Struct, frozen=True, array_like=True, tag=True):
    """Build the processor and restore its state."""

    worker: int
    incarnation: int
    definition: Definition
    state: bytes


class Unload(Struct, frozen=True, array_like=True, tag=True):
    """Forget this incarnation; there is no answer."""

    worker: int
    incarnation: int


class Run(Struct, frozen=True, array_like=True, tag=True):
    """Process one message."""

    worker: int
    incarnation: int
    body: bytes


class TakeSnapshot(Struct, frozen=True, array_like=True, tag=True):
    """Give the state."""

    worker: int
    incarnation: int


Request = Load | Unload | Run | TakeSnapshot
Answer = WorkerReady | Loaded | Finished | Snapshotted | Failed

# --- instructions: to the topics ----------------------------------------------------------------


class Emit(Struct, frozen=True):
    """Publish the outputs of the message at `position`."""

    processor: str
    epoch: int
    position: int
    outputs: tuple[Output, ...]


class Save(Struct, frozen=True):
    """Store the checkpoint; once it is stored, messages up to its position are no longer needed."""

    processor: str
    epoch: int
    checkpoint: Checkpoint


class Hold(Struct, frozen=True):
    """The queue is full: this message was not taken, and none will be until `Resume`."""

    processor: str
    position: int


class Resume(Struct, frozen=True):
    """The queue has room again: send all messages after this position."""

    processor: str
    after: int


class HandedOver(Struct, frozen=True):
    """The processor is no longer ours. Its next owner goes on from the checkpoint and takes these
    messages first."""

    processor: str
    epoch: int
    checkpoint: Checkpoint
    messages: tuple[Message, ...]


Occurrence = Literal["failed", "skipped", "disabled", "recovered"]


class Report(Struct, frozen=True):
    """Something that the operator is to know, in one line; an event of the topic."""

    processor: str
    occurrence: Occurrence
    text: str


Instruction = (
    StartWorker
    | KillWorker
    | Load
    | Unload
    | Run
    | TakeSnapshot
    | Emit
    | Save
    | Hold
    | Resume
    | HandedOver
    | Report
)
Instructions = list[Instruction]
