"""From a node's event to a client that acknowledges it: nothing that was accepted is lost untold,
nothing comes twice, whatever is killed between any two steps."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.master.storage.notification_store import NotificationStore
from tests.alerts.disk import Disk
from tests.examples import examples
from tests.master.push_world import KEPT, SPOOLED, World


class OnPlainDisks(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World(self.stores())

    def stores(self):
        """One disk a master, which stays when its process ends."""
        disks = [Disk(), Disk()]
        return [lambda disk=disk: disk for disk in disks]

    @rule(count=st.sampled_from([1, 1, 2, 3, KEPT + 3, SPOOLED + 4]))
    def something_happens(self, count):
        self.world.raise_events(count)

    @rule(data=st.data())
    @precondition(lambda self: self.world.waiting)
    def the_node_sends(self, data):
        waiting = sorted(self.world.waiting)
        self.world.bring(data.draw(st.lists(st.sampled_from(waiting), min_size=1, max_size=20)))

    @rule()
    @precondition(lambda self: self.world.waiting)
    def the_node_sends_all(self):
        self.world.bring(sorted(self.world.waiting))

    @rule()
    def the_node_hears_what_was_accepted(self):
        self.world.node_reads()

    @rule()
    def the_node_does_not_hear_it(self):
        self.world.accepted.clear()

    @rule(data=st.data(), again=st.booleans())
    @precondition(lambda self: self.world.under_way)
    def something_arrives(self, data, again):
        n = data.draw(st.integers(0, len(self.world.under_way) - 1))
        self.world.arrive(n, again=again)

    @rule()
    def all_arrives(self):
        for n in reversed(range(len(self.world.under_way))):
            self.world.arrive(n, again=False)

    @rule(data=st.data(), said=st.booleans())
    @precondition(lambda self: self.world.under_way)
    def something_is_lost_under_way(self, data, said):
        n = data.draw(st.integers(0, len(self.world.under_way) - 1))
        if said:
            self.world.undeliverable(n)
        else:
            self.world.under_way.pop(n)

    @rule(seconds=st.sampled_from([0.0, 0.0, 0.0, 0.6, 1.0, 10.0, 100.0]))
    def time_passes(self, seconds):
        self.world.let_pass(seconds)

    @rule(n=st.integers(0, 2))
    def a_client_reads(self, n):
        self.world.clients[n].read()

    @rule(n=st.integers(0, 2))
    def a_client_reads_and_acknowledges(self, n):
        self.world.clients[n].read()
        self.world.clients[n].acknowledge()

    @rule(n=st.integers(0, 2))
    def a_connection_is_cut(self, n):
        self.world.clients[n].connect()

    @rule(n=st.integers(1, 2))
    def a_subscription_ends(self, n):
        self.world.clients[n].unsubscribe()

    @rule(n=st.integers(0, 1))
    def a_master_is_killed(self, n):
        self.world.masters[n].start()

    @rule(n=st.integers(0, 1), steps=st.integers(0, 12))
    def a_master_will_be_killed(self, n, steps):
        self.world.masters[n].kill_in = steps

    @rule(n=st.integers(0, 1), full=st.booleans())
    def a_disk_is_full_or_not_any_more(self, n, full):
        self.world.masters[n].full = full

    @rule(n=st.integers(0, 1), slow=st.booleans())
    def a_disk_is_slow_or_not_any_more(self, n, slow):
        self.world.masters[n].make_disk(slow=slow)

    @rule(n=st.integers(0, 1))
    def a_slow_disk_has_done_something(self, n):
        self.world.masters[n].disk_works()

    @invariant()
    def it_is_sound(self):
        self.world.check()

    def teardown(self):
        self.world.settle()
        self.world.check_all_told()


class OnSlowDisks(OnPlainDisks):
    """They are slow from the start."""

    def __init__(self):
        super().__init__()
        for master in self.world.masters:
            master.make_disk(slow=True)

    @rule(told=st.booleans())
    @precondition(lambda self: self.world.waiting)
    def the_node_sends_all_again_while_it_is_written(self, told):
        for _ in range(2):
            self.world.bring(sorted(self.world.waiting))
            self.world.let_pass(0.0)
        if told:
            self.world.node_reads()


class OnRealFiles(OnPlainDisks):
    def stores(self):
        self.folder = Path(tempfile.mkdtemp())
        return [lambda path=self.folder / name: NotificationStore(path) for name in "ab"]

    def teardown(self):
        try:
            super().teardown()
        finally:
            for master in self.world.masters:
                master.store.close()
            shutil.rmtree(self.folder)


# As the schedules of the overlay's tests: so many, or more to look longer.
EXAMPLES = int(os.environ.get("SANDERLING_SCHEDULES", "10000")) // 50
OnPlainDisks.TestCase.settings = settings(
    max_examples=examples(EXAMPLES), stateful_step_count=40, deadline=None
)
OnSlowDisks.TestCase.settings = OnPlainDisks.TestCase.settings
OnRealFiles.TestCase.settings = settings(max_examples=10, stateful_step_count=40, deadline=None)
TestOnPlainDisks = OnPlainDisks.TestCase
TestOnSlowDisks = OnSlowDisks.TestCase
TestOnRealFiles = OnRealFiles.TestCase
