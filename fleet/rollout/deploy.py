"""`fleet deploy`: rolls releases and configuration out to hosts while queries are answered."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from shlex import quote
from typing import NamedTuple

from fleet.common import exits
from fleet.inventory.effective import is_canary, release_of
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean
from fleet.inventory.parties import HostOf
from fleet.inventory.selection import select
from fleet.keys.store import Store
from fleet.release import sources
from fleet.release.bundle import ReleaseError, origin_of, stored
from fleet.rollout import local
from fleet.rollout.deploying import Deploying
from fleet.rollout.deployment_plan import HostPlan, Planner
from fleet.rollout.events import Result
from fleet.rollout.health import Gate, gates_of
from fleet.rollout.journal import Begun, Command, Ended, opened, unfinished
from fleet.rollout.local import LocalPlan
from fleet.rollout.result import (
    HostReport,
    RolloutReport,
    counted,
    dry_lines,
    failures,
    lines,
    remedy_of,
    status_of,
    summary,
)
from fleet.rollout.rollout import Member, Rollout, Share
from fleet.rollout.runner import Runner
from fleet.rollout.session import Session
from fleet.rollout.view import shown
from fleet.ssh.fanout import Outcome, for_each
from fleet.terminal import output


class Options(NamedTuple):
    """How to deploy."""

    serial: Share
    max_fail: Share
    parallel: int
    release: str = ""
    start_s: float = 120.0
    gate_s: float = 60.0
    dry: bool = False
    as_json: bool = False
    yes: bool = False
    command: Command = "deploy"


def run(
    folder: Folder,
    *,
    iads: Sequence[str],
    groups: Sequence[str],
    limit: str,
    retry_failed: bool,
    options: Options,
    allow_dirty: bool = False,
) -> int:
    """Deploy to the selected hosts; returns the exit status."""
    fleet = load(folder)
    chosen = select(fleet, iads=iads, groups=groups, limit=limit)
    if retry_failed:
        chosen = _left_undone(folder, chosen, options.release)
        if not chosen:
            output.say(
                "nothing to try again: of the deployments that were made from this folder, the "
                "last one of each host came to a good end, or `fleet rollback` undid it"
            )
            return exits.DONE
    if not options.dry and not allow_dirty:
        for named, changes in _uncommitted(folder, fleet, chosen, options.release):
            if options.yes:
                raise exits.CommandError(f"{changes}; commit them, or give --allow-dirty")
            if named:  # building a release for the plan prints lines of its own
                output.say(changes)
    return deploy(folder, fleet, chosen, options)


def _uncommitted(
    folder: Folder, fleet: Inventory, chosen: Sequence[HostOf], release: str
) -> Iterator[tuple[str, str]]:
    """A line for each release to be deployed that has uncommitted changes, and for a release
    requested by name its name."""
    remote = [host for host in chosen if not host.is_local]
    for wanted in dict.fromkeys(release or release_of(fleet, host) for host in remote):
        name, origin = wanted, origin_of(folder, wanted) if wanted else None
        if not wanted:
            with suppress(ReleaseError):  # each host's plan reports why
                checkout = sources.checkout()
                name, origin = sources.read(checkout).release, sources.origin(checkout)
        if origin and (changes := origin.told(name)):
            yield wanted, changes


def _left_undone(folder: Folder, chosen: Sequence[HostOf], release: str) -> list[HostOf]:
    """The hosts whose last deployment did not succeed. CommandError if that was for a release given
    by name and this one is not: the inventory may want another release."""
    again = unfinished(folder, [host.name for host in chosen])
    for name, before in again.items():
        if before and not release:
            raise exits.CommandError(
                f"the last run on {name} was of release {before}: go on with --release {before}, "
                "or deploy without --retry-failed"
            )
    return [host for host in chosen if host.name in again]


def deploy(folder: Folder, fleet: Inventory, chosen: Sequence[HostOf], options: Options) -> int:
    """Deploy to `chosen`; returns the exit status."""
    _require_stored(folder, options.release)
    if not folder.keys.is_dir():
        raise exits.CommandError(f"there are no keys in {folder.keys}; fleet keys init makes them")
    store = Store(folder)
    begun_s = time.monotonic()
    locals_ = [local.plan(folder, fleet, host, store) for host in chosen if host.is_local]
    remote = [host for host in chosen if not host.is_local]
    planner = Planner(folder, fleet, store, release=options.release, say=output.say)
    if options.dry:
        report = _dry(folder, fleet, remote, locals_, planner, options, begun_s)
        _show(report, options)
        return status_of(report)
    if not options.yes:
        output.require_terminal("It asks before it deploys.")
        report = _dry(folder, fleet, remote, locals_, planner, options, begun_s)
        for line in (*dry_lines(report), *failures(report)):
            output.say_as_it_is(line)
        if not _changes(report):
            return _nothing_to_do(report, options)
        if not output.confirm(_question(report, chosen), yes=False):
            return exits.fail("nothing was done", exits.NOTHING)
        # Keys may have been revoked since the question was asked.
        locals_ = [local.plan(folder, fleet, plan.host, store) for plan in locals_]
    for plan in locals_:
        local.write(plan)
    gates = gates_of(fleet, chosen, store)
    silent = _silent_local_masters(folder, remote, gates)
    for plan in locals_:
        _tell_local(plan, silent=plan.host.iad.name in silent)
    if silent:
        return exits.fail(_start_first(silent), exits.NOTHING)
    report = _roll_out(folder, fleet, remote, locals_, planner, gates, options, begun_s)
    _show(report, options)
    return status_of(report)


def _require_stored(folder: Folder, release: str) -> None:
    """CommandError if the release requested by name is not stored."""
    known = list(dict.fromkeys(bundle.release for bundle in stored(folder))) if release else []
    if release and release not in known:
        raise exits.CommandError(f"there is no release {release}; {did_you_mean(release, known)}")


def _roll_out(
    folder: Folder,
    fleet: Inventory,
    remote: Sequence[HostOf],
    locals_: Sequence[LocalPlan],
    planner: Planner,
    gates: dict[str, Gate],
    options: Options,
    begun_s: float,
) -> RolloutReport:
    rollout = Rollout([member(fleet, host) for host in remote], options.serial, options.max_fail)
    sessions = {host.name: Session(folder, fleet, host) for host in remote}
    names = tuple(sessions)
    with opened(folder) as journal, shown(len(remote)) as view:
        serial, most = str(options.serial), str(options.max_fail)
        begun = Begun(journal.run, names, options.release, serial, most, options.command)
        journal.write(begun)
        acts = Deploying(planner, gates, start_s=options.start_s, gate_s=options.gate_s)
        runner = Runner(rollout, sessions, acts, journal, view)
        runner.run(options.parallel)
        hosts = [
            _report(name, rollout.results[name], acts, runner.seconds.get(name, 0.0))
            for name in names
        ]
        report = _whole(journal.run, [*map(_local_report, locals_), *hosts], begun_s)
        report = RolloutReport(
            report.run, False, report.hosts, report.counts, report.seconds, rollout.stopped
        )
        journal.write(Ended(report.counts, rollout.stopped))
    return report


def _dry(
    folder: Folder,
    fleet: Inventory,
    remote: Sequence[HostOf],
    locals_: Sequence[LocalPlan],
    planner: Planner,
    options: Options,
    begun_s: float,
) -> RolloutReport:
    """Changes that would be made."""

    def look(host: HostOf) -> HostPlan:
        session = Session(folder, fleet, host)
        try:
            return planner.plan(host, session.facts())
        finally:
            session.close()

    found = {each.host.name: each for each in for_each(remote, look, parallel=options.parallel)}
    hosts = [_dry_report(found[host.name]) for host in remote]
    return _whole("", [*map(_local_report, locals_), *hosts], begun_s, dry=True)


def _whole(
    run: str, hosts: list[HostReport], begun_s: float, *, dry: bool = False
) -> RolloutReport:
    seconds = round(time.monotonic() - begun_s, 3)
    return RolloutReport(run, dry, tuple(hosts), counted(hosts), seconds)


def _dry_report(found: Outcome[HostPlan]) -> HostReport:
    name = found.host.name
    if found.error is not None:
        error = found.error
        return HostReport(name, "failed", "", "", error.kind, str(error), error.remedy)
    plan = found.value
    assert plan is not None
    return HostReport(
        name,
        "changed" if plan.changes else "unchanged",
        release=plan.desired.release,
        before=plan.facts.releases.current,
        changes=tuple(map(str, plan.changes)),
    )


def _report(name: str, result: Result, acts: Deploying, seconds: float) -> HostReport:
    plan = acts.plans.get(name)
    return HostReport(
        name,
        result.outcome,
        release=plan.desired.release if plan else "",
        before=plan.facts.releases.current if plan else "",
        kind=result.kind,
        reason=result.reason,
        remedy=remedy_of(result.kind),
        note=acts.notes.get(name, ""),
        changes=tuple(map(str, plan.changes)) if plan else (),
        seconds=round(seconds, 3),
    )


def _local_report(plan: LocalPlan) -> HostReport:
    changes = tuple(f"write {plan.folder / file.path}" for file in plan.files)
    return HostReport(plan.host.name, "changed" if plan.files else "unchanged", changes=changes)


def member(fleet: Inventory, host: HostOf) -> Member:
    """A host as the rollout knows it."""
    return Member(
        host.name,
        host.iad.name,
        "node" if host.node else "master",
        is_canary(fleet, host),
        frozenset(host.node.areas if host.node else ()),
    )


def _silent_local_masters(
    folder: Folder, remote: Sequence[HostOf], gates: dict[str, Gate]
) -> dict[str, str]:
    """Local masters, of nodes to deploy to, that do not answer, with the commands that start them:
    without its master no node can prove that it is healthy."""
    iads = {host.iad.name: host.iad for host in remote if host.node and host.iad.master.local}
    return {
        name: f"sanderling-master --config {quote(str(folder.master(name) / 'master.toml'))}"
        for name in iads
        if not gates[name].answers
    }


def _tell_local(plan: LocalPlan, *, silent: bool) -> None:
    if not plan.files:
        return
    text = f"{plan.host.name}: wrote {len(plan.files)} files to {plan.folder}"
    if plan.restart and not silent:
        text += f"; start the master anew: {plan.command}"
    output.say(text)


def _start_first(silent: dict[str, str]) -> str:
    several = " and ".join(silent.values())
    return (
        f"the master of {', '.join(silent)} runs on this machine, and does not answer; start it, "
        f"then deploy again: {several}"
    )


def _changes(report: RolloutReport) -> int:
    """How many changes a plan has."""
    return sum(len(host.changes) for host in report.hosts)


def _question(report: RolloutReport, chosen: Sequence[HostOf]) -> str:
    """The confirmation prompt after the plan."""
    names = {host.host for host in report.hosts if host.changes}
    of = [host for host in chosen if host.name in names]
    iads = ", ".join(dict.fromkeys(host.iad.name for host in of))
    hosts = of[0].name if len(of) == 1 else f"{len(of)} hosts of {iads}"
    number = _changes(report)
    return f"Apply {number} change{'s' * (number != 1)} to {hosts}?"


def _nothing_to_do(report: RolloutReport, options: Options) -> int:
    """End a run whose plan has no changes, without a prompt."""
    if options.as_json:
        output.write_json(report)
    output.say(summary(report))
    return status_of(report)


def _show(report: RolloutReport, options: Options) -> None:
    if options.as_json:
        output.write_json(report)
    elif options.dry:
        for line in dry_lines(report):
            sys.stdout.write(f"{line}\n")
    for line in lines(report):
        output.say(line)
