"""A history whose disk refuses, is full or read-only, or may lose a name."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from agent.edge.history import history as history_module
from agent.edge.history import recovery, wal
from agent.edge.history.file import HistoryError
from agent.edge.history.memtable import Sample
from tests.edge.broken_history import crash, fill, found_in
from tests.edge.history_oracle import CHANNELS, filled, open_history, sample


def test_a_path_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "h.sqlite", tmp_path / "folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(HistoryError, match=path.name) as caught:
            open_history(path)
        assert "\n" not in str(caught.value)


def test_what_is_no_file_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    pipe, away, null = (tmp_path / f"{name}.sqlite" for name in ("pipe", "away", "null"))
    os.mkfifo(pipe)
    away.symlink_to(tmp_path / "usb" / "h.sqlite")
    null.symlink_to("/dev/null")
    for path, why in (
        (pipe, "it is no regular file; move it away"),
        (null, "it is no regular file; move it away"),
        (away, "it is a link to what is not there; bring that back, or remove the link"),
    ):
        for _ in range(2):
            with pytest.raises(HistoryError) as caught:
                open_history(path)
            assert str(caught.value) == f"history {path}: {why}"
    (tmp_path / "usb").mkdir()
    history = open_history(away)
    assert "is a link to what was not there: a new one began" in history.report
    history.close()
    history = open_history(away)
    assert history.report == ""
    history.close()


def test_an_empty_file_is_put_aside_with_a_line(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    path.touch()
    history = open_history(path)
    assert history.report.startswith(f"history {path} was broken (it is empty); kept as h.sqlite.b")
    history.close()
    history = open_history(path)
    assert history.report == ""
    history.close()


def test_a_file_that_could_not_be_made_is_none_that_lost_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(path: str, _history: str) -> None:
        Path(path).touch()
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    path = tmp_path / "h.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "open_checked", no_room)
        history = open_history(path)
    assert "database or disk is full" in history.report
    history.stream("dht", CHANNELS).append(sample(0))
    history.close()
    assert history.notices() == []
    assert history.acknowledged == 1
    assert [each.name for each in tmp_path.iterdir() if "broken" in each.name] == []


@pytest.mark.parametrize("error", [28, 30, 13, 5])
@pytest.mark.parametrize("existed", [False, True])
def test_a_start_without_a_file_to_write_goes_on_in_memory(
    error: int, existed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room, read-only, no rights, a failing card. Later all of it is in the file."""
    path = tmp_path / "h.sqlite"
    if existed:
        fill(path, 100)

    def fails(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(history_module, "hold", fails)
        history = open_history(path)
        assert "cannot be written now" in history.report
        stream = history.stream("dht", CHANNELS)
        complaints: list[str] = []
        for i in range(100, 150):
            try:
                stream.append(sample(i))
            except HistoryError as complaint:
                complaints.append(str(complaint))
        assert 3 <= len(complaints) <= 6  # with pauses
        assert all(os.strerror(error) in complaint for complaint in complaints)
        with pytest.raises(HistoryError, match="cannot be written now"):
            history.events.add(monotonic_ms=1, kind="x", time_ms=1, synchronised=False)
        assert found_in(history) == list(range(0 if existed else 100, 150))
        assert history.acknowledged == 0
    for i in range(150, 170):
        stream.append(sample(i))
    assert history.acknowledged >= 60
    expected = list(range(0 if existed else 100, 170))
    assert found_in(history) == expected
    history.close()
    history = open_history(path)
    assert found_in(history) == expected
    history.close()


@pytest.mark.parametrize("where", ["tail", "file"])
def test_a_failing_commit_keeps_the_readings_and_is_made_up_for(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is acknowledged that is not stored; what has no room goes, counted."""
    path = tmp_path / "h.sqlite"
    history, stream = filled(path, range(3), group_readings=5, commit_s=3.0)
    history.commit()
    assert history.acknowledged == 3

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    failures: list[tuple[str, int]] = []
    blocker = sqlite3.connect(path, isolation_level=None)
    with monkeypatch.context() as patch:
        if where == "tail":
            patch.setattr(wal, "_write", fails)
        else:
            blocker.execute("BEGIN IMMEDIATE")
            assert history._db is not None
            history._db.execute("PRAGMA busy_timeout=0")
        for i in range(3, 300):
            try:
                stream.append(sample(i))
            except HistoryError as error:
                failures.append((str(error), history.given_up))
        assert 30 <= len(failures) <= 110
        for error_text, lost in failures:
            assert error_text.endswith(f"; {lost} readings given up so far") == (lost > 0)
        held = found_in(history)
        assert held[:3] == [0, 1, 2]
        if where == "tail":
            assert held == list(range(300))
        else:
            assert history.acknowledged == 3
            assert sum(len(group) for group in stream.groups) <= 17 * 5
            assert history.given_up == 300 - len(held)
        crash(path, tmp_path / "copy.sqlite")
    if where == "file":
        blocker.execute("ROLLBACK")
    blocker.close()
    for i in range(300, 310):
        stream.append(sample(i))
    history.commit()
    assert history.acknowledged == 310 - history.given_up
    assert found_in(history) == [*held, *range(300, 310)]
    history.close()
    cut = open_history(tmp_path / "copy.sqlite")
    assert set(found_in(cut)) >= {0, 1, 2}
    cut.close()


@pytest.mark.parametrize("goes", ["all", "file"])
def test_of_a_file_that_is_not_there_any_more_nothing_is_acknowledged(
    goes: str, tmp_path: Path
) -> None:
    folder, aside = tmp_path / "node", tmp_path / "aside"
    folder.mkdir()
    history, stream = filled(folder / "h.sqlite", range(3), group_readings=5)
    history.commit()
    if goes == "all":
        folder.rename(aside)
    else:
        aside.mkdir()
        (folder / "h.sqlite").rename(aside / "h.sqlite")
    for i in range(3, 12):
        stream.append(sample(i))
        with pytest.raises(HistoryError, match=r"h\.sqlite was removed or replaced; put it back"):
            history.commit()
    assert history.acknowledged == 3
    for each in aside.iterdir():
        folder.mkdir(exist_ok=True)
        each.rename(folder / each.name)
    history.commit()
    assert history.acknowledged == 12
    history.close()
    history = open_history(folder / "h.sqlite")
    assert found_in(history) == list(range(12))
    history.close()


def test_a_tail_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    history, stream = filled(path, range(3))
    history.commit()
    (tmp_path / "h.sqlite.tail").unlink()
    stream.append(sample(3))
    history.commit()
    crash(path, tmp_path / "copy.sqlite")
    history.close()
    cut = open_history(tmp_path / "copy.sqlite")
    assert found_in(cut) == [0, 1, 2, 3]
    cut.close()


def test_a_tail_whose_name_may_be_lost_is_not_used_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename was made, and could not be synced: the file that is open has no name any more."""
    path = tmp_path / "h.sqlite"
    history = open_history(path, group_readings=600, commit_s=1e9)
    stream = history.stream("dht", CHANNELS)
    stream.append(sample(0))
    history.commit()

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(wal.WriteAheadLog, "takes", lambda *_: False)
        patch.setattr(wal, "sync_folder", fails)
        stream.append(sample(1))
        with pytest.raises(HistoryError, match="Input/output"):
            history.commit()
    for i in range(2, 5):
        stream.append(sample(i))
    history.commit()
    crash(path, tmp_path / "copy.sqlite")
    history.close()
    history = open_history(tmp_path / "copy.sqlite")
    assert found_in(history) == list(range(5))
    history.close()


@pytest.mark.parametrize("sync", ["fsync", "fdatasync"])
def test_nothing_is_acknowledged_that_was_not_synced(
    sync: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = open_history(tmp_path / "h.sqlite", group_readings=600, commit_s=1e9)
    stream = history.stream("dht", CHANNELS)
    if sync == "fdatasync":
        stream.append(sample(0))
        history.commit()
    before = history.acknowledged

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, sync, fails)
        stream.append(sample(1))
        with pytest.raises(HistoryError, match="Input/output"):
            history.commit()
        assert history.acknowledged == before
    history.commit()
    assert history.acknowledged == before + 1
    history.close()


def test_a_new_file_is_on_stable_storage_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(recovery.wal, "sync_folder", synced.append)
    path = tmp_path / "h.sqlite"
    history = open_history(path)
    assert synced == [str(path)]
    history.stream("dht", CHANNELS).append(Sample(0, 0, False, (1.0, 2.0)))
    history.commit()
    assert synced == [str(path), f"{path}.tail"]
    history.close()
