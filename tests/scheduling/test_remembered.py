"""What is remembered of sets of areas: a dictionary's content, or less, and never too much."""

from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling import remembered
from agent.scheduling.remembered import Remembered

sets = st.lists(st.sampled_from("abc"), max_size=4).map(tuple)


@given(st.lists(sets | st.none()))
def test_it_tells_what_was_kept_last_or_nothing_and_has_a_bound(asked):
    oracle: dict[tuple[str, ...], int] = {}
    kept: Remembered[int] = Remembered()
    most_areas, most_sets = remembered.MAX_AREAS, remembered.MAX_SETS
    remembered.MAX_AREAS, remembered.MAX_SETS = 7, 3
    try:
        kept.clear()
        for number, areas in enumerate(asked):
            if areas is None:
                kept.clear()
                oracle.clear()
            elif (found := kept.get(areas)) is None:
                assert kept.keep(areas, number) == number
                assert kept.get(areas) == number
                oracle[areas] = number
            else:
                assert found == oracle[areas]
            held = [each for each in oracle if kept.get(each) is not None]
            assert len(held) == len(kept) <= 3
            assert sum(map(len, held)) <= 7
    finally:
        remembered.MAX_AREAS, remembered.MAX_SETS = most_areas, most_sets


def test_the_largest_set_that_may_be_asked_is_remembered():
    kept: Remembered[str] = Remembered()
    for number in range(100):
        areas = tuple(f"b{number}/r{room}" for room in range(1_024))
        kept.keep(areas, "found")
        assert kept.get(tuple(f"b{number}/r{room}" for room in range(1_024))) == "found"
        assert len(kept) <= 32
