"""From a node's reading to Home Assistant's entities: a real master, its node, a gateway and a
broker, and the last two are killed while alerts are under way."""

import json
import signal
from collections import Counter

import pytest
from msgspec import structs

from agent.client import Client
from agent.gateway import tokens
from agent.gateway.outputs.mqtt import ALERTS_AT_ONCE
from agent.wire.edge_config import EdgeTrigger
from agent.wire.push import Notified
from fleet.simulation.layout import building_fleet, part_of
from fleet.testbed.testbed import Testbed
from testkit.waiting import wait_until
from tests.gateway.conftest import ask
from tests.gateway.outputs.mosquitto import Listener, Mosquitto
from tests.gateway.outputs.reader import entities
from tests.gateway.process import Process

pytestmark = pytest.mark.long
# Alerts all the time: a second plays a minute of the recording.
TRIGGER = EdgeTrigger(
    name="humidity-up",
    condition="rate(humidity) > 0/min",
    clear="rate(humidity) < 0/min",
    window_s=2.5,
)
IAD = "iad1"
ROUNDS = 2
DEATHS = 4 * ROUNDS
# What a subscriber with a session needs of a broker that is killed: it is written at each change,
# and nothing that was confirmed waits for the subscriber.
DURABLE = (
    "allow_anonymous true\nautosave_interval 1\nautosave_on_changes true\n"
    "max_inflight_messages 0\nmax_queued_messages 0\n"
)
ALERTS = "sanderling/home/alert/#"
EVERYTHING = "#"


class Oracle:
    """A subscriber of its own at the master, which nobody kills."""

    def __init__(self, client):
        self._notifications = client.subscribe("*")
        self._found = set()

    def all(self):
        """Origins of all alerts that there were."""
        while (found := self._notifications.wait(0.0)) is not None:
            assert isinstance(found, Notified), found
            self._found.add(structs.astuple(found.notification.origin))
        return set(self._found)


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    plan = part_of(building_fleet(emulate=False), 1, 4)
    with Testbed(plan, tmp_path_factory.mktemp("bed"), triggers={IAD: (TRIGGER,)}) as made:
        for _ in made.start():
            pass
        yield made


@pytest.fixture
def broker(tmp_path):
    made = Mosquitto(tmp_path, more=DURABLE)
    made.start()
    yield made
    made.stop(kill=True)


@pytest.fixture
def gateway(bed, broker, tmp_path):
    folder = tmp_path / "gateway"
    folder.mkdir()
    return Process(
        folder,
        f'[gateway]\nname = "home"\n[master]\naddresses = ["{bed.public(IAD)}"]\n'
        f'[console]\nevery_s = 0.5\n[mqtt]\naddress = "mqtt://127.0.0.1:{broker.port}"\n',
    )


def came(listener, kind):
    """Payloads of that kind, in order."""
    with listener.lock:
        found = list(listener.came)
    return [json.loads(payload) for topic, payload in found if topic.split("/")[2] == kind]


def received(listener):
    return [tuple(each["origin"]) for each in came(listener, "alert")]


def fresh(listener):
    """Without what a broker that was killed sends once more of its own accord."""
    with listener.lock:
        again = list(listener.again)
    found = received(listener)
    for each in again:
        found.remove(tuple(json.loads(each)["origin"]))
    return found


def test_no_alert_is_lost_over_kills_of_the_gateway_and_of_the_broker(bed, broker, gateway):
    subscriber = Listener(broker.port, ALERTS, session="logger")
    gaps = Listener(broker.port, "sanderling/home/gap", session="gaps")
    wait_until(broker.database.exists)  # the sessions are on disk
    with Client(bed.public(IAD)) as client:
        oracle = Oracle(client)

        def more(of, number=2):
            """Wait for so many alerts more."""
            before = len(set(of()))
            wait_until(lambda: len(set(of())), lambda found: found >= before + number)

        def reaches():
            return received(subscriber)

        def logged():
            try:
                shown = ask(gateway, "/api/v1/alerts?limit=1000", token=token).json["alerts"]
            except ConnectionError:  # it may cut a connection that a busy machine keeps waiting
                return []
            return [tuple(each["origin"]) for each in shown]

        def kill():
            gateway.process.kill()
            gateway.__exit__()

        with gateway:
            token = tokens.create_token(gateway.access, "me", "viewer", rate_per_s=10_000)
            wait_until(reaches)
            before = oracle.all()
            for _ in range(ROUNDS):
                more(reaches)
                kill()
                more(oracle.all)
                gateway.__enter__()
                # The broker takes nothing and is away, so what it was told is with nobody.
                broker.process.send_signal(signal.SIGSTOP)
                more(logged)
                kill()
                broker.stop(kill=True)
                broker.start()
                gateway.__enter__()
                # Killed with a session under way.
                more(reaches)
                broker.stop(kill=True)
                broker.start()
            due = oracle.all() - before
            wait_until(lambda: due - set(reaches()), lambda lost: not lost, what="lost")
            log = wait_until(logged)
            assert gateway.end(signal.SIGTERM) == 0
        # Some that one of them saw before may be among those that another waited for.
        assert len(due) >= 2 * ROUNDS
        assert came(gaps, "gap") == []
        # Of each death those that the broker had not confirmed, or the gateway not noted.
        doubled = sum(number - 1 for number in Counter(fresh(subscriber)).values())
        assert doubled <= ALERTS_AT_ONCE * DEATHS
        told = {tuple(each["origin"]): each for each in came(subscriber, "alert")}
        assert all(each == told[tuple(each["origin"])] for each in came(subscriber, "alert"))
        assert len(log) == len(set(log)), "logged twice"
        assert due <= set(log)
    for each in (subscriber, gaps):
        each.close()


def test_home_assistant_sees_rooms_and_triggers_as_they_are(bed, broker, gateway):
    home = Listener(broker.port, EVERYTHING)

    def seen():
        with home.lock:
            return entities(home.newest)

    def of(platform):
        return [each for each in seen().values() if each.platform == platform]

    with gateway:
        token = tokens.create_token(gateway.access, "me", "viewer", rate_per_s=1_000)
        sensors = wait_until(
            lambda: of("sensor"),
            lambda found: len(found) == 8 and all(e.available and e.state for e in found),
        )
        assert {(each.device_class, each.unit) for each in sensors} == {
            ("temperature", "°C"),
            ("humidity", "%"),
        }
        areas = {node.area for node in bed.plan.nodes}
        assert {each.device for each in sensors} == areas
        # A trigger is there once it was raised; then it follows what the gateway knows.
        wait_until(lambda: of("binary_sensor"), lambda found: any(e.state for e in found))
        assert all(each.available for each in of("binary_sensor"))

        def raised():
            shown = ask(gateway, "/api/v1/alerts/raised", token=token).json["raised"]
            return {each["area"] for each in shown}

        wait_until(
            lambda: (raised(), {e.device for e in of("binary_sensor") if e.state}, raised()),
            lambda found: found[0] and found[0] == found[1] == found[2],
        )
        gateway.process.kill()
        gateway.__exit__()
        # The broker tells by the last will, and whatever is retained stays.
        wait_until(seen, lambda found: found and not any(e.available for e in found.values()))
    home.close()
