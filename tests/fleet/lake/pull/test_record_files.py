"""Which files of records went before they were taken, worked out by hand."""

from __future__ import annotations

import pytest

from fleet.lake.pull.record_files import Listed, RecordsState, Taken, after_listing


def listed(*files: tuple[str, int | None]) -> list[Listed]:
    """Files of 100 bytes with these ids and numbers."""
    return [Listed(name, number, 100, 0, True) for name, number in files]


def state(closed: int, **files: tuple[int | None, int]) -> RecordsState:
    """Of each file its number, and how many of its 100 bytes were taken."""
    return RecordsState(closed, {name: Taken(n, 100, taken) for name, (n, taken) in files.items()})


@pytest.mark.parametrize(
    ("before", "now", "expired"),
    [
        # The first pull: what had gone before counts.
        (state(0), listed(("a", None)), 0),
        (state(0), listed(("a", 1), ("b", None)), 0),
        (state(0), listed(("a", 5), ("b", 6), ("c", None)), 4),
        # What was taken whole may go, what was not counts.
        (state(2, a=(1, 100), b=(2, 100), c=(None, 100)), listed(("c", 3), ("d", None)), 0),
        (state(2, a=(1, 40), b=(2, 0), c=(None, 100)), listed(("c", 3), ("d", None)), 2),
        # The current one was closed, and went: it had grown.
        (state(2, c=(None, 100)), listed(("e", 5), ("f", None)), 2),
        (state(2, b=(2, 50), c=(None, 50)), listed(("e", 5), ("f", None)), 3),
        # Files that came and went since.
        (state(3, a=(3, 100)), listed(("x", 9)), 5),
        # All were deleted by hand; the master goes on with its numbers.
        (state(3, a=(3, 100), b=(None, 100)), [], 0),
        (state(3, a=(3, 100), b=(None, 60)), [], 1),
        # The folder was begun anew.
        (state(3, a=(3, 100), b=(None, 100)), listed(("x", 1), ("y", None)), 0),
        (state(3, a=(3, 10), b=(None, 60)), listed(("x", 1), ("y", None)), 2),
        (state(2, a=(1, 100), b=(2, 10)), listed(("w", 1), ("x", 2), ("y", 3)), 1),
        (state(2, a=(1, 100), b=(2, 100)), listed(("w", 2), ("x", 3)), 1),
        (state(2, b=(2, 100), c=(None, 60)), listed(("w", 2), ("x", 3)), 2),
    ],
)
def test_what_went_is_counted(before, now, expired):
    after, found = after_listing(before, now)
    assert found == expired
    assert after.closed == max([f.number for f in now if f.number is not None] or [before.closed])
    assert set(after.files) == {file.id for file in now}


def test_what_was_taken_is_kept_while_it_holds():
    known = RecordsState(1, {"a": Taken(None, 100, 80, "t"), "b": Taken(1, 100, 100, "u")})
    now = [Listed("b", 1, 100, 0, True), Listed("a", 2, 140, 0, True)]
    after, _ = after_listing(known, now)
    assert after.files["a"] == Taken(2, 140, 80, "t")
    after, _ = after_listing(known, [now[0], Listed("a", 2, 140, 0, False)])
    assert after.files["a"] == Taken(2, 140, 0, "")
