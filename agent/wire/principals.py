"""Who sent a message: what a socket knows of the key at its other end."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

# "anyone" came without a key, which only loopback and ipc sockets allow.
Role = Literal["anyone", "client", "node", "operator", "iad", "csp", "mirror"]


class Sender(Struct, frozen=True):
    """The party behind a connection. `name` is the key's name in the allow-list, or what tells one
    connection without a key from another. `services` None: every service. `rate_per_s` None: the
    default of the socket. `host` is told of those without a key; empty: an ipc:// socket's."""

    role: Role
    name: str
    services: tuple[str, ...] | None = None
    rate_per_s: float | None = None
    host: str = ""
