"""Which connections a policer holds up, and for how long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.net.policing import (
    BURST_BYTES,
    FEW_BYTES,
    MAX_HELD_UP_S,
    RATE_BYTES_PER_S,
    Passing,
    Policer,
)

STEP_S = 0.1
HOSTS = ("a", "b", "c")


class Links:
    """Connections of hosts through a policer: what is held up sends nothing."""

    def __init__(self, hosts):
        self.now = 0.0
        self.policer = Policer(self.now)
        self.hosts = hosts
        self.sent = dict.fromkeys(range(len(hosts)), 0)
        self.held_up = {}
        for fd, host in enumerate(hosts):
            self.open(fd, host)

    def open(self, fd, host):
        if self.policer.opened(fd, host, self.now):
            self.held_up[fd] = Passing.SMALL

    def step(self, sizes):
        """Each connection sends its size, unless it is held up; the time passes."""
        for fd, size in sizes.items():
            if fd not in self.held_up:
                self.sent[fd] += size
        self.now += STEP_S
        changed = self.policer.step(self.now, self.sent)
        for fd, passing in changed.items():
            if passing is Passing.ALL:
                del self.held_up[fd]
            else:
                self.held_up[fd] = passing
        return changed


links = st.lists(st.sampled_from(HOSTS), min_size=1, max_size=8).map(Links)
sizes = st.dictionaries(st.integers(0, 7), st.integers(0, 64).map(lambda n: n * BURST_BYTES // 64))
fits = int(RATE_BYTES_PER_S * STEP_S / 8)


@given(links, st.lists(st.dictionaries(st.integers(0, 7), st.integers(0, fits)), max_size=200))
def test_a_host_within_its_rate_is_never_held_up(links, steps):
    for each in steps:
        assert links.step({fd: size for fd, size in each.items() if fd in links.sent}) == {}


@given(links, st.lists(sizes, min_size=1, max_size=60))
def test_a_host_sends_no_more_than_its_burst_its_rate_and_what_one_step_lets_in(links, steps):
    for each in steps:
        sizes = {fd: size for fd, size in each.items() if fd in links.sent}
        before = dict(links.sent)
        changed = links.step(sizes)
        for fd, passing in changed.items():
            if passing is Passing.ACKNOWLEDGEMENTS:
                assert links.sent[fd] - before[fd] > FEW_BYTES
        for host in HOSTS:
            sent = {fd: links.sent[fd] for fd, owner in enumerate(links.hosts) if owner == host}
            step = sum(sizes.get(fd, 0) for fd in sent)
            at_rate = BURST_BYTES + RATE_BYTES_PER_S * links.now
            if sum(sent.values()) - step > at_rate:
                large = [fd for fd in sent if sizes.get(fd, 0) > RATE_BYTES_PER_S * STEP_S]
                assert all(fd in links.held_up for fd in large)


@given(links, st.lists(sizes, min_size=1, max_size=20))
def test_all_go_on_soon_after_their_host_became_silent(links, steps):
    for each in steps:
        links.step({fd: size for fd, size in each.items() if fd in links.sent})
    until = links.now + MAX_HELD_UP_S + STEP_S
    while links.now < until:
        links.step({})
    assert links.held_up == {}


def test_a_new_connection_of_a_host_that_is_held_up_passes_small_packets_and_others_all():
    links = Links(("a", "b"))
    assert links.step({0: 2 * BURST_BYTES}) == {0: Passing.ACKNOWLEDGEMENTS}
    links.open(2, "a")
    links.open(3, "b")
    assert links.held_up == {0: Passing.ACKNOWLEDGEMENTS, 2: Passing.SMALL}


def test_of_a_host_only_the_connections_with_more_than_a_fair_share_are_held_up():
    links = Links(("a",) * 4)
    fair = int(RATE_BYTES_PER_S * STEP_S / 4)
    sent = {0: 2 * BURST_BYTES, 1: 2 * fair, 2: fair - 1, 3: FEW_BYTES}
    assert links.step(sent) == {0: Passing.ACKNOWLEDGEMENTS, 1: Passing.ACKNOWLEDGEMENTS}


def test_what_ended_is_forgotten():
    links = Links(("a",))
    links.step({0: 2 * BURST_BYTES})
    links.policer.closed(0, links.now)
    for _ in range(100):
        assert links.step({}) == {}
    assert not links.policer._connections
    assert not links.policer._buckets
    assert not links.policer._held_up


def test_a_host_pays_for_connections_that_ended_before_the_next_step():
    links = Links(("a", "b"))
    links.policer.count(0, 2 * BURST_BYTES)
    links.policer.closed(0, links.now)
    links.open(2, "a")
    links.open(3, "b")
    assert links.held_up == {2: Passing.SMALL}


def test_what_came_slowly_over_a_long_time_is_no_burst():
    links = Links(("a", "b"))
    for _ in range(1_000):
        assert links.step({0: int(RATE_BYTES_PER_S * STEP_S * 0.9)}) == {}
    links.policer.count(1, BURST_BYTES // 2)  # all are counted at the next step
    assert links.step({}) == {}
    assert links.step({0: BURST_BYTES // 2}) == {}
    assert links.step({0: BURST_BYTES}) == {0: Passing.ACKNOWLEDGEMENTS}
