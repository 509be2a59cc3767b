"""Catalog of a master's areas, known without asking a node: channels, units, raised triggers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from agent.scheduling.admission import ClientRates, Refused, cost_of
from agent.scheduling.events import TaskArrived
from agent.scheduling.nearest import without_node
from agent.scheduling.plausible import MAX_RAISED
from agent.scheduling.tasks.contracts import Contract, Contracts
from agent.scheduling.tasks.entry import Node
from agent.scheduling.tasks.joining import KnownNodes
from agent.scheduling.tasks.nodes import NodeTable
from agent.scheduling.tasks.planner import JOINING
from agent.wire.about import EVERYWHERE, About, ChannelInfo, Raised
from agent.wire.areas import covers
from agent.wire.base import RAW
from agent.wire.messages import AnswerStatus, AreaResult, Missing, Task, TaskResult
from agent.wire.node_messages import Hello
from agent.wire.operator import NodeAlert

# Of channels whose node, of an earlier version, tells no units.
UNITS: Final[Mapping[str, str]] = {"temperature": "celsius", "humidity": "percent"}
# Clients repeat what they ask; the cache is cleared when it holds this many sets of areas.
REMEMBERED: Final = 8
MAX_MS: Final = 1 << 52


class RaisedNow(Protocol):
    """The triggers that are raised now."""

    @property
    def changes(self) -> int:
        """Grows whenever one is raised or cleared."""

    def raised(self, node: str) -> tuple[NodeAlert, ...]:
        """Those of a node, oldest first."""


class NoneRaised:
    """Stand-in for a master that takes no events."""

    changes = 0

    def raised(self, node: str) -> tuple[NodeAlert, ...]:
        """None."""
        del node
        return ()


class _Known(NamedTuple):
    area: str
    name: str | None
    channels: tuple[ChannelInfo, ...]
    raised: tuple[Raised, ...]
    nodes: list[Node]
    alerts: list[tuple[NodeAlert, ...]]  # of each node


class Catalog:
    """Answers tasks of form `about`, at once. `names` are those of rooms, by area; `rates` those of
    other IADs."""

    def __init__(
        self,
        contracts: Contracts,
        nodes: NodeTable,
        known_before: KnownNodes,
        rates: ClientRates,
        names: Mapping[str, str],
    ) -> None:
        self._contracts = contracts
        self._nodes = nodes
        self._known_before = known_before
        self._rates = rates
        self._names = names
        self.source: RaisedNow = NoneRaised()
        # By areas and channel; valid while the changes that were counted are the same.
        self._found: dict[tuple[tuple[str, ...], str], list[_Known]] = {}
        self._as_of = (0, 0)

    def answer(
        self, event: TaskArrived, now: float, *, may_join: bool
    ) -> tuple[list[AreaResult], list[Missing]] | Refused:
        """The areas that are known and the others; or why the task is refused. O(areas), once after
        each change O(areas · channels)."""
        task, sender = event.task, event.sender
        everywhere = task.areas == (EVERYWHERE,)
        # What a client asks of this master itself was counted as its query.
        if event.client is None:
            cost = cost_of(len(self._nodes) if everywhere else len(task.areas))
            if (refused := self._rates.refused(sender, now, cost)) is not None:
                return refused
        contract = self._contracts.of(task.service, now)
        if contract is None:
            return Refused("unknown_service", f"this IAD does not serve {task.service}")
        if (refused := contract.refused(sender, task, now)) is not None:
            return refused
        areas, outside = self._areas(task.areas, contract)
        results = [_told(each, now) for each in self._known(areas, contract.capability)]
        if event.client is None and (more := cost_of(len(results)) - cost) > 0:
            self._rates.charge(sender, now, more)
        unmatched = [] if everywhere else self._nodes.covering(areas).unmatched
        missing = without_node([*unmatched, *outside], contract.told)
        if may_join:
            before = self._known_before.areas
            absent = dict.fromkeys(before) if everywhere else before.within(areas)
            there = {each.area for each in results}
            late = [area for area in absent if area not in there]
            missing = [gap for gap in missing if not any(covers(gap.area, a) for a in late)]
            missing += [Missing(area, "timeout", message=JOINING) for area in late]
        return results, missing

    def _areas(
        self, asked: tuple[str, ...], contract: Contract
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The areas to look for, and those that do not belong to the service here."""
        if asked != (EVERYWHERE,):
            within = contract.within(asked)
            return within.areas, within.outside
        if contract.offered is not None:
            return contract.offered, ()
        return self._nodes.tops, ()

    def _known(self, areas: tuple[str, ...], capability: str) -> list[_Known]:
        as_of = (self._nodes.changes, self.source.changes)
        if as_of != self._as_of or len(self._found) >= REMEMBERED:
            self._as_of = as_of
            self._found.clear()
        found = self._found.get((areas, capability))
        if found is None:
            found = self._found[areas, capability] = self._look(areas, capability)
        return found

    def _look(self, areas: tuple[str, ...], capability: str) -> list[_Known]:
        nodes: dict[str, list[Node]] = {}
        for node, own in self._nodes.covering(areas).nodes:
            for area in own:
                nodes.setdefault(area, []).append(node)
        names = {node.name for there in nodes.values() for node in there}
        alerts = {name: self.source.raised(name) for name in names}
        return [
            _Known(
                area,
                self._names.get(area),
                _channels([node.hello for node in there], capability),
                _raised(area, [alert for node in there for alert in alerts[node.name]]),
                there,
                [alerts[node.name] for node in there],
            )
            for area, there in nodes.items()
        ]


def as_result(
    task: Task, found: tuple[list[AreaResult], list[Missing]] | Refused, total_ms: float
) -> TaskResult:
    """The answer of `Catalog.answer`, in the form for the task's sender."""
    if isinstance(found, Refused):
        return TaskResult(task.id, "refused", total_ms, reason=found.reason, message=found.message)
    results, missing = found
    status: AnswerStatus = "partial" if missing else "complete"
    return TaskResult(task.id, status, total_ms, tuple(results), tuple(missing))


def _told(known: _Known, now: float) -> AreaResult:
    heard_s = max([node.seen_s for node in known.nodes])
    down = not any(node.state == "live" for node in known.nodes)
    heard_ms = min(max(0, round((now - heard_s) * 1e3)), MAX_MS)
    raised = known.raised
    if raised and any(node.is_gone(now) for node in known.nodes):
        # What ended since then was not told here, if another master has the node.
        pairs = zip(known.nodes, known.alerts, strict=True)
        raised = _raised(known.area, [a for node, of in pairs if not node.is_gone(now) for a in of])
    about = About(known.channels, raised, heard_ms, down)
    return AreaResult(known.area, about=about, name=known.name)


def _channels(hellos: Sequence[Hello], capability: str) -> tuple[ChannelInfo, ...]:
    """All channels that a service with that capability gives, each with the unit that a node
    tells."""
    units: dict[str, str] = {}
    for hello in hellos:
        for name in hello.channels:
            if capability in ("", name, name.removesuffix(RAW)):
                units[name] = units.get(name) or hello.units.get(name, "")
    return tuple([ChannelInfo(name, unit or UNITS.get(name, "")) for name, unit in units.items()])


def _raised(area: str, alerts: Iterable[NodeAlert]) -> tuple[Raised, ...]:
    """Those that concern the area, the oldest first."""
    here = {
        (alert.since_ms, alert.trigger): alert.text
        for alert in alerts
        if not alert.areas or any(covers(each, area) for each in alert.areas)
    }
    return tuple(
        [Raised(trigger, since_ms, text) for (since_ms, trigger), text in sorted(here.items())]
    )[:MAX_RAISED]
