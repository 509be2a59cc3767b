"""Which texts are areas, against the published pattern."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _core.wire.areas import first_malformed
from agent.wire.areas import AREA_PATTERN

NAMES = st.text("ab9_.-", min_size=1, max_size=64)
AREAS = st.lists(NAMES, min_size=1, max_size=16).map("/".join)
NEARLY = st.text("a/é\n\0 *\ud800", max_size=70) | AREAS.map("{}/".format) | AREAS.map("/{}".format)
EDGES = [
    "a" * 64, "a" * 65, "/".join("a" * 16), "/".join("a" * 17), "", "/", "a//b", "a\n", "*",
    "\ud800",
]  # fmt: skip


def oracle(texts):
    """The first that the pattern does not match."""
    return next((n for n, text in enumerate(texts) if not re.search(AREA_PATTERN, text)), -1)


@given(st.lists(AREAS | NEARLY | st.text(max_size=5)).map(tuple))
def test_the_first_is_found_that_the_pattern_does_not_match(texts):
    assert first_malformed(texts) == oracle(texts)


@pytest.mark.parametrize("text", EDGES)
def test_at_the_bounds(text):
    assert first_malformed(("b1", text)) == oracle(("b1", text))


def test_what_is_no_text_is_an_error():
    with pytest.raises(TypeError):
        first_malformed((b"b1",))
    with pytest.raises(TypeError):
        first_malformed(["b1"])
