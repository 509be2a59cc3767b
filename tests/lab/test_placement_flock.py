"""`fleet lab placement-flock`: clones that move by themselves between real masters."""

import csv

import pytest

from agent.wire.records import MoveRecord
from fleet.cli.commands import run as fleet
from lab.placement.flock import tables
from lab.placement.flock.run import Costs, Found
from lab.placement.flock.world import CIRCLE, NEAREST_S, Setting, draw
from lab.placement.sequences import Check, Sequence


def test_a_world_has_as_many_devices_at_each_master_and_circles_of_clones():
    setting = Setting(masters=4, clones=18)
    world = draw(setting, 1)
    assert world == draw(setting, 1)
    assert world != draw(setting, 2)
    assert sorted(world.homes.count(iad) for iad in world.iads) == [4, 4, 5, 5]
    assert world.room * setting.masters > setting.clones
    for (one, other), way_s in world.ways_s.items():
        assert way_s == world.ways_s[other, one] > NEAREST_S
    for n, peers in enumerate(world.peers):
        assert all(n in world.peers[other] and n // CIRCLE == other // CIRCLE for other in peers)
    assert [len(peers) for peers in world.peers] == [4] * 15 + [2] * 3


def test_what_is_missing_double_or_out_of_order_is_counted():
    sequence = Sequence()
    for number, reading in ((4, 10), (5, 11), (7, 14), (6, 12), (7, 14), (9, 16)):
        sequence.take(number, reading)
    check = Check()
    sequence.add_to(check)
    # Readings 13 and 15 became no output that came.
    assert check == Check(outputs=5, lost=1, doubled=1, reordered=1, unanswered=2)
    again = Sequence()
    again.take(1, 1)
    again.take(2, 1)  # of the same reading, under another number
    again.add_to(check)
    assert (check.outputs, check.doubled) == (7, 2)
    Sequence().add_to(check)  # Nothing came yet.
    assert check.outputs == 7


def made(unit, moved_ms, pause_ms, state="settled"):
    return MoveRecord("iad1", 1_000, 0.0, "processor", unit, "iad1", "iad2", state, "drift",
                      pause_ms, moved_ms)  # fmt: skip


def test_tables_say_what_was_found():
    setting = Setting(masters=2, clones=4, round_s=2.0)
    found = Found(
        world=draw(setting, 1),
        setting=setting,
        began_ms=2_000.0,
        moves=[
            made("b", 9_000.0, 30.0),
            made("a", 500.0, 10.0),
            made("a", 3_000.0, None, "aborted"),
        ],
        settled=True,
        unsettled=1,
        costs=Costs(homes=3.0, drift=1.1, planned=1.0, after_plan=1.05),
        check=Check(outputs=100, lost=1),
        heard=4,
        rounds=50,
        rounds_failed=2,
    )
    shown = tables.tables(found)
    said = {row[0]: row[1] for table in shown.values() for row in table.rows}
    assert said["moves a clone"] == "0.50"
    assert said["moves that came to nothing"] == "1"
    assert said["of these before the end of the quiet minute"] == "1"
    assert said["the same in rounds of 2 s"] == "4"
    assert said["clones that would still gain more than a move costs"] == "1"
    assert (said["lost"], said["doubled"], said["p50"], said["p99"]) == ("1", "0", "10.0", "30.0")
    assert shown["cost"].rows[1] == ["as drift left them", "1.100", "1.100"]
    assert [row[0] for row in tables.rows(found)] == ["a", "a", "b"]
    assert tables.rows(found)[0][-1] == "-0.50"


@pytest.mark.long
def test_clones_move_by_themselves_between_real_masters(tmp_path):
    words = "--masters 3 --clones 9 --every 1 --seed 1"
    folders = ["--directory", str(tmp_path / "run"), "--results", str(tmp_path)]
    assert fleet(["lab", "placement-flock", *words.split(), *folders]) == 0
    found = {
        row[0]: row[1:]
        for path in (tmp_path / "placement-flock").glob("*.csv")
        for row in csv.reader(path.read_text("utf-8").splitlines())
    }
    assert found["settled"][0] == "yes"
    assert found["topics that each has heard"][0] == "9"
    # Their order is kept for subscribers whose master is never away for two seconds, which a busy
    # machine cannot promise: tests/master/moves/test_handover_process.py holds it.
    assert [found[each][0] for each in ("lost", "doubled")] == ["0", "0"]
    assert int(found["outputs that came to them"][0]) > 0
    assert int(found["moves"][0]) > 0
    before = float(found["all clones at their devices' masters"][0])
    assert before > float(found["as drift left them"][0])
