"""The pieces of the benchmark of alerts beside MQTT."""

import contextlib
from itertools import islice

import numpy as np
import pytest

from bench.output import CannotRunError
from bench.push import mqtt
from bench.push.measure import Case, Contender, run
from bench.push.page import tables
from bench.push.rig import program
from bench.push.workload import Event, Wanted, connections, deliveries, events


def test_two_percent_are_wanted_and_a_connection_is_about_one_floor():
    made = connections(50, 500, seed=1)
    stream = events(seed=1)
    happened = [next(stream) for _ in range(1_000)]
    assert deliveries(made, happened) / (500 * 1_000) == pytest.approx(0.02, rel=0.1)
    assert [len(few) for few in made] == [10] * 50
    assert all(len({each.floor for each in few}) == 1 for few in made)


def test_what_is_wanted():
    wanted = Wanted("co2", 2, 10.0, 50.0)
    assert wanted.holds(Event(1, "co2", 2, 7, 50.0))
    assert not wanted.holds(Event(1, "co2", 2, 7, 50.01))
    assert not wanted.holds(Event(1, "co2", 3, 7, 20.0))
    assert not wanted.holds(Event(1, "noise", 2, 7, 20.0))


def test_packets_by_hand():
    assert mqtt.connect("n1") == b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x00\x00\x02n1"
    assert mqtt.subscribe(["a/#"]) == b"\x82\x08\x00\x01\x00\x03a/#\x00"
    assert mqtt.publish("a/b", b"xy") == b"\x30\x07\x00\x03a/bxy"


def test_packets_come_in_any_pieces():
    payloads = [b"", b"x" * 120, b"y" * 122, b"z" * 20_000]
    data = b"\x20\x02\x00\x00" + b"".join(mqtt.publish("a/b", each) for each in payloads)
    for size in (1, 3, 125, len(data)):
        packets = mqtt.Packets()
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        (first, *rest) = [packet for piece in pieces for packet in packets.feed(piece)]
        assert first == (mqtt.CONNACK, b"\0\0")
        assert [kind for kind, _ in rest] == [mqtt.PUBLISH] * 4
        assert [mqtt.topic_and_payload(body) for _, body in rest] == [
            ("a/b", payload) for payload in payloads
        ]


def test_without_mosquitto_it_is_said_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(CannotRunError, match=r"apt-get install mosquitto$"):
        program()


def test_every_subscriber_is_told_what_it_wants():
    case = Case(4, 50.0, subscriptions=40, rounds=1, round_s=0.4, processes=1)
    kinds = ["alerts", "durable"]
    with contextlib.suppress(CannotRunError):
        program()
        kinds += ["tree", "topics"]
    found = run(case, kinds, warm_up_s=0.1)
    for kind, each in found.items():
        assert (kind, each.delivered, each.alerts) == (kind, each.expected, 20)
        assert each.delivered > 0
        assert each.percentile(0) > 0.0
    stream, wanted = events(case.seed), connections(4, 40, case.seed)
    happened = list(islice(stream, 5, 25))  # after the warm-up
    # One for a connection, however many of its subscriptions want it.
    messages = sum(any(each.holds(event) for each in few) for few in wanted for event in happened)
    assert found["alerts"].messages == found["durable"].messages == messages
    assert messages < found["alerts"].delivered
    if "tree" in found:
        assert found["tree"].messages == 4 * 20
        assert found["topics"].messages <= found["tree"].messages


def test_tables():
    def contender(kind, latencies, payload):
        return Contender(kind, [np.array(latencies)], 3, 10, 30, payload, 0.5)

    found = {
        "alerts": contender("alerts", [1.0, 2.0, 4.0], 1_000),
        "tree": contender("tree", [10.0, 20.0, 40.0], 4_000),
        "topics": contender("topics", [1.0, 1.0, 1.0], 500),
    }
    made = tables({"own": (Case(5, 1.0, 15), found)})
    assert list(made) == ["cases", "own", "goals"]
    assert made["own"].rows[0] == ("alerts", "2.0", "4.0", "4.0", "0 of 3", "3.0", "100", "50.0")
    assert made["goals"].rows == [
        ("5", "mosquitto, all", "yes", "10.00", "4.00", "1.00"),
        ("5", "mosquitto, by topic", "**no**", "0.25", "0.50", "1.00"),
    ]
    assert made["cases"].rows[0][:4] == ("5", "15", "1", "2.00%")
