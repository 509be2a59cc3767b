"""Files of SQLite that one process opens, whatever a power cut left of them."""

import os
import sqlite3

import pytest

from agent.runtime.sqlite import open_alone, transaction


def opened(file):
    file.execute("CREATE TABLE IF NOT EXISTS t (x)")
    return file.execute("SELECT count(*) FROM t").fetchone()[0]


@pytest.fixture
def store(tmp_path):
    """Open the file and close it again: its rows, and what was said to be broken."""

    def open_it(row=None):
        broken = []
        path = str(tmp_path / "state.sqlite")
        holder, file, rows = open_alone(path, opened, lambda *said: broken.append(said), "in use")
        if row is not None:
            file.execute("INSERT INTO t VALUES (?)", (row,))
        file.close()
        os.close(holder)
        return rows, broken

    open_it.path = tmp_path / "state.sqlite"
    return open_it


def test_a_new_file_is_none_that_was_lost(store):
    assert store(1) == (0, [])
    assert store() == (1, [])


def test_a_file_that_a_power_cut_left_empty_is_put_aside_and_told(store):
    store(1)
    store.path.write_bytes(b"")
    rows, ((reason, name),) = store()
    assert (rows, reason) == (0, "the file is empty")
    assert name.startswith("state.sqlite.broken")
    assert (store.path.parent / name).exists()


def test_a_new_file_that_the_disk_does_not_take_leaves_nothing_behind(tmp_path):
    path, broken = tmp_path / "s", []

    def refuse(file):
        file.execute("PRAGMA max_page_count = 1")
        file.execute("CREATE TABLE t (x)")

    for _ in range(3):  # as where it is started again and again
        with pytest.raises(OSError, match="database or disk is full"):
            open_alone(str(path), refuse, lambda *told: broken.append(told), "in use")
    assert [each.name for each in tmp_path.iterdir()] == ["s.lock"]
    holder, file, _ = open_alone(
        str(path), lambda file: None, lambda *told: broken.append(told), "in use"
    )
    file.close()
    os.close(holder)
    assert broken == []


@pytest.mark.parametrize("target", ["not-mounted/state.sqlite", "state.sqlite"])
def test_a_link_whose_target_is_away_is_refused_each_time(store, target):
    store.path.symlink_to(target)
    for _ in range(2):
        with pytest.raises(
            OSError, match=r"cannot use .*state\.sqlite: it is a link to what is not"
        ):
            store()
        assert store.path.is_symlink()


def test_a_folder_in_the_files_place_is_told_with_what_to_do(store):
    store.path.mkdir()
    with pytest.raises(OSError, match=r"cannot use .*: it is a folder; move it away"):
        store()


def test_what_is_no_file_in_the_place_of_its_log_is_named(store):
    store(1)
    log = store.path.with_name("state.sqlite-wal")
    log.mkdir()
    with pytest.raises(OSError, match=r": state\.sqlite-wal beside it is no file; move that away$"):
        store()
    log.rmdir()
    assert store() == (1, [])


def test_a_link_may_name_a_file_that_is_still_to_be_made(store):
    store.path.symlink_to("there.sqlite")
    assert store(1) == (0, [])
    assert store() == (1, [])
    assert store.path.is_symlink()


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_is_not_there_any_more_takes_nothing_until_it_is_put_back(tmp_path, how):
    path = tmp_path / "state.sqlite"
    holder, file, _ = open_alone(str(path), opened, lambda *_: None, "in use")
    aside = path.rename(tmp_path / "aside")
    if how == "replaced":
        path.write_bytes(aside.read_bytes())
    for _ in range(2):
        with (
            pytest.raises(sqlite3.OperationalError, match=r"state\.sqlite was removed or replaced"),
            transaction(file),
        ):
            file.execute("INSERT INTO t VALUES (1)")
    aside.rename(path)
    with transaction(file):
        file.execute("INSERT INTO t VALUES (2)")
    assert file.execute("SELECT x FROM t").fetchall() == [(2,)]
    file.close()
    os.close(holder)
