"""Status table rows, one per host, from the collected state of a fleet; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from agent.wire.operator import NodeFault
from fleet.inspect.agent_checks import agent_findings
from fleet.inspect.findings import SEVERITIES, Finding, in_order
from fleet.inspect.machine_checks import machine_findings
from fleet.inspect.seen import HostSeen, IadSeen

Health = Literal["down", "error", "warning", "ok", "unknown"]
# As they are listed.
HEALTHS: Final[tuple[Health, ...]] = ("down", "error", "warning", "unknown", "ok")
CARD: Final = "mmcblk"


class DiskRow(Struct, frozen=True):
    """Free space on the host's root, and its card's wear indicator: `life_used_percent`, in steps
    of 10. eMMC and compatible cards have one; SD cards do not."""

    total_bytes: int
    free_bytes: int
    device: str
    read_only: bool
    life_used_percent: int | None


class HostRow(Struct, frozen=True):
    """One host. Unknown values are null: of a host without SSH access, or whose master did not
    answer. `state`: the node's state at its master (`absent`: unknown there); for a master, whether
    it `answers`. `rooms`: what people call its areas."""

    host: str
    health: Health
    release: str | None = None
    current: str | None = None
    wanted: str = ""
    state: str | None = None
    unit: str | None = None
    clock_synchronised: bool | None = None
    skew_s: float | None = None
    faults: tuple[NodeFault, ...] | None = None
    events_waiting: int | None = None
    power_now: tuple[str, ...] | None = None
    power_since_boot: tuple[str, ...] | None = None
    disk: DiskRow | None = None
    celsius: float | None = None
    uptime_s: float | None = None
    boot_id: str | None = None
    error: str | None = None
    findings: tuple[Finding, ...] = ()
    rooms: tuple[str, ...] = ()


class IadRow(Struct, frozen=True):
    """One IAD as reported by its master, or with `error`. `queued`: subtasks of all its nodes that
    wait for a pod; `longest_queue` is the node with the most."""

    iad: str
    address: str
    answers: bool
    release: str = ""
    policy: str = ""
    live: int = 0
    nodes: int = 0  # in the inventory
    open_queries: int = 0
    open_tasks: int = 0
    queued: int = 0
    longest_queue: str = ""
    unreachable_iads: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()  # nodes that are not in the inventory
    error: str = ""


class FleetStatus(Struct, frozen=True):
    """The document of `fleet status --json`."""

    fleet: str
    time: str  # of this machine, UTC
    hosts_by_health: dict[str, int]
    releases: dict[str, int]  # hosts by the release that they run
    iads: tuple[IadRow, ...]
    hosts: tuple[HostRow, ...]


def host_row(seen: HostSeen, names: Mapping[str, str] | None = None) -> HostRow:
    """The row of a host, with its findings; `names` are those of rooms, by area."""
    findings = tuple(in_order([*agent_findings(seen), *machine_findings(seen)]))
    facts, unit, node = seen.facts, seen.unit, seen.node
    root = facts.disks.get("/") if facts else None
    throttled = facts.throttled if facts else None
    return HostRow(
        host=seen.name,
        health=_health(seen, findings),
        release=seen.release or None,
        current=(facts.releases.current or None) if facts else None,
        wanted=seen.wanted,
        state=_state(seen),
        unit=f"{unit.active} ({unit.sub})" if unit else None,
        clock_synchronised=facts.clock.synchronised if facts else None,
        skew_s=None if seen.skew_s is None else round(seen.skew_s, 3),
        faults=node.faults if node else None,
        events_waiting=node.events_waiting if node else None,
        power_now=facts.troubles_now if facts and throttled is not None else None,
        power_since_boot=facts.troubles_since_boot if facts and throttled is not None else None,
        disk=DiskRow(
            root.total_bytes, root.free_bytes, root.device, root.read_only, root.life_used_percent
        )
        if root
        else None,
        celsius=facts.celsius if facts else None,
        uptime_s=facts.uptime_s if facts else None,
        boot_id=facts.boot_id if facts else None,
        error=str(seen.error) if seen.error else None,
        findings=findings,
        rooms=_rooms(seen, names or {}),
    )


def _rooms(seen: HostSeen, names: Mapping[str, str]) -> tuple[str, ...]:
    areas = seen.host.node.areas if seen.host.node else ()
    return tuple([names[area] for area in areas if area in names])


def iad_row(seen: IadSeen, nodes: Sequence[str]) -> IadRow:
    """The row of an IAD that has these nodes in the inventory."""
    if (status := seen.status) is None:
        return IadRow(seen.iad, seen.address, False, nodes=len(nodes), error=seen.error)
    longest = max(status.nodes, key=lambda node: node.queued, default=None)
    return IadRow(
        iad=seen.iad,
        address=seen.address,
        answers=True,
        release=status.version,
        policy=status.policy,
        live=sum(node.state == "live" and node.node in nodes for node in status.nodes),
        nodes=len(nodes),
        open_queries=status.open_queries,
        open_tasks=status.open_tasks,
        queued=sum(node.queued for node in status.nodes),
        longest_queue=longest.node if longest is not None and longest.queued else "",
        unreachable_iads=status.unreachable_iads,
        strangers=tuple([node.node for node in status.nodes if node.node not in nodes]),
    )


def fleet_status(
    fleet: str, time: str, iads: Iterable[IadRow], hosts: Iterable[HostRow]
) -> FleetStatus:
    """The document: hosts with faults first, otherwise in the given order."""
    rows = sorted(hosts, key=lambda row: HEALTHS.index(row.health))
    releases: dict[str, int] = {}
    for row in rows:
        if row.release:
            releases[row.release] = releases.get(row.release, 0) + 1
    return FleetStatus(
        fleet=fleet,
        time=time,
        hosts_by_health={
            health: count for health in HEALTHS if (count := sum(r.health == health for r in rows))
        },
        releases=dict(sorted(releases.items(), key=lambda item: -item[1])),
        iads=tuple(iads),
        hosts=tuple(rows),
    )


def _state(seen: HostSeen) -> str | None:
    if seen.iad is None or (seen.host.node is not None and seen.iad.status is None):
        return None
    if seen.host.node is None:
        return "answers" if seen.iad.status else "silent"
    return seen.node.state if seen.node else "absent"


def _health(seen: HostSeen, findings: Sequence[Finding]) -> Health:
    """The health of a host; `down`: neither its master nor SSH reaches it."""
    state = _state(seen)
    heard = state in ("live", "answers")
    if not heard and seen.facts is None and (seen.error is not None or state is not None):
        return "down"
    if seen.facts is None and state is None:
        return "unknown"
    severities = {finding.severity for finding in findings}
    worst = next((each for each in SEVERITIES if each in severities), None)
    if seen.host.node is None and state == "silent":
        return "error"
    return worst if worst in ("error", "warning") else "ok"
