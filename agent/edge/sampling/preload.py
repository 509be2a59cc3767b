"""Preloaded readings of a driver, taken from it in a thread of their own: it may never return."""

from __future__ import annotations

import threading
import time
from _queue import Empty, SimpleQueue  # all of queue takes 0.1 MiB
from collections.abc import Iterator
from itertools import islice
from typing import Final

from sensors.base import Driver, Reading, SensorError, reason_of

# Of all sensors of a node. systemd gives an agent 300 s to start.
PRELOAD_S: Final = 240.0
BATCH: Final = 256

Past = tuple[int, Reading]


def preloaded(driver: Driver, patience_s: float) -> Iterator[Past]:
    """The readings; SensorError if the driver fails, or takes longer than `patience_s`. Its thread
    is left to itself then, and ends if it returns."""
    until_s = time.monotonic() + patience_s
    wanted: SimpleQueue[bool] = SimpleQueue()
    found: SimpleQueue[list[Past] | str] = SimpleQueue()
    threading.Thread(
        target=_take, args=(driver, wanted, found), name="preload", daemon=True
    ).start()
    late = SensorError(f"the driver has not given all of them within {patience_s:.0f} s")
    try:
        while True:
            wanted.put(True)
            try:
                batch = found.get(timeout=max(0.0, until_s - time.monotonic()))
            except Empty:
                raise late from None
            if isinstance(batch, str):
                raise SensorError(batch)
            if not batch:
                return
            if time.monotonic() >= until_s:
                raise late
            yield from batch
    finally:
        wanted.put(False)


def _take(driver: Driver, wanted: SimpleQueue[bool], found: SimpleQueue[list[Past] | str]) -> None:
    try:
        past = iter(driver.preload())
        while wanted.get():
            found.put(list(islice(past, BATCH)))
    except BaseException as error:  # noqa: BLE001 - a driver may raise anything
        found.put(reason_of(error))
