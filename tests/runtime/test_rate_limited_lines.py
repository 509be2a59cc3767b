"""Lines at a limited rate: none is lost from the count."""

from agent.runtime.rate_limited_lines import PAUSE_S, RateLimitedLines


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
