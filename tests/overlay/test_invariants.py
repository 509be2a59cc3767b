"""The invariants of the overlay as state machines: what users do is drawn, and shrunk, by
hypothesis; the order of messages on different links comes from a seed."""

import os
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from agent.overlay.events import LinkMeasured
from agent.overlay.scot import BrokerId as At
from agent.overlay.scot import Scot
from tests.examples import examples
from tests.overlay.schedules import Schedule
from tests.overlay.world import EVENTS, FILTERS, tree

EXAMPLES = int(os.environ.get("SANDERLING_SCHEDULES", "10000")) // 100

filters = st.integers(0, len(FILTERS) - 1)
brokers = st.integers(0, 31)
names = st.integers(0, 3)


class Overlay(RuleBasedStateMachine):
    """Without failures."""

    schedule: Schedule

    @initialize(seed=st.integers(0, 2**16), vertices=st.integers(1, 8), clusters=st.integers(1, 4))
    def begin(self, seed: int, vertices: int, clusters: int) -> None:
        rng = Random(seed)
        scot = Scot(tree(rng, vertices), clusters, [f"v{i}" for i in range(vertices)])
        self.schedule = Schedule(rng, scot)

    def _broker(self, number: int) -> At:
        able = [at for at in self.schedule.ats if self.schedule.world.works(at)]
        return able[number % len(able)]

    @rule(broker=brokers, name=names, number=filters)
    def subscribe(self, broker: int, name: int, number: int) -> None:
        self.schedule.subscribe_as(self._broker(broker), f"s{name}", *FILTERS[number])

    @rule(broker=brokers, name=names, number=filters)
    def advertise(self, broker: int, name: int, number: int) -> None:
        self.schedule.advertise_as(self._broker(broker), f"a{name}", *FILTERS[number])

    @rule(broker=brokers, name=names)
    def unsubscribe(self, broker: int, name: int) -> None:
        key = self._broker(broker), f"s{name}"
        if key in self.schedule.subscriptions:
            self.schedule.unsubscribe_as(*key)

    @rule(broker=brokers, name=names)
    def unadvertise(self, broker: int, name: int) -> None:
        key = self._broker(broker), f"a{name}"
        if key in self.schedule.advertisements:
            self.schedule.unadvertise_as(*key)

    @precondition(lambda self: self.schedule.advertisements)
    @rule(number=st.integers(0, 100), event=st.integers(0, len(EVENTS) - 1))
    def publish(self, number: int, event: int) -> None:
        wanted = [
            at
            for (at, _), bits in self.schedule.advertisements.items()
            if bits >> event & 1 and self.schedule.world.works(at)
        ]
        if wanted:
            self.schedule.publish_as(wanted[number % len(wanted)], event)

    @rule(broker=brokers, number=st.integers(0, 31), length=st.sampled_from([0, 5, 50]))
    def congest(self, broker: int, number: int, length: int) -> None:
        at = self._broker(broker)
        scot = self.schedule.scot
        neighbours = scot.cluster_neighbours(at) + scot.region_neighbours(at)
        if neighbours:
            neighbour = neighbours[number % len(neighbours)]
            self.schedule.world.do(at, LinkMeasured(neighbour, length, 1, length))

    @rule(messages=st.integers(1, 20))
    def run(self, messages: int) -> None:
        self.schedule.world.run(messages)

    @rule()
    def rest(self) -> None:
        self.schedule.world.start_all()
        self.schedule.rest()

    def teardown(self) -> None:
        if hasattr(self, "schedule"):
            self.rest()
            self.schedule.withdraw()


class FailingOverlay(Overlay):
    """Links and brokers fail, or do nothing though their links are up, and come back."""

    @initialize(seed=st.integers(0, 2**16), vertices=st.integers(1, 4), clusters=st.integers(1, 3))
    def begin(self, seed: int, vertices: int, clusters: int) -> None:
        super().begin(seed, vertices, clusters)
        self.schedule.fails = True

    def _link(self, number: int) -> frozenset[At] | None:
        links = sorted(map(sorted, self.schedule.world.links))
        return frozenset(links[number % len(links)]) if links else None

    @rule(number=st.integers(0, 100))
    def link_down(self, number: int) -> None:
        link = self._link(number)
        if link is not None:
            self.schedule.world.link_down(link)

    @rule(number=st.integers(0, 100))
    def link_up(self, number: int) -> None:
        link = self._link(number)
        if link is not None:
            self.schedule.world.link_up(link)

    @rule(broker=brokers)
    def crash(self, broker: int) -> None:
        at = self._broker(broker)
        if self._is_one_of_several():
            self.schedule.crashed.add(at)
            self.schedule.world.crash(at)

    def _is_one_of_several(self) -> bool:
        return sum(map(self.schedule.world.works, self.schedule.ats)) > 1

    @rule(broker=brokers)
    def wedge(self, broker: int) -> None:
        if self._is_one_of_several():
            self.schedule.world.wedge(self._broker(broker))

    @precondition(lambda self: self.schedule.world.wedged)
    @rule(number=st.integers(0, 31))
    def go_on(self, number: int) -> None:
        wedged = sorted(self.schedule.world.wedged)
        self.schedule.world.wedged.remove(wedged[number % len(wedged)])

    @rule(number=st.integers(0, 31))
    def start(self, number: int) -> None:
        dead = [at for at in self.schedule.ats if not self.schedule.world.shells[at].alive]
        if dead:
            self.schedule.world.start(dead[number % len(dead)])

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.schedule.world.wait(seconds)


Overlay.TestCase.settings = settings(
    max_examples=examples(EXAMPLES), stateful_step_count=30, deadline=None, derandomize=True
)
FailingOverlay.TestCase.settings = Overlay.TestCase.settings
TestOverlay = Overlay.TestCase
TestFailingOverlay = FailingOverlay.TestCase
