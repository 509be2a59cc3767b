"""Processors, their workers and failures, one case each."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.processing.definition import Definition, Limits
from agent.processing.dispatch import LONG_S, MOVE_AFTER_S, START_S
from agent.processing.events import (
    Arrived,
    Babbled,
    Checkpoint,
    Create,
    Enable,
    Finished,
    HandOver,
    Load,
    Loaded,
    Message,
    Remove,
    Run,
    TakeCheckpoint,
    TakeSnapshot,
    WorkerEnded,
    WorkerReady,
)
from agent.wire.config import ConfigError, parse
from tests.processing.rig import EMPTY, Rig, body

UNFIT = "its outputs are not publishable: "


def rig_of(*names: str, workers: int = 1, **limits: object) -> Rig:
    rig = Rig(workers)
    for name in names:
        rig.create(name, **limits)
    return rig


# --- the plain way ------------------------------------------------------------------------------


def test_messages_are_processed_in_order_with_state():
    rig = rig_of("a")
    for position in (3, 4, 9):
        rig.arrive("a", position)
    assert rig.state("a") == "running"
    rig.work()
    assert rig.outputs("a") == [(3, [3]), (4, [3, 4]), (9, [3, 4, 9])]
    assert rig.state("a") == "ready"


def test_a_message_that_comes_again_is_processed_once():
    rig = rig_of("a")
    for position in (1, 2, 1, 2, 3, 3):
        rig.arrive("a", position)
        rig.work()
    assert rig.outputs("a")[-1] == (3, [1, 2, 3])
    assert rig.status("a").counters.repeated == 3


def test_a_processor_is_built_at_once_so_that_errors_are_known_early():
    rig = rig_of()
    rig.create("a", load=False)
    assert isinstance(rig.requests[1], Load)
    assert rig.state("a") == "loading"
    rig.fail(1, "cannot import acme: No module named 'acme'")
    assert rig.state("a") == "backing_off"
    assert [r.text for r in rig.reports] == [
        "cannot import acme: No module named 'acme'; it is started again in 1 s"
    ]


def test_measures_are_on_the_masters_clock():
    rig = rig_of("a", wall_s=100.0, cpu_s=5.0, slo_s=1.0)
    rig.arrive("a", 1)
    rig.arrive("a", 2)
    rig.now += 2.0
    rig.answer(1, cpu_s=0.5)
    rig.now += 0.5
    rig.answer(1, cpu_s=0.25)
    counters, spreads = rig.status("a").counters, rig.status("a").spreads
    assert (counters.arrived, counters.processed, counters.late) == (2, 2, 2)
    assert counters.cpu_s == 0.75
    assert spreads["latency"].p99_s == pytest.approx(2.5, rel=0.02)
    assert spreads["latency"].p50_s == pytest.approx(2.0, rel=0.02)
    assert spreads["waiting"].p99_s == pytest.approx(2.0, rel=0.02)
    assert spreads["cpu"].p99_s == pytest.approx(0.5, rel=0.02)


def test_nothing_is_due_while_nothing_happens():
    rig = rig_of("a")
    assert rig.processing.next_due is None


def test_two_of_one_name_are_a_mistake_of_the_caller():
    rig = rig_of("a")
    with pytest.raises(ValueError, match="processor a exists"):
        rig.create("a")


# --- the order ----------------------------------------------------------------------------------


def test_the_earliest_deadline_is_served_first():
    rig = Rig()
    for name, slo_s in (("slow", 9.0), ("fast", 0.1), ("middle", 1.0)):
        rig.create(name, slo_s=slo_s)
    rig.arrive("slow", 1)  # begins, since the worker is idle
    for name in ("slow", "middle", "fast"):
        rig.arrive(name, 2)
    rig.order.clear()
    rig.work()
    assert rig.order == ["Run fast", "Run middle", "Run slow"]


@given(
    slos=st.lists(st.sampled_from([0.1, 0.5, 1.0, 5.0]), min_size=1, max_size=5),
    steps=st.lists(st.tuples(st.integers(0, 4), st.floats(0, 0.3), st.booleans()), max_size=60),
)
def test_the_order_is_that_of_a_naive_queue(slos, steps):
    """One worker: always the processor whose oldest message has the earliest deadline."""
    rig = Rig()
    for n, slo_s in enumerate(slos):
        rig.create(f"p{n}", slo_s=slo_s, checkpoint_messages=1_000_000, checkpoint_s=3_600.0)
    waiting: dict[int, list[float]] = {n: [] for n in range(len(slos))}
    running: int | None = None

    def check() -> int | None:
        """What a naive queue would run now."""
        heads = [(dues[0], n) for n, dues in waiting.items() if dues]
        if rig.requests[1] is None:
            assert not heads
            return None
        name = rig.order[-1].removeprefix("Run p")
        assert waiting[int(name)][0] == min(heads)[0]
        waiting[int(name)].pop(0)
        return int(name)

    for number, (n, seconds, answers) in enumerate(steps, 1):
        rig.now += seconds
        processor = n % len(slos)
        waiting[processor].append(rig.now + slos[processor])
        was_idle = running is None
        rig.arrive(f"p{processor}", number)
        if was_idle:
            running = check()
        if answers and running is not None:
            rig.answer(1)
            running = check()


def test_a_processor_stays_where_its_state_is():
    rig = rig_of("a", "b", workers=2)
    assert {rig.status("a").worker, rig.status("b").worker} == {1, 2}
    for position in range(1, 20):
        rig.arrive("a", position)
        rig.arrive("b", position)
    rig.work()
    assert rig.status("a").counters.moved == rig.status("b").counters.moved == 0
    assert rig.status("a").counters.replayed == 0


def crowded() -> tuple[Rig, int]:
    """Two processors at one worker, which runs a's message; the other worker is idle."""
    rig = Rig(2)
    for name in ("a", "x", "b"):
        rig.create(name, wall_s=100.0)
    rig.handle(Remove("x"))
    assert rig.status("a").worker == rig.status("b").worker
    home = rig.status("a").worker
    rig.arrive("b", 1)
    rig.work()
    rig.arrive("a", 1)
    rig.arrive("b", 2)
    return rig, home


def test_one_that_waits_for_a_busy_worker_moves_with_its_state_to_an_idle_one():
    rig, home = crowded()
    rig.sleep(MOVE_AFTER_S)
    rig.answer(home)
    assert isinstance(rig.requests[home], TakeSnapshot)
    rig.answer(home)
    away = rig.busy()
    assert away == [3 - home]
    rig.work()
    assert rig.outputs("b") == [(1, [1]), (2, [1, 2])]
    assert rig.status("b").counters.replayed == 0
    assert rig.status("b").worker == 3 - home


def test_one_that_waits_for_a_long_message_moves_from_its_checkpoint():
    rig, home = crowded()
    rig.sleep(LONG_S)
    assert isinstance(rig.requests[3 - home], Load)
    while rig.requests[3 - home] is not None:
        rig.answer(3 - home)
    assert rig.outputs("b") == [(1, [1]), (2, [1, 2])]
    assert rig.status("b").counters.replayed == 1
    assert isinstance(rig.requests[home], Run)  # a's message goes on
    rig.work()
    assert rig.outputs("a") == [(1, [1])]


def test_the_time_of_a_move_is_announced():
    rig, home = crowded()
    arrived = rig.now
    assert rig.processing.next_due == pytest.approx(arrived + MOVE_AFTER_S)
    rig.sleep_until_due()
    assert rig.processing.next_due == pytest.approx(arrived + LONG_S)
    rig.sleep_until_due()
    assert isinstance(rig.requests[3 - home], Load)


# --- failures -----------------------------------------------------------------------------------


def test_one_that_raises_is_started_again_and_misses_nothing():
    rig = rig_of("a", "b")
    rig.arrive("a", 1)
    rig.work()
    rig.arrive("a", 2)
    rig.arrive("b", 1)
    rig.fail(1, "ValueError: no")
    assert rig.state("a") == "backing_off"
    rig.work()
    assert rig.outputs("b") == [(1, [1])]
    assert rig.state("b") == "ready"
    rig.arrive("a", 3)
    rig.sleep(1.0)
    rig.work()
    assert rig.outputs("a") == [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])]
    assert [r.occurrence for r in rig.reports] == ["failed", "recovered"]


@pytest.mark.parametrize("way", ["dies", "hangs", "babbles", "no memory"])
def test_a_lost_worker_costs_only_the_one_that_ran(way):
    rig = rig_of("guilty", "innocent", wall_s=5.0)
    rig.arrive("innocent", 1)
    rig.arrive("guilty", 1)
    rig.work()
    rig.arrive("guilty", 2)
    rig.arrive("innocent", 2)
    match way:
        case "dies":
            rig.die(1)
        case "hangs":
            assert rig.processing.next_due == pytest.approx(rig.now + 5.0)
            rig.sleep(5.0)
        case "babbles":
            rig.handle(Babbled(1))
        case "no memory":
            rig.fail(1, "MemoryError", memory=True)
    assert rig.state("guilty") == "backing_off"
    assert rig.state("innocent") == "loading"
    rig.work()
    assert rig.outputs("innocent") == [(1, [1]), (2, [1, 2])]
    assert rig.status("innocent").failures == 0
    rig.sleep(1.0)
    rig.work()
    assert rig.outputs("guilty") == [(1, [1]), (2, [1, 2])]
    assert [r.occurrence for r in rig.reports] == ["failed", "recovered"]
    said = {
        "dies": "its worker was ended by signal 9; it is started again in 1 s",
        "hangs": "it took more than 5 s for a message; it is started again in 1 s",
        "babbles": "its worker wrote what is no answer; it is started again in 1 s",
        "no memory": "MemoryError; it is started again in 1 s",
    }
    assert rig.reports[0].text == said[way]


def test_one_that_keeps_memory_is_stopped_alone():
    rig = rig_of("leak", "innocent", memory_bytes=10 * 2**20)
    for position in range(1, 4):
        rig.arrive("leak", position)
        rig.answer(1, grown=4 * 2**20)
    rig.arrive("innocent", 1)
    rig.arrive("leak", 4)
    assert isinstance(rig.requests[1], TakeSnapshot)
    rig.answer(1)
    assert rig.saved[-1].checkpoint.position == 3
    assert rig.state("leak") == "backing_off"
    assert rig.dying == [1]
    assert rig.reports[0].text.startswith("it took 12 MiB of memory; at most 10 MiB are allowed")
    rig.work()
    assert rig.outputs("innocent") == [(1, [1])]
    rig.sleep(1.0)
    rig.work()
    assert rig.outputs("leak")[-1] == (4, [1, 2, 3, 4])
    assert rig.status("leak").counters.replayed == 0


def test_who_took_the_memory_is_charged_not_who_found_none():
    rig = rig_of("leak", "innocent", memory_bytes=100 * 2**20)
    rig.arrive("leak", 1)
    rig.answer(1, grown=90 * 2**20)
    rig.arrive("innocent", 1)
    rig.fail(1, "MemoryError", memory=True)
    assert rig.state("leak") == "backing_off"
    assert rig.state("innocent") == "loading"


def test_a_worker_that_ends_while_idle_is_charged_to_the_last_it_served():
    rig = rig_of("a", "b")
    rig.arrive("a", 1)
    rig.work()
    rig.die(1)
    assert rig.state("a") == "backing_off"
    assert rig.state("b") == "loading"
    assert "after its last message" in rig.reports[0].text


def test_pauses_grow_and_end_with_disabled():
    rig = rig_of("a", failures=4, attempts=100)
    rig.arrive("a", 1)
    for pause_s in (1.0, 2.0, 4.0):
        rig.fail(1)
        due = rig.processing.next_due
        assert due is not None
        assert due - rig.now == pytest.approx(pause_s)
        rig.sleep_until_due()
        rig.answer(1)  # it is built again
    rig.fail(1)
    assert rig.state("a") == "disabled"
    assert rig.processing.next_due is None
    assert rig.reports[-1].text == ("ValueError: no; it failed 4 times in a row and is disabled")
    rig.handle(Enable("a"))
    rig.work()
    assert rig.outputs("a") == [(1, [1])]
    assert rig.state("a") == "ready"


def test_a_message_that_always_fails_is_skipped_and_told():
    rig = rig_of("a", attempts=3)
    rig.arrive("a", 1)
    rig.work()
    rig.arrive("a", 2)
    rig.arrive("a", 3)
    for _ in range(3):
        while not isinstance(rig.requests[1], Run) or rig.requests[1].body != body(2):
            rig.answer(1)
        rig.fail(1, "KeyError: 'x'")
        rig.sleep_until_due()
    rig.work()
    assert rig.outputs("a") == [(1, [1]), (3, [1, 3])]
    assert rig.status("a").counters.skipped == 1
    assert [r.text for r in rig.reports if r.occurrence == "skipped"] == [
        "the message at position 2 is skipped: after 3 attempts: KeyError: 'x'"
    ]
    rig.arrive("a", 2)
    rig.work()
    assert rig.outputs("a")[-1] == (3, [1, 3])


def test_messages_that_fail_do_not_disable_a_processor():
    """Whoever may publish chooses them."""
    rig = rig_of("a", attempts=3, failures=4)
    for position in (1, 2, 3):
        rig.arrive("a", position)
    for _ in range(6):
        rig.fail(1)
        rig.sleep_until_due()
        rig.answer(1)  # it is built again
    rig.work()
    assert rig.outputs("a") == [(3, [3])]
    assert rig.status("a").counters.skipped == 2
    assert {report.occurrence for report in rig.reports} == {"failed", "skipped", "recovered"}


def test_one_that_skips_every_message_is_disabled_and_told():
    rig = rig_of("a", attempts=1, skips=3)
    for position in (1, 2, 3, 4, 5, 6):
        rig.arrive("a", position)
    rig.fail(1)
    rig.sleep_until_due()
    rig.answer(1)  # it is built again
    rig.answer(1)  # one that it can take ends the row
    for _ in range(2):
        rig.fail(1)
        rig.sleep_until_due()
        rig.answer(1)
    rig.fail(1)
    assert rig.status("a").state == "disabled"
    assert rig.status("a").counters.skipped == 4
    assert rig.reports[-1].occurrence == "disabled"
    assert "it skipped 3 messages in a row and is disabled" in rig.reports[-1].text
    rig.handle(Enable("a"))
    rig.work()
    assert rig.status("a").state == "ready"


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        (7, UNFIT),
        ([7], UNFIT),
        ([{}], UNFIT),
        ([{"Name": 1}], UNFIT),
        ([{"a": None}], UNFIT),
        ([{"a": math.nan}], UNFIT),
        ([{"a": math.inf}], UNFIT),
        ([{"a": 2**60}], UNFIT),
        ([{"a": [1]}], UNFIT),
        ([{"a": "x" * 600}], UNFIT),
        ([{"a": 1}] * 65, "it gave 65 outputs for one message; at most 64 are allowed"),
        (
            [{"a": "x" * 500, "b": "y" * 500}] * 300,
            "its outputs take 303303 bytes; at most 262144 are allowed",
        ),
        (b"\xc1", UNFIT),
        (b"", UNFIT),
        (b"\x91" * 5_000, UNFIT),
    ],
)
def test_nonsense_is_refused_in_one_line(outputs, said):
    rig = rig_of("a")
    rig.arrive("a", 1)
    rig.say(1, outputs)
    assert rig.state("a") == "backing_off"
    assert rig.emitted == []
    assert rig.reports[0].text.startswith(said), rig.reports[0].text
    assert "\n" not in rig.reports[0].text


def test_no_outputs_are_no_publication():
    rig = rig_of("a")
    rig.arrive("a", 1)
    rig.say(1, EMPTY)
    assert rig.emitted == []
    assert rig.status("a").counters.processed == 1


def test_too_much_cpu_time_is_a_failure_though_it_came_in_time():
    rig = rig_of("a", cpu_s=1.0, wall_s=5.0)
    rig.arrive("a", 1)
    rig.answer(1, cpu_s=1.5)
    assert rig.reports[0].text == (
        "it took 1.5 s of CPU time for a message; at most 1 s are allowed; it is started again in "
        "1 s"
    )
    assert rig.emitted == []


@pytest.mark.parametrize("cpu_s", [math.nan, math.inf, -1.0])
def test_a_cpu_time_that_cannot_be_is_no_answer(cpu_s):
    rig = rig_of("a")
    rig.arrive("a", 1)
    rig.answer(1, cpu_s=cpu_s)
    assert rig.reports[0].text.startswith("its worker wrote what is no answer")


def test_an_answer_to_what_was_not_asked_ends_the_worker():
    for wrong in (Loaded(1, 1), Finished(1, 99, EMPTY, 0.0, 0), WorkerReady(1)):
        rig = rig_of("a", "b")
        rig.arrive("a", 1)
        rig.handle(wrong)
        assert rig.dying == [1]
        assert rig.state("a") == "backing_off"
        assert rig.state("b") == "loading"


def test_answers_of_a_worker_that_is_being_ended_do_not_count():
    rig = rig_of("a", wall_s=5.0)
    rig.arrive("a", 1)
    request = rig.requests[1]
    rig.sleep(5.0)
    rig.handle(Finished(1, request.incarnation, EMPTY, 0.0, 0))
    rig.handle(WorkerReady(1))
    rig.handle(Babbled(1))
    rig.handle(WorkerEnded(1, "was ended by signal 9"))
    rig.handle(WorkerEnded(1, "was ended by signal 9"))
    assert len(rig.reports) == 1
    assert rig.starting == [2]


def test_a_worker_that_never_starts_is_started_again_with_growing_pauses():
    rig = Rig(ready=False)
    rig.die(rig.starting.pop(), "ended with status 1")
    assert rig.starting == []
    assert rig.reports[0].text == (
        "a worker ended with status 1 at its start; another follows in 1 s"
    )
    rig.sleep(1.0)
    rig.die(rig.starting.pop(), "ended with status 1")
    rig.sleep(1.0)
    assert rig.starting == []
    rig.sleep(1.0)
    assert rig.starting == [3]
    rig.sleep(START_S)
    assert rig.dying == [3]


# --- the queue ----------------------------------------------------------------------------------


def test_a_full_queue_holds_its_topic_and_loses_nothing():
    rig = rig_of("a", waiting=4)
    for position in range(1, 9):
        rig.arrive("a", position)
    assert [(h.processor, h.position) for h in rig.held] == [("a", 5)]
    rig.answer(1)
    assert rig.resumed == []
    rig.answer(1)
    assert [(r.processor, r.after) for r in rig.resumed] == [("a", 4)]
    for position in range(5, 7):
        rig.arrive("a", position)
    rig.work()
    assert rig.outputs("a")[-1] == (6, [1, 2, 3, 4, 5, 6])


def test_what_comes_before_its_topic_knows_of_the_hold_is_not_taken_out_of_order():
    rig = rig_of("a", waiting=1)
    rig.arrive("a", 1)
    rig.arrive("a", 2)
    rig.work()
    assert ([h.position for h in rig.held], [r.after for r in rig.resumed]) == ([2], [1])
    rig.arrive("a", 3)  # its topic has heard of neither yet
    rig.work()
    for position in (2, 3):
        rig.arrive("a", position)  # it has heard of both
        rig.work()
    assert rig.outputs("a")[-1] == (3, [1, 2, 3])


def test_a_queue_is_bounded_in_bytes_too():
    rig = rig_of("a", waiting_bytes=4_096, checkpoint_messages=1_000)
    for position in range(1, 20):
        rig.arrive("a", position, size=400)
    held = rig.held[0].position
    assert 9 <= held <= 11
    assert rig.status("a").waiting_bytes < 4_096 + 500
    rig.work()
    assert rig.resumed[0].after == held - 1
    assert rig.saved  # what is done and not kept would take all the room


def test_a_message_that_is_too_large_is_skipped_and_told():
    rig = rig_of("a", waiting_bytes=4_096)
    rig.arrive("a", 1)
    rig.arrive("a", 2, size=2_000)
    rig.arrive("a", 3)
    rig.work()
    assert rig.outputs("a") == [(1, [1]), (3, [1, 3])]
    assert rig.reports[0].text == (
        "the message at position 2 is skipped: it has 2011 bytes; at most 1024 are allowed"
    )


# --- checkpoints --------------------------------------------------------------------------------


def test_state_is_kept_every_so_many_messages():
    rig = rig_of("a", checkpoint_messages=3)
    for position in range(1, 8):
        rig.arrive("a", position)
    rig.work()
    assert [save.checkpoint.position for save in rig.saved] == [3, 6]
    assert msgspec.msgpack.decode(rig.saved[-1].checkpoint.state) == [1, 2, 3, 4, 5, 6]


def test_state_is_kept_every_so_many_seconds_if_there_is_news():
    rig = rig_of("a", checkpoint_s=5.0)
    rig.arrive("a", 1)
    rig.work()
    rig.sleep(4.9)
    rig.work()
    assert rig.saved == []
    rig.sleep(0.1)
    rig.work()
    assert [save.checkpoint.position for save in rig.saved] == [1]
    assert rig.processing.next_due is None


def test_state_is_kept_at_request():
    rig = rig_of("a")
    rig.handle(TakeCheckpoint("a"))
    assert rig.saved[-1].checkpoint == Checkpoint()
    rig.arrive("a", 1)
    rig.handle(TakeCheckpoint("a"))
    rig.work()
    assert rig.saved[-1].checkpoint.position == 1


def test_a_processor_goes_on_from_a_checkpoint():
    rig = rig_of("a")
    for position in (1, 2):
        rig.arrive("a", position)
    rig.work()
    rig.handle(TakeCheckpoint("a"))
    rig.work()
    rig.arrive("a", 3)
    rig.work()
    stored = msgspec.msgpack.decode(
        msgspec.msgpack.encode(rig.saved[-1].checkpoint), type=Checkpoint
    )
    again = Rig()
    again.create("a", checkpoint=stored, epoch=4)
    for position in (1, 2, 3, 4):  # the spool sends what it does not know to be kept
        again.arrive("a", position)
    again.work()
    assert again.outputs("a") == [(3, [1, 2, 3]), (4, [1, 2, 3, 4])]
    assert {emit.epoch for emit in again.emitted} == {4}


def test_a_state_that_is_too_large_is_a_failure():
    rig = rig_of("a", state_bytes=1_024, checkpoint_messages=1_000)
    for position in range(10_000, 10_500):
        rig.arrive("a", position)
    rig.work()
    rig.handle(TakeCheckpoint("a"))
    rig.work()
    assert rig.state("a") == "backing_off"
    assert "at most 1024 are allowed" in rig.reports[0].text
    assert rig.saved == []


# --- handing over -------------------------------------------------------------------------------


def test_what_is_handed_over_goes_on_elsewhere():
    rig = rig_of("a")
    for position in (1, 2, 3):
        rig.arrive("a", position)
    rig.answer(1)
    rig.handle(HandOver("a"))
    rig.work()
    (handed,) = rig.handed
    assert handed.checkpoint.position == handed.checkpoint.emitted == 2
    assert handed.messages == (Message(3, body(3)),)
    target = Rig()
    target.create("a", checkpoint=handed.checkpoint, epoch=1)
    for message in handed.messages:
        target.arrive("a", message.position)
    target.work()
    assert rig.outputs("a") + target.outputs("a") == [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])]


@pytest.mark.parametrize("state", ["loading", "ready", "running", "backing_off", "disabled"])
def test_a_processor_can_be_handed_over_in_every_state(state):
    rig = rig_of("a", failures=1 if state == "disabled" else 10)
    rig.arrive("a", 1)
    rig.work()
    rig.arrive("a", 2)
    match state:
        case "loading":
            rig.die(1)
            rig.sleep(1.0)
        case "ready":
            rig.work()
        case "backing_off" | "disabled":
            rig.fail(1)
    assert rig.state("a") == state
    rig.handle(HandOver("a"))
    rig.work()
    (handed,) = rig.handed
    target = Rig()
    target.create("a", checkpoint=handed.checkpoint)
    for message in handed.messages:
        target.arrive("a", message.position)
    target.work()
    assert (rig.outputs("a") + target.outputs("a"))[-1] == (2, [1, 2])
    assert len(rig.outputs("a") + target.outputs("a")) == 2
    assert rig.processing.status(rig.now) == []


def test_one_that_fails_while_it_is_handed_over_is_handed_over_all_the_same():
    rig = rig_of("a")
    rig.arrive("a", 1)
    rig.handle(HandOver("a"))
    rig.die(1)
    (handed,) = rig.handed
    assert handed.checkpoint == Checkpoint()
    assert handed.messages == (Message(1, body(1)),)


def test_one_that_is_removed_leaves_nothing_behind():
    for answer in (True, False):
        rig = rig_of("a", "b")
        rig.arrive("a", 1)
        rig.arrive("b", 1)
        rig.handle(Remove("a"))
        if answer:
            rig.answer(1)
        rig.work()
        rig.arrive("a", 2)
        rig.handle(Remove("a"))
        rig.handle(HandOver("a"))
        rig.handle(TakeCheckpoint("a"))
        rig.handle(Enable("a"))
        assert rig.outputs("a") == []
        assert rig.outputs("b") == [(1, [1])]
        assert [s.processor for s in rig.processing.status(rig.now)] == ["b"]
        rig.create("a")
        rig.arrive("a", 1)
        rig.work()
        assert rig.outputs("a") == [(1, [1])]


def test_definitions_are_checked_in_one_line():
    with pytest.raises(ConfigError, match="did you mean wall_s"):
        parse({"wal_s": 1.0}, Limits, "limits")
    with pytest.raises(ConfigError, match="slo_s"):
        parse({"name": "a", "processor": "b", "slo_s": 0}, Definition, "topic a")
    assert Create(Definition(name="a", processor="b")).checkpoint.state == b""


def test_what_was_skipped_stays_skipped_at_the_next_owner():
    rig = rig_of("a", attempts=1)
    rig.arrive("a", 1)
    rig.fail(1)
    rig.arrive("a", 2)
    rig.handle(HandOver("a"))
    (handed,) = rig.handed
    assert handed.messages == (Message(1, b""), Message(2, body(2)))
    target = Rig()
    target.create("a", checkpoint=handed.checkpoint)
    for message in handed.messages:
        target.handle(Arrived("a", message.position, message.body))
    target.arrive("a", 1)
    target.work()
    assert target.outputs("a") == [(2, [2])]
    assert target.reports == []
