"""`fleet watch` as a user runs it."""

import json
import signal
import subprocess
from typing import Any

import pytest
from msgspec.structs import replace

from agent.client import Operator
from agent.wire.messages import (
    Aggregate,
    Answer,
    AreaResult,
    ChannelAggregate,
    Coverage,
    Missing,
    Slo,
)
from agent.wire.overlay import Notification, Origin
from agent.wire.watches import Round
from fleet.query import replies
from fleet.query.watch import Tally, round_lines, summary_line
from fleet.terminal.screen import status_line
from fleet.testbed.processes import agent_command
from fleet.testbed.testbed import Testbed
from testkit.waiting import PATIENCE_MS
from tests.fleet.conftest import SMALL

ROOM = SMALL.nodes[0].area
AREAS = sorted(node.area for node in SMALL.nodes)


def command(bed: Testbed, *arguments: str) -> list[str]:
    fast = ("--every", "300ms", "--window", "5s", "--slo", "p99=5s")
    return [*agent_command("fleet"), "watch", "--master", bed.public("iad1"), *fast, *arguments]


def watch(bed: Testbed, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(bed, *arguments), capture_output=True, text=True, check=False, timeout=60
    )


def test_a_round_is_a_line_and_its_areas_follow(bed: Testbed) -> None:
    done = watch(bed, "--area", "b1", "--for", "600ms")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["round", "window's", "end", "areas", "time", "SLO"]
    assert [line.split()[0] for line in lines[1:]] == ["1", *AREAS, "2", *AREAS]
    assert " 4/4 " in lines[1]
    assert lines[1].endswith("kept")
    assert max(len(line) for line in lines) <= 88
    assert done.stderr.splitlines()[-1] == "2 rounds, none missed p99 ≤ 5000 ms"


def test_json_is_a_line_of_the_wire_for_each_round(bed: Testbed) -> None:
    done = watch(bed, "--area", ROOM, "--rounds", "2", "--aggregate", "--json")
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r["number"] for r in rounds] == [1, 2]
    assert rounds[0]["answer"]["results"][0]["aggregate"]["channels"]["humidity"]["count"] > 0


def test_a_trigger_says_where_it_fired(bed: Testbed) -> None:
    done = watch(bed, "--area", "b1", "--when", "temperature > -50", "--rounds", "1")
    assert done.returncode == 0
    assert f"fired: {', '.join(AREAS)}" in done.stdout


def test_ctrl_c_cancels_and_sums_up(bed: Testbed) -> None:
    process = subprocess.Popen(
        command(bed, "--area", "b1", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["number"] == 1
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "none missed p99 ≤ 5000 ms" in errors
    with Operator(bed.operator("iad1")) as operator:
        assert operator.status(PATIENCE_MS).counters["open_watches"] == 0


def test_a_detached_watch_goes_on(bed: Testbed) -> None:
    first = watch(bed, "--area", ROOM, "--rounds", "2", "--detach")
    hint = first.stderr.splitlines()[-1]
    assert hint.startswith("left open; go on with the same options and --resume ")
    assert hint.endswith(" --after 2")
    again = watch(bed, "--area", ROOM, *hint.split()[9:], "--rounds", "1", "--json")
    assert json.loads(again.stdout)["number"] == 3


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (("--when", "co2"), 3, "refused: trigger: at character 4: expected one of > >= < <=;"),
        (("--when", "co2 > 3", "--stream"), 2, "--stream and --when are different styles"),
        (("--on", "*", "--stream"), 2, "--stream and --on are different styles; choose one"),
        (("--on", "co2 above 3"), 3, "refused: on: at character 5: expected one of = != "),
        (("--resume", "abc"), 2, "--resume and --after go together"),
        (("--resume", "abc", "--after", "3"), 3, "refused: no watch 'abc' is open here"),
        (("--stream",), 2, "leave --window out"),
        (
            ("--service", "nope"),
            3,
            "refused: no service nope here; there is default; choose one with --service",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    bed: Testbed, arguments: tuple[str, ...], status: int, error: str
) -> None:
    done = watch(bed, "--area", "b1", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_misspelt_channel_is_said_and_silence_is_no_success(bed: Testbed) -> None:
    done = watch(bed, "--area", "b1", "--when", "temprature > 20", "--for", "600ms")
    assert done.returncode == 0
    *_, word, summary = done.stderr.splitlines()
    assert word.startswith("the trigger: no area that answered gives temprature; there is ")
    assert "temperature" in word
    assert summary == "the trigger never held in 2 rounds"


def test_an_area_that_nobody_knows_is_told_before_any_round(bed: Testbed) -> None:
    for more in (("--every", "1h"), ("--on", "*")):
        done = watch(bed, "--area", "b1/f9", "--area", f"{ROOM}x", *more)
        assert (done.returncode, done.stdout) == (2, "")
        nowhere = "no area b1/f9; `fleet areas` lists what there is"
        assert done.stderr == f"fleet: no area {ROOM}x; did you mean {ROOM}?; {nowhere}\n"


def test_a_trigger_that_contradicts_itself_is_told_at_once(bed: Testbed) -> None:
    trigger = "max(temperature) < 20 and temperature > 30"
    done = watch(bed, "--area", ROOM, "--when", trigger, "--for", "300ms")
    assert done.returncode == 0
    assert f"the trigger: {trigger} never hold together" in done.stderr


# --- lines --------------------------------------------------------------------------------------


def test_a_partial_round_says_what_is_missing() -> None:
    aggregate = Aggregate(0, 1, {"temperature": ChannelAggregate(1, 21.0, 21.5, 22.0)})
    answer = Answer(
        "w.17",
        "partial",
        12_345.0,
        False,
        Coverage(1, 2),
        results=(AreaResult("b1/f4", aggregate=aggregate),),
        missing=(Missing("b1/f5", "node_down"),),
    )
    fired = tuple(f"b1/f{number}" for number in range(6))
    lines = [line.plain for line in round_lines(Round("w", 17, 16, 0, 1, answer, fired), 18.8)]
    assert lines[0].startswith("    17  ")
    assert "1/2   12.3 s  missed" in lines[0]
    assert lines[1] == "        fired: b1/f0, b1/f1, b1/f2, b1/f3 and 2 more"
    assert lines[2] == "        b1/f4      1 reading     21.0   21.5   22.0 °C"
    assert lines[3] == "        missing b1/f5: its edge node is down"


@pytest.mark.parametrize(("answered", "how"), [(7, "partial"), (0, "missed")])
def test_a_round_that_is_in_time_but_not_whole_missed_no_slo(answered: int, how: str) -> None:
    """As `fleet query` says it."""
    gap = Missing("b9", "node_down")
    answer = Answer("w.1", "partial", 9.0, False, Coverage(answered, 8), missing=(gap,))
    slo, tally = Slo(99.0, 500.0), Tally()
    head, *_ = round_lines(Round("w", 1, 0, 0, 1, answer), 2.1, slo)
    assert head.plain.endswith(how)
    tally.take(answer, slo)
    told = summary_line(tally, slo, 1)
    is_whole_in_query = "in time but not whole" in status_line(answer, slo).plain
    assert (told == "1 round, none missed p99 ≤ 500 ms, 1 in time but not whole") == (
        is_whole_in_query
    )
    assert is_whole_in_query == (how == "partial")


def test_of_many_missing_areas_each_round_names_a_few() -> None:
    missing = tuple(Missing(f"b1/f{n}", "node_down") for n in range(7))
    answer = Answer("w.1", "partial", 1.0, False, Coverage(0, 7), missing=missing)
    [_, gap] = [line.plain for line in round_lines(Round("w", 1, 0, 0, 1, answer), 18.8)]
    assert gap.strip() == ("missing b1/f0, b1/f1, b1/f2, b1/f3 and 3 more: its edge node is down")


def test_a_trigger_shows_the_areas_where_it_fired() -> None:
    aggregate = Aggregate(0, 1, {"temperature": ChannelAggregate(1, 21.0, 21.5, 22.0)})
    results = tuple(AreaResult(f"b1/f{number}", aggregate=aggregate) for number in range(4))
    answer = Answer("w.1", "complete", 5.0, True, Coverage(4, 4), results=results)
    lines = [line.plain for line in round_lines(Round("w", 1, 0, 0, 1, answer, ("b1/f2",)), 1.0)]
    assert [line.split()[0] for line in lines[1:]] == ["fired:", "b1/f2", "3"]
    assert lines[-1] == "        3 other areas"


def test_a_round_whose_other_areas_no_time_would_bring_missed_no_slo() -> None:
    gap = Missing("b9", "no_node")
    answer = Answer("w.1", "partial", 0.2, False, Coverage(0, 1), missing=(gap,))
    head, *_ = round_lines(Round("w", 1, 0, 0, 1, answer), 2.1)
    assert head.plain.endswith("partial")
    tally = Tally()
    tally.take(answer)
    assert summary_line(tally, Slo(99.0, 500.0), 1) == (
        "1 round, none missed p99 ≤ 500 ms, 1 partial: more time would not bring the others"
    )


@pytest.mark.parametrize("reason", ["no_node", "no_data"])
def test_a_round_over_its_slo_missed_it_whatever_it_lacks(reason: Any) -> None:
    gaps = (Missing("b9", reason),)
    answer = Answer("w.1", "partial", 1_304.0, False, Coverage(0, 1), missing=gaps)
    slo, tally = Slo(99.0, 1_000.0), Tally()
    head, *_ = round_lines(Round("w", 1, 0, 0, 1, answer), 2.1, slo)
    assert head.plain.endswith("missed")
    tally.take(answer, slo)
    assert summary_line(tally, slo, 1) == "1 round, 1 missed the SLO (p99 ≤ 1000 ms)"
    tally.take(replace(answer, elapsed_ms=900.0), slo)
    assert summary_line(tally, slo, 2).startswith("2 rounds, 1 missed the SLO (p99 ≤ 1000 ms), 1 ")


def test_a_round_that_came_long_after_it_was_due_is_late() -> None:
    answer = Answer("w.1", "complete", 3.8, True, Coverage(1, 1))
    [in_time] = round_lines(Round("w", 1, 0, 0, 10_000, answer), 16.4)
    assert in_time.plain.endswith("kept")
    [late] = round_lines(Round("w", 1, 0, 0, 10_000, answer), 23.5)
    assert late.plain.endswith("3.8 ms  kept  late 12s")


def test_the_alerts_that_made_a_round_stand_before_its_areas() -> None:
    told = {"area": "b1/f4", "metric": "co2", "value": 1012.5, "kind": "raised", "trigger": "bad"}
    alerts = tuple([Notification(Origin("iad2", "h", n), n, told) for n in range(6)])
    aggregate = Aggregate(0, 1, {"co2": ChannelAggregate(1, 900.0, 950.0, 1000.0)})
    area = AreaResult("b1/f4", aggregate=aggregate)
    answer = Answer("w.1", "complete", 3.8, True, Coverage(1, 1), (area,))
    round_ = Round("w", 1, 0, 0, 10_000, answer, alerts=alerts, alert_count=9)
    lines = [line.plain for line in round_lines(round_, 15.1)]
    assert lines[0].endswith("3.8 ms  kept  late 5s")
    assert lines[1] == "        5 alerts before these"
    assert len(lines) == 7
    assert lines[2].split()[1:] == ["b1/f4", "co2", "1012", "ppm", "raised", "bad", "–"]
    assert lines[6].split() == ["b1/f4", "1", "reading", "900.0", "950.0", "1000", "ppm"]


def test_an_alert_of_a_round_fits_80_columns() -> None:
    told = {"area": "b1/f6/r640", "metric": "humidity", "value": 58.5, "iad": "iad4"}
    alert = Notification(
        Origin("iad4", "h", 1), 1, told | {"kind": "cleared", "trigger": "humidity-up"}
    )
    answer = Answer("w.1", "complete", 3.8, True, Coverage(1, 1))
    lines = round_lines(Round("w", 1, 0, 0, 9, answer, alerts=(alert,), alert_count=1), 4.0)
    assert lines[1].plain.endswith("  cleared  humidity-up   iad4")
    assert max(len(line.plain) for line in lines) <= 80


def test_without_an_alert_it_says_so(bed: Testbed) -> None:
    done = watch(bed, "--area", "b1", "--on", 'metric = "co2"', "--for", "300ms")
    assert done.returncode == 0
    headline, *_, summary = done.stderr.splitlines()
    assert ": event, at most every " in headline
    assert ' on metric = "co2", for ' in headline
    assert summary == "no alert came"


def test_a_watch_whose_rounds_lack_time_says_how_long_they_waited(bed: Testbed) -> None:
    done = watch(bed, "--area", "b1", "--every", "1s", "--slo", "p99.9999=0.01ms", "--rounds", "1")
    *_, summary, hint = done.stderr.splitlines()
    assert summary.startswith("1 round, 1 missed the SLO")
    assert hint == (
        "the answer timeout was 0.04 ms, 4 times the SLO's latency; --timeout 10s waits longer"
    )


def test_the_timeout_that_is_named_is_longer_than_the_one_that_was_too_short() -> None:
    gap = Missing("b1/f1/r1", "timeout")
    answer = Answer("q1", "partial", 4956.0, False, Coverage(8, 9), missing=(gap,))
    said = replies.waited(answer, 10_000.0, Slo(99.0, 500.0))
    assert said == "the answer timeout was 10000 ms; --timeout 20s waits longer"
    said = replies.waited(answer, None, Slo(99.0, 5_000.0))
    assert said.endswith("20000 ms, 4 times the SLO's latency; --timeout 40s waits longer")


def test_the_summary_counts() -> None:
    slo = Slo(99.0, 500.0)
    assert summary_line(Tally(1), slo, 1) == "1 round, none missed p99 ≤ 500 ms"
    text = "5 rounds, 2 missed the SLO (p99 ≤ 500 ms), 1 refused: nothing was looked at then"
    assert summary_line(Tally(5, missed=2, refused=1), slo, 5) == text
    assert summary_line(Tally(), slo, 0, "co2 > 3") == "no round came"
    assert summary_line(Tally(), slo, 1, "co2 > 3") == "the trigger never held in 1 round"


def test_a_refused_round_counts_no_areas() -> None:
    answer = Answer("w.1", "refused", 4.0, False, Coverage(0, 1), reason="infeasible", message="no")
    head, *_ = [line.plain for line in round_lines(Round("w", 1, 0, 0, 1, answer), 1.0)]
    assert head.split()[-4:] == ["–", "4.0", "ms", "refused"]
