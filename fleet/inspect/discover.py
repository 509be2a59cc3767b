"""Hosts that announce themselves on this network by mDNS, beside those of the inventory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Final

import psutil
from msgspec import Struct
from zeroconf import InterfaceChoice, ServiceBrowser, ServiceInfo, ServiceStateChange, Zeroconf

from fleet.common.exits import CommandError
from fleet.inventory.model import Inventory
from fleet.inventory.parties import hostname_of, hosts

SERVICE: Final = "_sanderling._tcp.local."
# Whoever floods the network with names fills no more than this.
MAX_HEARD: Final = 4_096
ASK_MS: Final = 3_000
KNOWN_ROLES: Final = ("node", "master")


class Heard(Struct, frozen=True, order=True):
    """A host that announced itself. `host` is its name without `.local`, `port` that of its
    sshd."""

    host: str
    addresses: tuple[str, ...]
    port: int
    role: str


class Row(Struct, frozen=True):
    """A host that was heard, and its name in the inventory, empty if it has none there. `moved`:
    the inventory has another address, this one."""

    heard: Heard
    name: str = ""
    moved: str = ""


class Discovered(Struct, frozen=True):
    """All hosts that were heard."""

    hosts: tuple[Row, ...]


def browse(seconds: float, interfaces: Sequence[str] = (), enough: int = MAX_HEARD) -> list[Heard]:
    """The hosts that announce themselves within `seconds`, by name, or until `enough` have; through
    the interfaces with these addresses, or all. CommandError if no interface can be used."""
    found: dict[str, Heard] = {}
    names: set[str] = set()
    changed = threading.Condition()

    def note(zeroconf: Zeroconf, service_type: str, name: str, state_change: object) -> None:
        del zeroconf, service_type
        if state_change is not ServiceStateChange.Removed:
            with changed:
                if len(names) < MAX_HEARD:
                    names.add(name)
                changed.notify()

    own = {each.address for addresses in psutil.net_if_addrs().values() for each in addresses}
    for address in interfaces:
        if address not in own:
            raise CommandError(f"--interface: no interface here has the address {address}")
    try:
        network = Zeroconf(interfaces=list(interfaces) or InterfaceChoice.All)
    except OSError as error:
        raise CommandError(f"mDNS cannot be used here: {error.strerror or error}") from None
    with network:
        browser = ServiceBrowser(network, SERVICE, handlers=[note])
        with changed:
            changed.wait_for(lambda: len(names) >= enough, seconds)
        browser.cancel()
        for name in sorted(names):
            info = network.get_service_info(SERVICE, name, timeout=ASK_MS)
            if info is not None:
                found[name] = _heard(info)
    return sorted(found.values())


def _heard(info: ServiceInfo) -> Heard:
    role = (info.decoded_properties.get("role") or "").lower()
    return Heard(
        host=_printable((info.server or info.name).removesuffix(".").removesuffix(".local")),
        addresses=tuple(info.parsed_scoped_addresses()),
        port=info.port or 0,
        role=role if role in KNOWN_ROLES else "",
    )


def _printable(text: str) -> str:
    """Anybody on the network may say anything."""
    return "".join(each if each.isascii() and each.isprintable() else "?" for each in text)


def rows(heard: Iterable[Heard], fleet: Inventory | None) -> list[Row]:
    """Each host beside the inventory's, found by its host name or address."""
    known = list(hosts(fleet)) if fleet else []
    by_name = {hostname_of(each.name): each for each in known}
    by_name |= {each.address.removesuffix(".local"): each for each in known}
    result = []
    for each in heard:
        places = (each.host.lower(), *each.addresses)
        match = next((by_name[place] for place in places if place in by_name), None)
        if match is None:
            result.append(Row(each))
            continue
        there = {*each.addresses, each.host, f"{each.host}.local"}
        result.append(Row(each, match.name, "" if match.address in there else match.address))
    return result


def entry(row: Row) -> str:
    """Lines for fleet.toml: a new IAD of a master, and of any other host a node, below the IAD that
    it is to belong to."""
    address = row.heard.addresses[0] if row.heard.addresses else f"{row.heard.host}.local"
    if row.heard.role == "master":
        iad = row.heard.host.removesuffix("-master")
        return f'[[iad]]\nname = "{iad}"\n[iad.master]\naddress = "{address}"\n'
    name = row.heard.host.rpartition("-")[2] or row.heard.host
    return (
        f'[[iad.node]]\nname = "{name}"\naddress = "{address}"\n'
        'areas = ["building/floor/room"]  # where it is\n'
    )
