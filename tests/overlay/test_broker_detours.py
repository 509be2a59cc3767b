"""What is gone round while a link or a broker is down, in overlays small enough to see through."""

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from agent.overlay.broker import Broker
from agent.overlay.events import Advertise, LinkDown, LinkUp, Publish, Received, Send, Subscribe
from agent.overlay.limits import Limits
from agent.overlay.scot import BrokerId as At
from agent.overlay.scot import Scot
from agent.overlay.source_routing import SourceRouter, detours
from agent.wire.overlay import (
    CibSet,
    Notification,
    Notify,
    NoWay,
    Origin,
    Relay,
    SubscriptionChange,
    SubscriptionPart,
)
from tests.overlay.world import EVERYTHING, PATIENT, World, between


def overlay(
    links: list[tuple[str, str]], clusters: int, limits: Limits = PATIENT, vertices: str = ""
) -> World:
    """Quiet, and everything up."""
    world = World(Scot(links, clusters, vertices), Random(1), limits=limits)
    world.start_all()
    world.rest()
    return world


def talking(world: World, here: At, there: At) -> World:
    """With a publisher here, a subscriber there."""
    world.subscribe(there, "s", EVERYTHING)
    world.advertise(here, "p", EVERYTHING)
    world.rest()
    return world


def cut(world: World, a: At, b: At) -> None:
    """The link between them goes down, and both know it."""
    world.link_down(frozenset((a, b)))
    world.quiet()


def publish_here(world: World, at: At) -> Origin:
    return world.publish(at, {"x": 1.0, "y": "a"})


def has(world: World, at: At, origin: Origin, name: str = "s") -> int:
    return world.deliveries[at, name, origin]


PATH = [("a", "b"), ("b", "c")]


# --- paths ---------------------------------------------------------------------------------------


def test_paths_round_an_alink_go_through_each_other_cluster() -> None:
    found = list(detours(Scot(PATH, 3), At("a", 1), At("b", 1)))
    assert found == [
        (At("a", 2), At("b", 2), At("b", 1)),
        (At("a", 0), At("b", 0), At("b", 1)),
    ]


def test_paths_round_an_ilink_go_through_third_clusters_and_neighbouring_regions() -> None:
    found = list(detours(Scot(PATH, 3), At("b", 0), At("b", 2)))
    assert found == [
        (At("b", 1), At("b", 2)),
        (At("a", 0), At("a", 2), At("b", 2)),
        (At("c", 0), At("c", 2), At("b", 2)),
    ]


def test_paths_behind_a_broker_leave_it_out() -> None:
    found = list(detours(Scot(PATH, 2), At("a", 0), At("c", 0)))
    assert found == [(At("a", 1), At("b", 1), At("c", 1), At("c", 0))]


def test_paths_into_another_cluster_and_region() -> None:
    found = list(detours(Scot(PATH, 2), At("a", 0), At("b", 1)))
    assert found == [(At("b", 0), At("b", 1)), (At("a", 1), At("b", 1))]


def test_one_cluster_or_two_lone_brokers_have_no_way_round() -> None:
    assert not list(detours(Scot(PATH, 1), At("a", 0), At("b", 0)))
    assert not list(detours(Scot([], 2, ["a"]), At("a", 0), At("a", 1)))


def test_no_path_has_a_broker_twice() -> None:
    scot = Scot([*PATH, ("b", "d")], 3)
    for start in scot.brokers():
        for end in scot.brokers():
            for path in detours(scot, start, end) if start != end else ():
                assert len({start, *path}) == len(path) + 1
                assert path[-1] == end
                steps = zip((start, *path), path, strict=False)
                assert all(scot.link_kind(a, b) for a, b in steps)


# --- links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "end", "far"),
    [
        (lambda: overlay(PATH, 2), At("b", 0), At("c", 0)),
        # Through a third cluster.
        (lambda: overlay([], 3, vertices="a"), At("a", 2), At("a", 2)),
        # Of two clusters, through a neighbouring region.
        (lambda: overlay([("a", "b")], 2), At("a", 1), At("a", 1)),
    ],
    ids=["alink", "ilink", "ilink of two clusters"],
)
def test_round_a_dead_link(world: Callable[[], World], end: At, far: At) -> None:
    here = At("a", 0)
    up = talking(world(), here, far)
    cut(up, here, end)
    origin = publish_here(up, here)
    up.quiet()
    assert has(up, far, origin) == 1
    assert up.settled[origin] == 1
    assert not up.undeliverable


def test_what_cannot_be_gone_round_waits_is_counted_and_comes_later() -> None:
    here, there = At("a", 0), At("a", 1)
    world = talking(overlay([], 2, vertices="a"), here, there)
    cut(world, here, there)
    origin = publish_here(world, here)
    world.quiet()
    assert [each.reason for each in world.undeliverable] == ["no way from a/0 to a/1 at the moment"]
    assert world.brokers[here].counters["held"] == 1
    assert world.brokers[here].counters["without_way"] == 1
    world.wait(100.0)
    assert len(world.undeliverable) == 1
    world.start_all()
    world.quiet()
    assert has(world, there, origin) == 1
    assert world.settled[origin] == 1
    assert not world.held()


def test_tables_go_round_a_dead_link_too() -> None:
    world = overlay(PATH, 3)
    world.advertise(At("a", 0), "p", EVERYTHING)
    world.rest()
    cut(world, At("a", 1), At("b", 1))
    cut(world, At("a", 0), At("a", 1))
    world.subscribe(At("c", 1), "s", EVERYTHING)
    world.quiet()
    assert world.brokers[At("a", 1)].prt_entries == 1
    assert world.brokers[At("a", 0)].targets_of("p") == [1]
    assert world.sent[CibSet.__name__] == 0
    world.start_all()
    world.rest()
    assert world.brokers[At("a", 0)].targets_of("p") == [1]


# --- brokers -------------------------------------------------------------------------------------


def dead_middle(clusters: int) -> tuple[World, Origin]:
    """Of a path of three the middle one is dead, and wants what the first publishes, as the last
    does."""
    world = overlay(PATH, clusters)
    world.subscribe(At("b", 0), "s", EVERYTHING)
    world.subscribe(At("c", 0), "s", EVERYTHING)
    world.advertise(At("a", 0), "p", EVERYTHING)
    world.rest()
    world.crash(At("b", 0))
    world.quiet()
    return world, publish_here(world, At("a", 0))


def test_those_behind_a_dead_broker_are_served_and_it_gets_its_own_later() -> None:
    world, origin = dead_middle(2)
    world.quiet()
    assert has(world, At("c", 0), origin) == 1
    assert not world.settled[origin]
    assert [each.reason for each in world.undeliverable] == ["no way from a/0 to b/0 at the moment"]
    world.start_all()
    world.rest()
    assert has(world, At("b", 0), origin) == 1
    assert has(world, At("c", 0), origin) == 1
    assert world.settled[origin] == 1


def test_in_one_cluster_all_behind_a_dead_broker_waits() -> None:
    world, origin = dead_middle(1)
    world.quiet()
    assert not world.deliveries
    world.start_all()
    world.rest()
    assert (has(world, At("b", 0), origin), has(world, At("c", 0), origin)) == (1, 1)
    assert world.settled[origin] == 1


def test_two_dead_brokers_in_a_row() -> None:
    world = talking(overlay([*PATH, ("c", "d")], 2), At("a", 0), At("d", 0))
    world.crash(At("b", 0))
    world.crash(At("c", 0))
    world.quiet()
    origin = publish_here(world, At("a", 0))
    world.quiet()
    assert has(world, At("d", 0), origin) == 1
    world.start_all()
    world.rest()
    assert has(world, At("d", 0), origin) == 1
    assert world.settled[origin] == 1


def test_a_cluster_is_entered_elsewhere_when_its_broker_here_is_dead() -> None:
    world = overlay(PATH, 2)
    for vertex in "ac":
        world.subscribe(At(vertex, 1), "s", EVERYTHING)
    world.advertise(At("b", 0), "p", EVERYTHING)
    world.rest()
    world.crash(At("b", 1))
    world.quiet()
    origin = publish_here(world, At("b", 0))
    world.quiet()
    assert [has(world, At(vertex, 1), origin) for vertex in "ac"] == [1, 1]
    assert not world.settled[origin]
    world.start_all()
    world.rest()
    assert [has(world, At(vertex, 1), origin) for vertex in "ac"] == [1, 1]
    assert world.settled[origin] == 1


def test_a_long_row_of_dead_brokers_is_not_too_deep() -> None:
    row = [f"v{i}" for i in range(1_500)]
    scot = Scot(pairwise(row), 2)
    first = Broker(At("v0", 0), scot, epoch=1, limits=PATIENT)
    last = SubscriptionPart("v1499", 1, 1, 0, 1, ((1, EVERYTHING),))
    first.handle(LinkUp(At("v1", 0)), 0.0)
    first.handle(Received(At("v1", 0), last), 0.0)
    first.handle(LinkDown(At("v1", 0)), 0.0)
    first.handle(LinkUp(At("v0", 1)), 0.0)
    first.handle(Advertise("p", EVERYTHING), 0.0)
    notification = Notification(Origin("p", "h", 1), 0, {"x": 1.0})
    copies = first.handle(Publish(notification), 0.0)
    assert {each.neighbour for each in copies if isinstance(each, Send)} == {At("v0", 1)}
    first.handle(LinkDown(At("v0", 1)), 0.0)
    # Alone: it is kept for whoever is next, not for each of the thousand.
    first.handle(Publish(Notification(Origin("p", "h", 2), 0, {"x": 1.0})), 0.0)
    first.handle(Subscribe("s", EVERYTHING), 0.0)
    assert first.held == 2


def test_a_subscription_goes_round_a_dead_broker() -> None:
    world = overlay([*PATH, ("c", "d")], 2)
    world.crash(At("b", 0))
    world.crash(At("c", 0))
    world.quiet()
    world.subscribe(At("d", 0), "s", EVERYTHING)
    world.quiet()
    assert world.brokers[At("a", 0)].prt_entries == 1


def test_a_restarted_broker_with_empty_tables_loses_nothing_on_its_way_through() -> None:
    world = overlay(PATH, 1)
    world.subscribe(At("c", 0), "s", between(1, 1))
    world.advertise(At("a", 0), "p", EVERYTHING)
    world.rest()
    world.crash(At("b", 0))
    world.start(At("b", 0))
    world.link_up(frozenset((At("a", 0), At("b", 0))))
    world.quiet()
    # It knows nothing of c yet, and so keeps what c may want.
    origin = publish_here(world, At("a", 0))
    world.quiet()
    assert world.held() == {At("a", 0): 1, At("b", 0): 1}
    world.start_all()
    world.rest()
    assert has(world, At("c", 0), origin) == 1
    assert world.settled[origin] == 1


def test_a_restarted_publisher_takes_clusters_that_it_has_not_heard_of_for_targets() -> None:
    here, there = At("a", 0), At("a", 1)
    world = talking(overlay([], 2, vertices="a"), here, there)
    world.crash(here)
    world.start(here)
    origin = publish_here(world, here)
    world.quiet()
    assert not world.settled[origin]
    world.start_all()
    world.rest()
    assert has(world, there, origin) == 1


def test_who_never_comes_is_given_up() -> None:
    world = World(Scot([("a", "b")], 2), Random(1), limits=Limits(unknown_s=60.0))
    here = At("a", 0)
    world.start(here)
    world.advertise(here, "p", EVERYTHING)
    first = publish_here(world, here)
    world.wait(59.0)
    assert not world.settled[first]
    world.wait(1.0)
    assert world.brokers[here].next_tick is not None
    second = publish_here(world, here)
    assert world.settled[second] == 1


# --- relays --------------------------------------------------------------------------------------


def test_a_relay_that_does_not_fit_goes_nowhere() -> None:
    scot = Scot(PATH, 2)
    broker = Broker(At("b", 0), scot, epoch=1)
    for neighbour in (*scot.cluster_neighbours(broker.broker), At("b", 1)):
        broker.handle(LinkUp(neighbour), 0.0)
    inner = SubscriptionChange("a", 1, 1, 1, EVERYTHING)
    for path, step in [
        ((At("b", 0), At("a", 1)), 0),  # no neighbour
        ((At("a", 0), At("b", 0)), 0),  # not its turn
        ((At("b", 0),), 7),
    ]:
        message = Relay(At("a", 0), path, step, inner)
        sent = broker.handle(Received(At("a", 0), message), 0.0)
        assert not any(isinstance(getattr(each, "message", None), Relay) for each in sent)


def test_nonsense_of_another_overlay_is_counted() -> None:
    broker = Broker(At("b", 0), Scot(PATH, 2), epoch=1)
    notification = Notification(Origin("p", "h", 1), 0, {"x": 1.0})
    for sender, message in [
        (At("a", 0), SubscriptionChange("nowhere", 1, 1, 1, EVERYTHING)),
        (At("a", 0), Notify(notification, b"\x01\x02\x03")),
        (At("a", 0), CibSet(1, 1, (1, 1))),
        (At("z", 0), CibSet(1, 1, (1, 1))),
    ]:
        broker.handle(Received(sender, message), 0.0)
    assert broker.counters["malformed"] == 4


def test_a_broken_spot_is_avoided_for_a_while() -> None:
    out: list[object] = []
    scot = Scot(PATH, 3)
    source_router = SourceRouter(At("a", 0), scot, out)  # type: ignore[arg-type]
    for cluster in (1, 2):
        source_router.link_up(At("a", cluster))
    inner = SubscriptionChange("a", 1, 1, 1, EVERYTHING)
    assert source_router.send(At("b", 0), inner, 0.0)
    relay = out[0].message  # type: ignore[attr-defined]
    assert relay.path == (At("a", 1), At("b", 1), At("b", 0))
    assert (
        source_router.no_way(At("a", 1), NoWay(relay.source, relay.path, 1, -1, inner), 0.0)
        is inner
    )
    assert source_router.send(At("b", 0), inner, 1.0)
    assert out[1].message.path[0] == At("a", 2)  # type: ignore[attr-defined]
    second = NoWay(relay.source, out[1].message.path, 1, -1, inner)  # type: ignore[attr-defined]
    assert source_router.no_way(At("a", 2), second, 1.0) is inner
    assert not source_router.send(At("b", 0), inner, 2.0)
    source_router.link_up(At("b", 1))
    assert source_router.send(At("b", 0), inner, 2.0)
    assert out.pop().message.path[0] == At("a", 1)  # type: ignore[attr-defined]
    source_router.link_down(At("a", 1))
    assert not source_router.send(At("b", 0), inner, 2.0)
    assert source_router.send(At("b", 0), inner, 6.0)


def test_not_advertised() -> None:
    broker = Broker(At("b", 0), Scot(PATH, 2), epoch=1)
    notification = Notification(Origin("p", "h", 1), 0, {"x": 1.0})
    (told,) = broker.handle(Publish(notification), 0.0)
    assert told.reason.startswith("no advertisement of this broker")  # type: ignore[union-attr]


def test_no_such_broker() -> None:
    with pytest.raises(ValueError, match="no vertex"):
        Broker(At("z", 0), Scot(PATH, 2), epoch=1)
