"""What people see of values that are not good."""

import math
import re

from agent.wire.messages import Aggregate, Answer, AreaResult, ChannelAggregate, Coverage
from fleet.terminal.summary import summarize
from tests.fleet.readings import below, series, shown

NAN = math.nan
SPIKE, FLATLINE, DRIFT = 8, 16, 32


def answer(*results):
    areas = [AreaResult(f"b1/r{i}", **result) for i, result in enumerate(results)]
    return Answer("q", "complete", 1.0, True, Coverage(len(areas), len(areas)), tuple(areas))


def test_bad_values_are_in_no_number_and_are_told_by_their_flags():
    given = answer({"series": series([20, 85, NAN, 22], [0, SPIKE, 1, DRIFT])})
    [summary] = [area.channels["temperature"] for area in summarize(given)]
    assert (summary.min, summary.mean, summary.max, summary.last) == (20, 21, 22, 22)
    assert (summary.bad, summary.suspect) == (2, 1)
    words = "1 spike, 1 no_response, 1 drift (the latest: drift)"
    assert f"flagged b1/r0 temperature: {words}" in shown(given)
    assert below(given) == [f"b1/r0      4 readings    20.0   21.0   22.0 °C  temperature {words}"]


def test_the_latest_value_is_told_even_where_it_is_no_value():
    def latest(values, flags):
        [area] = summarize(answer({"series": series(values, flags)}))
        return area.channels["temperature"].last_flags

    assert latest([20, 85], [0, SPIKE]) == ("spike",)
    assert latest([20, NAN], [0, 1 | 4]) == ("no_response", "out_of_range")
    assert latest([85, 20], [SPIKE, 0]) == ()
    # Of another sensor: this channel was not asked for at the last reading.
    assert latest([20, 20, NAN], [FLATLINE, FLATLINE, 0]) == ("flatline",)
    assert latest([20], ()) == ()


def test_an_aggregate_has_columns_for_what_is_not_good_where_there_is_any():
    def aggregate(**channels):
        return {"aggregate": Aggregate(0, 1, channels)}

    good = ChannelAggregate(9, 20.0, 21.0, 22.0)
    some = ChannelAggregate(7, 20.0, 21.0, 22.0, bad=2, suspect=3)
    given = answer(
        aggregate(temperature=some, humidity=good),
        aggregate(humidity=good),
    )
    units, header, *areas = (line.split() for line in shown(given)[:4])
    assert units == ["min", "mean", "max", "min", "mean", "max"]
    assert header[4:] == ["°C", "°C", "°C", "bad", "suspect", "%", "%", "%"]
    numbers = ["20.0", "21.0", "22.0"]
    for cells, temperature in zip(
        areas,
        ([*numbers, "2", "3"], ["–"] * 5),
        strict=True,
    ):
        assert cells[1] == "9"
        assert cells[-8:] == temperature + numbers
    assert [line.partition("%")[2].strip() for line in below(given)] == [
        "temperature 2 bad, 3 suspect",
        "",
    ]


def test_age_is_shown_where_there_is_any():
    given = answer({"series": series([20, 21], ages=[0, 350])}, {"series": series([20, 21])})
    assert "°C temperature; age up to 350 ms (b1/r0)" in shown(given)
    assert [line.partition("°C")[2] for line in below(given)] == ["  age 350 ms", ""]


def test_good_readings_look_as_they_always_did():
    given = answer({"series": series([20, NAN, 22])})
    assert shown(given)[-1] == "°C temperature"
    assert below(given) == ["b1/r0      3 readings    20.0   21.0   22.0 °C"]
    assert not re.search("flagged|bad|suspect|age ", "\n".join(shown(given)))


def test_a_table_of_two_channels_with_words_fits_80_columns():
    n = 10_800
    both = series([20.0] * n, [SPIKE] * n, [350] * n)
    both.values["humidity"] = both.values["temperature"]
    lines = shown(answer({"series": both}))
    assert len(lines) == 5
    assert max(map(len, lines)) <= 80
