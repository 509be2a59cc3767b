"""A query and the shares of it that IADs serve, while it is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.runtime.state_machine import StateMachine
from agent.scheduling.events import Peer
from agent.scheduling.lifecycle import QUERY_TRANSITIONS
from agent.scheduling.result_budget import ResultBudget
from agent.wire.messages import Gap, Missing, Query, Task, TaskResult
from agent.wire.principals import Sender

if TYPE_CHECKING:
    from agent.scheduling.queries.first_answers import FirstAnswers


class Share:
    """One IAD's task of an open query. `areas` is what is missing as long as it is silent."""

    __slots__ = (
        "areas", "asked", "cancelled", "gap", "iad", "refusal", "result", "task",
        "task_id",
    )  # fmt: skip

    def __init__(self, iad: str, task: Task, areas: list[str]) -> None:
        self.iad = iad
        self.task_id = task.id
        self.asked = task.areas
        # Sent again while its IAD's master may be starting.
        self.task = task
        self.areas = areas
        self.result: TaskResult | None = None
        # Why its areas are missing as long as there is no result.
        self.gap: Gap = "timeout"
        # Where another IAD may still answer for its areas, a refusal is not the end of the query.
        self.refusal: TaskResult | None = None
        # The query did not wait for it.
        self.cancelled = False


class QueryEntry(StateMachine):
    """A query from arrival to answer. `firsts` is there if its areas went to two IADs each."""

    __slots__ = (
        "client", "evaluated_s", "firsts", "pending", "query", "received_s", "refused", "room",
        "sender", "shares", "task_percentile", "timer", "unmatched",
    )  # fmt: skip

    TRANSITIONS = QUERY_TRANSITIONS

    def __init__(self, client: Peer, sender: Sender, query: Query, received_s: float) -> None:
        super().__init__()
        self.client = client
        self.sender = sender
        self.query = query
        self.received_s = received_s
        self.evaluated_s: float | None = None
        self.shares: list[Share] = []
        # Of bytes that its answer may hold.
        self.room = ResultBudget()
        self.firsts: FirstAnswers | None = None
        self.refused: list[Share] = []
        self.pending = 0
        # The areas that nobody offers.
        self.unmatched: list[Missing] = []
        self.task_percentile = query.slo.percentile
        self.timer = -1

    def __repr__(self) -> str:
        return f"<query {self.query.id} {self.state}, {self.pending} pending>"
