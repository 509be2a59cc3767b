"""Host selection: ``--iad``, ``--group`` and ``--limit``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from fleet.common.exits import CommandError
from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean
from fleet.inventory.parties import HostOf, hosts


class SelectionError(CommandError, ValueError):
    """No host is selected; the text is one line that suggests a similar name."""


def select(
    fleet: Inventory,
    *,
    iads: Sequence[str] = (),
    groups: Sequence[str] = (),
    limit: str = "",
) -> list[HostOf]:
    """The hosts of any of `iads`, in any of `groups`, that match `limit`, in the inventory's order;
    an empty argument does not restrict. Masters are in no group.

    `limit` is a comma-separated list of patterns: ``iad4/n*``, or ``n*`` in any IAD; `master`
    matches masters. Patterns with ``!`` exclude hosts, from all hosts if there are no other
    patterns. SelectionError for a name or pattern that matches nothing, so that a misspelling is
    noticed.
    """
    for name in iads:
        _require(name, [iad.name for iad in fleet.iad], "IAD")
    for name in groups:
        _require(name, [group.name for group in fleet.group], "group")
    chosen = [
        host
        for host in hosts(fleet)
        if (not iads or host.iad.name in iads)
        and (not groups or (host.node is not None and not set(groups).isdisjoint(host.node.groups)))
    ]
    wanted, unwanted = _patterns(limit)
    everybody = [host.name for host in hosts(fleet)]
    for pattern in unwanted:
        _require_match(pattern, everybody, everybody)
    for pattern in wanted:
        _require_match(pattern, [host.name for host in chosen], everybody)
    chosen = [
        host
        for host in chosen
        if (not wanted or any(matches(pattern, host.name) for pattern in wanted))
        and not any(matches(pattern, host.name) for pattern in unwanted)
    ]
    if not chosen:
        raise SelectionError("no host is left by --iad, --group and --limit together")
    return chosen


def one_host(fleet: Inventory, name: str) -> HostOf:
    """The host of this name (``iad4/n3``, ``iad4/master``); SelectionError."""
    everybody = {host.name: host for host in hosts(fleet)}
    if name not in everybody:
        raise SelectionError(f"there is no host {name}; {did_you_mean(name, list(everybody))}")
    return everybody[name]


def matches(pattern: str, host: str) -> bool:
    """Whether a pattern matches a host's name. A ``*`` does not match ``/``."""
    iad, _, own = host.partition("/")
    of_iad, slash, of_own = pattern.rpartition("/")
    return fnmatchcase(own, of_own) and (not slash or fnmatchcase(iad, of_iad))


def _patterns(limit: str) -> tuple[list[str], list[str]]:
    """The patterns that select, and those that exclude."""
    found = [pattern.strip() for pattern in limit.split(",")] if limit.strip() else []
    if not all(pattern.removeprefix("!").strip() for pattern in found):
        raise SelectionError(f"--limit {limit!r} has an empty pattern")
    wanted = [pattern for pattern in found if not pattern.startswith("!")]
    return wanted, [pattern[1:].strip() for pattern in found if pattern.startswith("!")]


def _require(name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        raise SelectionError(f"there is no {what} {name}; {did_you_mean(name, known)}")


def _require_match(pattern: str, chosen: Iterable[str], everybody: Sequence[str]) -> None:
    if any(matches(pattern, name) for name in chosen):
        return
    if any(matches(pattern, name) for name in everybody):
        raise SelectionError(f"--limit {pattern} matches no host of those chosen otherwise")
    if "/" not in pattern and any(matches(f"{pattern}/*", name) for name in everybody):
        raise SelectionError(
            f"--limit {pattern} matches no host; did you mean {pattern}/*, which is all of the IAD?"
        )
    raise SelectionError(f"--limit {pattern} matches no host; {did_you_mean(pattern, everybody)}")
