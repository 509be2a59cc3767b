"""Validation of webhooks: names, filters, and paths of certificates; filters that no alert of the
fleet can match."""

from __future__ import annotations

from collections.abc import Iterator

from agent.alerts.unmatchable import doubt
from agent.scheduling.nearest import nearest
from agent.wire.areas import AreaSet
from agent.wire.predicate_language import read_filter
from agent.wire.predicates import FilterError
from fleet.inventory.model import Inventory


def unreadable(where: str, text: str) -> Iterator[str]:
    """The error of a filter, in a line that begins with `where`; nothing if it is valid."""
    try:
        read_filter(text)
    except FilterError as error:
        yield f"{where} {text!r}: {error}"


def check(fleet: Inventory) -> Iterator[str]:
    """Webhook names used twice at a master, invalid filters, and certificate paths in a folder that
    `fleet deploy` fills."""
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


def unmatched(fleet: Inventory) -> Iterator[str]:
    """Filters that match no alert of this fleet's IADs, nodes and areas."""
    known = [AreaSet(area for iad in fleet.iad for node in iad.node for area in node.areas)]
    names = {"iad": [iad.name for iad in fleet.iad]}
    for iad in fleet.iad:
        for webhook in iad.master.webhook:
            try:
                wanted = read_filter(webhook.filter)
            except FilterError:
                continue  # `check` says so
            if why := doubt(wanted, known, nearest, lambda name: names.get(name, ())):
                yield f"{iad.name}/master: webhook {webhook.name}: {why}"
