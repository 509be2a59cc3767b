"""A report from a small lake, whose numbers are known, and what SQL says of both."""

import csv
import json
import os
import re
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner

from fleet.cli import commands
from fleet.common import exits
from fleet.lake.schema.tables import base
from fleet.lake.sql import answers, views
from fleet.report import write as writing
from fleet.report.job_table import Sources, jobs
from fleet.report.jobs import slo
from fleet.report.page.page import PAGE
from fleet.spark import session
from fleet.spark.errors import spoken
from tests.fleet.report.frames import QUERY, SUBTASK, TASK, T, frame, hours, small_lake
from tests.fleet.report.reading import Page

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    return small_lake(spark, tmp_path_factory.mktemp("lake") / "lake")


@pytest.fixture
def fleet(spark, lake, monkeypatch):
    """The command, in a process that has its session already; its result."""

    @contextmanager
    def opened(name, master, settings=None):
        with spoken():
            yield spark

    monkeypatch.setattr(session, "open_session", opened)

    def run(*words):
        words = [*words, "--lake", str(lake.root)]
        done = CliRunner().invoke(commands.fleet, words, standalone_mode=False)
        if isinstance(done.exception, exits.CommandError):
            return done.exception.status, done.stdout, str(done.exception)
        assert done.exception is None, done.exception
        return done.return_value, done.stdout, done.stderr

    return run


def rows_of(folder, name):
    with (folder / "data" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def written(spark, lake):
    """One report of everything, as the command makes it."""
    said: list[str] = []
    written = writing.write(spark, lake, None, None, lake.reports / "first", said.append)
    numbers = [int(found[1]) for line in said if (found := re.search(r"table (\d+) of", line))]
    assert numbers == list(range(1, len(numbers) + 1)), "in the order in which they are begun"
    writing.point_latest(lake.reports / "first")
    return written


def test_numbers_from_records_and_readings_are_in_the_files(lake, written):
    folder = lake.reports / "first"
    (kept,) = rows_of(folder, "attainment")
    assert (kept["policy"], kept["class"], kept["queries"]) == ("edfq", "live", "10")
    # By nearest rank: the fifth and the tenth of 100 … 109.
    assert (kept["p50_ms"], kept["p99_ms"], kept["attainment"]) == ("104.0", "109.0", "1.0")
    (spent,) = rows_of(folder, "time_spent")
    assert (spent["queueing_ms"], spent["unloaded_ms"]) == ("45.0", "60.0")
    (hour,) = rows_of(folder, "node_hours")
    assert (hour["subtasks"], hour["missed"], hour["violations"]) == ("10", "1", "10.0")
    (climate,) = rows_of(folder, "climate_hours")
    assert (climate["area"], climate["readings"], climate["bad"]) == ("b1/r1", "60", "2")
    (whole,) = rows_of(folder, "contents")
    assert (whole["nodes"], whole["readings"], whole["failed"]) == ("1", "60", "1")
    assert whole["first"] == "2026-11-20T10:00:00Z"
    assert written.rows["attainment"] == 1
    assert all(os.path.exists(path) for path in (*written.data, *written.pictures))  # noqa: PTH110 - the paths are texts, for JSON


def test_a_warm_up_is_in_no_judgement_of_time_and_deadlines(spark):
    def both(table, of, **more):
        labels = ("live", "warm-up")
        rows = [{**of, **more, "time": T, "label": each, "task": each} for each in labels]
        return frame(spark, table, *rows)

    subtasks = both(base.SUBTASKS, SUBTASK, dispatched_ms=9.0, result_ms=80.0)
    tasks = both(base.TASKS, TASK, aggregated_ms=99.0)
    given = SimpleNamespace(
        queries=both(base.QUERIES, QUERY, aggregated_ms=99.0), tasks=tasks, subtasks=subtasks,
        tasks_around=tasks, subtasks_around=subtasks,
    )  # fmt: skip
    (_, (_, time_spent), (_, node_hours)) = islice(jobs(spark, None, given, None), 3)
    ((counted,),) = time_spent().select("tasks").collect()
    assert counted == 1
    ((counted,),) = node_hours().select("subtasks").collect()
    assert counted == 1


def test_page_says_what_the_files_say(lake, written):
    page = Page((lake.reports / "latest" / PAGE).read_text())
    assert "edfq kept the SLO of 100 % of 10 queries." in page.text
    assert "iad1 under edfq spends" in page.text
    assert "1 of 10 (10.0 %)" in page.text


def test_models_are_beside_it(spark, lake, written):
    assert sorted(path.name for path in lake.models.iterdir()) == ["arrivals", "sizes", "unloaded"]
    (row,) = spark.read.parquet(str(lake.models / "unloaded")).collect()
    assert (row["node"], row["count"], row["mean_ms"]) == ("n1", 10, 60.0)


def test_a_time_without_anything_ends_with_status_5(spark, lake, tmp_path):
    with pytest.raises(
        writing.NothingToReportError, match="holds nothing from 2026-11-20 13:00"
    ) as e:
        writing.write(spark, lake, T + hours(3), T + hours(4), tmp_path / "report")
    assert e.value.status == exits.NOTHING
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_is_left_alone(spark, lake, tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(writing.OutputError, match="holds something else than a report"):
        writing.write(spark, lake, None, None, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_fails_leaves_the_report_before(spark, lake, written, monkeypatch):
    def broken(*_):
        raise OSError("disk full")

    before = (lake.reports / "first" / PAGE).read_bytes()
    monkeypatch.setattr(writing, "jobs", broken)
    with pytest.raises(OSError, match="disk full"):
        writing.write(spark, lake, None, None, lake.reports / "first")
    assert (lake.reports / "first" / PAGE).read_bytes() == before
    assert sorted(path.name for path in lake.reports.iterdir()) == ["first", "latest"]


def test_report_command_prints_the_path_of_the_page(lake, fleet, monkeypatch):
    asked = []

    def write(spark, lake, since, until, output, say):
        asked.append((since, until, output))
        return writing.Written("r/index.html", [], [], "models", {"attainment": 1})

    monkeypatch.setattr(writing, "write", write)
    monkeypatch.setattr(writing, "point_latest", asked.append)
    since = ("--since", "2026-11-20")
    assert fleet("report", "--no-ingest", *since)[:2] == (0, "r/index.html\n")
    (begin, end, place), latest = asked
    assert (begin, end) == (T - hours(10), None)
    assert place == latest
    assert place.parent == lake.reports
    status, out, _ = fleet("report", "--no-ingest", "--json", "--output", "elsewhere")
    assert (status, json.loads(out)["rows"]) == (0, {"attainment": 1})
    assert len(asked) == 3
    assert fleet("report", "--until", "2026-11-19", *since)[0] == exits.USAGE


# --- SQL --------------------------------------------------------------------------------------


def test_sql_prints_rows_as_csv_and_json(written, fleet):
    statement = "select query, aggregated_ms, time, tasks from queries order by query limit 2"
    status, out, _ = fleet("lake", "sql", statement, "--format", "csv")
    assert status == 0
    assert out.splitlines() == [
        "query,aggregated_ms,time,tasks",
        'q0,100.0,2026-11-20T10:00:00Z,"[""t0""]"',
        'q1,101.0,2026-11-20T10:00:06Z,"[""t1""]"',
    ]
    _, out, _ = fleet("lake", "sql", statement, "--format", "json")
    assert msgspec.json.decode(out.splitlines()[1]) == {
        "query": "q1", "aggregated_ms": 101.0, "time": "2026-11-20T10:00:06Z", "tasks": ["t1"],
    }  # fmt: skip


def test_sql_shows_the_first_rows_and_says_that_there_are_more(written, fleet):
    statement = "select query, '=1\x1b[31m' as x from queries order by query"
    status, out, err = fleet("lake", "sql", statement, "--rows", "2")
    assert status == 0
    assert [line.split() for line in out.splitlines()] == [
        ["query", "x"], ["q0", "=1?[31m"], ["q1", "=1?[31m"]
    ]  # fmt: skip
    assert "more rows: the first 2 are shown" in err


def test_sql_knows_reports_and_models(spark, lake, written):
    names = views.register(spark, lake)
    assert {"queries", "readings", "attainment", "contents", "unloaded"} <= set(names)
    assert "events" not in names
    for name in names:
        assert views.select(spark, f"select * from {name}", names).columns


def test_unknown_tables_and_columns_are_told_with_what_there_is(written, fleet):
    status, _, said = fleet("lake", "sql", "select * from querys")
    assert status == exits.USAGE
    assert "there is no table querys; did you mean queries? there are: arrivals, attainment" in said
    status, _, said = fleet("lake", "sql", "select polcy from tasks")
    assert "`polcy`" in said
    assert "`policy`" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    "statement",
    [
        "insert into queries select * from queries",
        "with q as (select 1 a) insert into t select * from q",
        "from queries insert into a select query insert into b select query",
        "insert overwrite directory '{folder}/x' using parquet select 1",
        "create table t as select 1",
        "create or replace temp view queries as select 1",
        "drop view queries",
        "execute immediate 'drop view queries'",
        "begin drop view queries; end",
        "set spark.sql.ansi.enabled = false",
        "cache table queries",
        "delete from queries",
        "add jar 'x.jar'",
    ],
)
def test_what_does_more_than_read_is_refused(spark, written, statement, tmp_path):
    with pytest.raises(views.StatementError, match="does more than read"):
        views.select(spark, statement.format(folder=tmp_path), ["queries"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "statement",
    ["values (1)", "with a as (select 1) select * from a", "explain select 1", "describe queries",
     "show tables", "from queries select query", "(select 1) union (select 2) -- insert"],
)  # fmt: skip
def test_what_reads_is_answered(spark, lake, written, statement):
    names = views.register(spark, lake)
    assert views.select(spark, statement, names).columns


def test_values_of_every_type_are_printed(spark, capsys):
    frame = spark.sql(
        "select timestamp'2026-01-01 10:00' t, map('a', array(timestamp'2026-01-02 10:00')) m, "
        "named_struct('x', cast('NaN' as double)) s, cast(null as int) n, X'00ff' b, 1.50BD d, "
        "timestamp_ntz'2026-01-01 10:00' z, interval 1 day i"
    )
    answers.write_json(frame)
    found = json.loads(capsys.readouterr().out)
    assert found.pop("i")
    assert found == {
        "t": "2026-01-01T10:00:00Z", "m": {"a": ["2026-01-02T10:00:00Z"]}, "s": {"x": None},
        "n": None, "b": "00ff", "d": "1.50", "z": "2026-01-01T10:00:00",
    }  # fmt: skip
    answers.write_table(frame, 5)
    assert "2026-01-01 10:00:00.000" in capsys.readouterr().out


def test_tasks_that_are_stamped_after_the_time_are_found(spark, lake):
    until = T + timedelta(seconds=3)
    sources = Sources(spark, lake, None, until)
    assert sources.tasks.count() == 1
    assert sources.tasks_around.count() == 10
    (row,) = slo.attainment(
        sources.queries, sources.tasks_around, sources.subtasks_around
    ).collect()
    assert (row["policy"], row["queries"]) == ("edfq", 1)
    # What came of pulls, and which nodes there are, is told an hour later.
    assert (sources.pulls.count(), sources.nodes.count()) == (2, 1)


def test_what_a_killed_run_of_this_process_id_left_is_cleared(tmp_path):
    """As in a container, where each run has the same."""
    left = writing._staging(tmp_path / "report")
    (left / "slo.csv").write_text("half")
    again = writing._staging(tmp_path / "report")
    assert again == left
    assert list(again.iterdir()) == []
