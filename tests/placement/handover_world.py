"""Two masters, a unit, its publisher and subscriber, disks and links; every event is a choice.

`events` lists what may happen next, `happen` makes one of it happen in a copy. A slow disk has done
a write when its event comes, and a crash leaves any first part of the pending ones done.
A master that `lingers` works on after it was told to pause, until the event comes, if it ever does.
Clocks go on by `tick`; a timer may fire any time after it is due. Messages between masters keep
their order and may be lost with a crash or a partition. The publisher and the subscriber are at a
third master, which keeps what it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from agent.placement.handover.events import (
    Abort,
    Checkpoint,
    Copied,
    Copy,
    Grant,
    Instruction,
    Load,
    Loaded,
    MakeCopy,
    Output,
    Pause,
    Paused,
    Ready,
    Reclaimed,
    Refuse,
    Send,
    Settled,
    Stop,
    Tick,
    Took,
    Work,
    Write,
    Written,
)
from agent.placement.handover.holder import Holder
from agent.placement.handover.target import Target
from tests.placement.exactly_once import Processed, Received, Subscribed
from tests.placement.handover_moment import canonical
from tests.placement.handover_node import Node, Save, put_on_disk
from tests.placement.shallow import shallow

NAMES = ("s", "t")
HISTORY = "p"
# What subscribers see: each message's output is the unit's state, all messages up to it.
EXPECTED = tuple(b"123456789"[:n] for n in range(1, 10))

Event = tuple[Any, ...]


class Broken(AssertionError):
    """An invariant does not hold."""


class World:
    """All of it at one moment. `isolated`: which master the partition cuts off from the publisher
    and subscriber, besides from the other master."""

    def __init__(
        self,
        messages: int = 3,
        crashes: int = 2,
        partitions: int = 1,
        moves: int = 1,
        saves: int = 1,
        isolated: str = "",
        slow: str = "st",
        lingers: str = "",
    ) -> None:
        self.now = 0.0
        self.nodes = {name: Node() for name in NAMES}
        self.links: dict[str, tuple[Any, ...]] = {"st": (), "ts": (), "sp": (), "tp": ()}
        self.cut = False
        self.isolated = isolated
        self.slow = slow  # the masters whose disks are slow
        self.lingers = lingers  # those where a pause may take long
        self.messages, self.crashes, self.partitions = messages, crashes, partitions
        self.moves, self.saves = moves, saves
        self.attempts = 0
        # The publisher's spool: made up to `published`, settled up to `mark`, given up to `given`.
        # The subscriber's inbox: bodies in the order in which they came.
        self.mark = self.given = self.published = 0
        self.route = ("", 0)
        self.inbox: tuple[bytes, ...] = ()
        self.subscribed = Subscribed(Received())
        self._do("s", self.nodes["s"].holder.create())
        if self.nodes["s"].writes:
            self._write("s")
        self._deliver("sp")
        self.check()

    def copy(self) -> World:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.nodes = dict(self.nodes)
        new.links = dict(self.links)
        return new

    def _own(self, name: str) -> Node:
        """The node, to be changed: copies share nodes until then."""
        self.nodes[name] = self.nodes[name].copy()
        return self.nodes[name]

    def key(self) -> Any:
        """What tells this moment from those of another future."""
        return canonical(self)

    def machines(self) -> Iterator[tuple[str, str]]:
        """(side, state) of the handovers under way."""
        for node in self.nodes.values():
            machine = node.holder.machine
            if machine is not None:
                yield type(machine).__name__, machine.state

    # -- what may happen -------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """Everything that may happen next."""
        for link, messages in self.links.items():
            if messages:
                yield ("deliver", link)
        if self.given < self.messages and self._linked(self.route[0], "p"):
            yield ("give",)
        timers = False
        for name, node in self.nodes.items():
            if not node.up:
                yield ("restart", name)
                continue
            yield from self._at(name, node)
            timers = timers or self.now < _end(node.holder) < inf
        if timers:
            yield ("tick",)
        if self.cut:
            yield ("heal",)
        yield from self._faults()

    def _at(self, name: str, node: Node) -> Iterator[Event]:
        if node.writes:
            yield ("write", name)
        if node.held:
            yield ("pause", name)
        if self._has_news(node):
            yield ("save", name)
        if self._due(node):
            yield ("timer", name)
        if self.moves and node.holder.owns and node.holder.machine is None:
            yield ("move", name)

    def _due(self, node: Node) -> bool:
        """Whether its timer may fire: not if all that this would do is to ask while the answer may
        be under way."""
        due, machine = node.holder.next_due, node.holder.machine
        if due is None or due > self.now:
            return False
        asks = isinstance(machine, Target) and machine.deadline > self.now
        return not (asks and (self.links["st"] or self.links["ts"]))

    def _faults(self) -> Iterator[Event]:
        if self.crashes:
            for name, node in self.nodes.items():
                if node.up:
                    for written in range(len(node.writes) + 1):
                        yield ("crash", name, written, False)
                        if self._sent(name):
                            yield ("crash", name, written, True)
        if self.partitions and not self.cut:
            yield ("cut",)

    def _sent(self, name: str) -> list[str]:
        return [link for link, messages in self.links.items() if name in link and messages]

    def _linked(self, one: str, other: str) -> bool:
        if not one or not self.cut:
            return True
        return {one, other} != set(NAMES) and self.isolated not in (one, other)

    def _has_news(self, node: Node) -> bool:
        return (
            self.saves > 0
            and node.holder.owns
            and node.processed is not None
            and len(node.state) != node.saved
            and not any(isinstance(each, Save) for each in node.writes)
        )

    # -- what happens ----------------------------------------------------------------------------

    def happen(self, event: Event) -> World:
        """The moment after this event."""
        new = self.copy()
        if event[0] == "write":
            new._own(event[1])
        getattr(new, f"_{event[0]}")(*event[1:])
        new._drop_void()
        new.check()
        return new

    def _deliver(self, link: str) -> None:
        message, *rest = self.links[link]
        self.links[link] = tuple(rest)
        if link[1] == "p":
            self._reach_third(link[0], message)
        elif self.nodes[link[1]].up:
            self._do(link[1], self._own(link[1]).holder.handle(message, self.now, link[0]))

    def _drop_void(self) -> None:
        """Deliver at once what is first on its link and has no effect, now or ever: its order with
        other events makes no difference, and states are saved."""
        for link in self.links:
            while self.links[link] and self._void(link[1], self.links[link][0]):
                self.links[link] = self.links[link][1:]

    def _void(self, to: str, message: Any) -> bool:
        if isinstance(message, Output):
            return message.epoch < self.subscribed.epoch
        if isinstance(message, int):
            return message < self.route[1]
        node = self.nodes[to]
        if isinstance(message, Grant | Refuse | Copy | Ready | Abort):
            machine = node.holder.machine
            return machine is None or machine.attempt != message.attempt
        if isinstance(message, Settled | Reclaimed):
            taken = node.disk is not None and node.disk.standing == "taken"
            return node.up and node.holder.machine is None and not taken
        return False

    def _reach_third(self, name: str, message: Any) -> None:
        """An announcement, output or settlement arrives at the publisher and subscriber."""
        if isinstance(message, Output):
            self.subscribed = shallow(self.subscribed)
            if self.subscribed.accept(message):
                self.inbox = (*self.inbox, message.body)
            if self.nodes[name].processed is not None:
                acknowledged = (self.subscribed.epoch, self.subscribed.position)
                self._own(name).processed.acknowledged(*acknowledged)
            return
        epoch = message
        if epoch >= self.route[1]:
            self.subscribed = shallow(self.subscribed)
            self.subscribed.fence(epoch)
            self.route = (name, epoch)
            published, self.given = self.published, self.mark
            while self.given < published:  # All that is not settled goes to it, in order.
                self._give()

    def _give(self) -> None:
        self.given += 1
        self.published = max(self.published, self.given)
        name, epoch = self.route
        node = self._own(name)
        if node.up and node.holder.works(self.now) == epoch and not node.paused:
            processed = node.processed
            assert processed is not None
            if processed.take(HISTORY, self.given):
                node.state += b"%d" % self.given
                self._send(name, "p", processed.emit(HISTORY, self.given, node.state))
            elif node.holder.owns and len(node.kept.state) >= self.given:
                self.mark = max(self.mark, self.given)  # Its word was lost.

    def _write(self, name: str) -> None:
        node = self.nodes[name]
        done, node.writes = node.writes[0], node.writes[1:]
        put_on_disk(node, done)
        if isinstance(done, Write):
            self._do(name, node.holder.handle(Written(done.record), self.now))
        else:
            self._settle(name, done)

    def _settle(self, name: str, saved: Save) -> None:
        """The publisher forgets what is in a checkpoint on disk. A word that comes late or never
        would only have it send again what the unit's window knows."""
        if self._linked(name, "p"):
            self.mark = max(self.mark, saved.last)

    def _save(self, name: str) -> None:
        node = self._own(name)
        assert node.processed is not None
        self.saves -= 1
        node.saved = len(node.state)
        checkpoint = node.processed.checkpoint(node.state)
        node.writes = (*node.writes, Save(checkpoint, node.processed.epoch, len(node.state)))
        if name not in self.slow:
            self._write(name)

    def _timer(self, name: str) -> None:
        holder = self._own(name).holder
        instructions = holder.handle(Tick(), self.now)
        if not instructions and holder.next_due is not None and holder.next_due <= self.now:
            raise Broken(f"a timer is due for ever: {holder}")
        self._do(name, instructions)

    def _pause(self, name: str) -> None:
        node = self._own(name)
        assert node.processed is not None
        node.held, node.paused = False, True
        paused = Paused(node.processed.checkpoint(node.state))
        self._do(name, node.holder.handle(paused, self.now))

    def _tick(self) -> None:
        self.now += 1

    def _move(self, name: str) -> None:
        self.moves -= 1
        self.attempts += 1
        other = NAMES[1 - NAMES.index(name)]
        self._do(name, self._own(name).holder.begin(other, self.attempts, self.now))

    def _crash(self, name: str, written: int, lost: bool) -> None:
        self.crashes -= 1
        node = Node()
        node.up = False
        node.disk, node.kept = self.nodes[name].disk, self.nodes[name].kept
        for each in self.nodes[name].writes[:written]:
            put_on_disk(node, each)
        self.nodes[name] = node
        for link in self._sent(name) if lost else ():
            self.links[link] = ()

    def _restart(self, name: str) -> None:
        node = self._own(name)
        node.up = True
        if node.disk is not None:
            self._do(name, node.holder.recover(node.disk, node.kept, self.now))

    def _cut(self) -> None:
        self.cut = True
        self.partitions -= 1
        for link in self.links:
            if not self._linked(*link):
                self.links[link] = ()

    def _heal(self) -> None:
        self.cut = False
        for name, node in self.nodes.items():
            if name == self.isolated and node.up and node.holder.works(self.now) is not None:
                self._announce(name)

    def _do(self, name: str, instructions: list[Instruction]) -> None:
        """Carry out what the holder says, as a shell does."""
        node = self.nodes[name]
        for each in instructions:
            more: list[Instruction] = []
            match each:
                case Send(message):
                    self._send(name, NAMES[1 - NAMES.index(name)], message)
                case Write():
                    node.writes = (*node.writes, each)
                    if name not in self.slow:
                        self._write(name)
                case MakeCopy():
                    assert node.processed is not None
                    copied = Copied(node.processed.checkpoint(node.state))
                    more = node.holder.handle(copied, self.now)
                case Load():
                    more = node.holder.handle(Loaded(), self.now)
                case Pause():
                    node.held = True
                    if name not in self.lingers:
                        self._pause(name)
                        node = self.nodes[name]
                case Work(epoch, checkpoint):
                    self._work(name, epoch, checkpoint)
                case Stop():
                    node.processed, node.state, node.saved = None, b"", -1
                    node.held = node.paused = False
            self._do(name, more)

    def _work(self, name: str, epoch: int, checkpoint: Checkpoint | None) -> None:
        node = self.nodes[name]
        if checkpoint is None:
            if node.processed is None:  # It was restarted, and takes back what is on disk.
                checkpoint = node.kept
            else:
                checkpoint = node.processed.checkpoint(node.state)
        node.processed = Processed(epoch, checkpoint)
        node.state = checkpoint.state
        node.held = node.paused = False
        node.saved = -1
        self._announce(name)

    def _announce(self, name: str) -> None:
        processed = self.nodes[name].processed
        assert processed is not None
        self._send(name, "p", processed.epoch)
        for output in processed.outputs:
            self._send(name, "p", output)

    def _send(self, name: str, to: str, message: Any) -> None:
        link = name + to
        repeated = isinstance(message, Took | Settled | Reclaimed) and message in self.links[link]
        if self._linked(name, to) and not repeated:
            self.links[link] = (*self.links[link], message)

    # -- what must hold --------------------------------------------------------------------------

    def check(self) -> None:
        """The invariants of every moment; Broken says which one does not hold."""
        if self.inbox != EXPECTED[: len(self.inbox)]:
            raise Broken(f"subscribers see {self.inbox}")
        for node in self.nodes.values():
            if not EXPECTED[-1].startswith(node.state):
                raise Broken(f"the state has {node.state!r}")
        working = [
            name
            for name, node in self.nodes.items()
            if node.up and node.holder.works(self.now) is not None
        ]
        if len(working) > 1:
            raise Broken("both masters work on the unit")
        owning = [node for node in self.nodes.values() if node.up and node.holder.owns]
        if len(owning) > 1:
            raise Broken("both masters own the unit")

    def finished(self) -> bool:
        """Whether everything is delivered, settled, and one master has the unit for good."""
        return (
            not self.cut
            and len(self.inbox) == self.messages
            and all(node.up and not node.writes for node in self.nodes.values())
            and all(node.holder.machine is None for node in self.nodes.values())
            and sum(node.holder.owns for node in self.nodes.values()) == 1
        )


def _end(holder: Holder) -> float:
    """When patience or the lease ends: it does so whether a timer is set for it or not."""
    return inf if holder.machine is None else holder.machine.deadline


def faultless(event: Event) -> bool:
    """Whether the event is no fault, so that it happens some time when faults have ended. A pause
    that takes long is waited for by nobody."""
    return event[0] not in {"crash", "cut", "move", "pause"}
