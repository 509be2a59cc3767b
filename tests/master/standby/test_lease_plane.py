"""Leases on a machine that may be suspended."""

from __future__ import annotations

import time

from agent.master.requests.request_plane import RequestOrigin
from agent.master.standby.lease_plane import LeasePlane, suspended_too
from agent.wire.leases import LeaseTold
from agent.wire.principals import Sender
from tests.master.standby_world import Disk, State


class Rig:
    """Master `a` of three."""

    def __init__(self):
        self.now = 100.0
        self.disk = Disk()
        self.plane = LeasePlane(lambda: self.now, "a", "abc", State(self.disk), self, self, 7)

    def takes(self, _kind, handler):
        self.handler = handler

    def send(self, to, message):
        pass

    def heard(self, message, now):
        """Another one says this; `now` is the reactor's clock, which stood still."""
        origin = RequestOrigin(message.iad.encode(), b"M", Sender("iad", message.iad))
        self.handler(origin, message, now)


def test_a_lease_ends_while_the_machine_is_suspended():
    rig = Rig()
    rig.plane.turn(())
    rig.heard(LeaseTold("b", "granted", 1, 7, 100.0), 5.0)
    assert rig.plane.held() == 1
    rig.now += 10.0
    assert rig.plane.held() is None


def test_what_waited_in_a_socket_while_it_was_suspended_is_as_old_as_it_is():
    rig = Rig()
    rig.plane.turn(())
    rig.now += 10.0
    rig.heard(LeaseTold("b", "granted", 1, 7, 100.0), 5.0)
    assert rig.plane.held() is None
    rig.heard(LeaseTold("b", "over", 1, master="a"), 5.0)
    assert rig.disk.writes, "it takes a later term"


def test_a_masters_clock_is_one_that_goes_on_while_it_is_suspended():
    boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert suspended_too(time.monotonic)() >= boot
    assert suspended_too(time.time) is time.time
