"""Auto-scaler plane: feeds subtask records to the auto-scaler and provisions the pods that it
decides on."""

from __future__ import annotations

from agent.master.market.provisioning import Provisioner
from agent.master.recording.records import Records
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.scheduling.tasks.autoscale import Autoscaler, Looked, NodeLoad, ScalePods, finished
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.master_config import MasterConfig
from agent.wire.records import AnyRecord, SubtaskRecord


class AutoscalePlane:
    """Passes every subtask record to the auto-scaler, gives it the live nodes when it is due,
    carries out its decisions and logs them: a node changes about once per window at most."""

    def __init__(
        self,
        reactor: Reactor,
        config: MasterConfig,
        records: Records,
        tasks: TaskScheduler,
        provisioner: Provisioner,
        say: Say,
    ) -> None:
        self._say = say
        self._tasks = tasks
        self._provisioner = provisioner
        self._reactor = reactor
        self._scaler = Autoscaler(config.autoscale, config.pods.most)
        reactor.performs(ScalePods, self._scale)
        reactor.add_timer(self)
        records.tell(self._hear)

    @property
    def next_due(self) -> float:
        """When the auto-scaler is due."""
        return self._scaler.next_look

    def tick(self, now: float) -> None:
        """Run the auto-scaler on the live nodes."""
        loads = tuple(
            [
                NodeLoad(
                    status.node, status.pods, self._provisioner.floor(status.node), status.queued
                )
                for status in self._tasks.node_statuses()
                if status.state == "live"
            ]
        )
        self._reactor.perform(self._scaler.handle(Looked(loads), now))

    def _hear(self, record: AnyRecord, now: float) -> None:
        if isinstance(record, SubtaskRecord) and (event := finished(record)) is not None:
            self._scaler.handle(event, now)

    def _scale(self, instruction: ScalePods) -> None:
        node, count = instruction.node, instruction.count
        self._provisioner.scale(node, count)
        pods = "1 pod" if count == 1 else f"{count} pods"
        self._say(f"{node}: {pods}, {instruction.missed_percent:.3g} % of deadlines missed\n")
