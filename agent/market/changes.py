"""Changes of services in progress: from the negotiated agreement to the report to the operator.

Members that do not accept the pool are dropped from it; a change is reported once when it ends,
successfully or not.
"""

from __future__ import annotations

import math

from msgspec import Struct

from agent.market.buyer_events import DiskRefused, Report
from agent.market.explanations import pool_in_words, taken_as
from agent.market.negotiation import Negotiation
from agent.market.rollout import MembershipRollout
from agent.market.terms import Instruction, ReplyAddress
from agent.wire.directory import Found
from agent.wire.market import Joined, Member, Service
from agent.wire.operator import AddIad, CreateService, ServiceChange, ServiceReport, Step

# Share of a change's time for which to wait for joining nodes, and to look up parties that are not
# registered yet.
WAITING_SHARE = 0.5


class ChangeInProgress(Struct):
    """A request in progress; `negotiation` while there is one."""

    origin: ReplyAddress
    request: ServiceChange
    started_s: float
    until_s: float
    steps: list[Step] = []
    uncovered: list[str] = []
    found_ticket: str = ""
    look_up_ticket: str = ""
    found: Found | None = None
    schedulers: list[Member] | None = None
    negotiation: Negotiation | None = None
    joining: bool = False
    look_again_s: float = math.inf

    @property
    def patient_until_s(self) -> float:
        """Until then the change may wait for parties and nodes that are starting."""
        return self.started_s + WAITING_SHARE * (self.until_s - self.started_s)


class ChangesInProgress:
    """One change at a time per service. `own` is this master's IAD."""

    def __init__(self, own: str, rollout: MembershipRollout) -> None:
        self._own = own
        self._rollout = rollout
        self.open: dict[str, ChangeInProgress] = {}

    def replied(self, iad: str, joined: Joined, now: float) -> list[Instruction]:
        """Handle a member's reply to a delivery of the pool."""
        said, done = self._rollout.joined(iad, joined, now)
        if said is None:
            return []
        change = self.open.get(said.service_id)
        if change is not None:
            outcome = f"refused: {said.refusal}" if said.refusal else taken_as(said)
            change.steps.append(Step("provision", iad, outcome[:512]))
        if said.refusal and not said.delivery.leave:
            done += self._without(said.service_id, [iad], now)
        return [*done, *self.settled(said.service_id, now)]

    def _without(self, service_id: str, iads: list[str], now: float) -> list[Instruction]:
        """Go on without the members that do not serve; undo everything if that is impossible."""
        owned, change = self._rollout[service_id], self.open.get(service_id)
        left = [m for m in owned.service.members if m.areas and m.iad not in iads]
        own = member_of(owned.service, self._own)
        lonely = own is not None and not own.areas and own.iad in iads
        if owned.forming:
            if lonely or len(left) < owned.request.fewest:
                assert change is not None
                done = self._rollout.drop(service_id, now)
                return [*done, *self.fail(change, "too few IADs joined; all is undone", now)]
        elif lonely or not left:
            return []  # The owner and the last serving member are asked again and again.
        lost = {a for m in owned.service.members if m.iad in iads for a in m.areas}
        done = self._rollout.remove(service_id, iads, now)
        if change is not None:
            change.uncovered += sorted(lost - {a for m in left for a in m.areas})
            if isinstance(change.request, AddIad) and change.request.iad in iads:
                text = f"{change.request.iad} did not join; it is left out"
                done += self.fail(change, text, now)
        return done

    def settled(self, service_id: str, now: float) -> list[Instruction]:
        """Report once every member has acknowledged the change."""
        change = self.open.get(service_id)
        if change is None or not change.joining or self._rollout.waiting(service_id):
            return []
        return self._succeed(change, now)

    def out_of_time(self, change: ChangeInProgress, now: float) -> list[Instruction]:
        """End the change with the members that have acknowledged it; deliveries go on."""
        service_id = change.request.service
        if not change.joining:
            text = "the registration service did not answer in time"
            if change.negotiation is not None:
                text = "the negotiation did not end in time; allow more"
            return self._give_up(change, text, now)
        waiting = [d.member.iad for d in self._rollout.waiting(service_id)]
        if isinstance(change.request, CreateService):
            change.steps += [Step("provision", iad, "no answer") for iad in waiting]
            done = self._without(service_id, waiting, now)
        elif isinstance(change.request, AddIad) and change.request.iad in waiting:
            done = self._without(service_id, [change.request.iad], now)
        else:
            later = "no answer; it is told when it can be reached"
            change.steps += [Step("provision", iad, later) for iad in waiting]
            done = []
        if service_id in self.open:
            done += self._succeed(change, now)
        return done

    def _give_up(self, change: ChangeInProgress, text: str, now: float) -> list[Instruction]:
        """End a change by which nobody joins yet."""
        released = change.negotiation.release() if change.negotiation is not None else []
        return [*released, *self.fail(change, text, now)]

    def disk_refused(self, event: DiskRefused, now: float) -> list[Instruction]:
        """End all changes, so that no operator waits for the disk. A new service is undone; other
        deliveries go on once they are kept."""
        done: list[Instruction] = []
        for change in list(self.open.values()):
            if not change.joining:
                done += self._give_up(change, event.not_now, now)
            elif isinstance(change.request, CreateService):
                done += self._rollout.drop(change.request.service, now)
                done += self.fail(change, event.not_now, now)
            else:
                done += self.fail(change, event.later, now)
        return done

    # --- reports -----------------------------------------------------------------------------

    def _succeed(self, change: ChangeInProgress, now: float) -> list[Instruction]:
        service_id = change.request.service
        done: list[Instruction] = []
        services: tuple[Service, ...] = ()
        if (owned := self._rollout.living.get(service_id)) is not None:
            if owned.forming:
                done += self._rollout.formed(service_id)
            services = (owned.service,)
            change.steps.append(Step("pool", "", pool_in_words(owned.service)))
        return [*done, self._report(change, True, services, "", now)]

    def fail(self, change: ChangeInProgress, message: str, now: float) -> list[Instruction]:
        """Report that the change failed."""
        if change.negotiation is not None and not change.joining:
            change.steps += change.negotiation.steps
        return [self._report(change, False, (), message, now)]

    def _report(
        self,
        change: ChangeInProgress,
        ok: bool,
        services: tuple[Service, ...],
        message: str,
        now: float,
    ) -> Report:
        request = change.request
        if self.open.get(request.service) is change:
            del self.open[request.service]
        report = ServiceReport(
            id=request.id,
            ok=ok,
            services=services,
            steps=tuple(change.steps),
            uncovered=tuple(sorted(set(change.uncovered))),
            message=message[:512],
            elapsed_ms=(now - change.started_s) * 1e3,
        )
        return Report(change.origin, report)


def member_of(service: Service, iad: str) -> Member | None:
    """That IAD in the pool, if it is a member."""
    return next((member for member in service.members if member.iad == iad), None)
