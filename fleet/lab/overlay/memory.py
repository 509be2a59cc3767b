"""How much memory a broker's tables take, measured at a process of their own."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from agent.overlay.events import Instruction, Received, Subscribe
from agent.overlay.scot import Broker, Scot
from fleet.lab.overlay import quotes
from fleet.lab.overlay.contenders import CONTENDERS
from fleet.lab.overlay.model import costs_of, encode
from fleet.lab.overlay.sizes import SPACING_S
from fleet.lab.overlay.world import AnyBroker, Happening, World

ENTRIES: Final = 50_000
T = TypeVar("T")


class _Apart:
    """A broker that gets its events as from a socket, and so shares no filter with another."""

    def __init__(self, broker: AnyBroker) -> None:
        self._broker = broker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def handle(self, event: Any, now: float) -> list[Instruction]:
        """As the broker."""
        match event:
            case Received(sender=sender, message=message):
                event = Received(sender, copied(message))
            case Subscribe():
                event = copied(event)
        return self._broker.handle(event, now)


def copied(message: T) -> T:
    """Through MessagePack."""
    return msgspec.msgpack.decode(encode(message), type=type(message))


def bytes_an_entry(entries: int = ENTRIES) -> float:
    """Of a broker's table of subscriptions: the mean of one of its own and one of a neighbour's.

    By the resident memory of the process, so to be called in one that does nothing else.
    """
    contender, scot = CONTENDERS["snr"], Scot([("a", "b")], 1)
    make: Callable[[Broker], AnyBroker] = contender.maker(scot)
    world = World(scot, lambda at: _Apart(make(at)), costs_of(contender))
    world.connect()
    symbols, draw = sorted(quotes.shipped()), random.Random(1)
    _subscribe(world, symbols, draw, 0, entries // 10)  # what is taken only once
    before = _resident()
    _subscribe(world, symbols, draw, entries // 10, entries)
    return (_resident() - before) / sum(broker.prt_entries for broker in world.brokers) / 0.9


def _subscribe(
    world: World, symbols: list[str], draw: random.Random, first: int, last: int
) -> None:
    def events() -> Iterator[Happening]:
        # Made one by one, and none under way when the next one comes: memory that only the
        # simulation takes would count.
        began_s = world.now
        for number in range(first, last):
            wanted = quotes.of(*draw.sample(symbols, quotes.SYMBOLS_WANTED))
            event = Subscribe(f"s{number}", wanted)
            yield began_s + SPACING_S * (number - first), Broker("a", 0), event

    world.feed(events())
    world.run()
    world.messages.clear()


def _resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
