"""Principals: the authenticated sender of a message, and its role."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

# "anyone" connected without a key, which only loopback and ipc sockets allow.
Role = Literal["anyone", "client", "node", "operator", "iad", "csp", "mirror"]


class Sender(Struct, frozen=True):
    """The party behind a connection. `name` is the key's name in the allow-list, or distinguishes
    connections without keys. `services` None: every service. `rate_per_s` None: the socket's
    default. `host` is set for senders without a key; empty on an ipc:// socket. `areas` are those
    for which a node may speak, with the areas below them; None: every area. `partner`: the operator
    calls this IAD one of its own."""

    role: Role
    name: str
    services: tuple[str, ...] | None = None
    rate_per_s: float | None = None
    host: str = ""
    areas: tuple[str, ...] | None = None
    partner: bool = False
