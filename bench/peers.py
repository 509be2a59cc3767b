"""Simulated edge nodes for benchmarks: many DEALERs in one process that answer at once.

Run as ``python -m bench.peers ADDRESS COUNT MODE``: `sanderling` says hello and answers subtasks,
`echo` returns every payload. Each peer gets one message per round, in order.
"""

from __future__ import annotations

import sys

import zmq

from agent.wire.codec import Decoder, encode
from agent.wire.messages import Aggregate, ChannelAggregate
from agent.wire.node_messages import Hello, MasterMessage, Subtask, SubtaskResult, Welcome

AGGREGATE = Aggregate(
    1_377_298_800_000,
    1_377_302_400_000,
    {
        "temperature": ChannelAggregate(3_600, 22.5, 23.25, 24.0),
        "humidity": ChannelAggregate(3_600, 48.0, 50.5, 52.0),
    },
)


def result_frame(subtask_id: int) -> bytes:
    """A node's result: an hour of two channels, aggregated."""
    return encode(SubtaskResult(subtask_id, "ok", 0.05, 0.25, aggregate=AGGREGATE))


def main() -> None:
    """Run the command."""
    address, count, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, count + 16)
    peers = [context.socket(zmq.DEALER) for _ in range(count)]
    decoder = Decoder(MasterMessage)
    for number, peer in enumerate(peers):
        peer.setsockopt(zmq.LINGER, 0)
        peer.connect(address)
        hello = Hello(
            f"n{number}", "boot", "history", (f"b1/r{number}",), ("temperature",), 1, "bench"
        )
        peer.send(encode(hello) if mode == "sanderling" else b"hello")
    if mode == "sanderling":
        for peer in peers:
            assert isinstance(decoder.decode(peer.recv())[0], Welcome)
    print("ready", flush=True)
    while True:
        for peer in peers:
            frame = peer.recv()
            if mode == "sanderling":
                subtask, _ = decoder.decode(frame)
                assert isinstance(subtask, Subtask), subtask
                frame = result_frame(subtask.id)
            peer.send(frame)


if __name__ == "__main__":
    main()
