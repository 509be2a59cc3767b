"""The record log: batches, rotation, torn lines, a disk that refuses."""

import errno
import gc
import json
import os
import resource
import shutil
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.master.recording import record_log
from agent.master.recording.record_log import RecordLog
from agent.wire.master_config import MasterRecords
from agent.wire.records import QueryRecord, decode_record
from tests.master.held_writer import HeldWriter


def record(number: int) -> QueryRecord:
    return QueryRecord(
        iad="iad1",
        wall_ms=number,
        start_s=float(number),
        query=f"q{number}",
        service="default",
        label="",
        areas=("b1",),
        percentile=99.0,
        slo_ms=500.0,
        status="complete",
        reason=None,
        slo_met=True,
        answered=1,
        asked=1,
        tasks=("t",),
        task_percentile=99.0,
        evaluated_ms=0.1,
        aggregated_ms=1.0,
    )


def through(log, records):
    """Whether they are written, as the log says at once without a thread."""
    told = []
    log.write_through(records, told.append)
    (well,) = told
    return well


def test_a_record_leaves_no_objects_behind(tmp_path):
    log = RecordLog(MasterRecords(flush_s=1e9), tmp_path)
    log.append(record(0), 0.0)
    before = len(gc.get_objects())
    for number in range(1_000):
        log.append(record(number), 0.0)
    assert len(gc.get_objects()) < before + 100
    log.close()


def read_back(folder):
    """All records, oldest first, and the lines that are none."""
    found, torn = [], []
    for path in [*sorted(folder.glob("records-*.jsonl")), folder / "current.jsonl"]:
        for line in path.read_bytes().splitlines() if path.exists() else []:
            try:
                found.append(decode_record(line))
            except ValueError:
                torn.append(line)
    return found, torn


def test_a_batch_waits_for_its_time_and_not_longer(tmp_path):
    log = RecordLog(MasterRecords(flush_s=2.0), tmp_path)
    assert log.next_flush is None
    log.append(record(1), now=10.0)
    log.append(record(2), now=11.5)
    assert log.next_flush == 12.0
    assert read_back(tmp_path) == ([], [])
    log.flush()
    assert log.next_flush is None
    assert read_back(tmp_path) == ([record(1), record(2)], [])


def test_a_full_batch_does_not_wait(tmp_path):
    log = RecordLog(MasterRecords(flush_s=1e9), tmp_path)
    for number in range(record_log.BATCH_RECORDS):
        log.append(record(number), now=0.0)
    assert len(read_back(tmp_path)[0]) == record_log.BATCH_RECORDS


def large(number):
    return replace(record(number), areas=tuple(f"b1/f4/room{n}" for n in range(1_024)))


def test_a_batch_and_what_waits_are_bounded_in_bytes(tmp_path, monkeypatch):
    size = len(msgspec.json.encode(large(1))) + 1
    monkeypatch.setattr(record_log, "BATCH_BYTES", 2 * size)
    monkeypatch.setattr(record_log, "MAX_WAITING_BYTES", 3 * size)
    writer, lines = HeldWriter(slow=True), []
    log = RecordLog(MasterRecords(flush_s=1e9), tmp_path, lines.append, writer)
    for number in range(1, 10):
        log.append(large(number), now=0.0)
    # Two are written, three wait.
    assert (len(writer.jobs), log.lost, len(lines)) == (1, 4, 1)
    writer.do()
    writer.drain()
    assert read_back(tmp_path) == ([large(number) for number in range(1, 6)], [])


def test_records_wait_in_memory_while_the_disk_is_slow_and_only_so_many(tmp_path, monkeypatch):
    monkeypatch.setattr(record_log, "BATCH_RECORDS", 2)
    monkeypatch.setattr(record_log, "MAX_WAITING", 4)
    writer, told, lines = HeldWriter(slow=True), [], []
    log = RecordLog(MasterRecords(flush_s=2.0), tmp_path, lines.append, writer)
    for number in range(8):
        log.append(record(number), now=10.0)
        if number == 2:
            assert log.next_flush is None, "while one batch is under way no other is due"
    assert (len(writer.jobs), log.lost, len(lines)) == (1, 2, 1)
    assert read_back(tmp_path) == ([], [])
    writer.do()
    # What is written through comes after all that came before it.
    log.write_through([record(8)], told.append)
    writer.drain()
    assert told == [True]
    assert [r.wall_ms for r in read_back(tmp_path)[0]] == [0, 1, 2, 3, 4, 5, 8]
    log.append(record(9), now=20.0)
    log.close()
    assert read_back(tmp_path)[0][-1] == record(9)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=15),
    st.integers(1, 5),
    st.data(),
)
def test_rotation_keeps_every_record_of_the_files_that_stay(tmp_path_factory, bursts, keep, data):
    folder = tmp_path_factory.mktemp("records")
    config = MasterRecords(rotate_bytes=4_096, keep_files=keep)
    log = RecordLog(config, folder)
    written = 0
    for burst in bursts:
        if data.draw(st.booleans()):
            log = RecordLog(config, folder)  # a restart goes on where the last run ended
        for _ in range(burst):
            log.append(record(written), now=0.0)
            written += 1
        log.flush()
        closed = sorted(folder.glob("records-*.jsonl"))
        assert len(closed) <= keep
        assert all(path.stat().st_size >= 4_096 for path in closed)
    numbers = [r.wall_ms for r in read_back(folder)[0]]
    assert numbers == list(range(written - len(numbers), written)), "a gap or a repeat"
    if len(sorted(folder.glob("records-*.jsonl"))) < keep:
        assert len(numbers) == written


def test_half_a_line_of_a_crash_costs_that_record_only(tmp_path):
    log = RecordLog(MasterRecords(), tmp_path)
    log.append(record(1), now=0.0)
    log.flush()
    with (tmp_path / "current.jsonl").open("ab") as file:
        file.write(b'{"record":"query","iad":"ia')
    log = RecordLog(MasterRecords(), tmp_path)
    log.append(record(2), now=0.0)
    log.flush()
    found, torn = read_back(tmp_path)
    assert found == [record(1), record(2)]
    assert len(torn) == 1


def test_a_disk_that_refuses_costs_the_batch_and_one_line(tmp_path):
    lines = []
    log = RecordLog(MasterRecords(), tmp_path, lines.append)
    (tmp_path / "current.jsonl").mkdir()
    log.append(record(1), now=0.0)
    log.append(record(2), now=0.0)
    log.flush()
    assert log.lost == 2
    [line] = lines
    assert "2 not written" in line
    assert line.count("\n") == 1
    (tmp_path / "current.jsonl").rmdir()
    log.append(record(3), now=0.0)
    log.flush()
    assert read_back(tmp_path)[0] == [record(3)]


@pytest.mark.parametrize("synced", [False, True])
def test_a_folder_that_was_removed_is_made_again(tmp_path, synced):
    # Who makes room on a full disk may remove it: no event would be taken any more.
    lines, written = [], []
    log = RecordLog(MasterRecords(), folder := tmp_path / "records", lines.append)
    log.append(record(1), now=0.0)
    log.flush()
    shutil.rmtree(folder)
    if synced:
        log.write_through([record(2)], written.append)
    else:
        log.append(record(2), now=0.0)
        log.flush()
    assert read_back(folder)[0] == [record(2)]
    assert (log.lost, lines, written) == (0, [], [True] if synced else [])


def test_a_disk_that_refuses_for_long_is_one_line_and_its_end_another(tmp_path):
    lines = []
    log = RecordLog(MasterRecords(), tmp_path, lines.append)
    (tmp_path / "current.jsonl").mkdir()
    for number in range(20):
        log.append(record(number), now=0.0)
        log.flush()
    assert (log.lost, len(lines)) == (20, 1)
    (tmp_path / "current.jsonl").rmdir()
    for number in range(2):
        log.append(record(number), now=0.0)
        log.flush()
    assert [line.split("; ")[-1] for line in lines[1:]] == ["20 were lost\n"]


@contextmanager
def full_after(size):
    """No file grows beyond `size` bytes; a write across that puts a part there and then fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("synced", [False, True])
def test_a_disk_that_fills_in_the_middle_of_a_line_costs_that_batch_alone(tmp_path, synced):
    lines = []
    log = RecordLog(MasterRecords(), tmp_path, lines.append)
    assert through(log, [record(1)])
    size = (tmp_path / "current.jsonl").stat().st_size
    for _ in range(2):
        with full_after(size + size // 2):
            if synced:
                assert not through(log, [record(2), record(3)])
            else:
                log.append(record(2), now=0.0)
                log.append(record(3), now=0.0)
                log.flush()
        assert read_back(tmp_path) == ([record(1)], [])
    log.append(record(4), now=0.0)
    log.flush()
    assert read_back(tmp_path) == ([record(1), record(4)], [])
    # What was to be written through is not lost: somebody else still has it, and one line says so.
    assert (log.lost, len(lines)) == ((0, 1) if synced else (4, 2))


def test_events_that_are_refused_for_long_are_one_line_and_the_end_another(tmp_path):
    lines = []
    log = RecordLog(MasterRecords(), tmp_path, lines.append)
    (tmp_path / "current.jsonl").mkdir()
    for _ in range(5):
        assert not through(log, [record(1)])
    (tmp_path / "current.jsonl").rmdir()
    for _ in range(2):
        assert through(log, [record(1)])
    assert [line.rpartition("jsonl ")[2] for line in lines] == [
        "takes no events now: Is a directory\n",
        "takes events again\n",
    ]


def test_what_could_not_be_cut_back_at_once_is_cut_back_before_the_next_record(
    tmp_path, monkeypatch
):
    log = RecordLog(MasterRecords(), tmp_path, lambda line: None)
    through(log, [record(1)])
    size = (tmp_path / "current.jsonl").stat().st_size

    def refuse(*_):
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(record_log.os, "truncate", refuse)
    with full_after(2 * size + 10):
        assert not through(log, [record(2), record(3)])
        assert not through(log, [record(2)])
    assert read_back(tmp_path)[0] == [record(1), record(2)]
    monkeypatch.undo()
    assert through(log, [record(2)])
    assert read_back(tmp_path) == ([record(1), record(2)], [])


def test_what_is_written_through_is_synced_before_it_is_said_to_be_there(tmp_path, monkeypatch):
    log = RecordLog(MasterRecords(), tmp_path, lambda line: None)
    synced = []

    def sync(fd):
        path = Path(f"/proc/self/fd/{fd}").readlink()
        synced.append((path.name, len(read_back(tmp_path)[0])))

    monkeypatch.setattr(record_log.os, "fsync", sync)
    log.append(record(1), now=0.0)
    assert through(log, [record(2)])
    # Its name too, once.
    assert synced == [("current.jsonl", 2), (tmp_path.name, 2)]
    assert through(log, [record(3)])
    assert synced[2:] == [("current.jsonl", 3)]

    def fail(_fd):
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(record_log.os, "fsync", fail)
    assert not through(log, [record(4)])
    assert [r.wall_ms for r in read_back(tmp_path)[0]] == [1, 2, 3]


def test_what_was_written_last_is_in_the_current_file_or_the_one_before(tmp_path):
    log = RecordLog(MasterRecords(rotate_bytes=4_096), tmp_path)
    for number in range(100):
        through(log, [record(number)])
        last = [
            decode_record(line) for line in RecordLog(MasterRecords(), tmp_path).recent("query")
        ]
        assert last[-1] == record(number)
        assert not list(log.recent("node_event"))


def test_rotations_that_fail_lose_no_record_and_no_number_and_are_one_line(tmp_path, monkeypatch):
    lines = []
    log = RecordLog(MasterRecords(rotate_bytes=1), tmp_path, lines.append)

    def refuse(*_):
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        for number in range(20):
            through(log, [record(number)])
        [line] = lines
        assert "stays open" in line
        assert [r.wall_ms for r in read_back(tmp_path)[0]] == list(range(20))
    through(log, [record(20)])
    assert [path.name for path in tmp_path.glob("records-*")] == ["records-000001.jsonl"]
    assert len(lines) == 1


def test_a_file_of_the_last_number_is_not_followed_by_one_that_is_never_pulled(tmp_path):
    lines = []
    (tmp_path / "records-999999.jsonl").touch()
    for number in range(3):  # with a restart before each
        log = RecordLog(MasterRecords(rotate_bytes=1), tmp_path, lines.append)
        through(log, [record(number)])
    assert [r.wall_ms for r in read_back(tmp_path)[0]] == [0, 1, 2]
    assert "records-999999.jsonl has the last number; move it away" in lines[0]


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    lines = []
    log = RecordLog(MasterRecords(), tmp_path, lines.append)
    through(log, [record(1)])
    (tmp_path / "records-000001.jsonl").mkdir()
    assert [decode_record(line) for line in log.recent("query")] == [record(1)]
    [line] = lines
    assert "records-000001.jsonl" in line


def test_files_that_are_not_ours_do_not_stop_the_start(tmp_path):
    (tmp_path / "records-old.jsonl").write_text("{}\n")
    log = RecordLog(MasterRecords(rotate_bytes=4_096), tmp_path)
    for number in range(50):
        log.append(record(number), now=0.0)
    log.flush()
    assert (tmp_path / "records-000001.jsonl").exists()
    assert (tmp_path / "records-old.jsonl").exists()


@pytest.mark.parametrize("field", ["record", "iad", "wall_ms", "start_s"])
def test_every_line_says_what_where_and_when(tmp_path, field):
    log = RecordLog(MasterRecords(), tmp_path)
    log.append(record(7), now=0.0)
    log.flush()
    assert field in json.loads((tmp_path / "current.jsonl").read_bytes())


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"),
        (Path.mkdir, "Is a directory"),
    ],
)
def test_what_is_no_file_is_told_and_not_waited_for(tmp_path, make, what):
    current = tmp_path / "current.jsonl"
    make(current)
    lines = []
    log = RecordLog(MasterRecords(), tmp_path, lines.append)
    assert list(log.recent("event")) == []
    assert lines == [
        f"records: {current}: {what}\n",
        f"records: {current}: {what}; its events may be repeated\n",
    ]
    written = []
    log.write_through((), written.append)
    assert written == [False]
    assert lines[2:] == [f"records: {current} takes no events now: {what}\n"]
