"""The directory's file: what was written is there again, whatever happened between."""

import os
import shutil
import sqlite3

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.directory.directory import Edit
from agent.directory.store import Store
from agent.wire import directory as d
from tests.examples import examples


def entry(version, name, *, gone=False, keys=()):
    return d.DirectoryEntry(version, d.Account(name, "csp", keys), gone=gone)


def reopened(path, *, mirror=False):
    store = Store(path, mirror=mirror)
    try:
        return store.load(), store.said
    finally:
        store.close()


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(st.sampled_from("abc"), st.booleans()))),
        max_size=8,
    )
)
@settings(max_examples=examples(30), deadline=None)
def test_what_was_written_is_found_again(tmp_path_factory, edits):
    path = tmp_path_factory.mktemp("store") / "directory.sqlite"
    store = Store(path, mirror=False)
    held, version = {}, 0
    for whole, changes in edits:
        entries = []
        for name, gone in changes:
            version += 1
            entries.append(entry(version, name, gone=gone))
        if whole:
            held.clear()
        store.write(Edit("epoch", version, tuple(entries), whole))
        for one in entries:
            held.pop(one.account.name, None)
            if not one.gone:
                held[one.account.name] = one
    # A copy made while it is open is what `kill -9` leaves.
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{path}.killed{suffix}")
    store.close()
    for file in (path, path.with_name(f"{path.name}.killed")):
        directory, said = reopened(file)
        assert said == ""
        assert list(directory) == sorted(held.values(), key=lambda e: e.version)
        assert directory.version == version


def test_an_edit_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "directory.sqlite"
    store = Store(path, mirror=False)
    epoch = store.load().epoch
    store.write(Edit(epoch, 1, (entry(1, "a"),)))
    store._file.execute(
        "CREATE TRIGGER full BEFORE INSERT ON entry WHEN new.name = 'c' "
        "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with pytest.raises(sqlite3.Error):
        store.write(Edit(epoch, 3, (entry(2, "b"), entry(3, "c")), whole=True))
    store._file.execute("DROP TRIGGER full")
    store.close()
    directory, _ = reopened(path)
    assert list(directory) == [entry(1, "a")]
    assert directory.version == 1


def test_an_epoch_belongs_to_a_leader_and_its_copies(tmp_path):
    path = tmp_path / "directory.sqlite"
    first, _ = reopened(path)
    assert first.epoch
    # The file may be an older copy of what the leader had.
    assert reopened(path)[0].epoch not in ("", first.epoch)
    assert reopened(tmp_path / "other.sqlite")[0].epoch != first.epoch
    copy = tmp_path / "copy.sqlite"
    store = Store(copy, mirror=True)
    assert store.load().epoch == ""
    store.write(Edit(first.epoch, 7, (entry(7, "a"),), whole=True))
    store.close()
    assert reopened(copy, mirror=True)[0].epoch == first.epoch
    promoted, _ = reopened(copy)
    assert promoted.epoch not in ("", first.epoch)
    assert list(promoted) == [entry(7, "a")]
    assert reopened(copy)[0].epoch not in ("", first.epoch, promoted.epoch)


def test_only_one_process_has_the_file(tmp_path):
    store = Store(tmp_path / "directory.sqlite", mirror=False)
    with pytest.raises(OSError, match="another registration service is using it"):
        Store(tmp_path / "directory.sqlite", mirror=False)
    store.close()
    reopened(tmp_path / "directory.sqlite")


def no_sqlite(path):
    path.write_bytes(b"not a database" * 100)


def somebody_elses(path):
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE entry (name TEXT)")
    file.close()


def changed(statement, *values):
    def change(path):
        with sqlite3.connect(path) as file:
            file.execute(statement, values)
        file.close()

    return change


BROKEN = {
    "no sqlite": no_sqlite,
    "cut": lambda path: os.truncate(path, 5000),
    "somebody else's": somebody_elses,
    "a row that is no entry": changed("UPDATE entry SET body = ?", b"\xc1"),
    "a row without a field": changed("UPDATE entry SET body = ?", msgspec.msgpack.encode({})),
    "no epoch": changed("DELETE FROM meta WHERE key = 'epoch'"),
    "a version that is none": changed("UPDATE meta SET value = 'x' WHERE key = 'version'"),
    "a version below its entries": changed("UPDATE meta SET value = 0 WHERE key = 'version'"),
    "a version beyond all": changed("UPDATE meta SET value = ? WHERE key = 'version'", 2**63 - 1),
    "a version that no message carries": changed(
        "UPDATE meta SET value = ? WHERE key = 'version'", 2**53
    ),
    "an offer without an address": changed(
        "UPDATE entry SET body = ?",
        msgspec.msgpack.encode(
            d.DirectoryEntry(
                1, d.Account("a", "iad", ()), "", (d.Offering("temperature", ("b1",)),), 60.0
            )
        ),
    ),
    "no schema version": changed("DELETE FROM meta WHERE key = 'schema'"),
    "no table": changed("DROP TABLE entry"),
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_put_aside_in_one_line(tmp_path, damage):
    path = tmp_path / "directory.sqlite"
    if damage is not somebody_elses:
        store = Store(path, mirror=False)
        store.write(Edit(store.load().epoch, 1, (entry(1, "a"),)))
        store.close()
        before = reopened(path)[0].epoch
    else:
        before = ""
    damage(path)
    kept = path.read_bytes()
    directory, said = reopened(path)
    assert len(directory) == 0
    assert directory.epoch != before
    assert "was broken (" in said
    assert "\n" not in said
    [aside] = [p for p in tmp_path.glob("*.broken-*") if p.suffix not in ("-wal", "-shm")][:1]
    assert len(aside.read_bytes()) == len(kept)
    assert reopened(path)[1] == ""


def test_a_newer_format_is_left_alone(tmp_path):
    path = tmp_path / "directory.sqlite"
    reopened(path)
    changed("UPDATE meta SET value = 2 WHERE key = 'schema'")(path)
    with pytest.raises(OSError, match="newer version of Sanderling"):
        Store(path, mirror=False)
    assert list(tmp_path.glob("*.broken-*")) == []


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match="No such file or directory"):
        Store(tmp_path / "nowhere" / "directory.sqlite", mirror=False)
