"""Workload of real masters: quotes as alerts of triggers, with advertisements and subscriptions."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from agent.alerts.notifications import losses_of
from agent.overlay.scot import BrokerId
from agent.topics.contents import topics_of
from agent.wire.predicate_language import read_filter
from agent.wire.predicates import Filter
from lab.overlay import quotes

# For a master without a publisher. Every master advertises this in any case.
NOTHING_ELSE: Final = 'kind = "lost"'


class Offer(NamedTuple):
    """A publisher: its place and its symbol, which is a trigger's name."""

    place: BrokerId
    trigger: str


class Alert(NamedTuple):
    """An alert: its time, in seconds, and its publisher."""

    at_s: float
    offer: Offer


class Wish(NamedTuple):
    """A subscription: its client's name for it, its place, and the symbols of which it wants
    all."""

    id: str
    place: BrokerId
    triggers: tuple[str, ...]


def offers(brokers: Sequence[BrokerId], count: int, draw: random.Random) -> list[Offer]:
    """A publisher for each symbol in turn, placed at random."""
    symbols = quotes.offered(sorted(quotes.shipped()), count)
    return list(map(Offer, quotes.placed(brokers, count, draw), symbols))


def wishes(brokers: Sequence[BrokerId], count: int, draw: random.Random) -> list[Wish]:
    """Each wants two symbols of a hundred, 2 % of all quotes, and is placed at random."""
    symbols = sorted(quotes.shipped())
    return [
        Wish(f"s{number}", place, tuple(draw.sample(symbols, quotes.SYMBOLS_WANTED)))
        for number, place in enumerate(quotes.placed(brokers, count, draw))
    ]


def announced(of: Iterable[Offer]) -> dict[BrokerId, list[str]]:
    """The `[[overlay.advertise]]` of each master with a publisher."""
    texts: dict[BrokerId, list[str]] = defaultdict(list)
    for place, trigger in of:
        texts[place].append(f'kind = "raised" and trigger = "{trigger}"')
    return dict(texts)


def wanted(wish: Wish) -> str:
    """The filter as text."""
    names = ", ".join(f'"{each}"' for each in wish.triggers)
    return f'kind = "raised" and trigger in ({names})'


def filters(iad: str, texts: Iterable[str]) -> list[Filter]:
    """All advertisements of that IAD's master, in its order."""
    return [*map(read_filter, texts), (*losses_of(iad), *topics_of(iad))]
