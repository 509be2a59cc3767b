"""`fleet doctor`: finds faults of a fleet and names the remedy for each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from agent.wire import config
from agent.wire.config import ConfigError
from fleet.common import exits
from fleet.common.exits import CommandError
from fleet.inspect.agent_checks import agent_findings
from fleet.inspect.findings import (
    HERE,
    INVENTORY,
    KEYS,
    SEVERITIES,
    Finding,
    in_order,
    together,
)
from fleet.inspect.fleet_checks import (
    IMAGE_TOOLS,
    KeySeen,
    between_hosts,
    iad_findings,
    key_findings,
    machine_here,
)
from fleet.inspect.look import Connections, Reach, look
from fleet.inspect.machine_checks import machine_findings
from fleet.inspect.seen import HostSeen, IadSeen
from fleet.inspect.status_table import finding_line
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import parties
from fleet.inventory.problems import problems
from fleet.inventory.selection import select
from fleet.keys.store import Store
from fleet.terminal import screen
from fleet.terminal.output import say, write_json


class DoctorReport(Struct, frozen=True):
    """The document of `fleet doctor --json`, the worst findings first. `asked` is the number of
    hosts examined; `answered` counts those that accepted a login, and this machine if its master
    answers."""

    fleet: str
    time: str
    asked: tuple[str, ...]
    answered: int
    findings: tuple[Finding, ...]


def run(
    folder: Folder,
    iads: Sequence[str],
    groups: Sequence[str],
    limit: str,
    reach: Reach,
    *,
    as_json: bool,
) -> int:
    """Examine the fleet and print the findings on stdout; returns the exit status."""
    try:
        fleet = config.load(folder.inventory, Inventory)
    except ConfigError as error:
        return exits.fail(str(error), exits.USAGE)
    hosts = select(fleet, iads=iads, groups=groups, limit=limit)
    findings = [
        Finding("error", INVENTORY, "inventory", line, "correct it in fleet.toml")
        for line in problems(fleet)
    ]
    to = screen.progress()
    with (
        Connections(folder, fleet, keep=False) as connections,
        to.status(f"looking at {len(hosts)} hosts …") as shown,
    ):
        seen_iads, seen = look(
            folder,
            fleet,
            hosts,
            reach,
            connections,
            lambda count: shown.update(f"looked at {count} of {len(hosts)} hosts …"),
        )
    findings += _of_fleet(folder, fleet, seen_iads, seen)
    for each in seen:
        findings += [*agent_findings(each), *machine_findings(each)]
    report = DoctorReport(
        fleet.name,
        f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        tuple([host.name for host in hosts]),
        sum(map(answered, seen)),
        tuple(in_order(findings)),
    )
    if as_json:
        write_json(report)
    else:
        show(report)
    return status_of(report, seen_iads)


def answered(seen: HostSeen) -> bool:
    """Whether a host could be examined; there is no login to this machine, whose master is queried
    instead."""
    here = seen.host.is_local and seen.iad is not None and seen.iad.status is not None
    return seen.facts is not None or here


def status_of(report: DoctorReport, iads: Sequence[IadSeen]) -> int:
    """0 if there are no findings, 1 if there are, 5 if no host could be reached."""
    if not report.answered and not any(seen.status for seen in iads):
        return exits.NOTHING
    wrong = any(finding.severity != "note" for finding in report.findings)
    return exits.FAILED if wrong else exits.DONE


def _of_fleet(
    folder: Folder, fleet: Inventory, iads: Sequence[IadSeen], hosts: Sequence[HostSeen]
) -> Iterator[Finding]:
    try:
        yield from key_findings(_keys(folder, fleet), datetime.now(UTC))
    except CommandError as error:
        yield Finding("error", KEYS, "key_store", str(error))
    yield from machine_here([tool for tool in IMAGE_TOOLS if shutil.which(tool)], hosts)
    if not shutil.which("git"):
        yield Finding("note", HERE, "tools", "git is missing", "apt install git")
    yield from iad_findings(fleet, iads, hosts)
    yield from between_hosts(hosts, _sources())


def _keys(folder: Folder, fleet: Inventory) -> list[KeySeen]:
    store = Store(folder)
    revoked = {each.party for each in store.revocations()}
    found = []
    for party in parties(fleet):
        keys = store.keys(party)
        found.append(KeySeen(party, keys[0].expires if keys else None, party in revoked))
    return found


def _sources() -> str:
    """The release that these sources would make; empty if unknown."""
    from fleet.release.sources import checkout, read

    try:
        return read(checkout()).release
    except (CommandError, OSError):
        return ""


def show(report: DoctorReport) -> None:
    """Print one line per finding, and their number."""
    to = screen.console()
    for shared in together(report.findings):
        screen.line(to, finding_line(shared))
    counts = {
        severity: sum(finding.severity == severity for finding in report.findings)
        for severity in SEVERITIES
    }
    told = ", ".join(
        f"{count} {severity}{'s' * (count > 1)}" for severity, count in counts.items() if count
    )
    say(f"looked at {report.answered} of {len(report.asked)} hosts: {told or 'nothing is wrong'}")
