"""Findings of the doctor: the fault, the host concerned, the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from agent.wire.listing import few

Severity = Literal["error", "warning", "note"]
# The worst first.
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")

INVENTORY: Final = "inventory"
KEYS: Final = "keys"
HERE: Final = "this machine"
# Subjects whose faults may cause those of IADs and hosts.
WIDEST: Final = (INVENTORY, KEYS, HERE)


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
    """The worst first; of one severity what may cause others first: the inventory, keys and this
    machine, then IADs, then hosts."""
    return sorted(
        findings,
        key=lambda f: (SEVERITIES.index(f.severity), _scope(f.subject), f.subject, f.check),
    )


def _scope(subject: str) -> int:
    if subject in WIDEST:
        return WIDEST.index(subject)
    return len(WIDEST) + subject.count("/")
