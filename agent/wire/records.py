"""Log records: one JSON line per query, task and subtask, with the times of DSSP's Fig. 7; per
event of an edge node, per minute of a topic's processor and of a master's place among others, and
per move of a unit.

Every `*_ms` that is not a budget, a duration or `wall_ms` is counted from the record's own start
(`received`), on the master's monotonic clock. The time of a step that never happened is null.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from agent.wire.base import Policy
from agent.wire.messages import AnswerStatus, MissingReason, Refusal

TaskStatus = AnswerStatus | Literal["cancelled"]
SubtaskOutcome = Literal["ok", "cancelled"] | MissingReason


class Record(Struct, frozen=True, gc=False, tag_field="record"):
    """Base. `wall_ms` is the master's wall clock at the start, UTC; `start_s` its monotonic one."""

    iad: str
    wall_ms: int
    start_s: float


class QueryRecord(Record, frozen=True, tag="query"):
    """One query, written by the query scheduler that received it. `client` is the name of its key
    in the allow-list; empty for a client without a key."""

    query: str
    service: str
    label: str
    areas: tuple[str, ...]
    percentile: float
    slo_ms: float
    status: AnswerStatus
    reason: Refusal | None
    slo_met: bool
    answered: int
    asked: int
    tasks: tuple[str, ...]
    task_percentile: float
    evaluated_ms: float | None
    aggregated_ms: float
    client: str = ""


class TaskRecord(Record, frozen=True, tag="task"):
    """One task, written by the IAD that served it.

    `unloaded_ms` is x_u and `queueing_budget_ms` t_Q = x_t − x_u (DSSP Eqs. 3–5), of its service's
    terms where it asks for more than these; `origin` is the IAD that sent it. A cancelled task
    counts what was answered by then.
    """

    task: str
    service: str
    label: str
    policy: Policy
    percentile: float
    budget_ms: float
    fanout: int
    unloaded_ms: float | None
    queueing_budget_ms: float | None
    status: TaskStatus
    reason: Refusal | None
    answered: int
    asked: int
    evaluated_ms: float
    aggregated_ms: float
    origin: str = ""


class SubtaskRecord(Record, frozen=True, tag="subtask"):
    """One subtask; times count from its task's reception.

    Queueing is dispatched − enqueued; unloaded response is result − dispatched; communication is
    that less `node_wait_ms` (received → started) and `execution_ms` (started → finished), which
    are durations on the node's clock. `deadline_ms` is t_D. `demoted`: it was moved behind all
    others, because its task could hardly meet its budget any more.
    """

    task: str
    label: str
    policy: Policy
    window_s: float
    enqueued_ms: float
    deadline_ms: float
    node: str
    dispatched_ms: float | None
    result_ms: float | None
    node_wait_ms: float | None
    execution_ms: float | None
    missed_deadline: bool
    dispatches: int
    outcome: SubtaskOutcome
    demoted: bool = False


class NodeEventRecord(Record, frozen=True, tag="node_event"):
    """Something that happened at an edge node, such as the start of a sensor's fault; written once,
    however often the node sends it (docs/use/events.md).

    The event is identified by (`node`, `history`, `sequence`). `time_ms` is when it happened, by
    the node's wall clock; `synchronised`: whether that was synchronised then. The record's own
    start is when it was received. Events of a `trigger` name it, its `areas`, and the `value` of
    the channel that caused it.
    """

    node: str
    history: str
    sequence: int
    kind: str
    time_ms: int
    synchronised: bool
    sensor: str
    channel: str
    text: str
    trigger: str = ""
    value: float | None = None
    areas: tuple[str, ...] = ()


class ProcessingRecord(Record, frozen=True, tag="processing"):
    """Work of one topic's processor at a master, and its cost.

    The time begins at the record's own start and lasts `seconds`: about a minute, or less where a
    processor came or went, so that the same topics were `together` on the master all the time. Of
    more than 32 topics, `together` lists only some; `others` counts all others as they were at the
    end, and the time ends only for a processor that goes: others may have come and gone in it.
    `cpu_s` is all CPU time of the processor, `cpu_ms` that of a message, by the worker; waiting is
    from a message's arrival to its start, latency from its arrival to its outputs, by the master's
    clock; means and percentiles are of the messages processed, the last 2,000 if there are more,
    null without any. `achieved_ms` is the percentile of the objective. `waiting`, `state` and
    `state_bytes` are as they were at the end. At most `workers` messages are processed at a time,
    on `cores`.
    """

    topic: str
    processor: str
    seconds: float
    state: str
    percentile: float | None
    slo_ms: float | None
    arrived: int
    processed: int
    late: int
    failed: int
    skipped: int
    outputs: int
    waiting: int
    state_bytes: int
    cpu_s: float
    cpu_ms: float | None
    cpu_p50_ms: float | None
    cpu_p90_ms: float | None
    waiting_ms: float | None
    waiting_p90_ms: float | None
    latency_ms: float | None
    latency_p50_ms: float | None
    latency_p90_ms: float | None
    latency_p99_ms: float | None
    achieved_ms: float | None
    together: tuple[str, ...]
    cores: int
    workers: int
    others: int | None = None


class MoveRecord(Record, frozen=True, tag="move"):
    """A move of a unit to another master, written by the master that it left or that gave it up.

    The unit is a `kind` (home, processor or clone) and a name. `state` is the one that the move
    reached: settled, or where it ended. `pause_ms` is for how long nobody served the unit; null if
    it never stopped. The move ended `moved_ms` after the record's own start.
    """

    kind: str
    unit: str
    source: str
    target: str
    state: str
    reason: str
    pause_ms: float | None
    moved_ms: float


class DelayMeasured(Struct, frozen=True, gc=False):
    """One way to another master, in ms: half a round trip."""

    iad: str
    p50_ms: float
    p90_ms: float


class ArrivalsMeasured(Struct, frozen=True, gc=False):
    """Messages a second of a topic that come by way of the master of `source`. If a `peer` is
    named, they are what that topic puts out, such as another device's clone."""

    topic: str
    source: str
    peer: str
    per_s: float


class ListenersCounted(Struct, frozen=True, gc=False):
    """How many subscriptions at the master name a topic."""

    topic: str
    count: int


class PinSet(Struct, frozen=True, gc=False):
    """A unit that is pinned to a master."""

    kind: str
    unit: str
    iad: str


class PlacementRecord(Record, frozen=True, tag="placement"):
    """Measurements of a master for placement, about once a minute, while it or a master that it
    talks to has something to place (docs/run/placement.md).

    Rates are those of the minute before; `topics` live there. `delays` (`iad`, `p50_ms`, `p90_ms`)
    are one way to masters that were measured in the last minutes, `arrivals` (`topic`, `source`,
    `peer`, `per_s`) messages a second by IAD, with a `peer` those of another clone, `listeners`
    (`topic`, `count`) subscriptions at this master, `pins` (`kind`, `unit`, `iad`) an operator's.
    `compute` is CPU-seconds a second; a limit that is null is none. `mode`: open, frozen or
    draining.
    """

    mode: str
    cores: int
    compute: float | None
    storage_bytes: float | None
    most_processors: int | None
    opening_cost: float
    topics: tuple[str, ...]
    delays: tuple[DelayMeasured, ...]
    arrivals: tuple[ArrivalsMeasured, ...]
    listeners: tuple[ListenersCounted, ...]
    pins: tuple[PinSet, ...]


AnyRecord = (
    QueryRecord
    | TaskRecord
    | SubtaskRecord
    | NodeEventRecord
    | ProcessingRecord
    | MoveRecord
    | PlacementRecord
)

decode_record = msgspec.json.Decoder(AnyRecord).decode
