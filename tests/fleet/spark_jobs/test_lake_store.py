"""Changes of tables: killed at any call of the file system, all or nothing is there."""

import errno
import os

import msgspec
import pytest

from fleet.lake.ingest import store
from fleet.lake.ingest.store import BusyError, StoreError, TableChange
from fleet.lake.schema.folder import Lake

CALLS = ("mkdir", "open", "fsync", "replace", "unlink", "rmdir", "close")


class Killed(BaseException):
    """The process is gone; nothing is tidied up."""


def content(lake):
    """Every file of the tables with what is in it."""
    return {
        str(path.relative_to(lake.tables)): path.read_text()
        for path in lake.tables.rglob("*")
        if path.is_file()
    }


def prepared(root):
    """A lake with three files, and a change that adds two, one in a new partition, and removes
    two."""
    lake = Lake(root)
    old = lake.table("t") / "iad=a" / "date=2026-11-01"
    old.mkdir(parents=True)
    for name in ("one", "two", "three"):
        (old / name).write_text(name)
    staging = store.new_staging(lake)
    staging.mkdir()
    add = []
    for name, day in (("four", "01"), ("five", "02")):
        (staging / name).write_text(name)
        place = f"tables/t/iad=a/date=2026-11-{day}/{name}"
        add.append((str((staging / name).relative_to(root)), place))
    removed = [f"tables/t/iad=a/date=2026-11-01/{name}" for name in ("one", "two")]
    return lake, TableChange(tuple(add), tuple(removed))


BEFORE = {f"t/iad=a/date=2026-11-01/{name}": name for name in ("one", "two", "three")}
AFTER = {
    "t/iad=a/date=2026-11-01/three": "three",
    "t/iad=a/date=2026-11-01/four": "four",
    "t/iad=a/date=2026-11-02/five": "five",
}


def killing(monkeypatch, at):
    """Every call of `CALLS` is counted; the one with number `at` is not made."""
    counted = []

    def counts(name):
        real = getattr(os, name)

        def call(*arguments, **named):
            if len(counted) == at:
                raise Killed
            counted.append(name)
            return real(*arguments, **named)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, counts(name))
    return counted


def test_a_change_is_carried_out(tmp_path):
    lake, change = prepared(tmp_path)
    assert content(lake) == BEFORE
    store.commit(lake, change)
    assert content(lake) == AFTER
    assert not list(lake.journal.iterdir())


def test_killed_at_any_call_it_is_all_or_nothing(tmp_path, monkeypatch):
    outcomes = []
    for at in range(1000):
        lake, change = prepared(tmp_path / str(at))
        with monkeypatch.context() as patched:
            counted = killing(patched, at)
            try:
                store.commit(lake, change)
                break
            except Killed:
                pass
        promised = bool(list(lake.journal.glob("*.json")))
        recovered = store.recover(lake)
        assert recovered == promised
        now = content(lake)
        assert now == AFTER if promised else now in (BEFORE, AFTER)
        outcomes.append(now == AFTER)
        assert not list(lake.journal.glob("*"))
        assert not (lake.staging / store.OURS).exists()
        assert store.recover(lake) == 0
        assert content(lake) == now
    else:
        pytest.fail("a thousand calls are too many")
    # Nothing at first, everything from some call on.
    assert outcomes == sorted(outcomes)
    assert {True, False} == set(outcomes)
    assert len(counted) == len(outcomes)


def test_recovery_is_killed_at_any_call_too(tmp_path, monkeypatch):
    ends = 0
    for at in range(1000):
        lake, change = prepared(tmp_path / str(at))
        with monkeypatch.context() as patched:
            killing(patched, 22)  # with some of it done
            with pytest.raises(Killed):
                store.commit(lake, change)
        assert list(lake.journal.glob("*.json"))
        assert content(lake) not in (BEFORE, AFTER)
        with monkeypatch.context() as patched:
            killing(patched, at)
            try:
                store.recover(lake)
                ends += 1
            except Killed:
                pass
        store.recover(lake)
        assert content(lake) == AFTER
        if ends:
            break
    assert ends


def test_a_full_disk_leaves_everything_as_it_was(tmp_path, monkeypatch):
    lake, change = prepared(tmp_path)

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.commit(lake, change)
    monkeypatch.undo()
    assert content(lake) == BEFORE
    store.recover(lake)
    assert content(lake) == BEFORE


def test_what_other_commands_stage_is_left_alone(tmp_path):
    lake, _ = prepared(tmp_path)
    pulled = lake.staging / "pull" / "x"
    pulled.parent.mkdir()
    pulled.write_text("half")
    store.recover(lake)
    assert pulled.read_text() == "half"


def test_a_staged_file_that_is_gone_is_told(tmp_path):
    lake, change = prepared(tmp_path)
    lake.journal.mkdir()
    entry = lake.journal / "x.json"
    entry.write_bytes(store.msgspec.json.encode(change))
    (tmp_path / change.add[0][0]).unlink()
    with pytest.raises(StoreError, match="ingest again"):
        store.recover(lake)
    assert entry.exists()


def test_there_is_one_writer(tmp_path):
    lake = Lake(tmp_path / "new")
    with store.writing(lake), pytest.raises(BusyError, match="at work in"), store.writing(lake):
        pass
    with store.writing(lake):
        pass


def test_nothing_to_change_touches_nothing(tmp_path):
    store.commit(Lake(tmp_path / "none"), TableChange())
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"add": 1}', '{"remove": ["\\ud800"]}'], ids=str.__len__
)
def test_an_entry_that_is_damaged_is_told_and_stays(tmp_path, text):
    lake, _ = prepared(tmp_path)
    lake.journal.mkdir()
    (lake.journal / "a.json").write_text(text)
    with pytest.raises(StoreError, match=r"a\.json is damaged .* and ingest again"):
        store.recover(lake)
    assert content(lake) == BEFORE
    assert (lake.journal / "a.json").exists()


@pytest.mark.parametrize("place", ["../mine", "tables/../../mine", "{beside}/mine", "a\nb"])
@pytest.mark.parametrize("change", ["remove", "from", "to"])
def test_an_entry_changes_nothing_beside_the_lake(tmp_path, place, change):
    """The lake may come from elsewhere."""
    lake, good = prepared(tmp_path / "lake")
    (tmp_path / "mine").write_text("mine")
    place = place.format(beside=tmp_path)
    staged = good.add[0][0]
    hostile = {
        "remove": TableChange(remove=(good.remove[0], place)),
        "from": TableChange(((place, "tables/x"),)),
        "to": TableChange(((staged, place),)),
    }[change]
    lake.journal.mkdir()
    (lake.journal / "a.json").write_bytes(msgspec.json.encode(hostile))
    with pytest.raises(StoreError, match="which is not in the lake; remove"):
        store.recover(lake)
    assert content(lake) == BEFORE
    assert (tmp_path / "mine").read_text() == "mine"
