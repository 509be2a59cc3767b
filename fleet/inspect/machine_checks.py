"""Doctor checks of a host's hardware: power, card, clock, memory; pure.

Power and temperature: Raspberry Pi's documentation of `vcgencmd get_throttled` and of "Frequency
management and thermal control" (from 80 °C on the firmware slows the processor down).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from fleet.inspect.facts.facts import Disk, Facts
from fleet.inspect.findings import Finding, Severity, named
from fleet.inspect.seen import HostSeen

HOT_CELSIUS: Final = 80.0
WARM_CELSIUS: Final = 70.0
FULL: Final = 0.03
NEARLY_FULL: Final = 0.10
# A release and its upload.
LEAST_FREE_BYTES: Final = 100 << 20
WORN_PERCENT: Final = 90
SKEW_S: Final = 2.0
LITTLE_MEMORY: Final = 0.05
# Models of the inventory, by the name that the board reports.
BOARDS: Final = {"pi3": "Pi 3", "pi4": "Pi 4", "zero2w": "Zero 2 W"}
# Names that QEMU's machines report that emulate no board.
EMULATED: Final = frozenset({"linux,dummy-virt"})
MACHINES: Final = ("aarch64", "x86_64")


def machine_findings(seen: HostSeen) -> Iterator[Finding]:
    """The findings from a host's facts and kernel log; none without facts."""
    if seen.facts is None:
        return
    for check in CHECKS:
        yield from check(seen, seen.facts)


def _finding(
    seen: HostSeen, severity: Severity, check: str, what: str, remedy: str = ""
) -> Finding:
    return Finding(severity, seen.name, check, what, remedy)


def _power(seen: HostSeen, facts: Facts) -> Iterator[Finding]:
    supply = "a supply of its own with 5.1 V and enough current, and a short thick cable"
    cooler = "air, shade or a heat sink"
    now, before = set(facts.troubles_now), set(facts.troubles_since_boot)
    if "under-voltage" in now:
        yield _finding(seen, "error", "under_voltage", "under-voltage at this moment", supply)
    elif "under-voltage" in before or (seen.diagnosis and seen.diagnosis.power):
        what = "under-voltage since it was started"
        yield _finding(seen, "warning", "under_voltage", what, supply)
    if slow := now - {"under-voltage"}:
        what = f"slowed down at this moment: {', '.join(sorted(slow))}"
        yield _finding(seen, "warning", "throttled", what, cooler)
    elif slow := before - {"under-voltage"}:
        what = f"slowed down since it was started: {', '.join(sorted(slow))}"
        yield _finding(seen, "note", "throttled", what, cooler)


def _temperature(seen: HostSeen, facts: Facts) -> Iterator[Finding]:
    if facts.celsius is not None and facts.celsius >= WARM_CELSIUS:
        severity: Severity = "error" if facts.celsius >= HOT_CELSIUS else "warning"
        what = f"its processor has {facts.celsius:.0f} °C; at {HOT_CELSIUS:.0f} it slows down"
        yield _finding(seen, severity, "temperature", what, "air, shade or a heat sink")


def _disks(seen: HostSeen, facts: Facts) -> Iterator[Finding]:
    for path, disk in facts.disks.items():
        if path == "/boot/firmware" or not disk.total_bytes:
            continue
        yield from _room(seen, path, disk)
        if disk.read_only and _is_written_to(path, facts):
            yield _finding(
                seen,
                "error",
                "read_only",
                f"{path} is mounted read-only; after an error the kernel does that",
                "start it again; if it comes back so, replace the card (`fleet replace`)",
            )
        if disk.life_used_percent is not None and disk.life_used_percent >= WORN_PERCENT:
            yield _finding(
                seen,
                "error" if disk.life_used_percent >= 100 else "warning",
                "worn",
                f"{disk.device} has used {disk.life_used_percent} % of its life",
                "replace it before it fails (`fleet replace`)",
            )


def _room(seen: HostSeen, path: str, disk: Disk) -> Iterator[Finding]:
    share = disk.free_bytes / disk.total_bytes
    free = f"{path} has {disk.free_bytes / 1e6:.0f} MB free of {disk.total_bytes / 1e6:.0f}"
    remedy = "see what is big: `fleet exec --sudo -- du -xh -d2 / | sort -h | tail`"
    if not disk.free_inodes:
        yield _finding(seen, "error", "disk_full", f"{path} has no room for more files", remedy)
    elif disk.free_bytes == 0 or (share < FULL and path != "/tmp"):  # noqa: S108 - its name
        yield _finding(seen, "error", "disk_full", free, remedy)
    elif path == "/" and (share < NEARLY_FULL or disk.free_bytes < LEAST_FREE_BYTES):
        yield _finding(seen, "warning", "disk_full", free, remedy)


def _is_written_to(path: str, facts: Facts) -> bool:
    """Whether the file system holds histories or logs. A root that is read-only on purpose does
    not."""
    return path != "/" or "/var/lib" not in facts.disks


def _card(seen: HostSeen, _facts: Facts) -> Iterator[Finding]:
    if seen.diagnosis and (card := seen.diagnosis.card):
        what = f"the kernel complains about the card: {card[-1].text}"
        remedy = "save what you need, then a new card: `fleet image flash`, `fleet replace`"
        yield _finding(seen, "error", "card", what, remedy)


def _clock(seen: HostSeen, facts: Facts) -> Iterator[Finding]:
    service = seen.diagnosis.time if seen.diagnosis else None
    if facts.clock.synchronised is False:
        what, remedy = "its clock is not synchronised", "`fleet doctor` asks it why"
        if service is not None and not service.service:
            remedy = "install chrony, or start systemd-timesyncd"
        elif service is not None and not service.sources:
            what += f": {service.service} knows no server"
            remedy = "name one that the host reaches, in /etc/chrony/sources.d"
        elif service is not None and not service.answering:
            what += f": no server answers {service.service}"
            remedy = "let it reach UDP port 123, or name another server in /etc/chrony/sources.d"
        elif service is not None:
            remedy = "it has sources: give it minutes; else look at `chronyc tracking` there"
        severity: Severity = "warning"
        if facts.model in EMULATED and seen.skew_s is not None and abs(seen.skew_s) <= SKEW_S:
            # QEMU's clock is that of its host, and correct without a time server.
            severity, remedy = "note", "none is needed: an emulated machine has this one's clock"
        yield _finding(seen, severity, "clock", what, remedy)
    elif service is not None and service.sources and not service.answering:
        what = f"its clock is right still, but no server answers {service.service} any more"
        yield _finding(seen, "warning", "time_server", what, "let it reach UDP port 123")
    if seen.skew_s is not None and abs(seen.skew_s) > SKEW_S:
        way = "ahead of" if seen.skew_s > 0 else "behind"
        what = f"its clock is {abs(seen.skew_s):.0f} s {way} this machine's"
        remedy = "one of the two is wrong: look at both with `timedatectl`"
        yield _finding(seen, "warning", "time_skew", what, remedy)


def _memory(seen: HostSeen, facts: Facts) -> Iterator[Finding]:
    if facts.memory_total_bytes:
        share = facts.memory_available_bytes / facts.memory_total_bytes
        if share < LITTLE_MEMORY:
            what = f"{facts.memory_available_bytes / 1e6:.0f} MB of memory are left"
            remedy = "see who has it: `fleet exec -- ps -eo rss,comm --sort -rss | head`"
            yield _finding(seen, "warning", "memory", what, remedy)


def _board(seen: HostSeen, facts: Facts) -> Iterator[Finding]:
    if facts.machine not in MACHINES:
        what = f"its system is for {facts.machine}; there are releases for {', '.join(MACHINES)}"
        yield _finding(seen, "error", "machine", what, "flash a 64-bit image")
    if seen.host.node is None or not facts.model or facts.model in EMULATED:
        return
    wanted = BOARDS.get(seen.host.node.model)
    if wanted and wanted not in facts.model:
        what = f"the inventory says {seen.host.node.model}, the board {facts.model}"
        yield _finding(seen, "note", "model", what, "correct `model` in fleet.toml")


def _system(seen: HostSeen, facts: Facts) -> Iterator[Finding]:
    if not facts.systemd:
        remedy = "a Debian or Raspberry Pi OS that boots with systemd"
        yield _finding(seen, "error", "systemd", "it does not run systemd", remedy)
    others = [name for name in facts.failed_units if not name.startswith("sanderling-")]
    if others:
        what = f"failed units: {named(others)}"
        remedy = f"`fleet logs tail --unit {others[0]} --limit {seen.name}`"
        yield _finding(seen, "warning", "failed_unit", what, remedy)
    if facts.reboot_required:
        remedy = f"`fleet reboot --limit {seen.name}`"
        yield _finding(seen, "note", "reboot_required", "an update waits for a reboot", remedy)


CHECKS: Final[tuple[Callable[[HostSeen, Facts], Iterator[Finding]], ...]] = (
    _power,
    _temperature,
    _disks,
    _card,
    _clock,
    _memory,
    _board,
    _system,
)
