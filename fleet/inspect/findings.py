"""Findings of the doctor: the fault, the host concerned, the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from agent.wire.listing import few

Severity = Literal["error", "warning", "note"]
# The worst first.
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")


class Finding(Struct, frozen=True):
    """One fault. `subject` is a host, an IAD, ``inventory``, ``keys``, or ``this machine``; `check`
    names the kind of fault and is stable across releases."""

    severity: Severity
    subject: str
    check: str
    what: str
    remedy: str = ""


class Shared(NamedTuple):
    """The same finding for several subjects; `remedy` is one command for all of them."""

    finding: Finding
    subjects: tuple[str, ...]
    remedy: str


def together(findings: Iterable[Finding]) -> list[Shared]:
    """Merge findings that differ only in their subject; the worst first, otherwise in order of
    first appearance."""
    found: dict[tuple[str, str, str, str], list[Finding]] = {}
    for each in findings:
        remedy = each.remedy.replace(each.subject, "\0")
        key = (each.severity, each.check, each.what.replace(each.subject, "\0"), remedy)
        found.setdefault(key, []).append(each)
    shared = []
    for (_, _, _, remedy), alike in found.items():
        subjects = tuple(dict.fromkeys(each.subject for each in alike))
        shared.append(Shared(alike[0], subjects, remedy.replace("\0", ",".join(subjects))))
    return sorted(shared, key=lambda each: SEVERITIES.index(each.finding.severity))


def named(subjects: Sequence[str], most: int = 6) -> str:
    """The first few names, and the number of the others."""
    return few(subjects, most)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sorted by severity, with each subject's findings together."""
    rank = {severity: number for number, severity in enumerate(SEVERITIES)}
    found = list(findings)
    worst: dict[str, int] = {}
    for each in found:
        worst[each.subject] = min(worst.get(each.subject, 9), rank[each.severity])
    return sorted(found, key=lambda f: (worst[f.subject], f.subject, rank[f.severity], f.check))
