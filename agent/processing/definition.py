"""Definition of a processor and its limits, as its topic gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, ValidationError, convert, field

from agent.wire.base import Name
from agent.wire.config import Section

MIB = 2**20

Seconds = Annotated[float, Meta(gt=0.0, le=3_600.0)]
Whole = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=1_024, le=1_024 * MIB)]
# A state travels in one frame between a master and its worker.
StateBytes = Annotated[int, Meta(ge=1_024, le=64 * MIB)]


class Limits(Section, frozen=True):
    """What one processor may take. Whoever exceeds a limit is stopped alone and started again with
    growing pauses."""

    # Of one message: time on the master's clock, and CPU time.
    wall_s: Seconds = 5.0
    cpu_s: Seconds = 2.0
    # Building the processor and restoring its state.
    load_s: Seconds = 30.0
    # By how much its worker may have grown while it ran.
    memory_bytes: Bytes = 64 * MIB
    state_bytes: StateBytes = 4 * MIB
    # Of the messages that wait, and of the bytes of those and of the ones since the checkpoint.
    waiting: Whole = 1_000
    waiting_bytes: Bytes = 4 * MIB
    # Of one message's outputs.
    outputs: Whole = 64
    output_bytes: Bytes = 256 * 1_024
    # A message that fails so often is skipped; a processor that fails so often in a row, and not
    # by messages that are then skipped, is disabled.
    attempts: Whole = 3
    failures: Whole = 10
    # One that skips so many messages in a row is disabled: with the pauses between attempts that
    # takes hours, so that it is hardly the messages.
    skips: Whole = 20
    # When the state is to be kept: whichever comes first.
    checkpoint_messages: Whole = 100
    checkpoint_s: Seconds = 5.0

    @property
    def message_bytes(self) -> int:
        """The largest message that is taken: a few must fit into the queue."""
        return self.waiting_bytes // 4


def limits_of(given: Mapping[str, float]) -> Limits:
    """The limits of a topic: these, and else the usual ones. ValueError in one line."""
    known = Limits.__struct_fields__
    if others := sorted({*given} - {*known}):
        raise ValueError(f"there is no limit {others[0]}; there are {', '.join(known)}")
    # On the wire every number is a double.
    whole = {n: int(v) if float(v).is_integer() else v for n, v in given.items()}
    try:
        return convert(whole, Limits)
    except ValidationError as error:
        raise ValueError(f"limit {_place(str(error))}") from None


def _place(text: str) -> str:
    """msgspec's sentence with the field first: "Expected `int` <= 5 - at `$.outputs`"."""
    what, _, where = text.partition(" - at ")
    return f"{where.strip('`$.')}: {what[:1].lower()}{what[1:]}"


class Definition(Section, frozen=True):
    """A topic's processor: `name` is the topic's, `processor` says which program, and `parameters`
    are that program's own. `slo_s`: by when after its arrival a message should be processed, which
    orders the queue."""

    name: Name
    processor: Name
    parameters: dict[str, Any] = field(default_factory=dict)
    slo_s: Seconds = 1.0
    limits: Limits = Limits()
