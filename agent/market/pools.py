"""What seller and buyer share: areas both mean, terms in comparison, who a message is from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from agent.wire.areas import AreaSet
from agent.wire.market import Service, Terms
from agent.wire.principals import Sender

# Where a reply goes: opaque here, chosen by the shell.
Origin = Any


class Event(Struct, frozen=True):
    """Base of what happens to a seller or buyer."""


class Instruction(Struct, frozen=True):
    """Base of what they want done."""


class Tick(Event, frozen=True):
    """Time has passed: what is due is done. `next_due` says when."""


def common_areas(asked: Iterable[str], offered: Iterable[str]) -> tuple[str, ...]:
    """What both cover: of each pair that overlaps the finer area, each once, nothing that another
    one covers already."""
    left, right = AreaSet(asked), AreaSet(offered)
    both = AreaSet(
        {area for area in left if right.covers(area)}
        | {area for area in right if left.covers(area)}
    )
    return tuple(sorted(area for area in both if not both.covers_below(area)))


def no_harder(terms: Terms, than: Terms) -> bool:
    """Whether who keeps the terms `than` keeps `terms` too."""
    return (
        terms.rate_per_s <= than.rate_per_s
        and terms.percentile <= than.percentile
        and terms.budget_ms >= than.budget_ms
    )


def in_words(terms: Terms) -> str:
    """``20 tasks/s, p99.5 ≤ 800 ms``."""
    rate = f"{terms.rate_per_s:.4g}"
    tasks = "task" if rate == "1" else "tasks"
    return f"{rate} {tasks}/s, p{terms.percentile:.4g} ≤ {terms.budget_ms:.4g} ms"


def may_trade(sender: Sender) -> bool:
    """Whether the key at the other end is one that may negotiate at all."""
    return sender.role in ("iad", "csp", "anyone")


def speaks_for(sender: Sender, name: str) -> bool:
    """Whether the sender is that party; without keys nobody can tell."""
    return sender.role == "anyone" or sender.name == name


def own_terms(service: Service, iad: str) -> Terms | None:
    """What a service asks of that member; None if it only schedules."""
    for member in service.members:
        if member.iad == iad and member.areas and service.terms is not None:
            terms = service.terms
            return Terms(member.rate_per_s, terms.percentile, terms.budget_ms)
    return None
