"""Service contracts at the task scheduler: which IADs may send tasks, for which areas, at what
rate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from agent.scheduling.admission import AgreedRate, Refused, may_send
from agent.scheduling.pools import DEFAULT
from agent.scheduling.remembered import Remembered
from agent.wire.areas import AreaSet
from agent.wire.base import RAW
from agent.wire.market import Member, Service, Terms
from agent.wire.messages import Task
from agent.wire.principals import Sender

# Tasks of a former member are accepted for this long: other IADs learn of the change later, and
# have open queries.
GRACE_S: Final = 60.0


class Within(NamedTuple):
    """The areas of a task that belong to a service here, and those that do not."""

    areas: tuple[str, ...]
    outside: tuple[str, ...]


class Contract:
    """This IAD's obligations to the pool of one service.

    `members` are the IADs that may send tasks, each with the time when that ends (None: it does
    not). `offered` are the areas that may be asked for; None: everything that this IAD has.
    `announced` are the areas declared to the pool. `terms` is what was agreed: no task is more
    urgent than that.
    """

    def __init__(
        self,
        service: str,
        members: dict[str, float | None],
        *,
        offered: tuple[str, ...] | None = None,
        capability: str = "",
        rate: AgreedRate | None = None,
        announced: Iterable[str] = (),
        terms: Terms | None = None,
    ) -> None:
        self.service = service
        self.members = members
        self.offered = offered
        self.capability = capability
        self.rate = rate
        self.terms = terms
        self.announced = AreaSet(announced)
        self._offered = AreaSet(offered or ())
        self._known: Remembered[Within] = Remembered()

    def refused(self, sender: Sender, task: Task, now: float) -> Refused | None:
        """Why the task may not be sent here."""
        ends_s = self.members.get(sender.name)
        if ends_s is not None and ends_s <= now:
            del self.members[sender.name]
        refused = may_send(sender, task, self.members)
        if refused is not None:
            return refused
        if self.capability and any(
            channel not in (self.capability, self.capability + RAW) for channel in task.channels
        ):
            return Refused("malformed", f"service {self.service} gives {self.capability} alone")
        return None

    def harder(self, task: Task) -> Terms | None:
        """What was agreed, if the task asks for more than that; None: it does not."""
        terms = self.terms
        if terms is None or (
            task.percentile <= terms.percentile and task.budget_ms >= terms.budget_ms
        ):
            return None
        return terms

    def channels(self, task: Task) -> tuple[str, ...]:
        """The channels that the task's subtasks read."""
        return task.channels or ((self.capability,) if self.capability else ())

    @property
    def told(self) -> AreaSet:
        """The areas that another IAD may know."""
        return self.announced if self.offered is None else self._offered

    def within(self, asked: tuple[str, ...]) -> Within:
        """O(asked + found) once per set of areas, then a look-up."""
        if self.offered is None:
            return Within(asked, ())
        found = self._known.get(asked)
        if found is None:
            found = self._known.keep(asked, self._within(asked))
        return found

    def _within(self, asked: tuple[str, ...]) -> Within:
        offered = self._offered
        areas: dict[str, None] = {}
        for area in dict.fromkeys(asked):
            if offered.covers(area):
                areas[area] = None
            else:
                areas |= dict.fromkeys(offered.within((area,)))
        outside = [area for area in offered.without(asked) if not offered.covers(area)]
        return Within(tuple(areas), tuple(outside))


class Contracts:
    """The contracts of an IAD by service id; that of `default` is fixed."""

    def __init__(self, iad: str, pool: Sequence[Member]) -> None:
        self.iad = iad
        names: dict[str, float | None] = {member.iad: None for member in pool}
        announced = next((member.areas for member in pool if member.iad == iad), ())
        fixed = Contract(DEFAULT, {**names, iad: None}, announced=announced)
        self._contracts = {DEFAULT: fixed}
        self._ending: dict[str, float] = {}
        # Kept while an instance has none, and as long as there is the contract.
        self._rates: dict[str, AgreedRate] = {}

    def of(self, service: str, now: float) -> Contract | None:
        """The contract of that service, if this IAD serves it or left it a moment ago. O(1)."""
        ends_s = self._ending.get(service)
        if ends_s is not None and ends_s <= now:
            self._forget(service)
        return self._contracts.get(service)

    def changed(self, service: Service, now: float) -> None:
        """Apply an instance of a service. Former members have `GRACE_S` left."""
        if service.id == DEFAULT:
            return
        self._forget_ended(now)
        self._ending.pop(service.id, None)
        known = self._contracts.get(service.id)
        members: dict[str, float | None] = {} if known is None else dict(known.members)
        members = {iad: now + GRACE_S if s is None else s for iad, s in members.items()}
        members |= dict.fromkeys((member.iad for member in service.members), None)
        own = next((member for member in service.members if member.iad == self.iad), None)
        rate_per_s = own.rate_per_s if own is not None else 0.0
        if not rate_per_s and service.terms is not None:
            rate_per_s = service.terms.rate_per_s
        rate = None
        if rate_per_s:
            rate = self._rates.get(service.id)
            if rate is None:
                rate = self._rates[service.id] = AgreedRate(rate_per_s, "tasks", now)
            elif rate.rate_per_s != rate_per_s:
                rate.change(rate_per_s, now)
        self._contracts[service.id] = Contract(
            service.id,
            members,
            offered=() if own is None else own.areas,
            capability=service.capability,
            rate=rate,
            terms=service.terms,
        )

    def removed(self, service: str, now: float) -> bool:
        """This IAD has left the pool; its contract ends in `GRACE_S`. Returns whether there is such
        a contract."""
        self._forget_ended(now)
        if service == DEFAULT or service not in self._contracts:
            return False
        self._ending.setdefault(service, now + GRACE_S)
        return True

    def _forget_ended(self, now: float) -> None:
        for service in [s for s, ends_s in self._ending.items() if ends_s <= now]:
            self._forget(service)

    def _forget(self, service: str) -> None:
        del self._ending[service], self._contracts[service]
        self._rates.pop(service, None)
