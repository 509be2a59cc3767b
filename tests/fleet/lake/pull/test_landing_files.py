"""Files of the landing: on the disk before they have their name, or not there at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from fleet.lake.pull import landing_files
from fleet.lake.pull.landing_files import staged
from fleet.lake.schema.folder import Lake


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path / "lake")


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_after(
    lake, monkeypatch, real_storage
):
    done = []
    fsync, replace = os.fsync, Path.replace

    def synced(number):
        done.append(Path(f"/proc/self/fd/{number}").readlink())
        fsync(number)

    def replaced(self, path):
        done.append("rename")
        return replace(self, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    path = lake.records / "iad=iad1/a.jsonl"
    with staged(lake, path) as part:
        part.write_text("x")
    before, after = done[: done.index("rename")], done[done.index("rename") + 1 :]
    assert before[0] == part
    assert before[1:] == [lake.root, lake.landing, lake.records]  # each holds a new folder's name
    assert after == [path.parent]
    assert path.read_text() == "x"


def test_what_ends_badly_leaves_nothing(lake):
    path = lake.client
    with staged(lake, path) as part:
        part.write_text("first")
    with suppress(RuntimeError), staged(lake, path) as part:
        part.write_text("second")
        raise RuntimeError
    assert path.read_text() == "first"
    assert list((lake.staging / landing_files.OURS).iterdir()) == []


def test_two_writers_of_one_file_do_not_meet(lake):
    with staged(lake, lake.client) as one, staged(lake, lake.client) as other:
        one.write_text("one")
        other.write_text("other")
    assert lake.client.read_text() == "one"
