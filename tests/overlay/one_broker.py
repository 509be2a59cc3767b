"""One broker of a small overlay, and what it sends."""

from typing import Any

from agent.overlay.broker import Broker
from agent.overlay.events import Event, Instruction, LinkUp, Received, Send
from agent.overlay.limits import Limits
from agent.overlay.scot import BrokerId as At
from agent.overlay.scot import Scot
from agent.wire.overlay import (
    AdvertisementPart,
    CibState,
    Notification,
    Notify,
    Origin,
    SubscriptionPart,
    SubscriptionVersions,
)

PATH = Scot([("a", "b"), ("b", "c")], 3)
A, B, C = (At(vertex, 0) for vertex in "abc")
B1, B2 = At("b", 1), At("b", 2)


def broker(*, known: bool = True, routing: Any = "idr", limits: Limits | None = None) -> Broker:
    """The one at b of cluster 0, all links up; `known`: it has heard of all others, and they of
    it."""
    made = Broker(B, PATH, epoch=1, routing=routing, limits=limits or Limits(unknown_s=1e9))
    for neighbour in (A, C, B1, B2):
        made.handle(LinkUp(neighbour), 0.0)
    for neighbour in (A, C):
        told(made, neighbour, SubscriptionVersions((), True))
    if known:
        for home in "ac":
            told(made, At(home, 0), SubscriptionPart(home, 1, 0, 0, 0, ()))
        for host in (B1, B2):
            told(made, host, AdvertisementPart(1, 0, 0, 0, ()))
            told(made, host, CibState(1, (), (), (1, 1)))
    return made


def told(made: Broker, sender: At, message: Any, now: float = 0.0) -> list[tuple[At, Any]]:
    """What it sends when that comes."""
    return sent(made.handle(Received(sender, message), now))


def sent(instructions: list[Instruction]) -> list[tuple[At, Any]]:
    return [(each.neighbour, each.message) for each in instructions if isinstance(each, Send)]


def does(made: Broker, event: Event, now: float = 0.0) -> list[tuple[At, Any]]:
    return sent(made.handle(event, now))


def copy(sequence: int = 1, clusters: bytes = b"", x: float = 1.0) -> Notify:
    return Notify(Notification(Origin("p", "h", sequence), 0, {"x": x}), clusters)
