"""The host that an address counts for, where limits are for each host."""

from __future__ import annotations

import socket
from typing import Final

MAPPED: Final = bytes(10) + b"\xff\xff"
NETWORK_BYTES: Final = 8


def counted_host(address: str) -> str:
    """An IPv4 address, as it is; of an IPv6 address its network of 64 bits, in which one machine
    may take any address; what is neither, as it is."""
    try:
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except (OSError, ValueError):
        return address
    if packed.startswith(MAPPED):
        return socket.inet_ntoa(packed[len(MAPPED) :])
    if not any(packed[:NETWORK_BYTES]):  # loopback
        return address
    network = socket.inet_ntop(socket.AF_INET6, packed[:NETWORK_BYTES] + bytes(NETWORK_BYTES))
    return f"{network}/64"
