"""Discovery documents: as Home Assistant reads them, and nothing that it would stumble over."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.gateway.outputs.home_assistant import Discovery, device_id, is_birth
from agent.gateway.outputs.topics import Topics, level
from agent.wire.areas import AREA_PATTERN
from agent.wire.units import sign_of
from sensors.quality.limits import DEFAULTS
from tests.gateway.samples import notification

TOPICS = Topics("home")
DISCOVERY = Discovery(TOPICS, "home", "homeassistant", "0.1.0")
AREAS = st.from_regex(AREA_PATTERN, fullmatch=True)


def document(channels, triggers=(), gone=()):
    made = DISCOVERY.document("b1/f4/r413", "Meeting 4.13", channels, triggers, dict(gone))
    return json.loads(made)


def test_a_device_is_an_area_with_a_sensor_a_channel():
    own = device_id("home", "b1/f4/r413")
    assert DISCOVERY.topic("b1/f4/r413") == f"homeassistant/device/{own}/config"
    assert document({"temperature": "°C", "humidity": "%"}) == {
        "dev": {
            "ids": [own],
            "name": "Meeting 4.13",
            "mf": "Sanderling",
            "mdl": "b1/f4/r413",
        },
        "o": {"name": "Sanderling", "sw": "0.1.0"},
        "cmps": {
            # No name: Home Assistant would write it behind the device's.
            "temperature": {
                "p": "sensor",
                "uniq_id": f"{own}_temperature",
                "stat_cla": "measurement",
                "val_tpl": "{{ value_json.channels['temperature'] }}",
                "unit_of_meas": "°C",
                "dev_cla": "temperature",
            },
            "humidity": {
                "p": "sensor",
                "uniq_id": f"{own}_humidity",
                "stat_cla": "measurement",
                "val_tpl": "{{ value_json.channels['humidity'] }}",
                "unit_of_meas": "%",
                "dev_cla": "humidity",
            },
        },
        "stat_t": "sanderling/home/state/b1/f4/r413",
        "avty": [
            {"t": "sanderling/home/status"},
            {"t": "sanderling/home/availability/b1/f4/r413"},
        ],
        "avty_mode": "all",
        "qos": 1,
    }


def test_a_template_gives_the_value_of_a_channel_whatever_it_is_called():
    template = pytest.importorskip("jinja2").Template
    told = {"channels": {"values": 1.5, "items": 2.5, "temperature": 3.5}}
    parts = document(dict.fromkeys(told["channels"], ""))["cmps"]
    shown = {
        name: template(part["val_tpl"]).render(value_json=told) for name, part in parts.items()
    }
    assert shown == {"values": "1.5", "items": "2.5", "temperature": "3.5"}


def test_a_second_sensor_of_a_class_and_an_unknown_one_have_names():
    parts = document({"temperature": "°C", "temperature_2": "°C", "voc": "ppb", "door": ""})["cmps"]
    assert "name" not in parts["temperature"]
    assert parts["temperature_2"]["dev_cla"] == "temperature"
    assert parts["temperature_2"]["name"] == "Temperature 2"
    assert parts["voc"]["name"] == "Voc"
    assert "dev_cla" not in parts["voc"]
    assert "unit_of_meas" not in parts["door"]


@pytest.mark.parametrize(("quantity", "unit"), DEFAULTS)
def test_what_our_drivers_measure_has_a_class(quantity, unit):
    part = document({quantity: sign_of(unit)})["cmps"][quantity]
    assert part["dev_cla"]
    assert part["unit_of_meas"] in ("°C", "%", "ppm", "lx", "hPa")


def test_a_unit_that_a_class_does_not_take_gets_none():
    assert "dev_cla" not in document({"temperature": "K2"})["cmps"]["temperature"]


def test_a_trigger_is_a_problem_that_lasts_while_nobody_measures():
    found = document({}, ["hot"])["cmps"]
    ((component, part),) = found.items()
    assert re.fullmatch(r"[A-Za-z0-9_-]+", component)
    assert part["p"] == "binary_sensor"
    assert part["stat_t"] == "sanderling/home/raised/hot/b1/f4/r413"
    assert part["avty"] == [{"t": "sanderling/home/status"}]


def test_what_is_gone_is_named_with_its_platform_only():
    parts = document({"temperature": "°C"}, gone=[("humidity", "sensor")])["cmps"]
    assert parts["humidity"] == {"p": "sensor"}


@given(AREAS, AREAS)
def test_ids_are_plain_and_different(one, other):
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,80}", device_id("home", one))
    assert (device_id("home", one) == device_id("home", other)) == (one == other)
    assert device_id("home", one) != device_id("hut", one)


@given(st.text(max_size=80), st.one_of(st.none(), st.text(max_size=80)))
def test_whatever_a_notification_says_its_topic_can_be_published_to(trigger, area):
    told = notification(trigger=trigger)
    told.attributes.pop("area")
    if area is not None:
        told.attributes["area"] = area
    topic = TOPICS.alert(told)
    assert topic.startswith("sanderling/home/alert/")
    assert not set("+#\0") & set(topic)
    topic.encode()


def test_a_message_of_a_topic_has_no_topic_of_an_alert():
    told = notification(trigger="fire", kind="input")
    told.attributes["topic"] = "x/raised"
    assert TOPICS.alert(told) == "sanderling/home/topic/x_raised/b1/r1"
    told.attributes.pop("area")
    assert TOPICS.alert(told) == "sanderling/home/topic/x_raised"
    assert TOPICS.raised_of(TOPICS.alert(told)) is None


def test_topics_are_read_back():
    assert TOPICS.area_of(TOPICS.availability("b1/f4")) == "b1/f4"
    assert TOPICS.raised_of(TOPICS.raised("hot", "b1/f4")) == ("hot", "b1/f4")
    assert TOPICS.raised_of("sanderling/home/raised/hot") is None
    assert TOPICS.area_of("sanderling/hut/availability/b1") is None
    assert level("a/b+#") == "a_b__"


@given(st.binary(max_size=20))
def test_only_the_word_online_is_a_birth(payload):
    assert is_birth(payload) == (payload == b"online")
