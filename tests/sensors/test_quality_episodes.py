"""Episodes: what counts as one fault, held against a twin that looks at all flags at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sensors.quality.episodes import READINGS, Began, Ended, Episodes, worst
from sensors.quality.flags import CHECKSUM, DRIFT, FLATLINE, GOOD, NO_RESPONSE, OUT_OF_RANGE, SPIKE

LASTING = NO_RESPONSE | CHECKSUM


def run(flags, step_s=60.0, **options):
    episodes = Episodes(**options)
    changes = [episodes.update(n * step_s, flag) for n, flag in enumerate(flags)]
    return [change for change in changes if change is not None]


def naive(times, flags, lasts_s, clear_s):
    """All episodes of a complete series: (began, told, ended or None, flags)."""
    found, n = [], 0
    while n < len(flags):
        if not flags[n]:
            n += 1
            continue
        told = n
        while told < len(flags) and flags[told]:
            length = told - n + 1
            if flags[told] & ~LASTING or (length >= READINGS and times[told] - times[n] >= lasts_s):
                break
            told += 1
        if told == len(flags) or not flags[told]:
            n = told
            continue
        end = told
        while end < len(flags):
            good = end
            while good < len(flags) and not flags[good]:
                if good - end + 1 >= READINGS and times[good] - times[end] >= clear_s:
                    break
                good += 1
            if good < len(flags) and not flags[good]:
                break
            end = good + 1 if good < len(flags) else len(flags)
        union = 0
        for flag in flags[n:end]:
            union |= flag
        found.append((times[n], times[told], times[end] if end < len(flags) else None, union))
        n = end
    return found


flag_lists = st.lists(
    st.sampled_from([GOOD, GOOD, GOOD, NO_RESPONSE, NO_RESPONSE, CHECKSUM, SPIKE, DRIFT]),
    max_size=80,
)


@given(
    flag_lists,
    st.lists(st.sampled_from([1.0, 30.0, 60.0, 400.0]), min_size=80, max_size=80),
    st.sampled_from([0.0, 60.0, 200.0]),
    st.sampled_from([0.0, 60.0, 300.0]),
)
def test_episodes_are_those_of_the_naive_twin(flags, steps, lasts_s, clear_s):
    times = [sum(steps[: n + 1]) for n in range(len(flags))]
    episodes, found = Episodes(lasts_s, clear_s), []
    for time_s, flag in zip(times, flags, strict=True):
        change = episodes.update(time_s, flag)
        if isinstance(change, Began):
            found.append((change.began_s, time_s, None, change.flags))
        elif isinstance(change, Ended):
            assert change.began_s == found[-1][0]
            found[-1] = (*found[-1][:2], change.ended_s, change.flags)
    if (fault := episodes.fault) is not None:
        found[-1] = (*found[-1][:3], fault.flags)
    assert found == naive(times, flags, lasts_s, clear_s)


def test_one_spike_is_one_fault():
    changes = run([0, 0, SPIKE, 0, 0, 0, 0, 0, 0, 0])
    assert changes == [Began(120.0, SPIKE), Ended(120.0, 180.0, SPIKE)]


def test_a_reading_or_two_that_are_missing_are_none():
    assert run([0, 1, 0, 1, 1, 0, 2, 1, 0, 1] * 20) == []


def test_what_stays_missing_is_one_since_its_first_reading():
    assert run([0] + [NO_RESPONSE] * 100) == [Began(60.0, NO_RESPONSE)]
    assert run([0] + [NO_RESPONSE] * 60, 1.0) == []
    assert run([0] + [NO_RESPONSE] * 61, 1.0) == [Began(1.0, NO_RESPONSE)]


def test_a_fault_that_comes_and_goes_is_one():
    flags = [OUT_OF_RANGE, 0, 0, SPIKE, 0, OUT_OF_RANGE] * 50 + [0] * 10
    assert run(flags) == [
        Began(0.0, OUT_OF_RANGE),
        Ended(0.0, 300 * 60.0, OUT_OF_RANGE | SPIKE),
    ]


def test_the_fault_that_is_there_can_be_asked_for():
    episodes = Episodes()
    assert episodes.fault is None
    episodes.update(1.0, FLATLINE)
    episodes.update(2.0, DRIFT)
    assert episodes.fault == Began(1.0, FLATLINE | DRIFT)


def test_the_worst_flag_comes_first():
    assert worst(DRIFT | NO_RESPONSE | SPIKE) == NO_RESPONSE
    assert worst(DRIFT | FLATLINE) == FLATLINE
    assert worst(GOOD) == GOOD
