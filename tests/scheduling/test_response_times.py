"""Response times of nodes, in virtual time: a master that is late itself blames no node for it, and
a node that is slow is seen all the same."""

import heapq
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling.events import SubtaskReturned, Tick
from agent.scheduling.tasks.response_times import ResponseTimes
from agent.wire import node_messages as nm
from tests.scheduling.oracle import aggregate
from tests.scheduling.rigs import TaskRig

seconds = st.floats(0.0, 100.0)


@given(st.lists(st.tuples(seconds, seconds, seconds), min_size=1))
def test_a_time_lies_where_it_can_have_been(taken):
    times = ResponseTimes()
    for longest_s, late_s, at_node_s in taken:
        found = times.of(longest_s, late_s, at_node_s)
        assert longest_s - late_s - 1e-9 <= found <= longest_s + 1e-9
        assert found >= min(at_node_s, longest_s) - 1e-9
        # One that waited for nothing is taken as it is.
        assert times.of(longest_s, 0.0, at_node_s) == pytest.approx(longest_s)


@pytest.mark.parametrize("said_s", [-1e300, float("nan"), 1e300])
def test_what_a_node_says_moves_nothing_out_of_what_was_measured(said_s):
    times = ResponseTimes()
    for _ in range(3):
        assert 0.5 <= times.of(1.0, 0.5, said_s) <= 1.0
        assert times.of(1.0, 0.0, said_s) == pytest.approx(1.0)


class World:
    """A master with one node, ten tasks a second. Its loop looks at its sockets `every_s`; 0 is
    whenever something comes. The node serves in 20 to 300 ms; travel takes 2 to 12."""

    def __init__(self):
        self.rig = TaskRig()
        self.rig.join("n1", pods=64)
        self.draw = random.Random(7)
        self.now = 0.0
        self.asked = 0
        self.sent = 0
        self.slower = 1.0
        self.travel_s = 0.0
        # (when it arrives at the master, a result, when its subtask was sent; None: a task to ask)
        self.coming = [(0.1, 0, None, 0.0)]

    def run(self, until_s, every_s=0.0):
        looked_s = self.now
        while self.now < until_s:
            looked_s, self.now = self.now, self.now + every_s
            if not every_s:
                looked_s = self.now = self.coming[0][0]
            while self.coming and self.coming[0][0] <= self.now:
                at_s, _, result, sent_s = heapq.heappop(self.coming)
                if result is None:
                    self.ask(at_s)
                else:
                    event = SubtaskReturned("link-n1", result, sent_s, self.now - looked_s)
                    self.rig.do(event, self.now)
                self.send()
            self.rig.do(Tick(), self.now)

    def ask(self, at_s):
        self.asked += 1
        self.rig.ask(self.asked, ("b1/f4/r1",), now=self.now, budget_ms=1e4, timeout_ms=1e5)
        heapq.heappush(self.coming, (at_s + 0.1, -self.asked, None, 0.0))

    def send(self):
        for _, subtask in self.rig.dispatched[self.sent :]:
            self.sent += 1
            served_s = self.draw.uniform(0.02, 0.3) * self.slower
            back_s = self.now + served_s + self.draw.uniform(0.002, 0.012) + self.travel_s
            result = nm.SubtaskResult(
                subtask.id, "ok", 1.0, served_s * 1e3 - 1.0, aggregate=aggregate(20.0)
            )
            heapq.heappush(self.coming, (back_s, subtask.id, result, self.now))

    @property
    def unloaded_s(self):
        return self.rig.estimator.deadline([0], 99.0, 1.0, self.now).unloaded_s


@pytest.fixture
def world():
    world = World()
    world.run(300.0)
    assert world.unloaded_s == pytest.approx(0.31, abs=0.02)
    return world


def test_a_flood_that_makes_the_loop_late_leaves_the_deadlines_where_they_were(world):
    before_s = world.unloaded_s
    asked = world.asked
    world.run(360.0, every_s=4.0)
    assert world.asked - asked > 500, "the flood's share of the samples is far above 1 %"
    assert world.unloaded_s == pytest.approx(before_s, rel=0.1)
    world.run(420.0)
    assert world.unloaded_s == pytest.approx(before_s, rel=0.1)


def test_a_master_that_starts_late_learns_what_its_nodes_take():
    world = World()
    world.run(120.0, every_s=4.0)
    assert world.unloaded_s == pytest.approx(0.31, rel=0.1)


def test_a_node_that_becomes_slow_is_seen(world):
    before_s = world.unloaded_s
    world.slower = 5.0
    world.run(360.0)
    assert world.unloaded_s > 4 * before_s


def test_a_node_that_becomes_slow_in_the_flood_is_seen(world):
    before_s = world.unloaded_s
    world.slower = 5.0
    world.run(360.0, every_s=4.0)
    assert world.unloaded_s > 4 * before_s


def test_a_network_that_becomes_slow_is_seen(world):
    before_s = world.unloaded_s
    world.travel_s = 1.0
    world.run(360.0)
    assert world.unloaded_s > 1.0 + before_s / 2
    # And more than the lateness can explain is, also in a flood.
    world.travel_s = 9.0
    world.run(420.0, every_s=4.0)
    assert world.unloaded_s > 5.0


def test_what_the_master_does_before_it_sends_is_no_response_time(world):
    rig = world.rig
    rig.ask(9_999, ("b1/f4/r1",), now=world.now, budget_ms=1e4)
    _, subtask = rig.dispatched[-1]
    result = nm.SubtaskResult(subtask.id, "ok", 0.0, 100.0, aggregate=aggregate(20.0))
    taken = []
    rig.scheduler._estimator.observe = lambda _column, s, _now: taken.append(s)
    rig.do(SubtaskReturned("link-n1", result, world.now + 3.0, 0.0), world.now + 3.15)
    assert taken == [pytest.approx(0.15)]
