"""What processors print is logged, but not all of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.processing.printed import MAX_LINE, MAX_LINES, WINDOW_S, PrintedLines


def test_lines_are_put_together_from_pieces():
    lines = PrintedLines()
    assert lines.take(b"on", 0.0) == []
    assert lines.take(b"e\n\n  \ntwo\nthr", 0.0) == ["one", "two"]
    assert lines.end(0.0) == ["thr"]


def test_a_flood_is_counted():
    lines = PrintedLines()
    assert len(lines.take(b"x\n" * 1_000, 0.0)) == MAX_LINES
    assert lines.take(b"y\n", WINDOW_S / 2) == []
    assert lines.take(b"z\n", WINDOW_S) == [f"… and {1_001 - MAX_LINES} more lines", "z"]
    assert lines.end(WINDOW_S) == []


def test_what_no_terminal_should_see_is_replaced():
    assert PrintedLines().take(b"\x1b[2J\xff ok\r\n", 0.0) == [" [2J\ufffd ok"]


def test_a_line_without_an_end_is_told_in_pieces():
    lines = PrintedLines()
    assert lines.take(b"x" * 10_000, 0.0) == ["x" * MAX_LINE + "…"]


@given(st.lists(st.tuples(st.binary(max_size=700), st.floats(0, 20)), max_size=30))
def test_never_more_than_so_many_lines(chunks):
    lines, now = PrintedLines(), 0.0
    told: list[float] = []
    for data, seconds in chunks:
        now += seconds
        found = lines.take(data, now)
        assert all(len(line) <= MAX_LINE + 1 and "\n" not in line for line in found)
        told += [now] * len(found)
        # A window, and the one before, each with a line that counts.
        assert sum(now - at < WINDOW_S for at in told) <= 2 * (MAX_LINES + 1)
