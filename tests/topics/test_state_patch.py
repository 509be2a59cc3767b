"""Patches of a processor's state: always exact, and small where little has changed."""

import random
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.processing.definition import StateBytes
from agent.topics.state_patch import MAX_STATE_BYTES, MAX_VALUES, applied, patch

PARTS = st.lists(st.sampled_from([b"", b"a", b"\x00" * 40, bytes(range(64)), b"xyz" * 30]))


@given(PARTS, PARTS)
def test_a_patch_makes_the_later_state_of_the_earlier_one(before, after):
    before, after = b"".join(before), b"".join(after)
    assert applied(before, patch(before, after)) == after


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=9))))
def test_changes_anywhere_are_in_it(before, changes):
    after = bytearray(before)
    for at, change in changes:
        after[at : at + len(change) // 2] = change
    assert applied(before, patch(before, bytes(after))) == after


def test_a_large_state_with_small_changes_has_a_small_patch():
    noise = random.Random(1)
    held = {f"room-{n}": noise.randbytes(1_000) for n in range(1_000)}
    before = msgspec.msgpack.encode({"seen": 127, **held, "mean": 21.5})
    held["room-500"] = noise.randbytes(1_000)
    held["room-700"] = b""
    after = msgspec.msgpack.encode({"seen": 70_000, **held, "mean": 22.75})
    made = patch(before, after)
    assert applied(before, made) == after
    assert len(made) < 3_000


def test_what_is_no_patch_of_this_state_is_told():
    made = patch(b"x" * 100, b"x" * 99)
    for before, wrong in [(b"x", made), (b"", b"\xc1"), (b"", b"\x91\x92\xff\x00")]:
        with pytest.raises(ValueError, match="patch"):
            applied(before, wrong)


def test_a_patch_of_very_many_pieces_is_refused_undecoded():
    pieces = MAX_VALUES // 2
    with pytest.raises(ValueError, match=f"a patch of more than {MAX_VALUES} values"):
        applied(b"", b"\xdd" + pieces.to_bytes(4) + b"\x92\x00\x00" * pieces)
    # A state that is new in every other run.
    rng = random.Random(1)
    before = rng.randbytes(4 << 20)
    after = b"".join(
        part if n % 2 else rng.randbytes(32)
        for n, part in enumerate(before[at : at + 32] for at in range(0, len(before), 32))
    )
    assert applied(before, patch(before, after)) == after


def test_a_patch_makes_no_more_than_a_state_may_have():
    bomb = msgspec.msgpack.encode([(0, 1 << 20)] * 1_000)
    assert len(bomb) < 10_000
    with pytest.raises(ValueError, match="a patch that makes more than 64 MiB"):
        applied(b"x" * (1 << 20), bomb)
    [limit] = [each.le for each in get_args(StateBytes)[1:]]
    assert limit == MAX_STATE_BYTES
