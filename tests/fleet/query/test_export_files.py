"""Where `fleet export` writes to: pipes, links, rights, full disks, names that would run."""

from __future__ import annotations

import csv
import io
import os
import stat
import sys
from pathlib import Path

import pytest

from agent.wire.messages import Window
from fleet.common import exits
from fleet.query.export_files import csv_file, iso
from fleet.query.export_rows import COLUMNS
from tests.fleet.query.export_rig import Master, exporter, rows_of_file


@pytest.fixture
def run(monkeypatch, tmp_path):
    return exporter(monkeypatch, tmp_path)


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


def test_a_time_that_no_calendar_has_is_empty():
    assert [iso(each) for each in (-(2**63), 2**53 - 1, 253_402_300_800_000)] == ["", "", ""]
    assert iso(0) == "1970-01-01T00:00:00.000Z"
