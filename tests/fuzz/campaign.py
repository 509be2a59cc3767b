"""The campaign: a seed and a number give the same frames, one target after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.fuzz.frames import Frames
from tests.fuzz.targets import Everything, Target

# Frames to a target before the next one: what one of them sets up meets what others send.
TURN: Final = 64


class Finding(AssertionError):
    """A frame that a target did not survive."""


class Report(Struct):
    """What a campaign did."""

    frames: int
    cpu_s: float
    longest_ms: dict[str, float]  # of processor time, by target


def run(
    folder: Path, frames: int, seed: str, *, told: Callable[[int], object] = lambda _: None
) -> Report:
    """Send so many frames over all targets; Finding with the frame in hexadecimal if one of them
    raises, or if honest parties are not served in the end."""
    everything = Everything(folder)
    longest: dict[str, float] = {}
    started_s = time.process_time()
    try:
        series = [
            (
                target,
                Frames(
                    target.kinds,
                    f"{seed} {target.name}",
                    target.live,
                    target.bodies,
                    target.heard,
                ),
            )
            for target in everything.targets
        ]
        sent = 0
        while sent < frames:
            for target, of in series:
                for _ in range(min(TURN * target.share, frames - sent)):
                    frame = of.next()
                    before_s = time.thread_time()
                    _take(target, frame, seed, sent)
                    took_ms = (time.thread_time() - before_s) * 1e3
                    longest[target.name] = max(longest.get(target.name, 0.0), took_ms)
                    sent += 1
            told(sent)
        everything.serves()
    finally:
        everything.close()
    return Report(sent, time.process_time() - started_s, longest)


def _take(target: Target, frame: bytes, seed: str, number: int) -> None:
    try:
        target.take(frame)
    except Exception as error:
        raise Finding(
            f"{target.name}, frame {number:,} of seed {seed!r}: {type(error).__name__}: {error}\n"
            f"{frame.hex()}"
        ) from error
