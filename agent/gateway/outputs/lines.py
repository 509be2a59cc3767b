"""The output that posts readings in line protocol."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import random
from typing import Final

from agent.gateway.feed.log_bounds import wall_ms
from agent.gateway.output_config import GatewayLines
from agent.gateway.outputs.base import Health, OutputState, Sources
from agent.gateway.outputs.from_config import poster, secret_line
from agent.gateway.outputs.line_protocol import Batches, lines
from agent.gateway.outputs.worker import Worker, WorkerOutput
from agent.net.http_poster import Poster, Request
from agent.runtime.release import release

KIND: Final = "line_protocol"


class LinesOutput(WorkerOutput):
    """`clock` is monotonic seconds. ConfigError for files that cannot be used."""

    kind = KIND
    name = KIND

    def __init__(
        self,
        config: GatewayLines,
        sources: Sources,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random,
    ) -> None:
        self._sources = sources
        self._clock = clock
        self._poster: Poster = poster(
            config.url, config.timeout_s, sources.folder, config.ca, "line_protocol.ca"
        )
        self._headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "User-Agent": f"sanderling/{release() or 'checkout'}",
            "Connection": "close",
        }
        where = "line_protocol.authorization_file"
        if secret := secret_line(sources.folder, config.authorization_file, where):
            self._headers["Authorization"] = secret
        self._batches = Batches(jitter=jitter)
        self._told_ms: dict[tuple[str, str], int] = {}
        self._worker = Worker(KIND, sources, self._run, clock, rooms=True, alerts=False)

    def state(self) -> OutputState:
        """How it is doing now."""
        batches = self._batches
        health: Health = "up" if batches.retrying.up and not batches.last_error else "down"
        if self._worker.stopping or self._worker.ended:
            health = "stopped"
        elif not batches.delivered and not batches.failed:
            health = "starting"
        return OutputState(
            self.kind,
            self.name,
            health,
            batches.waiting,
            batches.delivered,
            batches.failed,
            self._worker.ended or batches.last_error,
        )

    def _run(self) -> None:
        while not self._worker.stopping:
            due_s = self._batches.due_s
            handed = self._worker.wait(None if due_s is None else due_s - self._clock())
            tags = {"gateway": self._sources.gateway}
            made = lines(handed.rooms, tags, self._told_ms, wall_ms())
            self._batches.add(made, self._clock())
            if batch := self._batches.next(self._clock()):
                answered = self._poster.post(Request(batch, self._headers))
                for line in self._batches.answered(answered, self._clock()):
                    self._sources.say(f"{KIND}: {line}\n")
