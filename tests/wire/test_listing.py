"""Names in lines for people."""

import pytest

from agent.wire.listing import alike, did_you_mean, few


@pytest.mark.parametrize(
    ("names", "line"),
    [((), ""), (("a",), "a"), (("a", "b"), "a, b"), (("a", "b", "c", "d"), "a, b and 2 more")],
)
def test_some_of_many_are_named(names, line):
    assert few(names, 2) == line


def test_the_most_similar_is_meant_or_none():
    assert alike("iad3", ["iad4", "b1"]) == "iad4"
    assert alike("iad3", ["campus"]) == ""
    assert did_you_mean("climat", {"climate": 1}, "none") == "did you mean climate?"
    assert did_you_mean("climat", (), "there is none") == "there is none"
