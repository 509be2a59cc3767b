"""Findings of the doctor: the fault, the host concerned, the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

Severity = Literal["error", "warning", "note"]
# The worst first.
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")


class Finding(Struct, frozen=True):
    """One thing that is wrong. `subject` is a host, an IAD, ``inventory``, ``keys``, or
    ``this machine``; `check` names the kind and stays the same from release to release."""

    severity: Severity
    subject: str
    check: str
    what: str
    remedy: str = ""


class Shared(NamedTuple):
    """The same finding with several subjects; `remedy` is one command for all of them."""

    finding: Finding
    subjects: tuple[str, ...]
    remedy: str


def together(findings: Iterable[Finding]) -> list[Shared]:
    """Findings that differ in their subject alone, as one; the worst first, else in the order of
    the first of each."""
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
    """The first few of them, and how many more there are."""
    more = f" and {len(subjects) - most} more" if len(subjects) > most else ""
    return f"{', '.join(subjects[:most])}{more}"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, and each subject's together."""
    rank = {severity: number for number, severity in enumerate(SEVERITIES)}
    found = list(findings)
    worst: dict[str, int] = {}
    for each in found:
        worst[each.subject] = min(worst.get(each.subject, 9), rank[each.severity])
    return sorted(found, key=lambda f: (worst[f.subject], f.subject, rank[f.severity], f.check))
