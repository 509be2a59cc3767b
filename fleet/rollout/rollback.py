"""`fleet rollback`: restores hosts to their state before the last deployment, files included."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from fleet.common import exits
from fleet.inspect.facts.facts import Unit
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.inventory.selection import select
from fleet.keys.store import Store
from fleet.rollout.deploy import Options, deploy, member
from fleet.rollout.events import (
    AnyEvent,
    Confirmed,
    Failed,
    Healthy,
    Planned,
    Result,
    RolledBack,
    Staged,
    Switched,
)
from fleet.rollout.health import Gate, gates_of
from fleet.rollout.journal import Begun, Ended, is_own, opened
from fleet.rollout.prerequisites import held
from fleet.rollout.result import HostReport, RolloutReport, counted, lines, remedy_of, status_of
from fleet.rollout.rollout import Rollout
from fleet.rollout.runner import Runner
from fleet.rollout.session import Session
from fleet.rollout.view import shown
from fleet.ssh.errors import HostError
from fleet.terminal import output, units

REASON: Final = "rolled back by the operator"
NOTHING: Final = "there is no deployment to undo on it; --to names a release"


def run(
    folder: Folder,
    *,
    iads: Sequence[str],
    groups: Sequence[str],
    limit: str,
    options: Options,
) -> int:
    """Roll the hosts back; returns the exit status."""
    fleet = load(folder)
    chosen = select(fleet, iads=iads, groups=groups, limit=limit)
    if options.release:
        return deploy(folder, fleet, chosen, options._replace(command="rollback"))
    chosen = [host for host in chosen if not host.is_local]
    question = f"Roll back {units.counted(len(chosen), 'host')} to before the last deployment?"
    if not output.confirm(question, yes=options.yes):
        return exits.fail("nothing was done", exits.NOTHING)
    store = Store(folder)
    gates = gates_of(fleet, chosen, store)
    acts = RollingBack(gates, partial(is_own, folder), gate_s=options.gate_s)
    report = _roll_back(folder, fleet, chosen, acts, options)
    if options.as_json:
        output.write_json(report)
    for line in lines(report):
        output.say(line)
    if report.counts.get("changed"):
        output.say("the inventory did not change: `fleet deploy` brings its release again")
    status = status_of(report)
    return exits.FAILED if status == exits.NOTHING and acts.touched else status


class RollingBack:
    """The operations of a rollback, whose switch undoes an earlier switch."""

    def __init__(
        self, gates: Mapping[str, Gate], is_own: Callable[[str], bool], *, gate_s: float
    ) -> None:
        self.before: dict[str, str] = {}  # by host: the release that it had
        self.back_to: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.touched: set[str] = set()
        self._undoes: dict[str, tuple[str, str]] = {}  # which record, and of which run
        self._gates = gates
        self._is_own = is_own
        self._gate_s = gate_s

    def gather(self, session: Session) -> AnyEvent:
        """Find the state to restore."""
        name, facts = session.host.name, session.facts()
        for obstacle in held(facts, self._is_own):
            raise HostError(obstacle.kind, obstacle.text)
        releases = facts.releases
        which, back_to, run = "kept", releases.before, releases.run
        if (pending := facts.pending) is not None:
            which, back_to, run = "pending", pending.before, pending.run
        if not back_to:
            if session.host.node:
                raise HostError("failed", NOTHING)
            # A master with nothing to undo: its nodes may have something, and need their master for
            # it.
            self.notes[name] = NOTHING
            return Planned(name, changes=False)
        self.before[name], self.back_to[name] = facts.releases.current, back_to
        self._undoes[name] = (which, run)
        unit = facts.units.get(session.host.unit, Unit())
        return Planned(name, changes=True, disturbs=True, serving=unit.active == "active")

    def stage(self, session: Session, uploaded: Callable[[float], None]) -> AnyEvent:  # noqa: ARG002 - all is there
        """Does nothing: the former release is still on the host."""
        return Staged(session.host.name)

    def switch(self, session: Session, run: str) -> AnyEvent:  # noqa: ARG002 - the host has its own
        """Let it be as it was."""
        name = session.host.name
        self.touched.add(name)
        which, undone = self._undoes[name]
        try:
            session.undo(which, undone, REASON)
        except HostError as error:
            if error.kind != "lost":
                raise
            session.undo(which, undone, REASON)  # the host knows whether it was
        return Switched(name)

    def check(self, session: Session) -> AnyEvent:
        """Whether it serves."""
        host = session.host
        verdict = self._gates[host.iad.name].wait(host, self.back_to[host.name], self._gate_s)
        if not verdict.healthy:
            return Failed(host.name, "failed", f"back to {self.back_to[host.name]}: {verdict.text}")
        if verdict.text:
            self.notes[host.name] = verdict.text
        return Healthy(host.name, verdict.text)

    def confirm(self, session: Session, run: str) -> AnyEvent:  # noqa: ARG002 - as above
        """Does nothing: a rollback has no timer that awaits confirmation."""
        return Confirmed(session.host.name)

    def roll_back(self, session: Session, run: str, reason: str) -> AnyEvent:  # noqa: ARG002 - it was told
        """Does nothing: only another deployment can follow."""
        return RolledBack(session.host.name, problem="it stays so; deploy a release that is well")


def _roll_back(
    folder: Folder,
    fleet: Inventory,
    chosen: Sequence[HostOf],
    acts: RollingBack,
    options: Options,
) -> RolloutReport:
    begun_s = time.monotonic()
    rollout = Rollout([member(fleet, host) for host in chosen], options.serial, options.max_fail)
    sessions = {host.name: Session(folder, fleet, host) for host in chosen}
    names = tuple(sessions)
    with opened(folder) as journal, shown(len(chosen)) as view:
        serial, most = str(options.serial), str(options.max_fail)
        journal.write(Begun(journal.run, names, "", serial, most, "rollback"))
        runner = Runner(rollout, sessions, acts, journal, view)
        runner.run(options.parallel)
        hosts = tuple(
            _report(name, rollout.results[name], acts, runner.seconds.get(name, 0.0))
            for name in names
        )
        counts = counted(hosts)
        journal.write(Ended(counts, rollout.stopped))
    seconds = round(time.monotonic() - begun_s, 3)
    return RolloutReport(journal.run, False, hosts, counts, seconds, rollout.stopped)


def _report(name: str, result: Result, acts: RollingBack, seconds: float) -> HostReport:
    return HostReport(
        name,
        result.outcome,
        release=acts.back_to.get(name, ""),
        before=acts.before.get(name, ""),
        kind=result.kind,
        reason=result.reason,
        remedy=remedy_of(result.kind),
        note=acts.notes.get(name, ""),
        seconds=round(seconds, 3),
    )
