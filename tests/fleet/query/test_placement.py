"""`fleet placement`: what it prints, and how it ends."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console

from agent.wire.handover import MoveReport, MoveUnit
from agent.wire.messages import Slo
from agent.wire.placement import (
    ApplyPlan,
    CostAt,
    Delay,
    HomeFacts,
    KnownFacts,
    Listeners,
    MoveTold,
    PinnedUnit,
    PinUnit,
    PlacementFacts,
    PlacementReport,
    PlannedMove,
    ShowPlacement,
    Source,
    TopicFacts,
    UnitName,
)
from fleet.cli.commands import run
from fleet.placement.plans import Plan
from fleet.query import placement_screen
from fleet.query.placement import FOLLOW, Asker, view_of
from fleet.query.placement_picture import sparkline
from tests.master.push_rig import PushMaster

UNIT = UnitName("processor", "comfort")
COMFORT = TopicFacts(
    "comfort", (Source("iad2", 2.0),), "comfort_index", cpu_ms=0.75, latency_ms=41.5,
    state_bytes=2e6, slo=Slo(90.0, 1_000.0),
)  # fmt: skip
REPORT = PlacementReport(
    "s",
    ok=True,
    iad="iad1",
    known=(
        KnownFacts(
            PlacementFacts(
                "iad1", 1, 1, 5.0, cores=2, compute=2.0, topics=(COMFORT,), mode="draining",
                delays=(Delay("iad2", 1.5, 2.0),), pins=(PinnedUnit(UNIT, "iad2"),),
            ),
            0.0,
        ),
        KnownFacts(
            PlacementFacts(
                "iad2", 1, 1, 5.0, storage_bytes=1e6, listeners=(Listeners("comfort", 2),)
            ),
            3.2,
        ),
        KnownFacts(PlacementFacts("iad3", 1, 1, 5.0), 90.0, silent=True),
    ),
    moves=(MoveTold(UNIT, "iad1", "iad2", "pin", "aborted", None, "\x1b[2J no"),),
)  # fmt: skip


def shown(print_it, *what, width=100) -> list[str]:
    file = io.StringIO()
    print_it(Console(file=file, width=width, highlight=False), *what)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_masters_units_and_moves_are_shown():
    lines = shown(placement_screen.show, REPORT, view_of(REPORT))
    assert [line.split() for line in lines[:4]] == [
        ["master", "state", "units", "load", "of", "bytes", "delay", "told"],
        ["iad1", "draining", "1", "0.0015", "2", "2", "MB", "–", "now"],
        ["iad2", "open", "0", "0", "–", "0", "B", "of", "1", "MB", "1.5", "ms", "3s", "ago"],
        ["iad3", "silent", "–", "–", "–", "–", "–", "1m30s", "ago"],
    ]
    assert lines[5].split("  ")[0] == "processor comfort"
    assert "2/s" in lines[5]
    assert "750 µs" in lines[5]
    assert "p90 ≤ 1000 ms" in lines[5]
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "what is pinned to iad2 needs 2e+06 bytes of storage, it has 1e+06" in text
    assert lines[-1] == (
        "processor comfort: no other master may have it: iad2 needs 2e+06 bytes of storage, "
        "has 1e+06"
    )


def test_who_lives_where_and_what_it_cost_fits_eighty_columns():
    clones = tuple([TopicFacts(f"clone-{n:016x}") for n in range(0, 15 << 60, 1 << 60)])
    node = HomeFacts("node/n1", {"iad2": 1.0, "iad1": 2.0})
    known = (
        KnownFacts(PlacementFacts("iad1", 1, 1, 5.0, topics=(COMFORT, *clones)), 0.0),
        KnownFacts(PlacementFacts("iad2", 1, 1, 5.0, homes=(node,)), 1.0),
    )
    costs = [CostAt(60.0, None), *[CostAt(58.0 - n, 2.0 - n / 29) for n in range(58)]]
    moves = (MoveTold(UNIT, "iad1", "iad2", "drift", "settled", 4.5, gain=0.25),)
    report = PlacementReport("s", ok=True, iad="iad1", known=known, moves=moves, costs=(*costs,))
    lines = shown(placement_screen.show, report, view_of(report), width=80)
    (first,) = [n for n, line in enumerate(lines) if line.startswith("iad1 │")]
    assert lines[first].startswith("iad1 │ comfort ◆00000000 ◆10000000 ")
    assert lines[first].endswith("◆40000000 and 10 more")
    assert lines[first + 1 : first + 3] == ["iad2 │ ⌂n1", "       ◆ a clone, ⌂ a home"]
    assert lines[first + 3].startswith("cost ∞█████▇")
    assert lines[first + 3].endswith("▂▁▁▁▁▁ 34.5 ms/s now")
    assert lines[first + 4] == "     1m ago ∞; least 34.5 ms/s, most 2 s/s"
    assert max(map(len, lines[first:])) <= 80
    assert lines[-1].split() == [
        "processor", "comfort", "iad1", "iad2", "drift", "250", "ms/s", "settled", "4.5", "ms",
    ]  # fmt: skip


def test_a_master_that_is_nearly_idle_and_a_move_by_hand_are_told_in_an_operators_words():
    little = structs.replace(COMFORT, cpu_ms=0.005)
    facts = PlacementFacts("iad1", 1, 1, 5.0, compute=1.99999, topics=(little,))
    moves = (MoveTold(UNIT, "iad1", "iad2", "plan", "settled", 4.5),)
    known = (KnownFacts(facts, 0.0), KnownFacts(PlacementFacts("iad2", 1, 1, 5.0), 1.0))
    report = PlacementReport("s", ok=True, iad="iad1", known=known, moves=moves)
    lines = shown(placement_screen.show, report, view_of(report))
    assert lines[1].split()[2:7] == ["1", "<", "0.001", "2", "2"]
    assert lines[-1].split() == [
        "processor", "comfort", "iad1", "iad2", "asked", "settled", "4.5", "ms",
    ]  # fmt: skip


def test_a_sparkline_is_as_wide_as_its_costs_or_as_it_may_be():
    assert sparkline([0.0, 1.0, None, 8.0]) == "▁▂∞█"
    assert sparkline([0.0]) == "▁"
    assert sparkline([0.0, 4e-7]) == "▁▁", "what is written as 0 is drawn as 0"
    assert sparkline(list(range(1_000)), width=8) == "▁▂▃▄▅▆▇█"


def test_without_units_it_says_how_there_are_some():
    known = (KnownFacts(PlacementFacts("iad1", 1, 1, 5.0), 0.0),)
    report = PlacementReport("s", ok=True, iad="iad1", known=known)
    assert shown(placement_screen.show, report, view_of(report))[-1].startswith("no units: ")


def test_why_is_the_price_of_every_master_with_the_reason():
    view = view_of(REPORT)
    unit = view.unit("comfort")
    rows = view.price.why(unit)
    lines = shown(placement_screen.show_why, REPORT, view, unit, rows)
    assert lines[0] == "processor comfort lives at iad1; prices in ms of delay a second"
    assert lines[2].split() == ["iad1", "∞", "is", "draining"]
    assert lines[3].split() == [
        "iad2", "∞", "needs", "2e+06", "bytes", "of", "storage,", "has", "1e+06",
    ]  # fmt: skip
    assert lines[4] == "iad3 is silent and takes no units"


def test_a_plan_is_its_moves_and_what_they_bring():
    moves = (PlannedMove(UNIT, "iad1", "iad2", 0.006),)
    plan = Plan("ffd", moves, (None, 0.0125), (2, 1), ("topic x is infeasible alone",))
    lines = shown(placement_screen.show_plan, plan, Path("p.json"))
    assert lines[0] == "topic x is infeasible alone"
    assert lines[2].split("  ")[0] == "processor comfort"
    assert "6 ms/s" in lines[2]
    assert lines[3:] == [
        "ffd: 1 move; masters in use 2 → 1; delay ∞ → 12.5 ms/s",
        "the plan is in p.json: fleet placement apply p.json",
    ]
    nothing = Plan("ffd", (), (0.0, 0.0), (1, 1))
    assert shown(placement_screen.show_plan, nothing, None) == ["ffd: nothing is to be moved"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["apply", "{folder}/none.json"], "none.json: No such file or directory"),
        (["apply", "{folder}/bad.json"], "bad.json is no plan: "),
        (["plan", "--planner", "best"], "'best' is not one of 'balanced'"),
        (["plan", "--model", "{folder}/bad.json"], "bad.json: not a latency model"),
        (["pin", "comfort", "no master"], "'no master' is not a name"),
        (["unpin", "topic:notes"], "'topic:notes' is no unit; write comfort or home:NAME"),
        (["drain", "iad1", "--wait", "5"], "'5' has no unit"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path, capsys, arguments, says):
    (tmp_path / "bad.json").write_text("{")
    told = [each.format(folder=tmp_path) for each in arguments]
    assert run(["placement", *told, "--operator", "tcp://127.0.0.1:1"]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_a_move_that_the_asked_master_cannot_begin_fails(monkeypatch, capsys):
    asked = []

    def ask(_self, request):
        asked.append(type(request))
        return PlacementReport("s", ok=True, iad="iad2", known=REPORT.known[:2])

    monkeypatch.setattr(Asker, "_ask", ask)
    assert run(["placement", "move", "comfort", "iad2", "--operator", "tcp://127.0.0.1:1"]) == 3
    assert capsys.readouterr().err == (
        "fleet: processor comfort lives at iad1: ask that master (--iad iad1)\n"
    )
    assert asked == [ShowPlacement]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("draining", "processor means moves from iad1 to iad2 now; try again when it is there"),
        ("settled", "no unit means is known here; known are comfort"),
    ],
)
@pytest.mark.parametrize("arguments", [["move", "means", "iad2"], ["why", "processor:means"]])
def test_a_unit_that_moves_right_now_is_not_called_unknown(
    monkeypatch, capsys, state, says, arguments
):
    """For a moment neither master tells of it."""
    moves = (MoveTold(UnitName("processor", "means"), "iad1", "iad2", "asked", state),)
    report = PlacementReport("s", ok=True, iad="iad1", known=REPORT.known[:2], moves=moves)
    monkeypatch.setattr(Asker, "_ask", lambda *_: report)
    assert run(["placement", *arguments, "--operator", "tcp://127.0.0.1:1"]) != 0
    assert says in capsys.readouterr().err


def test_a_move_names_what_moves_and_where_to(monkeypatch, capsys):
    def ask(_self, request):
        message = "1 move begins here" if isinstance(request, ApplyPlan) else ""
        return PlacementReport("s", ok=True, message=message, iad="iad1", known=REPORT.known)

    monkeypatch.setattr(Asker, "_ask", ask)
    assert run(["placement", "move", "comfort", "iad2", "--operator", "tcp://127.0.0.1:1"]) == 0
    assert capsys.readouterr().out == f"moving processor comfort to iad2; {FOLLOW}\n"


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["why", "comfort"], ["plan", "--dry"], ["drain", "iad1", "--wait", "1ms"]],
)
def test_what_is_no_placement_is_one_line(monkeypatch, capsys, arguments):
    """Such as facts of a master of another version, with a goal that cannot be."""
    topic = structs.replace(COMFORT, slo=Slo(100.0, 1_000.0))
    known = (KnownFacts(PlacementFacts("iad1", 1, 1, 5.0, topics=(topic,)), 0.0),)
    report = PlacementReport("s", ok=True, iad="iad1", known=known)
    monkeypatch.setattr(Asker, "_ask", lambda *_: report)
    assert run(["placement", *arguments, "--operator", "tcp://127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert "an objective needs 0 < quantile < 1" in err
    assert err.count("\n") == 1


def test_a_master_without_others_from_the_commands_point_of_view(tmp_path, capsys):
    master = PushMaster(tmp_path, "iad1")

    def ask(*arguments, status=0):
        assert run([*arguments, "--operator", master.operator]) == status
        return capsys.readouterr()

    def placed(*arguments, status=0):
        return ask("placement", *arguments, status=status)

    try:
        ask("topic", "create", "notes")
        assert "processor notes  iad1" in placed("show").out
        assert "it lives here" in placed("why", "notes").out
        (row,) = json.loads(placed("why", "processor:notes", "--json").out)
        assert (row["master"], row["price"]) == ("iad1", 0.0)
        assert placed("why", "nots", status=1).err == (
            "fleet: no unit nots is known here; did you mean notes?\n"
        )
        assert placed("plan", "--dry").out == "balanced: nothing is to be moved\n"
        assert placed("move", "notes", "iad2", status=3).err == (
            "fleet: refused: no master iad2 is known here; did you mean iad1?\n"
        )
        assert placed("pin", "notes", "iad1").out == "processor notes is pinned to iad1\n"
        assert placed("freeze", "iad1").out == (
            "iad1 is frozen: it keeps what it has (1 unit), and takes no other\n"
        )
        # After a restart both are known.
        master.stop()
        master.start()
        told = json.loads(placed("show", "--json").out)["known"][0]["facts"]
        assert told["mode"] == "frozen"
        assert told["pins"] == [{"unit": {"kind": "processor", "name": "notes"}, "iad": "iad1"}]
        assert placed("unpin", "notes").out == "processor notes is pinned no more\n"
        assert placed("unpin", "nots", status=3).err == (
            "fleet: refused: processor nots is not pinned here; pinned is nothing\n"
        )
        assert placed("drain", "iad1").out == "iad1 drains: 1 unit to move away\n"
        assert placed("drain", "iad1", "--wait", "100ms", status=1).err == (
            "fleet: iad1 still has 1 unit: there is no other master\n"
        )
        assert placed("thaw", "iad1").out == "iad1 is open again\n"
    finally:
        master.stop()


@pytest.mark.parametrize(
    ("report", "status", "shown"),
    [
        (MoveReport("move", ok=True), 0, f"moving home client/app/log:1 to iad2; {FOLLOW}\n"),
        (MoveReport("move", ok=False, message="it lives at iad3; ask there"), 3, ""),
    ],
)
def test_a_subscription_is_moved_by_name(monkeypatch, capsys, report, status, shown):
    asked = []

    class Operator:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def ask_placement(self, _request, _timeout_ms):
            return PlacementReport("s", ok=True, iad="iad1", known=REPORT.known[:2])

        def ask_move(self, request, _timeout_ms):
            asked.append(request)
            return report

    monkeypatch.setattr("fleet.query.placement.Operator", Operator)
    unit = "home:client/app/log:1"
    assert run(["placement", "move", unit, "iad2", "--operator", "ipc:///run/o"]) == status
    assert asked == [MoveUnit("move", "home", "client/app/log:1", "iad2")]
    out, err = capsys.readouterr()
    assert out == shown
    assert report.message in err


def test_a_subscription_whose_client_named_masters_moves_as_any_unit(monkeypatch, capsys):
    home = HomeFacts("client/app/log:1", {"iad1": 0.0, "iad2": 2.0})
    facts = structs.replace(REPORT.known[0].facts, mode="open", pins=(), homes=(home,))
    known = (structs.replace(REPORT.known[0], facts=facts), REPORT.known[1])
    asked = []

    def ask(_self, request):
        asked.append(request)
        return PlacementReport("s", ok=True, iad="iad1", known=known)

    monkeypatch.setattr(Asker, "_ask", ask)
    operator = ["--operator", "tcp://127.0.0.1:1"]
    unit = UnitName("home", "client/app/log:1")
    assert run(["placement", "move", "home:client/app/log:1", "iad2", *operator]) == 0
    assert capsys.readouterr().out == f"moving home client/app/log:1 to iad2; {FOLLOW}\n"
    assert asked[-1] == ApplyPlan("move", (PlannedMove(unit, "iad1", "iad2"),))
    assert run(["placement", "pin", "home:client/app/log:1", "iad2", *operator]) == 0
    assert asked[-1] == PinUnit("pin", unit, "iad2")
    assert run(["placement", "unpin", "home:client/app/log:1", *operator]) == 0
    assert asked[-1] == PinUnit("unpin", unit)
    lines = shown(
        placement_screen.show,
        PlacementReport("s", ok=True, iad="iad1", known=known),
        view_of(PlacementReport("s", ok=True, iad="iad1", known=known)),
    )
    assert any(line.startswith("home client/app/log:1") for line in lines)


def test_what_is_delegated_is_told_and_its_price_is_without_the_penalty():
    first, *others = REPORT.known
    facts = structs.replace(first.facts, mode="open", pins=(), delegate="iad1")
    report = structs.replace(REPORT, known=(structs.replace(first, facts=facts), *others))
    view = view_of(report)
    lines = shown(placement_screen.show, report, view)
    assert (
        "processor comfort is delegated to iad1: no other master has room within the limits"
        in lines
    )
    rows = view.price.why(view.unit("comfort"))
    lines = shown(placement_screen.show_why, report, view, view.unit("comfort"), rows)
    row = next(line for line in lines if line.startswith("iad1"))
    assert row.endswith("it lives here, only where no other has room")
    assert "e+" not in row
    plan = Plan("ffd", (PlannedMove(UNIT, "iad1", "iad2"),), (1.0, 0.5), (2, 1), delegated=(1, 0))
    assert shown(placement_screen.show_plan, plan, None)[-1] == "delegated topics 1 → 0"
