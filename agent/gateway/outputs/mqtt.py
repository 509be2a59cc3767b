"""The MQTT output: rooms and alerts to a broker, as Home Assistant and others read them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from random import random
from typing import Final, Protocol

from agent.gateway.config import is_loopback
from agent.gateway.output_config import GatewayMqtt
from agent.gateway.outputs import mqtt_events as e
from agent.gateway.outputs.alert_line import AlertLine
from agent.gateway.outputs.base import AlertReader, Health, OutputState, Sources
from agent.gateway.outputs.from_config import configured_matcher, secret_line
from agent.gateway.outputs.home_assistant import Discovery
from agent.gateway.outputs.mqtt_publisher import MqttPublisher
from agent.gateway.outputs.mqtt_session import Broker, Session, SessionEvent
from agent.gateway.outputs.retained_store import RetainedStore
from agent.gateway.outputs.state_pace import Rules
from agent.gateway.outputs.topics import Topics
from agent.gateway.outputs.worker import Handed, Worker, WorkerOutput
from agent.net.authorities import tls_context
from agent.runtime.release import release
from agent.runtime.retrying import Retrying

KIND: Final = "mqtt"
ALERTS_AT_ONCE: Final = 20
LEDGER: Final = "mqtt.sqlite"


class Transport(Protocol):
    """Interface of a session to this output; tests have one without sockets."""

    events: list[SessionEvent]

    def open(self) -> None:
        """Connect; the outcome is an event."""

    @property
    def sockets(self) -> dict[int, int]:
        """File descriptors to be polled, and for what."""

    @property
    def has_more(self) -> bool:
        """Whether something waits that no poll would tell of."""

    def turn(self, wait_s: float = 0.0) -> None:
        """Read and write what is possible."""

    def publish(self, message: e.Publish) -> None:
        """Hand a message over."""

    def close(self, *, orderly: bool = True) -> None:
        """End the session."""


class MqttOutput(WorkerOutput):
    """`clock` is monotonic seconds. ConfigError for files that cannot be used, OSError for a store
    that cannot."""

    kind = KIND
    name = KIND

    def __init__(
        self,
        config: GatewayMqtt,
        sources: Sources,
        *,
        opened: Callable[[Broker], Transport] = Session,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random,
    ) -> None:
        self._sources = sources
        self._clock = clock
        self._opened = opened
        topics = Topics(sources.gateway)
        discovery = None
        if config.discovery:
            version = release() or "checkout"
            discovery = Discovery(topics, sources.gateway, config.discovery, version)
        self._broker = _broker(config, sources, topics, discovery)
        self._store = RetainedStore(
            str(sources.folder / LEDGER), f"{config.host}:{config.port}", self._say
        )
        self._machine = MqttPublisher(
            topics,
            discovery,
            self._store.topics,
            AlertLine(
                sources.alerts.cursor(self.name),
                Retrying(jitter=jitter),
                configured_matcher(config.filter, "mqtt.filter"),
                ALERTS_AT_ONCE,
            ),
            rules=Rules(
                config.every_s,
                config.heartbeat_s,
                config.deadband_celsius,
                config.deadband_percent,
            ),
            keep_s=config.forget_s,
            jitter=jitter,
        )
        self._session: Transport | None = None
        self._raised: frozenset[tuple[str, str]] | None = None
        self._untold_cursor = ""
        self._reader = AlertReader(sources.alerts, self._say)
        self._worker = Worker(KIND, sources, self._run, clock, rooms=True, alerts=True)

    def start(self) -> None:
        """Begin."""
        broker = self._broker
        if broker.tls is None and not is_loopback(broker.host):
            what = "readings and the password go" if broker.password else "readings go"
            self._say(f"{what} to {broker.host} unencrypted; mqtts:// encrypts them\n")
        super().start()

    def stop(self) -> None:
        """Say that this gateway is away, and end."""
        super().stop()
        self._store.close()

    def state(self) -> OutputState:
        """How it is doing now."""
        machine, alerts = self._machine, self._machine.alerts
        health: Health = "up" if machine.state == "connected" and not machine.last_error else "down"
        if self._worker.stopping or self._worker.ended:
            health = "stopped"
        elif machine.state in ("new", "connecting"):
            health = "starting"
        error = self._worker.ended or machine.last_error or alerts.last_error
        return OutputState(
            self.kind,
            self.name,
            health,
            waiting=alerts.waiting + machine.retained.waiting,
            delivered=alerts.delivered + machine.states,
            failed=alerts.failed,
            last_error=error,
        )

    # --- in the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        self._has(e.Started())
        while not self._worker.stopping:
            session = self._session
            due_s = self._machine.next_tick
            wait_s = None if due_s is None else due_s - self._clock()
            if session is not None and session.has_more:
                wait_s = 0.0
            handed = self._worker.wait(wait_s, session.sockets if session else {})
            self._take(handed)
            if session is not None and session is self._session:
                session.turn()
                self._drain()
            due_s = self._machine.next_tick
            if due_s is not None and due_s <= self._clock():
                self._has(e.MqttDue())
        if self._session is not None:
            self._session.close()

    def _take(self, handed: Handed) -> None:
        if handed.log_grew or self._reader.error:
            self._has(e.LogGrew())
        if handed.log_grew or handed.all_rooms is not None:
            self._look_at_raised()
        if handed.rooms:
            self._has(e.SomeRooms(handed.rooms))
        if handed.all_rooms is not None:
            self._has(e.AllRooms(handed.all_rooms))

    def _look_at_raised(self) -> None:
        raised = frozenset(
            (each.trigger, each.area) for each in self._sources.rooms.raised() if each.area
        )
        if raised != self._raised:
            self._raised = raised
            self._has(e.Raised(raised))

    def _has(self, event: e.MqttEvent) -> None:
        for instruction in self._machine.handle(event, self._clock()):
            self._perform(instruction)
        self._drain()

    def _drain(self) -> None:
        """Events of the session, also while it is being told something."""
        session = self._session
        while session is not None and session.events:
            event = session.events.pop(0)
            if isinstance(event, e.Disconnected):
                self._session = None
                session.close(orderly=False)
                session.events.clear()
            self._has(event)
            session = self._session

    def _perform(self, instruction: e.MqttInstruction) -> None:
        match instruction:
            case e.Connect():
                self._session = self._opened(self._broker)
                self._session.open()
            case e.Publish():
                if self._session is not None:
                    self._session.publish(instruction)
            case e.Write(changes):
                self._has(e.Written(changes, self._store.write(changes)))
            case e.ReadAlerts(after, most):
                self._has(e.AlertsRead(self._reader.read(after, most)))
            case e.MoveCursor(position):
                self._move(position)
            case e.Tell(line):
                self._say(f"{line}\n")

    def _move(self, position: int) -> None:
        """A cursor that stays behind costs repetitions after a restart, and no alert."""
        try:
            self._sources.alerts.move_cursor(self.name, position)
            self._untold_cursor = ""
        except OSError as error:
            if not self._untold_cursor:
                self._say(f"its place in the log of alerts is not kept: {error}\n")
            self._untold_cursor = str(error)

    def _say(self, line: str) -> None:
        self._sources.say(f"{KIND}: {line}")


def _broker(
    config: GatewayMqtt, sources: Sources, topics: Topics, discovery: Discovery | None
) -> Broker:
    folder = sources.folder
    context = tls_context(folder, config.ca, "mqtt.ca") if config.tls else None
    return Broker(
        config.host,
        config.port,
        # A client of the same id would cut this one off.
        f"sanderling-{sources.gateway}-{secrets.token_hex(4)}",
        topics.status,
        discovery.status if discovery else "",
        config.user,
        secret_line(folder, config.password_file, "mqtt.password_file"),
        context,
        config.protocol == "5",
    )
