"""What crosses an IAD's border with alerts: where and what, never which node."""

import re
from typing import get_args

import pytest

from agent.wire.base import WireStruct
from agent.wire.overlay import Direct, Notification, NoWay, Relay
from agent.wire.overlay_links import OverlayRefused, OverlayRequest
from tests.trust.border import (
    ATTRIBUTES,
    CARRIED,
    FORBIDDEN,
    NOTIFICATION,
    TO_NEIGHBOUR,
    decoded,
    keys_of,
    texts_of,
)
from tests.trust.rig import IADS, NODES, ROOMS
from tests.trust.tap import Tap

pytestmark = pytest.mark.usefixtures("patient_clients")


@pytest.fixture
def tapped(fleet):
    """Starts two masters that are neighbours in the overlay and reach each other through taps."""
    taps = []

    def tapped(*, keyed):
        made = fleet(keyed=keyed, overlay=True)
        for iad in IADS:
            taps.append(Tap(made.sockets[iad]["public"]))
            made.via[iad] = taps[-1].address
        made.start()
        return made, taps

    yield tapped
    for tap in taps:
        tap.close()


def alerts_travel(fleet):
    """A client of each IAD is told of the other one's nodes, which start anew for it; what their
    triggers clear then, because they have another area, has no value."""
    for iad, other in zip(IADS, reversed(IADS), strict=True):
        fleet.wait_until(iad, lambda s: s.counters["overlay_links_up"] == 1)
        with fleet.client(iad) as client:
            told = client.subscribe(
                f'iad = "{other}" and kind = "raised" and area under "{IADS[other]}/new"'
            )
            fleet.wait_until(other, lambda s: s.counters["overlay_targets"] == 1)
            with fleet.processes[NODES[other]] as node:
                node.kill()
            fleet.start_node(other, area=f"{IADS[other]}/new")
            attributes = next(told).notification.attributes
            assert attributes["iad"] == other
            assert attributes.keys() == ATTRIBUTES
        fleet.wait_until(other, lambda s: s.counters["spool"] == 0)


def test_nothing_about_nodes_is_in_the_bytes_between_brokers(tapped):
    fleet, taps = tapped(keyed=False)
    alerts_travel(fleet)
    seen = b"".join(tap.bytes for tap in taps)
    assert all(f"{area}/new".encode() in seen for area in IADS.values())  # it can be read
    for iad in IADS:
        assert NODES[iad].encode() not in seen
    assert not re.findall(rb"\d+\.\d+\.\d+\.\d+:\d+", seen)
    kinds = decoded(taps)
    assert {"overlay_hello", "overlay_frame"} <= kinds.keys()
    carried = [frame["message"] for frame in kinds["overlay_frame"]]
    assert {"notify", "have", "cib_set"} <= {message["type"] for message in carried}
    for message in carried:
        tag = message["type"]
        assert keys_of(message) <= CARRIED[tag] | {"type"} | ATTRIBUTES, tag
    for kind in TO_NEIGHBOUR:
        for message in kinds.get(kind, ()):
            assert message.keys() <= TO_NEIGHBOUR[kind]
            for text in texts_of(message):
                assert not any(name in text for name in NODES.values())


def test_the_schemas_have_no_room_for_nodes():
    own = {kind.__struct_config__.tag: kind for kind in get_args(OverlayRequest)}
    own[OverlayRefused.__struct_config__.tag] = OverlayRefused
    assert own.keys() == TO_NEIGHBOUR.keys()
    for tag, kind in own.items():
        assert {*kind.__struct_fields__, "type"} == TO_NEIGHBOUR[tag]
    carried = {kind.__struct_config__.tag: kind for kind in (*get_args(Direct), Relay, NoWay)}
    assert carried.keys() == CARRIED.keys()
    for tag, kind in carried.items():
        assert {*kind.__struct_fields__} == CARRIED[tag] - NOTIFICATION | (
            {"notification"} & CARRIED[tag]
        )
    assert {"notification", *Notification.__struct_fields__} == NOTIFICATION
    assert issubclass(Notification, WireStruct)
    names = set().union(*CARRIED.values(), *TO_NEIGHBOUR.values(), ATTRIBUTES)
    # `version` counts the changes of a set.
    assert names & FORBIDDEN <= {"version", "message"}


def test_with_keys_alerts_travel_and_cannot_be_read(tapped):
    fleet, taps = tapped(keyed=True)
    alerts_travel(fleet)
    seen = b"".join(tap.bytes for tap in taps)
    assert b"CURVE" in seen
    words = [*ROOMS.values(), *IADS.values(), "overlay_frame", "temperature", "warm"]
    assert [word for word in words if word.encode() in seen] == []
