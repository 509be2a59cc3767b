"""Result of a pull: the document of --json, and the table on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from fleet.common import exits
from fleet.lake.pull.counts import Counts
from fleet.ssh.errors import Kind
from fleet.terminal.units import counted, size

# done: everything was taken; bounded: --max-bytes was reached before; interrupted: by the operator,
# during the pull; skipped: interrupted before its start. All others are errors.
Outcome = Literal["done", "bounded", "interrupted", "skipped"] | Kind
WELL: Final = frozenset({"done", "bounded"})
COUNTED: Final = Counts.__struct_fields__


class HostPulled(Struct, frozen=True):
    """Result of one host; with an `error`, the numbers are what was taken before it."""

    host: str
    outcome: Outcome
    error: str = ""
    remedy: str = ""
    bytes: int = 0
    records: int = 0
    groups: int = 0
    readings: int = 0
    expired_files: int = 0
    expired_groups: int = 0
    expired_readings: int = 0
    seconds: float = 0.0

    @property
    def is_well(self) -> bool:
        """Whether the pull succeeded."""
        return self.outcome in WELL


class Pulled(Struct, frozen=True):
    """Result of a pull; its files in the landing have its name."""

    pull: str
    lake: str
    time: str
    hosts: tuple[HostPulled, ...]
    total: Counts
    seconds: float


def total_of(hosts: Iterable[HostPulled]) -> Counts:
    """All hosts together."""
    total = Counts()
    for host in hosts:
        for name in COUNTED:
            setattr(total, name, getattr(total, name) + getattr(host, name))
    return total


def status_of(hosts: Sequence[HostPulled]) -> int:
    """The exit status."""
    if any(host.outcome in ("interrupted", "skipped") for host in hosts):
        return exits.INTERRUPTED
    if all(host.is_well for host in hosts):
        return exits.DONE
    return exits.FAILED if any(host.is_well for host in hosts) else exits.NOTHING


def cells(host: HostPulled) -> list[str]:
    """A host's row of the table under `HEADER`."""
    return [
        host.host,
        host.outcome.replace("_", " "),
        str(host.records or "–"),
        str(host.readings or "–"),
        _size(host.bytes),
        _expired(host) or "–",
    ]


def _expired(counts: Counts | HostPulled) -> str:
    gone = ((counts.expired_files, "file"), (counts.expired_readings, "reading"))
    return ", ".join(counted(number, what) for number, what in gone if number)


def _size(count: int) -> str:
    if count >= 1_000_000:
        return size(count)
    return f"{max(1.0, count / 1e3):.0f} kB" if count else "–"


HEADER: Final = ("host", "outcome", "records", "readings", "size", "expired")


def lines(pulled: Pulled) -> Iterator[str]:
    """Remarks below the table."""
    for host in pulled.hosts:
        if host.error:
            remedy = f" ({host.remedy})" if host.remedy else ""
            yield f"{host.host}: {host.error}{remedy}"
    if more := sum(host.outcome == "bounded" for host in pulled.hosts):
        where = "1 host" if more == 1 else f"{more} hosts"
        yield f"more is there on {where} than one pull takes: run it again"
    total = pulled.total
    new = f"{counted(total.records, 'record')} and {counted(total.readings, 'reading')}"
    yield f"new in {pulled.lake}: {new} ({pulled.seconds:.1f} s)"
    if any(host.is_well and not host.host.endswith("/master") for host in pulled.hosts):
        yield "a running node's newest readings, ten minutes at 1 Hz, come with a later pull"
    if gone := _expired(total):
        yield f"expired before it was pulled: {gone}; pull more often, or keep more"
