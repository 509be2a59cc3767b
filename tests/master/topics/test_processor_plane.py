"""Which processors a master takes, and what it says of them; without worker processes."""

from __future__ import annotations

import pytest

from agent.master.topics import processor_plane
from agent.master.topics.processor_plane import ENOUGH, MAX_TOGETHER, ProcessorPlane
from agent.processing.events import Checkpoint, Emit, Hold, Report, Resume, Save
from agent.runtime.reactor import Reactor
from agent.topics.events import Checkpointed, Emitted, Feed, Held, Progress, Resumed, StartProcessor
from agent.wire.master_config import MasterProcessing
from agent.wire.messages import Slo
from agent.wire.topics import Topic, TopicStatus
from tests.processing.rig import Rig

COMFORT = Topic("comfort", processor="comfort_index", slo=Slo(90.0, 1_000.0))


class Pool:
    """The workers of a rig, in place of processes."""

    def __init__(self, deliver):
        self.deliver = deliver
        self.events = []
        self.started = 0

    def start(self):
        self.started += 1

    def handle(self, event):
        self.events.append(event)

    def close(self):
        pass


def described(plane, rig):
    """What an operator is told of COMFORT, whose processor is the rig's."""
    plane._processing = rig.processing
    plane._looked_s = -1e9
    return plane.described(TopicStatus(COMFORT, "none"))


@pytest.fixture
def plane(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(
        processor_plane, "WorkerPool", lambda _reactor, _processing, deliver, _say: Pool(deliver)
    )
    said = []
    records = []
    plane = ProcessorPlane(
        Reactor(lambda: now[0]),
        said.append,
        MasterProcessing(workers=1),
        iad="iad1",
        wall=lambda: 1_800_000_000.0 + now[0],
        record=records.append,
    )
    plane.said, plane.now, plane.records = said, now, records
    return plane


def test_what_is_known_and_sound_is_taken(plane):
    assert plane.why_not(COMFORT) == ""
    channels = {"channels": ("co2", "humidity"), "depth": 2.0}
    assert plane.why_not(Topic("a", processor="aggregate", parameters=channels)) == ""


@pytest.mark.parametrize(
    ("processor", "parameters", "says"),
    [
        ("cuont", {}, "no processor cuont here; there are aggregate, anomaly, comfort_index, "),
        ("comfort_index", {"index": "x"}, "comfort_index: index must be discomfort"),
        ("comfort_index", {"indx": "pmv"}, "comfort_index: "),
        ("aggregate", {}, "aggregate: "),
        ("aggregate", {"channels": ("co2",), "depth": 1.5}, "aggregate: depth"),
        ("threshold", {"when": "temperature >"}, "threshold"),
    ],
)
def test_what_is_not_is_refused_in_one_line(plane, processor, parameters, says):
    problem = plane.why_not(Topic("a", processor=processor, parameters=parameters))
    assert problem.startswith(says)
    assert "\n" not in problem


def test_an_objective_that_the_program_alone_misses_is_refused(plane, monkeypatch):
    rig = Rig()
    rig.create("slow")
    (status,) = rig.processing.status(0.0)
    program = status.program
    monkeypatch.setattr(processor_plane, "PROCESSORS", {**processor_plane.PROCESSORS, program: "x"})
    monkeypatch.setattr(processor_plane, "open_processor", lambda *_: None)
    measured = rig.processing._processors["slow"].measures
    plane._processing = rig.processing
    hasty = Topic("hasty", processor=program, slo=Slo(90.0, 5.0))
    for _ in range(ENOUGH):
        assert plane.why_not(hasty) == ""
        measured.lately.cpu.insert(0.03, 10.0)
    problem = plane.why_not(hasty)
    assert problem.startswith(f"infeasible alone: {program} takes 29.9 ms of CPU time at p90")
    assert problem.endswith("in topic slow; the objective is 5 ms")
    assert plane.why_not(Topic("patient", processor=program, slo=Slo(90.0, 50.0))) == ""
    assert plane.why_not(Topic("free", processor=program)) == ""


def test_an_objective_is_held_against_its_own_percentile(plane, monkeypatch):
    """A p99 objective that p90 would keep is refused."""
    rig = Rig()
    rig.create("slow")
    (status,) = rig.processing.status(0.0)
    monkeypatch.setattr(
        processor_plane, "PROCESSORS", {**processor_plane.PROCESSORS, status.program: "x"}
    )
    monkeypatch.setattr(processor_plane, "open_processor", lambda *_: None)
    plane._processing = rig.processing
    cpu = rig.processing._processors["slow"].measures.lately.cpu
    for number in range(100):
        cpu.insert(0.5 if number < 5 else 0.01, 10.0)
    wants = {p: Topic("t", processor=status.program, slo=Slo(p, 100.0)) for p in (50.0, 90.0, 99.0)}
    assert plane.why_not(wants[50.0]) == plane.why_not(wants[90.0]) == ""
    assert "ms of CPU time at p99 in topic slow" in plane.why_not(wants[99.0])


def test_limits_of_a_topic_are_those_of_its_processor(plane):
    limits = {"memory_bytes": 2.0**25, "cpu_s": 0.5, "outputs": 3.0}
    limited = Topic("limited", processor="comfort_index", limits=limits)
    assert plane.why_not(limited) == ""
    plane.start(StartProcessor(limited, 1, Progress("i")), lambda _: None)
    found = plane._pool.events[-1].definition.limits
    assert (found.memory_bytes, found.cpu_s, found.outputs, found.wall_s) == (2**25, 0.5, 3, 5.0)


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"memory": 1e6}, "there is no limit memory; there are wall_s, cpu_s, "),
        ({"memory_bytes": 2.0**29}, "limit memory_bytes: a worker has 268435456 bytes"),
        ({"cpu_s": 0.0}, "limit cpu_s: expected `float` > 0.0"),
        ({"outputs": 1.5}, "limit outputs: expected `int`, got `float`"),
    ],
)
def test_limits_that_are_none_are_refused_in_one_line(plane, limits, says):
    problem = plane.why_not(Topic("t", processor="comfort_index", limits=limits))
    assert problem.startswith(says)
    assert "\n" not in problem


def test_a_failure_is_told_while_it_lasts_and_after(plane):
    rig = Rig()
    rig.create(COMFORT.name, attempts=1, waiting_bytes=4_096)
    assert described(plane, rig).last_failure == ""
    rig.arrive(COMFORT.name, 1)
    rig.fail(1, "KeyError: 'x' (own.py, line 3)")
    rig.arrive(COMFORT.name, 2, size=2_000)  # skipped, but that is not what it waits for
    told = described(plane, rig)
    assert (told.state, told.last_failure) == ("backing_off", "")
    assert told.trouble == "KeyError: 'x' (own.py, line 3)"
    rig.sleep_until_due()
    rig.work()
    told = described(plane, rig)
    assert (told.state, told.trouble, told.skipped) == ("ready", "", 2)
    assert told.last_failure == "KeyError: 'x' (own.py, line 3)"
    rig.arrive(COMFORT.name, 3)
    rig.work()
    rig.arrive(COMFORT.name, 4, size=2_000)
    assert (
        described(plane, rig).last_failure == "a message has 2011 bytes; at most 1024 are allowed"
    )


def test_workers_start_with_the_first_processor(plane):
    assert plane._pool.started == 0
    came = []
    plane.start(StartProcessor(COMFORT, 3, Progress("i", 7, state=b"s")), came.append)
    other = Topic("other", processor="comfort_index")
    plane.start(StartProcessor(other, 4, Progress("j")), came.append)
    assert plane._pool.started == 1
    created, _ = plane._pool.events
    assert (created.epoch, created.definition.slo_s) == (3, 1.0)
    assert (created.checkpoint.position, created.checkpoint.emitted) == (7, 7)
    assert created.checkpoint.state == b"s"
    plane.feed(Feed("comfort", 8, b"m"))
    assert plane._pool.events[-1].position == 8


def test_what_processors_say_is_told_to_their_topics(plane):
    came, troubles = [], []
    plane.on_trouble = lambda *told: troubles.append(told)
    plane.start(StartProcessor(COMFORT, 3, Progress("i")), came.append)
    plane._processing.handle(plane._pool.events[0], 10.0)
    for each in (
        Emit("comfort", 3, 1, ({"index": 3},)),
        Hold("comfort", 2),
        Resume("comfort", 1),
        Emit("gone", 2, 1, ()),
        Report("comfort", "failed", "it raised"),
        Report("", "failed", "a worker ended"),
    ):
        plane._pool.deliver(each)
    assert came == [
        Emitted("comfort", 3, 1, ({"index": 3},)),
        Held("comfort", 3),
        Resumed("comfort", 3, 1),
    ]
    assert troubles == [("comfort", "failed", "it raised")]
    assert plane.said == ["processor of topic comfort: it raised\n", "processors: a worker ended\n"]
    plane._pool.deliver(Save("comfort", 3, Checkpoint(1, 1, b"s")))
    assert came.pop() == Checkpointed("comfort", 3, 1, b"s")
    plane.stop("comfort")
    plane._pool.deliver(Emit("comfort", 3, 2, ()))
    assert len(came) == 3


def measured(plane, topic, count, latency_s, now):
    """So many messages were processed by `now`, each in that time, half of it CPU time."""
    measures = plane._processing._processors[topic].measures
    measures.counters.arrived += count
    for _ in range(count):
        measures.counters.cpu_s += latency_s / 2
        measures.processed(now, now - latency_s, now - latency_s / 2, now - 0.5, latency_s / 2)


def created(plane, topic):
    plane.start(StartProcessor(topic, 1, Progress("i")), lambda _: None)
    plane._processing.handle(plane._pool.events[-1], plane.now[0])


def test_a_record_tells_a_minute_of_a_processor(plane):
    created(plane, COMFORT)
    assert plane.next_due == 70.0
    measured(plane, "comfort", 10, 0.1, 40.0)
    plane.now[0] = 69.9
    plane.tick(69.9)
    assert plane.records == []
    plane.now[0] = 70.0
    plane.tick(70.0)
    measured(plane, "comfort", 5, 0.2, 100.0)
    plane.now[0] = 130.0
    plane.tick(130.0)
    first, second = plane.records
    assert (first.iad, first.topic, first.processor) == ("iad1", "comfort", "comfort_index")
    assert (first.wall_ms, first.start_s, first.seconds) == (1_800_000_010_000, 10.0, 60.0)
    assert (first.percentile, first.slo_ms, first.together) == (90.0, 1_000.0, ())
    assert (first.arrived, first.processed, first.late, first.workers) == (10, 10, 10, 1)
    assert first.cpu_s == pytest.approx(0.5)
    for name, ms in (("cpu_ms", 50), ("waiting_ms", 50), ("latency_p90_ms", 100)):
        assert getattr(first, name) == pytest.approx(ms, rel=0.01)
    assert first.achieved_ms == first.latency_p90_ms
    # Nothing of the first minute is in the second.
    assert (second.start_s, second.arrived, second.processed) == (70.0, 5, 5)
    assert second.latency_p50_ms == pytest.approx(200, rel=0.01)


def test_an_interval_ends_where_a_processor_comes_or_goes(plane):
    created(plane, COMFORT)
    plane.now[0] = 15.0
    created(plane, Topic("free", processor="comfort_index"))
    plane.now[0] = 35.0
    plane.stop("free")
    plane._processing.handle(plane._pool.events[-1], 35.0)
    plane.now[0] = 36.0
    plane.close()
    told = [(each.topic, each.start_s, each.seconds, each.together) for each in plane.records]
    assert told == [
        ("comfort", 10.0, 5.0, ()),
        ("comfort", 15.0, 20.0, ("free",)),
        ("free", 15.0, 20.0, ("comfort",)),
        ("comfort", 35.0, 1.0, ()),
    ]
    free = plane.records[2]
    assert (free.slo_ms, free.cpu_ms, free.achieved_ms, free.late) == (None, None, None, 0)
    assert plane.next_due == 96.0


def crowd(plane, count):
    for number in range(count):
        created(plane, Topic(f"t{number:03}", processor="comfort_index"))


def gone(plane, name):
    plane.stop(name)
    plane._processing.handle(plane._pool.events[-1], plane.now[0])


def test_records_do_not_grow_as_the_square_of_the_processors(plane):
    crowd(plane, 500)
    # Each that came ended the interval of all before it, as long as these were few.
    few = MAX_TOGETHER * (MAX_TOGETHER + 1) // 2
    assert len(plane.records) == few
    plane.records.clear()
    plane.now[0] = 30.0
    gone(plane, "t004")
    (told,) = plane.records
    assert (told.topic, told.start_s, told.seconds) == ("t004", 10.0, 20.0)
    assert len(told.together) == MAX_TOGETHER - 1
    assert told.others == 499
    plane.now[0] = 70.0
    plane.tick(70.0)
    assert len(plane.records) == 500
    assert {each.others for each in plane.records[1:]} == {498}
    assert all(len(each.together) < MAX_TOGETHER for each in plane.records)
    assert all(each.topic not in each.together for each in plane.records)


def test_who_comes_into_a_crowd_has_a_record_from_then_on(plane):
    crowd(plane, MAX_TOGETHER + 1)
    plane.records.clear()
    plane.now[0] = 40.0
    created(plane, COMFORT)
    plane.now[0] = 70.0
    plane.tick(70.0)
    found = {each.topic: (each.start_s, each.seconds) for each in plane.records}
    assert found.pop("comfort") == (40.0, 30.0)
    assert set(found.values()) == {(10.0, 60.0)}
    assert {each.wall_ms - each.start_s * 1e3 for each in plane.records} == {1.8e12}


def test_a_set_is_whole_again_when_the_crowd_has_gone(plane):
    """No interval without `others` has time in it in which one was there that it does not list."""
    crowd(plane, MAX_TOGETHER + 1)
    plane.records.clear()
    plane.now[0] = 20.0
    gone(plane, "t000")
    assert {each.others for each in plane.records} == {MAX_TOGETHER}
    assert len(plane.records) == MAX_TOGETHER + 1
    plane.records.clear()
    plane.now[0] = 70.0
    gone(plane, "t001")
    assert {(each.start_s, each.others, len(each.together)) for each in plane.records} == {
        (20.0, None, MAX_TOGETHER - 1)
    }


def test_a_processor_that_ends_twice_writes_one_record(plane):
    crowd(plane, MAX_TOGETHER + 3)
    plane.records.clear()
    gone(plane, "t000")
    gone(plane, "t000")
    assert [each.topic for each in plane.records] == ["t000"]
