"""Answers against their objectives, as the gateway saw them."""

import pytest
from msgspec.structs import replace

from agent.gateway.feed.deadlines import KEPT, MAX_KINDS, MAX_PARTS, Deadlines
from agent.wire.messages import Answer, Coverage, Missing, Slo, TaskReport

SLO = Slo(99.0, 500.0)


def answer(status, elapsed_ms):
    missing = (Missing("b1/f4/r413", "node_down"),) if status == "partial" else ()
    met = status == "complete" and elapsed_ms <= SLO.latency_ms
    reason = "infeasible" if status == "refused" else None
    return Answer("q", status, elapsed_ms, met, Coverage(1, 2), missing=missing, reason=reason)


@pytest.mark.parametrize(
    ("status", "elapsed_ms", "counted"),
    [
        ("complete", 400.0, (0, 0)),
        ("complete", 600.0, (1, 0)),
        ("partial", 400.0, (0, 1)),  # a node that is down makes nothing late
        ("partial", 600.0, (1, 0)),
        ("refused", 1.0, (1, 0)),
    ],
)
def test_what_is_late_and_what_only_lacks_areas(status, elapsed_ms, counted):
    deadlines = Deadlines()
    deadlines.took("console", "temperature", SLO, answer(status, elapsed_ms), 1_000)
    (kind,) = deadlines.kinds()
    assert (kind.late, kind.partial, kind.count) == (*counted, 1)


def test_an_area_that_nobody_knows_is_no_missing_one():
    deadlines = Deadlines()
    gaps = (Missing("b1/f99", "no_node", unknown=True),)
    given = replace(answer("partial", 400.0), missing=gaps)
    deadlines.took("http", "s", SLO, given, 1_000)
    deadlines.took("other", "s", SLO, replace(given, coverage=Coverage(0, 1)), 1_000)
    (kind,) = deadlines.kinds()
    [seen] = kind.answers
    assert (kind.label, kind.partial, kind.late, seen.slo_met) == ("http", 0, 0, True)
    assert (seen.coverage, seen.missing) == (Coverage(1, 1), {})


def test_labels_and_answers_are_bounded():
    deadlines = Deadlines()
    for number in range(MAX_KINDS + 5):
        for _ in range(2):
            deadlines.took(f"label{number}", "s", SLO, answer("complete", 1.0), number)
    for number in range(KEPT + 5):
        deadlines.took("last", "s", SLO, answer("complete", 1.0), number)
    kinds = deadlines.kinds()
    assert len(kinds) == MAX_KINDS
    (last,) = [kind for kind in kinds if kind.label == "last"]
    assert (last.count, len(last.answers)) == (KEPT + 5, KEPT)


def test_a_client_with_many_labels_takes_the_place_of_its_own():
    deadlines = Deadlines()
    deadlines.took("rooms", "s", SLO, answer("complete", 1.0), 0)
    for number in range(3 * MAX_KINDS):
        if number == MAX_KINDS // 2:
            deadlines.took("report", "s", SLO, answer("complete", 1.0), 0, "other")
        deadlines.took(f"label{number}", "s", SLO, answer("complete", 1.0), number, "greedy")
    labels = [kind.label for kind in deadlines.kinds()]
    assert len(labels) == MAX_KINDS
    assert {"rooms", "report", f"label{3 * MAX_KINDS - 1}"} <= set(labels)


def test_answers_with_many_tasks_take_the_place_of_their_client_s_own():
    tasks = tuple([TaskReport(f"iad{n}", 99.0, 500.0, Coverage(1, 1), 1.0) for n in range(99)])
    large = replace(answer("complete", 1.0), tasks=tasks)
    deadlines = Deadlines()
    for number in range(KEPT):
        deadlines.took("rooms", "s", SLO, replace(large, tasks=tasks[:3]), number)
    for number in range(MAX_PARTS // 100 + 2 * MAX_KINDS):
        deadlines.took(f"label{number % 40}", "s", SLO, large, number, "greedy")
    kinds = {kind.label: kind.answers for kind in deadlines.kinds()}
    assert len(kinds["rooms"]) == KEPT
    parts = sum(1 + len(each.tasks) for answers in kinds.values() for each in answers)
    assert MAX_PARTS - 100 < parts <= MAX_PARTS
    lengths = [len(each) for label, each in kinds.items() if label != "rooms"]
    assert max(lengths) - min(lengths) <= 1


def test_an_answer_stands_beside_the_objective_that_it_was_asked_with():
    deadlines = Deadlines()
    looser = Slo(99.0, 2_000.0)
    deadlines.took("console-ask", "s", looser, answer("partial", 120.0), 1_000)
    deadlines.took("console-ask", "s", SLO, answer("complete", 600.0), 2_000)
    deadlines.took("console-ask", "s", looser, answer("complete", 90.0), 3_000)
    strict, loose = deadlines.kinds()
    assert (strict.latency_ms, [seen.elapsed_ms for seen in strict.answers]) == (500.0, [600.0])
    assert (loose.latency_ms, [seen.elapsed_ms for seen in loose.answers]) == (
        2_000.0,
        [120.0, 90.0],
    )
    assert deadlines.numbers() == [
        ({"label": "console-ask", "service": "s"}, {"count": 3, "late": 1, "partial": 1})
    ]
