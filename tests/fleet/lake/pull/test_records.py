"""Records: what is taken, cut off anywhere, spoilt, taken back or gone; nothing is lost or torn."""

from __future__ import annotations

import hashlib
import os

import pytest

from fleet.lake.pull import records
from fleet.lake.pull.dimensions import keep_pulls
from fleet.lake.pull.outcome import COUNTED, HostPulled
from fleet.lake.pull.records import RecordsTaker
from fleet.lake.schema.folder import Lake
from fleet.on_host import records as records_on_host
from fleet.ssh.errors import HostError
from tests.fleet.lake.pull.masters import Master, frames_of, landed, pull


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path / "lake")


@pytest.fixture
def master(tmp_path):
    return Master(tmp_path / "iad1")


def test_every_line_arrives_once(lake, master):
    master.write(50)
    counts, _ = pull(lake, master.config)
    found = landed(lake)
    assert len(master.files) == 3
    assert sorted(found) == sorted(master.lines)
    assert (counts.records, counts.bytes) == (50, sum(len(line) + 1 for line in found))
    assert pull(lake, master.config)[0].records == 0
    master.write(1)
    assert pull(lake, master.config)[0].records == 1
    assert sorted(landed(lake)) == sorted(master.lines)


def test_a_file_that_was_closed_since_goes_on_where_it_was(lake, master):
    master.write(10)
    pull(lake, master.config)
    master.write(30)
    assert master.files[0].name == "records-000001.jsonl"
    assert pull(lake, master.config)[0].records == 30
    assert sorted(landed(lake)) == sorted(master.lines)


def test_what_is_no_file_is_passed_over(lake, master):
    """A pipe would be waited for, and a device is endless."""
    master.write(50)
    folder = master.current.parent
    os.mkfifo(folder / "records-000777.jsonl")
    (folder / "records-000778.jsonl").symlink_to("/dev/zero")
    (folder / "records-000779.jsonl").symlink_to("/dev/full")
    assert pull(lake, master.config)[0].records == 50


def test_segments_are_named_after_their_bytes(lake, master):
    master.write(3)
    pull(lake, master.config)
    (file,) = (lake.records / "iad=iad1").iterdir()
    data = master.current.read_bytes()
    first = hashlib.sha256(data[: data.index(b"\n") + 1]).hexdigest()[:16]
    digest = hashlib.sha256(data).hexdigest()[:8]
    assert file.name == f"{first}-000000000000-{len(data):012}-{digest}.jsonl"
    assert file.read_bytes() == data


def test_cut_after_each_frame_nothing_is_lost_or_torn(tmp_path, master):
    master.write(60)
    _, frames = pull(Lake(tmp_path / "whole"), master.config)
    assert frames > 20
    for after in range(frames):
        lake = Lake(tmp_path / f"lake-{after}")
        before, _ = pull(lake, master.config, after=after)
        assert set(landed(lake)) <= master.lines
        later, _ = pull(lake, master.config)
        assert before.records + later.records == 60  # what was complete is not taken again
        assert sorted(landed(lake)) == sorted(master.lines)
        assert list((lake.staging / "pull").iterdir()) == []


def test_a_crash_after_the_rename_takes_the_same_again_under_the_same_name(
    tmp_path, master, monkeypatch
):
    master.write(40)
    saves = 0

    def crash(*_):
        nonlocal left, saves
        saves += 1
        left -= 1
        if left < 0:
            raise OSError(5, "the power is gone")
        real(*_)

    real = records.save
    left = 1_000
    monkeypatch.setattr(records, "save", crash)
    pull(Lake(tmp_path / "whole"), master.config)
    assert saves > 5
    for crashes in range(saves):
        lake = Lake(tmp_path / f"lake-{crashes}")
        left = crashes
        with pytest.raises(OSError, match="power"):
            pull(lake, master.config)
        names = set((lake.records / "iad=iad1").glob("*"))
        left = 1_000
        pull(lake, master.config)
        assert names <= set((lake.records / "iad=iad1").glob("*"))
        assert sorted(landed(lake)) == sorted(master.lines)  # not even a line twice


def test_of_very_many_small_files_the_state_is_not_written_for_each(lake, master, monkeypatch):
    """It names them all: 100,000 of them take 20 MB."""
    master.records.mkdir(exist_ok=True)
    for number in range(1, 201):
        line = b'{"n":%d}\n' % number
        (master.records / f"records-{number:06}.jsonl").write_bytes(line)
    saved = []
    real = records.save
    monkeypatch.setattr(records, "save", lambda *each: (saved.append(1), real(*each)))
    pull(lake, master.config, segment_bytes=1_000)
    assert len(landed(lake)) == 200
    assert len(saved) == 3  # what there is, after 1,000 bytes, the end
    assert pull(lake, master.config)[0].records == 0


@pytest.mark.parametrize("what", ["bit", "short", "long", "digest", "from", "missing", "twice"])
def test_what_came_damaged_is_not_kept(lake, master, what):
    master.write(40)

    def spoil(header, data):
        if header["at"] == "data":
            changed = {
                "bit": bytes([data[0] ^ 1]) + data[1:],
                "short": data[:-1],
                "long": data + b"\n",
                "missing": b"",
                "twice": data + data,
            }
            return header, changed.get(what, data)
        if header["at"] == "segment" and what == "digest":
            return {**header, "sha256": "0" * 64}, data
        if header["at"] == "segment" and what == "from":
            return {**header, "from": header["from"] + 1}, data
        return header, data

    pull(lake, master.config, spoil=spoil)
    assert landed(lake) == []
    pull(lake, master.config)
    assert sorted(landed(lake)) == sorted(master.lines)


@pytest.mark.parametrize(
    "header",
    [
        {"at": "segment", "id": "../../../etc/x", "from": 0, "to": 1, "sha256": "", "tail": ""},
        {"at": "segment", "id": "0" * 16, "from": -1, "to": 1, "sha256": "", "tail": ""},
        {"at": "lunch"},
        {},
    ],
)
def test_a_host_that_speaks_otherwise_is_refused(lake, header):
    with pytest.raises(HostError, match="nobody understands"):
        RecordsTaker(lake, "iad1", None).take(header, b"")


def test_a_segment_that_ends_amid_a_line_is_refused(lake):
    digest = hashlib.sha256(b"{}").hexdigest()
    taker = RecordsTaker(lake, "iad1", None)
    taker.take({"at": "data"}, b"{}")
    end = {"at": "segment", "id": "0" * 16, "from": 0, "to": 2, "sha256": digest, "tail": digest}
    with pytest.raises(HostError, match="damaged"):
        taker.take(end, b"")
    taker.close()


def test_a_host_that_sends_line_by_line_is_refused(lake):
    """Each segment takes a file of the lake, of which its bytes are no measure."""
    digest = hashlib.sha256(b"\n").hexdigest()
    taker = RecordsTaker(lake, "iad1", None)
    listed = {"id": "0" * 16, "number": None, "size": 9, "mtime_ms": 0, "holds": True}
    taker.take({"at": "files", "files": [listed]}, b"")

    def send(n):
        taker.take({"at": "data"}, b"\n")
        end = {"at": "segment", "id": "0" * 16, "from": n, "to": n + 1}
        taker.take({**end, "sha256": digest, "tail": digest}, b"")

    send(0)
    with pytest.raises(HostError, match="in more pieces"):
        send(1)
    taker.close()
    assert len(list((lake.records / "iad=iad1").iterdir())) == 1


def test_half_a_line_waits_for_its_end(lake, master):
    master.write(3)
    with master.current.open("ab") as file:
        file.write(b'{"half')
    assert pull(lake, master.config)[0].records == 3
    with master.current.open("ab") as file:
        file.write(b'":1}\n')
    assert pull(lake, master.config)[0].records == 1
    assert landed(lake)[-1] == b'{"half":1}'


def test_lines_that_were_taken_back_are_replaced(lake, master):
    master.write(10)
    size = master.current.stat().st_size
    master.write(2)
    pull(lake, master.config)
    os.truncate(master.current, size)
    master.write(2)  # as many bytes, other lines
    assert master.lines - set(landed(lake))
    counts, _ = pull(lake, master.config)
    assert counts.records == 12  # from the start
    assert master.lines <= set(landed(lake))


def test_lines_that_are_taken_back_amid_a_transfer_are_not_torn(lake, master):
    master.write(10)
    size = master.current.stat().st_size
    master.write(5)
    taker = RecordsTaker(lake, "iad1", None)
    for header, data in frames_of(taker, master.config):
        if header["at"] == "data":
            os.truncate(master.current, size)
            master.write(4)
        taker.take(header, data)
    taker.close()
    assert landed(lake) == []
    pull(lake, master.config)
    assert sorted(landed(lake)) == sorted(master.lines)


def test_a_file_that_goes_amid_a_pull_is_passed_over(lake, master):
    master.write(70)
    taker = RecordsTaker(lake, "iad1", None)
    for header, data in frames_of(taker, master.config):
        if header["at"] == "files":
            master.files[0].unlink()
            master.files[-1].rename(master.records / "records-000099.jsonl")
        taker.take(header, data)
    taker.close()
    assert set(landed(lake)) < master.lines
    pull(lake, master.config)
    assert sorted(landed(lake)) == sorted(master.lines)


def test_a_bound_takes_the_oldest_first_and_says_that_there_is_more(lake, master):
    master.write(40)
    seen = []
    while True:
        taker = RecordsTaker(lake, "iad1", None, 1_000)
        for header, data in frames_of(taker, master.config, 1_500):
            taker.take(header, data)
        assert taker.counts.bytes < 1_500 + 250  # a line more
        seen += [line for line in landed(lake) if line not in seen]
        if not taker.more:
            break
        assert taker.counts.bytes >= 1_500
    in_order = [line for file in master.files for line in file.read_bytes().splitlines()]
    assert sorted(seen) == sorted(in_order)


def test_files_whose_newest_record_is_older_than_since_are_left(lake, master):
    master.write(40)
    oldest = master.files[0]
    os.utime(oldest, (1_000, 1_000))
    pull(lake, master.config, since_ms=1_000_001)
    assert set(landed(lake)) == master.lines - set(oldest.read_bytes().splitlines())
    assert pull(lake, master.config, since_ms=1_000_000)[0].records
    assert set(landed(lake)) == master.lines


@pytest.mark.parametrize("number", [1_000_000, 2**62, 2**63, 10**30])
def test_a_host_that_claims_endless_files_ends_no_pull_of_others(lake, number):
    taker = RecordsTaker(lake, "iad1", None)
    file = {"id": "0" * 16, "number": number, "size": 1, "mtime_ms": 0, "holds": True}
    with pytest.raises(HostError, match="nobody understands"):
        taker.take({"at": "files", "files": [file]}, b"")
    for _ in range(100):  # a largest number, then none, over and over
        taker.take({"at": "files", "files": [{**file, "number": 999_999}]}, b"")
        taker.take({"at": "files", "files": []}, b"")
    told = {name: getattr(taker.counts, name) for name in COUNTED}
    keep_pulls(lake, "p", [HostPulled("iad1/master", "done", **told)], 1)


def test_a_line_of_any_length_is_whole(lake, master):
    master.write(2, length=700_000)
    counts, frames = pull(lake, master.config)
    assert counts.records == 2
    assert frames > 5
    assert set(landed(lake)) == master.lines


def test_no_records_are_no_failure(lake, tmp_path):
    config = tmp_path / "master.toml"
    config.write_text('[records]\ndirectory = ""\n')
    assert pull(lake, config)[0].records == 0
    config.write_text("")
    assert pull(lake, config)[0].records == 0


@pytest.mark.parametrize(
    ("text", "said"), [(None, "no master is installed"), ("[", "master.toml: ")]
)
def test_a_host_without_a_configuration_says_so(tmp_path, text, said):
    config = tmp_path / "master.toml"
    if text is not None:
        config.write_text(text)
    with pytest.raises((OSError, ValueError), match=said):
        records_on_host.folder_of(str(config))


def test_a_state_that_cannot_be_read_names_its_file(lake):
    (lake.state / "iad1").mkdir(parents=True)
    (lake.state / "iad1/master.json").write_text("{")
    with pytest.raises(HostError, match=r"iad1/master\.json cannot be read .* delete it"):
        RecordsTaker(lake, "iad1", None)
