"""A master of `take_over_world`: what it runs, what it has on disk, which writes wait."""

from __future__ import annotations

from typing import Any

from agent.placement.handover.events import Checkpoint
from agent.placement.membership import member_lease as lease
from agent.placement.membership.member_lease import LeaseTiming, MemberLease, Terms
from agent.placement.standby import take_over as t
from agent.placement.standby.primary import Primary
from agent.placement.standby.standby import Standby
from tests.placement import handover_moment as moment
from tests.placement.exactly_once import Processed
from tests.placement.shallow import shallow

NAMES = ("m", "s", "x")
TIMING = LeaseTiming(lease_s=1.0, every_s=0.0)


class Save:
    """A pending write of a checkpoint of the owner, in its own epoch."""

    __slots__ = ("checkpoint",)

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint


Pending = lease.Keep | t.Write | Save


class Node:
    """A master: what it has in memory, its disk, and writes that are not done yet."""

    __slots__ = (
        "gone",
        "kept",
        "lease",
        "life",
        "primary",
        "processed",
        "role",
        "saved",
        "standby",
        "state",
        "terms",
        "up",
        "writes",
    )

    def __init__(self, name: str) -> None:
        self.up, self.gone, self.life = True, False, 0
        self.lease = MemberLease(name, NAMES, Terms(), TIMING, -1.0, 0)
        self.primary: Primary | None = None
        self.standby: Standby | None = None
        self.processed: Processed | None = None
        self.state = b""
        self.saved = 0  # how much of it is in a checkpoint that was asked for
        # On disk.
        self.terms = Terms()
        self.role: t.Role | None = None
        self.kept = Checkpoint()
        self.writes: tuple[Pending, ...] = ()

    def copy(self) -> Node:
        new: Node = shallow(self)
        new.lease = shallow(self.lease)
        for name in ("granted", "until"):
            setattr(new.lease, name, dict(getattr(self.lease, name)))
        new.lease.said = {each: dict(said) for each, said in self.lease.said.items()}
        new.lease.asked = dict(self.lease.asked)
        if self.primary is not None:
            new.primary = shallow(self.primary)
        if self.standby is not None:
            new.standby = shallow(self.standby)
        if self.processed is not None:
            new.processed = shallow(self.processed)
        return new

    def held(self, now: float) -> int | None:
        """The term of the lease that it holds now."""
        return self.lease.term if self.lease.holds(self.lease.term, now) else None

    def puts_out(self, now: float) -> bool:
        """Whether outputs of the unit may leave it now."""
        if not self.up:
            return False
        if self.primary is not None and self.primary.puts_out(self.held(now)):
            return True
        return self.standby is not None and self.standby.owns

    def key(self, now: float, name: str) -> Any:
        """What tells it from others, with times from now on."""
        if not self.up:
            return (self.gone, _terms(self.terms), self.role, moment.checkpoint(self.kept))
        each = self.lease
        return (
            self.life,
            _terms(each.terms),
            _terms(each.wanted),
            max(0.0, each.started_s + TIMING.lease_s - now),
            tuple(sorted((n, min(2.0, now - at)) for n, at in each.granted.items())),
            max(0.0, each.until.get("m", now) - now),
            tuple(sorted(each.said.get("m", {}).items())),
            _terms(self.terms),
            self.role,
            moment.checkpoint(self.kept),
            tuple(_pending(one) for one in self.writes),
            self.state,
            self.saved,
            moment.processed(self.processed),
            self.primary and _primary(self.primary),
            self.standby and _standby(self.standby),
        )


def _terms(one: Terms) -> Any:
    return one.own, one.over.get("m", 0)


def _pending(one: Pending) -> Any:
    match one:
        case Save():
            return moment.checkpoint(one.checkpoint)
        case lease.Keep():
            return _terms(one.terms)
        case t.Write():
            return one.role, one.checkpoint and moment.checkpoint(one.checkpoint)


def _primary(one: Primary) -> Any:
    return (
        one.state, one.term, one.epoch, one.started, one.asked, one.safe, one.complete,
        moment.checkpoint(one.checkpoint),
    )  # fmt: skip


def _standby(one: Standby) -> Any:
    return one.state, one.term, one.epoch, one.writing, moment.checkpoint(one.checkpoint)


def message_key(one: Any, now: float, latest: int) -> Any:
    """Numbers and times are told apart by what comes of them."""
    match one:
        case t.Update():
            return ("update", one.term, one.epoch, one.number == latest, one.complete,
                    moment.checkpoint(one.checkpoint))  # fmt: skip
        case t.Kept() | t.Dismiss() | t.Dismissed():
            return (type(one).__name__, one.term, one.number == latest)
        case lease.Renew() | lease.Granted():
            return (type(one).__name__, one.term, one.life, min(2.0, now - one.asked))
    return one


def put_on_disk(node: Node, done: Pending) -> None:
    match done:
        case lease.Keep(terms):
            node.terms = terms
        case t.Write(role, checkpoint):
            node.role = role
            if checkpoint is not None:
                node.kept = checkpoint
        case Save(checkpoint=checkpoint):
            node.kept = checkpoint
