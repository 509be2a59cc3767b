"""What a cluster began to want while the publisher's neighbour in it was down."""

import pytest

from agent.overlay.events import Advertise, LinkDown, LinkUp, Publish
from agent.overlay.limits import Limits
from agent.overlay.scot import BrokerId as At
from agent.wire.overlay import CibState
from tests.overlay.one_broker import B1, B2, A, C, broker, copy, does, told
from tests.overlay.schedules import with_one_down
from tests.overlay.test_broker_detours import has, overlay, publish_here
from tests.overlay.world import EVERYTHING, World

PATH = [("a", "b"), ("b", "c")]
HERE, MATE, THERE = At("a", 0), At("a", 1), At("c", 1)


def publisher(limits: Limits | None = None) -> World:
    world = overlay(PATH, 2, limits or Limits(unknown_s=3_600.0))
    world.advertise(HERE, "p", EVERYTHING)
    world.rest()
    return world


def test_a_subscription_made_while_the_publishers_neighbour_is_dead() -> None:
    world = publisher()
    world.crash(MATE)
    world.quiet()
    world.subscribe(THERE, "s", EVERYTHING)
    world.quiet()
    origin = publish_here(world, HERE)
    world.quiet()
    assert has(world, THERE, origin) == 1
    # The dead one wanted nothing: nothing is kept for it.
    assert world.settled[origin] == 1
    assert not world.held()
    world.start_all()
    world.rest()
    assert world.brokers[HERE].targets_of("p") == [1]


def test_nothing_is_kept_of_what_nobody_wants_while_a_neighbour_is_dead() -> None:
    world = publisher()
    world.crash(MATE)
    world.quiet()
    origin = publish_here(world, HERE)
    world.quiet()
    assert world.settled[origin] == 1
    assert not world.held()
    # Heard of again, it is not asked any more.
    world.start_all()
    world.rest()
    before = world.sent["Notify"] + world.sent["Relay"]
    publish_here(world, HERE)
    world.quiet()
    assert world.sent["Notify"] + world.sent["Relay"] == before


def test_a_publisher_that_starts_again_asks_the_cluster_of_a_dead_neighbour_for_ever() -> None:
    world = publisher()
    world.subscribe(THERE, "s", EVERYTHING)
    world.rest()
    world.crash(MATE)
    world.crash(HERE)
    world.start(HERE)
    world.link_up(frozenset((HERE, At("b", 0))))
    world.quiet()
    first = publish_here(world, HERE)
    world.quiet()
    assert has(world, THERE, first) == 1
    # The neighbour itself may want it, for an hour.
    assert not world.settled[first]
    world.wait(3_600.0)
    second = publish_here(world, HERE)
    world.quiet()
    assert has(world, THERE, second) == 1
    assert world.settled[second] == 1


def test_what_comes_round_a_link_that_is_down_ends_no_doubt() -> None:
    made = broker()
    does(made, Advertise("p", EVERYTHING))
    does(made, LinkDown(B1))
    told(made, B1, CibState(1, (), (1,), (1, 5)))
    beside = dict(does(made, Publish(copy().notification)))
    assert {message.path[-1] for message in beside.values()} == {At("a", 1), At("c", 1)}
    does(made, LinkUp(B1))
    # Until it says what it wants it may be everything.
    assert does(made, Publish(copy(2).notification)) == [(B1, copy(2))]
    told(made, B1, CibState(1, (), (1,), (1, 6)))
    assert does(made, Publish(copy(3).notification)) == []


def test_who_is_alone_keeps_nothing_for_those_in_doubt() -> None:
    made = broker()
    does(made, Advertise("p", EVERYTHING))
    for neighbour in (A, C, B1, B2):
        does(made, LinkDown(neighbour))
    does(made, Publish(copy().notification))
    assert made.held == 0


@pytest.mark.parametrize("seed", range(60))
def test_one_broker_down_and_others_change_their_minds(seed: int) -> None:
    """Whatever was subscribed and known while it was down is owed what was published after."""
    with_one_down(seed)
