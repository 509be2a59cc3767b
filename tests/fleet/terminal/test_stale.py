"""Last known values are told apart from answers, with their ages."""

from agent.wire import messages as m
from agent.wire.packed import Float32Column, Int64Column
from fleet.terminal.screen import stale_lines
from fleet.terminal.summary import summarize

NAN = float("nan")
SERIES = m.Series(
    Int64Column.of([1_000_000, 1_005_000]),
    {
        "temperature": Float32Column.of([21.5, NAN]),
        "comfort": Float32Column.of([NAN, 0.5]),
    },
)
LIVE = m.AreaResult("b1/f4/r1", aggregate=m.Aggregate(1, 2, {}))


def answer(*results: m.AreaResult) -> m.Answer:
    return m.Answer("q", "partial", 1.0, False, m.Coverage(1, 2), results)


def test_each_value_has_its_own_age():
    found = answer(LIVE, m.AreaResult("b1/f4/r3", series=SERIES, stale_ms=90_000))
    assert stale_lines(found) == [
        (
            "b1/f4/r3: no live answer; its clone last knew temperature 21.5 °C (1m35s old), "
            "comfort 0.5 (1m30s old)"
        )
    ]
    assert [area.area for area in summarize(found)] == ["b1/f4/r1"]


def test_of_an_aggregate_the_ages_are_a_range():
    channel = m.ChannelAggregate(1, 21.5, 21.5, 21.5)
    for last_ms, age in ((1_000, "1m30s"), (6_000, "1m30s to 1m35s")):
        aggregate = m.Aggregate(1_000, last_ms, {"temperature": channel})
        found = answer(m.AreaResult("b1/f4/r3", aggregate=aggregate, stale_ms=90_000))
        assert stale_lines(found) == [
            f"b1/f4/r3: no live answer; its clone last knew temperature 21.5 °C ({age} old)"
        ]
