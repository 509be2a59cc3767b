"""Validation of webhooks: names, filters, and paths of certificates."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.inventory.contradictions.filters import unreadable
from fleet.inventory.model import Inventory


def check(fleet: Inventory) -> Iterator[str]:
    """Two of one master that are called alike, filters that are none, and paths of certificates
    that would lie in a folder which `fleet deploy` fills."""
    for iad in fleet.iad:
        names: set[str] = set()
        for webhook in iad.master.webhook:
            where = f"{iad.name}/master: webhook {webhook.name}"
            if webhook.name in names:
                yield f"{where}: there are two; each needs a name of its own"
            names.add(webhook.name)
            yield from unreadable(f"{where}: filter", webhook.filter)
            if webhook.ca and not webhook.ca.startswith("/"):
                yield f"{where}: ca {webhook.ca!r}: name the whole path on the master's host"
