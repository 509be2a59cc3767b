"""What owners say to standbys: whole checkpoints one after another, outputs, removals."""

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.alerts.notifications import history_of
from agent.master.standby.guards import HELD_UP_S, MAX_WHOLE, WHOLE_AGAIN_S, Guards
from agent.master.standby.paced import Paced
from agent.master.storage.state import State
from agent.placement.world import Unit
from agent.topics.contents import OUTPUT
from agent.topics.events import Progress, Release
from agent.wire import handover as w
from agent.wire.overlay import Notification, Origin

BODY = bytes(100_000)


class Owner:
    """Guards of many topics, each with a state of 100 kB, and what they need; the disk takes all at
    once. Standbys alternate between two masters."""

    def __init__(self, count):
        self.now = 0.0
        self.wanted = [f"t{n}" for n in range(count)]
        self.told = deque()
        self.gone = []
        self.here = set(self.wanted)
        self.judges = True
        self.hold = 1
        self.freed_units = []
        self.disowned = []
        self.said = []
        self.guards = Guards(
            lambda: self.now, self, self, self, self, self, self, self.second, 1, self.said.append
        )

    def second(self, unit):
        return "bc"[int(unit.name[1:]) % 2]

    # the state
    read = State.read

    def all(self, kind):
        return {}

    def put(self, kind, key, body):
        pass

    def remove(self, kind, key):
        pass

    def when_durable(self, then):
        then()

    # leases
    def held(self):
        return self.hold

    def dead(self, name, term):
        return False

    # handovers, topics, moves, shadows
    def tell(self, to, unit, message):
        self.told.append((to, unit, message))

    def freed(self, unit):
        self.freed_units.append(unit)

    def moving(self, unit):
        return False

    def epoch(self, unit):
        return 1

    def to_release(self, name):
        return []

    def let_go(self, release):
        self.gone.append(release)

    def lives(self, unit):
        return unit.name in self.here

    def resume(self, unit):
        pass

    def incarnation(self, name):
        return "inc" if name in self.here else ""

    def named(self, name):
        return b""

    def last(self, name):
        return 0

    def disown(self, name, incarnation):
        self.disowned.append(name)

    def checkpoint(self, name, after, beyond, waiting):
        return (BODY if not beyond else b""), 0, 7

    # what the test does
    def name_all(self):
        """All have standbys that are ready to begin."""
        while len(self.guards) < len(self.wanted):
            self.guards.turn(self.now)
        self.now += 1.0
        self.guards.turn(self.now)
        self.told.clear()
        self.restart_standbys(term=1)

    def restart_standbys(self, term):
        for name in self.wanted:
            unit = Unit("processor", name)
            self.guards.heard(unit, self.second(unit), w.StandbyReady(term))

    def answer(self, to, unit, message):
        self.guards.heard(unit, to, w.StandbyKept(message.term, message.attempt))

    def run(self, answers=lambda _: True):
        """Answer one checkpoint after another; the most that were whole and under way to one
        master, and how many were sent to each."""
        most, under_way, sent = 0, {}, Counter()
        while self.told or under_way:
            while self.told:
                to, unit, message = self.told.popleft()
                if isinstance(message, w.StandbyUpdate) and answers(to):
                    under_way[unit] = to, message, len(message.body) == len(BODY)
                    sent[to] += len(message.body) == len(BODY)
            whole = Counter(to for to, _, is_whole in under_way.values() if is_whole)
            most = max(most, *whole.values(), 0)
            for unit in list(under_way)[:1]:
                to, message, _ = under_way.pop(unit)
                self.answer(to, unit, message)
        return most, sent


def test_a_standby_that_was_restarted_gets_whole_checkpoints_a_few_at_a_time():
    owner = Owner(1_000)
    owner.name_all()
    assert owner.run() == (MAX_WHOLE, {"b": 500, "c": 500})
    owner.restart_standbys(term=2)
    most, sent = owner.run()
    assert most == MAX_WHOLE
    assert sent == {"b": 500, "c": 500}
    assert all(owner.guards.told(Unit("processor", name)) in "bc" for name in owner.wanted)


def test_a_standby_that_does_not_answer_delays_no_other_and_is_tried_again_later():
    owner = Owner(40)
    owner.name_all()
    sent = sum(to == "b" for to, _, each in owner.told if isinstance(each, w.StandbyUpdate))
    assert sent == MAX_WHOLE
    assert owner.run(lambda to: to == "c") == (MAX_WHOLE, {"c": 20})
    owner.now += WHOLE_AGAIN_S / 2
    owner.guards.turn(owner.now)
    assert not [each for to, _, each in owner.told if len(getattr(each, "body", b"")) > 1_000]
    owner.now += WHOLE_AGAIN_S
    owner.guards.turn(owner.now)
    assert owner.run() == (MAX_WHOLE, {"b": 20})


def test_what_is_made_meanwhile_waits_for_its_turn():
    owner = Owner(20)
    owner.name_all()
    release = Release("t18", 1, Progress("inc"), ())
    assert owner.guards.waits(release)
    owner.run()
    assert owner.gone == [release]


def test_the_operator_hears_that_outputs_wait_for_a_standby_that_is_only_cut_off():
    owner = Owner(2)
    owner.name_all()
    owner.run()
    units = [Unit("processor", name) for name in owner.wanted]
    releases = [Release(name, 1, Progress("inc"), ()) for name in owner.wanted]
    for release in releases:
        assert owner.guards.waits(release)
    owner.run(lambda to: to == "c")
    assert owner.gone == releases[1:]
    owner.now += HELD_UP_S - 0.1
    owner.guards.turn(owner.now)
    assert not owner.said
    assert [owner.guards.told(unit) for unit in units] == ["b gets ready", "c"]
    owner.now += 0.1
    for _ in range(3):
        owner.guards.turn(owner.now)
    [line] = owner.said
    assert "outputs of processor t0 wait for b, which is not known to be dead" in line
    assert [owner.guards.told(unit) for unit in units] == [
        "b does not answer, and is not known to be dead: outputs wait", "c",
    ]  # fmt: skip
    # It answers again, and is cut off once more.
    owner.run()
    assert owner.gone[::-1] == releases
    assert owner.guards.told(units[0]) == "b"
    owner.guards.turn(owner.now)
    assert owner.guards.waits(releases[0])
    owner.now += HELD_UP_S
    owner.guards.turn(owner.now)
    assert len(owner.said) == 2


def test_an_output_is_withheld_while_the_lease_is_not_held():
    owner = Owner(1)
    owner.name_all()
    owner.run()
    history = history_of("topic/t0", "inc")
    told = {"topic": "t0", "kind": OUTPUT}
    made = Notification(Origin("a", history, 1), 0, told)
    assert not owner.guards.withholds(made)
    owner.hold = None
    assert owner.guards.withholds(made)
    # What clients publish, other topics and an earlier topic of that name are not the standby's.
    for other in (
        Notification(made.origin, 0, {**told, "kind": "input"}),
        Notification(made.origin, 0, {**told, "topic": "t1"}),
        Notification(Origin("a", history_of("topic/t0", "earlier"), 1), 0, told),
        Notification(made.origin, 0, {}),
    ):
        assert not owner.guards.withholds(other)


def test_who_waits_hears_when_the_standby_is_dismissed():
    owner = Owner(1)
    owner.name_all()
    owner.run()
    unit = Unit("processor", "t0")
    owner.here.clear()
    said = []
    owner.guards.when_free(unit, said.append)
    ((to, _, dismiss),) = owner.told
    assert isinstance(dismiss, w.StandbyDismiss)
    assert not said
    assert owner.guards.waits_for(unit) == "its standby at b has not let it go yet"
    owner.guards.heard(unit, to, w.StandbyDismissed(dismiss.term, dismiss.attempt))
    assert said == [""]
    assert not owner.guards.waits_for(unit)
    owner.guards.when_free(unit, said.append)
    assert said == ["", ""]


def test_who_removes_a_topic_that_was_taken_over_hears_that_it_goes_on():
    owner = Owner(1)
    owner.name_all()
    owner.run()
    unit = Unit("processor", "t0")
    owner.here.clear()
    said = []
    owner.guards.when_free(unit, said.append)
    owner.guards.heard(unit, "b", w.StandbyTook(1 << 20))
    assert said == ["b had taken it over, and goes on: remove it there, too"]
    assert owner.disowned == ["t0"]


@pytest.mark.parametrize("epoch", [0, 1 << 33, 2**53 - 1])
def test_a_standby_that_took_it_over_in_an_epoch_that_cannot_be_is_not_believed(epoch):
    owner = Owner(1)
    owner.name_all()
    owner.run()
    unit = Unit("processor", "t0")
    owner.here.clear()
    owner.guards.heard(unit, "b", w.StandbyTook(epoch))
    assert not owner.disowned
    owner.guards.heard(unit, "b", w.StandbyTook(1 << 20))
    assert owner.disowned == ["t0"]


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("bc"), st.booleans()), max_size=60))
def test_no_receiver_gets_too_many_and_all_have_their_turn(steps):
    paced = Paced(2, 3.0)
    under_way = {"b": set(), "c": set()}
    waiting = {"b": [], "c": []}

    def begins(key, to):
        if paced.begins(to, (key, to), 0.0):
            assert len(under_way[to]) < 2
            under_way[to].add(key)
            return
        if key not in under_way[to] and key not in waiting[to]:
            assert len(under_way[to]) == 2
            waiting[to].append(key)

    for key, to, ends in steps:
        if not ends:
            begins(key, to)
            continue
        under_way[to].discard(key)
        paced.ended(to, (key, to))
        for next_, its in paced.next(0.0):
            assert waiting[its].pop(0) == next_
            begins(next_, its)
        assert all(not waiting[its] or len(under_way[its]) == 2 for its in "bc")


@pytest.mark.parametrize("most", [1, 3])
def test_who_does_not_answer_makes_room_after_a_while(most):
    paced = Paced(most, 3.0)
    keys = [n for n in range(2 * most) if paced.begins("b", n, 0.0)]
    assert keys == [*range(most)]
    assert not [*paced.next(2.9)]
    came = []
    for key in paced.next(3.0):
        came.append(key)
        assert paced.begins("b", key, 3.0)
    assert came == [*range(most, 2 * most)]
