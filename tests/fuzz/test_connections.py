"""Hostile connections to every socket: no process ends, none grows, and honest parties are served.
300 to each of two fleets here, five times as many in `make test-long`, as many as wanted in `make
fuzz`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fleet.testbed.ports import free_address
from tests.fuzz.attacks import COMMAND, CURVE, Attacks, command, frame
from tests.fuzz.campaign import Finding
from tests.fuzz.connections import TURN, Door, run
from tests.fuzz.fleets import FLEETS
from tests.net.raw_zmtp import GREETING, READY

SERIES = ["ci", *(pytest.param(f"ci {n}", marks=pytest.mark.long) for n in range(1, 5))]
SHAKEN = GREETING + READY


@pytest.mark.parametrize("seed", SERIES)
@pytest.mark.parametrize("kind", FLEETS)
def test_no_connection_ends_anything_and_honest_parties_are_served(tmp_path, kind, seed):
    with kind(tmp_path) as fleet:
        report = run(fleet, 300, seed)
        assert report.made == 300
        assert report.answered >= 2 * len(fleet.links)
        assert {*report.grown} == {*fleet.pids()}


# A queue that may be full, as that of a public socket was: libzmq issue 4364.
FULL = """
import sys, time, zmq
with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
    router.setsockopt(zmq.RCVHWM, 6)
    router.bind(sys.argv[1])
    print("ready", flush=True)
    while True:
        time.sleep(0.001)
        for _ in range(6):
            if router.poll(0):
                router.recv_multipart()
"""


class Full:
    def __init__(self, process, address):
        self.links = ()
        self.doors = (Door("full", address, (b"hi",)),)
        self._process = process

    def pids(self):
        if (status := self._process.poll()) is not None:
            raise AssertionError(f"it ended with {status}")
        return {"full": self._process.pid}

    def serves(self):
        pass


def test_a_process_that_ends_is_found_and_told_with_the_bytes():
    address = free_address()
    with subprocess.Popen(
        [sys.executable, "-c", FULL, address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        try:
            with pytest.raises(Finding, match=r"of seed 'x'.* it ended with -6") as found:
                run(Full(process, address), 1_000 * TURN, "x")
        finally:
            process.kill()
        assert "Assertion failed: !_io_error" in process.stderr.read()
    *pieces, end = str(found.value).splitlines()[1:]
    assert end in ("reset", "close", "stay")
    assert all(bytes.fromhex(piece.partition(" ")[0]) is not None for piece in pieces)


@pytest.mark.parametrize("keyed", [False, True])
def test_the_same_seed_gives_the_same_attacks_and_many_of_them_pass_the_handshake(keyed):
    first, again = (Attacks("s", [b"hi"], keyed=keyed) for _ in range(2))
    attacks = [first.next() for _ in range(2_000)]
    assert attacks == [again.next() for _ in range(2_000)]
    sent = [b"".join(each.pieces) for each in attacks]
    assert len({*sent}) > 1_000
    shaken = [data[len(SHAKEN) :] for data in sent if data.startswith(SHAKEN)]
    assert (len(shaken) > 600) == (not keyed)
    assert (sum(data.startswith(CURVE) for data in sent) > 1_000) == keyed
    cut = sum(each.end == "reset" and not each.pieces[-1] for each in attacks)
    assert cut > 300
    # What libzmq's own never send.
    assert keyed or sum(bytes([COMMAND]) + b"\x07\x04PING" in data for data in shaken) > 100
    for each in attacks:
        whole = 0
        if each.pieces[0] in (GREETING, CURVE):
            whole = 1 + (each.pieces[1] == READY and not keyed)
        assert each.awaited <= whole


def test_frames_and_commands_say_how_long_they_are():
    assert frame(0, b"abc") == b"\0\3abc"
    assert frame(1, b"a" * 256)[:9] == b"\3" + (256).to_bytes(8, "big")
    assert frame(0, b"abc", 1 << 40)[:9] == b"\2" + (1 << 40).to_bytes(8, "big")
    assert command(b"PING", b"\0\0") == b"\x04\x07\x04PING\0\0"
