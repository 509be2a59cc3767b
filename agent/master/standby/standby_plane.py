"""Standby plane: units that outlive their masters.

An owner and its standby say to each other what `agent.placement.standby.primary` and
`agent.placement.standby.standby` decide, and masters keep account of who is alive. Unlike these
say, a checkpoint goes to the standby before it goes to the owner's disk, and what was made is put
out when both have it (docs/decisions/0050-standbys.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from agent.master.moves.handover_plane import HandoverPlane
from agent.master.push.push_plane import PushPlane
from agent.master.standby.guards import KIND, Guards
from agent.master.standby.lease_plane import LeasePlane
from agent.master.standby.older_copies import OlderCopies
from agent.master.standby.standbys import Standbys
from agent.master.storage.state import State
from agent.master.topics.topic_plane import TopicPlane
from agent.placement.world import Unit
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.wire import handover as w
from agent.wire.topics import TopicStatus

# How often it is looked who is alive, while that matters to somebody.
LOOK_S: Final = 0.25
IDLE_S: Final = 1.0
# How long an operator waits until the standby of a topic that was removed is dismissed.
PATIENCE_S: Final = 1.0
TO_OWNER: Final = (
    w.StandbyReady,
    w.StandbyRefuse,
    w.StandbyKept,
    w.StandbyDismissed,
    w.StandbyTook,
)


class StandbyPlane:
    """`second(unit)` names the master that is to stand by for a unit that lives here, None if none
    can now."""

    def __init__(
        self,
        reactor: Reactor,
        iad: str,
        state: State,
        leases: LeasePlane,
        handovers: HandoverPlane,
        topics: TopicPlane,
        push: PushPlane,
        second: Callable[[Unit], str | None],
        wall: Callable[[], float],
        say: Say,
    ) -> None:
        clock = reactor.clock
        self._clock = clock
        self._leases = leases
        self._shadows = topics.shadows
        self._guards = Guards(
            clock, state, leases, handovers, topics, topics.moves, topics.shadows, second,
            push.epoch, say,
        )  # fmt: skip
        self._standbys = Standbys(
            clock, state, leases, handovers, topics.shadows, lambda: push.refusing, wall, say
        )
        self._older = OlderCopies(iad, handovers, topics.shadows, topics.moves, wall, say)
        # Gets what other masters tell of their topics.
        self.claimed = self._older.claimed
        # Who waits for that, and until when.
        self._removed: list[tuple[Unit, Callable[[str], object], float]] = []
        self._due_s = clock() + IDLE_S
        topics.waits = self._guards.waits
        topics.guarded = self._described
        topics.when_alone = self._when_alone
        push.topics.withholds = self._guards.withholds
        handovers.free = self._guards.free
        handovers.waits_for = self._guards.waits_for
        handovers.on_standby = self._heard
        topics.moves.stands_by = self._standbys.stands_by
        reactor.add_timer(self)

    @property
    def counters(self) -> dict[str, int]:
        """Units here with a standby elsewhere, and units elsewhere with one here."""
        return {"standbys_elsewhere": len(self._guards), "standbys_here": len(self._standbys)}

    def _heard(self, unit: Unit, sender: str, message: Any) -> None:
        if isinstance(message, TO_OWNER):
            self._guards.heard(unit, sender, message)
            if isinstance(message, w.StandbyTook):
                self._older.heard(unit, sender, message)
        else:
            self._standbys.heard(unit, sender, message)

    def _when_alone(self, name: str, then: Callable[[str], object]) -> None:
        """Call `then` when a topic that was removed has no standby any more, or soon with a line
        that says so."""
        if not self._leases.judges:
            then("")
            return
        waits = Unit(KIND, name), then, self._clock() + PATIENCE_S
        self._removed.append(waits)
        self._guards.when_free(waits[0], partial(self._is_alone, waits))

    def _is_alone(self, waits: tuple[Unit, Callable[[str], object], float], line: str) -> None:
        if waits in self._removed:
            self._removed.remove(waits)
            waits[1](line)

    def _described(self, status: TopicStatus) -> TopicStatus:
        """A topic's status with its standby's part."""
        if not status.topic.standby:
            return status
        unit = Unit(KIND, status.topic.name)
        status = replace(status, standby=self._guards.told(unit)[:512])
        taken = self._standbys.taken(unit)
        if taken is None:
            return status
        return replace(status, taken_from=taken.source, taken_ms=taken.time_ms)

    @property
    def next_due(self) -> float | None:
        """When it is to be looked who is alive."""
        return self._due_s if self._leases.judges else None

    def tick(self, now: float) -> None:
        """Keep this master's lease, judge others."""
        for waits in [each for each in self._removed if each[2] <= now]:
            line = self._guards.waits_for(waits[0])
            self._is_alone(waits, f"{line}: if this master dies before, it may live on there")
        if self._guards or self._standbys or self._shadows.wanted:
            self._leases.turn({*self._guards.watched(), *self._standbys.watched()})
            self._guards.turn(now)
            self._standbys.turn(now)
            self._due_s = now + LOOK_S
        else:
            self._due_s = now + IDLE_S
