"""The farthest values that a frame may hold, through both schedulers: nothing raises, all ends."""

import itertools
import random

import pytest

from _core.queue.policy import POLICIES
from agent.scheduling.events import (
    ANYONE,
    PolicyChanged,
    QueryArrived,
    TaskArrived,
    TaskReturned,
    Tick,
)
from agent.wire import messages as m
from agent.wire.base import MAX_TIMEOUT_MS, MAX_WINDOW_S
from agent.wire.codec import MESSAGEPACK, Decoder, encode
from agent.wire.market import Member
from agent.wire.unions import PublicRequest
from tests.scheduling.oracle import NODES, found
from tests.scheduling.rigs import QueryRig, TaskRig

LEAST = 5e-324
ANY_MS = (0.0, LEAST, 1e-300, 50.0, 500.0, MAX_TIMEOUT_MS)
SLO_MS = ANY_MS[1:]
WINDOWS = (
    m.Window(last_s=LEAST),
    m.Window(last_s=60.0),
    m.Window(last_s=MAX_WINDOW_S, ago_s=MAX_WINDOW_S),
    m.Window(start_ms=0, end_ms=2**53 - 1),
    m.Window(start_ms=2**53 - 2, end_ms=2**53 - 1),
)
TASK_PERCENTILES = (LEAST, 50.0, 99.0, 99.99999999999999)
SLO_PERCENTILES = (0.001, 50.0, 99.9999)
ADVANCES_MS = (0.0, LEAST, 5.0, 1e300, -1e300)
STEPS_S = (0.0, LEAST, 1e-6, 0.05, 1.0)
ROUNDS = 60

legal = Decoder(PublicRequest)


def received(message):
    """A message as a master's socket lets it in."""
    return legal.decode(encode(message, MESSAGEPACK))[0]


def any_task(number, draw):
    return m.Task(
        id=f"t{number}",
        areas=("b1",),
        window=draw.choice(WINDOWS),
        percentile=draw.choice(TASK_PERCENTILES),
        budget_ms=draw.choice(ANY_MS),
        timeout_ms=draw.choice(ANY_MS),
        form="aggregate",
        advance_ms=draw.choice(ADVANCES_MS),
    )


def any_query(number, draw):
    return m.Query(
        f"q{number}",
        ("b1", "b9"),
        draw.choice(WINDOWS),
        m.Slo(draw.choice(SLO_PERCENTILES), draw.choice(SLO_MS)),
        timeout_ms=draw.choice((None, *SLO_MS)),
    )


@pytest.mark.parametrize("start_s", [0.0, 2e9])
@pytest.mark.parametrize("policy", POLICIES)
def test_tasks(policy, start_s):
    for seed in range(5):
        draw = random.Random(seed)
        rig = TaskRig(policy=policy)
        now = start_s
        for node in NODES:
            rig.join(node, now=now)
        answered = itertools.count()
        for number in range(ROUNDS):
            rig.do(TaskArrived("client", received(any_task(number, draw)), ANYONE), now)
            now += draw.choice(STEPS_S)
            while len(rig.dispatched) > (done := next(answered)) and draw.random() < 0.7:
                peer, subtask = rig.dispatched[done]
                rig.answer(found(subtask.id), peer.removeprefix("link-"), now=now)
            if draw.random() < 0.1:
                rig.do(PolicyChanged(draw.choice(list(POLICIES))), now)
            rig.do(Tick(), now)
        rig.do(Tick(), now + MAX_TIMEOUT_MS / 1e3)
        assert rig.scheduler.open_tasks == 0
        assert len(rig.results) == ROUNDS


@pytest.mark.parametrize("start_s", [0.0, 2e9])
def test_queries(start_s):
    for seed in range(10):
        draw = random.Random(seed)
        rig = QueryRig(tuple(Member(f"iad{n}", f"inproc://{n}", ("b1",)) for n in (1, 2)))
        now = start_s
        for number in range(ROUNDS):
            rig.do(QueryArrived("client", received(any_query(number, draw)), ANYONE), now)
            for iad, task in rig.tasks[-2:]:
                assert received(task) == task, "the other master takes it"
                if draw.random() < 0.7:
                    result = m.TaskResult(task.id, "complete", draw.choice(ANY_MS))
                    now += draw.choice(STEPS_S)
                    rig.do(TaskReturned(iad, result), now)
            rig.do(Tick(), now)
        rig.do(Tick(), now + MAX_TIMEOUT_MS / 1e3)
        assert rig.scheduler.open_queries == 0
        assert len(rig.answers) == ROUNDS
