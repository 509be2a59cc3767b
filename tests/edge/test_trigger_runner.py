"""Triggers as events: stored with what they change, restored, and read from the configuration."""

from __future__ import annotations

import sqlite3
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent.edge.events.faults import Faults, Happening
from agent.edge.events.trigger_config import read_triggers
from agent.edge.events.trigger_runner import RETRY_S, Alerts
from agent.edge.history.database import ADDED_TO_EVENTS
from agent.edge.history.file import HistoryError
from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from agent.edge.node_time import Moment
from agent.edge.sampling.sensor import open_sensors
from agent.triggers.condition import read_condition
from agent.wire.config import ConfigError, parse
from agent.wire.edge_config import EdgeConfig
from agent.wire.node_messages import NodeEvent
from sensors.quality.flags import SPIKE

CONFIG = """
[node]
name = "n1"
areas = ["b1/f4/r413", "b1/f4/r414"]
[master]
address = "tcp://127.0.0.1:5701"
[[sensor]]
name = "desk"
driver = "synthetic"
[[sensor]]
name = "roof"
driver = "synthetic"
channels = { temperature = { name = "roof" }, humidity = { name = "damp" } }
"""
OTHER = """
[[master.other]]
iad = "iad2"
address = "tcp://127.0.0.1:5801"
[[sensor]]
"""
HOT = """
[[trigger]]
name = "hot"
condition = "temperature > 30"
clear = "temperature < 28"
"""


def config(text: str) -> EdgeConfig:
    return parse(tomllib.loads(CONFIG + text), EdgeConfig, "edge.toml")


# Histories of the test that runs.
OPENED: list[History] = []


class Bench:
    """A node's triggers and its history, without its loop; a reading of the desk a second."""

    def __init__(self, path: Path, text: str = HOT, now: int = 0, *, unread: bool = False) -> None:
        settings = config(text)
        sensors = open_sensors(settings.sensor, path.parent)
        self.now = now
        self.refuses = False  # the disk, to write
        self.unread = unread  # or to be read
        self.history = History(
            path, "boot", group_readings=100, commit_s=10.0, retention_s=1e6, most_events=50
        )
        OPENED.append(self.history)
        self.alerts = Alerts(
            settings,
            sensors,
            [Faults(s.name, s.channels, self._raise) for s in sensors],
            self._raise,
            self,
            float(now),
        )
        self.turn()

    def _raise(self, happening: Happening) -> bool:
        if self.refuses:
            return False
        self.history.events.add(
            monotonic_ms=happening.moment.monotonic_ms,
            kind=happening.kind,
            time_ms=happening.time_ms,
            synchronised=True,
            sensor=happening.sensor,
            channel=happening.channel,
            text=happening.text,
            trigger=happening.trigger,
            value=happening.value,
            areas=happening.areas,
            definition=happening.definition,
        )
        return True

    def raised(self) -> Any:
        if self.unread:
            raise HistoryError("no")
        return self.history.events.raised()

    @property
    def masters(self) -> frozenset[str]:
        return self.history.events.masters

    def keep_masters(self, masters: Iterable[str]) -> None:
        if self.refuses:
            raise HistoryError("no")
        self.history.events.keep_masters(masters)

    def _moment(self) -> Moment:
        return Moment(1_000_000 + 1000 * self.now, 1000 * self.now, True)

    def read(self, *temperatures: float, quality: tuple[int, ...] = ()) -> None:
        for value in temperatures:
            moment = self._moment()
            sample = Sample(
                moment.time_ms, moment.monotonic_ms, True, (value, 50.0), quality=quality
            )
            self.alerts.followers[0].follow(moment, sample, "")
            self.now += 1

    def turn(self) -> None:
        self.alerts.turn(self._moment())

    def events(self) -> list[NodeEvent]:
        return [e for e in self.history.events.waiting(-1, 100) if e.trigger]

    def told(self) -> list[tuple[int, str, str]]:
        return [((e.time_ms - 1_000_000) // 1000, e.kind, e.text) for e in self.events()]

    def again(self, text: str = HOT, *, unread: bool = False) -> Bench:
        """The node after a restart."""
        path = Path(self.history.path)
        self.history.close()
        return Bench(path, text, self.now, unread=unread)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "h.sqlite"
    while OPENED:
        history = OPENED.pop()
        if history._db is not None:  # the test has not closed it
            with suppress(HistoryError):
                history.close()


def test_an_event_says_what_did_it_and_where(path: Path) -> None:
    bench = Bench(path)
    bench.read(29.5, 31.25, 32, 29, 27.5)
    raised, cleared = bench.events()
    assert raised == NodeEvent(
        raised.sequence,
        "trigger_raised",
        1_001_000,
        True,
        "desk",
        "temperature",
        "temperature > 30: temperature 31.25 celsius",
        "hot",
        31.25,
        ("b1/f4/r413", "b1/f4/r414"),
    )
    assert (cleared.kind, cleared.time_ms, cleared.value) == ("trigger_cleared", 1_004_000, 27.5)
    assert cleared.text == "temperature < 28: temperature 27.5 celsius, after 3 s"
    assert bench.alerts.counts == {"hot": 1}


def test_texts(path: Path) -> None:
    bench = Bench(
        path,
        """
[[trigger]]
name = "long"
condition = "temperature > 30"
for_s = 2
areas = ["b1/f4/r414/desk"]
[[trigger]]
name = "fast"
condition = "rate(temperature) > 12/min"
window_s = 4
""",
    )
    bench.read(29, 31, 31, 31.5, 29)
    fast, long = "rate(temperature) > 12/min", "temperature > 30"
    assert [(e.trigger, e.text) for e in bench.events()] == [
        ("fast", f"{fast}: temperature 31 celsius, 60 a minute"),
        ("long", f"{long}: temperature 31.5 celsius, for 2 s"),
        ("long", f"no longer {long}: temperature 29 celsius, after 1 s"),
        ("fast", f"no longer {fast}: temperature 29 celsius, 0 a minute, after 2 s"),
    ]
    assert {e.areas for e in bench.events() if e.trigger == "long"} == {("b1/f4/r414/desk",)}


def test_a_rate_is_told_in_three_digits(path: Path) -> None:
    bench = Bench(
        path,
        """
[[trigger]]
name = "fast"
condition = "rate(temperature) > 0.1/min"
window_s = 4
""",
    )
    bench.read(29, 29.0105473, 29.0210947)
    (event,) = bench.events()
    assert event.text.endswith(", 0.633 a minute")


def test_what_is_raised_stays_so_through_a_restart(path: Path) -> None:
    bench = Bench(path)
    bench.read(31)
    bench = bench.again()
    bench.read(31, 29)
    bench = bench.again()
    bench.read(29, 27, 31)
    assert bench.told() == [
        (0, "trigger_raised", "temperature > 30: temperature 31 celsius"),
        (4, "trigger_cleared", "temperature < 28: temperature 27 celsius"),
        (5, "trigger_raised", "temperature > 30: temperature 31 celsius"),
    ]


def test_a_power_cut_takes_neither_the_event_nor_the_state_alone(path: Path) -> None:
    """They are one transaction: a copy of the file at any time has both, or none."""
    bench = Bench(path)
    for value in (31, 27, 31):
        bench.read(value)
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            (events,) = db.execute("SELECT count(*) FROM events WHERE trigger <> ''").fetchone()
            (raised,) = db.execute("SELECT count(*) FROM raised").fetchone()
        db.close()
        assert raised == events % 2
    db = sqlite3.connect(path)
    db.execute("CREATE TRIGGER full BEFORE DELETE ON raised BEGIN SELECT RAISE(ABORT, 'no'); END")
    db.commit()
    db.close()
    with pytest.raises(HistoryError, match="not written: no"):
        bench.read(27)
    assert len(bench.events()) == 3


def test_what_a_changed_configuration_leaves_is_cleared(path: Path) -> None:
    bench = Bench(path)
    bench.read(31)
    bench = bench.again(HOT.replace("> 30", "> 31"))
    bench.read(32)
    bench = bench.again(HOT + "areas = ['b1/f4/r413']")
    bench.read(33)
    bench = bench.again("")
    assert [(e.kind, e.value, e.areas[1:], e.text.partition(":")[0]) for e in bench.events()] == [
        ("trigger_raised", 31, ("b1/f4/r414",), "temperature > 30"),
        ("trigger_cleared", None, ("b1/f4/r414",), "it was changed in the configuration"),
        ("trigger_raised", 32, ("b1/f4/r414",), "temperature > 31"),
        ("trigger_cleared", None, ("b1/f4/r414",), "it was changed in the configuration"),
        ("trigger_raised", 33, (), "temperature > 30"),
        ("trigger_cleared", None, (), "it is not in the configuration any more"),
    ]
    assert bench.history.events.raised() == []


def test_another_master_hears_of_what_is_raised(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(path)
    bench.read(31.0)
    monkeypatch.setitem(globals(), "CONFIG", CONFIG.replace("5701", "5801"))
    bench = bench.again()
    bench.read(31.0)
    why = "the node has another master now"
    assert [(kind, text) for _, kind, text in bench.told()][1:] == [
        ("trigger_cleared", why),
        ("trigger_raised", "temperature > 30: temperature 31 celsius"),
    ]
    # One of several, or one of whom only the name is the same, is no other.
    iad = CONFIG.replace("5801", '5901"\niad = "iad1').replace("[[sensor]]", OTHER, 1)
    monkeypatch.setitem(globals(), "CONFIG", iad)
    bench = bench.again()
    monkeypatch.setitem(globals(), "CONFIG", iad.replace("5901", "5902").replace("5801", "5802"))
    bench = bench.again()
    bench.read(31.0)
    assert len(bench.told()) == 3


def test_who_cannot_keep_its_masters_tells_nothing_yet(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(path)
    bench.read(31.0)
    bench.history.events.keep_masters(["tcp://127.0.0.1:5801"])
    monkeypatch.setattr(Bench, "refuses", property(lambda _: True, lambda *_: None), raising=False)
    bench = bench.again()
    bench.read(27.0)
    assert len(bench.told()) == 1
    monkeypatch.undo()
    bench.refuses = False
    bench.turn()
    bench.read(31.0)
    assert [kind for _, kind, _ in bench.told()][1:] == ["trigger_cleared", "trigger_raised"]


def test_a_change_that_cannot_be_stored_is_tried_again_and_counts_from_then(path: Path) -> None:
    bench = Bench(path)
    bench.refuses = True
    bench.read(31, 32)
    bench.refuses = False
    bench.read(33)
    assert bench.told() == [], "not before the pause is over"
    bench.now += round(RETRY_S)
    bench.read(34, 35)
    assert [(n, text) for n, _, text in bench.told()] == [
        (13, "temperature > 30: temperature 34 celsius")
    ]
    assert bench.alerts.counts == {"hot": 1}


def test_nothing_is_told_before_it_is_known_what_was_raised(path: Path) -> None:
    bench = Bench(path)
    bench.read(31)
    bench = bench.again(unread=True)
    bench.read(31, 31)
    bench.turn()
    bench.unread = False
    bench.read(31, 31)
    assert len(bench.told()) == 1
    bench.turn()
    bench.read(31, 27)
    assert [n for n, *_ in bench.told()] == [0, 6]


def test_a_silent_sensor_does_not_stay_raised(path: Path) -> None:
    bench = Bench(path, HOT + "unknown_s = 60")
    bench.read(31)
    for bench.now in range(1, 100):
        bench.turn()
    # Its value was known up to second 5.
    assert bench.told()[1:] == [(65, "trigger_cleared", "not known what temperature is for 60 s")]


def test_the_loop_waits_for_no_reading_that_is_being_stored(path: Path) -> None:
    bench = Bench(path, HOT + "unknown_s = 60")
    bench.read(31)
    bench.now = 1_000
    alerts: Any = bench.alerts.followers[0]
    with alerts._lock:
        bench.turn()
    assert len(bench.told()) == 1
    bench.turn()
    assert len(bench.told()) == 2


def test_a_spike_raises_nothing(path: Path) -> None:
    bench = Bench(path)
    bench.read(85, quality=(SPIKE, 0))
    assert bench.told() == []


def test_sensors_without_triggers_are_followed_by_their_faults_alone(path: Path) -> None:
    bench = Bench(path)
    assert [type(each).__name__ for each in bench.alerts.followers] == ["SensorAlerts", "Faults"]


# --- a history of before ------------------------------------------------------------------------


def without_triggers(path: Path) -> None:
    """The file as it was before there were triggers."""
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE raised")
        for name in ADDED_TO_EVENTS:
            db.execute(f"ALTER TABLE events DROP COLUMN {name}")
    db.close()


def test_a_history_of_before_gets_what_is_missing(path: Path) -> None:
    bench = Bench(path, "")
    bench.history.events.add(monotonic_ms=1, kind="x", time_ms=1, synchronised=False, text="old")
    bench.history.close()
    without_triggers(path)
    bench = Bench(path)
    [event] = bench.history.events.waiting(-1, 10)
    assert (event.text, event.trigger, event.value, event.areas) == ("old", "", None, ())
    bench.read(31)
    assert [e.kind for e in bench.events()] == ["trigger_raised"]


@pytest.mark.parametrize("before", [False, True])
def test_a_broken_history_leaves_its_events_and_what_is_raised(path: Path, before: bool) -> None:
    bench = Bench(path)
    bench.read(31)
    former = bench.history.id
    bench.history.close()
    if before:
        without_triggers(path)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM meta WHERE key = 'version'")
    db.close()
    bench = Bench(path)
    assert bench.history.id != former
    assert [e.kind for e in bench.history.events.waiting(-1, 10)] == ["trigger_raised"]
    bench.read(31)
    raised = [e for e in bench.history.events.waiting(-1, 10) if e.kind == "trigger_raised"]
    assert len(raised) == (2 if before else 1)


# --- the configuration --------------------------------------------------------------------------


def refusal(text: str) -> str:
    try:
        settings = config(text)
        read_triggers(settings.trigger, open_sensors(settings.sensor, "."))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "temperature > 30",
            "temprature > 30",
            "no sensor here has a channel temprature; did you mean temperature?",
        ),
        (
            "temperature > 30",
            "temperature = 30",
            "condition: at character 13: expected one of > >= < <=; got '='",
        ),
        (
            "temperature < 28",
            "max(temperature) < 28",
            "clear: max(temperature) is for queries; a node compares a channel, such as temp",
        ),
        (
            "temperature < 28",
            "humidity < 28 and damp < 3",
            "temperature is of sensor desk and damp of sensor roof; a trigger looks at one sens",
        ),
        (
            "temperature > 30",
            'rate(temperature) > 3/min"\nwindow_s = 1.5 #',
            "window_s must be from 2 to 10000: 2 to 10000 intervals of sensor desk",
        ),
        ("clear", "claer", "unknown key claer; did you mean clear?"),
        ('name = "hot"', 'name = "hot"\nfor_s = -1', "for_s must be at least 0"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_where(old: str, new: str, line: str) -> None:
    said = refusal(HOT.replace(old, new))
    assert said.removeprefix("edge.toml: ").startswith(f"trigger hot (first [[trigger]]): {line}")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            'name = "hot"',
            'name = "hot"\nareas = ["b1/f4/r41"]',
            "trigger hot: area b1/f4/r41 is none of this node's, nor below one: b1/f4/r413, ",
        ),
        ('name = "hot"', "", "the first [[trigger]]: name is missing"),
        ("[[trigger]]", "[trigger]", "write [[trigger]] in place of [trigger]"),
    ],
)
def test_so_it_is_before_there_are_triggers(old: str, new: str, line: str) -> None:
    assert line in refusal(HOT.replace(old, new))


def test_the_page_shows_triggers_that_can_be_used() -> None:
    page = (Path(__file__).parents[2] / "docs" / "use" / "triggers.md").read_text()
    shown = config(page.partition("```toml")[2].partition("```")[0]).trigger
    assert [trigger.name for trigger in shown] == ["hot", "heating-up", "stuffy"]
    for trigger in shown:
        read_condition(trigger.condition)


def test_names_are_unique() -> None:
    assert "two triggers are called hot: give one of them another name" in refusal(HOT + HOT)


def test_a_node_of_many_areas_says_which_a_trigger_is_about() -> None:
    areas = [f"b1/r{n}" for n in range(17)]
    text = CONFIG.replace('["b1/f4/r413", "b1/f4/r414"]', str(areas))
    with pytest.raises(ConfigError, match="its events cannot name all 17 areas of this node"):
        parse(tomllib.loads(text + HOT), EdgeConfig, "edge.toml")
    parse(tomllib.loads(text + HOT + "areas = ['b1/r1']"), EdgeConfig, "edge.toml")
