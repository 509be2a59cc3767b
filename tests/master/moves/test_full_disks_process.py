"""Topics that move between real masters while the disk of one is full, from each state of the move
on: nothing is lost or doubled, one master has it at any time, and the move ends once there is room.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import psutil
import pytest

from tests.examples import campaign
from tests.master import full_master
from tests.master.handover_masters import Masters
from tests.master.moves.test_handover_process import (
    SOURCE,
    TARGET,
    TOPIC,
    Stream,
    acme,
    check_the_end,
)

__all__ = ["acme"]  # a fixture

FULL = Path(full_master.__file__)
STATES = [*[("a", f"source:{state}") for state in SOURCE], *[("b", f"target:{s}") for s in TARGET]]
# Longer than a lease.
FULL_S = 6.0


@pytest.fixture
def masters(tmp_path):
    masters = Masters(tmp_path)
    yield masters
    masters.stop()


def fill_at(masters, iad, state, *full):
    """Start it anew; once a handover is so far, the disks of `full` take nothing."""
    master = masters[iad]
    master.stop()
    others = ",".join(str(masters[each].process.pid) for each in full if each != iad)
    master.command = (sys.executable, FULL, f"{state}{'@' + others if others else ''}")
    master.start()
    masters.wait_for_links()


def empty(master):
    process = psutil.Process(master.process.pid)
    _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, hard))


def fill_and_move(masters, context, iad, state, full):
    masters.create("a", TOPIC)
    fill_at(masters, iad, state, full)
    stream = Stream(context, masters)
    for each in "ab":  # what is put out before they know of the subscriber is nobody's
        masters[each].wait_until(lambda counters: counters["overlay_subscriptions"])
    stream.publish(3)
    masters.move("counted", "a", "b")
    told = masters[iad].folder / "full"
    assert stream.until(told.exists)
    claims = set()

    def watch():
        """Nobody has it both before and after somebody else."""
        claims.add(tuple("counted" in masters.topics(each) for each in "abab"))
        return False

    stream.until(watch, FULL_S)
    assert not claims & {(True, True, True, each) for each in (False, True)}
    assert not claims & {(each, True, True, True) for each in (False, True)}
    empty(masters[full])
    check_the_end(masters, stream)


@pytest.mark.parametrize(
    ("iad", "state", "full"),
    [
        pytest.param(*each, full, marks=campaign(n, 11))
        for n, (each, full) in enumerate(product(STATES, "ab"))
    ],
)
def test_a_disk_is_full_from_each_state_on(masters, context, iad, state, full):
    fill_and_move(masters, context, iad, state, full)
