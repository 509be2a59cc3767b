"""Last known values are bounded, and follow their devices."""

from __future__ import annotations

import msgspec

from agent.derived.last_values import MAX_AREAS, MAX_CHANNELS, Device, LastValues


def areas(last: LastValues, area: str) -> list[str] | None:
    found = last.within(area, (), "aggregate", 0)
    return None if found is None else [each.area for each in found]


def test_a_device_without_a_clone_is_unknown() -> None:
    last = LastValues()
    last.read("iad1/n1", "b1/f4/r1", 5, {"temperature": 20.0})
    assert areas(last, "b1") is None
    last.keep("iad1/n1", ("b1/f4/r1",))
    assert areas(last, "b1") == []
    last.read("iad1/n1", "b1/f4/r1", 5, {"temperature": 20.0})
    assert areas(last, "b1") == ["b1/f4/r1"]
    assert areas(last, "b1/f4/r10") is None
    last.forget("iad1/n1")
    assert areas(last, "b1") is None


def test_what_is_kept_of_a_device_is_bounded() -> None:
    last = LastValues()
    last.keep("iad1/n1", ())
    for n in range(2 * MAX_AREAS):
        last.read("iad1/n1", f"b1/r{n}", 5, {f"c{k}": 1.0 for k in range(2 * MAX_CHANNELS)})
    known = last.known("iad1/n1")
    assert known is not None
    assert len(known.readings) == MAX_AREAS
    assert {len(channels) for channels in known.readings.values()} == {MAX_CHANNELS}


def test_it_comes_back_from_disk() -> None:
    last = LastValues()
    last.keep("iad1/n1", ("b1/f4/r1",))
    last.read("iad1/n1", "b1/f4/r1", 5, {"temperature": 20.0})
    last.computed("iad1/n1", 6, {"forecast": 22.0, "bad": float("nan")})
    body = msgspec.msgpack.encode(last.known("iad1/n1"))
    again = LastValues()
    again.keep("iad1/n1", ("b1/f4/r1",), msgspec.msgpack.decode(body, type=Device))
    assert again.within("b1", (), "series", 10) == last.within("b1", (), "series", 10)
    [result] = again.within("b1", ("forecast",), "aggregate", 10) or []
    assert result.stale_ms == 4


def test_a_clock_that_was_put_back_gives_no_age_below_zero() -> None:
    last = LastValues()
    last.keep("iad1/n1", ("b1",))
    last.read("iad1/n1", "b1", 1_000, {"temperature": 20.0})
    [result] = last.within("b1", (), "aggregate", 10) or []
    assert result.stale_ms == 0
