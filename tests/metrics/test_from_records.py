"""What is counted from records, beside a plain count, however the records come in batches."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.metrics import master_families as f
from agent.metrics.from_records import MAX_LABELS, FromRecords
from agent.wire.records import NodeEventRecord, QueryRecord, SubtaskRecord, TaskRecord


def query(label="1.1", status="complete", **fields):
    values = {
        "iad": "iad1", "wall_ms": 0, "start_s": 0.0, "query": "q", "service": "default",
        "label": label, "areas": ("b1",), "percentile": 99.0, "slo_ms": 500.0, "status": status,
        "reason": None, "slo_met": True, "answered": 1, "asked": 1, "tasks": (),
        "task_percentile": 99.0, "evaluated_ms": 2.0, "aggregated_ms": 300.0,
    }  # fmt: skip
    return QueryRecord(**values | fields)


def task(label="1.1", status="complete", **fields):
    values = {
        "iad": "iad1", "wall_ms": 0, "start_s": 0.0, "task": "t", "service": "default",
        "label": label, "policy": "edfq", "percentile": 99.0, "budget_ms": 500.0, "fanout": 1,
        "unloaded_ms": 100.0, "queueing_budget_ms": 400.0, "status": status, "reason": None,
        "answered": 1, "asked": 1, "evaluated_ms": 1.0, "aggregated_ms": 250.0,
    }  # fmt: skip
    return TaskRecord(**values | fields)


def subtask(label="1.1", outcome="ok", **fields):
    values = {
        "iad": "iad1", "wall_ms": 0, "start_s": 0.0, "task": "t", "label": label,
        "policy": "edfq", "window_s": 60.0, "enqueued_ms": 1.0, "deadline_ms": 400.0, "node": "n1",
        "dispatched_ms": 41.0, "result_ms": 241.0, "node_wait_ms": 10.0, "execution_ms": 150.0,
        "missed_deadline": False, "dispatches": 1, "outcome": outcome,
    }  # fmt: skip
    return SubtaskRecord(**values | fields)


def counted(*records):
    counts = FromRecords()
    counts.add(records)
    return {samples.family: samples for samples in counts.samples()}


def seconds(samples):
    """Sum of seconds by the labels of a histogram."""
    return {labels: d.total for labels, d in samples.distributions.items()}


def test_each_stage_of_a_query():
    shown = counted(subtask(), query(), task())
    stages = seconds(shown[f.STAGE_DURATION])
    assert stages == {
        ("1.1", "query_evaluation"): pytest.approx(0.002),
        ("1.1", "task_evaluation"): pytest.approx(0.001),
        ("1.1", "queueing"): pytest.approx(0.040),
        ("1.1", "communication"): pytest.approx(0.040),
        ("1.1", "node_wait"): pytest.approx(0.010),
        ("1.1", "execution"): pytest.approx(0.150),
        ("1.1", "aggregation"): pytest.approx(0.009),
    }
    # Stages do not overlap: but for the query's own, they are the whole task.
    assert sum(stages.values()) - 0.002 == pytest.approx(0.250)
    assert seconds(shown[f.UNLOADED_RESPONSE]) == {("1.1",): pytest.approx(0.200)}
    assert seconds(shown[f.TASK_DURATION]) == {("1.1", "complete"): pytest.approx(0.25)}
    assert seconds(shown[f.QUERY_DURATION]) == {("default", "1.1", "complete"): pytest.approx(0.3)}


def test_what_a_node_says_of_its_time_is_never_negative():
    shown = counted(
        subtask(node_wait_ms=-5.0, execution_ms=1e9), subtask(node_wait_ms=1e9, execution_ms=-1.0)
    )
    assert all(total >= 0 for total in seconds(shown[f.STAGE_DURATION]).values())


def test_a_task_that_did_not_end_with_a_result_has_no_aggregation():
    lost = subtask(outcome="timeout", result_ms=None, node_wait_ms=None, execution_ms=None)
    for last in (lost, subtask(task="another")):
        shown = counted(subtask(), last, task())
        assert ("1.1", "aggregation") not in shown[f.STAGE_DURATION].distributions


def test_refusals_count_by_plane_and_reason_and_have_no_duration():
    shown = counted(
        query(status="refused", reason="over_rate", slo_met=False, evaluated_ms=None),
        query(status="refused", reason="infeasible", slo_met=False),
        task(status="refused", reason="infeasible"),
        task(status="refused", reason="overloaded", fanout=0),
    )
    refusals = {labels: n for labels, n in shown[f.REFUSALS].values.items() if n}
    assert refusals == {
        ("query", "over_rate"): 1,
        ("query", "infeasible"): 1,
        ("task", "infeasible"): 1,
        ("task", "overloaded"): 1,
    }
    assert len(shown[f.REFUSALS].values) == 12  # the others are there, as zeros
    assert not shown[f.QUERY_DURATION].distributions
    assert not shown[f.TASK_DURATION].distributions
    assert not shown[f.SLO_MISSES].values
    counts = {k: sum(d.counts) for k, d in shown[f.STAGE_DURATION].distributions.items()}
    assert counts == {("1.1", "query_evaluation"): 1, ("1.1", "task_evaluation"): 1}


def test_slo_misses_count_late_and_partial_answers_apart():
    shown = counted(query(), query(slo_met=False), query(status="partial", slo_met=False))
    assert shown[f.SLO_MISSES].values == {
        ("default", "1.1", "complete"): 1,
        ("default", "1.1", "partial"): 1,
    }


def test_clients_cannot_make_series_up():
    strangers = [
        query(label=f"x{n}", service=f"s{n}", status="refused", reason="unknown_service")
        for n in range(1_000)
    ]
    clients = [query(label=f"class {n}") for n in range(MAX_LABELS + 10)]
    shown = counted(*strangers, *clients)
    labels = {label for _, label, _ in shown[f.QUERIES].values}
    assert labels == {*(f"class {n}" for n in range(MAX_LABELS)), "other"}
    assert {service for service, _, _ in shown[f.QUERIES].values} == {"default", "other"}
    assert sum(shown[f.QUERIES].values.values()) == len(strangers) + len(clients)


def test_events_of_nodes_count_by_kind():
    kinds = ["fault_began", "fault_began", "clock_corrected"]
    events = [
        NodeEventRecord("iad1", 0, 0.0, "n1", "h", number, kind, 0, True, "", "", "")
        for number, kind in enumerate(kinds)
    ]
    assert counted(*events)[f.NODE_EVENTS].values == {("fault_began",): 2, ("clock_corrected",): 1}


LABELS = st.sampled_from(["", "1.1", "2"])
RECORDS = st.lists(
    st.builds(
        query,
        LABELS,
        st.sampled_from(["complete", "partial", "refused"]),
        slo_met=st.booleans(),
        aggregated_ms=st.floats(0, 5e3),
    )
    | st.builds(task, LABELS, st.sampled_from(["complete", "partial", "refused", "cancelled"]))
    | st.builds(
        subtask,
        LABELS,
        st.sampled_from(["ok", "no_data", "timeout", "cancelled"]),
        missed_deadline=st.booleans(),
        dispatched_ms=st.none() | st.floats(1.0, 200.0),
        result_ms=st.none() | st.floats(200.0, 900.0),
    )
)


@given(RECORDS, st.integers(1, 5))
def test_batches_do_not_matter_and_nothing_is_lost(records, size):
    whole = counted(*records)
    parts = FromRecords()
    for start in range(0, len(records), size):
        parts.add(records[start : start + size])
    for samples in parts.samples():
        once = whole[samples.family]
        assert samples.values == once.values
        assert {k: d.counts for k, d in samples.distributions.items()} == {
            k: d.counts for k, d in once.distributions.items()
        }
    subtasks = [r for r in records if isinstance(r, SubtaskRecord)]
    assert whole[f.SUBTASKS].values == Counter((r.label or "none", r.outcome) for r in subtasks)
    assert sum(whole[f.DEADLINE_MISSES].values.values()) == sum(r.missed_deadline for r in subtasks)
    queueing = [r for r in subtasks if r.dispatched_ms is not None]
    stages = whole[f.STAGE_DURATION].distributions
    assert sum(sum(d.counts) for (_, s), d in stages.items() if s == "queueing") == len(queueing)
