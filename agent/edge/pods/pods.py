"""Pod pool: worker threads that serve one subtask each at a time.

Most of the work runs without the GIL: SQLite reads, joining and copying bytes. With emulated
hardware, a pod waits for the emulated service time on top of the real retrieval.
"""

from __future__ import annotations

import threading
import time
from _queue import SimpleQueue  # all of queue takes 0.1 MiB
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from agent.edge.history.history import History
from agent.edge.history.reader import Reader
from agent.edge.history.window_size import TooLargeError
from agent.wire import codec
from agent.wire.base import MAX_TEXT
from agent.wire.buckets import grid_of
from agent.wire.node_messages import Subtask, SubtaskResult
from agent.wire.too_large import bytes_of, in_words, too_large

SHORT_READINGS: Final = 1_000  # packed in tens of microseconds
PATIENCE_S: Final = 3.0  # at shutdown, for subtasks in progress


class ReceivedSubtask(Struct, frozen=True):
    """A subtask for a pod; `at` is its monotonic arrival time, `wall_ms` the end of its window if
    that is relative."""

    subtask: Subtask
    at: float
    wall_ms: int


class Done(Struct, frozen=True):
    """The encoded result of a subtask."""

    subtask: int
    frame: bytes


class Pods:
    """`count` pods over one history, until `resize`. A pod calls `wake` when `take` has new
    results.

    `service_time_s` returns the seconds to emulate for a subtask's seed and the length (s) of its
    window; None emulates nothing. Without `threads_follow` the number of threads stays `count`:
    added pods work elsewhere.
    """

    def __init__(
        self,
        history: History,
        count: int,
        wake: Callable[[], object],
        service_time_s: Callable[[int | None, float], float] | None = None,
        *,
        threads_follow: bool = True,
    ) -> None:
        self._history = history
        self._wake = wake
        self._service_time_s = service_time_s
        self._handed: SimpleQueue[ReceivedSubtask | None] = SimpleQueue()
        self._done: SimpleQueue[Done] = SimpleQueue()
        self._reader = Reader(history)  # used by the submitting thread
        self._stopping = threading.Event()
        self._threads_follow = threads_follow
        self._elsewhere = 0  # pods that work outside of this process
        self._elsewhere_changes = threading.Lock()
        self._count = 0
        self._threads: list[threading.Thread] = []
        self.resize(count)

    @property
    def history(self) -> History:
        """The history that the pods serve from."""
        return self._history

    def emulated_s(self, subtask: Subtask) -> float:
        """Seconds to wait on top of the real work; 0 without emulation."""
        if self._service_time_s is None:
            return 0.0
        return self._service_time_s(subtask.emulation_seed, subtask.window.length_s)

    def resize(self, count: int) -> None:
        """Change the number of pods to `count`; call it in the submitting thread.

        When the number shrinks, idle pods end now and busy ones after their subtask. A subtask
        submitted while fewer than `count` run still finds an idle pod at once: the queue holds one
        `None` before it for each pod that is to end.
        """
        if self._threads and not self._threads_follow:
            return
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        for _ in range(self._count, count):
            thread = threading.Thread(target=self._serve, name="pod", daemon=True)
            thread.start()
            self._threads.append(thread)
        for _ in range(count, self._count):
            self._handed.put(None)
        self._count = count

    def submit(self, received: ReceivedSubtask) -> bool:
        """Hand a subtask to an idle pod; the caller knows that one is idle.

        A short window that is in memory is served at once in the calling thread, as handing it over
        would take longer than the work. True if so: `take` has the result.
        """
        start_ms, _ = received.subtask.window.bounds_ms(received.wall_ms)
        if self._service_time_s is None and self._history.holds(start_ms, SHORT_READINGS):
            self._done.put(Done(received.subtask.id, self._execute(self._reader, received)))
            return True
        self._handed.put(received)
        return False

    def take(self) -> list[Done]:
        """The results finished since the last call."""
        return [self._done.get_nowait() for _ in range(self._done.qsize())]

    def serve_elsewhere(self, worker: Callable[[ReceivedSubtask], bytes]) -> None:
        """Serve as an additional pod in the calling thread, with `worker` doing the work, until the
        pods stop or `worker` raises OSError; then another pod takes its subtask."""
        with self._elsewhere_changes:
            self._elsewhere += 1
        try:
            while (received := self._handed.get()) is not None and not self._stopping.is_set():
                try:
                    frame = worker(received)
                except OSError:
                    self._handed.put(received)
                    return
                self._done.put(Done(received.subtask.id, frame))
                self._wake()
        finally:
            with self._elsewhere_changes:
                self._elsewhere -= 1

    def stop(self) -> None:
        """End all pods and abandon their running subtasks. A pod that does not return soon, since a
        long window takes it minutes, ends with the process."""
        self._stopping.set()
        with self._elsewhere_changes:
            elsewhere = self._elsewhere
        for _ in range(len(self._threads) + elsewhere):
            self._handed.put(None)
        until_s = time.monotonic() + PATIENCE_S
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        self._reader.close()

    def _serve(self) -> None:
        reader = Reader(self._history)
        while (received := self._handed.get()) is not None and not self._stopping.is_set():
            self._done.put(Done(received.subtask.id, self._execute(reader, received)))
            if not self._stopping.is_set():  # nobody is there any more to be woken
                self._wake()
        reader.close()

    def _execute(self, reader: Reader, received: ReceivedSubtask) -> bytes:
        return execute(reader, received, self.emulated_s(received.subtask), self._stopping)


def execute(
    reader: Reader, received: ReceivedSubtask, emulated_s: float, stopping: threading.Event
) -> bytes:
    """Serve a subtask and encode its result; an error becomes a result, too.

    Waits `emulated_s` on top of the work, unless `stopping` is set.
    """
    started = time.monotonic()
    wait_ms = (started - received.at) * 1000
    try:
        result = _retrieve(reader, received, wait_ms, started, emulated_s, stopping)
        if result.series is not None:
            # The estimate assumes even spacing; groups at the window's ends may have more readings.
            size = bytes_of(result.series)
            if size > reader.most_bytes:
                length_s = received.subtask.window.length_s
                raise TooLargeError(too_large(size, reader.most_bytes, length_s))
        return codec.encode(result)
    except TooLargeError as error:
        elapsed_ms = (time.monotonic() - started) * 1000
        text = in_words(error.found, reader.most_bytes)
        return codec.encode(
            SubtaskResult(
                received.subtask.id,
                "error",
                wait_ms,
                elapsed_ms,
                message=text,
                too_large=error.found,
            )
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, the pod lives and the master is told
        reader.close()  # a connection that failed once is not trusted again
        text = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_TEXT]
        failed_ms = (time.monotonic() - started) * 1000
        return codec.encode(
            SubtaskResult(received.subtask.id, "error", wait_ms, failed_ms, message=text)
        )


def _retrieve(
    reader: Reader,
    received: ReceivedSubtask,
    wait_ms: float,
    started: float,
    emulated_s: float,
    stopping: threading.Event,
) -> SubtaskResult:
    subtask = received.subtask
    start_ms, end_ms = subtask.window.bounds_ms(received.wall_ms)
    series = aggregate = buckets = None
    if subtask.form == "series":
        series = reader.series(start_ms, end_ms, subtask.channels)
    elif subtask.form == "buckets":
        relative = subtask.window.last_s is not None
        grid = grid_of(start_ms, end_ms, subtask.bucket_ms, relative=relative)
        buckets = reader.buckets(start_ms, end_ms, subtask.channels, grid)
    else:
        aggregate = reader.aggregate(start_ms, end_ms, subtask.channels)
    if emulated_s:
        stopping.wait(emulated_s)
    return SubtaskResult(
        subtask.id,
        "no_data" if series is None and aggregate is None and buckets is None else "ok",
        wait_ms,
        (time.monotonic() - started) * 1000,
        series,
        aggregate,
        buckets=buckets,
    )
