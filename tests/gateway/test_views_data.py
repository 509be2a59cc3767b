"""What the browser's tests show of a fleet, its placement, plans and outputs is made up; its shape
is that of the real thing, field by field."""

import json

import msgspec
import pytest
from msgspec import structs

from agent.gateway.http.api import OutputsPage
from agent.wire.operator import IadStatus
from agent.wire.placement import PlacementReport
from fleet.demo.demo import Results
from tests.gateway.fake_api import VIEWS

TYPES = {
    "fleet": IadStatus,
    "placement": PlacementReport,
    "outputs": OutputsPage,
}


def strangers(told, struct, path=""):
    """Paths of what is told and is no field of the struct that was made of it."""
    found = []
    if isinstance(struct, msgspec.Struct):
        fields = {each.encode_name: getattr(struct, each.name) for each in structs.fields(struct)}
        for name, each in told.items():
            if name in fields:
                found += strangers(each, fields[name], f"{path}.{name}")
            elif name != struct.__struct_config__.tag_field:
                found.append(f"{path}.{name}")
    elif isinstance(told, list):
        for one, other in zip(told, struct, strict=True):
            found += strangers(one, other, f"{path}[]")
    elif isinstance(told, dict):
        for name, each in told.items():
            found += strangers(each, struct[name], f"{path}.{name}")
    return found


def check(told, kind):
    made = msgspec.json.decode(json.dumps(told), type=kind)
    assert strangers(told, made) == []
    return made


@pytest.mark.parametrize("view", TYPES)
def test_a_view_is_shown_what_the_gateway_gives(view):
    check(VIEWS[view], TYPES[view])


def test_what_if_is_shown_what_fleet_plan_writes():
    result = pytest.importorskip("fleet.plan.result")  # its libraries come with `make pipeline`
    report = check(VIEWS["plan"], result.CapacityReport)
    assert report.policies
    assert report.curves


def test_the_comparison_is_what_a_demo_writes():
    types = {each.name: each.type for each in structs.fields(Results)}
    told = VIEWS["comparison"]
    assert told.keys() <= types.keys()
    for runs in ("real", "virtual"):
        assert check(told[runs], types[runs])


def test_a_field_that_nobody_gives_is_found():
    told = json.loads(json.dumps(VIEWS["outputs"]))
    told["outputs"][0]["queue"] = 3
    with pytest.raises(AssertionError, match=r"outputs\[\]\.queue"):
        check(told, OutputsPage)
