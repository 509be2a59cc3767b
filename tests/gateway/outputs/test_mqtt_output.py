"""The MQTT output's thread, with a session in the test's hands; and its configuration."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.gateway.config import GatewayConfig
from agent.gateway.output_config import GatewayMqtt
from agent.gateway.outputs import mqtt_events as e
from agent.gateway.outputs.alert_line import AlertLine
from agent.gateway.outputs.configured import outputs_of
from agent.gateway.outputs.home_assistant import Discovery
from agent.gateway.outputs.mqtt import MqttOutput
from agent.gateway.outputs.mqtt_publisher import WINDOW, MqttPublisher
from agent.gateway.outputs.retained_store import RetainedStore
from agent.gateway.outputs.state_pace import Rules
from agent.gateway.outputs.topics import Topics
from agent.runtime.retrying import Retrying
from agent.wire.config import ConfigError, parse
from agent.wire.overlay import Notification, Origin
from testkit.waiting import wait_until
from tests.gateway.outputs.rig import Rig, room

TOPICS = Topics("home")
# Of triggers and areas, in alerts of a neighbour in the overlay or of a node.
NO_NAMES = [
    ("hot", "b1/#"),
    ("hot", "+"),
    ("hot", "b1\0"),
    ("a/b", "b1/r1"),
    ("ä", "b1/r1"),
    ("h", "/"),
]


class FakeSession:
    """Confirms everything at once; `broker` has what came."""

    def __init__(self, came):
        self.events, self.sockets, self.has_more = [], {}, False
        self.came = came

    def open(self):
        self.events.append(e.Connected())

    def turn(self, wait_s=0.0):
        pass

    def publish(self, message):
        self.came[message.topic] = message.payload
        self.events.append(e.Delivered(message.number))

    def close(self, *, orderly=True):
        self.came["closed"] = orderly


@pytest.fixture
def rig(tmp_path):
    made = Rig(tmp_path)
    yield made
    made.close()


def test_rooms_and_alerts_come_to_the_broker_and_the_store_is_kept(rig):
    came = {}
    config = GatewayMqtt(address="mqtt://127.0.0.1", discovery="")
    output = MqttOutput(config, rig.sources, opened=lambda _: FakeSession(came))
    output.start()
    try:
        rig.rooms.show(room("b1/r1", temperature=20.0))
        wait_until(lambda: came.get(TOPICS.state("b1/r1")))
        for number, (trigger, area) in enumerate(NO_NAMES):
            rig.alert(1, history=f"h{number}", trigger=trigger, area=area)
        rig.alert(1)
        wait_until(lambda: came.get(TOPICS.raised("hot", "b1/r1")), lambda each: each == b"ON")
        wait_until(
            lambda: rig.alerts.cursor("mqtt"), lambda position: position == 1 + len(NO_NAMES)
        )
        wait_until(output.state, lambda state: (state.state, state.waiting) == ("up", 0))
    finally:
        output.stop()
    assert came["closed"] is True
    assert output.state().state == "stopped"
    store = RetainedStore(str(rig.folder / "mqtt.sqlite"), "127.0.0.1:1883", rig.said.append)
    assert [each.area for each in rig.rooms.raised()] == ["b1/r1"]
    topics = [TOPICS.status, TOPICS.availability("b1/r1"), TOPICS.raised("hot", "b1/r1")]
    assert sorted(store.topics) == sorted(topics)
    store.close()


def test_alerts_go_on_once_the_log_can_be_read_again(rig, monkeypatch):
    came = {}
    config = GatewayMqtt(address="mqtt://127.0.0.1", discovery="")
    output = MqttOutput(config, rig.sources, opened=lambda _: FakeSession(came))
    output.start()
    try:
        wait_until(output.state, lambda state: state.state == "up")
        with monkeypatch.context() as patched:

            def fails(*_):
                raise OSError("the log cannot be read: disk I/O error")

            patched.setattr(rig.sources.alerts, "read", fails)
            rig.alert(1)
            wait_until(lambda: rig.said, lambda said: "disk I/O error" in "".join(said))
        rig.alert(2)
        wait_until(lambda: rig.alerts.cursor("mqtt"), lambda position: position == 2)
    finally:
        output.stop()


@pytest.mark.parametrize(
    ("attributes", "topic"),
    [
        ({"trigger": "hot", "area": "b1/f4"}, "alert/hot/b1/f4"),
        ({"trigger": "hot", "area": "a/" * 255 + "a"}, "alert/hot" + "/a" * 16),
        ({"topic": "a\ufdd0b\ufffe", "area": "\U0010ffff/\ue000"}, "topic/a_b_/_/\ue000"),
    ],
)
def test_every_alert_has_a_topic_that_brokers_take(attributes, topic):
    told = Notification(Origin("iad2", "h", 1), 0, attributes)
    assert TOPICS.alert(told) == f"sanderling/home/{topic}"


def test_a_store_on_a_full_disk_says_why(rig, tmp_path):
    store = RetainedStore(str(tmp_path / "l.sqlite"), "h:1", rig.said.append)
    store._file.execute("PRAGMA max_page_count = 1")
    why = store.write({f"topic {n}": {"temperature": "sensor"} for n in range(500)})
    assert "full" in why
    assert "\n" not in why
    store.close()


@given(st.lists(st.tuples(st.text(max_size=30), st.binary(max_size=40)), max_size=40))
def test_whatever_others_publish_changes_nothing(heard):
    discovery = Discovery(TOPICS, "home", "homeassistant", "1")
    line = AlertLine(0, Retrying(jitter=lambda: 0.0), lambda _: True)
    made = MqttPublisher(
        TOPICS, discovery, {}, line, rules=Rules(), keep_s=3_600.0, jitter=lambda: 0.0
    )
    made.handle(e.Started(), 0.0)
    done = made.handle(e.Connected(), 0.0)
    done += made.handle(e.AllRooms([room("b1", temperature=1.0)]), 0.0)
    while done:
        write = [each for each in done if isinstance(each, e.Write)]
        sent = [each.number for each in done if isinstance(each, e.Publish)]
        done = [x for each in write for x in made.handle(e.Written(each.changes), 0.0)]
        done += [x for each in sent for x in made.handle(e.Delivered(each), 0.0)]
    for topic, payload in [*heard, (discovery.status, b"offline"), (discovery.status, b"")]:
        if (topic, payload) != (discovery.status, b"online"):
            assert made.handle(e.Heard(topic, payload), 1.0) == []
    for _ in range(5 * WINDOW):  # as often as one likes: it counts once
        assert made.handle(e.Heard(discovery.status, b"online"), 1.0) == []
    assert len(made.handle(e.MqttDue(), 2.0)) == 1


@pytest.mark.parametrize(
    ("section", "keys", "why"),
    [
        ("mqtt", {"address": "http://h"}, "mqtt.address is neither mqtt://host:port"),
        ("mqtt", {"address": "mqtt://u:p@h"}, "use mqtt.user and mqtt.password_file"),
        ("mqtt", {"address": "mqtt://h:99999"}, "with a port from 1"),
        ("mqtt", {"address": "mqtt://h", "ca": "x"}, "mqtt.ca is of no use without mqtts://"),
        ("line_protocol", {"url": "ftp://h/"}, "line_protocol.url: neither http://host/path"),
        ("ntfy", [{"name": "a", "url": "https://h/"}], "is not https://server/topic"),
        ("ntfy", [{"name": "a", "url": "https://h/t"}] * 2, "two have the same name"),
        (
            "email",
            {"server": "mail.example.com:25", "sender": "a@b", "to": ["c@d"], "security": "none"},
            "is for a server on this host only",
        ),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(section, keys, why):
    with pytest.raises(ConfigError) as error:
        parse({section: keys}, GatewayConfig, "gateway.toml")
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_outputs_of_a_configuration(rig):
    keys = {
        "mqtt": {"address": "mqtt://127.0.0.1"},
        "line_protocol": {"url": "http://127.0.0.1/write?db=x"},
        "ntfy": [{"name": "phone", "url": "https://ntfy.sh/x"}],
        "email": {"server": "h:587", "sender": "a@b", "to": ["c@d"]},
    }
    made = outputs_of(msgspec.convert(keys, GatewayConfig), rig.sources)
    assert [each.name for each in made] == ["mqtt", "line_protocol", "ntfy phone", "email"]
    assert {each.state().state for each in made} == {"starting"}
    for each in made:
        each.stop()
