"""Random conjunctions and events for the matching engine, from few values that often meet."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

Value = bool | int | float | str
Predicate = tuple[str, str, tuple[Value, ...]]
Event = dict[str, Value]

LAST = chr(0x10FFFF)
ORDERED = ("<", "<=", ">", ">=")
NUMBERS: tuple[Value, ...] = (
    *(0, 1, 2, 3, 4, 5, 7, -1, -3, 0.5, 2.5, -0.0, 5e-324, -5e-324, 1e300, -1e300),
    *(2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, math.inf, -math.inf, math.nextafter(1.0, 2.0)),
)
STRINGS: tuple[Value, ...] = (
    *("", "\0", "a", "a\0", "ab", "b", "b1", "b1-x", "b1/", "b1/f4", "b1/f4/r413", "b1/f41", "b10"),
    *("abcdef", "abcdef\0", "abcdefg", "abcdeg", "abcdef/x", "building/a", "building/b"),
    *("\x7f", "\x80", "é", "éa", "\ud7ff", "\ue000", LAST, LAST + LAST, LAST + "a", "a" + LAST),
)
VALUES: tuple[Value, ...] = (True, False, *NUMBERS, *STRINGS)


def some_value(draw: random.Random) -> Value:
    """Of any kind, sometimes a number that is in no list."""
    roll = draw.random()
    if roll < 0.1:
        return draw.random() < 0.5
    if roll < 0.2:
        return round(draw.uniform(-4, 8), 1)
    return draw.choice(NUMBERS if roll < 0.6 else STRINGS)


def some_predicate(draw: random.Random, attributes: str) -> Predicate:
    """Any operator on one of the attributes, each a letter."""
    attribute = draw.choice(attributes)
    operator = draw.choice(("=", "=", "!=", *ORDERED, *ORDERED, "prefix", "under", "in", "present"))
    if operator == "present":
        return attribute, operator, ()
    if operator == "in":
        return attribute, operator, tuple(some_value(draw) for _ in range(draw.randint(1, 4)))
    value = some_value(draw)
    while operator in ORDERED and isinstance(value, bool):
        value = some_value(draw)
    if operator in ("prefix", "under"):
        value = draw.choice(STRINGS)
    return attribute, operator, (value,)


def some_conjunction(draw: random.Random, attributes: str = "abcd") -> list[Predicate]:
    """Up to three predicates, several of them on one attribute now and then."""
    return [some_predicate(draw, attributes) for _ in range(draw.choice((0, 1, 1, 2, 2, 2, 3)))]


def some_event(draw: random.Random, attributes: str = "abcd") -> Event:
    """Most attributes, and now and then NaN."""
    event = {name: some_value(draw) for name in attributes if draw.random() < 0.9}
    if event and draw.random() < 0.02:
        event[draw.choice(list(event))] = math.nan
    return event


def some_range(draw: random.Random, scale: float) -> tuple[float, float]:
    """A lower and an upper end within 0 .. scale."""
    low, high = sorted((draw.uniform(0, scale), draw.uniform(0, scale)))
    return low, high


def some_alert(draw: random.Random) -> list[Predicate]:
    """As people ask: by metric, area, ranges; ends are round numbers or any."""
    low, high = some_range(draw, 100)
    if draw.random() < 0.5:
        low, high = float(round(low)), float(round(high))
    choices: tuple[Callable[[], list[Predicate]], ...] = (
        lambda: [("v", ">=", (low,)), ("v", "<=", (high,))],
        lambda: [("v", ">", (low,)), ("w", "<", (high,)), ("w", ">=", (low,))],
        lambda: [("m", "=", (draw.choice("tuv"),)), ("v", ">", (low,))],
        lambda: [("m", "=", (draw.choice("tuv"),)), ("n", "=", (draw.randrange(9),))],
        lambda: [("r", "under", (some_area(draw),)), ("v", "<", (high,))],
        lambda: [("m", "in", ("t", "u")), ("r", "prefix", (some_area(draw)[:5],))],
        lambda: [("r", "!=", (some_area(draw),)), ("w", "present", ())],
        lambda: [("v", ">", (low,)), ("v", "!=", (high,)), ("m", ">=", (draw.choice("tuv"),))],
    )
    return draw.choice(choices)()


def some_area(draw: random.Random) -> str:
    """One to three segments."""
    segments = (f"b{draw.randrange(3)}", f"f{draw.randrange(12)}", f"r{draw.randrange(30)}")
    return "/".join(segments[: draw.randint(1, 3)])


def some_reading(draw: random.Random) -> Event:
    """What such alerts are about; round numbers now and then."""
    event: Event = {"v": draw.uniform(-5, 105), "w": draw.uniform(0, 100), "r": some_area(draw)}
    if draw.random() < 0.5:
        event["v"] = draw.randrange(101)
    event["m"] = draw.choice("tuvw")
    event["n"] = draw.randrange(10)
    if draw.random() < 0.2:
        del event[draw.choice(list(event))]
    return event
