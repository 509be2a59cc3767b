"""What the page tells an operator to do."""

from __future__ import annotations

from datetime import UTC, datetime

from fleet.report.jobs.worst import VERDICTS
from fleet.report.page.recommendations import REMEDIES, recommendations

LAST = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
WELL = {
    "sensors": {"all": 4, "bad": 0, "worst": [], "more": 0},
    "objectives": {"compared": False, "by_policy": [], "missed": [], "nowhere": 0},
    "deadlines": None,
    "lost": [],
}


def sensor(verdict="silent"):
    return {
        "area": "b1/r1",
        "channel": "temperature",
        "iad": "iad1",
        "node": "n1",
        "verdict": verdict,
        "last": LAST,
        "success": 0.42,
        "gap_s": 120.0,
    }


def missed(policy="edfq", p99_ms=640.0):
    return {
        "class": "live",
        "service": "humidity",
        "policy": policy,
        "policies": 1,
        "percentile": 99.0,
        "slo_ms": 500.0,
        "attainment": 0.81,
        "p99_ms": p99_ms,
        "queries": 400,
        "refused": 0,
        "partial": 0,
        "no_data": 0,
    }


def said(**facts):
    return [f"{each.where}: {each.what}" for each in recommendations({**WELL, **facts})]


def test_where_all_is_well_there_is_nothing_to_do():
    assert said() == []


def test_each_verdict_has_its_remedy():
    assert set(REMEDIES) == set(VERDICTS)
    for verdict in (*VERDICTS, "a new one"):
        (line,) = said(sensors={"worst": [sensor(verdict)], "more": 0})
        assert line.startswith("b1/r1, temperature: ")
        assert line.endswith(" (iad1/n1).")


def test_a_silent_sensor_and_how_many_more():
    assert said(sensors={"worst": [sensor()], "more": 3}) == [
        (
            "b1/r1, temperature: nothing has come since 2026-11-20 12:30 UTC: look at its power, "
            "network and wiring (iad1/n1)."
        ),
        "Others: 3 more channels are not well.",
    ]


def test_an_objective_that_was_missed_says_what_would_be_kept():
    found = {"compared": False, "by_policy": [], "missed": [missed()], "nowhere": 0}
    assert said(objectives=found) == [
        (
            "Class live (humidity): 81.0 % of its queries kept p99 ≤ 500 ms, 99 % came within "
            "640 ms: give it a looser objective, or its nodes more pods."
        )
    ]


def test_where_answers_were_fast_but_lacked_areas_no_looser_objective_helps():
    fast = {**missed(p99_ms=498.0), "attainment": 0.958, "partial": 20, "no_data": 3}
    found = {"compared": False, "by_policy": [], "missed": [fast], "nowhere": 0}
    assert said(objectives=found) == [
        (
            "Class live (humidity): 95.8 % of its queries kept p99 ≤ 500 ms, 99 % came within "
            "498 ms: 17 answers lacked areas: see which node was missing."
        )
    ]
    found["missed"] = [{**fast, "partial": 4, "attainment": 0.99}]
    assert said(objectives=found)[0].endswith(
        "498 ms: 1 answer lacked areas: see which node was missing."
    )
    found["missed"] = [{**fast, "percentile": 99.9, "attainment": 0.95}]  # three were late
    assert said(objectives=found)[0].endswith("give it a looser objective, or its nodes more pods.")


def test_where_all_that_missed_lacked_areas_and_some_were_late_both_are_looked_for():
    """A node that had died held five answers up, one of them beyond the objective; where the answer
    timeout of a strict one has ended, the areas lack as well."""
    row = {**missed(p99_ms=7_904.0), "queries": 18, "refused": 1, "partial": 6, "no_data": 1}
    found = {"compared": False, "by_policy": [], "nowhere": 0}
    found["missed"] = [{**row, "attainment": 11 / 16}]
    assert said(objectives=found)[0].endswith(
        "5 answers lacked areas: see which node was missing; if none was, give it a looser "
        "objective, or its nodes more pods."
    )
    found["missed"] = [{**row, "attainment": 10 / 16}]  # one was whole, and late
    assert said(objectives=found)[0].endswith("give it a looser objective, or its nodes more pods.")


def test_of_policies_that_were_compared_only_the_best_is_to_be_mended():
    found = {
        "compared": True,
        "by_policy": [{"policy": "edfq"}, {"policy": "fifo"}],
        "missed": [
            {**missed("fifo"), "policies": 2},
            {**missed("edfq", None), "policies": 2},
            {**missed("fifo"), "class": "console"},  # it was asked under no other
        ],
        "nowhere": 2,
    }
    lines = said(objectives=found)
    assert len(lines) == 3
    assert lines[0].startswith(
        "Class live (humidity): 81.0 % of its queries kept p99 ≤ 500 ms: give it"
    )
    assert lines[1].startswith("Class console (humidity): 81.0 %")
    assert lines[2].startswith("Unknown areas: 2 queries reached no node")


def test_a_busy_node_and_losses():
    busy = {"iad": "iad4", "node": "n7", "up": 3, "pods": 3, "violations": 10.6}
    lines = said(deadlines=busy, lost=[(7, "failed pulls"), (9, "readings that expired"), (1, "q")])
    assert lines[0].startswith("iad4/n7: 10.6 % of its subtasks were dispatched late: give it up ")
    assert [line.split(":")[0] for line in lines[1:]] == [
        "7 failed pulls", "9 readings that expired", "1 q",
    ]  # fmt: skip
    assert said(deadlines={**busy, "violations": 2.0}) == []
