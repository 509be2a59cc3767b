"""Shared by seller and buyer: common areas, comparison of terms, authentication of senders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from agent.wire.areas import AreaSet
from agent.wire.figures import percentile_in_words, rate_in_words
from agent.wire.market import Service, Terms
from agent.wire.principals import Sender

# Address for a reply: opaque here, chosen by the shell.
ReplyAddress = Any


class Event(Struct, frozen=True):
    """Base of the events of sellers and buyers."""


class Instruction(Struct, frozen=True):
    """Base of their instructions."""


class Tick(Event, frozen=True):
    """A timer has expired. `next_due` says when to send this."""


def common_areas(asked: Iterable[str], offered: Iterable[str]) -> tuple[str, ...]:
    """The areas that both cover: of each overlapping pair the finer area, each once, without areas
    that another one covers."""
    left, right = AreaSet(asked), AreaSet(offered)
    both = AreaSet(
        {area for area in left if right.covers(area)}
        | {area for area in right if left.covers(area)}
    )
    return tuple(sorted(area for area in both if not both.covers_below(area)))


def no_harder(terms: Terms, than: Terms) -> bool:
    """Whether a member that meets the terms `than` also meets `terms`."""
    return (
        terms.rate_per_s <= than.rate_per_s
        and terms.percentile <= than.percentile
        and terms.budget_ms >= than.budget_ms
    )


def in_words(terms: Terms) -> str:
    """``20 tasks/s, p99.5 ≤ 800 ms``."""
    rate = rate_in_words(terms.rate_per_s)
    tasks = "task" if rate == "1" else "tasks"
    return f"{rate} {tasks}/s, p{percentile_in_words(terms.percentile)} ≤ {terms.budget_ms:.4g} ms"


def may_trade(sender: Sender) -> bool:
    """Whether the sender's key may negotiate at all."""
    return sender.role in ("iad", "csp", "anyone")


def speaks_for(sender: Sender, name: str) -> bool:
    """Whether the sender is that party; without keys this cannot be checked."""
    return sender.role == "anyone" or sender.name == name


def own_terms(service: Service, iad: str) -> Terms | None:
    """The terms that a service requires of that member; None if it only schedules."""
    for member in service.members:
        if member.iad == iad and member.areas and service.terms is not None:
            terms = service.terms
            return Terms(member.rate_per_s, terms.percentile, terms.budget_ms)
    return None
