"""Work distribution to the executors of a Spark session, one piece at a time each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fleet.spark.errors import told
from lab.simulation.workers import Done, Say, WorkerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

W = TypeVar("W")


class SparkWorkers(Generic[W]):
    """Counterpart of `Workers` on Spark: as many pieces at once as the session has processors, each
    a job of one task, which Spark repeats if an executor is lost. Messages of a piece arrive when
    it is done. The executors must have this package, in the same version."""

    def __init__(self, session: SparkSession, work: Callable[[W, Say], None]) -> None:
        self._context = session.sparkContext
        self._work = work
        self.count = self._context.defaultParallelism

    def run(self, next_piece: Callable[[], W | None]) -> Iterator[tuple[int, W, Any]]:
        """As `Workers.run`; the numbers are those of the running pieces, from 0 on."""
        heard: SimpleQueue[tuple[int, list[Any] | Exception]] = SimpleQueue()
        at_work: dict[int, W] = {}
        while True:
            for number in range(self.count):
                if number not in at_work and (piece := next_piece()) is not None:
                    at_work[number] = piece
                    # Threads, because Spark blocks while it waits for a job.
                    perform = threading.Thread(
                        target=self._perform, args=(number, piece, heard), daemon=True
                    )
                    perform.start()
            if not at_work:
                return
            number, said = heard.get()
            if isinstance(said, Exception):
                raise said
            piece = at_work.pop(number)
            for each in said:
                if isinstance(each, WorkerError):
                    raise each
                yield number, piece, each
            yield number, piece, Done()

    def _perform(
        self, number: int, piece: W, heard: SimpleQueue[tuple[int, list[Any] | Exception]]
    ) -> None:
        try:
            heard.put(
                (number, self._context.parallelize([piece], 1).flatMap(self._task()).collect())
            )
        except Exception as error:  # noqa: BLE001 - whoever waits raises it
            known = told(error)
            heard.put((number, WorkerError(str(known)) if known else error))

    def _task(self) -> Callable[[W], list[Any]]:
        work = self._work

        def task(piece: W) -> list[Any]:
            said: list[Any] = []
            try:
                work(piece, said.append)
            except (ValueError, MemoryError) as error:
                said.append(WorkerError(str(error) or "out of memory"))
            return said

        return task
