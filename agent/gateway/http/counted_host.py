"""The host that an address counts for, where limits are for each host."""

from __future__ import annotations

import socket
from typing import Final

MAPPED: Final = bytes(10) + b"\xff\xff"
NETWORK_BYTES: Final = 8


def unmapped(address: str) -> str:
    """The IPv4 address that an IPv6 socket shows as one of its own; any other as it is."""
    try:
        packed = socket.inet_pton(socket.AF_INET6, address)
    except (OSError, ValueError):
        return address
    return socket.inet_ntoa(packed[len(MAPPED) :]) if packed.startswith(MAPPED) else address


def without_port(address: str) -> str:
    """The address without the port and brackets that some proxies add: a client has another port
    each time that it connects."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    host, _, port = address.partition(":")
    return address if ":" in port else host


def counted_host(address: str) -> str:
    """An IPv4 address, as it is; of an IPv6 address its network of 64 bits, in which one machine
    may take any address; what is neither, as it is."""
    address = unmapped(address)
    try:
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except (OSError, ValueError):
        return address
    if not any(packed[:NETWORK_BYTES]):  # loopback
        return address
    network = socket.inet_ntop(socket.AF_INET6, packed[:NETWORK_BYTES] + bytes(NETWORK_BYTES))
    return f"{network}/64"
