"""JSON for programs: all keys, and the numbers of packed columns."""

from __future__ import annotations

import json
import re
from pathlib import Path

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

ROOT = Path(output.__file__).parents[1]


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


def test_no_terminal_obeys_a_document(capsys):
    """Escaped as JSON escapes other controls, so that it is the same document."""
    evil = "a\x1b[2J\x9b31m\x7f\u202ec\u2028 °C é 字 😀"
    shown = Services((ServiceInfo("s", evil),))
    for write in (output.write_json, output.write_json_line):
        write(shown)
        said = capsys.readouterr().out
        assert "".join(said.split("\n")).isprintable()
        assert "°C é 字 😀" in said
        assert json.loads(said)["services"][0]["capability"] == evil
    replies.write_json(TopicReport("1", ok=False, message=evil))
    said = capsys.readouterr().out
    assert said.rstrip("\n").isprintable()
    assert json.loads(said)["message"] == evil


def test_every_document_is_written_so():
    """What encodes JSON for stdout goes through `json_text`."""
    around = [(path, path.read_text("utf-8")) for path in ROOT.rglob("*.py")]
    assert len(around) > 300
    raw = re.compile(r"(stdout\.write|print|as_it_is)\([^\n]*encode\([^\n]*\)\.decode\(\)")
    assert [str(path) for path, text in around if raw.search(text)] == []
