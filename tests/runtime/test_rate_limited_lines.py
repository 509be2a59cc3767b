"""Lines at a limited rate: none is lost from the count."""

from agent.runtime.rate_limited_lines import MAX_KINDS, OTHERS, PAUSE_S, RateLimitedLines


def test_one_a_pause_is_said_and_the_rest_is_counted_by_kind():
    said, now = [], [0.0]
    lines = RateLimitedLines(said.append, lambda: now[0])
    for line in ("closed some of a: x", "closed some of a: y", "closed some of b: x", "full"):
        lines.tell(line)
    lines.tell_rest()
    assert said == ["closed some of a: x\n"]
    now[0] = PAUSE_S
    lines.tell_rest()
    assert said[1:] == [
        "closed some of a: 1 more of these\n",
        "closed some of b: 1 more of these\n",
        "full: 1 more of these\n",
    ]
    lines.tell("full")
    now[0] = 2 * PAUSE_S
    lines.tell("empty")
    assert said[4:] == ["empty\n", "full: 1 more of these\n"]


def test_the_first_ones_are_said_at_once():
    said, now = [], [0.0]
    lines = RateLimitedLines(said.append, lambda: now[0], burst=3)
    for number in range(5):
        lines.tell(f"line: {number}")
    lines.tell_rest()
    assert said == ["line: 0\n", "line: 1\n", "line: 2\n"]
    now[0] = PAUSE_S
    lines.tell_rest()
    assert said[3:] == ["line: 2 more of these\n"]
    now[0] = 3 * PAUSE_S
    for number in range(5, 8):
        lines.tell(f"line: {number}")
    assert said[4:] == ["line: 5\n", "line: 6\n"]


def test_kinds_that_others_invent_are_counted_together():
    said, now = [], [0.0]
    lines = RateLimitedLines(said.append, lambda: now[0])
    for number in range(1_000):
        lines.tell(f"of {number}: full")
    now[0] = PAUSE_S
    lines.tell_rest()
    assert len(said) <= MAX_KINDS + 2
    assert said[-1] == f"{OTHERS}: {999 - MAX_KINDS} more of these\n"
