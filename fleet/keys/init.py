"""`fleet keys init`: generates the keys that are missing."""

from __future__ import annotations

import sys
from datetime import timedelta

from msgspec import Struct

from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.parties import Party, WebhookOf
from fleet.keys.store import OPERATOR_KEY, Store
from fleet.terminal import output
from fleet.terminal.units import counted


class Made(Struct, frozen=True):
    """Output of `fleet keys init --json`: the parties that got a key."""

    curve: tuple[str, ...]
    host_keys: tuple[str, ...]
    operator_key: bool
    webhooks: tuple[str, ...]
    known_hosts: str


def run(folder: Folder, lifetime_s: float, *, as_json: bool) -> int:
    """Make them; the exit status."""
    fleet, store = load(folder), Store(folder)
    found = store.ensure(fleet, lifetime=timedelta(seconds=lifetime_s))
    made = Made(
        tuple(str(each) for each in found if isinstance(each, Party)),
        tuple(each for each in found if isinstance(each, str) and each != OPERATOR_KEY),
        OPERATOR_KEY in found,
        tuple(str(each) for each in found if isinstance(each, WebhookOf)),
        str(folder.known_hosts),
    )
    if as_json:
        output.write_json(made)
    elif not found:
        sys.stdout.write(f"{folder.keys}: every key is there; nothing was made\n")
    else:
        hooks = len(made.webhooks)
        signed = f", {counted(hooks, 'webhook secret')}" if hooks else ""
        own = ", and the SSH key that fleet logs in with" if made.operator_key else ""
        sys.stdout.write(
            f"{folder.keys}: {counted(len(made.curve), 'CURVE key')}, "
            f"{counted(len(made.host_keys), 'SSH host key')}"
            f"{signed}{own}\nKeep a copy: fleet keys backup FILE\n"
        )
    store.require_pins(fleet)
    return exits.DONE
