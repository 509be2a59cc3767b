"""Webhooks: names, filters, and where their certificates are."""

from __future__ import annotations

from collections.abc import Iterator

from agent.wire.predicate_language import read_filter
from agent.wire.predicates import FilterError
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
            try:
                read_filter(webhook.filter)
            except FilterError as error:
                yield f"{where}: filter {webhook.filter!r}: {error}"
            if webhook.ca and not webhook.ca.startswith("/"):
                yield f"{where}: ca {webhook.ca!r}: name the whole path on the master's host"
