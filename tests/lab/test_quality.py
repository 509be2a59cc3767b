"""`fleet lab quality`: what it injects, counts and writes."""

from __future__ import annotations

import csv
import itertools
import math
import random
from pathlib import Path

import pytest

from fleet.cli.commands import run
from lab.quality import campaign, command, injection
from lab.quality.judging import Found, judge
from lab.quality.recordings import Label, RecordingError, labels, read
from lab.statistics import rate, share
from sensors.quality.flags import NO_RESPONSE, OUT_OF_RANGE
from sensors.quality.limits import limits_for

MINUTES = 5 * 1_440
HOLE = range(2_000, 2_030)  # of all rooms
SPIKE_AT = 5_000  # in room 102


def temperature(room: int, minute: int) -> float:
    return 21 + room % 3 + 2 * math.sin(2 * math.pi * minute / 1_440) + 0.01 * (minute * 7 % 11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of four rooms and its labels."""
    folder = tmp_path_factory.mktemp("quality")
    lines = ["timestamp,room,temperature,humidity"]
    for minute in (m for m in range(MINUTES) if m not in HOLE):
        time = f"2020-01-{1 + minute // 1_440:02} {minute // 60 % 24:02}:{minute % 60:02}:00"
        for room in (101, 102, 103, 104):
            value = temperature(room, minute)
            spike = 40 * (room == 102 and minute == SPIKE_AT)
            lines.append(f"{time},{room},{value + spike:.3f},{value + 20:.3f}")
    (folder / "rooms.csv").write_text("\n".join(lines) + "\n")
    known = ["room,channel,kind,start,end,seen"]
    hole = "2020-01-02 09:20:00,2020-01-02 09:50:00"
    known += [f"{room},all,gap,{hole}," for room in (101, 102, 103, 104)]
    known += ["102,temperature,spike,2020-01-04 11:20:00,2020-01-04 11:21:00,"]
    (folder / "faults.csv").write_text("\n".join(known) + "\n")
    return folder


@pytest.fixture
def recording(folder):
    return read([folder / "rooms.csv"])


@pytest.fixture
def known(folder):
    return labels(folder / "faults.csv")


def test_a_recording_is_a_grid_of_minutes(recording):
    assert (recording.minutes, recording.rooms) == (MINUTES, ["101", "102", "103", "104"])
    assert recording.series["temperature"]["103"][77] == round(temperature(103, 77), 3)
    assert all(math.isnan(recording.series["humidity"]["101"][m]) for m in HOLE)
    assert list(recording.floors("humidity")) == ["1"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none.csv", None, "No such file"),
        ("broken.csv.gz", "not packed", "gzip"),
        ("empty.csv", "", "timestamp"),
        ("words.csv", "timestamp,temperature\nyesterday,20\n", "yesterday"),
        ("bare.csv", "timestamp,temperature\n", "no recordings"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path, name, text, said):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(RecordingError, match=said):
        read([path])


def test_healthy_rooms_have_the_common_hole_alone(recording, known):
    assert campaign.healthy(recording, known) == ["101", "103", "104"]


def test_labels_are_found_missed_and_what_has_none_is_an_alarm(recording, known):
    real = campaign.real(recording, known)
    assert (real.missed, real.alarms.told, real.healthy.told) == ([], (), ())
    assert [trial.delay_s for trial in real.trials] == [120.0] * 4 + [0.0]
    wrong = Label("101", "humidity", "spike", known[0].start_s + 1e5, known[0].start_s + 1e5 + 60)
    other = campaign.real(recording, [*known[:4], wrong])
    assert other.missed == [wrong]
    assert other.alarms.told == ("temperature of room 102: out_of_range",)
    # Room 102's one label is now the hole, so that it passes for healthy; 101's are not.
    assert len(other.healthy.told) == 1


def test_told_faults_have_their_times():
    series = [20.0] * 10 + [90.0] * 3 + [20.0] * 20 + [math.nan] * 5
    limits = limits_for("temperature", "celsius", {})
    assert judge({"a": series}, limits, 600.0, 60.0) == [
        Found("a", 1_200.0, 1_200.0, 1_380.0, OUT_OF_RANGE),
        Found("a", 2_580.0, 2_700.0, 2_880.0, NO_RESPONSE),
    ]
    assert judge({"a": series, "b": series}, limits, 600.0, 60.0, ["b"])[0].name == "b"


@pytest.mark.parametrize("channel", ["temperature", "humidity", "co2", "light"])
def test_injected_faults_are_where_their_labels_say(channel):
    series = [50.0 + 0.01 * (n % 100) for n in range(8 * 1_440)]
    faults = injection.Faults(channel, 60.0, random.Random(3))
    known = injection.sizes(channel)
    for put in (faults.short, faults.stuck, faults.drift):
        values, injected = put(series)
        assert len(values) == len(series)
        changed = {
            n for n, pair in enumerate(zip(series, values, strict=True)) if pair[0] != pair[1]
        }
        inside = {n for fault in injected for n in range(fault.start, fault.end)}
        assert changed
        assert changed <= inside
        assert all(fault.size in known[fault.kind] for fault in injected)
        for before, after in itertools.pairwise(injected):
            assert after.start - before.start >= 180


def test_the_same_seed_injects_the_same(recording):
    pieces = list(campaign.pieces(recording, ["101"], 2, seed=5))
    assert len(pieces) == 2 * 2 * 3
    assert campaign.inject(pieces[0]) == campaign.inject(pieces[0])
    assert campaign.inject(pieces[0]) != campaign.inject(pieces[3])


def test_the_common_hole_is_no_false_alarm_and_no_find(recording):
    for piece in campaign.pieces(recording, ["101"], 1, seed=5):
        result = campaign.inject(piece)
        assert result.alarms.told == ()
        if piece.mode == "drift":  # four days are too short for it
            assert [trial.delay_s for trial in result.trials] in (
                [None],
                pytest.approx([2e5], rel=0.9),
            )


def test_a_second_is_judged_with_its_neighbours():
    series = [20.0 + 0.001 * n for n in range(1_440)]
    second = campaign.Second("temperature", "101", "noisy", "1", series)
    result = campaign.every_second(second)
    assert result.alarms.weeks == pytest.approx(3 / 7, rel=0.01)
    assert result.alarms.told == ()
    assert len(result.trials) > 2


@pytest.mark.parametrize(
    ("events", "low", "high"), [(0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.39)]
)
def test_the_interval_of_a_count_is_the_exact_one(events, low, high):
    found = rate(events, 2.0)
    assert found.found == events / 2
    assert (2 * found.low, 2 * found.high) == pytest.approx((low, high), rel=1e-3)


def test_the_interval_of_a_share_holds_it():
    assert share(0, 10).low == 0.0 == share(0, 10).found
    assert share(10, 10).high == 1.0
    # Wilson (1927); Newcombe (1998), table I.
    assert (share(81, 263).low, share(81, 263).high) == pytest.approx((0.2553, 0.3662), abs=1e-4)


def test_the_command_writes_page_data_and_picture(folder, tmp_path, capsys):
    """In this process, and with half a day at 1 Hz in place of all."""
    options = command.Options(
        folder / "rooms.csv", folder / "faults.csv", tmp_path / "out", rounds=1, rooms=2, seed=1,
        jobs=1,
    )  # fmt: skip
    extent = command.Extent(noises=("quiet",), minutes=720, readings=100)
    status = command.run(
        options, extent, lambda work, given, jobs: campaign.Result.of(map(work, given))
    )
    assert status == 0
    assert "labelled faults found: 5 of 5" in capsys.readouterr().out
    page = (tmp_path / "out" / "quality.md").read_text()
    assert "`fleet lab quality --data rooms.csv --labels faults.csv --rounds 1 --rooms 2" in page
    assert "| temperature | spike | 1 | 1 | 0 s |" in page
    with (tmp_path / "out" / "quality.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["part"] for row in rows} == {"recording", "injected", "1 Hz"}
    assert all(0 <= int(row["found"]) <= int(row["n"]) for row in rows)
    assert (tmp_path / "out" / "quality.svg").read_text().count("<svg") == 1


def test_a_wrong_file_is_one_line_and_status_2(folder, tmp_path, capsys):
    asked = ["--data", str(folder / "faults.csv"), "--results", str(tmp_path)]
    assert run(["lab", "quality", *asked]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "faults.csv" in said
