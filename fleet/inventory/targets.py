"""The selected hosts that are reached over SSH."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.inventory.selection import select
from fleet.terminal.output import say


def chosen(
    folder: Folder, iads: Sequence[str], groups: Sequence[str], limit: str
) -> tuple[Inventory, list[HostOf]]:
    """The inventory, and the hosts that the options select; ConfigError, SelectionError."""
    fleet = load(folder)
    return fleet, select(fleet, iads=iads, groups=groups, limit=limit)


def logged_in_to(hosts: Sequence[HostOf]) -> list[HostOf]:
    """Those of `hosts` that are reached over SSH; prints the others."""
    local = [host.name for host in hosts if host.is_local]
    if local:
        say(f"left out, since nobody logs in there: {', '.join(local)}, on this machine itself")
    return [host for host in hosts if not host.is_local]


@contextmanager
def until_interrupted() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets before KeyboardInterrupt is raised, so that threads end their
    current work."""
    stop = threading.Event()

    def interrupted(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield stop
    finally:
        stop.set()
        signal.signal(signal.SIGINT, before)
