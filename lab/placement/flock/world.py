"""The world of a run: masters in a plane, devices at them, whose clones hear which others. Pure."""

from __future__ import annotations

from math import ceil, hypot
from random import Random
from typing import Final

from msgspec import Struct

# One way between two masters: from this to some 50 ms across the square.
NEAREST_S: Final = 0.005
SIDE_S: Final = 0.035
# Clones of a circle hear each other; its devices are at masters drawn at random.
CIRCLE: Final = 5
# Room of all masters, in numbers of clones.
ROOM: Final = 1.6


class Setting(Struct, frozen=True):
    """A run: how many masters and clones, how often devices are read and masters tell each other,
    what a move has to gain more than (seconds of delay a second), and for how long nothing may move
    until the run is over, and how long it may take."""

    masters: int = 12
    clones: int = 100
    every_s: float = 5.0
    round_s: float = 2.0
    move_cost: float = 0.002
    still_s: float = 30.0
    longest_s: float = 900.0
    subscribers: int = 3


class World(Struct, frozen=True):
    """`ways_s`: one way between two masters. `homes`: the master of each device, by its number.
    `peers`: the devices whose clones each clone hears. `room`: clones that a master takes."""

    iads: tuple[str, ...]
    ways_s: dict[tuple[str, str], float]
    homes: tuple[str, ...]
    peers: tuple[tuple[int, ...], ...]
    room: int

    def device(self, number: int) -> str:
        """IAD and node."""
        return f"{self.homes[number]}/{node(number)}"


def node(number: int) -> str:
    """The name of a device."""
    return f"d{number}"


def draw(setting: Setting, seed: int) -> World:
    """A world, the same for the same seed. Each master is home of as many devices as every other,
    or of one more."""
    rng = Random(seed)
    iads = tuple([f"iad{n}" for n in range(1, setting.masters + 1)])
    at = {iad: (rng.random(), rng.random()) for iad in iads}
    ways_s = {
        (one, other): NEAREST_S
        + SIDE_S * hypot(at[one][0] - at[other][0], at[one][1] - at[other][1])
        for one in iads
        for other in iads
        if one != other
    }
    homes = [iads[n % len(iads)] for n in range(setting.clones)]
    rng.shuffle(homes)
    peers = []
    for n in range(setting.clones):
        first = n - n % CIRCLE
        circle = range(first, min(first + CIRCLE, setting.clones))
        peers.append(tuple([each for each in circle if each != n]))
    room = ceil(ROOM * setting.clones / setting.masters)
    return World(iads, ways_s, tuple(homes), tuple(peers), room)
