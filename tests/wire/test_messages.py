"""Rules that messages carry themselves."""

from agent.wire.messages import Window


def test_a_relative_window_ends_with_the_reading_of_this_millisecond():
    assert Window(last_s=10).bounds_ms(1_000_000) == (990_001, 1_000_001)
    assert Window(last_s=10, ago_s=5).bounds_ms(1_000_000) == (985_001, 995_001)


def test_an_absolute_window_does_not_look_at_the_clock():
    window = Window(start_ms=5, end_ms=9)
    assert window.bounds_ms(123) == (5, 9)
    assert window.length_s == 0.004


def test_length_of_a_relative_window():
    assert Window(last_s=90, ago_s=3).length_s == 90
