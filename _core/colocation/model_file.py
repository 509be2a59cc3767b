"""The file of a latency model: JSON that a master reads without what trained it.

{"version": 1, "discipline": "shared-queue", "quantile": 0.9, "cores": 4.0, …}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from _core.colocation.model import Colocation

VERSION: Final = 1
MAX_BYTES: Final = 16 << 20
MAX_TREES: Final = 1_000

Discipline = Literal["thread-a-topic", "shared-queue"]


class ModelError(ValueError):
    """A file that is no latency model; one line says why."""


class Tree(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A regression tree as lists by node: a node goes left if its feature is at most its threshold;
    a leaf has left = right = -1 and adds its value to the logarithm of the latency."""

    feature: list[int]
    threshold: list[float]
    left: list[int]
    right: list[int]
    value: list[float]


class ModelFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a file says. Keys that a later version adds are ignored."""

    version: int
    discipline: Discipline
    quantile: float  # of the latencies that it was trained on
    cores: float
    interference: float
    service_scale: float
    overhead_s: float
    service_variance: float
    speed_variance: float
    window_s: float
    runs: int = 0  # that it was trained on
    # Of one queue: a topic's messages are processed one at a time, as a master does it.
    serial: bool = False
    trees: list[Tree] = []

    def note(self, quantiles: Iterable[float]) -> str:
        """What is to be said to whoever judges objectives of these quantiles; empty if nothing. The
        formulas go from one quantile to another; trees, and the numbers in the formulas, are of
        the one that was measured."""
        others = sorted({each for each in quantiles if abs(each - self.quantile) > 1e-9})
        if not others:
            return ""
        told = ", ".join(f"p{each * 100:g}" for each in others)
        return f"{told} by the formulas: the model was trained on p{self.quantile * 100:g}"

    def model(self) -> Colocation:
        """The model, ready to be asked; ModelError if its numbers are none."""
        if not 0.0 < self.quantile < 1.0:
            raise ModelError(f"quantile = {self.quantile} is not between 0 and 1")
        if len(self.trees) > MAX_TREES:
            raise ModelError(f"it has {len(self.trees)} trees, at most {MAX_TREES} are allowed")
        try:
            return Colocation(
                shared=self.discipline == "shared-queue",
                cores=self.cores,
                interference=self.interference,
                service_scale=self.service_scale,
                overhead_s=self.overhead_s,
                service_variance=self.service_variance,
                speed_variance=self.speed_variance,
                window_s=self.window_s,
                serial=self.serial,
                trees=[(t.feature, t.threshold, t.left, t.right, t.value) for t in self.trees],
            )
        except (ValueError, OverflowError) as error:
            raise ModelError(str(error)) from None


def encode(model: ModelFile) -> bytes:
    """The bytes of the file."""
    return msgspec.json.format(msgspec.json.encode(model), indent=1)


def decode(data: bytes) -> tuple[ModelFile, Colocation]:
    """What the file says, and the model; ModelError, in one line, if it is none."""
    if len(data) > MAX_BYTES:
        raise ModelError(f"a latency model has at most {MAX_BYTES} bytes, this has {len(data)}")
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != VERSION:
            raise ModelError(f"version {version} of a latency model; this release reads {VERSION}")
        found = msgspec.json.decode(data, type=ModelFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"not a latency model: {error}") from None
    return found, found.model()


class _Version(msgspec.Struct):
    version: int
