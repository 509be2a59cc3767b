"""Percentiles and rates as people read them."""

import pytest

from agent.wire.figures import percentile_in_words, rate_in_words


@pytest.mark.parametrize(
    ("percentile", "text"),
    [
        (99.0, "99"),
        (50.0, "50"),
        (99.5, "99.5"),
        (99.74968734, "99.75"),
        (99.9, "99.9"),
        (99.99, "99.99"),
        (99.999, "99.999"),
        (99.9999, "99.9999"),
        (99.99998743, "99.999987"),
        (100.0, "100"),
        (0.001, "0.001"),
        (0.0, "0"),
    ],
)
def test_a_percentile_is_never_rounded_to_certainty(percentile, text):
    assert percentile_in_words(percentile) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [(20.0, "20"), (0.25, "0.25"), (1.0 / 3.0, "0.3333"), (9_999.4, "9999"), (2e5, "200,000")],
)
def test_a_rate_has_no_exponent(rate, text):
    assert rate_in_words(rate) == text
