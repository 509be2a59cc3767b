"""What `fleet query` and `fleet watch` say of an answer, and how they end."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agent.wire.buckets import Buckets, ChannelBuckets
from agent.wire.messages import (
    Aggregate,
    Answer,
    AreaResult,
    ChannelAggregate,
    Coverage,
    Missing,
    Slo,
    TaskReport,
)
from agent.wire.packed import Float32Column, UInt32Column
from agent.wire.watches import Round, Watching
from fleet.cli.commands import run
from fleet.query import query, watch, words
from fleet.query.watch import Tally, round_lines, summary_line

SLO = Slo(99.0, 500.0)
HOUR_MS = 3_600_000
READINGS = Aggregate(0, 3 * HOUR_MS, {"temperature": ChannelAggregate(9, 20.0, 21.0, 22.0)})
ROOM = AreaResult("b1/f4/r413", aggregate=READINGS)
TYPO = Missing("b1/f4/r41", "no_node", nearest=("b1/f4/r413",), unknown=True)
NOWHERE = Missing("b9", "no_node", unknown=True)
ABSENT = Missing("b1/f4/r419", "no_node")
TASKS = (TaskReport("iad4", 99.0, 500.0, Coverage(1, 1), 40.0),)


def answer(*parts: AreaResult | Missing, elapsed_ms: float = 40.0) -> Answer:
    results = tuple(each for each in parts if isinstance(each, AreaResult))
    missing = tuple(each for each in parts if isinstance(each, Missing))
    return Answer(
        "q",
        "partial" if missing else "complete",
        elapsed_ms,
        not missing and elapsed_ms <= 500.0,
        Coverage(len(results), len(parts)),
        results,
        missing,
        TASKS,
    )


def refused(message: str) -> Answer:
    return replace(answer(), status="refused", reason="infeasible", message=message)


def gap(area: str, reason: Any, **fields: Any) -> Missing:
    return Missing(area, reason, **fields)


class Ask:
    """`fleet query` with an answer that is there already."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capsys = monkeypatch, capsys

    def __call__(self, found: Answer, *arguments: str) -> tuple[int, str, str]:
        self._patch.setattr(query.Client, "query", lambda *_args, **_options: found)
        status = run(["query", "--master", "tcp://127.0.0.1:1", "--area", "b1", *arguments])
        printed = self._capsys.readouterr()
        return status, printed.out, printed.err


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    return Ask(monkeypatch, capsys)


# --- names that nobody knows ------------------------------------------------------------------


def test_a_typo_is_wrong_usage_in_one_line(ask: Ask) -> None:
    assert ask(answer(TYPO)) == (2, "", "fleet: no area b1/f4/r41; did you mean b1/f4/r413?\n")


@pytest.mark.parametrize(
    ("gaps", "says"),
    [
        ((NOWHERE,), "no area b9"),
        ((NOWHERE, TYPO), "no area b1/f4/r41; did you mean b1/f4/r413?; no area b9"),
        (tuple(replace(NOWHERE, area=f"b{n}") for n in range(9)), "no area b0, b1, b2, b3 and 5"),
        # A master of an earlier version.
        ((replace(TYPO, unknown=False),), "did you mean b1/f4/r413?"),
    ],
)
def test_each_kind_of_typo_is_told(ask: Ask, gaps: tuple[Missing, ...], says: str) -> None:
    status, out, err = ask(answer(*gaps))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert "partial" not in err
    assert "SLO" not in err


def test_what_there_is_besides_is_shown_and_judged_alone(ask: Ask) -> None:
    status, out, err = ask(answer(ROOM, TYPO), "--last", "3h")
    assert status == 2
    assert "complete: 1 of 1 areas in 40 ms, within its SLO (p99 ≤ 500 ms)" in out
    assert "missing" not in out
    assert err == "fleet: no area b1/f4/r41; did you mean b1/f4/r413?\n"
    _, late, _ = ask(answer(ROOM, TYPO, elapsed_ms=501.0), "--last", "3h")
    assert "over its SLO" in late


def test_what_else_is_missing_makes_it_partial_all_the_same(ask: Ask) -> None:
    status, out, _ = ask(answer(ROOM, TYPO, gap("b1/f5", "timeout")))
    assert status == 2
    assert "partial: 1 of 2 areas in 40 ms, in time but not whole" in out


def test_without_any_area_there_is_no_answer(ask: Ask) -> None:
    status, out, _ = ask(answer(gap("b1/f5", "timeout"), gap("b1/f6", "timeout")))
    assert status == 1
    assert "no answer: 0 of 2 areas in 40 ms, SLO missed" in out
    assert "partial" not in out


def test_the_master_that_did_not_answer_is_named_with_all_its_areas(ask: Ask) -> None:
    silent = "iad3's master did not answer"
    away = [Missing(f"b1/f{n}", "iad_unreachable", message=silent) for n in range(6)]
    _, out, _ = ask(answer(ROOM, *away))
    assert f"missing b1/f0, b1/f1, b1/f2, b1/f3, b1/f4, b1/f5: {silent}\n" in out
    assert "its IAD" not in out


def test_an_area_that_is_announced_is_no_typo(ask: Ask) -> None:
    status, out, err = ask(answer(ABSENT))
    assert (status, err) == (1, "")
    assert "missing b1/f4/r419: no edge node covers it" in out


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (("humidity", "temperature"), "there are humidity, temperature; did you mean temperature?"),
        (("co2",), "no channel temprature in b1/f4/r413; there is co2\n"),
        ((), "no channel temprature in b1/f4/r413\n"),
    ],
)
def test_a_channel_that_nobody_has_is_wrong_usage(
    ask: Ask, there: tuple[str, ...], says: str
) -> None:
    found = answer(gap("b1/f4/r413", "no_channel", channels=there))
    status, out, err = ask(found, "--channel", "temprature")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_json_keeps_the_wires_answer_and_the_status(ask: Ask) -> None:
    status, out, err = ask(answer(ROOM, TYPO), "--json")
    assert status == 2
    assert '"status":"partial"' in out
    assert '"tasks":[{' in out
    assert "no area b1/f4/r41" in err


def test_what_a_service_does_not_have_others_may(ask: Ask) -> None:
    err = ask(answer(TYPO, NOWHERE), "--service", "climate")[2]
    assert err == (
        "fleet: no area b1/f4/r41 in service climate; did you mean b1/f4/r413?; "
        "no area b9 in service climate; `fleet areas` lists what there is\n"
    )


# --- the rest ---------------------------------------------------------------------------------


def test_an_empty_window_is_one_thing(ask: Ask) -> None:
    status, out, err = ask(answer(gap("b1/f4/r413", "no_data")))
    assert (status, out, err) == (1, "empty: no readings in the window, of b1/f4/r413\n", "")
    _, out, _ = ask(answer(*(gap(f"b1/r{n}", "no_data") for n in range(6))))
    assert out == "empty: no readings in the window, of b1/r0, b1/r1, b1/r2, b1/r3 and 2 more\n"


def test_less_than_was_asked_is_told(ask: Ask) -> None:
    held = replace(ROOM, held_from_ms=0)
    status, out, _ = ask(answer(held), "--last", "30d")
    assert status == 0
    assert "b1/f4/r413 holds 3h of the 30d asked\n" in out
    _, out, _ = ask(answer(held, replace(held, area="b2")), "--last", "30d")
    assert "2 areas hold less than the 30d asked, b1/f4/r413 only 3h" in out
    assert "holds" not in ask(answer(ROOM), "--last", "3h")[1]


def test_buckets_tell_less_than_was_asked_too(ask: Ask) -> None:
    values = Float32Column.of([21.0, 21.0])
    channel = ChannelBuckets(UInt32Column.of([0, 9]), values, values, values)
    room = AreaResult(
        "b1/f4/r413",
        held_from_ms=6 * HOUR_MS,
        buckets=Buckets(0, 6 * HOUR_MS, {"temperature": channel}),
    )
    _, out, _ = ask(answer(room), "--last", "12h", "--buckets", "2")
    assert "b1/f4/r413 holds at most 6h of the 12h asked\n" in out


def test_budgets_are_shown_to_who_asks_for_them(ask: Ask) -> None:
    assert "budget" not in ask(answer(ROOM), "--last", "3h")[1]
    shown = ask(answer(ROOM), "--last", "3h", "--explain")[1].splitlines()
    assert [line.split() for line in shown[-2:]] == [
        ["task", "budget", "areas", "time"],
        ["iad4", "p99", "≤", "500", "ms", "1/1", "40", "ms"],
    ]


def test_an_infeasible_slo_says_what_can_be_kept(ask: Ask) -> None:
    message = (
        "p99=500ms cannot be kept: lately even idle nodes took longer; p99=820ms can, p95=500ms can"
    )
    said = f"fleet: refused: {message}; choose one with --slo\n"
    assert ask(refused(message)) == (3, "", said)


@pytest.mark.parametrize(
    ("found", "status", "says"),
    [
        (answer(ROOM), 0, "complete: 1 of 1 areas in 40 ms, within its SLO"),
        (answer(ROOM, elapsed_ms=501.0), 0, "complete: 1 of 1 areas in 501 ms, over its SLO"),
        (
            answer(ROOM, gap("b2", "timeout")),
            1,
            "partial: 1 of 2 areas in 40 ms, in time but not whole",
        ),
        (answer(ROOM, gap("b2", "no_data")), 1, "more time would not bring the others"),
        (
            answer(ROOM, gap("b2", "no_data"), elapsed_ms=501.0),
            1,
            "501 ms, SLO missed (p99 ≤ 500 ms); more time would not bring the others",
        ),
        (answer(gap("b2", "no_data")), 1, "empty: "),
    ],
)
def test_words_and_statuses_agree(ask: Ask, found: Answer, status: int, says: str) -> None:
    ended, out, _ = ask(found, "--last", "3h")
    assert ended == status
    assert says in out
    assert sum(word in out for word in ("within its", "over its", "SLO missed")) <= 1


# --- watches ----------------------------------------------------------------------------------


class Rounds:
    """A watch whose rounds are there already."""

    def __init__(self, *answers: Answer) -> None:
        self.id, self.after, self.message, self.looked_at = "w", 0, "", len(answers)
        self.is_open, self.cancelled = True, False
        self._answers = answers

    def __enter__(self) -> Rounds:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Any:
        for number, each in enumerate(self._answers, 1):
            yield Round("w", number, number - 1, 0, 1, each)

    def acknowledge(self) -> None:
        pass

    def cancel(self) -> Watching:
        self.cancelled = True
        return Watching("w", "cancelled")


def watched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *answers: Answer
) -> tuple[int, list[str], Rounds]:
    rounds = Rounds(*answers)
    monkeypatch.setattr(watch.Client, "watch", lambda *_args, **_options: rounds)
    monkeypatch.setattr(watch.Client, "about", lambda *_args, **_options: answer(ROOM))
    fixed = ["--master", "tcp://127.0.0.1:1", "--area", "b1", "--window", "3h"]
    status = run(["watch", *fixed])
    return status, capsys.readouterr().err.splitlines(), rounds


def test_a_watch_of_nothing_that_is_known_ends_at_once(monkeypatch, capsys) -> None:
    status, err, rounds = watched(monkeypatch, capsys, answer(TYPO), answer(TYPO))
    assert (status, rounds.cancelled) == (2, True)
    assert err[-1] == "fleet: no area b1/f4/r41; did you mean b1/f4/r413?"


def test_a_watch_of_something_says_once_what_is_not_known(monkeypatch, capsys) -> None:
    held = replace(ROOM, held_from_ms=2 * HOUR_MS)
    rounds = [answer(each, TYPO) for each in (ROOM, held, held)]
    status, err, _ = watched(monkeypatch, capsys, *rounds)
    assert status == 0
    assert sum("no area b1/f4/r41" in line for line in err) == 1
    assert sum("holds 1h of the 3h asked" in line for line in err) == 1
    assert err[-1] == "3 rounds, none missed p99 ≤ 500 ms"


def test_an_area_that_goes_later_does_not_end_a_watch(monkeypatch, capsys) -> None:
    assert watched(monkeypatch, capsys, answer(ROOM), answer(TYPO))[0] == 0


def test_an_empty_round_is_called_so_and_misses_nothing() -> None:
    empty = answer(gap("b1", "no_data"))
    head, line = round_lines(Round("w", 1, 0, 0, 1, empty), 0.0)
    assert head.plain.endswith("empty")
    assert line.plain.strip() == "missing b1: no readings in the window"
    tally = Tally()
    tally.take(empty)
    assert summary_line(tally, SLO, 1) == "1 round, none missed p99 ≤ 500 ms, 1 empty"


def test_of_nothing_unknown_an_answer_stays_as_it_is() -> None:
    for found in (answer(ROOM), answer(ROOM, ABSENT), refused("no")):
        assert words.apart(found, SLO) == (found, [])
