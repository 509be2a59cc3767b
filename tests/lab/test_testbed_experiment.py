"""The testbed sweep from trace to table: virtual time, the simulator, records, a short real run."""

from __future__ import annotations

import csv
import inspect
import math
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from msgspec.structs import replace

from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.wire.base import MAX_TIMEOUT_MS, Policy
from agent.wire.records import NodeEventRecord, QueryRecord, SubtaskRecord, TaskRecord
from fleet.cli.commands import run as fleet
from fleet.simulation.layout import FleetLayout, IadLayout, NodeLayout, building_fleet
from fleet.simulation.virtual import TESTBED_DELAYS, VirtualFleet, emulated
from fleet.simulation.workload import TABLE_II, Arrival
from lab.provenance import Provenance
from lab.testbed import run as testbed_run
from lab.testbed import trace as testbed_trace
from lab.testbed.analysis import Analysis, Experiment, PolicyRuns
from lab.testbed.loads import Again, Load, Turn, perform_again
from lab.testbed.measures import CLASSES, Interval, Pair, run_of
from lab.testbed.options import Asked, options_of, sized
from lab.testbed.results import table_gains, table_iii, table_iv, write
from lab.testbed.steps import steps_of
from lab.testbed.trace import Drawn, Shape, drawn, known
from lab.testbed.virtual import Effort, Job, perform
from tests.lab.testbed_runs import PLAN, RATES, made


def test_the_same_queries_again_in_virtual_time() -> None:
    loads = Load("edfq", 9.0, 1_000, 20.0), Load("edfq", 12.0, 1_001, 20.0)
    turn = Turn("edfq", Load("edfq", 9.0, 1_999, 10.0), loads)
    made = perform_again(Again(PLAN, turn, warm_samples=200))
    assert [run.rate_per_s for run in made] == [9.0, 12.0]
    for load, run in zip(loads, made, strict=True):
        trace = load.trace(PLAN)
        counted = [a for a in trace if a.number >= load.first(trace)]
        assert [CLASSES[k] for k in run.kinds] == [a.kind.partition(".")[0] for a in counted]
    # Under FIFO nothing of a run depends on what came before it.
    turn = Turn("fifo", Load("fifo", 9.0, 1_999, 10.0), (replace(loads[1], policy="fifo"),))
    [after] = perform_again(Again(PLAN, turn, warm_samples=0))
    alone = VirtualFleet(PLAN, "fifo", warm_samples=0).run(trace := loads[1].trace(PLAN))
    expected = run_of("virtual", "fifo", 12.0, alone, first=loads[1].first(trace))
    assert list(after.latencies_ms) == pytest.approx(list(expected.latencies_ms))


def test_the_command_repeats_the_run() -> None:
    asked = Asked(policies=("edfq", "fifo"), rates_per_s=(13.0,), seconds=9, quick=True, seed=3)
    options = options_of(asked)
    assert options.policies == ("fifo", "edfq")
    assert options.command == (
        "fleet lab testbed --policy edfq --policy fifo --rate 13 --quick --seconds 9 --seed 3"
    )
    assert options_of(Asked()).command == "fleet lab testbed --seed 1"
    grown = options_of(Asked(sized=True))
    assert grown.command == "fleet lab testbed --sized --seed 1"
    assert grown.name == "testbed-sized"
    assert {node.profile for node in grown.plan.nodes} == {
        f"{node.profile}-sized" for node in options.plan.nodes
    }


# --- the simulator --------------------------------------------------------------------------------


def asked(plan: FleetLayout, load: Drawn) -> list[Arrival]:
    """What the simulator is given, as queries to be asked one after the other."""
    trace = load.trace
    nodes = iter(load.subtask_node)
    areas: dict[int, list[str]] = {}
    for query, size in zip(trace["task_query"], trace["task_size"], strict=True):
        chosen = [plan.nodes[next(nodes)].area for _ in range(size)]
        areas.setdefault(int(query), []).extend(chosen)
    return [
        Arrival(
            number=number,
            at_s=float(trace["query_arrived_s"][number]),
            scheduler=plan.iads[trace["query_scheduler"][number]].name,
            kind=TABLE_II[kind].name,
            areas=tuple(areas[number]),
            last_s=float(trace["task_window_s"][np.searchsorted(trace["task_query"], number)]),
            ago_s=0.0,
            slo_ms=TABLE_II[kind].slo_ms,
            emulation_seed=number,
        )
        for number, kind in enumerate(load.table_ii)
    ]


@pytest.mark.parametrize("policy", get_args(Policy))
def test_the_simulator_does_what_the_schedulers_do(policy: Policy) -> None:
    """The whole Table II on sized nodes, every latency."""
    plan = sized(building_fleet())
    job = Job(plan, policy, 21.0, seed=4, queries=2_000, warm_samples=0)
    load = drawn(plan, rate_per_s=job.rate_per_s, seed=job.seed, queries=job.queries)
    queries = asked(plan, load)
    service_s = {
        (area, query.number): seconds
        for (query, area), seconds in zip(
            ((query, area) for query in queries for area in query.areas),
            load.service_s,
            strict=True,
        )
    }
    # Queries arrive where they are received; communication is in the service times.
    fleet = VirtualFleet(
        plan,
        policy,
        service=lambda node, seed, _window_s: service_s[node.area, seed or 0],
        delays=replace(TESTBED_DELAYS, query_evaluation_s=0.0, communication_s=0.0),
        warm_samples=0,
    )
    for plane in fleet._queries.values():
        plane.scheduler._timeout_factor = MAX_TIMEOUT_MS  # the simulator knows no timeouts
    outcomes = fleet.run(queries)
    expected = run_of("virtual", policy, 21.0, outcomes, first=job.first)
    run = perform(job)
    assert list(run.kinds) == list(expected.kinds)
    evaluation_ms = TESTBED_DELAYS.query_evaluation_s * 1e3
    assert list(run.latencies_ms - evaluation_ms) == pytest.approx(
        list(expected.latencies_ms), abs=1e-6
    )


def test_queries_before_the_first_one_counted_are_run_and_left_out() -> None:
    job = Job(PLAN, "edfq", 5.0, 1, 60, warm_samples=10)
    assert len(perform(job).kinds) == 40


def test_a_trace_is_table_ii_at_any_rate() -> None:
    plan = building_fleet()
    slow, fast = (drawn(plan, rate_per_s=rate, seed=1, queries=20_000) for rate in (10.0, 20.0))
    arrived_s = slow.trace["query_arrived_s"] - TESTBED_DELAYS.query_evaluation_s
    assert arrived_s[-1] == pytest.approx(2_000, rel=0.03)
    assert list(arrived_s) == pytest.approx(
        list(2 * (fast.trace["query_arrived_s"] - TESTBED_DELAYS.query_evaluation_s))
    )
    for name in ("task_query", "task_set", "task_size", "query_scheduler", "task_window_s"):
        assert list(slow.trace[name]) == list(fast.trace[name])
    assert list(slow.service_s) == list(fast.service_s)
    shares = np.bincount(slow.table_ii) / 20_000
    assert shares == pytest.approx([kind.share for kind in TABLE_II], abs=0.01)
    for query in asked(plan, slow)[:500]:
        [kind] = [kind for kind in TABLE_II if kind.name == query.kind]
        nodes = {area: iad.name for iad in plan.iads for area in iad.areas}
        by_iad = Counter(nodes[area] for area in query.areas)
        assert len(set(query.areas)) == len(query.areas) == kind.iads * kind.nodes
        assert set(by_iad.values()) == {kind.nodes}
        assert not kind.hot_spot or set(by_iad) == {plan.iads[-1].name}
    single = slow.subtask_node[np.repeat(slow.trace["task_size"] == 1, slow.trace["task_size"])]
    assert np.bincount(single).min() > 0


@pytest.mark.parametrize("profile", ["pi3", "pi3-sized"])
def test_service_times_are_those_that_the_nodes_draw(profile: str) -> None:
    """Mean and tail, within what so many draws scatter."""
    node = NodeLayout("n", "a", "413", profile)
    plan = FleetLayout((IadLayout("iad1", (node,)),))
    n = 40_000
    load = drawn(plan, rate_per_s=1.0, seed=2, queries=n)
    window_s = load.trace["task_window_s"]
    nodes_s = np.array([emulated(node, seed, window_s[seed]) for seed in range(n)])
    ours_s = load.service_s - TESTBED_DELAYS.communication_s
    for share in (0.1, 0.5, 0.9, 0.99):
        assert np.quantile(ours_s, share) == pytest.approx(np.quantile(nodes_s, share), rel=0.04)
    assert np.mean(ours_s) == pytest.approx(np.mean(nodes_s), rel=0.02)
    slope = np.polyfit(window_s, ours_s, 1)[0], np.polyfit(window_s, nodes_s, 1)[0]
    assert slope[0] == pytest.approx(slope[1], abs=2e-7)


@pytest.mark.parametrize("shape", [Shape("lognormal", 0.5), Shape("gamma", 2.0)])
def test_a_shape_has_mean_one(shape: Shape) -> None:
    noise = shape.noise(np.random.default_rng(1), 100_000)
    spread = math.sqrt(math.expm1(0.25)) if shape.family == "lognormal" else 0.5**0.5
    assert np.mean(noise) == pytest.approx(1, abs=0.01)
    assert np.std(noise) == pytest.approx(spread, rel=0.02)


def test_what_is_known_before_the_first_query() -> None:
    models, sizes = known(sized(building_fleet()), 500, seed=1)
    assert [model.node_count(7) for model in models] == [500] * 4
    short, long = sizes[3].expected(0, 60.0), sizes[3].expected(0, 10_000.0)
    assert long > 3 * short
    ours = inspect.signature(DeadlineEstimator).parameters
    assert ours["window_samples"].default == testbed_trace.WINDOW_SAMPLES
    assert ours["window_s"].default == testbed_trace.WINDOW_S
    assert ours["cold_start_s"].default == testbed_trace.COLD_START_S


# --- tables ---------------------------------------------------------------------------------------


def query_record(iad: str, start_s: float, tasks: tuple[str, ...], ended_ms: float) -> QueryRecord:
    return QueryRecord(
        iad, 0, start_s, "q", "default", "edfq@15.6 2", (), 99.0, 800.0, "complete", None, True,
        1, 1, tasks, 99.0, 2.0, ended_ms,
    )  # fmt: skip


def task_record(iad: str, name: str, start_s: float, ended_ms: float) -> TaskRecord:
    return TaskRecord(
        iad, 0, start_s, name, "default", "edfq@15.6 2", "edfq", 99.0, 800.0, 1, 200.0, 600.0,
        "complete", None, 1, 1, 1.0, ended_ms,
    )  # fmt: skip


def subtask_record(task: str, sent_ms: float, back_ms: float, label: str) -> SubtaskRecord:
    return SubtaskRecord(
        "iad4", 0, 0.0, task, label, "edfq", 60.0, 1.5, 600.0, "n", sent_ms, back_ms, 1.0, 90.0,
        False, 1, "ok",
    )  # fmt: skip


def test_table_iii_from_records_by_hand() -> None:
    label = "edfq@15.6 2"
    records = {
        "iad1": [task_record("iad1", "t1", 10.000, 80.0), query_record("iad1", 9.0, ("t1",), 1.0)],
        "iad4": [
            query_record("iad4", 9.990, ("t1", "t4"), 150.0),
            task_record("iad4", "t4", 10.005, 130.0),
            subtask_record("t4", 11.5, 111.5, label),
            subtask_record("t4", 21.5, 129.5, label),
            subtask_record("t9", 900.0, 999.0, "fifo@15.6 2"),
            NodeEventRecord("iad4", 0, 0.0, "n", "h", 1, "fault_began", 0, True, "", "", ""),
        ],
    }
    steps = steps_of(records, "iad4", "edfq@15.6")
    assert steps.subtasks == 2
    assert steps.queueing_ms == pytest.approx(15.0)
    assert steps.unloaded_ms == pytest.approx(104.0)
    assert (steps.execution_ms, steps.communication_ms) == pytest.approx((90.0, 13.0))
    assert (steps.query_evaluation_ms, steps.task_evaluation_ms) == (2.0, 1.0)
    assert steps.task_aggregation_ms == pytest.approx(0.5)
    # The later task ends 10.135 s, the query 10.140 s.
    assert steps.query_aggregation_ms == pytest.approx(5.0)
    rows = {row[0]: row[1:] for row in table_iii(steps).rows}
    assert rows["(3) queueing"] == ("15.00 ms", "41.88 ms")
    assert math.isnan(steps_of({}, "iad4", "edfq@15.6").queueing_ms)


def experiment_of(*highest: tuple[Policy, float]) -> Experiment:
    policies = []
    for policy, rate in highest:
        curve = [made(policy, r, math.exp(0.05 * (r - rate)), n=6_000) for r in RATES]
        virtual = made(policy, 12.0, math.exp(0.05 * (12.0 - rate)), n=900, seed=2)
        pairs = [Pair(virtual._replace(source="real"), virtual)]
        policies.append(PolicyRuns(policy, curve, pairs))
    origin = Provenance("fleet lab testbed", 0.5, "2026-01-01")
    return Experiment(origin, "testbed", 60.0, 30.0, 1, Effort(9_000, 1, 1, 1), policies, None)


def test_a_policy_without_real_runs_has_its_virtual_row_only() -> None:
    experiment = experiment_of(("fifo", 10.0), ("edfq", 13.6))
    fifo, edfq = experiment.policies
    analysis = Analysis(experiment._replace(policies=[fifo._replace(pairs=[]), edfq]))
    assert [row[:2] for row in table_iv(analysis).rows][:2] == [
        ("FIFO", "virtual"),
        ("FIFO", "paper"),
    ]
    [row] = table_gains(analysis).rows
    assert row[1:3] == ("–", "–")
    assert re.match(r"\+\d+ \(", row[3])
    asked = Asked(policies=("fifo",), real=("edfq",), sized=True)
    assert options_of(asked).policies == ("fifo", "edfq")
    assert options_of(asked).real == ("edfq",)
    assert options_of(Asked(real=("edfq",))).policies == get_args(Policy)
    assert options_of(asked).command == (
        "fleet lab testbed --policy fifo --real edfq --sized --seed 1"
    )


def test_tables_files_and_picture_of_an_experiment(tmp_path: Path) -> None:
    experiment = experiment_of(("fifo", 10.0), ("edfq", 13.6))
    analysis = Analysis(experiment)
    rows = list(table_iv(analysis).rows)
    assert [row[:2] for row in rows[3::4]] == [("FIFO", "paper"), ("EDFQ", "paper")]
    assert rows[3][2:] == ("12.2", "17.8", "20", "13.23")
    assert rows[2][1] == "virtual"
    [row] = table_gains(analysis).rows
    assert row[0] == "EDFQ over FIFO"
    assert row[-1] == "+35.9"
    found = analysis.gain("edfq", "fifo", "virtual")
    assert isinstance(found, Interval)
    assert found.value == pytest.approx(36, abs=12)
    assert analysis.gain("edfq", "spr", "virtual") is None

    data, picture, page = write(experiment, analysis, tmp_path / "results")
    cells = list(csv.DictReader(data.read_text("utf-8").splitlines()))
    assert len(cells) == 2 * (len(RATES) + 2) * 3
    assert {row["source"] for row in cells} == {"real", "virtual", "virtual, same queries"}
    assert picture.read_text("utf-8").startswith("<?xml")
    text = page.read_text("utf-8")
    assert "| FIFO | paper | 12.2 | 17.8 | 20 | 13.23 |" in text
    assert "| command | `fleet lab testbed` |" in text
    again = tmp_path / "again.svg"
    again.write_bytes(picture.read_bytes())
    write(experiment, analysis, tmp_path / "results")
    assert picture.read_bytes() == again.read_bytes()


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_short_real_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = replace(
        options_of(Asked(policies=("fifo", "edfq"), rates_per_s=(15.6,), seconds=1, processes=1)),
        learning_s=0.5,
        plan=PLAN,
        directory=tmp_path / "run",
        results=tmp_path / "results",
        effort=Effort(150, 1, 1, 1, warm_samples=50),
    )
    assert testbed_run.run(options) == 0
    said = capsys.readouterr()
    assert said.err == ""
    for words in ("Table III", "Table IV", "EDFQ over FIFO", "virtual", "learning: FIFO at 15.6/s"):
        assert words in said.out
    rows = list(csv.DictReader((tmp_path / "results" / "testbed.csv").read_text().splitlines()))
    real = [row for row in rows if row["source"] == "real"]
    assert {(row["policy"], row["rate_per_s"]) for row in real} == {
        ("fifo", "15.6"),
        ("edfq", "15.6"),
    }
    same = [row for row in rows if row["source"] == "virtual, same queries"]
    assert [row["queries"] for row in same] == [row["queries"] for row in real]
    # The same service times: nothing of the real fleet is faster than half of its virtual twin.
    for row, twin in zip(real, same, strict=True):
        assert float(row["p99_ms"]) > 0.5 * float(twin["p99_ms"])
    page = (tmp_path / "results" / "testbed.md").read_text("utf-8")
    assert re.search(r"\(5\) subtask execution \| \d+\.\d\d ms \| 97\.64 ms", page)
    assert (tmp_path / "results" / "testbed.svg").exists()
    assert {path.name for path in (tmp_path / "run" / "runs").iterdir()} == {
        "fifo@15.6.jsonl",
        "edfq@15.6.jsonl",
    }


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("")
    assert fleet(["lab", "testbed", "--directory", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert fleet(["lab", "testbed", "--policy", "lifo"]) == 2
    assert "'lifo' is not a policy; write fifo, spr, tedfq, edfq" in capsys.readouterr().err
