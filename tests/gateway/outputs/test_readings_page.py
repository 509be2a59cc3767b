"""The page for Prometheus, as its own library reads it."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as families

from agent.gateway.feed.rooms import Reading, Room
from agent.gateway.outputs.readings_page import page
from tests.gateway.outputs.rig import room


def samples(text):
    return {
        (each.name, *sorted(each.labels.items())): each.value
        for family in families(text)
        for each in family.samples
    }


def test_readings_ages_and_what_is_up():
    rooms = [
        room("b1/f4/r1", temperature=21.5, name="R 1"),
        room("b2", state="stale", humidity=1.0),
    ]
    found = samples(page(rooms, [("hot", "b1/f4/r1")], 3_500))
    place = (("area", "b1/f4/r1"), ("channel", "temperature"), ("unit", "°C"))
    assert found == {
        ("sanderling_room_reading", *place): 21.5,
        ("sanderling_room_reading_age_seconds", *place): 2.5,
        ("sanderling_room_up", ("area", "b1/f4/r1"), ("name", "R 1")): 1,
        ("sanderling_room_up", ("area", "b2"), ("name", "")): 0,
        ("sanderling_room_alert", ("area", "b1/f4/r1"), ("trigger", "hot")): 1,
    }


def test_what_is_bad_is_absent():
    assert "reading{" not in page([room("b1", temperature=None)], [], 0)


@given(st.text(max_size=30), st.floats())
def test_any_name_and_value_can_be_parsed(name, value):
    shown = Room("b1", name, "live", "", {"t": Reading(value, 0, "good", name)})
    assert samples(page([shown], [(name, name)], 0))
