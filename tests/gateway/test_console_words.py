"""What the console's modules say, in a real browser without a page."""

from __future__ import annotations

import json

import pytest

from agent.edge.events.trigger_runner import trigger_text
from agent.triggers.state import TriggerTransition
from agent.wire.edge_config import EdgeTrigger
from tests.gateway import console_browser

pytestmark = console_browser.needs_chromium
served = console_browser.served
tab = console_browser.tab


def in_module(tab, served, module, expression):
    if not tab.evaluate("location.href").startswith(served.url):
        tab.open(served.url, 1280)
    return tab.evaluate(f"import('/static/{module}').then(m => {expression})")


@pytest.mark.long
@pytest.mark.parametrize(
    ("value", "said"),
    [(1e300, "1.00e300"), (-1e15, "−1.00e15"), (999_999_999_999_999, "999,999,999,999,999")],
)
def test_a_number_is_short_whatever_a_node_measures(tab, served, value, said):
    assert in_module(tab, served, "words.js", f"m.number({value})") == said


@pytest.mark.long
@pytest.mark.parametrize("ascii_only", [True, False])
def test_signs_that_turn_the_words_beside_them_are_seen(tab, served, ascii_only):
    told = {"name": "a\u202eb\u2066\u0085\u009b31m", "unit": "°C \u200e٣", "path": "\\\\u202e"}
    text = json.dumps(json.dumps(told, ensure_ascii=ascii_only))
    said = in_module(tab, served, "words.js", f"m.parsed({text})")
    assert said == told | {"name": "a\ufffdb\ufffd\ufffd\ufffd31m"}


@pytest.mark.long
def test_groups_keep_the_order_in_which_things_come(tab, served):
    said = in_module(tab, served, "words.js", "[...m.groups([1, 2, 3, 4], (n) => n % 2)]")
    assert said == [[1, [1, 3]], [0, [2, 4]]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (340, "340 ms"),
        (12_000, "12 s"),
        (95_000, "1 min 35 s"),
        (7_800_000, "2 h 10 min"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_durations_are_said_in_two_units(tab, served, ms, said):
    assert in_module(tab, served, "words.js", f"m.duration({ms})") == said


@pytest.mark.long
@pytest.mark.parametrize(
    ("share", "said"), [("0.9896", "98.9 %"), ("0.99", "99.0 %"), ("null", "–"), ("0.29", "29.0 %")]
)
def test_a_share_that_kept_an_objective_is_rounded_down(tab, served, share, said):
    assert in_module(tab, served, "words.js", f"m.kept({share})") == said


@pytest.mark.long
@pytest.mark.parametrize(("reason", "said"), [("plan", "asked"), ("drift", "drift")])
def test_a_move_by_hand_is_asked_for(tab, served, reason, said):
    assert in_module(tab, served, "views/placement.js", f"m.why('{reason}')") == said


@pytest.mark.long
def test_a_message_of_a_topic_does_not_read_like_an_alert(tab, served):
    told = "{kind: 'input', topic: 'x', iad: 'iad1', trigger: 'fire', area: 'b1/r1', value: 9}"
    said = in_module(tab, served, "words.js", f"m.told({told})")
    assert said == "message of topic x from iad1 in b1/r1"


@pytest.mark.long
@pytest.mark.parametrize(
    ("state", "value", "quality", "is_"),
    [
        ("live", 22, "good", "well"),
        ("live", 27, "good", "out"),
        ("live", 26.04, "good", "well"),
        ("live", None, "bad", "bad"),
        ("stale", 27, "good", "stale"),
        ("missing", 27, "good", "missing"),
        ("live", 22, "suspect", "suspect"),
    ],
)
def test_a_room_is_judged_by_its_worst(tab, served, state, value, quality, is_):
    reading = {"value": value, "quality": quality}
    room = json.dumps({"state": state, "channels": {"temperature": reading}})
    said = in_module(tab, served, "comfort.js", f"m.judge({room}, m.DEFAULTS)")
    assert said["state"] == is_


@pytest.mark.long
def test_a_log_that_began_anew_is_followed_from_its_beginning(tab, served):
    told = """(state => {
        m.apply(state, 'alert', {position: 90}); m.apply(state, 'alert', {position: 90});
        m.apply(state, 'snapshot', {time_ms: 1, rooms: [], source: {state: 'up'}, position: 2});
        m.apply(state, 'alert', {position: 3});
        return [state.alerts.map(a => a.position), state.position];
    })(m.empty())"""
    assert in_module(tab, served, "feed.js", told) == [[3, 90], 3]


@pytest.mark.long
def test_messages_of_topics_are_no_alerts(tab, served):
    told = """(state => [
        m.apply(state, 'alert', {position: 1, attributes: {topic: 'comfort', kind: 'output'}}),
        m.apply(state, 'alert', {position: 2, attributes: {trigger: 'hot', kind: 'raised'}}),
        state.alerts.map(a => a.position), state.position
    ])(m.empty())"""
    assert in_module(tab, served, "feed.js", told) == [False, True, [2], 2]


@pytest.mark.parametrize(
    ("answered", "asked", "said"),
    [
        (7, 8, "Partial: 7 of 8 areas answered in 9.0 ms."),
        (0, 8, "No answer: none of 8 areas answered, after 9.0 ms."),
        (0, 1, "No answer: the area did not answer, after 9.0 ms."),
    ],
)
def test_an_answer_without_any_area_is_not_called_partial(tab, served, answered, asked, said):
    covered = {"answered": answered, "asked": asked}
    answer = json.dumps({"status": "partial", "coverage": covered, "elapsed_ms": 9})
    slo = json.dumps({"percentile": 99, "latency_ms": 500})
    assert in_module(tab, served, "views/ask.js", f"m.verdict({answer}, {slo})[1]") == said


def test_what_never_came_has_no_age(tab, served):
    told = "[null, undefined, NaN, 2 ** 53, 0].map(m.isTime)"
    assert in_module(tab, served, "words.js", told) == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("p99=1ms cannot be kept: p99=20ms can", "p99=1ms cannot be kept: p99=20ms can"),
        ("areas[4] is no area: 'b 1'; write names", "'b 1' is no area; write names"),
        ("idle nodes take 212 ms", "Idle nodes take 212 ms"),
        ("", ""),
    ],
)
def test_a_refusal_is_told_as_a_person_would_write_it(tab, served, message, said):
    answer = json.dumps({"status": "refused", "reason": "infeasible", "message": message})
    slo = json.dumps({"percentile": 99, "latency_ms": 500})
    told = (
        f"import('/static/views/ask.js').then(ask => m.sentence(ask.verdict({answer}, {slo})[2]))"
    )
    assert in_module(tab, served, "words.js", told) == said


@pytest.mark.parametrize(
    ("change", "condition", "measured"),
    [
        ((54.0234, 0.0055, None), "rate(humidity) > 0.2/min",
         "humidity 54.0 %, rising by 0.33 % a minute when it was raised"),
        ((71.5, None, 1_234.0), "humidity > 70", "humidity 71.5 %, for 20 min when it was raised"),
        ((71.5, None, None), "humidity > 70", "humidity 71.5 % when it was raised"),
    ],
)  # fmt: skip
def test_a_raised_trigger_is_told_in_words_and_units(tab, served, change, condition, measured):
    value, rate, after_s = change
    setting = EdgeTrigger(
        name="damp", condition=condition, clear="humidity < 60", for_s=after_s or 0.0
    )
    transition = TriggerTransition("damp", True, "holds", "humidity", value, rate, after_s)
    text = json.dumps(trigger_text(setting, transition, "percent"))
    said = in_module(
        tab, served, "words.js", f"m.raisedBy({text}, c => c == 'humidity' ? '%' : '')"
    )
    assert said == {"condition": condition, "measured": measured}


def test_other_words_of_a_node_stay_as_they_are(tab, served):
    said = in_module(tab, served, "words.js", "m.raisedBy('not known what humidity is for 30 s')")
    assert said == {"condition": "", "measured": "not known what humidity is for 30 s"}


def test_a_gateway_is_away_since_the_first_attempt_that_failed(tab, served):
    told = """(state => {
      const since = [["open", 1000], ["away", 2000], ["away", 7000], ["open", 9000], ["away", 9500]]
      return since.map(([what, at]) => { m.apply(state, what, {}, at); return state.linkSince; });
    })(m.empty())"""
    assert in_module(tab, served, "feed.js", told) == [1000, 2000, 2000, 9000, 9500]


@pytest.mark.parametrize(
    ("room", "heard", "every_s", "shown"),
    [
        ("live", 70_001, 5, "live"),
        ("live", 69_999, 5, "stale"),
        ("live", 69_999, 10, "live"),
        ("missing", 1, 5, "missing"),
        ("live", None, 5, "live"),
    ],
)
def test_what_is_not_heard_of_grows_stale(tab, served, room, heard, every_s, shown):
    state = json.dumps({"heard": heard, "every_s": every_s})
    told = f"m.asHeard({{state: '{room}'}}, {state}, 100000).state"
    assert in_module(tab, served, "live.js", told) == shown
