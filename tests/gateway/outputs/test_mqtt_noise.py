"""A broker that sends mutated packets, and others who publish mutated payloads: a session ends with
one line, or goes on; the output behind it does what it did. `-m long` sends 200,000 packets, in CI
a tenth."""

import random
import socket
import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import Client

from agent.gateway.outputs import mqtt_events as e
from agent.gateway.outputs import mqtt_session
from agent.gateway.outputs.alert_line import AlertLine
from agent.gateway.outputs.areas import MAX_NAMED
from agent.gateway.outputs.home_assistant import Discovery
from agent.gateway.outputs.mqtt_publisher import MqttPublisher
from agent.gateway.outputs.mqtt_session import MAX_PACKET, Broker, Session
from agent.gateway.outputs.state_pace import Rules
from agent.gateway.outputs.topics import Topics
from agent.runtime.retrying import Retrying
from agent.runtime.token_bucket import TokenBucket
from tests.gateway.outputs.rig import room
from tests.gateway.test_fuzz import REQUESTS, mutated

TOPICS = Topics("home")
DISCOVERY = Discovery(TOPICS, "home", "homeassistant", "1")
AT_ONCE = 20  # packets of a session
CONNECTED = {True: b"\x20\x03\x00\x00\x00", False: b"\x20\x02\x00\x00"}


def packet(kind, body):
    """A packet of MQTT, with the length of its body."""
    length, left = b"", len(body)
    while left > 127:
        length, left = length + bytes([left & 127 | 128]), left >> 7
    return bytes([kind]) + length + bytes([left]) + body


def body_of(generator, is_version_5):
    """Kind and body of a packet that a broker may send: most are messages with mutated payloads,
    of some the topic or properties are mutated, too; a few are of other kinds."""
    number = struct.pack(">H", generator.randrange(1, 100))
    properties = b"\x00" if is_version_5 else b""
    chance = generator.random()
    if chance < 0.03:
        return generator.choice([
            (0x40, number), (0x50, number), (0x62, number), (0x90, number + properties + b"\x01"),
            (0xD0, b""), (0xE0, b"\x00"), (generator.randrange(256), generator.randbytes(9)),
        ])  # fmt: skip
    topic = generator.choice([DISCOVERY.status, TOPICS.status, "a/b", "ä"]).encode()
    words = [b"online", b"offline", b"ONLINE", b"\x00" * 300, b'{"a": [1, 2]}']
    payload = mutated(generator, generator.choice(words))
    kind = generator.choice([0x30, 0x31, 0x32, 0x3A])
    named = struct.pack(">H", len(topic)) + topic + (number if kind & 6 else b"")
    body = named + properties + payload
    return kind, mutated(generator, body) if chance < 0.1 else body


def noise(generator, is_version_5):
    """Packets of which the last is mutated as a whole: few are read after a wrong length."""
    packets = [packet(*body_of(generator, is_version_5)) for _ in range(AT_ONCE)]
    return b"".join([*packets[:-1], mutated(generator, packets[-1])])


def publisher():
    """An output that is connected, and has told all that it has."""
    line = AlertLine(0, Retrying(jitter=lambda: 0.0), lambda _: True)
    made = MqttPublisher(
        TOPICS, DISCOVERY, {}, line, rules=Rules(), keep_s=3_600.0, jitter=lambda: 0.0
    )
    made.handle(e.Started(), 0.0)
    made.handle(e.Connected(), 0.0)
    made.handle(e.AllRooms([room("b1", temperature=1.0)]), 0.0)
    return made


def test_areas_that_alerts_invent_are_forgotten():
    made = publisher()
    for n in range(0, 3_000, 500):
        made.handle(e.Raised(frozenset(("hot", f"b1/x{n + each}") for each in range(500))), 0.0)
    made.handle(e.Raised(frozenset()), 0.0)
    areas = made._areas.all
    assert len(areas) == 1 + MAX_NAMED
    assert "b1" in areas
    topics = {
        topic for area in areas for topic in (DISCOVERY.topic(area), TOPICS.raised("hot", area))
    }
    own = {TOPICS.status, TOPICS.availability("b1")}
    assert made.retained._wanted.keys() <= topics | own


def session_with(listener, sent, is_version_5):
    """The events of a session with a broker that sends this after its word, and hangs up."""

    def serve():
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(CONNECTED[is_version_5] + sent)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
            except OSError:
                pass  # the session has ended before all was sent

    thread = threading.Thread(target=serve)
    thread.start()
    port = listener.getsockname()[1]
    session = Session(
        Broker("127.0.0.1", port, "me", "s", DISCOVERY.status, is_version_5=is_version_5)
    )
    session.open()
    while not isinstance(session.events[-1], e.Disconnected):
        session.turn(1.0)
    session.close(orderly=False)
    thread.join()
    return session.events


TOO_LONG = "the broker sends a packet of more than 16,384 bytes"


def message(payload, number=None, kind=0x30):
    """A message of MQTT 3.1.1."""
    topic = DISCOVERY.status.encode()
    named = struct.pack(">H", len(topic)) + topic
    return packet(kind, named + (b"" if number is None else struct.pack(">H", number)) + payload)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        # The first bytes of a packet of 256 MiB.
        (b"\x30\xff\xff\xff\x7f" + b"x" * 100, TOO_LONG),
        (message(b"x" * MAX_PACKET), TOO_LONG),
        # Without a release it would be kept for ever.
        (message(b"x", 1, 0x34) + message(b"online") * 9, "a message of QoS 2"),
    ],
)
def test_what_a_broker_would_make_the_client_hold_ends_the_session(listener, sent, why):
    _, *heard, last = session_with(listener, sent, is_version_5=False)
    assert heard == []
    assert why in last.why


def test_the_largest_packet_is_heard(listener):
    sent = message(b"x" * (MAX_PACKET - 22))
    _, heard, _ = session_with(listener, sent, is_version_5=False)
    assert len(heard.payload) == MAX_PACKET - 22


def test_a_broker_that_sends_and_does_not_read_ends_the_session(listener, monkeypatch):
    """An acknowledgement would wait for each message."""
    monkeypatch.setattr(mqtt_session, "MAX_UNSENT", 10)
    monkeypatch.setattr(Client, "loop_write", lambda _: 0)  # nothing leaves
    sent = b"".join(message(b"x", number, 0x32) for number in range(1, 30))
    *_, last = session_with(listener, sent, is_version_5=False)
    assert "does not read" in last.why


def test_a_broker_accepts_once(listener):
    events = session_with(listener, b"\x20\x02\0\0" * 3, is_version_5=False)
    assert [type(each) for each in events] == [e.Connected, e.Disconnected]


def check(listener, generator, machine):
    is_version_5 = generator.random() < 0.5
    events = session_with(listener, noise(generator, is_version_5), is_version_5)
    assert isinstance(events[0], e.Connected)
    *between, last = events[1:]
    assert isinstance(last, e.Disconnected)
    assert last.why.isprintable(), last.why
    assert len(last.why) < 400
    for event in between:
        assert isinstance(event, e.Heard), "nothing was published that could be confirmed"
        assert machine.handle(event, 0.0) == []
        machine.check_invariants()


@pytest.fixture(scope="module")
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@given(st.integers(0, 2**64))
def test_mutated_packets_of_a_broker_do_no_harm(listener, seed):
    check(listener, random.Random(seed), publisher())


@pytest.mark.long
def test_a_campaign_of_mutated_packets_does_no_harm(listener):
    generator, machine = random.Random(20), publisher()
    for _ in range(REQUESTS // AT_ONCE):
        check(listener, generator, machine)
    # Whatever was heard, at most one wish that all be told again has come of it.
    machine.handle(e.MqttDue(), 60.0)
    assert machine.handle(e.MqttDue(), 60.0) == []


def test_a_broker_that_does_not_listen_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    session = Session(Broker("127.0.0.1", port, "me", "s", ""))
    session.open()
    assert session.events == [e.Disconnected(f"nothing listens at 127.0.0.1:{port}")]
    session.close(orderly=False)


def test_packets_without_end_are_read_at_a_pace(listener, monkeypatch):
    monkeypatch.setattr(mqtt_session, "PACKETS_PER_S", 1e-9)
    monkeypatch.setattr(mqtt_session, "PACKETS_AT_ONCE", 6.0)
    monkeypatch.setattr(mqtt_session, "PAUSE_S", 0.0)
    port = listener.getsockname()[1]
    made = Session(Broker("127.0.0.1", port, "me", "s", DISCOVERY.status, is_version_5=False))
    held = []

    def serve():
        connection, _ = listener.accept()
        connection.sendall(CONNECTED[False] + 100 * message(b"online"))
        held.append(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    made.open()
    thread.join()
    for _ in range(100):
        made.turn()
    assert [type(each) for each in made.events] == [e.Connected] + 5 * [e.Heard]
    made._bucket = TokenBucket(1e9, 1e9, 0.0)
    while len(made.events) < 101:
        made.turn(1.0)
    made.close(orderly=False)
    held[0].close()


def test_a_broker_that_confirms_nothing_is_given_up_and_what_is_no_topic_is_not_sent(
    listener, monkeypatch
):
    monkeypatch.setattr(mqtt_session, "CONFIRM_S", 0.0)
    port = listener.getsockname()[1]
    made = Session(Broker("127.0.0.1", port, "me", "s", "", is_version_5=False))
    held = []

    def serve():
        connection, _ = listener.accept()
        connection.sendall(CONNECTED[False])
        held.append(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    made.open()
    thread.join()
    made.turn()
    assert made.events == [e.Connected()], "nothing waits"
    made.publish(e.Publish(7, "b1/#", b"x", 1, False))
    assert made.events.pop() == e.Delivered(7, "Publish topic cannot contain wildcards.")
    made.publish(e.Publish(1, "t", b"x", 1, False))
    made.turn()
    assert made.events[1:] == [e.Disconnected("the broker has confirmed nothing for 0 s")]
    made.close(orderly=False)
    held[0].close()
