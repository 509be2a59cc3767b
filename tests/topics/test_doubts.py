"""Filters that no alert will fulfil are accepted, and whoever subscribes is told why."""

import pytest

from agent.topics.doubts import doubt
from agent.wire.predicate_language import read_filter


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("temperature > 30", "alerts have no temperature, only iad, kind"),
        ('kind = "raise"', "a kind is raised or cleared"),
        ("metric > 30", "metric is a text"),
        ('value = "high"', "value is a number"),
        ("area = 4", "area is a text"),
        ('kind = "raise" or temperature > 30', "a kind is raised or cleared"),
    ],
)
def test_what_no_alert_fulfils_is_doubted(text, says):
    assert doubt(read_filter(text)).startswith("no alert will fulfil this: ")
    assert says in doubt(read_filter(text))


@pytest.mark.parametrize(
    "text",
    [
        "*",
        'kind = "raised" and area under "b1"',
        "value > 30",
        "value < -1e300",
        'metric != "co2"',
        'kind prefix "rai"',
        "value present",
        'kind = "raise" or value > 30',
        'kind = "lost" and count > 3',
    ],
)
def test_what_one_may_fulfil_is_not(text):
    assert doubt(read_filter(text)) == ""
