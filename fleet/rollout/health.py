"""Health gate after a change: the master's view of the host, and a query of its areas. The
decision is pure; `Gate` does the I/O."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec.structs import replace

from agent.client import Client, NoReplyError
from agent.wire.areas import AreaSet
from agent.wire.base import MAX_AREAS
from agent.wire.config import ConfigError
from agent.wire.messages import Answer
from agent.wire.operator import IadStatus, NodeStatus
from fleet.inventory.effective import other_homes
from fleet.inventory.model import Iad, Inventory
from fleet.inventory.parties import HostOf
from fleet.keys.store import KeyStoreError, Store
from fleet.ssh.masters import SilentError, status_of

# Timeout of an answer, and pause between two checks of a host.
STATUS_MS: Final = 2_000.0
QUERY_MS: Final = 5_000.0
# The SLO of the probe query. It tests whether the node answers, not how fast: a tighter SLO would
# make the master of a slow node refuse the query.
PERCENTILE: Final = 50.0
LOOK_S: Final = 0.25
# Window of the probe query; sensors are read at least this often.
WINDOW_S: Final = 600.0
# A newly installed node has no readings for this long after it joined.
FIRST_READING_S: Final = 5.0
# Reasons for a gap that mean that a node did not answer, rather than that it has no data.
SILENT: Final = frozenset({"no_node", "node_down", "timeout", "node_error", "iad_unreachable"})


class Verdict(NamedTuple):
    """Whether a host is healthy; `text` gives the reason if not, or a remark."""

    healthy: bool
    text: str = ""


class Look(NamedTuple):
    """One check of a host through its IAD's master."""

    status: IadStatus | None  # None: the master did not say
    answer: Answer | None = None  # of the probe query, if it was sent
    trouble: str = ""


def state_of(status: IadStatus | None, node: str) -> NodeStatus | None:
    """The node's status at its master."""
    found = status.nodes if status is not None else ()
    return next((each for each in found if each.node == node), None)


def joined(look: Look, node: str, release: str) -> Verdict:
    """Whether the node is connected to its master and runs `release`. Agents from before releases
    had names report none."""
    if look.status is None:
        return Verdict(False, f"its master does not answer: {look.trouble}")
    state = state_of(look.status, node)
    if state is None:
        return Verdict(False, "its master has never seen it")
    if state.state != "live":
        return Verdict(False, f"its master says {state.state}")
    if state.version not in {release, ""}:
        return Verdict(False, f"its master still sees release {state.version}")
    return Verdict(True)


def answered(
    answer: Answer | None, own: Iterable[str], had_data: Callable[[str], bool], joined_s: float
) -> Verdict:
    """Whether the node answers for the areas that only it covers. Having no readings is a fault if
    it had some before; a new node gets time, after which it is only remarked on."""
    if answer is None:
        return Verdict(False, "a query of its areas was not answered")
    if answer.status == "refused":
        return Verdict(False, f"a query of its areas was refused: {answer.message}")
    gaps = {gap.area: gap.reason for gap in answer.missing}
    empty = []
    for area in own:
        reason = gaps.get(area, "")
        if reason in SILENT:
            return Verdict(False, f"a query of {area} is answered with {reason}")
        if reason:
            empty.append(area)
            if had_data(area) or joined_s < FIRST_READING_S:
                return Verdict(False, f"{area} has no readings in the last 10 minutes")
    return Verdict(
        True, f"no readings yet of {', '.join(empty)}: look at its sensors" * bool(empty)
    )


def staying(iad: Iad, live: Iterable[NodeStatus]) -> frozenset[str]:
    """The nodes that come back to a master with the inventory's allow-list: not those that are no
    longer in it, or whose areas it changes. These are let in again once they are deployed to."""
    listed = {node.name: AreaSet(node.areas) for node in iad.node}
    return frozenset(
        node.node
        for node in live
        if node.node in listed and all(map(listed[node.node].covers, node.areas))
    )


def master_back(look: Look, release: str, live_before: frozenset[str]) -> Verdict:
    """Whether a master answers with `release` and has its nodes back."""
    if look.status is None:
        return Verdict(False, f"it does not answer: {look.trouble}")
    if look.status.version not in {release, ""}:
        return Verdict(False, f"it still runs release {look.status.version}")
    live = {node.node for node in look.status.nodes if node.state == "live"}
    away = sorted(live_before - live)
    if away:
        return Verdict(False, f"its nodes {', '.join(away[:5])} have not come back")
    return Verdict(True)


def with_homes(status: IadStatus, elsewhere: Mapping[str, Iterable[IadStatus]]) -> IadStatus:
    """The status with nodes that are at home elsewhere as they are there; `elsewhere` has what
    other masters of each such node say."""
    nodes = {each.node: each for each in status.nodes}
    for name, others in elsewhere.items():
        for other in others:
            if (there := state_of(other, name)) is not None and there.state == "live":
                nodes[name] = there
    return replace(status, nodes=tuple(nodes.values()))


def gates_of(fleet: Inventory, hosts: Iterable[HostOf], store: Store) -> dict[str, Gate]:
    """A gate for the IAD of each host, by name."""
    iads = {host.iad.name: host.iad for host in hosts}
    return {name: Gate(iad, store, homes=other_homes(fleet, iad)) for name, iad in iads.items()}


class Gate:
    """Queries the master of one IAD, and others that may be the home of its nodes. One check at a
    time: its result is shared by all hosts that wait."""

    def __init__(
        self,
        iad: Iad,
        store: Store,
        clock: Callable[[], float] = time.monotonic,
        homes: Mapping[str, tuple[Iad, ...]] | None = None,
    ) -> None:
        self._iad = iad
        self._homes = homes or {}
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = Look(None, trouble="not asked yet")
        self._seen_s = -1e9
        self._empty_before: frozenset[str] = frozenset()
        self._live_before: frozenset[str] = frozenset()

    def remember(self) -> None:
        """Record the state before any change: which nodes are connected, and which have
        readings."""
        look = self._look()
        if look.status is None:
            return
        live = [node for node in look.status.nodes if node.state == "live"]
        self._live_before = staying(self._iad, live)
        areas = sorted({area for node in live for area in node.areas})
        empty: set[str] = set()
        for start in range(0, len(areas), MAX_AREAS):
            with self._lock:
                answer = self._query(areas[start : start + MAX_AREAS])
            if answer is not None:
                empty |= {gap.area for gap in answer.missing}
        self._empty_before = frozenset(empty)

    @property
    def answers(self) -> bool:
        """Whether the master answers at all."""
        return self._look().status is not None

    @property
    def trouble(self) -> str:
        """Why it says nothing."""
        return self._seen.trouble

    def wait(self, host: HostOf, release: str, patience_s: float) -> Verdict:
        """The verdict on a host: as soon as it is healthy, or at the timeout."""
        give_up = self._clock() + patience_s
        since: float | None = None
        while True:
            look = self._look()
            if host.node is None:
                verdict = master_back(look, release, self._live_before)
            else:
                verdict = joined(look, host.node.name, release)
                if verdict.healthy:
                    since = self._clock() if since is None else since
                    verdict = self._probe(host, self._clock() - since)
                else:
                    since = None
            if verdict.healthy or self._clock() >= give_up:
                return verdict
            time.sleep(LOOK_S)

    def _probe(self, host: HostOf, joined_s: float) -> Verdict:
        assert host.node is not None
        others = [node for node in self._iad.node if node.name != host.node.name]
        shared = {area for node in others for area in node.areas}
        own = [area for area in host.node.areas if area not in shared]
        if not own:
            return Verdict(True)
        with self._lock:
            answer = self._query(own)
        known = host.node.name in self._live_before
        return answered(
            answer, own, lambda area: known and area not in self._empty_before, joined_s
        )

    def _look(self) -> Look:
        with self._lock:
            if self._clock() - self._seen_s >= LOOK_S:
                self._seen = self._ask()
                self._seen_s = self._clock()
            return self._seen

    def _ask(self) -> Look:
        try:
            status = status_of(self._iad, self._store, STATUS_MS)
        except SilentError as error:
            return Look(None, trouble=str(error))
        live = {each.node for each in status.nodes if each.state == "live"}
        away = {name: iads for name, iads in self._homes.items() if name not in live}
        said: dict[str, IadStatus] = {}
        for iad in {iad.name: iad for iads in away.values() for iad in iads}.values():
            with suppress(SilentError):
                said[iad.name] = status_of(iad, self._store, STATUS_MS)
        elsewhere = {
            name: [said[iad.name] for iad in iads if iad.name in said]
            for name, iads in away.items()
        }
        return Look(with_homes(status, elsewhere))

    def _query(self, areas: list[str]) -> Answer | None:
        master = self._iad.master
        address = f"tcp://{master.address}:{master.public_port}"
        try:
            with Client(address, self._store.key_files("client", self._iad.name)) as client:
                return client.query(
                    areas,
                    last_s=WINDOW_S,
                    percentile=PERCENTILE,
                    latency_ms=QUERY_MS,
                    form="aggregate",
                    timeout_ms=QUERY_MS,
                    label="deploy",
                )
        except (NoReplyError, ValueError, ConfigError, KeyStoreError):
            return None
