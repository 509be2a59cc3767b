"""The schedulers of a master, as it is configured."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from agent.derived.last_values import LastValues
from agent.master.queries.task_plane import nodes_before
from agent.master.storage.state import State
from agent.scheduling.admission import ClientRates
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.scheduling.shared_budget import SharedBudget
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.market import Member
from agent.wire.master_config import MasterConfig


def schedulers(
    config: MasterConfig,
    clock: Callable[[], float],
    state: State,
    budget: SharedBudget,
    rates: ClientRates,
    last_values: LastValues,
) -> tuple[QueryScheduler, TaskScheduler]:
    """Both; `state` has the nodes of the last run, `last_values` what clones know of devices."""

    def wall_offset() -> float:
        """The clock may have been set since the start."""
        return time.time() - clock()

    iad, scheduling = config.iad.name, config.scheduling
    pool = [Member(m.iad, m.address, m.areas) for m in config.pool]
    queries = QueryScheduler(
        iad,
        pool,
        # Not the master's `run`, which other IADs see: task ids are derived from it.
        run=secrets.token_hex(16),
        timeout_factor=scheduling.timeout_factor,
        clients=rates,
        wall_offset=wall_offset,
        stopwatch=clock,
        started_s=clock(),
        budget=budget,
    )
    estimator = DeadlineEstimator(
        window_samples=scheduling.window_samples,
        window_s=scheduling.window_s,
        cold_start_s=scheduling.cold_start_ms / 1e3,
    )
    tasks = TaskScheduler(
        iad,
        estimator,
        pool=pool,
        policy=scheduling.policy,
        heartbeat_s=config.liveness.heartbeat_s,
        lost_after=config.liveness.lost_after,
        wall_offset=wall_offset,
        stopwatch=clock,
        first_subtask_id=secrets.randbits(31) << 20,
        # Without records there is nowhere to store events: they wait at the nodes.
        takes_events=bool(config.records.directory),
        started_s=clock() if config.sockets.nodes else None,
        known=nodes_before(state) if config.sockets.nodes else None,
        budget=budget,
        rates=ClientRates(
            config.clients.rate_per_s,
            config.clients.burst_s,
            "an IAD may send {:g} tasks/s where no rate is agreed",
        ),
        last_known=lambda area, channels, form: last_values.within(
            area, channels, form, round(time.time() * 1e3)
        ),
        names=config.iad.rooms,
    )
    return queries, tasks
