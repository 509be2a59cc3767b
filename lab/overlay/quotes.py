"""Workload of real stock quotes: advertisements and subscriptions of publishers and subscribers."""

from __future__ import annotations

import csv
import itertools
import random
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from agent.overlay.scot import BrokerId
from agent.wire.predicates import Attributes, Filter, Predicate

CLASS: Final = "STOCK"
# Of 100 symbols: a subscription to two of them matches 2 % of all quotes.
SYMBOLS_WANTED: Final = 2
HISTORY: Final = "virtual"


def shipped() -> dict[str, list[Attributes]]:
    """The quotes in the repository by symbol: three notifications' attributes for each of 100."""
    text = files("lab.overlay").joinpath("data/quotes.csv").read_text("utf-8")
    quotes: dict[str, list[Attributes]] = {}
    for row in csv.DictReader(text.splitlines()):
        quotes.setdefault(row["symbol"], []).append(
            {
                "class": CLASS,
                "symbol": row["symbol"],
                **{name: float(row[name]) for name in ("open", "high", "low", "close")},
                "volume": float(row["volume"]),
                "date": row["date"],
            }
        )
    return quotes


def of(*symbols: str) -> Filter:
    """A filter for quotes of these symbols: one for an advertisement, several for a
    subscription."""
    stock = Predicate("class", "=", (CLASS,))
    if len(symbols) == 1:
        return ((stock, Predicate("symbol", "=", symbols)),)
    return ((stock, Predicate("symbol", "in", symbols)),)


def wanted(symbols: Sequence[str], count: int, draw: random.Random) -> list[Filter]:
    """The filters of `count` subscriptions, each for two random symbols."""
    return [of(*draw.sample(symbols, SYMBOLS_WANTED)) for _ in range(count)]


def offered(symbols: Sequence[str], count: int) -> list[str]:
    """The symbol of each of `count` advertisements: all in turn, so some have several publishers if
    there are more publishers than symbols."""
    return list(itertools.islice(itertools.cycle(symbols), count))


def placed(brokers: Sequence[BrokerId], count: int, draw: random.Random) -> list[BrokerId]:
    """The places of `count` clients, uniformly at random."""
    return [draw.choice(brokers) for _ in range(count)]
