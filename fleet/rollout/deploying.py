"""The steps of `fleet deploy` on one host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fleet.rollout.deployment_plan import HostPlan, Planner
from fleet.rollout.events import (
    AnyEvent,
    Confirmed,
    Failed,
    Healthy,
    RolledBack,
    Staged,
    Switched,
)
from fleet.rollout.health import Gate
from fleet.rollout.session import Session, arrived
from fleet.ssh.errors import HostError

# Looks at a host that is changed by others all the time.
LOOKS: Final = 3


class Deploying:
    """The acts of a deployment."""

    def __init__(
        self, planner: Planner, gates: Mapping[str, Gate], *, start_s: float, gate_s: float
    ) -> None:
        self.plans: dict[str, HostPlan] = {}
        self.notes: dict[str, str] = {}
        self._planner = planner
        self._gates = gates
        self._start_s = start_s
        self._gate_s = gate_s

    def gather(self, session: Session) -> AnyEvent:
        """The plan from the host's facts to its desired state."""
        plan = self._planner.plan(session.host, session.facts())
        self.plans[session.host.name] = plan
        return plan.planned

    def stage(self, session: Session, uploaded: Callable[[float], None]) -> AnyEvent:
        """Put the release on the host, and remove releases that need not be kept."""
        name = session.host.name
        plan = self.plans[name]
        if not plan.uploads:
            session.remove(plan.gone)
            return Staged(name)
        size = plan.bundle.bytes
        session.stage(
            plan.bundle,
            arrived(plan.facts, plan.bundle),
            plan.gone,
            lambda sent: uploaded(sent / size),
        )
        return Staged(name)

    def switch(self, session: Session, run: str) -> AnyEvent:
        """Make the other changes. They are planned anew if the host changed since it was looked
        at, as when `fleet keys` gave it other keys while releases were uploaded."""
        for _ in range(LOOKS):
            try:
                return self._switch(session, run)
            except HostError as error:
                if "changed" not in error.details:
                    raise
                changed = error
            self._look_again(session, changed)
        raise HostError("failed", f"{changed}; run the command again")

    def _look_again(self, session: Session, changed: HostError) -> None:
        """Plan anew. HostError if the new plan needs steps that the host is past."""
        name = session.host.name
        before = self.plans[name].planned
        plan = self._planner.plan(session.host, session.facts())
        if plan.uploads or (plan.planned.disturbs and not before.disturbs):
            raise HostError("failed", f"{changed}; run the command again")
        self.plans[name] = plan

    def _switch(self, session: Session, run: str) -> AnyEvent:
        host = session.host
        plan = self.plans[host.name]
        if plan.only_removes:
            return Switched(host.name)
        planned = plan.planned
        if planned.disturbs and planned.serving:
            self._gates[host.iad.name].remember()
        try:
            session.switch(
                run,
                plan.facts,
                plan.desired,
                plan.changes,
                plan.contents,
                start_s=self._start_s,
                gate_s=self._gate_s,
            )
        except HostError as error:
            if error.kind != "lost" or not self._switched(session, plan, run):
                raise
        return Switched(host.name)

    def _switched(self, session: Session, plan: HostPlan, run: str) -> bool:
        """Whether the switch happened in spite of an error, checked over a new connection."""
        facts = session.facts()
        unit = facts.units.get(plan.desired.unit)
        return (
            facts.pending is not None
            and facts.pending.run == run
            and facts.releases.current == plan.desired.release
            and unit is not None
            and unit.active == "active"
        )

    def check(self, session: Session) -> AnyEvent:
        """Whether it serves with the new release."""
        host = session.host
        plan = self.plans[host.name]
        gate = self._gates[host.iad.name]
        verdict = gate.wait(host, plan.desired.release, self._gate_s)
        if not verdict.healthy:
            return Failed(host.name, "failed", verdict.text)
        if verdict.text:
            self.notes[host.name] = verdict.text
        return Healthy(host.name, verdict.text)

    def confirm(self, session: Session, run: str) -> AnyEvent:
        """Let it stay so."""
        name = session.host.name
        plan = self.plans[name]
        if plan.only_removes:
            return Confirmed(name)
        check = plan.planned.disturbs
        try:
            session.confirm(run, plan.desired, check=check)
        except HostError as error:
            if error.kind != "lost":
                raise
            session.confirm(run, plan.desired, check=check)
        return Confirmed(name)

    def roll_back(self, session: Session, run: str, reason: str) -> AnyEvent:
        """Restore the state before the switch."""
        name = session.host.name
        try:
            return RolledBack(name, word=session.undo("pending", run, reason))
        except HostError as error:
            if error.kind in {"failed", "disk_full"}:
                return RolledBack(name, problem=str(error))
            raise
