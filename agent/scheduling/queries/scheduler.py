"""Query scheduler: services and their pools, task budgets, fan-out to IADs, gathering of
results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import blake2b

from msgspec.structs import replace

from _core.deadlines.order_statistics import task_percentile
from agent.scheduling.admission import (
    AgreedRate,
    ClientRates,
    Refused,
    cost_of,
    may_query,
    refusal_counters,
    unknown_service,
)
from agent.scheduling.events import (
    Instruction,
    QueryArrived,
    QueryEvent,
    SendAnswer,
    SendCancel,
    SendTask,
    ServiceChanged,
    ServiceRemoved,
    TaskReturned,
    TaskUndeliverable,
    Tick,
    WriteRecord,
)
from agent.scheduling.nearest import without_node
from agent.scheduling.pools import DEFAULT, Pool
from agent.scheduling.queries import about
from agent.scheduling.queries.answers import (
    apart,
    came_late,
    fitting,
    gather,
    named,
    plausible,
    refusal,
    stale_fitting,
    why_refused,
    within,
)
from agent.scheduling.queries.classes import QueryClasses
from agent.scheduling.queries.entry import FirstAnswers, QueryEntry, Share
from agent.scheduling.queries.records import query_record
from agent.scheduling.shared_budget import (
    FULL,
    MAX_OPEN_AREAS,
    SIZED,
    TOO_MANY_AREAS,
    Holding,
    SharedBudget,
    areas_counted,
    payer_of,
)
from agent.scheduling.tasks.joining import JOINING_S, SHARE
from agent.scheduling.timers import Timers
from agent.wire.areas import AreaSet
from agent.wire.base import MAX_TIMEOUT_MS, RAW, TIMEOUT_FACTOR
from agent.wire.market import Member, Service
from agent.wire.messages import Answer, Query, Task, TaskResult
from agent.wire.principals import Sender

# Share of the answer timeout reserved for the return of a partial task result, and its cap.
RETURN_SHARE = 0.05
MAX_RETURN_S = 0.1


# While this master starts, others may be starting, too: undelivered tasks are sent again.
AGAIN_S = 0.1
# How often a query that is late looks for IADs that cannot be reached any more.
LOOK_S = 1.0


class QueryScheduler:
    """Splits queries into one task per matched IAD and gathers their results into answers.

    `pool` is that of the service `default`, which is unknown if the pool is empty; other services
    come with events. A query keeps the pool that it started with.

    `wall_offset` gives wall time minus the monotonic clock of `now`, which changes when somebody
    sets the clock; it dates the records only.
    `stopwatch` reads the clock that `now` comes from: it times evaluation and aggregation for
    answers and records, and decides nothing; without one they take no time. `run` is a secret of
    this start, from which the task ids are made. `clients` are the rates of clients, without limits
    if there are none. For a while after `started_s` other masters that cannot be reached are tried
    again. `budget` is for what all answers of the process hold.
    """

    def __init__(
        self,
        iad: str,
        pool: Sequence[Member],
        *,
        run: str,
        timeout_factor: float = TIMEOUT_FACTOR,
        clients: ClientRates | None = None,
        wall_offset: Callable[[], float] = lambda: 0.0,
        stopwatch: Callable[[], float] | None = None,
        started_s: float | None = None,
        budget: SharedBudget | None = None,
    ) -> None:
        self._areas = SharedBudget(MAX_OPEN_AREAS)
        self._budget = budget or SharedBudget()
        self._iad = iad
        self._stopwatch = stopwatch
        self._pools: dict[str, Pool] = {}
        if pool:
            self._pools[DEFAULT] = Pool(Service(DEFAULT, iad, 0, tuple(pool)), None)
        self._task_ids = _unguessable(run)
        # Whether an IAD's master is connected, with the tasks that it was sent.
        self.reaches: Callable[[str], bool] = lambda _: True
        self._timeout_factor = timeout_factor
        self._wall_offset = wall_offset
        self._clients = ClientRates() if clients is None else clients
        self._open: dict[str, tuple[QueryEntry, Share]] = {}
        self._timers: Timers[QueryEntry] = Timers()
        self._starting_until_s = -math.inf if started_s is None else started_s + JOINING_S
        self._again: Timers[Share] = Timers()
        self._classes = QueryClasses()
        self.counters = {
            "queries": 0,
            "late_or_unknown_task_results": 0,
            "tasks_cancelled": 0,
            **refusal_counters("queries"),
        }

    @property
    def open_queries(self) -> int:
        """Queries that wait for task results."""
        return len(self._timers)

    @property
    def announced(self) -> list[AreaSet]:
        """The areas of each service's pool."""
        return [pool.announced for pool in self._pools.values()]

    @property
    def services(self) -> Collection[str]:
        """The names of the services that may be queried here."""
        return self._pools.keys()

    def capability(self, service: str) -> str | None:
        """The one channel that a service gives, empty for all; None: the service is unknown
        here."""
        pool = self._pools.get(service)
        return None if pool is None else pool.service.capability

    @property
    def next_tick(self) -> float | None:
        """When `Tick` is due next."""
        due_s = min(self._timers.first_s, self._again.first_s)
        return None if due_s == math.inf else due_s

    def expects(self, iad: str, task_id: str) -> bool:
        """Whether that IAD may still return this task."""
        _, share = self._open.get(task_id, (None, None))
        return share is not None and share.iad == iad

    def handle(self, event: QueryEvent, now: float) -> list[Instruction]:
        """Handle one event at monotonic time `now` (seconds); returns the instructions, in
        order."""
        match event:
            case QueryArrived():
                return self._arrived(event, now)
            case TaskReturned():
                return self._returned(event.iad, event.result, now)
            case TaskUndeliverable():
                return self._undeliverable(event.iad, event.task_id, now)
            case ServiceChanged():
                return self._service_changed(event.service, now)
            case ServiceRemoved():
                return self._service_removed(event.service_id)
            case Tick():
                late = [i for entry in self._timers.due(now) for i in self._overdue(entry, now)]
                return late + self._send_again(now)

    # --- services ----------------------------------------------------------------------------

    def _service_changed(self, service: Service, now: float) -> list[Instruction]:
        if service.id == DEFAULT:
            return []
        rate = None
        if service.terms is not None:
            known = self._pools.get(service.id)
            rate = None if known is None else known.rate
            if rate is None:
                rate = AgreedRate(service.terms.rate_per_s, "queries", now)
            elif rate.rate_per_s != service.terms.rate_per_s:
                rate.change(service.terms.rate_per_s, now)
        self._pools[service.id] = Pool(service, rate)
        return []

    def _service_removed(self, service_id: str) -> list[Instruction]:
        if service_id != DEFAULT:
            self._pools.pop(service_id, None)
        return []

    # --- from query to tasks -----------------------------------------------------------------

    def _arrived(self, event: QueryArrived, now: float) -> list[Instruction]:
        self.counters["queries"] += 1
        query = event.query
        payer = payer_of(event.sender)
        held, held_areas = Holding(self._budget, payer), Holding(self._areas, payer)
        entry = QueryEntry(event.client, event.sender, query, now, held, held_areas)
        if query.form == "about":
            return self._arrived_about(entry, now)
        pool = self._pools.get(query.service)
        refused = self._refused(event.sender, query, pool, now)
        if refused is not None:
            return self._refuse(entry, refused, now)
        assert pool is not None
        fanout = pool.fanout(query.areas)
        if pool.rate is not None:
            part = pool.share(fanout)
            refused = pool.rate.refused(query.service, payer, part, now)
            if refused is not None:
                return self._refuse(entry, refused, now)
            pool.rate.take(payer, part)
        entry.unmatched = without_node(fanout.unmatched, pool.announced)
        if not fanout.matches:
            return self._answer(entry, now)

        entry.task_percentile = task_percentile(query.slo.percentile, fanout.k_q)
        capability = pool.service.capability
        channels = query.channels or ((capability,) if capability else ())
        advance_ms = self._classes.advance_ms(query)
        asked = [about.Asked(query.service, match) for match in fanout.matches]
        instructions = self._send(entry, asked, channels, advance_ms)
        if pool.service.redundant:
            entry.firsts = FirstAnswers(a for share in entry.shares for a in share.areas)
        return self._opened(entry, instructions, now)

    def _arrived_about(self, entry: QueryEntry, now: float) -> list[Instruction]:
        query, sender = entry.query, entry.sender
        pools = about.meant(query.service, about.permitted(self._pools, sender))
        refused = self._clients.refused(sender, now, about.cost(query.areas, pools))
        if refused is None and not pools:
            refused = may_query(sender, query.service)
            if refused is None:
                why = unknown_service(query.service, self._pools, sender)
                refused = Refused("unknown_service", why)
        if refused is None and not self._areas.has_room(
            payer_of(sender), areas_counted(query.areas)
        ):
            refused = Refused("overloaded", TOO_MANY_AREAS)
        if refused is not None:
            return self._refuse(entry, refused, now)
        asked, unmatched = about.split(query.areas, pools)
        entry.unmatched = without_node(unmatched, next(iter(pools.values())).announced)
        if not asked:
            return self._answer(entry, now)
        return self._opened(entry, self._send(entry, asked, query.channels, 0.0), now)

    def _timeout_s(self, query: Query) -> float:
        timeout_ms = query.timeout_ms or query.slo.latency_ms * self._timeout_factor
        return min(timeout_ms, MAX_TIMEOUT_MS) / 1e3

    def _send(
        self,
        entry: QueryEntry,
        asked: Sequence[about.Asked],
        channels: tuple[str, ...],
        advance_ms: float,
    ) -> list[Instruction]:
        """One task for each, its own IAD's last."""
        query = entry.query
        timeout_s, bucket_ms = self._timeout_s(query), query.bucket_ms
        instructions: list[Instruction] = []
        own: list[Instruction] = []
        for service, match in asked:
            task = Task(
                id=next(self._task_ids),
                areas=match.asked,
                window=query.window,
                percentile=entry.task_percentile,
                budget_ms=query.slo.latency_ms,
                timeout_ms=(timeout_s - min(RETURN_SHARE * timeout_s, MAX_RETURN_S)) * 1e3,
                channels=channels,
                form=query.form,
                service=service,
                label=query.label,
                emulation_seed=query.emulation_seed,
                origin=self._iad,
                advance_ms=advance_ms,
                takes_too_large=True,
                stale_ok=query.stale_ok,
                bucket_ms=bucket_ms,
            )
            share = Share(match.iad, task, match.expected, match.allowed)
            entry.shares.append(share)
            self._open[task.id] = (entry, share)
            # This IAD may refuse its own task as soon as that is sent: the others' come before it,
            # so that no cancellation overtakes its task.
            (own if match.iad == self._iad else instructions).append(
                SendTask(match.iad, task, entry.sender)
            )
        return instructions + own

    def _opened(
        self, entry: QueryEntry, instructions: list[Instruction], now: float
    ) -> list[Instruction]:
        entry.pending = len(entry.shares)
        entry.evaluated_s = self._read(now)
        entry.timeout_s = now + self._timeout_s(entry.query)
        self._wait(entry, entry.received_s + entry.query.slo.latency_ms / 1e3)
        entry.held_areas.grow(areas_counted(entry.query.areas))
        entry.become("open")
        return instructions

    def _refused(
        self, sender: Sender, query: Query, pool: Pool | None, now: float
    ) -> Refused | None:
        """Why the query is refused. The cheapest checks come first; resources shared with other
        clients are taken last."""
        refused = may_query(sender, query.service) or self._clients.refused(
            sender, now, cost_of(len(query.areas))
        )
        if refused is not None:
            return refused
        if pool is None:
            why = unknown_service(query.service, self._pools, sender)
            return Refused("unknown_service", why)
        capability = pool.service.capability
        if capability and any(c not in (capability, capability + RAW) for c in query.channels):
            line = f"service {query.service} has only the channel {capability}"
            return Refused("malformed", line)
        if query.form in SIZED and not self._budget.has_room(payer_of(sender), 1):
            return Refused("overloaded", FULL)
        if not self._areas.has_room(payer_of(sender), areas_counted(query.areas)):
            return Refused("overloaded", TOO_MANY_AREAS)
        return None

    # --- from results to an answer -----------------------------------------------------------

    def _returned(self, iad: str, result: TaskResult, now: float) -> list[Instruction]:
        if not self.expects(iad, result.id):
            self.counters["late_or_unknown_task_results"] += 1
            return []
        entry, share = self._open[result.id]
        own, form = iad == self._iad, entry.query.form
        if result.status == "refused" and (why := about.not_answered(form, result, iad, own=own)):
            share.gap, share.why = "iad_unreachable", why
            return self._settled(entry, share, now)
        if result.status != "refused":
            if not own:  # results of its own nodes are looked at as they come
                result = plausible(result, share.task, iad)
            if not own or share.allowed is not None:
                result = within(result, share)
            result, stale = apart(result)
            result = fitting(entry, share, result)
            share.stale = stale_fitting(entry, stale)
        elif not own:
            result = named(result, iad)
        if result.status == "refused":
            share.refusal = result
            entry.refused.append(share)
        else:
            share.result = result
            if entry.firsts is not None:
                entry.firsts.take(share, share.result)
        return self._settled(entry, share, now)

    def _undeliverable(self, iad: str, task_id: str, now: float) -> list[Instruction]:
        entry, share = self._open.get(task_id, (None, None))
        if entry is None or share is None or share.iad != iad:
            return []
        share.gap = "iad_unreachable"
        if now + AGAIN_S < min(
            self._starting_until_s, entry.received_s + SHARE * share.task.timeout_ms / 1e3
        ):
            self._again.set(now + AGAIN_S, share)
            return []
        return self._settled(entry, share, now)

    def _send_again(self, now: float) -> list[Instruction]:
        """Retry unreachable IADs: their masters may be starting, like this one."""
        instructions: list[Instruction] = []
        for share in self._again.due(now):
            if share.task_id in self._open:
                entry, _ = self._open[share.task_id]
                share.gap = "timeout"  # the IAD may be reachable now
                left_ms = share.task.timeout_ms - (now - entry.received_s) * 1e3
                task = replace(share.task, timeout_ms=left_ms)
                instructions.append(SendTask(share.iad, task, entry.sender))
        return instructions

    def _settled(self, entry: QueryEntry, share: Share, now: float) -> list[Instruction]:
        del self._open[share.task_id]
        entry.pending -= 1
        if (refusing := self._refusing(entry)) is not None:
            cancels = self._close(entry)
            return self._refuse(entry, why_refused(entry, refusing), now) + cancels
        if entry.pending and (entry.firsts is None or entry.firsts.open):
            return []
        cancels = self._close(entry)
        return self._answer(entry, now) + cancels

    def _refusing(self, entry: QueryEntry) -> TaskResult | None:
        """The refused task that refuses the query: any, unless other IADs were asked for the same
        areas and have answered or may still answer."""
        for share in entry.refused:
            waiting = (s for s in entry.shares if s.task_id in self._open)
            if entry.firsts is None or entry.firsts.beyond(share, waiting):
                return share.refusal
        return None

    def _wait(self, entry: QueryEntry, until_s: float) -> None:
        """Have the query's timer fire then, or at its answer timeout."""
        entry.timer = self._timers.set(min(until_s, entry.timeout_s), entry)

    def _overdue(self, entry: QueryEntry, now: float) -> list[Instruction]:
        """Its timer fired: the time of its objective is over, so IADs that cannot be reached are
        given up, unless they may be starting; at the answer timeout all."""
        entry.timer = -1
        if now >= entry.timeout_s:
            cancels = self._close(entry, late=True)
            return self._answer(entry, now) + cancels
        self._wait(entry, now + LOOK_S)
        instructions: list[Instruction] = []
        if now >= self._starting_until_s:
            for share in entry.shares:
                away = share.iad != self._iad and not self.reaches(share.iad)
                if away and share.task_id in self._open:
                    share.gap = "iad_unreachable"
                    instructions += self._settled(entry, share, now)
        return instructions

    def _close(self, entry: QueryEntry, *, late: bool = False) -> list[Instruction]:
        """End the wait: outstanding tasks are cancelled, except if the query is `late`; then they
        count as missing."""
        if entry.timer >= 0:
            self._timers.cancel(entry.timer)
            entry.timer = -1
        cancels: list[Instruction] = []
        for share in entry.shares:
            if self._open.pop(share.task_id, None) is not None:
                share.cancelled = not late
                cancels.append(SendCancel(share.iad, share.task_id))
        self.counters["tasks_cancelled"] += len(cancels)
        return cancels

    def _answer(self, entry: QueryEntry, now: float) -> list[Instruction]:
        answer = gather(entry, now, self._read)
        entry.release()
        entry.become(answer.status)
        if entry.query.form == "about":
            pools = about.permitted(self._pools, entry.sender)
            # An area that was asked may have thousands below it.
            counted = about.cost(entry.query.areas, about.meant(entry.query.service, pools))
            if (more := cost_of(len(answer.results)) - counted) > 0:
                self._clients.charge(entry.sender, now, more)
            return [SendAnswer(entry.client, about.told(answer, pools, entry.sender))]
        if entry.shares:
            self._classes.ended(entry.query, missed=came_late(entry, answer, now))
        return [SendAnswer(entry.client, answer), self._record(entry, answer)]

    def _refuse(self, entry: QueryEntry, refused: Refused, now: float) -> list[Instruction]:
        self.counters[f"queries_refused_{refused.reason}"] += 1
        entry.become("refused")
        entry.release()
        answer = refusal(entry, refused, (self._read(now) - entry.received_s) * 1e3)
        if entry.query.form == "about":
            return [SendAnswer(entry.client, answer)]
        return [SendAnswer(entry.client, answer), self._record(entry, answer)]

    def _read(self, now: float) -> float:
        return now if self._stopwatch is None else self._stopwatch()

    def _record(self, entry: QueryEntry, answer: Answer) -> WriteRecord:
        return WriteRecord(query_record(self._iad, entry, answer, self._wall_offset()))

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        entries = {id(entry): entry for entry, _ in self._open.values()}.values()
        assert len(entries) == len(self._timers)
        assert self._areas.total == sum(areas_counted(entry.query.areas) for entry in entries)
        for entry in entries:
            assert entry.state == "open"
            waiting = [s for s in entry.shares if s.task_id in self._open]
            assert entry.pending == len(waiting) > 0
            assert all(s.result is None for s in waiting)
            assert entry.firsts is None or entry.firsts.open


def _unguessable(run: str) -> Iterator[str]:
    """Task ids that reveal to another IAD neither the number of tasks nor the next id."""
    key = blake2b(run.encode()).digest()
    for number in itertools.count():
        yield blake2b(number.to_bytes(8), key=key, digest_size=12).hexdigest()
