"""Workload: alerts of a building, and subscriptions that each match 2 % of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

METRICS = ("temperature", "humidity", "co2", "noise")
FLOORS = 5
ROOMS = 20
# Range within 0 to 100: with one of four metrics on one of five floors it is 2 %.
WIDTH = 40.0


class Wanted(NamedTuple):
    """One subscription: values of a metric on a floor, both ends included."""

    metric: str
    floor: int
    low: float
    high: float

    def holds(self, event: Event) -> bool:
        """Whether it matches the event."""
        return self.topic == event.topic and self.low <= event.value <= self.high

    @property
    def topic(self) -> tuple[str, str]:
        """The part that a topic can express: floor and metric."""
        return f"f{self.floor}", self.metric

    def filter(self, trigger: str) -> str:
        """The filter as text, for alerts of that trigger alone."""
        return (
            f'trigger = "{trigger}" and metric = "{self.metric}" and area under "b1/f{self.floor}"'
            f" and value between {self.low} and {self.high}"
        )


class Event(NamedTuple):
    """A trigger is raised."""

    number: int
    metric: str
    floor: int
    room: int
    value: float

    @property
    def topic(self) -> tuple[str, str]:
        """Floor and metric."""
        return f"f{self.floor}", self.metric

    @property
    def area(self) -> str:
        """Where."""
        return f"b1/f{self.floor}/r{self.room}"


def connections(count: int, subscriptions: int, seed: int) -> list[list[Wanted]]:
    """The subscriptions of each connection, all for its floor."""
    chance = random.Random(seed)
    made: list[list[Wanted]] = [[] for _ in range(count)]
    for number in range(subscriptions):
        of = number % count
        low = round(chance.uniform(0.0, 100.0 - WIDTH), 2)
        made[of].append(Wanted(chance.choice(METRICS), of % FLOORS, low, low + WIDTH))
    return made


def events(seed: int) -> Iterator[Event]:
    """An endless stream, numbered from 1."""
    chance = random.Random(seed)
    number = 0
    while True:
        number += 1
        yield Event(
            number,
            chance.choice(METRICS),
            chance.randrange(FLOORS),
            chance.randrange(ROOMS),
            round(chance.uniform(0.0, 100.0), 2),
        )


def deliveries(made: Iterable[Sequence[Wanted]], happened: Sequence[Event]) -> int:
    """Number of matching (subscription, event) pairs. O(subscriptions · events)."""
    return sum(each.holds(event) for few in made for each in few for event in happened)
