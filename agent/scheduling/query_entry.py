"""A query and the shares of it that IADs serve, while it is open."""

from __future__ import annotations

from agent.scheduling.events import Peer
from agent.scheduling.lifecycle import QUERY_TRANSITIONS, InvalidTransition
from agent.wire.messages import Gap, Query, Task, TaskResult


class Share:
    """One IAD's task of an open query."""

    __slots__ = ("areas", "asked", "gap", "iad", "result", "task_id")

    def __init__(self, iad: str, task: Task, areas: list[str]) -> None:
        self.iad = iad
        self.task_id = task.id
        self.asked = task.areas
        self.areas = areas
        self.result: TaskResult | None = None
        # Why its areas are missing as long as there is no result.
        self.gap: Gap = "timeout"


class QueryEntry:
    """A query from arrival to answer."""

    __slots__ = (
        "client", "evaluated_s", "pending", "query", "received_s", "shares", "state",
        "task_percentile", "timer", "unmatched",
    )  # fmt: skip

    def __init__(self, client: Peer, query: Query, received_s: float) -> None:
        self.client = client
        self.query = query
        self.received_s = received_s
        self.evaluated_s: float | None = None
        self.state = "new"
        self.shares: list[Share] = []
        self.pending = 0
        self.unmatched: list[str] = []
        self.task_percentile = query.slo.percentile
        self.timer = -1

    def __repr__(self) -> str:
        return f"<query {self.query.id} {self.state}, {self.pending} pending>"

    def become(self, state: str) -> None:
        """Change state along `QUERY_TRANSITIONS`."""
        if (self.state, state) not in QUERY_TRANSITIONS:
            raise InvalidTransition(self.state, state, self)
        self.state = state
