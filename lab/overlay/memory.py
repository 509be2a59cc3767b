"""Memory of one broker's tables, measured in a process of its own."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from agent.overlay.events import Advertise, LinkUp, Received, Subscribe
from agent.overlay.scot import BrokerId, Scot
from agent.wire.overlay import AdvertisementChange, SubscriptionChange
from lab.overlay import quotes
from lab.overlay.contenders import SNR
from lab.overlay.model import encode
from lab.overlay.topology import spread

T = TypeVar("T")
EPOCH: Final = 1


class Tables(Struct, frozen=True):
    """The tables of one broker of |V_a| × |V_c|, with this many advertisements and subscriptions in
    all, spread evenly over the brokers."""

    vertices: int
    clusters: int
    advertisements: int
    subscriptions: int


class Resident(Struct, frozen=True):
    """Entries of both tables, and the bytes of the tables and the broker around them."""

    case: Tables
    srt: int
    prt: int
    size: int


def measure(case: Tables) -> Resident:
    """Give a production broker everything that concerns it, as from sockets.

    Measures the resident memory of the process, so call it in one that does nothing else.
    """
    scot = spread(case.vertices, case.clusters)
    at = BrokerId(scot.vertices[0], 0)
    before = _resident()
    one = SNR.maker(scot)(at)
    for event in _events(case, scot, at):
        one.handle(event, 0.0)
    return Resident(case, one.srt_entries, one.prt_entries, _resident() - before)


def _events(case: Tables, scot: Scot, at: BrokerId) -> Iterator[Any]:
    """Created one by one, through MessagePack, so that no part of a filter is shared."""
    symbols, draw = sorted(quotes.shipped()), random.Random(1)
    for neighbour in (*scot.cluster_neighbours(at), *scot.region_neighbours(at)):
        yield LinkUp(neighbour)
    for number in range(case.advertisements // case.vertices):
        host, key = number % case.clusters, number // case.clusters + 1
        announced = quotes.of(draw.choice(symbols))
        if host == at.cluster:
            yield _copied(Advertise(f"p{key}", announced))
        else:
            advertised = AdvertisementChange(EPOCH, key, key, announced)
            yield Received(BrokerId(at.vertex, host), _copied(advertised))
    for number in range(case.subscriptions // case.clusters):
        home, key = scot.vertices[number % case.vertices], number // case.vertices + 1
        wanted = quotes.of(*draw.sample(symbols, quotes.SYMBOLS_WANTED))
        if home == at.vertex:
            yield _copied(Subscribe(f"s{key}", wanted))
        else:
            change = SubscriptionChange(home, EPOCH, key, key, wanted)
            sender = BrokerId(scot.next_vertex(at.vertex, home), at.cluster)
            yield Received(sender, _copied(change))


def _copied(message: T) -> T:
    return msgspec.msgpack.decode(encode(message), type=type(message))


def _resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
