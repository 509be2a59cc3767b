"""`sanderling-edge` with marks of what its history acknowledged; run under the recorder.

Marks: ``h BOOT`` when the history is open; ``r SENSOR MONOTONIC TIME SYNCHRONISED VALUE…`` before a
reading is appended; ``a N G ID`` when the history ID acknowledges N readings of this start and has
given up G; ``c …`` before and ``C …`` after a correction of the clock; ``e SEQUENCE`` for an event
that is acknowledged; ``t SEQUENCE…`` before events are removed.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

from agent.edge import main
from agent.edge.history import history
from agent.edge.history.memtable import Sample
from agent.edge.timebase import Correction
from tests.torture.recording import mark

os.environ.pop("LD_PRELOAD", None)  # for this process only
CORRECTION = (
    "since_monotonic_ms",
    "until_monotonic_ms",
    "offset_since_ms",
    "offset_until_ms",
    "every",
    "synchronised",
)


class MarkedHistory(history.History):
    """A history that says what it acknowledges."""

    def __init__(self, path: str, boot: str, **settings: Any) -> None:
        super().__init__(path, boot, **settings)
        mark(f"h {boot}")
        add, remove = self.events.add, self.events.remove

        def marked_add(**event: Any) -> Any:
            added = add(**event)
            mark(f"e {added.sequence}")
            return added

        def marked_remove(sequences: Iterable[int]) -> None:
            taken = list(sequences)
            mark(f"t {' '.join(map(str, taken))}")
            remove(taken)

        self.events.add, self.events.remove = marked_add, marked_remove  # type: ignore[method-assign]

    def correct(self, correction: Correction) -> Any:
        told = " ".join(str(int(getattr(correction, field))) for field in CORRECTION)
        mark(f"c {told}")
        result = super().correct(correction)
        mark(f"C {told}")
        return result

    def stream(self, sensor: str, channels: tuple[str, ...], **kept: bool) -> history.Stream:
        stream = super().stream(sensor, channels, **kept)
        append = stream.append

        def marked_append(sample: Sample) -> None:
            values = " ".join(map(repr, sample.values))
            at = f"{sample.monotonic_ms} {sample.time_ms} {int(bool(sample.synchronised))}"
            mark(f"r {sensor} {at} {values}")
            append(sample)
            mark(f"a {self.acknowledged} {self.given_up} {self.id}")

        stream.append = marked_append  # type: ignore[method-assign]
        return stream


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # where it hangs
    main.History = MarkedHistory  # type: ignore[misc]
    sys.exit(main.main())
