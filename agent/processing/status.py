"""A processor as operators and records see it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from agent.processing.measures import Counters, Spread
from agent.processing.processor import Processor


class Status(Struct, frozen=True):
    """A processor as operators see it. `worker` is None while no worker has its state."""

    processor: str
    program: str
    state: str
    worker: int | None
    waiting: int
    waiting_bytes: int
    state_bytes: int
    position: int  # of the checkpoint
    failures: int  # in a row
    last_failure: str
    counters: Counters
    spreads: dict[str, Spread]

    @classmethod
    def of(cls, processor: Processor, now: float) -> Status:
        """Its status at monotonic time `now`, with counters as they are."""
        return cls(
            processor.name,
            processor.definition.processor,
            processor.state,
            processor.worker,
            processor.waiting,
            processor.bytes,
            len(processor.checkpoint.state),
            processor.checkpoint.position,
            processor.failures,
            processor.last_failure,
            replace(processor.measures.counters),
            processor.measures.lately.spreads(now),
        )
