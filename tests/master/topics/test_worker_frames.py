"""Frames between a master and its workers, cut anywhere."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.master.topics.worker_frames import (
    LENGTH,
    MAX_FRAME,
    FrameError,
    Frames,
    decode_answer,
    decode_request,
    frame,
)
from agent.processing.definition import Definition
from agent.processing.events import (
    Failed,
    Finished,
    Load,
    Loaded,
    Run,
    Snapshotted,
    TakeSnapshot,
    Unload,
    WorkerReady,
)

REQUESTS = (
    Load(1, 2, Definition(name="t", processor="p", parameters={"a": [1.5]}), b"state"),
    Run(1, 2, b"body"),
    TakeSnapshot(1, 2),
    Unload(1, 2),
)
ANSWERS = (
    WorkerReady(0),
    Loaded(0, 2),
    Finished(0, 2, b"\x90", 0.25, 4_096),
    Snapshotted(0, 2, b"state"),
    Failed(0, 2, "ValueError: no", 7, True),
)


@given(which=st.lists(st.integers(0, len(REQUESTS + ANSWERS) - 1), max_size=8), data=st.data())
def test_messages_come_out_as_they_went_in(which, data):
    sent = [(REQUESTS + ANSWERS)[n] for n in which]
    stream = b"".join(map(frame, sent))
    frames, bodies = Frames(), []
    while stream:
        size = data.draw(st.integers(1, 60))
        bodies += frames.take(stream[:size])
        stream = stream[size:]
    found = [
        (decode_request if n < len(REQUESTS) else decode_answer)(body)
        for n, body in zip(which, bodies, strict=True)
    ]
    assert found == sent


def test_a_length_beyond_all_bounds_is_refused_before_its_body_comes():
    assert Frames().take(LENGTH.pack(MAX_FRAME)) == []
    with pytest.raises(FrameError):
        Frames().take(frame(WorkerReady(0)) + LENGTH.pack(MAX_FRAME + 1))


# An answer with a field that nobody knows: an array in an array, and so on.
NESTED = b"\x97" + msgspec.msgpack.encode(ANSWERS[-1])[1:] + b"\x91" * 100_000 + b"\xc0"


# Fields that nobody knows, which take as long to read.
MANY = b"\xdc\x40\x00\xa6Loaded" + b"\x01" * 0x3FFF
LONG, FORGED = (
    frame(Failed(0, 1, text))[LENGTH.size :] for text in ("x" * 301, "a\nsanderling: b")
)


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x92\xa6Failed\x01", b"\xa1\xff", NESTED, MANY, LONG, FORGED]
)
def test_what_is_no_answer_is_told_as_such(body):
    with pytest.raises(FrameError):
        decode_answer(body)
