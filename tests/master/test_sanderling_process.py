"""A real master whose policy changes under a hostile load: it answers all of it, and stays."""

import random

import msgspec
import pytest
import zmq

from agent.client import Operator
from agent.wire import messages as m
from agent.wire import unions as u
from agent.wire.base import MAX_TIMEOUT_MS, MAX_WINDOW_S
from agent.wire.codec import MESSAGEPACK, Decoder, encode
from agent.wire.records import SubtaskRecord, decode_record
from tests.master.rig import PATIENCE_MS

POLICIES = ("sanderling", "edfq", "sanderling", "tedfq", "spr", "fifo")
WINDOWS = (
    m.Window(last_s=5e-324),
    m.Window(last_s=60.0),
    m.Window(last_s=MAX_WINDOW_S),
    m.Window(start_ms=0, end_ms=2**53 - 1),
)
ADVANCES_MS = (0.0, 5e-324, 100.0, 1e300, -1e300)
PERCENTILES = (5e-324, 50.0, 99.0, 99.99999999999999)
BUDGETS_MS = (0.0, 5e-324, 20.0, 500.0, MAX_TIMEOUT_MS)
TIMEOUTS_MS = (0.0, 5.0, 300.0)
ROUNDS = 80
A_ROUND = 10


@pytest.fixture
def asker(master, context):
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(master.public)
    return socket


def hostile_task(number, draw):
    return m.Task(
        id=f"t{number}",
        areas=("b1/f4",),
        window=draw.choice(WINDOWS),
        percentile=draw.choice(PERCENTILES),
        budget_ms=draw.choice(BUDGETS_MS),
        timeout_ms=draw.choice(TIMEOUTS_MS),
        form="aggregate",
        advance_ms=draw.choice(ADVANCES_MS),
    )


def test_extreme_tasks_while_policies_change_and_links_break(master, join, asker):
    draw = random.Random(1)
    nodes = {name: join(master, name, (f"b1/f4/{name}",)) for name in ("n1", "n2")}
    with Operator(master.operator) as operator:
        for number in range(ROUNDS * A_ROUND):
            asker.send(encode(hostile_task(number, draw), MESSAGEPACK))
            if draw.random() < 0.05:
                asker.send(encode(m.CancelTask(f"t{draw.randrange(number + 1)}"), MESSAGEPACK))
            if number % A_ROUND:
                continue
            operator.set_policy(POLICIES[number // A_ROUND % len(POLICIES)], PATIENCE_MS)
            name = draw.choice(sorted(nodes))
            if draw.random() < 0.2:
                nodes[name].socket.close()
                nodes[name] = join(master, name, (f"b1/f4/{name}",))
            elif nodes[name].socket.poll(0):
                nodes[name].answer_all()
    master.wait_until(lambda status: status.open_tasks == 0)
    status = master.status()
    assert master.process.poll() is None
    assert status.counters["tasks"] == ROUNDS * A_ROUND
    assert status.counters["subtasks_demoted"] > 0
    decoder = Decoder(u.PublicReply)
    ended = set()
    while len(ended) < ROUNDS * A_ROUND - status.counters["cancelled"]:
        assert asker.poll(PATIENCE_MS)
        result, _ = decoder.decode(asker.recv())
        assert isinstance(result, m.TaskResult)
        assert result.id not in ended
        ended.add(result.id)
    assert master.stop() == (0, "")
    lines = (master.folder / "records/current.jsonl").read_bytes().splitlines()
    records = [decode_record(line) for line in lines]
    assert any(isinstance(r, SubtaskRecord) and r.demoted for r in records)


@pytest.mark.parametrize("advance_ms", [float("nan"), float("inf"), 1e301, "1", True, None])
def test_an_advance_that_is_no_number_is_malformed(asker, advance_ms):
    good = hostile_task(0, random.Random(1))
    asker.send(encode(msgspec.structs.replace(good, advance_ms=advance_ms), MESSAGEPACK))
    assert asker.poll(PATIENCE_MS)
    reply, _ = Decoder(u.PublicReply).decode(asker.recv())
    assert (reply.status, reply.reason) == ("refused", "malformed")
    assert "advance_ms" in reply.message
