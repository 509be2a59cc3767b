"""Redundant tasks: which two are asked, whose answer counts, when the query is complete."""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.scheduling.events import ServiceChanged, TaskUndeliverable, Tick
from agent.scheduling.pools import Offers
from agent.wire import messages as m
from agent.wire.areas import covers, overlaps
from agent.wire.market import Member, Service
from tests.examples import examples
from tests.scheduling.rigs import QueryRig

ROOMS = ("b1/f1/r1", "b1/f1/r2", "b1/f2/r1", "b1/f2/r2")


def members(*offers):
    return tuple(Member(f"iad{n}", "inproc://", areas) for n, areas in enumerate(offers, 1))


def asked_for(fanout, room):
    return [match.iad for match in fanout.matches if room in match.expected]


def test_pairs_rotate_over_all_who_cover_an_area():
    pool = members(*[("b1",)] * 4)
    pairs = []
    for turn in range(24):
        fanout = Offers(pool).two_for_each(("b1",), turn)
        assert fanout.k_q == 1
        pairs.append(tuple(match.iad for match in fanout.matches))
    assert len(set(pairs)) == 6
    assert all(pairs.count(pair) == 4 for pair in pairs)


def test_an_area_that_one_covers_goes_to_that_one():
    pool = members(("b1/f1/r1", "b1/f1/r2"), ("b1/f1/r2",), ("b1/f2/r1",))
    fanout = Offers(pool).two_for_each(("b1",), 0)
    assert asked_for(fanout, "b1/f1/r1") == ["iad1"]
    assert asked_for(fanout, "b1/f1/r2") == ["iad1", "iad2"]
    assert asked_for(fanout, "b1/f2/r1") == ["iad3"]
    assert fanout.k_q == 2, "iad2 need not come back"


def test_who_serves_only_some_of_its_areas_is_asked_for_these_alone():
    pool = members(("b1/f1/r1", "b1/f1/r2"), ("b1/f1/r1",), ("b1/f1/r1",))
    wordings = [
        {match.iad: match.asked for match in Offers(pool).two_for_each(("b1",), turn).matches}
        for turn in range(3)
    ]
    assert {"iad1": ("b1",), "iad2": ("b1",)} in wordings
    assert {"iad1": ("b1/f1/r2",), "iad2": ("b1",), "iad3": ("b1",)} in wordings


def test_an_iad_that_declared_the_floor_covers_its_rooms():
    pool = members(("b1/f1",), ("b1/f1/r1",))
    fanout = Offers(pool).two_for_each(("b1", "b2"), 0)
    assert asked_for(fanout, "b1/f1/r1") == ["iad1", "iad2"]
    assert asked_for(fanout, "b1/f1") == ["iad1"]
    assert fanout.unmatched == ["b2"]


class Redundant(QueryRig):
    """A query scheduler with the service "twice"."""

    def __init__(self, *offers):
        super().__init__((), iad="iad0")
        pool = members(*offers)
        self.do(ServiceChanged(Service("twice", "iad1", 1, pool, redundant=True)), 0.0)

    def want(self, *areas, now=0.0, **fields):
        before = len(self.tasks)
        self.ask(*areas, now=now, service="twice", **fields)
        return dict(self.tasks[before:])


def test_the_first_answer_wins_and_the_other_is_cancelled():
    rig = Redundant(("b1/r1",), ("b1/r1",))
    tasks = rig.want("b1")
    assert {t.percentile for t in tasks.values()} == {99.0}, "one has to come back"
    rig.give("iad2", tasks["iad2"], 0.1, areas=("b1/r1",))
    [answer] = rig.answers
    assert (answer.status, answer.coverage) == ("complete", m.Coverage(1, 1))
    assert [t.iad for t in answer.tasks] == ["iad2"]
    assert rig.cancels == [("iad1", tasks["iad1"].id)]
    rig.give("iad1", tasks["iad1"], 0.2, areas=("b1/r1",))
    assert len(rig.answers) == 1
    assert answer.results[0].aggregate.channels["temperature"].count == 1


def test_a_partial_answer_waits_for_the_other_and_keeps_what_it_had():
    rig = Redundant(("b1/r1", "b1/r2"), ("b1/r1", "b1/r2"))
    tasks = rig.want("b1")
    down = m.Missing("b1/r2", "node_down")
    rig.give("iad1", tasks["iad1"], 0.1, areas=("b1/r1",), missing=(down,))
    assert not rig.answers
    rig.give("iad2", tasks["iad2"], 0.2, areas=("b1/r1", "b1/r2"), value=22.0)
    [answer] = rig.answers
    assert answer.status == "complete"
    # The first for each room, not a mixture of two sensors.
    assert [r.aggregate.channels["temperature"].mean for r in answer.results] == [20.0, 22.0]


def test_a_floor_with_a_gap_in_it_waits_for_the_other():
    rig = Redundant(("b1/f1",), ("b1/f1",))
    tasks = rig.want("b1")
    down = m.Missing("b1/f1/r2", "node_down")
    rig.give("iad1", tasks["iad1"], 0.1, areas=("b1/f1/r1",), missing=(down,))
    assert not rig.answers
    rig.give("iad2", tasks["iad2"], 0.2, areas=("b1/f1/r1", "b1/f1/r2"))
    assert rig.answers[0].status == "complete"


def test_an_iad_that_says_nothing_about_an_area_has_not_answered_it():
    rig = Redundant(("b1/r1", "b1/r2"), ("b1/r1", "b1/r2"))
    tasks = rig.want("b1")
    rig.give("iad1", tasks["iad1"], 0.1, areas=("b1/r1",))
    assert not rig.answers
    rig.give("iad2", tasks["iad2"], 0.2, areas=("b1/r1",))
    assert rig.answers[0].missing == (m.Missing("b1/r2", "no_node"),)


def test_the_silence_of_one_iad_is_no_gap_where_the_other_knew_finer_areas():
    rig = Redundant(("b1/f1",), ("b1/f1",))
    tasks = rig.want("b1")
    rig.do(TaskUndeliverable("iad1", tasks["iad1"].id), 0.0)
    rig.give("iad2", tasks["iad2"], 0.1, areas=("b1/f1/r1", "b1/f1/r2"))
    [answer] = rig.answers
    assert (answer.status, answer.coverage) == ("complete", m.Coverage(2, 2))


def test_areas_that_both_leave_out_are_missing_with_the_reason():
    rig = Redundant(("b1/r1", "b1/r2"), ("b1/r1", "b1/r2"))
    tasks = rig.want("b1")
    down = m.Missing("b1/r2", "node_down")
    for iad in ("iad1", "iad2"):
        rig.give(iad, tasks[iad], 0.1, areas=("b1/r1",), missing=(down,))
    assert rig.answers[0].missing == (down,)
    assert rig.cancels == []


def test_one_iad_that_cannot_be_reached_makes_no_gap():
    rig = Redundant(("b1/r1",), ("b1/r1",))
    tasks = rig.want("b1")
    rig.do(TaskUndeliverable("iad1", tasks["iad1"].id), 0.0)
    rig.give("iad2", tasks["iad2"], 0.1, areas=("b1/r1",))
    assert rig.answers[0].status == "complete"


def test_a_refusal_waits_for_the_other_and_counts_if_that_fails():
    rig = Redundant(("b1/r1",), ("b1/r1",))
    for second in ("complete", "refused"):
        tasks = rig.want("b1")
        rig.give("iad1", tasks["iad1"], 0.1, areas=(), status="refused", reason="over_rate")
        areas = ("b1/r1",) if second == "complete" else ()
        rig.give("iad2", tasks["iad2"], 0.2, areas=areas, status=second)
    assert [a.status for a in rig.answers] == ["complete", "refused"]
    assert rig.answers[1].reason == "over_rate"


def test_a_refusal_that_nobody_can_make_good_ends_the_query_at_once():
    rig = Redundant(("b1/r1", "b1/r2"), ("b1/r1",))
    tasks = rig.want("b1")
    rig.give("iad1", tasks["iad1"], 0.1, areas=(), status="refused")
    assert [a.status for a in rig.answers] == ["refused"]
    assert rig.cancels == [("iad2", tasks["iad2"].id)]


OFFERS = [tuple(c) for n in range(1, 4) for c in itertools.combinations(ROOMS, n)]


class RedundancyMachine(RuleBasedStateMachine):
    """One redundant query after another; after each event the naive rule says if it is over."""

    @initialize(offers=st.lists(st.sampled_from(OFFERS), min_size=2, max_size=4))
    def start(self, offers):
        self.rig = Redundant(*offers)
        self.offers = {f"iad{n}": areas for n, areas in enumerate(offers, 1)}
        self.now = 0.0
        self.tasks = {}
        self.reports = {}
        self.expected_answers = 0

    @rule(areas=st.sampled_from([("b1",), ("b1/f1",), ("b1/f1/r1", "b1/f2"), ("b1", "b1/f1/r2")]))
    def ask(self, areas):
        if self.tasks:
            return
        self.tasks = self.rig.want(*areas, now=self.now)
        self.reports = {}
        self.first = {}
        self.rooms = {
            room for room in ROOMS if any(covers(a, room) for a in areas)
            if any(room in offered for offered in self.offers.values())
        }  # fmt: skip
        offered = {room for own in self.offers.values() for room in own}
        self.nobodys = {a for a in areas if not any(overlaps(a, room) for room in offered)}
        self.sent_to = {
            room: [
                iad
                for iad, task in self.tasks.items()
                if room in self.offers[iad] and any(covers(a, room) for a in task.areas)
            ]
            for room in self.rooms
        }
        for room, iads in self.sent_to.items():
            able = sum(room in offered for offered in self.offers.values())
            assert len(iads) == min(2, able)
        if not self.tasks:
            self.expected_answers += 1
        self.check()

    @rule(data=st.data(), kind=st.sampled_from(["ok", "ok", "gap", "no", "cut"]))
    def one_reports(self, data, kind):
        waiting = sorted(set(self.tasks) - set(self.reports))
        if not waiting:
            return
        iad = data.draw(st.sampled_from(waiting))
        task = self.tasks[iad]
        own = [r for r in self.rooms if iad in self.sent_to[r]]
        gone = set(data.draw(st.lists(st.sampled_from(own)))) if kind == "gap" else set()
        gone = set(own) if kind in ("no", "cut") else gone
        self.reports[iad] = kind
        for room in own:
            if room not in gone:
                self.first.setdefault(room, iad)
        if kind == "cut":
            self.rig.do(TaskUndeliverable(iad, task.id), self.now)
        elif kind == "no":
            self.rig.give(iad, task, self.now, areas=(), status="refused")
        else:
            gaps = tuple(m.Missing(room, "node_down") for room in sorted(gone))
            self.rig.give(iad, task, self.now, areas=sorted(set(own) - gone), missing=gaps)
        self.check()

    @rule()
    def the_timeout_comes(self):
        if self.tasks:
            while len(self.rig.answers) == self.expected_answers:
                self.now = self.rig.scheduler.next_tick
                self.rig.do(Tick(), self.now)
            self.over("partial")

    def check(self):
        """Over when all rooms have an answer, when all have reported, or when one refused what no
        other may still answer."""
        if not self.tasks:
            return
        silent = set(self.tasks) - set(self.reports)
        left = self.rooms - set(self.first)
        lost = {
            room for room in left
            if any(self.reports.get(iad) == "no" for iad in self.sent_to[room])
            if silent.isdisjoint(self.sent_to[room])
        }  # fmt: skip
        if lost:
            self.over("refused")
        elif not left:
            self.over("partial" if self.nobodys else "complete")
        elif not silent:
            self.over("partial")
        else:
            assert len(self.rig.answers) == self.expected_answers

    def over(self, status):
        self.expected_answers += 1
        assert len(self.rig.answers) == self.expected_answers
        answer = self.rig.answers[-1]
        assert answer.status == status
        if status != "refused":
            assert {r.area for r in answer.results} == set(self.first)
            gone = self.rooms - set(self.first)
            assert {g.area for g in answer.missing} == gone | self.nobodys
            for result in answer.results:
                assert result.aggregate.channels["temperature"].count == 1
        silent = set(self.tasks) - set(self.reports)
        cancelled = self.rig.cancels[len(self.rig.cancels) - len(silent) :]
        assert {iad for iad, _ in cancelled} == silent
        self.tasks = {}

    @invariant()
    def no_more_cancellations_than_tasks(self):
        if hasattr(self, "rig"):
            ids = [task_id for _, task_id in self.rig.cancels]
            assert len(ids) == len(set(ids))
            assert self.rig.scheduler.counters["tasks_cancelled"] == len(ids)


TestRedundancy = RedundancyMachine.TestCase
TestRedundancy.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None
)


@pytest.mark.parametrize("turn", range(12))
def test_what_is_asked_of_an_iad_covers_what_is_expected_of_it(turn):
    pool = members(("b1/f1", "b1/f2/r1"), ("b1/f1/r1", "b1/f2"), ("b1",), ("b1/f1/r1/desk",))
    fanout = Offers(pool).two_for_each(("b1/f1", "b1/f2/r1"), turn)
    own = {member.iad: member.areas for member in pool}
    for match in fanout.matches:
        for area in match.expected:
            assert any(overlaps(area, a) for a in match.asked)
            assert any(overlaps(area, a) for a in own[match.iad])
