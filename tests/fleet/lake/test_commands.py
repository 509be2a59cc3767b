"""`fleet lake ingest` and `follow`: what is printed; usage."""

import os
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fleet.cli.commands import run
from fleet.common import exits
from fleet.lake.ingest import follow, store
from fleet.lake.ingest import run as command
from fleet.lake.ingest import stream as ingesting
from fleet.lake.ingest.merging import Ingested
from fleet.lake.pull import local
from fleet.lake.schema.folder import Lake
from fleet.spark import session
from tests.fleet.keys.rig import inventory

LEFT_OUT = "7 readings of an impossible time left out"
DONE = Ingested(
    {"readings": 12_345, "queries": 2, "tasks": 0},
    9,
    {"no JSON": 4, "a is missing": 2, "b is missing": 2, "c is missing": 1},
    3,
    5,
    1,
    7,
)


def test_a_table_of_what_was_added():
    assert command.table(DONE) == [
        "queries          2",
        "readings    12,345",
        "quarantine       9  no JSON (4), a is missing (2), b is missing (2), others (1)",
        f"from 5 new files; 3 row groups came again, put right; {LEFT_OUT}",
    ]
    assert command.table(Ingested()) == ["nothing new"]


def test_a_line_for_a_batch():
    time, _, rest = follow.line(DONE).partition("  ")
    assert len(time) == len("12:00:00")
    assert rest == (
        "queries 2, readings 12,345, quarantine 9: no JSON (4), a is missing (2), "
        "b is missing (2), others (1); 3 row groups came again, put right; " + LEFT_OUT
    )


@pytest.mark.parametrize("name", ["ingest", "follow"])
def test_without_a_lake_a_line_says_what_makes_one(tmp_path, capsys, name):
    assert run(["lake", name, "--lake", str(tmp_path / "none")]) == exits.USAGE
    assert "fleet logs pull" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ingest", "follow"])
def test_a_second_writer_is_told_before_spark_starts(tmp_path, capsys, name):
    lake = Lake(tmp_path)
    lake.landing.mkdir()
    with store.writing(lake):
        assert run(["lake", name, "--lake", str(tmp_path)]) == exits.USAGE
    said = capsys.readouterr().err
    assert said == f"fleet: another ingest or follow is at work in {tmp_path}\n"


def test_counts_add_up():
    total = Ingested()
    assert not total.changed
    total.add(DONE)
    total.add(DONE)
    assert total.rows == {"readings": 24_690, "queries": 4, "tasks": 0}
    assert (total.reasons["no JSON"], total.quarantined, total.replaced) == (8, 18, 6)
    assert (total.files, total.batches, total.changed) == (10, 2, True)
    assert total.dropped == 14


@pytest.mark.parametrize(
    ("done", "options", "status"),
    [
        (Ingested(), (), exits.DONE),
        (Ingested(), ("--exit-code",), exits.NOTHING),
        (DONE, ("--exit-code",), exits.DONE),
    ],
)
def test_nothing_new_is_no_failure_unless_it_is_asked_for(
    tmp_path, monkeypatch, done, options, status
):
    Lake(tmp_path).landing.mkdir()
    monkeypatch.setattr(session, "open_session", lambda *_: nullcontext())
    monkeypatch.setattr(ingesting, "ingest", lambda *_, **__: done)
    assert run(["lake", "ingest", "--lake", str(tmp_path), *options]) == status


@pytest.mark.parametrize("command", [["lake", "ingest"], ["logs", "pull", "--local"], ["report"]])
def test_a_lake_whose_path_is_no_utf_8_is_refused_in_a_line(tmp_path, monkeypatch, capsys, command):
    root = tmp_path / os.fsdecode(b"l\xff")
    root.mkdir()
    monkeypatch.chdir(root)
    with monkeypatch.context() as patch:
        patch.setattr(local, "run_in", lambda _: SimpleNamespace(fleet=inventory(local=True)))
        assert run([*command, "--lake", "lake"]) == exits.USAGE
    said = capsys.readouterr().err
    assert "a lake cannot be where the path has bytes that are no UTF-8" in said
    assert said.count("\n") == 1
