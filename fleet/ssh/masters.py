"""Queries an IAD's master for its status through the operator socket."""

from __future__ import annotations

import socket

from agent.client import NoReplyError, Operator
from agent.wire.operator import IadStatus
from fleet.common.exits import CommandError
from fleet.inventory.model import Iad
from fleet.keys.store import Store


class SilentError(Exception):
    """The master did not answer; one line says why."""


def operator_address(iad: Iad) -> str:
    """Address at which an IAD's master answers operators."""
    return f"tcp://{iad.master.address}:{iad.master.operator_port}"


def status_of(iad: Iad, store: Store, timeout_ms: float) -> IadStatus:
    """Request the status of the master and its nodes. SilentError."""
    address = operator_address(iad)
    try:
        # The keyed connection takes far longer to give up on a closed port.
        place = (iad.master.address, iad.master.operator_port)
        socket.create_connection(place, timeout_ms / 1e3).close()
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        if isinstance(error, ConnectionRefusedError):
            raise SilentError(f"nothing listens at {address}: {why}") from None
        raise SilentError(f"{address} is not reached: {why}") from None
    try:
        with Operator(address, store.key_files("operator", iad.name)) as link:
            return link.status(timeout_ms)
    except (NoReplyError, CommandError, ValueError, OSError) as error:
        raise SilentError(" ".join(str(error).split())) from None
