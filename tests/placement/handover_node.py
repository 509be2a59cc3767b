"""A master of `handover_world`: its lease machines, its disk with writes that wait, its clock."""

from __future__ import annotations

from typing import Any

from agent.placement.handover.events import Checkpoint, Record, Timing, Write
from agent.placement.handover.holder import Holder
from agent.placement.world import Unit
from tests.placement.exactly_once import Processed
from tests.placement.shallow import shallow

UNIT = Unit("processor", "comfort")
# Patience may end at any time, and `Took` be repeated: only the two ends of a lease have an order.
TIMING = Timing(lease_s=1.0, patience_s=0.0, again_s=0.0)


class Save:
    """A pending write of a checkpoint alone, with the last message that its state has."""

    __slots__ = ("checkpoint", "epoch", "last")

    def __init__(self, checkpoint: Checkpoint, epoch: int, last: int) -> None:
        self.checkpoint, self.epoch, self.last = checkpoint, epoch, last


class Node:
    """A master: its holder and worker in memory, its disk, writes that are not done yet."""

    __slots__ = (
        "disk",
        "held",
        "holder",
        "kept",
        "key",
        "paused",
        "processed",
        "saved",
        "state",
        "up",
        "writes",
    )

    def __init__(self) -> None:
        self.up = True
        self.holder = Holder(UNIT, TIMING)
        self.processed: Processed | None = None
        self.state = b""
        self.held = False  # it is to pause, and works on
        self.paused = False
        self.saved = -1  # the last message of the newest checkpoint that was asked for
        self.disk: Record | None = None
        self.kept = Checkpoint()
        self.writes: tuple[Write | Save, ...] = ()
        self.key: Any = None  # `handover_moment` remembers it here

    def copy(self) -> Node:
        new: Node = shallow(self)
        new.key = None
        new.holder = shallow(self.holder)
        if self.holder.machine is not None:
            new.holder.machine = shallow(self.holder.machine)
        if self.processed is not None:
            new.processed = shallow(self.processed)
        return new


def put_on_disk(node: Node, done: Write | Save) -> None:
    if isinstance(done, Save):
        node.kept = done.checkpoint
        return
    node.disk = done.record
    if done.checkpoint is not None:
        node.kept = done.checkpoint
