"""A worker process as its master sees it: idle, or busy with one request."""

from __future__ import annotations

from typing import Literal

from agent.processing.lifecycle import WORKER_TRANSITIONS
from agent.runtime.state_machine import StateMachine

Request = Literal["", "load", "run", "snapshot"]


class Worker(StateMachine):
    """One worker process. `incarnations` are the processors whose state it has."""

    TRANSITIONS = WORKER_TRANSITIONS
    __slots__ = ("incarnations", "last", "number", "request", "serves", "since_s", "timer")

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.incarnations: dict[int, str] = {}
        self.request: Request = ""
        self.serves = 0  # the incarnation that the request is for
        self.last = 0  # the incarnation of the last request
        self.since_s = 0.0
        self.timer: int | None = None

    def __repr__(self) -> str:
        return f"worker {self.number}"

    def begin(self, request: Request, incarnation: int, now: float) -> None:
        """It got a request."""
        self.become("busy")
        self.request = request
        self.serves = self.last = incarnation
        self.since_s = now

    def answered(self) -> None:
        """It waits for the next request."""
        self.become("idle")
        self.request = ""
        self.serves = 0
