"""The MQTT output against a real broker that dies, comes back empty, and refuses."""

import json
import subprocess

import pytest

from agent.gateway.output_config import GatewayMqtt
from agent.gateway.outputs import mqtt_publisher
from agent.gateway.outputs.home_assistant import Discovery
from agent.gateway.outputs.mqtt import MqttOutput
from agent.gateway.outputs.topics import Topics
from testkit.waiting import wait_until
from tests.gateway.conftest import ask
from tests.gateway.fake import FakeFleet, FakeGateway
from tests.gateway.outputs.mosquitto import PASSWORDS, Listener, Mosquitto
from tests.gateway.outputs.rig import Rig, room
from tests.gateway.outputs.smtp_server import make_certificate

pytestmark = pytest.mark.long
TOPICS = Topics("home")
DISCOVERY = Discovery(TOPICS, "home", "homeassistant", "")
ROOMS = [room(f"b1/f4/r{n}", temperature=20.0 + n, humidity=40.0, name=f"R {n}") for n in range(5)]


@pytest.fixture
def rig(tmp_path):
    made = Rig(tmp_path)
    yield made
    made.close()


@pytest.fixture
def broker(tmp_path):
    made = Mosquitto(tmp_path)
    yield made
    made.stop(kill=True)


@pytest.fixture
def listen():
    made = []

    def begin(broker, *words, **options):
        made.append(Listener(broker.port, *words, **options))
        return made[-1]

    yield begin
    for each in made:
        each.close()


@pytest.fixture
def start(rig, broker):
    made = []

    def begin(scheme="mqtt", host="127.0.0.1", **keys):
        config = GatewayMqtt(address=f"{scheme}://{host}:{broker.port}", **keys)
        made.append(MqttOutput(config, rig.sources, jitter=lambda: 0.0))
        made[-1].start()
        return made[-1]

    yield begin
    for each in made:
        if each.state().state != "stopped":
            each.stop()


def told(area):
    return {DISCOVERY.topic(area), TOPICS.availability(area)}


def test_a_room_an_alert_and_what_is_left_when_it_stops(rig, broker, listen, start):
    broker.start()
    listener = listen(broker)
    output = start()
    rig.rooms.show(*ROOMS, room("b1/f4/dark", state="missing"))
    wait_until(lambda: listener.newest, lambda found: TOPICS.state("b1/f4/r3") in found)
    assert listener.json(TOPICS.state("b1/f4/r3")) == {
        "channels": {"temperature": 23.0, "humidity": 40.0},
        "time_ms": 1_000,
        "quality": {"temperature": "good", "humidity": "good"},
    }
    found = listener.json(DISCOVERY.topic("b1/f4/r3"))
    assert found["dev"]["name"] == "R 3"
    assert found["stat_t"] == TOPICS.state("b1/f4/r3")
    assert listener.newest[TOPICS.status] == b"online"
    assert listener.newest[TOPICS.availability("b1/f4/dark")] == b"offline"
    rig.alert(1, area="b1/f4/r3")
    wait_until(lambda: listener.newest.get(TOPICS.raised("hot", "b1/f4/r3")), lambda p: p == b"ON")
    alert = listener.json("sanderling/home/alert/hot/b1/f4/r3")
    assert alert["attributes"]["value"] == 31.5
    wait_until(lambda: rig.alerts.cursor("mqtt"), lambda position: position == 1)
    rig.alert(2, kind="cleared", area="b1/f4/r3")
    wait_until(lambda: listener.newest[TOPICS.raised("hot", "b1/f4/r3")], lambda p: p == b"OFF")
    assert output.state().state == "up"
    output.stop()
    wait_until(lambda: listener.newest[TOPICS.status], lambda payload: payload == b"offline")
    # Who comes later reads what is retained, and no reading that is old.
    late = listen(broker).retained
    wait_until(late, lambda found: found.keys() >= told("b1/f4/r3") | {TOPICS.status})
    assert not [topic for topic in late() if "/state/" in topic or "/alert/" in topic]


def test_a_broker_that_comes_back_empty_is_given_everything_again(rig, broker, listen, start):
    start()
    rig.rooms.show(*ROOMS)
    rig.alert(1)
    broker.start()  # it was not there at first
    before = listen(broker)
    wanted = set().union(*(told(each.area) for each in ROOMS))
    wait_until(before.retained, lambda found: found.keys() >= wanted)
    broker.stop(kill=True)
    rig.alert(2)
    broker.start(empty=True)
    after = listen(broker)
    wait_until(after.retained, lambda found: found.keys() >= wanted | {TOPICS.status})
    wait_until(lambda: rig.alerts.cursor("mqtt"), lambda position: position == 2)
    assert [line.split(":")[0] for line in rig.said].count("mqtt") <= 4


def test_no_alert_is_lost_over_restarts_of_the_broker(rig, broker, listen, start):
    """A subscriber with a session of its own gets what came while it was away."""
    broker.start()
    listener = listen(broker, "sanderling/+/alert/#", session="logger")
    start()
    for number in range(1, 41):
        if number % 10 == 5:
            broker.stop()
        rig.alert(number)
        if number % 10 == 0:
            broker.start()
            wait_until(lambda: rig.alerts.cursor("mqtt"), lambda at, n=number: at == n)

    def got():
        with listener.lock:
            return {json.loads(payload)["origin"][2] for _, payload in listener.came}

    wait_until(got, lambda found: found == set(range(1, 41)))


def test_home_assistant_restarts_and_everything_comes_again(rig, broker, listen, start):
    broker.start()
    listener = listen(broker)
    start()
    rig.rooms.show(*ROOMS)
    wait_until(lambda: listener.newest, lambda found: TOPICS.state("b1/f4/r3") in found)
    with listener.lock:
        listener.came.clear()
    listener.publish("homeassistant/status", b"\xff\x00online")
    listener.publish("homeassistant/status", b"offline")
    listener.publish("homeassistant/status", b"online")

    def again():
        with listener.lock:
            return {topic for topic, _ in listener.came}

    states = {TOPICS.state(each.area) for each in ROOMS}
    configs = {DISCOVERY.topic(each.area) for each in ROOMS}
    wait_until(again, lambda topics: topics >= states | configs)


def test_a_wrong_password_is_said_and_the_right_one_works(rig, broker, start, listen):
    passwords = broker.folder / "passwords"
    subprocess.run([PASSWORDS, "-c", "-b", passwords, "home", "right"], check=True)
    passwords.chmod(0o644)
    broker.more = f"allow_anonymous false\npassword_file {passwords}\n"
    broker.start()
    rig.secret("wrong", "guess")
    output = start(user="home", password_file="wrong")
    wait_until(output.state, lambda state: "refuses" in state.last_error)
    assert not any("guess" in line for line in rig.said)
    output.stop()
    rig.secret("right", "right")
    output = start(user="home", password_file="right")
    wait_until(output.state, lambda state: state.state == "up")


def test_a_topic_that_the_broker_refuses_is_said_and_the_others_come(rig, broker, listen, start):
    allowed = broker.folder / "acl"
    allowed.write_text("topic readwrite sanderling/home/#\ntopic read #\n")
    allowed.chmod(0o644)
    broker.more = f"allow_anonymous true\nacl_file {allowed}\n"
    broker.start()
    listener = listen(broker)
    output = start()
    rig.rooms.show(*ROOMS)
    wait_until(lambda: listener.newest, lambda found: TOPICS.state("b1/f4/r3") in found)
    assert "the broker refuses homeassistant/device/" in output.state().last_error
    assert sum("refuses" in line for line in rig.said) <= len(ROOMS)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_alerts_that_the_broker_cannot_take_hold_up_no_others(
    rig, broker, listen, start, protocol, monkeypatch
):
    """It ends the session of who sends them; the gateway sent them again for ever."""
    monkeypatch.setattr("agent.runtime.retrying.FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(mqtt_publisher, "MAX_PAUSE_S", 0.5)
    broker.more = "allow_anonymous true\nmax_packet_size 2000\n"
    broker.start()
    listener = listen(broker)
    output = start(protocol=protocol)
    rig.rooms.show(*ROOMS)
    rig.alert(1, area="a/" * 255 + "a")
    rig.alert(2, trigger="no \uffff", area="b1/f4/r3")
    rig.alert(3, trigger="x" * 2_000)
    rig.alert(4, area="b1/f4/r3")
    topics = {f"sanderling/home/alert/{each}" for each in ("no _/b1/f4/r3", "hot/b1/f4/r3")}
    wait_until(lambda: listener.newest.keys() & topics, lambda found: found == topics)
    wait_until(lambda: rig.alerts.cursor("mqtt"), lambda position: position == 4)
    wait_until(output.state, lambda state: state.waiting == 0)
    (said,) = [line for line in rig.said if "gave up" in line]
    assert said.startswith("mqtt: gave up alert 3, upon which the receiver ends the session")


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_tls_and_both_versions(rig, broker, listen, start, protocol):
    key, certificate = make_certificate(broker.folder)
    broker.more = f"allow_anonymous true\ncertfile {certificate}\nkeyfile {key}\n"
    broker.start()
    unknown = start("mqtts", "localhost", protocol=protocol)
    wait_until(unknown.state, lambda state: "certificate" in state.last_error.lower())
    unknown.stop()
    output = start("mqtts", "localhost", protocol=protocol, ca="ca.pem")
    rig.rooms.show(*ROOMS)
    wait_until(output.state, lambda state: state.delivered >= len(ROOMS))


def test_a_broker_that_wants_a_certificate_of_its_clients_is_told(broker, start):
    key, certificate = make_certificate(broker.folder)
    broker.more = (
        f"allow_anonymous true\ncertfile {certificate}\nkeyfile {key}\n"
        f"cafile {certificate}\nrequire_certificate true\n"
    )
    broker.start()
    output = start("mqtts", "localhost", ca="ca.pem")
    wait_until(output.state, lambda state: "wants a certificate of its" in state.last_error)


@pytest.mark.parametrize("scheme", ["mqtt", "mqtts"])
def test_tls_on_one_side_only_is_told(broker, start, scheme):
    key, certificate = make_certificate(broker.folder)
    if scheme == "mqtt":
        broker.more = f"allow_anonymous true\ncertfile {certificate}\nkeyfile {key}\n"
    broker.start()
    output = start(scheme, "localhost", **({"ca": "ca.pem"} if scheme == "mqtts" else {}))
    wait_until(output.state, lambda state: "is TLS expected on one side only?" in state.last_error)


def test_what_is_not_there_any_more_goes_from_the_broker(rig, broker, listen, start):
    """Discovery is switched off: nothing of it stays."""
    broker.start()
    listener = listen(broker)
    output = start()
    rig.rooms.show(*ROOMS)
    wait_until(lambda: listener.newest, lambda found: TOPICS.state("b1/f4/r3") in found)
    output.stop()
    output = start(discovery="")
    wait_until(
        listener.retained,
        lambda found: not any(topic.startswith("homeassistant") for topic in found),
    )


def test_what_was_retained_under_an_earlier_name_goes_from_the_broker(rig, broker, listen, start):
    """Home Assistant would show each room twice, one of them for ever without readings."""
    broker.start()
    listener = listen(broker)
    output = start()
    rig.alert(1, area="b1/f4/r3")
    rig.rooms.show(*ROOMS)
    wait_until(lambda: listener.newest, lambda found: TOPICS.state("b1/f4/r3") in found)
    wait_until(listener.retained, lambda found: TOPICS.raised("hot", "b1/f4/r3") in found)
    output.stop()
    late = listen(broker)  # whose broker sends it nothing but what is retained
    kept = {TOPICS.status, TOPICS.raised("hot", "b1/f4/r3")}
    kept = kept.union(*(told(each.area) for each in ROOMS))
    wait_until(late.retained, lambda found: found.keys() == kept)
    rig.sources = rig.sources._replace(gateway="office")
    start()
    renamed = Topics("office")
    wanted = {renamed.status} | {renamed.availability(each.area) for each in ROOMS}
    wait_until(
        listener.retained,
        lambda found: found.keys() >= wanted and not found.keys() & kept,
    )


def test_a_whole_gateway_of_a_fleet_is_seen_by_home_assistant(tmp_path, broker, listen):
    """From the answers of a master to what Home Assistant reads."""
    broker.start()
    listener = listen(broker)
    sections = {
        "gateway": {"name": "home"},
        "mqtt": {"address": f"mqtt://127.0.0.1:{broker.port}"},
        "console": {"every_s": 0.5},
    }
    fleet = FakeFleet(3)
    area = next(iter(fleet.areas))
    topic = Discovery(TOPICS, "home", "homeassistant", "").topic(area)
    with FakeGateway(tmp_path, fleet, **sections) as made:
        wait_until(lambda: listener.newest.get(TOPICS.state(area)))
        document = listener.json(topic)
        assert document["dev"]["name"] == fleet.areas[area]
        assert document["cmps"]["temperature"]["unit_of_meas"] == "°C"
        assert document["cmps"]["temperature"]["dev_cla"] == "temperature"
        fleet.raise_alert(area)
        wait_until(lambda: listener.newest.get(TOPICS.raised("hot", area)), lambda p: p == b"ON")
        wait_until(lambda: f"sanderling/home/alert/hot/{area}" in listener.newest)
        shown = ask(made, "/api/v1/outputs", token=made.token()).json["outputs"]
        assert [each["state"] for each in shown] == ["up"]
    wait_until(lambda: listener.newest[TOPICS.status], lambda payload: payload == b"offline")
