"""Edge node: the agent's event loop, which executes the decisions of its state machines.

One synchronous loop around one DEALER socket. It sleeps until a frame arrives, a pod finishes, an
event is raised, a signal arrives or a timer of the link expires. Samplers and pods have threads of
their own. So has the disk writer, which makes all of the loop's accesses to the history's file: the
loop never waits for the card.
"""

from __future__ import annotations

import os
import random
import time
from _queue import SimpleQueue  # all of queue takes 0.1 MiB
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import zmq

from agent.edge import link as links
from agent.edge.clocks import Clocks
from agent.edge.events import outbox
from agent.edge.events.faults import Faults, Happening
from agent.edge.events.forwarding import Forwarding
from agent.edge.history.file import HistoryError
from agent.edge.history.history import History
from agent.edge.home import keep_home, kept_home
from agent.edge.master_socket import MasterSocket
from agent.edge.node_time import Moment, NodeTime
from agent.edge.pods.emulation import emulation_of
from agent.edge.pods.pods import Pods, ReceivedSubtask
from agent.edge.rate_limited_log import WARNING, Reporter
from agent.edge.sampling.colocated import ColocatedChannels
from agent.edge.sampling.preload import PRELOAD_S
from agent.edge.sampling.sampling import Sampler, Threads
from agent.edge.sampling.sensor import Sensor
from agent.edge.supervision import Supervision
from agent.edge.timebase import Correction, TimeBase
from agent.runtime.disk_writer import DiskWriterThread
from agent.runtime.release import release
from agent.runtime.signals import StopSignal
from agent.wire import codec, config, edge_config
from agent.wire.base import MAX_TEXT
from agent.wire.node_messages import Hello, HelloWanted, NodeEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent.edge.actuators.thread import ActuatorThread
    from agent.edge.derived.intake import DerivedIntake
    from agent.edge.events.trigger_runner import Alerts
    from agent.edge.metrics import EdgeMetrics, NodeNumbers
    from agent.edge.pods.containers import PodSocket
    from agent.net.keys import KeyFiles
    from agent.wire.derived import DerivedTaken, DerivedValues


class EdgeNode:
    """A node's sensors, history, pods and link to the master."""

    def __init__(
        self,
        settings: edge_config.EdgeConfig,
        sensors: tuple[Sensor, ...],
        history: History,
        reporter: Reporter,
        keys: Mapping[str, KeyFiles] | None = None,
        clocks: Clocks | None = None,
        *,
        serves: Callable[[], object] = lambda: None,
        actuator: ActuatorThread | None = None,
    ) -> None:
        """`serves` is called once, when a query would be answered: the master has welcomed the
        node, and each sensor has been read, well or not. `actuator` gets what the node's clone
        computes."""
        self._sensors = sensors
        self._tell_serves: Callable[[], object] | None = serves
        self._history = history
        self._known = (history.id, history.writable)
        self._reporter = reporter
        self._time = NodeTime(
            clocks or Clocks(),
            TimeBase(history.reference()),
            history.correct,
            self._corrected,
            lambda error: reporter.complain("history", str(error)),
        )
        colocated = ColocatedChannels(sensors)
        self._faults = [Faults(s.name, s.channels, self._raise) for s in sensors]
        self._alerts = self._follow_triggers(settings)
        followers = self._faults if self._alerts is None else self._alerts.followers
        self._samplers = [
            Sampler(
                sensor,
                history.stream(
                    sensor.name,
                    tuple([channel.name for channel in sensor.channels]),
                    keeps_raw=sensor.calibrated,
                ),
                self._time,
                reporter,
                colocated.check,
                follower,
            )
            for sensor, follower in zip(sensors, followers, strict=True)
        ]
        self._sampling = Threads(sensors, self._samplers)
        self._raised: SimpleQueue[NodeEvent] = (
            SimpleQueue()
        )  # put by any thread, taken by forwarding
        self._wake_fd, self._waker_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._results: dict[int, bytes] = {}  # finished and not sent yet
        self._poller = zmq.Poller()
        self._poller.register(self._wake_fd, zmq.POLLIN)
        self._disk = DiskWriterThread()
        self._poller.register(self._disk.fileno, zmq.POLLIN)
        self._following = False  # the disk writer is processing the triggers
        self._socket = MasterSocket(settings.master, keys or {}, self._poller, reporter)
        masters = tuple(settings.master.all)
        self._home_path = f"{history.path}.home"
        home = (len(masters) > 1 and kept_home(self._home_path, masters)) or masters[0]
        self._socket.use(home)
        incarnation = uuid4().hex
        self._link = links.Link(
            Hello(
                node=settings.node.name,
                incarnation=incarnation,
                history=history.id,
                areas=settings.node.areas,
                channels=tuple([c.name for sensor in sensors for c in sensor.channels]),
                pods=settings.pods.count,
                version=(codec.MAJOR + b"." + codec.MINOR).decode(),
                emulates=settings.pods.emulate,
                release=release(),
                masters=masters if len(masters) > 1 else (),
                takes_derived=True,
                units={c.name: c.unit for s in sensors for c in s.channels if c.unit.isprintable()},
                makes_buckets=True,
            ),
            home=home,
            follow_s=settings.master.follow_s,
            first_pause_s=settings.master.reconnect_first_s,
            longest_pause_s=settings.master.reconnect_longest_s,
            jitter=random.random,
        )
        self._forwarding = Forwarding(
            history.events,
            lambda: history.id,
            incarnation,
            backlog_per_s=settings.events.backlog_per_s,
            send=lambda message: self._socket.send(codec.encode(message)),
            complain=lambda line: reporter.complain("history", line),
            disk=self._disk,
            clock=time.monotonic,
        )
        self._settings = settings
        self._derived: DerivedIntake | None = None  # most nodes have no clone
        self._actuator = actuator
        self._pods = Pods(
            history,
            settings.pods.count,
            self._wake,
            emulation_of(settings.pods.emulate, settings.node.name),
            threads_follow=not settings.pods.containers,
        )
        self._pod_socket = _pod_socket(self._pods) if settings.pods.containers else None
        self._metrics = self._serve_metrics(settings.metrics) if settings.metrics.address else None
        self._supervision = Supervision(
            [sampler.counters for sampler in self._samplers],
            reporter,
            self._status,
            time.monotonic(),
        )

    def preload(self) -> None:
        """Fill empty streams with their drivers' preloaded readings; HistoryError."""
        until_s = time.monotonic() + PRELOAD_S
        for left, sampler in zip(range(len(self._samplers), 0, -1), self._samplers, strict=True):
            sampler.preload((until_s - time.monotonic()) / left)

    def run(self, stop: StopSignal) -> None:
        """Serve until stopped; HistoryError if the history turns out to be damaged."""
        for fileno in stop.filenos:
            self._poller.register(fileno, zmq.POLLIN)
        self._begin()
        while not stop.requested and not self._history.damaged:
            self._wait_once(stop)
        self._leave()
        if self._history.damaged:
            raise HistoryError(f"history {self._history.path} is damaged; a new start repairs it")

    def _begin(self) -> None:
        self.preload()
        # Faults are tracked from here on; those of an earlier process are not continued.
        moment = self._time.moment()
        self._raise(Happening("agent_started", moment, moment.time_ms, "", "", ""))
        if self._alerts is not None:
            self._alerts.turn(moment)
        self._sampling.start()
        self._handle(links.Start())
        self._tell([self._history.report] if self._history.report else [])
        self._supervision.ready()

    @property
    def _wake_at(self) -> float:
        wake_at = min(self._link.wake_at, self._forwarding.wake_at, self._supervision.wake_at)
        return wake_at if self._derived is None else min(wake_at, self._derived.wake_at)

    def _wait_once(self, stop: StopSignal) -> None:
        pause_s = self._wake_at - time.monotonic()
        # A millisecond more than needed, so that the poll does not end just before the deadline.
        ready = dict(self._poller.poll(max(0, int(pause_s * 1000) + 1)))
        if self._wake_fd in ready:
            os.read(self._wake_fd, 4096)
            self._collect()
            self._forward_raised()
        if self._disk.fileno in ready:
            self._disk.turn()
        if self._socket.ready(ready):
            self._receive_all()
        if self._metrics is not None and self._metrics.fileno in ready:
            self._metrics.turn()
        for fileno in stop.filenos:
            if fileno in ready:
                stop.woken(fileno)
        if self._socket.keyed_anew():
            # The master sends again what was lost on the old connection.
            self._handle(HelloWanted())
        # After the frames: if this process was stalled, a master's waiting frames show it alive.
        if time.monotonic() >= self._link.wake_at:
            self._handle(links.Tick())
        if (now := time.monotonic()) >= self._forwarding.wake_at:
            self._forwarding.handle(outbox.Tick(), now)
        if (now := time.monotonic()) >= self._supervision.wake_at:
            self._supervision.turn(now)
            self._look_at_history()
            self._follow_alerts()
        self._look_at_derived()
        if self._tell_serves is not None and self._serves:
            self._tell_serves()
            self._tell_serves = None

    @property
    def _serves(self) -> bool:
        return self._joined and all(each.counters.reads for each in self._samplers)

    def _follow_alerts(self) -> None:
        """Tick the triggers, in the disk writer: their changes are stored, and a clock correction
        may have to be written to the history first."""
        alerts = self._alerts
        if alerts is None or self._following:
            return
        self._following = True

        def then(_: None) -> None:
            self._following = False

        self._disk.submit(lambda: alerts.turn(self._time.moment()), then)

    def _receive_all(self) -> None:
        for message in self._socket.messages():
            self._handle(message)

    def _collect(self) -> None:
        for done in self._pods.take():
            self._results[done.subtask] = done.frame
            self._handle(links.Finished(done.subtask))

    def _forward_raised(self) -> None:
        raised = tuple([self._raised.get_nowait() for _ in range(self._raised.qsize())])
        if raised:
            self._forwarding.handle(outbox.Raised(raised), time.monotonic())

    def _handle(self, event: links.Event) -> None:
        """Pass `event` to the link and execute its instructions."""
        now = time.monotonic()
        for instruction in self._link.handle(event, now):
            match instruction:
                case links.Execute(subtask):
                    if self._pods.submit(ReceivedSubtask(subtask, now, self._time.now_ms())):
                        self._collect()
                case links.SendResult(number):
                    self._answer(self._results.pop(number))
                case links.Send(message):
                    self._socket.send(codec.encode(message))
                case links.Keep(derived):
                    if self._derived is None:
                        self._derived = self._take_derived()
                    self._derived.arrived(derived, now)
                case links.Resize(pods):
                    self._pods.resize(pods)
                case links.TellOperator(kind, line):
                    self._reporter.complain(kind, line)
                case outbox.Joined() | outbox.Cut() | outbox.Taken():
                    self._forwarding.handle(instruction, now)
                case links.UseMaster() | links.Open() | links.Close():
                    self._connect(instruction)

    def _connect(self, instruction: links.UseMaster | links.Open | links.Close) -> None:
        def kept(problem: str) -> None:
            if problem:
                self._reporter.complain("home", problem)

        match instruction:
            case links.UseMaster(iad, home):
                self._socket.use(iad)
                if home:
                    self._disk.submit(partial(keep_home, self._home_path, iad), kept)
            case links.Open():
                self._socket.open()
            case links.Close(linger_s):
                self._socket.close(linger_s)

    def _answer(self, frame: bytes) -> None:
        self._socket.send(frame)
        if self._metrics is not None:
            self._metrics.answered(frame)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # the pipe is full and wakes the loop anyway
            os.write(self._waker_fd, b"\0")

    # --- status and metrics ----------------------------------------------------------------------

    def _status(self) -> str:
        """The status line for systemd."""
        joined = "joined" if self._joined else "not joined: no master answers"
        faults = [name for name, n in self._faulty() if n]
        return f"{joined}; sensors with faults: {', '.join(faults) or 'none'}"

    @property
    def _joined(self) -> bool:
        return self._link.state is links.State.JOINED

    def _faulty(self) -> list[tuple[str, int]]:
        """The number of channels with a fault, by sensor."""
        pairs = zip(self._sensors, self._faults, strict=True)
        return [(sensor.name, sum(faults.open)) for sensor, faults in pairs]

    def _follow_triggers(self, settings: edge_config.EdgeConfig) -> Alerts | None:
        """The trigger runner; None if no trigger is configured and none was raised before."""
        store = self._history.events
        if not settings.trigger and not store.has_raised:
            return None
        from agent.edge.events.trigger_runner import Alerts  # most nodes have none

        return Alerts(
            settings,
            self._sensors,
            self._faults,
            self._raise,
            store,
            self._time.monotonic(),
        )

    def _look_at_derived(self) -> None:
        if self._derived is not None:
            self._derived.turn(time.monotonic())

    def _take_derived(self) -> DerivedIntake:
        from agent.edge.derived.intake import STREAM, DerivedIntake  # most nodes have no clone

        settings, reporter = self._settings, self._reporter
        return DerivedIntake(
            self._history,
            self._history.stream(STREAM, (), keeps_raw=False),
            settings.derived.channels,
            [c.name for sensor in self._sensors for c in sensor.channels],
            commit_s=settings.history.commit_s,
            retention_s=settings.history.retention_s,
            moment=self._time.moment,
            disk=self._disk,
            acknowledge=self._acknowledge,
            complain=lambda line: reporter.complain("history", line),
            act=self._act,
        )

    def _acknowledge(self, taken: DerivedTaken) -> None:
        if self._joined:  # otherwise the master sends them again
            self._socket.send(codec.encode(taken))

    def _serve_metrics(self, settings: config.Metrics) -> EdgeMetrics:
        from agent.edge.metrics import EdgeMetrics  # 10 MiB, with the HTTP server

        metrics = EdgeMetrics(settings, self._numbers)
        self._poller.register(metrics.fileno, zmq.POLLIN)
        return metrics

    def _numbers(self) -> NodeNumbers:
        from agent.edge.metrics import NodeNumbers, written_bytes

        return NodeNumbers(
            now=time.monotonic(),
            sensors=tuple([sampler.counters for sampler in self._samplers]),
            faults=tuple([n for _, n in self._faulty()]),
            # Only drivers with a helper process count its restarts.
            restarts=tuple([getattr(s.driver, "restarts", 0) for s in self._sensors]),
            stored=self._history.acknowledged,
            given_up=self._history.given_up,
            events_waiting=self._history.events.count,
            events_dropped=self._history.events.dropped,
            alerts=self._alerts.counts if self._alerts is not None else {},
            joined=self._joined,
            synchronised=self._time.synchronised,
            malformed_frames=self._socket.malformed,
            messages_dropped=self._socket.dropped,
            written_bytes=written_bytes(),
            key_expiry_s=self._socket.key_expiry_s,
        )

    def _look_at_history(self) -> None:
        self._tell(self._history.notices())
        known, self._known = self._known, (self._history.id, self._history.writable)
        if self._known != known and self._history.writable:
            self._handle(links.Reopened(self._history.id))

    def _tell(self, lines: list[str]) -> None:
        """Report lines about the history to this host's operator and to the master's."""
        for line in lines:
            self._reporter.tell(line, priority=WARNING, kind="history")
            self._disk.submit(partial(self._raise_damaged, line), lambda _: None)

    # --- in the threads of the samplers and the disk writer --------------------------------------

    def _act(self, derived: tuple[DerivedValues, ...]) -> None:
        """Put out the newest values, unless they are too old."""
        newest = derived[-1]
        if self._actuator is None or newest.age_ms > self._settings.actuator.stale_s * 1000:
            return
        from agent.edge.actuators.base import Output

        self._actuator.put(Output(newest.values, newest.age_ms))

    def _raise_damaged(self, line: str) -> None:
        moment = self._time.moment()
        self._raise(Happening("history_damaged", moment, moment.time_ms, "", "", line))

    def _raise(self, happening: Happening) -> bool:
        """Store an event and hand it to forwarding; whether it was stored. Any thread."""
        try:
            event = self._history.events.add(
                monotonic_ms=happening.moment.monotonic_ms,
                kind=happening.kind,
                time_ms=happening.time_ms,
                synchronised=happening.moment.synchronised,
                sensor=happening.sensor,
                channel=happening.channel,
                text=happening.text[:MAX_TEXT],
                trigger=happening.trigger,
                value=happening.value,
                areas=happening.areas,
                definition=happening.definition,
            )
        except HistoryError as error:
            self._reporter.complain("history", str(error))
            return False
        self._raised.put(event)
        self._wake()
        return True

    def _corrected(self, moment: Moment, correction: Correction) -> None:
        how = "synchronised" if correction.synchronised else "set by hand"
        text = f"the wall clock was {how}; earlier readings of this boot follow it"
        self._raise(Happening("clock_corrected", moment, moment.time_ms, "", "", text))
        self._reporter.tell(text)

    def _leave(self) -> None:
        self._reporter.tell("stopping")
        self._supervision.stopping()
        self._sampling.end()
        self._handle(links.Stop())
        if self._metrics is not None:
            self._metrics.close()
        if self._pod_socket is not None:
            self._pod_socket.close()
        self._pods.stop()
        self._sampling.close(
            lambda name: self._reporter.tell(
                f"sensor {name} does not return; stopping without its last reading"
            )
        )
        self._disk.close()
        if self._actuator is not None:
            self._actuator.close()
        try:
            self._history.close()
        except HistoryError as error:
            self._reporter.tell(str(error))
        self._socket.end()
        self._supervision.close()


def _pod_socket(pods: Pods) -> PodSocket:
    from agent.edge.pods.containers import PodSocket  # most nodes' pods are threads

    return PodSocket(pods)
