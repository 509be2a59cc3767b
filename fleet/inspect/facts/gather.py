"""Reads facts over an SSH connection: sends fleet/on_host, decodes its one JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from fleet.inspect.facts.facts import Facts, parse

if TYPE_CHECKING:
    from fabric import Connection


# They take seconds. A host that trickles them may not hold up a command that waits for all hosts.
MOST_S: Final = 300.0


def gather(connection: Connection) -> Facts:
    """The host's facts; one round trip. HostError."""
    from fleet.ssh.errors import HostError
    from fleet.ssh.remote import run_program

    answer = run_program(connection, {"do": "facts", "root": "/"}, most_s=MOST_S)
    try:
        return parse(answer)
    except msgspec.ValidationError as error:
        raise HostError("failed", f"its facts cannot be read: {error}") from None
