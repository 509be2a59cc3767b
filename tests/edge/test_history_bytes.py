"""What the history writes to the card in a day stays within its budget
(docs/understand/history.md)."""

from __future__ import annotations

from bench.history import BUDGET_MB, DAY_S, written_in_a_day

WRITTEN_MB = 14.0  # handed to write(2)


def test_a_day_at_the_default_is_within_the_budget() -> None:
    """Counted by the kernel over the last two hours of a day that is compressed into seconds."""
    found = written_in_a_day(10.0, DAY_S // 12)
    assert found["written_mb"] <= WRITTEN_MB, found
    # Pages say nothing where files are in memory, and are larger than 4 KiB on some file systems.
    assert 0 <= found["pages_mb"] <= BUDGET_MB, found
