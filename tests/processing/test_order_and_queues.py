"""Messages of processors: in order by deadline, in bounded queues, where the state is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.processing.definition import Definition, Limits
from agent.processing.dispatch import LONG_S, MOVE_AFTER_S
from agent.processing.events import Create, Load, Remove, Run, TakeSnapshot
from agent.wire.config import ConfigError, parse
from tests.processing.rig import Rig, rig_of

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


def test_definitions_are_checked_in_one_line():
    with pytest.raises(ConfigError, match="did you mean wall_s"):
        parse({"wal_s": 1.0}, Limits, "limits")
    with pytest.raises(ConfigError, match="slo_s"):
        parse({"name": "a", "processor": "b", "slo_s": 0}, Definition, "topic a")
    assert Create(Definition(name="a", processor="b")).checkpoint.state == b""
