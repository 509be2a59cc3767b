"""What a hostile sender asks is refused before it costs much, and others are served."""

import contextlib
import socket
from pathlib import Path

import pytest
import zmq

from agent.client import Client
from agent.wire import messages as m
from agent.wire.codec import Decoder, encode
from agent.wire.operator import OperatorError
from agent.wire.unions import OperatorReply, PublicReply
from agent.wire.watches import Watch, Watching
from tests.master.rig import COMMAND, PATIENCE_MS, MasterProcess


def ask(dealer, frame, union=PublicReply):
    dealer.send(frame)
    assert dealer.poll(PATIENCE_MS)
    return Decoder(union).decode(dealer.recv())[0]


def test_json_with_very_many_areas_is_refused_in_words(master, context):
    with context.socket(zmq.DEALER) as dealer:
        dealer.connect(master.public)
        areas = b",".join([b'"b1"'] * 150_000)
        answer = ask(dealer, b'10J{"type":"query","id":"many","areas":[' + areas + b"]}")
        assert (answer.id, answer.status, answer.reason) == ("many", "refused", "malformed")
        assert "more than 4096 elements" in answer.message


def test_operators_requests_are_bounded_like_those_of_clients(master, context):
    with context.socket(zmq.DEALER) as dealer:
        dealer.connect(master.operator)
        areas = b",".join([b'"b1"'] * 150_000)
        frame = b'10J{"type":"create_service","id":"many","areas":[' + areas + b"]}"
        reply = ask(dealer, frame, OperatorReply)
        assert isinstance(reply, OperatorError)
        assert "more than 4096 elements" in reply.message
    with context.socket(zmq.DEALER) as huge:
        huge.linger = 0
        monitor = huge.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        huge.connect(master.operator)
        huge.send(b"10J" + b" " * (2 << 20))
        assert monitor.poll(PATIENCE_MS), "the master did not close the link"
        huge.disable_monitor()
        monitor.close(0)
    assert master.status().iad


def test_watches_that_read_everything_all_the_time_are_refused_in_words(master, context):
    with context.socket(zmq.DEALER) as dealer:
        dealer.connect(master.public)
        slo = m.Slo(99.0, 500.0)
        watch = Watch("w", ("b1",), slo, "periodic", 0.05, window_s=10_800.0)
        reply = ask(dealer, encode(watch))
        assert isinstance(reply, Watching)
        assert reply.state == "refused"
        assert "ask for a longer interval, a shorter window, or aggregates" in reply.message


class Limited(MasterProcess):
    """A master that may have few files."""

    command = ("prlimit", "--nofile=256:256", COMMAND)


@pytest.mark.parametrize("flooded", [["public"], ["nodes"], ["public", "nodes"]])
def test_connections_beyond_the_limit_of_files_leave_some_for_records(tmp_path, flooded):
    master = Limited(tmp_path / "iad1", "iad1", {"iad1": ["b1"]})
    try:
        with contextlib.ExitStack() as stack:
            for number in range(400):
                address = getattr(master, flooded[number % len(flooded)])
                host, port = address.removeprefix("tcp://").split(":")
                with contextlib.suppress(ConnectionResetError):
                    stack.enter_context(socket.create_connection((host, int(port)), 20.0))
            # Connections are accepted before those beyond the limit are closed.
            files = Path(f"/proc/{master.process.pid}/fd")
            status = master.wait_until(lambda s: len(list(files.iterdir())) < 250)
            assert status.counters["records_lost"] == 0
        with Client(master.public) as client:
            answer = client.query(["b9"], last_s=1.0, latency_ms=10_000.0)
            assert answer.status == "partial"
    finally:
        code, said = master.stop()
    assert code == 0
    assert "more than 128 connections: closed some of 127.0.0.1" in said
    assert "records" in {each.name for each in master.folder.iterdir()}
