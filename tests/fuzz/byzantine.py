"""Parties that follow the protocol and lie: what another master, a node, the registration service
and a client send to a master is changed, repeated, reordered or lost on its way, in the middle of
what honest parties do. Nothing raises, and honest parties are served."""

from __future__ import annotations

import random
from collections import Counter, deque
from pathlib import Path
from typing import Final

from agent.wire.base import Message
from agent.wire.codec import type_of
from tests.fuzz.campaign import Finding
from tests.fuzz.frames import Frames, Heard
from tests.fuzz.honest import Pair, Script, serves
from tests.fuzz.world import World

# Channels whose sender lies: the second master, the registration service, a node and a client.
LIARS: Final = ("iad2>", "drs>iad1", "bad>", "mallory>")
REMEMBERED: Final = 64  # frames of a channel, to repeat
# So many of each kind in a channel are changed, as it were; at most this part of them.
RARE: Final = 150
MOST: Final = 0.5


class Liar:
    """Changes a part of what the liars send, in the end `least`, so that conversations go on; 0:
    nothing."""

    def __init__(self, seed: str, least: float) -> None:
        self._draw = random.Random(seed)
        self._heard = Heard()
        self._frames = Frames((Message,), seed, [], heard=self._heard)
        self._past: dict[str, deque[bytes]] = {}
        self._least = least
        self._seen: Counter[tuple[str, str]] = Counter()
        self.changed = 0
        self.last: deque[tuple[str, bytes]] = deque(maxlen=20)

    def tamper(self, channel: str, frame: bytes) -> list[bytes]:
        """What arrives in place of a frame."""
        self._heard.take(frame)
        if not channel.startswith(LIARS):
            return [frame]
        draw = self._draw
        past = self._past.setdefault(channel, deque(maxlen=REMEMBERED))
        past.append(frame)
        kind = type_of(frame, frame[2:3])
        self._seen[channel, kind] += 1
        # What is rare is changed often: most frames are facts of placement.
        share = min(MOST, max(self._least, RARE / self._seen[channel, kind]))
        if not self._least or draw.random() > share:
            return [frame]
        self.changed += 1
        match draw.randrange(10):
            case 0:
                frames = []
            case 1:
                frames = [frame, frame]
            case 2:
                frames = [frame, draw.choice(past)]
            case 3:
                frames = [self._frames.changed(draw.choice(past)), frame]
            case 4:
                frames = [self._frames.next(), frame]
            case _:
                frames = [self._frames.changed(frame)]
        self.last.extend((channel, each) for each in frames)
        return frames


def run(folder: Path, actions: int, seed: str, least: float = 0.05) -> int:
    """So many actions of honest parties, with some frames between each two; how many frames were
    changed. Finding, with the last of those, if a process raises or does not serve honest parties.
    The same seed gives the same history."""
    liar = Liar(f"{seed} liar", least)
    draw = random.Random(f"{seed} world")
    world = World(folder, draw, liar.tamper)
    script = Script(world, f"{seed} script")
    action = 0
    try:
        world.settle(200)
        pair = Pair(world)
        for action in range(1, actions + 1):  # noqa: B007 - told if it ends here
            script.act()
            world.settle(draw.choice((1, 5, 20, 100)))
            pair.act()
        serves(world)
        pair.is_served()
    except Exception as error:
        last = "\n".join(f"{channel} {frame.hex()}" for channel, frame in liar.last)
        raise Finding(
            f"action {action} of seed {seed!r}: {type(error).__name__}: {error}\n{last}"
        ) from error
    finally:
        world.close()
    return liar.changed
