"""Metrics plane: counts the master's records, and reads its status when Prometheus scrapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from agent.master.recording.records import Records
from agent.metrics import master_families as f
from agent.metrics.families import MALFORMED_FRAMES, MESSAGES_DROPPED, Family
from agent.metrics.from_records import FromRecords
from agent.metrics.numbers import Labels, Samples, gauge, known
from agent.runtime.reactor import Reactor
from agent.wire.config import Metrics
from agent.wire.operator import IadStatus
from agent.wire.records import AnyRecord
from agent.wire.topics import TopicStatus

if TYPE_CHECKING:
    from agent.metrics.page import Page

# Adding up records in batches takes a ninth of the time of one by one, and under a millisecond for
# this many.
BATCH: Final = 512
# Status counters by sample; a component that a master lacks shows nothing.
COUNTERS: Final[dict[str, tuple[Family, Labels]]] = {
    "malformed_frames": (MALFORMED_FRAMES, ()),
    "messages_dropped": (MESSAGES_DROPPED, ()),
    "records_lost": (f.RECORDS_LOST, ()),
    "tasks_cancelled": (f.TASKS_CANCELLED, ()),
    "late_or_unknown_task_results": (f.TASK_RESULTS_IGNORED, ()),
    "redispatched": (f.REDISPATCHED, ()),
    "subtasks_demoted": (f.SUBTASKS_DEMOTED, ()),
    "late_results": (f.SUBTASK_RESULTS_IGNORED, ("late",)),
    "duplicate_or_unknown_results": (f.SUBTASK_RESULTS_IGNORED, ("unknown",)),
    "implausible_results": (f.SUBTASK_RESULTS_IGNORED, ("implausible",)),
    "rounds_asked": (f.WATCH_ROUNDS, ()),
    "rounds_put_off": (f.WATCH_ROUNDS_PUT_OFF, ()),
    "pod_requests_refused": (f.POD_REQUESTS_FAILED, ("refused",)),
    "pod_requests_failed": (f.POD_REQUESTS_FAILED, ("failed",)),
    "node_events_repeated": (f.NODE_EVENTS_REPEATED, ()),
    "node_events_refused": (f.NODE_EVENTS_REFUSED, ()),
    "node_events_implausible": (f.NODE_EVENTS_IMPLAUSIBLE, ()),
    "spooled_alerts": (f.ALERTS, ()),
    "notifications_sent": (f.NOTIFICATIONS_SENT, ()),
    "spooled_given_up": (f.NOTIFICATIONS_GIVEN_UP, ("spool",)),
    "notifications_dropped": (f.NOTIFICATIONS_GIVEN_UP, ("inbox",)),
    "overlay_given_up": (f.NOTIFICATIONS_GIVEN_UP, ("on_the_way",)),
    "overlay_relayed": (f.OVERLAY_DETOURS, ()),
    "moves_settled": (f.MOVES, ("settled",)),
    "moves_aborted": (f.MOVES, ("aborted",)),
    "moves_taken": (f.MOVES, ("taken",)),
    "webhook_delivered": (f.WEBHOOK_POSTS, ("delivered",)),
    "webhook_failed": (f.WEBHOOK_POSTS, ("failed",)),
    "webhook_given_up": (f.WEBHOOK_POSTS, ("given_up",)),
}


class MetricsPlane:
    """Serves /metrics if an address is configured; otherwise costs nothing.

    `status` is called on the loop at each scrape, and `peers` returns the IADs that it has links
    to. OSError if the address cannot be bound.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: Metrics,
        records: Records,
        status: Callable[[], IadStatus],
        peers: Callable[[], Collection[str]],
    ) -> None:
        self._status = status
        self._peers = peers
        self._shown: dict[Family, Callable[[], float | None]] = {}
        self._shown_by: dict[Family, Callable[[], Mapping[str, float]]] = {}
        self._counted = FromRecords()
        self._batch: list[AnyRecord] = []
        self._page: Page | None = None
        if config.address:
            from agent.metrics.page import Page  # 10 MiB, with the HTTP server

            self._page = Page(config, f.MASTER, self._take)
            reactor.listen(self._page.fileno, self._page.turn)
            records.tell(self._record)

    def shows(self, family: Family, value: Callable[[], float | None]) -> None:
        """Add a gauge without labels: `value()` is called on the loop at each scrape; None: no
        sample."""
        self._shown[family] = value

    def shows_by(self, family: Family, values: Callable[[], Mapping[str, float]]) -> None:
        """The same for a gauge with one label: samples by the label's value."""
        self._shown_by[family] = values

    def close(self) -> None:
        """Stop serving."""
        if self._page is not None:
            self._page.close()

    def _record(self, record: AnyRecord, _now: float) -> None:
        batch = self._batch
        batch.append(record)
        if len(batch) >= BATCH:
            self._add_up()

    def _add_up(self) -> None:
        batch, self._batch = self._batch, []
        self._counted.add(batch)

    def _take(self) -> list[Samples]:
        self._add_up()
        samples = self._counted.samples() + read(self._status(), self._peers())
        samples += [known(family, value()) for family, value in self._shown.items()]
        samples += [
            gauge(family, [((label,), value) for label, value in values().items()])
            for family, values in self._shown_by.items()
        ]
        return samples


def read(status: IadStatus, peers: Iterable[str]) -> list[Samples]:
    """The samples in a master's status. O(nodes + peers + topics)."""
    nodes = status.nodes
    states = Counter(node.state for node in nodes)
    counters: dict[Family, dict[Labels, float]] = {}
    for name, (family, labels) in COUNTERS.items():
        if name in status.counters:
            counters.setdefault(family, {})[labels] = status.counters[name]
    registered = [] if status.registered is None else [((), status.registered)]
    return [
        *(Samples(family, values, {}) for family, values in counters.items()),
        gauge(f.IAD_INFO, [((status.iad, status.policy), 1)]),
        gauge(f.OPEN_QUERIES, [((), status.open_queries)]),
        gauge(f.OPEN_TASKS, [((), status.open_tasks)]),
        gauge(f.NODES, [((state,), states[state]) for state in ("live", "lost", "left")]),
        gauge(f.NODE_UP, [((node.node,), node.state == "live") for node in nodes]),
        gauge(f.NODE_PODS, [((node.node,), node.pods) for node in nodes]),
        gauge(f.NODE_PODS_IDLE, [((node.node,), max(0, node.idle_pods)) for node in nodes]),
        gauge(f.QUEUE_LENGTH, [((node.node,), node.queued) for node in nodes]),
        gauge(f.NODE_EVENTS_WAITING, [((node.node,), node.events_waiting) for node in nodes]),
        gauge(f.NODE_EVENTS_DROPPED, [((node.node,), node.events_dropped) for node in nodes]),
        gauge(f.REGISTERED, registered),
        gauge(f.PEER_UP, [((iad,), iad not in status.unreachable_iads) for iad in peers]),
        *_of_topics(status.topics),
    ]


def _of_topics(topics: Sequence[TopicStatus]) -> list[Samples]:
    """Operators choose topics, and a master has a few hundred at most: each is a label value."""
    processed = [each for each in topics if each.topic.processor]

    def of(family: Family, some: Sequence[TopicStatus], name: str) -> Samples:
        return gauge(family, [((each.topic.name,), getattr(each, name)) for each in some])

    taken_in = [
        ((each.topic.name,), each.arrived if each.topic.processor else each.received)
        for each in topics
    ]
    known_s = [
        ((each.topic.name,), each.latency_ms / 1e3)
        for each in processed
        if each.latency_ms is not None
    ]
    return [
        gauge(f.TOPIC_IN, taken_in),
        of(f.TOPIC_OUT, topics, "put_out"),
        of(f.TOPIC_WAITING, processed, "waiting"),
        of(f.TOPIC_LATE, processed, "late"),
        of(f.TOPIC_FAILED, processed, "failed"),
        of(f.TOPIC_CPU, processed, "cpu_s"),
        gauge(f.TOPIC_LATENCY, known_s),
    ]
