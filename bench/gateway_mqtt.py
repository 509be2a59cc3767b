"""Home Assistant restarted with 1,000 areas, and the way of an alert from the gateway's log to a
subscriber of a real broker; the peer is a publisher that does nothing else."""

import contextlib
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from agent.gateway.feed.alert_log import AlertLog
from agent.gateway.feed.rooms import Reading, Room
from agent.gateway.output_config import GatewayMqtt
from agent.gateway.outputs.base import Sources
from agent.gateway.outputs.home_assistant import Discovery
from agent.gateway.outputs.mqtt import MqttOutput
from agent.gateway.outputs.topics import Topics
from agent.wire.overlay import Notification, Origin
from bench.output import Result, result
from bench.push.rig import Mosquitto

AREAS = 1_000
ALERTS = 400
GAP_S = 0.02
PATIENCE_S = 120.0


class Rooms:
    """1,000 rooms that nobody measures anew."""

    def __init__(self) -> None:
        self.rooms = [
            Room(f"b1/f{n // 50}/r{n}", "", "live", "", self._readings()) for n in range(AREAS)
        ]

    @staticmethod
    def _readings() -> dict[str, Reading]:
        now_ms = time.time_ns() // 1_000_000
        return {
            "temperature": Reading(20.0 + random.random(), now_ms, "good", "°C"),
            "humidity": Reading(40.0 + random.random(), now_ms, "good", "%"),
        }

    def listen(self, _listener):
        return lambda: None

    def all_rooms(self):
        return self.rooms

    def name_of(self, _area):
        return ""

    def raised(self):
        return []


class Subscriber:
    """Notes when each topic last came, and when each alert did."""

    def __init__(self, port: int) -> None:
        self.at: dict[str, float] = {}
        self.alerts: list[float] = []
        ready = threading.Event()
        self.client = Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda client, *_: client.subscribe("#", 1)
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.on_message = self._on_message
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        ready.wait(PATIENCE_S)

    def _on_message(self, _client, _data, message) -> None:
        now = time.monotonic()
        self.at[message.topic] = now
        if "/alert/" in message.topic or message.topic == "floor":
            self.alerts.append(now)

    def wait(self, topics: set[str], since: float = 0.0) -> float:
        """When the last of these came, since then."""
        give_up = time.monotonic() + PATIENCE_S
        while any(self.at.get(topic, -1.0) < since for topic in topics):
            if time.monotonic() > give_up:
                raise TimeoutError(f"{len(topics)} topics did not come")
            time.sleep(0.05)
        return max(self.at[topic] for topic in topics)

    def delays(self, send, count: int) -> list[float]:
        """Seconds from `send(n)` until it came."""
        self.alerts.clear()
        sent = []
        for number in range(count):
            sent.append(time.monotonic())
            send(number)
            time.sleep(GAP_S)
        give_up = time.monotonic() + PATIENCE_S
        while len(self.alerts) < count and time.monotonic() < give_up:
            time.sleep(0.01)
        return [came - at for at, came in zip(sent, self.alerts, strict=True)]


@contextlib.contextmanager
def _running() -> Iterator[tuple[Subscriber, AlertLog, Client]]:
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        port = int(Mosquitto(folder, stack).address.rpartition(":")[2])
        alerts = AlertLog(folder / "alerts.sqlite", print)
        stack.callback(alerts.close)
        subscriber = Subscriber(port)
        sources = Sources("bench", folder, Rooms(), alerts, print)
        output = MqttOutput(GatewayMqtt(address=f"mqtt://127.0.0.1:{port}"), sources)
        output.start()
        stack.callback(output.stop)
        floor = Client(CallbackAPIVersion.VERSION2)
        floor.connect("127.0.0.1", port)
        floor.loop_start()
        stack.callback(floor.loop_stop)
        stack.callback(subscriber.client.loop_stop)
        yield subscriber, alerts, floor


def _alert(number: int) -> Notification:
    told = {"iad": "iad1", "kind": "raised", "trigger": "hot", "area": f"b1/f0/r{number % 50}"}
    return Notification(Origin("iad1", "bench", number), time.time_ns() // 1_000_000, told)


def run() -> Iterable[Result]:
    """Both."""
    topics = Topics("bench")
    discovery = Discovery(topics, "bench", "homeassistant", "")
    with _running() as (subscriber, alerts, floor):
        areas = [room.area for room in Rooms().rooms]
        everything = {topics.state(each) for each in areas}
        everything |= {discovery.topic(each) for each in areas}
        begun = time.monotonic()
        first_s = subscriber.wait(everything) - begun
        # As when Home Assistant is restarted some minutes later.
        time.sleep(35.0)
        begun = time.monotonic()
        floor.publish("homeassistant/status", b"online", 1).wait_for_publish(PATIENCE_S)
        again_s = subscriber.wait(everything, begun) - begun
        yield result(
            "gateway-mqtt-birth", again_s, "s", areas=AREAS, first_start_s=round(first_s, 2)
        )
        ours = subscriber.delays(lambda number: alerts.append(_alert(number)), ALERTS)
        peer = subscriber.delays(lambda _: floor.publish("floor", b"x" * 200, 1), ALERTS)
        p99, floor_p99 = (statistics.quantiles(each, n=100)[98] for each in (ours, peer))
        median = statistics.median(ours)
        yield result(
            "gateway-mqtt-alert-p99",
            p99,
            "ms",
            "publisher",
            floor_p99,
            p50_ms=round(median * 1e3, 2),
        )
