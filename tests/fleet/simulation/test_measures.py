"""Percentiles and summaries against counting by hand."""

from hypothesis import given
from hypothesis import strategies as st

from fleet.simulation.measures import Outcome, percentile, summarize


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 100))
def test_a_percentile_is_the_smallest_that_enough_do_not_exceed(
    numbers: list[float], p: float
) -> None:
    ordered = sorted(numbers)
    found = percentile(ordered, p)
    assert found is not None
    enough = p / 100 * len(ordered) - 1e-6
    assert sum(x <= found for x in ordered) >= enough
    assert all(
        sum(x <= smaller for x in ordered) < enough + 1e-5 for smaller in ordered if smaller < found
    )


def test_percentiles_of_twenty() -> None:
    ordered = [float(x) for x in range(1, 21)]
    assert [percentile(ordered, p) for p in (50, 95, 99)] == [10.0, 19.0, 20.0]
    assert percentile([], 50) is None


def test_only_complete_answers_in_time_keep_the_slo() -> None:
    outcomes = [
        Outcome(1, "1.1", 500.0, "complete", 499.0),
        Outcome(2, "1.1", 500.0, "complete", 501.0),
        Outcome(3, "1.1", 500.0, "partial", 10.0),
        Outcome(4, "1.1", 500.0, "no reply", None),
        Outcome(5, "3", 1200.0, "complete", 501.0),
        Outcome(6, "3", 1200.0, "refused", 1.0),
        Outcome(7, "2", 800.0, "refused", 1.0),
    ]
    first, refused, second = summarize(outcomes)
    assert (first.kind, first.n, first.within_slo) == ("1.1", 4, 0.25)
    assert (first.refused, first.partial, first.unanswered) == (0, 1, 1)
    assert (first.p50_ms, first.p95_ms) == (499.0, 501.0)
    assert (second.kind, second.n, second.within_slo) == ("3", 2, 1.0), "as a report counts"
    assert (second.refused, second.p50_ms) == (1, 501.0)
    assert (refused.refused, refused.within_slo, refused.p50_ms) == (1, None, None)
