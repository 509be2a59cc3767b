"""Collects the state of a fleet: queries all masters and hosts in parallel."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from fleet.common.exits import CommandError
from fleet.inspect.facts import gather
from fleet.inspect.facts.diagnosis import Diagnosis, diagnose
from fleet.inspect.facts.facts import Facts
from fleet.inspect.seen import HostSeen, IadSeen
from fleet.inventory.effective import release_of
from fleet.inventory.files import files_of
from fleet.inventory.folder import Folder
from fleet.inventory.model import Iad, Inventory
from fleet.inventory.parties import HostOf
from fleet.keys.store import Store
from fleet.ssh.connect import open_host
from fleet.ssh.errors import HostError
from fleet.ssh.fanout import for_each
from fleet.ssh.masters import SilentError, operator_address, status_of

if TYPE_CHECKING:
    from fabric import Connection

T = TypeVar("T")
MASTERS_AT_A_TIME: Final = 16


class Reach(NamedTuple):
    """How a fleet is looked at."""

    timeout_ms: float  # for a master's reply
    parallel: int  # hosts at a time
    ssh: bool = True
    closely: bool = False  # diagnoses and files too


class Connections:
    """Connections that stay open between two looks; broken ones are reopened."""

    def __init__(self, folder: Folder, fleet: Inventory, *, keep: bool) -> None:
        self._folder, self._fleet, self._keep = folder, fleet, keep
        self._lock = threading.Lock()
        self._open: dict[str, tuple[ExitStack, Connection]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._open):
            self._close(name)

    def with_host(self, host: HostOf, work: Callable[[Connection], T]) -> T:
        """The result of `work` with a connection to `host`; HostError."""
        if not self._keep:
            with open_host(self._folder, self._fleet, host) as connection:
                return work(connection)
        try:
            return work(self._kept(host))
        except BaseException:
            self._close(host.name)
            raise

    def _kept(self, host: HostOf) -> Connection:
        with self._lock:
            found = self._open.get(host.name)
        if found is None:
            stack = ExitStack()
            connection = stack.enter_context(open_host(self._folder, self._fleet, host))
            found = (stack, connection)
            with self._lock:
                self._open[host.name] = found
        return found[1]

    def _close(self, name: str) -> None:
        with self._lock:
            found = self._open.pop(name, None)
        if found is not None:
            with suppress(Exception):  # it is broken; why was told already
                found[0].close()


def ask_iads(iads: Iterable[Iad], folder: Folder, timeout_ms: float) -> list[IadSeen]:
    """The statuses reported by the masters of these IADs."""
    store = Store(folder)
    with ThreadPoolExecutor(MASTERS_AT_A_TIME) as pool:
        return list(pool.map(lambda iad: _ask(iad, store, timeout_ms), iads))


def _ask(iad: Iad, store: Store, timeout_ms: float) -> IadSeen:
    address = operator_address(iad)
    try:
        return IadSeen(iad.name, address, status_of(iad, store, timeout_ms))
    except SilentError as error:
        return IadSeen(iad.name, address, error=str(error))


def look(
    folder: Folder,
    fleet: Inventory,
    hosts: Sequence[HostOf],
    reach: Reach,
    connections: Connections,
    came: Callable[[int], None],
) -> tuple[list[IadSeen], list[HostSeen]]:
    """The state of the IADs of `hosts`, and of the hosts in order; `came` is called with the number
    of results so far."""
    wanted = {host.iad.name: host.iad for host in hosts}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask_iads, wanted.values(), folder, reach.timeout_ms)
        found = _look_at_hosts(fleet, hosts, reach, connections, came) if reach.ssh else {}
        iads = asked.result()
    by_name = {seen.iad: seen for seen in iads}
    store = Store(folder)
    return iads, [
        found.get(host.name, HostSeen(host))._replace(
            iad=by_name[host.iad.name],
            wanted=release_of(fleet, host),
            files=_digests(fleet, host, store) if reach.closely and host.name in found else {},
        )
        for host in hosts
    ]


def _look_at_hosts(
    fleet: Inventory,
    hosts: Sequence[HostOf],
    reach: Reach,
    connections: Connections,
    came: Callable[[int], None],
) -> dict[str, HostSeen]:
    def work(host: HostOf) -> HostSeen:
        return connections.with_host(
            host, lambda connection: _look_at(fleet, host, connection, closely=reach.closely)
        )

    found: dict[str, HostSeen] = {}
    remote = [host for host in hosts if not host.is_local]
    for outcome in for_each(remote, work, parallel=reach.parallel, only_looks=True):
        name = outcome.host.name
        found[name] = outcome.value or HostSeen(outcome.host, error=outcome.error)
        came(len(found))
    return found


def _look_at(fleet: Inventory, host: HostOf, connection: Connection, *, closely: bool) -> HostSeen:
    before_s = time.time()
    facts = gather(connection)
    skew_s = skew(facts, before_s, time.time())
    diagnosis = None
    if closely:
        diagnosis = _diagnosis(fleet, host, connection)
    return HostSeen(host, facts=facts, skew_s=skew_s, diagnosis=diagnosis)


def _diagnosis(fleet: Inventory, host: HostOf, connection: Connection) -> Diagnosis | None:
    unit = host.unit
    try:
        return diagnose(connection, units=[unit], connect=ports_for(fleet, host))
    except HostError as error:
        if error.kind == "lost":
            raise
        return None  # its facts are there all the same


def ports_for(fleet: Inventory, host: HostOf) -> list[tuple[str, int]]:
    """The addresses that a host's agent connects to: a node's master, or a master's peers."""
    if host.node is not None:
        master = host.iad.master
        return [(master.nodes_address or master.address, master.nodes_port)]
    others = [iad.master for iad in fleet.iad if iad is not host.iad]
    return [(master.address, master.public_port) for master in others]


def skew(facts: Facts, before_s: float, after_s: float) -> float | None:
    """Lower bound on how far its clock is ahead of this one, in seconds; negative: behind. Its
    clock was read between the two times."""
    now_s = facts.clock.now_s
    if not now_s:
        return None
    return max(0.0, now_s - after_s) + min(0.0, now_s - before_s)


def _digests(fleet: Inventory, host: HostOf, store: Store) -> dict[str, str]:
    """Digests of the host's desired files, without those whose keys are missing."""
    try:
        files = files_of(fleet, host, store)
    except CommandError:  # told by the checks of the keys
        return {}
    return {file.path: hashlib.sha256(file.content).hexdigest() for file in files}
