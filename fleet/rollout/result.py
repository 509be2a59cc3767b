"""Result of a deployment: the document of --json, and the lines on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from agent.wire.listing import few
from fleet.common import exits
from fleet.rollout.events import Outcome
from fleet.ssh.errors import REMEDIES, Kind
from fleet.terminal import units
from fleet.terminal.output import printable

WORDS: Final[dict[Outcome, str]] = {
    "changed": "changed",
    "unchanged": "unchanged",
    "rolled_back": "rolled back",
    "failed": "failed",
    "lost": "lost",
    "skipped": "not begun",
}
# Maximum number of hosts of one outcome that the summary names.
NAMED: Final = 4
GOOD: Final = frozenset({"changed", "unchanged"})


class HostReport(msgspec.Struct, frozen=True):
    """Result of one host. `note` is a remark although it succeeded."""

    host: str
    outcome: Outcome
    release: str = ""
    before: str = ""
    kind: Kind | None = None
    reason: str = ""
    remedy: str = ""
    note: str = ""
    changes: tuple[str, ...] = ()
    seconds: float = 0.0


class RolloutReport(msgspec.Struct, frozen=True):
    """Result of a run; `stopped` says why it was stopped early. `dry`: nothing was changed."""

    run: str
    dry: bool
    hosts: tuple[HostReport, ...]
    counts: dict[str, int]
    seconds: float
    stopped: str = ""


def counted(hosts: Iterable[HostReport]) -> dict[str, int]:
    """The number of hosts by outcome; outcomes without hosts are left out."""
    found = Counter(host.outcome for host in hosts)
    return {outcome: found[outcome] for outcome in WORDS if found[outcome]}


def status_of(report: RolloutReport) -> int:
    """The exit status."""
    outcomes = {host.outcome for host in report.hosts}
    if report.stopped == "interrupted":
        return exits.INTERRUPTED
    if outcomes <= GOOD:
        return exits.DONE
    return exits.FAILED if outcomes & (GOOD | {"rolled_back", "lost"}) else exits.NOTHING


def lines(report: RolloutReport) -> Iterator[str]:
    """One line per host that did not succeed, then the summary."""
    yield from failures(report)
    for host in report.hosts:
        if host.note and host.outcome in GOOD | {"skipped"}:
            yield f"{host.host}: {host.note}"
    if report.stopped:
        yield f"stopped: {report.stopped}"
    yield summary(report)


def failures(report: RolloutReport) -> Iterator[str]:
    """One line per host that did not succeed."""
    for host in report.hosts:
        if host.outcome not in GOOD | {"skipped"}:
            yield failure_line(host)


def summary(report: RolloutReport) -> str:
    """One line for all hosts, with names where they say more than numbers."""
    several = len(report.counts) > 1
    told = ", ".join(
        f"{number} {WORDS[name]}{_names(report, name) * several}"
        for name, number in _items(report.counts)
    )
    if report.counts == {"unchanged": len(report.hosts)}:
        told = f"nothing to do: {units.counted(len(report.hosts), 'host')} up to date"
    elif report.dry:
        told = told.replace("changed", "to change", 1) if "changed" in report.counts else told
    return f"{told} ({report.seconds:.1f} s)"


def _names(report: RolloutReport, outcome: Outcome) -> str:
    """The names of the hosts with this outcome; of many, the first few."""
    names = [host.host for host in report.hosts if host.outcome == outcome]
    return f" ({few(names, NAMED)})"


def failure_line(host: HostReport) -> str:
    """The host, the failed step, the reason and the remedy."""
    remedy = f" ({host.remedy})" if host.remedy else ""
    kind = host.kind.replace("_", " ") if host.kind else ""
    what = WORDS[host.outcome]
    kind = f" [{kind}]" if kind and kind not in {"failed", what} else ""
    return f"{host.host}: {what}{kind}: {host.reason}{remedy}"


def remedy_of(kind: Kind | None) -> str:
    """The usual remedy."""
    return REMEDIES[kind] if kind else ""


def dry_lines(report: RolloutReport) -> Iterator[str]:
    """The changes of a dry run; hosts with the same changes share a line."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for host in report.hosts:
        if host.outcome == "changed":
            alike.setdefault(host.changes, []).append(host.host)
    for changes, names in alike.items():
        yield f"{', '.join(names)}:"
        for change in changes:
            yield f"  {printable(change)}"  # names of releases and files are the host's words


def _items(counts: dict[str, int]) -> Iterator[tuple[Outcome, int]]:
    for outcome in WORDS:
        if number := counts.get(outcome):
            yield outcome, number
