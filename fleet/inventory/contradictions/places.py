"""Validation of addresses and ports, and of the reachability of masters."""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from fleet.inventory.effective import port_of, visitors
from fleet.inventory.model import Iad, Inventory, Master
from fleet.inventory.parties import HostOf, hosts

SSHD: Final = 22
DOTTED: Final = re.compile(r"[0-9]+(\.[0-9]+){3}")  # no host is called so
PORTS: Final = ("public_port", "nodes_port", "operator_port")


class _Machine(NamedTuple):
    """The target of an SSH login; the operator's own machine has no port."""

    address: str
    ssh_port: int


LOCAL: Final = _Machine("the operator's machine", 0)


def check(fleet: Inventory) -> Iterator[str]:
    """Hosts that share an address, ports used twice, masters that cannot be reached."""
    for host in hosts(fleet):
        yield from _form(host)
    yield from _same_place(fleet)
    yield from _ports(fleet)
    visiting = visitors(fleet)
    for iad in fleet.iad:
        yield from _out_of_reach(fleet, iad, visiting.get(iad.name, []))


def emulated(fleet: Inventory) -> Iterator[str]:
    """Nodes that seem to be emulated on the operator's machine, where their loopback address does
    not reach their master."""
    for iad in fleet.iad:
        if not loopback(iad.master.nodes_address or iad.master.address):
            continue
        for node in iad.node:
            host = HostOf(iad, node)
            if loopback(node.address) and (node.model != "host" or port_of(fleet, host) != SSHD):
                yield (
                    f"{host.name}: if {node.address}, port {port_of(fleet, host)}, is an emulated "
                    f"machine, it needs nodes_address in {iad.name}'s [iad.master]: 10.0.2.2 with "
                    "QEMU's user network"
                )


def loopback(address: str) -> bool:
    """Whether an address refers to the host that uses it."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _form(host: HostOf) -> Iterator[str]:
    keys = ("address",) if host.node else ("address", "listen", "nodes_address")
    for key in keys:
        address = getattr(host.entry, key)
        if address is None:
            continue
        if ":" not in address:
            if DOTTED.fullmatch(address) and not _is_address(address):
                yield f"{host.name}: {key} is {address}, which is no IPv4 address"
            elif key != "listen" and _is_no_hosts(address):
                bound = "" if host.node else " (listen has where its sockets are bound)"
                yield (
                    f"{host.name}: {key} is {address}, which is no host's; write the one that "
                    f"others connect to{bound}"
                )
            continue
        name, _, port = address.rpartition(":")
        if ":" not in name:
            yield (
                f"{host.name}: {key} is {address}; write {name}, and port = {port} if that is "
                "where its sshd listens"
            )
        elif not _is_address(address):
            yield f"{host.name}: {key} is {address}, which is no IPv6 address"
        elif host.node is None:
            yield f"{host.name}: {key} is {address}; agents speak IPv4, so write such an address"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_no_hosts(text: str) -> bool:
    """Whether it is an address of any host, of many or of none; to connect to 0.0.0.0 reaches the
    host itself."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    broadcast = ipaddress.ip_address("255.255.255.255")
    return address.is_unspecified or address.is_multicast or address == broadcast


def _machine(fleet: Inventory, host: HostOf) -> _Machine:
    if host.is_local:
        return LOCAL
    return _Machine(host.address.lower(), port_of(fleet, host))


def _same_place(fleet: Inventory) -> Iterator[str]:
    """A host may run one node's agent and its own IAD's master, but no other two agents."""
    there: dict[_Machine, list[HostOf]] = {}
    for host in hosts(fleet):
        machine = _machine(fleet, host)
        if machine is not LOCAL:
            there.setdefault(machine, []).append(host)
    for machine, found in there.items():
        for a, b in itertools.pairwise(found):
            alone = (a.node is None) == (b.node is None)
            if alone or a.iad is not b.iad:
                yield (
                    f"{a.name} and {b.name} have the same address, {machine.address} (port "
                    f"{machine.ssh_port}); only a master and one node of its IAD may share a host"
                )


def _ports(fleet: Inventory) -> Iterator[str]:
    users: dict[tuple[_Machine | str, int], str] = {}
    for host in hosts(fleet):
        machine = _machine(fleet, host)
        wanted: list[tuple[_Machine | str, int, str]] = []
        if isinstance(master := host.entry, Master):
            for key in PORTS:
                port = getattr(master, key)
                wanted.append((machine, port, f"{key} of {host.name}"))
                # Two machines may also be two ports of one address.
                wanted.append((master.address.lower(), port, f"{key} of {host.name}"))
        if host.entry.metrics is not None and host.entry.metrics.address:
            port = int(host.entry.metrics.address.rpartition(":")[2])
            wanted.append((machine, port, f"metrics.address of {host.name}"))
        for place, port, user in wanted:
            other = users.setdefault((place, port), user)
            if other != user:
                yield f"port {port} is {other} and {user}: give one of them another"


def _out_of_reach(fleet: Inventory, iad: Iad, visiting: list[HostOf]) -> Iterator[str]:
    master = iad.master
    if loopback(master.listen) and not loopback(master.address) and master.nodes_address is None:
        yield (
            f"{iad.name}/master listens on {master.listen} only, where nobody reaches "
            f"{master.address}: leave `listen` out"
        )
    for_nodes = master.nodes_address or master.address
    nodes = [HostOf(iad, node) for node in iad.node] + visiting
    far = [
        host.name for host in nodes if not loopback(host.address) and host.address != master.address
    ]
    if loopback(for_nodes) and far:
        more = f" and {len(far) - 1} more" if far[1:] else ""
        yield (
            f"{far[0]}{more}: its master is at {for_nodes}, which to a node is the node "
            f"itself; set nodes_address in {iad.name}'s [iad.master] to where nodes reach it"
        )
    if loopback(master.address):
        others = [i.name for i in fleet.iad if not loopback(i.master.address)]
        if others:
            yield (
                f"{iad.name}/master: its address is {master.address}, where the master of "
                f"{others[0]} cannot reach it; write one that holds for all hosts"
            )
