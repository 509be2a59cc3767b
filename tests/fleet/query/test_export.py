"""`fleet export`: readings and aggregates in files, whole windows in slices."""

from __future__ import annotations

import csv
import io
import math
import os
import stat
import sys
from pathlib import Path

import pytest
from msgspec import structs

from agent.client import NoReplyError
from agent.wire.about import About, ChannelInfo
from agent.wire.buckets import MAX_BUCKETS, Buckets, ChannelBuckets
from agent.wire.messages import (
    Aggregate,
    Answer,
    AreaResult,
    ChannelAggregate,
    Coverage,
    Missing,
    Series,
    Slo,
    Window,
)
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from fleet.cli.commands import run as run_command
from fleet.common import exits
from fleet.query import export
from fleet.query.export_files import csv_file
from fleet.query.export_rows import COLUMNS, aggregates, readings, rows_of, units_of

T_MS = 1_795_000_000_000
WINDOW = Window(start_ms=0, end_ms=9)


def series(area, times, channels, quality=None):
    return AreaResult(
        area,
        series=Series(
            Int64Column.of(times),
            {name: Float32Column.of(values) for name, values in channels.items()},
            quality={name: UInt8Column.of(each) for name, each in (quality or {}).items()},
        ),
    )


def answer(results=(), missing=(), status="complete", reason=None, message=""):
    return Answer(
        id="q1", status=status, elapsed_ms=5.0, slo_met=True,
        coverage=Coverage(len(results), len(results) + len(missing)),
        results=tuple(results), missing=tuple(missing), reason=reason, message=message,
    )  # fmt: skip


class Master:
    """Answers queries for the series of two rooms, a reading every 10 s; as `trouble` says."""

    def __init__(self, trouble=None):
        self.asked = []
        self.trouble = trouble or {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def about(self, areas, **_):
        channels = (ChannelInfo("humidity", "percent"), ChannelInfo("noise", "decibel"))
        return answer([AreaResult(area, about=About(channels)) for area in areas])

    def query(self, areas, *, window, **options):
        self.asked.append((window, options))
        found = self.trouble.get(len(self.asked))
        if isinstance(found, Exception):
            raise found
        if found is not None:
            return found
        if options["form"] == "buckets":
            return answer([self.buckets(window, round(options["bucket_s"] * 1e3))])
        first_ms = -(-window.start_ms // 10_000) * 10_000
        times = range(first_ms, window.end_ms, 10_000)
        values = [20 + time_ms / 10_000 % 7 for time_ms in times]
        return answer([series(area, times, {"temperature": values}) for area in areas])

    @staticmethod
    def buckets(window, length_ms):
        count = -(-(window.end_ms - window.start_ms) // length_ms)
        counts = [5 if n % 2 == 0 else 0 for n in range(count)]
        values = [21.5 if each else math.nan for each in counts]
        column = Float32Column.of(values)
        of = ChannelBuckets(UInt32Column.of(counts), column, column, column)
        return AreaResult("b1/r1", buckets=Buckets(window.start_ms, length_ms, {"humidity": of}))


@pytest.fixture
def run(monkeypatch, tmp_path):
    """The command against a master; its status, pauses and what it asked."""

    def run(master, window, target="out.csv", form="series", kind="csv", bucket_s=None):
        monkeypatch.setattr(export, "Client", lambda *_: master)
        pauses = []
        options = export.Options(
            master="tcp://127.0.0.1:1", areas=("b1/r1", "b1/r2"), window=window, channels=(),
            form=form, slo=Slo(99.0, 10_000.0), timeout_ms=None, service="default",
            target=None if target is None else tmp_path / target, kind=kind, bucket_s=bucket_s,
        )  # fmt: skip
        status = export.run(options, now_ms=lambda: T_MS, pause=pauses.append)
        return status, pauses

    return run


def rows_of_file(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


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


def test_a_folder_that_is_not_there_is_one_line(run, tmp_path, capsys):
    status, _ = run(Master(), Window(last_s=60.0), target="no/such/out.csv")
    assert status == exits.FAILED
    err = capsys.readouterr().err
    assert err == f"fleet: {tmp_path}/no/such/out.csv: No such file or directory\n"


def test_a_pipe_gets_the_rows_and_stays_a_pipe(run, tmp_path):
    pipe = tmp_path / "out.csv"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(Master(), Window(last_s=60.0))[0] == exits.DONE
        assert pipe.is_fifo()
        assert len(list(csv.DictReader(io.StringIO(os.read(reader, 65_536).decode())))) == 12
    finally:
        os.close(reader)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_stays_and_its_file_has_the_rows(run, tmp_path):
    (tmp_path / "disk").mkdir()
    file = tmp_path / "disk" / "rooms.csv"
    (tmp_path / "out.csv").symlink_to(file)
    for _ in range(2):  # a file that is not there yet, and one that is
        assert run(Master(), Window(last_s=60.0))[0] == exits.DONE
        assert (tmp_path / "out.csv").readlink() == file
        assert len(rows_of_file(file)) == 12


def test_a_file_keeps_its_rights(run, tmp_path):
    """What only its owner may read is not for all because it is newer."""
    file = tmp_path / "out.csv"
    file.touch(0o600)
    assert run(Master(), Window(last_s=60.0))[0] == exits.DONE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(rows_of_file(file)) == 12


def test_the_longest_name_of_a_file_is_one(run, tmp_path):
    name = "x" * 251 + ".csv"
    assert run(Master(), Window(last_s=60.0), target=name)[0] == exits.DONE
    assert len(rows_of_file(tmp_path / name)) == 12


def test_a_link_beside_the_file_leads_nowhere(run, tmp_path):
    """In a folder that others may write to."""
    other = tmp_path / "precious"
    other.write_text("mine")
    (tmp_path / f".out.csv.{os.getpid()}.part").symlink_to(other)
    assert run(Master(), Window(last_s=60.0))[0] == exits.DONE
    assert other.read_text() == "mine"


def test_links_in_a_circle_are_one_line(run, tmp_path, capsys):
    (tmp_path / "out.csv").symlink_to(tmp_path / "out.csv")
    assert run(Master(), Window(last_s=60.0))[0] == exits.FAILED
    err = capsys.readouterr().err
    assert err == f"fleet: {tmp_path}/out.csv: Too many levels of symbolic links\n"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_full_disk_is_one_line_and_leaves_no_file(run, tmp_path, capsys, kind):
    (tmp_path / "out").symlink_to("/dev/full")
    assert run(Master(), Window(last_s=60.0), target="out", kind=kind)[0] == exits.FAILED
    assert capsys.readouterr().err == f"fleet: {tmp_path}/out: No space left on device\n"
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_a_full_disk_behind_stdout_is_one_line(run, capsys, monkeypatch):
    full = Path("/dev/full").open("w")  # noqa: SIM115 - closing it fails
    monkeypatch.setattr(sys, "stdout", full)
    assert run(Master(), Window(last_s=60.0), target=None)[0] == exits.FAILED
    assert capsys.readouterr().err == "fleet: stdout: No space left on device\n"
    with pytest.raises(OSError, match="No space"):
        full.close()


def test_names_that_would_run_are_texts(tmp_path):
    areas = ("=cmd|' /C calc'!A0", "\n=1+1", "\uff20SUM(1)", "\x1b[2Jb1")
    with csv_file(tmp_path / "out.csv", COLUMNS["series"]) as sink:
        sink.write((0, 0, area, "t", 1.0, "", "", "") for area in areas)
    found = [row["area"] for row in rows_of_file(tmp_path / "out.csv")]
    assert found == ["'=cmd|' /C calc'!A0", "'\n=1+1", "'\uff20SUM(1)", "[2Jb1"]


@pytest.mark.parametrize("target", [Path(), Path("folder")])
def test_a_folder_is_no_file_and_said_before_anything_is_asked(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError), csv_file(target, COLUMNS["series"]):
        pytest.fail("it was opened")


def test_stdout_has_the_rows_alone(run, capsys):
    assert run(Master(), Window(last_s=60.0), target=None)[0] == exits.DONE
    said = capsys.readouterr()
    assert len(list(csv.DictReader(io.StringIO(said.out)))) == 12
    assert said.err == "12 readings of 2 areas written to stdout\n"


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
    found = series("b1/r1", [T_MS - 2_000, T_MS - 1_000], {"humidity": [40.0, 41.0]})
    gap = Missing("b1/r9", "no_node", unknown=True)
    master = Master({1: answer([found], missing=[gap], status="partial")})
    assert run(master, Window(last_s=60.0))[0] == exits.USAGE
    assert len(rows_of_file(tmp_path / "out.csv")) == 2
    assert capsys.readouterr().err == (
        f"2 readings of 1 area written to {tmp_path / 'out.csv'}\n"
        "fleet: no area b1/r9; `fleet areas` lists what there is\n"
    )
