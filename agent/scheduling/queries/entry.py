"""State of an open query: its shares, one per IAD asked, and first answers to redundant tasks."""

from __future__ import annotations

from collections.abc import Iterable

from agent.runtime.state_machine import StateMachine
from agent.scheduling.events import Peer
from agent.scheduling.lifecycle import QUERY_TRANSITIONS
from agent.scheduling.result_budget import ResultBudget
from agent.scheduling.shared_budget import Holding
from agent.wire.areas import AreaSet
from agent.wire.messages import AreaResult, Missing, MissingReason, Query, Task, TaskResult
from agent.wire.principals import Sender


class Share:
    """One IAD's task of an open query. `areas` are missing until it replies."""

    __slots__ = (
        "allowed", "areas", "asked", "cancelled", "gap", "iad", "refusal", "result", "stale",
        "taken", "task", "task_id", "why",
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
        # Bytes of the answer's size limit that the result takes.
        self.taken = 0
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
        "refused", "room", "sender", "shares", "task_percentile", "timeout_s", "timer", "unmatched",
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
        # The answer timeout.
        self.timeout_s = received_s
        self.timer = -1

    def release(self) -> None:
        """Return both: the query has ended."""
        self.held.release()
        self.held_areas.release()

    def __repr__(self) -> str:
        return f"<query {self.query.id} {self.state}, {self.pending} pending>"


class FirstAnswers:
    """The answers so far to a query whose areas went to two IADs each: the first for each area
    counts, and ends the wait for the other.

    `open` are the expected areas without a complete answer: one IAD's results without a gap.
    """

    __slots__ = ("_by_area", "open")

    def __init__(self, expected: Iterable[str]) -> None:
        self.open = set(expected)
        self._by_area: dict[str, AreaResult] = {}

    @property
    def results(self) -> list[AreaResult]:
        """The first result of each area."""
        return list(self._by_area.values())

    def __contains__(self, area: object) -> bool:
        """Whether that area has its first result."""
        return area in self._by_area

    def take(self, share: Share, result: TaskResult) -> None:
        """Record an IAD's result. O(results + areas)."""
        for area_result in result.results:
            self._by_area.setdefault(area_result.area, area_result)
        answered = AreaSet(r.area for r in result.results)
        gaps = AreaSet(gap.area for gap in result.missing)
        self.open -= {a for a in share.areas if answered.overlaps(a) and not gaps.overlaps(a)}

    def unsettled(self, gaps: Iterable[Missing]) -> list[Missing]:
        """The gaps that no other IAD's answer has filled."""
        still_open = AreaSet(self.open)
        return [gap for gap in gaps if still_open.overlaps(gap.area)]

    def beyond(self, refused: Share, others: Iterable[Share]) -> bool:
        """Whether an area of an IAD that refused can be answered by no other IAD."""
        coming = {area for share in others for area in share.areas}
        return any(area in self.open and area not in coming for area in refused.areas)
