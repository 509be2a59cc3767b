"""Durations and objectives: what is read, what is refused, and that both directions agree."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.messages import Slo
from agent.wire.watches import Watch
from fleet.terminal.units import (
    UnitError,
    format_cpu,
    format_duration,
    format_ms,
    format_slo,
    parse_ago,
    parse_duration,
    parse_interval,
    parse_slo,
    parse_timeout,
    parse_window,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("10m", 600.0),
        ("1.5h", 5_400.0),
        (".5s", 0.5),
        ("1h30m", 5_400.0),
        ("1d2h3m4s5ms", 93_784.005),
        ("0s", 0.0),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "m", "10 m", "-5m", "10x", "1m1m", "30m1h", "1e3s", "٣s", "10m ", "10min"]
)
def test_what_is_no_duration_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration(text)
    assert "\n" not in str(caught.value)
    assert repr(text) in str(caught.value)


def test_a_number_without_a_unit_is_told_the_units() -> None:
    with pytest.raises(UnitError, match="has no unit; write 10s, 10m, 10h or 10ms"):
        parse_duration("10")


def test_nothing_needs_no_unit_and_is_out_of_range_where_there_must_be_some() -> None:
    assert parse_ago("0") == parse_duration("0.0") == 0.0
    with pytest.raises(UnitError, match="'0' is out of range: above 0 and at most 366d"):
        parse_window("0")
    for text in ("p99=0", "p99=0ms"):
        with pytest.raises(UnitError) as caught:
            parse_slo(text)
        told = f"'{text}': the time is above 0 and at most 1h, as in p99=500ms"
        assert str(caught.value) == told


@given(st.integers(0, 400 * 86_400_000))
def test_a_formatted_duration_reads_back_to_the_millisecond(milliseconds: int) -> None:
    assert round(parse_duration(format_duration(milliseconds / 1e3)) * 1e3) == milliseconds


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    refusals = []
    for parse in (parse_duration, parse_window, parse_ago, parse_timeout, parse_slo):
        try:
            parse(text)
        except UnitError as error:
            refusals.append(str(error))
    assert not any("\n" in refusal for refusal in refusals)


@given(
    st.floats(0.001, 99.999).map(lambda p: round(p, 3)),
    st.integers(1, 3_600_000),
)
def test_every_objective_can_be_written(percentile: float, latency_ms: int) -> None:
    slo = parse_slo(f"p{percentile:f}={latency_ms}ms")
    assert slo.percentile == pytest.approx(percentile)
    assert slo.latency_ms == pytest.approx(latency_ms)


def test_the_usual_objective() -> None:
    assert parse_slo("p99=500ms") == Slo(99.0, 500.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p99=500ms", "p99 ≤ 500 ms"),
        ("p99.9=0.5ms", "p99.9 ≤ 0.5 ms"),
        ("p99=1234ms", "p99 ≤ 1234 ms"),
        ("p50=1h", "p50 ≤ 3,600,000 ms"),
    ],
)
def test_an_objective_is_shown_as_it_was_written(text: str, said: str) -> None:
    assert format_slo(parse_slo(text)) == said


@pytest.mark.parametrize(
    "text",
    [
        "99=500ms",
        "p99",
        "p99=",
        "p0=1s",
        "p100=1s",
        "p0.0009=1s",
        "p99.99999=5ms",
        "p99=500",
        "p99=2h",
    ],
)
def test_bad_objectives_are_refused(text: str) -> None:
    with pytest.raises(UnitError):
        parse_slo(text)


def test_what_can_be_written_is_what_the_wire_takes() -> None:
    for text in ("p0.001=1s", "p99.9999=1h"):
        msgspec.convert(msgspec.to_builtins(parse_slo(text)), Slo)
    with pytest.raises(UnitError, match=r"from 0\.001 to 99\.9999"):
        parse_slo("p99.99999=5ms")
    watch = {
        "type": "watch",
        "id": "w",
        "areas": ["b1"],
        "slo": {"percentile": 99, "latency_ms": 1},
    }
    msgspec.convert(watch | {"style": "periodic", "interval_s": parse_interval("50ms")}, Watch)
    for text in ("10ms", "0s", "367d"):
        with pytest.raises(UnitError, match="from 50ms to 366d"):
            parse_interval(text)


def test_windows_have_a_length_and_an_end() -> None:
    with pytest.raises(UnitError, match="above 0"):
        parse_window("0s")
    with pytest.raises(UnitError, match="366d"):
        parse_window("400d")
    assert parse_ago("0s") == 0.0
    with pytest.raises(UnitError, match="longer ago"):
        parse_ago("400d")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0.84, "0.8 ms"),
        (9.99, "10 ms"),
        (211.6, "212 ms"),
        (1_200.0, "1200 ms"),
        (12_000.0, "12.0 s"),
    ],
)
def test_milliseconds_for_people(milliseconds: float, text: str) -> None:
    assert format_ms(milliseconds) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0.0, "0 µs"), (0.0124, "12 µs"), (0.9994, "999 µs"), (0.9996, "1.0 ms"), (41.5, "42 ms")],
)
def test_cpu_time_of_a_message_is_never_nothing_because_it_is_small(
    milliseconds: float, text: str
) -> None:
    assert format_cpu(milliseconds) == text
