"""Topics that move between real masters under a stream of messages, whatever is killed meanwhile:
nothing is lost, doubled or reordered, and each lives at one master in the end."""

from __future__ import annotations

import itertools
import signal

import pytest

from agent.placement.handover.holder import UNSETTLED
from agent.placement.lifecycle import ENDED, SOURCE_TRANSITIONS, TARGET_TRANSITIONS
from agent.wire.handover import MoveUnit
from agent.wire.topics import CreateTopic, ListTopics, Topic
from fleet.cli.commands import run as fleet
from testkit.waiting import PATIENCE_S
from tests.examples import campaign
from tests.master.handover_masters import Masters
from tests.master.party import run
from tests.master.topics.test_topic_process import Outputs, Publisher
from tests.master.worker_rig import package

TOPIC = Topic("counted", processor="count")
# Its state is large enough for its target to have most of it on disk before the move.
CODE = """
def count(message, state):
    if not state:
        state["held"] = bytes(100_000)
    state["seen"] = state.get("seen", 0) + 1
    return [{"n": message["n"], "seen": state["seen"]}]
"""


@pytest.fixture(autouse=True)
def acme(tmp_path, monkeypatch):
    """A package with a processor that counts, for the workers of the masters."""
    folder = package(tmp_path / "acme", CODE, count="acme:count")
    monkeypatch.setenv("PYTHONPATH", str(folder))


class Stream:
    """A publisher and a durable subscriber at the third master."""

    def __init__(self, context, masters):
        self.masters = masters
        self.publisher = Publisher(context, masters["s"])
        self.outputs = Outputs(context, masters["s"])
        self.parties = [self.publisher, self.outputs]
        # What is put out earlier, nobody waits for yet.
        assert run(self.parties, lambda: self.outputs.opened)

    def until(self, condition, seconds=PATIENCE_S):
        """Publish on until it holds."""

        def met():
            if self.publisher.number >= self.publisher.last:
                self.publisher.last += 1
            return condition()

        return run(self.parties, met, seconds)

    def publish(self, count):
        """Until so many more were accepted."""
        wanted = self.publisher.number + count
        assert self.until(lambda: self.publisher.number >= wanted)

    def check(self):
        """All came, once, in order: of the messages, and of the processor's states."""
        count = self.publisher.last
        done = lambda: self.publisher.number >= count and len(self.outputs.got) >= count  # noqa: E731
        run(self.parties, done, 2 * PATIENCE_S)
        expected = [(float(n), n + 1) for n in range(count)]
        got = self.outputs.got
        assert (sorted({*expected} - {*got}), len(got) - len({*got}), got == sorted(got)) == (
            [],
            0,
            True,
        )
        assert got == expected

    def move(self, source, target):
        """Publish while it moves, to the end. A target that was killed may not have heard yet how
        the move before ended: then it says so."""
        unsettled = True
        while unsettled:
            self.masters.move("counted", source, target)
            self.settle()
            move = self.masters.moves(source)[-1]
            unsettled = UNSETTLED in move.trouble
        assert (move.state, move.trouble) == ("settled", "")
        assert self.until(lambda: self.masters.homes("counted") == [target])

    def see_killed(self, killed):
        """Publish until these masters were."""
        processes = [self.masters[iad].process for iad in killed]
        assert self.until(lambda: None not in [each.poll() for each in processes])
        assert [each.returncode for each in processes] == [-signal.SIGKILL] * len(killed)

    def settle(self):
        """Publish until no move is under way."""
        looks = itertools.count()

        def over():
            if next(looks) % 20:
                return False
            states = [each.state for iad in "ab" for each in self.masters.moves(iad)]
            return {*states} <= {"settled", "aborted"}

        assert self.until(over)


@pytest.fixture
def masters(tmp_path):
    masters = Masters(tmp_path)
    yield masters
    masters.stop()


def test_a_topic_moves_under_a_stream_and_back(masters, context, capsys):
    masters.create("a", TOPIC)
    stream = Stream(context, masters)
    stream.publish(5)
    stream.move("a", "b")
    stream.publish(5)
    assert masters.ask("a", ListTopics("l")).moved == {"counted": "b"}
    assert fleet(["topic", "show", "counted", "--operator", masters["a"].operator]) == 0
    assert capsys.readouterr().out == "topic counted has moved to b; ask its master (--iad b)\n"
    assert fleet(["topic", "list", "--operator", masters["a"].operator]) == 0
    assert "counted has moved to b\n" in capsys.readouterr().out
    again = masters.ask("a", CreateTopic("c", TOPIC))
    assert again.message == "topic counted has moved to b; remove it there, then here"
    refused = masters.ask("a", MoveUnit("m", "processor", "counted", "b"))
    assert refused.message == "processor counted is not moved: it lives at b; ask there"
    stream.move("b", "a")
    stream.publish(5)
    stream.check()
    assert masters.ask("a", ListTopics("l")).moved == {}


def kill_and_move(masters, context, state, *killed, again=""):
    """Move the topic from a to b; as soon as the first of `killed` is so far, all of them are. That
    one is killed `again` in the state that it reaches only after a restart."""
    masters.create("a", TOPIC)
    masters.kill_at(killed[0], state, *killed[1:])
    stream = Stream(context, masters)
    stream.publish(3)
    masters.move("counted", "a", "b")
    stream.see_killed(killed)
    stream.publish(3)
    if again:
        if again == "target:aborted":  # the source has taken it back meanwhile
            assert stream.until(lambda: [m.state for m in masters.moves("a")] == ["aborted"])
        masters.restart(killed[0], again)
        stream.see_killed(killed[:1])
    for iad in killed:
        masters.restart(iad)
    stream.until(lambda: False, 0.1)
    check_the_end(masters, stream)


def check_the_end(masters, stream):
    """All moves end, one master has the topic, nothing is lost or doubled, and it can be moved
    on."""
    homes = []

    def at_home():
        # In this order: no move that ends in between.
        states = {each.state for side in "ab" for each in masters.moves(side)}
        homes[:] = masters.homes("counted")
        return states <= ENDED and len(homes) == 1

    assert stream.until(at_home), homes
    stream.publish(3)
    stream.check()
    stream.move(homes[0], OTHER[homes[0]])
    stream.publish(3)
    stream.check()


SOURCE = sorted({to for _, to in SOURCE_TRANSITIONS} - {"reclaiming", "aborted"})
TARGET = sorted({to for _, to in TARGET_TRANSITIONS} - {"lapsed", "resuming", "aborted"})
STATES = [
    *[("a", f"source:{state}") for state in SOURCE],
    ("a", "source:shadowing:written"),
    ("a", "source:handed:written"),
    *[("b", f"target:{state}") for state in TARGET],
    ("b", "target:draining:written"),
]
# Those of a master that was started again: first killed there, then here.
AGAIN = [
    ("target:handed", "target:lapsed", "b"),
    ("target:handed", "target:resuming", "b"),
    ("target:handed", "target:aborted", "b"),
    ("source:draining", "source:reclaiming", "a", "b"),
    ("source:draining", "source:aborted", "a", "b"),
]
OTHER = {"a": "b", "b": "a"}
SHORT = ("b", "target:handed")


def test_a_master_is_killed_during_a_move_and_nothing_is_lost(masters, context):
    iad, state = SHORT
    kill_and_move(masters, context, state, iad)


@pytest.mark.parametrize(
    ("iad", "state"),
    [pytest.param(*each, marks=campaign(n, 6)) for n, each in enumerate(STATES) if each != SHORT],
)
def test_a_master_is_killed_at_every_state(masters, context, iad, state):
    kill_and_move(masters, context, state, iad)


@pytest.mark.parametrize(
    ("iad", "state"), [pytest.param(*each, marks=campaign(n, 7)) for n, each in enumerate(STATES)]
)
def test_both_masters_are_killed_at_once_at_every_state(masters, context, iad, state):
    kill_and_move(masters, context, state, iad, OTHER[iad])


@pytest.mark.parametrize(
    ("state", "again", "killed"),
    [pytest.param(*each[:2], each[2:], marks=campaign(n, 5)) for n, each in enumerate(AGAIN)],
)
def test_a_master_is_killed_again_in_a_state_of_its_restart(masters, context, state, again, killed):
    kill_and_move(masters, context, state, *killed, again=again)
