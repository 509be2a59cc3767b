"""State machine of a rollout over many hosts: order, concurrency, and when to stop. Pure: events
in, instructions out (docs/run/deploy.md has the order and its reasons)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from typing import Final, Literal, NamedTuple

from agent.runtime.state_machine import StateMachine
from fleet.rollout.events import (
    AnyEvent,
    Confirmed,
    Do,
    Dropped,
    Event,
    Failed,
    Healthy,
    Instruction,
    Interrupted,
    Outcome,
    Planned,
    Result,
    RolledBack,
    Staged,
    Switched,
)

State = Literal[
    "gathering", "staging", "staged", "switching", "checking", "confirming", "rolling_back", "ended"
]
# A host in these states may be out of service.
UNSETTLED: Final = frozenset({"switching", "checking", "confirming", "rolling_back"})
TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("gathering", "staging"): "planned: it lacks the release",
    ("gathering", "staged"): "planned: it has the release",
    ("gathering", "ended"): "unchanged, failed, or skipped",
    ("staging", "staged"): "the release is there",
    ("staging", "ended"): "failed",
    ("staged", "switching"): "its turn",
    ("staged", "ended"): "skipped",
    ("switching", "checking"): "switched, and it served before",
    ("switching", "confirming"): "switched, and there is nothing to check",
    ("switching", "ended"): "failed",
    ("checking", "confirming"): "healthy",
    ("checking", "rolling_back"): "not healthy",
    ("checking", "ended"): "failed, and nothing to go back to",
    ("confirming", "ended"): "confirmed, or failed",
    ("rolling_back", "ended"): "rolled back, or failed",
}


class Member(NamedTuple):
    """A host of the rollout."""

    name: str
    iad: str
    role: Literal["node", "master"]
    canary: bool = False
    areas: frozenset[str] = frozenset()


class Share(NamedTuple):
    """A number of hosts, or a fraction of all."""

    value: float
    percent: bool

    def of(self, total: int) -> int:
        """The number of hosts out of `total`; a fraction is rounded up."""
        return math.ceil(self.value / 100 * total) if self.percent else int(self.value)

    def __str__(self) -> str:
        return f"{self.value:g}{'%' if self.percent else ''}"


SERIAL: Final = Share(25, percent=True)
MAX_FAIL: Final = Share(10, percent=True)


class _Host(StateMachine):
    TRANSITIONS = TRANSITIONS

    def __init__(self, member: Member) -> None:
        super().__init__("gathering")
        self.member = member
        self.planned: Planned | None = None
        self.trouble: Failed | None = None
        self.result: Result | None = None
        self.events: list[str] = []

    def __repr__(self) -> str:
        return f"<host {self.member.name} {self.state}; so far {', '.join(self.events)}>"

    @property
    def disturbs(self) -> bool:
        return self.planned is not None and self.planned.disturbs

    @property
    def served(self) -> bool:
        return self.planned is not None and self.planned.serving

    @property
    def early(self) -> bool:
        return self.planned is not None and self.planned.early

    @property
    def outcome(self) -> Outcome | None:
        return self.result.outcome if self.result else None

    @property
    def unsettled(self) -> bool:
        """Whether it may be out of service because of the rollout."""
        return self.state in UNSETTLED and self.disturbs

    def end(self, outcome: Outcome, trouble: Failed | None = None) -> None:
        self.become("ended")
        if trouble is None:
            self.result = Result(outcome)
        else:
            self.result = Result(outcome, trouble.kind, trouble.reason)


class Rollout:
    """Give it every event and execute the instructions that it returns: `begin` once, then
    `handle`, until `ended`.

    Facts are read and releases uploaded at any time; only switches are ordered: masters that nodes
    wait for, a canary, the other nodes, the other masters. At most `serial` nodes that served are
    switched at a time, and never all that cover one area. O(hosts) per event.
    """

    def __init__(
        self, members: Iterable[Member], serial: Share = SERIAL, max_fail: Share = MAX_FAIL
    ) -> None:
        self._hosts = {member.name: _Host(member) for member in members}
        self._most_failures = max_fail.of(len(self._hosts))
        self._failures = 0
        self.stopped = ""  # why nothing more is begun
        self._nodes: dict[str, list[_Host]] = {}
        self._masters: dict[str, _Host] = {}
        for host in self._hosts.values():
            nodes = self._nodes.setdefault(host.member.iad, [])
            if host.member.role == "master":
                self._masters[host.member.iad] = host
            else:
                nodes.append(host)
        self._serial = max(1, serial.of(sum(map(len, self._nodes.values()))))

    # --- what it looks like from outside -------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether every host is finished."""
        return all(host.state == "ended" for host in self._hosts.values())

    @property
    def results(self) -> dict[str, Result]:
        """The results of the hosts that are finished."""
        return {name: host.result for name, host in self._hosts.items() if host.result}

    @property
    def unsettled(self) -> set[str]:
        """The hosts that may be out of service now because of the rollout."""
        return {name for name, host in self._hosts.items() if host.unsettled}

    # --- events --------------------------------------------------------------------------------

    def begin(self) -> list[Instruction]:
        """Read all facts."""
        return [Instruction("gather", name) for name in self._hosts]

    def handle(self, event: AnyEvent) -> list[Instruction]:
        """The next instructions after `event`. InvalidTransition."""
        if isinstance(event, Interrupted):
            self._stop("interrupted")
            return []
        host = self._hosts[event.host]
        host.events.append(type(event).__name__)
        return [*self._step(host, event), *self._switches()]

    def _step(self, host: _Host, event: Event) -> Iterator[Instruction]:
        match event:
            case Planned():
                yield from self._plan(host, event)
            case Staged():
                host.become("staged")
                if self.stopped:
                    host.end("skipped")
            case Switched() if host.disturbs:
                yield self._go(host, "checking", "check")
            case Switched() | Healthy():
                yield self._go(host, "confirming", "confirm")
            case Confirmed():
                host.end("changed")
            case Failed():
                yield from self._fail(host, event)
            case RolledBack():
                self._rolled_back(host, event)
            case Dropped():
                host.end("skipped")

    def _plan(self, host: _Host, event: Planned) -> Iterator[Instruction]:
        host.planned = event
        if not event.changes:
            host.end("unchanged")
        elif self.stopped:
            host.end("skipped")
        elif event.stores:
            yield self._go(host, "staging", "stage")
        else:
            host.become("staged")

    def _fail(self, host: _Host, event: Failed) -> Iterator[Instruction]:
        """The current step failed. Before the switch this concerns only the host; after it, the
        release may be at fault."""
        if host.trouble is not None:
            reason = f"{host.trouble.reason}; not rolled back by us: {event.reason}"
            event = Failed(event.host, event.kind, reason, event.undone, event.refused)
        host.trouble = event
        if host.state in {"gathering", "staging"}:
            host.end("failed", event)
            return
        if host.state == "checking" and event.kind != "lost":
            yield self._go(host, "rolling_back", "roll_back", event.reason)
            return
        gone = event.kind in {"lost", "dead", "refused"}
        host.end("rolled_back" if event.undone else "lost" if gone else "failed", event)
        self._count(host, proof=event.undone or event.refused)

    def _rolled_back(self, host: _Host, event: RolledBack) -> None:
        trouble = host.trouble
        assert trouble is not None
        reason = f"{trouble.reason}; it wrote: {event.word}" if event.word else trouble.reason
        if event.problem:
            reason = f"{reason}; {event.problem}"
        told = Failed(host.member.name, trouble.kind, reason)
        host.end("failed" if event.problem else "rolled_back", told)
        self._count(host, proof=True)

    def _count(self, host: _Host, *, proof: bool) -> None:
        """Count a host that failed after its switch; `proof`: the release is certainly at fault."""
        self._failures += 1
        name = host.member.name
        if proof and not _Scene(self._hosts.values()).proven[host.member.role]:
            self._stop(f"{name} was the first to get these changes, and failed")
        elif self._failures > self._most_failures:
            self._stop(f"{self._failures} hosts failed, {self._most_failures} may")

    def _stop(self, reason: str) -> None:
        self.stopped = self.stopped or reason
        for host in self._hosts.values():
            if host.state == "staged":
                host.end("skipped")

    def _go(self, host: _Host, state: State, do: Do, reason: str = "") -> Instruction:
        host.become(state)
        return Instruction(do, host.member.name, reason)

    # --- which is next -------------------------------------------------------------------------

    def _switches(self) -> Iterator[Instruction]:
        """Switch every host that may be switched now."""
        # Hosts without a working master are skipped first, because others may wait for them: they
        # may be canaries, or all nodes of an IAD.
        for host in self._hosts.values():
            if host.state == "staged" and self._forlorn(host):
                host.end("skipped")
        going = True
        while going and not self.stopped:
            going = False
            scene = _Scene(self._hosts.values())
            for host in scene.waiting:
                if self._has_turn(host) and self._has_room(host, scene):
                    yield self._go(host, "switching", "switch")
                    going = True
                    break

    def _forlorn(self, host: _Host) -> bool:
        """Whether it cannot be checked, because its master failed."""
        master = self._masters.get(host.member.iad)
        return (
            host.member.role == "node"
            and host.disturbs
            and master is not None
            and master.state == "ended"
            and master.outcome not in {"changed", "unchanged"}
        )

    def _has_turn(self, host: _Host) -> bool:
        """Masters that nodes wait for come before the nodes, other masters after them."""
        if host.member.role == "master":
            nodes = self._nodes[host.member.iad]
            return host.early or all(node.state == "ended" for node in nodes)
        master = self._masters.get(host.member.iad)
        if master is None or master.state == "ended":
            return True
        return master.planned is not None and not master.early

    def _has_room(self, host: _Host, scene: _Scene) -> bool:
        """Whether it may be out of service in addition to those that are."""
        if not host.disturbs:
            return True
        if host.member.role == "master":
            return not scene.masters
        if not scene.proven["node"]:
            return self._may_be_first(host, scene)
        if not host.served:
            return True
        serving = [each for each in scene.nodes if each.served]
        return len(serving) < self._serial and self._leaves_areas(host, serving)

    def _may_be_first(self, host: _Host, scene: _Scene) -> bool:
        """Until a node has succeeded: canaries, at most `serial` at a time; if there are none or
        none succeeded, one node at a time."""
        if host.member.canary:
            return len(scene.nodes) < self._serial and self._leaves_areas(host, scene.nodes)
        return not scene.canaries and not scene.nodes

    def _leaves_areas(self, host: _Host, out: list[_Host]) -> bool:
        """Whether another node still serves each of its areas, unless it is an area's only node."""
        if not out:
            return True
        for area in host.member.areas:
            covering = [
                node
                for node in self._nodes[host.member.iad]
                if node is not host and area in node.member.areas
            ]
            if covering and all(node in out for node in covering):
                return False
        return True


class _Scene:
    """Summary of all hosts' states between two instructions."""

    def __init__(self, hosts: Collection[_Host]) -> None:
        self.waiting = [host for host in hosts if host.state == "staged"]
        unsettled = [host for host in hosts if host.unsettled]
        self.nodes = [host for host in unsettled if host.member.role == "node"]
        self.masters = [host for host in unsettled if host.member.role == "master"]
        # Canaries that are not finished.
        self.canaries = any(host.member.canary and host.state != "ended" for host in hosts)
        # The kinds of hosts of which one was disturbed and is healthy, with no canary left to come.
        through = {h.member.role for h in hosts if h.disturbs and h.outcome == "changed"}
        self.proven = {
            "node": "node" in through and not self.canaries,
            "master": "master" in through,
        }
