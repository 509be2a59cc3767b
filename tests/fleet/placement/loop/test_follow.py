"""The job that follows the load: what it tells masters, and what it says."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from agent.wire.placement import PlannedMove, UnitName
from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.keys.store import Store
from fleet.lake.schema.folder import Lake
from fleet.placement.loop.decision import Caution
from fleet.placement.loop.follow import Loop, Timing, apply, of_fleet, run, step
from fleet.placement.plans import Plan
from tests.fleet.inventory.inventories import PLAIN
from tests.fleet.placement.loop.worlds import NOW, arrivals, learned, reports

SHIFTED = learned([arrivals(source="iad2", per_s=10.0)])
MOVES = "1 move, comfort iad1 → iad2: saves 200 ms/s, costs 10 ms/s"


class Masters:
    def __init__(self, told=None, refuses=lambda _iad, _moves: ""):
        self.told, self.refuses, self.asked = told or reports(), refuses, []

    def look(self):
        return self.told, []

    def apply(self, iad, moves):
        self.asked.append((iad, tuple(moves)))
        return self.refuses(iad, moves)


def taken(masters, tmp_path, **more):
    options = {"acts": True} | more
    return step(masters, SHIFTED, NOW, Lake(tmp_path), Caution(), **options)


def test_a_plan_goes_to_the_master_where_its_move_begins(tmp_path):
    masters = Masters()
    done = taken(masters, tmp_path)
    assert (done.lines, done.moves) == ((f"makes {MOVES}",), 1)
    ((iad, moves),) = masters.asked
    assert iad == "iad1"
    assert [(move.source, move.target) for move in moves] == [("iad1", "iad2")]


def test_without_leave_it_only_says_what_it_would_do(tmp_path):
    masters = Masters()
    assert taken(masters, tmp_path, acts=False).lines == (f"would make {MOVES}",)
    assert masters.asked == []


def test_a_refusal_is_told(tmp_path):
    done = taken(Masters(refuses=lambda *_: "iad2 is draining"), tmp_path)
    assert (done.lines, done.moves) == ((f"makes {MOVES}; refused: iad2 is draining",), 0)


def test_a_master_that_sees_the_others_moves_made_gets_its_own():
    def move(name, source, target):
        return PlannedMove(UnitName("processor", name), source, target)

    moves = (move("a", "iad1", "iad2"), move("b", "iad2", "iad1"))
    late = Masters(
        refuses=lambda iad, asked: "plan anew" if iad == "iad2" and len(asked) > 1 else ""
    )
    troubles, begun = apply(late, Plan("price", moves, (1.0, 0.0), (2, 2)))
    assert (troubles, begun) == ([], 2)
    assert late.asked == [("iad1", moves), ("iad2", moves), ("iad2", moves[1:])]


def test_nobody_answers(tmp_path):
    masters = Masters()
    masters.told = []
    assert taken(masters, tmp_path).lines == ("does nothing: no master answers",)


@pytest.mark.parametrize("follow", [False, True])
def test_a_fleet_is_followed_where_its_inventory_says_so(tmp_path, follow):
    folder = Folder(tmp_path)
    text = PLAIN.replace('name = "campus"\n', 'name = "campus"\n[placement]\nwindow_s = 900.0\n', 1)
    text = text.replace("[placement]\n", f"[placement]\nfollow = {str(follow).lower()}\n")
    folder.inventory.write_text(text)
    Store(folder).ensure(load(folder))
    loop = of_fleet(folder, None, dry=False)
    assert (loop.acts, loop.timing) == (follow, Timing(3_600.0, 900.0))
    assert loop.lake.root == tmp_path / "lake"
    assert not of_fleet(folder, None, dry=True).acts


@pytest.mark.parametrize(
    "error", [ValueError("cut off\nat byte 7"), PySparkException("cut off"), Py4JError("cut off")]
)
def test_a_lake_that_cannot_be_read_does_not_end_the_loop(tmp_path, monkeypatch, error):
    def fails(*_):
        raise error

    monkeypatch.setattr("fleet.spark.session.open_session", lambda *_: nullcontext())
    monkeypatch.setattr("fleet.lake.ingest.stream.ingest", fails)
    said = []
    loop = Loop(Lake(tmp_path), Masters(), lambda _: None, Timing(), acts=True)
    assert run(loop, "local", said.append, once=True) == exits.FAILED
    (line,) = said
    assert line.endswith("  does nothing: cut off")
