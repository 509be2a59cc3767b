"""docs/understand/wire.md as a program in another language sees it: ZeroMQ, JSON, and nothing of
this project.

Every program here runs in a bare interpreter that can import the standard library and pyzmq.
"""

import json
import re
import subprocess
import sys
from array import array
from pathlib import Path

import pytest
import zmq
from msgspec import UNSET

from agent.client import Client
from fleet.testbed.testbed import Testbed
from tests.fleet.conftest import SMALL, recording

PAGE = Path(__file__).parents[2] / "docs" / "understand" / "wire.md"
SITE = Path(zmq.__file__).parents[1]
NODE = SMALL.nodes[0]
FLOOR = NODE.area.rpartition("/")[0]

SERIES = """
import json, zmq
socket = zmq.Context.instance().socket(zmq.REQ)
socket.connect("tcp://127.0.0.1:5700")
socket.send(
    b'10J{"type":"query","id":"by hand","areas":["b1"],"window":{"last_s":10000},'
    b'"slo":{"percentile":99,"latency_ms":30000}}'
)
frame = socket.recv()
assert frame[:3] == b"10J", frame[:3]
print(frame[3:].decode())
"""

PUBLISH = """
import json, zmq
socket = zmq.Context.instance().socket(zmq.REQ)
socket.connect("tcp://127.0.0.1:5700")
for vote, sequence in ((b"3.0", 17), (b"3.0", 17), (b"true", 18), (b"true", 18)):
    socket.send(
        b'10J{"type":"publish","id":"4f1d2a90","topic":"notes","attributes":'
        b'{"area":"b1/f4","vote":%b},"sequence":%d,"oldest":17}' % (vote, sequence)
    )
    frame = socket.recv()
    assert frame[:3] == b"10J", frame[:3]
    print(frame[3:].decode())
"""


@pytest.fixture(scope="module")
def only_pyzmq(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("only_pyzmq")
    for name in ("zmq", "pyzmq.libs"):
        if (SITE / name).exists():
            (folder / name).symlink_to(SITE / name)
    return folder


def run_bare(program: str, folder: Path) -> str:
    """What `program` prints in an interpreter without this project."""
    start = (
        f"import importlib.util, sys; sys.path.append({str(folder)!r})\n"
        "assert not any(map(importlib.util.find_spec, ('agent', 'fleet', 'msgspec')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def adapted(program: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert program.count(old) == 1, old
        program = program.replace(old, new)
    return program


def ten_lines() -> str:
    section = PAGE.read_text("utf-8").partition("## A query in ten lines")[2]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_query_in_ten_lines_runs_as_it_stands(bed: Testbed, only_pyzmq: Path) -> None:
    """But for the address, an area of this fleet, and an SLO that a busy machine keeps."""
    program = adapted(
        ten_lines(),
        ("tcp://127.0.0.1:5700", bed.public("iad1")),
        ("b1/f4", FLOOR),
        ('"latency_ms": 500', '"latency_ms": 30000'),
    )
    printed = [line.split() for line in run_bare(program, only_pyzmq).splitlines()]
    rooms = {node.area: node.room for node in SMALL.nodes if node.area.startswith(f"{FLOOR}/")}
    assert [area for area, _ in printed] == sorted(rooms)
    for area, mean in printed:
        recorded = [temperature for temperature, _ in recording(rooms[area]).values()]
        assert min(recorded) <= float(mean) <= max(recorded)


def test_a_refusal_is_printed_and_not_passed_over(bed: Testbed, only_pyzmq: Path) -> None:
    """As by a fleet without a service `default`, such as the demo's."""
    program = adapted(
        ten_lines(),
        ("tcp://127.0.0.1:5700", bed.public("iad1")),
        ('"form"', '"service": "nope",\n    "form"'),
        ("raise SystemExit", "print"),
    )
    assert run_bare(program, only_pyzmq).startswith("no service nope here")


def test_a_series_by_hand_holds_what_was_recorded(bed: Testbed, only_pyzmq: Path) -> None:
    program = adapted(SERIES, ("tcp://127.0.0.1:5700", bed.public("iad2")))
    answer = json.loads(run_bare(program, only_pyzmq))
    assert (answer["type"], answer["id"], answer["status"]) == ("answer", "by hand", "complete")
    rooms = {node.area: node.room for node in SMALL.nodes}
    assert [result["area"] for result in answer["results"]] == sorted(rooms)
    for result in answer["results"]:
        rows, series = recording(rooms[result["area"]]), result["series"]
        assert series["values"].keys() == {"temperature", "humidity"}
        assert len(series["time_ms"]) > 9_000
        # 32-bit floats in seven digits: back in 32 bits, each is the recorded one.
        columns = [array("f", series["values"][name]) for name in ("temperature", "humidity")]
        got = zip(series["source_time_ms"], *columns, strict=True)
        assert [time for time, *values in got if tuple(values) != rows[time]] == []


def test_a_message_is_published_by_hand(bed: Testbed, only_pyzmq: Path) -> None:
    program = adapted(PUBLISH, ("tcp://127.0.0.1:5700", bed.public("iad2")))
    replies = [json.loads(line) for line in run_bare(program, only_pyzmq).splitlines()]
    for reply in replies:
        assert reply.pop("message", "") != ""  # nobody keeps such a topic here
    accepted = {"type": "published", "id": "4f1d2a90", "state": "accepted"}
    assert replies == [accepted | {"sequence": number} for number in (17, 17, 18, 18)]


def test_what_there_is_can_be_asked_of_any_master(bed: Testbed) -> None:
    with Client(bed.public("iad2")) as client:
        answer = client.about()
        some = client.about([FLOOR], service="default")
    assert (answer.status, answer.missing) == ("complete", ())
    assert [each.area for each in answer.results] == sorted(node.area for node in SMALL.nodes)
    for each in answer.results:
        assert each.about is not None
        assert {c.name: c.unit for c in each.about.channels} == {
            "temperature": "celsius",
            "humidity": "percent",
        }
        assert not each.about.down
    assert answer.services is not UNSET
    assert [service.name for service in answer.services] == ["default"]
    assert {each.area for each in some.results} == {
        node.area for node in SMALL.nodes if node.area.startswith(f"{FLOOR}/")
    }


def test_buckets_of_a_node_are_those_of_its_series(bed: Testbed) -> None:
    with Client(bed.public("iad2")) as client:
        options = {"latency_ms": 30_000.0, "channels": ["temperature"]}
        [made] = client.query(
            [NODE.area], last_s=10_000, form="buckets", buckets=50, **options
        ).results
        [series] = client.query([NODE.area], last_s=12_000, **options).results
        [whole] = client.query([NODE.area], last_s=10_000, form="aggregate", **options).results
    buckets = made.buckets
    assert (buckets.length_ms, buckets.start_ms % 200_000) == (200_000, 0)
    assert len(buckets) in (50, 51)
    # Those in between: the window's ends have moved meanwhile.
    pairs = list(
        zip(
            series.series.time_ms.numbers(),
            series.series.values["temperature"].numbers(),
            strict=True,
        )
    )
    for number in range(1, 49):
        start_ms = buckets.start_ms + number * 200_000
        values = [value for time_ms, value in pairs if start_ms <= time_ms < start_ms + 200_000]
        found = buckets.channels["temperature"]
        assert found.count.numbers()[number] == len(values) > 0
        assert found.min.numbers()[number] == min(values)
        assert found.max.numbers()[number] == max(values)
    last = whole.aggregate.channels["temperature"]
    assert last.last_ms == whole.aggregate.last_ms
    assert dict(pairs).get(last.last_ms, last.last) == last.last
