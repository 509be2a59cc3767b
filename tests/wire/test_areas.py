"""Areas match by whole segments."""

from hypothesis import given
from hypothesis import strategies as st

from agent.wire.areas import AreaSet, above, covers, overlaps, with_parents
from tests.oracles import areas as oracle

area = st.lists(st.sampled_from(["b1", "b", "f4", "f41", "r4"]), min_size=1, max_size=4).map(
    "/".join
)


@given(area, area)
def test_covers_compares_whole_segments(parent, child):
    a, b = parent.split("/"), child.split("/")
    assert covers(parent, child) == (b[: len(a)] == a)
    assert overlaps(parent, child) == (b[: len(a)] == a or a[: len(b)] == b)


areas = st.lists(area, max_size=8)


@given(areas, areas, areas)
def test_a_set_finds_what_comparing_each_with_each_finds(asked, declared, later):
    one = AreaSet(declared)
    for _ in range(2):
        assert one.within(asked) == oracle.within(asked, declared)
        assert one.without(asked) == oracle.without(asked, declared)
        places = one.places_within(asked)
        assert places == [
            p for p, area in enumerate(declared) if any(covers(a, area) for a in asked)
        ]
        assert [one[place] for place in places] == [declared[place] for place in places]
        for each in asked:
            assert one.covers(each) == any(covers(d, each) for d in declared)
            assert one.covers_below(each) == any(d != each and covers(d, each) for d in declared)
            assert one.has_within(each) == any(covers(each, d) for d in declared)
            assert one.overlaps(each) == any(overlaps(d, each) for d in declared)
            assert sorted(one.places_overlapping(each)) == [
                p for p, d in enumerate(declared) if overlaps(d, each)
            ]
        # Again with more of them, after what it has was indexed.
        for each in later:
            one.add(each)
        declared = declared + later
        assert len(one) == len(declared)


@given(area)
def test_what_is_above_an_area_covers_it(each):
    assert [each, *above(each)] == list(with_parents(each))
    assert all(covers(parent, each) and parent != each for parent in above(each))


def test_a_sibling_with_the_same_beginning_is_not_covered():
    assert covers("b1/f4", "b1/f4/r413")
    assert not covers("b1/f4", "b1/f41")
    assert not covers("b1/f4/r413", "b1/f4")
