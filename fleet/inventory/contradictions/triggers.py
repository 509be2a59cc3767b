"""Validation of triggers: names, areas and conditions. Only the node knows its channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.triggers.condition import read_condition
from agent.triggers.language import TriggerError
from agent.wire.edge_config import EdgeTrigger, trigger_problems
from fleet.inventory.effective import triggers_of
from fleet.inventory.model import Inventory


def check(fleet: Inventory) -> Iterator[str]:
    """Trigger names used twice, areas that are not their node's, and invalid conditions."""
    for iad in fleet.iad:
        for node in iad.node:
            host = f"{iad.name}/{node.name}"
            for problem in trigger_problems(triggers_of(fleet, node), node.areas):
                yield f"{host}: {problem}"
            yield from _unreadable(host, node.trigger)
    for group in fleet.group:
        yield from _unreadable(f"group {group.name}", group.trigger)


def _unreadable(where: str, triggers: Sequence[EdgeTrigger]) -> Iterator[str]:
    for trigger in triggers:
        for key, text in (("condition", trigger.condition), ("clear", trigger.clear)):
            if text or key == "condition":
                try:
                    read_condition(text)
                except TriggerError as error:
                    yield f"{where}: trigger {trigger.name}: {key}: {error}"
