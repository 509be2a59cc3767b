"""`fleet lab placement-loop`: load changes floors on real masters, and topics follow."""

import csv
from datetime import UTC, datetime

import pytest

from agent.wire.overlay import Notification, Origin
from agent.wire.push import Gap, Notified
from agent.wire.records import MoveRecord
from fleet.cli.commands import run as fleet
from fleet.common import exits, extras
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.base import MOVES, PLACEMENT, PROCESSING
from fleet.lake.schema.tables.placing import MOVE_EFFECTS
from lab.placement.loop import tables
from lab.placement.loop.building import NAMES, OBJECTIVE, QUICK, Setting
from lab.placement.loop.people import AREA, People
from lab.placement.loop.run import Found, Look, Shift, Side
from lab.placement.sequences import Check


class Outputs:
    """What comes, whatever is published; None: nothing in time."""

    def __init__(self, coming):
        self.coming = [notified(each) if isinstance(each, int) else each for each in coming]
        self.ended = False

    def wait(self, _timeout_s):
        return self.coming.pop(0) if self.coming else None

    def cancel(self, _timeout_ms):
        self.ended = True


class Client:
    def __init__(self, coming):
        self.outputs = Outputs(coming)
        self.published = []

    def subscribe(self, wanted, **_):
        assert wanted == 'topic = "comfort" and kind = "output"'
        return self.outputs

    def publish(self, topic, message, **_):
        self.published.append((topic, message["area"]))


def notified(number):
    attributes = {"topic": "comfort", "area": f"{AREA}{number}"}
    return Notified("s", number + 1, Notification(Origin("a", "h", number), 0, attributes))


@pytest.mark.parametrize(
    ("coming", "outputs", "lost", "doubled", "reordered"),
    [
        ([1, 2, 3, 4], 4, 0, 0, 0),
        ([1, 2, 2, 4, 4], 3, 1, 2, 0),
        ([1, 3, 2, 4], 4, 0, 0, 1),
        ([1, 2], 2, 2, 0, 0),
        ([1, Gap("s", 3, 3), 2, 3, 4], 4, 1, 0, 0),
    ],
)
def test_what_people_do_not_get_or_get_twice_is_counted(coming, outputs, lost, doubled, reordered):
    client, check = Client(coming), Check()
    found = People(None, "a", client)
    found.subscribe("comfort")
    for _ in range(3):
        found._publish("comfort")
    found.leave(check)
    assert (check.outputs, check.lost) == (outputs, lost)
    assert (check.doubled, check.reordered) == (doubled, reordered)
    assert client.published == [("comfort", f"{AREA}{n}") for n in (1, 2, 3, 4)]
    assert client.outputs.ended


def test_what_a_topics_master_puts_out_before_it_knows_of_people_is_not_lost(monkeypatch):
    client, check = Client([None, 2]), Check()
    found = People(None, "a", client)
    monkeypatch.setattr(found, "_give_up", lambda *_: None)
    found.subscribe("comfort")
    found.leave(check)
    assert (len(client.published), check.outputs, check.lost) == (2, 1, 0)


def effect(topic, source, target, after_ms, **more):
    values = dict.fromkeys(MOVE_EFFECTS.names)
    sides = {
        f"{side}_{what}": value
        for side, ms in (("before", 2.0), ("after", after_ms))
        for what, value in (
            ("achieved_ms", ms), ("worst_ms", ms and 2 * ms), ("late_share", 0.0), ("way_ms", 10.0),
        )
    }  # fmt: skip
    time = datetime(2026, 11, 29, tzinfo=UTC)
    return values | {"iad": source, "topic": topic, "target": target, "time": time} | sides


def move(unit, pause_ms, state="settled"):
    return MoveRecord("a", 1_000, 0.0, "processor", unit, "a", "b", state, "plan", pause_ms, 90.0)


def test_tables_say_what_was_found():
    took_ms = tuple([float(n) for n in range(100, 0, -1)])
    before, after = Side(took_ms, (1.0, 2.0, 3.0)), Side(took_ms[90:], ())
    shifts = [
        Shift(floor, before, after, Look(floor, 2, f"makes {floor}"), Look(floor, 0, "stays"))
        for floor in "ba"
    ]
    found = Found(
        setting=Setting(topics=2, shifts="ba"),
        first=Look("a", 0, "stays: nothing would be cheaper elsewhere"),
        shifts=shifts,
        moves=[move("comfort", 30.0), move("calm", None, "aborted"), move("calm", 20.0)],
        effects=[
            effect("comfort", "a", "b", 4.0), effect("calm", "a", "b", None),
            effect("comfort", "b", "a", 8.0), effect("calm", "b", "a", 16.0),
        ],
        check=Check(outputs=400, lost=1),
    )  # fmt: skip
    shown = tables.tables(found)
    assert [row[:2] for row in shown["looks"].rows] == [
        ["at a, as in the beginning", "0"],
        ["gone to b", "2"], ["at b still", "0"], ["gone to a", "2"], ["at a still", "0"],
    ]  # fmt: skip
    assert shown["latencies"].rows[:2] == [
        ["1: a → b", "not yet moved", "100", "50", "90", "99", "1", "2", "3"],
        ["1: a → b", "moved", "10", "5", "9", "10", "–", "–", "–"],
    ]
    assert shown["latencies"].rows[2][0] == "2: b → a"
    assert shown["report"].rows == [
        ["1: a → b", "before", "10", "2", "4", "0.0 %"],
        ["1: a → b", "after", "10", "4", "8", "0.0 %"],
        ["2: b → a", "before", "10", "2", "4", "0.0 %"],
        ["2: b → a", "after", "10", "12", "32", "0.0 %"],
    ]
    said = {row[0]: row[1] for name in ("messages", "pauses") for row in shown[name].rows}
    assert (said["lost"], said["doubled"]) == ("1", "0")
    assert (said["moves"], said["moves that came to nothing"]) == ("2", "1")
    assert (said["p50, ms"], said["most, ms"]) == ("20", "30")
    rows = tables.rows(found)
    assert [row[tables.EFFECT.index("topic")] for row in rows] == 2 * ["comfort", "calm"]
    assert rows[1][tables.EFFECT.index("after_achieved_ms")] == ""


def test_without_spark_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(extras, "missing", lambda *_: ["pyspark"])
    assert fleet(["lab", "placement-loop"]) == exits.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("fleet: pyspark is missing; ")


@pytest.mark.parametrize(
    ("words", "setting"),
    [(["--quick"], QUICK), pytest.param([], Setting(), marks=pytest.mark.long)],
    ids=["quick", "to and fro"],
)
def test_topics_follow_the_load_from_floor_to_floor(words, setting, tmp_path, monkeypatch):
    pytest.importorskip("pyspark")
    from fleet.lake.ingest.reading import read
    from fleet.report.jobs.placing import move_effects
    from tests.fleet.spark.shared import lend, shared_session
    from tests.fleet.spark_jobs.recorded import found as rows_of

    lend(monkeypatch)
    folders = ["--directory", str(tmp_path / "run"), "--results", str(tmp_path)]
    assert fleet(["lab", "placement-loop", *words, *folders]) == 0
    names = NAMES[: setting.topics]
    found = {
        path.stem: list(csv.reader(path.read_text("utf-8").splitlines()))[1:]
        for path in (tmp_path / "placement-loop").glob("*.csv")
    }

    (_, first, stays), *looks = found["looks"]
    assert (first, stays) == ("0", "stays: nothing would be cheaper elsewhere")
    assert len(looks) == 2 * len(setting.shifts)
    for (_, moves, line), (_, again, _) in zip(looks[::2], looks[1::2], strict=True):
        assert (moves, again) == (str(len(names)), "0")
        assert line.startswith(f"makes {len(names)} moves, ")
    assert "comfort a → b" in looks[0][2]
    assert "calm a → b" in looks[0][2]

    assert len(found["latencies"]) == 2 * len(setting.shifts)
    for _, _, messages, *_ in found["latencies"]:
        assert int(messages) >= len(names)
    # Nothing is lost or doubled: each message has its output. Their order is kept for subscribers
    # whose master is never away for two seconds, which a busy machine cannot promise.
    said = {row[0]: row[1] for row in found["messages"]}
    assert (said["lost"], said["doubled"]) == ("0", "0")
    assert int(said["outputs that came to them"]) > 0

    # By the lake that the run leaves, as the report reads it.
    spark, (lake,) = shared_session(), (tmp_path / "run").glob("*/lake")
    from_lake = [read(spark, Lake(lake), table) for table in (PROCESSING, MOVES, PLACEMENT)]
    effects = rows_of(move_effects(*from_lake), MOVE_EFFECTS)
    ways = [(at, to) for at, to in zip("a" + setting.shifts, setting.shifts, strict=False)]
    assert sorted((row["iad"], row["topic"], row["target"]) for row in effects) == sorted(
        (at, name, to) for at, to in ways for name in names
    )
    for row in effects:
        assert row["reason"] == "plan"
        assert row["before_records"] > 0
        assert row["after_records"] > 0
        assert row["after_achieved_ms"] <= OBJECTIVE.latency_ms
    # A side reaches to the next move, so only after the last one nobody was on the other floor.
    for row in sorted(effects, key=lambda row: row["time"])[-len(names) :]:
        assert row["after_way_ms"] == 0.0 < row["before_way_ms"]
    headings, *written = csv.reader((tmp_path / "placement-loop.csv").read_text().splitlines())
    assert tuple(headings) == MOVE_EFFECTS.names
    assert len(written) == len(effects)
