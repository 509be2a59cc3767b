"""Mutated frames at every socket, without the sockets: nothing raises, and honest parties are
served afterwards. 20,000 here, 80,000 in `make test-long`, as many as wanted in `make fuzz`."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from agent.master.topics import worker_frames
from agent.wire.unions import PublicRequest
from tests.fuzz.campaign import Finding, run
from tests.fuzz.frames import Frames
from tests.fuzz.targets import Everything, decoding
from tests.wire.samples import UNIONS

SERIES = ["ci", *(pytest.param(f"ci {n}", marks=pytest.mark.long) for n in range(1, 5))]


@pytest.mark.parametrize("seed", SERIES)
def test_no_frame_ends_anything_and_honest_parties_are_served(tmp_path, seed):
    assert run(tmp_path, 20_000, seed).frames == 20_000


def test_every_message_that_some_socket_takes_has_its_target(tmp_path):
    everything = Everything(tmp_path)
    everything.close()
    taken = {kind for target in everything.targets for kind in target.kinds}
    # The client's side of what it asks of masters and of the registration service.
    assert {kind for union in UNIONS for kind in get_args(union)} <= taken


def test_a_frame_that_is_not_survived_is_told_with_its_bytes(tmp_path, monkeypatch):
    # As it was before: an answer of nested arrays ended the master.
    monkeypatch.setattr(worker_frames, "decode_answer", worker_frames._decode_answer)
    monkeypatch.setattr("tests.fuzz.targets.decode_answer", worker_frames._decode_answer)
    monkeypatch.setattr("tests.fuzz.campaign.Everything", OnlyPipe)
    with pytest.raises(Finding, match=r"pipe of a worker, frame [\d,]+ of seed 'x': \w+Error") as e:
        run(tmp_path, 20_000, "x")
    bytes.fromhex(str(e.value).splitlines()[-1])


class OnlyPipe(Everything):
    def __init__(self, folder):
        super().__init__(folder)
        self.targets = tuple(t for t in self.targets if t.name == "pipe of a worker")


def test_the_same_seed_gives_the_same_frames_and_many_of_them_are_messages():
    kinds = get_args(PublicRequest)
    first, again = (Frames(kinds, "s", []) for _ in range(2))
    frames = [first.next() for _ in range(2_000)]
    assert frames == [again.next() for _ in range(2_000)]
    decoder = msgspec.msgpack.Decoder(PublicRequest)
    read = 0
    take = decoding(PublicRequest, 1 << 20)
    for frame in frames:
        take(frame)
        with_body = frame[:3] == b"10M"
        try:
            read += with_body and bool(decoder.decode(frame[3:]))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    assert read > 300
    assert len(set(frames)) > 1_500
