"""`fleet export`: readings and aggregates in files, whole windows in slices."""

from __future__ import annotations

import math

import pytest
from msgspec import structs

from agent.client import NoReplyError
from agent.wire.buckets import MAX_BUCKETS, Buckets
from agent.wire.messages import (
    Aggregate,
    AreaResult,
    ChannelAggregate,
    Missing,
    Window,
)
from fleet.cli.commands import run as run_command
from fleet.common import exits
from fleet.query import export
from fleet.query.export_rows import COLUMNS, aggregates, readings, rows_of, units_of
from tests.fleet.query.export_rig import (
    T_MS,
    WINDOW,
    Master,
    answer,
    exporter,
    rows_of_file,
    series,
)


@pytest.fixture
def run(monkeypatch, tmp_path):
    return exporter(monkeypatch, tmp_path)


def test_readings_of_several_areas_are_rows_by_time():
    found = readings(
        answer(
            [
                series("b1/r2", [1_000, 3_000], {"temperature": [21.6, 21.7]}),
                series(
                    "b1/r1",
                    [1_000, 2_000, 3_000],
                    {"humidity": [40.5, math.nan, 41.0], "temperature": [math.nan, 70.0, math.nan]},
                    {"temperature": [0, 8, 1], "humidity": [0, 0, 48]},
                ),
            ]
        )
    )
    assert [(row[0], row[2], row[3], row[4], row[6]) for row in found] == [
        (1_000, "b1/r1", "humidity", 40.5, ""),
        (1_000, "b1/r2", "temperature", pytest.approx(21.6), ""),
        (2_000, "b1/r1", "temperature", 70.0, "spike"),
        (3_000, "b1/r1", "humidity", 41.0, "flatline;drift"),
        (3_000, "b1/r1", "temperature", None, "no_response"),
        (3_000, "b1/r2", "temperature", pytest.approx(21.7), ""),
    ]


@pytest.mark.parametrize("form", ["series", "aggregate", "buckets"])
def test_units_are_what_the_nodes_told_and_rooms_have_their_names(form):
    room = {
        "series": series("b1/r1", [1_000], {"noise": [40.0]}),
        "aggregate": AreaResult(
            "b1/r1", aggregate=Aggregate(0, 1, {"noise": ChannelAggregate(1, 1.0, 1.0, 1.0)})
        ),
        "buckets": AreaResult(
            "b1/r1",
            buckets=Buckets(
                0, 9, {"noise": Master.buckets(WINDOW, 9).buckets.channels["humidity"]}
            ),
        ),
    }[form]
    named = structs.replace(room, name="Meeting 4.13")
    units = units_of(Master().about(["b1/r1"]))
    where = [column.name for column in COLUMNS[form]]
    for given, unit in ((units, "decibel"), ({}, "")):
        for row in rows_of(answer([named]), form, given):
            told = dict(zip(where, row, strict=True))
            assert (told["unit"], told["name"]) == (unit, "Meeting 4.13")
    assert units["b1/r1", "humidity"] == "%"


def test_a_master_of_an_earlier_version_tells_no_units(run, tmp_path):
    class Earlier(Master):
        def about(self, areas, **_):
            return answer(status="refused", reason="malformed", message="Invalid enum $.form")

    assert run(Earlier(), Window(last_s=60.0))[0] == exits.DONE
    assert {row["unit"] for row in rows_of_file(tmp_path / "out.csv")} == {"°C"}


def test_last_known_values_of_a_clone_are_no_readings():
    stale = AreaResult("b1/r1", series=series("x", [1], {"a": [1.0]}).series, stale_ms=5)
    assert list(readings(answer([stale]))) == []


def test_a_long_window_is_asked_in_slices_and_is_whole(run, tmp_path):
    master = Master()
    status, pauses = run(master, Window(last_s=86_400.0))
    assert (status, pauses) == (exits.DONE, [])
    assert len(master.asked) > 3
    rows = rows_of_file(tmp_path / "out.csv")
    assert list(rows[0]) == [column.name for column in COLUMNS["series"]]
    assert len(rows) == 2 * 8_640
    times = [(int(row["time_ms"]), row["area"]) for row in rows]
    assert times == sorted(set(times))
    assert {**rows[0], "value": ""} == {
        "time": "2026-11-17T11:06:50.000Z", "time_ms": str(T_MS - 86_400_000 + 10_000),
        "area": "b1/r1", "channel": "temperature", "value": "", "unit": "°C", "quality": "",
        "name": "",
    }  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_values_have_the_seven_digits_that_they_hold(run, tmp_path):
    class Warm(Master):
        def query(self, areas, *, window, **options):
            return answer([series("b1/r1", [T_MS - 5_250], {"temperature": [23.46]})])

    run(Warm(), Window(last_s=10.0))
    (row,) = rows_of_file(tmp_path / "out.csv")
    assert row["value"] == "23.46"
    assert row["time"] == "2026-11-18T11:06:34.750Z"


def test_a_slice_that_does_not_fit_is_asked_again_shorter(run, tmp_path):
    too_large = answer(missing=[Missing("b1/r1", "too_large", longest_s=20.0)], status="partial")
    master = Master({1: too_large})
    status, _ = run(master, Window(last_s=600.0))
    assert status == exits.DONE
    assert [round(window.length_s) for window, _ in master.asked[:2]] == [60, 20]
    assert len(rows_of_file(tmp_path / "out.csv")) == 120


class Never(Master):
    """The readings of one room never fit: of any slice, or of those longer than a second."""

    def __init__(self, fits):
        super().__init__()
        self.fits = fits

    def query(self, areas, *, window, **options):
        if self.fits and window.length_s <= 1.0:
            return super().query(areas, window=window, **options)
        whole = super().query(areas[:1], window=window, **options)
        return answer(whole.results, [Missing("b1/r2", "too_large", longest_s=1e-9)], "partial")


@pytest.mark.parametrize("fits", [False, True])
def test_an_area_whose_readings_never_fit_does_not_hold_up_the_others(run, tmp_path, capsys, fits):
    master = Never(fits)
    status, _ = run(master, Window(last_s=86_400.0))
    assert status == exits.FAILED
    assert "missing b1/r2" in capsys.readouterr().err
    rows = rows_of_file(tmp_path / "out.csv")
    assert len([row for row in rows if row["area"] == "b1/r1"]) == 8_640
    assert len(master.asked) < 100


def test_what_is_missing_is_told_and_the_rest_is_kept(run, tmp_path, capsys):
    gap = Missing("b1/r2", "node_down")
    none = Missing("b1/r3", "no_data")

    class Partly(Master):
        def query(self, areas, *, window, **options):
            whole = super().query(areas[:1], window=window, **options)
            return answer(whole.results, [gap, none], "partial")

    status, _ = run(Partly(), Window(last_s=60.0))
    assert status == exits.FAILED
    err = capsys.readouterr().err
    assert "missing b1/r2: its edge node is down\n" in err
    assert "missing b1/r3: no readings in the window\n" in err
    assert "6 readings of 1 area written to" in err
    assert len(rows_of_file(tmp_path / "out.csv")) == 6


def test_areas_that_are_missing_for_one_reason_are_one_line(run, capsys):
    away = [Missing(f"b1/r{n}", "node_down") for n in range(20, 60)]

    class Partly(Master):
        def query(self, areas, *, window, **options):
            whole = super().query(areas[:1], window=window, **options)
            return answer(whole.results, away, "partial")

    status, _ = run(Partly(), Window(last_s=60.0))
    assert status == exits.FAILED
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("missing")]
    assert len(said) == 1
    assert said[0].endswith("b1/r35 and 24 more: its edge node is down")


def test_a_pause_of_an_area_is_no_missing_area(run, capsys):
    class Sleeps(Master):
        def query(self, areas, *, window, **options):
            whole = super().query(areas, window=window, **options)
            if len(self.asked) == 2:
                return answer(whole.results[:1], [Missing("b1/r2", "no_data")], "partial")
            return whole

    status, _ = run(Sleeps(), Window(last_s=3_600.0))
    assert status == exits.DONE
    assert "missing" not in capsys.readouterr().err


def test_what_a_moment_may_mend_is_asked_again(run):
    busy = answer(status="refused", reason="over_rate", message="one query a second")
    late = answer(missing=[Missing("b1/r1", "timeout")], status="partial")
    master = Master({1: busy, 2: late, 5: NoReplyError("silent")})
    status, pauses = run(master, Window(last_s=86_400.0))
    assert status == exits.DONE
    assert pauses == [1.0, 2.0, 1.0]


def test_what_is_away_is_waited_for_once_and_said(run, capsys):
    away = answer(
        missing=[Missing(f"b1/r{n}", "iad_unreachable") for n in range(4)], status="partial"
    )
    master = Master(dict.fromkeys(range(1, 1_000), away))
    status, pauses = run(master, Window(last_s=30 * 86_400.0))
    assert len(master.asked) > len(pauses) + 1, "one slice"
    assert (status, pauses) == (exits.FAILED, [*export.PAUSES_S])
    said = capsys.readouterr().err
    assert said.startswith("waiting for b1/r0, b1/r1 and 2 more: its IAD's master did not answer\n")
    assert said.count("waiting for") == 1


def test_what_came_back_is_waited_for_again(run):
    away = answer(missing=[Missing("b1/r1", "timeout")], status="partial")
    first = range(1, len(export.PAUSES_S) + 2)
    again = first.stop + 1  # the slice between is answered
    _, pauses = run(Master(dict.fromkeys([*first, again], away)), Window(last_s=86_400.0))
    assert pauses == [*export.PAUSES_S, export.PAUSES_S[0]]


def test_without_an_answer_a_file_stays_as_it_was(run, tmp_path, capsys):
    (tmp_path / "out.csv").write_text("of yesterday\n")
    gap = Missing("b1/f44", "no_node", nearest=("b1/f4",))
    status, _ = run(Master({1: answer(missing=[gap], status="partial")}), Window(last_s=60.0))
    assert status == exits.USAGE
    assert (tmp_path / "out.csv").read_text() == "of yesterday\n"
    assert [*tmp_path.iterdir()] == [tmp_path / "out.csv"]
    said = capsys.readouterr().err
    assert said.startswith("fleet: no area b1/f44; did you mean b1/f4?; nothing to export; ")
    assert said.endswith("nothing to export; " + str(tmp_path / "out.csv") + " is as it was\n")


def test_without_an_answer_no_file_is_spoken_of_that_is_not_there(run, tmp_path, capsys):
    status, _ = run(Master({1: answer(status="partial")}), Window(last_s=60.0))
    assert status == exits.FAILED
    assert capsys.readouterr().err.endswith("nothing to export\n")


def test_a_refusal_leaves_no_file(run, tmp_path, capsys):
    no = answer(status="refused", reason="unknown_service", message="there is no service x")
    status, pauses = run(Master({1: no}), Window(last_s=60.0))
    assert (status, pauses) == (exits.REFUSED, [])
    assert capsys.readouterr().err == "fleet: refused: there is no service x\n"
    assert list(tmp_path.iterdir()) == []


def test_no_master_is_no_reply_at_once(run, tmp_path):
    status, pauses = run(Master({1: NoReplyError("nobody there")}), Window(last_s=60.0))
    assert (status, pauses) == (exits.NO_REPLY, [])
    assert list(tmp_path.iterdir()) == []


def test_aggregates_are_a_row_a_channel(run, tmp_path):
    channels = {
        "temperature": ChannelAggregate(3, 20.0, 21.0, 22.5, bad=1, suspect=2),
        "humidity": ChannelAggregate(0, bad=4),
    }
    found = answer([AreaResult("b1/r1", aggregate=Aggregate(T_MS - 9_000, T_MS, channels))])
    assert len(list(aggregates(found))) == 2
    master = Master({1: found})
    assert run(master, Window(last_s=3_600.0), form="aggregate")[0] == exits.DONE
    ((window, _),) = master.asked
    assert window == Window(last_s=3_600.0)
    humidity, temperature = rows_of_file(tmp_path / "out.csv")
    assert list(humidity) == [column.name for column in COLUMNS["aggregate"]]
    assert (humidity["count"], humidity["bad"], humidity["mean"]) == ("0", "4", "")
    assert (temperature["min"], temperature["mean"], temperature["max"]) == ("20", "21", "22.5")
    assert temperature["unit"] == "°C"


def test_buckets_of_a_long_window_are_asked_in_slices_and_begin_at_their_multiples(run, tmp_path):
    master = Master()
    window = Window(start_ms=T_MS - 10_000_000_123, end_ms=T_MS)
    assert run(master, window, form="buckets", bucket_s=300.0)[0] == exits.DONE
    lengths = [round(window.length_s) for window, _ in master.asked]
    assert lengths[0] == 100 * 300
    assert max(lengths) <= MAX_BUCKETS * 300
    rows = rows_of_file(tmp_path / "out.csv")
    assert list(rows[0]) == [column.name for column in COLUMNS["buckets"]]
    starts = [int(row["start_ms"]) for row in rows]
    assert starts == sorted(set(starts))
    assert {start % 300_000 for start in starts} == {0}
    assert starts[0] == (T_MS - 10_000_000_123) // 300_000 * 300_000
    assert {(row["count"], row["bad"], row["mean"]) for row in rows} == {("5", "0", "21.5")}


def test_parquet_has_the_same_rows(run, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    window = Window(start_ms=T_MS - 7_200_000, end_ms=T_MS)
    assert run(Master(), window)[0] == exits.DONE
    assert run(Master(), window, target="out.parquet", kind="parquet")[0] == exits.DONE
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.field("time").type == pa.timestamp("ms", "UTC")
    rows = rows_of_file(tmp_path / "out.csv")
    assert table.num_rows == len(rows) == 1_440
    assert table.column("time_ms").to_pylist() == [int(row["time_ms"]) for row in rows]
    values = [f"{value:.7g}" for value in table.column("value").to_pylist()]
    assert values == [row["value"] for row in rows]
    assert set(table.column("area").to_pylist()) == {"b1/r1", "b1/r2"}


def test_a_start_in_the_future_is_called_so(capsys, tmp_path):
    """Nobody gave an end."""
    place = ["export", "--master", "tcp://127.0.0.1:1", "--area", "b1"]
    assert (
        run_command([*place, "--since", "2999-01-01", "--csv", str(tmp_path / "x.csv")])
        == exits.USAGE
    )
    assert "--since is in the future" in capsys.readouterr().err
    both = ["--since", "2026-01-02", "--until", "2026-01-01", "--csv", str(tmp_path / "x.csv")]
    assert run_command([*place, *both]) == exits.USAGE
    assert "--since must be before --until" in capsys.readouterr().err


def test_an_unknown_area_beside_others_is_a_mistake_of_the_command(run, tmp_path, capsys):
    found = series("b1/r1", [T_MS - 60_000, T_MS - 1_000], {"humidity": [40.0, 41.0]})
    gap = Missing("b1/r9", "no_node", unknown=True)
    master = Master({1: answer([found], missing=[gap], status="partial")})
    assert run(master, Window(last_s=60.0))[0] == exits.USAGE
    assert len(rows_of_file(tmp_path / "out.csv")) == 2
    assert capsys.readouterr().err == (
        f"2 readings of 1 area written to {tmp_path / 'out.csv'}\n"
        "fleet: no area b1/r9; `fleet areas` lists what there is\n"
    )


@pytest.mark.parametrize(
    ("options", "held"),
    [({}, "59m50s"), ({"form": "buckets", "bucket_s": 60.0}, "at most 59m")],
)
def test_less_than_was_asked_is_told(run, capsys, options, held):
    class Young(Master):
        def query(self, areas, *, window, **rest):
            if window.end_ms <= T_MS - 3_600_000:
                return answer((), [Missing(areas[0], "no_data")], "partial")
            start_ms = max(window.start_ms, T_MS - 3_600_000)
            window = Window(start_ms=start_ms, end_ms=window.end_ms)
            return super().query(areas[:1], window=window, **rest)

    day = Window(start_ms=T_MS - 86_400_000, end_ms=T_MS)
    assert run(Young(), day, **options)[0] == exits.DONE
    assert f"b1/r1 holds {held} of the 1d asked\n" in capsys.readouterr().err
    assert run(Master(), day, **options)[0] == exits.DONE
    assert "holds" not in capsys.readouterr().err


def test_a_channel_that_nobody_has_is_a_mistake_of_the_command(run, capsys):
    gap = Missing("b1/r1", "no_channel", channels=("humidity", "temperature"))
    master = Master({1: answer((), [gap], "partial")})
    status, _ = run(master, Window(last_s=60.0), channels=("temprature",))
    assert status == exits.USAGE
    assert capsys.readouterr().err == (
        "fleet: no channel temprature in b1/r1; there are humidity, temperature; "
        "did you mean temperature?; nothing to export\n"
    )


def test_a_channel_that_is_lacking_beside_others_is_told(run, capsys):
    names = ("temperature", "humidty")
    status, _ = run(Master(), Window(last_s=60.0), channels=names)
    assert status == exits.DONE
    assert "no area that answered gives humidty\n" in capsys.readouterr().err
