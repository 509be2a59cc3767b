"""Hostile frames: good ones with changed bytes, and well-formed ones with changed values."""

from __future__ import annotations

import random
from collections import deque
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
# Columns of one length: of a series, and of buckets.
COLUMNS: Final = {"time_ms", "count"}
# Of those, too: values under a name that the target used itself lately are the target's.
ANSWERING: Final = 0.5
# Values that are remembered under one name.
HEARD: Final = 16


class Heard:
    """What a target said of late, by the name under which it stood: the ids of what is open there,
    epochs, sequences. Frames that repeat it are answers instead of noise."""

    def __init__(self) -> None:
        self._values: dict[str, deque[Any]] = {}

    def take(self, frame: bytes) -> None:
        """A frame that the target sent."""
        decode = msgspec.json.decode if frame[2:3] == b"J" else msgspec.msgpack.decode
        self._collect(decode(frame[HEADER_BYTES:]))

    def _collect(self, at: Any) -> None:
        pairs = at.items() if isinstance(at, dict) else ()
        for key, value in pairs:
            if key != "type" and value is not None:
                self._values.setdefault(key, deque(maxlen=HEARD)).append(value)
            if isinstance(value, dict):
                self._collect(value)
            elif isinstance(value, list):
                for each in value:
                    self._collect(each)

    def answer(self, body: Any, draw: random.Random) -> None:
        """Let some values of a body be what was said under their names."""
        if isinstance(body, dict):
            for key, value in body.items():
                said = self._values.get(key)
                if said and draw.random() < 0.5:
                    body[key] = deepcopy(draw.choice(said))
                else:
                    self.answer(value, draw)
        elif isinstance(body, list):
            for each in body:
                self.answer(each, draw)


class Frames:
    """An endless series of frames for a socket that takes these kinds, the same for a seed. `live`
    are values that mean something at the target, such as the number of its session."""

    def __init__(
        self,
        kinds: Sequence[type[Message]],
        seed: str,
        live: list[Any],
        bodies: Sequence[bytes] = (),
        heard: Heard | None = None,
    ) -> None:
        """`bodies` are MessagePack without a header, for what is no socket of messages."""
        self._heard = Heard() if heard is None else heard
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
        if draw.random() < ANSWERING:
            self._heard.answer(body, draw)
        return self._written(body, packed=draw.random() < 0.5)

    def changed(self, frame: bytes) -> bytes:
        """A good frame with changed values."""
        packed = frame[2:3] != b"J"
        decode = msgspec.msgpack.decode if packed else msgspec.json.decode
        body = decode(frame[HEADER_BYTES:])
        for _ in range(self._draw.choice((1, 1, 1, 2, 3))):
            self._change(body)
        return self._written(body, packed=packed)

    def _written(self, body: Any, *, packed: bool) -> bytes:
        draw = self._draw
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
        if isinstance(at, dict) and COLUMNS & at.keys() and draw.random() < 0.5:
            _reorder(at, draw)
            return
        self._replace(at, key, below)

    def _replace(self, at: Any, key: Any, below: Any) -> None:
        draw, choice = self._draw, self._draw.random()
        if choice < 0.25 and (alike := [each for each in VALUES if type(each) is type(below)]):
            at[key] = deepcopy(draw.choice(alike))
        elif choice < 0.35:
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


def _reorder(columns: dict[str, Any], draw: random.Random) -> None:
    """Other rows of a series or of buckets, more or fewer: all columns keep one length."""
    first = columns.get("time_ms", columns.get("count"))
    if not isinstance(first, bytes | list) or not first:
        return
    packed = isinstance(first, bytes)
    if not (length := len(first) // (8 if "time_ms" in columns else 4) if packed else len(first)):
        return
    places = draw.choices(range(length), k=draw.choice((0, 1, 2, length, length + 1, 300)))

    def chosen(column: Any) -> Any:
        if isinstance(column, dict):
            return {name: chosen(each) for name, each in column.items()}
        if not isinstance(column, bytes | list) or not column:
            return column
        width = len(column) // length
        if not packed:
            return [column[i] for i in places]
        if draw.random() < 0.3:
            # Every value is one at the limit of its type, or no number.
            return draw.choice((b"\0", b"\xff", b"\x7f")) * width * len(places)
        return b"".join(column[i * width : (i + 1) * width] for i in places)

    columns.update({name: chosen(column) for name, column in columns.items()})
