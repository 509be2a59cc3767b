"""Triggers that hold nowhere, against windows of random readings."""

import pytest
from hypothesis import event, given

from agent.triggers.contradiction import doubt
from agent.triggers.language import read_trigger
from tests.triggers.test_triggers import text_of, trees, twin, windows

NEVER = "never hold together"
OF_EACH = "hold together only where a round has a reading of each kind"


@given(trees, windows())
def test_a_trigger_that_never_holds_holds_in_no_window(tree, window):
    said = doubt(read_trigger(text_of(tree)))
    if said.endswith(NEVER):
        event("never")
        assert not twin(tree, window[0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("warm > 30 and warm < 20", f"warm > 30 and warm < 20 {OF_EACH}"),
        ("a < 20 and (b > 3 and a >= 20)", f"a < 20 and a >= 20 {OF_EACH}"),
        ("max(a) < 20 and a > 30", f"max(a) < 20 and a > 30 {NEVER}"),
        ("min(a) > 30 and mean(a) <= 30", f"min(a) > 30 and mean(a) <= 30 {NEVER}"),
        ("rate(a) > 60/min and rate(a) < 1/s", f"rate(a) > 1/s and rate(a) < 1/s {NEVER}"),
        ("last(a) > 3 and (max(a) < 2 or max(a) < 1)", f"last(a) > 3 and max(a) < 2 {NEVER}"),
        ("(max(a) < 2 and min(a) > 3) or (a > 3 and a < 2)", f"a > 3 and a < 2 {OF_EACH}"),
        ("max(a) < 2 and (b > 3 or a > 3)", ""),
        ("a > 20 and a < 30", ""),
        ("a >= 20 and a <= 20", ""),
        ("a > 30 and b < 20", ""),
        ("a > 30 or a < 20", ""),
        ("max(a) > 30 and min(a) < 20", ""),
        ("last(a) > 30 and mean(a) < 20", ""),
        ("rate(a) > 3/s and max(a) < 2", ""),
    ],
)  # fmt: skip
def test_what_cannot_hold_together_is_named(text, said):
    assert doubt(read_trigger(text)) == said
