"""Who announces what and who wants which, for real masters: quotes as alerts of triggers."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from agent.alerts.notifications import losses_of
from agent.overlay.scot import Broker
from agent.wire.predicate_language import read_filter
from agent.wire.predicates import Filter
from lab.overlay import quotes

# Of a master without a publisher. Every master announces this in any case.
NOTHING_ELSE: Final = 'kind = "lost"'


class Offer(NamedTuple):
    """A publisher: where it is, and its symbol, which is a trigger's name."""

    place: Broker
    trigger: str


class Alert(NamedTuple):
    """When it is to be published, in seconds, and by whom."""

    at_s: float
    offer: Offer


class Wish(NamedTuple):
    """A subscription: what its client calls it, where, and of which symbols it wants all."""

    id: str
    place: Broker
    triggers: tuple[str, ...]


def offers(brokers: Sequence[Broker], count: int, draw: random.Random) -> list[Offer]:
    """A publisher for each symbol in turn, each anywhere."""
    symbols = quotes.offered(sorted(quotes.shipped()), count)
    return list(map(Offer, quotes.placed(brokers, count, draw), symbols))


def wishes(brokers: Sequence[Broker], count: int, draw: random.Random) -> list[Wish]:
    """Each wants two symbols of a hundred, 2 % of all quotes, and is anywhere."""
    symbols = sorted(quotes.shipped())
    return [
        Wish(f"s{number}", place, tuple(draw.sample(symbols, quotes.SYMBOLS_WANTED)))
        for number, place in enumerate(quotes.placed(brokers, count, draw))
    ]


def announced(of: Iterable[Offer]) -> dict[Broker, list[str]]:
    """What `[[overlay.advertise]]` of each master with a publisher says."""
    texts: dict[Broker, list[str]] = defaultdict(list)
    for place, trigger in of:
        texts[place].append(f'kind = "raised" and trigger = "{trigger}"')
    return dict(texts)


def wanted(wish: Wish) -> str:
    """As text."""
    names = ", ".join(f'"{each}"' for each in wish.triggers)
    return f'kind = "raised" and trigger in ({names})'


def filters(iad: str, texts: Iterable[str]) -> list[Filter]:
    """All that the master of that IAD announces, in the order in which it does."""
    return [*map(read_filter, texts), losses_of(iad)]
