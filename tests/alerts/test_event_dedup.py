"""The dedup window of taken events beside a set that never forgets."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.alerts.dedup_window import MAX_HISTORIES, MAX_REMEMBERED, EventDedup, Taken
from tests.examples import examples


class DedupModel(RuleBasedStateMachine):
    """A node whose waiting events may arrive in any order, any number of times."""

    def __init__(self) -> None:
        super().__init__()
        self.dedup = EventDedup()
        self.waiting: set[int] = set()
        self.taken: set[int] = set()
        self.next = 0

    @initialize(first=st.integers(0, 2**52))
    def begin(self, first: int) -> None:
        self.next = first

    @rule(count=st.integers(1, 5), gap=st.sampled_from([0, 0, 1, 2**32]))
    def raise_events(self, count: int, gap: int) -> None:
        first = self.next + gap
        self.waiting.update(range(first, first + count))
        self.next = first + count

    @rule(data=st.data())
    @precondition(lambda self: self.waiting)
    def take(self, data: st.DataObject) -> None:
        some = data.draw(st.sets(st.sampled_from(sorted(self.waiting)), min_size=1))
        known = {s for s in some if self.dedup.knows("n1", "h", s)}
        assert known == some & self.taken
        self.dedup.take("n1", "h", some, min(self.waiting))
        self.taken |= some

    @rule(data=st.data())
    @precondition(lambda self: self.waiting & self.taken)
    def acknowledge(self, data: st.DataObject) -> None:
        self.waiting -= data.draw(st.sets(st.sampled_from(sorted(self.waiting & self.taken))))

    @rule()
    @precondition(lambda self: self.waiting)
    def give_up_the_oldest(self) -> None:
        self.waiting.remove(min(self.waiting))

    @rule()
    def restart(self) -> None:
        restarted = EventDedup()
        restarted.restore("n1", self.dedup.of("n1"))
        self.dedup = restarted

    @invariant()
    def what_waits_is_known_exactly_if_it_was_taken(self) -> None:
        for sequence in self.waiting:
            assert self.dedup.knows("n1", "h", sequence) == (sequence in self.taken)
        assert not self.dedup.knows("n2", "h", self.next - 1)
        assert not self.dedup.knows("n1", "h2", self.next - 1)


DedupModel.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=40, deadline=None
)
TestDedupModel = DedupModel.TestCase


def test_it_remembers_little_of_a_node_whose_events_are_acknowledged() -> None:
    dedup = EventDedup()
    for sequence in range(10_000):
        dedup.take("n1", "h", [sequence], oldest=sequence)
    assert dedup.of("n1") == {"h": Taken(9_999, (9_999,))}


def test_beyond_its_bound_it_forgets_what_was_taken_first_and_takes_nothing_for_known() -> None:
    dedup = EventDedup()
    # One old event never leaves the node, so the mark stays where it is.
    live = list(range(10, 10 + MAX_REMEMBERED + 5))
    for sequence in live:
        dedup.take("n1", "h", [sequence], oldest=3)
    assert not dedup.knows("n1", "h", 3)
    assert [dedup.knows("n1", "h", s) for s in live] == [False] * 5 + [True] * MAX_REMEMBERED


def test_it_keeps_the_histories_heard_of_last() -> None:
    dedup = EventDedup()
    for number in range(MAX_HISTORIES):
        dedup.take("n1", f"h{number}", [1], oldest=0)
    dedup.take("n1", "h0", [2], oldest=0)
    dedup.take("n1", "new", [1], oldest=0)
    assert sorted(dedup.of("n1")) == ["h0", "h2", "h3", "new"]
