"""A neighbour whose link is up and who does nothing: gone round after a while, and asked again."""

from agent.overlay.broker import Broker
from agent.overlay.events import (
    Instruction,
    LinkMeasured,
    PassedOver,
    Received,
    Reopen,
    Send,
    Tick,
)
from agent.overlay.limits import Limits
from agent.overlay.scot import BrokerId as At
from agent.overlay.scot import Scot
from agent.overlay.source_routing import SourceRouter
from agent.overlay.stall_detector import StallDetector
from agent.wire.overlay import (
    AdvertisementVersion,
    Have,
    Kept,
    NoWay,
    Origin,
    Relay,
    SubscriptionChange,
)
from tests.overlay.one_broker import B1, A, B, C, broker, copy, sent, told
from tests.overlay.test_broker_detours import has, overlay, publish_here
from tests.overlay.world import EVERYTHING, World

PATH = [("a", "b"), ("b", "c")]
HERE, STUCK, BEHIND = At("a", 0), At("b", 0), At("c", 0)


def subscribed(clusters: int) -> World:
    world = overlay(PATH, clusters)
    for at in (STUCK, BEHIND):
        world.subscribe(at, "s", EVERYTHING)
    world.advertise(HERE, "p", EVERYTHING)
    world.rest()
    return world


def go_on(world: World, seconds: int) -> None:
    for _ in range(seconds):
        world.wait(1.0)
        world.quiet()


def test_who_does_nothing_is_gone_round_and_gets_it_once_when_it_goes_on() -> None:
    world = subscribed(clusters=2)
    world.wedge(STUCK)
    origin = publish_here(world, HERE)
    go_on(world, 59)
    assert (has(world, BEHIND, origin), world.pauses) == (0, [])
    # It was asked again after 30 s, and said nothing for as long.
    go_on(world, 1)
    assert (has(world, BEHIND, origin), world.pauses) == (1, [5.0])
    assert not world.settled[origin]
    # Its link is up again, and those behind it no longer wait for it.
    go_on(world, 10)
    another = publish_here(world, HERE)
    world.quiet()
    assert has(world, BEHIND, another) == 1
    world.wedged.clear()
    world.rest()
    for each in (origin, another):
        assert (has(world, BEHIND, each), has(world, STUCK, each)) == (1, 1)
        assert world.settled[each] == 1
    # It is relied on again.
    before = world.brokers[HERE].counters["without_way"]
    publish_here(world, HERE)
    world.rest()
    assert world.brokers[HERE].counters["without_way"] == before > 0


def test_who_waits_for_others_behind_it_keeps_its_link() -> None:
    world = subscribed(clusters=1)
    world.crash(BEHIND)
    world.quiet()
    origin = publish_here(world, HERE)
    go_on(world, 3_600)
    assert world.held()[HERE] == 1
    assert world.pauses == []
    world.start_all()
    world.rest()
    assert has(world, BEHIND, origin) == 1


def test_who_has_too_little_room_for_what_it_is_asked_for_keeps_its_links() -> None:
    limits = Limits(unknown_s=1e9, most_held=20)
    world = overlay([("a", "b"), ("d", "b"), ("b", "c")], 1, limits)
    world.subscribe(BEHIND, "s", EVERYTHING)
    feeders = HERE, At("d", 0)
    for each in feeders:
        world.advertise(each, "p", EVERYTHING)
    world.rest()
    world.crash(BEHIND)
    world.quiet()
    origins = [publish_here(world, each) for _ in range(12) for each in feeders]
    world.quiet()
    # What either brought pushes out what the other one did, each time that it is asked again.
    go_on(world, 200)
    assert world.brokers[STUCK].counters["given_up"] > 20
    assert world.pauses == []
    world.start_all()
    world.rest()
    assert [has(world, BEHIND, each) for each in origins] == [1] * 24


def test_each_time_the_link_stays_down_for_longer_until_something_is_heard() -> None:
    world = subscribed(clusters=1)
    world.wedge(STUCK)
    publish_here(world, HERE)
    go_on(world, 1_000)
    assert world.pauses[:7] == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0]
    assert len(world.pauses) <= 1_000 // 90 + 3
    world.start_all()
    world.rest()
    world.pauses.clear()
    go_on(world, 1_000)
    assert world.pauses == []
    world.wedge(STUCK)
    publish_here(world, HERE)
    go_on(world, 70)
    assert world.pauses == [5.0]


def test_nobody_relies_on_one_that_does_nothing() -> None:
    out: list[Instruction] = []
    source_router = SourceRouter(At("b", 1), Scot(PATH, 2), out)
    for neighbour in (At("a", 1), At("b", 0), At("c", 1)):
        source_router.link_up(neighbour)
    source_router.suspect(At("b", 0))
    word = AdvertisementVersion(1, 1)
    # It is told, and so are those that do what it does not.
    assert not source_router.send(At("b", 0), word, 0.0)
    assert out == [Send(At("b", 0), word)]
    out.clear()
    # It may be where a path ends, and is no part of one.
    source = At("a", 1)
    for path in ([At("b", 1), At("b", 0), At("a", 0)], [At("b", 1), At("b", 0)]):
        assert source_router.relay(source, Relay(source, tuple(path), 0, word)) is None
    assert [type(each.message) for each in out if isinstance(each, Send)] == [NoWay, Relay]
    out.clear()
    source_router.link_down(At("a", 1))
    assert source_router.send(At("a", 1), word, 0.0) is False
    source_router.trust(At("b", 0))
    assert source_router.send(At("a", 1), word, 0.0)
    assert source_router.send(At("b", 0), word, 0.0)


def reopened(made: Broker, now: float) -> list[Reopen]:
    return [each for each in made.handle(Tick(), now) if isinstance(each, Reopen)]


def asked_again() -> Broker:
    """It sent something to c at 0 s, and again at 10 s."""
    made = broker(limits=Limits(resend_s=10.0, stuck_s=10.0, unknown_s=1e9))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    told(made, A, copy())
    assert sent(made.handle(Tick(), 10.0)) == [(C, copy())]
    return made


def test_who_was_never_asked_again_is_not_stuck() -> None:
    assert reopened(asked_again(), 20.0) == [Reopen(C, 5.0)]
    made = asked_again()
    for now in (10.0, 20.0, 30.0):
        made.handle(PassedOver(C, copy()), now)
        assert reopened(made, now + 10.0) == []
    # It leaves at last.
    assert reopened(made, 49.9) == []
    assert reopened(made, 50.0) == [Reopen(C, 5.0)]


def test_who_may_not_have_been_asked_yet_is_not_stuck() -> None:
    made = asked_again()
    made.handle(LinkMeasured(C, 0, 1, 65), 15.0)
    made.handle(LinkMeasured(C, 0, 1, 64), 16.0)
    assert reopened(made, 24.9) == []
    assert reopened(made, 25.0) == [Reopen(C, 5.0)]


def test_word_of_what_was_passed_over_sends_nothing_else() -> None:
    """It comes amid sending: each would call for the next, as deep as custody is long."""
    made = broker(limits=Limits(resend_s=10.0, unknown_s=1e9, most_retried=1))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    for sequence in range(2):
        told(made, A, copy(sequence))
    assert sent(made.handle(Tick(), 10.0)) == [(C, copy(0))]
    assert sent(made.handle(PassedOver(C, copy(0)), 10.0)) == []
    assert sent(made.handle(Tick(), 10.0)) == [(C, copy(1))]


def test_what_was_passed_over_comes_again_though_the_neighbour_is_at_work() -> None:
    made = broker(limits=Limits(resend_s=10.0, unknown_s=1e9))
    told(made, C, SubscriptionChange("c", 1, 1, 1, EVERYTHING))
    for sequence in range(3):
        told(made, A, copy(sequence))
    made.handle(PassedOver(C, copy(1)), 0.0)
    made.handle(PassedOver(B1, copy(2)), 0.0)
    made.handle(PassedOver(C, copy(9)), 0.0)
    made.handle(Received(C, Have((Kept(Origin("p", "h", 0), b"\x01"),))), 5.0)
    assert sent(made.handle(Tick(), 10.0)) == [(C, copy(1))]


def test_a_relay_that_is_passed_over_goes_back_to_who_sent_it() -> None:
    made = broker()
    word = AdvertisementVersion(1, 1)
    source = At("a", 1)
    path = (B1, B, C)
    ((to, onward),) = told(made, B1, Relay(source, path, 1, word))
    assert (to, onward) == (C, Relay(source, path, 2, word))
    back = sent(made.handle(PassedOver(C, onward), 0.0))
    assert back == [(B1, NoWay(source, path, 1, 0, word))]
    # What does not get back either is lost; what was sent from here is kept here.
    assert sent(made.handle(PassedOver(B1, back[0][1]), 0.0)) == []
    assert sent(made.handle(PassedOver(C, Relay(B, (C, A), 0, word)), 0.0)) == []


def test_progress_by_hand() -> None:
    progress = StallDetector(30.0)
    assert progress.next_tick is None
    progress.asked(A, 1.0)
    progress.asked(C, 2.0)
    progress.asked(A, 20.0)
    assert progress.next_tick == 31.0
    assert progress.stuck(30.9) == []
    assert progress.stuck(31.0) == [(A, 5.0)]
    progress.asked(A, 31.0)
    progress.heard(C)
    assert progress.next_tick == 61.0
    progress.forget(A)
    assert progress.next_tick is None
    progress.asked(A, 70.0)
    progress.asked(C, 70.0)
    assert progress.stuck(100.0) == [(A, 10.0), (C, 5.0)]
    progress.heard(A)
    progress.asked(A, 100.0)
    assert progress.stuck(130.0) == [(A, 5.0)]
    # Who was asked and may not have heard of it has the time anew; who was not asked has none.
    progress.asked(A, 200.0)
    progress.asked(C, 201.0)
    progress.waits(A, 205.0)
    progress.waits(B, 205.0)
    assert progress.next_tick == 231.0
    assert progress.stuck(240.0) == [(C, 10.0), (A, 10.0)]
    assert progress.next_tick is None
