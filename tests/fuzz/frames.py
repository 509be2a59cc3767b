"""Hostile frames: good ones with changed bytes, and well-formed ones with changed values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

import msgspec

from agent.wire.base import Message
from agent.wire.codec import HEADER_BYTES, JSON, MESSAGEPACK, encode
from tests.wire.samples import SAMPLES
from tests.wire.test_codec import mutated

CODECS: Final = (JSON, MESSAGEPACK)
# Limits of types, what means something elsewhere, and what a field must not hold.
VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, 2, 3, -1, 64, 255, 2**31, 2**53 - 1, 2**53, -(2**53),
    0.0, -0.0, 0.5, 1e-300, 5e-324, 1e308, -1e308, 99.0, 4_102_444_800_000,
    "", "iad1", "iad2", "iad3", "n1", "b1", "b1/f4", "b1/f4/r413", "b9/x", "default", "comfort",
    "temperature", "x" * 64, "x" * 65, "\n", "a\x00b", "\u202e", "../../x", "ask", "keep", "done",
    "tcp://127.0.0.1:1", "temperature > 30", "value > 1 or value < 0 and (x = 1)", [], {}, b"",
    b"\x05", b"\xff" * 9,
)  # fmt: skip
# Of the frames: bytes changed, so that most are no messages; values changed, so that many are.
CHANGED_BYTES: Final = 0.4
OF_OTHERS: Final = 0.1
# Of those with changed values: one value is an array in an array, and so on.
DEEP: Final = 0.01
NESTED: Final = 10_000


class Frames:
    """An endless series of frames for a socket that takes these kinds, the same for a seed. `live`
    are values that mean something at the target, such as the number of its session."""

    def __init__(
        self,
        kinds: Sequence[type[Message]],
        seed: str,
        live: list[Any],
        bodies: Sequence[bytes] = (),
    ) -> None:
        """`bodies` are MessagePack without a header, for what is no socket of messages."""
        self._draw = random.Random(seed)
        self._live = live
        everything = list(SAMPLES.values())
        own = [sample for sample in everything if isinstance(sample, tuple(kinds))]
        self._own = [encode(sample, codec) for sample in own for codec in CODECS]
        self._own += [b"10M" + body for body in bodies]
        self._all = [encode(sample, codec) for sample in everything for codec in CODECS]
        whole = [*(encode(sample)[HEADER_BYTES:] for sample in own), *bodies]
        self._bodies = [msgspec.msgpack.decode(body) for body in whole]
        self._parts: dict[str, list[Any]] = {}
        for body in self._bodies:
            _collect(body, self._parts)

    def next(self) -> bytes:
        """The next frame."""
        draw = self._draw
        if draw.random() < CHANGED_BYTES:
            return mutated(draw.choice(self._all if draw.random() < OF_OTHERS else self._own), draw)
        body = msgspec.msgpack.decode(msgspec.msgpack.encode(draw.choice(self._bodies)))
        for _ in range(draw.choice((0, 1, 1, 2, 3, 6))):
            self._change(body)
        packed = draw.random() < 0.5
        if draw.random() < DEEP:
            nested = b"\x91" * NESTED + b"\xc0" if packed else b"[" * NESTED + b"]" * NESTED
            if isinstance(body, dict):
                body[draw.choice([*body, "unknown"])] = msgspec.Raw(nested)
            else:
                body.append(msgspec.Raw(nested))
        try:
            return (
                b"10M" + msgspec.msgpack.encode(body)
                if packed
                else b"10J" + msgspec.json.encode(body)
            )
        except OverflowError:
            return self.next()

    def _change(self, body: Any) -> None:
        """Change one value somewhere in a body."""
        draw, at = self._draw, body
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                return
            key = draw.choice(keys)
            below = at[key]
            if not isinstance(below, dict | list) or not below or draw.random() < 0.3:
                break
            at = below
        if key == "type" and draw.random() < 0.9:
            return
        choice = draw.random()
        if choice < 0.35:
            at[key] = deepcopy(draw.choice(VALUES))
        elif choice < 0.6 and self._live:
            at[key] = draw.choice(self._live)
        elif choice < 0.85:
            # What stands under the same name in another message.
            at[key] = deepcopy(draw.choice(self._parts.get(str(key), [below])))
        elif choice < 0.9 and isinstance(at, dict):
            del at[key]
        elif isinstance(at, list):
            at.extend(deepcopy([below] * draw.choice((1, 2, 70))))
        elif isinstance(below, int | float):
            at[key] = below + draw.choice((-1, 1))


def _collect(at: Any, parts: dict[str, list[Any]]) -> None:
    """Every value in a body, by the name or the place under which it stands."""
    pairs = at.items() if isinstance(at, dict) else enumerate(at)
    for key, value in pairs:
        found = parts.setdefault(str(key), [])
        if value not in found:
            found.append(value)
        if isinstance(value, dict | list):
            _collect(value, parts)
