"""Which processors a master takes, and what it says of them; without worker processes."""

from __future__ import annotations

import pytest

from agent.master import processor_plane
from agent.master.processor_plane import ENOUGH, ProcessorPlane
from agent.processing.events import Checkpoint, Emit, Hold, Report, Resume, Save
from agent.runtime.reactor import Reactor
from agent.topics.events import Checkpointed, Emitted, Feed, Held, Progress, Resumed, StartProcessor
from agent.wire.messages import Slo
from agent.wire.topics import Topic
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


@pytest.fixture
def plane(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(
        processor_plane, "WorkerPool", lambda _reactor, _processing, deliver, _say: Pool(deliver)
    )
    said = []
    plane = ProcessorPlane(Reactor(lambda: now[0]), said.append, workers=1)
    plane.said, plane.now = said, now
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
        measured.cpu.insert(0.03, 10.0)
    problem = plane.why_not(hasty)
    assert problem.startswith(f"infeasible alone: {program} takes 29.9 ms of CPU time at p90")
    assert problem.endswith("in topic slow; the objective is 5 ms")
    assert plane.why_not(Topic("patient", processor=program, slo=Slo(90.0, 50.0))) == ""
    assert plane.why_not(Topic("free", processor=program)) == ""


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
