"""State of an open query and of its shares, one per IAD asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.runtime.state_machine import StateMachine
from agent.scheduling.events import Peer
from agent.scheduling.lifecycle import QUERY_TRANSITIONS
from agent.scheduling.result_budget import ResultBudget
from agent.scheduling.shared_budget import Holding
from agent.wire.areas import AreaSet
from agent.wire.messages import AreaResult, Missing, MissingReason, Query, Task, TaskResult
from agent.wire.principals import Sender

if TYPE_CHECKING:
    from agent.scheduling.queries.first_answers import FirstAnswers


class Share:
    """One IAD's task of an open query. `areas` are missing until it replies."""

    __slots__ = (
        "allowed", "areas", "asked", "cancelled", "gap", "iad", "refusal", "result", "stale",
        "task", "task_id", "why",
    )  # fmt: skip

    def __init__(
        self, iad: str, task: Task, areas: list[str], allowed: AreaSet | None = None
    ) -> None:
        self.iad = iad
        self.allowed = allowed
        self.task_id = task.id
        self.asked = task.areas
        # Sent again while the IAD's master may be starting.
        self.task = task
        self.areas = areas
        self.result: TaskResult | None = None
        # Last known values of its areas that are missing.
        self.stale: tuple[AreaResult, ...] = ()
        # The reason why its areas are missing until there is a result.
        self.gap: MissingReason = "timeout"
        self.why = ""
        # If another IAD may still answer for its areas, a refusal does not end the query.
        self.refusal: TaskResult | None = None
        # The query did not wait for it.
        self.cancelled = False


class QueryEntry(StateMachine):
    """A query from arrival to answer. `firsts` is there if its areas went to two IADs each."""

    __slots__ = (
        "client", "evaluated_s", "firsts", "held", "held_areas", "pending", "query", "received_s",
        "refused", "room", "sender", "shares", "task_percentile", "timer", "unmatched",
    )  # fmt: skip

    TRANSITIONS = QUERY_TRANSITIONS

    def __init__(
        self,
        client: Peer,
        sender: Sender,
        query: Query,
        received_s: float,
        held: Holding,
        held_areas: Holding,
    ) -> None:
        super().__init__()
        self.client = client
        self.sender = sender
        self.query = query
        self.received_s = received_s
        self.evaluated_s: float | None = None
        self.shares: list[Share] = []
        # Size limit of its answer, in bytes.
        self.room = ResultBudget()
        # Its part of the budgets for all answers of this master, and for areas of open queries.
        self.held = held
        self.held_areas = held_areas
        self.firsts: FirstAnswers | None = None
        self.refused: list[Share] = []
        self.pending = 0
        # The areas that no IAD offers.
        self.unmatched: list[Missing] = []
        self.task_percentile = query.slo.percentile
        self.timer = -1

    def release(self) -> None:
        """Return both: the query has ended."""
        self.held.release()
        self.held_areas.release()

    def __repr__(self) -> str:
        return f"<query {self.query.id} {self.state}, {self.pending} pending>"
