"""Real worker processes under a real reactor, with processors of a package made for the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent.master.topics.worker_pool import WorkerPool
from agent.processing.definition import Definition, Limits
from agent.processing.events import Arrived, Checkpoint, Create, Emit, Report, Save
from agent.processing.processing import Processing
from agent.runtime.reactor import Reactor

PATIENCE_S = 120.0


def package(folder: Path, code: str, **names: str) -> Path:
    """A package `acme` in `folder`; `names` are its processors and their functions."""
    info = folder / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    lines = [f"{name} = {where}\n" for name, where in names.items()]
    (info / "entry_points.txt").write_text("[sanderling.processors]\n" + "".join(lines))
    (folder / "acme.py").write_text(code)
    return folder


class Workers:
    """A pool, and what came out of it."""

    def __init__(self, workers: int = 1, **options: int) -> None:
        self.reactor = Reactor(time.monotonic)
        self.processing = Processing(workers)
        self.seen: list[object] = []
        self.said: list[str] = []
        self.pool = WorkerPool(
            self.reactor, self.processing, self.seen.append, self.said.append, **options
        )
        self._until: Callable[[], bool] = bool
        self._ends_s = 0.0
        self.filenos = ()
        self.next_due = 0.0
        self.reactor.add_timer(self)
        self.pool.start()

    def tick(self, now: float) -> None:
        """So that `requested` is asked now and then."""
        self.next_due = now + 0.5

    @property
    def requested(self) -> bool:
        """Whether the reactor is to stop."""
        assert time.monotonic() < self._ends_s, (self.seen, self.processing.status(0.0))
        return self._until()

    def run_until(self, condition: Callable[[], bool]) -> None:
        self._until = condition
        self._ends_s = time.monotonic() + PATIENCE_S
        self.reactor.serve(self)

    def create(
        self,
        name: str,
        processor: str,
        *,
        parameters: dict[str, object] | None = None,
        checkpoint: Checkpoint | None = None,
        **limits: object,
    ) -> None:
        limits = {"wall_s": 60.0, "cpu_s": 30.0, **limits}
        made = Definition(
            name=name, processor=processor, parameters=parameters or {}, limits=Limits(**limits)
        )
        self.pool.handle(Create(made, 0, checkpoint or Checkpoint()))

    def send(self, name: str, position: int, **message: object) -> None:
        self.pool.handle(Arrived(name, position, msgspec.msgpack.encode(message)))

    def state(self, name: str) -> str:
        return next(
            s.state for s in self.processing.status(time.monotonic()) if s.processor == name
        )

    def emits(self, name: str) -> list[Emit]:
        return [one for one in self.seen if isinstance(one, Emit) and one.processor == name]

    def reports(self, name: str) -> list[str]:
        return [one.text for one in self.seen if isinstance(one, Report) and one.processor == name]

    def saves(self, name: str) -> list[Save]:
        return [one for one in self.seen if isinstance(one, Save) and one.processor == name]
