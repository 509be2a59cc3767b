"""Every folder of `processors`: its sample gives its golden output, wherever state is kept."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import processors.aggregate
import processors.base
from agent.processing.outputs import read_outputs
from processors.base import ProcessorError
from processors.registry import PROCESSORS, open_processor

FOLDER = Path(processors.__file__).parent
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))


def readme(name: str) -> str:
    return (FOLDER / name / "README.md").read_text()


def opened(name: str):
    (block,) = re.findall(r"```toml\n(.*?)```", readme(name), re.DOTALL)
    sample = tomllib.loads(block)
    return open_processor(sample["processor"], sample["parameters"])


def lines(name: str, file: str) -> list[dict[str, Any]]:
    text = (FOLDER / name / file).read_text()
    return [json.loads(line) for line in text.splitlines()]


def outputs_of(process, messages, state):
    return [output for message in messages for output in process(message, state) or ()]


def test_every_folder_is_known():
    assert sorted(PROCESSORS) == NAMES
    assert {name: f"processors.{name}" for name in NAMES} == PROCESSORS


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_gives_its_golden_output(name):
    golden = lines(name, "golden.jsonl")
    assert outputs_of(opened(name), lines(name, "sample.jsonl"), {}) == golden
    assert golden


@pytest.mark.parametrize("name", NAMES)
def test_state_may_be_kept_after_any_message(name):
    """A processor that goes on elsewhere after each message gives the same."""
    found, state = [], b"\x80"
    for message in lines(name, "sample.jsonl"):
        here = msgspec.msgpack.decode(state)
        found += outputs_of(opened(name), [message], here)
        state = msgspec.msgpack.encode(here)
    assert found == lines(name, "golden.jsonl")


@pytest.mark.parametrize("name", NAMES)
def test_outputs_can_be_published(name):
    data = msgspec.msgpack.encode(outputs_of(opened(name), lines(name, "sample.jsonl"), {}))
    assert read_outputs(data, 1_000, 2**20)


@pytest.mark.parametrize("name", NAMES)
def test_a_message_without_a_time_is_one_line(name):
    message = {k: v for k, v in lines(name, "sample.jsonl")[0].items() if k != "time_ms"}
    with pytest.raises(ValueError, match="the message has no time_ms"):
        opened(name)(message, {})


@pytest.mark.parametrize("name", NAMES)
def test_messages_without_an_area_change_nothing(name):
    """Whoever may publish chooses them: they must not stop the processor."""
    process, state, found = opened(name), {}, []
    for message in lines(name, "sample.jsonl"):
        for area in ({}, {"area": ""}, {"area": 3.0}):
            bare = {k: v for k, v in message.items() if k != "area"}
            assert outputs_of(process, [bare | area], state) == []
        found += outputs_of(process, [message], state)
    assert found == lines(name, "golden.jsonl")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "comfort_index"])
def test_areas_beyond_a_bound_change_nothing(name, monkeypatch):
    for module in (processors.base, processors.aggregate):
        monkeypatch.setattr(module, "MAX_AREAS", 1)
    messages = lines(name, "sample.jsonl")
    area = messages[0]["area"]
    process, alone = opened(name), {}
    expected = outputs_of(process, [m for m in messages if m["area"] == area], alone)
    state: dict[str, Any] = {}
    found = []
    for message in messages:
        if message["area"] == area:
            found += process(message, state)
            assert process({**message, "area": "invented"}, state) == []
    assert (found, state) == (expected, alone)


@pytest.mark.parametrize("name", NAMES)
def test_values_that_are_no_numbers_are_left_out(name):
    process, state = opened(name), {}
    sample = lines(name, "sample.jsonl")[0]
    for wrong in (None, True, "20", float("nan"), float("inf"), 1e301, [1]):
        message = {k: v if k in ("area", "time_ms") else wrong for k, v in sample.items()}
        assert list(process(message, state) or ()) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_parameter_is_one_line(name):
    given = {"aggregate": {"channels": ["a"]}, "threshold": {"when": "a > 1"}}.get(name, {})
    open_processor(name, given)
    with pytest.raises(ProcessorError, match=f"^{name}: .*[Uu]nknown.*nonsense") as caught:
        open_processor(name, {**given, "nonsense": 1})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_readme_has_every_parameter(name):
    headings = re.findall(r"^##? (.*)$", readme(name), re.MULTILINE)
    assert headings == [name, "Sample config", "Fixtures"]
    module = __import__(PROCESSORS[name], fromlist=["Parameters"])
    table = readme(name).partition("## Sample")[0]
    for field in msgspec.structs.fields(module.Parameters):
        assert f"`{field.name}`" in table


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("aggregate", {}, "aggregate: channels is missing"),
        ("aggregate", {"channels": []}, "aggregate: channels"),
        ("aggregate", {"channels": ["a"], "window_s": 0}, "aggregate: window_s"),
        ("aggregate", {"channels": ["a"], "functions": ["median"]}, "aggregate: .*median"),
        ("threshold", {}, "threshold: when is missing"),
        ("threshold", {"when": "a >"}, "threshold: when = 'a >': at character 4: expected a num"),
        ("threshold", {"when": "a > 1", "until": "b"}, "threshold: until = 'b': at character 2"),
        ("comfort_index", {"index": "wet"}, "comfort_index: .*index"),
        ("forecast", {"alpha": 0.0}, "forecast: alpha"),
        ("anomaly", {"least": "many"}, "anomaly: least"),
    ],
)
def test_a_wrong_parameter_is_one_line(name, given, said):
    with pytest.raises(ProcessorError, match=f"^{said}") as caught:
        open_processor(name, given)
    assert "\n" not in str(caught.value)
