"""What of a history is taken, open or gone, worked out by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent.edge.history import row_groups, wal
from agent.edge.history.row_groups import OPENING
from fleet.lake.pull import history_state
from fleet.lake.pull.history_state import (
    Expired,
    HistoriesState,
    Key,
    Listing,
    TakenHistory,
    enter,
    packed,
    settle,
    unpacked,
)
from fleet.on_host import history as history_on_host

AT = 3 * OPENING


def look(
    found: TakenHistory,
    *,
    fresh: dict[int, int] | None = None,
    tail: tuple[int, ...] = (),
    gone: tuple[Key, ...] = (),
    openings: int = 3,
    group_readings: int = 600,
) -> Expired:
    """A look at opening 3, by offsets."""
    return settle(
        found,
        Listing(
            openings,
            group_readings,
            frozenset((AT + sequence, crc) for sequence, crc in gone),
            {AT + sequence: count for sequence, count in (fresh or {}).items()},
            frozenset(AT + sequence for sequence in tail),
        ),
    )


def taken(found: TakenHistory, *sequences: int) -> None:
    """These landed."""
    keys = unpacked(found.taken) | {(AT + sequence, 7) for sequence in sequences}
    found.taken = packed(keys)
    for sequence in sequences:
        found.openings[3].open.pop(AT + sequence, None)


@pytest.fixture
def found() -> TakenHistory:
    return TakenHistory([(-1 << 63, "a")])


def test_gaps_are_groups_that_expired_up_to_the_last_group_of_the_tail(
    found: TakenHistory,
) -> None:
    # 0 grows since long, 600 and 1200 went, 3000 has begun; nobody knows of 2400 yet.
    assert look(found, fresh={1800: 600}, tail=(0, 3000)) == (3, 1800)
    taken(found, 1800)
    assert look(found, tail=(0, 3000)) == (0, 0)
    # 0 is complete at last, with 500 readings; then it goes, too, before it is taken.
    assert look(found, fresh={0: 500}, tail=(0, 3000)) == (0, 0)
    assert look(found, tail=(3000,)) == (1, 500)
    # 3000 was given up, with how much nobody knows; the process is over.
    assert look(found, openings=4, gone=((1800, 7),)) == (1, 600)
    assert found.openings == {}
    assert found.taken == b""


def test_without_a_tail_gaps_are_settled_by_the_next_look(found: TakenHistory) -> None:
    assert look(found, fresh={1200: 600, 1800: 600}) == (0, 0)
    taken(found, 1200, 1800)
    assert look(found, gone=((1200, 7),)) == (2, 1200)
    assert look(found, gone=((1800, 7),)) == (0, 0)


def test_of_an_opening_that_is_over_gaps_are_settled_at_once(found: TakenHistory) -> None:
    assert look(found, fresh={1200: 600, 2400: 10}, openings=4) == (3, 1800)


def test_groups_that_are_short_leave_at_most_so_many(found: TakenHistory) -> None:
    """Without a full group, and if what is configured now was not then, nobody knows the block: the
    least that is possible counts."""
    fresh = {1200: 150, 1800: 10}
    assert look(found, fresh=fresh, openings=4, group_readings=100) == (11, 1650)


def test_short_groups_of_two_sensors_leave_no_gap_before_the_first_look(
    found: TakenHistory,
) -> None:
    """Such as those of a node that was restarted with each release, and never pulled."""
    assert look(found, fresh={0: 77, 600: 52}, openings=4) == (0, 0)
    assert found.openings[3].open.keys() == {AT, AT + 600}


def test_a_hole_in_a_tail_makes_two_groups_of_one_block(found: TakenHistory) -> None:
    fresh = {0: 600, 600: 20, 637: 100, 1800: 600}
    assert look(found, fresh=fresh, openings=4) == (1, 600)


def test_a_history_that_has_groups_of_the_one_before_was_rebuilt_from_it() -> None:
    state = HistoriesState()
    first = enter(state, "a", set())
    first.taken = packed([(OPENING, 1), (AT, 2), (AT + 600, 3)])
    second = enter(state, "b", {(AT, 2), (AT + 600, 3)})
    assert second.origins == [(-1 << 63, "a"), (2 * OPENING, "b")]
    assert [second.origin(sequence) for sequence in (OPENING + 600, AT)] == ["a", "b"]
    assert unpacked(second.taken) == {(OPENING, 1)}
    assert (state.latest, list(state.histories)) == ("b", ["a", "b"])
    assert enter(state, "a", set()) is first
    assert state.latest == "a"


def test_cards_of_long_ago_are_forgotten() -> None:
    state = HistoriesState()
    for n in range(10):
        enter(state, f"h{n}", set())
    assert list(state.histories) == [f"h{n}" for n in range(2, 10)]


def test_a_listing_is_not_looked_through_once_an_opening(found: TakenHistory) -> None:
    class Fresh(dict[int, int]):
        looks = 0

        def keys(self) -> Any:
            self.looks += 1
            return super().keys()

    looks = []
    for openings in (2, 20):
        fresh = Fresh({n * OPENING: 4 for n in range(openings)})
        settle(found, Listing(openings, 600, frozenset(), fresh, frozenset()))
        looks.append(fresh.looks)
    assert looks[0] == looks[1]


def test_what_runs_on_a_host_has_the_same_format() -> None:
    """It is sent alone, and so has a copy of what it needs."""
    here = history_on_host
    assert here.ROW == row_groups.ROW
    assert (here.VERSION, here.APPLICATION_ID) == (row_groups.VERSION, row_groups.APPLICATION_ID)
    assert here.KNOWN.format == history_state.KNOWN.format
    assert (here.TAIL_MARK, here.TAIL_RECORD.format) == (wal.MARK, wal.RECORD.format)
    assert here.TAIL_VERSION == wal.VERSION
    row = (1, "dht", 2, 1000, 2000, 0, "b1", 10, 1010, 1, "t8 v4:é", b"\0\xff")
    assert here.row_crc(row) == row_groups.row_crc(row)
    source = here.__spec__.loader.get_source(here.__name__)  # type: ignore[union-attr]
    imported = re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE)
    assert not {"agent", "fleet", "msgspec", "numpy", "pyarrow"} & set(imported)


@pytest.mark.parametrize(
    "number", [1, 2, 600, 65_536**2 - 5, 65_535**2, OPENING - 2, OPENING - 1, OPENING]
)
def test_divisors_come_in_pairs_up_to_the_longest_distance(number: int) -> None:
    found = history_state._divisors(number)
    low = {each for each in range(1, int(number**0.5) + 1) if number % each == 0}
    assert found == low | {number // each for each in low}
