"""The real master process: sockets, answers, records, and how it starts and stops."""

import json
import resource
import signal
import subprocess

import psutil
import pytest
import zmq
from msgspec.structs import replace

from agent.client import Client
from agent.net.router import HARD_LIMIT_BYTES
from agent.scheduling.tasks.node_membership import LOST, MAX_DISPATCHES
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.codec import Decoder, encode
from agent.wire.packed import Int64Column
from agent.wire.records import QueryRecord, SubtaskRecord, TaskRecord, decode_record
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_S
from tests.master.rig import COMMAND, PATIENCE_MS

BY_HAND = (
    b'10J{"type":"query","id":"mine","areas":["b1/f4"],"form":"aggregate",'
    b'"window":{"last_s":60},"slo":{"percentile":99,"latency_ms":10000}}'
)


def ask(client, *areas, **fields):
    fields = {"slo": m.Slo(99.0, 10_000.0), "form": "aggregate"} | fields
    client.send(m.Query("q", areas, m.Window(last_s=60), **fields))


def test_a_query_written_by_hand_in_json_over_req(master, join, context):
    node = join(master)
    socket = context.socket(zmq.REQ)
    socket.connect(master.public)
    socket.send(BY_HAND)
    subtask = node.serve(value=21.5)
    assert subtask.window == m.Window(last_s=60)
    assert socket.poll(PATIENCE_MS)
    frame = socket.recv()
    assert frame[:3] == b"10J"
    answer = json.loads(frame[3:])
    assert answer["id"] == "mine"
    assert answer["status"] == "complete"
    assert answer["results"] == [
        {
            "area": "b1/f4/r1",
            "aggregate": {
                "first_ms": 0,
                "last_ms": 1,
                "channels": {"temperature": {"count": 1, "min": 21.5, "mean": 21.5, "max": 21.5}},
            },
            "held_from_ms": 0,  # a millisecond of the minute
        }
    ]


def test_a_node_that_sends_what_cuts_its_connection_is_not_asked_for_ever(master, join):
    """One of an earlier version: the frame is above what the socket takes."""
    node = join(master)
    with Client(master.public) as client:
        ask(client, "b1", form="series", timeout_ms=60_000.0)
        for _ in range(MAX_DISPATCHES):
            subtask = node.receive()
            assert isinstance(subtask, nm.Subtask)
            series = m.Series(Int64Column(bytes(HARD_LIMIT_BYTES)), {})
            node.send(nm.SubtaskResult(subtask.id, "ok", 0.0, 0.0, series))
            # It leaves when the socket has connected again.
            node.send(node.hello)
            assert isinstance(node.receive(), nm.Welcome)
        answer = client.receive(PATIENCE_MS)
        [gap] = answer.missing
        assert (answer.status, gap.reason, gap.message) == ("partial", "node_error", LOST)
        ask(client, "b1")
        node.serve()
        assert client.receive(PATIENCE_MS).status == "complete"


def test_what_happened_is_in_the_records(master, join):
    node = join(master)
    with Client(master.public) as client:
        ask(client, "b1", label="1.1")
        subtask = node.serve()
        answer = client.receive(PATIENCE_MS)
    assert answer.status == "complete"
    assert master.stop() == (0, "")
    lines = (master.folder / "records/current.jsonl").read_bytes().splitlines()
    records = {type(r): r for r in map(decode_record, lines)}
    assert set(records) == {QueryRecord, TaskRecord, SubtaskRecord}
    query, task = records[QueryRecord], records[TaskRecord]
    assert (query.label, query.status, query.answered) == ("1.1", "complete", 1)
    assert query.tasks == (task.task,)
    assert query.aggregated_ms == pytest.approx(answer.elapsed_ms)
    sub = records[SubtaskRecord]
    assert (sub.node, sub.task, sub.window_s) == ("n1", task.task, subtask.window.length_s)
    assert 0 <= sub.enqueued_ms <= sub.dispatched_ms < sub.result_ms <= task.aggregated_ms
    assert task.aggregated_ms <= query.aggregated_ms


def test_tasks_cross_to_the_other_iads_master(start_master, join):
    addresses = {"iad1": free_address(), "iad2": free_address()}
    areas = {"iad1": ["b1/f4"], "iad2": ["b1/f5"]}
    first = start_master("iad1", areas, **addresses)
    second = start_master("iad2", areas, **addresses)
    nodes = [join(first), join(second, "n1", ("b1/f5/r9",))]
    first.wait_until(lambda status: not status.unreachable_iads)
    with Client(first.public) as client:
        ask(client, "b1")
        for node in nodes:
            node.serve()
        answer = client.receive(PATIENCE_MS)
        assert [r.area for r in answer.results] == ["b1/f4/r1", "b1/f5/r9"]
        assert [t.iad for t in answer.tasks] == ["iad1", "iad2"]
        assert answer.tasks[0].percentile == pytest.approx(100 * 0.99**0.5)

        second.stop(signal.SIGKILL)
        first.wait_until(lambda status: status.unreachable_iads == ("iad2",))
        ask(client, "b1")
        nodes[0].serve()
        answer = client.receive(PATIENCE_MS)
        assert answer.status == "partial"
        silent = "iad2's master did not answer"
        assert answer.missing == (m.Missing("b1/f5", "iad_unreachable", message=silent),)

        second.start()
        first.wait_until(lambda status: not status.unreachable_iads)
        # The node's link came back by itself; the new master does not know it and asks.
        node = nodes[1]
        node.send(nm.Heartbeat(node.hello.incarnation))
        assert isinstance(node.receive(), nm.HelloWanted)
        node.send(node.hello)
        assert isinstance(node.receive(), nm.Welcome)
        ask(client, "b1/f5")
        node.serve()
        assert client.receive(PATIENCE_MS).status == "complete"


def test_a_query_right_after_a_restart_waits_for_the_nodes_of_before(master, join):
    nodes = [join(master), join(master, "n2", ("b1/f4/r2",))]
    master.stop()
    master.start()
    with Client(master.public) as client:
        nodes[0].send(nodes[0].hello)
        assert isinstance(nodes[0].receive(), nm.Welcome)
        ask(client, "b1", timeout_ms=60_000.0)
        master.wait_until(lambda status: status.open_tasks)
        nodes[1].send(nodes[1].hello)
        assert isinstance(nodes[1].receive(), nm.Welcome)
        for node in nodes:
            node.serve()
        answer = client.receive(PATIENCE_MS)
    assert (answer.status, len(answer.results)) == ("complete", 2)


def test_a_second_node_of_a_name_is_refused_and_the_operator_told_once(master, join, context):
    node = join(master)
    copy = context.socket(zmq.DEALER)
    copy.connect(master.nodes)

    def greet():
        copy.send(encode(replace(node.hello, incarnation="boot-copy", history="its own")))
        assert copy.poll(PATIENCE_MS)
        return Decoder(nm.MasterMessage).decode(copy.recv())[0]

    for _ in range(2):
        refused = greet()
        assert isinstance(refused, nm.Rejected)
        assert "another node named n1 is at work here" in refused.message
    with Client(master.public) as client:
        ask(client, "b1")
        node.serve()
        assert client.receive(PATIENCE_MS).status == "complete"
    node.send(nm.Goodbye(node.hello.incarnation))
    master.wait_until(lambda status: status.nodes[0].state == "left")
    assert isinstance(greet(), nm.Welcome)
    code, said = master.stop()
    assert code == 0
    assert said == (
        "sanderling-master iad1: two nodes are named n1: the one at 127.0.0.1 with history "
        "'its own' was refused while the one at 127.0.0.1 with history 'history' is at work; if "
        "one's configuration is a copy, give it another name\n"
    )


def test_the_answer_timeout_makes_the_answer_partial(master, join):
    node = join(master)
    with Client(master.public) as client:
        ask(client, "b1/f4", timeout_ms=50.0)
        subtask = node.receive()
        answer = client.receive(PATIENCE_MS)
    assert answer.missing == (m.Missing("b1/f4/r1", "timeout"),)
    node.send(nm.SubtaskResult(subtask.id, "no_data", 0.0, 0.0))
    status = master.wait_until(lambda s: s.nodes[0].idle_pods == 1)
    assert status.counters["late_results"] == 1


def test_an_operator_changes_the_policy(master, context):
    socket = context.socket(zmq.REQ)
    socket.connect(master.operator)
    socket.send(b'10J{"type":"set_policy","policy":"fifo"}')
    assert socket.poll(PATIENCE_MS)
    assert json.loads(socket.recv()[3:])["policy"] == "fifo"
    socket.send(b'10J{"type":"set_policy","policy":"lifo"}')
    assert socket.poll(PATIENCE_MS)
    assert json.loads(socket.recv()[3:]) == {
        "type": "operator_error",
        "message": "Invalid enum value 'lifo' - at `$.policy`",
    }
    assert master.status().policy == "fifo"


def test_it_ends_when_its_starter_does(master):
    master.process.stdin.close()
    assert master.process.wait(PATIENCE_S) == 0


def test_a_taken_address_and_a_bad_file_are_one_line(master, tmp_path):
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text(master.config.read_text())
    for config, words in (
        (elsewhere, f"cannot listen on {master.public}: Address already in use"),
        (master.config, f"{master.folder / 'state.sqlite'} is in use by another process"),
    ):
        run = subprocess.run(
            [COMMAND, "--config", config], capture_output=True, text=True, check=False
        )
        assert run.returncode == 1
        assert run.stderr.startswith(f"error: {words}")
        assert run.stderr.count("\n") == 1
    master.config.write_text(master.config.read_text().replace("[iad]", "[aid]"))
    run = subprocess.run(
        [COMMAND, "--config", master.config, "--check"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "unknown key aid; did you mean iad?" in run.stderr
    assert run.stderr.count("\n") == 1


def test_check_says_that_a_good_file_is_good(master):
    run = subprocess.run(
        [COMMAND, "--config", master.config, "--check"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, f"{master.config}: ok\n")


def test_a_damaged_latency_model_is_one_line(master):
    master.config.write_text(master.config.read_text() + '\n[placement]\nmodel = "model.json"\n')
    (master.folder / "model.json").write_bytes(b"{")
    for options in (["--check"], []):
        run = subprocess.run(
            [COMMAND, "--config", master.config, *options],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 2
        assert f"placement.model: {master.folder / 'model.json'}: not a latency model" in run.stderr
        assert run.stderr.count("\n") == 1


def test_it_takes_all_files_that_the_system_lets_it_have(start_master):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1_024, hard), hard))
    try:
        master = start_master()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert psutil.Process(master.process.pid).rlimit(psutil.RLIMIT_NOFILE) == (hard, hard)


def test_it_says_where_it_listens_and_who_it_is(start_master):
    master = start_master("iad1", {"iad1": ["b1"]})
    assert master.process.stderr.readline() == (
        f"sanderling-master iad1: listening on {master.public} (public), {master.nodes} (nodes), "
        f"{master.operator} (operator)\n"
    )


def test_ctrl_c_ends_it_with_a_line(start_master):
    master = start_master()
    assert "listening" in master.process.stderr.readline()
    master.process.send_signal(signal.SIGINT)
    assert master.process.wait(PATIENCE_S) == 0
    assert master.process.stderr.readlines()[-1] == "sanderling-master iad1: stopped\n"
