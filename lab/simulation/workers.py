"""Work distribution to processes, one piece at a time each, and their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, Self, TypeVar

from lab import spawned

W = TypeVar("W")
Say = Callable[[Any], None]


class WorkerError(RuntimeError):
    """A piece of work failed, or its process died; one line says so."""


class Done:
    """Message of a process that has finished a piece of work."""


class Workers(Generic[W]):
    """`count` processes that call `work(piece, say)`, a module-level function. Leaving terminates
    them, whatever they are doing."""

    def __init__(self, count: int, work: Callable[[W, Say], None]) -> None:
        self.count = count
        context = spawned.context()
        self._processes = []
        self._links: list[Connection[Any, Any]] = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, work), daemon=True)
            with spawned.held():
                process.start()
            theirs.close()
            self._processes.append(process)
            self._links.append(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
            process.close()
        for link in self._links:
            link.close()

    def run(self, next_piece: Callable[[], W | None]) -> Iterator[tuple[int, W, Any]]:
        """Distribute pieces until there are none; yields the messages of the processes: the number
        of the process, its piece, and the message, a `Done` last.

        `next_piece` is called again after every `Done`: None means none now.
        """
        at_work: dict[int, W] = {}
        while True:
            for number, link in enumerate(self._links):
                if number not in at_work and (piece := next_piece()) is not None:
                    at_work[number] = piece
                    link.send(piece)
            if not at_work:
                return
            heard = wait([self._links[number] for number in at_work])
            for number in [number for number in at_work if self._links[number] in heard]:
                try:
                    said = self._links[number].recv()
                except EOFError:
                    raise WorkerError(
                        "a process of the simulation died, perhaps for want of memory; "
                        "run it again with fewer --jobs: finished results are kept"
                    ) from None
                if isinstance(said, WorkerError):
                    raise said
                piece = at_work[number]
                if isinstance(said, Done):
                    del at_work[number]
                yield number, piece, said


def _serve(link: Connection[Any, Any], work: Callable[[W, Say], None]) -> None:
    while True:
        try:
            piece = link.recv()
        except EOFError:
            return
        try:
            work(piece, link.send)
        except (ValueError, MemoryError) as error:
            link.send(WorkerError(str(error) or "out of memory; run it again with fewer --jobs"))
            return
        link.send(Done())
