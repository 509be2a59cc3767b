"""What a sensor's thread counts."""

from hypothesis import given
from hypothesis import strategies as st

from agent.edge.sampling.counters import OUTCOMES, SensorCounters
from sensors.quality import flags as q

QUALITY = st.one_of(st.just(()), st.tuples(st.integers(0, 63), st.integers(0, 63)))


def worst(flag):
    """The outcome of a value, told without bit tricks."""
    names = q.names(flag)
    return names[0] if names else "good"


@given(st.lists(st.tuples(QUALITY, st.integers(0, 5_000))))
def test_every_value_counts_once_under_its_worst_flag(ticks):
    counters = SensorCounters("s", ("temperature", "humidity"), 1.0, 0.0)
    expected = [dict.fromkeys(OUTCOMES, 0) for _ in counters.channels]
    success = None
    for n, (quality, age_ms) in enumerate(ticks, 1):
        counters.begins(n)
        counters.ends(quality, age_ms, n + 0.5)
        for counts, flag in zip(expected, quality or (0, 0), strict=True):
            counts[worst(flag)] += 1
        if any(not flag & q.BAD for flag in quality or (0, 0)):
            success = (n + 0.5, age_ms)
    assert [dict(zip(OUTCOMES, counts, strict=True)) for counts in counters.values] == expected
    assert counters.reads == len(ticks)
    assert counters.success_s == (success and success[0])
    assert counters.age_ms == (success[1] if success else 0)


def test_a_tick_under_way_is_a_sign_of_life():
    counters = SensorCounters("s", ("temperature",), 1.0, 5.0)
    assert counters.sign_s == 5.0
    counters.begins(6.0)
    assert counters.sign_s == 6.0
    counters.ends((q.NO_RESPONSE,), 0, 6.5)
    assert (counters.sign_s, counters.success_s) == (6.5, None)
