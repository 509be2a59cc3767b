"""Rounds of a watch, one rule at a time: when they are asked, sent, refused and sent again."""

import pytest
from msgspec.structs import replace

from agent.runtime.state_machine import InvalidTransition
from agent.scheduling.watches.events import (
    ClockSet,
    ForgetWatch,
    RoundAnswered,
    RoundsDue,
    SaveWatch,
    SendWatch,
)
from agent.scheduling.watches.rounds import (
    FIRST_PAUSE_S,
    MAX_AHEAD,
    RoundEntry,
    as_asked,
    rounds_of,
)
from agent.scheduling.watches.scheduler import LAG_S
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Aggregate, AreaResult, ChannelAggregate, Series
from agent.wire.packed import Float32Column, Int64Column
from agent.wire.watches import Round, Watching, WatchReply
from tests.scheduling.watch_rig import HOT, T0, Rig, StubTrigger, answer_to, watch, windows


def test_a_round_is_asked_when_its_window_ended_and_readings_had_time_to_arrive():
    rig = Rig()
    assert rig.watch(watch(window_s=3.0)) == Watching("w", "open", 1)
    rig.until(1.0 + LAG_S - 0.001)
    assert not rig.asked
    rig.until(2.0 + LAG_S)
    assert windows(rig.asked) == [(-2000, 1000), (-1000, 2000)]


def test_windows_of_a_stream_tile_time_at_any_interval():
    rig = Rig()
    rig.watch(watch("streaming", interval_s=1 / 3))
    rig.until(2.7 + LAG_S)
    assert windows(rig.asked) == [
        (0, 333), (333, 667), (667, 1000), (1000, 1333),
        (1333, 1667), (1667, 2000), (2000, 2333), (2333, 2667),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("interval_s", "lasting_s", "rounds"),
    [(0.1, 0.3, 3), (5.0, 432_000.0, 86_400), (1.0, 2.9, 2), (1.0, 1.0, 1), (1.0, None, None)],
)
def test_how_many_rounds_there_are(interval_s, lasting_s, rounds):
    assert rounds_of(watch(interval_s=interval_s, lasting_s=lasting_s)) == rounds


def test_a_round_that_is_late_holds_back_those_after_it():
    rig = Rig()
    rig.watch(watch())
    rig.until(3.0 + LAG_S)
    first, second, third = rig.asked
    rig.answer(third)
    rig.answer(second)
    assert rig.rounds == []
    rig.answer(first)
    assert rig.rounds == [1, 2, 3]


def test_a_client_that_does_not_acknowledge_makes_the_watch_pause():
    rig = Rig()
    rig.watch(watch())
    rig.until(60.0)
    assert len(rig.asked) == MAX_AHEAD
    for _ in range(MAX_AHEAD):
        rig.answer()
    rig.until(120.0)
    assert rig.rounds == list(range(1, MAX_AHEAD + 1))
    assert not rig.asked
    rig.acknowledge(3)
    assert [a.query.id for a in rig.asked] == ["w.9", "w.10", "w.11"]


def test_a_refusal_for_now_is_tried_again_with_one_round_at_first():
    rig = Rig()
    rig.watch(watch())
    rig.until(2.0 + LAG_S)
    rig.answer(reason="over_rate")
    rig.answer(reason="over_rate")
    assert not rig.asked
    assert rig.watch(watch()).message.startswith("rounds come late: ")
    rig.until(2.0 + LAG_S + FIRST_PAUSE_S)
    assert [a.query.id for a in rig.asked] == ["w.1"]
    rig.answer(reason="overloaded")
    rig.until(2.0 + LAG_S + 3 * FIRST_PAUSE_S - 0.001)
    assert not rig.asked
    rig.until(2.0 + LAG_S + 3 * FIRST_PAUSE_S)
    rig.answer()
    assert [a.query.id for a in rig.asked] == ["w.2"]
    assert rig.rounds == [1]
    assert rig.scheduler.counters["rounds_put_off"] == 3


def test_other_refusals_are_the_rounds_answer():
    rig = Rig()
    rig.watch(watch("event", trigger="hot"))
    rig.until(1.0 + LAG_S)
    rig.answer(reason="infeasible")
    assert rig.sent[-1].answer.reason == "infeasible"
    assert rig.sent[-1].fired == ()


@pytest.mark.parametrize("reason", ["unknown_service", "not_authorised", "malformed"])
def test_a_first_round_that_is_refused_for_good_ends_the_watch(reason):
    rig = Rig()
    rig.watch(watch())
    rig.until(1.0 + LAG_S)
    rig.answer(reason=reason)
    assert rig.sent[-1].state == "refused"
    assert rig.sent[-1].message.startswith("round 1 was refused: ")
    assert rig.rounds == []
    assert rig.scheduler.open_watches == 0
    assert rig.all[-2] == ForgetWatch(("alice", "w"))


def test_a_service_that_is_dropped_ends_its_watches_after_the_rounds_before():
    rig = Rig()
    rig.watch(watch(service="air"))
    rig.until(3.0 + LAG_S)
    first, second, third = rig.asked
    del rig.services["air"]
    rig.answer(third, reason="unknown_service")
    rig.answer(second, reason="unknown_service")
    assert rig.scheduler.open_watches == 1
    rig.answer(first)
    assert rig.rounds == [1]
    assert (rig.sent[-1].state, rig.sent[-1].next_round) == ("refused", 1)
    assert rig.sent[-1].message.startswith("round 2 was refused: ")
    assert rig.scheduler.next_tick is None


def test_another_iad_that_refuses_while_the_service_changes_does_not_end_a_watch():
    rig = Rig()
    rig.watch(watch())
    rig.until(2.0 + LAG_S)
    rig.answer()
    rig.answer(reason="unknown_service")
    assert rig.rounds == [1, 2]
    assert rig.scheduler.open_watches == 1


def test_a_watch_on_what_its_service_does_not_give_is_refused_at_once():
    rig = Rig(read_trigger=lambda _: StubTrigger(channels=("temperature",)))
    reply = rig.watch(watch("event", trigger="x", service="air"))
    assert reply.state == "refused"
    assert reply.message == "service air has only the channel humidity: no temperature"
    assert "channel humidity: no co2" in rig.watch(watch(service="air", channels=("co2",))).message
    assert rig.watch(watch(service="air", channels=("humidity",))).state == "open"
    reply = rig.watch(watch(id="v", service="nope"))
    assert reply.message.startswith("no service nope here, nor any other; ask a master that has")
    rig = Rig(services=lambda: ("air", "default"))
    reply = rig.watch(watch(id="v", service="aire"))
    assert reply.message == ("no service aire here; did you mean air? There are air, default")


def test_a_channel_that_no_area_gives_is_told_once():
    rig = Rig(read_trigger=lambda _: StubTrigger(channels=("temprature",)))
    rig.watch(watch("event", trigger="x"))
    rig.until(3.0 + LAG_S)
    aggregate = Aggregate(
        0, 1, {c: ChannelAggregate(1, 1.0, 1.0, 1.0) for c in ("co2", "humidity")}
    )
    rig.answer(reason="infeasible")
    rig.acknowledge(1)
    word = "the trigger: no area that answered gives temprature; there is co2, humidity"
    for _ in range(2):
        ask = rig.asked.pop(0)
        answer = replace(answer_to(ask.query), results=(AreaResult("b1/f4", aggregate=aggregate),))
        rig.do(RoundAnswered(ask.token, answer))
    assert [m for m in rig.sent if isinstance(m, Watching)][1:] == [Watching("w", "open", 2, word)]
    assert rig.watch(watch("event", trigger="x", after=1)).message == word


def test_a_trigger_that_may_hold_nowhere_is_open_and_told_so():
    rig = Rig(doubt_of={"hot": "it never is"}.__getitem__)
    assert rig.watch(watch("event", trigger="hot")) == Watching(
        "w", "open", 1, "the trigger: it never is"
    )
    assert rig.watch(watch(id="v")).message == ""


def test_a_channel_that_is_there_and_gives_nothing_for_a_while_is_not_taken_for_misspelt():
    rig = Rig(read_trigger=lambda _: StubTrigger(channels=("co2", "smoke", "light")))
    rig.channels = ("co2", "humidity")
    rig.watch(watch("event", trigger="x"))
    rig.until(1.0 + LAG_S)
    good, dead = ChannelAggregate(1, 1.0, 1.0, 1.0), ChannelAggregate(0, bad=9)
    aggregate = Aggregate(0, 1, {"humidity": good, "smoke": dead})
    ask = rig.asked.pop(0)
    answer = replace(answer_to(ask.query), results=(AreaResult("b1/f4", aggregate=aggregate),))
    rig.do(RoundAnswered(ask.token, answer))
    word = "the trigger: no area that answered gives light; there is humidity, smoke"
    assert rig.sent[-1].message == word


def test_only_rounds_that_fire_are_sent_and_say_which_was_before():
    rig = Rig()
    rig.watch(watch("event", trigger="hot", lasting_s=5.0))
    for number in range(1, 6):
        rig.until(number + LAG_S)
        rig.answer(hot=number in (2, 4))
        rig.acknowledge(rig.rounds[-1] if rig.rounds else 0)
    rounds = [m for m in rig.sent if isinstance(m, Round)]
    assert [(r.number, r.previous, r.fired) for r in rounds] == [(2, 0, (HOT,)), (4, 2, (HOT,))]


def test_the_end_of_an_event_watch_is_told_until_the_client_knows():
    rig = Rig()
    rig.watch(watch("event", trigger="hot", lasting_s=2.0))
    rig.until(2.0 + LAG_S)
    rig.answer(hot=True)
    rig.answer()
    rig.acknowledge(1)
    # The last round did not fire: nothing but this word tells the client that it is over.
    assert rig.sent[-1] == Watching("w", "finished", 3)
    assert rig.watch(watch("event", trigger="hot", lasting_s=2.0, after=1)).state == "finished"
    assert rig.scheduler.open_watches == 1
    assert isinstance(rig.acknowledge(2)[-2], ForgetWatch)
    assert rig.scheduler.open_watches == 0


def test_what_the_trigger_needs_beyond_what_was_asked_does_not_reach_the_client():
    trigger = StubTrigger(channels=("co2",), needs_series=True)
    rig = Rig(read_trigger=lambda _: trigger)
    asked = watch("event", trigger="hot", channels=("humidity",), form="aggregate")
    rig.watch(asked)
    rig.until(1.0 + LAG_S)
    assert rig.asked[0].query.channels == ("humidity", "co2")
    assert rig.asked[0].query.form == "series"
    series = Series(
        Int64Column.of([1, 2]),
        {"humidity": Float32Column.of([1, 4]), "co2": Float32Column.of([7, 8])},
    )
    answer = answer_to(rig.asked[0].query)
    answer = type(answer)("q", "complete", 1.0, True, answer.coverage, (AreaResult(HOT, series),))
    [result] = as_asked(answer, asked).results
    assert result.series is None
    humidity = ChannelAggregate(2, 1.0, 2.5, 4.0, last=4.0, last_ms=2)
    assert result.aggregate.channels == {"humidity": humidity}
    assert (result.aggregate.first_ms, result.aggregate.last_ms) == (1, 2)


def test_a_client_that_comes_back_gets_what_it_lacks_and_the_old_connection_nothing():
    rig = Rig()
    rig.watch(watch(), peer="old")
    rig.until(3.0 + LAG_S)
    for _ in range(3):
        rig.answer()
    rig.all.clear()
    assert rig.watch(watch(after=1), peer="new") == Watching("w", "open", 2)
    assert [a.query.id for a in rig.asked] == ["w.2", "w.3"]
    rig.answer()
    rig.answer()
    sent = [i for i in rig.all if isinstance(i, SendWatch)]
    assert {i.peer for i in sent} == {"new"}
    assert rig.rounds == [1, 2, 3, 2, 3]


def test_a_client_that_lost_what_it_had_acknowledged_gets_it_again():
    rig = Rig()
    rig.watch(watch())
    rig.until(2.0 + LAG_S)
    rig.answer()
    rig.answer()
    rig.acknowledge(2)
    rig.watch(watch(after=0))
    assert [a.query.id for a in rig.asked] == ["w.1", "w.2"]


def test_what_cannot_be_resumed_is_refused_in_words():
    rig = Rig()
    assert "no watch 'w' is open here" in rig.watch(watch(after=3)).message
    rig.watch(watch())
    assert "another interval_s" in rig.watch(watch(interval_s=2.0)).message
    assert "another areas and form" in rig.watch(watch(areas=("b2",), form="aggregate")).message
    assert "round 1000 of watch 'w' is yet to come" in rig.watch(watch(after=1000)).message
    assert rig.watch(watch(lasting_s=5.0, id="v", after=5)) == Watching("v", "finished", 6)


def test_a_trigger_that_nobody_can_read_is_refused():
    rig = Rig()
    reply = rig.watch(watch("event", trigger="cold"))
    assert (reply.state, reply.message) == (
        "refused", "trigger: at character 1: expected hot; got 'cold'",
    )  # fmt: skip
    many = tuple(f"c{number}" for number in range(64))
    rig = Rig(read_trigger=lambda _: StubTrigger(channels=("one_more",)))
    assert "more than 64 channels" in rig.watch(watch("event", trigger="x", channels=many)).message


def test_an_arrow_that_the_table_lacks_raises():
    with pytest.raises(InvalidTransition, match="new → sent is not allowed for <round 7 new>"):
        RoundEntry(7).become("sent")


@pytest.mark.parametrize(
    ("style", "fields", "error"),
    [
        ("event", {}, "a trigger, or on, belongs to style event"),
        ("periodic", {"trigger": "x > 1"}, "a trigger, or on, belongs to style event"),
        ("streaming", {"window_s": 3.0}, "leave window_s out"),
        ("periodic", {"lasting_s": 0.5}, "that is no round"),
    ],
)
def test_fields_that_do_not_go_together(style, fields, error):
    with pytest.raises(ValueError, match=error):
        watch(style, **fields)


def test_what_others_say_at_length_can_still_be_told():
    rig = Rig()
    rig.watch(watch())
    rig.until(1.0 + LAG_S)
    [ask] = rig.asked
    said = replace(answer_to(ask.query, reason="overloaded"), message="x" * 512)
    rig.do(RoundAnswered(ask.token, said))
    for again in (watch(after=0), watch(id="\U000e0001" * 64, after=1)):
        reply = rig.watch(again)
        assert Decoder(WatchReply).decode(encode(reply))[0] == reply


@pytest.mark.parametrize("by_s", [3_600.0, 86_400.0])
def test_after_a_clock_that_was_ahead_rounds_go_on_from_now(by_s):
    rig = Rig()
    rig.watch(watch())
    rig.until(2.0 + LAG_S)
    rig.now += by_s
    rig.do(ClockSet(by_s))
    # The rounds until then have been asked and acknowledged.
    (entry,) = rig.scheduler._watches
    entry.settle(round(by_s))
    rig.now -= by_s
    [saved] = [each for each in rig.do(ClockSet(-by_s)) if isinstance(each, SaveWatch)]
    assert saved.saved.start_ms < T0 * 1e3
    rig.asked.clear()
    rig.until(8.0 + LAG_S)
    ends_s = [end_ms / 1e3 for _, end_ms in windows(rig.asked)]
    assert ends_s == [4.0, 5.0, 6.0, 7.0, 8.0]
    said = rig.watch(watch(after=round(by_s)), peer="another")
    assert said.state == "open", said.message


@pytest.mark.parametrize("by_s", [3_600.0, 86_400.0])
def test_after_a_clock_that_was_behind_for_a_moment_rounds_go_on_where_they_were(by_s):
    rig = Rig()
    rig.watch(watch(style="streaming"))
    rig.until(2.0 + LAG_S)
    rig.now -= by_s
    rig.do(ClockSet(-by_s))
    rig.until(rig.now - T0 + 3.0)
    behind = windows(rig.asked)
    assert behind[-1][1] / 1e3 == pytest.approx(rig.now - T0 - LAG_S, abs=1.0)
    rig.now += by_s
    [saved] = [each for each in rig.do(ClockSet(by_s)) if isinstance(each, SaveWatch)]
    assert saved.saved.start_ms <= T0 * 1e3
    rig.asked.clear()
    rig.until(8.0 + LAG_S)
    assert [(a / 1e3, b / 1e3) for a, b in windows(rig.asked)] == [
        (n, n + 1.0) for n in (2.0, 3.0, 4.0, 5.0)
    ]


def test_rounds_that_are_asked_as_the_clock_is_set_keep_their_windows():
    rig = Rig()
    rig.watch(watch(style="streaming"))
    rig.until(2.0 + LAG_S)
    asked = windows(rig.asked)
    rig.now -= 3_600.0
    rig.do(ClockSet(-3_600.0))
    for ask in [*rig.asked]:
        rig.answer(ask)
    rig.acknowledge(2)
    rig.until(rig.now - T0 + 3.0)
    asked += windows(rig.asked)
    rig.now += 3_600.0
    rig.do(ClockSet(3_600.0))
    put_off, *others = rig.asked
    rig.answer(put_off, reason="overloaded")
    for ask in others:
        rig.answer(ask)
    rig.until(8.0 + LAG_S)
    again, *after = windows(rig.asked)
    assert again == windows([put_off])[0]
    assert after[:2] == [(2_000, 3_000), (3_000, 4_000)]
    for ask in [*rig.asked]:
        rig.answer(ask)
    seen = [(m.start_ms, m.end_ms) for m in rig.sent if isinstance(m, Round)]
    assert [(a - T0 * 1_000, b - T0 * 1_000) for a, b in seen[: len(asked)]] == asked


@pytest.mark.parametrize("style", ["periodic", "streaming"])
@pytest.mark.parametrize("by_s", [3_600.0, 864_000.0])
def test_after_a_clock_that_was_behind_from_the_start_rounds_go_on_from_now(by_s, style):
    rig = Rig()
    rig.watch(watch(style=style, lasting_s=30.0))
    rig.until(3.0 + LAG_S)
    for ask in [*rig.asked]:
        rig.answer(ask)
    rig.acknowledge(2)
    rig.now += by_s
    [saved] = [each for each in rig.do(ClockSet(by_s)) if isinstance(each, SaveWatch)]
    assert saved.saved.start_ms == (T0 + by_s) * 1e3
    rig.until(by_s + 8.0 + LAG_S)
    ends_s = [end_ms / 1e3 - by_s for _, end_ms in windows(rig.asked)]
    assert ends_s == [4.0, 5.0, 6.0, 7.0, 8.0]


def test_rounds_that_were_late_before_the_clock_was_set_forward_stay_late():
    rig = Rig()
    rig.watch(watch())
    rig.until(2.0 + LAG_S)
    for ask in [*rig.asked]:
        rig.answer(ask)
    rig.acknowledge(2)
    rig.now += 100.0 + 3_600.0  # it was asked for nothing in 100 s of these
    rig.do(ClockSet(3_600.0))
    rig.do(RoundsDue())
    assert windows(rig.asked)[0] == (3_602_000, 3_603_000)


@pytest.mark.parametrize("asks_s", [0.0, 5.0])
def test_rounds_that_were_late_come_although_the_clock_is_set_forward_and_back(asks_s):
    rig = Rig()
    rig.watch(watch(style="streaming"))
    rig.until(2.0 + LAG_S)
    for ask in [*rig.asked]:
        rig.answer(ask)
    rig.acknowledge(2)
    rig.asked.clear()
    rig.now += 4.0 + 3_600.0
    rig.do(ClockSet(3_600.0))
    rig.until(rig.now - T0 + asks_s)
    rig.now -= 3_600.0
    rig.do(ClockSet(-3_600.0))
    rig.until(rig.now - T0 + 3.0)
    begins = [start_ms % 3_600_000 for start_ms, _ in windows(rig.asked)]
    assert begins[:4] == [2_000, 3_000, 4_000, 5_000]
    assert begins == list(range(2_000, 2_000 + 1_000 * len(begins), 1_000))


@pytest.mark.parametrize("by_s", [1.0, 30.0])
def test_a_clock_that_is_set_forward_by_little_skips_no_round(by_s):
    rig = Rig()
    rig.watch(watch(style="streaming"))
    rig.until(2.0 + LAG_S)
    rig.now += by_s
    assert not rig.do(ClockSet(by_s))
    rig.asked.clear()
    rig.do(RoundsDue())
    assert windows(rig.asked)[0] == (2_000, 3_000)
