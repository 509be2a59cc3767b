"""JSON for programs: all keys, and the numbers of packed columns."""

from __future__ import annotations

import json

import msgspec

from agent.wire.about import ServiceInfo
from agent.wire.clones import CloneReport
from agent.wire.codec import unpack
from agent.wire.messages import Answer, AreaResult, Coverage, Series
from agent.wire.packed import Float32Column, Int64Column
from agent.wire.topics import TopicReport
from fleet.query import replies
from fleet.query.about import Services
from fleet.terminal import output


def test_a_key_without_a_value_is_not_missing(capsys):
    for report, key in (
        (TopicReport("list", ok=True), "topics"),
        (CloneReport("l", ok=True), "clones"),
    ):
        replies.write_json(report)
        told = json.loads(capsys.readouterr().out)
        assert (told["type"], told[key], told["message"]) == (report.__struct_config__.tag, [], "")
    output.write_json(Services([ServiceInfo("default", ("home/room",))]))
    [service] = json.loads(capsys.readouterr().out)["services"]
    assert set(service) == set(ServiceInfo.__struct_encode_fields__)


def test_an_answer_is_that_of_the_wire(capsys):
    series = Series(Int64Column.of([1_000, 2_000]), {"humidity": Float32Column.of([40.5, 41.0])})
    answer = Answer(
        "q",
        "complete",
        3.0,
        slo_met=True,
        coverage=Coverage(1, 1),
        results=(AreaResult("a", series),),
    )
    replies.write_json(answer)
    line = capsys.readouterr().out
    assert msgspec.json.decode(line, type=Answer, dec_hook=unpack) == answer
    told = json.loads(line)
    assert told["results"][0]["series"]["values"] == {"humidity": [40.5, 41.0]}
    assert told["results"][0]["aggregate"] is None
    assert "services" not in told, "it does not belong to this answer"
