"""Areas match by whole segments."""

from hypothesis import given
from hypothesis import strategies as st

from agent.wire.areas import covers, matching, overlaps

area = st.lists(st.sampled_from(["b1", "b", "f4", "f41", "r4"]), min_size=1, max_size=4).map(
    "/".join
)


@given(area, area)
def test_covers_compares_whole_segments(parent, child):
    a, b = parent.split("/"), child.split("/")
    assert covers(parent, child) == (b[: len(a)] == a)
    assert overlaps(parent, child) == (b[: len(a)] == a or a[: len(b)] == b)


@given(st.lists(area, max_size=4), st.lists(area, max_size=8))
def test_matching_keeps_declared_order_without_repeats(asked, declared):
    found = matching(asked, declared)
    assert len(set(found)) == len(found)
    assert set(found) == {d for d in declared if any(covers(a, d) for a in asked)}
    assert found == sorted(found, key=declared.index)


def test_a_sibling_with_the_same_beginning_is_not_covered():
    assert covers("b1/f4", "b1/f4/r413")
    assert not covers("b1/f4", "b1/f41")
    assert not covers("b1/f4/r413", "b1/f4")
