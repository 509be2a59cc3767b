"""Doctor checks across hosts: keys, IADs, the operator's machine, disagreements; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Final, NamedTuple

from agent.overlay.scot import ScotError
from agent.wire.operator import IadStatus
from fleet.inspect.findings import HERE, INVENTORY, KEYS, Finding, named
from fleet.inspect.machine_checks import SKEW_S
from fleet.inspect.seen import HostSeen, IadSeen
from fleet.inventory.effective import overlay_of
from fleet.inventory.model import Inventory
from fleet.inventory.parties import Party

SOON: Final = timedelta(days=30)
# This many clocks that agree are trusted more than this machine's.
ENOUGH_CLOCKS: Final = 3
# Counters of a master; on their way to others they are sent again.
GIVEN_UP: Final = ("spooled_given_up", "notifications_dropped")
# Only images need them.
IMAGE_TOOLS: Final = ("mmdebstrap", "qemu-aarch64-static", "mcopy", "bmaptool")


class KeySeen(NamedTuple):
    """A party's key; `expires` is None if it does not expire."""

    party: Party
    expires: datetime | None
    revoked: bool = False


def key_findings(keys: Sequence[KeySeen], now: datetime) -> Iterator[Finding]:
    """Keys that are missing, expired or about to, or revoked."""
    missing = [str(key.party) for key in keys if key.expires is None and not key.revoked]
    if missing:
        what = f"no key: {named(missing)}"
        yield Finding("error", KEYS, "key_missing", what, "`fleet keys init`, `fleet deploy`")
    for key in keys:
        who = str(key.party)
        if key.revoked:
            what = f"{who} was revoked and is in the inventory still"
            remedy = f"take it out of fleet.toml, or `fleet keys reinstate {key.party.name}`"
            yield Finding("note", KEYS, "key_revoked", what, remedy)
        elif key.expires is not None and key.expires <= now + SOON:
            over = key.expires <= now
            word = "expired" if over else "expires"
            what = f"the key of {who} {word} on {key.expires:%Y-%m-%d}"
            severity = "error" if over else "warning"
            yield Finding(severity, KEYS, "key_expires", what, "`fleet keys rotate`")  # type: ignore[arg-type]  # one of the two


def machine_here(tools: Collection[str], hosts: Sequence[HostSeen]) -> Iterator[Finding]:
    """Faults of the operator's machine, which has `tools`; its clock is compared with those of
    synchronised hosts."""
    clocks = [
        seen.skew_s
        for seen in hosts
        if seen.facts and seen.facts.clock.synchronised and seen.skew_s is not None
    ]
    if len(clocks) >= ENOUGH_CLOCKS and abs(middle := median(clocks)) > SKEW_S:
        way = "behind" if middle > 0 else "ahead of"
        what = f"its clock is {abs(middle):.0f} s {way} those of {len(clocks)} synchronised hosts"
        yield Finding("error", HERE, "clock_here", what, "set it: `timedatectl set-ntp true`")
    missing = [tool for tool in IMAGE_TOOLS if tool not in tools]
    if missing:
        what = f"{', '.join(missing)} missing; only `fleet image` needs them"
        remedy = "apt install mmdebstrap qemu-user-static mtools bmap-tools"
        yield Finding("note", HERE, "tools", what, remedy)


def iad_findings(
    fleet: Inventory, iads: Sequence[IadSeen], hosts: Sequence[HostSeen]
) -> Iterator[Finding]:
    """Masters that do not answer, do not reach each other, or have other nodes than the
    inventory."""
    down = {seen.host.iad.name for seen in hosts if seen.host.node is None and seen.error}
    inventory = {iad.name: {node.name for node in iad.node} for iad in fleet.iad}
    local = {iad.name for iad in fleet.iad if iad.master.local}
    neighbours = _neighbours(fleet)
    for seen in iads:
        if seen.status is None:
            remedy = f"`fleet logs tail --limit {seen.iad}/master`"
            if seen.iad in local:
                remedy = (
                    f"start it here: sanderling-master --config masters/{seen.iad}/master.toml, "
                    f"which `fleet deploy --limit {seen.iad}/master` writes"
                )
            elif seen.iad in down:
                remedy = "its host is not reached either: begin there"
            what = f"its master does not answer: {seen.error}"
            yield Finding("error", seen.iad, "master_silent", what, remedy)
            continue
        for other in seen.status.unreachable_iads:
            what = f"its master does not reach the one of {other}"
            remedy = "is that one running, are the ports open, was either deployed with old keys?"
            yield Finding("error", seen.iad, "iad_unreachable", what, remedy)
        yield from _overlay(seen.iad, seen.status, neighbours.get(seen.iad, ()))
        yield from _lost(seen.iad, seen.status)
        for node in seen.status.nodes:
            if node.node not in inventory[seen.iad] and node.state == "live":
                what = f"node {node.node} is live, but not in the inventory"
                remedy = "add it to fleet.toml, or put it out of service"
                yield Finding("warning", seen.iad, "stranger", what, remedy)


def _neighbours(fleet: Inventory) -> Mapping[str, Sequence[str]]:
    """The neighbours in the overlay, by IAD; none if the inventory has no overlay, or a wrong
    one."""
    if (plan := overlay_of(fleet)) is None:
        return {}
    try:
        return {iad: plan.neighbours(iad) for iad in plan.places}
    except (KeyError, ScotError):
        return {}


def _overlay(iad: str, status: IadStatus, neighbours: Sequence[str]) -> Iterator[Finding]:
    missing = len(neighbours) - status.counters.get("overlay_links_up", len(neighbours))
    if missing > 0:
        what = f"{missing} of its {len(neighbours)} links in the overlay are down"
        remedy = f"is each of {named(neighbours)} running, are the ports open, the keys deployed?"
        yield Finding("error", iad, "overlay_link", what, remedy)


def _lost(iad: str, status: IadStatus) -> Iterator[Finding]:
    """Losses since the master's start."""
    tail = f"`fleet logs tail --limit {iad}/master`"
    if records := status.counters.get("records_lost", 0):
        what = f"{records} of its records were lost: its disk was full, slow or refused them"
        yield Finding("warning", iad, "records_lost", what, f"the master's disk; {tail}")
    if given_up := sum(status.counters.get(name, 0) for name in GIVEN_UP):
        what = f"{given_up} notifications were given up: a subscriber was away for too long"
        yield Finding("note", iad, "notifications_given_up", what, "subscribers learn of each gap")


def between_hosts(hosts: Sequence[HostSeen], sources: str) -> Iterator[Finding]:
    """Faults that only a comparison of hosts shows: two names for one machine, several releases in
    use. `sources` is the release that these sources would make; empty: unknown."""
    machines: dict[str, list[str]] = {}
    for seen in hosts:
        if seen.facts and seen.facts.boot_id:
            machines.setdefault(seen.facts.boot_id, []).append(seen.name)
    for names in machines.values():
        for name in names[1:]:
            what = f"the same machine as {names[0]}: both addresses lead to it"
            yield Finding("error", name, "same_machine", what, "correct `address` in fleet.toml")
    yield from _releases(hosts, sources)


def _releases(hosts: Sequence[HostSeen], sources: str) -> Iterator[Finding]:
    free = [seen for seen in hosts if seen.release and not seen.wanted]
    counts: Mapping[str, int] = {
        release: sum(seen.release == release for seen in free)
        for release in dict.fromkeys(seen.release for seen in free)
    }
    if len(counts) > 1:
        told = ", ".join(f"{release} on {count}" for release, count in counts.items())
        what = f"hosts run different releases: {told}"
        yield Finding("warning", INVENTORY, "releases", what, "`fleet deploy`, or set `release`")
    elif sources and counts and sources not in counts:
        what = f"hosts run {next(iter(counts))}; these sources make {sources}"
        remedy = "`fleet deploy` when you want it, or pin with `releases.pin`"
        yield Finding("note", INVENTORY, "sources", what, remedy)
