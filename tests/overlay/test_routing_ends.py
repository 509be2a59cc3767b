"""Decisions hop by hop: every target cluster is entered once, every subscriber's broker is reached
once, and no copy goes farther than the module's docstring says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from _core.matching.civ import Civ
from agent.overlay.events import LinkMeasured
from agent.overlay.link_congestion import LinkStatus
from agent.overlay.routing import Copy, dynamic_copies, static_copies
from agent.overlay.scot import BrokerId, Scot
from tests.overlay.walk import Decide, Message, walk

# More than any walk of the overlays here may need: a loop is seen, not waited for.
ENDLESS = 10_000


def dynamic(length: Callable[[BrokerId, BrokerId], int]) -> Decide:
    """Queues of that length, for ever the same, each read when it is decided on."""

    def decide(own: BrokerId, a_targets: Sequence[BrokerId], clusters: Civ) -> list[Copy]:
        status = LinkStatus()
        for neighbour in (*a_targets, *(BrokerId(own.vertex, each) for each in clusters)):
            status.measured(LinkMeasured(neighbour, 0, 0, length(own, neighbour)))
        return dynamic_copies(own, a_targets, clusters, status)

    return decide


@st.composite
def overlays(draw: st.DrawFn) -> Scot:
    order = draw(st.integers(1, 7))
    parents = [draw(st.integers(0, child - 1)) for child in range(1, order)]
    links = [(f"v{parent}", f"v{child}") for child, parent in enumerate(parents, 1)]
    return Scot(links, draw(st.integers(1, 6)), [f"v{vertex}" for vertex in range(order)])


def check(
    scot: Scot, homes: set[BrokerId], host: BrokerId, targets: set[int], way: list[Message]
) -> None:
    assert len(way) < ENDLESS, "it never ends"
    entered = [message.receiver.cluster for message in way if message.enters]
    assert sorted(entered) == sorted(targets)
    reached = [message.receiver for message in way]
    # Nobody gets two copies, so messages are also brokers that had to handle one.
    assert len(set(reached)) == len(reached)
    assert host not in reached
    expected = {home for home in homes if home.cluster in targets | {host.cluster}}
    assert expected <= {host, *reached}
    # Inside a cluster, messages go only where subscribers are.
    senders = {message.sender for message in way}
    assert all(m.receiver in homes | senders for m in way if not m.enters)


@settings(deadline=None)
@given(st.data(), overlays())
def test_every_target_cluster_is_entered_once_whatever_is_congested(
    data: st.DataObject, scot: Scot
) -> None:
    brokers = list(scot.brokers())
    homes = data.draw(st.lists(st.sampled_from(brokers), unique=True, max_size=12))
    host = data.draw(st.sampled_from(brokers))
    others = [each for each in range(scot.clusters) if each != host.cluster]
    # Some without a subscriber: a bit says that it may have one.
    targets = set(data.draw(st.lists(st.sampled_from(others), unique=True))) if others else set()
    random = data.draw(st.randoms(use_true_random=False))
    lengths: dict[tuple[BrokerId, BrokerId], int] = {}
    crowded = random.random()

    def length(own: BrokerId, neighbour: BrokerId) -> int:
        drawn = random.randint(11, 14) if random.random() < crowded else random.randint(0, 3)
        return lengths.setdefault((own, neighbour), drawn)

    way = list(islice(walk(scot, homes, host, targets, dynamic(length)), ENDLESS))
    check(scot, set(homes), host, targets, way)
    diameter = scot.tree.diameter
    assert max((m.hops for m in way), default=0) <= (len(targets) + 1) * diameter + len(targets)

    way = list(islice(walk(scot, homes, host, targets, static_copies), ENDLESS))
    check(scot, set(homes), host, targets, way)
    assert max((m.hops for m in way), default=0) <= diameter + bool(targets)
    assert all(message.clusters == () for message in way)


def test_the_longest_way_there_is() -> None:
    # Every iLink is congested, every aLink free: bits travel each cluster from end to end.
    scot = Scot([("a", "b"), ("b", "c"), ("c", "d")], clusters=4)
    homes = [BrokerId(end, cluster) for cluster in range(4) for end in "ad"]

    def length(own: BrokerId, neighbour: BrokerId) -> int:
        return 0 if own.cluster == neighbour.cluster else 20

    way = list(walk(scot, homes, BrokerId("a", 0), {1, 2, 3}, dynamic(length)))
    check(scot, set(homes), BrokerId("a", 0), {1, 2, 3}, way)
    assert max(message.hops for message in way) == (3 + 1) * 3 + 3
    assert len(way) == 15  # as many as hops: one long way


# --- OctopiA Fig. 7: the path a - b - c times a triangle, and a publisher at (b, 2) ---
#
# The figure itself is not in the text. Subscribers at (c, 0), (c, 1), (a, 2) and (c, 2) give all
# counts of messages and brokers that the text has for (a) and (c), and the 4 messages of (b). For
# (d), and for the 5 messages and 6 brokers of static routing and the 4 brokers of dynamic routing
# in (b), nobody may be at (a, 2). The text's "4 messages" and "4 brokers" for (b) cannot both be
# true: the messages of one notification form a tree, with one broker more than messages.

PATH = Scot([("a", "b"), ("b", "c")], clusters=3)
HOST = BrokerId("b", 2)
FOUR = [BrokerId("c", 0), BrokerId("c", 1), BrokerId("a", 2), BrokerId("c", 2)]
THREE = [BrokerId("c", 0), BrokerId("c", 1), BrokerId("c", 2)]


def figure(homes: list[BrokerId], *congested: tuple[str, int, str, int]) -> list[str]:
    """The messages, as ``b2-b1 0``: from, to, bits carried. Of congested links the last has the
    least load."""
    queues = {
        (BrokerId(a, i), BrokerId(b, j)): 20 + len(congested) - n
        for n, (a, i, b, j) in enumerate(congested)
    }
    way = list(walk(PATH, homes, HOST, {0, 1}, dynamic(lambda *link: queues.get(link, 0))))
    check(PATH, set(homes), HOST, {0, 1}, way)
    return sorted(
        f"{m.sender.vertex}{m.sender.cluster}-{m.receiver.vertex}{m.receiver.cluster}"
        + "".join(f" {cluster}" for cluster in m.clusters)
        for m in way
    )


def static_count(homes: list[BrokerId]) -> int:
    return len(list(walk(PATH, homes, HOST, {0, 1}, static_copies)))


def test_figure_7a_one_congested_i_link_is_bypassed_through_the_other_cluster() -> None:
    assert static_count(FOUR) == 6
    assert figure(FOUR, ("b", 2, "b", 0)) == [
        *("b0-c0", "b1-b0", "b1-c1"),
        *("b2-a2", "b2-b1 0", "b2-c2"),
    ]


def test_figure_7b_both_congested_and_the_bits_go_along_the_cluster() -> None:
    both = ("b", 2, "b", 0), ("b", 2, "b", 1)
    # The aLink to (a, 2) is more loaded than that to (c, 2), or it would be taken.
    dynamic_way = figure(FOUR, *both, ("b", 2, "a", 2))
    assert dynamic_way == ["b2-a2", "b2-c2 0 1", "c2-c0", "c2-c1"]
    assert static_count(FOUR) == 6
    # As the text counts brokers: 4 against 6.
    assert figure(THREE, *both) == ["b2-c2 0 1", "c2-c0", "c2-c1"]
    assert static_count(THREE) == 5
    # As the text counts messages: 4 against 5.
    more = [*THREE, BrokerId("b", 1)]
    assert figure(more, *both) == ["b2-c2 0 1", "c1-b1", "c2-c0", "c2-c1"]
    assert static_count(more) == 5


def test_figure_7c_the_last_congested_i_link_is_used() -> None:
    way = figure(FOUR, ("b", 2, "b", 0), ("b", 1, "b", 0), ("c", 1, "c", 0))
    # Not over (b, 1) - (a, 1) and the free iLink there: no subscriber is that way.
    assert way == ["b1-c1 0", "b2-a2", "b2-b1 0", "b2-c2", "c1-c0"]
    assert static_count(FOUR) == 6


def test_figure_7d_all_congested_and_the_least_congested_i_link_carries_the_rest() -> None:
    way = figure(THREE, ("b", 2, "b", 0), ("b", 2, "c", 2), ("b", 2, "b", 1))
    assert way == ["b0-c0", "b1-b0", "b1-c1", "b2-b1 0", "b2-c2"]
    assert static_count(THREE) == len(way) == 5
