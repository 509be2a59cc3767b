"""What was taken, against sets that forget nothing; and what is forgotten."""

from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from agent.alerts.dedup_window import MAX_REMEMBERED, DedupWindow, Taken

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
    window, known, marks = DedupWindow(3), {}, {}
    for history, sequences, oldest in taken:
        assert window.take(history, sequences, oldest) == []
        known.setdefault(history, set()).update(sequences)
        marks[history] = max(marks.get(history, 0), oldest)
        again = DedupWindow(3)
        for each, kept in window.all().items():
            again.restore(each, kept)
        assert list(again.all()) == list(window.all())
        assert list(again.all())[-1] == history
        for each, its_own in known.items():
            for sequence in range(31):
                expected = sequence in its_own or sequence < marks[each]
                assert window.knows(each, sequence) == expected
                assert again.knows(each, sequence) == expected


def test_what_was_taken_longest_ago_is_forgotten():
    window = DedupWindow(1)
    window.take("h", range(1, MAX_REMEMBERED + 2), 0)
    assert not window.knows("h", 1)
    assert window.knows("h", 2)
    assert len(window.of("h").sequences) == MAX_REMEMBERED


def test_what_no_longer_waits_at_its_sender_is_not_remembered_one_by_one():
    window = DedupWindow(1)
    window.take("h", [3, 9, 5], 0)
    assert window.of("h") == Taken(0, (3, 9, 5))
    window.take("h", [4, 12], 6)
    assert window.of("h") == Taken(6, (9, 12))
    window.take("h", [], 2)
    assert window.of("h") == Taken(6, (9, 12))
    assert window.of("another") == Taken()


def test_the_history_not_heard_of_for_longest_is_forgotten():
    window = DedupWindow(2)
    window.take("a", [1], 0)
    window.take("b", [1], 0)
    window.take("a", [2], 0)
    assert window.take("c", [1], 0) == ["b"]
    assert len(window) == 2
    assert window.knows("a", 1)
    assert not window.knows("b", 1)


def test_beyond_the_sequences_of_all_the_owner_with_most_loses_its_oldest_history():
    window = DedupWindow(100, itemgetter(0), most_sequences=10)
    window.take(("ann", 1), [1, 2], 0)
    window.take(("bob", 1), [1, 2, 3], 0)
    window.take(("bob", 2), [1, 2, 3], 0)
    assert window.take(("ann", 2), [1, 2], 0) == []
    assert window.take(("ann", 1), [3], 0) == [("bob", 1)]
    assert window.knows(("ann", 1), 1)
    # What is below the marks takes no room, and what is forgotten gives back its own.
    assert window.take(("bob", 2), [], 9) == []
    assert window.take(("bob", 3), range(5), 0) == []
    assert window.take(("bob", 3), [5], 0) == [("bob", 2), ("bob", 3)]
    # After a restart, too.
    again = DedupWindow(100, itemgetter(0), most_sequences=10)
    for history, taken in window.all().items():
        again.restore(history, taken)
    assert again.take(("cyd", 1), range(5), 0) == []
    assert again.take(("cyd", 1), [5], 0) == [("cyd", 1)]
