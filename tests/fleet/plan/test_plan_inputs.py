"""What `fleet plan` reads: pools, classes, records; and the distributions made from them."""

import itertools
import math
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from agent.wire.config import ConfigError
from agent.wire.emulation import PROFILES, HardwareProfile
from agent.wire.records import QueryRecord, SubtaskRecord, TaskRecord
from fleet.plan.classes import LoadClass, read_classes
from fleet.plan.fleet import places, pods_of, read_fleet, with_named_nodes
from fleet.plan.records import NOTHING, Measured, read_measured
from fleet.plan.times import (
    COMMUNICATION_S,
    LEAST_SAMPLES,
    assumed_times,
    measured_times,
    node_times,
)
from fleet.simulation.layout import building_fleet

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "plan"
BUILDING = building_fleet()


# --- the fleet ------------------------------------------------------------------------------------


def test_a_pool_has_a_node_for_each_area() -> None:
    plan, most = read_fleet(EXAMPLE / "master.toml", "pi4")
    assert [(iad.name, len(iad.nodes)) for iad in plan.iads] == [
        ("greenhouses", 4),
        ("orchard", 6),
        ("barns", 2),
    ]
    assert places(plan)[4] == ("orchard", "farm/orchard/north")
    assert {node.profile for node in plan.nodes} == {"pi4"}
    assert most == 4


def test_areas_of_two_iads_are_told_apart(tmp_path: Path) -> None:
    text = (
        (EXAMPLE / "master.toml").read_text("utf-8").replace("farm/barn/hay", "farm/orchard/hill")
    )
    (tmp_path / "master.toml").write_text(text)
    plan, _ = read_fleet(tmp_path / "master.toml", "pi4")
    names = [name for _, name in places(plan)]
    assert names[8] == "orchard:farm/orchard/hill"
    assert names[11] == "barns:farm/orchard/hill"


def test_an_area_that_a_pool_names_twice_is_one_node(tmp_path: Path) -> None:
    text = (EXAMPLE / "master.toml").read_text("utf-8").replace("farm/barn/hay", "farm/barn/cows")
    (tmp_path / "master.toml").write_text(text)
    plan, _ = read_fleet(tmp_path / "master.toml", "pi4")
    assert places(plan)[10:] == [("barns", "farm/barn/cows")]


def test_without_a_pool_there_is_nothing_to_plan() -> None:
    csp = EXAMPLE.parent / "market" / "csp.toml"
    with pytest.raises(ConfigError, match=r"csp\.toml: no \[\[pool\]\].*shipped building"):
        read_fleet(csp, "pi4")


def test_records_name_nodes() -> None:
    plan = with_named_nodes(BUILDING, {"iad2": ["a", "b"], "iad1": ["iad1-n1"], "else": ["x"]})
    assert [len(iad.nodes) for iad in plan.iads] == [8, 2, 8, 8]
    assert plan.iads[0] == BUILDING.iads[0]
    assert [node.name for node in plan.iads[1].nodes] == ["a", "b"]


def test_pods_of_all_of_an_iad_and_of_a_node() -> None:
    pods = pods_of(BUILDING, ["2", "iad4=3", "iad4-n1=5"], 8)
    assert pods == (2,) * 24 + (5,) + (3,) * 7


@pytest.mark.parametrize("text", ["0", "9", "two", "iad4=", "=2", "iad4=0", "-1", "iad9=2"])
def test_wrong_pods_are_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^--pods {text}: "):
        pods_of(BUILDING, [text], 8)


# --- classes --------------------------------------------------------------------------------------


def test_table_ii_unless_there_is_a_file() -> None:
    assert read_classes(None, BUILDING) == (
        LoadClass("1.1", 0.1, 1, 1, 0.5),
        LoadClass("1.2", 0.4, 1, 1, 0.5, iad=3),
        LoadClass("2", 0.4, 4, 1, 0.8),
        LoadClass("3", 0.1, 4, 8, 1.2),
    )
    small, _ = read_fleet(EXAMPLE.parent / "master.toml", "pi4")
    assert [kind.iads for kind in read_classes(None, small)] == [1, 1, 1, 1]


def test_a_file_of_classes() -> None:
    plan, _ = read_fleet(EXAMPLE / "master.toml", "pi4")
    assert read_classes(EXAMPLE / "classes.toml", plan) == (
        LoadClass("frost alarm", 0.5, 1, 1, 0.9, 99.9, iad=0),
        LoadClass("dashboard", 0.4, 2, 2, 0.8),
        LoadClass("survey", 0.1, 3, None, 1.0, 95.0),
    )


GOOD = {"name": '"a"', "share": "1.0", "slo_ms": "500"}


def classes_file(folder: Path, *tables: dict[str, str]) -> Path:
    path = folder / "classes.toml"
    lines = (["[[class]]", *(f"{k} = {v}" for k, v in table.items())] for table in tables)
    path.write_text("\n".join(itertools.chain.from_iterable(lines)))
    return path


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        (
            [GOOD | {"fanout": "3"}],
            r"class a \(first \[\[class\]\]\): unknown key fanout; known: name",
        ),
        ([GOOD | {"percentil": "9"}], "unknown key percentil; did you mean percentile"),
        (
            [GOOD | {"nodes": '"many"'}],
            "nodes must be (a whole number or all|all or a whole number), not 'many'",
        ),
        ([GOOD | {"nodes": "0"}], "nodes must be at least 1"),
        ([GOOD | {"percentile": "100"}], "percentile must be at most 99.9999"),
        ([GOOD | {"slo_ms": "0"}], "slo_ms must be at least 0.01"),
        ([GOOD | {"share": "0.5"}], "the shares of the classes add up to 0.5, not to 1"),
        ([GOOD | {"share": "0.5"}] * 2, "more than one class is named a"),
        ([GOOD | {"iads": "9"}], "class a asks 9 IADs of a fleet of 4"),
        ([GOOD | {"iad": '"x"'}], "class a: the fleet has no IAD x; it has iad1, iad2"),
        ([GOOD | {"iad": '"iad1"', "iads": "2"}], "class a: iad names the only IAD"),
        (
            [GOOD | {"name": '"a\\u001b[31m"'}],
            r"the first \[\[class\]\]: name must be 1–32 printable characters",
        ),
        ([], r"\[\[class\]\] is missing"),
    ],
)
def test_a_wrong_class_is_one_line(tmp_path: Path, tables: list[dict[str, str]], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        read_classes(classes_file(tmp_path, *tables), BUILDING)
    assert "\n" not in str(raised.value)


# --- records --------------------------------------------------------------------------------------


def records_of_a_task(number: int, results_ms: list[float], **subtask: Any) -> list[object]:
    """A query at iad1, its task at iad2 and a subtask for each of the nodes n1, n2 …"""
    common: dict[str, Any] = {"wall_ms": 0, "start_s": 0.0, "label": ""}
    task = f"t{number}"
    last_ms = max(results_ms)
    made: list[object] = [
        SubtaskRecord(
            **(
                common
                | {"iad": "iad2", "task": task, "policy": "edfq", "window_s": 60.0}
                | {"enqueued_ms": 2.0, "deadline_ms": 100.0, "node": f"n{n + 1}"}
                | {"dispatched_ms": 10.0, "result_ms": result_ms, "node_wait_ms": 0.0}
                | {"execution_ms": 1.0, "missed_deadline": False, "dispatches": 1}
                | {"outcome": "ok"}
                | subtask
            )
        )
        for n, result_ms in enumerate(results_ms)
    ]
    made.append(
        TaskRecord(
            **common,
            iad="iad2",
            task=task,
            service="default",
            policy="edfq",
            percentile=99.0,
            budget_ms=500.0,
            fanout=len(results_ms),
            unloaded_ms=1.0,
            queueing_budget_ms=1.0,
            status="complete",
            reason=None,
            answered=1,
            asked=1,
            evaluated_ms=2.0,
            aggregated_ms=last_ms + 3.0,
        )
    )
    made.append(
        QueryRecord(
            **common,
            iad="iad1",
            query=f"q{number}",
            service="default",
            areas=("b1",),
            percentile=99.0,
            slo_ms=500.0,
            status="complete",
            reason=None,
            slo_met=True,
            answered=1,
            asked=1,
            tasks=(task,),
            task_percentile=99.0,
            evaluated_ms=1.0,
            aggregated_ms=1.0 + last_ms + 3.0 + 8.0,
        )
    )
    return made


def written(folder: Path, records: list[object], more: bytes = b"") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    (folder / "current.jsonl").write_bytes(text + more)
    return folder


def test_records_give_times_and_overheads(tmp_path: Path) -> None:
    several = [records_of_a_task(i, [50.0 + i, 30.0]) for i in range(40)]
    broken = [
        records_of_a_task(100, [9_000.0], dispatches=2)[0],
        records_of_a_task(101, [9_000.0], outcome="cancelled")[0],
        records_of_a_task(102, [9_000.0], dispatched_ms=None)[0],
    ]
    records = [*itertools.chain.from_iterable(several), *broken]
    written(tmp_path / "iad2" / "records", records, b'{"record":"sub')
    (tmp_path / "trace.jsonl").write_text("no records\n")
    measured = read_measured([tmp_path])
    assert measured.unloaded_s == {
        ("iad2", "n1"): pytest.approx([(40.0 + i) / 1e3 for i in range(40)]),
        ("iad2", "n2"): pytest.approx([0.020] * 40),
    }
    assert measured.unreadable == 1
    assert measured.overheads is not None
    # Evaluated in 1 and 2 ms, 8 ms on the way there and back, aggregated in 3 ms.
    assert measured.overheads.before_s == pytest.approx((1.0 + 2.0 + 4.0) / 1e3)
    assert measured.overheads.after_s == pytest.approx((3.0 + 4.0) / 1e3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"result_ms": 9.0},
        {"dispatched_ms": -1.0},
        {"result_ms": 1e12},
        {"node": "\x1b[31mn1"},
        {"iad": "[/x]"},
    ],
)
def test_subtasks_that_no_master_writes_are_left_out(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    [record, *_] = records_of_a_task(1, [50.0], **wrong)
    measured = read_measured([written(tmp_path, [record])])
    assert (measured.unloaded_s, measured.unreadable) == ({}, 1)


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    _, task, query = records_of_a_task(1, [50.0])
    damaged = [
        msgspec.structs.replace(task, evaluated_ms=-5.0),
        msgspec.structs.replace(query, aggregated_ms=1e300),
    ]
    deep = b'{"record":"task","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    measured = read_measured([written(tmp_path, damaged, deep + b"\xff\n")])
    assert measured.unreadable == 4


def test_few_records_say_nothing_about_overheads(tmp_path: Path) -> None:
    folder = written(tmp_path, records_of_a_task(1, [50.0]))
    assert read_measured([folder]).overheads is None


def test_a_folder_without_records_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no records: neither current"):
        read_measured([tmp_path])


def test_nodes_are_named_in_order() -> None:
    measured = Measured({("b", "n10"): [], ("a", "x"): [], ("b", "n9"): []}, None, 0)
    assert measured.names() == {"a": ["x"], "b": ["n9", "n10"]}


# --- distributions --------------------------------------------------------------------------------


def test_measured_times_are_the_samples_and_an_exponential_tail() -> None:
    draw = random.Random(1)
    samples = [draw.expovariate(10.0) for _ in range(20_000)]
    times = measured_times(samples)
    assert len(times.quantiles_s) == 10_000
    assert times.tail_s == pytest.approx(0.1, rel=0.05)
    assert times.mean_s == pytest.approx(0.1, rel=0.03)
    shares = np.array([0.2, 0.5, 0.9, 0.99])
    assert times.at(shares) == pytest.approx(-0.1 * np.log(1 - shares), rel=0.05)


def test_beyond_the_samples_is_the_tail_and_below_them_half() -> None:
    times = measured_times([1.0, 2.0, 3.0])
    # Four equally likely parts; the 90th percentile is 2.8, and the only excess over it 0.2.
    assert times.tail_s == pytest.approx(0.2)
    at = times.at(np.array([0.125, 0.25, 0.5, 0.625, 0.75, 0.875]))
    assert at == pytest.approx([0.75, 1.0, 2.0, 2.5, 3.0, 3.0 + 0.2 * math.log(2)])


def test_a_pod_takes_some_time() -> None:
    assert measured_times([0.0] * 200).mean_s > 0.0


def test_equal_samples_have_no_tail() -> None:
    assert measured_times([0.02] * 200).tail_s == 0.0


def test_assumed_times_are_lognormal() -> None:
    times = assumed_times(HardwareProfile(0.09, 0.66))
    pod_s = times.window_s(10_000) - COMMUNICATION_S
    assert pod_s.mean() == pytest.approx(0.09, rel=0.005)
    assert np.log(pod_s).std() == pytest.approx(0.66, rel=0.01)
    assert 0.0 < times.tail_s < 0.5


def test_own_samples_before_the_pool_before_the_profile() -> None:
    many, few = [0.1] * LEAST_SAMPLES, [0.3] * (LEAST_SAMPLES - 1)
    measured = Measured({("iad1", "iad1-n1"): many, ("iad1", "iad1-n2"): few}, None, 0)
    times = node_times(BUILDING, measured, PROFILES)
    assert (times.measured, times.pooled, times.assumed) == (
        1,
        7,
        {"pi4-powersave": 16, "pi3": 4, "pi3-boxed": 4},
    )
    means = [times.kinds[kind].mean_s for kind in times.kind]
    assert means[0] == pytest.approx(0.1, rel=0.01)
    assert means[1:8] == [pytest.approx((sum(many) + sum(few)) / 199, rel=0.02)] * 7
    assert node_times(BUILDING, NOTHING, PROFILES).assumed["pi4"] == 8
