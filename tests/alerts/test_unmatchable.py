"""Filters that no alert will fulfil are accepted, and whoever subscribes is told why."""

import pytest

from agent.alerts.known_names import MAX_HEARD, KnownNames
from agent.alerts.unmatchable import doubt
from agent.scheduling.nearest import nearest
from agent.wire.areas import AreaSet
from agent.wire.predicate_language import read_filter
from agent.wire.predicates import Predicate


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
        'topic = "comfort" and index > 26',
        'kind = "output" and index > 26',
        'kind in ("input", "output") and vote present',
    ],
)
def test_what_one_may_fulfil_is_not(text):
    assert doubt(read_filter(text)) == ""


OWN, OTHERS = AreaSet(["b1/f4/r413", "b1/f4/r415", "b1/f5/r501"]), AreaSet(["b2"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('area under "b9"', "until somebody covers b9: nobody known here does"),
        ('area under "b1/f44"', "covers b1/f44: nobody known here does; did you mean b1/f4?"),
        ('area in ("b9", "c1") and value > 3', "covers b9"),
        ('area = "b9" or area = "c1"', "covers b9"),
        ('area = "b1/f4"', 'no alert comes of b1/f4 itself: area under "b1/f4" takes'),
    ],
)
def test_an_area_that_nobody_known_covers_is_doubted(text, says):
    assert says in doubt(read_filter(text), [OWN, OTHERS], nearest)
    assert doubt(read_filter(text)) == ""
    assert doubt(read_filter(text), [AreaSet()]) == "", "nothing is known yet"


@pytest.mark.parametrize(
    "text",
    [
        'area under "b1"',
        'area under "b1/f4/r413"',
        'area = "b1/f4/r413"',
        'area in ("b9", "b1/f4/r415")',
        'area = "b2/f1/r1"',
        'area under "b2/f1"',
        'area under "b9" or value > 3',
        'area != "b9"',
        'area prefix "b9"',
    ],
)
def test_an_area_that_somebody_may_cover_is_not(text):
    assert doubt(read_filter(text), [OWN, OTHERS]) == ""


def test_an_area_like_another_is_looked_for_once():
    asked = []

    def near(area, _known):
        asked.append(area)
        return ""

    wanted = tuple((Predicate("area", "=", (f"b1/r{n}",)),) for n in range(64))
    assert "b1/r0" in doubt(wanted, [AreaSet(["b1/f4"])], near)
    assert asked == ["b1/r0"]


def names(attribute):
    """What is known here of alerts."""
    return {
        "iad": ("iad1", "iad2"),
        "trigger": ("smoke", "stuffy", "warm"),
        "metric": ("co2", "humidity"),
    }.get(attribute, ())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('iad = "iad9"', "no alert comes of iad9: no IAD in the overlay is; did you mean iad1?"),
        ('iad in ("x", "y")', "no alert comes of x: no IAD in the overlay is, only iad1, iad2"),
        ('trigger = "hot"', "no alert here named a trigger hot so far, only smoke, stuffy, warm"),
        ('trigger prefix "ho"', "no alert here named a trigger ho so far"),
        ('trigger = "smok"', "named a trigger smok so far; did you mean smoke?"),
        (
            'metric = "noise"',
            "no node known here gives noise, only co2, humidity; those of other IADs may",
        ),
        ('metric = "humidty"', "no node known here gives humidty; did you mean humidity?"),
        ('metric = "humidty" or trigger = "hot"', "gives humidty"),
        ('iad = "iad1" and metric = "humidty"', "gives humidty"),
    ],
)
def test_a_name_that_nobody_known_has_is_doubted(text, says):
    assert says in doubt(read_filter(text), (), nearest, names)
    assert doubt(read_filter(text)) == "", "nothing is known"


@pytest.mark.parametrize(
    "text",
    [
        'iad = "iad2"',
        'iad in ("iad9", "iad1")',
        'iad prefix "iad"',
        'iad != "iad9"',
        'trigger = "smoke"',
        'metric = "noise" or metric = "co2"',
        'metric = "humidty" or metric = "humidity"',
        'area = "b1"',
        "value > 3",
    ],
)
def test_a_name_that_somebody_may_have_is_not(text):
    assert doubt(read_filter(text), (), nearest, names) == ""


def test_a_metric_of_another_iad_is_known_once_an_alert_named_it():
    own = {"co2"}
    known = KnownNames(("iad1", "iad2"), lambda: own)
    wanted = read_filter('metric = "noise"')
    assert "gives noise, only co2; those" in doubt(wanted, (), nearest, known)
    known.heard({"trigger": "loud", "metric": "noise", "iad": "iad2"})
    assert doubt(wanted, (), nearest, known) == ""
    assert "only co2, noise; those" in doubt(read_filter('metric = "x"'), (), nearest, known)
    for number in range(MAX_HEARD):
        known.heard({"metric": f"m{number}"})
    assert known("metric") == (), "not all are remembered"
    assert KnownNames((), tuple)("metric") == (), "no node has come yet"


MISSPELT = "no topic foors is known here; did you mean floors?"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('topic = "foors" and kind = "output"', MISSPELT),
        ('topic in ("foors", "nots")', MISSPELT),
        ('topic = "floors"', ""),
        ('topic in ("foors", "notes")', ""),
        ('topic = "later"', ""),  # it may be created yet
        ('topic prefix "foo"', ""),
        ('kind = "output"', ""),
        ('topic = "foors" or kind = "trouble"', ""),
        ('topic = "foors" or metrc = "co2"', MISSPELT),
        ('metrc = "co2" or topic = "foors"', MISSPELT),
        ('metrc = "co2" or topic = "later"', ""),
        ('topic = "later" or metrc = "co2"', ""),
    ],
)
def test_a_misspelt_topic_is_told(text, says):
    known = KnownNames((), tuple)
    assert doubt(read_filter(text), (), nearest, known) in ("", says), "no topic is known yet"
    known.topics = lambda: ["floors", "notes"]
    assert doubt(read_filter(text), (), nearest, known) == says


def test_a_trigger_is_known_once_an_alert_named_it():
    known = KnownNames(("iad1",), lambda: frozenset({"co2"}))
    assert (known("iad"), known("metric"), known("trigger")) == (("iad1",), {"co2"}, ())
    known.heard({"trigger": "hot", "iad": "iad2"})
    known.heard({"kind": "lost"})
    known.heard({"trigger": 3.0})
    assert list(known("trigger")) == ["hot"]
    assert known("value") == ()
    for number in range(MAX_HEARD):
        known.heard({"trigger": f"t{number}"})
    assert known("trigger") == (), "not all are remembered"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("temperature > 30", '; of a channel, write metric = "temperature" and value > 30'),
        ("co2 = 400", '; of a channel, write metric = "co2" and value = 400'),
        ('are under "b1"', "; did you mean area?"),
        ("valeu > 3", "; did you mean value?"),
        ('colour = "red"', "only iad, kind, trigger, metric, area and value"),
        ("temperature present", "only iad, kind, trigger, metric, area and value"),
    ],
)
def test_an_attribute_that_no_alert_has_comes_with_what_may_have_been_meant(text, says):
    assert doubt(read_filter(text), (), nearest).endswith(says)


def test_where_only_one_iad_publishes_its_channels_are_all_there_are():
    alone = {"iad": ("iad1",), "metric": ("co2", "humidity")}
    said = doubt(read_filter('metric = "noise"'), (), nearest, lambda name: alone.get(name, ()))
    assert said == "no node known here gives noise, only co2, humidity"
