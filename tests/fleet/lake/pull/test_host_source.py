"""Frames: what a program yields arrives as it was, over a pipe as over SSH, or not at all."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.lake.pull.host_source import MAX_BYTES, Here, unpacked
from fleet.on_host.logs import frame
from fleet.ssh.errors import HostError
from tests.fleet.lake.pull.masters import Master
from tests.fleet.on_host import running as on_host


def run(program: str, asked: Any) -> list[Any]:
    """The lines that the host's side prints."""
    return on_host.run({"do": "logs", "program": program, "asked": asked})


def run_text(text: str, asked: Any) -> list[Any]:
    """The same of a program of its own."""
    text += "\ndef place(asked):\n    return ''\n"
    return on_host.run({"do": "logs", "program": "reader", "asked": asked}, reader=text)


@given(data=st.binary(max_size=2_000), header=st.dictionaries(st.text(), st.integers()))
def test_a_frame_arrives_as_it_was(data, header):
    line = json.loads(json.dumps(frame(header, data)))
    assert unpacked(line) == (header, data)


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


WHOLE = frame({"at": "data"}, b"some bytes")


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"ok": True},
        WHOLE | {"data": WHOLE["data"][:-8]},
        WHOLE | {"data": packed(b"other bytes")},
        WHOLE | {"data": "?"},
        WHOLE | {"data": 1},
        WHOLE | {"sha256": hashlib.sha256(b"other").hexdigest()},
        WHOLE | {"header": "data"},
        # A few bytes that stand for very many.
        frame({}, bytes(MAX_BYTES + 1)),
        frame({}, bytes(50 * MAX_BYTES)),
    ],
)
def test_a_damaged_frame_is_a_lost_connection(line):
    with pytest.raises(HostError, match="came is damaged") as caught:
        unpacked(line)
    assert caught.value.kind == "lost"


def test_the_largest_frame_is_taken():
    assert unpacked(frame({}, bytes(MAX_BYTES))) == ({}, bytes(MAX_BYTES))


def test_a_program_sees_what_it_is_asked_and_ends_with_ok():
    program = "def frames(asked):\n    yield {'word': asked['word']}, b'x' * 300_000\n"
    line, end = run_text(program, {"word": "ü"})
    assert unpacked(line) == ({"word": "ü"}, b"x" * 300_000)
    assert end == {"ok": True}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("OSError(5, 'Input/output error', '/x')", "/x: Input/output error"),
        ("OSError(5, 'Input/output error')", "Input/output error"),
        ("ValueError('not this')", "not this"),
        ("KeyError()", "KeyError"),
    ],
)
def test_a_failure_is_one_line_and_what_came_before_stays(error, said):
    program = f"def frames(asked):\n    yield {{}}, b'1'\n    raise {error}\n"
    line, end = run_text(program, {})
    assert unpacked(line) == ({}, b"1")
    assert (end["kind"], said in end["error"]) == ("failed", True)


def test_what_takes_half_of_the_memory_ends_in_one_line():
    pages = "os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')"
    program = f"import os\ndef frames(asked):\n    yield {{}}, bytes({pages} * 2 // 3)[:1]\n"
    assert run_text(program, {}) == [
        {"kind": "failed", "error": "what is there takes more than half of the host's memory"}
    ]


def test_a_folder_of_this_machine_says_the_same(tmp_path):
    source = Here(str(tmp_path / "none.toml"))
    asked = {"known": {}, "since_ms": None, "segment_bytes": 9, "max_bytes": 9}
    with pytest.raises(HostError, match="no master is installed there"):
        source.run("fleet.on_host.records", asked, lambda header, data: None)


def test_records_come_alike_from_a_process_and_from_here(tmp_path):
    master = Master(tmp_path / "iad1")
    master.write(60)
    asked = {"known": {}, "since_ms": None, "segment_bytes": 1_000, "max_bytes": 1 << 30}
    here: list[Any] = []
    Here(str(master.config)).run(
        "fleet.on_host.records", asked, lambda header, data: here.append((header, data))
    )
    *frames, end = run("fleet.on_host.records", {**asked, "config": str(master.config)})
    assert [unpacked(line) for line in frames] == here
    assert end == {"ok": True}
