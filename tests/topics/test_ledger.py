"""What a spool has taken, against sets."""

from hypothesis import given
from hypothesis import strategies as st

from agent.topics.ledger import MOST_REMEMBERED, Ledger

steps = st.lists(
    st.tuples(
        st.sampled_from([("n1", "h1"), ("n1", "h2"), ("n2", "h1")]),
        st.lists(st.integers(0, 30), max_size=5),
        st.integers(0, 30),
    ),
    max_size=20,
)


@given(steps)
def test_it_knows_what_was_taken_and_what_no_longer_waits(taken):
    ledger, known, marks = Ledger(3), {}, {}
    for history, sequences, oldest in taken:
        assert ledger.take(history, sequences, oldest) == []
        known.setdefault(history, set()).update(sequences)
        marks[history] = max(marks.get(history, 0), oldest)
        again = Ledger(3)
        again.restore(history, ledger.of(history))
        for sequence in range(31):
            expected = sequence in known[history] or sequence < marks[history]
            assert ledger.knows(history, sequence) == expected
            assert again.knows(history, sequence) == expected


def test_what_was_taken_longest_ago_is_forgotten():
    ledger = Ledger(1)
    ledger.take(("n", "h"), range(1, MOST_REMEMBERED + 2), 0)
    assert not ledger.knows(("n", "h"), 1)
    assert ledger.knows(("n", "h"), 2)
    assert len(ledger.of(("n", "h")).sequences) == MOST_REMEMBERED


def test_the_history_not_heard_of_for_longest_is_forgotten():
    ledger = Ledger(2)
    ledger.take(("n", "a"), [1], 0)
    ledger.take(("n", "b"), [1], 0)
    ledger.take(("n", "a"), [2], 0)
    assert ledger.take(("n", "c"), [1], 0) == [("n", "b")]
    assert len(ledger) == 2
    assert ledger.knows(("n", "a"), 1)
    assert not ledger.knows(("n", "b"), 1)
