"""Simulated edge nodes in one process: ``python -m bench.hostile_nodes ADDRESS COUNT``.

Each covers one room of b1 and answers at once; three hours of series are 170 KB, as a node's are.
"""

from __future__ import annotations

import sys

import zmq

from agent.wire.codec import Decoder, encode
from agent.wire.messages import Series
from agent.wire.node_messages import Hello, MasterMessage, Subtask, SubtaskResult, Welcome
from agent.wire.packed import Float32Column, Int64Column


def series(count: int) -> Series:
    """A series of one channel with this many readings, a second apart."""
    times = [1_377_298_800_000 + 1_000 * n for n in range(count)]
    return Series(Int64Column.of(times), {"temperature": Float32Column.of([21.5] * count)})


SHORT, LONG = series(60), series(10_800)


def main() -> None:
    """Run the command."""
    address, count = sys.argv[1], int(sys.argv[2])
    context = zmq.Context()
    poller = zmq.Poller()
    decoder = Decoder(MasterMessage)
    for number in range(count):
        peer = context.socket(zmq.DEALER)
        peer.setsockopt(zmq.LINGER, 0)
        peer.connect(address)
        hello = Hello(
            f"n{number}", "boot", "history", (f"b1/r{number}",), ("temperature",), 1, "bench"
        )
        peer.send(encode(hello))
        assert isinstance(decoder.decode(peer.recv())[0], Welcome)
        poller.register(peer, zmq.POLLIN)
    print("ready", flush=True)
    while True:
        for peer, _ in poller.poll():
            message, _ = decoder.decode(peer.recv())
            if isinstance(message, Subtask):
                window = message.window
                long_s = window.last_s or 10_800.0
                found = LONG if long_s > 3_600.0 else SHORT
                peer.send(encode(SubtaskResult(message.id, "ok", 0.05, 0.25, series=found)))


if __name__ == "__main__":
    main()
