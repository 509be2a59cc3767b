"""Networks for real masters: all on loopback, or each in a network namespace of its own, with a
bridge between them and iLinks of limited bandwidth."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

from fleet.inventory.overlay_plan import OverlayPlan
from fleet.testbed.ports import free_address
from fleet.testbed.processes import Child, Leash, stop

TOOLS: Final = ("ip", "tc", "nsenter", "unshare")
PORT: Final = 5700
# Cluster and vertex are the last two bytes of an address.
NETWORK: Final = "10.213"
HUB: Final = f"{NETWORK}.255.1"
BRIDGE: Final = "bridge"
INSIDE: Final = "e0"
# A whole packet, because a smaller bucket would never send one.
BURST_BYTES: Final = 3_000
QUANTUM_BYTES: Final = 1_514
FREE: Final = "10gbit"
# Time by which a process in a namespace of its own has started.
PATIENCE_S: Final = 10.0


class NetworkError(RuntimeError):
    """Links cannot be limited here; one line says why."""


class Network(Protocol):
    """Addresses of masters, and the command prefix that runs a process in a master's network."""

    @property
    def clients(self) -> Sequence[str]:
        """Prefix that starts a process in the clients' network."""

    def address(self, iad: str) -> str:
        """Address of a master's public socket."""

    def enter(self, iad: str, /) -> Sequence[str]:
        """Prefix that starts a process in that master's network."""


class Loopback:
    """Every master at a port of 127.0.0.1: no link is limited."""

    clients: Sequence[str] = ()

    def __init__(self, plan: OverlayPlan) -> None:
        self._addresses = {iad: free_address() for iad in plan.places}

    def address(self, iad: str) -> str:
        """A free port."""
        return self._addresses[iad]

    def enter(self, _iad: str, /) -> Sequence[str]:
        """No prefix: it is this network."""
        return ()


class Namespaces:
    """Each master in a network namespace, all on one bridge; each sends to a secondary neighbour
    with `i_link_bytes_s`, headers included, and to all others at full speed.

    A namespace lives as long as a process in it, and that process as long as the leash: nothing is
    left on this host, however this process ends. NetworkError if namespaces are not permitted.
    """

    def __init__(
        self, plan: OverlayPlan, i_link_bytes_s: float, folder: Path, leash: Leash
    ) -> None:
        self._tools = _tools()
        self._folder = folder
        self._leash = leash
        folder.mkdir(parents=True, exist_ok=True)
        vertices = {vertex: number for number, vertex in enumerate(plan.scot.vertices, 1)}
        self._ips = {
            iad: f"{NETWORK}.{place.cluster}.{vertices[place.vertex]}"
            for iad, place in plan.places.items()
        }
        self._held: list[Child] = []
        try:
            hub, *others = self._hold(["hub", *plan.places])
            self._holders = dict(zip(plan.places, others, strict=True))
            self.clients = self._entering(hub)
            self._bridge()
            for iad, place in plan.places.items():
                short = [self._ips[plan.iads[each]] for each in plan.scot.region_neighbours(place)]
                known = [HUB, *(self._ips[each] for each in plan.neighbours(iad))]
                self._inside(iad, known, shaping(short, i_link_bytes_s))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes that hold the namespaces."""
        stop(self._held, PATIENCE_S)

    def address(self, iad: str) -> str:
        """The address within its namespace."""
        return f"tcp://{self._ips[iad]}:{PORT}"

    def enter(self, iad: str, /) -> Sequence[str]:
        """Prefix that enters its namespace."""
        return self._entering(self._holders[iad])

    def _entering(self, holder: Child) -> list[str]:
        return [self._tools["nsenter"], f"--net=/proc/{holder.pid}/ns/net", "--"]

    def _hold(self, names: Sequence[str]) -> list[Child]:
        """A process for each namespace."""
        command = [self._tools["unshare"], "--net", "--", "cat"]
        for name in names:
            log = self._folder / f"{name}.log"
            self._held.append(Child(f"net-{name}", command, log, self._leash))
        here = os.readlink("/proc/self/ns/net")  # noqa: PTH115 - no path
        give_up_s = time.monotonic() + PATIENCE_S
        for child in self._held:
            while not child.running or os.readlink(f"/proc/{child.pid}/ns/net") == here:  # noqa: PTH115
                if not child.running or time.monotonic() > give_up_s:
                    raise NetworkError(f"no network namespaces: {child.how_it_ended()}")
                time.sleep(0.01)
        return self._held

    def _bridge(self) -> None:
        lines = [f"link add {BRIDGE} address {_mac(HUB)} type bridge", "link set lo up"]
        lines += [f"addr add {HUB}/16 dev {BRIDGE}", f"link set {BRIDGE} up"]
        for number, (iad, holder) in enumerate(self._holders.items()):
            peer = f"name {INSIDE} address {_mac(self._ips[iad])} netns {holder.pid}"
            lines.append(f"link add v{number} type veth peer {peer}")
            lines.append(f"link set v{number} master {BRIDGE} up")
        self._batch(self.clients, "ip", [*lines, *_neighbours(self._ips.values(), BRIDGE)])

    def _inside(self, iad: str, others: Sequence[str], shaped: Sequence[str]) -> None:
        lines = [f"addr add {self._ips[iad]}/16 dev {INSIDE}", f"link set {INSIDE} up"]
        lines += ["link set lo up", *_neighbours(others, INSIDE)]
        self._batch(self.enter(iad), "ip", lines)
        self._batch(self.enter(iad), "tc", shaped)

    def _batch(self, enter: Sequence[str], tool: str, lines: Sequence[str]) -> None:
        done = subprocess.run(
            [*enter, self._tools[tool], "-batch", "-"],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            said = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
            raise NetworkError(f"{tool} is not permitted, or this kernel lacks it: {said}")


def shaping(short: Sequence[str], bytes_s: float) -> list[str]:
    """Lines for tc(8): traffic to each of these addresses has that bandwidth, each its own."""
    lines = [
        f"qdisc add dev {INSIDE} root handle 1: htb default 1",
        f"class add dev {INSIDE} parent 1: classid 1:1 htb rate {FREE} quantum 60000",
    ]
    for number, address in enumerate(short, 16):
        lines.append(
            f"class add dev {INSIDE} parent 1: classid 1:{number:x} htb rate {bytes_s * 8:.0f}bit "
            f"burst {BURST_BYTES} cburst {BURST_BYTES} quantum {QUANTUM_BYTES}"
        )
        lines.append(
            f"filter add dev {INSIDE} parent 1: protocol ip prio 1 u32 match ip dst {address}/32 "
            f"flowid 1:{number:x}"
        )
    return lines


def _mac(ip: str) -> str:
    return ":".join(("02", "00", *(f"{int(each):02x}" for each in ip.split("."))))


def _neighbours(ips: Iterable[str], device: str) -> list[str]:
    # The kernel's table of resolved neighbours has 1,024 places for all namespaces together.
    return [f"neigh add {ip} lladdr {_mac(ip)} dev {device} nud permanent" for ip in ips]


def _tools() -> dict[str, str]:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    found = {name: shutil.which(name, path=path) or "" for name in TOOLS}
    if missing := [name for name, at in found.items() if not at]:
        raise NetworkError(f"no {', '.join(missing)}: apt-get install iproute2 util-linux")
    if os.geteuid() != 0:
        raise NetworkError("network namespaces and tc need root")
    return found
