"""Three masters, a unit with a standby, its publisher and subscriber; every event is a choice.

Master "m" owns the unit, "s" stands by for it, "x" is the third whose word counts. `events` lists
what may happen next, `happen` makes one of it happen in a copy. A crash may be for good, and leaves
any first part of the pending writes of a slow disk done. Clocks go on by `tick`; a lease is one
tick long, so it ends between any two messages. Messages between masters keep their order, and may
be lost with a crash or a partition, which cuts one master off. The publisher and the subscriber are
at a fourth place, which keeps what it has: each message until it is in a checkpoint of the owner
and, for the standby, in one that the standby has on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.placement.handover.events import Checkpoint, Output, Work
from agent.placement.membership import member_lease as lease
from agent.placement.membership.member_lease import MemberLease
from agent.placement.standby import take_over as t
from agent.placement.standby.primary import Primary
from agent.placement.standby.standby import Standby
from tests.placement.exactly_once import Processed, Received, Subscribed
from tests.placement.handover_node import UNIT
from tests.placement.handover_world import HISTORY, Broken, Event
from tests.placement.shallow import shallow
from tests.placement.take_over_node import (
    NAMES,
    TIMING,
    Node,
    Pending,
    Save,
    message_key,
    put_on_disk,
)

# Numbers of a process: none begins so many.
PROCESS = 1_000


class World:
    """All of it at one moment. `isolated`: which master the partition cuts off from the other two;
    `far`: from the publisher and subscriber, too. `direct`: links whose messages arrive at once.
    `dismisses`: how often the owner wants no standby any more. `lapses`: how often it is judged
    although it is there, since it asked for its lease too late."""

    def __init__(
        self,
        messages: int = 2,
        crashes: int = 1,
        partitions: int = 1,
        saves: int = 1,
        *,
        crashing: str = "msx",
        good: bool = True,
        returns: bool = True,
        isolated: str = "m",
        far: bool = False,
        slow: str = "",
        direct: tuple[str, ...] = ("mx", "xm", "sx", "xs"),
        dismisses: int = 0,
        lapses: int = 0,
    ) -> None:
        self.now = 0.0
        self.nodes = {name: Node(name) for name in NAMES}
        links = [one + other for one in NAMES for other in (*NAMES, "p") if one != other]
        self.links: dict[str, tuple[Any, ...]] = {link: () for link in links if link != "xp"}
        self.cut = False
        self.isolated, self.far, self.direct = isolated, far, direct
        self.slow = ""
        self.messages, self.crashes, self.partitions = messages, crashes, partitions
        self.crashing, self.good, self.returns = crashing, good, returns
        self.saves, self.dismisses, self.lapses = saves, dismisses, lapses
        # The publisher's spool: made up to `published`, what is settled by each, and what the one
        # to which the unit's messages go was given.
        self.marks = {"m": 0, "s": 0}
        self.given = self.published = 0
        self.route = ("m", 1)
        self.inbox: tuple[bytes, ...] = ()
        self.subscribed = Subscribed(Received(1))
        node = self.nodes["m"]
        node.processed = Processed(1, Checkpoint())
        node.primary = Primary(UNIT, "s", 1, 1, 0)
        node.role = t.Role(UNIT, "primary", "s", 1, 1)
        self._do("m", node.primary.start(Checkpoint(), complete=True))
        while self.links["ms"] or self.links["sm"]:
            for link in ("ms", "sm"):
                if self.links[link]:
                    self._deliver(link)
        self.slow = slow
        self.check()

    def copy(self) -> World:
        new = World.__new__(World)
        new.__dict__.update(self.__dict__)
        new.nodes, new.links, new.marks = dict(self.nodes), dict(self.links), dict(self.marks)
        return new

    def _own(self, name: str) -> Node:
        """The node, to be changed: copies share nodes until then."""
        self.nodes[name] = self.nodes[name].copy()
        return self.nodes[name]

    def key(self) -> Any:
        """What tells this moment from others."""
        primary = self.nodes["m"].primary
        latest = -1 if primary is None else primary.number
        return (
            tuple(node.key(self.now, name) for name, node in self.nodes.items()),
            tuple(
                tuple(message_key(one, self.now, latest) for one in messages)
                for messages in self.links.values()
            ),
            self.cut, self.crashes, self.partitions, self.saves, self.dismisses, self.lapses,
            tuple(self.marks.values()), self.given, self.published, self.route, self.inbox,
            self.subscribed.epoch, self.subscribed.position, *self.subscribed.seen.items(),
        )  # fmt: skip

    def machines(self) -> Iterator[tuple[str, str]]:
        """(side, state) of the owner and the standby."""
        for node in self.nodes.values():
            for one in (node.primary, node.standby):
                if node.up and one is not None:
                    yield type(one).__name__, one.state

    # -- what may happen -------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """Everything that may happen next."""
        for link, messages in self.links.items():
            if messages:
                yield ("deliver", link)
        for name, node in self.nodes.items():
            if not node.up and not node.gone:
                yield ("restart", name)
            if node.writes:
                yield ("write", name)
        name, epoch = self.route
        if self.given < self.messages and self._works(name, epoch):
            yield ("give",)
        yield from self._at_owner()
        yield from self._at_standby()
        if self._time_matters():
            yield ("tick",)
        if self.cut:
            yield ("heal",)
        yield from self._faults()

    def _works(self, name: str, epoch: int) -> bool:
        node = self.nodes[name]
        processed = node.processed
        here = processed is not None and processed.epoch == epoch
        return here and node.puts_out(self.now) and self._linked(name, "p")

    def _at_owner(self) -> Iterator[Event]:
        node = self.nodes["m"]
        primary = node.primary
        if not node.up or primary is None or primary.state in {"void", "alone"}:
            return
        fresh = [n for n, at in node.lease.granted.items() if at == self.now]
        asked = any(isinstance(one, lease.Renew | lease.Granted) for one in self._between_m())
        if not asked and len(fresh) < len(NAMES) and node.lease.wanted.own == node.lease.term:
            yield ("renew",)
        held = node.held(self.now)
        says = any(isinstance(one, t.Message) for one in (*self.links["ms"], *self.links["sm"]))
        if held is not None and not says and not node.writes:
            wants = primary.state == "waiting" or (primary.state == "guarded" and not primary.safe)
            if wants or primary.state == "dismissing" or held > primary.term:
                yield ("leased", held)
        if primary.state == "guarded" and primary.puts_out(held):
            if self.saves and len(node.state) > node.saved:
                yield ("save",)
            if self.dismisses:
                yield ("dismiss",)

    def _between_m(self) -> list[Any]:
        return [one for link, each in self.links.items() if "m" in link for one in each]

    def _at_standby(self) -> Iterator[Event]:
        node = self.nodes["s"]
        standby = node.standby
        if not node.up or standby is None or not standby.judges:
            return
        if node.lease.dead("m", standby.term):
            yield ("dead",)
        asked = any(isinstance(one, lease.Judge) for one in self.links["sx"])
        late = self.nodes["m"].up and not (self.cut and self.isolated == "m")
        late = late and node.lease.terms.over.get("m", 0) < standby.term
        if not asked and node.lease.silent("m", self.now) and (self.lapses or not late):
            yield ("judge", late)

    def _time_matters(self) -> bool:
        for name, node in self.nodes.items():
            if not node.up:
                continue
            each = node.lease
            if name != "m" and max(each.until.get("m", 0.0), each.started_s + 1.0) > self.now:
                return True
            if each.until_s > self.now:
                return True
        return any(isinstance(one, lease.Granted | lease.Renew) for one in self._between_m())

    def _faults(self) -> Iterator[Event]:
        if self.crashes:
            for name in self.crashing:
                node = self.nodes[name]
                if not node.up:
                    continue
                for written in range(len(node.writes) + 1):
                    for lost in (False, True) if self._sent(name) else (False,):
                        if self.good:
                            yield ("crash", name, written, lost, True)
                        if self.returns:
                            yield ("crash", name, written, lost, False)
        if self.partitions and not self.cut:
            yield ("cut",)

    def _sent(self, name: str) -> list[str]:
        return [link for link, messages in self.links.items() if name in link and messages]

    def _linked(self, one: str, other: str) -> bool:
        if not self.cut or self.isolated not in (one, other):
            return True
        return "p" in (one, other) and not self.far

    # -- what happens ----------------------------------------------------------------------------

    def happen(self, event: Event) -> World:
        """The moment after this event."""
        new = self.copy()
        getattr(new, f"_{event[0]}")(*event[1:])
        new.check()
        return new

    def _deliver(self, link: str) -> None:
        message, *rest = self.links[link]
        self.links[link] = tuple(rest)
        self._arrive(link, message)

    def _arrive(self, link: str, message: Any) -> None:
        sender, to = link
        if to == "p":
            self._reach_fourth(sender, message)
            return
        node = self._own(to)
        if not node.up:
            return
        if isinstance(message, lease.Message):
            self._do(to, node.lease.handle(message, sender, self.now))
            return
        if to == "s" and node.standby is None:
            node.standby = Standby(UNIT, "m")
        machine = node.primary if to == "m" else node.standby
        if machine is not None:
            self._do(to, machine.handle(message))

    def _reach_fourth(self, name: str, message: Any) -> None:
        """An announcement or output arrives at the publisher and subscriber."""
        self.subscribed = shallow(self.subscribed)
        if isinstance(message, Output):
            if self.subscribed.accept(message):
                self.inbox = (*self.inbox, message.body)
            processed = self._own(name).processed
            if processed is not None:
                processed.acknowledged(self.subscribed.epoch, self.subscribed.position)
        elif message >= self.route[1]:
            self.subscribed.fence(message)
            self.route = (name, message)
            # All that is not settled for it comes again, in order.
            self.given = self.marks[name]

    def _give(self) -> None:
        self.given += 1
        self.published = max(self.published, self.given)
        name, _ = self.route
        node = self._own(name)
        processed = node.processed
        assert processed is not None
        if processed.take(HISTORY, self.given):
            node.state += b"%d" % self.given
            self._send(name, "p", processed.emit(HISTORY, self.given, node.state))

    def _renew(self) -> None:
        self._do("m", self._own("m").lease.tick(self.now))

    def _leased(self, term: int) -> None:
        primary = self._own("m").primary
        assert primary is not None
        self._do("m", primary.handle(t.Leased(term)))

    def _dismiss(self) -> None:
        self.dismisses -= 1
        primary = self._own("m").primary
        assert primary is not None
        self._do("m", primary.dismiss())

    def _dead(self) -> None:
        standby = self._own("s").standby
        assert standby is not None
        self._do("s", standby.handle(t.Dead(standby.term)))

    def _judge(self, late: bool) -> None:
        self.lapses -= late
        node = self._own("s")
        assert node.standby is not None
        self._do("s", node.lease.judge("m", node.standby.term, self.now))

    def _save(self) -> None:
        node = self._own("m")
        assert node.processed is not None
        self.saves -= 1
        node.saved = len(node.state)
        self._write_soon("m", Save(node.processed.checkpoint(node.state)))

    def _write_soon(self, name: str, pending: Pending) -> None:
        node = self.nodes[name]
        node.writes = (*node.writes, pending)
        if name not in self.slow:
            self._write(name)

    def _write(self, name: str) -> None:
        node = self._own(name)
        done, node.writes = node.writes[0], node.writes[1:]
        put_on_disk(node, done)
        match done:
            case lease.Keep(terms):
                self._do(name, node.lease.handle(lease.Written(terms), name, self.now))
            case t.Write(role):
                if name == "s" and role.part == "standby" and self._linked("s", "p"):
                    self.marks["s"] = max(self.marks["s"], len(node.kept.state))
                machine = node.primary if name == "m" else node.standby
                assert machine is not None
                self._do(name, machine.handle(t.Written(role)))
            case Save(checkpoint=checkpoint):
                if self._linked("m", "p"):
                    self.marks["m"] = max(self.marks["m"], len(checkpoint.state))
                assert node.primary is not None
                self._do(name, node.primary.handle(t.Saved(checkpoint)))

    def _tick(self) -> None:
        self.now += 1

    def _crash(self, name: str, written: int, lost: bool, good: bool) -> None:
        self.crashes -= 1
        before = self.nodes[name]
        node = self.nodes[name] = Node(name)
        node.up, node.gone, node.life = False, good, before.life + 1
        node.terms, node.role, node.kept = before.terms, before.role, before.kept
        for each in before.writes[:written]:
            put_on_disk(node, each)
        for link in self._sent(name) if lost else ():
            self.links[link] = ()
        for other in NAMES:  # What comes to it finds nobody.
            if other != name:
                self.links[other + name] = ()

    def _restart(self, name: str) -> None:
        node = self._own(name)
        node.up = True
        node.lease = MemberLease(name, NAMES, node.terms, TIMING, self.now, node.life)
        role = node.role
        if role is None or (name == "m" and role.part == "void" and role.other):
            return
        if name == "m":
            number = node.life * PROCESS
            node.primary = Primary(UNIT, "s", role.term, role.epoch, number)
            if role.part == "primary":
                self._do(name, node.primary.recover(node.kept, complete=True))
        else:
            node.standby = Standby(UNIT, "m")
            self._do(name, node.standby.recover(role, node.kept))

    def _cut(self) -> None:
        self.cut = True
        self.partitions -= 1
        for link in self.links:
            if not self._linked(*link):
                self.links[link] = ()

    def _heal(self) -> None:
        self.cut = False
        for name, node in self.nodes.items():
            if self.far and name == self.isolated and node.up and node.processed is not None:
                self._announce(name)

    def _do(self, name: str, instructions: list[Any]) -> None:
        """Carry out what is said, as a shell does."""
        for each in instructions:
            match each:
                case lease.Tell(to, message):
                    if not (isinstance(message, lease.Judge) and message.master == to):
                        self._send(name, to, message)
                case t.Send(message):
                    self._send(name, "s" if name == "m" else "m", message)
                case lease.Keep() | t.Write():
                    self._write_soon(name, each)
                case Work(epoch, checkpoint):
                    self._work(name, epoch, checkpoint or Checkpoint())
                case t.Stop():
                    node = self._own(name)
                    node.processed, node.state, node.saved = None, b"", 0

    def _work(self, name: str, epoch: int, checkpoint: Checkpoint) -> None:
        node = self._own(name)
        node.processed = Processed(epoch, checkpoint)
        node.state = checkpoint.state
        node.saved = len(node.state)
        self._announce(name)

    def _announce(self, name: str) -> None:
        processed = self.nodes[name].processed
        assert processed is not None
        self._send(name, "p", processed.epoch)
        for output in processed.outputs:
            self._send(name, "p", output)

    def _send(self, name: str, to: str, message: Any) -> None:
        link = name + to
        if not self._linked(name, to) or (to != "p" and not self.nodes[to].up):
            return
        if link in self.direct and not self.links[link]:
            self._arrive(link, message)
        elif not (isinstance(message, lease.Over) and message in self.links[link]):
            self.links[link] = (*self.links[link], message)

    # -- what must hold --------------------------------------------------------------------------

    def check(self) -> None:
        """The invariants of every moment; Broken says which one does not hold."""
        expected = tuple(b"123456789"[: n + 1] for n in range(len(self.inbox)))
        if self.inbox != expected:
            raise Broken(f"subscribers see {self.inbox}")
        for node in self.nodes.values():
            if not b"123456789".startswith(node.state):
                raise Broken(f"the state has {node.state!r}")
        putting = [name for name, node in self.nodes.items() if node.puts_out(self.now)]
        if len(putting) > 1:
            raise Broken("two masters put out")

    def finished(self) -> bool:
        """Whether everything is delivered, and one master has the unit for good; or the unit is
        lost with a disk."""
        if self.cut or any(not node.up and not node.gone for node in self.nodes.values()):
            return False
        return self.lost() or (
            len(self.inbox) == self.messages
            and not any(node.writes for node in self.nodes.values())
            and sum(node.puts_out(self.now) for node in self.nodes.values()) == 1
        )

    def lost(self) -> bool:
        """Whether the disk is gone for good that alone has the unit: the standby's, once a member
        gave its word for it that the owner's term is over; or the owner's without a standby."""
        gone = [name for name, node in self.nodes.items() if node.gone]
        role = self.nodes["m"].role
        if "s" in gone:
            assert role is not None
            given = [node.terms.over.get("m", 0) for node in self.nodes.values()]
            return max(given) >= role.term
        role = self.nodes["s"].role
        return "m" in gone and (role is None or role.part == "void")
