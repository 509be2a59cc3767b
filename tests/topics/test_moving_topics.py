"""A topic that moves between masters: nothing lost, doubled or out of order, whatever is killed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.topics.moving_world import World

EITHER = ("hear", "process", "checkpoint", "write", "loaded", "forward", "kill", "step")
MASTERS = st.sampled_from(["iad1", "iad2"])
STEPS = st.one_of(
    st.tuples(st.just("publish"), st.integers(0, 1)),
    st.tuples(st.just("learn"), st.integers(0, 1)),
    st.tuples(st.just("deliver"), st.integers(0, 1), MASTERS),
    st.tuples(st.sampled_from(EITHER), MASTERS),
    st.tuples(st.just("pass_on"), st.sampled_from([0, 0, 0, 1])),
    st.tuples(st.just("pass_on"), st.just(0)),
    st.tuples(st.just("lose")),
    st.tuples(st.sampled_from(["move", "wait", "end", "hurry"])),
    st.tuples(st.just("wait"), st.sampled_from([0.6, 6.0])),
)


def take(world, step):
    match step:
        case ("deliver", publisher, name):
            world.deliver(publisher, world.masters[name])
        case ("step", name):
            world.step(world.masters[name])
        case ("lose",):
            world.pass_on(lose=True)
        case ("hurry",):
            for master in world.masters.values():
                world.learn(0)
                world.learn(1)
                world.step(master)
                world.pass_on()
        case (what, str() as name):
            getattr(world.masters[name], what)()
        case (what, *arguments):
            getattr(world, what)(*arguments)


@given(st.lists(STEPS, max_size=120), st.booleans(), st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_every_message_is_put_out_once_wherever_the_topic_goes(steps, processor, spreads):
    world = World(processor=processor, spreads=spreads)
    for step in steps:
        take(world, step)
    world.settle()
    world.check()


@pytest.mark.parametrize("processor", [True, False])
def test_it_goes_there_and_back_while_messages_come(processor):
    world = World(processor=processor)
    owner = world.a
    for turn in range(120):
        world.publish(turn % 2)
        if turn in (20, 80):
            world.move()
        take(world, ("hurry",))
        if turn % 3 == 0:
            take(world, ("hurry",))
        if turn == 60:
            owner = world.b
            assert owner.topics.lives("comfort")
            assert not world.a.topics.lives("comfort")
    world.settle()
    world.check()
    assert world.a.topics.lives("comfort")


def fine_steps():
    """One handover while messages come, each write, message and delivery a step of its own."""
    yield ("move",)
    for turn in range(14):
        yield ("publish", turn % 2)
        yield from [("learn", 0), ("learn", 1), ("pass_on", 0)]
        for name in ("iad1", "iad2"):
            yield from [("deliver", turn % 2, name), ("hear", name), ("process", name)]
            yield from [("checkpoint", name), ("loaded", name), ("write", name), ("pass_on", 0)]
        yield ("wait",)


@pytest.mark.parametrize("killed", ["iad1", "iad2"])
def test_either_is_killed_at_any_moment_of_a_handover(killed):
    steps = list(fine_steps())
    states = set()
    for at in range(len(steps) + 1):
        world = World()
        for step in steps[:at]:
            take(world, step)
        machine = world.masters[killed].holder.machine
        states.add(machine and machine.state)
        world.masters[killed].kill()
        for step in steps[at:]:
            take(world, step)
        world.settle()
        world.check()
    if killed == "iad1":
        assert states == {None, "planned", "shadowing", "draining", "handed"}
    else:
        assert states == {None, "granted", "shadowing", "draining", "handed"}


@pytest.mark.long
@given(st.lists(STEPS, min_size=50, max_size=400), st.booleans(), st.booleans())
@settings(max_examples=1_000, deadline=None)
def test_every_message_is_put_out_once_in_long_schedules(steps, processor, spreads):
    world = World(processor=processor, spreads=spreads)
    for step in steps:
        take(world, step)
    world.settle()
    world.check()
