"""What one host may take of a pull: bytes, and time without any."""

from __future__ import annotations

import errno
import threading

import pytest

from fleet.lake.pull.bounds import (
    PROGRESS_BYTES,
    PROGRESS_S,
    Bounded,
    Budget,
    Enough,
    Interrupted,
    unwritten,
)
from fleet.lake.pull.host_source import BEAT
from fleet.lake.pull.records import RecordsTaker
from fleet.ssh.errors import HostError

DATA = {"at": "data"}
DROP = {"at": "drop"}


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s

    def advance(self, seconds):
        self.now_s += seconds


@pytest.fixture
def stop():
    return threading.Event()


@pytest.fixture
def bounded(lake, stop):
    """A master's records, within what it may have of 4,000 bytes, by a clock that stands."""
    clock, takers = Clock(), []

    def made(most=4_000, hosts=2):
        taker = RecordsTaker(lake, "iad1", None)
        takers.append(taker)
        budget = Budget(most, hosts)
        found = Bounded(taker, budget.share(), stop, lambda count: None, clock)
        return found, budget, clock

    yield made
    for taker in takers:
        taker.close()


def test_a_host_that_sends_without_end_leaves_a_share_to_the_others():
    budget = Budget(1_000, 4)
    greedy = budget.share()
    while greedy.left > 0:
        greedy.spend(100)
    others = [budget.share() for _ in range(3)]
    assert [share.left for share in others] == [125, 125, 125]


def test_what_hosts_do_not_need_is_everybody_s():
    budget = Budget(1_000, 4)
    for _ in range(3):
        budget.share().end()
    last = budget.share()
    assert last.left == 1_000
    last.spend(1_000)
    assert last.left == 0


def test_pieces_that_never_land_count(bounded):
    """Otherwise a host could send, and take back, for ever."""
    found, _, _ = bounded()
    for _ in range(3):
        found.take(DATA, b"x" * 1_000)
        found.take(DROP, b"")
    with pytest.raises(Enough):
        found.take(DATA, b"x" * 1_000)


def test_a_piece_that_has_begun_is_completed(bounded):
    found, _, _ = bounded()
    for _ in range(10):
        found.take(DATA, b"x" * 1_000)


@pytest.mark.parametrize("header", [BEAT, {"at": "files", "files": ()}, DROP])
def test_a_host_that_lives_and_sends_nothing_is_given_up(bounded, header):
    found, _, clock = bounded()
    clock.advance(PROGRESS_S)
    found.take(header, b"")
    clock.advance(1.0)
    with pytest.raises(HostError, match="it lives, and sent less than") as caught:
        found.take(header, b"")
    assert caught.value.kind == "lost"


def test_a_slow_host_is_not_given_up_while_bytes_come(bounded):
    found, _, clock = bounded(most=1 << 30)
    for _ in range(10):
        clock.advance(PROGRESS_S - 1.0)
        found.take(DATA, b"x" * PROGRESS_BYTES)


def test_a_trickle_is_no_progress(bounded):
    found, _, clock = bounded(most=1 << 30)
    clock.advance(PROGRESS_S - 1.0)
    found.take(DATA, b"x")
    clock.advance(2.0)
    with pytest.raises(HostError, match="it lives"):
        found.take(DATA, b"x")


def test_ctrl_c_ends_a_pull_of_a_host_that_only_lives(bounded, stop):
    found, _, _ = bounded()
    found.take(BEAT, b"")
    stop.set()
    with pytest.raises(Interrupted):
        found.take(BEAT, b"")


def test_what_the_lake_does_not_take_is_told_in_the_systems_words():
    arrow = OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left")
    assert str(unwritten(arrow)) == "cannot be kept here: No space left on device"
    assert str(unwritten(OSError("a library's"))) == "cannot be kept here: a library's"
