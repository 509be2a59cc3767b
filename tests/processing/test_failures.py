"""Processors and workers that fail: who is charged, what is tried again, skipped and told."""

from __future__ import annotations

import math

import pytest

from agent.processing.dispatch import START_S
from agent.processing.events import (
    Babbled,
    Enable,
    Finished,
    Loaded,
    Run,
    TakeSnapshot,
    WorkerEnded,
    WorkerReady,
)
from tests.processing.rig import EMPTY, Rig, body, rig_of

UNFIT = "its outputs are not publishable: "


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


def test_of_a_cpu_time_no_more_is_counted_than_the_kernel_lets_a_worker_take():
    rig = rig_of("a", cpu_s=1.0, wall_s=5.0)
    rig.arrive("a", 1)
    rig.answer(1, cpu_s=1e308)
    assert rig.status("a").counters.cpu_s == 3.0


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
